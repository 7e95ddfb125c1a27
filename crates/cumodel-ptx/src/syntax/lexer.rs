//! Text into tokens.
use crate::LoadError;
use logos::Logos;

/// One token; text is a slice of the source.
#[derive(Logos, Debug, Clone, Copy, PartialEq)]
#[logos(skip r"[ \t\r\n\f]+")]
#[logos(skip(r"//[^\n]*", allow_greedy = true))]
#[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
pub(crate) enum Token<'a> {
    /// A name with everything that dots add to it: `%r1`, `ld.global.L2::128B.u32`, `%tid.x`, `$L__BB0_2`.
    #[regex(r"[a-zA-Z_$%][a-zA-Z0-9_$]*(\.[a-zA-Z0-9_$]+(::[a-zA-Z0-9_$]+)*)*", |lexer| lexer.slice())]
    Word(&'a str),
    /// `.reg`, `.b32`, `.shared`: with its dot.
    #[regex(r"\.[a-zA-Z_][a-zA-Z0-9_]*(::[a-zA-Z0-9_]+)?", |lexer| lexer.slice())]
    Directive(&'a str),
    /// An integer literal in any base, as 64 bits.
    #[regex(r"0[xX][0-9a-fA-F]+U?", |lexer| integer(&lexer.slice()[2..], 16))]
    #[regex(r"0[bB][01]+U?", |lexer| integer(&lexer.slice()[2..], 2))]
    #[regex(r"0[0-7]+U?", |lexer| integer(&lexer.slice()[1..], 8), priority = 6)]
    #[regex(r"[0-9]+U?", |lexer| integer(lexer.slice(), 10))]
    Integer(u64),
    /// `0f3F800000`, as bits.
    #[regex(r"0[fF][0-9a-fA-F]{8}", |lexer| u32::from_str_radix(&lexer.slice()[2..], 16).ok())]
    Single(u32),
    /// `0d3FF0000000000000`, or a decimal fraction, as bits.
    #[regex(r"0[dD][0-9a-fA-F]{16}", |lexer| u64::from_str_radix(&lexer.slice()[2..], 16).ok())]
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?", |lexer| lexer.slice().parse::<f64>().ok().map(f64::to_bits))]
    Double(u64),
    /// With its quotes.
    #[regex("\"[^\"\n]*\"", |lexer| lexer.slice())]
    Text(&'a str),
    /// Any other character that PTX knows.
    #[regex(r"[(){}\[\]<>,;:=+\-!@|*]", |lexer| lexer.slice().chars().next())]
    Mark(char),
}

fn integer(digits: &str, base: u32) -> Option<u64> {
    u64::from_str_radix(digits.trim_end_matches('U'), base).ok()
}

/// The tokens of a text, each with its place.
pub(crate) struct Tokens<'a> {
    pub(crate) source: &'a str,
    /// Token, first byte, byte behind it, line from 1.
    pub(crate) all: Vec<(Token<'a>, usize, usize, u32)>,
}

/// Splits `source`; the first character that starts no token is an error.
pub(crate) fn tokens(source: &str) -> Result<Tokens<'_>, LoadError> {
    let mut all = Vec::new();
    let (mut line, mut counted) = (1u32, 0);
    for (token, span) in Token::lexer(source).spanned() {
        line += source[counted..span.start]
            .bytes()
            .filter(|&byte| byte == b'\n')
            .count() as u32;
        counted = span.start;
        let token = token.map_err(|()| LoadError {
            line,
            problem: format!(
                "`{}` is no token of PTX",
                source[span.clone()].chars().take(40).collect::<String>()
            ),
        })?;
        all.push((token, span.start, span.end, line));
    }
    Ok(Tokens { source, all })
}
