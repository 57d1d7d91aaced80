//! A served cluster with two GPU nodes, and kubectl configured for it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use schedlab_emulator::clock::Clock;
use schedlab_emulator::{Emulator, Fleet, Options, Server};
use tempfile::TempDir;

const FLEET: &str = "pools: [{name: gpu, count: 2, gpus: 8, cpu: 96, memory: 512Gi}]";

/// A served cluster.
pub(crate) struct Cluster {
    home: TempDir,
    _emulator: Emulator,
    _server: Server,
}

/// Whether kubectl is installed; prints a message if not.
#[expect(clippy::print_stderr, reason = "a skipped test must be visible in the output")]
pub(crate) fn has_kubectl() -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).output().is_ok();
    if !found {
        eprintln!("skipped: no kubectl");
    }
    found
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let emulator = Emulator::start(Options::with_clock(Clock::real()));
        emulator.add_fleet(&Fleet::parse("fleet.yaml", FLEET).unwrap()).unwrap();
        let server = emulator.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("kubeconfig"), &server.kubeconfig).unwrap();
        Self { home, _emulator: emulator, _server: server }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(words(line))
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("kubeconfig"))
            .current_dir(self.home.path());
        command
    }

    /// The output of a kubectl command, including errors.
    pub(crate) fn run(&self, line: &str) -> String {
        printed(self.command(line))
    }

    /// The output of a kubectl command with a shell script as editor.
    pub(crate) fn edit(&self, line: &str, script: &str) -> String {
        let editor = self.file("editor.sh", &format!("#!/bin/sh\n{script}\n"));
        let mut command = self.command(line);
        command.env("EDITOR", format!("sh {}", editor.display()));
        printed(command)
    }

    /// Writes a file to the working directory of the commands.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        path
    }

    /// Starts a command that keeps running.
    pub(crate) fn watch(&self, line: &str) -> Watch {
        let mut command = self.command(line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Watch { child, output }
    }
}

fn printed(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    // The warning about version skew depends on the installed kubectl.
    text.lines()
        .filter(|line| !line.contains("version difference"))
        .fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// Splits a command line into words, with quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// A running command, killed on drop.
pub(crate) struct Watch {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Watch {
    /// The next line of output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
