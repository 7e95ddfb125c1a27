//! The functions that the model does not implement; the bodies are generated from `symbols.txt`.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::Code;

static SAID: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

fn not_modelled(name: &'static str) -> u32 {
    if SAID.lock().insert(name) {
        eprintln!("model: {name} is not modelled: it returned 801 (CUDA_ERROR_NOT_SUPPORTED)");
    }
    Code::NotSupported as u32
}

include!(concat!(env!("OUT_DIR"), "/unmodelled.rs"));
