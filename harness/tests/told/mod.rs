//! What a run of the program tells of each scenario, read from the report that it writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use schedlab_json::Value;
use tempfile::TempDir;

/// What a run left.
pub(crate) struct Run {
    /// In the order of the report.
    pub(crate) cases: Vec<Told>,
    pub(crate) stderr: String,
}

/// What a report tells of a scenario.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) outcome: String,
    /// It was skipped or failed.
    pub(crate) why: String,
}

/// `schedlab run` with these arguments, in `folder` of the package. `Err`: what it printed, where
/// it got to no report.
pub(crate) fn run(folder: &str, args: &[&str]) -> Result<Run, String> {
    let own = TempDir::new().expect("a temporary folder can be made");
    let (results, state) = (own.path().join("results"), own.path().join("state"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).arg("run").args(args);
    command.arg("--results").arg(&results).env("XDG_STATE_HOME", &state);
    let ended = command.output().expect("the program runs");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    let Ok(report) = fs::read_to_string(results.join("latest/report.json")) else {
        return Err(stderr);
    };
    let report: Value = serde_json::from_str(&report).expect("a report is JSON");
    let cases = report["cases"].as_array().expect("a report has cases").iter().map(Told::of);
    let cases = cases.collect();
    let left = fs::read_dir(state.join("schedlab/runs")).expect("a run is recorded");
    assert_eq!(left.count(), 0, "it left something: {stderr}");
    Ok(Run { cases, stderr })
}

impl Told {
    fn of(case: &Value) -> Self {
        let text = |at: &str| case.pointer(at).and_then(Value::as_str).unwrap_or_default();
        Self {
            name: text("/name").to_owned(),
            outcome: text("/outcome").to_owned(),
            why: format!("{}{}", text("/skipped"), text("/failure/message")),
        }
    }
}
