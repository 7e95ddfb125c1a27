//! What the parser finds: names are slices of the text, nothing is resolved yet.

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct File<'a> {
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
}

/// `.entry` or `.func`.
#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub(crate) line: u32,
    pub(crate) name: &'a str,
    pub(crate) entry: bool,
    pub(crate) returns: Vec<Variable<'a>>,
    pub(crate) params: Vec<Variable<'a>>,
    /// From `.maxntid` or `.reqntid`: threads of a block.
    pub(crate) max_threads: Option<u32>,
    /// Missing in a forward declaration.
    pub(crate) body: Option<Vec<Statement<'a>>>,
}

/// A declaration of memory.
#[derive(Debug, Clone)]
pub(crate) struct Variable<'a> {
    pub(crate) line: u32,
    pub(crate) name: &'a str,
    /// `.global`, `.const`, `.shared`, `.local`, `.param`, `.reg`: without the dot.
    pub(crate) space: &'a str,
    pub(crate) external: bool,
    pub(crate) align: usize,
    /// Of one element; vector types count as one element.
    pub(crate) element: usize,
    /// Elements; `None` for `[]`.
    pub(crate) count: Option<usize>,
    pub(crate) initial: Vec<Initial<'a>>,
}

impl Variable<'_> {
    pub(crate) fn size(&self) -> usize {
        self.element * self.count.unwrap_or(0)
    }
}

/// One element of an initialiser.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Initial<'a> {
    /// Little-endian, cut to the element.
    Bits(u64),
    /// The address of a symbol, and `true` if a generic one was asked for.
    Address { name: &'a str, offset: i64 },
}

/// A line of a body.
#[derive(Debug)]
pub(crate) enum Statement<'a> {
    Instruction(Instruction<'a>),
    Label(u32, &'a str),
    /// `.reg .b32 %r<3>`: name, type, how many (`None`: the name itself).
    Register {
        line: u32,
        name: &'a str,
        ty: &'a str,
        count: Option<u32>,
    },
    Variable(Variable<'a>),
    Block(Vec<Statement<'a>>),
    /// `name: .branchtargets a, b`.
    Targets {
        line: u32,
        name: &'a str,
        labels: Vec<&'a str>,
    },
}

/// One instruction.
#[derive(Debug, Clone)]
pub(crate) struct Instruction<'a> {
    pub(crate) line: u32,
    /// As it is written.
    pub(crate) text: &'a str,
    /// A predicate's name, and whether it is negated.
    pub(crate) guard: Option<(&'a str, bool)>,
    pub(crate) mnemonic: &'a str,
    pub(crate) modifiers: Vec<&'a str>,
    pub(crate) operands: Vec<Operand<'a>>,
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand<'a> {
    /// A register, variable, label or function, with an offset for `name+4`.
    Name(&'a str, i64),
    Integer(u64),
    Single(u32),
    Double(u64),
    /// `!%p1`
    Not(&'a str),
    /// `%p1|%p2`
    Pair(&'a str, &'a str),
    /// `[name+4]` or `[4]`
    Address(Option<&'a str>, i64),
    /// `{%r1, %r2}`
    Vector(Vec<Operand<'a>>),
    /// `(a, b)` of a call
    List(Vec<Operand<'a>>),
}
