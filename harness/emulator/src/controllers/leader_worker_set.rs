//! The LeaderWorkerSet controller: creates groups of a leader `<set>-<group>` and its workers
//! `<set>-<group>-<worker>`.
//!
//! The set owns the leaders, and a leader its workers, so that they leave with it. A group whose
//! pod was deleted or restarted is recreated, as `restartPolicy` says. A changed template replaces
//! the groups one by one.
//!
//! Left out: the StatefulSets between the set and its pods, services, subgroups and exclusive
//! topology, volume claims, `partition` and `maxSurge` of rollouts.

mod pods;
mod status;

use super::workload::{clamped_count_at, delete_pod, template_hash};
use crate::reconcile::pod_status::is_finished;
use crate::reconcile::resources::{LEADER_WORKER_SETS, PODS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value,
    object::{is_deleting, label, list, name, namespace, text, uid},
};

use pods::GroupPods;

const COMPONENT: &str = "leaderworkerset";
const SET_NAME_LABEL: &str = "leaderworkerset.sigs.k8s.io/name";
const GROUP_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/group-index";
const WORKER_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// The label with the hash of the template that a pod was created from.
const REVISION_LABEL: &str = "leaderworkerset.sigs.k8s.io/template-revision-hash";

/// The LeaderWorkerSet controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: "leaderworkerset-controller",
    manager: "leaderworkerset-controller",
    watches: WatchedKinds::Kinds(&[&LEADER_WORKER_SETS, &PODS]),
    keys_to_reconcile,
    reconcile,
};

/// A changed set, or the set that the label of a changed pod names.
fn keys_to_reconcile(change: &ObjectChange, _: &InformerCache) -> Vec<Key> {
    if change.key.resource == *LEADER_WORKER_SETS {
        return change.after.as_ref().map(|_| change.key.clone()).into_iter().collect();
    }
    let set = change.states().find_map(|pod| {
        let set = label(pod, SET_NAME_LABEL)?;
        Some(Key {
            resource: LEADER_WORKER_SETS.clone(),
            namespace: namespace(pod).into(),
            name: set.into(),
        })
    });
    set.into_iter().collect()
}

/// A LeaderWorkerSet and its groups, by index.
struct LeaderWorkerSetState<'v> {
    key: &'v Key,
    object: &'v Object,
    groups: Vec<GroupPods<'v>>,
    /// The hash of the current template.
    revision: String,
}

impl LeaderWorkerSetState<'_> {
    fn replicas(&self) -> i64 {
        clamped_count_at(self.object, &["spec", "replicas"], 1)
    }

    /// The number of pods of a group.
    fn group_size(&self) -> i64 {
        clamped_count_at(self.object, &["spec", "leaderWorkerTemplate", "size"], 1)
    }

    fn group(&self, index: i64) -> Option<&GroupPods<'_>> {
        self.groups.iter().find(|group| group.index == Some(index))
    }

    fn is_current(&self, group: &GroupPods) -> bool {
        label(group.leader, REVISION_LABEL) == Some(&*self.revision)
    }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, set)) = ctx.cache.entry(key) else { return ReconcileResult::nothing_to_do() };
    if is_deleting(set) {
        return ReconcileResult::nothing_to_do();
    }
    let leaders = ctx.cache.controlled_by(uid(set), &PODS);
    let groups = leaders.map(|(key, leader)| GroupPods::new(key, leader, ctx)).collect();
    let revision = template_hash(&set["spec"]["leaderWorkerTemplate"]);
    let set = LeaderWorkerSetState { key, object: set, groups, revision };
    let mut writes = delete_surplus_groups(&set, ctx);
    for index in 0..set.replicas() {
        writes.extend(sync_group(&set, index, ctx));
    }
    if writes.is_empty() {
        writes.extend(replace_outdated_group(&set, ctx));
    }
    if writes.is_empty() {
        writes.extend(status::sync_status(&set, ctx));
    }
    ReconcileResult::from_writes(writes)
}

/// Deletes the leaders of surplus groups.
fn delete_surplus_groups(set: &LeaderWorkerSetState, ctx: &Context) -> Vec<ApiRequest> {
    let is_surplus = |group: &&GroupPods| {
        group.index.is_none_or(|index| index >= set.replicas()) && !is_deleting(group.leader)
    };
    let surplus = set.groups.iter().filter(is_surplus);
    surplus
        .flat_map(|group| delete_pod(group.key, group.leader, set.object, COMPONENT, ctx))
        .collect()
}

/// Creates the missing pods of a group, replaces finished ones, or recreates the group.
fn sync_group(set: &LeaderWorkerSetState, index: i64, ctx: &Context) -> Vec<ApiRequest> {
    let Some(group) = set.group(index) else { return pods::create_leader(set, index, ctx) };
    if is_deleting(group.leader) {
        return Vec::new();
    }
    if must_recreate_group(set, group) {
        let message = format!("Recreating group {index} of {}", name(set.object));
        let notice =
            EventSpec { component: COMPONENT, kind: "Normal", reason: "RecreateGroup", message };
        let delete = ApiRequest::delete_foreground(group.key, group.leader);
        return vec![delete, notice.record(set.object, ctx)];
    }
    let finished: Vec<ApiRequest> = group
        .pods()
        .filter(|(_, pod)| is_finished(pod) && !is_deleting(pod))
        .flat_map(|(key, pod)| delete_pod(key, pod, set.object, COMPONENT, ctx))
        .collect();
    if finished.is_empty() { pods::create_workers(set, group, ctx) } else { finished }
}

/// Whether the restart policy recreates a group, because one of its pods was deleted or one of its
/// containers restarted.
fn must_recreate_group(set: &LeaderWorkerSetState, group: &GroupPods) -> bool {
    let has_restarted = |pod: &Value| {
        let containers = list(pod, &["status", "containerStatuses"]).iter();
        containers.into_iter().any(|one| clamped_count_at(one, &["restartCount"], 0) > 0)
    };
    let is_hit = group.pods().any(|(_, pod)| is_deleting(pod) || has_restarted(pod));
    match text(set.object, &["spec", "leaderWorkerTemplate", "restartPolicy"]) {
        "RecreateGroupOnPodRestart" => is_hit,
        "RecreateGroupAfterStart" => is_hit && group.has_started(set.group_size()),
        _ => false,
    }
}

/// Deletes the last group of an older template, while at most `maxUnavailable` groups are not
/// ready.
fn replace_outdated_group(set: &LeaderWorkerSetState, ctx: &Context) -> Vec<ApiRequest> {
    let mut outdated: Vec<&GroupPods> =
        set.groups.iter().filter(|group| !set.is_current(group)).collect();
    outdated.sort_by_key(|group| (!group.is_ready(set.group_size()), group.index));
    let Some(group) = outdated.last() else { return Vec::new() };
    let path = ["spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxUnavailable"];
    let most = usize::try_from(clamped_count_at(set.object, &path, 1).max(1)).unwrap_or(usize::MAX);
    let unavailable = set.groups.iter().filter(|group| !group.is_ready(set.group_size())).count();
    if is_deleting(group.leader) || (group.is_ready(set.group_size()) && unavailable >= most) {
        return Vec::new();
    }
    delete_pod(group.key, group.leader, set.object, COMPONENT, ctx)
}
