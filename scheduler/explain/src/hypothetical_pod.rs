//! The snapshot with one more pending pod.

use std::{collections::BTreeMap, time::Duration};

use schedlab_scheduler_core::{
    Snapshot,
    model::{
        Name, Pod, PodGroup, PodGroupId, PodShape, PodStatus, PreemptionPolicy, QueueId, ShapeId,
        SubGroup, Time,
    },
    resources::{PerResource, Resources},
};

/// Returns a copy of the snapshot with one more preemptible pending pod of `queue` that requests
/// `request`.
pub(super) fn with_additional_pending_pod(
    snapshot: &Snapshot,
    queue: QueueId,
    request: PerResource<i64>,
) -> Snapshot {
    let mut after = snapshot.clone();
    let name: Name = "(one more)".into();
    let shape = ShapeId(to_index(after.shapes.len()));
    after.shapes.push(PodShape {
        requests: Resources {
            gpu_milli: request.gpu,
            cpu_milli: request.cpu,
            memory_bytes: request.memory,
            pods: 1,
            ..Resources::default()
        },
        ..PodShape::default()
    });
    let group = PodGroupId(to_index(after.pod_groups.len()));
    after.pod_groups.push(PodGroup {
        namespace: "".into(),
        name: Name::clone(&name),
        uid: Name::clone(&name),
        queue: Ok(Some(queue)),
        priority: 0,
        preemptible: true,
        sub_groups: vec![SubGroup {
            name: "default".into(),
            min_member: 1,
            parent: None,
            min_sub_group: None,
            topology: None,
        }],
        min_sub_group: None,
        topology: None,
        created: after.now,
        last_start: None,
        last_eviction: None,
        stale_since: None,
        staleness_grace: None,
        preemption_delay: Duration::ZERO,
        is_skipped: false,
        evicted_together: false,
        unschedulable_members: Vec::new(),
    });
    after.pods.push(new_pending_pod(&name, group, shape, after.now));
    after
}

fn new_pending_pod(name: &Name, group: PodGroupId, shape: ShapeId, now: Time) -> Pod {
    Pod {
        namespace: "".into(),
        name: Name::clone(name),
        uid: Name::clone(name),
        labels: BTreeMap::default(),
        group: Some(group),
        sub_group: 0,
        shape,
        priority: 0,
        preemption_policy: PreemptionPolicy::PreemptLowerPriority,
        status: PodStatus::Pending,
        node: None,
        gpu_groups: Vec::new(),
        own_claims: Vec::new(),
        numa_allocations: Vec::new(),
        nominated_node: None,
        task_priority: None,
        leader_role: None,
        created: now,
        started: None,
        releasing_since: None,
        binding_failed: false,
    }
}

fn to_index(length: usize) -> u32 {
    u32::try_from(length).expect("ids are 32 bits")
}
