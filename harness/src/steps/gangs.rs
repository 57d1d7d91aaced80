//! Whether gangs are whole: whether as many of their members are there as their pod groups ask
//! for, in each part of them.

use std::collections::BTreeMap;

use schedlab_emulator::object;
use schedlab_json::Value;

use crate::fields;
use crate::view::{Phase, Pod, View};

/// Label of the sub-group of which a pod is.
const SUB_GROUP: &str = "kai.scheduler/subgroup-name";

/// The pods of one pod group, and the group; those that have none are taken for one gang.
pub(super) struct Gang<'v> {
    pods: Vec<Pod<'v>>,
    group: Option<&'v Value>,
}

/// The gangs of which these pods are members.
pub(super) fn gangs<'v>(view: &'v View, pods: &[Pod<'v>]) -> Vec<Gang<'v>> {
    let mut gangs: BTreeMap<Option<&str>, Gang<'v>> = BTreeMap::new();
    for pod in pods {
        let group = pod.group(view);
        let uid = group.and_then(|group| fields::text(group, "/metadata/uid"));
        gangs.entry(uid).or_insert_with(|| Gang { pods: Vec::new(), group }).pods.push(*pod);
    }
    gangs.into_values().collect()
}

impl Gang<'_> {
    /// The fewest pods of which it may be. A group without a minimum needs all of its pods.
    pub(super) fn least(&self) -> usize {
        match self.sub_groups() {
            [] => {
                let min = self.group.and_then(|group| number(group, "/spec/minMember"));
                min.unwrap_or(self.pods.len())
            }
            _ => self.least_below(None),
        }
    }

    /// What is not there, when some of it is.
    pub(super) fn torn(&self) -> Option<String> {
        let there = self.pods.iter().filter(|pod| is_there(**pod)).count();
        let is_whole = match self.sub_groups() {
            [] => there >= self.least(),
            _ => self.is_whole_below(None),
        };
        (there > 0 && !is_whole).then(|| {
            let short: Vec<String> =
                self.sub_groups().iter().filter_map(|part| self.short(part)).collect();
            match short.as_slice() {
                [] => format!("{there} of at least {} pods have a node", self.least()),
                short => format!("{there} pods have a node, {}", short.join(", ")),
            }
        })
    }

    fn sub_groups(&self) -> &[Value] {
        self.group.map_or(&[], |group| fields::list(group, "/spec/subGroups"))
    }

    /// The sub-groups right below another, or below the group itself.
    fn below(&self, parent: Option<&str>) -> impl Iterator<Item = &Value> {
        let parent_of = |part| fields::text(part, "/parent").filter(|name| !name.is_empty());
        self.sub_groups().iter().filter(move |part| parent_of(part) == parent)
    }

    /// How many of the sub-groups below it a sub-group, or the group itself, needs.
    fn needed_below(&self, parent: Option<&str>) -> usize {
        let said = match parent {
            None => self.group.and_then(|group| number(group, "/spec/minSubGroup")),
            Some(name) => {
                let mut parts = self.sub_groups().iter();
                parts
                    .find(|part| name_of(part) == name)
                    .and_then(|part| number(part, "/minSubGroup"))
            }
        };
        said.unwrap_or_else(|| self.below(parent).count())
    }

    fn least_below(&self, parent: Option<&str>) -> usize {
        let mut least: Vec<usize> = self.below(parent).map(|part| self.least_of(part)).collect();
        least.sort_unstable();
        least.iter().take(self.needed_below(parent)).sum()
    }

    fn least_of(&self, part: &Value) -> usize {
        let name = name_of(part);
        if self.below(Some(name)).next().is_none() {
            return number(part, "/minMember").unwrap_or(0);
        }
        self.least_below(Some(name))
    }

    fn is_whole_below(&self, parent: Option<&str>) -> bool {
        let whole = self.below(parent).filter(|part| match name_of(part) {
            name if self.below(Some(name)).next().is_some() => self.is_whole_below(Some(name)),
            _ => self.short(part).is_none(),
        });
        whole.count() >= self.needed_below(parent)
    }

    /// What a sub-group that has pods of its own lacks.
    fn short(&self, part: &Value) -> Option<String> {
        let name = name_of(part);
        let its = |pod: &&Pod<'_>| object::label(pod.0, SUB_GROUP) == Some(name);
        let there = self.pods.iter().filter(its).filter(|pod| is_there(**pod)).count();
        let least = number(part, "/minMember").unwrap_or(0);
        (there < least).then(|| format!("{there} of at least {least} of sub-group {name:?}"))
    }
}

/// Whether a pod is where its gang needs it; one that finished well has been.
fn is_there(pod: Pod<'_>) -> bool {
    pod.holds_room() || pod.phase() == Phase::Succeeded
}

fn name_of(part: &Value) -> &str {
    fields::text(part, "/name").unwrap_or_default()
}

fn number(object: &Value, at: &str) -> Option<usize> {
    usize::try_from(fields::at(object, at)?.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    /// What is torn of a group, by its pods: sub-group, node, phase.
    fn torn(spec: &Value, pods: &[(&str, &str, &str)]) -> Option<String> {
        let group = json!({"spec": spec});
        let pods = pods.iter().map(|(part, node, phase)| {
            json!({"metadata": {"labels": {SUB_GROUP: part}}, "spec": {"nodeName": node},
                   "status": {"phase": phase}})
        });
        let pods: Vec<Value> = pods.collect();
        Gang { pods: pods.iter().map(Pod).collect(), group: Some(&group) }.torn()
    }

    #[test]
    fn a_gang_of_sub_groups_is_whole_when_each_is() {
        let spec = json!({"subGroups": [
            {"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 2},
        ]});
        let (waits, runs) = (("workers", "", "Pending"), ("workers", "n", "Running"));
        let leader = ("leader", "n", "Running");
        assert_eq!(torn(&spec, &[leader, runs, runs, waits, waits]), None);
        assert_eq!(torn(&spec, &[("leader", "", "Pending"), waits, waits]), None);
        insta::assert_snapshot!(torn(&spec, &[runs, runs, runs]).unwrap(), @r#"3 pods have a node, 0 of at least 1 of sub-group "leader""#);
    }

    #[test]
    fn a_gang_needs_as_many_sub_groups_as_it_says() {
        let part = |name: &str, parent: &str, min: u32| json!({"name": name, "parent": parent, "minMember": min});
        let spec = json!({"minSubGroup": 1, "subGroups": [
            {"name": "a"}, {"name": "b", "minSubGroup": 1},
            part("a1", "a", 2), part("a2", "a", 2), part("b1", "b", 3), part("b2", "b", 1),
        ]});
        let runs = |part| (part, "n", "Running");
        assert_eq!(torn(&spec, &[runs("b2")]), None);
        assert_eq!(torn(&spec, &[runs("a1"), runs("a1"), runs("a2"), runs("a2")]), None);
        let told = torn(&spec, &[runs("a1"), runs("a1")]).unwrap();
        assert!(
            told.starts_with("2 pods have a node, 0 of at least 2 of sub-group \"a2\""),
            "{told}"
        );
    }

    #[test]
    fn a_member_that_finished_has_been_there() {
        let spec = json!({"minMember": 2});
        let (done, runs) = (("", "n", "Succeeded"), ("", "n", "Running"));
        assert_eq!(torn(&spec, &[done, runs]), None);
        assert_eq!(torn(&spec, &[("", "", "Pending"), ("", "", "Pending")]), None);
        let failed = torn(&spec, &[("", "n", "Failed"), runs]);
        assert_eq!(failed.as_deref(), Some("1 of at least 2 pods have a node"));
    }
}
