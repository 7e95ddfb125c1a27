//! The site: the book has no problems, every kind of problem is caught, open pages follow their
//! sources, and a browser finds nothing to complain about.

mod browser;
mod plots;
mod search;

use browser::{waive_without_chromium, Browser, Look};
use c2c::serve::Server;
use c2c::{build, check, Book};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The repository, which is the book's root.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

// ---- The real book ----

#[test]
fn the_book_builds_without_problems() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("book");
    let problems = build::build(&Book::open(&repository()).unwrap(), &out).unwrap();
    assert_none(&lines(&problems));
    for file in ["index.html", "404.html", "print.html", "toc.html"] {
        assert!(out.join(file).is_file(), "{file}");
    }
}

#[test]
fn the_committed_mermaid_is_that_of_the_locked_crate() {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    // Without the platform, cargo would want to download crates for other systems.
    let version = Command::new(&cargo).arg("-vV").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap();
    let output = Command::new(&cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(["--filter-platform", host])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let package = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .find(|package| package["name"] == "mdbook-mermaid")
        .unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let theirs = manifest.with_file_name("src/bin/assets/mermaid.min.js");
    assert!(
        fs::read(theirs).unwrap() == fs::read(repository().join("theme/mermaid.min.js")).unwrap(),
        "theme/mermaid.min.js is not the file of mdbook-mermaid {}; copy it again",
        package["version"]
    );
}

// ---- Planted faults ----

const INTRO: &str = "\
# Introduction {#introduction}

Read [the first page](note/first.md#rule), or [its end](note/first.md#the-end).

![A picture](picture.svg)
";

const FIRST: &str = "\
# First {#first}

## The rule {#rule}

```rust
{{#rustdoc_include ../../examples/pinned_reuse/main.rs:idea}}
```

```mermaid
sequenceDiagram
    host->>stream 1: copy
```

## The end

Back to [the start](../introduction.md), [the rule](#rule) or <a href=\"../introduction.md#introduction\">here</a>.
";

const LISTING: &str = "\
fn main() {
    // ANCHOR: idea
    println!(\"pinned\");
    // ANCHOR_END: idea
}
";

/// A small book without problems.
fn tiny_book() -> TempDir {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    write(
        root,
        "book.toml",
        "[book]\ntitle = \"Tiny\"\n[preprocessor.mermaid]\n",
    );
    write(
        root,
        "src/SUMMARY.md",
        "# Summary\n\n[Introduction](introduction.md)\n\n- [First](note/first.md)\n",
    );
    write(root, "src/introduction.md", INTRO);
    write(root, "src/note/first.md", FIRST);
    write(
        root,
        "src/picture.svg",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"8\" height=\"8\"></svg>",
    );
    write(root, "examples/pinned_reuse/main.rs", LISTING);
    write(root, "examples/two_buffers/main.rs", LISTING);
    folder
}

/// Writes a file in one step, so that a watcher never sees half of it.
fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let half_written = root.join(".half-written");
    fs::write(&half_written, text).unwrap();
    fs::rename(half_written, file).unwrap();
}

/// Replaces `old`, which must be there once, in a file of the book.
fn edit(root: &Path, file: &str, old: &str, new: &str) {
    let text = fs::read_to_string(root.join(file)).unwrap();
    assert_eq!(text.matches(old).count(), 1, "{old:?} in {file}");
    write(root, file, &text.replace(old, new));
}

fn lines(problems: &[check::Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Fails with one line for each complaint.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The problems of the tiny book after one change.
fn problems_after(change: impl FnOnce(&Path)) -> Vec<String> {
    let folder = tiny_book();
    change(folder.path());
    lines(&check::check(folder.path()).unwrap())
}

#[test]
fn a_clean_book_has_no_problems() {
    assert_none(&problems_after(|_| {}));
}

#[test]
fn a_missing_include_names_the_nearest_example() {
    let found = problems_after(|root| {
        edit(root, "src/note/first.md", "pinned_reuse", "pinned_resue");
    });
    assert_eq!(
        found,
        ["src/note/first.md:6: examples/pinned_resue does not exist; did you mean pinned_reuse?"]
    );
}

#[test]
fn a_misspelt_anchor_names_those_that_exist() {
    let found = problems_after(|root| edit(root, "src/note/first.md", ":idea", ":ida"));
    assert_eq!(
        found,
        ["src/note/first.md:6: examples/pinned_reuse/main.rs has no anchor ida; it has idea"]
    );
}

#[test]
fn an_anchor_that_is_never_closed() {
    let found = problems_after(|root| {
        edit(
            root,
            "examples/pinned_reuse/main.rs",
            "ANCHOR_END: idea",
            "",
        );
    });
    assert_eq!(
        found,
        [
            "src/note/first.md:6: anchor idea of examples/pinned_reuse/main.rs is never closed; \
          add ANCHOR_END: idea"
        ]
    );
}

#[test]
fn an_include_by_line_number() {
    let found = problems_after(|root| edit(root, "src/note/first.md", ":idea", ":2:4"));
    assert_eq!(
        found,
        [
            "src/note/first.md:6: examples/pinned_reuse/main.rs is included by line number, \
          and lines move; name an anchor"
        ]
    );
}

#[test]
fn a_misspelt_directive() {
    let found = problems_after(|root| {
        edit(
            root,
            "src/note/first.md",
            "#rustdoc_include",
            "#rustdoc_inclde",
        );
    });
    assert_eq!(
        found,
        ["src/note/first.md:6: mdBook has no directive rustdoc_inclde"]
    );
}

#[test]
fn a_link_to_an_unknown_chapter() {
    let found = problems_after(|root| {
        edit(
            root,
            "src/introduction.md",
            "first.md#rule",
            "frist.md#rule",
        );
    });
    assert_eq!(
        found,
        [
            "src/introduction.md:3: link to unknown chapter note/frist.md; \
          did you mean note/first.md?"
        ]
    );
}

#[test]
fn a_link_to_an_unknown_fragment() {
    let found = problems_after(|root| {
        edit(root, "src/introduction.md", "#the-end", "#the-edn");
    });
    assert_eq!(
        found,
        [
            "src/introduction.md:3: note/first.md has no heading or id #the-edn; \
          did you mean the-end?"
        ]
    );
}

#[test]
fn links_in_html_are_checked_too() {
    let found = problems_after(|root| {
        edit(
            root,
            "src/note/first.md",
            "introduction.md#introduction",
            "nowhere.md",
        );
    });
    assert_eq!(
        found,
        ["src/note/first.md:16: link to unknown chapter nowhere.md"]
    );
}

#[test]
fn a_link_from_the_root_of_the_host() {
    let found = problems_after(|root| {
        edit(
            root,
            "src/note/first.md",
            "(../introduction.md)",
            "(/introduction.html)",
        );
    });
    assert_eq!(
        found,
        ["src/note/first.md:16: link /introduction.html starts at the root of the host, which is \
          not where the book is served; write it relative to this page"]
    );
}

#[test]
fn a_missing_image() {
    let found =
        problems_after(|root| edit(root, "src/introduction.md", "picture.svg", "pictrue.svg"));
    assert_eq!(
        found,
        ["src/introduction.md:5: image pictrue.svg does not exist; did you mean picture.svg?"]
    );
}

#[test]
fn a_chapter_without_a_page() {
    let found = problems_after(|root| {
        let line = "\n- [Second](note/second.md)\n";
        edit(
            root,
            "src/SUMMARY.md",
            "first.md)\n",
            &format!("first.md){line}"),
        );
    });
    assert_eq!(
        found,
        ["src/SUMMARY.md:6: chapter note/second.md does not exist"]
    );
}

#[test]
fn a_summary_that_mdbook_cannot_read() {
    let found = problems_after(|root| {
        edit(
            root,
            "src/SUMMARY.md",
            "first.md)\n",
            "first.md)\n\n[End](introduction.md)\n- [X](x.md)\n",
        );
    });
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("src/SUMMARY.md:8: mdBook cannot read"),
        "{found:?}"
    );
}

#[test]
fn a_page_that_is_not_listed() {
    let found = problems_after(|root| write(root, "src/note/orphan.md", "# Orphan\n"));
    assert_eq!(
        found,
        ["src/note/orphan.md:1: this page is not listed in SUMMARY.md, so nobody can reach it"]
    );
}

#[test]
fn code_fences_without_a_known_tag() {
    let found = problems_after(|root| {
        edit(
            root,
            "src/introduction.md",
            "![A",
            "```\nx\n```\n\n```rs\nx\n```\n\n    x\n\n![A",
        );
    });
    let tags = "rust, text, sh, toml, mermaid, json, console";
    assert_eq!(
        found,
        [
            format!("src/introduction.md:5: this code fence has no tag; use one of {tags}"),
            format!("src/introduction.md:9: code fence tag rs is not known; use one of {tags}"),
            format!(
                "src/introduction.md:13: a code block by indentation has no tag; \
                 fence it with one of {tags}"
            ),
        ]
    );
}

#[test]
fn two_pages_of_one_name() {
    let found = problems_after(|root| {
        write(root, "src/reference/first.md", "# First\n");
        edit(
            root,
            "src/SUMMARY.md",
            "first.md)\n",
            "first.md)\n- [R](reference/first.md)\n",
        );
    });
    assert_eq!(
        found,
        [
            "src/reference/first.md:1: src/note/first.md has the same name, \
          and proofs are named by it; rename one of them"
        ]
    );
}

#[test]
fn a_file_that_is_neither_page_nor_image() {
    let found = problems_after(|root| {
        write(root, "src/notes.txt", "x");
        // An editor's swap file comes and goes; it is no problem.
        write(root, "src/.introduction.md.swp", "x");
    });
    assert_eq!(
        found,
        ["src/notes.txt:1: src holds only Markdown and images, \
          and this file would be published; move it"]
    );
}

#[test]
fn an_empty_diagram_and_one_of_no_known_kind() {
    let diagram = "sequenceDiagram\n    host->>stream 1: copy\n";
    let empty = problems_after(|root| edit(root, "src/note/first.md", diagram, ""));
    assert_eq!(empty, ["src/note/first.md:9: this diagram is empty"]);
    let misspelt = problems_after(|root| {
        edit(
            root,
            "src/note/first.md",
            "sequenceDiagram",
            "sequenceDigram",
        );
    });
    assert_eq!(
        misspelt,
        [
            "src/note/first.md:9: sequenceDigram is no kind of mermaid diagram; \
          did you mean sequenceDiagram?"
        ]
    );
}

#[test]
fn a_diagram_that_stays_a_code_block() {
    let found = problems_after(|root| edit(root, "book.toml", "[preprocessor.mermaid]", ""));
    assert_eq!(
        found,
        ["src/note/first.md:9: this diagram is still a code block; \
          book.toml needs [preprocessor.mermaid]"]
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let found = problems_after(|root| {
        edit(
            root,
            "src/SUMMARY.md",
            "first.md)\n",
            "first.md)\n- [Second](second.md)\n",
        );
        edit(root, "src/note/first.md", ":idea", ":ida");
        edit(root, "src/introduction.md", "#rule", "#rul");
        edit(root, "src/introduction.md", "picture.svg", "x.svg");
    });
    let places: Vec<&str> = found
        .iter()
        .map(|problem| problem.split(": ").next().unwrap())
        .collect();
    assert_eq!(
        places,
        [
            "src/SUMMARY.md:6",
            "src/introduction.md:3",
            "src/introduction.md:5",
            "src/note/first.md:6",
        ]
    );
}

// ---- Building ----

#[test]
fn a_failed_build_leaves_the_last_good_site() {
    let folder = tiny_book();
    let root = folder.path();
    let book = Book::open(root).unwrap();
    let out = root.join("book");
    assert_none(&lines(&build::build(&book, &out).unwrap()));
    let good = fs::read(out.join("index.html")).unwrap();

    edit(root, "src/introduction.md", "Read ", "Changed [x](x.md) ");
    assert_eq!(build::build(&book, &out).unwrap().len(), 1);
    assert!(fs::read(out.join("index.html")).unwrap() == good);
    // No unfinished site is left behind either.
    assert_eq!(
        names(root),
        ["book", "book.toml", "examples", "src"]
            .map(String::from)
            .into()
    );

    edit(root, "src/introduction.md", "[x](x.md) ", "");
    assert_none(&lines(&build::build(&book, &out).unwrap()));
    assert!(fs::read(out.join("index.html")).unwrap() != good);
}

#[test]
fn a_folder_that_is_no_site_is_not_replaced() {
    let folder = tiny_book();
    let book = Book::open(folder.path()).unwrap();
    let error = build::build(&book, &folder.path().join("src")).unwrap_err();
    assert!(error.to_string().contains("not a site"), "{error}");
    assert!(folder.path().join("src/SUMMARY.md").is_file());
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

// ---- Serving ----

/// Sends a GET request; the answer is read from the returned stream.
fn request(server: &Server, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// The whole answer, head included.
fn get(server: &Server, path: &str) -> String {
    let mut answer = String::new();
    request(server, path).read_to_string(&mut answer).unwrap();
    answer
}

/// The states the server tells its open pages.
struct Events(BufReader<TcpStream>);

impl Events {
    fn of(server: &Server) -> Events {
        Events(BufReader::new(request(server, "/.c2c/events")))
    }

    /// Waits for the next state.
    fn next(&mut self) -> serde_json::Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the events ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

#[test]
fn open_pages_follow_the_sources() {
    let folder = tiny_book();
    let root = folder.path();
    let server = Server::start(&Book::open(root).unwrap(), 0).unwrap();
    let mut events = Events::of(&server);
    let first = events.next();
    assert_eq!(first["problems"], serde_json::json!([]));

    edit(root, "src/introduction.md", "Read ", "Do read ");
    let second = events.next();
    assert_ne!(second["generation"], first["generation"]);
    assert!(get(&server, "/introduction.html").contains("Do read "));

    // A broken page: the last good one stays, and the problem is told.
    edit(root, "src/introduction.md", "Do read ", "[x](x.md) ");
    let broken = events.next();
    assert_eq!(broken["generation"], second["generation"]);
    assert_eq!(
        broken["problems"],
        serde_json::json!(["src/introduction.md:3: link to unknown chapter x.md"])
    );
    assert!(get(&server, "/introduction.html").contains("Do read "));

    edit(root, "src/introduction.md", "[x](x.md) ", "Read again ");
    let fixed = events.next();
    assert_ne!(fixed["generation"], second["generation"]);
    assert_eq!(fixed["problems"], serde_json::json!([]));
    assert!(get(&server, "/introduction.html").contains("Read again "));
}

#[test]
fn a_book_with_problems_is_served_once_it_is_corrected() {
    let folder = tiny_book();
    let root = folder.path();
    edit(root, "src/SUMMARY.md", "note/first.md", "note/frist.md");
    let server = Server::start(&Book::open(root).unwrap(), 0).unwrap();
    assert!(get(&server, "/").starts_with("HTTP/1.1 500 "));
    let mut events = Events::of(&server);
    assert_ne!(events.next()["problems"], serde_json::json!([]));

    edit(root, "src/SUMMARY.md", "note/frist.md", "note/first.md");
    assert_eq!(events.next()["problems"], serde_json::json!([]));
    assert!(get(&server, "/").starts_with("HTTP/1.1 200 "));
}

#[test]
fn an_unknown_address_gets_the_404_page() {
    let folder = tiny_book();
    let server = Server::start(&Book::open(folder.path()).unwrap(), 0).unwrap();
    let answer = get(&server, "/no/such/page.html");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("Document not found"));
}

#[test]
fn a_taken_port_gives_the_next_free_one() {
    let folder = tiny_book();
    let book = Book::open(folder.path()).unwrap();
    let first = Server::start(&book, 0).unwrap();
    let taken = first.address().port();
    let second = Server::start(&book, taken).unwrap();
    assert!(second.address().port() > taken);
    assert!(get(&second, "/").starts_with("HTTP/1.1 200 "));
}

// ---- In a browser ----

#[test]
fn every_page_is_clean_in_a_browser() {
    let Some(mut browser) = Browser::launch() else {
        return waive_without_chromium();
    };
    let book = Book::open(&repository()).unwrap();
    let server = Server::start(&book, 0).unwrap();
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("book");
    assert_none(&lines(&build::build(&book, &out).unwrap()));

    let mut complaints = Vec::new();
    let mut diagrams = 0;
    for page in pages(&out) {
        for look in Look::ALL {
            let seen = browser.inspect(&format!("{}{page}", server.url()), look);
            complaints.extend(seen.complaints);
            diagrams += seen.diagrams;
        }
    }
    assert_none(&complaints);
    assert!(diagrams > 0, "the book has diagrams, and none was seen");
}

/// Every page of a site; toc.html is a part of pages without scripts.
fn pages(site: &Path) -> Vec<String> {
    let mut pages = Vec::new();
    let mut folders = vec![site.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "html")
            {
                let page = path.strip_prefix(site).unwrap();
                pages.push(page.to_str().unwrap().to_string());
            }
        }
    }
    pages.retain(|page| page != "toc.html");
    pages.sort();
    pages
}

/// The tiny book in the real book's clothes.
fn tiny_book_with_theme() -> TempDir {
    let folder = tiny_book();
    let root = folder.path();
    for file in fs::read_dir(repository().join("theme")).unwrap() {
        let file = file.unwrap().path();
        let copy = root.join("theme").join(file.file_name().unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
    fs::copy(repository().join("book.toml"), root.join("book.toml")).unwrap();
    folder
}

#[test]
fn the_browser_checks_catch_what_is_planted() {
    let Some(mut browser) = Browser::launch() else {
        return waive_without_chromium();
    };
    let folder = tiny_book_with_theme();
    let root = folder.path();
    let plants = [
        ("clean", "nothing\n", None),
        (
            "error",
            "<script>console.error('planted')</script>\n",
            Some("console error"),
        ),
        (
            "exception",
            "<script>throw new Error('planted')</script>\n",
            Some("exception"),
        ),
        (
            "host",
            "<img alt=\"x\" src=\"http://planted.invalid/x.png\">\n",
            Some("another host"),
        ),
        (
            "wide",
            "<div style=\"width: 600px\">planted</div>\n",
            Some("wider than the page"),
        ),
        (
            "diagram",
            "```mermaid\nsequenceDiagram\n    nonsense\n```\n",
            Some("diagram"),
        ),
    ];
    for (name, text, _) in plants {
        write(
            root,
            &format!("src/{name}.md"),
            &format!("# {name}\n\n{text}"),
        );
    }
    let chapters = plants.map(|(name, _, _)| format!("- [{name}]({name}.md)\n"));
    edit(
        root,
        "src/SUMMARY.md",
        "first.md)\n",
        &format!("first.md)\n{}", chapters.concat()),
    );
    let server = Server::start(&Book::open(root).unwrap(), 0).unwrap();

    for (name, _, expected) in plants {
        let url = format!("{}{name}.html", server.url());
        let complaints = browser.inspect(&url, Look::Phone).complaints;
        match expected {
            None => assert_none(&complaints),
            Some(expected) => assert!(
                complaints
                    .iter()
                    .any(|complaint| complaint.contains(expected)),
                "{name}: {complaints:?}"
            ),
        }
    }
}

#[test]
fn diagrams_are_drawn_again_for_another_theme() {
    let Some(mut browser) = Browser::launch() else {
        return waive_without_chromium();
    };
    let folder = tiny_book_with_theme();
    let server = Server::start(&Book::open(folder.path()).unwrap(), 0).unwrap();
    let seen = browser.inspect(&format!("{}note/first.html", server.url()), Look::Light);
    assert_none(&seen.complaints);
    assert_eq!(seen.diagrams, 1);
    let fill = "getComputedStyle(document.querySelector('pre.mermaid rect.actor')).fill";
    let light = browser.evaluate(fill);
    browser.evaluate("document.getElementById('mdbook-theme-navy').click()");
    browser.wait_until(&format!(
        "document.querySelector('pre.mermaid rect.actor') !== null && {fill} !== '{}'",
        light.as_str().unwrap()
    ));
    assert_none(&browser.complaints());
}

#[test]
fn an_open_page_shows_edits_and_problems() {
    let Some(mut browser) = Browser::launch() else {
        return waive_without_chromium();
    };
    let folder = tiny_book_with_theme();
    let root = folder.path();
    let server = Server::start(&Book::open(root).unwrap(), 0).unwrap();
    browser.inspect(&format!("{}introduction.html", server.url()), Look::Light);

    edit(root, "src/introduction.md", "Read ", "Do read ");
    browser.wait_until("document.querySelector('main')?.textContent.includes('Do read ')");

    edit(root, "src/introduction.md", "Do read ", "[x](x.md) ");
    browser.wait_until(
        "document.getElementById('c2c-problems')?.shadowRoot.textContent
            .includes('src/introduction.md:3: link to unknown chapter x.md')",
    );

    edit(root, "src/introduction.md", "[x](x.md) ", "Read again ");
    browser.wait_until(
        "document.querySelector('main')?.textContent.includes('Read again ')
         && !document.getElementById('c2c-problems')",
    );
}
