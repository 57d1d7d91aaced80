//! Decides cycles over a captured cluster, and prints plans and reasons. The cluster is closed:
//! nothing arrives and nothing finishes; whoever is evicted waits again in the next cycle.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::{Read, Seek},
};

use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{DeviceClaim, Name, NodeId, Pod, PodGroupId, PodId, PodStatus, Time},
    schedule,
};

use crate::{
    captured::{CaptureError, Captured, Wanted, read},
    mirror::{Key, Mirror},
    podgrouper,
    translate::{Translation, Translator, Trouble},
};

/// Replays at most `cycles` cycles of a snapshot in KAI's layout; fewer if one decides nothing.
///
/// # Errors
/// The file is no such snapshot.
pub fn replay(
    file: impl Read + Seek,
    wanted: &Wanted,
    cycles: u32,
) -> Result<String, CaptureError> {
    let Captured { config, mut mirror, mut notes } = read(file, wanted)?;
    podgrouper::note_faults(&mut mirror);
    let mut translator = Translator::of(&config);
    translator.refresh(&mut mirror);
    let Translation { mut snapshot, mut troubles } = translator.translation;
    snapshot.now = after_everything(&mirror);
    let unjudged = mirror.claims.unjudged(&mirror.pods).into_iter();
    notes.extend(unjudged.map(|(pod, fault)| format!("Pod {pod}: {fault}")));
    let mut told = format!(
        "{} nodes, {} queues, {} pod groups, {} pods, scheduler {}\n",
        snapshot.nodes.len(),
        snapshot.queues.len(),
        snapshot.pod_groups.len(),
        snapshot.pods.len(),
        config.scheduler_name
    );
    if !notes.is_empty() {
        told.push_str("\nnotes on the snapshot\n");
    }
    for note in &notes {
        let _ = writeln!(told, "  {note}");
    }
    for cycle in 1..=cycles {
        let plan = schedule(&snapshot, &config.profile);
        let _ = writeln!(told, "\ncycle {cycle}");
        told.push_str(&decided(&snapshot, &plan));
        if cycle == cycles || plan.decisions.is_empty() {
            told.push_str(&waiting(&snapshot, &plan));
            break;
        }
        go_on(&mut snapshot, &plan, config.period.as_millis());
        give_back_claims(&mut snapshot, &plan);
        troubles.extend(not_to_return(&mut snapshot, &plan, &mirror));
    }
    if !troubles.is_empty() {
        told.push_str("\ncannot be scheduled as they stand\n");
    }
    for (pod, trouble) in &troubles {
        let _ = writeln!(told, "  {pod}: {trouble}\n    remedy: {}", trouble.remedy());
    }
    Ok(told)
}

/// A second after the last thing that is known to have happened: a snapshot names no time.
fn after_everything(mirror: &Mirror) -> Time {
    let pods = mirror.pods.values();
    let pods = pods.flat_map(|pod| [Some(pod.created), pod.started, pod.leaving_since]);
    let groups = mirror.groups.values();
    let groups =
        groups.flat_map(|group| [Some(group.created), group.last_start, group.last_eviction]);
    let last = pods.chain(groups).flatten().max().unwrap_or_default();
    Time(last.0.saturating_add(1000))
}

fn decided(snapshot: &Snapshot, plan: &Plan) -> String {
    let pod = |id: &PodId| {
        let pod = &snapshot.pods[id.0 as usize];
        format!("{}/{}", pod.namespace, pod.name)
    };
    let node = |id: &NodeId| &snapshot.nodes[id.0 as usize].name;
    let line = |decision: &Decision| match decision {
        Decision::Bind { pod: id, node: to } => format!("  bind {} to {}\n", pod(id), node(to)),
        Decision::Pipeline { pod: id, node: to } => {
            format!("  promise {} room on {}\n", pod(id), node(to))
        }
        Decision::Evict { pod: id, cause } => {
            let whom =
                cause.preemptor().map(|group| format!(" for {}", group_name(snapshot, group)));
            format!("  evict {}{} ({})\n", pod(id), whom.unwrap_or_default(), cause.action())
        }
    };
    if plan.decisions.is_empty() {
        return "  nothing to decide\n".to_owned();
    }
    plan.decisions.iter().map(line).collect()
}

fn group_name(snapshot: &Snapshot, group: PodGroupId) -> String {
    let group = &snapshot.pod_groups[group.0 as usize];
    format!("{}/{}", group.namespace, group.name)
}

fn waiting(snapshot: &Snapshot, plan: &Plan) -> String {
    let mut counts: BTreeMap<PodGroupId, usize> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.status == PodStatus::Pending) {
        if let Some(group) = pod.group {
            *counts.entry(group).or_default() += 1;
        }
    }
    let line = |(group, reason): (&PodGroupId, &schedlab_scheduler_core::Reason)| {
        let pods = counts.get(group).copied().unwrap_or(0);
        format!(
            "  {} ({pods} pods): {}: {reason}\n    remedy: {}\n",
            group_name(snapshot, *group),
            reason.code(),
            reason.remedy().told(plan.behind.contains(group))
        )
    };
    let lines: String = plan.waiting.iter().map(line).collect();
    if lines.is_empty() { "\nnobody waits\n".to_owned() } else { format!("\nwaiting\n{lines}") }
}

/// A period later.
fn go_on(snapshot: &mut Snapshot, plan: &Plan, period_millis: u128) {
    let period = i64::try_from(period_millis).unwrap_or(1000);
    snapshot.now = Time(snapshot.now.0.saturating_add(period));
    for decision in &plan.decisions {
        let (id, status, node) = match decision {
            Decision::Bind { pod, node } => (pod, PodStatus::Running, Some(*node)),
            Decision::Evict { pod, .. } => (pod, PodStatus::Pending, None),
            Decision::Pipeline { .. } => continue,
        };
        let pod = &mut snapshot.pods[id.0 as usize];
        (pod.status, pod.node) = (status, node);
        pod.started = node.map(|_| snapshot.now);
        let groups = plan.gpu_groups.get(id).filter(|_| node.is_some());
        pod.gpu_groups = groups.cloned().unwrap_or_default();
        let zones = plan.zones.get(id).filter(|_| node.is_some());
        pod.zones = zones.cloned().unwrap_or_default();
        let Some(group) = pod.group.map(|group| &mut snapshot.pod_groups[group.0 as usize]) else {
            continue;
        };
        match node {
            Some(_) => group.last_start = group.last_start.or(Some(snapshot.now)),
            None => group.last_eviction = Some(snapshot.now),
        }
    }
}

/// Those that were evicted and cannot be read, or are of a group that cannot: nobody starts them
/// again.
fn not_to_return(snapshot: &mut Snapshot, plan: &Plan, mirror: &Mirror) -> BTreeMap<Key, Trouble> {
    let mut troubles = BTreeMap::new();
    for decision in &plan.decisions {
        let Decision::Evict { pod, .. } = decision else { continue };
        let pod = &mut snapshot.pods[pod.0 as usize];
        let Some(group) = pod.group.map(|group| &mut snapshot.pod_groups[group.0 as usize]) else {
            continue;
        };
        let key = |name: &Name| Key { namespace: pod.namespace.clone(), name: name.clone() };
        let own = mirror.pods.get(&key(&pod.name)).and_then(|record| record.malformed.clone());
        let record = mirror.groups.get(&key(&group.name));
        let of_group = record.and_then(|record| Trouble::of_group(&group.name, record));
        if let Some(trouble) = own.map(Trouble::Pod).or_else(|| of_group.clone()) {
            if of_group.is_none() {
                let (name, part) = (Name::clone(&pod.name), Some(pod.sub_group));
                group.unusable.push(trouble.of_member(name, part, pod.shape));
                group.unusable.sort_by(|a, b| a.pod.cmp(&b.pod));
            }
            troubles.insert(key(&pod.name), trouble);
            pod.status = PodStatus::Failed;
        }
    }
    troubles
}

/// Claims that only pods had which were evicted are given back: their devices are free, and they
/// are allocated anew, on any node.
fn give_back_claims(snapshot: &mut Snapshot, plan: &Plan) {
    let evicted = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, .. } => Some(&snapshot.pods[pod.0 as usize]),
        Decision::Bind { .. } | Decision::Pipeline { .. } => None,
    });
    let claims_of = |pod: &Pod| snapshot.shapes[pod.shape.0 as usize].claims.iter();
    let is_alone = |claim: &&DeviceClaim| claim.reserved_for_others == 0;
    let mut unused: BTreeSet<Name> =
        evicted.flat_map(claims_of).filter(is_alone).map(|claim| claim.name.clone()).collect();
    if unused.is_empty() {
        return;
    }
    for pod in snapshot.pods.iter().filter(|pod| pod.node.is_some()) {
        for claim in claims_of(pod) {
            unused.remove(&claim.name);
        }
    }
    let claims = snapshot.shapes.iter_mut().flat_map(|shape| &mut shape.claims);
    for claim in claims.filter(|claim| unused.contains(&claim.name)) {
        claim.allocated_on = None;
    }
}

#[cfg(test)]
mod typed_tests;

#[cfg(test)]
mod tests {
    use schedlab_json::{Value, json};

    use schedlab_scheduler_core::EvictionCause;

    use super::*;
    use crate::config::Flavor;

    fn pod(name: &str, node: &str, cpu: &str) -> Value {
        json!({ "kind": "Pod",
                "metadata": { "namespace": "ns", "name": name, "uid": name,
                              "annotations": { "pod-group-name": "g" } },
                "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                          "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }],
                          "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] },
                "status": { "phase": "Running" } })
    }

    /// Two pods on n1 share a claim that is allocated there, and these are evicted.
    fn after_eviction(
        evicted: &[u32],
        (group, cpu): (&Value, &str),
    ) -> (Snapshot, BTreeMap<Key, Trouble>) {
        let name = |name: &str| json!({ "namespace": "ns", "name": name });
        let result = json!({ "request": "r", "driver": "gpu.x", "pool": "n1", "device": "gpu-0" });
        let exactly = json!({ "deviceClassName": "gpu.x" });
        let user = |pod: &str| json!({ "resource": "pods", "name": pod, "uid": pod });
        let objects = [
            json!({ "kind": "Node", "metadata": { "name": "n1" } }),
            json!({ "kind": "DeviceClass", "metadata": { "name": "gpu.x" }, "spec": {} }),
            json!({ "kind": "ResourceSlice", "metadata": { "name": "s" }, "spec": {
                "nodeName": "n1", "driver": "gpu.x", "devices": [{ "name": "gpu-0" }],
                "pool": { "name": "n1", "generation": 1 } } }),
            json!({ "kind": "ResourceClaim", "metadata": name("c"),
                    "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } },
                    "status": { "allocation": { "devices": { "results": [result] } },
                                "reservedFor": [user("a"), user("b")] } }),
            json!({ "kind": "PodGroup", "metadata": name("g"), "spec": group }),
            pod("a", "n1", cpu),
            pod("b", "n1", cpu),
        ];
        let mut mirror = Mirror::of(&objects);
        let mut translator = Translator::new(Flavor::Kai, 0);
        translator.refresh(&mut mirror);
        let mut snapshot = translator.translation.snapshot;
        let cause = EvictionCause::StaleGang { min_member: 1 };
        let evict = |pod: &u32| Decision::Evict { pod: PodId(*pod), cause: cause.clone() };
        let plan = Plan { decisions: evicted.iter().map(evict).collect(), ..Plan::default() };
        go_on(&mut snapshot, &plan, 1000);
        give_back_claims(&mut snapshot, &plan);
        let troubles = not_to_return(&mut snapshot, &plan, &mirror);
        (snapshot, troubles)
    }

    #[test]
    fn a_claim_goes_when_the_last_pod_that_has_it_is_evicted() {
        let allocated = |evicted: &[u32]| {
            let (snapshot, _) = after_eviction(evicted, (&json!({}), "1"));
            let mut claims = snapshot.shapes.iter().flat_map(|shape| &shape.claims);
            claims.next().expect("they share one").allocated_on.clone()
        };
        assert_eq!(allocated(&[]).as_deref(), Some("n1"));
        assert_eq!(allocated(&[1]).as_deref(), Some("n1"));
        assert_eq!(allocated(&[0, 1]), None);
    }

    #[test]
    fn who_is_evicted_waits_again_unless_it_or_its_group_cannot_be_read() {
        let after = |group: Value, cpu: &str| {
            let (snapshot, troubles) = after_eviction(&[0], (&group, cpu));
            let told: Vec<String> = troubles.keys().map(Key::to_string).collect();
            let unusable = snapshot.pod_groups[0].unusable.len();
            (snapshot.pods[0].status, told.join(" "), unusable)
        };
        assert_eq!(after(json!({}), "1"), (PodStatus::Pending, String::new(), 0));
        let left_out = |unusable| (PodStatus::Failed, "ns/a".to_owned(), unusable);
        assert_eq!(after(json!({ "minMember": -1 }), "1"), left_out(0), "the group is told itself");
        assert_eq!(after(json!({}), "many"), left_out(1));
    }
}
