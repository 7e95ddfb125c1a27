//! Two questions tell what "pinned" means on this machine: attribute 100, and Linux's own counters.
//! hazard: none
//! stdout: of the machine

use anyhow::Result;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use cudarc::driver::CudaContext;
use lab::{locked_bytes, pinned_bytes, Pageable, VmStat};

/// 4 MiB of values: many times what the counters can lag behind.
const LEN: usize = 1 << 20;

// ANCHOR: idea
/// What Linux knows about memory that was pinned between two moments.
struct Seen {
    /// Pages that Linux pinned, on the whole machine, and has not released.
    pages_pinned: Option<i64>,
    /// Bytes of this process that are charged as pinned and as locked.
    charged: [u64; 2],
}

/// Runs `pin` and looks at the counters before and after it.
fn watch<T>(pin: impl FnOnce() -> Result<T>) -> Result<(T, Seen)> {
    let (pinned, locked, machine) = (pinned_bytes()?, locked_bytes()?, VmStat::now()?);
    let kept = pin()?;
    let now = VmStat::now()?;
    let acquired = now.rise(&machine, "nr_foll_pin_acquired");
    let released = now.rise(&machine, "nr_foll_pin_released");
    let seen = Seen {
        pages_pinned: acquired
            .zip(released)
            .map(|(acquired, released)| acquired - released),
        charged: [pinned_bytes()? - pinned, locked_bytes()? - locked],
    };
    Ok((kept, seen))
}
// ANCHOR_END: idea

fn main() -> Result<()> {
    lab::announce()?;
    let ctx = CudaContext::new(0)?;
    let ats = Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    println!("attribute 100: {}", ctx.attribute(ats)?);

    // SAFETY: the buffer is not read, and u32 may have any value.
    let (allocated, seen) = watch(|| Ok(unsafe { ctx.alloc_pinned_with_flags::<u32>(LEN, 0)? }))?;
    print("cuMemHostAlloc", &seen);
    drop(allocated);

    let mut buffer = Pageable::<u32>::untouched(LEN)?;
    let start = buffer.as_mut_ptr().cast();
    // SAFETY: the buffer outlives the registration, which ends below.
    let register =
        || unsafe { sys::cuMemHostRegister_v2(start, LEN * size_of::<u32>(), 0).result() };
    let ((), seen) = watch(|| Ok(register()?))?;
    print("cuMemHostRegister", &seen);
    // SAFETY: the range was registered above, and no operation uses it.
    unsafe { sys::cuMemHostUnregister(start).result()? };
    Ok(())
}

fn print(call: &str, seen: &Seen) {
    let pages = LEN * size_of::<u32>() / lab::page_size();
    let pinned = match seen.pages_pinned {
        // Other programs pin and release meanwhile, and the counters lag.
        Some(count) => format!("{:.1} pins per page", count.max(0) as f64 / pages as f64),
        None => "this Linux does not count pins".to_owned(),
    };
    let [pinned_kib, locked_kib] = seen.charged.map(|bytes| bytes >> 10);
    println!(
        "{call}: {pinned}; charged to the process: VmPin {pinned_kib} KiB, VmLck {locked_kib} KiB"
    );
}
