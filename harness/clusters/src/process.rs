//! Child processes that must not outlive this one. Each is started by a watchdog process, `schedlab
//! keep`, which kills it as soon as our end of a pipe closes, even if we are killed. The run's
//! record lets `schedlab clean` find both, in case the watchdog is killed, too.

mod own_network;
mod watchdog;

use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use schedlab_control_plane::Process;

pub use own_network::in_own_network;
pub use watchdog::run_watchdog;

use crate::cleanup::Run;

/// A child process that is killed when this process ends, even if this process is killed.
#[derive(Debug)]
pub struct ChildProcess {
    watchdog: Child,
    /// Standard input of the watchdog; closing it ends the child process.
    watchdog_stdin: Option<ChildStdin>,
    /// Standard output of the watchdog, which reports the pid of the process and later how it
    /// ended.
    watchdog_stdout: BufReader<ChildStdout>,
    /// A handle on the process; `None` if the process had already ended.
    pidfd: Option<OwnedFd>,
}

impl ChildProcess {
    /// Starts a program with additional environment variables. Its output goes to the file `log`.
    ///
    /// # Errors
    /// The program or its watchdog cannot be started, or the process cannot be registered.
    pub fn start_with_watchdog(
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
        log: &Path,
        run: &Run,
    ) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find our own program")?;
        let mut command = Command::new(own);
        command.envs(environment.iter().copied());
        command.arg("keep").arg("--log").arg(log).arg("--").arg(program).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // A process group of its own: Ctrl-C is for us alone, and we end the child when we are
        // done.
        command.process_group(0);
        let mut watchdog = run.spawn(&mut command).context("cannot start a watchdog process")?;
        let watchdog_stdin = watchdog.stdin.take();
        let watchdog_stdout =
            watchdog.stdout.take().context("the watchdog has no standard output")?;
        let (mut watchdog_stdout, mut first_line) =
            (BufReader::new(watchdog_stdout), String::new());
        watchdog_stdout.read_line(&mut first_line).context("cannot read from the watchdog")?;
        let Ok(pid) = first_line.trim().parse::<u32>() else {
            let _ = watchdog.wait();
            anyhow::bail!("cannot start {}: {}", program.display(), first_line.trim());
        };
        run.register_process(pid, &program.display().to_string())?;
        let handle = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let program = handle.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self { watchdog, watchdog_stdin, watchdog_stdout, pidfd: program })
    }

    /// Sends SIGTERM, as the kubelet does to a container. Does nothing if the process has ended.
    pub fn terminate(&self) {
        if let Some(program) = &self.pidfd {
            let _ = pidfd_send_signal(program, Signal::TERM);
        }
    }

    /// How the process ended by itself; `None` if it still runs.
    pub fn exit_status(&mut self) -> Option<String> {
        if self.is_running() {
            return None;
        }
        let mut how = String::new();
        // A killed watchdog reports nothing.
        let _ = self.watchdog_stdout.read_line(&mut how);
        Some(how.trim().to_owned()).filter(|how| !how.is_empty()).or(Some("killed".to_owned()))
    }
}

impl Process for ChildProcess {
    fn is_running(&mut self) -> bool {
        matches!(self.watchdog.try_wait(), Ok(None))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.watchdog_stdin = None;
        let _ = self.watchdog.wait();
    }
}
