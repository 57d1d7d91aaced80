//! Worker threads that take cases from a shared list. Progress is reported in the order of the
//! cases.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use schedlab_api::random::SplitMix64;
use schedlab_emulator::clock::Clock;

use super::{CaseReport, RunSettings, not_run_report};
use crate::features::Case;

/// A case is reported as slow when it has run longer than this in wall time.
const SLOW_CASE_AFTER: Duration = Duration::from_secs(10);

/// How often the running cases are checked for slow ones.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Stack size of a worker thread, in bytes.
const WORKER_STACK_BYTES: usize = 16 << 20;

/// Progress of a run of features.
#[derive(Debug)]
pub enum RunProgress<'a> {
    /// A case started.
    Started(&'a Case),
    /// A case ended. Cases end in any order.
    Ended,
    /// The report on the next case in the given order.
    Reported(&'a CaseReport),
    /// A case that is still running, and for how long.
    Slow(&'a Case, Duration),
}

enum WorkerMessage {
    Started(usize),
    Ended(usize, Box<CaseReport>),
}

struct WorkerShared<'a> {
    cases: &'a [&'a Case],
    order: Vec<usize>,
    next: AtomicUsize,
    failures: AtomicUsize,
    settings: &'a RunSettings,
}

type RunCase<'a> = dyn Fn(&Case) -> CaseReport + Sync + 'a;

/// Runs all cases on several threads. The returned reports are in the order of `cases`.
pub(super) fn run(
    cases: &[&Case],
    settings: &RunSettings,
    run_case: &RunCase<'_>,
    progress: &mut dyn FnMut(RunProgress<'_>),
) -> Vec<CaseReport> {
    let shared = WorkerShared {
        cases,
        order: case_start_order(cases.len(), settings),
        next: AtomicUsize::new(0),
        failures: AtomicUsize::new(0),
        settings,
    };
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..settings.jobs.get().min(cases.len().max(1)) {
            let (shared, sender) = (&shared, sender.clone());
            thread::Builder::new()
                .stack_size(WORKER_STACK_BYTES)
                .spawn_scoped(scope, move || run_worker(shared, run_case, &sender))
                .expect("this machine can start a thread");
        }
        drop(sender);
        collect_reports(cases, &receiver, progress)
    })
}

fn run_worker(
    shared: &WorkerShared<'_>,
    run_case: &RunCase<'_>,
    sender: &mpsc::Sender<WorkerMessage>,
) {
    loop {
        let position = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(&index) = shared.order.get(position) else { return };
        let failures = shared.failures.load(Ordering::Relaxed);
        let max_fail = shared.settings.max_fail;
        let stop = max_fail.is_some_and(|most| failures >= most.get())
            || shared.settings.interrupted.is_raised();
        let report = if stop {
            not_run_report(shared.cases[index])
        } else {
            let _ = sender.send(WorkerMessage::Started(index));
            run_case(shared.cases[index])
        };
        if report.is_counted_failure() {
            shared.failures.fetch_add(1, Ordering::Relaxed);
        }
        let _ = sender.send(WorkerMessage::Ended(index, Box::new(report)));
    }
}

fn collect_reports(
    cases: &[&Case],
    receiver: &mpsc::Receiver<WorkerMessage>,
    progress: &mut dyn FnMut(RunProgress<'_>),
) -> Vec<CaseReport> {
    let clock = Clock::real();
    let mut early = BTreeMap::new();
    let mut running = RunningCases::default();
    let mut reports: Vec<CaseReport> = Vec::with_capacity(cases.len());
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(WorkerMessage::Started(index)) => {
                running.begin(index, clock.now());
                progress(RunProgress::Started(cases[index]));
            }
            Ok(WorkerMessage::Ended(index, report)) => {
                running.end(index);
                early.insert(index, *report);
                progress(RunProgress::Ended);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return reports,
        }
        for (index, time) in running.take_slow_cases(clock.now()) {
            progress(RunProgress::Slow(cases[index], time));
        }
        while let Some(report) = early.remove(&reports.len()) {
            progress(RunProgress::Reported(&report));
            reports.push(report);
        }
    }
}

/// The running cases by index: when each started, and after which run time it is next reported as
/// slow.
#[derive(Default)]
struct RunningCases(BTreeMap<usize, (Timestamp, Duration)>);

impl RunningCases {
    fn begin(&mut self, index: usize, now: Timestamp) {
        self.0.insert(index, (now, SLOW_CASE_AFTER));
    }

    fn end(&mut self, index: usize) {
        self.0.remove(&index);
    }

    /// The cases that are to be reported as slow now, with their run time.
    fn take_slow_cases(&mut self, now: Timestamp) -> Vec<(usize, Duration)> {
        let mut named = Vec::new();
        for (index, (began, next)) in &mut self.0 {
            let time = Duration::try_from(now.duration_since(*began)).unwrap_or_default();
            if time >= *next {
                named.push((*index, time));
                *next += SLOW_CASE_AFTER;
            }
        }
        named
    }
}

/// The order in which cases start: as given, or shuffled.
fn case_start_order(count: usize, settings: &RunSettings) -> Vec<usize> {
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
        let mut running = RunningCases::default();
        running.begin(0, at(0));
        running.begin(1, at(5));
        assert_eq!(running.take_slow_cases(at(9)), []);
        running.end(1);
        running.begin(2, at(9));
        assert_eq!(running.take_slow_cases(at(11)), [(0, Duration::from_secs(11))]);
        assert_eq!(running.take_slow_cases(at(12)), []);
        let named = [(0, Duration::from_secs(20)), (2, Duration::from_secs(11))];
        assert_eq!(running.take_slow_cases(at(20)), named);
    }
}
