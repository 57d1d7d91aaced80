//! PodGroups in the cache.

use std::{collections::BTreeSet, time::Duration};

use schedlab_api::{Value, annotations, api_versions, conditions::BINDING_ERROR, resources};
use schedlab_scheduler_core::{
    model::{Name, StalenessGrace, SubGroup, Time, TopologyConstraint},
    resources::PerResource,
};

use super::topology;
use crate::{
    parse::{
        GoDuration, Malformed, Unit, at, list, name, parse_go_duration, parse_non_negative,
        parse_time, shown, text, time, uid,
    },
    records::{Marked, ObjectKey, Owner, pod},
};

/// The fields of a PodGroup that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodGroupRecord {
    pub(crate) uid: Name,
    /// The first owner reference.
    pub(crate) owner: Option<Owner>,
    /// Whether the pods of the group are scheduled here: the node pool label matches, or no node
    /// pool is configured.
    pub(crate) in_pool: bool,
    /// The node pool label, if a node pool is configured.
    pub(crate) pool_label: Option<Name>,
    pub(crate) queue: Option<Name>,
    pub(crate) priority_class: Option<Name>,
    /// Label `priorityClassName`, which the pod grouper copies from the owner.
    pub(crate) class_label: Option<Name>,
    /// `spec.preemptibility`.
    pub(crate) preemptible: Option<bool>,
    pub(crate) min_member: u32,
    /// The sub-groups; never empty.
    pub(crate) sub_groups: Vec<SubGroup>,
    pub(crate) min_sub_group: Option<u32>,
    pub(crate) topology: Option<TopologyConstraint>,
    /// Annotation [`DISRUPTION_MODE_ANNOTATION`].
    pub(crate) evicted_together: bool,
    pub(crate) created: Time,
    pub(crate) last_start: Option<Time>,
    pub(crate) last_eviction: Option<Time>,
    pub(crate) stale_since: Option<Time>,
    pub(crate) staleness_grace: Option<StalenessGrace>,
    pub(crate) preemption_delay: Duration,
    pub(crate) attempts: SchedulingAttempts,
    /// `spec.markUnschedulable`: whether pods get condition and event while they do not fit.
    pub(crate) marks_unschedulable: bool,
    pub(crate) malformed: Option<Malformed>,
    /// Annotation [`DERIVED_SPEC_ANNOTATION`].
    pub(crate) derived_spec: Option<Name>,
    pub(crate) reported: ReportedGroupStatus,
}

/// KAI's priority classes, for clusters that lack them.
const WELL_KNOWN_CLASSES: [(&str, i32); 4] =
    [("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125)];

/// The priority of a class of KAI's own; `None` for other classes.
pub(crate) fn well_known_priority(class: &str) -> Option<i32> {
    WELL_KNOWN_CLASSES.iter().find(|(name, _)| *name == class).map(|(_, priority)| *priority)
}

/// Pod groups whose reported resources may differ from what their pods use.
#[derive(Debug, Default)]
pub(crate) struct GroupsToReport {
    /// Any group may differ.
    pub(crate) everything: bool,
    pub(crate) keys: BTreeSet<ObjectKey>,
}

/// What some pod groups need, by their records alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupMark {
    /// The group is malformed, or its priority class is none of KAI's own, which are known even if
    /// they do not exist.
    Unusual,
    /// A label of the group's owner names a priority class.
    ClassLabel,
    /// The group is malformed, or was tried without success and is not tried again.
    Skipped,
    /// The reported status says why the group waits, or the group is malformed.
    Pending,
}

impl Marked for PodGroupRecord {
    type Mark = GroupMark;

    const MARKS: &'static [GroupMark] =
        &[GroupMark::Unusual, GroupMark::ClassLabel, GroupMark::Skipped, GroupMark::Pending];

    fn has_mark(&self, mark: GroupMark) -> bool {
        match mark {
            GroupMark::Unusual => {
                let is_unusual = |class: &Name| well_known_priority(class).is_none();
                self.malformed.is_some() || self.priority_class.as_ref().is_some_and(is_unusual)
            }
            GroupMark::ClassLabel => self.class_label.is_some(),
            GroupMark::Skipped => {
                let has_failed = SchedulingAttempts::Single { has_failed: true };
                self.malformed.is_some() || self.attempts == has_failed
            }
            GroupMark::Pending => self.reported.pending.is_some() || self.malformed.is_some(),
        }
    }
}

/// `spec.schedulingBackoff`: how often the scheduler tries the group on a node pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulingAttempts {
    /// The group is tried in every cycle: -1 or unset.
    Unlimited,
    /// The group is tried once: 1.
    Single { has_failed: bool },
}

/// The status that was last written to the pod group. No decision depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedGroupStatus {
    pub(crate) version: u64,
    /// Reason and message of `status.schedulingConditions[]` of our node pool, while the group
    /// waits.
    pub(crate) pending: Option<(Name, Name)>,
    /// `reasons` of the pending condition, if the group is tried once.
    pub(crate) reasons: Vec<Value>,
    /// The highest `transitionID` of the conditions of all node pools; the next change gets a
    /// higher one.
    pub(crate) last_transition_id: u64,
    /// Conditions of other node pools, which their schedulers maintain.
    pub(crate) foreign_conditions: Vec<Value>,
    /// `status.resourcesStatus`.
    pub(crate) resources: GroupResources,
}

/// What the pods of a group use and request, in the units of the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupResources {
    pub(crate) allocated: PerResource<i64>,
    pub(crate) allocated_non_preemptible: PerResource<i64>,
    pub(crate) requested: PerResource<i64>,
    /// Number of pods with a node that have not ended.
    pub(crate) running: u32,
    /// Number of waiting pods.
    pub(crate) pending: u32,
}

/// Annotation with the fields that the pod grouper derived from the owners when it last wrote the
/// group. A field of the group that differs was changed by a user, and is kept until the owners
/// lead to another value.
pub(crate) const DERIVED_SPEC_ANNOTATION: &str = "schedlab.dev/derived-spec";

/// `All`: the pods of the group are evicted together, those above the minimum as well. The pod
/// grouper writes it for PodGroups of Kubernetes with `spec.disruptionMode.all`.
pub(crate) const DISRUPTION_MODE_ANNOTATION: &str = "schedlab.dev/disruption-mode";

const CLASS_LABEL_POINTER: &str = "/metadata/labels/priorityClassName";
const EXPECTED_MINIMUM: &str = "an integer from 0 to 2147483647";
const EXPECTED_ONE_MINIMUM: &str = "one of minMember and minSubGroup";
const EXPECTED_DURATION: &str = "a duration such as 90s or 1h30m";
const EXPECTED_PREEMPTIBILITY: &str = "preemptible, non-preemptible or nothing";
const EXPECTED_BACKOFF: &str = "1 or -1";
const EXPECTED_MARK: &str = "true or false";
const EXPECTED_PARENT: &str = "the name of another sub-group, from which parents lead to the root";
const EXPECTED_UNIQUE_NAME: &str = "a name that no other sub-group has";
const EXPECTED_MIN_SUB_GROUP: &str = "minSubGroup, as the sub-group has child sub-groups";
const EXPECTED_TOPOLOGY: &str = "the name of a Topology";
const EXPECTED_LEVELS: &str = "requiredTopologyLevel, preferredTopologyLevel or both beside it";
const EXPECTED_MIN_MEMBER: &str = "minMember, as the sub-group has no child sub-groups";
const EXPECTED_NO_MORE_THAN_EXIST: &str =
    "at most the number of child sub-groups: lower it or add sub-groups";

/// Reasons of conditions that do not mean that the scheduler searched for nodes without success.
const REASONS_WITHOUT_ATTEMPT: [&str; 5] =
    ["QueueDoesNotExist", "NotReady", "Pipelined", "Malformed", BINDING_ERROR];

/// Whether a condition with this reason means that the group was tried without success.
pub(crate) fn is_failed_attempt(reason: &str) -> bool {
    !REASONS_WITHOUT_ATTEMPT.contains(&reason)
}

impl PodGroupRecord {
    /// Parses a PodGroup. `pool` is the node pool whose conditions are read.
    pub(crate) fn from_object(object: &Value, pool: &str) -> Self {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let mut reader = PodGroupParser { spec, malformed: None };
        let min_member = reader.parse_minimum(spec, "spec.minMember");
        let min_sub_group = reader.parse_minimum(spec, "spec.minSubGroup");
        if min_member.is_some_and(|minimum| minimum > 0) && min_sub_group.is_some() {
            reader.record_error("spec.minSubGroup", "both", EXPECTED_ONE_MINIMUM);
        }
        let min_member = min_member.unwrap_or(1);
        let sub_groups = reader.parse_sub_groups(min_member);
        reader.check_min_sub_group(&sub_groups, None, min_sub_group);
        for (at, part) in sub_groups.iter().enumerate() {
            reader.check_min_sub_group(&sub_groups, Some(at), part.min_sub_group);
        }
        reader.check_leaf_minimums();
        let annotation = |key: &str| at(object, "/metadata/annotations")?.get(key)?.as_str();
        let at = |key: &str| parse_time(annotation(key)?);
        Self {
            uid: uid(object),
            owner: list(object, "/metadata/ownerReferences").first().map(pod::parse_owner),
            in_pool: true,
            pool_label: None,
            queue: name(spec, "/queue"),
            priority_class: name(spec, "/priorityClassName"),
            class_label: name(object, CLASS_LABEL_POINTER),
            preemptible: reader.parse_preemptible(),
            min_member,
            sub_groups,
            min_sub_group,
            topology: reader.parse_topology(spec, "spec.", ""),
            evicted_together: annotation(DISRUPTION_MODE_ANNOTATION) == Some("All"),
            created: time(object, "/metadata/creationTimestamp").unwrap_or_default(),
            last_start: at(annotations::LAST_START_TIMESTAMP),
            last_eviction: at(annotations::LAST_EVICTION_TIMESTAMP),
            stale_since: at(annotations::STALE_SINCE_TIMESTAMP),
            staleness_grace: reader.parse_duration("stalenessGracePeriod").map(
                |grace| match grace {
                    GoDuration::Positive(grace) => StalenessGrace::After(grace),
                    GoDuration::Negative => StalenessGrace::Never,
                },
            ),
            preemption_delay: match reader.parse_duration("preemptionDelay") {
                Some(GoDuration::Positive(delay)) => delay,
                Some(GoDuration::Negative) | None => Duration::ZERO,
            },
            attempts: reader.parse_attempts(object, pool),
            marks_unschedulable: reader.parse_mark_unschedulable(),
            malformed: reader.malformed,
            derived_spec: annotation(DERIVED_SPEC_ANNOTATION).map(Name::from),
            reported: reported_status(object, pool),
        }
    }
}

impl PodGroupRecord {
    /// Name of the PodGroup of Kubernetes from which the group was derived.
    pub(crate) fn scheduling_group(&self) -> Option<&Name> {
        let owner = self.owner.as_ref()?;
        let is_it = &*owner.api_version == api_versions::WORKLOAD && &*owner.kind == "PodGroup";
        is_it.then_some(&owner.name)
    }

    /// The node label that serves as its topology: a topology of the name of its required level.
    pub(crate) fn topology_label(&self) -> Option<&Name> {
        let TopologyConstraint { topology, required, .. } = self.topology.as_ref()?;
        required.as_ref().filter(|required| *required == topology)
    }
}

/// Whether `condition` is the condition of this node pool.
fn is_condition_of_pool(condition: &Value, pool: &str) -> bool {
    text(condition, "/type") == Some("UnschedulableOnNodePool")
        && text(condition, "/nodePool") == Some(pool)
}

fn transition_id(condition: &Value) -> Option<u64> {
    text(condition, "/transitionID")?.parse().ok()
}

/// Whether the newest condition among all node pools is that of this pool, with a reason that means
/// an attempt without success.
fn is_last_attempt_failed(object: &Value, pool: &str) -> bool {
    let conditions = list(object, "/status/schedulingConditions").iter().rev();
    // If several conditions have the highest transition ID, the first in the list counts, as in
    // KAI.
    conditions.max_by_key(|condition| transition_id(condition)).is_some_and(|last| {
        let reason = text(last, "/reason").unwrap_or_default();
        is_condition_of_pool(last, pool)
            && text(last, "/status") == Some("True")
            && is_failed_attempt(reason)
    })
}

fn reported_status(object: &Value, pool: &str) -> ReportedGroupStatus {
    let ours = |condition: &&Value| is_condition_of_pool(condition, pool);
    let is_once = at(object, "/spec/schedulingBackoff").and_then(Value::as_i64) == Some(1);
    let conditions = list(object, "/status/schedulingConditions");
    let of_others = conditions.iter().filter(|condition| !ours(condition)).cloned().collect();
    let condition = conditions.iter().rfind(ours);
    let pending = condition.filter(|condition| text(condition, "/status") == Some("True"));
    let part =
        |condition: &Value, pointer| Name::from(text(condition, pointer).unwrap_or_default());
    ReportedGroupStatus {
        version: crate::parse::version(object),
        reasons: pending
            .filter(|_| is_once)
            .map_or_else(Vec::new, |condition| list(condition, "/reasons").to_vec()),
        pending: pending.map(|condition| (part(condition, "/reason"), part(condition, "/message"))),
        last_transition_id: conditions.iter().filter_map(transition_id).max().unwrap_or(0),
        foreign_conditions: of_others,
        resources: GroupResources {
            allocated: parse_resource_amounts(object, "/status/resourcesStatus/allocated"),
            allocated_non_preemptible: parse_resource_amounts(
                object,
                "/status/resourcesStatus/allocatedNonPreemptible",
            ),
            requested: parse_resource_amounts(object, "/status/resourcesStatus/requested"),
            running: parse_count(object, "/status/running"),
            pending: parse_count(object, "/status/pending"),
        },
    }
}

fn parse_count(object: &Value, pointer: &str) -> u32 {
    let count = at(object, pointer).and_then(Value::as_u64);
    count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// Parses amounts of GPU, CPU and memory. An amount that cannot be parsed becomes -1, which differs
/// from every amount, so that the status is written again.
fn parse_resource_amounts(object: &Value, pointer: &str) -> PerResource<i64> {
    let Some(of) = at(object, pointer) else { return PerResource::default() };
    let amount = |name: &str, unit| match of.get(name) {
        None => 0,
        Some(text) => {
            text.as_str().and_then(|text| parse_non_negative(text, unit).ok()).unwrap_or(-1)
        }
    };
    PerResource {
        gpu: amount(resources::GPU, Unit::Milli),
        cpu: amount("cpu", Unit::Milli),
        memory: amount("memory", Unit::Whole),
    }
}

struct PodGroupParser<'a> {
    spec: &'a Value,
    malformed: Option<Malformed>,
}

impl PodGroupParser<'_> {
    fn record_error(&mut self, field: &str, found: &str, allowed: &'static str) {
        self.malformed.get_or_insert_with(|| Malformed::new(field, found, allowed));
    }

    /// Parses a minimum; a malformed one counts as unset. The last segment of `path` is the name of
    /// the field.
    fn parse_minimum(&mut self, of: &Value, path: &str) -> Option<u32> {
        let (_, field) = path.rsplit_once('.')?;
        let found = of.get(field).filter(|found| !found.is_null())?;
        let minimum = found.as_i64().and_then(|number| i32::try_from(number).ok());
        let minimum = minimum.and_then(|number| u32::try_from(number).ok());
        if minimum.is_none() {
            self.record_error(path, &shown(found), EXPECTED_MINIMUM);
        }
        minimum
    }

    fn parse_duration(&mut self, field: &str) -> Option<GoDuration> {
        let found = self.spec.get(field).filter(|found| !found.is_null())?;
        let duration = found.as_str().and_then(parse_go_duration);
        if duration.is_none() {
            self.record_error(&format!("spec.{field}"), &shown(found), EXPECTED_DURATION);
        }
        duration
    }

    fn parse_attempts(&mut self, object: &Value, pool: &str) -> SchedulingAttempts {
        match self.spec.get("schedulingBackoff").filter(|found| !found.is_null()) {
            None => SchedulingAttempts::Unlimited,
            Some(found) => match found.as_i64() {
                Some(-1) => SchedulingAttempts::Unlimited,
                Some(1) => {
                    SchedulingAttempts::Single { has_failed: is_last_attempt_failed(object, pool) }
                }
                _ => {
                    self.record_error("spec.schedulingBackoff", &shown(found), EXPECTED_BACKOFF);
                    SchedulingAttempts::Unlimited
                }
            },
        }
    }

    fn parse_mark_unschedulable(&mut self) -> bool {
        let Some(found) = self.spec.get("markUnschedulable").filter(|found| !found.is_null())
        else {
            return true;
        };
        let marks = found.as_bool();
        if marks.is_none() {
            self.record_error("spec.markUnschedulable", &shown(found), EXPECTED_MARK);
        }
        marks.unwrap_or(true)
    }

    fn parse_preemptible(&mut self) -> Option<bool> {
        match text(self.spec, "/preemptibility").unwrap_or_default() {
            "preemptible" => Some(true),
            "non-preemptible" => Some(false),
            "" => None,
            other => {
                self.record_error("spec.preemptibility", other, EXPECTED_PREEMPTIBILITY);
                None
            }
        }
    }

    /// Parses the sub-groups, with parents as positions. A group without sub-groups gets one named
    /// `default`.
    fn parse_sub_groups(&mut self, min_member: u32) -> Vec<SubGroup> {
        let items = list(self.spec, "/subGroups");
        if items.is_empty() {
            let name = "default".into();
            return vec![SubGroup {
                name,
                min_member,
                parent: None,
                min_sub_group: None,
                topology: None,
            }];
        }
        let names: Vec<&str> =
            items.iter().map(|item| text(item, "/name").unwrap_or_default()).collect();
        let mut sub_groups = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let name = names[position];
            if names[..position].contains(&name) {
                self.record_error("spec.subGroups: name", name, EXPECTED_UNIQUE_NAME);
            }
            let parent_name = text(item, "/parent").filter(|parent| !parent.is_empty());
            let parent = parent_name.and_then(|parent| names.iter().position(|n| *n == parent));
            if let (Some(parent_name), None) = (parent_name, parent) {
                self.record_error("spec.subGroups: parent", parent_name, EXPECTED_PARENT);
            }
            let is_parent = items.iter().any(|child| text(child, "/parent") == Some(name));
            let least = u32::from(!is_parent);
            let path = |field: &str| format!("spec.subGroups[{position}].{field}");
            let min_member = self.parse_minimum(item, &path("minMember"));
            if let (true, Some(minimum)) = (is_parent, min_member) {
                self.record_error(
                    "spec.subGroups: minMember",
                    &format!("{minimum} of {name}"),
                    EXPECTED_MIN_SUB_GROUP,
                );
            }
            sub_groups.push(SubGroup {
                name: name.into(),
                min_member: min_member.unwrap_or(least),
                parent,
                min_sub_group: self.parse_minimum(item, &path("minSubGroup")),
                topology: self.parse_topology(item, "spec.subGroups: ", name),
            });
        }
        self.break_cycles(&mut sub_groups);
        sub_groups
    }

    /// Parses a topology constraint. Records an error for a level without topology and for a
    /// topology without level. `prefix` goes before the field in the message; `sub_group` is empty
    /// for the pod group itself.
    fn parse_topology(
        &mut self,
        of: &Value,
        prefix: &str,
        sub_group: &str,
    ) -> Option<TopologyConstraint> {
        let whose = if sub_group.is_empty() { "" } else { &format!(" in {sub_group}") };
        let Some(constraint) = topology::topology_constraint(of) else {
            let topology = text(of, "/topologyConstraint/topology");
            if let Some(topology) = topology.filter(|topology| !topology.is_empty()) {
                let found = format!("topology {topology} without a level{whose}");
                self.record_error(&format!("{prefix}topologyConstraint"), &found, EXPECTED_LEVELS);
            }
            return None;
        };
        if constraint.topology.is_empty() {
            let found = format!("nothing{whose}");
            self.record_error(
                &format!("{prefix}topologyConstraint.topology"),
                &found,
                EXPECTED_TOPOLOGY,
            );
        }
        Some(constraint)
    }

    /// Records an error for a minimum above the number of children, which can never be met. A group
    /// without sub-groups counts as one child.
    fn check_min_sub_group(
        &mut self,
        all: &[SubGroup],
        parent: Option<usize>,
        minimum: Option<u32>,
    ) {
        let Some(minimum) = minimum else { return };
        let there = all.iter().filter(|part| part.parent == parent).count();
        if usize::try_from(minimum).is_ok_and(|minimum| minimum <= there) {
            return;
        }
        let (field, whose) = match parent.and_then(|at| all.get(at)) {
            Some(part) => ("spec.subGroups: minSubGroup", format!(" below {}", part.name)),
            None => ("spec.minSubGroup", String::new()),
        };
        self.record_error(
            field,
            &format!("{minimum}, with {there} sub-groups{whose}"),
            EXPECTED_NO_MORE_THAN_EXIST,
        );
    }

    /// Records an error for a leaf sub-group that does not set `minMember`.
    fn check_leaf_minimums(&mut self) {
        let parts = list(self.spec, "/subGroups");
        let is_leaf = |name: &str| parts.iter().all(|part| text(part, "/parent") != Some(name));
        for (at, part) in parts.iter().enumerate() {
            let name = text(part, "/name").unwrap_or_default();
            let is_silent = part.get("minMember").is_none_or(Value::is_null);
            if is_silent && is_leaf(name) {
                let field = format!("spec.subGroups[{at}].minMember");
                self.record_error(&field, &format!("nothing of {name}"), EXPECTED_MIN_MEMBER);
            }
        }
    }

    /// Records an error for a cycle of parents, and removes parents until no cycle is left.
    fn break_cycles(&mut self, sub_groups: &mut [SubGroup]) {
        for start in 0..sub_groups.len() {
            if is_in_cycle(sub_groups, start) {
                self.record_error("spec.subGroups: parent", "a circle", EXPECTED_PARENT);
                sub_groups[start].parent = None;
            }
        }
    }
}

/// Whether the chain of parents from `start` is longer than the number of sub-groups.
fn is_in_cycle(sub_groups: &[SubGroup], start: usize) -> bool {
    let above = std::iter::successors(Some(start), |at| sub_groups[*at].parent);
    above.take(sub_groups.len() + 2).count() > sub_groups.len()
}
