//! The progress of a long simulation on standard error, and what Ctrl-C does to it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use schedlab_clusters::interrupt::Interrupt;
use schedlab_emulator::clock::Clock;

use super::CommandOutput;

/// How often a terminal shows the progress, and how soon Ctrl-C is noticed.
const REFRESH: Duration = Duration::from_millis(200);

/// How often a line is written where standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Where the progress is shown.
#[derive(Debug)]
enum Display {
    Hidden,
    /// One line of a terminal, written anew.
    Terminal(ProgressBar),
    /// A line from time to time.
    Lines,
}

/// Shows the progress of work until it is dropped, and stops the work at Ctrl-C.
#[derive(Debug)]
pub(super) struct LiveProgress {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Work whose progress is shown.
pub(super) trait Watched: Send + 'static {
    /// The progress as a line, after this time.
    fn line(&self, elapsed: Duration) -> String;

    /// Stops the work.
    fn stop(&self);
}

impl LiveProgress {
    /// Shows the progress of `work` on a terminal, or everywhere if it `is_requested`.
    pub(super) fn start(
        work: impl Watched,
        interrupt: Interrupt,
        output: &CommandOutput,
        is_requested: bool,
    ) -> Self {
        let display = match (output.quiet, std::io::stderr().is_terminal(), is_requested) {
            (true, _, _) | (false, false, false) => Display::Hidden,
            (false, true, _) => {
                let style = ProgressStyle::with_template("{spinner} {wide_msg}")
                    .expect("the template is well formed");
                Display::Terminal(ProgressBar::new_spinner().with_style(style))
            }
            (false, false, true) => Display::Lines,
        };
        let (end, ended) = mpsc::channel();
        let thread = thread::spawn(move || watch(&work, &interrupt, &display, &ended));
        Self { end: Some(end), thread: Some(thread) }
    }
}

/// Shows the progress, and passes an interrupt on, until the other end of the channel is dropped.
fn watch(
    work: &impl Watched,
    interrupt: &Interrupt,
    display: &Display,
    ended: &mpsc::Receiver<()>,
) {
    let clock = Clock::real();
    let began = clock.now();
    let (mut next_line, mut is_stopped) = (LINE_INTERVAL, false);
    while ended.recv_timeout(REFRESH) == Err(RecvTimeoutError::Timeout) {
        if interrupt.is_raised() && !is_stopped {
            is_stopped = true;
            work.stop();
        }
        let elapsed = Duration::try_from(clock.now().duration_since(began)).unwrap_or_default();
        match display {
            Display::Terminal(bar) => {
                bar.set_message(work.line(elapsed));
                bar.tick();
            }
            Display::Lines if elapsed >= next_line => {
                next_line += LINE_INTERVAL;
                let _ = writeln!(std::io::stderr().lock(), "{}", work.line(elapsed));
            }
            Display::Lines | Display::Hidden => {}
        }
    }
    if let Display::Terminal(bar) = display {
        bar.finish_and_clear();
    }
}

impl Drop for LiveProgress {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The time that is left, if this part of the work took this time; empty in the first second.
pub(super) fn time_left(fraction: f64, elapsed: Duration) -> String {
    if fraction <= 0.0 || elapsed < Duration::from_secs(1) {
        return String::new();
    }
    let left = elapsed.as_secs_f64() * (1.0 - fraction).max(0.0) / fraction;
    match left {
        left if left < 90.0 => format!(", {left:.0} s left"),
        left if left < 5400.0 => format!(", {:.0} min left", left / 60.0),
        left => format!(", {:.1} h left", left / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_part_that_is_done() {
        let left = |fraction, secs| time_left(fraction, Duration::from_secs(secs));
        assert_eq!(left(0.0, 100), "");
        assert_eq!(left(0.5, 60), ", 60 s left");
        assert_eq!(left(0.1, 60), ", 9 min left");
        assert_eq!(left(0.01, 360), ", 9.9 h left");
    }
}
