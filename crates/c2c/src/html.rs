//! Reads HTML: what a rendered page holds, and what a piece of HTML inside Markdown refers to.

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What a reader finds in the main part of a rendered page.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// Every `id`: what a `#fragment` can point to.
    pub(crate) ids: BTreeSet<String>,
    /// Every diagram, in the order of the page.
    pub(crate) diagrams: Vec<Diagram>,
}

/// A mermaid block of a rendered page.
#[derive(Debug, PartialEq)]
pub(crate) enum Diagram {
    /// What mermaid's script will draw.
    Source(String),
    /// Still a code block: the preprocessor did not run.
    CodeBlock,
}

/// A reference made by HTML inside a Markdown page.
#[derive(Debug, PartialEq)]
pub(crate) enum Reference {
    /// `<a href>`
    Link(String),
    /// `<img src>`
    Image(String),
}

/// Reads the `<main>` element of a whole page.
pub(crate) fn read_page(html: &str) -> Rendered {
    let mut rendered = Rendered::default();
    let mut in_main = false;
    let mut diagram: Option<String> = None;
    for token in tokens(html) {
        match token {
            Token::TagToken(tag) if &*tag.name == "main" => in_main = tag.kind == TagKind::StartTag,
            Token::TagToken(tag) if in_main && tag.kind == TagKind::StartTag => {
                rendered.ids.extend(attribute(&tag, "id"));
                if &*tag.name == "pre" && has_class(&tag, "mermaid") {
                    diagram = Some(String::new());
                } else if &*tag.name == "code" && has_class(&tag, "language-mermaid") {
                    rendered.diagrams.push(Diagram::CodeBlock);
                }
            }
            Token::TagToken(tag) if &*tag.name == "pre" => {
                rendered
                    .diagrams
                    .extend(diagram.take().map(Diagram::Source));
            }
            Token::CharacterTokens(text) => {
                if let Some(diagram) = &mut diagram {
                    diagram.push_str(&text);
                }
            }
            _ => {}
        }
    }
    rendered
}

/// The links and images of a piece of HTML.
pub(crate) fn references(html: &str) -> Vec<Reference> {
    tokens(html)
        .into_iter()
        .filter_map(|token| match token {
            Token::TagToken(tag) if &*tag.name == "a" => {
                attribute(&tag, "href").map(Reference::Link)
            }
            Token::TagToken(tag) if &*tag.name == "img" => {
                attribute(&tag, "src").map(Reference::Image)
            }
            _ => None,
        })
        .collect()
}

fn attribute(tag: &Tag, name: &str) -> Option<String> {
    tag.attrs
        .iter()
        .find(|attribute| &*attribute.name.local == name)
        .map(|attribute| attribute.value.to_string())
}

fn has_class(tag: &Tag, class: &str) -> bool {
    attribute(tag, "class").is_some_and(|classes| classes.split_whitespace().any(|c| c == class))
}

fn tokens(html: &str) -> Vec<Token> {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(html));
    let tokenizer = Tokenizer::new(Collector::default(), TokenizerOpts::default());
    // The only other result is a script that wants to run, which this sink never asks for.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.tokens.take()
}

#[derive(Default)]
struct Collector {
    tokens: RefCell<Vec<Token>>,
}

impl TokenSink for Collector {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        // The text of scripts and styles is not HTML: a `<` in it opens no tag.
        let next = match &token {
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => match &*tag.name {
                "script" => TokenSinkResult::RawData(RawKind::ScriptData),
                "style" => TokenSinkResult::RawData(RawKind::Rawtext),
                _ => TokenSinkResult::Continue,
            },
            _ => TokenSinkResult::Continue,
        };
        self.tokens.borrow_mut().push(token);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_main_part_counts() {
        let page = r#"<script>if (1 < 2) "<main id='no'>"</script><nav id="outside"></nav>
            <main><h1 id="inside">x</h1><pre class="mermaid">graph TD
            A --&gt; B</pre><code class="language-mermaid">graph</code></main><p id="after">"#;
        let rendered = read_page(page);
        assert_eq!(rendered.ids, BTreeSet::from(["inside".to_string()]));
        assert_eq!(
            rendered.diagrams,
            [
                Diagram::Source("graph TD\n            A --> B".into()),
                Diagram::CodeBlock
            ]
        );
    }

    #[test]
    fn links_and_images_of_raw_html() {
        assert_eq!(
            references("<p><a\n href='x.md'>x</a><img alt='' src=y.png>"),
            [
                Reference::Link("x.md".into()),
                Reference::Image("y.png".into())
            ]
        );
    }
}
