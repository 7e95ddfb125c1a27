//! The committed PTX of `lab`'s kernels is what nvrtc makes of the CUDA C beside it.

use std::fs;

use anyhow::{ensure, Result};
use xtask::files::File;
use xtask::kernels::{self, Compiled};

#[test]
fn the_ptx_is_that_of_the_source() -> Result<()> {
    let root = proofs::root();
    let files = match kernels::compile(&root)? {
        Compiled::Files(files) => files,
        Compiled::Waived(why) => {
            println!("waived: whether the PTX of the kernels is current: {why}");
            return Ok(());
        }
    };
    let names: Vec<String> = lab::kernels::ALL
        .iter()
        .map(|(name, _)| format!("crates/lab/kernels/{name}.ptx"))
        .collect();
    for file in &files {
        ensure!(names.contains(&file.path), "nobody uses {}", file.path);
    }
    ensure!(files.len() == names.len(), "a kernel has no source");
    let stale = kernels::stale(&root, &files)?;
    ensure!(
        stale.is_empty(),
        "stale: {}; `cargo xtask bless` compiles them again",
        stale.join(", ")
    );
    Ok(())
}

/// A planted fault: a file that holds something else than it should.
#[test]
fn a_stale_file_is_found() -> Result<()> {
    let root = tempfile::tempdir()?;
    fs::write(root.path().join("old.ptx"), "old")?;
    let file = |path: &str, content: &str| File {
        path: path.to_owned(),
        content: Some(content.to_owned()),
    };
    let files = [
        file("old.ptx", "new"),
        file("old.ptx", "old"),
        file("gone.ptx", "new"),
    ];
    ensure!(kernels::stale(root.path(), &files)? == ["old.ptx", "gone.ptx"]);
    Ok(())
}
