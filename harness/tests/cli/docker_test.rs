//! `make docker-test` on machines that can do less: what the machine cannot do is skipped and says
//! why, what fails on a cluster that is there fails. Docker and the scripts beside it are played.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use super::lab::{Ended, Lab};

/// A daemon that answers, and containers that run.
const DOCKER: &str = "case $1 in version) echo 28.0.0 ;; ps) cat running 2>/dev/null ;; esac";
/// No daemon before ours is started.
const NO_DAEMON: &str = "case $1 in version) exit 1 ;; ps) cat running 2>/dev/null ;; esac";

/// A machine on which everything goes well but for what `faults` say: script by script.
fn docker_test(faults: &[(&str, &str)], environment: &[(&str, &str)]) -> (Ended, String) {
    let lab = Lab::empty();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../kind-configs");
    let well = [
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
    for (path, script) in well.iter().chain(faults) {
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
    let ended = Ended::of(command.output().unwrap());
    let log = if lab.exists("log") { lab.read("log") } else { String::new() };
    (ended, log)
}

/// Skipped, for this reason; and a failure where docker is required.
fn skips(faults: &[(&str, &str)], why: &str) -> String {
    let (ended, log) = docker_test(faults, &[]);
    assert_eq!(ended.code, 0, "{}", ended.all());
    assert!(ended.out.contains(&format!("skipped: {why}")), "{why}: {}", ended.all());
    let (required, _) = docker_test(faults, &[("SCHEDLAB_REQUIRE", "control-plane,docker")]);
    assert_eq!(required.code, 1, "{}", required.all());
    log
}

/// A failure, whatever else there is to say.
fn fails(fault: (&str, &str)) {
    let (ended, _) = docker_test(&[fault], &[]);
    assert_ne!(ended.code, 0, "{fault:?}: {}", ended.all());
    assert!(!ended.out.contains("skipped"), "{fault:?}: {}", ended.all());
}

#[test]
fn a_machine_that_can_do_everything_does_both() {
    let (ended, mut log) = docker_test(&[], &[]);
    assert_eq!(ended.code, 0, "{}", ended.all());
    let lines = log.lines().count();
    log.retain(|letter| letter != '\n');
    assert!(lines == 2 && log.contains("in a container") && log.contains("on kind"), "{log}");
}

#[test]
fn what_the_machine_cannot_do_is_skipped() {
    let no_daemon = [("bin/docker", NO_DAEMON), ("kind/engine/start", "exit 3")];
    assert_eq!(skips(&no_daemon, "features in docker: no daemon can be started here"), "");
    let no_run = "case $1 in run) exit 125 ;; esac";
    skips(&[("bin/docker", no_run)], "features in docker: containers do not run here");
    skips(&[("kind/image", "exit 1")], "features in docker: no image can be made here");
    let cannot = "features on kind: what it needs cannot be built here";
    assert_eq!(skips(&[("kind/prepare", "exit 1")], cannot), "in a container\n");
    assert_eq!(skips(&[("kind/tool", "exit 1")], cannot), "in a container\n");
    skips(&[("kind/test", "exit 3")], "features on kind: a node does not boot here");
}

#[test]
fn what_has_no_room_on_the_disk_is_skipped() {
    let df = "echo Avail; echo 900";
    assert_eq!(skips(&[("bin/df", df)], "features in docker: "), "");
    let df = "echo Avail; echo 5000000";
    assert_eq!(skips(&[("bin/df", df)], "features on kind: "), "in a container\n");
}

#[test]
fn what_fails_fails() {
    for broken in ["kind/programs", "kind/container-test", "kind/test"] {
        fails((broken, "exit 1"));
    }
    fails(("kind/container-test", "exit 3"));
    // Whatever is on kind.
    let (ended, _) =
        docker_test(&[("kind/container-test", "exit 1"), ("kind/test", "exit 3")], &[]);
    assert_eq!(ended.code, 1, "{}", ended.all());
}

#[test]
fn a_daemon_of_our_own_ends_unless_others_use_it_and_another_outlives_us() {
    let (_, log) = docker_test(&[("bin/docker", NO_DAEMON)], &[]);
    assert!(log.ends_with("stopped\n"), "{log}");
    let others = [("bin/docker", NO_DAEMON), ("kind/test", "echo 0123 >running")];
    let (ended, log) = docker_test(&others, &[]);
    assert!(!log.contains("stopped") && ended.err.contains("0123"), "{log}{}", ended.all());
    let (_, log) = docker_test(&[], &[]);
    assert!(!log.contains("stopped"), "{log}");
    let stuck = [("bin/docker", NO_DAEMON), ("kind/engine/stop", "exit 3")];
    let (ended, _) = docker_test(&stuck, &[]);
    assert_eq!(ended.code, 0, "{}", ended.all());
}
