//! A scheduler as a process of its own.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::Bench;
use super::spec::filled;

/// How long it may take to end, as Kubernetes has it.
const GRACE: Duration = Duration::from_secs(30);

/// How often it is looked at while it ends: a child's end cannot be waited for with a limit.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How many lines of its output are shown, at its beginning and at its end.
const LINES_SHOWN: usize = 5;

/// A process that schedules, until it is dropped.
#[derive(Debug)]
pub(super) struct Scheduler {
    child: Child,
    log: PathBuf,
}

impl Scheduler {
    pub(super) fn start(bench: &Bench, command: &str, name: &str) -> anyhow::Result<Self> {
        let folder = bench.kubeconfig.parent().context("a kubeconfig is in a folder")?;
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let kubeconfig = bench.kubeconfig.to_string_lossy();
        // `exec`: signals reach the command itself.
        let command = format!("exec {}", filled(command, &kubeconfig, &bench.scheduler_name));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).env("KUBECONFIG", &bench.kubeconfig);
        shell.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        // Ctrl-C is for us: we end it.
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let child = bench.run.spawn(&mut shell)?;
        Ok(Self { child, log })
    }

    /// Ends it as Kubernetes ends a container: it is asked, waited for, and at last killed.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        if self.ended().is_some() {
            return Ok(());
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Not reaped yet, so the id is still its own.
            kill_process(pid, Signal::TERM).context("the old version cannot be stopped")?;
        }
        let gone = async {
            while self.ended().is_none() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        // Who does not go in time is killed by its drop.
        let _ = tokio::time::timeout(GRACE, gone).await;
        Ok(())
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// What it said: the beginning, where an error stands, and the end.
    pub(super) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        words(&text)
    }
}

fn words(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "it said nothing".to_owned();
    }
    let mut shown: Vec<&str> = lines.iter().take(LINES_SHOWN).copied().collect();
    let last = lines.len().saturating_sub(LINES_SHOWN).max(LINES_SHOWN);
    if last > LINES_SHOWN {
        shown.push("…");
    }
    shown.extend(lines.iter().skip(last));
    format!("it said:\n  {}", shown.join("\n  "))
}

/// Who was not ended is killed: its run is over.
impl Drop for Scheduler {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // It may have ended just now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_beginning_and_the_end_are_shown_and_of_a_short_one_all() {
        let numbers =
            |count: u32| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(words(&numbers(7)), "it said:\n  1\n  2\n  3\n  4\n  5\n  6\n  7");
        let long = words(&numbers(90));
        assert!(long.contains("\n  5\n  …\n  86\n"), "{long}");
        assert_eq!(words("\n"), "it said nothing");
    }
}
