//! Audits one snapshot and its plan: the entry point for table tests and property tests.

use std::collections::BTreeMap;

use schedlab_api::resources;
use schedlab_audit::{
    self as objects, Amounts, Auditor, Breach, DeviceShare, Eviction, EvictionKind, GroupView,
    NodeView, Phase, PodView, QueueView, Rules, SubGroupView, Time, Writer,
};
use schedlab_scheduler_core::{
    Decision, EvictionCause, Plan, QueueUsage, Snapshot,
    model::{
        FractionalGpu, GpuFraction, Name, Node, NodeSelectorTerm, NumaAllocation, NumaPolicy,
        NumaScope, NumaZone, Operator, Pod, PodGroup, PodGroupId, PodShape, PodStatus, Queue,
        QueueId, Requirement, Taint, TaintEffect, Toleration,
    },
    resources::{Amount, PerResource, Resources},
};

/// Returns the breaches of the audit's rules by the plan. The audit is given the snapshot as
/// history, and the decisions of the plan as what happened next.
pub fn audit_plan(snapshot: &Snapshot, plan: &Plan, rules: Rules) -> Vec<Breach> {
    let mut auditor = Auditor::new(rules);
    let before = Time(snapshot.now.0 - 1);
    let names = ViewBuilder { snapshot };
    for node in &snapshot.nodes {
        auditor.observe_node(before, &node.name, Some(node_view(node)));
    }
    for queue in &snapshot.queues {
        auditor.observe_queue(before, &queue.name, Some(names.queue_view(queue)));
    }
    for group in &snapshot.pod_groups {
        auditor.observe_pod_group(before, &group_name(group), Some(names.group_view(group)));
    }
    let mut pods: Vec<(Name, PodView)> =
        snapshot.pods.iter().map(|pod| (pod_name(pod), names.pod_view(pod))).collect();
    for (name, pod) in &pods {
        auditor.observe_pod(before, name, Some(pod), Writer::Other);
    }
    check_queue_uses(&mut auditor, before, snapshot, &plan.queues);
    for decision in &plan.decisions {
        replay_decision(&mut auditor, &names, plan, &mut pods, decision);
    }
    check_queue_uses(&mut auditor, Time(snapshot.now.0), snapshot, &plan.queues_after);
    auditor.finish()
}

fn check_queue_uses(
    auditor: &mut Auditor,
    at: Time,
    snapshot: &Snapshot,
    uses: &BTreeMap<QueueId, QueueUsage>,
) {
    for (queue, reported) in uses {
        let name = &snapshot.queues[queue.0 as usize].name;
        let mut allocated = amounts_of(&reported.allocated);
        allocated.retain(|resource, _| matches!(&**resource, resources::GPU | "cpu" | "memory"));
        auditor.check_queue_status(at, name, &allocated);
    }
}

fn replay_decision(
    auditor: &mut Auditor,
    names: &ViewBuilder<'_>,
    plan: &Plan,
    pods: &mut [(Name, PodView)],
    decision: &Decision,
) {
    let now = Time(names.snapshot.now.0);
    match decision {
        Decision::Bind { pod, node } => {
            let (name, view) = &mut pods[pod.0 as usize];
            let to = &names.snapshot.nodes[node.0 as usize];
            view.node = Some(to.name.clone());
            let groups = plan.gpu_groups.get(pod).map_or(&[][..], Vec::as_slice);
            view.numa_zones =
                amounts_by_zone(plan.numa_allocations.get(pod).map_or(&[][..], Vec::as_slice));
            let shape = names.shape_of(&names.snapshot.pods[pod.0 as usize]);
            set_device_shares(view, shape, groups, to);
            view.claims = claimed_devices_on(shape, to);
            auditor.observe_pod(now, name, Some(view), Writer::Scheduler);
        }
        Decision::Evict { pod, cause } => {
            let (name, view) = &mut pods[pod.0 as usize];
            if let Some((preemptor, why)) = names.preemptor_and_kind(cause) {
                let eviction = Eviction { pod: name.clone(), preemptor, kind: why };
                auditor.observe_eviction(now, &eviction);
            }
            view.leaving = true;
            auditor.observe_pod(now, name, Some(view), Writer::Scheduler);
        }
        Decision::Pipeline { .. } => {}
    }
}

struct ViewBuilder<'a> {
    snapshot: &'a Snapshot,
}

impl ViewBuilder<'_> {
    fn group_name_at(&self, id: PodGroupId) -> Name {
        group_name(&self.snapshot.pod_groups[id.0 as usize])
    }

    fn preemptor_and_kind(&self, cause: &EvictionCause) -> Option<(Name, EvictionKind)> {
        match cause {
            EvictionCause::Reclaim { preemptor, .. } => {
                Some((self.group_name_at(*preemptor), EvictionKind::Reclaim))
            }
            EvictionCause::Preempt { preemptor } => {
                Some((self.group_name_at(*preemptor), EvictionKind::Preempt))
            }
            EvictionCause::Consolidate { preemptor } => {
                Some((self.group_name_at(*preemptor), EvictionKind::Consolidate))
            }
            EvictionCause::StaleGang { .. } => None,
        }
    }

    fn queue_view(&self, queue: &Queue) -> QueueView {
        QueueView {
            parent: queue.parent.map(|at| self.snapshot.queues[at.0 as usize].name.clone()),
            quota: bound_amounts(&queue.quota),
            limit: bound_amounts(&queue.limit),
        }
    }

    fn group_view(&self, group: &PodGroup) -> GroupView {
        let queue = group.queue_id();
        let sub_groups = group.sub_groups.iter().map(|sub_group| SubGroupView {
            name: sub_group.name.clone(),
            parent: sub_group.parent,
            min_member: sub_group.min_member as usize,
            min_sub_groups: sub_group.min_sub_group.map(|minimum| minimum as usize),
        });
        GroupView {
            queue: queue
                .map_or_else(Name::default, |at| self.snapshot.queues[at.0 as usize].name.clone()),
            priority: group.priority,
            preemptible: group.preemptible,
            sub_groups: sub_groups.collect(),
            min_sub_groups: group.min_sub_group.map(|minimum| minimum as usize),
        }
    }

    /// The name of the pod's node. Nodes that are not in the snapshot get a made-up name.
    fn node_of(&self, pod: &Pod) -> Option<Name> {
        let known = pod.node.map(|at| self.snapshot.nodes[at.0 as usize].name.clone());
        let has_one =
            matches!(pod.status, PodStatus::Bound | PodStatus::Running | PodStatus::OnExcludedNode);
        known.or_else(|| has_one.then(|| "elsewhere".into()))
    }

    fn pod_view(&self, pod: &Pod) -> PodView {
        let shape = self.shape_of(pod);
        let group = pod.group.map(|at| &self.snapshot.pod_groups[at.0 as usize]);
        let sub_group = group.and_then(|group| group.sub_groups.get(pod.sub_group));
        let terms = shape.node_affinity.as_ref();
        let mut view = PodView {
            uid: pod.uid.clone(),
            group: group.map(group_name),
            scheduling_group: None,
            sub_group: sub_group.map(|sub_group| sub_group.name.clone()),
            requests: amounts_of(&shape.requests),
            node: self.node_of(pod),
            phase: match pod.status {
                PodStatus::Gated => Phase::Gated,
                PodStatus::Pending
                | PodStatus::Bound
                | PodStatus::Running
                | PodStatus::OnExcludedNode
                | PodStatus::Releasing => Phase::Alive,
                PodStatus::Succeeded => Phase::Succeeded,
                PodStatus::Failed => Phase::Failed,
            },
            binding_refused: false,
            leaving: pod.status == PodStatus::Releasing,
            priority: pod.priority,
            node_selector: shape.node_selector.clone(),
            node_affinity: terms.map(|terms| terms.iter().map(node_selector_term_view).collect()),
            tolerations: shape.tolerations.iter().map(toleration_view).collect(),
            devices: None,
            guaranteed: shape.guaranteed,
            numa_zones: amounts_by_zone(&pod.numa_allocations),
            device_shares: Vec::new(),
            claims: claimed_devices_on(shape, &Node::default()),
            extra_charges: mig_gpu_charge(&shape.requests),
        };
        if let Some(node) = pod.node {
            let node = &self.snapshot.nodes[node.0 as usize];
            set_device_shares(&mut view, shape, &pod.gpu_groups, node);
            view.claims = claimed_devices_on(shape, node);
        }
        view
    }

    fn shape_of(&self, pod: &Pod) -> &PodShape {
        &self.snapshot.shapes[pod.shape.0 as usize]
    }
}

/// The devices of the shape's claims on the node, by claim.
fn claimed_devices_on(shape: &PodShape, node: &Node) -> BTreeMap<Name, Amounts> {
    // Multi-node claims use nothing of a node, and pods on several nodes may share one.
    let claims = shape.claims.iter().filter(|claim| claim.is_node_local());
    claims.map(|claim| (claim.name.clone(), amounts_of(&claim.devices_on(node)))).collect()
}

/// Sets the GPU shares of a pod on `node` in its view, and the queue charge for them. A fraction
/// without a GPU name gets a GPU of its own.
fn set_device_shares(view: &mut PodView, shape: &PodShape, groups: &[Name], node: &Node) {
    let Some(FractionalGpu { fraction, devices }) = shape.fractional_gpu else { return };
    let (milli, charged_milli) = match fraction {
        GpuFraction::Milli(milli) => (milli, milli),
        GpuFraction::MemoryMib(mib) => {
            let device = node.gpu_memory_mib.max(1);
            (mib * 1000 / device, (mib * 100 + device - 1) / device * 10)
        }
    };
    let name = |at: u32| {
        let own = || format!("{}/{at}", view.uid).into();
        groups.get(at as usize).cloned().unwrap_or_else(own)
    };
    view.device_shares = (0..devices).map(|at| DeviceShare { device: name(at), milli }).collect();
    view.extra_charges
        .insert(resources::GPU.into(), i128::from(charged_milli) * i128::from(devices));
}

/// The GPUs that queues are charged for the requested MIG instances: `nvidia.com/mig-2g.10gb`
/// counts as two.
fn mig_gpu_charge(requests: &Resources) -> Amounts {
    let slices = |name: &Name| -> Option<i128> {
        let (slices, _) = name.strip_prefix(resources::MIG_PREFIX)?.split_once("g.")?;
        slices.parse().ok()
    };
    let all = requests.extended.iter();
    let gpus: i128 =
        all.filter_map(|(name, count)| Some(slices(name)? * i128::from(*count) * 1000)).sum();
    if gpus == 0 { Amounts::new() } else { Amounts::from([(resources::GPU.into(), gpus)]) }
}

fn group_name(group: &PodGroup) -> Name {
    format!("{}/{}", group.namespace, group.name).into()
}

fn pod_name(pod: &Pod) -> Name {
    format!("{}/{}", pod.namespace, pod.name).into()
}

fn node_view(node: &Node) -> NodeView {
    let numa = node.numa.as_ref();
    let offer = |zone: &NumaZone| (zone.name.clone(), amounts_of(&zone.allocatable));
    NodeView {
        allocatable: amounts_of(&node.allocatable),
        labels: node.labels.clone(),
        taints: node.taints.iter().map(taint_view).collect(),
        cordoned: node.unschedulable,
        ready: node.ready,
        numa_zones: numa.map_or(&[][..], |numa| &numa.zones).iter().map(offer).collect(),
        is_single_numa_node: numa.is_some_and(|numa| {
            (numa.policy, numa.scope) == (NumaPolicy::SingleNumaNode, NumaScope::Pod)
        }),
    }
}

fn taint_view(taint: &Taint) -> objects::Taint {
    let Taint { key, value, effect } = taint;
    objects::Taint { key: key.clone(), value: value.clone(), effect: self::effect(*effect) }
}

fn toleration_view(toleration: &Toleration) -> objects::Toleration {
    let Toleration { key, value, effect } = toleration;
    objects::Toleration { key: key.clone(), value: value.clone(), effect: effect.map(self::effect) }
}

const fn effect(effect: TaintEffect) -> objects::TaintEffect {
    match effect {
        TaintEffect::NoSchedule => objects::TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule => objects::TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute => objects::TaintEffect::NoExecute,
    }
}

fn node_selector_term_view(term: &NodeSelectorTerm) -> objects::NodeSelectorTerm {
    let all = |rules: &[Requirement]| rules.iter().map(requirement_view).collect();
    objects::NodeSelectorTerm { labels: all(&term.labels), fields: all(&term.fields) }
}

fn requirement_view(requirement: &Requirement) -> objects::Requirement {
    let Requirement { key, operator, values } = requirement;
    let operator = match operator {
        Operator::In => objects::Operator::In,
        Operator::NotIn => objects::Operator::NotIn,
        Operator::Exists => objects::Operator::Exists,
        Operator::DoesNotExist => objects::Operator::DoesNotExist,
        Operator::Gt => objects::Operator::Gt,
        Operator::Lt => objects::Operator::Lt,
    };
    objects::Requirement { key: key.clone(), operator, values: values.clone() }
}

fn amounts_by_zone(shares: &[NumaAllocation]) -> BTreeMap<Name, Amounts> {
    shares.iter().map(|share| (share.zone.clone(), amounts_of(&share.amount))).collect()
}

fn amounts_of(resources: &Resources) -> Amounts {
    let Resources { gpu_milli, cpu_milli, memory_bytes, pods, extended } = resources;
    let mut amounts: Amounts =
        extended.iter().map(|(name, count)| (name.clone(), i128::from(*count) * 1000)).collect();
    amounts.insert(resources::GPU.into(), i128::from(*gpu_milli));
    amounts.insert("cpu".into(), i128::from(*cpu_milli));
    amounts.insert("memory".into(), i128::from(*memory_bytes) * 1000);
    amounts.insert("pods".into(), i128::from(*pods) * 1000);
    amounts
}

fn bound_amounts(bounds: &PerResource<Amount>) -> Amounts {
    let PerResource { gpu, cpu, memory } = bounds;
    let listed = [(resources::GPU, gpu, 1), ("cpu", cpu, 1), ("memory", memory, 1000)];
    let exact = listed.into_iter().filter_map(|(name, bound, factor)| match bound {
        Amount::Exactly(bound) => Some((Name::from(name), i128::from(*bound) * factor)),
        Amount::Unlimited => None,
    });
    exact.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot_of;
    use crate::synthetic;
    use schedlab_scheduler_core::model::{NodeId, PodId};

    fn bind(pod: usize, node: u32) -> Decision {
        Decision::Bind { pod: PodId(u32::try_from(pod).unwrap()), node: NodeId(node) }
    }

    fn evict(pod: usize, preemptor: u32) -> Decision {
        let cause = EvictionCause::Preempt { preemptor: PodGroupId(preemptor) };
        Decision::Evict { pod: PodId(u32::try_from(pod).unwrap()), cause }
    }

    fn audited(snapshot: &Snapshot, decisions: Vec<Decision>) -> Vec<String> {
        let plan = Plan { decisions, ..Plan::default() };
        audit_plan(snapshot, &plan, Rules::kai()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_plan_within_capacity_is_valid_and_one_beyond_is_not() {
        let snapshot = synthetic::pending_singles(2, 2);
        let even = (0..16).map(|pod| bind(pod, u32::from(pod >= 8))).collect();
        assert_eq!(audited(&snapshot, even), [""; 0]);
        let skewed = audited(&snapshot, (0..9).map(|pod| bind(pod, 0)).collect());
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
        assert_eq!(audited(&snapshot, vec![bind(0, 0), bind(1, 0), bind(2, 1)]), [""; 0]);
        let overfull = audited(&snapshot, vec![bind(0, 0), bind(2, 0)]);
        assert!(overfull[0].starts_with("rule 1 (capacity): "), "{overfull:?}");
        let twice = audited(&snapshot, vec![bind(0, 0), bind(1, 1)]);
        assert!(twice[0].contains("uses claim x on n2; other pods use it on n1"), "{twice:?}");
    }

    #[test]
    fn half_a_gang_is_a_breach() {
        let snapshot = synthetic::large_gang_against_singles(4);
        let gang = snapshot.pod_groups.iter().position(|group| group.sub_groups[0].min_member == 2);
        let gang = PodGroupId(u32::try_from(gang.unwrap()).unwrap());
        let members: Vec<usize> = (0..snapshot.pods.len())
            .filter(|pod| snapshot.pods[*pod].group == Some(gang))
            .collect();
        let output = audited(&snapshot, vec![bind(members[0], 0)]);
        assert!(
            output.iter().any(|one| one.starts_with("rule 4 (gang atomicity): ")),
            "{output:?}"
        );
    }

    #[test]
    fn an_unjustified_victim_is_a_breach() {
        let snapshot = synthetic::infeasible_gang_against_singles(1);
        let pinned = snapshot.pods.iter().position(|pod| {
            let group = pod.group.map(|group| &snapshot.pod_groups[group.0 as usize]);
            pod.node.is_some() && group.is_some_and(|group| !group.preemptible)
        });
        let output = audited(&snapshot, vec![evict(pinned.unwrap(), 0)]);
        assert!(output.iter().any(|one| one.contains("is not preemptible")), "{output:?}");
        assert!(
            output.iter().any(|one| one.contains("priority counts within one queue")),
            "{output:?}"
        );
    }
}
