//! What NVML says of the C2C links. Its library is opened at run time, or is not there.

use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use cudarc::driver::CudaContext;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::Nvml;

use crate::machine::C2c;

/// Reads the fields of the device behind `context`.
///
/// # Errors
/// When there is no NVML, or it knows no C2C links of this device.
pub fn c2c_links(context: &Arc<CudaContext>) -> Result<C2c> {
    let nvml = Nvml::init().context("NVML (libnvidia-ml.so) does not start")?;
    let uuid = context.uuid().context("asking the device for its UUID")?;
    let device = nvml
        .device_by_uuid(uuid_text(&uuid.bytes))
        .context("NVML does not know the device")?;
    let ids = [
        field_id::NVML_FI_DEV_C2C_LINK_COUNT,
        field_id::NVML_FI_DEV_C2C_LINK_GET_STATUS,
        field_id::NVML_FI_DEV_C2C_LINK_GET_MAX_BW,
        field_id::NVML_FI_DEV_C2C_LINK_ERROR_INTR,
        field_id::NVML_FI_DEV_C2C_LINK_ERROR_REPLAY,
        field_id::NVML_FI_DEV_C2C_LINK_POWER_STATE,
    ];
    let samples = device
        .field_values_for(&ids.map(FieldId))
        .context("asking NVML for C2C fields")?;
    let value = |index: usize| match samples.get(index)?.as_ref().ok()?.value.as_ref().ok()? {
        SampleValue::U32(value) => Some(u64::from(*value)),
        SampleValue::U64(value) => Some(*value),
        SampleValue::I64(value) => u64::try_from(*value).ok(),
        _ => None,
    };
    let links = value(0).context("NVML has no C2C fields for this device")?;
    ensure!(links > 0, "NVML counts no C2C links on this device");
    Ok(C2c {
        links,
        status: value(1),
        mb_per_s_of_link: value(2),
        crc_errors: value(3),
        replays: value(4),
        power_state: value(5),
    })
}

/// NVML's way to write what the driver gives as 16 bytes.
fn uuid_text(bytes: &[std::ffi::c_char; 16]) -> String {
    let hex: Vec<String> = bytes
        .iter()
        .map(|&byte| format!("{:02x}", byte as u8))
        .collect();
    let part = |range: std::ops::Range<usize>| hex[range].concat();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        part(0..4),
        part(4..6),
        part(6..8),
        part(8..10),
        part(10..16)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_nvml_writes_it() {
        let bytes: [std::ffi::c_char; 16] = std::array::from_fn(|index| (index * 16) as u8 as _);
        assert_eq!(
            uuid_text(&bytes),
            "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0"
        );
    }
}
