//! Processes as `/proc` shows them, told apart by id and start time, and how they are ended.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::MARK;

/// How long a process may take to end when asked.
const GRACE: Timespec = Timespec { tv_sec: 3, tv_nsec: 0 };

/// How long docker may take to make something.
const DOCKER_GRACE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// In clock ticks since the boot.
    pub(super) started: u64,
}

impl Process {
    /// The process of that id; a dead one that nobody has waited for counts as gone.
    pub(super) fn find(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may itself hold brackets and spaces.
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        // Fields 3 (state) and 22 (start time) of proc(5).
        let dead = matches!(*fields.first()?, "Z" | "X");
        let started = fields.get(19)?.parse().ok()?;
        (!dead).then_some(Self { pid, started })
    }

    /// What it is, for people.
    pub(super) fn command(&self) -> String {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        words.join(" ").trim().to_owned()
    }

    /// Whether it waits for docker to make something. The daemon makes it whether or not anybody
    /// waits, so only when this process has ended is it there to be found.
    fn awaits_docker(&self) -> bool {
        let command = self.command();
        let mut words = command.split(' ');
        let program = words.next().and_then(|path| path.rsplit('/').next());
        program == Some("docker") && matches!(words.next(), Some("run" | "create" | "network"))
    }

    /// A handle on it that can mean no other process; `None` when it has ended.
    fn handle(&self) -> Option<OwnedFd> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        (Self::find(self.pid).as_ref() == Some(self)).then_some(handle)
    }
}

/// Processes with a run's mark that we may look at: the run's id and the process.
pub(super) fn marked() -> Vec<(String, Process)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<(String, Process)> = pids.filter_map(mark_of).collect();
    found.sort_by_key(|(_, process)| process.pid);
    found
}

fn mark_of(pid: u32) -> Option<(String, Process)> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{MARK}=").into_bytes();
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| variable.strip_prefix(&prefix[..]))?;
    Some((String::from_utf8(value.to_vec()).ok()?, Process::find(pid)?))
}

/// Ends processes: asks all, waits, then kills. Those that wait for docker come last, and may end by
/// themselves before. Answers those that would not go.
pub(super) fn end(processes: &[Process]) -> Vec<(Process, String)> {
    let handles: Vec<(&Process, OwnedFd)> =
        processes.iter().filter_map(|process| Some((process, process.handle()?))).collect();
    let (last, first): (Vec<_>, Vec<_>) =
        handles.into_iter().partition(|(process, _)| process.awaits_docker());
    let mut stuck = end_at_once(&first);
    let mut patience = DOCKER_GRACE;
    for (_, handle) in &last {
        patience = if has_ended(handle, patience) { patience } else { Timespec::default() };
    }
    stuck.extend(end_at_once(&last));
    stuck
}

fn end_at_once(handles: &[(&Process, OwnedFd)]) -> Vec<(Process, String)> {
    for (_, handle) in handles {
        // One that ends meanwhile is found below.
        let _ = pidfd_send_signal(handle, Signal::TERM);
    }
    let mut patience = GRACE;
    let stuck = handles.iter().filter(|(_, handle)| {
        let stuck = !has_ended(handle, patience);
        // All were asked at once: who waits for one has waited for the others.
        patience = if stuck { Timespec::default() } else { patience };
        stuck
    });
    let stuck: Vec<&(&Process, OwnedFd)> = stuck.collect();
    stuck.into_iter().filter_map(|(process, handle)| kill(process, handle)).collect()
}

fn kill(process: &Process, handle: &OwnedFd) -> Option<(Process, String)> {
    if let Err(error) = pidfd_send_signal(handle, Signal::KILL) {
        return Some((process.clone(), format!("cannot be killed: {error}")));
    }
    let dead = has_ended(handle, GRACE);
    (!dead).then(|| (process.clone(), "does not die, even of SIGKILL".to_owned()))
}

fn has_ended(handle: &OwnedFd, patience: Timespec) -> bool {
    let mut polled = [PollFd::new(handle, PollFlags::IN)];
    // Ctrl-C is no end of it.
    let ready = retry_on_intr(|| poll(&mut polled, Some(&patience)));
    ready.is_ok_and(|ready| ready > 0)
}
