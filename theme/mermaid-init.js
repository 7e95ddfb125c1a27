// Draws the diagrams in the colours of the reader's theme, and again when the theme changes.
(() => {
    'use strict';
    const html = document.documentElement;
    const blocks = Array.from(document.querySelectorAll('pre.mermaid'));
    // mermaid replaces the text of a block by its drawing, so the text is kept for the next one.
    const sources = blocks.map((block) => block.textContent);

    const isDark = () => ['ayu', 'coal', 'navy'].some((theme) => html.classList.contains(theme));

    function settings() {
        // Wide diagrams keep their size and scroll, since text scaled to a phone is unreadable.
        const natural = { useMaxWidth: false };
        return {
            startOnLoad: false,
            securityLevel: 'strict',
            suppressErrorRendering: true,
            theme: isDark() ? 'dark' : 'default',
            fontFamily: 'inherit',
            flowchart: natural,
            gantt: { useMaxWidth: true },
            sequence: { ...natural, mirrorActors: false },
        };
    }

    async function drawOnce() {
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
