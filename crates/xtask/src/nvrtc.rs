//! Finds nvrtc, NVIDIA's compiler of CUDA C, which only those need who change a kernel or compile one at run time.
//!
//! It comes as the package `nvidia-cuda-nvrtc-cu12` of PyPI, for a machine without a GPU as well:
//! `pip install --target target/nvrtc nvidia-cuda-nvrtc-cu12==12.8.93`.

use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context, Result};
use cudarc::nvrtc::{self, CompileOptions};

/// The file of nvrtc 12.
const LIBRARY: &str = "libnvrtc.so.12";
/// Where the package keeps it.
const IN_PACKAGE: &str = "nvidia/cuda_nvrtc/lib";
/// The version that the committed PTX is from: another one may write other text.
pub const VERSION: (i32, i32) = (12, 8);

/// The folder of nvrtc: the one that `C2C_NVRTC` names, the one that CI installs below cargo's target folder, or the one
/// that Python knows.
///
/// # Errors
/// When `C2C_NVRTC` names a folder without it.
pub fn find(root: &Path) -> Result<Option<PathBuf>> {
    if let Some(named) = env::var_os("C2C_NVRTC") {
        let named = PathBuf::from(named);
        for folder in [named.clone(), named.join(IN_PACKAGE)] {
            if folder.join(LIBRARY).exists() {
                return Ok(Some(folder));
            }
        }
        anyhow::bail!("C2C_NVRTC={} holds no {LIBRARY}", named.display());
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let installed = target.join("nvrtc").join(IN_PACKAGE);
    if installed.join(LIBRARY).exists() {
        return Ok(Some(installed));
    }
    // Without Python, or without the package, there is nothing to find.
    let asked = Command::new("python3")
        .args([
            "-c",
            "import nvidia.cuda_nvrtc as it; print(it.__path__[0])",
        ])
        .output()
        .ok()
        .filter(|output| output.status.success());
    let folder = asked
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|path| Path::new(path.trim()).join("lib"));
    Ok(folder.filter(|folder| folder.join(LIBRARY).exists()))
}

/// Opens the library of `folder`, so that cudarc finds it by its name.
///
/// # Errors
/// When it cannot be opened, or is of another version than [`VERSION`].
fn open(folder: &Path) -> Result<()> {
    let path = folder.join(LIBRARY);
    let name = CString::new(path.as_os_str().as_bytes()).context("the path holds a NUL")?;
    // SAFETY: loading nvrtc runs its initializers, which touch nothing of ours; it stays loaded.
    let opened = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    ensure!(!opened.is_null(), "{} cannot be opened", path.display());
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both out-pointers are valid.
    unsafe { nvrtc::sys::nvrtcVersion(&mut major, &mut minor) }
        .result()
        .with_context(|| format!("asking {} for its version", path.display()))?;
    ensure!(
        (major, minor) == VERSION,
        "{} is nvrtc {major}.{minor}, and the kernels are compiled by {}.{}",
        path.display(),
        VERSION.0,
        VERSION.1
    );
    Ok(())
}

/// Finds nvrtc and opens it; otherwise the reason why what needs it is waived.
///
/// # Errors
/// When `C2C_NVRTC` names a folder without it.
pub fn load(root: &Path) -> Result<Option<String>> {
    let Some(folder) = find(root)? else {
        let why = "nvrtc was not found; `pip install --target target/nvrtc nvidia-cuda-nvrtc-cu12==12.8.93` installs it";
        return Ok(Some(why.to_owned()));
    };
    Ok(open(&folder).err().map(|error| format!("{error:#}")))
}

/// The PTX of CUDA C for compute_80, with further options of nvrtc; [`load`] comes first.
///
/// # Errors
/// When nvrtc refuses the source.
pub fn compile(source: &str, options: &[&str]) -> Result<String> {
    let options = CompileOptions {
        arch: Some("compute_80"),
        options: options.iter().map(|&option| option.to_owned()).collect(),
        ..Default::default()
    };
    let ptx = nvrtc::compile_ptx_with_opts(source, options)?.to_src();
    Ok(ptx.trim_end_matches('\0').to_owned())
}
