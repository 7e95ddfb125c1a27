//! The plots of measured results, as Chromium draws them for a light and for a dark page.

use std::fs;
use std::path::Path;

use c2c::serve::Server;
use c2c::Book;
use serde_json::Value;

use super::browser::{waive_without_chromium, Browser, Look};
use super::{assert_none, repository, tiny_book};

/// The least contrast of text that WCAG 2 asks for at level AA.
const CONTRAST: f64 = 4.5;

/// Title, background, the least contrast of a text, and how many texts leave the picture.
const LOOK_AT: &str = "(() => {
    const numbers = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
    const light = (colour) => numbers(colour)
        .map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const contrast = (one, other) => {
        const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    };
    const fill = (element) => getComputedStyle(element).fill;
    const background = fill(document.querySelector('rect'));
    const texts = [...document.querySelectorAll('text')];
    const picture = document.documentElement.getBoundingClientRect();
    const leaves = (text) => {
        const box = text.getBoundingClientRect();
        return box.left < picture.left - 1 || box.right > picture.right + 1
            || box.top < picture.top - 1 || box.bottom > picture.bottom + 1;
    };
    return {
        title: document.querySelector('title')?.textContent ?? '',
        description: document.querySelector('desc')?.textContent ?? '',
        background,
        texts: texts.length,
        contrast: Math.min(...texts.map((text) => contrast(fill(text), background))),
        outside: texts.filter(leaves).map((text) => text.textContent.trim()),
    };
})()";

/// What is wrong with the plot at `url`, in both schemes.
fn complaints(browser: &mut Browser, url: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut backgrounds = Vec::new();
    for look in [Look::Light, Look::Dark] {
        browser.open(url, look);
        let seen = browser.evaluate(LOOK_AT);
        let empty = |key: &str| seen[key].as_str().is_none_or(str::is_empty);
        if empty("title") || empty("description") {
            found.push(format!("{look:?}: no text for those who cannot see it"));
        }
        if seen["contrast"]
            .as_f64()
            .is_none_or(|contrast| contrast < CONTRAST)
        {
            found.push(format!("{look:?}: a text is hard to read: {seen}"));
        }
        if seen["texts"].as_u64() < Some(5) || seen["outside"] != Value::Array(Vec::new()) {
            found.push(format!("{look:?}: texts are missing or cut off: {seen}"));
        }
        backgrounds.push(seen["background"].clone());
    }
    if backgrounds[0] == backgrounds[1] {
        found.push("a dark page gets the plot of a light one".to_owned());
    }
    found
}

/// The plots of the gallery.
fn plots() -> Vec<String> {
    let entries = fs::read_dir(repository().join("src/measure")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".svg")).collect()
}

/// A server of a small book that holds `svg` as one of its images.
fn served(svg: &str, folder: &Path) -> Server {
    fs::write(folder.join("src/plot.svg"), svg).unwrap();
    Server::start(&Book::open(folder).unwrap(), 0).unwrap()
}

#[test]
fn every_plot_is_readable_in_light_and_dark() {
    let Some(mut browser) = Browser::launch() else {
        return waive_without_chromium();
    };
    let plots = plots();
    assert!(plots.len() >= 2, "{plots:?}");
    for name in plots {
        let svg = fs::read_to_string(repository().join("src/measure").join(&name)).unwrap();
        let folder = tiny_book();
        let server = served(&svg, folder.path());
        let found = complaints(&mut browser, &format!("{}plot.svg", server.url()));
        assert_none(&found);
    }
}

#[test]
fn a_plot_without_a_dark_form_or_a_title_is_found() {
    let Some(mut browser) = Browser::launch() else {
        return waive_without_chromium();
    };
    let name = plots().remove(0);
    let svg = fs::read_to_string(repository().join("src/measure").join(name)).unwrap();
    let bare = svg
        .replace("prefers-color-scheme: dark", "prefers-color-scheme: none")
        .replace("<title>", "<metadata>")
        .replace("</title>", "</metadata>");
    let folder = tiny_book();
    let server = served(&bare, folder.path());
    let found = complaints(&mut browser, &format!("{}plot.svg", server.url()));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("Light: no text for those who cannot see it"));
    assert_eq!(found[2], "a dark page gets the plot of a light one");
}
