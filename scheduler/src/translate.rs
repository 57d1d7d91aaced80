//! Kubernetes objects, as the mirror keeps them, into the core's snapshot. It cannot fail: what
//! cannot be scheduled is left out of the snapshot and becomes a [`Trouble`] with words for the
//! person who wrote it; what stands on a node takes its room whatever is wrong with it.

mod amend;
mod groups;
mod pods;
mod queues;
mod sub_groups;
mod unusable;

use std::{collections::BTreeMap, fmt};

use schedlab_scheduler_core::{
    Snapshot,
    model::{Name, NodeId},
};

pub(crate) use groups::is_known_class;
pub(crate) use queues::problem as queue_problem;

use pods::{Context, Entry, Shapes};
use queues::QueueOf;
use sub_groups::SubGroupProblem;

use crate::{
    config::{Config, Flavor},
    mirror::{ClaimProblem, GroupRecord, Key, Mirror},
    parse::Malformed,
};

/// A snapshot, and what did not get into it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Translation {
    pub(crate) snapshot: Snapshot,
    /// Our waiting pods that cannot be scheduled, and why.
    pub(crate) troubles: BTreeMap<Key, Trouble>,
}

/// Why a waiting pod is not in the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The pod itself cannot be read.
    Pod(Malformed),
    /// Its owners say something that makes no pod group.
    Grouping(Malformed),
    /// It belongs to no pod group.
    NoGroup,
    /// Its pod group does not exist.
    GroupMissing(Name),
    /// Its pod group cannot be read.
    Group(Name, Malformed),
    /// A claim of it cannot be had.
    Claim(ClaimProblem),
    /// Its containers do not start without config maps that do not exist.
    ConfigMaps(Vec<Name>),
    /// It has no place among the sub-groups of its pod group.
    SubGroup(Name, SubGroupProblem),
}

/// What a pod whose owners make no pod group is told, before what is wrong with them.
pub(crate) const UNGROUPED: &str = "The pod cannot be put into a PodGroup: ";

impl Trouble {
    /// The pod group of this name cannot be read; `None`: it can.
    pub(crate) fn of_group(name: &Name, group: &GroupRecord) -> Option<Self> {
        Some(Self::Group(Name::clone(name), group.malformed.clone()?))
    }

    /// What cures it.
    pub(crate) fn remedy(&self) -> String {
        let mend = |what: &str, malformed: &Malformed| {
            format!("mend {what}: {} allows {}", malformed.field, malformed.allowed)
        };
        match self {
            Self::Pod(malformed) => mend("the pod", malformed),
            Self::Grouping(malformed) => mend("its owner", malformed),
            Self::NoGroup => {
                "start a scheduler that groups pods, or name a PodGroup in annotation \
                              pod-group-name"
                    .to_owned()
            }
            Self::GroupMissing(group) => {
                format!("create PodGroup {group}, or name one that exists")
            }
            Self::Group(group, malformed) => mend(&format!("PodGroup {group}"), malformed),
            Self::Claim(problem) => problem.remedy(),
            Self::ConfigMaps(missing) => format!("create ConfigMap {}", missing.join(", ")),
            Self::SubGroup(group, problem) => problem.remedy(group),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(malformed) => write!(f, "The pod cannot be scheduled: {malformed}"),
            Self::Grouping(malformed) => write!(f, "{UNGROUPED}{malformed}"),
            Self::NoGroup => {
                write!(f, "The pod belongs to no PodGroup: name one in annotation pod-group-name")
            }
            Self::GroupMissing(group) => {
                write!(f, "PodGroup {group}, named in annotation pod-group-name, does not exist")
            }
            Self::Group(group, malformed) => {
                write!(f, "PodGroup {group} cannot be scheduled: {malformed}")
            }
            Self::Claim(problem) => problem.fmt(f),
            Self::ConfigMaps(missing) => {
                write!(f, "Missing required configmaps: [{}]", missing.join(" "))
            }
            Self::SubGroup(group, problem) => f.write_str(&problem.words(group)),
        }
    }
}

/// Keeps a snapshot up with the mirror: what did not change is not looked at again.
#[derive(Debug)]
pub(crate) struct Translator {
    flavor: Flavor,
    /// Queues are a tree: [`Config::full_hierarchy_fairness`].
    is_tree: bool,
    nodes: BTreeMap<Name, NodeId>,
    queue_of: QueueOf,
    shapes: Shapes,
    /// Shapes in use when everything was last looked at.
    shapes_in_use: usize,
    pub(crate) translation: Translation,
}

impl Translator {
    pub(crate) fn new(flavor: Flavor, seed: u64) -> Self {
        let snapshot = Snapshot { seed, ..Snapshot::default() };
        Self {
            flavor,
            is_tree: true,
            nodes: BTreeMap::new(),
            queue_of: QueueOf::new(),
            shapes: Shapes::default(),
            shapes_in_use: 0,
            translation: Translation { snapshot, troubles: BTreeMap::new() },
        }
    }

    /// As the scheduler is set up.
    pub(crate) fn of(config: &Config) -> Self {
        let is_tree = config.full_hierarchy_fairness;
        Self { is_tree, ..Self::new(config.flavor, config.seed) }
    }

    /// Takes what changed in the mirror since the last time.
    pub(crate) fn refresh(&mut self, mirror: &mut Mirror) {
        mirror.claims.refresh();
        mirror.look_at_unused_claims();
        let changes = std::mem::take(&mut mirror.changes);
        if changes.everything {
            self.look_at_nodes_and_queues(mirror);
        }
        for name in &changes.nodes {
            if let (Some(id), Some(record)) = (self.nodes.get(name), mirror.nodes.get(name)) {
                self.translation.snapshot.nodes[id.0 as usize] = mirror.offered(record);
            }
        }
        if changes.everything || changes.budgets {
            self.translation.snapshot.budgets = mirror.budgets.values().cloned().collect();
        }
        if changes.everything || changes.namespaces {
            self.translation.snapshot.namespaces.clone_from(&mirror.namespaces);
        }
        let few = 64 + self.translation.snapshot.pods.len() / 4;
        let many = changes.pods.len() + changes.groups.len() > few;
        let outgrown = self.shapes.len() > 2 * self.shapes_in_use + 64;
        if changes.everything || many || outgrown {
            self.rebuild(mirror);
        } else {
            self.amend(mirror, changes);
        }
    }

    fn look_at_nodes_and_queues(&mut self, mirror: &Mirror) {
        let ids = mirror.nodes.keys().zip(0..).map(|(name, id)| (Name::clone(name), NodeId(id)));
        self.nodes = ids.collect();
        let snapshot = &mut self.translation.snapshot;
        snapshot.nodes = mirror.nodes.values().map(|record| mirror.offered(record)).collect();
        snapshot.left_out = mirror.left_out();
        snapshot.topologies = mirror.topologies.values().cloned().collect();
        (snapshot.queues, self.queue_of) = if self.is_tree {
            queues::translate(&mirror.queues)
        } else {
            queues::translate(&queues::side_by_side(&mirror.queues))
        };
    }

    /// Looks at every group and pod.
    fn rebuild(&mut self, mirror: &Mirror) {
        let Self { flavor, queue_of, translation, .. } = self;
        let groups = groups::keys(mirror, *flavor);
        let groups =
            groups.iter().filter_map(|key| groups::translate(mirror, *flavor, queue_of, key));
        translation.snapshot.pod_groups = groups.collect();
        translation.snapshot.pods.clear();
        translation.snapshot.shapes.clear();
        translation.troubles.clear();
        self.shapes = Shapes::default();
        for key in mirror.pods.keys() {
            match self.entry(mirror, key) {
                Entry::Absent => {}
                Entry::Trouble(trouble) => {
                    self.translation.troubles.insert(key.clone(), trouble);
                }
                Entry::Present(pod) => self.translation.snapshot.pods.push(pod),
            }
        }
        self.note_all_unusable(mirror);
        self.shapes_in_use = self.shapes.len();
    }

    fn entry(&mut self, mirror: &Mirror, key: &Key) -> Entry {
        let Self { flavor, nodes, shapes, translation, .. } = self;
        let Snapshot { pod_groups, shapes: listed, .. } = &mut translation.snapshot;
        let context = Context { mirror, flavor: *flavor, nodes, groups: pod_groups };
        pods::translate(key, &context, (shapes, listed))
    }
}

#[cfg(test)]
mod tests;
