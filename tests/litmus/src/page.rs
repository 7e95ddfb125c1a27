//! The page of the book, and the table on the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};

use crate::check::Explored;
use crate::field;
use crate::hazards;
use crate::litmus::{Litmus, ANY_REPORT};

/// Where the page is, from the root of the repository.
pub const PATH: &str = "src/reference/litmus.md";

const HEAD: &str = "\
<!-- Generated: LITMUS_TABLE=src/reference/litmus.md cargo test -p litmus -->
# Every outcome that the model shows is one that CUDA permits {#litmus-tests}

Each test is a small program that runs as it stands on the model and on a GPU.
NVIDIA's documentation decides which outcomes are *permitted*.
*Shown* is what comes out over all schedules of the program on the model, with copies of pageable memory staged and direct.
A test fails when something is shown that is not permitted, and when `last` does not show the marked outcome in 1,000 of 1,000 runs.

| Word | Meaning |
|---|---|
| P, H, D | pinned memory that holds 1, pageable memory that holds 1, device memory that holds 7 |
| P9 | pinned memory that holds 9 |
| r | what the program reads; *mix* is a mixture of old and new |
| G(s), open | on a GPU, a host function that holds stream s until it is opened; on the model nothing, because its schedule decides how late an operation runs |
| helper gate | a gate that opens after 50 ms by itself, for calls that may wait |
| § | whether a call waited on the GPU is written down, and fails no test |
| last, eager | the outcome under the model's default schedule, and under the one that runs every operation inside its call; \"direct\" where direct copies of pageable memory show another one |
| report | what the model says under `last`: [a hazard](the-model.md#hazards), after the stroke the useless wait that explains it |

";

const ON_A_GPU: &str = "\
On a GPU every test runs 200 times without a gate and once with it, with buffers of 4 KiB and of 64 MiB, and each observed outcome must be a permitted one.
That is <span class=\"badge waived\">○ waived</span>: no GPU has run these tests yet.

";

/// The whole page.
pub fn render(all: &[Litmus], explored: &BTreeMap<&'static str, Explored>) -> String {
    let mut page = String::from(HEAD);
    page.push_str(ON_A_GPU);
    for (heading, prefix) in [
        ("## The driver's functions {#litmus-driver}", 'L'),
        ("## Safe cudarc 0.19.10 {#litmus-cudarc}", 'C'),
    ] {
        let _ = writeln!(page, "{heading}\n");
        page.push_str("| Test | Rules | Program | Permitted | Shown | last | eager | Report |\n");
        page.push_str("|---|---|---|---|---|---|---|---|\n");
        for litmus in all.iter().filter(|it| it.id.starts_with(prefix)) {
            let _ = writeln!(page, "{}", row(litmus, explored.get(litmus.id)));
        }
        page.push('\n');
    }
    page.push_str("## Each hazard, and its twin {#litmus-hazards}\n\n");
    page.push_str("The smallest program with the mistake gets this report and no other; the same program without it gets none.\n\n");
    page.push_str("| Hazard | Report | Mistake |\n|---|---|---|\n");
    for hazard in hazards::all() {
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            hazard.id, hazard.report, hazard.mistake
        );
    }
    page.push_str("\n## Mistakes from the field {#litmus-field}\n\n");
    page.push_str("Public reports, retold as programs: the broken form shows the wrong outcome and its report, the repaired form shows the right one under every schedule, and no report.\n\n");
    page.push_str(
        "| Case | What was reported | Broken | Report | Repaired |\n|---|---|---|---|---|\n",
    );
    for case in field::all() {
        let _ = writeln!(
            page,
            "| {} | [{}]({}) | {} | {} | {} |",
            case.id,
            case.title,
            case.source,
            case.wrong,
            or_none(case.hazards),
            case.right
        );
    }
    page
}

fn row(litmus: &Litmus, explored: Option<&Explored>) -> String {
    let shown = explored.map_or_else(
        || "—".to_owned(),
        |explored| {
            let all: Vec<String> = explored.all().into_iter().collect();
            all.join(", ")
        },
    );
    let last = if litmus.last == litmus.direct {
        litmus.last.to_owned()
    } else {
        format!("{}; direct {}", litmus.last, litmus.direct)
    };
    let reports = if litmus.reports == [ANY_REPORT] {
        "of each call".to_owned()
    } else {
        or_none(litmus.reports)
    };
    format!(
        "| {}{} | {} | {} | {} | {shown} | {last} | {} | {reports} |",
        litmus.id,
        if litmus.soft { " §" } else { "" },
        litmus.rules,
        litmus.steps,
        litmus.allowed.join(", "),
        litmus.eager
    )
}

fn or_none(reports: &[&str]) -> String {
    if reports.is_empty() {
        return "none".into();
    }
    reports.join(", ")
}

/// One line of the table on the terminal.
pub fn line(litmus: &Litmus, observed: &str) -> String {
    format!(
        "{:4} {:9} permitted {{{}}}  observed {{{observed}}}",
        litmus.id,
        litmus.rules,
        litmus.allowed.join(", ")
    )
}

/// The committed page must be the one that would be generated now.
///
/// # Errors
/// When it is another one, or is missing.
pub fn is_current(root: &Path, page: &str) -> Result<()> {
    let path = root.join(PATH);
    let committed =
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let differing = committed
        .lines()
        .zip(page.lines())
        .position(|(committed, page)| committed != page);
    ensure!(
        committed == page,
        "{PATH} is stale from line {} on; `LITMUS_TABLE={PATH} cargo test -p litmus` writes it",
        differing.map_or(committed.lines().count().min(page.lines().count()), |it| it) + 1
    );
    Ok(())
}

/// Writes the page whole, or not at all.
///
/// # Errors
/// When the file system refuses.
pub fn write(path: &Path, page: &str) -> Result<()> {
    let path = if path.is_absolute() {
        path.to_owned()
    } else {
        crate::root().join(path)
    };
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    let write = || -> Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(page.as_bytes())?;
        file.persist(&path)?;
        Ok(())
    };
    write().with_context(|| format!("writing {}", path.display()))
}
