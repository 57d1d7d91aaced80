//! Processes that must not outlive us. Each is kept by a small process of its own, `schedlab
//! keep`, which ends it as soon as our end of a pipe closes: also when we are killed. The run's
//! record tells `schedlab clean` what there is, should the keeper be killed, too.

mod keeper;

use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use schedlab_control_plane::Process;

pub(crate) use keeper::keep;

use crate::leftovers::Run;

/// A process that ends with us.
#[derive(Debug)]
pub(crate) struct Kept {
    keeper: Child,
    /// Closing it ends the process.
    life: Option<ChildStdin>,
    /// What the keeper says: how the process ended, once it has.
    told: BufReader<ChildStdout>,
    /// The process itself; nothing where it has ended already.
    program: Option<OwnedFd>,
}

impl Kept {
    /// Starts a program with its output in a file, and these variables in its environment.
    pub(crate) fn start(
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
        // Ctrl-C is for us alone: we end it when we are done.
        command.process_group(0);
        let mut keeper = run.spawn(&mut command).context("cannot start a keeper of processes")?;
        let life = keeper.stdin.take();
        let told = keeper.stdout.take().context("a keeper has a pipe")?;
        let (mut told, mut answer) = (BufReader::new(told), String::new());
        told.read_line(&mut answer).context("cannot hear the keeper")?;
        let Ok(pid) = answer.trim().parse::<u32>() else {
            let _ = keeper.wait();
            anyhow::bail!("cannot start {}: {}", program.display(), answer.trim());
        };
        run.started(pid, &program.display().to_string())?;
        let handle = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let program = handle.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Self { keeper, life, told, program })
    }

    /// Asks the process to end, as Kubernetes asks a container. One that has ended is no news.
    pub(crate) fn ask_to_end(&self) {
        if let Some(program) = &self.program {
            let _ = pidfd_send_signal(program, Signal::TERM);
        }
    }

    /// How it ended by itself, if it did.
    pub(crate) fn ended(&mut self) -> Option<String> {
        if self.lives() {
            return None;
        }
        let mut how = String::new();
        // Who killed the keeper did not let it say so.
        let _ = self.told.read_line(&mut how);
        Some(how.trim().to_owned()).filter(|how| !how.is_empty()).or(Some("killed".to_owned()))
    }
}

impl Process for Kept {
    fn lives(&mut self) -> bool {
        matches!(self.keeper.try_wait(), Ok(None))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.life = None;
        let _ = self.keeper.wait();
    }
}
