//! A loaded module: its kernels and variables.
use crate::{Executed, Launch, Memory, Stopped};

/// PTX that cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("PTX line {line}: {problem}")]
pub struct LoadError {
    /// The line of the text, from 1.
    pub line: u32,
    /// One sentence that names the instruction.
    pub problem: String,
}

/// One parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Bytes from the start of the parameter block.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Bytes.
    pub align: usize,
}

/// An entry point.
#[derive(Debug, Clone)]
pub struct Kernel {
    name: String,
    params: Vec<Param>,
}

impl Kernel {
    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Bytes of the whole parameter block.
    pub fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |last| last.offset + last.size)
    }

    /// Bytes of shared memory that it declares itself.
    pub fn static_shared(&self) -> u32 {
        0
    }

    /// Bytes of local memory of one thread.
    pub fn local_bytes(&self) -> u32 {
        0
    }

    /// 32-bit registers of one thread, as declared in the PTX (an assembler would need fewer).
    pub fn registers(&self) -> u32 {
        0
    }

    /// The largest number of threads in a block: from `.maxntid` or `.reqntid`, else 1024.
    pub fn max_threads(&self) -> u32 {
        1024
    }
}

/// A variable of the module: the caller gives it an address before a launch.
#[derive(Debug, Clone)]
pub struct Global {
    name: String,
    size: usize,
    align: usize,
    constant: bool,
}

impl Global {
    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The address must be a multiple of this.
    pub fn align(&self) -> usize {
        self.align
    }

    /// In constant memory.
    pub fn is_constant(&self) -> bool {
        self.constant
    }
}

/// PTX, decoded.
#[derive(Debug)]
pub struct Module {
    kernels: Vec<Kernel>,
    globals: Vec<Global>,
}

impl Module {
    /// Parses and decodes PTX text. A final zero byte, as C strings have, is the caller's to cut off.
    ///
    /// # Errors
    /// The first line that is not PTX, or that is not supported.
    pub fn load(text: &str) -> Result<Module, LoadError> {
        let _ = text;
        Ok(Module {
            kernels: Vec::new(),
            globals: Vec::new(),
        })
    }

    /// The entry points in the order of the text.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The entry point of this name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The variables of global and constant memory, in the order of the text.
    pub fn globals(&self) -> &[Global] {
        &self.globals
    }

    /// What a variable holds before the first launch: its [`Global::size`] bytes.
    /// `addresses` are those of all [`Module::globals`], because a variable may hold the address of another.
    pub fn initial_bytes(&self, global: usize, addresses: &[u64]) -> Vec<u8> {
        let _ = addresses;
        vec![0; self.globals[global].size]
    }

    /// Executes one launch to its end.
    ///
    /// # Errors
    /// [`Stopped`] says where, why, and what had been done until then.
    pub fn run(
        &self,
        kernel: &Kernel,
        launch: &Launch<'_>,
        memory: &dyn Memory,
    ) -> Result<Executed, Box<Stopped>> {
        let _ = (kernel, launch, memory);
        Ok(Executed::default())
    }
}
