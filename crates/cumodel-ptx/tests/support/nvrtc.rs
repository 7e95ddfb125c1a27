//! nvrtc and the host's C compiler, where they are installed.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Both compilers, and a folder for what they make.
pub struct Compilers {
    library: PathBuf,
    compile: PathBuf,
    pub folder: tempfile::TempDir,
}

/// The exit code of `compile` when the library cannot be opened.
const NO_LIBRARY: Option<i32> = Some(3);

/// Either the compilers or why they are not there.
pub fn compilers() -> Result<Compilers, String> {
    let folder = tempfile::tempdir().unwrap();
    let compile = folder.path().join("compile");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nvrtc/compile.c");
    match Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&compile)
        .arg(source)
        .arg("-ldl")
        .output()
    {
        Err(error) => return Err(format!("the C compiler `cc` cannot be started: {error}")),
        Ok(made) => succeeded("cc", &made),
    }
    let candidates = match std::env::var_os("C2C_NVRTC") {
        Some(path) => vec![PathBuf::from(path)],
        None => ["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"]
            .map(PathBuf::from)
            .to_vec(),
    };
    let probe = folder.path().join("probe.cu");
    std::fs::write(&probe, "extern \"C\" __global__ void probe() {}\n").unwrap();
    for library in candidates {
        let output = nvrtc(
            &compile,
            &library,
            &probe,
            &folder.path().join("probe.ptx"),
            &[],
        );
        if output.status.code() != NO_LIBRARY {
            succeeded("nvrtc", &output);
            return Ok(Compilers {
                library,
                compile,
                folder,
            });
        }
    }
    Err("libnvrtc cannot be opened; name it with C2C_NVRTC=/path/to/libnvrtc.so.12".to_owned())
}

fn nvrtc(compile: &Path, library: &Path, source: &Path, ptx: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(compile);
    command
        .arg(library)
        .arg(source)
        .arg(ptx)
        .arg("--gpu-architecture=compute_80")
        .args(options);
    // The library opens a second one that lies beside it.
    if let Some(folder) = library
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        command.env("LD_LIBRARY_PATH", folder);
    }
    command.output().unwrap()
}

fn succeeded(what: &str, output: &Output) {
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Compilers {
    /// The PTX of a CUDA C source.
    pub fn ptx(&self, name: &str, source: &str, options: &[&str]) -> String {
        let path = self.folder.path().join(format!("{name}.cu"));
        std::fs::write(&path, source).unwrap();
        let ptx = path.with_extension("ptx");
        succeeded(
            "nvrtc",
            &nvrtc(&self.compile, &self.library, &path, &ptx, options),
        );
        std::fs::read_to_string(ptx).unwrap()
    }

    /// What a C program writes to its standard output.
    pub fn run_c(&self, name: &str, source: &str, options: &[&str], input: &[u8]) -> Vec<u8> {
        let path = self.folder.path().join(format!("{name}.c"));
        std::fs::write(&path, source).unwrap();
        let program = path.with_extension("out");
        succeeded(
            "cc",
            &Command::new("cc")
                .args(options)
                .arg("-o")
                .arg(&program)
                .arg(&path)
                .arg("-lm")
                .output()
                .unwrap(),
        );
        let file = path.with_extension("input");
        std::fs::write(&file, input).unwrap();
        let output = Command::new(program)
            .stdin(std::fs::File::open(file).unwrap())
            .output()
            .unwrap();
        succeeded(name, &output);
        output.stdout
    }
}
