//! Tokens into statements.
use super::ast::{Instruction, Operand, Statement};
use super::lexer::Token;
use super::parser::Parser;
use crate::LoadError;

/// Blocks inside blocks, so that a hostile text cannot exhaust the stack.
const DEEPEST: u32 = 64;

impl<'a> Parser<'_, 'a> {
    /// `{ … }`
    pub(super) fn body(&mut self) -> Result<Vec<Statement<'a>>, LoadError> {
        self.expect('{')?;
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.error(format!("blocks are nested more than {DEEPEST} deep"));
        }
        let mut body = Vec::new();
        while !self.accept('}') {
            self.statement(&mut body)?;
        }
        self.depth -= 1;
        Ok(body)
    }

    fn statement(&mut self, body: &mut Vec<Statement<'a>>) -> Result<(), LoadError> {
        match self.peek() {
            Some(Token::Mark('{')) => body.push(Statement::Block(self.body()?)),
            Some(Token::Directive(".loc" | ".file")) => self.skip_line(),
            Some(Token::Directive(".pragma")) => self.skip_statement(),
            Some(Token::Directive(".reg")) => self.registers(body)?,
            Some(Token::Directive(".local" | ".shared" | ".param" | ".global" | ".const")) => {
                let mut variables = Vec::new();
                self.variables(false, &mut variables)?;
                body.extend(variables.into_iter().map(Statement::Variable));
            }
            Some(Token::Word(name)) if self.peek_second() == Some(Token::Mark(':')) => {
                let line = self.line();
                self.at += 2;
                self.labelled(line, name, body)?;
            }
            Some(Token::Word(_) | Token::Mark('@')) => {
                body.push(Statement::Instruction(self.instruction()?))
            }
            Some(Token::Mark(';')) => self.at += 1,
            _ => return self.error(format!("{} cannot start a statement", self.found())),
        }
        Ok(())
    }

    /// What stands behind `name:`.
    fn labelled(
        &mut self,
        line: u32,
        name: &'a str,
        body: &mut Vec<Statement<'a>>,
    ) -> Result<(), LoadError> {
        if self.accept_directive(".branchtargets") {
            let mut labels = vec![self.word("a label")?];
            while self.accept(',') {
                labels.push(self.word("a label")?);
            }
            body.push(Statement::Targets { line, name, labels });
            return self.expect(';');
        }
        if self.accept_directive(".callprototype") {
            // The callee says the same about itself.
            if self.peek() == Some(Token::Mark('(')) {
                self.params()?;
            }
            self.word("the underscore of a prototype")?;
            if self.peek() == Some(Token::Mark('(')) {
                self.params()?;
            }
            self.accept_directive(".noreturn");
            return self.expect(';');
        }
        if self.accept_directive(".calltargets") {
            self.skip_statement();
            return Ok(());
        }
        body.push(Statement::Label(line, name));
        Ok(())
    }

    /// `.reg .b32 %r<3>, %x;`
    fn registers(&mut self, body: &mut Vec<Statement<'a>>) -> Result<(), LoadError> {
        self.at += 1;
        let ty = match self.next() {
            Some(Token::Directive(ty)) => &ty[1..],
            _ => {
                self.at -= 1;
                return self.error(format!(
                    "expected a register's type, found {}",
                    self.found()
                ));
            }
        };
        loop {
            let line = self.line();
            let name = self.word("a register's name")?;
            let count = if self.accept('<') {
                let count = self.unsigned("a number of registers")?;
                if count > 65_536 {
                    return self.error(format!(
                        "{count} registers `{name}` are more than the 65,536 that are supported"
                    ));
                }
                self.expect('>')?;
                Some(count as u32)
            } else {
                None
            };
            body.push(Statement::Register {
                line,
                name,
                ty,
                count,
            });
            if !self.accept(',') {
                return self.expect(';');
            }
        }
    }

    fn instruction(&mut self) -> Result<Instruction<'a>, LoadError> {
        let (first, line) = (self.at, self.line());
        let guard = if self.accept('@') {
            let negated = self.accept('!');
            Some((self.word("a predicate")?, negated))
        } else {
            None
        };
        let opcode = self.word("an instruction")?;
        let mut parts = opcode.split('.');
        let mnemonic = parts.next().unwrap_or(opcode);
        let modifiers = parts.collect();
        let mut operands = Vec::new();
        if !self.accept(';') {
            loop {
                operands.push(self.operand()?);
                if !self.accept(',') {
                    break;
                }
            }
            self.expect(';')?;
        }
        let (_, start, ..) = self.tokens.all[first];
        let (_, _, end, _) = self.tokens.all[self.at - 1];
        let text = self.tokens.source[start..end].trim_end_matches(';');
        Ok(Instruction {
            line,
            text,
            guard,
            mnemonic,
            modifiers,
            operands,
        })
    }

    fn operand(&mut self) -> Result<Operand<'a>, LoadError> {
        match self.peek() {
            Some(Token::Mark('[')) => self.address(),
            Some(Token::Mark('{')) => Ok(Operand::Vector(self.listed('}')?)),
            Some(Token::Mark('(')) => Ok(Operand::List(self.listed(')')?)),
            Some(Token::Mark('!')) => {
                self.at += 1;
                Ok(Operand::Not(self.word("a predicate")?))
            }
            Some(Token::Word(name)) => {
                self.at += 1;
                if self.accept('|') {
                    return Ok(Operand::Pair(name, self.word("a second destination")?));
                }
                Ok(Operand::Name(name, self.offset()?))
            }
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Result<Operand<'a>, LoadError> {
        let negative = self.accept('-');
        let operand = match self.peek() {
            Some(Token::Integer(value)) => Operand::Integer(if negative {
                value.wrapping_neg()
            } else {
                value
            }),
            Some(Token::Single(bits)) => Operand::Single(bits ^ (u32::from(negative) << 31)),
            Some(Token::Double(bits)) => Operand::Double(bits ^ (u64::from(negative) << 63)),
            _ => return self.error(format!("{} is not supported as an operand", self.found())),
        };
        self.at += 1;
        Ok(operand)
    }

    /// `{a, b}` or `(a, b)`: one level, as PTX has it.
    fn listed(&mut self, end: char) -> Result<Vec<Operand<'a>>, LoadError> {
        self.at += 1;
        let mut list = Vec::new();
        while !self.accept(end) {
            if !list.is_empty() {
                self.expect(',')?;
            }
            list.push(match self.peek() {
                Some(Token::Word(name)) => {
                    self.at += 1;
                    Operand::Name(name, self.offset()?)
                }
                _ => self.number()?,
            });
        }
        Ok(list)
    }

    fn address(&mut self) -> Result<Operand<'a>, LoadError> {
        self.expect('[')?;
        let operand = match self.peek() {
            Some(Token::Word(name)) => {
                self.at += 1;
                Operand::Address(Some(name), self.offset()?)
            }
            _ => match self.number()? {
                Operand::Integer(value) => Operand::Address(None, value as i64),
                _ => return self.error("an address is a name or an integer"),
            },
        };
        self.expect(']')?;
        Ok(operand)
    }
}
