//! Progress of starting a cluster: on a terminal a spinner, elsewhere one line when a step is done
//! and one when it takes longer than usual.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

/// Shows the progress of a sequence of steps on the terminal, and how long each takes.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    slowest: Option<(String, Duration)>,
}

/// A step that is running, with its spinner.
#[derive(Debug)]
pub struct ProgressStep {
    name: String,
    began: Instant,
    bar: ProgressBar,
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { began: Instant::now(), slowest: None }
    }
}

impl Progress {
    /// Starts a step. After the time `usual` the spinner says that the step takes long.
    pub fn begin_step(&self, activity: &str, usual: Duration) -> ProgressStep {
        let bar = if std::io::stderr().is_terminal() {
            start_spinner(activity)
        } else {
            ProgressBar::hidden()
        };
        let (end, ended) = mpsc::channel();
        let (name, on) = (activity.to_owned(), bar.clone());
        let watcher = std::thread::spawn(move || {
            let mut so_far = usual;
            let mut wait = usual;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let (secs, usual) = (so_far.as_secs_f64(), usual.as_secs_f64());
                print_above_bar(
                    &on,
                    &format!("SLOW {name}: {secs:.0} s so far, usually {usual:.0} s"),
                );
                // Doubles the time until the next message.
                wait = so_far;
                so_far *= 2;
            }
        });
        let watcher = Some((end, watcher));
        ProgressStep { name: activity.to_owned(), began: Instant::now(), bar, watcher }
    }

    /// Ends a step. Returns how long it took.
    pub fn finish_step(&mut self, mut step: ProgressStep) -> Duration {
        let took = step.began.elapsed();
        step.stop_spinner();
        print_above_bar(&step.bar, &format!("  {}: {:.1} s", step.name, took.as_secs_f64()));
        if self.slowest.as_ref().is_none_or(|(_, most)| took > *most) {
            self.slowest = Some((step.name.clone(), took));
        }
        took
    }

    /// A line with the total duration and the slowest step.
    pub fn summary_of_steps(&self) -> String {
        let total = self.began.elapsed().as_secs_f64();
        match &self.slowest {
            Some((what, took)) => {
                format!("{total:.1} s in total, {:.1} s of it for {what}", took.as_secs_f64())
            }
            None => format!("{total:.1} s in total"),
        }
    }
}

impl ProgressStep {
    fn stop_spinner(&mut self) {
        self.bar.finish_and_clear();
        if let Some((end, watcher)) = self.watcher.take() {
            drop(end);
            // The watcher only prints.
            let _ = watcher.join();
        }
    }
}

/// Shows the progress of a startup whose steps are reported one after another.
#[derive(Debug)]
pub struct BootProgress {
    progress: Progress,
    usual: Duration,
    step: Option<ProgressStep>,
}

impl BootProgress {
    /// Progress before the first step. A step usually takes no longer than `usual`.
    pub fn new(usual: Duration) -> Self {
        Self { progress: Progress::default(), usual, step: None }
    }

    /// Starts a step. The step before it must have ended.
    pub fn begin_activity(&mut self, activity: &str) {
        self.step = Some(self.progress.begin_step(activity, self.usual));
    }

    /// Ends the current step, if there is one.
    pub fn end_activity(&mut self) {
        if let Some(part) = self.step.take() {
            self.progress.finish_step(part);
        }
    }
}

/// Removes the spinner of a step that was not ended because it failed; the error is reported
/// elsewhere.
impl Drop for ProgressStep {
    fn drop(&mut self) {
        self.stop_spinner();
    }
}

fn start_spinner(activity: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
        .expect("the template is well formed");
    let bar = ProgressBar::new_spinner().with_style(style).with_message(activity.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn print_above_bar(bar: &ProgressBar, line: &str) {
    bar.suspend(|| {
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_boot_is_done_when_it_has_ended() {
        let mut boot = BootProgress::new(Duration::from_mins(1));
        boot.end_activity();
        assert_eq!(boot.progress.slowest, None);
        boot.begin_activity("creating a cluster");
        boot.end_activity();
        let done = boot.progress.slowest.map(|(what, _)| what);
        assert_eq!((done.as_deref(), boot.step.is_none()), (Some("creating a cluster"), true));
    }

    #[test]
    fn the_slowest_step_is_named() {
        let mut progress = Progress::default();
        for what in ["etcd", "kube-apiserver"] {
            let step = progress.begin_step(what, Duration::from_mins(1));
            progress.finish_step(step);
        }
        progress.slowest = Some(("etcd".to_owned(), Duration::from_millis(1500)));
        assert!(
            progress.summary_of_steps().ends_with("1.5 s of it for etcd"),
            "{}",
            progress.summary_of_steps()
        );
    }
}
