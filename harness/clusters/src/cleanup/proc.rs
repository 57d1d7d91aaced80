//! Finds processes in `/proc`, identified by pid and start time, and terminates them.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::RUN_ENV;

/// How long a process may take to end after SIGTERM.
const TERM_TIMEOUT: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };

/// How long docker may take to create a container.
const DOCKER_TIMEOUT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Start time in clock ticks since the boot.
    pub(super) started: u64,
}

impl Process {
    /// The process with this pid; `None` if there is none or it is a zombie.
    pub(super) fn find(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may itself contain parentheses and spaces.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Fields 3 (state) and 22 (start time) of proc(5).
        let is_dead = matches!(*fields.first()?, "Z" | "X");
        let started = fields.get(19)?.parse().ok()?;
        (!is_dead).then_some(Self { pid, started })
    }

    /// Its command line, for people.
    pub(super) fn command(&self) -> String {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.join(" ").trim().to_owned()
    }

    /// Whether it waits for docker to create something. The daemon does so even if the client is
    /// killed, so the result can be found only after this process has ended.
    fn awaits_docker(&self) -> bool {
        let command = self.command();
        let mut words = command.split(' ');
        let program = words.next().and_then(|path| path.rsplit('/').next());
        program == Some("docker") && matches!(words.next(), Some("run" | "create" | "network"))
    }

    /// A pidfd, which cannot refer to another process later; `None` if it has ended.
    fn pidfd(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        (Self::find(self.pid).as_ref() == Some(self)).then_some(handle)
    }
}

/// Processes that have a run's mark and that we may inspect, each with the id of the run.
pub(super) fn marked_processes() -> Vec<(String, Process)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<(String, Process)> = pids.filter_map(run_of).collect();
    found.sort_by_key(|(_, process)| process.pid);
    found
}

fn run_of(pid: u32) -> Option<(String, Process)> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{RUN_ENV}=").into_bytes();
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(&prefix[..]))?;
    Some((String::from_utf8(value.to_vec()).ok()?, Process::find(pid)?))
}

/// Terminates processes: SIGTERM to all, then SIGKILL after a timeout. Those that wait for docker
/// come last and get more time. Returns those that did not end, with the reason.
pub(super) fn terminate(processes: &[Process]) -> Vec<(Process, String)> {
    let handles: Vec<(&Process, OwnedFd)> =
        processes.iter().filter_map(|process| Some((process, process.pidfd()?))).collect();
    let (waiting_for_docker, others): (Vec<_>, Vec<_>) =
        handles.into_iter().partition(|(process, _)| process.awaits_docker());
    let mut stuck = terminate_together(&others);
    let mut timeout = DOCKER_TIMEOUT;
    for (_, handle) in &waiting_for_docker {
        timeout = if has_ended(handle, timeout) { timeout } else { Timespec::default() };
    }
    stuck.extend(terminate_together(&waiting_for_docker));
    stuck
}

fn terminate_together(handles: &[(&Process, OwnedFd)]) -> Vec<(Process, String)> {
    for (_, handle) in handles {
        // If it ends meanwhile, the wait below notices.
        let _ = pidfd_send_signal(handle, Signal::TERM);
    }
    let mut timeout = TERM_TIMEOUT;
    let stuck = handles.iter().filter(|(_, handle)| {
        let stuck = !has_ended(handle, timeout);
        // All got SIGTERM at the same time, so waiting for one is waiting for all.
        timeout = if stuck { Timespec::default() } else { timeout };
        stuck
    });
    let stuck: Vec<&(&Process, OwnedFd)> = stuck.collect();
    stuck.into_iter().filter_map(|(process, handle)| kill(process, handle)).collect()
}

fn kill(process: &Process, handle: &OwnedFd) -> Option<(Process, String)> {
    if let Err(error) = pidfd_send_signal(handle, Signal::KILL) {
        return Some((process.clone(), format!("cannot be killed: {error}")));
    }
    let has_died = has_ended(handle, TERM_TIMEOUT);
    (!has_died).then(|| (process.clone(), "does not end after SIGKILL".to_owned()))
}

fn has_ended(handle: &OwnedFd, timeout: Timespec) -> bool {
    let mut polled = [PollFd::new(handle, PollFlags::IN)];
    // An interrupting signal such as Ctrl-C must not end the wait.
    let ready = retry_on_intr(|| poll(&mut polled, Some(&timeout)));
    ready.is_ok_and(|ready| ready > 0)
}
