//! The settings of the model: from the environment, or from a test by `cumodel_configure`.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::str::FromStr;

use cumodel::Schedule;

use crate::Code;

/// When a copy between pageable memory and the device happens (R21, R23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pageable {
    /// As drivers for discrete GPUs do it: the source is read at the call, the destination is complete at the return.
    Staged,
    /// As the manual permits it: like a copy of pinned memory.
    Direct,
}

/// What a free of memory that is not stream-ordered waits for (R41, R46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// Nothing, as the manual permits.
    Doc,
    /// All work in flight, as drivers have been seen to do.
    Driver,
}

/// Which machine the device attributes describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// A GPU with page tables of its own.
    Discrete,
    /// A GPU that uses the page tables of the CPU (R30).
    Coherent,
}

/// What happens when a hazard is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHazard {
    /// It is printed, and the program goes on.
    Report,
    /// It is kept for `cumodel_take_reports`.
    Collect,
    /// It is printed, and the call that found it and all later ones return 719.
    Error,
    /// It is printed, and the program is aborted.
    Abort,
}

/// A call that is made to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// The driver function.
    pub function: String,
    /// Which of its calls, counted from 1.
    pub nth: u64,
    /// The code that it returns.
    pub code: Code,
}

/// How the model behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// When operations run.
    pub schedule: Schedule,
    /// Copies of pageable memory; by default what fits the machine.
    pageable: Option<Pageable>,
    /// Frees.
    pub free: Free,
    /// Device attributes.
    pub machine: Machine,
    /// Hazards.
    pub on_hazard: OnHazard,
    /// Number of devices.
    pub devices: usize,
    /// Memory of each device, in bytes.
    pub device_memory: usize,
    /// Device attributes that are not those of the machine.
    pub attributes: BTreeMap<i32, i32>,
    /// How many instructions, counted for each thread, a kernel may execute before it is taken for one that never ends.
    pub kernel_budget: u64,
    /// Calls that are made to fail.
    pub fail: Vec<Fail>,
    /// Where to write everything that happens, as JSON lines.
    pub trace: Option<PathBuf>,
    /// Where to append each report, as JSON lines.
    pub report: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            schedule: Schedule::Last,
            pageable: None,
            free: Free::Doc,
            machine: Machine::Discrete,
            on_hazard: OnHazard::Report,
            devices: 1,
            device_memory: 16 << 30,
            attributes: BTreeMap::new(),
            kernel_budget: KERNEL_BUDGET,
            fail: Vec::new(),
            trace: None,
            report: None,
        }
    }
}

/// A kernel of the listings executes some millions; this many take the model some ten seconds.
const KERNEL_BUDGET: u64 = 4_000_000_000;

/// The settings and the words that each accepts.
const SETTINGS: [&str; 10] = [
    "schedule",
    "pageable",
    "free",
    "machine",
    "on_hazard",
    "devices",
    "device_memory",
    "attributes",
    "kernel_budget",
    "fail",
];

impl Config {
    /// Reads `CUMODEL_SCHEDULE` and so on; the error is a sentence for the user.
    pub fn from_env() -> Result<Config, String> {
        let mut config = Config::default();
        for setting in SETTINGS {
            let name = format!("CUMODEL_{}", setting.to_uppercase());
            match env::var(&name) {
                Ok(value) => config
                    .set(setting, &value)
                    .map_err(|error| format!("{name}: {error}"))?,
                Err(env::VarError::NotPresent) => (),
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(format!("{name} is not valid UTF-8"))
                }
            }
        }
        config.trace = path("CUMODEL_TRACE");
        config.report = path("CUMODEL_REPORT");
        Ok(config)
    }

    /// Applies settings as `cumodel_configure` gets them: `schedule=last pageable=direct`.
    pub fn apply(&mut self, settings: &str) -> Result<(), String> {
        for setting in settings.split_whitespace() {
            let (name, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("\"{setting}\" is not of the form setting=value"))?;
            self.set(name, value)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    fn set(&mut self, setting: &str, value: &str) -> Result<(), String> {
        match setting {
            "schedule" => {
                self.schedule = value
                    .parse()
                    .map_err(|error: cumodel::ScheduleError| error.to_string())?;
            }
            "pageable" => {
                self.pageable = Some(one_of(
                    value,
                    &[("staged", Pageable::Staged), ("direct", Pageable::Direct)],
                )?);
            }
            "free" => self.free = one_of(value, &[("doc", Free::Doc), ("driver", Free::Driver)])?,
            "machine" => {
                self.machine = one_of(
                    value,
                    &[
                        ("discrete", Machine::Discrete),
                        ("coherent", Machine::Coherent),
                    ],
                )?;
            }
            "on_hazard" => {
                self.on_hazard = one_of(
                    value,
                    &[
                        ("report", OnHazard::Report),
                        ("collect", OnHazard::Collect),
                        ("error", OnHazard::Error),
                        ("abort", OnHazard::Abort),
                    ],
                )?;
            }
            "devices" => self.devices = number::<usize>(value)?.clamp(1, 64),
            "device_memory" => self.device_memory = number(value)?,
            "kernel_budget" => self.kernel_budget = number(value)?,
            "attributes" => {
                for pair in value.split(',') {
                    let (attribute, value) = pair
                        .split_once('=')
                        .ok_or_else(|| format!("\"{pair}\" is not of the form attribute=value"))?;
                    self.attributes.insert(number(attribute)?, number(value)?);
                }
            }
            "fail" => {
                for fail in value.split(',') {
                    self.fail.push(parse_fail(fail)?);
                }
            }
            _ => {
                return Err(format!(
                    "there is no such setting; they are {}",
                    SETTINGS.join(", ")
                ))
            }
        }
        Ok(())
    }

    /// When copies of pageable memory happen.
    pub fn pageable(&self) -> Pageable {
        self.pageable.unwrap_or(match self.machine {
            Machine::Discrete => Pageable::Staged,
            Machine::Coherent => Pageable::Direct,
        })
    }

    /// What to set to see the same run again, when `schedule` decided the order of it.
    pub fn replay(&self, schedule: &Schedule) -> String {
        let mut text = format!("CUMODEL_SCHEDULE={schedule}");
        if self.machine == Machine::Coherent {
            text.push_str(" CUMODEL_MACHINE=coherent");
        }
        match self.pageable {
            Some(Pageable::Direct) => text.push_str(" CUMODEL_PAGEABLE=direct"),
            Some(Pageable::Staged) if self.machine == Machine::Coherent => {
                text.push_str(" CUMODEL_PAGEABLE=staged");
            }
            _ => (),
        }
        if self.free == Free::Driver {
            text.push_str(" CUMODEL_FREE=driver");
        }
        text
    }
}

fn one_of<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T, String> {
    words
        .iter()
        .find(|(word, _)| *word == value)
        .map(|(_, meaning)| *meaning)
        .ok_or_else(|| {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("\"{value}\" is none of {}", words.join(", "))
        })
}

fn number<T: FromStr>(value: &str) -> Result<T, String> {
    value
        .trim()
        .parse()
        .map_err(|_| format!("\"{value}\" is not a number that fits here"))
}

fn parse_fail(text: &str) -> Result<Fail, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let [function, nth, code] = parts[..] else {
        return Err(format!("\"{text}\" is not of the form function:nth:code"));
    };
    let code: u32 = number(code)?;
    Ok(Fail {
        function: function.to_owned(),
        nth: number(nth)?,
        code: Code::from_number(code)
            .ok_or_else(|| format!("{code} is no result code that the model returns"))?,
    })
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_apply_and_replay() {
        let mut config = Config::default();
        config
            .apply("schedule=random:7 machine=coherent free=driver devices=2 attributes=100=1,88=1 fail=cuMemAllocAsync:3:2")
            .expect("these are settings");
        assert_eq!(config.pageable(), Pageable::Direct);
        assert_eq!(config.devices, 2);
        assert_eq!(config.attributes.get(&88), Some(&1));
        assert_eq!(config.fail[0].nth, 3);
        assert_eq!(
            config.replay(&config.schedule),
            "CUMODEL_SCHEDULE=random:7 CUMODEL_MACHINE=coherent CUMODEL_FREE=driver"
        );
    }

    #[test]
    fn what_is_no_setting_is_refused_in_a_sentence() {
        for (text, part) in [
            ("schedule", "not of the form"),
            ("colour=red", "no such setting"),
            ("schedule=soon", "is no schedule"),
            ("pageable=maybe", "none of staged, direct"),
            ("devices=many", "not a number"),
            ("fail=cuInit:1", "function:nth:code"),
            ("fail=cuInit:1:36", "no result code"),
            ("attributes=100", "attribute=value"),
        ] {
            let error = Config::default().apply(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
