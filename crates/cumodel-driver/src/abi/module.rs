//! Modules: PTX in, kernels and variables out.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::fs;
use std::sync::Arc;

use cumodel::Region;

use super::{call, give, give_if_wanted, Call, Handle};
use crate::assertion;
use crate::site::capture;
use crate::Code;

/// The first bytes of a CUDA binary, which is an ELF file.
const ELF: &[u8] = b"\x7fELF";
/// The first bytes of a bundle of binaries.
const FATBIN: &[u8] = b"\x50\xed\x55\xba";

/// Where a caller wants to read why PTX was refused (CU_JIT_ERROR_LOG_BUFFER and its size).
struct ErrorLog {
    buffer: *mut u8,
    bytes: usize,
}

/// Loads a module from PTX text that ends with a NUL.
///
/// PTX that is malformed or not supported gives 218, a binary for a GPU 209, anything else 200.
#[no_mangle]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> u32 {
    call("cuModuleLoadData", |call| {
        // SAFETY: by the manual, the image is one of those that `image_text` accepts or refuses.
        let text = unsafe { call.image_text(image) }?;
        let handle = call.load_module(&text, None)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(module, handle) }
    })
}

/// The same with options for the compiler, of which the buffer for errors matters here (options 5 and 6).
#[no_mangle]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_void,
    count: c_uint,
    options: *const c_int,
    values: *const *mut c_void,
) -> u32 {
    call("cuModuleLoadDataEx", |call| {
        if count > 0 && (options.is_null() || values.is_null()) {
            let why = "there are options, and one of their lists is null";
            return Err(call.refuse(Code::InvalidValue, why));
        }
        // SAFETY: by the manual, both lists have `count` entries, and the buffer for errors has the size that goes with it.
        let log = unsafe { error_log(count as usize, options, values) };
        // SAFETY: by the manual, the image is one of those that `image_text` accepts or refuses.
        let text = unsafe { call.image_text(image) }?;
        let handle = call.load_module(&text, log)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(module, handle) }
    })
}

/// Loads a module from a file of PTX text.
#[no_mangle]
pub unsafe extern "C" fn cuModuleLoad(module: *mut Handle, path: *const c_char) -> u32 {
    call("cuModuleLoad", |call| {
        if path.is_null() {
            return Err(call.refuse(Code::InvalidValue, "the path is null"));
        }
        // SAFETY: by the manual, the path ends with a NUL.
        let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
        let mut bytes = fs::read(&*path).map_err(|error| {
            let why = format!("{path} cannot be read: {error}");
            call.refuse(Code::FileNotFound, &why)
        })?;
        call.refuse_binaries(&bytes)?;
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        let text = call.as_text(bytes)?;
        let handle = call.load_module(&text, None)?;
        // SAFETY: the manual's requirement on the out-pointer.
        unsafe { give(module, handle) }
    })
}

/// Ends a module, its functions and its variables; a kernel that is pending must not use them any more (H04).
#[no_mangle]
pub unsafe extern "C" fn cuModuleUnload(module: Handle) -> u32 {
    call("cuModuleUnload", |call| {
        call.unsafe_during_capture()?;
        match call.state.modules.remove(module) {
            Ok((ended, functions)) => {
                let name = call.name;
                for region in ended.globals {
                    call.state.free_now(&region, name, capture());
                }
                for function in functions {
                    call.state.bury(function, "function", capture());
                }
                call.state.bury(module, "module", capture());
                Ok(())
            }
            Err(code) => Err(call.refuse_handle(code, module, "module")),
        }
    })
}

/// A kernel of a module, by name; 500 when there is none.
#[no_mangle]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> u32 {
    call("cuModuleGetFunction", |call| {
        // SAFETY: by the manual, the name ends with a NUL.
        let name = unsafe { call.name_of(name) }?;
        match call.state.modules.find_function(module, &name) {
            Ok(handle) => {
                call.state.unbury(handle);
                // SAFETY: the manual's requirement on the out-pointer.
                unsafe { give(function, handle) }
            }
            Err(code @ Code::NotFound) => {
                let why = format!("the module has no kernel `{name}`");
                Err(call.refuse(code, &why))
            }
            Err(code) => Err(call.refuse_handle(code, module, "module")),
        }
    })
}

/// Address and size of a module's variable, by name; 500 when there is none. Either out-pointer may be null.
#[no_mangle]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut u64,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
) -> u32 {
    call("cuModuleGetGlobal_v2", |call| {
        // SAFETY: by the manual, the name ends with a NUL.
        let name = unsafe { call.name_of(name) }?;
        let loaded = match call.state.modules.module(module) {
            Ok(loaded) => loaded,
            Err(code) => return Err(call.refuse_handle(code, module, "module")),
        };
        let globals = loaded.ptx.globals();
        let place = globals.iter().position(|global| global.name() == name);
        let Some(index) = place else {
            let why = format!("the module has no variable `{name}`");
            return Err(call.refuse(Code::NotFound, &why));
        };
        let (start, size) = (loaded.globals[index].range.start, globals[index].size());
        // SAFETY: the manual allows either pointer to be null, and requires it to be valid otherwise.
        unsafe {
            give_if_wanted(address, start);
            give_if_wanted(bytes, size);
        }
        Ok(())
    })
}

/// # Safety
///
/// Both lists have `count` entries, or there are none.
unsafe fn error_log(
    count: usize,
    options: *const c_int,
    values: *const *mut c_void,
) -> Option<ErrorLog> {
    const ERROR_LOG_BUFFER: c_int = 5;
    const ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
    let mut log = ErrorLog {
        buffer: std::ptr::null_mut(),
        bytes: 0,
    };
    for index in 0..count {
        // SAFETY: by the caller's promise.
        let (option, value) = unsafe { (*options.add(index), *values.add(index)) };
        match option {
            ERROR_LOG_BUFFER => log.buffer = value.cast(),
            // The manual passes numbers in the place of pointers.
            ERROR_LOG_BUFFER_SIZE_BYTES => log.bytes = value as usize as c_uint as usize,
            _ => (),
        }
    }
    (!log.buffer.is_null() && log.bytes > 0).then_some(log)
}

impl ErrorLog {
    /// Writes a sentence, cut to the size of the buffer, and a NUL.
    fn write(&self, sentence: &str) {
        let length = sentence.len().min(self.bytes - 1);
        // SAFETY: by the manual, the buffer has the size that was passed with it, which is at least 1.
        unsafe {
            self.buffer
                .copy_from_nonoverlapping(sentence.as_ptr(), length);
            self.buffer.add(length).write(0);
        }
    }
}

impl Call {
    /// # Safety
    ///
    /// `image` is null, starts with the mark of a binary, or ends with a NUL.
    unsafe fn image_text(&mut self, image: *const c_void) -> Result<String, Code> {
        if image.is_null() {
            return Err(self.refuse(Code::InvalidValue, "the image is null"));
        }
        let mut start = Vec::new();
        for index in 0..ELF.len() {
            // SAFETY: no byte before this one was the NUL at the end, and binaries are longer than their mark.
            let byte = unsafe { *image.cast::<u8>().add(index) };
            if byte == 0 {
                break;
            }
            start.push(byte);
        }
        self.refuse_binaries(&start)?;
        // SAFETY: it is no binary, so it is text that ends with a NUL.
        let text = unsafe { CStr::from_ptr(image.cast()) };
        self.as_text(text.to_bytes().to_vec())
    }

    fn refuse_binaries(&self, image: &[u8]) -> Result<(), Code> {
        let what = if image.starts_with(ELF) {
            "a CUDA binary (cubin)"
        } else if image.starts_with(FATBIN) {
            "a bundle of CUDA binaries (fatbin)"
        } else {
            return Ok(());
        };
        let why = format!("the image is {what}, and the model runs PTX text only: compile to PTX");
        Err(self.refuse(Code::NoBinaryForGpu, &why))
    }

    fn as_text(&self, bytes: Vec<u8>) -> Result<String, Code> {
        String::from_utf8(bytes).map_err(|_| {
            let why = "the image is neither PTX text nor a binary that the model knows";
            self.refuse(Code::InvalidImage, why)
        })
    }

    fn load_module(&mut self, text: &str, log: Option<ErrorLog>) -> Result<Handle, Code> {
        let owner = self.owner()?;
        self.unsafe_during_capture()?;
        let loaded = cumodel_ptx::Module::load(&assertion::link(text)).map_err(|error| {
            let why = error.to_string();
            if let Some(log) = log {
                log.write(&why);
            }
            self.refuse(Code::InvalidPtx, &why)
        })?;
        let mut globals: Vec<Arc<Region>> = Vec::with_capacity(loaded.globals().len());
        for global in loaded.globals() {
            match self.allocate_device(global.size(), None, owner) {
                Ok(region) => globals.push(region),
                Err(code) => {
                    let name = self.name;
                    for region in globals {
                        self.state.free_now(&region, name, capture());
                    }
                    return Err(code);
                }
            }
        }
        let addresses: Vec<u64> = globals.iter().map(|region| region.range.start).collect();
        for (global, region) in loaded.globals().iter().zip(&globals) {
            let bytes = global.initial_bytes(&addresses);
            self.state.memory.write(region, &bytes);
            self.state.engine.initialize(region);
        }
        let handle = self
            .state
            .modules
            .add(loaded, owner.context, globals, target(text));
        self.state.unbury(handle);
        Ok(handle)
    }

    /// # Safety
    ///
    /// `name` is null or ends with a NUL.
    unsafe fn name_of(&self, name: *const c_char) -> Result<String, Code> {
        if name.is_null() {
            return Err(self.refuse(Code::InvalidValue, "the name is null"));
        }
        // SAFETY: by the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(name.to_string_lossy().into_owned())
    }
}

/// The architecture that a PTX text names, such as 80 for `.target sm_80`.
fn target(text: &str) -> c_int {
    let named = text.lines().find_map(|line| {
        line.trim_start()
            .strip_prefix(".target")?
            .trim()
            .strip_prefix("sm_")
    });
    let digits = named.map(|name| {
        let end = name.find(|c: char| !c.is_ascii_digit());
        &name[..end.unwrap_or(name.len())]
    });
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_a_number_however_it_is_written() {
        assert_eq!(target(".version 8.7\n.target sm_80\n"), 80);
        assert_eq!(target("\t.target sm_90a, debug"), 90);
        assert_eq!(target("nothing"), 0);
    }
}
