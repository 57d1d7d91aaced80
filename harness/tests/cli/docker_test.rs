//! `make docker-test` on machines that lack prerequisites: a part whose prerequisites are missing
//! is skipped with the reason; a part that fails on a running cluster fails. Stubs replace docker
//! and the other scripts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use super::lab::{CommandOutput, Lab};

/// A daemon that responds and can run containers.
const DOCKER: &str = "case $1 in version) echo 28.0.0 ;; ps) cat running 2>/dev/null ;; esac";
/// No daemon responds until the script starts its own.
const NO_DAEMON: &str = "case $1 in version) exit 1 ;; ps) cat running 2>/dev/null ;; esac";

/// Runs `docker-test` with stubs that succeed, except those that `faults` replaces. Returns its
/// output, and the log of the stubs.
fn docker_test(faults: &[(&str, &str)], environment: &[(&str, &str)]) -> (CommandOutput, String) {
    let lab = Lab::empty();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../kind-configs");
    let stubs = [
        ("bin/docker", DOCKER),
        ("bin/df", "echo Avail; echo 90000000"), // KiB
        ("kind/engine/start", "echo unix:///nowhere"),
        ("kind/engine/stop", "echo stopped >>log"),
        ("kind/programs", "echo folder"),
        ("kind/image", "echo image"),
        ("kind/tool", "echo tool"),
        ("kind/prepare", "echo SCHEDLAB_KIND=kind"),
        ("kind/container-test", "echo in a container >>log"),
        ("kind/test", "echo on kind >>log"),
    ];
    for (path, script) in stubs.iter().chain(faults) {
        lab.write_program(path, &format!("#!/bin/sh\n{script}\n"));
    }
    for file in ["docker-test", "lib.sh"] {
        lab.write(
            &format!("kind/{file}"),
            &std::fs::read_to_string(format!("{root}/{file}")).unwrap(),
        );
    }
    let path = format!("{}:{}", lab.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.arg("kind/docker-test").current_dir(lab.path("")).env("PATH", path);
    command.env_remove("DOCKER_HOST").env_remove("SCHEDLAB_REQUIRE");
    command.env("SCHEDLAB_SOCKETS", lab.path("sockets")).env("SCHEDLAB_CACHE", lab.path("cache"));
    command.envs(environment.iter().copied());
    let output = CommandOutput::from_output(command.output().unwrap());
    let log = if lab.exists("log") { lab.read("log") } else { String::new() };
    (output, log)
}

/// Asserts that the test is skipped for this reason, and fails if `SCHEDLAB_REQUIRE` lists docker.
/// Returns the log of the stubs.
fn assert_skipped(faults: &[(&str, &str)], reason: &str) -> String {
    let (output, log) = docker_test(faults, &[]);
    assert_eq!(output.code, 0, "{}", output.all());
    assert!(output.stdout.contains(&format!("skipped: {reason}")), "{reason}: {}", output.all());
    let (required, _) = docker_test(faults, &[("SCHEDLAB_REQUIRE", "control-plane,docker")]);
    assert_eq!(required.code, 1, "{}", required.all());
    log
}

/// Asserts that the test fails if `script` is replaced by `body`.
fn assert_fails(script: &str, body: &str) {
    let (output, _) = docker_test(&[(script, body)], &[]);
    assert_ne!(output.code, 0, "{script}: {}", output.all());
    assert!(!output.stdout.contains("skipped"), "{script}: {}", output.all());
}

#[test]
fn a_complete_machine_runs_both_parts() {
    let (output, mut log) = docker_test(&[], &[]);
    assert_eq!(output.code, 0, "{}", output.all());
    let lines = log.lines().count();
    log.retain(|letter| letter != '\n');
    assert!(lines == 2 && log.contains("in a container") && log.contains("on kind"), "{log}");
}

#[test]
fn a_part_without_its_prerequisites_is_skipped() {
    let no_daemon = [("bin/docker", NO_DAEMON), ("kind/engine/start", "exit 3")];
    assert_eq!(assert_skipped(&no_daemon, "features in docker: no daemon can be started here"), "");
    let no_run = "case $1 in run) exit 125 ;; esac";
    assert_skipped(&[("bin/docker", no_run)], "features in docker: containers do not run here");
    assert_skipped(&[("kind/image", "exit 1")], "features in docker: no image can be built here");
    let cannot = "features on kind: its prerequisites cannot be built here";
    assert_eq!(assert_skipped(&[("kind/prepare", "exit 1")], cannot), "in a container\n");
    assert_eq!(assert_skipped(&[("kind/tool", "exit 1")], cannot), "in a container\n");
    assert_skipped(&[("kind/test", "exit 3")], "features on kind: a node does not boot here");
}

#[test]
fn a_part_without_disk_space_is_skipped() {
    let df = "echo Avail; echo 900";
    assert_eq!(assert_skipped(&[("bin/df", df)], "features in docker: "), "");
    let df = "echo Avail; echo 5000000";
    assert_eq!(assert_skipped(&[("bin/df", df)], "features on kind: "), "in a container\n");
}

#[test]
fn a_failing_part_fails_the_test() {
    for broken in ["kind/programs", "kind/container-test", "kind/test"] {
        assert_fails(broken, "exit 1");
    }
    assert_fails("kind/container-test", "exit 3");
    // A failure in the container counts even if kind is skipped.
    let (output, _) =
        docker_test(&[("kind/container-test", "exit 1"), ("kind/test", "exit 3")], &[]);
    assert_eq!(output.code, 1, "{}", output.all());
}

#[test]
fn the_daemon_is_stopped_only_if_the_script_started_it_and_nothing_else_uses_it() {
    let (_, log) = docker_test(&[("bin/docker", NO_DAEMON)], &[]);
    assert!(log.ends_with("stopped\n"), "{log}");
    let in_use = [("bin/docker", NO_DAEMON), ("kind/test", "echo 0123 >running")];
    let (output, log) = docker_test(&in_use, &[]);
    assert!(!log.contains("stopped") && output.stderr.contains("0123"), "{log}{}", output.all());
    let (_, log) = docker_test(&[], &[]);
    assert!(!log.contains("stopped"), "{log}");
    let unstoppable = [("bin/docker", NO_DAEMON), ("kind/engine/stop", "exit 3")];
    let (output, _) = docker_test(&unstoppable, &[]);
    assert_eq!(output.code, 0, "{}", output.all());
}
