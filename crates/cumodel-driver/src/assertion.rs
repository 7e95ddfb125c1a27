//! `assert` in kernels: the function that a failed assertion calls, which no PTX brings along.
//!
//! A compiler declares `__assertfail` and leaves it to the driver.
//! Here it gets a body that leaves its arguments where only the model looks, and stops the kernel.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Addresses of no memory; what a failed assertion stores there is what it was called with.
pub const WINDOW: Range<u64> = 0x0F00_0000_0000_0000..0x0F00_0000_0000_0020;

const DECLARATION: &str = ".extern .func __assertfail";

/// The PTX with a body for `__assertfail`, if it declares the function; no line moves.
pub fn link(text: &str) -> Cow<'_, str> {
    let Some(start) = text.find(DECLARATION) else {
        return Cow::Borrowed(text);
    };
    let Some(end) = text[start..].find(';').map(|offset| start + offset) else {
        return Cow::Borrowed(text);
    };
    let parameters = &text[start + DECLARATION.len()..end];
    // Message, file, line, function, and the size of a character.
    let names: Vec<&str> = parameters
        .split([',', '(', ')'])
        .filter_map(|declared| declared.split_whitespace().last())
        .collect();
    let [message, file, line, function, _] = names[..] else {
        return Cow::Borrowed(text);
    };
    let at = WINDOW.start;
    let body = format!(
        "{{ .reg .b64 %cumodel_a<5>; .reg .b32 %cumodel_l; \
         ld.param.b64 %cumodel_a1, [{message}]; ld.param.b64 %cumodel_a2, [{file}]; \
         ld.param.b32 %cumodel_l, [{line}]; ld.param.b64 %cumodel_a3, [{function}]; \
         mov.u64 %cumodel_a4, {at}; \
         st.global.b64 [%cumodel_a4], %cumodel_a1; st.global.b64 [%cumodel_a4+8], %cumodel_a2; \
         st.global.b32 [%cumodel_a4+16], %cumodel_l; st.global.b64 [%cumodel_a4+24], %cumodel_a3; \
         trap; }}"
    );
    Cow::Owned(format!(
        "{}.func __assertfail{parameters}{body}{}",
        &text[..start],
        &text[end + 1..]
    ))
}

/// What a failed assertion was called with; where several fail at once, one of them.
#[derive(Default)]
pub struct Assertion {
    /// The addresses of message and file, the line, and the address of the function.
    words: [AtomicU64; 4],
}

impl Assertion {
    /// Takes what a kernel stores in [`WINDOW`].
    pub fn store(&self, address: u64, from: &[u8]) {
        let index = ((address - WINDOW.start) / 8) as usize;
        let mut word = [0; 8];
        let length = from.len().min(8);
        word[..length].copy_from_slice(&from[..length]);
        if let Some(place) = self.words.get(index) {
            place.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    /// The sentence about it, if one has failed; `text` reads what the kernel calls a string.
    pub fn sentence(&self, text: impl Fn(u64) -> String) -> Option<String> {
        let [message, file, line, function] = self
            .words
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed));
        (message != 0).then(|| {
            format!(
                "the assertion `{}` failed at {}:{line} in {}",
                text(message),
                text(file),
                text(function)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = ".version 8.7\n.extern .func __assertfail\n(\n\t.param .b64 p0,\n\t.param .b64 p1,\n\t.param .b32 p2,\n\t.param .b64 p3,\n\t.param .b64 p4\n)\n;\n.visible .entry f()\n{ ret; }\n";

    #[test]
    fn a_declared_function_gets_a_body_and_no_line_moves() {
        let linked = link(DECLARED);
        assert!(linked.contains("[p3]") && linked.contains("trap; }\n.visible"));
        assert_eq!(linked.lines().count(), DECLARED.lines().count());
        assert!(!linked.contains(".extern"));
    }

    #[test]
    fn other_text_stays_as_it_is() {
        for text in [
            "",
            ".extern .func __assertfail",
            ".extern .func __assertfail();",
            "hello",
        ] {
            assert_eq!(link(text), text);
        }
    }

    #[test]
    fn what_was_stored_is_told() {
        let assertion = Assertion::default();
        let text = |address| format!("text {address}");
        assert_eq!(assertion.sentence(text), None);
        for (offset, word) in [(0, 1u64), (8, 2), (16, 3), (24, 4)] {
            assertion.store(WINDOW.start + offset, &word.to_le_bytes());
        }
        let told = assertion.sentence(text).expect("one has failed");
        assert_eq!(told, "the assertion `text 1` failed at text 2:3 in text 4");
    }
}
