//! Every link, fragment and image leads somewhere on the rendered site.

use super::includes::without_dots;
use super::markdown::{events, line_of};
use super::nearest::did_you_mean;
use super::sources::{Page, Sources};
use super::Problem;
use crate::html::{read_page, references, Reference};
use anyhow::{Context, Result};
use mdbook_markdown::pulldown_cmark::{Event, LinkType, Tag};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Links to unknown chapters, files and fragments, and missing images.
///
/// # Errors
/// When a rendered page cannot be read.
pub(crate) fn check(sources: &Sources, site: &Path) -> Result<Vec<Problem>> {
    let mut targets = Targets::new(sources, site);
    let mut problems = Vec::new();
    for page in &sources.pages {
        for (line, reference) in page_references(page) {
            let complaint = match &reference {
                Reference::Link(to) => targets.link_complaint(page, to)?,
                Reference::Image(to) => targets.image_complaint(page, to),
            };
            problems.extend(complaint.map(|message| page.problem(line, message)));
        }
    }
    Ok(problems)
}

/// The links and images of a page, in Markdown or in HTML, each with its line.
fn page_references(page: &Page) -> Vec<(usize, Reference)> {
    let mut found = Vec::new();
    for (event, span) in events(&page.text) {
        let line = line_of(&page.text, span.start);
        match event {
            Event::Start(Tag::Link {
                dest_url,
                link_type,
                ..
            }) if link_type != LinkType::Email => {
                found.push((line, Reference::Link(dest_url.into_string())));
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                found.push((line, Reference::Image(dest_url.into_string())));
            }
            // A whole block at once: a tag may go over several lines.
            Event::Start(Tag::HtmlBlock) => {
                let block = references(&page.text[span]);
                found.extend(block.into_iter().map(|reference| (line, reference)));
            }
            Event::InlineHtml(html) => {
                let inline = references(&html);
                found.extend(inline.into_iter().map(|reference| (line, reference)));
            }
            _ => {}
        }
    }
    found
}

/// What can be linked to.
struct Targets<'a> {
    sources: &'a Sources,
    site: &'a Path,
    /// The ids of the pages read so far, by the page's path on the site.
    ids: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl<'a> Targets<'a> {
    fn new(sources: &'a Sources, site: &'a Path) -> Targets<'a> {
        Targets {
            sources,
            site,
            ids: BTreeMap::new(),
        }
    }

    fn image_complaint(&self, page: &Page, to: &str) -> Option<String> {
        if is_external(to) {
            return None;
        }
        let path = without_dots(&page.folder().join(to));
        (!self.site.join(&path).is_file()).then(|| {
            let folder = &self.sources.folder;
            let images = self.sources.others.iter();
            let images = images.filter_map(|file| file.strip_prefix(folder).ok()?.to_str());
            let hint = did_you_mean(&path.to_string_lossy(), images);
            format!("image {to} does not exist{hint}")
        })
    }

    fn link_complaint(&mut self, page: &Page, to: &str) -> Result<Option<String>> {
        if is_external(to) {
            return Ok(None);
        }
        if to.starts_with('/') {
            return Ok(Some(format!(
                "link {to} starts at the root of the host, which is not where the book is served; \
                 write it relative to this page"
            )));
        }
        let (path, fragment) = match to.split_once('#') {
            Some((path, fragment)) => (path, Some(fragment)),
            None => (to, None),
        };
        let target = if path.is_empty() {
            page.html()
        } else {
            let path = without_dots(&page.folder().join(path));
            if path.extension().is_some_and(|extension| extension == "md") {
                path.with_extension("html")
            } else {
                path
            }
        };
        if !self.site.join(&target).is_file() {
            return Ok(Some(self.unknown_target(path, &target)));
        }
        match fragment {
            Some(fragment) => self.fragment_complaint(&target, fragment),
            None => Ok(None),
        }
    }

    fn unknown_target(&self, path: &str, target: &Path) -> String {
        if !path.ends_with(".md") {
            return format!("link to {path}, which is not on the site");
        }
        let wanted = target.with_extension("md");
        let pages = self.sources.pages.iter();
        let pages = pages.filter_map(|page| page.path.to_str());
        let hint = did_you_mean(&wanted.to_string_lossy(), pages);
        format!("link to unknown chapter {}{hint}", wanted.display())
    }

    fn fragment_complaint(&mut self, target: &Path, fragment: &str) -> Result<Option<String>> {
        let ids = match self.ids.get(target) {
            Some(ids) => ids,
            None => {
                let file = self.site.join(target);
                let html = fs::read_to_string(&file)
                    .with_context(|| format!("could not read {}", file.display()))?;
                let ids = read_page(&html).ids;
                self.ids.entry(target.to_path_buf()).or_insert(ids)
            }
        };
        if ids.contains(fragment) {
            return Ok(None);
        }
        let hint = did_you_mean(fragment, ids.iter().map(String::as_str));
        let page = target.with_extension("md");
        let page = page.display();
        Ok(Some(format!(
            "{page} has no heading or id #{fragment}{hint}"
        )))
    }
}

/// Whether `to` leaves the site: it names a scheme or a host.
fn is_external(to: &str) -> bool {
    let scheme = to.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
    });
    scheme || to.starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::is_external;

    #[test]
    fn external_links_name_a_scheme_or_a_host() {
        for external in ["https://x.org", "mailto:a@b", "//x.org/y"] {
            assert!(is_external(external), "{external}");
        }
        for local in ["a.md", "../a.md#b", "#c:d", "a/b:c.md", ""] {
            assert!(!is_external(local), "{local}");
        }
    }
}
