//! `run --cluster kind` where something that it needs is missing: one message, exit code 3, and
//! nothing is left. Docker and kind are played by scripts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::kubeconfig::{answer, kubeconfig};
use super::lab::{Ended, Lab};

pub(super) const DOCKER: &str = "case $1 in version) echo 28.0.0 ;; esac";

/// Runs with these programs alone on the `PATH`.
pub(super) fn run_with(programs: &[(&str, &str)], args: &[&str]) -> (Lab, Ended) {
    let (lab, mut command) = command(programs, args);
    let ended = Ended::of(command.output().unwrap());
    (lab, ended)
}

pub(super) fn command(programs: &[(&str, &str)], args: &[&str]) -> (Lab, Command) {
    with_programs(programs, &[&["run", "--cluster"], args].concat())
}

/// A command line with these programs alone on its `PATH`.
pub(super) fn with_programs(programs: &[(&str, &str)], args: &[&str]) -> (Lab, Command) {
    let lab = Lab::of("passes");
    std::fs::create_dir(lab.path("bin")).unwrap();
    for (name, script) in programs {
        let path = format!("bin/{name}");
        lab.write(&path, &format!("#!/bin/sh\n{script}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(lab.path(&path), mode).unwrap();
    }
    let (path, state) = (lab.path("bin"), lab.path("state"));
    let folders = [&path, &state].map(|folder| folder.to_str().unwrap().to_owned());
    let environment =
        [("PATH", &*folders[0]), ("XDG_STATE_HOME", &*folders[1]), ("SCHEDLAB_KIND", "")];
    let mut command = lab.command(args);
    command.envs(environment);
    (lab, command)
}

/// Ended with 3, said this, ran nothing, and noted nothing that would still be there.
pub(super) fn could_not_start((lab, ended): &(Lab, Ended), words: &[&str]) {
    assert_eq!(ended.code, 3, "{}", ended.all());
    for words in words {
        assert!(ended.err.contains(words), "{words}: {}", ended.all());
    }
    assert_eq!(ended.out, "");
    assert_eq!(records(lab), 0, "{}", ended.all());
}

/// Runs of which something may be left.
pub(super) fn records(lab: &Lab) -> usize {
    std::fs::read_dir(lab.path("state/schedlab/runs")).map_or(0, Iterator::count)
}

/// The command, run by another.
fn within(command: &Command, by: &[&str]) -> Command {
    let mut outer = Command::new(by[0]);
    outer.args(&by[1..]).arg(command.get_program()).args(command.get_args());
    let environment = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    outer.envs(environment).current_dir(command.get_current_dir().unwrap());
    outer
}

/// Sends it signals, one right after the other, as soon as its standard error says this.
pub(super) fn ended_when(command: &Command, words: &str, signals: &[&str]) -> Ended {
    // Whoever runs the tests may have been told to outlive its terminal.
    let mut child = within(command, &["/usr/bin/env", "--default-signal=HUP"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains(words) {
        assert!(said.read_line(&mut text).unwrap() > 0, "it ended without {words}: {text}");
    }
    for signal in signals {
        // Not reaped yet, so the id is still its own.
        let sent = Command::new("kill").args([*signal, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
    said.read_to_string(&mut text).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = text.into_bytes();
    Ended::of(output)
}

#[test]
fn who_does_not_want_to_wait_for_a_cluster_any_more_is_heard_and_nothing_is_left() {
    let boots = "case \"$1 $2\" in 'create cluster') exec /bin/sleep 600 ;; esac";
    // Of a terminal that is closed both the kernel and the shell tell.
    for signals in [&["-INT"][..], &["-TERM"], &["-HUP", "-HUP"]] {
        let (lab, command) = command(&[("docker", DOCKER), ("kind", boots)], &["kind"]);
        let ended = ended_when(&command, "creating kind cluster", signals);
        assert_eq!((ended.code, &*ended.out, records(&lab)), (130, "", 0), "{}", ended.all());
    }
}

#[test]
fn who_was_told_to_outlive_its_terminal_does() {
    // It goes on, and so ends well: an interrupted run ends with 130.
    let boots = "case \"$1 $2\" in 'create cluster') kill -HUP \"$SCHEDLAB\"; exit 1 ;; esac";
    let (lab, command) = command(&[("docker", DOCKER), ("kind", boots)], &["kind"]);
    let outlives = "trap '' HUP; export SCHEDLAB=$$; exec \"$0\" \"$@\"";
    let mut nohup = within(&command, &["/bin/sh", "-c", outlives]);
    let ended = Ended::of(nohup.output().unwrap());
    could_not_start(&(lab, ended), &["`kind create cluster"]);
}

#[test]
fn without_docker_it_says_what_to_install() {
    let ran = run_with(&[], &["kind"]);
    could_not_start(&ran, &["there is no docker on the PATH", "apt-get install docker.io"]);
}

#[test]
fn a_dead_daemon_comes_with_what_to_do() {
    let dead = "echo 'Cannot connect to the Docker daemon at unix:///x' >&2; exit 1";
    let ran = run_with(&[("docker", dead)], &["kind"]);
    could_not_start(&ran, &["Cannot connect to the Docker daemon", "systemctl start docker"]);
}

#[test]
fn a_daemon_that_hangs_is_not_waited_for() {
    let hangs = "exec /bin/sleep 600";
    for cluster in ["container", "kind"] {
        let ran = run_with(&[("docker", hangs)], &[cluster]);
        could_not_start(&ran, &["no response within", "its daemon hangs: restart it"]);
    }
}

#[test]
fn kind_may_be_a_program_that_is_named() {
    let kind = "echo 'it is asked' >&2; exit 1";
    let (lab, mut command) = command(&[("docker", DOCKER), ("mine", kind)], &["kind"]);
    command.env("SCHEDLAB_KIND", lab.path("bin/mine"));
    let ran = (lab, Ended::of(command.output().unwrap()));
    could_not_start(&ran, &["it is asked"]);
}

#[test]
fn a_program_that_is_named_and_cannot_be_run_is_told_by_its_name() {
    for named in ["/nowhere/kind", "/etc/hostname", "no-such-kind"] {
        let (lab, mut command) = command(&[("docker", DOCKER), ("kind", "")], &["kind"]);
        let ran = (lab, Ended::of(command.env("SCHEDLAB_KIND", named).output().unwrap()));
        could_not_start(&ran, &[&format!("SCHEDLAB_KIND names {named}: "), "or unset it"]);
    }
}

#[test]
fn a_kept_cluster_that_is_stopped_comes_with_what_to_do() {
    let kind = "case \"$1 $2\" in 'get clusters') echo kept ;; 'export kubeconfig') \
                echo 'Command Output: Error response from daemon: Container 0123 is not running' \
                >&2; exit 1 ;; esac";
    let programs = [("docker", DOCKER), ("kind", kind)];
    let ran = run_with(&programs, &["kind", "--kind-cluster", "kept"]);
    could_not_start(&ran, &["Container 0123 is not running", "docker start NAME-control-plane"]);
}

#[test]
fn without_kind_it_says_how_to_get_it() {
    let ran = run_with(&[("docker", DOCKER)], &["kind"]);
    could_not_start(&ran, &["there is no kind on the PATH", "go install sigs.k8s.io/kind"]);
}

#[test]
fn a_kept_cluster_that_has_just_been_started_is_waited_for() {
    let kind = "case \"$1 $2\" in 'get clusters') echo kept ;; \
                'export kubeconfig') /bin/cp \"$KEPT\" \"$6\" ;; esac";
    let programs = [("docker", DOCKER), ("kind", kind)];
    let (lab, mut command) = command(&programs, &["kind", "--kind-cluster", "kept"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    lab.write("kept", &kubeconfig(&server));
    std::thread::spawn(move || {
        // What is asked first gets no answer.
        for asked in listener.incoming().skip(1) {
            answer(asked.unwrap());
        }
    });
    let ended = Ended::of(command.env("KEPT", lab.path("kept")).output().unwrap());
    could_not_start(&(lab, ended), &["does not let us do everything"]);
}

/// The record of a run of an earlier boot that noted one thing.
fn killed(lab: &Lab, thing: &str) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    lab.write(
        "state/schedlab/runs/before.json",
        &format!(
            r#"{{"id": "before", "verb": "run", "began": "2026-01-01T00:00:00Z", "pid": 1, "started": 1,
                 "place": {{"host": "{host}", "boot": "an earlier one", "namespace": ""}},
                 "things": [{thing}]}}"#
        ),
    );
}

#[test]
fn a_kept_cluster_that_was_deleted_since_has_nothing_left_of_a_run() {
    let (lab, mut command) = with_programs(&[("docker", "")], &["clean"]);
    killed(&lab, r#"{"kind": "kept-cluster", "name": "kept", "kubeconfig": "/nowhere"}"#);
    let ended = Ended::of(command.output().unwrap());
    assert_eq!((ended.code, records(&lab)), (0, 0), "{}", ended.all());
    assert!(ended.out.contains("gone already: objects on kind cluster kept"), "{}", ended.out);
}

#[test]
fn what_a_run_left_is_looked_for_where_its_docker_was() {
    // Each daemon has the cluster; only one is that of the run.
    let docker = "echo \"$DOCKER_HOST$DOCKER_CONTEXT $*\" >>\"$ASKED\"; \
                  case \"$*\" in ps*kind.cluster=*) echo 0123 ;; esac";
    for (daemon, asked) in [
        (
            r#"{"host": "tcp://10.0.0.7:2375", "context": null}"#,
            "tcp://10.0.0.7:2375 rm -f -v 0123",
        ),
        (r#"{"host": "unix:///far", "context": "far"}"#, "far rm -f -v 0123"),
    ] {
        let (lab, mut command) = with_programs(&[("docker", docker)], &["clean"]);
        command.env("ASKED", lab.path("asked")).env("DOCKER_HOST", "unix:///here");
        killed(&lab, r#"{"kind": "kind-cluster", "name": "schedlab-before"}"#);
        let file = "state/schedlab/runs/before.json";
        let record =
            lab.read(file).replacen("\"things\"", &format!("\"docker\": {daemon}, \"things\""), 1);
        lab.write(file, &record);
        let ended = Ended::of(command.output().unwrap());
        assert_eq!(ended.code, 0, "{}", ended.all());
        let removals = lab.read("asked");
        let removals: Vec<&str> = removals.lines().filter(|line| line.contains(" rm ")).collect();
        assert_eq!(removals, [asked]);
    }
}

#[test]
fn a_run_that_is_killed_has_noted_where_its_docker_is() {
    let docker = "case $1 in version) echo 28.0.0 ;; context) echo 'far unix:///far' ;; esac";
    let boots = "case \"$1 $2\" in 'create cluster') exec /bin/sleep 600 ;; esac";
    let (lab, mut command) = command(&[("docker", docker), ("kind", boots)], &["kind"]);
    command.env_remove("DOCKER_HOST");
    ended_when(&command, "creating kind cluster", &["-KILL"]);
    let (_other, mut clean) = with_programs(&[], &["clean"]);
    let runs = std::fs::read_dir(lab.path("state/schedlab/runs")).unwrap();
    let records: Vec<String> =
        runs.flatten().map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect();
    assert_eq!(records.len(), 1);
    let record: schedlab_json::Value = serde_json::from_str(&records[0]).unwrap();
    let docker = schedlab_json::json!({"host": "unix:///far", "context": "far"});
    assert_eq!(record["docker"], docker);
    // Its kind waits for ever.
    clean.env("XDG_STATE_HOME", lab.path("state")).output().unwrap();
}

#[test]
fn of_what_a_dead_daemon_had_nobody_says_that_it_is_still_there() {
    let dead = "echo 'Cannot connect to the Docker daemon at unix:///x' >&2; exit 1";
    let (lab, mut command) = with_programs(&[("docker", dead)], &["clean"]);
    killed(&lab, r#"{"kind": "kind-cluster", "name": "schedlab-before"}"#);
    let ended = Ended::of(command.output().unwrap());
    assert_eq!((ended.code, records(&lab)), (1, 1), "{}", ended.all());
    assert!(ended.out.contains("  CANNOT TELL kind cluster schedlab-before: "), "{}", ended.out);
    assert!(!ended.out.contains("STILL THERE"), "{}", ended.out);
}

#[test]
fn a_container_that_docker_makes_after_all_who_asked_were_killed_goes_with_the_next_clean() {
    // Docker's daemon has what is in a file: nothing at first.
    let docker =
        "case \"$*\" in ps*kind.cluster=*) /bin/cat \"$DAEMON\" ;; rm*) : >\"$DAEMON\" ;; esac";
    let (lab, mut command) = with_programs(&[("docker", docker)], &["clean"]);
    lab.write("daemon", "");
    let command = command.env("DAEMON", lab.path("daemon"));
    killed(&lab, r#"{"kind": "kind-cluster", "name": "schedlab-before"}"#);
    let early = Ended::of(command.output().unwrap());
    assert_eq!((early.code, records(&lab)), (0, 1), "{}", early.all());
    let told = "  nothing yet: kind cluster schedlab-before (docker may be at it: clean again)\n";
    assert!(early.out.contains(told), "{}", early.out);

    lab.write("daemon", "0123\n");
    let next = Ended::of(command.output().unwrap());
    assert_eq!((next.code, &*lab.read("daemon")), (0, ""), "{}", next.all());
    assert!(next.out.contains("  removed kind cluster schedlab-before\n"), "{}", next.out);

    // The time for it is over.
    let file = "state/schedlab/runs/before.json";
    let record = lab.read(file);
    let gone = record.split_once("\"gone\": \"").expect(&record).1.split_once('"').unwrap().0;
    lab.write(file, &record.replace(gone, "2026-01-01T00:10:00Z"));
    let last = Ended::of(command.output().unwrap());
    assert_eq!((last.code, records(&lab)), (0, 0), "{}", last.all());
}

#[test]
fn a_kind_cluster_of_a_run_that_nobody_noted_is_told_and_left_alone() {
    let docker = "case \"$*\" in *kind.cluster*) echo schedlab-7; echo mine ;; esac";
    let (_lab, mut command) = with_programs(&[("docker", docker)], &["clean"]);
    let ended = Ended::of(command.output().unwrap());
    let told = "kind cluster schedlab-7: kind delete cluster --name schedlab-7\n";
    assert_eq!(ended.code, 0, "{}", ended.all());
    assert!(ended.out.contains(told) && !ended.out.contains("mine"), "{}", ended.out);
}

#[test]
fn a_node_image_that_is_not_there_is_told_in_kinds_words() {
    let kind = "case \"$1 $2\" in 'create cluster') \
                echo 'ERROR: failed to create cluster: failed to pull image \"absent:1\"' >&2; \
                exit 1 ;; esac";
    let ran =
        run_with(&[("docker", DOCKER), ("kind", kind)], &["kind", "--node-image", "absent:1"]);
    could_not_start(&ran, &["failed to pull image \"absent:1\"", "make kind-test"]);
}

#[test]
fn what_kind_leaves_in_its_temporary_folder_goes_too() {
    let kind = "case \"$1 $2\" in 'create cluster') echo image >$TMPDIR/images-tar; exit 1 ;; esac";
    let (lab, mut command) = command(&[("docker", DOCKER), ("kind", kind)], &["kind"]);
    std::fs::create_dir(lab.path("temporary")).unwrap();
    let ended = Ended::of(command.env("TMPDIR", lab.path("temporary")).output().unwrap());
    assert_eq!(ended.code, 3, "{}", ended.all());
    assert_eq!(std::fs::read_dir(lab.path("temporary")).unwrap().count(), 0);
}

#[test]
fn a_scheduler_s_image_that_is_not_there_is_told_before_a_cluster_is_made() {
    let docker = "case $1 in version) echo 28.0.0 ;; image) echo \"Error: No such image: $5\" >&2; \
                  exit 1 ;; esac";
    let kind = "echo 'it is asked' >&2; exit 1";
    for (scheduler, image) in
        [("deployment", "schedlab/scheduler:dev"), ("deployment:absent:1", "absent:1")]
    {
        let ran =
            run_with(&[("docker", docker), ("kind", kind)], &["kind", "--scheduler", scheduler]);
        could_not_start(&ran, &[&format!("No such image: {image}"), "kind-configs/image"]);
        assert!(!ran.1.err.contains("it is asked"), "{}", ran.1.all());
    }
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let programs = [("docker", DOCKER), ("kind", "")];
    let ran = run_with(&programs, &["kind", "--kind-config", "absent.yaml"]);
    could_not_start(&ran, &["cannot read kind's configuration absent.yaml"]);
}

#[test]
fn a_deployment_is_for_kind_clusters() {
    let lab = Lab::of("passes");
    let ended = lab.run(&["run", "--cluster", "control-plane", "--scheduler", "deployment"]);
    assert_eq!(ended.code, 2, "{}", ended.all());
    assert!(ended.err.contains("installed:NAME"), "{}", ended.err);
}
