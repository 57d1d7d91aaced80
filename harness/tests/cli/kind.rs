//! `run --cluster kind` when a prerequisite is missing: one message, exit code 3, and nothing is
//! left behind. Scripts stand in for docker and kind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::kubeconfig::{kubeconfig, respond};
use super::lab::{CommandOutput, Lab};

pub(super) const DOCKER: &str = "case $1 in version) echo 28.0.0 ;; esac";

/// Runs `schedlab run --cluster ...` with only these programs on the `PATH`.
pub(super) fn run_with(programs: &[(&str, &str)], args: &[&str]) -> (Lab, CommandOutput) {
    let (lab, mut command) = command(programs, args);
    let output = CommandOutput::from_output(command.output().unwrap());
    (lab, output)
}

pub(super) fn command(programs: &[(&str, &str)], args: &[&str]) -> (Lab, Command) {
    with_programs(programs, &[&["run", "--cluster"], args].concat())
}

/// A `schedlab` command with only these programs on its `PATH`.
pub(super) fn with_programs(programs: &[(&str, &str)], args: &[&str]) -> (Lab, Command) {
    let lab = Lab::from_fixture("passes");
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

/// Asserts exit code 3, these words on standard error, no standard output, and no record of a run
/// that still has to be cleaned up.
pub(super) fn assert_start_failed(lab: &Lab, output: &CommandOutput, words: &[&str]) {
    assert_eq!(output.code, 3, "{}", output.all());
    for words in words {
        assert!(output.stderr.contains(words), "{words}: {}", output.all());
    }
    assert_eq!(output.stdout, "");
    assert_eq!(records(lab), 0, "{}", output.all());
}

/// Number of runs that may have left something to clean up.
pub(super) fn records(lab: &Lab) -> usize {
    std::fs::read_dir(lab.path("state/schedlab/runs")).map_or(0, Iterator::count)
}

/// The command, run through the program `by`.
fn wrapped_command(command: &Command, by: &[&str]) -> Command {
    let mut outer = Command::new(by[0]);
    outer.args(&by[1..]).arg(command.get_program()).args(command.get_args());
    let environment = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    outer.envs(environment).current_dir(command.get_current_dir().unwrap());
    outer
}

/// Runs the command and sends these signals, one right after the other, as soon as its standard
/// error contains `words`.
pub(super) fn signal_when(command: &Command, words: &str, signals: &[&str]) -> CommandOutput {
    // The process that runs the tests may ignore SIGHUP.
    let mut child = wrapped_command(command, &["/usr/bin/env", "--default-signal=HUP"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains(words) {
        assert!(
            stderr.read_line(&mut text).unwrap() > 0,
            "the command ended without {words}: {text}"
        );
    }
    for signal in signals {
        // The child has not been reaped, so its process id is still valid.
        let sent = Command::new("kill").args([*signal, &child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
    stderr.read_to_string(&mut text).unwrap();
    let mut output = child.wait_with_output().unwrap();
    output.stderr = text.into_bytes();
    CommandOutput::from_output(output)
}

#[test]
fn a_signal_ends_the_wait_for_a_cluster_and_nothing_is_left() {
    let boots = "case \"$1 $2\" in 'create cluster') exec /bin/sleep 600 ;; esac";
    // When a terminal closes, both the kernel and the shell send SIGHUP.
    for signals in [&["-INT"][..], &["-TERM"], &["-HUP", "-HUP"]] {
        let (lab, command) = command(&[("docker", DOCKER), ("kind", boots)], &["kind"]);
        let output = signal_when(&command, "creating kind cluster", signals);
        assert_eq!((output.code, &*output.stdout, records(&lab)), (130, "", 0), "{}", output.all());
    }
}

#[test]
fn a_run_that_ignores_sighup_outlives_its_terminal() {
    // The run continues and fails to start: an interrupted run would exit with 130.
    let boots = "case \"$1 $2\" in 'create cluster') kill -HUP \"$SCHEDLAB\"; exit 1 ;; esac";
    let (lab, command) = command(&[("docker", DOCKER), ("kind", boots)], &["kind"]);
    let outlives = "trap '' HUP; export SCHEDLAB=$$; exec \"$0\" \"$@\"";
    let mut nohup = wrapped_command(&command, &["/bin/sh", "-c", outlives]);
    let output = CommandOutput::from_output(nohup.output().unwrap());
    assert_start_failed(&lab, &output, &["`kind create cluster"]);
}

#[test]
fn a_missing_docker_is_reported_with_the_package_to_install() {
    let result = run_with(&[], &["kind"]);
    assert_start_failed(
        &result.0,
        &result.1,
        &["there is no docker on the PATH", "apt-get install docker.io"],
    );
}

#[test]
fn a_dead_daemon_is_reported_with_a_suggestion() {
    let dead = "echo 'Cannot connect to the Docker daemon at unix:///x' >&2; exit 1";
    let result = run_with(&[("docker", dead)], &["kind"]);
    assert_start_failed(
        &result.0,
        &result.1,
        &["Cannot connect to the Docker daemon", "systemctl start docker"],
    );
}

#[test]
fn a_hanging_daemon_is_reported_after_a_timeout() {
    let hangs = "exec /bin/sleep 600";
    for cluster in ["container", "kind"] {
        let result = run_with(&[("docker", hangs)], &[cluster]);
        assert_start_failed(
            &result.0,
            &result.1,
            &["no response within", "docker's daemon hangs: restart it"],
        );
    }
}

#[test]
fn schedlab_kind_names_the_kind_program() {
    let kind = "echo 'kind was called' >&2; exit 1";
    let (lab, mut command) = command(&[("docker", DOCKER), ("mine", kind)], &["kind"]);
    command.env("SCHEDLAB_KIND", lab.path("bin/mine"));
    let result = (lab, CommandOutput::from_output(command.output().unwrap()));
    assert_start_failed(&result.0, &result.1, &["kind was called"]);
}

#[test]
fn an_unusable_schedlab_kind_is_reported_by_name() {
    for named in ["/nowhere/kind", "/etc/hostname", "no-such-kind"] {
        let (lab, mut command) = command(&[("docker", DOCKER), ("kind", "")], &["kind"]);
        let result = (
            lab,
            CommandOutput::from_output(command.env("SCHEDLAB_KIND", named).output().unwrap()),
        );
        assert_start_failed(
            &result.0,
            &result.1,
            &[&format!("SCHEDLAB_KIND names {named}: "), "or unset it"],
        );
    }
}

#[test]
fn a_stopped_kept_cluster_is_reported_with_a_suggestion() {
    let kind = "case \"$1 $2\" in 'get clusters') echo kept ;; 'export kubeconfig') \
                echo 'Command Output: Error response from daemon: Container 0123 is not running' \
                >&2; exit 1 ;; esac";
    let programs = [("docker", DOCKER), ("kind", kind)];
    let result = run_with(&programs, &["kind", "--kind-cluster", "kept"]);
    assert_start_failed(
        &result.0,
        &result.1,
        &["Container 0123 is not running", "docker start NAME-control-plane"],
    );
}

#[test]
fn a_missing_kind_is_reported_with_the_command_to_install_it() {
    let result = run_with(&[("docker", DOCKER)], &["kind"]);
    assert_start_failed(
        &result.0,
        &result.1,
        &["there is no kind on the PATH", "go install sigs.k8s.io/kind"],
    );
}

#[test]
fn a_run_waits_for_a_kept_cluster_that_is_starting() {
    let kind = "case \"$1 $2\" in 'get clusters') echo kept ;; \
                'export kubeconfig') /bin/cp \"$KEPT\" \"$6\" ;; esac";
    let programs = [("docker", DOCKER), ("kind", kind)];
    let (lab, mut command) = command(&programs, &["kind", "--kind-cluster", "kept"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    lab.write("kept", &kubeconfig(&server));
    std::thread::spawn(move || {
        // The first request gets no response.
        for stream in listener.incoming().skip(1) {
            respond(stream.unwrap());
        }
    });
    let output =
        CommandOutput::from_output(command.env("KEPT", lab.path("kept")).output().unwrap());
    assert_start_failed(&lab, &output, &["does not allow everything"]);
}

/// Writes the record of a run that was killed before the last boot, with one resource.
fn write_record(lab: &Lab, resource: &str) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    lab.write(
        "state/schedlab/runs/before.json",
        &format!(
            r#"{{"id": "before", "verb": "run", "began": "2026-01-01T00:00:00Z", "pid": 1, "started": 1,
                 "place": {{"host": "{host}", "boot": "an earlier one", "namespace": ""}},
                 "things": [{resource}]}}"#
        ),
    );
}

#[test]
fn a_deleted_kept_cluster_needs_no_cleanup() {
    let (lab, mut command) = with_programs(&[("docker", "")], &["clean"]);
    write_record(&lab, r#"{"kind": "kept-cluster", "name": "kept", "kubeconfig": "/nowhere"}"#);
    let output = CommandOutput::from_output(command.output().unwrap());
    assert_eq!((output.code, records(&lab)), (0, 0), "{}", output.all());
    assert!(
        output.stdout.contains("already gone: objects on kind cluster kept"),
        "{}",
        output.stdout
    );
}

#[test]
fn clean_uses_the_docker_daemon_of_the_run() {
    // Every daemon has the cluster, but only one of them is the daemon of the run.
    let docker = "echo \"$DOCKER_HOST$DOCKER_CONTEXT $*\" >>\"$CALLS\"; \
                  case \"$*\" in ps*kind.cluster=*) echo 0123 ;; esac";
    for (daemon, removal) in [
        (
            r#"{"host": "tcp://10.0.0.7:2375", "context": null}"#,
            "tcp://10.0.0.7:2375 rm -f -v 0123",
        ),
        (r#"{"host": "unix:///far", "context": "far"}"#, "far rm -f -v 0123"),
    ] {
        let (lab, mut command) = with_programs(&[("docker", docker)], &["clean"]);
        command.env("CALLS", lab.path("calls")).env("DOCKER_HOST", "unix:///here");
        write_record(&lab, r#"{"kind": "kind-cluster", "name": "schedlab-before"}"#);
        let file = "state/schedlab/runs/before.json";
        let record =
            lab.read(file).replacen("\"things\"", &format!("\"docker\": {daemon}, \"things\""), 1);
        lab.write(file, &record);
        let output = CommandOutput::from_output(command.output().unwrap());
        assert_eq!(output.code, 0, "{}", output.all());
        let removals = lab.read("calls");
        let removals: Vec<&str> = removals.lines().filter(|line| line.contains(" rm ")).collect();
        assert_eq!(removals, [removal]);
    }
}

#[test]
fn a_killed_run_has_recorded_its_docker_daemon() {
    let docker = "case $1 in version) echo 28.0.0 ;; context) echo 'far unix:///far' ;; esac";
    let boots = "case \"$1 $2\" in 'create cluster') exec /bin/sleep 600 ;; esac";
    let (lab, mut command) = command(&[("docker", docker), ("kind", boots)], &["kind"]);
    command.env_remove("DOCKER_HOST");
    signal_when(&command, "creating kind cluster", &["-KILL"]);
    let (_other, mut clean) = with_programs(&[], &["clean"]);
    let runs = std::fs::read_dir(lab.path("state/schedlab/runs")).unwrap();
    let records: Vec<String> =
        runs.flatten().map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect();
    assert_eq!(records.len(), 1);
    let record: schedlab_api::Value = serde_json::from_str(&records[0]).unwrap();
    let docker = schedlab_api::json!({"host": "unix:///far", "context": "far"});
    assert_eq!(record["docker"], docker);
    // Ends the process of `kind create cluster`, which would sleep on.
    clean.env("XDG_STATE_HOME", lab.path("state")).output().unwrap();
}

#[test]
fn clean_reports_resources_of_a_dead_daemon_as_unknown() {
    let dead = "echo 'Cannot connect to the Docker daemon at unix:///x' >&2; exit 1";
    let (lab, mut command) = with_programs(&[("docker", dead)], &["clean"]);
    write_record(&lab, r#"{"kind": "kind-cluster", "name": "schedlab-before"}"#);
    let output = CommandOutput::from_output(command.output().unwrap());
    assert_eq!((output.code, records(&lab)), (1, 1), "{}", output.all());
    assert!(
        output.stdout.contains("  UNKNOWN kind cluster schedlab-before: "),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("NOT REMOVED"), "{}", output.stdout);
}

#[test]
fn a_container_created_after_its_run_was_killed_is_removed_by_the_next_clean() {
    // The containers of the daemon are listed in a file, which is empty at first.
    let docker =
        "case \"$*\" in ps*kind.cluster=*) /bin/cat \"$DAEMON\" ;; rm*) : >\"$DAEMON\" ;; esac";
    let (lab, mut command) = with_programs(&[("docker", docker)], &["clean"]);
    lab.write("daemon", "");
    let command = command.env("DAEMON", lab.path("daemon"));
    write_record(&lab, r#"{"kind": "kind-cluster", "name": "schedlab-before"}"#);
    let first = CommandOutput::from_output(command.output().unwrap());
    assert_eq!((first.code, records(&lab)), (0, 1), "{}", first.all());
    let line = "  not created yet: kind cluster schedlab-before (docker may be creating it: run clean again)\n";
    assert!(first.stdout.contains(line), "{}", first.stdout);

    lab.write("daemon", "0123\n");
    let next = CommandOutput::from_output(command.output().unwrap());
    assert_eq!((next.code, &*lab.read("daemon")), (0, ""), "{}", next.all());
    assert!(next.stdout.contains("  removed kind cluster schedlab-before\n"), "{}", next.stdout);

    // The time in which docker may still create the container has passed.
    let file = "state/schedlab/runs/before.json";
    let record = lab.read(file);
    let gone = record.split_once("\"gone\": \"").expect(&record).1.split_once('"').unwrap().0;
    lab.write(file, &record.replace(gone, "2026-01-01T00:10:00Z"));
    let last = CommandOutput::from_output(command.output().unwrap());
    assert_eq!((last.code, records(&lab)), (0, 0), "{}", last.all());
}

#[test]
fn an_unrecorded_kind_cluster_is_reported_and_not_deleted() {
    let docker = "case \"$*\" in *kind.cluster*) echo schedlab-7; echo mine ;; esac";
    let (_lab, mut command) = with_programs(&[("docker", docker)], &["clean"]);
    let output = CommandOutput::from_output(command.output().unwrap());
    let line = "kind cluster schedlab-7: kind delete cluster --name schedlab-7\n";
    assert_eq!(output.code, 0, "{}", output.all());
    assert!(output.stdout.contains(line) && !output.stdout.contains("mine"), "{}", output.stdout);
}

#[test]
fn a_missing_node_image_is_reported_in_kinds_words() {
    let kind = "case \"$1 $2\" in 'create cluster') \
                echo 'ERROR: failed to create cluster: failed to pull image \"absent:1\"' >&2; \
                exit 1 ;; esac";
    let result =
        run_with(&[("docker", DOCKER), ("kind", kind)], &["kind", "--node-image", "absent:1"]);
    assert_start_failed(
        &result.0,
        &result.1,
        &["failed to pull image \"absent:1\"", "make kind-test"],
    );
}

#[test]
fn temporary_files_of_kind_are_removed() {
    let kind = "case \"$1 $2\" in 'create cluster') echo image >$TMPDIR/images-tar; exit 1 ;; esac";
    let (lab, mut command) = command(&[("docker", DOCKER), ("kind", kind)], &["kind"]);
    std::fs::create_dir(lab.path("temporary")).unwrap();
    let output =
        CommandOutput::from_output(command.env("TMPDIR", lab.path("temporary")).output().unwrap());
    assert_eq!(output.code, 3, "{}", output.all());
    assert_eq!(std::fs::read_dir(lab.path("temporary")).unwrap().count(), 0);
}

#[test]
fn a_missing_scheduler_image_is_reported_before_a_cluster_is_created() {
    let docker = "case $1 in version) echo 28.0.0 ;; image) echo \"Error: No such image: $5\" >&2; \
                  exit 1 ;; esac";
    let kind = "echo 'kind was called' >&2; exit 1";
    for (scheduler, image) in
        [("deployment", "schedlab/scheduler:dev"), ("deployment:absent:1", "absent:1")]
    {
        let result =
            run_with(&[("docker", docker), ("kind", kind)], &["kind", "--scheduler", scheduler]);
        assert_start_failed(
            &result.0,
            &result.1,
            &[&format!("No such image: {image}"), "kind-configs/image"],
        );
        assert!(!result.1.stderr.contains("kind was called"), "{}", result.1.all());
    }
}

#[test]
fn a_missing_kind_config_is_named() {
    let programs = [("docker", DOCKER), ("kind", "")];
    let result = run_with(&programs, &["kind", "--kind-config", "absent.yaml"]);
    assert_start_failed(&result.0, &result.1, &["cannot read kind's configuration absent.yaml"]);
}

#[test]
fn a_scheduler_deployment_needs_a_kind_cluster() {
    let lab = Lab::from_fixture("passes");
    let output = lab.run(&["run", "--cluster", "control-plane", "--scheduler", "deployment"]);
    assert_eq!(output.code, 2, "{}", output.all());
    assert!(output.stderr.contains("installed:NAME"), "{}", output.stderr);
}
