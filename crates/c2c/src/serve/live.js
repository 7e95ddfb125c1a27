// Reloads the page after a build and shows what the last build complained about.
// Added to pages by `c2c serve` only; a built site does not contain it.
(() => {
    'use strict';
    const generation = document.currentScript.dataset.generation;
    const banner = document.createElement('div');
    banner.id = 'c2c-problems';
    banner.setAttribute('role', 'alert');
    // A shadow root keeps the book's style sheets out of the banner and the banner's out of the book.
    const root = banner.attachShadow({ mode: 'open' });
    const style = document.createElement('style');
    style.textContent = `
        :host { position: fixed; inset: auto 0 0 0; z-index: 10000; }
        section { background: #7a1220; color: #fff; max-height: 50vh; overflow: auto;
                  padding: 0.75rem 1rem; font: 14px/1.5 system-ui, sans-serif; }
        strong { display: block; }
        pre { margin: 0.25rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.5 monospace; }
    `;

    function show(problems) {
        const section = document.createElement('section');
        const title = document.createElement('strong');
        title.textContent = '⚠ The latest sources have problems and are not shown yet:';
        const list = document.createElement('pre');
        list.textContent = problems.join('\n');
        section.append(title, list);
        root.replaceChildren(style, section);
        document.body.append(banner);
    }

    const events = new EventSource('/.c2c/events');
    events.onmessage = (event) => {
        const site = JSON.parse(event.data);
        if (site.generation !== generation) {
            events.close();
            location.reload();
        } else if (site.problems.length > 0) {
            show(site.problems);
        } else {
            banner.remove();
        }
    };
    // Frees the connection at once: browsers allow only a few to one host.
    addEventListener('pagehide', () => events.close());
    // A page kept by the browser for its back button has missed what happened since.
    addEventListener('pageshow', (event) => {
        if (event.persisted) location.reload();
    });
})();
