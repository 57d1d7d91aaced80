//! What stands out in the figures of an experiment, as sentences.

use serde::Serialize;

use super::figures::{Figures, GroupFigures};
use schedlab_conformance::text::counted_noun;

/// Something that stands out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The queue; empty for the fleet.
    pub queue: String,
    /// The finding as a sentence.
    pub text: String,
}

/// A queue that had less than this part of the quota that it requested stands out, in percent.
const QUOTA_KEPT_PERCENT: f64 = 95.0;
/// A queue stands out if its longest wait is this many times the median of all jobs' waits, and at
/// least [`LONG_WAIT_SECS`].
const LONG_WAIT_FACTOR: f64 = 20.0;
/// The shortest wait that stands out, in seconds.
const LONG_WAIT_SECS: f64 = 12.0 * 3600.0;
/// Lost work stands out if it is more than this part of all GPU hours, in percent.
const LOST_PERCENT: f64 = 5.0;
/// Fragmentation stands out above this percentage of free GPUs, while pods wait.
const FRAGMENTATION_PERCENT: f64 = 50.0;

/// What stands out in these figures, the queues first.
pub fn findings(figures: &Figures) -> Vec<Finding> {
    let median = figures.all.wait.median_secs.unwrap_or_default();
    let queues = figures.by_queue.iter();
    let mut found: Vec<Finding> = queues.flat_map(|queue| queue_findings(queue, median)).collect();
    let fleet = |text: String| Finding { queue: String::new(), text };
    let (lost, all) = (figures.all.lost_gpu_hours, figures.all.gpu_hours);
    if all > 0.0 && 100.0 * lost / all > LOST_PERCENT {
        let percent = 100.0 * lost / all;
        found.push(fleet(format!(
            "evictions lost {lost:.1} GPU hours, {percent:.0} % of all that were used"
        )));
    }
    let waits = figures.all.wait.p90_secs.unwrap_or_default();
    let fragmentation = figures.fragmentation_percent.unwrap_or_default();
    if fragmentation > FRAGMENTATION_PERCENT && waits >= 3600.0 {
        found.push(fleet(format!(
            "{fragmentation:.0} % of the free GPUs are on nodes in use, while a tenth of the jobs \
             waits longer than {}",
            duration_text(waits)
        )));
    }
    found
}

fn queue_findings(queue: &GroupFigures, median_secs: f64) -> Vec<Finding> {
    let finding = |text: String| Finding { queue: queue.name.clone(), text };
    let name = &queue.name;
    let mut found = Vec::new();
    let kept = queue.quota_kept_percent.unwrap_or(100.0);
    if kept < QUOTA_KEPT_PERCENT {
        let quota = queue.quota_gpus.unwrap_or_default();
        found.push(finding(format!(
            "queue {name} waits below its quota of {quota} GPUs: it had {kept:.0} % of what it \
             requested within the quota"
        )));
    }
    if queue.never_started > 0 {
        found.push(finding(format!(
            "queue {name}: {} of {} never started",
            queue.never_started,
            counted_noun(queue.jobs, "job")
        )));
    }
    let longest = queue.longest_wait_secs.unwrap_or_default();
    if longest >= LONG_WAIT_SECS.max(LONG_WAIT_FACTOR * median_secs) && queue.never_started == 0 {
        found.push(finding(format!(
            "queue {name}: a job waited {}; the median of all jobs is {}",
            duration_text(longest),
            duration_text(median_secs)
        )));
    }
    found
}

/// A duration as a number with a unit.
pub fn duration_text(secs: f64) -> String {
    match secs {
        secs if secs < 120.0 => format!("{secs:.1}s"),
        secs if secs < 7200.0 => format!("{:.1}m", secs / 60.0),
        secs if secs < 172_800.0 => format!("{:.1}h", secs / 3600.0),
        secs => format!("{:.1}d", secs / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_waits_below_its_quota_is_found() {
        let queue = |name: &str, kept| GroupFigures {
            name: name.to_owned(),
            jobs: 3,
            quota_gpus: Some(8.0),
            quota_kept_percent: Some(kept),
            ..GroupFigures::default()
        };
        let figures = Figures {
            by_queue: vec![queue("good", 99.0), queue("starved", 40.0)],
            ..Figures::default()
        };
        let texts: Vec<String> = findings(&figures).into_iter().map(|found| found.text).collect();
        let expected = "queue starved waits below its quota of 8 GPUs: it had 40 % of what it \
                        requested within the quota";
        assert_eq!(texts, [expected]);
    }
}
