// Draws the diagrams in the colours of the reader's theme, and again when the theme changes.
(() => {
    'use strict';
    const html = document.documentElement;
    const blocks = Array.from(document.querySelectorAll('pre.mermaid'));
    // mermaid replaces the text of a block by its drawing, so the text is kept for the next one.
    const sources = blocks.map((block) => block.textContent);

    const isDark = () => ['ayu', 'coal', 'navy'].some((theme) => html.classList.contains(theme));

    const lightColours = {
        background: '#ffffff',
        primaryColor: '#e6eefb', primaryTextColor: '#1b1f24', primaryBorderColor: '#5d84c2',
        lineColor: '#3f4a5a', textColor: '#1b1f24',
        actorLineColor: '#9aa7b8', signalColor: '#3f4a5a', signalTextColor: '#1b1f24',
        noteBkgColor: '#fff6d6', noteTextColor: '#1b1f24', noteBorderColor: '#bfa645',
    };
    const darkColours = {
        darkMode: true,
        background: '#161923',
        primaryColor: '#25304a', primaryTextColor: '#e6e9f0', primaryBorderColor: '#7f9bd1',
        lineColor: '#c4ccdb', textColor: '#e6e9f0',
        actorLineColor: '#5f6b80', signalColor: '#c4ccdb', signalTextColor: '#e6e9f0',
        noteBkgColor: '#3a3620', noteTextColor: '#f4edcf', noteBorderColor: '#a8975a',
    };

    function settings() {
        return {
            startOnLoad: false,
            securityLevel: 'strict',
            suppressErrorRendering: true,
            theme: 'base',
            themeVariables: isDark() ? darkColours : lightColours,
            // The book's own font, by name: mermaid measures text outside of the page's styles.
            fontFamily: '"Open Sans", sans-serif',
            fontSize: 14,
            // Wide diagrams keep their size and scroll: text scaled to a phone is unreadable.
            flowchart: { useMaxWidth: false },
            sequence: {
                useMaxWidth: false,
                mirrorActors: false,
                width: 120, height: 36,
                boxMargin: 6, messageMargin: 22, noteMargin: 6, diagramMarginX: 8,
            },
        };
    }

    async function drawOnce() {
        // Text measured in a font that is still loading would not fit its box.
        await document.fonts.ready;
        blocks.forEach((block, index) => {
            block.removeAttribute('data-processed');
            block.textContent = sources[index];
        });
        mermaid.initialize(settings());
        try {
            await mermaid.run({ nodes: blocks });
        } finally {
            // What cannot be drawn is still readable as text.
            blocks.forEach((block) => {
                block.classList.toggle('not-drawn', block.querySelector('svg') === null);
            });
        }
    }

    // One drawing at a time: a theme chosen while mermaid draws is drawn next.
    let drawing = Promise.resolve();
    function draw() {
        drawing = drawing.catch(() => {}).then(drawOnce);
    }

    // At once, or mermaid draws by itself when the page has loaded, with its own settings.
    mermaid.initialize({ startOnLoad: false });
    if (blocks.length === 0) {
        return;
    }
    let dark = isDark();
    new MutationObserver(() => {
        if (dark !== isDark()) {
            dark = isDark();
            draw();
        }
    }).observe(html, { attributeFilter: ['class'] });
    draw();
})();
