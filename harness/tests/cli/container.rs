//! `run --cluster container` where something that it needs is missing: one message, exit code 3,
//! and nothing is left. Docker's program is played by a script, its daemon by a thread that gives
//! the same answer whenever it is asked the same.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use super::kind::{DOCKER, command, could_not_start, ended_when, records, run_with};
use super::lab::{Ended, Lab};

/// What is in a path, and what is answered to it: a status and a body. Nothing else is there.
type Answers = &'static [(&'static str, u16, &'static str)];

/// In place of a status: no answer ever comes.
const NEVER: u16 = 0;

const MADE: &str = r#"{"Id": "0123", "Warnings": []}"#;

/// A run in a container, whose daemon answers so.
fn container(answers: Answers, args: &[&str]) -> (Lab, Command) {
    let (lab, mut command) = command(&[("docker", DOCKER)], &[&["container"], args].concat());
    command.env("DOCKER_HOST", daemon(&lab, answers));
    (lab, command)
}

/// Where a daemon listens that answers so.
fn daemon(lab: &Lab, answers: Answers) -> String {
    let socket = lab.path("docker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        // Who gets no answer keeps its connection.
        let mut waiting = Vec::new();
        for asked in listener.incoming() {
            waiting.extend(answer(asked.unwrap(), answers));
        }
    });
    format!("unix://{}", socket.display())
}

/// A run in a container on a machine whose docker has a context of its own, and no `DOCKER_HOST`.
fn in_context(context: &str, host: impl FnOnce(&Lab) -> String) -> (Lab, Ended) {
    let docker = "case $1 in version) echo 28.0.0 ;; context) echo \"$DOCKERS_CONTEXT\" ;; esac";
    let (lab, mut command) = command(&[("docker", docker)], &["container"]);
    command.env_remove("DOCKER_HOST").env("DOCKERS_CONTEXT", format!("{context} {}", host(&lab)));
    let ended = Ended::of(command.output().unwrap());
    (lab, ended)
}

fn run_container(answers: Answers, args: &[&str]) -> (Lab, Ended) {
    let (lab, mut command) = container(answers, args);
    let ended = Ended::of(command.output().unwrap());
    (lab, ended)
}

fn answer(mut asked: UnixStream, answers: Answers) -> Option<UnixStream> {
    let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
    while !is_whole(&read) {
        match asked.read(&mut bytes).unwrap() {
            0 => return None,
            count => read.extend(&bytes[..count]),
        }
    }
    let text = String::from_utf8_lossy(&read);
    let path = text.split(' ').nth(1).unwrap();
    let known = answers.iter().find(|(part, ..)| path.contains(part));
    let (_, status, body) = known.unwrap_or(&("", 404, r#"{"message": "page not found"}"#));
    if *status == NEVER {
        return Some(asked);
    }
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} So\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n"
    );
    // Who asked may have gone.
    let _ = asked.write_all(head.as_bytes()).and_then(|()| asked.write_all(body.as_bytes()));
    None
}

/// Its head, and as much of a body as that says.
fn is_whole(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read).to_lowercase();
    text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        body.len() >= length.map_or(0, |length| length.trim().parse().unwrap())
    })
}

#[test]
fn an_image_that_nobody_knows_is_refused_before_anything_starts() {
    let ran = run_with(&[], &["container", "--image", "nginx:1"]);
    could_not_start(&ran, &["--image: got nginx:1", "rancher/k3s"]);
}

#[test]
fn an_image_that_is_not_there_is_told_in_dockers_words() {
    const DENIED: &str = r#"{"message": "pull access denied for schedlab/cluster"}"#;
    const ABSENT: &str = r#"{"message": "No such image: schedlab/cluster:dev"}"#;
    let answers: Answers = &[("/containers/create", 404, ABSENT), ("/images/create", 404, DENIED)];
    let ran = run_container(answers, &[]);
    could_not_start(&ran, &["pull access denied for schedlab/cluster", "build or load it"]);
}

#[test]
fn a_port_that_is_taken_is_told_in_dockers_words() {
    const TAKEN: &str =
        r#"{"message": "Bind for 127.0.0.1:6443 failed: port is already allocated"}"#;
    let ran = run_container(&[("/containers/create", 201, MADE), ("/start", 500, TAKEN)], &[]);
    could_not_start(&ran, &["port is already allocated", "another container has that port"]);
}

#[test]
fn the_daemon_of_dockers_own_context_is_the_one_that_is_spoken_to() {
    const FULL: &str = r#"{"message": "no space left on device"}"#;
    let ran = in_context("colima", |lab| daemon(lab, &[("/containers/create", 507, FULL)]));
    could_not_start(&ran, &["no space left on device", "docker system prune"]);
}

#[test]
fn a_daemon_of_another_machine_is_refused_with_the_context_that_names_it() {
    for host in ["ssh://me@far", "tcp://10.0.0.7:2376"] {
        let ran = in_context("far", |_| host.to_owned());
        could_not_start(&ran, &[&format!("(context far at {host})"), "docker context use NAME"]);
    }
}

#[test]
fn a_socket_that_is_not_there_is_named() {
    let (lab, mut command) = command(&[("docker", DOCKER)], &["container"]);
    command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let ended = Ended::of(command.output().unwrap());
    could_not_start(&(lab, ended), &["/nowhere/docker.sock", "docker context inspect"]);
}

#[test]
fn a_container_that_ends_is_told_with_its_last_words() {
    const ENDED: &str = r#"{"State": {"Running": false}, "NetworkSettings": {"Ports": {}}}"#;
    const WORDS: &str = "\x02\0\0\0\0\0\0\x15no room for a cluster";
    let answers: Answers = &[
        ("/containers/create", 201, MADE),
        ("/start", 204, ""),
        ("/logs", 200, WORDS),
        ("/json", 200, ENDED),
    ];
    let ran = run_container(answers, &["--image", "rancher/k3s:v1"]);
    could_not_start(&ran, &["the container ended: no room for a cluster"]);
}

#[test]
fn who_does_not_want_to_wait_for_an_image_any_more_is_heard() {
    let absent = "case $1 in version) echo 28.0.0 ;; image) exit 1 ;; esac";
    let (lab, mut command) = command(&[("docker", absent)], &["container"]);
    command.env("DOCKER_HOST", daemon(&lab, &[("/images/create", NEVER, "")]));
    let ended = ended_when(&command, "starting a container", &["-INT"]);
    assert_eq!((ended.code, &*ended.out, records(&lab)), (130, "", 0), "{}", ended.all());
}
