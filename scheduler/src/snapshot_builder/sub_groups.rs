//! The sub-group of a pod, which its label names.

use schedlab_scheduler_core::model::{Name, SubGroup};

/// Why label `kai.scheduler/subgroup-name` of a pod does not name a leaf sub-group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubGroupProblem {
    /// The group has no such sub-group.
    Missing(Name),
    /// The sub-group has children, so it takes no pods.
    Inner { sub_group: Name, below: Name },
    /// The pod has no label although the group has sub-groups; with the leaf sub-groups.
    Unlabelled(Vec<Name>),
}

/// Index of the sub-group that a pod's label names. A pod without label is in `default`, as in KAI,
/// which is also the name of the only sub-group of a group that defines none.
pub(super) fn sub_group_index(
    sub_groups: &[SubGroup],
    label: Option<&Name>,
) -> Result<usize, SubGroupProblem> {
    let name = label.map_or("default", |label| &**label);
    let Some(at) = sub_groups.iter().position(|has| *has.name == *name) else {
        return Err(match label {
            Some(label) => SubGroupProblem::Missing(Name::clone(label)),
            None => SubGroupProblem::Unlabelled(
                leaf_sub_groups(sub_groups).map(|(_, leaf)| leaf).collect(),
            ),
        });
    };
    match sub_groups.iter().find(|below| below.parent == Some(at)) {
        None => Ok(at),
        Some(below) => {
            let (sub_group, below) = (Name::clone(&sub_groups[at].name), Name::clone(&below.name));
            Err(SubGroupProblem::Inner { sub_group, below })
        }
    }
}

/// Index of the first leaf sub-group.
pub(super) fn first_leaf_index(sub_groups: &[SubGroup]) -> usize {
    leaf_sub_groups(sub_groups).next().map_or(0, |(at, _)| at)
}

fn leaf_sub_groups(sub_groups: &[SubGroup]) -> impl Iterator<Item = (usize, Name)> + '_ {
    let is_leaf = |at: usize| sub_groups.iter().all(|below| below.parent != Some(at));
    let named = sub_groups.iter().enumerate().filter(move |(at, _)| is_leaf(*at));
    named.map(|(at, leaf)| (at, Name::clone(&leaf.name)))
}

impl SubGroupProblem {
    /// How to fix the problem.
    pub(super) fn remedy(&self, group: &str) -> String {
        match self {
            Self::Missing(sub_group) => {
                format!("add sub-group {sub_group} to PodGroup {group}, or name one that it has")
            }
            Self::Inner { .. } | Self::Unlabelled(_) => format!(
                "name a sub-group of PodGroup {group} that takes pods in label \
                 kai.scheduler/subgroup-name"
            ),
        }
    }

    pub(super) fn message(&self, group: &str) -> String {
        match self {
            Self::Missing(sub_group) => format!(
                "PodGroup {group} has no sub-group {sub_group}, \
                 named in label kai.scheduler/subgroup-name"
            ),
            Self::Inner { sub_group, below } => format!(
                "Sub-group {sub_group} of PodGroup {group}, named in label \
                 kai.scheduler/subgroup-name, takes no pods, since it has child sub-groups such as {below}"
            ),
            Self::Unlabelled(leaves) => format!(
                "PodGroup {group} has sub-groups, and label kai.scheduler/subgroup-name names none \
                 of them: {}",
                leaves.join(", ")
            ),
        }
    }
}
