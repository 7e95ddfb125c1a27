//! Which driver this run of the tests must prove the listings on.

use std::env;

use anyhow::{bail, Result};
use xtask::record::Driver;

/// What `scripts/with-driver` chose for this process, and its name for people.
///
/// # Errors
/// When there is no driver, or another one than `C2C_DRIVER` asks for.
pub fn chosen() -> Result<(Driver, String)> {
    let asked = env::var("C2C_DRIVER").unwrap_or_default();
    agree(&asked, &lab::driver()?)
}

/// The driver `got`, if it is the one that `asked` asks for, and its name for people.
///
/// # Errors
/// When it is not.
pub fn agree(asked: &str, got: &lab::Driver) -> Result<(Driver, String)> {
    match (asked, got) {
        ("gpu", lab::Driver::Model { .. }) => bail!("C2C_DRIVER=gpu, but the tests got the model"),
        ("model", lab::Driver::Nvidia { .. }) => {
            bail!("C2C_DRIVER=model, but the tests got NVIDIA's driver")
        }
        (_, lab::Driver::Model { version }) => {
            Ok((Driver::Model, format!("the model {version}, not a GPU")))
        }
        (_, lab::Driver::Nvidia { version }) => Ok((
            Driver::Gpu,
            format!("NVIDIA's driver for CUDA {version}, a GPU"),
        )),
    }
}
