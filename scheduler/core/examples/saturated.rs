//! Replays a week of jobs on a saturated fleet, cycle by cycle:
//! `saturated [DAYS [LOAD_PERCENT [forgetful|kept]]]`; with `forgetful`, cycles remember no failed
//! searches; with `kept`, each cycle starts with what the last one derived, as in the scheduler.
//! Prints, every three hours, cycles, pending groups and milliseconds by action.
#![expect(clippy::print_stdout, reason = "prints its measurements")]
#![expect(clippy::disallowed_methods, reason = "measures from outside the core")]

use std::{collections::BTreeMap, time::Instant};

use schedlab_scheduler_core::{
    CycleObserver, Profile, SearchMemory,
    framework::{KeptSession, Session},
    profile::Action,
    schedule_kept, schedule_with_memory,
};
use schedlab_testkit::saturated::SaturatedFleet;

struct Stopwatch {
    started: Instant,
    millis: BTreeMap<Action, f64>,
    simulated: usize,
}

impl CycleObserver for Stopwatch {
    fn on_action_start(&mut self, _: Action, _: &Session<'_>) {
        self.started = Instant::now();
    }

    fn on_action_end(&mut self, action: Action, session: &Session<'_>) {
        if action == Action::StaleGangEviction {
            self.simulated += session.scenario_counts().simulated;
        }
        *self.millis.entry(action).or_default() += self.started.elapsed().as_secs_f64() * 1000.0;
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u32>().ok());
    let (days, load) = (args.next().unwrap_or(7), args.next().unwrap_or(100));
    let fleet = SaturatedFleet::new(3, days, load);
    println!("{} jobs in {days} days", fleet.job_count());
    let profile = Profile::kai();
    let start = Instant::now();
    let mut stopwatch = Stopwatch { started: start, millis: BTreeMap::new(), simulated: 0 };
    let (mut day, mut cycles, mut pending, mut began) = (0, 0, 0, start);
    let has_argument = |name: &str| std::env::args().any(|arg| arg == name);
    let (is_forgetful, is_kept) = (has_argument("forgetful"), has_argument("kept"));
    let (mut memory, mut kept) = (SearchMemory::default(), KeptSession::default());
    let epoch = 1_767_225_600_000;
    let stopwatch_cell = std::cell::RefCell::new(&mut stopwatch);
    let totals = fleet.replay(
        |snapshot, changes| {
            if is_forgetful {
                memory = SearchMemory::default();
            }
            let observer = &mut **stopwatch_cell.borrow_mut();
            if is_kept {
                schedule_kept(&mut kept, &mut memory, changes, snapshot, &profile, observer)
            } else {
                schedule_with_memory(snapshot, &profile, &mut memory, observer)
            }
        },
        |snapshot, plan| {
            cycles += 1;
            pending += plan.waiting.len();
            let at = (snapshot.now.0 - epoch) * 8 / 86_400_000;
            if at != day {
                let of_actions: Vec<String> = stopwatch_cell
                    .borrow_mut()
                    .millis
                    .iter_mut()
                    .map(|(action, millis)| {
                        format!("{} {:.0} ms", action.as_str(), std::mem::take(millis))
                    })
                    .collect();
                let simulated = std::mem::take(&mut stopwatch_cell.borrow_mut().simulated);
                println!(
                    "hour {}: {cycles} cycles, {} pending, {simulated} simulations, {:.0} ms: {}",
                    day * 3,
                    pending / cycles,
                    began.elapsed().as_secs_f64() * 1000.0,
                    of_actions.join(", ")
                );
                (day, cycles, pending, began) = (at, 0, 0, Instant::now());
            }
        },
    );
    println!("{totals:?} in {:.1} s", start.elapsed().as_secs_f64());
}
