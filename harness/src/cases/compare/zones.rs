//! Which zones tasks are in, and what is left of each.

use std::collections::BTreeSet;

use schedlab_scheduler_core::{Snapshot, model::ZoneShare, resources::Resources};

use super::{
    super::{
        build::{ZoneAmounts, zone_shares},
        format::{Case, Expected, State},
    },
    Fate,
};

/// Positions of the zones of which a task has something, as zones are published.
pub(super) fn positions(snapshot: &Snapshot, fate: &Fate) -> BTreeSet<usize> {
    let numa = fate.node.and_then(|node| snapshot.nodes[node.0 as usize].numa.as_ref());
    let zones = numa.map_or(&[][..], |numa| &numa.zones);
    let shares = fate.zones.iter();
    shares.filter_map(|share| zones.iter().position(|zone| zone.name == share.zone)).collect()
}

/// What was free when the case began, with what tasks had then, less what they have or were
/// promised now. Whoever was leaving when it began is still there.
pub(super) fn differences(
    (case, expected): (&Case, &Expected),
    snapshot: &Snapshot,
    fates: &[Fate],
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, outcome) in &expected.nodes {
        let spec = case.cluster.nodes.iter().find(|node| node.name == *name);
        let zones = spec.and_then(|node| node.numa.as_ref()).map_or(&[][..], |numa| &numa.zones);
        for (at, amounts) in &outcome.numa_zones_available {
            let Some(zone) = zones.get(*at) else {
                found.push(format!("{name}: expects a zone {at}, which it does not have"));
                continue;
            };
            let mut free = ZoneAmounts(&zone.available).resources();
            settle(&mut free, (case, snapshot), fates, (name, &zone.id));
            let wrong = amounts.iter().filter_map(|(resource, text)| {
                let both = ZoneAmounts::both(resource, text, &free);
                let is_equal = both.is_some_and(|[wanted, found]| wanted == found);
                (!is_equal).then(|| format!("{name}: {resource} of zone {at}: {text}, {both:?}"))
            });
            found.extend(wrong);
        }
    }
    found
}

fn settle(
    free: &mut Resources,
    (case, snapshot): (&Case, &Snapshot),
    fates: &[Fate],
    (node, zone): (&str, &str),
) {
    let of_zone = |shares: Vec<ZoneShare>| shares.into_iter().filter(|it| *it.zone == *zone);
    let tasks = case.jobs.iter().flat_map(|job| &job.tasks);
    for (task, fate) in tasks.zip(fates) {
        let began_there = task.node.as_deref() == Some(node) && task.state != State::Releasing;
        let is_there = fate.node.is_some_and(|at| *snapshot.nodes[at.0 as usize].name == *node);
        let had = of_zone(zone_shares(task)).filter(|_| began_there);
        had.for_each(|share| free.add(&share.amount));
        let has = matches!(fate.state, "Running" | "Bound" | "Binding" | "Pipelined") && is_there;
        let has = of_zone(fate.zones.clone()).filter(|_| has);
        has.for_each(|share| free.subtract(&share.amount));
    }
}
