//! External programs that real clusters need (docker, kind, kubectl, helm, kwok), and hints for
//! their errors.

mod command;
mod docker_host;
mod hints;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

pub use command::{check_command_starts_with_program, check_program_exists};
pub use docker_host::DOCKER_HOST_ENV;
pub(crate) use docker_host::{DockerEndpoint, docker_host_is_set};
pub(crate) use hints::hint_for_output;

/// How long a program may take to respond to a simple command.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The folder with the programs of a control plane on this machine, in which kube-scheduler is, too.
/// `None` if none was built.
pub fn control_plane_folder() -> Option<PathBuf> {
    let assets = schedlab_control_plane::find_assets(None, &schedlab_control_plane::PROGRAMS).ok();
    assets.map(|assets| assets.folder().to_owned())
}

/// An external program that schedlab runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalTool {
    /// `docker`, the command line of Docker.
    Docker,
    /// `kind`, which creates Kubernetes clusters in docker.
    Kind,
    /// `kubectl`, the command line of Kubernetes.
    Kubectl,
    /// `helm`, which installs charts.
    Helm,
    /// `kwok`, which simulates kubelets.
    Kwok,
}

/// The error when an external program failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{command}` failed: {output}{}", hint_line(hint.as_deref()))]
pub struct ToolError {
    /// The command that failed.
    pub command: String,
    /// The last lines of the program's output, or why it could not be started.
    pub output: String,
    /// What the user can do, if that is known.
    pub hint: Option<String>,
}

fn hint_line(hint: Option<&str>) -> String {
    hint.map_or_else(String::new, |text| format!("\nto do: {text}"))
}

impl ExternalTool {
    /// The name of the tool's program.
    pub fn command_name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Kind => "kind",
            Self::Kubectl => "kubectl",
            Self::Helm => "helm",
            Self::Kwok => "kwok",
        }
    }

    /// The program to run. Users can name another one for kind and kwok with an environment
    /// variable, as `kind-configs/prepare` does.
    pub fn program_to_run(self) -> OsString {
        self.program_from_env().unwrap_or_else(|| self.command_name().into())
    }

    fn program_from_env(self) -> Option<OsString> {
        std::env::var_os(self.program_env()?).filter(|name| !name.is_empty())
    }

    /// The environment variable with which users name another program for the tool; `None` if there
    /// is none.
    fn program_env(self) -> Option<&'static str> {
        match self {
            Self::Kind => Some("SCHEDLAB_KIND"),
            Self::Kwok => Some("SCHEDLAB_KWOK"),
            Self::Docker | Self::Kubectl | Self::Helm => None,
        }
    }

    /// Why the tool's program could not be started.
    fn spawn_failure_text(self, error: &std::io::Error) -> String {
        let absent = error.kind() == std::io::ErrorKind::NotFound;
        match self.program_env().zip(self.program_from_env()) {
            Some((variable, program)) => format!("{variable} names {}: {error}", program.display()),
            None if absent => format!("there is no {} on the PATH", self.command_name()),
            None => error.to_string(),
        }
    }

    /// Runs the tool and returns its standard output.
    ///
    /// # Errors
    /// The tool cannot be started or fails.
    pub fn run(self, args: &[&str]) -> Result<String, ToolError> {
        self.run_with_daemon(None, args)
    }

    /// Like [`Self::run`], with another docker daemon.
    pub(crate) fn run_with_daemon(
        self,
        daemon: Option<&DockerEndpoint>,
        args: &[&str],
    ) -> Result<String, ToolError> {
        let mut command = Command::new(self.program_to_run());
        command.args(args).envs(daemon.iter().flat_map(|daemon| daemon.docker_client_env()));
        self.output_or_error(args, command.output())
    }

    /// Runs `program`, which is this tool under any name, with a time limit: docker's client waits
    /// forever for a daemon that is stopped.
    pub(crate) async fn run_with_timeout(
        self,
        program: &OsStr,
        args: &[&str],
        limit: Duration,
    ) -> Result<String, ToolError> {
        let mut command = tokio::process::Command::new(program);
        command.args(args).stdin(std::process::Stdio::null()).kill_on_drop(true);
        let ran = tokio::time::timeout(limit, command.output()).await.unwrap_or_else(|_| {
            let words = format!("no response within {} s", limit.as_secs_f64());
            Err(std::io::Error::new(std::io::ErrorKind::TimedOut, words))
        });
        self.output_or_error(args, ran)
    }

    /// Checks that docker's daemon responds.
    pub(crate) async fn check_docker_daemon() -> Result<(), ToolError> {
        let question = ["version", "--format", "{{.Server.Version}}"];
        Self::Docker
            .run_with_timeout(&Self::Docker.program_to_run(), &question, RESPONSE_TIMEOUT)
            .await
            .map(drop)
    }

    /// Runs the tool with additional environment variables; it may take minutes. The tool has a
    /// process group of its own, so that Ctrl-C reaches only schedlab, and is killed when the
    /// future is dropped.
    pub(crate) async fn run_async(
        self,
        args: &[&str],
        with: &[(&str, &str)],
    ) -> Result<String, ToolError> {
        let mut command = tokio::process::Command::new(self.program_to_run());
        command.args(args).envs(with.iter().copied()).stdin(std::process::Stdio::null());
        let ran = command.process_group(0).kill_on_drop(true).output().await;
        self.output_or_error(args, ran)
    }

    /// The standard output of a finished run of the tool.
    ///
    /// # Errors
    /// The run failed. The error has the last lines of output and a hint.
    pub fn output_or_error(
        self,
        args: &[&str],
        ran: std::io::Result<Output>,
    ) -> Result<String, ToolError> {
        let command = format!("{} {}", self.command_name(), args.join(" "));
        let output = match ran {
            Ok(output) if output.status.success() => {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Ok(output) => last_error_lines(&output),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => error.to_string(),
            Err(error) => self.spawn_failure_text(&error),
        };
        let hint = hint_for_output(self, &output);
        Err(ToolError { command, output, hint })
    }
}

/// The last lines of a program's standard error, where the reason usually is.
fn last_error_lines(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.split_at(lines.len().saturating_sub(5)).1 {
        [] => output.status.to_string(),
        last => last.join("\n"),
    }
}
