//! Whether gangs meet the minimum of their pod group and of each of its sub-groups.

use std::collections::BTreeMap;

use schedlab_api::{Value, labels, object, pointer as fields};

use crate::text::counted_noun;
use crate::world::observed::{ObservedCluster, Phase, Pod};

/// A gang: a pod group and its pods. Pods without a pod group form one gang together.
pub(super) struct Gang<'v> {
    pods: Vec<Pod<'v>>,
    group: Option<&'v Value>,
}

/// The gangs to which these pods belong.
pub(super) fn gangs_of_pods<'v>(view: &'v ObservedCluster, pods: &[Pod<'v>]) -> Vec<Gang<'v>> {
    let mut gangs: BTreeMap<Option<&str>, Gang<'v>> = BTreeMap::new();
    for pod in pods {
        let group = pod.pod_group(view);
        let uid = group.and_then(|group| fields::text(group, "/metadata/uid"));
        gangs.entry(uid).or_insert_with(|| Gang { pods: Vec::new(), group }).pods.push(*pod);
    }
    gangs.into_values().collect()
}

impl Gang<'_> {
    /// Minimum number of pods of the gang. A pod group without a minimum needs all of its pods.
    pub(super) fn min_members(&self) -> usize {
        match self.sub_groups() {
            [] => {
                let min = self.group.and_then(|group| count_at(group, "/spec/minMember"));
                min.unwrap_or(self.pods.len())
            }
            _ => self.min_members_below(None),
        }
    }

    /// What is missing if some pods of the gang are placed but fewer than its minimum. `None` if no
    /// pod is placed or enough are.
    pub(super) fn partial_placement_message(&self) -> Option<String> {
        let there = self.pods.iter().filter(|pod| counts_as_placed(**pod)).count();
        let is_whole = match self.sub_groups() {
            [] => there >= self.min_members(),
            _ => self.is_whole_below(None),
        };
        (there > 0 && !is_whole).then(|| {
            let short: Vec<String> =
                self.sub_groups().iter().filter_map(|part| self.shortfall_text(part)).collect();
            match short.as_slice() {
                [] => {
                    format!(
                        "{there} of at least {} on nodes",
                        counted_noun(self.min_members(), "pod")
                    )
                }
                short => format!("{} on nodes, {}", counted_noun(there, "pod"), short.join(", ")),
            }
        })
    }

    fn sub_groups(&self) -> &[Value] {
        self.group.map_or(&[], |group| fields::list(group, "/spec/subGroups"))
    }

    /// The direct children of a sub-group, or, if `parent` is `None`, of the pod group itself.
    fn child_sub_groups(&self, parent: Option<&str>) -> impl Iterator<Item = &Value> {
        let parent_of = |part| fields::text(part, "/parent").filter(|name| !name.is_empty());
        self.sub_groups().iter().filter(move |part| parent_of(part) == parent)
    }

    /// How many of its children a sub-group needs, or, if `parent` is `None`, the pod group itself.
    fn required_child_count(&self, parent: Option<&str>) -> usize {
        let declared = match parent {
            None => self.group.and_then(|group| count_at(group, "/spec/minSubGroup")),
            Some(name) => {
                let mut parts = self.sub_groups().iter();
                parts
                    .find(|part| sub_group_name(part) == name)
                    .and_then(|part| count_at(part, "/minSubGroup"))
            }
        };
        declared.unwrap_or_else(|| self.child_sub_groups(parent).count())
    }

    fn min_members_below(&self, parent: Option<&str>) -> usize {
        let mut least: Vec<usize> =
            self.child_sub_groups(parent).map(|part| self.min_members_of_sub_group(part)).collect();
        least.sort_unstable();
        least.iter().take(self.required_child_count(parent)).sum()
    }

    fn min_members_of_sub_group(&self, sub_group: &Value) -> usize {
        let name = sub_group_name(sub_group);
        if self.child_sub_groups(Some(name)).next().is_none() {
            return count_at(sub_group, "/minMember").unwrap_or(0);
        }
        self.min_members_below(Some(name))
    }

    fn is_whole_below(&self, parent: Option<&str>) -> bool {
        let whole = self.child_sub_groups(parent).filter(|part| match sub_group_name(part) {
            name if self.child_sub_groups(Some(name)).next().is_some() => {
                self.is_whole_below(Some(name))
            }
            _ => self.shortfall_text(part).is_none(),
        });
        whole.count() >= self.required_child_count(parent)
    }

    /// How many pods a leaf sub-group lacks, as text; `None` if it is complete.
    fn shortfall_text(&self, sub_group: &Value) -> Option<String> {
        let name = sub_group_name(sub_group);
        let its = |pod: &&Pod<'_>| object::label(pod.0, labels::SUB_GROUP) == Some(name);
        let there = self.pods.iter().filter(its).filter(|pod| counts_as_placed(**pod)).count();
        let least = count_at(sub_group, "/minMember").unwrap_or(0);
        (there < least).then(|| format!("{there} of at least {least} of sub-group {name:?}"))
    }
}

/// Whether a pod counts towards its gang: it has a node, or it succeeded.
fn counts_as_placed(pod: Pod<'_>) -> bool {
    pod.holds_resources() || pod.current_phase() == Phase::Succeeded
}

fn sub_group_name(sub_group: &Value) -> &str {
    fields::text(sub_group, "/name").unwrap_or_default()
}

fn count_at(object: &Value, pointer: &str) -> Option<usize> {
    usize::try_from(fields::at(object, pointer)?.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    /// Partial placement of a group whose pods are given as sub-group, node, phase.
    fn partial_placement(spec: &Value, pods: &[(&str, &str, &str)]) -> Option<String> {
        let group = json!({"spec": spec});
        let pods = pods.iter().map(|(part, node, phase)| {
            json!({"metadata": {"labels": {(labels::SUB_GROUP): part}}, "spec": {"nodeName": node},
                   "status": {"phase": phase}})
        });
        let pods: Vec<Value> = pods.collect();
        Gang { pods: pods.iter().map(Pod).collect(), group: Some(&group) }
            .partial_placement_message()
    }

    #[test]
    fn a_gang_of_sub_groups_is_whole_when_each_is() {
        let spec = json!({"subGroups": [
            {"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2},
        ]});
        let (waits, runs) = (("workers", "", "Pending"), ("workers", "n", "Running"));
        let leader = ("leader", "n", "Running");
        assert_eq!(partial_placement(&spec, &[leader, runs, runs, waits, waits]), None);
        assert_eq!(partial_placement(&spec, &[("leader", "", "Pending"), waits, waits]), None);
        insta::assert_snapshot!(partial_placement(&spec, &[runs, runs, runs]).unwrap(), @r#"3 pods on nodes, 0 of at least 1 of sub-group "leader""#);
    }

    #[test]
    fn a_gang_needs_as_many_sub_groups_as_min_sub_group() {
        let part = |name: &str, parent: &str, min: u32| json!({"name": name, "parent": parent, "minMember": min});
        let spec = json!({"minSubGroup": 1, "subGroups": [
            {"name": "a"}, {"name": "b", "minSubGroup": 1},
            part("a1", "a", 2), part("a2", "a", 2), part("b1", "b", 3), part("b2", "b", 1),
        ]});
        let runs = |part| (part, "n", "Running");
        assert_eq!(partial_placement(&spec, &[runs("b2")]), None);
        assert_eq!(
            partial_placement(&spec, &[runs("a1"), runs("a1"), runs("a2"), runs("a2")]),
            None
        );
        let missing = partial_placement(&spec, &[runs("a1"), runs("a1")]).unwrap();
        assert!(
            missing.starts_with("2 pods on nodes, 0 of at least 2 of sub-group \"a2\""),
            "{missing}"
        );
    }

    #[test]
    fn a_finished_member_counts_as_placed() {
        let spec = json!({"minMember": 2});
        let (done, runs) = (("", "n", "Succeeded"), ("", "n", "Running"));
        assert_eq!(partial_placement(&spec, &[done, runs]), None);
        assert_eq!(partial_placement(&spec, &[("", "", "Pending"), ("", "", "Pending")]), None);
        let failed = partial_placement(&spec, &[("", "n", "Failed"), runs]);
        assert_eq!(failed.as_deref(), Some("1 of at least 2 pods on nodes"));
    }
}
