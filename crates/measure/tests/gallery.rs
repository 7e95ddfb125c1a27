//! The gallery of the book is what the records say.

use std::fs;
use std::path::Path;

use measure::gallery;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `MEASURE_GALLERY=write cargo test -p measure --test gallery` writes it anew.
#[test]
fn the_page_and_its_plots_are_current() {
    let write = std::env::var_os("MEASURE_GALLERY").is_some();
    for file in gallery::files(&root()).unwrap() {
        let path = root().join(&file.path);
        if write {
            fs::write(&path, &file.content).unwrap();
        }
        let now = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            now == file.content,
            "{} is stale: MEASURE_GALLERY=write cargo test -p measure --test gallery",
            file.path
        );
    }
}

#[test]
fn a_file_that_is_no_record_is_not_shown() {
    let planted = tempfile::tempdir().unwrap();
    fs::create_dir(planted.path().join("results")).unwrap();
    fs::write(planted.path().join("results/a.json"), "{}").unwrap();
    let error = gallery::files(planted.path()).unwrap_err();
    assert!(
        format!("{error:#}").contains("a.json is no record"),
        "{error:#}"
    );
}
