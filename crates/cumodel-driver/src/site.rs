//! Where in the program a call came from.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::env;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::path::Path;

use cumodel::Site;

/// Frames that are remembered; the program's own is seldom more than a dozen away.
const DEPTH: usize = 32;

/// The return addresses of the present call, innermost first.
///
/// Nothing is looked up until [`locate`].
/// Unwinding costs microseconds, and most calls come from the same places, so a thread keeps what it has found: a call
/// chain that starts at the same stack address and finds the same return addresses in the same places is the same.
#[inline(never)]
pub fn capture() -> Site {
    let marker = 0u8;
    let stack = std::ptr::from_ref(&marker) as usize;
    let remembered = KNOWN.try_with(|known| {
        let mut known = known.borrow_mut();
        let same = known
            .iter()
            .find(|known| known.stack == stack && known.still_holds());
        if let Some(same) = same {
            return same.site.clone();
        }
        if known.len() == KEPT {
            known.pop_back();
        }
        let new = Known::unwind(stack);
        let site = new.site.clone();
        known.push_front(new);
        site
    });
    // While the thread ends there is nothing to remember in.
    remembered.unwrap_or_else(|_| Known::unwind(stack).site)
}

/// How many call chains a thread keeps: a loop has few calls.
const KEPT: usize = 32;

thread_local! {
    static KNOWN: RefCell<VecDeque<Known>> = const { RefCell::new(VecDeque::new()) };
}

/// A call chain that has been unwound.
struct Known {
    /// Where on the stack the chain started.
    stack: usize,
    /// Where on the stack each return address was found; empty when that is not known.
    found: Vec<(usize, usize)>,
    site: Site,
}

impl Known {
    fn unwind(stack: usize) -> Known {
        let mut frames = [0usize; DEPTH];
        let mut found = Vec::new();
        let mut count = 0;
        let mut complete = cfg!(target_arch = "x86_64");
        backtrace::trace(|frame| {
            let address = frame.ip() as usize;
            if address == 0 {
                // Past the first function of the thread.
                return false;
            }
            frames[count] = address;
            count += 1;
            // On x86_64 the return address into a frame lies just below that frame's part of the stack. What lies below
            // the start of the chain belongs to the unwinder.
            let place = (frame.sp() as usize).wrapping_sub(size_of::<usize>());
            if place > stack {
                // SAFETY: the place is on this thread's stack, above the frames in use, if it is where it should be:
                // aligned, and no further from the start of the chain than a stack is large.
                let holds = place - stack < MAX_SPAN
                    && place.is_multiple_of(size_of::<usize>())
                    && unsafe { (place as *const usize).read() } == address;
                complete &= holds;
                found.push((place, address));
            }
            count < DEPTH
        });
        if !complete {
            found.clear();
        }
        Known {
            stack,
            found,
            site: Site(frames[..count].into()),
        }
    }

    /// Is the stack, from where the chain starts, that of the same call chain?
    fn still_holds(&self) -> bool {
        !self.found.is_empty()
            && self.found.iter().all(|&(place, address)| {
                // SAFETY: the place is above the present stack pointer, which is where it was when the place was found,
                // so it is part of this thread's stack in use.
                unsafe { (place as *const usize).read_volatile() == address }
            })
    }
}

/// No call chain is longer than this many bytes of stack.
const MAX_SPAN: usize = 1 << 20;

/// `file:line` of the innermost frame that is the program's own, relative to the current directory where it is inside.
pub fn locate(site: &Site) -> String {
    for address in addresses_of_the_program(site) {
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

/// Was the call made by a destructor?
pub fn is_in_a_destructor(site: &Site) -> bool {
    let mut found = false;
    for address in addresses_of_the_program(site) {
        backtrace::resolve(address as *mut _, |symbol| {
            if let Some(name) = symbol.name() {
                let name = name.to_string();
                found |= name.contains("drop_in_place") || name.contains("Drop>::drop");
            }
        });
    }
    found
}

/// The return addresses outside of the model and of the C library.
///
/// Line tables are read one object at a time, and those of these two hold nothing of the program.
fn addresses_of_the_program(site: &Site) -> impl Iterator<Item = usize> + '_ {
    let skipped = [
        object_of(capture as *const c_void),
        object_of(libc::getpid as *const c_void),
    ];
    site.0
        .iter()
        .copied()
        .filter(move |&address| !skipped.contains(&object_of(address as *const c_void)))
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
