//! Transformations of a trace before its replay: denser arrivals, a smaller fleet, and FGD's
//! packing experiment, which draws pods from the list until their GPUs reach a percentage of the
//! fleet's.

use std::collections::BTreeMap;

use schedlab_api::random::SplitMix64;

use super::trace::{JobEnd, Trace, TraceJob};

/// How many drawn pods arrive per second in a packing experiment: as many as one scheduling cycle
/// handles at once.
const ARRIVALS_PER_SEC: usize = 10;

/// Makes arrivals `factor` times as dense. Run times do not change, nor does the time from a job's
/// arrival to its removal.
pub(crate) fn compress_arrivals(trace: &mut Trace, factor: f64) {
    for job in &mut trace.jobs {
        job.arrives_secs /= factor;
    }
}

/// Keeps `fraction` of the nodes of each kind, evenly spread over the list.
pub(crate) fn scale_fleet(trace: &mut Trace, fraction: f64) {
    let mut seen: BTreeMap<(u64, String), u32> = BTreeMap::new();
    trace.nodes.retain(|node| {
        let at = seen.entry((node.gpus, node.model.clone())).or_default();
        *at += 1;
        (f64::from(*at) * fraction).floor() > (f64::from(*at - 1) * fraction).floor()
    });
}

/// Draws pods from the trace repeatedly, until they request `percent` of the fleet's GPUs. The pods
/// arrive one after the other and never end.
pub(crate) fn draw_pods_to_fill(trace: &mut Trace, percent: u64, seed: u64) {
    let target_milli = trace.gpus().saturating_mul(1000).saturating_mul(percent) / 100;
    let list = std::mem::take(&mut trace.jobs);
    if list.iter().all(|job| job.gpus == 0) {
        return;
    }
    let mut rng = SplitMix64::new(seed);
    let mut arrived = 0;
    while arrived < target_milli {
        let drawn = &list[rng.below(list.len())];
        let at = trace.jobs.len();
        arrived += drawn.total_gpu_milli();
        trace.jobs.push(TraceJob {
            name: format!("{}-{at}", drawn.name).into(),
            arrives_secs: index_as_seconds(at / ARRIVALS_PER_SEC),
            end: JobEnd::Never,
            ..drawn.clone()
        });
    }
}

/// Splits each gang into single-pod jobs, for schedulers without gangs. Returns the number of gangs
/// that were split.
pub(crate) fn split_gangs(trace: &mut Trace) -> usize {
    let gangs = trace.jobs.iter().filter(|job| job.pods > 1).count();
    let split = |job: TraceJob| {
        let member =
            |at| TraceJob { name: format!("{}-{at}", job.name).into(), pods: 1, ..job.clone() };
        match job.pods {
            1 => vec![job],
            pods => (0..pods).map(member).collect(),
        }
    };
    trace.jobs = std::mem::take(&mut trace.jobs).into_iter().flat_map(split).collect();
    gangs
}

#[expect(clippy::cast_precision_loss, reason = "a trace's seconds are far below 2^52")]
fn index_as_seconds(at: usize) -> f64 {
    at as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::trace::TraceNode;

    fn trace(nodes: usize, gpus: u64) -> Trace {
        let node = |at| TraceNode { name: format!("n{at}"), gpus, ..TraceNode::default() };
        let job = |gpus| TraceJob {
            name: format!("j{gpus}").into(),
            pods: 1,
            gpus,
            gpu_milli: gpus * 500,
            arrives_secs: 100.0,
            ..TraceJob::default()
        };
        Trace { nodes: (0..nodes).map(node).collect(), jobs: vec![job(1), job(2)], queues: vec![] }
    }

    #[test]
    fn a_scaled_fleet_keeps_its_part_of_each_kind() {
        let mut mixed = trace(10, 8);
        mixed.nodes.extend(trace(5, 0).nodes);
        scale_fleet(&mut mixed, 0.4);
        let kept = |gpus| mixed.nodes.iter().filter(|node| node.gpus == gpus).count();
        assert_eq!((kept(8), kept(0)), (4, 2));
    }

    #[test]
    fn inflated_arrivals_just_exceed_the_target_and_repeat_with_the_seed() {
        let inflated = |seed| {
            let mut trace = trace(10, 8);
            draw_pods_to_fill(&mut trace, 130, seed);
            trace
        };
        let arrived: u64 = inflated(1).jobs.iter().map(TraceJob::total_gpu_milli).sum();
        assert!((104_000..105_000).contains(&arrived), "{arrived} of 104 GPUs wanted");
        assert_eq!(inflated(1), inflated(1));
        assert_ne!(inflated(1), inflated(2));
    }

    #[test]
    fn denser_arrivals_leave_run_times_alone() {
        let mut trace = trace(1, 8);
        trace.jobs[0].end = JobEnd::RunsSecs(60.0);
        compress_arrivals(&mut trace, 10.0);
        assert_eq!((trace.jobs[0].arrives_secs, trace.jobs[0].end), (10.0, JobEnd::RunsSecs(60.0)));
    }
}
