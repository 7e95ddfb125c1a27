//! Tokens into functions and variables.
use super::ast::{File, Function, Initial, Variable};
use super::lexer::{tokens, Token, Tokens};
use crate::types::Type;
use crate::LoadError;

/// The largest variable, so that a size that is absurd is refused and not allocated.
const LARGEST: usize = 1 << 31;

/// Parses a whole file.
pub(crate) fn parse(source: &str) -> Result<File<'_>, LoadError> {
    let tokens = tokens(source)?;
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        depth: 0,
    };
    parser.file()
}

/// A place in the tokens.
pub(super) struct Parser<'t, 'a> {
    pub(super) tokens: &'t Tokens<'a>,
    pub(super) at: usize,
    /// Blocks around this place.
    pub(super) depth: u32,
}

impl<'a> Parser<'_, 'a> {
    pub(super) fn peek(&self) -> Option<Token<'a>> {
        self.tokens.all.get(self.at).map(|&(token, ..)| token)
    }

    pub(super) fn peek_second(&self) -> Option<Token<'a>> {
        self.tokens.all.get(self.at + 1).map(|&(token, ..)| token)
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// The line of the next token, or the last line.
    pub(super) fn line(&self) -> u32 {
        let at = self.at.min(self.tokens.all.len().saturating_sub(1));
        self.tokens.all.get(at).map_or(1, |&(.., line)| line)
    }

    pub(super) fn error<T>(&self, problem: impl Into<String>) -> Result<T, LoadError> {
        Err(LoadError {
            line: self.line(),
            problem: problem.into(),
        })
    }

    /// What stands here, for a message.
    pub(super) fn found(&self) -> String {
        match self.tokens.all.get(self.at) {
            Some(&(_, start, end, _)) => format!("`{}`", &self.tokens.source[start..end]),
            None => "the end of the text".to_owned(),
        }
    }

    pub(super) fn expect(&mut self, mark: char) -> Result<(), LoadError> {
        if self.accept(mark) {
            return Ok(());
        }
        self.error(format!("expected `{mark}`, found {}", self.found()))
    }

    pub(super) fn accept(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    pub(super) fn accept_directive(&mut self, name: &str) -> bool {
        let found = self.peek() == Some(Token::Directive(name));
        self.at += usize::from(found);
        found
    }

    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, LoadError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.error(format!("expected {what}, found {}", self.found())),
        }
    }

    pub(super) fn unsigned(&mut self, what: &str) -> Result<usize, LoadError> {
        match self.peek() {
            Some(Token::Integer(value)) if value as usize <= LARGEST => {
                self.at += 1;
                Ok(value as usize)
            }
            _ => self.error(format!(
                "expected {what} up to {LARGEST}, found {}",
                self.found()
            )),
        }
    }

    fn file(&mut self) -> Result<File<'a>, LoadError> {
        let mut file = File::default();
        self.header()?;
        let mut external = false;
        while let Some(token) = self.peek() {
            match token {
                Token::Directive(".visible" | ".weak" | ".common") => self.at += 1,
                Token::Directive(".extern") => {
                    self.at += 1;
                    external = true;
                }
                Token::Directive(".entry" | ".func") => {
                    file.functions.push(self.function()?);
                    external = false;
                }
                Token::Directive(".global" | ".const" | ".shared") => {
                    self.variables(external, &mut file.variables)?;
                    external = false;
                }
                Token::Directive(".file" | ".loc") => self.skip_line(),
                Token::Directive(".pragma") => self.skip_statement(),
                Token::Directive(".section") => self.skip_section()?,
                _ => {
                    return self.error(format!(
                        "{} cannot start a declaration of the module",
                        self.found()
                    ))
                }
            }
        }
        Ok(file)
    }

    /// `.version`, `.target` and `.address_size`.
    fn header(&mut self) -> Result<(), LoadError> {
        if !self.accept_directive(".version") {
            return self.error(format!(
                "PTX starts with `.version`, not with {}",
                self.found()
            ));
        }
        match self.next() {
            Some(Token::Double(bits)) if (6.0..10.0).contains(&f64::from_bits(bits)) => {}
            _ => {
                self.at -= 1;
                return self.error(format!(
                    "PTX of version 6.0 to 9.x is supported, not {}",
                    self.found()
                ));
            }
        }
        if !self.accept_directive(".target") {
            return self.error(format!("expected `.target`, found {}", self.found()));
        }
        let target = self.word("a target such as sm_80")?;
        let number: String = target
            .strip_prefix("sm_")
            .unwrap_or("")
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        if !number.parse::<u32>().is_ok_and(|number| number >= 50) {
            self.at -= 1;
            return self.error(format!(
                "target `{target}` is not supported; compile for sm_80"
            ));
        }
        while self.accept(',') {
            let option = self.word("a target option")?;
            if option != "debug" {
                self.at -= 1;
                return self.error(format!("target option `{option}` is not supported"));
            }
        }
        if !self.accept_directive(".address_size") || self.next() != Some(Token::Integer(64)) {
            return self.error("only `.address_size 64` is supported");
        }
        Ok(())
    }

    fn function(&mut self) -> Result<Function<'a>, LoadError> {
        let line = self.line();
        let entry = self.next() == Some(Token::Directive(".entry"));
        let returns = if !entry && self.peek() == Some(Token::Mark('(')) {
            self.params()?
        } else {
            Vec::new()
        };
        let name = self.word("a function's name")?;
        let params = if self.peek() == Some(Token::Mark('(')) {
            self.params()?
        } else {
            Vec::new()
        };
        let mut max_threads = None;
        loop {
            match self.peek() {
                Some(Token::Directive(".maxntid" | ".reqntid")) => {
                    self.at += 1;
                    let mut threads = self.unsigned("a number of threads")?;
                    while self.accept(',') {
                        threads = threads.saturating_mul(self.unsigned("a number of threads")?);
                    }
                    max_threads = Some(u32::try_from(threads).unwrap_or(u32::MAX));
                }
                Some(Token::Directive(".minnctapersm" | ".maxnreg")) => {
                    self.at += 1;
                    self.unsigned("a number")?;
                }
                Some(Token::Directive(".noreturn")) => self.at += 1,
                Some(Token::Directive(".pragma")) => self.skip_statement(),
                _ => break,
            }
        }
        let body = if self.accept(';') {
            None
        } else {
            Some(self.body()?)
        };
        Ok(Function {
            line,
            name,
            entry,
            returns,
            params,
            max_threads,
            body,
        })
    }

    /// `(.param .u64 a, .param .b32 b)`
    pub(super) fn params(&mut self) -> Result<Vec<Variable<'a>>, LoadError> {
        self.expect('(')?;
        let mut params = Vec::new();
        while !self.accept(')') {
            if !params.is_empty() {
                self.expect(',')?;
            }
            let space = match self.next() {
                Some(Token::Directive(".param")) => "param",
                _ => {
                    self.at -= 1;
                    return self.error(format!(
                        "expected `.param`, found {}; parameters in registers are not supported",
                        self.found()
                    ));
                }
            };
            let (align, element, _) = self.variable_type(true)?;
            params.push(self.variable(space, false, align, element)?);
        }
        Ok(params)
    }

    /// `.global .align 4 .u32 a, b[3];` with the space still ahead.
    pub(super) fn variables(
        &mut self,
        external: bool,
        into: &mut Vec<Variable<'a>>,
    ) -> Result<(), LoadError> {
        let space = match self.next() {
            Some(Token::Directive(space)) => &space[1..],
            _ => return self.error("expected a state space"),
        };
        let (align, element, _) = self.variable_type(false)?;
        loop {
            let mut variable = self.variable(space, external, align, element)?;
            if self.accept('=') {
                self.initial(&mut variable)?;
            }
            into.push(variable);
            if !self.accept(',') {
                return self.expect(';');
            }
        }
    }

    /// Alignment, bytes of an element, and its type; `.ptr` and its attributes are allowed for parameters.
    fn variable_type(&mut self, param: bool) -> Result<(usize, usize, Type), LoadError> {
        let (mut align, mut lanes, mut ty) = (None, 1, None);
        loop {
            match self.peek() {
                Some(Token::Directive(".align")) => {
                    self.at += 1;
                    let bytes = self.unsigned("an alignment")?;
                    if !bytes.is_power_of_two() || bytes > 1024 {
                        self.at -= 1;
                        return self.error(format!(
                            "an alignment of {bytes} bytes is no power of two up to 1024"
                        ));
                    }
                    // Behind `.ptr` it speaks of what is pointed to.
                    align = align.or(Some(bytes));
                }
                Some(Token::Directive(".ptr")) if param && ty.is_some() => {
                    self.at += 1;
                    align = align.or(ty.map(Type::bytes));
                }
                Some(Token::Directive(
                    ".global" | ".const" | ".shared" | ".local" | ".generic",
                )) if param => self.at += 1,
                Some(Token::Directive(".v2")) => {
                    self.at += 1;
                    lanes = 2;
                }
                Some(Token::Directive(".v4")) => {
                    self.at += 1;
                    lanes = 4;
                }
                Some(Token::Directive(name)) => match Type::named(&name[1..])
                    .filter(|ty| *ty != Type::Pred)
                {
                    Some(found) => {
                        self.at += 1;
                        ty = Some(found);
                    }
                    None => {
                        return self.error(format!("`{name}` is not supported in a declaration"))
                    }
                },
                _ => break,
            }
        }
        let Some(ty) = ty else {
            return self.error(format!("expected a type, found {}", self.found()));
        };
        let element = ty.bytes() * lanes;
        Ok((align.unwrap_or(element), element, ty))
    }

    fn variable(
        &mut self,
        space: &'a str,
        external: bool,
        align: usize,
        element: usize,
    ) -> Result<Variable<'a>, LoadError> {
        let line = self.line();
        let name = self.word("a variable's name")?;
        let mut count = Some(1usize);
        while self.accept('[') {
            if self.accept(']') {
                count = None;
                continue;
            }
            let more = self.unsigned("a number of elements")?;
            count = count.map(|count| count.saturating_mul(more));
            self.expect(']')?;
        }
        let variable = Variable {
            line,
            name,
            space,
            external,
            align,
            element,
            count,
            initial: Vec::new(),
        };
        if count.is_some_and(|count| count.saturating_mul(element) > LARGEST) {
            return self.error(format!("`{name}` is larger than {LARGEST} bytes"));
        }
        Ok(variable)
    }

    fn initial(&mut self, variable: &mut Variable<'a>) -> Result<(), LoadError> {
        if !matches!(variable.space, "global" | "const") {
            return self.error(format!(
                "`{}` cannot have an initial value in .{}",
                variable.name, variable.space
            ));
        }
        let mut depth = 0u32;
        loop {
            while self.accept('{') {
                depth += 1;
            }
            if !(depth > 0 && self.peek() == Some(Token::Mark('}'))) {
                let value = self.initial_element(variable.element)?;
                variable.initial.push(value);
            }
            while depth > 0 && self.accept('}') {
                depth -= 1;
            }
            if depth == 0 {
                break;
            }
            self.expect(',')?;
        }
        match variable.count {
            // The size of `a[] = {…}` comes from its values.
            None => variable.count = Some(variable.initial.len()),
            Some(count) if variable.initial.len() > count => {
                return self.error(format!(
                    "`{}` has {count} elements and {} initial values",
                    variable.name,
                    variable.initial.len()
                ));
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn initial_element(&mut self, bytes: usize) -> Result<Initial<'a>, LoadError> {
        let negative = self.accept('-');
        match self.next() {
            Some(Token::Integer(value)) => Ok(Initial::Bits(if negative {
                value.wrapping_neg()
            } else {
                value
            })),
            Some(Token::Single(bits)) if bytes == 4 => {
                Ok(Initial::Bits(u64::from(bits ^ (u32::from(negative) << 31))))
            }
            Some(Token::Double(bits)) => {
                let bits = bits ^ (u64::from(negative) << 63);
                Ok(Initial::Bits(if bytes == 4 {
                    u64::from((f64::from_bits(bits) as f32).to_bits())
                } else {
                    bits
                }))
            }
            Some(Token::Word("generic")) if !negative => {
                self.expect('(')?;
                let name = self.word("a variable's name")?;
                self.expect(')')?;
                Ok(Initial::Address {
                    name,
                    offset: self.offset()?,
                })
            }
            Some(Token::Word(name)) if !negative && bytes == 8 => Ok(Initial::Address {
                name,
                offset: self.offset()?,
            }),
            _ => {
                self.at -= 1;
                self.error(format!(
                    "{} is not supported as an initial value",
                    self.found()
                ))
            }
        }
    }

    /// `+4`, `-4`, `+-4` or nothing.
    pub(super) fn offset(&mut self) -> Result<i64, LoadError> {
        let mut sign = match self.peek() {
            Some(Token::Mark('+')) => 1,
            Some(Token::Mark('-')) => -1,
            _ => return Ok(0),
        };
        self.at += 1;
        if self.accept('-') {
            sign = -sign;
        }
        match self.peek() {
            Some(Token::Integer(value)) => {
                self.at += 1;
                Ok((value as i64).wrapping_mul(sign))
            }
            _ => self.error(format!(
                "expected a number of bytes, found {}",
                self.found()
            )),
        }
    }

    /// `.loc` and `.file` have no semicolon: they end with their line.
    pub(super) fn skip_line(&mut self) {
        let line = self.line();
        while self.peek().is_some() && self.line() == line {
            self.at += 1;
        }
    }

    pub(super) fn skip_statement(&mut self) {
        while self.next().is_some_and(|token| token != Token::Mark(';')) {}
    }

    fn skip_section(&mut self) -> Result<(), LoadError> {
        while self.peek().is_some_and(|token| token != Token::Mark('{')) {
            self.at += 1;
        }
        self.expect('{')?;
        while self.next().is_some_and(|token| token != Token::Mark('}')) {}
        Ok(())
    }
}
