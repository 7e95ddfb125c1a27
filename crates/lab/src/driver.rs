//! Which driver serves this process: a listing cannot see it, so it is said and checked.

use std::env;
use std::ffi::{c_char, CStr};

use anyhow::{bail, Context, Result};
use cudarc::driver::{result, sys};

use crate::watchdog;

/// The driver that answers cudarc's calls in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The model of this repository; no GPU is involved.
    Model {
        /// The version of the model, for example `0.1.0`.
        version: String,
    },
    /// NVIDIA's driver, on a real device.
    Nvidia {
        /// The newest CUDA version that the driver supports, for example `13.0`.
        version: String,
    },
}

/// Asks the driver library that cudarc has opened, or opens now, what it is.
///
/// # Errors
/// When there is no driver library to open, or NVIDIA's driver does not tell its version.
pub fn driver() -> Result<Driver> {
    // SAFETY: opening a driver library runs its initializers, which touch nothing of ours.
    if !unsafe { sys::is_culib_present() } {
        bail!(
            "no CUDA driver was found: start a listing with `cargo run --example NAME`, \
             which brings the model where there is no GPU"
        );
    }
    // SAFETY: as above; the library was just found, so this does not panic.
    let library = unsafe { sys::culib() };
    type Version = unsafe extern "C" fn() -> *const c_char;
    // SAFETY: only the model exports this name, and it exports it with this type.
    if let Ok(version) = unsafe { library.get::<Version>(b"cumodel_version\0") } {
        // SAFETY: the model returns a string that ends in zero and is never freed.
        let version = unsafe { CStr::from_ptr(version()) };
        return Ok(Driver::Model {
            version: version.to_string_lossy().into_owned(),
        });
    }
    let mut number = 0;
    // SAFETY: the call writes one integer, and it may be made before cuInit.
    unsafe { sys::cuDriverGetVersion(&mut number) }
        .result()
        .context("asking NVIDIA's driver for its version")?;
    Ok(Driver::Nvidia {
        version: format!("{}.{}", number / 1000, number % 1000 / 10),
    })
}

/// Says on stderr which driver serves the process, and starts the time limit if one is set.
///
/// Every listing begins with this, so that a run always shows what it ran on.
/// `C2C_TIME_LIMIT=<seconds>` ends the process with exit code 124 when it takes longer.
///
/// # Errors
/// When there is no driver, when it is not the one that `C2C_DRIVER` demands, or when the time
/// limit is not a number of seconds.
pub fn announce() -> Result<()> {
    watchdog::start()?;
    let driver = driver()?;
    let demanded = env::var("C2C_DRIVER").unwrap_or_default();
    match &driver {
        Driver::Model { .. } if demanded == "gpu" => {
            bail!("C2C_DRIVER=gpu, but the model answers: take its folder off LD_LIBRARY_PATH")
        }
        Driver::Nvidia { .. } if demanded == "model" => {
            bail!("C2C_DRIVER=model, but NVIDIA's driver answers: run this through scripts/with-driver")
        }
        Driver::Model { version } => {
            let schedule = env::var("CUMODEL_SCHEDULE").unwrap_or_else(|_| "last".into());
            eprintln!("driver: model {version}, schedule {schedule}");
        }
        Driver::Nvidia { version } => eprintln!("driver: NVIDIA {version}, {}", device_name()?),
    }
    Ok(())
}

fn device_name() -> Result<String> {
    result::init().context("starting NVIDIA's driver")?;
    let device = result::device::get(0).context("looking for the first CUDA device")?;
    result::device::get_name(device).context("asking the first CUDA device for its name")
}
