//! Every listing, compiled and run as it stands on a page.
//!
//! The build script writes these tests with skeptic.

include!(concat!(env!("OUT_DIR"), "/listings.rs"));

/// Listings of which a reader sees no line, because the page names an anchor that the file does not have.
const HIDDEN: &[&str] = include!(concat!(env!("OUT_DIR"), "/hidden.rs"));

#[test]
fn every_listing_shows_a_line() {
    assert_eq!(HIDDEN, [""; 0], "see the anchors that these pages include");
}

#[test]
fn the_book_has_listings() {
    assert_ne!(LISTINGS, 0);
}
