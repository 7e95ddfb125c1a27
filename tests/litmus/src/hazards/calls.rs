//! Handles, threads and destructors.

use std::thread;

use cudarc::driver::CudaContext;

use crate::cuda::{self, Code, Context};
use crate::hazards::{hazard, Hazard};

pub const ALL: &[Hazard] = &[
    hazard(
        "H21",
        "an event is used after it was destroyed",
        |lab| {
            let (s, e) = (lab.stream(), lab.event());
            cuda::destroy_event(e).ok();
            lab.forget_event(e);
            assert_ne!(cuda::record(e, s), Code::SUCCESS);
        },
        |lab| {
            let (s, e) = (lab.stream(), lab.event());
            cuda::record(e, s).ok();
            cuda::destroy_event(e).ok();
            lab.forget_event(e);
        },
    ),
    hazard(
        "H25",
        "a thread without a current context allocates",
        |lab| {
            lab.context();
            allocate_elsewhere(None);
        },
        |lab| {
            let context = lab.context();
            allocate_elsewhere(Some(context));
        },
    ),
    hazard(
        "H28",
        "a call inside a destructor fails",
        |_| drop_an_event(),
        |_| drop_an_event(),
    )
    .with("fail=cuEventDestroy_v2:1:400"),
];

/// Another thread allocates and frees device memory, with this context or with none.
fn allocate_elsewhere(context: Option<Context>) {
    thread::spawn(move || {
        if let Some(context) = context {
            cuda::bind(context).ok();
        }
        let (code, device) = cuda::allocate(4);
        if code == Code::SUCCESS {
            cuda::free(device).ok();
        }
    })
    .join()
    .expect("the thread does not panic");
}

/// Makes an event of cudarc's and drops it.
fn drop_an_event() {
    let context = CudaContext::new(0).expect("there is a device");
    drop(context.new_event(None).expect("the driver makes an event"));
    // What cudarc kept back would hit the next call; there is none.
    let _ = context.check_err();
}
