//! The pods of a LeaderWorkerSet.

use super::{
    COMPONENT, GROUP_INDEX_LABEL, LeaderWorkerSetState, REVISION_LABEL, SET_NAME_LABEL,
    WORKER_INDEX_LABEL,
};
use crate::controllers::workload::{
    api_count, create_pod, is_ready, pod_from_template, set_env, set_metadata_entries, to_usize,
};
use crate::reconcile::resources::PODS;
use crate::reconcile::result::stable_hash;
use crate::reconcile::{ApiRequest, Context, key_of};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{label, name, namespace, set, text, uid},
};

const SIZE_ANNOTATION: &str = "leaderworkerset.sigs.k8s.io/size";
const LEADER_NAME_ANNOTATION: &str = "leaderworkerset.sigs.k8s.io/leader-name";
const GROUP_KEY_LABEL: &str = "leaderworkerset.sigs.k8s.io/group-key";

/// The pods of one group of a LeaderWorkerSet.
pub(super) struct GroupPods<'v> {
    /// The key of the leader.
    pub(super) key: &'v Key,
    pub(super) leader: &'v Object,
    /// The index of the group; `None` if the label with the index was changed by hand.
    pub(super) index: Option<i64>,
    workers: Vec<(&'v Key, &'v Object)>,
}

impl<'v> GroupPods<'v> {
    pub(super) fn new(key: &'v Key, leader: &'v Object, ctx: &'v Context) -> Self {
        let index = label(leader, GROUP_INDEX_LABEL).and_then(|index| index.parse().ok());
        Self { key, leader, index, workers: ctx.cache.controlled_by(uid(leader), &PODS).collect() }
    }

    /// The leader, then the workers.
    pub(super) fn pods(&self) -> impl Iterator<Item = (&'v Key, &'v Object)> + '_ {
        [(self.key, self.leader)].into_iter().chain(self.workers.iter().copied())
    }

    /// Whether all pods exist and are ready.
    pub(super) fn is_ready(&self, size: i64) -> bool {
        api_count(self.pods()) == size && self.pods().all(|(_, pod)| is_ready(pod))
    }

    /// Whether all pods exist and none is pending.
    pub(super) fn has_started(&self, size: i64) -> bool {
        api_count(self.pods()) == size
            && self.pods().all(|(_, pod)| text(pod, &["status", "phase"]) != "Pending")
    }
}

/// Creates the leader of a group, unless an older pod still has its name.
pub(super) fn create_leader(
    set: &LeaderWorkerSetState,
    index: i64,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let templates = &set.object["spec"]["leaderWorkerTemplate"];
    let own = &templates["leaderTemplate"];
    let template = if own.is_object() { own } else { &templates["workerTemplate"] };
    let leader_name = format!("{}-{index}", name(set.object));
    let pod = pod_from_template(template, set.object, &leader_name);
    create_group_pod(set, pod, [&index.to_string(), "0"], ctx)
}

/// Creates the missing workers of a group. With the start-up policy `LeaderReady` they are created
/// only when the leader is ready.
pub(super) fn create_workers(
    set: &LeaderWorkerSetState,
    group: &GroupPods,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let waits = text(set.object, &["spec", "startupPolicy"]) == "LeaderReady";
    // A group of an older template is replaced as a whole.
    if (waits && !is_ready(group.leader)) || !set.is_current(group) {
        return Vec::new();
    }
    let template = &set.object["spec"]["leaderWorkerTemplate"]["workerTemplate"];
    let group_index = label(group.leader, GROUP_INDEX_LABEL).unwrap_or_default();
    let mut writes = Vec::new();
    for worker in 1..to_usize(set.group_size()) {
        let worker = worker.to_string();
        let mut pod =
            pod_from_template(template, group.leader, &format!("{}-{worker}", name(group.leader)));
        set_metadata_entries(
            &mut pod,
            "annotations",
            &[(LEADER_NAME_ANNOTATION, name(group.leader))],
        );
        writes.extend(create_group_pod(set, pod, [group_index, &worker], ctx));
    }
    writes
}

/// Creates a pod of a group with the labels, annotations and environment variables of its index,
/// unless a pod of that name exists.
fn create_group_pod(
    owner: &LeaderWorkerSetState,
    mut pod: Value,
    [group, worker]: [&str; 2],
    ctx: &Context,
) -> Vec<ApiRequest> {
    if ctx.cache.get(&key_of(&PODS, &pod)).is_some() {
        return Vec::new();
    }
    let set_name = name(owner.object);
    let leader = format!("{set_name}-{group}");
    let group_key = format!("{:016x}", stable_hash(&format!("{}/{leader}", namespace(&pod))));
    let marks = [
        (SET_NAME_LABEL, set_name),
        (GROUP_INDEX_LABEL, group),
        (WORKER_INDEX_LABEL, worker),
        (GROUP_KEY_LABEL, &*group_key),
        (REVISION_LABEL, &*owner.revision),
    ];
    set_metadata_entries(&mut pod, "labels", &marks);
    let size = owner.group_size().to_string();
    set_metadata_entries(&mut pod, "annotations", &[(SIZE_ANNOTATION, &size)]);
    let host = name(&pod).to_owned();
    set(&mut pod, &["spec", "hostname"], json!(host));
    set(&mut pod, &["spec", "subdomain"], json!(set_name));
    let address = format!("{leader}.{set_name}.{}", namespace(&pod));
    let variables = [
        ("LWS_LEADER_ADDRESS", address),
        ("LWS_GROUP_SIZE", size),
        ("LWS_WORKER_INDEX", worker.to_owned()),
    ];
    set_env(&mut pod, &variables);
    create_pod(pod, owner.object, COMPONENT, ctx)
}
