//! The figures of the book are what their numbers make them; and for each check, that it can say no.

use std::fs;

use tempfile::TempDir;
use xtask::figures;
use xtask::files::File;

/// A repository with these numbers and no figures.
fn repository(numbers: &str) -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("figures")).unwrap();
    fs::write(root.path().join(figures::NUMBERS), numbers).unwrap();
    root
}

fn numbers() -> String {
    fs::read_to_string(proofs::root().join(figures::NUMBERS)).unwrap()
}

/// The figures below the repository that are not what `drawn` says.
fn stale(drawn: &[File]) -> Vec<&str> {
    let root = proofs::root();
    drawn
        .iter()
        .filter(|file| file.now(&root).unwrap() != file.content)
        .map(|file| &*file.path)
        .collect()
}

#[test]
fn the_figures_show_their_numbers() {
    let drawn = figures::all(&proofs::root()).unwrap();
    assert_eq!(stale(&drawn), [""; 0], "`cargo xtask figures` draws again");
}

#[test]
fn a_number_that_has_changed_makes_its_figures_stale() {
    let changed = numbers().replacen("[297, 298]", "[297, 299]", 1);
    assert_ne!(changed, numbers());
    let root = repository(&changed);
    assert_eq!(
        stale(&figures::all(root.path()).unwrap()),
        [
            "src/figures/links.svg",
            "src/figures/page-bound.svg",
            "figures/links.md"
        ]
    );
}

#[test]
fn a_number_without_its_source_is_an_error() {
    let root = repository(&numbers().replacen("\"source\": \"titan\"", "\"source\": \"x\"", 1));
    let error = figures::all(root.path()).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "in figures/links.json: \"GB200, bound to the GPU's node\" names the source \"x\", which is not among `sources`"
    );
}

#[test]
fn every_figure_has_its_text_and_its_page() {
    let pages = proofs::checks::book::pages(&proofs::root()).unwrap();
    for file in figures::all(&proofs::root()).unwrap() {
        let name = file.path.trim_start_matches("src/");
        let include = format!("{name}}}}}");
        let shown = pages.iter().any(|page| page.text.contains(&include));
        assert!(shown, "{}: no page includes it", file.path);
        if file.path.ends_with(".svg") {
            let drawn = file.content.unwrap();
            assert!(drawn.contains("<title id=") && drawn.contains("<desc id="));
        }
    }
}
