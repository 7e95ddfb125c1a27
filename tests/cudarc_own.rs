//! cudarc's own driver tests, unchanged, on the driver that the listings run on, and its examples with kernels.
//!
//! They were written by others for a GPU, so that they pass says something of the model that our own tests cannot say.
//! One trial for each of cudarc's tests; what is not applicable is ignored, with its reason, and counted at the end.

#[path = "cudarc/program.rs"]
mod program;
#[path = "cudarc/source.rs"]
mod source;
#[path = "cudarc/table.rs"]
mod table;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use anyhow::{bail, ensure, Result};
use cudarc::driver::CudaContext;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use program::Program;
use proofs::checks::driver;
use table::{Reason, Table};
use xtask::record::Driver;

/// The schedules besides `last` that a test must pass under. Not `eager`: one test releases a host function after the
/// call that queues it, and `eager` runs the function inside that call.
const OTHER_SCHEDULES: [&str; 4] = ["fifo", "random:1", "random:2", "random:3"];

fn main() -> ExitCode {
    match run(&Arguments::from_args()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (driver, driver_name) = driver::chosen()?;
    let devices = match driver {
        // Each run asks the model for two.
        Driver::Model => 2,
        Driver::Gpu => usize::try_from(CudaContext::device_count()?)?,
    };
    let compiler = xtask::nvrtc::find(&proofs::root())?;
    let has_compiler = compiler.is_some();
    let program = Program::build(&proofs::root(), table::EXAMPLES, compiler)?;
    let program = Arc::new(program);
    let built = program.tests()?;
    let source = source::tests(&program.package)?;
    let version = program.version.clone();

    let passed = Arc::new(AtomicUsize::new(0));
    let mut reasons: BTreeMap<Reason, usize> = BTreeMap::new();
    let mut applicable = 0;
    let mut trials = planted();
    for name in &source {
        let reason = table::not_applicable(name, devices, has_compiler);
        match reason {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => applicable += 1,
        }
        let what = What::Test(name.clone());
        trials.push(trial(what, reason, driver, &program, &passed));
    }
    for name in table::EXAMPLES {
        let reason = table::not_applicable_example(name, has_compiler);
        match reason {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => applicable += 1,
        }
        let what = What::Example((*name).to_owned());
        trials.push(trial(what, reason, driver, &program, &passed));
    }
    let misfits = table::misfits(&source, &built, table::NOT_APPLICABLE);
    trials.push(Trial::test("the_table_fits_this_cudarc", move || {
        expect(&misfits, &[])
    }));

    let filtered = arguments.filter.is_some() || !arguments.skip.is_empty();
    let conclusion = libtest_mimic::run(arguments, trials);
    if !arguments.list && !filtered {
        let passed = passed.load(Ordering::Relaxed);
        println!(
            "{} driver tests and {} examples of cudarc {version}, on {driver_name}:",
            source.len(),
            table::EXAMPLES.len()
        );
        println!("{passed:4} passed");
        println!("{:4} failed", applicable - passed);
        let all = source.len() + table::EXAMPLES.len();
        println!("{:4} not applicable", all - applicable);
        for (reason, count) in reasons {
            println!("     {count:4} {}", reason.text());
        }
        println!();
    }
    Ok(conclusion.exit_code())
}

/// Something of cudarc's to run.
#[derive(Clone)]
enum What {
    Test(String),
    Example(String),
}

impl What {
    fn run(&self, program: &Program, schedule: &str) -> Result<Vec<String>> {
        match self {
            What::Test(name) => program.run(name, schedule),
            What::Example(name) => program.run_example(name, schedule),
        }
    }

    fn name(&self) -> &str {
        match self {
            What::Test(name) | What::Example(name) => name,
        }
    }
}

fn trial(
    what: What,
    reason: Option<Reason>,
    driver: Driver,
    program: &Arc<Program>,
    passed: &Arc<AtomicUsize>,
) -> Trial {
    let (program, passed) = (program.clone(), passed.clone());
    let name = match &what {
        What::Test(name) => name.clone(),
        What::Example(name) => format!("examples::{name}"),
    };
    Trial::ignorable_test(name, move || {
        if let Some(reason) = reason {
            return Ok(Completion::ignored_with(reason.text()));
        }
        passes(&program, &what, driver).map_err(|error| Failed::from(format!("{error:#}")))?;
        passed.fetch_add(1, Ordering::Relaxed);
        Ok(Completion::Completed)
    })
}

/// `what` passes; on the model under every schedule, and with the hazards that are known and no others.
fn passes(program: &Program, what: &What, driver: Driver) -> Result<()> {
    if driver == Driver::Gpu {
        what.run(program, "of the GPU")?;
        return Ok(());
    }
    let known = table::hazards(what.name());
    let mut found = what.run(program, "last")?;
    found.sort_unstable();
    found.dedup();
    ensure!(
        found == known,
        "under last it has the hazards {found:?}, and the table says {known:?}"
    );
    for schedule in OTHER_SCHEDULES {
        let found = what.run(program, schedule)?;
        if let Some(id) = found.iter().find(|id| !known.contains(&id.as_str())) {
            bail!("under {schedule} it has the hazard {id}, which the table does not know");
        }
    }
    Ok(())
}

/// Faults that each of the checks above must find.
fn planted() -> Vec<Trial> {
    const TABLE: &Table = &[(Reason::Half, &["a"]), (Reason::Duration, &["b"])];
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    vec![
        Trial::test(
            "planted::a_test_that_is_neither_built_nor_listed",
            move || {
                let found = table::misfits(&names(&["a", "b", "c"]), &names(&["b"]), TABLE);
                expect(&found, &["c is not built: list it, with the reason"])
            },
        ),
        Trial::test("planted::a_test_that_is_listed_and_can_be_run", move || {
            let found = table::misfits(&names(&["a", "b"]), &names(&["a", "b"]), TABLE);
            expect(&found, &["a is built without f16: strike it off"])
        }),
        Trial::test("planted::a_test_that_is_listed_and_gone", move || {
            let found = table::misfits(&names(&["a"]), &[], TABLE);
            expect(&found, &["b is not among cudarc's tests: strike it off"])
        }),
        Trial::test("planted::a_test_that_the_source_hides", move || {
            let found = table::misfits(&names(&["a", "b"]), &names(&["b", "d"]), TABLE);
            expect(&found, &["d was not found in cudarc's source"])
        }),
        Trial::test("planted::tests_in_a_source", || {
            let text = "mod tests {\n    #[test]\n    #[ignore = \"why\"]\n    fn one() {\n        fn inner() {}\n    }\n    #[test]\n    fn two() -> R {";
            expect(&source::in_text(text), &["tests::one", "tests::two"])
        }),
        Trial::test("planted::a_test_that_did_not_pass", || {
            let ends = [
                ("ok. 1 passed; 0 failed; 0 ignored; 0 measured", true),
                ("ok. 0 passed; 0 failed; 0 ignored; 0 measured", false),
                ("ok. 0 passed; 0 failed; 1 ignored; 0 measured", false),
                ("FAILED. 0 passed; 1 failed; 0 ignored; 0 measured", false),
            ];
            for (end, passes) in ends {
                let said = format!("running 1 test\n\ntest result: {end}\n");
                if program::passed(&said).is_ok() != passes {
                    return Err(format!("misjudged: {end}").into());
                }
            }
            if program::passed("running 1 test\n").is_ok() {
                return Err("a test that never ended has passed".into());
            }
            Ok(())
        }),
    ]
}

fn expect(found: &[String], expected: &[&str]) -> Result<(), Failed> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("found {found:#?}, expected {expected:#?}").into())
    }
}
