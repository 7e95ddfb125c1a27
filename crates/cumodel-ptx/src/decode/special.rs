//! The registers that PTX defines itself.
use super::form::Problem;
use crate::code::{Op, Reg};
use crate::exec::lanes::{set, whole, Frame};

/// The bits of a special register; `None` if there is none of this name.
pub(crate) fn bits(name: &str) -> Option<u32> {
    Some(match name.strip_prefix('%')?.split('.').next()? {
        "tid" | "ntid" | "ctaid" | "nctaid" if name.contains('.') => 32,
        "laneid" | "warpid" | "nwarpid" | "smid" | "nsmid" => 32,
        "lanemask_eq" | "lanemask_le" | "lanemask_lt" | "lanemask_ge" | "lanemask_gt" => 32,
        "dynamic_smem_size" | "total_smem_size" | "clock" | "clock_hi" => 32,
        "gridid" | "clock64" | "globaltimer" | "globaltimer_lo" | "globaltimer_hi" => 64,
        _ => return None,
    })
}

/// Reads a special register into `d`.
pub(crate) fn read(d: Reg, name: &str) -> Result<Op, Problem> {
    let (base, axis) = name.split_once('.').unwrap_or((name, ""));
    let axis = match axis {
        "x" | "" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        "w" => None,
        _ => return Err(format!("there is no special register `{name}`")),
    };
    fn value(
        d: Reg,
        f: impl Fn(&Frame<'_>, usize) -> u64 + Send + Sync + 'static,
    ) -> Result<Op, Problem> {
        Ok(whole(move |frame, mask| {
            let values: [u64; 32] = std::array::from_fn(|lane| f(frame, lane));
            set(&mut frame.regs[d as usize], mask, |lane| values[lane]);
        }))
    }
    let Some(axis) = axis else {
        // The fourth component is there for the form's sake: 0, or 1 for a size.
        let fourth = u64::from(base.starts_with("%n"));
        return value(d, move |_, _| fourth);
    };
    match base {
        "%tid" => value(d, move |frame, lane| u64::from(frame.place.tid[axis][lane])),
        "%ntid" => value(d, move |frame, _| u64::from(frame.place.ntid[axis])),
        "%ctaid" => value(d, move |frame, _| u64::from(frame.place.ctaid[axis])),
        "%nctaid" => value(d, move |frame, _| u64::from(frame.place.nctaid[axis])),
        "%laneid" => value(d, |_, lane| lane as u64),
        "%warpid" => value(d, |frame, _| u64::from(frame.place.warp)),
        "%nwarpid" => value(d, |frame, _| u64::from(frame.place.warps)),
        // One multiprocessor that runs everything.
        "%smid" => value(d, |_, _| 0),
        "%nsmid" => value(d, |_, _| 1),
        "%gridid" => value(d, |_, _| 1),
        "%lanemask_eq" => value(d, |_, lane| 1 << lane),
        "%lanemask_le" => value(d, |_, lane| (2u64 << lane) - 1),
        "%lanemask_lt" => value(d, |_, lane| (1u64 << lane) - 1),
        "%lanemask_ge" => value(d, |_, lane| u64::from(u32::MAX << lane)),
        "%lanemask_gt" => value(d, |_, lane| {
            u64::from(u32::MAX.checked_shl(lane as u32 + 1).unwrap_or(0))
        }),
        "%dynamic_smem_size" => value(d, |frame, _| u64::from(frame.place.dynamic_shared)),
        "%total_smem_size" => value(d, |frame, _| u64::from(frame.place.total_shared)),
        "%clock" => value(d, |frame, _| frame.place.clock & 0xffff_ffff),
        "%clock_hi" => value(d, |frame, _| frame.place.clock >> 32),
        "%clock64" => value(d, |frame, _| frame.place.clock),
        _ => Err(format!(
            "special register `{name}` is not supported: time is not modelled"
        )),
    }
}
