//! Runs `schedlab run` and reads the outcome of each scenario from the report that it writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use schedlab_api::Value;
use tempfile::TempDir;

/// The outcome of `schedlab run`.
pub(crate) struct Run {
    /// Scenarios in the order of the report.
    pub(crate) cases: Vec<CaseReport>,
    pub(crate) stderr: String,
}

/// The report's entry for one scenario.
#[derive(Debug)]
pub(crate) struct CaseReport {
    pub(crate) name: String,
    pub(crate) outcome: String,
    /// Why the scenario was skipped or failed; empty if it passed.
    pub(crate) reason: String,
}

/// Runs `schedlab run` with these arguments in `folder` of the package, and checks that it leaves
/// nothing to clean up. `Err` holds standard error if the run wrote no report.
pub(crate) fn run_schedlab(folder: &str, args: &[&str]) -> Result<Run, String> {
    let own = TempDir::new().expect("a temporary folder can be created");
    let (results, state) = (own.path().join("results"), own.path().join("state"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).arg("run").args(args);
    command.arg("--results").arg(&results).env("XDG_STATE_HOME", &state);
    let output = command.output().expect("schedlab runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let Ok(report) = fs::read_to_string(results.join("latest/report.json")) else {
        return Err(stderr);
    };
    let report: Value = serde_json::from_str(&report).expect("the report is JSON");
    let cases =
        report["cases"].as_array().expect("the report has cases").iter().map(CaseReport::from_json);
    let cases = cases.collect();
    // A run on the emulator has no such folder.
    let remaining = fs::read_dir(state.join("schedlab/runs")).map_or(0, Iterator::count);
    assert_eq!(remaining, 0, "the run left resources behind: {stderr}");
    Ok(Run { cases, stderr })
}

impl CaseReport {
    fn from_json(case: &Value) -> Self {
        let text = |at: &str| case.pointer(at).and_then(Value::as_str).unwrap_or_default();
        Self {
            name: text("/name").to_owned(),
            outcome: text("/outcome").to_owned(),
            reason: format!("{}{}", text("/skipped"), text("/failure/message")),
        }
    }
}
