//! Where in the program a call came from.

use std::env;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::path::Path;

use cumodel::Site;

/// Frames that are remembered; the program's own is seldom more than a dozen away.
const DEPTH: usize = 32;

/// The return addresses of the present call, innermost first.
///
/// Cheap: nothing is looked up until [`locate`].
pub fn capture() -> Site {
    let mut frames = [0usize; DEPTH];
    let mut count = 0;
    backtrace::trace(|frame| {
        frames[count] = frame.ip() as usize;
        count += 1;
        count < DEPTH
    });
    Site(frames[..count].into())
}

/// `file:line` of the innermost frame that is the program's own, relative to the current directory where it is inside.
pub fn locate(site: &Site) -> String {
    // Line tables are read one object at a time, and those of the model and of the C library hold no line of the program.
    let skipped = [
        object_of(capture as *const c_void),
        object_of(libc::getpid as *const c_void),
    ];
    for &address in site.0.iter() {
        if skipped.contains(&object_of(address as *const c_void)) {
            continue;
        }
        let mut found = None;
        backtrace::resolve(address as *mut _, |symbol| {
            let place = symbol.filename().zip(symbol.lineno());
            if let Some((file, line)) = place {
                if found.is_none() && is_the_programs(file) {
                    found = Some(format!("{}:{line}", shorten(file)));
                }
            }
        });
        if let Some(place) = found {
            return place;
        }
    }
    "a place without line numbers".to_owned()
}

/// The start of the executable or library that holds a code address.
fn object_of(address: *const c_void) -> Option<usize> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the function accepts any address, and fills the result when it returns something other than 0.
    unsafe {
        (libc::dladdr(address, info.as_mut_ptr()) != 0)
            .then(|| info.assume_init().dli_fbase as usize)
    }
}

/// Is the file neither the model's, nor the standard library's, nor that of a package from a registry?
fn is_the_programs(file: &Path) -> bool {
    const NOT_THE_PROGRAMS: [&str; 6] = [
        "/rustc/",
        "/library/std/",
        "/library/core/",
        "/registry/src/",
        "crates/cumodel",
        "crates/lab/",
    ];
    let path = file.to_string_lossy();
    !NOT_THE_PROGRAMS.iter().any(|part| path.contains(part))
}

fn shorten(file: &Path) -> String {
    let here = env::current_dir().ok();
    here.as_deref()
        .and_then(|here| file.strip_prefix(here).ok())
        .unwrap_or(file)
        .display()
        .to_string()
}
