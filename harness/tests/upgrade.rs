//! `schedlab upgrade` between versions of our scheduler as processes: two that are alike pass,
//! and each kind of broken one is caught by the check that is meant for it.

use std::path::Path;
use std::process::Command;

use schedlab_control_plane::{PROGRAMS, test_assets};
use schedlab_json::Value;

struct Ended {
    code: i32,
    told: Value,
    err: String,
}

/// A version as a command. Cargo builds examples with all tests, beside the program; for this
/// test alone it does not.
fn version(wrong: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_schedlab")).with_file_name("examples/one_version");
    let missing = "is not there: cargo build -p schedlab --example one_version";
    assert!(program.exists(), "{} {missing}", program.display());
    format!("process:{} {{kubeconfig}} {{scheduler-name}} {wrong}", program.display())
}

fn upgrade(to: &str, more: &[&str]) -> Ended {
    upgrade_from(&version(""), to, more)
}

fn upgrade_from(from: &str, to: &str, more: &[&str]) -> Ended {
    let state = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["upgrade", "--format", "json", "--from", from, "--to", to]).args(more);
    let output = command.env("XDG_STATE_HOME", state.path()).output().expect("the program runs");
    let records = std::fs::read_dir(state.path().join("schedlab/runs")).expect("a run is recorded");
    assert_eq!(records.count(), 0, "nothing is left of a run that ended");
    Ended {
        code: output.status.code().unwrap_or(-1),
        told: serde_json::from_slice(&output.stdout).unwrap_or_default(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Claims that did not hold.
fn broken(ended: &Ended) -> Vec<&str> {
    let moves = ended.told["ways"].as_array().into_iter().flatten();
    let moves = moves.flat_map(|way| way["moves"].as_array().into_iter().flatten());
    let checks = moves.flat_map(|one| one["checks"].as_array().into_iter().flatten());
    let broken = checks.filter(|check| check["broken"].as_array().is_some_and(|b| !b.is_empty()));
    broken.filter_map(|check| check["claim"].as_str()).collect()
}

#[test]
fn an_equal_version_takes_over_and_gives_back_in_both_ways() {
    let ended = upgrade(&version(""), &[]);
    assert_eq!((broken(&ended), ended.code), (vec![], 0), "{:#}\n{}", ended.told, ended.err);
    let moves = |way: usize| ended.told["ways"][way]["moves"].as_array().map(Vec::len);
    assert_eq!((moves(0), moves(1)), (Some(2), Some(2)));
}

/// Skipped where there are no programs; `SCHEDLAB_REQUIRE=control-plane` makes that a failure.
#[test]
fn on_a_control_plane_an_equal_version_passes_and_one_that_evicts_is_caught() {
    if test_assets(&PROGRAMS).is_none() {
        return;
    }
    let there = ["--cluster", "control-plane"];
    let ended = upgrade(&version(""), &there);
    assert_eq!((broken(&ended), ended.code), (vec![], 0), "{:#}\n{}", ended.told, ended.err);
    let moves = |way: usize| ended.told["ways"][way]["moves"].as_array().map(Vec::len);
    assert_eq!((moves(0), moves(1)), (Some(2), Some(2)));
    let ended = upgrade(&version("evicts"), &[&there[..], &["--way", "stop-and-start"]].concat());
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(broken(&ended).contains(&"no running pod is touched"), "{:#}", ended.told);
}

#[test]
fn versions_that_elect_a_leader_hand_over_to_each_other() {
    let elects = version("elects");
    let ended = upgrade_from(&elects, &elects, &["--way", "rolling"]);
    assert_eq!((broken(&ended), ended.code), (vec![], 0), "{:#}\n{}", ended.told, ended.err);
    let moves = ended.told["ways"][0]["moves"].as_array().map(Vec::len);
    assert_eq!(moves, Some(2));
}

#[test]
fn a_version_that_evicts_running_work_is_caught() {
    let ended = upgrade(&version("evicts"), &["--way", "stop-and-start"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(broken(&ended).contains(&"no running pod is touched"), "{:#}", ended.told);
}

#[test]
fn a_version_that_binds_without_room_is_caught() {
    let ended = upgrade(&version("overbooks"), &["--way", "rolling"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(broken(&ended).contains(&"nothing is bound twice"), "{:#}", ended.told);
}

#[test]
fn a_version_that_loses_objects_is_caught() {
    let ended = upgrade(&version("forgets"), &["--way", "stop-and-start"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(broken(&ended).contains(&"objects of the old version still load"), "{:#}", ended.told);
}

#[test]
fn a_version_that_rewrites_what_running_pods_are_told_is_caught() {
    let ended = upgrade(&version("rewrites"), &["--way", "stop-and-start"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(broken(&ended).contains(&"no running pod is touched"), "{:#}", ended.told);
    let told = ended.told.to_string();
    assert!(told.contains("default/steady-3: annotation schedlab.dev/gpu-devices was"), "{told}");
}

#[test]
fn a_version_that_makes_a_queue_anew_is_caught() {
    let ended = upgrade(&version("recreates"), &["--way", "stop-and-start"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(broken(&ended).contains(&"objects of the old version still load"), "{:#}", ended.told);
    assert!(
        ended.told.to_string().contains("queue upgrade-steady was replaced"),
        "{:#}",
        ended.told
    );
}

#[test]
fn a_version_that_binds_beyond_a_queues_limit_is_caught() {
    let ended = upgrade(&version("boundless"), &["--way", "stop-and-start"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    let told = ended.told.to_string();
    assert!(broken(&ended).contains(&"no queue exceeds its limit"), "{:#}", ended.told);
    assert!(told.contains("queue upgrade-capped has a limit of 2 GPUs and used 3"), "{told}");
}

#[test]
fn a_version_that_binds_beyond_the_limit_of_a_queue_above_is_caught() {
    let ended = upgrade(&version("flat"), &["--way", "stop-and-start"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    let told = ended.told.to_string();
    assert!(broken(&ended).contains(&"no queue exceeds its limit"), "{:#}", ended.told);
    assert!(told.contains("queue upgrade-bounded has a limit of 1 GPUs and used 2"), "{told}");
}

#[test]
fn a_version_that_tells_nobody_why_it_waits_is_caught() {
    let ended = upgrade(&version("mute"), &["--way", "stop-and-start"]);
    assert_eq!((broken(&ended), ended.code), (vec!["new work that waits is told why"], 1));
    let told = ended.told.to_string();
    assert!(told.contains("beyond-capped-there waits and is not told why"), "{told}");
}

#[test]
fn a_version_that_does_not_start_is_caught_with_its_own_words() {
    let ended = upgrade("process:echo no such flag", &["--way", "stop-and-start"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(broken(&ended).contains(&"no gang breaks"), "{:#}", ended.told);
    assert!(ended.told.to_string().contains("no such flag"), "{:#}", ended.told);
}

#[test]
fn an_old_version_that_does_not_run_is_no_verdict() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let state = tempfile::tempdir().expect("a temporary folder can be made");
    command.args(["upgrade", "--from", "process:false", "--to", "process:false"]);
    let output = command.env("XDG_STATE_HOME", state.path()).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(3));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("process:false: the scheduler ended by itself"), "{err}");
}
