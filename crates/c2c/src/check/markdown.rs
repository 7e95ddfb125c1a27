//! Markdown as mdBook reads it, with line numbers.

use mdbook_markdown::pulldown_cmark::Event;
use mdbook_markdown::{new_cmark_parser, MarkdownOptions};
use std::ops::Range;

/// The events of `text`, each with the bytes of `text` it comes from.
pub(crate) fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    new_cmark_parser(text, &MarkdownOptions::default()).into_offset_iter()
}

/// The line of byte `offset` in `text`, counted from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1
}

/// The first word of a code fence's info string: `rust` of `rust,ignore`.
pub(crate) fn fence_tag(info: &str) -> &str {
    info.split([',', ' ', '\t']).next().unwrap_or_default()
}
