//! Runs a listing as it stands on a page.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Seconds that a listing on a page may take.
const TIME_LIMIT: &str = "60";

/// Where a listing on a page says that it was waived. skeptic knows success and failure only, so `lab::waive` writes
/// the reason here and succeeds.
static WAIVED_LOG: LazyLock<PathBuf> = LazyLock::new(|| {
    let name = format!("c2c-waived-{}.log", std::process::id());
    let log = env::temp_dir().join(name);
    // One that an earlier process of this number left behind; most often there is none.
    let _ = fs::remove_file(&log);
    env::set_var("C2C_WAIVED_LOG", &log);
    env::set_var("C2C_TIME_LIMIT", TIME_LIMIT);
    log
});

/// Compiles and runs `listing` with `skeptic::rt::run_test`, and says on stdout when it was waived.
///
/// # Panics
/// When it does not compile or ends with a failure: that is how skeptic fails a test.
pub fn run(package: &str, out_dir: &str, target: &str, listing: &str) {
    /// One at a time, so that what is in the log is about this listing.
    static WAIVABLE: Mutex<()> = Mutex::new(());

    let log = &*WAIVED_LOG;
    let waivable = listing.contains("lab::waive(");
    let _alone = waivable.then(|| WAIVABLE.lock().unwrap_or_else(PoisonError::into_inner));
    // The test's own name is a heading and a line of the expanded page; libtest shows this beside it when it fails.
    let claim = listing.lines().find_map(|line| line.strip_prefix("//! "));
    let claim = claim.unwrap_or("a listing without a claim");
    println!("{claim}");

    skeptic::rt::run_test(package, out_dir, target, listing);

    if !waivable {
        return;
    }
    if let Ok(waived) = fs::read_to_string(log) {
        // `<program>: <reason>`, where the program is skeptic's `out`.
        let reason = waived
            .split_once(": ")
            .map_or(&*waived, |(_, reason)| reason);
        let line = format!("waived on a page: {claim} ({})", reason.trim_end());
        // Not `println!`, which libtest hides when the test passes.
        let said = writeln!(std::io::stdout(), "{line}");
        let removed = fs::remove_file(log);
        assert!(said.is_ok() && removed.is_ok(), "{line}");
    }
}
