//! A limit for drivers that hang.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use libtest_mimic::{Failed, Trial};

/// No trial takes this long unless the driver hangs.
const HANGS_AFTER: Duration = Duration::from_secs(300);

/// Ends the process when a trial hangs: then the driver hangs, and no thread of ours can go on.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Option<(String, Instant)>>>);

impl Watch {
    /// Starts to watch.
    pub fn start() -> Watch {
        let watch = Watch::default();
        let watched = watch.clone();
        thread::spawn(move || loop {
            thread::sleep(Duration::from_secs(1));
            let running = watched.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((name, since)) = &*running {
                if since.elapsed() > HANGS_AFTER {
                    eprintln!("litmus: {name} hangs");
                    std::process::exit(124);
                }
            }
        });
        watch
    }

    /// A trial that is watched.
    pub fn trial(&self, name: String, check: Box<dyn FnOnce() -> Result<()> + Send>) -> Trial {
        let watch = self.clone();
        let started = name.clone();
        Trial::test(name, move || {
            watch.set(Some((started, Instant::now())));
            let result = check();
            watch.set(None);
            result.map_err(|error| Failed::from(format!("{error:#}")))
        })
    }

    fn set(&self, running: Option<(String, Instant)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }
}
