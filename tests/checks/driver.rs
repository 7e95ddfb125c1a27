//! Which driver this run of the tests must prove the listings on.

use std::env;

use anyhow::{bail, Result};
use xtask::record::Driver;

/// What `scripts/with-driver` chose for this process, which must be what `C2C_DRIVER` asks for.
///
/// # Errors
/// When there is no driver, or another one than asked for.
pub fn chosen() -> Result<Driver> {
    let asked = env::var("C2C_DRIVER").unwrap_or_default();
    match (lab::driver()?, asked.as_str()) {
        (lab::Driver::Model { .. }, "gpu") => bail!("C2C_DRIVER=gpu, but the tests got the model"),
        (lab::Driver::Nvidia { .. }, "model") => {
            bail!("C2C_DRIVER=model, but the tests got NVIDIA's driver")
        }
        (lab::Driver::Model { .. }, _) => Ok(Driver::Model),
        (lab::Driver::Nvidia { .. }, _) => Ok(Driver::Gpu),
    }
}
