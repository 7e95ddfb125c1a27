//! The page fault that tells of a host access.
//!
//! A load or store of guarded host memory faults.
//! The handler asks the engine what the access is, reports a race, opens the page and lets the access go on.
//! An access to device memory is reported too, and then ends the program as it would without the model.
//! Faults anywhere else go to whoever handled them before, so Rust's own stack overflow message still comes.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::thread;

use cumodel::guard::Level;
use libc::{c_int, c_void, siginfo_t};

use crate::parking;
use crate::site;
use crate::state::{is_held_here, lock};

/// The handler's own stack: the alternate stack that it starts on is too small for a report.
const STACK: usize = 512 << 10;

/// A range of addresses that the handler can read without a lock.
struct Watched {
    start: AtomicUsize,
    end: AtomicUsize,
}

impl Watched {
    const fn nothing() -> Watched {
        Watched {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
        }
    }

    fn set(&self, range: Range<usize>) {
        self.start.store(range.start, Ordering::SeqCst);
        self.end.store(range.end, Ordering::SeqCst);
    }

    fn get(&self) -> Range<usize> {
        self.start.load(Ordering::SeqCst)..self.end.load(Ordering::SeqCst)
    }

    fn contains(&self, address: usize) -> bool {
        self.get().contains(&address)
    }
}

/// How many pieces of registered memory can be watched at once.
const MAX_REGISTERED: usize = 256;

static HOST: Watched = Watched::nothing();
static DEVICE: Watched = Watched::nothing();
static REGISTERED: [Watched; MAX_REGISTERED] = [const { Watched::nothing() }; MAX_REGISTERED];
static STACK_BASE: AtomicUsize = AtomicUsize::new(0);
static STACK_IN_USE: AtomicBool = AtomicBool::new(false);
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// The size of a page, in bytes.
pub fn page_size() -> usize {
    // SAFETY: a plain query.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Takes over the faults in the model's host memory and in its device memory.
///
/// `parking` are addresses for the page tables of host memory that is taken away.
pub fn install([host, device]: [Range<usize>; 2], parking: Range<usize>) -> io::Result<()> {
    // SAFETY: a new private mapping at an address of the kernel's choice replaces nothing.
    let stack = unsafe {
        libc::mmap(
            ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
            -1,
            0,
        )
    };
    if stack == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    STACK_BASE.store(stack as usize, Ordering::SeqCst);
    parking::install(&host, parking);
    HOST.set(host);
    DEVICE.set(device);

    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: an all-zero sigaction is valid, and every field that matters is set below; the handler has the signature
    // that SA_SIGINFO asks for. SA_ONSTACK keeps the kernel able to deliver a stack overflow.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        if libc::sigaction(libc::SIGSEGV, action, previous.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Set once: the state, which installs the guard, is built once.
        let _ = PREVIOUS.set(previous.assume_init());
    }
    Ok(())
}

/// Takes over the faults in whole pages of the program's own memory; false when too many are watched already.
pub fn watch_registered(pages: &Range<u64>) -> bool {
    let free = REGISTERED.iter().find(|watched| watched.get().is_empty());
    if let Some(watched) = free {
        watched.set(pages.start as usize..pages.end as usize);
    }
    free.is_some()
}

/// Leaves the pages of the program's own memory alone again.
pub fn unwatch_registered(pages: &Range<u64>) {
    let range = pages.start as usize..pages.end as usize;
    if let Some(watched) = REGISTERED.iter().find(|watched| watched.get() == range) {
        watched.set(0..0);
    }
}

/// Leaves all memory of the program's own alone.
pub fn unwatch_all_registered() {
    for watched in &REGISTERED {
        watched.set(0..0);
    }
}

/// Changes what the program may do with whole pages of its view.
pub fn protect(range: &Range<u64>, level: Level) {
    let range = range.start as usize..range.end as usize;
    match level {
        Level::NoAccess => {
            for rest in parking::park(&range) {
                set_protection(&rest, libc::PROT_NONE);
            }
        }
        Level::ReadOnly => {
            parking::bring_back(&range);
            set_protection(&range, libc::PROT_READ);
        }
        Level::Open => {
            parking::bring_back(&range);
            set_protection(&range, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
}

fn set_protection(range: &Range<usize>, protection: c_int) -> bool {
    if range.is_empty() {
        return true;
    }
    // SAFETY: the range is whole pages of the program's view, which the model mapped and never unmaps, or of memory that
    // the program has registered and by that promised to keep; both are readable and writable by nature.
    let done = unsafe { libc::mprotect(range.start as *mut c_void, range.len(), protection) } == 0;
    if !done {
        eprintln!(
            "model: host accesses to {} bytes of memory go unseen: mprotect: {}",
            range.len(),
            io::Error::last_os_error()
        );
    }
    done
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo of a SIGSEGV, which holds the address.
    let address = unsafe { (*info).si_addr() } as usize;
    let ours = HOST.contains(address)
        || DEVICE.contains(address)
        || REGISTERED.iter().any(|watched| watched.contains(address));
    // With the lock held the fault is not the program's, and the handler could not get the lock.
    if !ours || is_held_here() || !handle(address, is_store(context)) {
        pass_on(signal, info, context);
    }
}

/// Handles a fault in watched memory; false when the access must fail.
fn handle(address: usize, write: bool) -> bool {
    while STACK_IN_USE.swap(true, Ordering::SeqCst) {
        thread::yield_now();
    }
    // SAFETY: errno is the interrupted code's, and is put back below.
    let errno = unsafe { *libc::__errno_location() };
    let base = STACK_BASE.load(Ordering::SeqCst) as *mut u8;
    // SAFETY: the stack is mapped, large enough, and in nobody else's use until the flag is cleared. The fault is
    // synchronous: this thread was executing a load or store, and it does not hold the state's lock (checked above).
    let handled = unsafe {
        psm::on_stack(base, STACK, || {
            let site = site::capture();
            let mut state = lock();
            if DEVICE.contains(address) {
                state.host_deref_device(address as u64, write, site);
                false
            } else {
                state.host_touch(address as u64, write, site)
            }
        })
    };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    STACK_IN_USE.store(false, Ordering::SeqCst);
    handled
}

/// Was the faulting access a store?
#[cfg(target_arch = "x86_64")]
fn is_store(context: *mut c_void) -> bool {
    // Bit 1 of the page fault error code (Intel SDM volume 3, "Page-Fault Exception").
    const WRITE: i64 = 1 << 1;
    let context = context as *const libc::ucontext_t;
    // SAFETY: with SA_SIGINFO the third argument is the interrupted thread's context.
    let error = unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] };
    error & WRITE != 0
}

/// Was the faulting access a store? Unknown on this architecture: every access counts as a load.
#[cfg(not(target_arch = "x86_64"))]
fn is_store(_context: *mut c_void) -> bool {
    false
}

/// Hands a fault that is not the model's to whoever handled faults before.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get();
    let handler = previous.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    match handler {
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access faults again on return, and the default action ends the program as it would have without us.
            // SAFETY: a plain call.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if previous.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0) => {
            // SAFETY: it was installed with SA_SIGINFO, so it has this signature.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: it was installed without SA_SIGINFO, so it has this signature.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
