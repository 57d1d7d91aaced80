//! `schedlab keep`: the watchdog of one child process. It runs a program as long as the other end
//! of its standard input is open.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};

/// Runs a program until it ends or standard input is closed. Writes one line to standard output
/// with the pid or with the error, and another one with the exit status if the program ends by
/// itself.
///
/// # Errors
/// Standard output is closed or the program cannot be waited for.
pub fn run_watchdog(log: &Path, words: &[String]) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let mut child = match start_watchdog(log, words) {
        Ok(child) => child,
        Err(error) => {
            writeln!(out, "{error:#}")?;
            return Ok(());
        }
    };
    writeln!(out, "{}", child.id())?;
    out.flush()?;
    let pid = child.id();
    let (sender, ended) = mpsc::channel();
    let by_itself = sender.clone();
    thread::spawn(move || {
        let _ = by_itself.send(child.wait().ok());
    });
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(None);
    });
    if let Ok(Some(status)) = ended.recv() {
        // The parent may have closed the pipe.
        let _ = writeln!(out, "{status}");
    }
    kill_process_tree(pid);
    Ok(())
}

fn start_watchdog(log: &Path, words: &[String]) -> anyhow::Result<Child> {
    let (program, arguments) = words.split_first().ok_or(anyhow::anyhow!("no program to start"))?;
    let log = File::create(log)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log).process_group(0);
    Ok(command.spawn()?)
}

/// Kills a process and all of its descendants in the same process group.
pub(super) fn kill_process_tree(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
