//! Listings of which no reader sees a line; the build script looks for them in the expanded pages.

/// The numbers, from 1, of the Rust listings that a reader does not see: mdBook makes nothing else of a misspelt
/// anchor, and skeptic runs such a listing happily.
pub fn listings(page: &str) -> Vec<usize> {
    let mut hidden = Vec::new();
    let mut number = 0;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("```rust") {
            continue;
        }
        number += 1;
        let shows = lines
            .by_ref()
            .take_while(|line| line.trim() != "```")
            .filter(|line| *line != "#" && !line.starts_with("# ") && !line.is_empty())
            .count();
        if shows == 0 {
            hidden.push(number);
        }
    }
    hidden
}
