//! NUMA zones of tasks, and what is available in each zone.

use std::collections::BTreeSet;

use schedlab_scheduler_core::{Snapshot, model::NumaAllocation, resources::Resources};

use super::{
    super::{
        build::{NumaZoneAmounts, zone_shares},
        format::{Case, ExpectedOutcome, TaskState},
    },
    TaskOutcome,
};

/// Positions of the NUMA zones that a task uses, in the order in which the node publishes its
/// zones.
pub(super) fn used_zone_positions(snapshot: &Snapshot, actual: &TaskOutcome) -> BTreeSet<usize> {
    let numa = actual.node.and_then(|node| snapshot.nodes[node.0 as usize].numa.as_ref());
    let zones = numa.map_or(&[][..], |numa| &numa.zones);
    let shares = actual.numa_zones.iter();
    shares.filter_map(|share| zones.iter().position(|zone| zone.name == share.zone)).collect()
}

/// Compares the available amounts of each NUMA zone with the expected ones. Available is what was
/// available at the start, plus what tasks held at the start, minus what tasks hold or are
/// pipelined to now. Tasks that were releasing at the start still hold their amounts.
pub(super) fn zone_amount_differences(
    case: &Case,
    expected: &ExpectedOutcome,
    snapshot: &Snapshot,
    outcomes: &[TaskOutcome],
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, outcome) in &expected.nodes {
        let spec = case.cluster.nodes.iter().find(|node| node.name == *name);
        let zones = spec.and_then(|node| node.numa.as_ref()).map_or(&[][..], |numa| &numa.zones);
        for (at, amounts) in &outcome.numa_zones_available {
            let Some(zone) = zones.get(*at) else {
                found.push(format!("{name}: got no NUMA zone {at}, expected one"));
                continue;
            };
            let mut free = NumaZoneAmounts(&zone.available).to_resources();
            add_and_subtract_task_zones(&mut free, case, snapshot, outcomes, name, &zone.id);
            let wrong = amounts.iter().filter_map(|(of, text)| amount_difference(of, text, &free));
            found.extend(wrong.map(|text| format!("{name}: zone {at}: {text}")));
        }
    }
    found
}

/// The message about an available amount that differs from the expected one.
fn amount_difference(resource: &str, expected: &str, free: &Resources) -> Option<String> {
    match NumaZoneAmounts::parse_expected_and_found(resource, expected, free) {
        Some([expected, found]) => {
            (expected != found).then(|| format!("got {resource} {found}, expected {expected}"))
        }
        None => Some(format!("{resource}: got {expected}, expected a quantity")),
    }
}

fn add_and_subtract_task_zones(
    free: &mut Resources,
    case: &Case,
    snapshot: &Snapshot,
    outcomes: &[TaskOutcome],
    node: &str,
    zone: &str,
) {
    let of_zone = |shares: Vec<NumaAllocation>| shares.into_iter().filter(|it| *it.zone == *zone);
    let tasks = case.jobs.iter().flat_map(|job| &job.tasks);
    for (task, actual) in tasks.zip(outcomes) {
        let began_there = task.node.as_deref() == Some(node) && task.state != TaskState::Releasing;
        let is_there = actual.node.is_some_and(|at| *snapshot.nodes[at.0 as usize].name == *node);
        let had = of_zone(zone_shares(task)).filter(|_| began_there);
        had.for_each(|share| free.add(&share.amount));
        let has = matches!(actual.state, "Running" | "Bound" | "Binding" | "Pipelined") && is_there;
        let has = of_zone(actual.numa_zones.clone()).filter(|_| has);
        has.for_each(|share| free.subtract(&share.amount));
    }
}
