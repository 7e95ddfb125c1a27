//! The environment variables of the model.

use std::env;
use std::path::PathBuf;

use cumodel::Schedule;

/// How the model behaves, as the environment says.
#[derive(Debug)]
pub struct Config {
    /// `CUMODEL_SCHEDULE`: last (default), eager, fifo or random:SEED.
    pub schedule: Schedule,
    /// `CUMODEL_TRACE`: where to write everything that happens, as JSON lines.
    pub trace: Option<PathBuf>,
    /// `CUMODEL_REPORT`: where to append each hazard, as JSON lines.
    pub report: Option<PathBuf>,
}

impl Config {
    /// Reads the environment; the error is a sentence for the user.
    pub fn from_env() -> Result<Config, String> {
        let schedule = match text("CUMODEL_SCHEDULE")? {
            Some(name) => name
                .parse()
                .map_err(|error| format!("CUMODEL_SCHEDULE: {error}"))?,
            None => Schedule::Last,
        };
        match text("CUMODEL_PAGEABLE")?.as_deref() {
            None | Some("staged") => (),
            Some(other) => {
                return Err(format!(
                    "CUMODEL_PAGEABLE: \"{other}\" is no profile; the only profile is staged"
                ))
            }
        }
        Ok(Config {
            schedule,
            trace: path("CUMODEL_TRACE"),
            report: path("CUMODEL_REPORT"),
        })
    }

    /// What to set to see the same run again.
    pub fn replay(&self) -> String {
        format!("CUMODEL_SCHEDULE={}", self.schedule)
    }
}

fn text(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(format!("{name} is not valid UTF-8")),
    }
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
