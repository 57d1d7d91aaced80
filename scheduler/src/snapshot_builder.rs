//! Builds the snapshot of the core from the cache. This cannot fail: a pod that cannot be scheduled
//! is left out and becomes an [`UnschedulableReason`] with a message for its author; a pod on a
//! node uses its resources even if it is malformed.

mod groups;
mod pods;
mod queues;
mod sub_groups;
mod unschedulable;
mod update;

use std::{collections::BTreeMap, fmt};

use schedlab_api::Value;
use schedlab_scheduler_core::{
    Snapshot,
    model::{Name, NodeId, SnapshotChanges},
};

pub(crate) use groups::{find_group, is_known_class};
pub(crate) use queues::queue_problem;
pub(crate) use update::pods_of_group;

use pods::{PodContext, PodEntry, ShapeIds};
use queues::QueueLookup;
use sub_groups::SubGroupProblem;

use crate::{
    cache::{ClusterCache, PodGroupRecord, bind_failure_remedy},
    config::{Config, Flavor},
    dra::ClaimProblem,
    parse::Malformed,
    records::ObjectKey,
    watch::Kind,
};

/// A snapshot, with the pods that are not in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BuiltSnapshot {
    pub(crate) snapshot: Snapshot,
    /// Waiting pods of this scheduler that cannot be scheduled, and why.
    pub(crate) unschedulable: BTreeMap<ObjectKey, UnschedulableReason>,
}

/// Why a waiting pod is not in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnschedulableReason {
    /// The pod itself is malformed.
    MalformedPod(Malformed),
    /// The owners of the pod are malformed, so that no pod group can be created for it.
    MalformedOwners(Malformed),
    /// The pod names no pod group.
    NoGroup,
    /// The pod group that the pod names does not exist.
    GroupMissing(Name),
    /// The pod group that the pod names is malformed.
    MalformedGroup(Name, Malformed),
    /// A resource claim of the pod is missing or cannot be satisfied.
    Claim(ClaimProblem),
    /// `ConfigMap`s that the pod's containers require do not exist.
    MissingConfigMaps(Vec<Name>),
    /// The last binding of the pod failed, and its backoff is not over.
    BindBackoff(Name),
    /// The pod belongs to no sub-group of its pod group.
    SubGroup(Name, SubGroupProblem),
}

/// Start of the message of a pod whose owners are malformed.
pub(crate) const UNGROUPED_PREFIX: &str = "The pod cannot be put into a PodGroup: ";

impl UnschedulableReason {
    /// The reason of the pods of a malformed group; `None` if the group is well-formed.
    pub(crate) fn for_malformed_group(name: &Name, group: &PodGroupRecord) -> Option<Self> {
        Some(Self::MalformedGroup(Name::clone(name), group.malformed.clone()?))
    }

    /// How to fix the reason.
    pub(crate) fn remedy(&self) -> String {
        let fix = |what: &str, malformed: &Malformed| {
            format!("fix {what}: {}: expected {}", malformed.field, malformed.allowed)
        };
        match self {
            Self::MalformedPod(malformed) => fix("the pod", malformed),
            Self::MalformedOwners(malformed) => fix("its owner", malformed),
            Self::NoGroup => {
                "start a scheduler that groups pods, or name a PodGroup in annotation \
                              pod-group-name"
                    .to_owned()
            }
            Self::GroupMissing(group) => {
                format!("create PodGroup {group}, or name one that exists")
            }
            Self::MalformedGroup(group, malformed) => fix(&format!("PodGroup {group}"), malformed),
            Self::Claim(problem) => problem.remedy(),
            Self::MissingConfigMaps(missing) => format!("create ConfigMap {}", missing.join(", ")),
            Self::BindBackoff(error) => bind_failure_remedy(error),
            Self::SubGroup(group, problem) => problem.remedy(group),
        }
    }
}

impl fmt::Display for UnschedulableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MalformedPod(malformed) => write!(f, "The pod cannot be scheduled: {malformed}"),
            Self::MalformedOwners(malformed) => write!(f, "{UNGROUPED_PREFIX}{malformed}"),
            Self::NoGroup => {
                write!(f, "The pod belongs to no PodGroup: name one in annotation pod-group-name")
            }
            Self::GroupMissing(group) => {
                write!(f, "PodGroup {group}, named in annotation pod-group-name, does not exist")
            }
            Self::MalformedGroup(group, malformed) => {
                write!(f, "PodGroup {group} cannot be scheduled: {malformed}")
            }
            Self::Claim(problem) => problem.fmt(f),
            Self::MissingConfigMaps(missing) => {
                write!(f, "Missing required configmaps: [{}]", missing.join(" "))
            }
            Self::BindBackoff(error) => f.write_str(error),
            Self::SubGroup(group, problem) => f.write_str(&problem.message(group)),
        }
    }
}

/// The objects of a cluster, as the API returns them.
#[derive(Clone, Debug, Default)]
pub struct ClusterObjects {
    /// Nodes.
    pub nodes: Vec<Value>,
    /// Pods.
    pub pods: Vec<Value>,
    /// PodGroups of Kubernetes (`scheduling.k8s.io`).
    pub pod_groups: Vec<Value>,
    /// DeviceClasses.
    pub device_classes: Vec<Value>,
    /// ResourceSlices.
    pub resource_slices: Vec<Value>,
    /// ResourceClaims.
    pub resource_claims: Vec<Value>,
}

/// The snapshot of a cluster that is given as API objects. For tests that compare single decisions
/// with those of another scheduler.
pub fn build_snapshot(config: &Config, objects: &ClusterObjects) -> Snapshot {
    let mut cache = ClusterCache::new(&config.scheduler_name)
        .with_flavor(config.flavor)
        .with_feature_gates(config);
    cache.relist(Kind::DeviceClass, &objects.device_classes);
    cache.relist(Kind::ResourceSlice, &objects.resource_slices);
    cache.relist(Kind::Node, &objects.nodes);
    cache.relist(Kind::SchedulingGroup, &objects.pod_groups);
    cache.relist(Kind::ResourceClaim, &objects.resource_claims);
    cache.relist(Kind::Pod, &objects.pods);
    let mut builder = SnapshotBuilder::from_config(config);
    builder.refresh(&mut cache);
    builder.built.snapshot
}

/// Keeps a snapshot up to date with the cache. Unchanged objects are not processed again.
#[derive(Debug)]
pub(crate) struct SnapshotBuilder {
    flavor: Flavor,
    /// Whether queues form a tree: [`Config::full_hierarchy_fairness`].
    is_tree: bool,
    nodes: BTreeMap<Name, NodeId>,
    queue_of: QueueLookup,
    shapes: ShapeIds,
    /// Number of shapes after the last full rebuild.
    shapes_in_use: usize,
    pub(crate) built: BuiltSnapshot,
    /// What changed in the snapshot since the last call of [`Self::take_changes`].
    changes: SnapshotChanges,
}

impl SnapshotBuilder {
    pub(crate) fn new(flavor: Flavor, seed: u64) -> Self {
        let snapshot = Snapshot { seed, ..Snapshot::default() };
        Self {
            flavor,
            is_tree: true,
            nodes: BTreeMap::new(),
            queue_of: QueueLookup::new(),
            shapes: ShapeIds::default(),
            shapes_in_use: 0,
            built: BuiltSnapshot { snapshot, unschedulable: BTreeMap::new() },
            changes: SnapshotChanges::everything(),
        }
    }

    /// Creates a builder with the settings of the scheduler.
    pub(crate) fn from_config(config: &Config) -> Self {
        let is_tree = config.full_hierarchy_fairness;
        Self { is_tree, ..Self::new(config.flavor, config.seed) }
    }

    /// Applies the changes of the cache since the last call.
    pub(crate) fn refresh(&mut self, cache: &mut ClusterCache) {
        cache.resource_claims.refresh();
        cache.refresh_unused_claims();
        let changes = std::mem::take(&mut cache.changes);
        if changes.everything {
            self.rebuild_nodes_and_queues(cache);
        }
        for name in &changes.nodes {
            if let (Some(id), Some(record)) = (self.nodes.get(name), cache.nodes.get(name)) {
                self.built.snapshot.nodes[id.0 as usize] = cache.effective_node(record);
            }
        }
        if changes.everything || changes.budgets {
            self.built.snapshot.budgets = cache.budgets.values().cloned().collect();
        }
        if changes.everything || changes.namespaces {
            self.built.snapshot.namespaces.clone_from(&cache.namespaces);
        }
        let few = 64 + self.built.snapshot.pods.len() / 4;
        let many = changes.pods.len() + changes.groups.len() > few;
        let outgrown = self.shapes.len() > 2 * self.shapes_in_use + 64;
        if changes.everything || many || outgrown {
            self.rebuild_groups_and_pods(cache);
            self.changes = SnapshotChanges::everything();
            cache.groups_to_report.everything = true;
        } else {
            // What a group is charged depends on the nodes of its pods.
            cache.groups_to_report.everything |= !changes.nodes.is_empty();
            let touched = self.update(cache, changes);
            cache.groups_to_report.keys.extend(touched);
        }
    }

    /// What changed in the snapshot since the last call.
    pub(crate) fn take_changes(&mut self) -> SnapshotChanges {
        std::mem::take(&mut self.changes)
    }

    fn rebuild_nodes_and_queues(&mut self, cache: &ClusterCache) {
        let ids = cache.nodes.keys().zip(0..).map(|(name, id)| (Name::clone(name), NodeId(id)));
        self.nodes = ids.collect();
        let snapshot = &mut self.built.snapshot;
        snapshot.nodes = cache.nodes.values().map(|record| cache.effective_node(record)).collect();
        snapshot.excluded_nodes = cache.excluded_nodes();
        snapshot.topologies = groups::topologies(cache);
        (snapshot.queues, self.queue_of) = if self.is_tree {
            queues::build_queues(&cache.queues)
        } else {
            queues::build_queues(&queues::without_hierarchy(&cache.queues))
        };
    }

    /// Processes all groups and pods.
    fn rebuild_groups_and_pods(&mut self, cache: &ClusterCache) {
        let Self { flavor, queue_of, built, .. } = self;
        let groups = groups::group_keys(cache, *flavor);
        let groups =
            groups.iter().filter_map(|key| groups::build_group(cache, *flavor, queue_of, key));
        built.snapshot.pod_groups = groups.collect();
        built.snapshot.pods.clear();
        built.snapshot.shapes.clear();
        built.unschedulable.clear();
        self.shapes = ShapeIds::default();
        for key in cache.pods.keys() {
            match self.pod_entry(cache, key) {
                PodEntry::Absent => {}
                PodEntry::Unschedulable(reason) => {
                    self.built.unschedulable.insert(key.clone(), reason);
                }
                PodEntry::Present(pod) => self.built.snapshot.pods.push(pod),
            }
        }
        self.record_all_unschedulable_members(cache);
        self.shapes_in_use = self.shapes.len();
    }

    fn pod_entry(&mut self, cache: &ClusterCache, key: &ObjectKey) -> PodEntry {
        let Self { flavor, nodes, shapes, built, .. } = self;
        let Snapshot { pod_groups, shapes: listed, .. } = &mut built.snapshot;
        let context = PodContext { cache, flavor: *flavor, nodes, groups: pod_groups };
        pods::build_pod(key, &context, shapes, listed)
    }
}

#[cfg(test)]
mod tests;
