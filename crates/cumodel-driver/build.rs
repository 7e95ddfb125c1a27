//! Gives every driver function that the model does not implement a body that says so.
//!
//! `symbols.txt` lists the functions that cudarc binds; a function counts as implemented when `src/abi/` defines it.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo:rerun-if-changed=symbols.txt");
    println!("cargo:rerun-if-changed=src/abi");
    let mut implemented = BTreeSet::new();
    for file in fs::read_dir("src/abi")? {
        for line in fs::read_to_string(file?.path())?.lines() {
            if let Some((_, rest)) = line.split_once("extern \"C\" fn cu") {
                let name = rest.split('(').next().unwrap_or_default();
                implemented.insert(format!("cu{name}"));
            }
        }
    }
    let mut bodies = String::new();
    for name in fs::read_to_string("symbols.txt")?.lines() {
        if !implemented.contains(name) {
            bodies.push_str(&format!(
                "/// Not modelled: returns 801.\n#[no_mangle]\npub extern \"C\" fn {name}() -> u32 {{ not_modelled({name:?}) }}\n"
            ));
        }
    }
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(Path::new(&out).join("unmodelled.rs"), bodies)
}
