//! One snapshot and the plan made of it, judged: the way in for tables and property tests.

use std::collections::BTreeMap;

use super::{
    Amounts, Auditor, Breach, Eviction, GroupView, NodeView, Part, Phase, PodView, QueueView,
    Rules, SubGroupView, Why, Writer,
};
use crate::{
    Decision, EvictionCause, Plan, QueueUse, Snapshot,
    model::{
        GpuPart, Name, Node, NumaPolicy, NumaScope, NumaZone, Pod, PodGroup, PodGroupId, PodShape,
        PodStatus, Queue, QueueId, SharedGpu, Time, ZoneShare,
    },
    resources::{Amount, PerResource, Resources},
};

/// What the plan breaks. Feeds the snapshot as history, then the plan as what happened next.
pub fn breaches_of(snapshot: &Snapshot, plan: &Plan, rules: Rules) -> Vec<Breach> {
    let mut auditor = Auditor::new(rules);
    let before = Time(snapshot.now.0 - 1);
    let names = Names { snapshot };
    for node in &snapshot.nodes {
        auditor.node(before, &node.name, Some(node_view(node)));
    }
    for queue in &snapshot.queues {
        auditor.queue(before, &queue.name, Some(names.queue_view(queue)));
    }
    for group in &snapshot.pod_groups {
        auditor.group(before, &group_name(group), Some(names.group_view(group)));
    }
    let mut pods: Vec<(Name, PodView)> =
        snapshot.pods.iter().map(|pod| (pod_name(pod), names.pod_view(pod))).collect();
    for (name, pod) in &pods {
        auditor.pod(before, name, Some(pod), Writer::Other);
    }
    judge_uses(&mut auditor, before, snapshot, &plan.queues);
    for decision in &plan.decisions {
        tell(&mut auditor, (&names, plan), &mut pods, decision);
    }
    judge_uses(&mut auditor, snapshot.now, snapshot, &plan.queues_after);
    auditor.close_moments();
    auditor.breaches
}

fn judge_uses(
    auditor: &mut Auditor,
    at: Time,
    snapshot: &Snapshot,
    uses: &BTreeMap<QueueId, QueueUse>,
) {
    for (queue, said) in uses {
        let name = &snapshot.queues[queue.0 as usize].name;
        let mut allocated = amounts(&said.allocated);
        allocated.retain(|resource, _| matches!(&**resource, "nvidia.com/gpu" | "cpu" | "memory"));
        auditor.queue_status(at, name, &allocated);
    }
}

fn tell(
    auditor: &mut Auditor,
    (names, plan): (&Names<'_>, &Plan),
    pods: &mut [(Name, PodView)],
    decision: &Decision,
) {
    let now = names.snapshot.now;
    match decision {
        Decision::Bind { pod, node } => {
            let (name, view) = &mut pods[pod.0 as usize];
            let to = &names.snapshot.nodes[node.0 as usize];
            view.node = Some(to.name.clone());
            let groups = plan.gpu_groups.get(pod).map_or(&[][..], Vec::as_slice);
            view.zones = zones(plan.zones.get(pod).map_or(&[][..], Vec::as_slice));
            let shape = names.shape(&names.snapshot.pods[pod.0 as usize]);
            share(view, shape, groups, to);
            view.claims = claims_on(shape, to);
            auditor.pod(now, name, Some(view), Writer::Scheduler);
        }
        Decision::Evict { pod, cause } => {
            let (name, view) = &mut pods[pod.0 as usize];
            if let Some((preemptor, why)) = names.cause(cause) {
                let eviction = Eviction { pod: name.clone(), preemptor, why };
                auditor.evicted_for(now, &eviction);
            }
            view.leaving = true;
            auditor.pod(now, name, Some(view), Writer::Scheduler);
        }
        Decision::Pipeline { .. } => {}
    }
}

struct Names<'a> {
    snapshot: &'a Snapshot,
}

impl Names<'_> {
    fn group_at(&self, id: PodGroupId) -> Name {
        group_name(&self.snapshot.pod_groups[id.0 as usize])
    }

    fn cause(&self, cause: &EvictionCause) -> Option<(Name, Why)> {
        match cause {
            EvictionCause::Reclaim { preemptor, .. } => {
                Some((self.group_at(*preemptor), Why::Reclaim))
            }
            EvictionCause::Preempt { preemptor } => Some((self.group_at(*preemptor), Why::Preempt)),
            EvictionCause::Consolidate { preemptor } => {
                Some((self.group_at(*preemptor), Why::Consolidate))
            }
            EvictionCause::StaleGang { .. } => None,
        }
    }

    fn queue_view(&self, queue: &Queue) -> QueueView {
        QueueView {
            parent: queue.parent.map(|at| self.snapshot.queues[at.0 as usize].name.clone()),
            quota: bounds(&queue.quota),
            limit: bounds(&queue.limit),
        }
    }

    fn group_view(&self, group: &PodGroup) -> GroupView {
        let queue = group.known_queue();
        let parts = group.sub_groups.iter().map(|part| SubGroupView {
            name: part.name.clone(),
            parent: part.parent,
            min_member: part.min_member as usize,
            min_sub_groups: part.min_sub_group.map(|least| least as usize),
        });
        GroupView {
            queue: queue
                .map_or_else(Name::default, |at| self.snapshot.queues[at.0 as usize].name.clone()),
            priority: group.priority,
            preemptible: group.preemptible,
            sub_groups: parts.collect(),
            min_sub_groups: group.min_sub_group.map(|least| least as usize),
        }
    }

    /// One that is not in the snapshot has a name, too.
    fn node_of(&self, pod: &Pod) -> Option<Name> {
        let known = pod.node.map(|at| self.snapshot.nodes[at.0 as usize].name.clone());
        let has_one = matches!(pod.status, PodStatus::Bound | PodStatus::Running | PodStatus::Away);
        known.or_else(|| has_one.then(|| "elsewhere".into()))
    }

    fn pod_view(&self, pod: &Pod) -> PodView {
        let shape = self.shape(pod);
        let group = pod.group.map(|at| &self.snapshot.pod_groups[at.0 as usize]);
        let part = group.and_then(|group| group.sub_groups.get(pod.sub_group));
        let mut view = PodView {
            uid: pod.uid.clone(),
            group: group.map(group_name),
            sub_group: part.map(|part| part.name.clone()),
            requests: amounts(&shape.requests),
            node: self.node_of(pod),
            phase: match pod.status {
                PodStatus::Gated => Phase::Gated,
                PodStatus::Pending
                | PodStatus::Bound
                | PodStatus::Running
                | PodStatus::Away
                | PodStatus::Releasing => Phase::Alive,
                PodStatus::Succeeded => Phase::Succeeded,
                PodStatus::Failed => Phase::Failed,
            },
            leaving: pod.status == PodStatus::Releasing,
            priority: pod.priority,
            node_selector: shape.node_selector.clone(),
            node_affinity: shape.node_affinity.clone(),
            tolerations: shape.tolerations.clone(),
            devices: None,
            guaranteed: shape.guaranteed,
            zones: zones(&pod.zones),
            parts: Vec::new(),
            claims: claims_on(shape, &Node::default()),
            paid_besides: mig_gpus(&shape.requests),
        };
        if let Some(node) = pod.node {
            let node = &self.snapshot.nodes[node.0 as usize];
            share(&mut view, shape, &pod.gpu_groups, node);
            view.claims = claims_on(shape, node);
        }
        view
    }

    fn shape(&self, pod: &Pod) -> &PodShape {
        &self.snapshot.shapes[pod.shape.0 as usize]
    }
}

/// The devices of its claims there.
fn claims_on(shape: &PodShape, node: &Node) -> BTreeMap<Name, Amounts> {
    // Those on devices of several nodes take nothing of any, and pods on several may use one.
    let claims = shape.claims.iter().filter(|claim| claim.is_of_one_node());
    claims.map(|claim| (claim.name.clone(), amounts(&claim.devices_on(node)))).collect()
}

/// Parts of the devices of `node`, and what queues pay for them. A pod that names no device
/// shares it with nobody.
fn share(view: &mut PodView, shape: &PodShape, groups: &[Name], node: &Node) {
    let Some(SharedGpu { part, devices }) = shape.shared_gpu else { return };
    let (milli, price) = match part {
        GpuPart::Milli(milli) => (milli, milli),
        GpuPart::MemoryMib(mib) => {
            let device = node.gpu_memory_mib.max(1);
            (mib * 1000 / device, (mib * 100 + device - 1) / device * 10)
        }
    };
    let name = |at: u32| {
        let own = || format!("{}/{at}", view.uid).into();
        groups.get(at as usize).cloned().unwrap_or_else(own)
    };
    view.parts = (0..devices).map(|at| Part { device: name(at), milli }).collect();
    view.paid_besides.insert("nvidia.com/gpu".into(), i128::from(price) * i128::from(devices));
}

/// `nvidia.com/mig-2g.10gb` is paid for as two GPUs.
fn mig_gpus(requests: &Resources) -> Amounts {
    let slices = |name: &Name| -> Option<i128> {
        let (slices, _) = name.strip_prefix("nvidia.com/mig-")?.split_once("g.")?;
        slices.parse().ok()
    };
    let all = requests.extended.iter();
    let gpus: i128 =
        all.filter_map(|(name, count)| Some(slices(name)? * i128::from(*count) * 1000)).sum();
    if gpus == 0 { Amounts::new() } else { Amounts::from([("nvidia.com/gpu".into(), gpus)]) }
}

fn group_name(group: &PodGroup) -> Name {
    format!("{}/{}", group.namespace, group.name).into()
}

fn pod_name(pod: &Pod) -> Name {
    format!("{}/{}", pod.namespace, pod.name).into()
}

fn node_view(node: &Node) -> NodeView {
    let numa = node.numa.as_ref();
    let offer = |zone: &NumaZone| (zone.name.clone(), amounts(&zone.allocatable));
    NodeView {
        allocatable: amounts(&node.allocatable),
        labels: node.labels.clone(),
        taints: node.taints.clone(),
        cordoned: node.unschedulable,
        ready: node.ready,
        zones: numa.map_or(&[][..], |numa| &numa.zones).iter().map(offer).collect(),
        one_zone: numa.is_some_and(|numa| {
            (numa.policy, numa.scope) == (NumaPolicy::SingleNumaNode, NumaScope::Pod)
        }),
    }
}

fn zones(shares: &[ZoneShare]) -> BTreeMap<Name, Amounts> {
    shares.iter().map(|share| (share.zone.clone(), amounts(&share.amount))).collect()
}

fn amounts(resources: &Resources) -> Amounts {
    let Resources { gpu_milli, cpu_milli, memory_bytes, pods, extended } = resources;
    let mut amounts: Amounts =
        extended.iter().map(|(name, count)| (name.clone(), i128::from(*count) * 1000)).collect();
    amounts.insert("nvidia.com/gpu".into(), i128::from(*gpu_milli));
    amounts.insert("cpu".into(), i128::from(*cpu_milli));
    amounts.insert("memory".into(), i128::from(*memory_bytes) * 1000);
    amounts.insert("pods".into(), i128::from(*pods) * 1000);
    amounts
}

fn bounds(bounds: &PerResource<Amount>) -> Amounts {
    let PerResource { gpu, cpu, memory } = bounds;
    let listed = [("nvidia.com/gpu", gpu, 1), ("cpu", cpu, 1), ("memory", memory, 1000)];
    let exact = listed.into_iter().filter_map(|(name, bound, factor)| match bound {
        Amount::Exactly(bound) => Some((Name::from(name), i128::from(*bound) * factor)),
        Amount::Unlimited => None,
    });
    exact.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{NodeId, PodId},
        synthetic,
        testing::snapshot_of,
    };

    fn bind(pod: usize, node: u32) -> Decision {
        Decision::Bind { pod: PodId(u32::try_from(pod).unwrap()), node: NodeId(node) }
    }

    fn evict(pod: usize, preemptor: u32) -> Decision {
        let cause = EvictionCause::Preempt { preemptor: PodGroupId(preemptor) };
        Decision::Evict { pod: PodId(u32::try_from(pod).unwrap()), cause }
    }

    fn judged(snapshot: &Snapshot, decisions: Vec<Decision>) -> Vec<String> {
        let plan = Plan { decisions, ..Plan::default() };
        breaches_of(snapshot, &plan, Rules::kai()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_plan_that_fills_nodes_is_right_and_one_that_overfills_them_is_not() {
        let snapshot = synthetic::pending_singles(2, 2);
        let even = (0..16).map(|pod| bind(pod, u32::from(pod >= 8))).collect();
        assert_eq!(judged(&snapshot, even), [""; 0]);
        let skewed = judged(&snapshot, (0..9).map(|pod| bind(pod, 0)).collect());
        assert_eq!(skewed.len(), 1, "{skewed:?}");
        assert!(skewed[0].starts_with("rule 1 (capacity): "), "{}", skewed[0]);
    }

    #[test]
    fn a_claim_is_counted_once_and_used_on_one_node() {
        let snapshot = snapshot_of(
            "
            node n1 gpus=1 by-claim
            node n2 gpus=1 by-claim
            job a claim x:1
            job b claim x:1
            job c gpus=1 by-claim
        ",
        );
        assert_eq!(judged(&snapshot, vec![bind(0, 0), bind(1, 0), bind(2, 1)]), [""; 0]);
        let overfull = judged(&snapshot, vec![bind(0, 0), bind(2, 0)]);
        assert!(overfull[0].starts_with("rule 1 (capacity): "), "{overfull:?}");
        let twice = judged(&snapshot, vec![bind(0, 0), bind(1, 1)]);
        assert!(twice[0].contains("uses claim x on n2; others do on n1"), "{twice:?}");
    }

    #[test]
    fn half_a_gang_is_a_breach() {
        let snapshot = synthetic::large_gang_against_singles(4);
        let gang = snapshot.pod_groups.iter().position(|group| group.sub_groups[0].min_member == 2);
        let gang = PodGroupId(u32::try_from(gang.unwrap()).unwrap());
        let members: Vec<usize> = (0..snapshot.pods.len())
            .filter(|pod| snapshot.pods[*pod].group == Some(gang))
            .collect();
        let told = judged(&snapshot, vec![bind(members[0], 0)]);
        assert!(told.iter().any(|one| one.starts_with("rule 4 (gang atomicity): ")), "{told:?}");
    }

    #[test]
    fn a_victim_that_is_not_preemptible_or_not_below_is_a_breach() {
        let snapshot = synthetic::hopeless_gang_against_singles(1);
        let pinned = snapshot.pods.iter().position(|pod| {
            let group = pod.group.map(|group| &snapshot.pod_groups[group.0 as usize]);
            pod.node.is_some() && group.is_some_and(|group| !group.preemptible)
        });
        let told = judged(&snapshot, vec![evict(pinned.unwrap(), 0)]);
        assert!(told.iter().any(|one| one.contains("is not preemptible")), "{told:?}");
        assert!(told.iter().any(|one| one.contains("priority counts inside a queue")), "{told:?}");
    }
}
