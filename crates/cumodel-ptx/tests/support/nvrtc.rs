//! nvrtc and the host's C compiler, where they are installed.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

/// Both compilers, and a folder for what the host's makes.
pub struct Compilers {
    folder: tempfile::TempDir,
}

/// Either the compilers or why they are not there.
pub fn compilers() -> Result<Compilers, String> {
    if let Err(error) = Command::new("cc").arg("--version").output() {
        return Err(format!("the C compiler `cc` cannot be started: {error}"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match xtask::nvrtc::load(&root).unwrap() {
        Some(reason) => Err(reason),
        None => Ok(Compilers {
            folder: tempfile::tempdir().unwrap(),
        }),
    }
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
    pub fn ptx(&self, source: &str, options: &[&str]) -> String {
        xtask::nvrtc::compile(source, options).unwrap()
    }

    /// What a C program writes to its standard output.
    pub fn run_c(&self, name: &str, source: &str, options: &[&str], input: &[u8]) -> Vec<u8> {
        let path = self.folder.path().join(format!("{name}.c"));
        fs::write(&path, source).unwrap();
        let program = path.with_extension("out");
        let made = Command::new("cc")
            .args(options)
            .arg("-o")
            .args([&program, &path])
            .arg("-lm")
            .output()
            .unwrap();
        succeeded("cc", &made);
        let file = path.with_extension("input");
        fs::write(&file, input).unwrap();
        let output = Command::new(program)
            .stdin(File::open(file).unwrap())
            .output()
            .unwrap();
        succeeded(name, &output);
        output.stdout
    }
}
