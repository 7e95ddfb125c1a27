//! Loaded modules and their functions.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cumodel::Region;
use slab::Slab;

use crate::state::{index, HANDLE_STRIDE};
use crate::Code;

const FIRST_MODULE: usize = 0x30_0000;
const FIRST_FUNCTION: usize = 0x40_0000;

/// Shared memory of a block, in bytes, that a launch can ask for without [`Function::max_dynamic_shared`] raised
/// (compute capability 8.0).
pub const SHARED_PER_BLOCK: u32 = 48 << 10;
/// The most that it can be raised to (compute capability 8.0).
pub const SHARED_PER_BLOCK_OPTIN: u32 = 163 << 10;

/// A module that a handle stands for.
pub struct Module {
    /// Its code.
    pub ptx: Arc<cumodel_ptx::Module>,
    /// The context that it was loaded in.
    pub context: usize,
    /// The allocation of each of its variables.
    pub globals: Vec<Arc<Region>>,
    /// The device that the PTX was compiled for, such as 80 for compute_80.
    pub target: i32,
    /// The functions that were asked for, by name.
    functions: HashMap<String, usize>,
}

/// A kernel of a module that a handle stands for.
#[derive(Clone)]
pub struct Function {
    /// The handle of its module.
    pub module: usize,
    /// The kernel.
    pub kernel: cumodel_ptx::Kernel,
    /// Its name, for reports.
    pub name: Arc<str>,
    /// The most dynamic shared memory that a launch may ask for, in bytes.
    pub max_dynamic_shared: u32,
    /// The preferred split of shared memory and cache, which changes nothing here.
    pub carveout: i32,
}

/// All modules.
#[derive(Default)]
pub struct Modules {
    modules: Slab<Module>,
    functions: Slab<Function>,
    /// The first bytes of their variables.
    variables: BTreeSet<u64>,
}

impl Modules {
    /// Adds a module, and returns the handle that stands for it.
    pub fn add(
        &mut self,
        ptx: cumodel_ptx::Module,
        context: usize,
        globals: Vec<Arc<Region>>,
        target: i32,
    ) -> usize {
        self.variables
            .extend(globals.iter().map(|region| region.range.start));
        let module = Module {
            ptx: Arc::new(ptx),
            context,
            globals,
            target,
            functions: HashMap::new(),
        };
        FIRST_MODULE + HANDLE_STRIDE * self.modules.insert(module)
    }

    /// The module of a handle.
    pub fn module(&self, handle: usize) -> Result<&Module, Code> {
        index(handle, FIRST_MODULE)
            .and_then(|index| self.modules.get(index))
            .ok_or(Code::InvalidHandle)
    }

    /// Ends a module, and returns it with the handles of its functions, which end with it.
    pub fn remove(&mut self, handle: usize) -> Result<(Module, Vec<usize>), Code> {
        let module = index(handle, FIRST_MODULE)
            .and_then(|index| self.modules.try_remove(index))
            .ok_or(Code::InvalidHandle)?;
        for region in &module.globals {
            self.variables.remove(&region.range.start);
        }
        let functions: Vec<usize> = module.functions.values().copied().collect();
        for &function in &functions {
            if let Some(index) = index(function, FIRST_FUNCTION) {
                self.functions.try_remove(index);
            }
        }
        Ok((module, functions))
    }

    /// Forgets the modules of a context; their memory has ended with it.
    pub fn forget_context(&mut self, context: usize) {
        let theirs: Vec<usize> = self
            .modules
            .iter()
            .filter(|(_, module)| module.context == context)
            .map(|(index, _)| FIRST_MODULE + HANDLE_STRIDE * index)
            .collect();
        for handle in theirs {
            // The handle was found a moment ago.
            let _ = self.remove(handle);
        }
    }

    /// The handle of a kernel of a module; the same one for the same name.
    pub fn find_function(&mut self, handle: usize, name: &str) -> Result<usize, Code> {
        let module = index(handle, FIRST_MODULE)
            .and_then(|index| self.modules.get_mut(index))
            .ok_or(Code::InvalidHandle)?;
        if let Some(&known) = module.functions.get(name) {
            return Ok(known);
        }
        let kernel = module.ptx.kernel(name).ok_or(Code::NotFound)?.clone();
        let function = Function {
            module: handle,
            name: name.into(),
            max_dynamic_shared: SHARED_PER_BLOCK.saturating_sub(kernel.static_shared()),
            carveout: -1,
            kernel,
        };
        let function = FIRST_FUNCTION + HANDLE_STRIDE * self.functions.insert(function);
        module.functions.insert(name.to_owned(), function);
        Ok(function)
    }

    /// The kernel of a handle.
    pub fn function(&mut self, handle: usize) -> Result<&mut Function, Code> {
        index(handle, FIRST_FUNCTION)
            .and_then(|index| self.functions.get_mut(index))
            .ok_or(Code::InvalidHandle)
    }

    /// Is it the first byte of a module's variable? Nobody frees such memory but the module.
    pub fn owns(&self, address: u64) -> bool {
        self.variables.contains(&address)
    }
}
