//! `schedlab upgrade` between versions of our scheduler that run as processes: equal versions pass,
//! and each kind of broken version is caught by the check for it.

use std::path::Path;
use std::process::Command;

use schedlab_api::Value;
use schedlab_control_plane::{PROGRAMS, test_assets};

/// The outcome of `schedlab upgrade`.
struct UpgradeOutput {
    code: i32,
    report: Value,
    stderr: String,
}

/// The command of a version with this defect, from the example `one_version`. Cargo builds examples
/// when all tests are built, but not for this test alone.
fn version(defect: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_schedlab")).with_file_name("examples/one_version");
    let missing = "does not exist: cargo build -p schedlab --example one_version";
    assert!(program.exists(), "{} {missing}", program.display());
    format!("process:{} {{kubeconfig}} {{scheduler-name}} {defect}", program.display())
}

fn upgrade(to: &str, more: &[&str]) -> UpgradeOutput {
    upgrade_from(&version(""), to, more)
}

fn upgrade_from(from: &str, to: &str, more: &[&str]) -> UpgradeOutput {
    let state = tempfile::tempdir().expect("a temporary folder can be created");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["upgrade", "--format", "json", "--from", from, "--to", to]).args(more);
    let output = command.env("XDG_STATE_HOME", state.path()).output().expect("schedlab runs");
    let records = std::fs::read_dir(state.path().join("schedlab/runs")).expect("a run is recorded");
    assert_eq!(records.count(), 0, "the run left nothing to clean up");
    UpgradeOutput {
        code: output.status.code().unwrap_or(-1),
        report: serde_json::from_slice(&output.stdout).unwrap_or_default(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Names of the checks that failed.
fn failed_checks(output: &UpgradeOutput) -> Vec<&str> {
    let moves = output.report["ways"].as_array().into_iter().flatten();
    let moves = moves.flat_map(|way| way["moves"].as_array().into_iter().flatten());
    let checks = moves.flat_map(|one| one["checks"].as_array().into_iter().flatten());
    let broken = checks.filter(|check| check["broken"].as_array().is_some_and(|b| !b.is_empty()));
    broken.filter_map(|check| check["claim"].as_str()).collect()
}

#[test]
fn an_equal_version_passes_in_both_directions_with_both_strategies() {
    let output = upgrade(&version(""), &[]);
    assert_eq!(
        (failed_checks(&output), output.code),
        (vec![], 0),
        "{:#}\n{}",
        output.report,
        output.stderr
    );
    let moves = |way: usize| output.report["ways"][way]["moves"].as_array().map(Vec::len);
    assert_eq!((moves(0), moves(1)), (Some(2), Some(2)));
}

/// Nodes of kubectl, more than the generated work needs, and of two sizes.
#[test]
fn an_equal_version_passes_on_a_fleet_of_ones_own() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let node = |at: usize| {
        let gpus = if at < 2 { 4 } else { 8 };
        format!(
            "- apiVersion: v1\n  kind: Node\n  metadata: {{name: own-{at}}}\n  status:\n    \
             allocatable: {{cpu: \"64\", memory: 512Gi, pods: \"110\", nvidia.com/gpu: \"{gpus}\"}}\n"
        )
    };
    let items: String = (0..9).map(node).collect();
    let nodes = folder.path().join("nodes.yaml");
    let text = format!("apiVersion: v1\nkind: List\nitems:\n{items}");
    std::fs::write(&nodes, text).expect("a temporary file can be written");
    let nodes = nodes.display().to_string();
    let output = upgrade(&version(""), &["--way", "stop-and-start", "--fleet", &nodes]);
    let found = (failed_checks(&output), output.code);
    assert_eq!(found, (vec![], 0), "{:#}\n{}", output.report, output.stderr);
}

/// Jobs that request more GPUs than there are, so that their order decides which of them wait.
#[test]
fn an_equal_version_decides_equally_about_a_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let file = |name: &str, lines: Vec<String>| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines.join("\n")).expect("a temporary file can be written");
        path.display().to_string()
    };
    let node = |at: usize| format!("{{\"name\": \"n{at}\", \"gpus\": 8}}");
    let job = |at: usize| format!("{{\"name\": \"job-{at}\", \"gpus\": {}}}", 1 << (at % 4));
    let nodes = file("nodes.jsonl", (0..4).map(node).collect());
    let jobs = file("jobs.jsonl", (0..24).map(job).collect());
    let way = ["--way", "stop-and-start", "--fleet", &nodes, "--trace", &jobs];
    let output = upgrade(&version(""), &way);
    let decisions = &output.report["decisions"];
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(decisions["groups"], 24, "{decisions:#}");
    let differences = (&decisions["outcomes"], &decisions["other_nodes"]);
    let none = Value::Array(Vec::new());
    assert_eq!(differences, (&none, &none), "{decisions:#}");
}

#[test]
fn a_trace_without_jobs_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be created");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["upgrade", "--from", "process:true", "--to", "process:true", "--trace"]);
    let output = command.arg(file.path()).output().expect("schedlab runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("got no job, expected at least one"), "{err}");
}

/// Skipped without the control plane programs; `SCHEDLAB_REQUIRE=control-plane` makes that a
/// failure.
#[test]
fn on_a_control_plane_an_equal_version_passes_and_an_evicting_one_is_caught() {
    if test_assets(&PROGRAMS).is_none() {
        return;
    }
    let there = ["--cluster", "control-plane"];
    let output = upgrade(&version(""), &there);
    assert_eq!(
        (failed_checks(&output), output.code),
        (vec![], 0),
        "{:#}\n{}",
        output.report,
        output.stderr
    );
    let moves = |way: usize| output.report["ways"][way]["moves"].as_array().map(Vec::len);
    assert_eq!((moves(0), moves(1)), (Some(2), Some(2)));
    let output = upgrade(&version("evicts"), &[&there[..], &["--way", "stop-and-start"]].concat());
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(failed_checks(&output).contains(&"no running pod is touched"), "{:#}", output.report);
}

#[test]
fn versions_that_elect_a_leader_hand_over_to_each_other() {
    let elects = version("elects");
    let output = upgrade_from(&elects, &elects, &["--way", "rolling"]);
    assert_eq!(
        (failed_checks(&output), output.code),
        (vec![], 0),
        "{:#}\n{}",
        output.report,
        output.stderr
    );
    let moves = output.report["ways"][0]["moves"].as_array().map(Vec::len);
    assert_eq!(moves, Some(2));
}

#[test]
fn a_version_that_evicts_running_work_is_caught() {
    let output = upgrade(&version("evicts"), &["--way", "stop-and-start"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(failed_checks(&output).contains(&"no running pod is touched"), "{:#}", output.report);
}

#[test]
fn a_version_that_overcommits_nodes_is_caught() {
    let output = upgrade(&version("overbooks"), &["--way", "rolling"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(failed_checks(&output).contains(&"nothing is bound twice"), "{:#}", output.report);
}

#[test]
fn a_version_that_loses_objects_is_caught() {
    let output = upgrade(&version("forgets"), &["--way", "stop-and-start"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(
        failed_checks(&output).contains(&"objects of the old version still load"),
        "{:#}",
        output.report
    );
}

#[test]
fn a_version_that_rewrites_annotations_of_running_pods_is_caught() {
    let output = upgrade(&version("rewrites"), &["--way", "stop-and-start"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(failed_checks(&output).contains(&"no running pod is touched"), "{:#}", output.report);
    let report = output.report.to_string();
    assert!(
        report.contains("default/steady-3: annotation schedlab.dev/gpu-devices was"),
        "{report}"
    );
}

#[test]
fn a_version_that_recreates_a_queue_is_caught() {
    let output = upgrade(&version("recreates"), &["--way", "stop-and-start"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(
        failed_checks(&output).contains(&"objects of the old version still load"),
        "{:#}",
        output.report
    );
    assert!(
        output.report.to_string().contains("queue upgrade-steady was replaced"),
        "{:#}",
        output.report
    );
}

#[test]
fn a_version_that_binds_beyond_a_queues_limit_is_caught() {
    let output = upgrade(&version("boundless"), &["--way", "stop-and-start"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let report = output.report.to_string();
    assert!(failed_checks(&output).contains(&"no queue exceeds its limit"), "{:#}", output.report);
    assert!(report.contains("queue upgrade-capped has a limit of 2 GPUs and used 3"), "{report}");
}

#[test]
fn a_version_that_binds_beyond_the_limit_of_a_parent_queue_is_caught() {
    let output = upgrade(&version("flat"), &["--way", "stop-and-start"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let report = output.report.to_string();
    assert!(failed_checks(&output).contains(&"no queue exceeds its limit"), "{:#}", output.report);
    assert!(report.contains("queue upgrade-bounded has a limit of 1 GPUs and used 2"), "{report}");
}

#[test]
fn a_version_that_gives_no_pending_reasons_is_caught() {
    let output = upgrade(&version("mute"), &["--way", "stop-and-start"]);
    assert_eq!((failed_checks(&output), output.code), (vec!["new pending work has a reason"], 1));
    let report = output.report.to_string();
    assert!(report.contains("beyond-capped-there is pending without a reason"), "{report}");
}

#[test]
fn a_version_that_does_not_start_is_reported_with_its_output() {
    let output = upgrade("process:echo no such flag", &["--way", "stop-and-start"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(failed_checks(&output).contains(&"no gang breaks"), "{:#}", output.report);
    assert!(output.report.to_string().contains("no such flag"), "{:#}", output.report);
}

#[test]
fn an_old_version_that_does_not_run_exits_with_3() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let state = tempfile::tempdir().expect("a temporary folder can be created");
    command.args(["upgrade", "--from", "process:false", "--to", "process:false"]);
    let output = command.env("XDG_STATE_HOME", state.path()).output().expect("schedlab runs");
    assert_eq!(output.status.code(), Some(3));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("process:false: the scheduler exited by itself"), "{err}");
}
