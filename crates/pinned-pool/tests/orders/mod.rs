//! Runs a program on the model in many orders, and takes its reports; on a GPU runs it once.

use std::ffi::{c_char, c_int, CString};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use cudarc::driver::{sys, CudaContext};

/// The random schedules beside `last`, `eager` and `fifo`.
const SEEDS: u32 = 20;

/// What a run of a program gave.
#[derive(Debug)]
pub struct Run(String);

impl Run {
    /// Runs `program` under `settings` of the model, and takes the reports.
    pub fn new(settings: &str, program: impl Fn(&Arc<CudaContext>) -> Result<()>) -> Run {
        /// A process has one driver, so one program at a time uses it.
        static DRIVER: Mutex<()> = Mutex::new(());
        let _alone = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);

        let model = Model::find();
        if let Some(model) = &model {
            model.configure(&format!("{settings} on_hazard=collect"));
        }
        let done = CudaContext::new(0)
            .map_err(anyhow::Error::from)
            .and_then(|ctx| program(&ctx));
        if let Err(error) = done {
            panic!("under {settings}: {error:#}");
        }
        Run(model.map(|model| model.take_reports()).unwrap_or_default())
    }

    /// The ids of everything reported but performance notes and what only says that the driver failed, each once.
    pub fn ids(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self
            .0
            .lines()
            .filter_map(|line| line.split_once("\"id\":\""))
            .filter_map(|(_, rest)| rest.split('"').next())
            .filter(|id| !["H11", "H30", "H31", "H33"].contains(id))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Runs `program` in every order; there must be no hazard.
pub fn in_every_order(program: impl Fn(&Arc<CudaContext>) -> Result<()>) {
    let named = ["last", "eager", "fifo"].map(str::to_owned);
    let random = (0..SEEDS).map(|seed| format!("random:{seed}"));
    for schedule in named.into_iter().chain(random) {
        let run = Run::new(&format!("schedule={schedule}"), &program);
        assert_eq!(run.ids(), [""; 0], "under {schedule}: {run:?}");
        if !has_model() {
            break;
        }
    }
}

/// Runs `program` once under `settings`, which only the model has; there must be no hazard.
pub fn on_the_model(settings: &str, program: impl Fn(&Arc<CudaContext>) -> Result<()>) {
    let run = failing(settings, program);
    assert_eq!(run.ids(), [""; 0], "under {settings}: {run:?}");
}

/// Runs `program` once under `settings` that may make calls fail, and leaves the reports to the caller.
pub fn failing(settings: &str, program: impl Fn(&Arc<CudaContext>) -> Result<()>) -> Run {
    if has_model() {
        Run::new(settings, program)
    } else {
        Run(String::new())
    }
}

/// Whether the model answers, and no GPU.
pub fn has_model() -> bool {
    Model::find().is_some()
}

/// What the model exports beside the driver's functions.
struct Model {
    configure: unsafe extern "C" fn(*const c_char) -> c_int,
    take_reports: unsafe extern "C" fn(*mut c_char, usize) -> usize,
}

impl Model {
    fn find() -> Option<Model> {
        // SAFETY: opening a driver library touches nothing of ours; only the model exports these names, with these types.
        unsafe {
            assert!(
                sys::is_culib_present(),
                "run the tests with cargo, which brings a driver"
            );
            let library = sys::culib();
            Some(Model {
                configure: *library.get(b"cumodel_configure\0").ok()?,
                take_reports: *library.get(b"cumodel_take_reports\0").ok()?,
            })
        }
    }

    fn configure(&self, settings: &str) {
        let text = CString::new(settings).expect("settings without a zero byte");
        // SAFETY: the string is alive and ends in zero.
        assert_eq!(unsafe { (self.configure)(text.as_ptr()) }, 0, "{settings}");
        // What an earlier program left is not about this one.
        self.take_reports();
    }

    fn take_reports(&self) -> String {
        let mut text = vec![0_u8; 1 << 20];
        // SAFETY: the buffer is as long as said.
        let length = unsafe { (self.take_reports)(text.as_mut_ptr().cast(), text.len()) };
        text.truncate(length);
        String::from_utf8(text).expect("reports are UTF-8")
    }
}
