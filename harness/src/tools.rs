//! The programs of others that real clusters need, and what to do when they fail.

mod command;
mod endpoint;
mod remedy;

use std::ffi::{OsStr, OsString};
use std::process::{Command, Output};
use std::time::Duration;

pub use command::{has_program, starts_with_program};
pub use endpoint::{DOCKER_HOST, Endpoint, is_named};
pub use remedy::remedy;

/// How long anything may take to answer a question.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Docker's command line.
    Docker,
    /// kind.
    Kind,
    /// kubectl.
    Kubectl,
    /// Helm.
    Helm,
    /// kwok.
    Kwok,
}

/// A program of somebody else that could not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{command}` failed: {said}{}", to_do(remedy.as_deref()))]
pub struct ToolError {
    /// The command line.
    pub command: String,
    /// Its own words.
    pub said: String,
    /// What to do, where that is known.
    pub remedy: Option<String>,
}

fn to_do(remedy: Option<&str>) -> String {
    remedy.map_or_else(String::new, |remedy| format!("\nto do: {remedy}"))
}

impl Tool {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Kind => "kind",
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
            Self::Kwok => "kwok",
        }
    }

    /// What is run: it, or for kind and kwok what the user named, as `kind-configs/prepare` does.
    pub fn program(self) -> OsString {
        self.named().unwrap_or_else(|| self.name().into())
    }

    fn named(self) -> Option<OsString> {
        std::env::var_os(self.variable()?).filter(|name| !name.is_empty())
    }

    /// The variable in which users name it.
    fn variable(self) -> Option<&'static str> {
        match self {
            Self::Kind => Some("SCHEDLAB_KIND"),
            Self::Kwok => Some("SCHEDLAB_KWOK"),
            Self::Docker | Self::Kubectl | Self::Helm => None,
        }
    }

    /// Why it cannot be run at all.
    fn does_not_run(self, error: &std::io::Error) -> String {
        let absent = error.kind() == std::io::ErrorKind::NotFound;
        match self.variable().zip(self.named()) {
            Some((variable, named)) => format!("{variable} names {}: {error}", named.display()),
            None if absent => format!("there is no {} on the PATH", self.name()),
            None => error.to_string(),
        }
    }

    /// Runs it to its end and answers what it printed.
    pub fn run(self, args: &[&str]) -> Result<String, ToolError> {
        self.run_at(None, args)
    }

    /// The same with the daemon that listens there.
    pub fn run_at(self, daemon: Option<&Endpoint>, args: &[&str]) -> Result<String, ToolError> {
        let mut command = Command::new(self.program());
        command.args(args).envs(daemon.iter().flat_map(|daemon| daemon.variables()));
        self.check(args, command.output())
    }

    /// Asks `program`, which is it under whatever name, and waits no longer than this: a daemon
    /// that is stopped answers nobody, and its client waits for ever.
    pub async fn ask(
        self,
        program: &OsStr,
        args: &[&str],
        limit: Duration,
    ) -> Result<String, ToolError> {
        let mut command = tokio::process::Command::new(program);
        command.args(args).stdin(std::process::Stdio::null()).kill_on_drop(true);
        let ran = tokio::time::timeout(limit, command.output()).await.unwrap_or_else(|_| {
            let words = format!("no answer within {} s", limit.as_secs_f64());
            Err(std::io::Error::new(std::io::ErrorKind::TimedOut, words))
        });
        self.check(args, ran)
    }

    /// Whether docker's daemon answers.
    pub async fn daemon() -> Result<(), ToolError> {
        let question = ["version", "--format", "{{.Server.Version}}"];
        Self::Docker.ask(&Self::Docker.program(), &question, ANSWER_MAX).await.map(drop)
    }

    /// Runs it to its end, which may be minutes away, with variables in its environment. It is
    /// in a process group of its own, so that Ctrl-C is for us alone, and is killed when nobody
    /// waits for it any more.
    pub async fn wait(self, args: &[&str], with: &[(&str, &str)]) -> Result<String, ToolError> {
        let mut command = tokio::process::Command::new(self.program());
        command.args(args).envs(with.iter().copied()).stdin(std::process::Stdio::null());
        let ran = command.process_group(0).kill_on_drop(true).output().await;
        self.check(args, ran)
    }

    /// Runs it to its end and answers what it printed, followed by what it said on standard error.
    pub fn run_for_all(self, args: &[&str]) -> Result<String, ToolError> {
        let ran = Command::new(self.program()).args(args).output();
        let said = ran.as_ref().map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
        let said = said.unwrap_or_default();
        Ok(self.check(args, ran)? + &said)
    }

    /// What a run of it printed, or why it failed: for those who run it in their own way.
    pub fn check(self, args: &[&str], ran: std::io::Result<Output>) -> Result<String, ToolError> {
        let command = format!("{} {}", self.name(), args.join(" "));
        let said = match ran {
            Ok(output) if output.status.success() => {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Ok(output) => words(&output),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => error.to_string(),
            Err(error) => self.does_not_run(&error),
        };
        let remedy = remedy(self, &said);
        Err(ToolError { command, said, remedy })
    }
}

/// The end of what it said, where the reason stands.
fn words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.split_at(lines.len().saturating_sub(5)).1 {
        [] => output.status.to_string(),
        last => last.join("\n"),
    }
}
