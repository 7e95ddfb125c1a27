//! The form of a page: one claim, its rule, its listing, its proof, its sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use mdbook_markdown::pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Tag, TagEnd};
use regex::Regex;
use walkdir::WalkDir;
use xtask::examples;

use super::{pages, Page};

/// The headings of a page that shows a listing, in this order; others may stand between.
const SECTIONS: [&str; 7] = [
    "Problem",
    "Rule",
    "Listing",
    "Output",
    "Proof",
    "In PyTorch",
    "Sources",
];

/// A page of Markdown is no longer than this.
const LINES: usize = 200;

/// Pages of the listing parts that list facts and order nothing: they have a rule and sources, and a form of their own
/// between. A page that has grown all sections is found, so that this list only shrinks.
pub const FACTS: &[&str] = &[];

/// What a page is for, and so which form it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One claim with its listing: the whole template.
    Claim,
    /// Facts in a listing part: a rule and sources.
    Facts,
    /// Tables to look things up in.
    Reference,
    /// The note: all claims on one page, as long as it needs to be.
    Note,
}

fn kind(path: &str, facts: &[&str]) -> Kind {
    match path.split_once('/') {
        Some(("note", _)) => Kind::Note,
        None | Some(("reference" | "clinic" | "measure", _)) => Kind::Reference,
        Some(_) if facts.contains(&path) => Kind::Facts,
        Some(_) => Kind::Claim,
    }
}

/// Every page has the form of its kind; `facts` are the pages that list facts.
///
/// # Errors
/// When a file cannot be read.
pub fn check(root: &Path, facts: &[&str]) -> Result<Vec<String>> {
    let proofs = Proofs::of(root)?;
    let mut found = Vec::new();
    for page in pages(root)? {
        let kind = kind(&page.path, facts);
        let outline = Outline::of(&page);
        let mut complaints = everywhere(&page, &outline, kind);
        match kind {
            Kind::Claim => {
                complaints.extend(opening(&page));
                complaints.extend(cell(&page));
                complaints.extend(sections(&outline, &proofs));
            }
            Kind::Facts => {
                complaints.extend(opening(&page));
                complaints.extend(dated(&outline));
                if missing(&outline).is_empty() {
                    complaints.push("it has every section now; strike it off `FACTS`".to_owned());
                }
            }
            Kind::Reference | Kind::Note => {}
        }
        found.extend(
            complaints
                .into_iter()
                .map(|complaint| format!("{}: {complaint}", page.file())),
        );
    }
    Ok(found)
}

// ---- What holds for every page ----

fn everywhere(page: &Page, outline: &Outline<'_>, kind: Kind) -> Vec<String> {
    let mut found = Vec::new();
    match outline.title_id {
        None => found.push("it has no title".to_owned()),
        Some(false) => found.push("the title has no `{#id}`".to_owned()),
        Some(true) => {}
    }
    let lines = page.text.lines().count();
    if lines > LINES && kind != Kind::Note {
        found.push(format!("{lines} lines; a page has at most {LINES}"));
    }
    found.extend(
        outline.mute_images.iter().map(|line| {
            format!("the image in line {line} has no text for those who cannot see it")
        }),
    );
    found
}

// ---- The box at the top ----

/// The title is followed by a quote with the rule and what it holds for.
fn opening(page: &Page) -> Vec<String> {
    let mut found = Vec::new();
    let quote: Vec<&str> = page
        .text
        .lines()
        .skip_while(|line| !line.starts_with("# "))
        .skip(1)
        .skip_while(|line| line.is_empty())
        .take_while(|line| line.starts_with('>'))
        .map(|line| line.trim_start_matches('>').trim())
        .collect();
    let rule: Vec<&str> = quote
        .iter()
        .copied()
        .take_while(|line| !line.is_empty())
        .collect();
    match rule.join(" ").strip_prefix("**Rule.** ") {
        None => found.push("the title is not followed by `> **Rule.** …`".to_owned()),
        Some(rule) => match sentences(rule) {
            1 => {}
            count => found.push(format!("the rule is {count} sentences; it should be one")),
        },
    }
    if !quote.iter().any(|line| line.starts_with("**Holds for:**")) {
        found.push("`> **Holds for:** …` is missing".to_owned());
    }
    if !quote.iter().any(|line| line.contains("class=\"badge ")) {
        found.push("the box has no badge".to_owned());
    }
    found
}

/// Each page about waiting says which of the four collisions it is about.
fn cell(page: &Page) -> Option<String> {
    let silent = page.path.starts_with("synchronize/") && !page.text.contains("\n> **Cell:** ");
    silent.then(|| "`> **Cell:** …` is missing: which of the four is it about?".to_owned())
}

/// How many sentences end in `text`: a full stop in a number or a name ends none.
fn sentences(text: &str) -> usize {
    static END: LazyLock<Regex> = LazyLock::new(|| regex(r"[.!?][*_)\x22]*(\s|$)"));
    END.find_iter(text).count()
}

// ---- The sections ----

fn sections(outline: &Outline<'_>, proofs: &Proofs) -> Vec<String> {
    let missing = missing(outline);
    if !missing.is_empty() {
        return vec![format!(
            "the sections {} are missing or not in their order",
            missing.join(", ")
        )];
    }
    let mut found = Vec::new();
    let text = |name| outline.section(name).map_or("", |it| it.text);
    if !text("Listing").contains("{{#rustdoc_include ") {
        found.push("Listing includes no program".to_owned());
    }
    if !text("Output").contains("/stdout.txt}}") {
        found.push("Output does not include `stdout.txt`".to_owned());
    }
    if outline.section("Output").is_some_and(|it| it.typed) {
        found.push("Output has typed text; include what was recorded".to_owned());
    }
    found.extend(proofs.complaint(text("Proof")));
    found.extend(dated(outline));
    found
}

/// The sections of the template that the page lacks, or has too early.
fn missing(outline: &Outline<'_>) -> Vec<&'static str> {
    let mut rest = outline.sections.as_slice();
    let mut missing = Vec::new();
    for name in SECTIONS {
        match rest.iter().position(|section| section.name == name) {
            Some(at) => rest = &rest[at + 1..],
            None => missing.push(name),
        }
    }
    missing
}

fn dated(outline: &Outline<'_>) -> Option<String> {
    static DATE: LazyLock<Regex> = LazyLock::new(|| regex(r"\b20\d\d-\d\d\b"));
    let sources = outline.section("Sources");
    let dated = sources.is_some_and(|it| DATE.is_match(it.text));
    (!dated).then(|| "Sources has no entry with a date".to_owned())
}

/// The headings of a page, and what stands under them.
struct Outline<'a> {
    /// Whether the title has an id; `None` without a title.
    title_id: Option<bool>,
    sections: Vec<Section<'a>>,
    /// The lines of images without a text.
    mute_images: Vec<usize>,
}

struct Section<'a> {
    name: String,
    text: &'a str,
    /// Whether a block of text or a diagram in it is not an include.
    typed: bool,
}

impl<'a> Outline<'a> {
    fn of(page: &'a Page) -> Outline<'a> {
        static IMAGE: LazyLock<Regex> = LazyLock::new(|| regex(r"<img\b[^>]*>"));
        static ALT: LazyLock<Regex> = LazyLock::new(|| regex(r#"\balt="[^"]+""#));
        let mut title_id = None;
        let mut heads: Vec<(String, usize, usize)> = Vec::new();
        let mut typed = Vec::new();
        let mut mute_images = Vec::new();
        let mut name: Option<String> = None;
        let mut image: Option<(usize, bool)> = None;
        for (event, span) in page.events() {
            match event {
                Event::Start(Tag::Heading {
                    level: HeadingLevel::H1,
                    id,
                    ..
                }) => title_id = title_id.or(Some(id.is_some())),
                Event::Start(Tag::Heading {
                    level: HeadingLevel::H2,
                    ..
                }) => {
                    name = Some(String::new());
                    heads.push((String::new(), span.start, span.end));
                }
                Event::End(TagEnd::Heading(HeadingLevel::H2)) => {
                    if let (Some(head), Some(name)) = (heads.last_mut(), name.take()) {
                        head.0 = name.trim().to_owned();
                    }
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(tag)))
                    if matches!(&*tag, "text" | "mermaid")
                        && !page.text[span.clone()].contains("{{#include ") =>
                {
                    typed.push(span.start);
                }
                Event::Start(Tag::Image { .. }) => image = Some((span.start, false)),
                Event::End(TagEnd::Image) => {
                    if let Some((at, false)) = image.take() {
                        mute_images.push(page.line(at));
                    }
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(name) = &mut name {
                        name.push_str(&text);
                    }
                    if let Some((_, told)) = &mut image {
                        *told = true;
                    }
                }
                Event::Html(html) | Event::InlineHtml(html) => {
                    let images = IMAGE.find_iter(&html);
                    let mute = images.filter(|it| !ALT.is_match(it.as_str()));
                    mute_images.extend(mute.map(|_| page.line(span.start)));
                }
                _ => {}
            }
        }
        let ends: Vec<usize> = heads
            .iter()
            .skip(1)
            .map(|head| head.1)
            .chain([page.text.len()])
            .collect();
        let sections = heads.into_iter().zip(ends).map(|((name, _, from), to)| {
            let typed = typed.iter().any(|at| (from..to).contains(at));
            Section {
                name,
                text: &page.text[from..to],
                typed,
            }
        });
        Outline {
            title_id,
            sections: sections.collect(),
            mute_images,
        }
    }

    fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }
}

// ---- What a proof can name ----

/// The litmus tests, rules, hazards and tests that exist.
struct Proofs {
    ids: BTreeSet<String>,
    functions: BTreeSet<String>,
    /// What is tested of each listing; such a test is called `<slug>::<property>`.
    properties: BTreeSet<String>,
    slugs: BTreeSet<String>,
}

impl Proofs {
    fn of(root: &Path) -> Result<Proofs> {
        static ROW: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^\| ([LCRHF]\d\d?)[a-z]?\b"));
        static TEST: LazyLock<Regex> =
            LazyLock::new(|| regex(r"(?m)^ *#\[test\]\n(?: *#\[.*\]\n)* *fn (\w+)"));
        static PROPERTY: LazyLock<Regex> = LazyLock::new(|| regex(r"pub fn (\w+)\(&self"));
        let mut ids = BTreeSet::new();
        for page in ["src/reference/litmus.md", "src/reference/the-model.md"] {
            names(&ROW, &read(&root.join(page))?, &mut ids);
        }
        let mut functions = BTreeSet::new();
        for folder in ["crates", "tests"] {
            for entry in WalkDir::new(root.join(folder)).into_iter().flatten() {
                if entry.path().extension().is_some_and(|it| it == "rs") {
                    names(&TEST, &read(entry.path())?, &mut functions);
                }
            }
        }
        let mut properties = BTreeSet::new();
        let checks = read(&root.join("tests/checks/listing.rs"))?;
        names(&PROPERTY, &checks, &mut properties);
        let examples = examples::all(root)?;
        Ok(Proofs {
            ids,
            functions,
            properties,
            slugs: examples.into_iter().map(|it| it.slug).collect(),
        })
    }

    /// What is wrong with what `text` names: nothing at all, or something that does not exist.
    fn complaint(&self, text: &str) -> Option<String> {
        static ID: LazyLock<Regex> = LazyLock::new(|| regex(r"\b[LCRHF]\d\d?\b"));
        static NAME: LazyLock<Regex> = LazyLock::new(|| regex(r"`(?:(\w+)::)*(\w+)`"));
        let mut named = 0;
        for id in ID.find_iter(text) {
            if !self.ids.contains(id.as_str()) {
                return Some(format!("Proof names {}, which does not exist", id.as_str()));
            }
            named += 1;
        }
        for path in NAME.captures_iter(text) {
            let module = path.get(1).map_or("", |it| it.as_str());
            if self.properties.contains(&path[2]) && !self.slugs.contains(module) {
                return Some(format!("Proof names {}, which is no listing", &path[0]));
            }
            if self.properties.contains(&path[2]) || self.functions.contains(&path[2]) {
                named += 1;
            }
        }
        (named == 0).then(|| "Proof names no test, litmus test, rule or hazard".to_owned())
    }
}

/// Adds the first group of every match of `pattern` in `text`.
fn names(pattern: &Regex, text: &str, names: &mut BTreeSet<String>) {
    names.extend(pattern.captures_iter(text).map(|it| it[1].to_owned()));
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant")
}
