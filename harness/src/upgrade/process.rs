//! A scheduler as a process of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::Bench;
use super::spec::filled;
use crate::processes::Kept;

/// How long it may take to end, as Kubernetes has it.
const GRACE: Duration = Duration::from_secs(30);

/// How often it is looked at while it ends: a child's end cannot be waited for with a limit.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How many lines of its output are shown, at its beginning and at its end.
const LINES_SHOWN: usize = 5;

/// A process that schedules, until it is dropped or we are gone.
#[derive(Debug)]
pub(super) struct Scheduler {
    kept: Kept,
    log: PathBuf,
    /// How it ended by itself.
    ended: Option<String>,
}

impl Scheduler {
    pub(super) fn start(bench: &Bench, command: &str, name: &str) -> anyhow::Result<Self> {
        let folder = bench.kubeconfig.parent().context("a kubeconfig is in a folder")?;
        let log = folder.join(format!("{name}.log"));
        let kubeconfig = bench.kubeconfig.to_string_lossy();
        // `exec`: signals reach the command itself.
        let command = format!("exec {}", filled(command, &kubeconfig, &bench.scheduler_name));
        let (words, environment) = (["-c".to_owned(), command], [("KUBECONFIG", &*kubeconfig)]);
        let kept = Kept::start(Path::new("/bin/sh"), &words, &environment, &log, &bench.run)?;
        Ok(Self { kept, log, ended: None })
    }

    /// Ends it as Kubernetes ends a container: it is asked, waited for, and at last killed.
    pub(super) async fn end(mut self) {
        self.kept.ask_to_end();
        let gone = async {
            while self.ended().is_none() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        // Who does not go in time is killed by its drop.
        let _ = tokio::time::timeout(GRACE, gone).await;
    }

    /// How it ended, if it did.
    pub(super) fn ended(&mut self) -> Option<&str> {
        self.ended = self.ended.take().or_else(|| self.kept.ended());
        self.ended.as_deref()
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
