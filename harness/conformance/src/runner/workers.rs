//! Worker threads that take cases from a shared list. Progress is reported in the order of the
//! cases.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use schedlab_api::random::SplitMix64;
use schedlab_emulator::clock::Clock;

use super::{CaseReport, Outcome, Settings, not_run_report};
use crate::features::Case;

/// A case that runs longer than this in wall time is reported as slow.
const SLOW_AFTER: Duration = Duration::from_secs(10);

/// How often the running cases are checked for slow ones.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Stack size of a worker thread.
const STACK_BYTES: usize = 16 << 20;

/// Progress of a run of features.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A case started.
    Started(&'a Case),
    /// A case ended. Cases end in any order.
    Ended,
    /// The report on the next case in the given order.
    Reported(&'a CaseReport),
    /// A case that is still running, and for how long.
    Slow(&'a Case, Duration),
}

enum Message {
    Started(usize),
    Ended(usize, Box<CaseReport>),
}

struct Shared<'a> {
    cases: &'a [&'a Case],
    order: Vec<usize>,
    next: AtomicUsize,
    stopped: AtomicBool,
    settings: &'a Settings,
}

type RunCase<'a> = dyn Fn(&Case) -> CaseReport + Sync + 'a;

/// Runs all cases on several threads. The returned reports are in the order of `cases`.
pub(super) fn run(
    cases: &[&Case],
    settings: &Settings,
    run_case: &RunCase<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Vec<CaseReport> {
    let shared = Shared {
        cases,
        order: start_order(cases.len(), settings),
        next: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        settings,
    };
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..settings.jobs.get().min(cases.len().max(1)) {
            let (shared, sender) = (&shared, sender.clone());
            thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || worker(shared, run_case, &sender))
                .expect("this machine can start a thread");
        }
        drop(sender);
        collect(cases, &receiver, progress)
    })
}

fn worker(shared: &Shared<'_>, run_case: &RunCase<'_>, sender: &mpsc::Sender<Message>) {
    loop {
        let position = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(&index) = shared.order.get(position) else { return };
        let stop =
            shared.stopped.load(Ordering::Relaxed) || shared.settings.interrupted.is_raised();
        let report = if stop {
            not_run_report(shared.cases[index])
        } else {
            let _ = sender.send(Message::Started(index));
            run_case(shared.cases[index])
        };
        if report.outcome == Outcome::Failed && shared.settings.fail_fast {
            shared.stopped.store(true, Ordering::Relaxed);
        }
        let _ = sender.send(Message::Ended(index, Box::new(report)));
    }
}

fn collect(
    cases: &[&Case],
    receiver: &mpsc::Receiver<Message>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Vec<CaseReport> {
    let clock = Clock::real();
    let mut early = BTreeMap::new();
    let mut running = Running::default();
    let mut reports: Vec<CaseReport> = Vec::with_capacity(cases.len());
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(Message::Started(index)) => {
                running.begin(index, clock.now());
                progress(Progress::Started(cases[index]));
            }
            Ok(Message::Ended(index, report)) => {
                running.end(index);
                early.insert(index, *report);
                progress(Progress::Ended);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return reports,
        }
        for (index, time) in running.slow(clock.now()) {
            progress(Progress::Slow(cases[index], time));
        }
        while let Some(report) = early.remove(&reports.len()) {
            progress(Progress::Reported(&report));
            reports.push(report);
        }
    }
}

/// The running cases by index: when each started, and after which run time it is next reported as
/// slow.
#[derive(Default)]
struct Running(BTreeMap<usize, (Timestamp, Duration)>);

impl Running {
    fn begin(&mut self, index: usize, now: Timestamp) {
        self.0.insert(index, (now, SLOW_AFTER));
    }

    fn end(&mut self, index: usize) {
        self.0.remove(&index);
    }

    /// The cases to report now, with their run time.
    fn slow(&mut self, now: Timestamp) -> Vec<(usize, Duration)> {
        let mut named = Vec::new();
        for (index, (began, next)) in &mut self.0 {
            let time = Duration::try_from(now.duration_since(*began)).unwrap_or_default();
            if time >= *next {
                named.push((*index, time));
                *next += SLOW_AFTER;
            }
        }
        named
    }
}

/// The order in which cases start.
fn start_order(count: usize, settings: &Settings) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    if settings.shuffle {
        let mut numbers = SplitMix64::new(settings.seed);
        for last in (1..count).rev() {
            let chosen = numbers.remainder(last as u64 + 1);
            order.swap(last, usize::try_from(chosen).unwrap_or(0));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_case_is_reported_every_ten_seconds() {
        let at = |secs| Timestamp::from_second(secs).unwrap();
        let mut running = Running::default();
        running.begin(0, at(0));
        running.begin(1, at(5));
        assert_eq!(running.slow(at(9)), []);
        running.end(1);
        running.begin(2, at(9));
        assert_eq!(running.slow(at(11)), [(0, Duration::from_secs(11))]);
        assert_eq!(running.slow(at(12)), []);
        let named = [(0, Duration::from_secs(20)), (2, Duration::from_secs(11))];
        assert_eq!(running.slow(at(20)), named);
    }
}
