//! A plan as text: decisions in order, adjacent ones of one group and kind on one line, then the
//! reasons of pending groups, then stale gangs.

use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{NodeId, PodGroupId, PodId},
};

pub(super) fn plan_lines(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>, String)> = Vec::new();
    for decision in &plan.decisions {
        let (head, node, tail) = decision_texts(snapshot, plan, decision);
        match lines.last_mut() {
            Some((last, nodes, end)) if *last == head && *end == tail => nodes.push(node),
            Some(_) | None => lines.push((head, vec![node], tail)),
        }
    }
    let decided = lines
        .into_iter()
        .map(|(head, nodes, tail)| format!("{head} {}{tail}", count_repeated_names(&nodes)));
    let waiting = waiting_lines(snapshot, plan);
    let stale = plan.staleness_changes.iter().map(|(group, stale)| {
        let now = if *stale { "is stale" } else { "is not stale any more" };
        format!("{} {now}", group_name(snapshot, *group))
    });
    decided.chain(waiting).chain(stale).collect()
}

/// The lines about pending pod groups. Groups with the same reason share a line.
fn waiting_lines(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for (group, reason) in &plan.waiting {
        let (name, reason) = (group_name(snapshot, *group), reason.to_string());
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, groups)) => groups.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let line = |(reason, groups): (String, Vec<String>)| match &groups[..] {
        [first, .., last] if groups.len() > 3 => {
            format!("{first} to {last} ({}) pending: {reason}", groups.len())
        }
        few => format!("{} pending: {reason}", few.join(", ")),
    };
    reasons.into_iter().map(line).collect()
}

fn decision_texts(
    snapshot: &Snapshot,
    plan: &Plan,
    decision: &Decision,
) -> (String, String, String) {
    let node = |node: &NodeId| snapshot.nodes[node.0 as usize].name.to_string();
    let location = |pod: &PodId, to: &NodeId| {
        let groups = plan.gpu_groups.get(pod).map(|groups| format!("/{}", groups.join("+")));
        let zones = plan.numa_allocations.get(pod).map(|shares| {
            let zones: Vec<&str> = shares.iter().map(|share| &*share.zone).collect();
            format!("@{}", zones.join("+"))
        });
        [node(to), groups.unwrap_or_default(), zones.unwrap_or_default()].concat()
    };
    match decision {
        Decision::Bind { pod, node: to } => (
            format!("{} runs on", group_or_pod_name(snapshot, *pod)),
            location(pod, to),
            String::new(),
        ),
        Decision::Pipeline { pod, node: to } => (
            format!("{} waits for", group_or_pod_name(snapshot, *pod)),
            location(pod, to),
            String::new(),
        ),
        Decision::Evict { pod, cause } => {
            let from = snapshot.pods[pod.0 as usize].node.as_ref().map_or_else(String::new, node);
            let whom =
                cause.preemptor().map(|group| format!(" for {}", group_name(snapshot, group)));
            let why = format!("{} ({})", whom.unwrap_or_default(), cause.kai_action_name());
            (format!("{} leaves", group_or_pod_name(snapshot, *pod)), from, why)
        }
    }
}

/// Joins node names, and counts repeated ones: `n1, n2 x3`.
fn count_repeated_names(nodes: &[String]) -> String {
    let groups = nodes.chunk_by(|a, b| a == b).map(|same| match same.len() {
        1 => same[0].clone(),
        count => format!("{} x{count}", same[0]),
    });
    groups.collect::<Vec<_>>().join(", ")
}

fn group_or_pod_name(snapshot: &Snapshot, pod: PodId) -> String {
    let pod = &snapshot.pods[pod.0 as usize];
    pod.group.map_or_else(|| pod.name.to_string(), |group| group_name(snapshot, group))
}

fn group_name(snapshot: &Snapshot, group: PodGroupId) -> String {
    snapshot.pod_groups[group.0 as usize].name.to_string()
}
