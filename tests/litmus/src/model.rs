//! The model's own functions, which no real driver has: settings, reports, the next schedule.

use std::ffi::{c_char, c_int, CString};

use anyhow::{ensure, Context, Result};
use cudarc::driver::sys;

/// The controls of the model that serves this process.
#[derive(Clone, Copy)]
pub struct Model {
    configure: unsafe extern "C" fn(*const c_char) -> c_int,
    take_reports: unsafe extern "C" fn(*mut c_char, usize) -> usize,
    explore_next: unsafe extern "C" fn() -> c_int,
}

/// How pageable memory is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pageable {
    /// Through a staging buffer, as on a discrete GPU.
    Staged,
    /// Directly, as on a coherent machine.
    Direct,
}

/// What the model is told before a program runs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// last, eager, fifo, random:SEED or explore.
    pub schedule: String,
    /// How pageable memory is copied.
    pub pageable: Pageable,
    /// More, in the words of the model.
    pub more: &'static str,
}

impl Settings {
    /// This schedule, with pageable memory staged.
    pub fn schedule(schedule: impl Into<String>) -> Settings {
        Settings {
            schedule: schedule.into(),
            pageable: Pageable::Staged,
            more: "",
        }
    }

    /// The same with pageable memory copied directly.
    pub fn direct(self) -> Settings {
        let pageable = Pageable::Direct;
        Settings { pageable, ..self }
    }

    /// The same with more settings.
    pub fn with(self, more: &'static str) -> Settings {
        Settings { more, ..self }
    }

    fn text(&self) -> String {
        let pageable = match self.pageable {
            Pageable::Staged => "staged",
            Pageable::Direct => "direct",
        };
        let settings = format!(
            "schedule={} pageable={pageable} free=doc machine=discrete on_hazard=collect {}",
            self.schedule, self.more
        );
        settings.trim_end().to_owned()
    }
}

/// One report of the model.
#[derive(Clone, Debug)]
pub struct Report {
    /// H01 to H34.
    pub id: String,
    /// H13 to H17: the useless wait that explains it.
    pub cause: Option<String>,
    /// The whole text.
    pub text: String,
    /// The variables that repeat the run.
    pub replay: String,
}

impl Report {
    /// Reads one line of JSON.
    ///
    /// # Errors
    /// When the line is not a report.
    pub fn parse(line: &str) -> Result<Report> {
        let json: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("reading the report {line}"))?;
        let text = |field: &str| json[field].as_str().map(str::to_owned);
        Ok(Report {
            id: text("id").with_context(|| format!("the report {line} has no id"))?,
            cause: text("cause"),
            text: text("text").unwrap_or_default(),
            replay: text("replay").unwrap_or_default(),
        })
    }

    /// `H01`, or `H01/H13` with its cause.
    pub fn short(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}/{cause}", self.id),
            None => self.id.clone(),
        }
    }
}

/// Does the model serve this process? No real driver exports this name.
pub fn answers() -> bool {
    // SAFETY: opening a driver library runs its initializers, which touch nothing of ours.
    if !unsafe { sys::is_culib_present() } {
        return false;
    }
    // SAFETY: as above; the symbol is only looked up, never called.
    unsafe {
        sys::culib()
            .get::<unsafe extern "C" fn()>(b"cumodel_version\0")
            .is_ok()
    }
}

impl Model {
    /// Looks the controls up in the library that cudarc has opened.
    ///
    /// # Errors
    /// When there is no library, or it has no such functions.
    pub fn find() -> Result<Model> {
        // SAFETY: opening a driver library runs its initializers, which touch nothing of ours.
        ensure!(unsafe { sys::is_culib_present() }, "there is no driver");
        // SAFETY: as above; the library was just found.
        let library = unsafe { sys::culib() };
        let missing = |name: &str| format!("the driver has no {name}: is it an older model?");
        // SAFETY: only the model exports these names, and with these types.
        unsafe {
            Ok(Model {
                configure: *library
                    .get(b"cumodel_configure\0")
                    .with_context(|| missing("cumodel_configure"))?,
                take_reports: *library
                    .get(b"cumodel_take_reports\0")
                    .with_context(|| missing("cumodel_take_reports"))?,
                explore_next: *library
                    .get(b"cumodel_explore_next\0")
                    .with_context(|| missing("cumodel_explore_next"))?,
            })
        }
    }

    /// Sets the model up for the programs that follow.
    ///
    /// # Errors
    /// When the model refuses, for example because a program before has not let go of its context.
    pub fn configure(&self, settings: &Settings) -> Result<()> {
        self.configure_in_words(&settings.text())
    }

    /// The same, with the variables that a report gives to repeat its run.
    ///
    /// # Errors
    /// As for [`Model::configure`].
    pub fn configure_as_replayed(&self, variables: &str) -> Result<()> {
        let settings: Vec<String> = variables
            .split_whitespace()
            .filter_map(|variable| variable.strip_prefix("CUMODEL_")?.split_once('='))
            .map(|(name, value)| format!("{}={value}", name.to_lowercase()))
            .collect();
        ensure!(!settings.is_empty(), "\"{variables}\" repeats nothing");
        self.configure_in_words(&format!("{} on_hazard=collect", settings.join(" ")))
    }

    fn configure_in_words(&self, text: &str) -> Result<()> {
        let c_text = CString::new(text).context("settings hold no zero")?;
        // SAFETY: the model reads a string that ends in zero.
        let code = unsafe { (self.configure)(c_text.as_ptr()) };
        ensure!(code == 0, "the model refused \"{text}\"");
        Ok(())
    }

    /// The reports since the last call.
    ///
    /// # Errors
    /// When they are not what the model promises.
    pub fn take_reports(&self) -> Result<Vec<Report>> {
        let mut buffer = vec![0u8; 1 << 12];
        loop {
            // SAFETY: the buffer has the length that is passed.
            let bytes = unsafe { (self.take_reports)(buffer.as_mut_ptr().cast(), buffer.len()) };
            if bytes <= buffer.len() {
                buffer.truncate(bytes);
                break;
            }
            buffer.resize(bytes, 0);
        }
        String::from_utf8(buffer)
            .context("reports are UTF-8")?
            .trim_end_matches('\0')
            .lines()
            .map(Report::parse)
            .collect()
    }

    /// After a run under `explore`: is there another schedule?
    pub fn explore_next(&self) -> bool {
        // SAFETY: the function takes nothing.
        unsafe { (self.explore_next)() == 1 }
    }
}
