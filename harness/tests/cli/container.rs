//! `run --cluster container` when a prerequisite is missing: one message, exit code 3, and nothing
//! is left behind. A script stands in for the docker CLI, and a thread with fixed responses for its
//! daemon.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use super::kind::{DOCKER, assert_start_failed, command, records, run_with, signal_when};
use super::lab::{CommandOutput, Lab};

/// Responses of the daemon: a part of the request path, the status and the body. Other requests get
/// status 404.
type Responses = &'static [(&'static str, u16, &'static str)];

/// In place of a status: the request never gets a response.
const NO_RESPONSE: u16 = 0;

const CREATED: &str = r#"{"Id": "0123", "Warnings": []}"#;

/// `schedlab run --cluster container` with a daemon that gives these responses.
fn container(responses: Responses, args: &[&str]) -> (Lab, Command) {
    let (lab, mut command) = command(&[("docker", DOCKER)], &[&["container"], args].concat());
    command.env("DOCKER_HOST", daemon(&lab, responses));
    (lab, command)
}

/// Starts a daemon with these responses; returns its `DOCKER_HOST`.
fn daemon(lab: &Lab, responses: Responses) -> String {
    let socket = lab.path("docker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        // Connections without a response stay open.
        let mut open = Vec::new();
        for stream in listener.incoming() {
            open.extend(respond(stream.unwrap(), responses));
        }
    });
    format!("unix://{}", socket.display())
}

/// Runs with a docker context and without `DOCKER_HOST`.
fn run_in_context(context: &str, host: impl FnOnce(&Lab) -> String) -> (Lab, CommandOutput) {
    let docker = "case $1 in version) echo 28.0.0 ;; context) echo \"$DOCKERS_CONTEXT\" ;; esac";
    let (lab, mut command) = command(&[("docker", docker)], &["container"]);
    command.env_remove("DOCKER_HOST").env("DOCKERS_CONTEXT", format!("{context} {}", host(&lab)));
    let output = CommandOutput::from_output(command.output().unwrap());
    (lab, output)
}

fn run_container(responses: Responses, args: &[&str]) -> (Lab, CommandOutput) {
    let (lab, mut command) = container(responses, args);
    let output = CommandOutput::from_output(command.output().unwrap());
    (lab, output)
}

/// Reads one request and responds to it. Returns the stream if the request gets no response.
fn respond(mut stream: UnixStream, responses: Responses) -> Option<UnixStream> {
    let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
    while !is_whole(&read) {
        match stream.read(&mut bytes).unwrap() {
            0 => return None,
            count => read.extend(&bytes[..count]),
        }
    }
    let text = String::from_utf8_lossy(&read);
    let path = text.split(' ').nth(1).unwrap();
    let known = responses.iter().find(|(part, ..)| path.contains(part));
    let (_, status, body) = known.unwrap_or(&("", 404, r#"{"message": "page not found"}"#));
    if *status == NO_RESPONSE {
        return Some(stream);
    }
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} So\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n"
    );
    // The client may have closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    None
}

/// Whether the header and a body of the length in it were read.
fn is_whole(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read).to_lowercase();
    text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
    })
}

#[test]
fn an_unknown_image_is_refused_before_anything_starts() {
    let result = run_with(&[], &["container", "--image", "nginx:1"]);
    assert_start_failed(&result.0, &result.1, &["--image: got nginx:1", "rancher/k3s"]);
}

#[test]
fn a_missing_image_is_reported_in_dockers_words() {
    const DENIED: &str = r#"{"message": "pull access denied for schedlab/cluster"}"#;
    const ABSENT: &str = r#"{"message": "No such image: schedlab/cluster:dev"}"#;
    let responses: Responses =
        &[("/containers/create", 404, ABSENT), ("/images/create", 404, DENIED)];
    let result = run_container(responses, &[]);
    assert_start_failed(
        &result.0,
        &result.1,
        &["pull access denied for schedlab/cluster", "build or load it"],
    );
}

#[test]
fn a_port_in_use_is_reported_in_dockers_words() {
    const TAKEN: &str =
        r#"{"message": "Bind for 127.0.0.1:6443 failed: port is already allocated"}"#;
    let result =
        run_container(&[("/containers/create", 201, CREATED), ("/start", 500, TAKEN)], &[]);
    assert_start_failed(
        &result.0,
        &result.1,
        &["port is already allocated", "another container has that port"],
    );
}

#[test]
fn the_daemon_of_the_docker_context_is_used() {
    const FULL: &str = r#"{"message": "no space left on device"}"#;
    let result = run_in_context("colima", |lab| daemon(lab, &[("/containers/create", 507, FULL)]));
    assert_start_failed(&result.0, &result.1, &["no space left on device", "docker system prune"]);
}

#[test]
fn a_daemon_on_another_machine_is_refused_with_its_context() {
    for host in ["ssh://me@far", "tcp://10.0.0.7:2376"] {
        let result = run_in_context("far", |_| host.to_owned());
        assert_start_failed(
            &result.0,
            &result.1,
            &[&format!("(context far at {host})"), "docker context use NAME"],
        );
    }
}

#[test]
fn a_missing_docker_socket_is_named() {
    let (lab, mut command) = command(&[("docker", DOCKER)], &["container"]);
    command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let output = CommandOutput::from_output(command.output().unwrap());
    assert_start_failed(&lab, &output, &["/nowhere/docker.sock", "docker context inspect"]);
}

#[test]
fn a_container_that_exits_is_reported_with_its_log() {
    const ENDED: &str = r#"{"State": {"Running": false}, "NetworkSettings": {"Ports": {}}}"#;
    const LOG: &str = "\x02\0\0\0\0\0\0\x15no room for a cluster";
    let responses: Responses = &[
        ("/containers/create", 201, CREATED),
        ("/start", 204, ""),
        ("/logs", 200, LOG),
        ("/json", 200, ENDED),
    ];
    let result = run_container(responses, &["--image", "rancher/k3s:v1"]);
    assert_start_failed(&result.0, &result.1, &["the container ended: no room for a cluster"]);
}

#[test]
fn ctrl_c_ends_the_wait_for_an_image() {
    let absent = "case $1 in version) echo 28.0.0 ;; image) exit 1 ;; esac";
    let (lab, mut command) = command(&[("docker", absent)], &["container"]);
    command.env("DOCKER_HOST", daemon(&lab, &[("/images/create", NO_RESPONSE, "")]));
    let output = signal_when(&command, "starting a container", &["-INT"]);
    assert_eq!((output.code, &*output.stdout, records(&lab)), (130, "", 0), "{}", output.all());
}
