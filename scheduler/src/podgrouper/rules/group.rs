//! The desired PodGroup, its comparison with an existing one, and its JSON form.

use std::time::Duration;

use schedlab_api::{Value, api_versions, json};
use schedlab_scheduler_core::model::{Labels, Name, StalenessGrace, SubGroup, TopologyConstraint};

use super::OwnerWarning;
use crate::{
    apply::fnv1a_hash,
    cache::{DERIVED_SPEC_ANNOTATION, PodGroupRecord},
    parse::{GoDuration, parse_go_duration},
    records::{Owner, PodRecord},
};

/// The longest field in the annotation [`DERIVED_SPEC_ANNOTATION`] that is not hashed.
const DERIVED_FIELD_MAX: usize = 256;

/// Field of the annotation [`DERIVED_SPEC_ANNOTATION`]: [`Group::owner_pods`].
const OWNER_PODS: &str = "ownerPods";

/// Group and sub-group of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) group: Group,
    /// Name of the sub-group; `None` if the group has none.
    pub(crate) sub_group: Option<Name>,
}

impl Member {
    /// Whether the existing PodGroup and the sub-group label of the pod are right.
    pub(in crate::podgrouper) fn is_written_to(
        &self,
        record: &PodGroupRecord,
        pod: &PodRecord,
    ) -> bool {
        self.group.is_written_to(record) && pod.sub_group() == self.sub_group.as_ref()
    }
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
    /// Number of pods that the owner runs at once, if the minimum was stated apart from it.
    pub(super) owner_pods: Option<u32>,
    pub(super) min_sub_group: Option<u32>,
    /// The sub-groups; empty if the group has `minMember` only.
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
    /// Whether the existing PodGroup has the fields that derive from the owner now, apart from
    /// changes that a user made since.
    pub(crate) fn is_written_to(&self, record: &PodGroupRecord) -> bool {
        match &record.derived_spec {
            Some(before) => match self.lowered_min_member(record) {
                Some(lowered) => **before == self.lowered_to(lowered).derived_spec_annotation(),
                None => **before == self.derived_spec_annotation(),
            },
            None => self.has_derived_fields(record),
        }
    }

    /// The group with the minimum that its owner can reach.
    pub(in crate::podgrouper) fn for_record(self, record: Option<&PodGroupRecord>) -> Self {
        match record.and_then(|record| self.lowered_min_member(record)) {
            Some(lowered) => self.lowered_to(lowered),
            None => self,
        }
    }

    /// The number of pods of the owner, if it was made smaller than its stated minimum. KAI keeps
    /// the stated minimum: the remaining pods are evicted, and pending ones wait forever. An owner
    /// that never had enough pods keeps it here, too.
    fn lowered_min_member(&self, record: &PodGroupRecord) -> Option<u32> {
        let pods = self.owner_pods.filter(|pods| (1..self.min_member).contains(pods))?;
        let before: Value = serde_json::from_str(record.derived_spec.as_deref()?).ok()?;
        let count = |field: &str| before.get(field).and_then(Value::as_u64);
        (count(OWNER_PODS)? >= count("minMember")?).then_some(pods)
    }

    fn lowered_to(&self, min_member: u32) -> Self {
        Self { min_member, warning: None, ..self.clone() }
    }

    /// A merge patch with the fields that changed since they were derived last. Other fields stay,
    /// as a user may have changed them.
    pub(in crate::podgrouper) fn correction_patch(&self, record: &PodGroupRecord) -> Value {
        let mut spec = self.derived_spec();
        let before = record.derived_spec.as_ref().and_then(|text| serde_json::from_str(text).ok());
        let before: Value = before.unwrap_or_default();
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, value| before.get(&**field) != Some(&value_or_hash(value)));
        }
        let annotations = json!({ DERIVED_SPEC_ANNOTATION: self.derived_spec_annotation() });
        json!({ "metadata": { "annotations": annotations }, "spec": spec })
    }

    /// The value of annotation [`DERIVED_SPEC_ANNOTATION`]: the fields that derive from the owner,
    /// for comparison with later ones.
    fn derived_spec_annotation(&self) -> String {
        let spec = self.derived_spec();
        let fields = spec.as_object().into_iter().flatten();
        let mut fields: Value =
            fields.map(|(field, value)| (field.clone(), value_or_hash(value))).collect();
        if let Some(pods) = self.owner_pods {
            fields[OWNER_PODS] = pods.into();
        }
        fields.to_string()
    }

    /// Whether the existing PodGroup has the fields that derive from the owner.
    fn has_derived_fields(&self, record: &PodGroupRecord) -> bool {
        let stands_in_parts = match self.sub_groups.as_slice() {
            [] => matches!(record.sub_groups.as_slice(), [only] if &*only.name == "default"),
            wanted => record.sub_groups == wanted,
        };
        let delay =
            self.preemption_delay.as_deref().and_then(parse_go_duration).map(|delay| match delay {
                GoDuration::Positive(delay) => delay,
                GoDuration::Negative => Duration::ZERO,
            });
        let grace =
            self.staleness_grace.as_deref().and_then(parse_go_duration).map(|grace| match grace {
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
        let mut annotations = labels_json(&self.annotations);
        annotations[DERIVED_SPEC_ANNOTATION] = self.derived_spec_annotation().into();
        json!({
            "apiVersion": api_versions::POD_GROUP,
            "kind": "PodGroup",
            "metadata": {
                "name": &*self.name,
                "namespace": &*self.namespace,
                "labels": labels_json(&self.labels),
                "annotations": annotations,
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

/// A field as it is, or its hash if it is long.
fn value_or_hash(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= DERIVED_FIELD_MAX {
        return value.clone();
    }
    format!("{:016x}", fnv1a_hash(&[&text])).into()
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

#[cfg(test)]
mod tests {
    use super::{super::sub_groups::leaf_sub_group, *};

    fn group(min_member: u32, sub_groups: u32) -> Group {
        Group {
            name: "pg".into(),
            namespace: "ns".into(),
            labels: Labels::new(),
            annotations: Labels::new(),
            owner: Owner {
                api_version: "batch/v1".into(),
                kind: "Job".into(),
                name: "j".into(),
                uid: "u".into(),
            },
            min_member,
            owner_pods: None,
            min_sub_group: None,
            sub_groups: (0..sub_groups).map(|at| leaf_sub_group(format!("part-{at}"), 1)).collect(),
            queue: "q".into(),
            priority_class: "train".into(),
            preemptibility: None,
            topology: None,
            preemption_delay: None,
            staleness_grace: None,
            warning: None,
        }
    }

    /// The group as it was created, with these changes of a user.
    fn edited(group: &Group, spec: &[(&str, Value)]) -> Value {
        let mut object = group.manifest();
        for (field, value) in spec {
            object["spec"][*field] = value.clone();
        }
        object
    }

    fn record(object: &Value) -> PodGroupRecord {
        PodGroupRecord::from_object(object, "default")
    }

    #[test]
    fn a_field_that_a_user_changed_stays_until_the_owner_leads_to_another_value() {
        let changes = [("priorityClassName", json!("build")), ("minMember", json!(5))];
        let stored = record(&edited(&group(6, 0), &changes));
        assert!(group(6, 0).is_written_to(&stored));
        assert!(!group(3, 0).is_written_to(&stored));
        assert_eq!(group(3, 0).correction_patch(&stored)["spec"], json!({ "minMember": 3 }));
        let other = Group { priority_class: "inference".into(), ..group(6, 0) };
        let change = json!({ "priorityClassName": "inference" });
        assert_eq!(other.correction_patch(&stored)["spec"], change);
    }

    #[test]
    fn the_stated_minimum_follows_an_owner_that_is_made_smaller() {
        let of_owner = |pods| Group { owner_pods: Some(pods), ..group(6, 0) };
        let mut stored = record(&of_owner(6).manifest());
        let mut lower = |pods| {
            assert!(!of_owner(pods).is_written_to(&stored));
            let lowered = of_owner(pods).for_record(Some(&stored));
            stored = record(&lowered.manifest());
            assert!(of_owner(pods).is_written_to(&stored));
            lowered.min_member
        };
        assert_eq!([3, 2, 4, 8].map(&mut lower), [3, 2, 4, 6]);
        let never_whole = record(&of_owner(4).manifest());
        assert_eq!(of_owner(3).for_record(Some(&never_whole)).min_member, 6);
        assert_eq!(of_owner(3).for_record(None).min_member, 6);
    }

    #[test]
    fn a_group_that_another_pod_grouper_created_gets_all_derived_fields() {
        let mut object = edited(&group(6, 0), &[("priorityClassName", json!("build"))]);
        object["metadata"]["annotations"] = json!({});
        let stored = record(&object);
        assert!(!group(6, 0).is_written_to(&stored));
        let change = group(3, 0).correction_patch(&stored);
        assert_eq!(change["spec"]["minMember"], 3);
        assert_eq!(change["spec"]["priorityClassName"], "train");
    }

    #[test]
    fn long_fields_are_recorded_as_hashes() {
        let (few, many) = (group(1000, 1000), group(1000, 1001));
        assert!(few.derived_spec_annotation().len() < 300);
        let stored = record(&few.manifest());
        assert!(few.is_written_to(&stored));
        let sub_groups =
            many.correction_patch(&stored)["spec"]["subGroups"].as_array().map(Vec::len);
        assert_eq!(sub_groups, Some(1001));
    }
}
