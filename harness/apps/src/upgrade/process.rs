//! A scheduler as a process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::UpgradeCluster;
use super::spec::fill_placeholders;
use schedlab_clusters::process::ChildProcess;

/// Grace period between SIGTERM and SIGKILL, as in Kubernetes.
const TERMINATION_GRACE: Duration = Duration::from_secs(30);

/// Poll interval while the process exits: waiting for a child process has no timeout.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Number of log lines shown from the beginning of the log and from its end.
const LOG_LINES_SHOWN: usize = 5;

/// A scheduler process, killed when it is dropped or when schedlab exits.
#[derive(Debug)]
pub(super) struct SchedulerProcess {
    child: ChildProcess,
    log: PathBuf,
    /// How the process exited by itself; `None` while it runs.
    ended: Option<String>,
}

impl SchedulerProcess {
    pub(super) fn start(
        environment: &UpgradeCluster,
        command: &str,
        name: &str,
    ) -> anyhow::Result<Self> {
        let folder = environment.kubeconfig.parent().context("a kubeconfig is in a folder")?;
        let log = folder.join(format!("{name}.log"));
        let kubeconfig = environment.kubeconfig.to_string_lossy();
        // `exec`: signals reach the command itself.
        let command = format!(
            "exec {}",
            fill_placeholders(command, &kubeconfig, &environment.scheduler_name)
        );
        let (arguments, variables) = (["-c".to_owned(), command], [("KUBECONFIG", &*kubeconfig)]);
        let shell = Path::new("/bin/sh");
        let child = ChildProcess::start_with_watchdog(
            shell,
            &arguments,
            &variables,
            &log,
            &environment.run,
        )?;
        Ok(Self { child, log, ended: None })
    }

    /// Ends the process as Kubernetes ends a container: SIGTERM, grace period, SIGKILL.
    pub(super) async fn terminate(mut self) {
        self.child.terminate();
        let gone = async {
            while self.exit_text().is_none() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        // After the grace period, dropping it kills it.
        let _ = tokio::time::timeout(TERMINATION_GRACE, gone).await;
    }

    /// How the process exited by itself; `None` while it runs.
    pub(super) fn exit_text(&mut self) -> Option<&str> {
        self.ended = self.ended.take().or_else(|| self.child.exit_status());
        self.ended.as_deref()
    }

    /// An excerpt of the scheduler's log: the beginning, where an error usually is, and the end.
    pub(super) fn log_excerpt(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        first_and_last_lines(&text)
    }
}

fn first_and_last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "no output".to_owned();
    }
    let mut shown: Vec<&str> = lines.iter().take(LOG_LINES_SHOWN).copied().collect();
    let last = lines.len().saturating_sub(LOG_LINES_SHOWN).max(LOG_LINES_SHOWN);
    if last > LOG_LINES_SHOWN {
        shown.push("…");
    }
    shown.extend(lines.iter().skip(last));
    format!("output:\n  {}", shown.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_shows_its_beginning_and_end_and_a_short_one_everything() {
        let numbers =
            |count: u32| (1..=count).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(first_and_last_lines(&numbers(7)), "output:\n  1\n  2\n  3\n  4\n  5\n  6\n  7");
        let long = first_and_last_lines(&numbers(90));
        assert!(long.contains("\n  5\n  …\n  86\n"), "{long}");
        assert_eq!(first_and_last_lines("\n"), "no output");
    }
}
