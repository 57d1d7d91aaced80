//! Groups of the PodGroups of Kubernetes (`scheduling.k8s.io`), which pods name in
//! `spec.schedulingGroup`: minimum, priority class, topology and disruption mode come from the
//! PodGroup, the queue from labels as for all groups. Where a label or annotation of KAI says
//! otherwise, the pod is not grouped, and the message names the field.

use schedlab_api::{annotations::BATCH_MIN_MEMBER, api_versions, labels};
use schedlab_scheduler_core::model::{Name, TopologyConstraint};

use super::{
    GroupingContext, GroupingInput, SCHEDULING_GROUP_KIND, TopOwner, annotations, inherit_labels,
    sub_groups::GroupShape,
};
use crate::{
    cache::{DISRUPTION_MODE_ANNOTATION, disrupts_all, topology_key},
    parse::{Malformed, at, int32, name, shown, strings, uid},
    records::{Owner, PodRecord},
};

const GROUP_FIELD: &str = "spec.schedulingGroup.podGroupName";

/// The PodGroup that a pod names.
pub(super) fn owner(name: &Name) -> Owner {
    Owner {
        api_version: api_versions::WORKLOAD.into(),
        kind: SCHEDULING_GROUP_KIND.into(),
        name: Name::clone(name),
        uid: "".into(),
    }
}

/// Replaces the owner by the PodGroup. The owner's labels and annotations apply if the PodGroup
/// does not set them.
pub(super) fn use_as_owner<'a>(
    top: &mut TopOwner<'a>,
    pod: &PodRecord,
    context: GroupingContext<'a>,
) -> Result<(), Malformed> {
    let named = pod.scheduling_group.clone().unwrap_or_default();
    let Some(group) = context.related_object else {
        let allowed = "the name of a PodGroup of scheduling.k8s.io that exists";
        return Err(Malformed::new(GROUP_FIELD, named, allowed));
    };
    top.owner = Owner { uid: uid(group), ..owner(&named) };
    let of_owner = std::mem::replace(&mut top.labels, strings(group, "/metadata/labels"));
    inherit_labels(&mut top.labels, of_owner);
    let of_group = strings(group, "/metadata/annotations");
    let of_owner = std::mem::replace(&mut top.annotations, of_group);
    inherit_labels(&mut top.annotations, of_owner);
    if disrupts_all(group) {
        top.annotations.insert(DISRUPTION_MODE_ANNOTATION.into(), "All".into());
    }
    top.object = group;
    Ok(())
}

/// The minimum of a gang; the pods of a basic group are placed one by one.
pub(super) fn shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let gang = at(input.top.object, "/spec/schedulingPolicy/gang").filter(|gang| !gang.is_null());
    let Some(gang) = gang else { return Ok(GroupShape::without_sub_groups(1)) };
    let minimum = int32(gang, "/minCount").and_then(|count| u64::try_from(count).ok());
    let Some(minimum) = minimum.filter(|minimum| *minimum > 0) else {
        let found = gang.get("minCount").map_or_else(|| "nothing".to_owned(), shown);
        let field = "spec.schedulingPolicy.gang.minCount";
        return Err(Malformed::new(field, found, "an integer from 1 to 2147483647"));
    };
    let stated = input.top.annotations.get(BATCH_MIN_MEMBER);
    if let Some(other) = stated.filter(|stated| stated.parse() != Ok(minimum)) {
        let field = format!("annotation {BATCH_MIN_MEMBER}");
        let found = format!("{other}, with {minimum} on PodGroup {}", input.top.owner.name);
        let allowed = "spec.schedulingPolicy.gang.minCount of its PodGroup";
        return Err(Malformed::new(field, found, allowed));
    }
    Ok(GroupShape::without_sub_groups(minimum))
}

pub(super) fn priority_class(input: &GroupingInput<'_>) -> Option<Name> {
    name(input.top.object, "/spec/priorityClassName")
}

/// One domain of the node label that the PodGroup names, for all pods. Without one, the
/// annotations of KAI.
pub(super) fn topology(input: &GroupingInput<'_>) -> Result<Option<TopologyConstraint>, Malformed> {
    let annotated = annotations::topology_constraint(&input.top.annotations)?;
    let Some(key) = topology_key(input.top.object) else { return Ok(annotated) };
    if let Some(other) = annotated {
        let field = format!("annotation {}", annotations::TOPOLOGY_ANNOTATION);
        let allowed = "none beside spec.schedulingConstraints.topology of the PodGroup";
        return Err(Malformed::new(field, other.topology, allowed));
    }
    let (topology, required) = (Name::clone(&key), Some(key));
    Ok(Some(TopologyConstraint { topology, required, preferred: None }))
}

/// Checks that labels and annotations of KAI do not contradict the PodGroup.
pub(super) fn check_agreement(input: &GroupingInput<'_>) -> Result<(), Malformed> {
    let of_pod = |label: &str| input.pod.labels.get(label);
    let own_labels = strings(input.top.object, "/metadata/labels");
    let of_group = |label: &str| own_labels.get(label).cloned();
    if let (Some(pod), Some(group)) = (of_pod(labels::QUEUE), of_group(labels::QUEUE))
        && *pod != group
    {
        let field = format!("label {}", labels::QUEUE);
        let found = format!("{pod}, with {group} on PodGroup {}", input.top.owner.name);
        return Err(Malformed::new(field, found, "the queue of its PodGroup"));
    }
    if let Some(class) = priority_class(input) {
        let stated = [of_group(labels::PRIORITY_CLASS), of_pod(labels::PRIORITY_CLASS).cloned()];
        if let Some(other) = stated.into_iter().flatten().find(|other| *other != class) {
            let field = format!("label {}", labels::PRIORITY_CLASS);
            let found = format!("{other}, with {class} on PodGroup {}", input.top.owner.name);
            return Err(Malformed::new(field, found, "spec.priorityClassName of its PodGroup"));
        }
    }
    Ok(())
}
