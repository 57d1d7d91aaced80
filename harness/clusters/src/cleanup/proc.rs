//! Finds processes in `/proc`, identified by pid and start time, and terminates them.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::RUN_ID_ENV;

/// How long a process may take to end after SIGTERM or SIGKILL.
const TERMINATION_TIMEOUT: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };

/// How long docker may take to create a container.
const DOCKER_CLIENT_TIMEOUT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Start time in clock ticks since the boot.
    pub(super) started: u64,
}

impl Process {
    /// The process with this pid; `None` if there is none or it is a zombie.
    pub(super) fn from_pid(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may itself contain parentheses and spaces.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Fields 3 (state) and 22 (start time) of proc(5).
        let is_dead = matches!(*fields.first()?, "Z" | "X");
        let started = fields.get(19)?.parse().ok()?;
        (!is_dead).then_some(Self { pid, started })
    }

    /// The command line of the process, for people.
    pub(super) fn command_line(&self) -> String {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.join(" ").trim().to_owned()
    }

    /// Whether the process is a docker client that creates something. The daemon creates it even if
    /// the client is killed, so the result can be found only after the client has ended.
    fn is_creating_through_docker(&self) -> bool {
        let command = self.command_line();
        let mut words = command.split(' ');
        let program = words.next().and_then(|path| path.rsplit('/').next());
        program == Some("docker") && matches!(words.next(), Some("run" | "create" | "network"))
    }

    /// A pidfd of the process, which can never refer to another process; `None` if the process has
    /// ended.
    fn open_pidfd(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        (Self::from_pid(self.pid).as_ref() == Some(self)).then_some(handle)
    }
}

/// Processes with the environment variable of a run, each with the id of the run. Processes that we
/// may not inspect are left out.
pub(super) fn processes_marked_with_run() -> Vec<(String, Process)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<(String, Process)> = pids.filter_map(run_id_and_process).collect();
    found.sort_by_key(|(_, process)| process.pid);
    found
}

fn run_id_and_process(pid: u32) -> Option<(String, Process)> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{RUN_ID_ENV}=").into_bytes();
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(&prefix[..]))?;
    Some((String::from_utf8(value.to_vec()).ok()?, Process::from_pid(pid)?))
}

/// Terminates processes: sends SIGTERM to all, and SIGKILL after a timeout. Docker clients that
/// create something come last and get more time. Returns the processes that did not end, each with
/// the reason.
pub(super) fn terminate_all(processes: &[Process]) -> Vec<(Process, String)> {
    let handles: Vec<(&Process, OwnedFd)> =
        processes.iter().filter_map(|process| Some((process, process.open_pidfd()?))).collect();
    let (waiting_for_docker, others): (Vec<_>, Vec<_>) =
        handles.into_iter().partition(|(process, _)| process.is_creating_through_docker());
    let mut stuck = terminate_and_wait(&others);
    let mut timeout = DOCKER_CLIENT_TIMEOUT;
    for (_, handle) in &waiting_for_docker {
        timeout = if ends_within(handle, timeout) { timeout } else { Timespec::default() };
    }
    stuck.extend(terminate_and_wait(&waiting_for_docker));
    stuck
}

fn terminate_and_wait(handles: &[(&Process, OwnedFd)]) -> Vec<(Process, String)> {
    for (_, handle) in handles {
        // If it ends meanwhile, the wait below notices.
        let _ = pidfd_send_signal(handle, Signal::TERM);
    }
    let mut timeout = TERMINATION_TIMEOUT;
    let stuck = handles.iter().filter(|(_, handle)| {
        let stuck = !ends_within(handle, timeout);
        // All got SIGTERM at the same time, so waiting for one is waiting for all.
        timeout = if stuck { Timespec::default() } else { timeout };
        stuck
    });
    let stuck: Vec<&(&Process, OwnedFd)> = stuck.collect();
    stuck.into_iter().filter_map(|(process, handle)| kill_and_wait(process, handle)).collect()
}

fn kill_and_wait(process: &Process, handle: &OwnedFd) -> Option<(Process, String)> {
    if let Err(error) = pidfd_send_signal(handle, Signal::KILL) {
        return Some((process.clone(), format!("the process cannot be killed: {error}")));
    }
    let has_died = ends_within(handle, TERMINATION_TIMEOUT);
    (!has_died).then(|| (process.clone(), "the process does not end after SIGKILL".to_owned()))
}

fn ends_within(handle: &OwnedFd, timeout: Timespec) -> bool {
    let mut polled = [PollFd::new(handle, PollFlags::IN)];
    // An interrupting signal such as Ctrl-C must not end the wait.
    let ready = retry_on_intr(|| poll(&mut polled, Some(&timeout)));
    ready.is_ok_and(|ready| ready > 0)
}
