//! The desired PodGroup, its comparison with an existing one, and its JSON form.

use std::time::Duration;

use schedlab_api::{Value, api_versions, json};
use schedlab_scheduler_core::model::{Labels, Name, StalenessGrace, SubGroup, TopologyConstraint};

use super::OwnerWarning;
use crate::{
    cache::PodGroupRecord,
    parse::{GoDuration, go_duration},
    records::Owner,
};

/// Group and sub-group of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) group: Group,
    /// Name of the sub-group; `None` if the group has none.
    pub(crate) sub_group: Option<Name>,
}

/// A desired PodGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: Name,
    pub(in crate::podgrouper) namespace: Name,
    pub(in crate::podgrouper) labels: Labels,
    pub(super) annotations: Labels,
    pub(in crate::podgrouper) owner: Owner,
    pub(super) min_member: u32,
    pub(super) min_sub_group: Option<u32>,
    /// Empty if the group has `minMember` only.
    pub(super) sub_groups: Vec<SubGroup>,
    pub(super) queue: Name,
    pub(super) priority_class: Name,
    pub(super) preemptibility: Option<Name>,
    pub(super) topology: Option<TopologyConstraint>,
    pub(super) preemption_delay: Option<Name>,
    pub(super) staleness_grace: Option<Name>,
    pub(in crate::podgrouper) warning: Option<OwnerWarning>,
}

impl Group {
    /// The existing PodGroup already has the fields that derive from the owner.
    pub(crate) fn agrees_with(&self, record: &PodGroupRecord) -> bool {
        let stands_in_parts = match self.sub_groups.as_slice() {
            [] => matches!(record.sub_groups.as_slice(), [only] if &*only.name == "default"),
            wanted => record.sub_groups == wanted,
        };
        let delay =
            self.preemption_delay.as_deref().and_then(go_duration).map(|delay| match delay {
                GoDuration::Positive(delay) => delay,
                GoDuration::Negative => Duration::ZERO,
            });
        let grace =
            self.staleness_grace.as_deref().and_then(go_duration).map(|grace| match grace {
                GoDuration::Positive(grace) => StalenessGrace::After(grace),
                GoDuration::Negative => StalenessGrace::Never,
            });
        stands_in_parts
            && record.min_sub_group == self.min_sub_group
            && (self.min_sub_group.is_some() || record.min_member == self.min_member)
            && record.priority_class.as_ref() == Some(&self.priority_class)
            && record.preemptible == self.preemptibility.as_deref().map(|is| is == "preemptible")
            && record.topology == self.topology
            && delay.is_none_or(|delay| record.preemption_delay == delay)
            && grace.is_none_or(|grace| record.staleness_grace == Some(grace))
    }

    /// The derived fields of `spec` as a JSON merge patch; fields to be removed are null.
    pub(crate) fn derived_spec(&self) -> Value {
        let minimum = self.min_sub_group.is_none().then_some(self.min_member);
        let sub_groups: Vec<Value> =
            self.sub_groups.iter().map(|part| self.sub_group_spec(part)).collect();
        let mut spec = json!({
            "minMember": minimum,
            "minSubGroup": self.min_sub_group,
            "subGroups": if sub_groups.is_empty() { Value::Null } else { sub_groups.into() },
            "priorityClassName": &*self.priority_class,
            "preemptibility": self.preemptibility.as_deref(),
            "topologyConstraint": self.topology.as_ref().map(constraint_json),
        });
        let times = [
            ("preemptionDelay", &self.preemption_delay),
            ("stalenessGracePeriod", &self.staleness_grace),
        ];
        for (field, time) in times {
            // Without an annotation, a duration that a user wrote into the PodGroup stays.
            if let Some(time) = time {
                spec[field] = json!(&**time);
            }
        }
        spec
    }

    fn sub_group_spec(&self, part: &SubGroup) -> Value {
        let is_inner = self.sub_groups.iter().any(|other| {
            other.parent.is_some_and(|parent| self.sub_groups[parent].name == part.name)
        });
        let mut object = json!({ "name": &*part.name });
        if let Some(parent) = part.parent {
            object["parent"] = json!(&*self.sub_groups[parent].name);
        }
        match part.min_sub_group {
            Some(minimum) => object["minSubGroup"] = json!(minimum),
            None if is_inner => {}
            None => object["minMember"] = json!(part.min_member),
        }
        if let Some(topology) = &part.topology {
            object["topologyConstraint"] = constraint_json(topology);
        }
        object
    }

    pub(crate) fn manifest(&self) -> Value {
        let mut spec = self.derived_spec();
        spec["queue"] = json!(&*self.queue);
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        json!({
            "apiVersion": api_versions::POD_GROUP,
            "kind": "PodGroup",
            "metadata": {
                "name": &*self.name,
                "namespace": &*self.namespace,
                "labels": labels_json(&self.labels),
                "annotations": labels_json(&self.annotations),
                "ownerReferences": [{
                    "apiVersion": &*self.owner.api_version,
                    "kind": &*self.owner.kind,
                    "name": &*self.owner.name,
                    "uid": &*self.owner.uid,
                }],
            },
            "spec": spec,
        })
    }
}

fn labels_json(labels: &Labels) -> Value {
    labels.iter().map(|(key, value)| (key.to_string(), json!(&**value))).collect()
}

fn constraint_json(topology: &TopologyConstraint) -> Value {
    let mut constraint = json!({ "topology": &*topology.topology });
    if let Some(level) = &topology.required {
        constraint["requiredTopologyLevel"] = json!(&**level);
    }
    if let Some(level) = &topology.preferred {
        constraint["preferredTopologyLevel"] = json!(&**level);
    }
    constraint
}
