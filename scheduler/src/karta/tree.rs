//! Evaluates a Karta for a pod: finds its component, and counts the pods that the workload's
//! components start with.

use std::{cell::OnceCell, collections::BTreeMap};

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, TopologyConstraint};

use super::{
    expression::{EvalContext, Expression},
    jq::{Budget, CycleBudget, JqInput, JqValue},
};
use crate::parse::Malformed;

const EXPECTED_MEMBER: &str =
    "a pod whose component, or an ancestor of it, is a member with matching filters";
const EXPECTED_COMPONENT: &str = "a pod that the podSelector of a component with pods selects";
const EXPECTED_REPLICA: &str = "a component with at least one replica";
const EXPECTED_INSTANCE: &str = "an instance of the workload";
const EXPECTED_COUNT_PER_INSTANCE: &str = "one count per instance";
/// Maximum of `minMember` in the PodGroup API.
const PODS_MAX: u32 = i32::MAX as u32;
const EXPECTED_PODS: &str = "at most 2147483647 pods";

/// A valid Karta: how the pods of one kind of workload are grouped.
#[derive(Debug, PartialEq)]
pub(crate) struct Karta {
    pub(super) name: Name,
    /// All components; the root is the first one.
    pub(super) components: Vec<Component>,
    pub(super) gang: Gang,
}

/// A component of a kind of workload, with expressions over the workload or over a pod.
#[derive(Debug, PartialEq)]
pub(super) struct Component {
    pub(super) name: Name,
    /// Index of the parent; `None` for the root.
    pub(super) parent: Option<usize>,
    /// Whether the component has a pod spec; other components consist of child components only.
    pub(super) has_pods: bool,
    pub(super) scale: Option<Scale>,
    /// Expression over the workload for the names of the component's instances, if there may be
    /// several.
    pub(super) instances: Option<Expression>,
    pub(super) selector: Option<Selector>,
    /// Expression over a pod for the name of its instance.
    pub(super) instance_of_pod: Option<Expression>,
}

/// Replica counts of a component, one per instance.
#[derive(Debug, PartialEq)]
pub(super) struct Scale {
    /// Field path, for error messages.
    pub(super) field: String,
    pub(super) replicas: Option<Expression>,
    pub(super) min_replicas: Option<Expression>,
    pub(super) max_replicas: Option<Expression>,
}

/// Condition on a pod that decides whether it belongs to a component.
#[derive(Debug, PartialEq)]
pub(super) enum Selector {
    /// The expression returns a value that is not null.
    Exists(Expression),
    /// The expression returns true.
    IsTrue(Expression),
}

/// How pods are grouped into gangs.
#[derive(Debug, PartialEq)]
pub(super) enum Gang {
    /// One group per workload, with sub-groups or for all pods.
    SingleGroup {
        field: String,
        name: Name,
        topology: Option<TopologyConstraint>,
        sub_groups: Vec<SubGroup>,
    },
    /// An invalid definition of a single group; pods of the kind get this error.
    Invalid(Malformed),
    /// One group per distinct values of key expressions over the pods.
    GroupedByKeys(Vec<Member>),
}

/// A sub-group of the pods of a component and of all components below it.
#[derive(Debug, PartialEq)]
pub(super) struct SubGroup {
    /// Field path of the component name, for error messages.
    pub(super) field: String,
    pub(super) component: usize,
    pub(super) topology: Option<TopologyConstraint>,
}

/// Pods of a component that are grouped by key expressions.
#[derive(Debug, PartialEq)]
pub(super) struct Member {
    /// Field path of the keys, for error messages.
    pub(super) field: String,
    pub(super) component: usize,
    /// Expressions whose results become name suffixes of the group.
    pub(super) keys: Vec<Expression>,
    /// Expressions that must all return true for a pod.
    pub(super) filters: Vec<Expression>,
}

/// The group of a pod, as its Karta defines it.
#[derive(Debug, PartialEq)]
pub(crate) struct GroupAssignment {
    /// Suffixes of the group's name after the owner's UID.
    pub(crate) name_suffixes: Vec<String>,
    /// Field path that the suffixes come from, for error messages.
    pub(crate) field: String,
    pub(crate) topology: Option<TopologyConstraint>,
    /// `minMember` of a group without sub-groups.
    pub(crate) min_member: u32,
    pub(crate) sub_groups: Vec<SubGroupSpec>,
    /// Sub-group of the pod; `None` if the pod is in none.
    pub(crate) sub_group: Option<Name>,
}

/// A sub-group, with its minimum.
#[derive(Debug, PartialEq)]
pub(crate) struct SubGroupSpec {
    pub(crate) name: Name,
    pub(crate) min_member: u32,
    pub(crate) topology: Option<TopologyConstraint>,
}

impl Karta {
    /// Evaluates the Karta for a pod of a workload, and charges the cost to `cycle_budget`.
    pub(crate) fn assign_group(
        &self,
        workload: &Value,
        pod: &Value,
        cycle_budget: &CycleBudget,
    ) -> Result<GroupAssignment, Malformed> {
        let budget = Budget::new();
        let grouped = self.assign_group_within(&budget, workload, pod);
        cycle_budget.charge_pod(&budget);
        grouped
    }

    fn assign_group_within(
        &self,
        budget: &Budget,
        workload: &Value,
        pod: &Value,
    ) -> Result<GroupAssignment, Malformed> {
        let context = |object| EvalContext { input: JqInput::from_object(object), budget };
        let scales = self.components.iter().map(|_| OnceCell::new()).collect();
        let case =
            Evaluation { karta: self, workload: context(workload), pod: context(pod), scales };
        match &self.gang {
            Gang::SingleGroup { field, name, topology, sub_groups } => {
                let (parts, part) = case.evaluate_sub_groups(sub_groups)?;
                let minimum =
                    if parts.is_empty() { case.min_member_of(field, 0, None)? } else { 0 };
                let (words, field) = (vec![name.to_string()], field.clone());
                Ok(GroupAssignment {
                    name_suffixes: words,
                    field,
                    topology: topology.clone(),
                    min_member: minimum,
                    sub_groups: parts,
                    sub_group: part,
                })
            }
            Gang::Invalid(wrong) => Err(wrong.clone()),
            Gang::GroupedByKeys(members) => case.group_by_keys(members, pod),
        }
    }
}

/// Number of pods that a component starts with, by name of the instance.
type InstancePodCounts = BTreeMap<String, u32>;

/// The evaluation of a Karta for one pod of a workload.
struct Evaluation<'a> {
    karta: &'a Karta,
    workload: EvalContext<'a>,
    pod: EvalContext<'a>,
    /// The pod counts of each component; computed on first use.
    scales: Vec<OnceCell<InstancePodCounts>>,
}

/// Whose pods to count: those of one instance (index of its component, its name); `None`: those of
/// all instances.
type InstanceFilter<'i> = Option<(usize, &'i str)>;

impl Evaluation<'_> {
    fn component(&self, index: usize) -> &Component {
        &self.karta.components[index]
    }

    fn child_indices(&self, parent: usize) -> impl Iterator<Item = usize> {
        let all = self.karta.components.iter().enumerate();
        all.filter(move |(_, component)| component.parent == Some(parent)).map(|(at, _)| at)
    }

    /// All sub-groups, and the name of the first one that contains the pod.
    fn evaluate_sub_groups(
        &self,
        sub_groups: &[SubGroup],
    ) -> Result<(Vec<SubGroupSpec>, Option<Name>), Malformed> {
        let (mut parts, mut part) = (Vec::new(), None);
        for SubGroup { field, component, topology } in sub_groups {
            let name = &self.component(*component).name;
            let minimum = self.min_member_of(field, *component, None)?;
            if minimum == 0 {
                let found = format!("{name} with no replicas");
                return Err(Malformed::new(field, found, EXPECTED_REPLICA));
            }
            if part.is_none() && self.contains_pod(*component)? {
                part = Some(Name::clone(name));
            }
            let (name, topology) = (Name::clone(name), topology.clone());
            parts.push(SubGroupSpec { name, min_member: minimum, topology });
        }
        Ok((parts, part))
    }

    /// Whether the pod belongs to this component or to one below it.
    fn contains_pod(&self, at: usize) -> Result<bool, Malformed> {
        if self.selects_pod(at)? {
            return Ok(true);
        }
        for child in self.child_indices(at) {
            if self.contains_pod(child)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn selects_pod(&self, at: usize) -> Result<bool, Malformed> {
        Ok(match &self.component(at).selector {
            None => false,
            Some(Selector::Exists(key)) => {
                key.values(&self.pod)?.iter().any(|it| *it != JqValue::Null)
            }
            Some(Selector::IsTrue(key)) => key.values(&self.pod)?.contains(&JqValue::Bool(true)),
        })
    }

    fn group_by_keys(&self, members: &[Member], pod: &Value) -> Result<GroupAssignment, Malformed> {
        let called = crate::parse::text(pod, "/metadata/name").unwrap_or_default();
        let unmatched = |part: &str, allowed| {
            let found = format!("no {part} of Karta {} for this pod", self.karta.name);
            Malformed::new(format!("pod {called}"), found, allowed)
        };
        let own =
            self.component_of_pod()?.ok_or_else(|| unmatched("component", EXPECTED_COMPONENT))?;
        let member = self
            .matching_member(own, members)?
            .ok_or_else(|| unmatched("member", EXPECTED_MEMBER))?;
        let instance = if member.component == own { self.instance_of_pod(own)? } else { None };
        let name_suffixes = member.keys.iter().map(|key| key.scalar_text(&self.pod));
        let name_suffixes = name_suffixes.collect::<Result<Vec<String>, Malformed>>()?;
        let instance = instance.as_deref().map(|name| (own, name));
        let minimum = self.min_member_of(&member.field, member.component, instance)?;
        let field = member.field.clone();
        Ok(GroupAssignment {
            name_suffixes,
            field,
            topology: None,
            min_member: minimum,
            sub_groups: Vec::new(),
            sub_group: None,
        })
    }

    /// Index of the pod's component: the only one with pods, or else the first whose selector
    /// matches.
    fn component_of_pod(&self) -> Result<Option<usize>, Malformed> {
        let all = self.karta.components.iter().enumerate();
        let with_pods = all.filter(|(_, component)| component.has_pods).map(|(at, _)| at);
        let with_pods: Vec<usize> = with_pods.collect();
        if let [only] = *with_pods {
            return Ok(Some(only));
        }
        for at in with_pods {
            if self.selects_pod(at)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The first matching member for the pod's component, or else for the nearest ancestor with
    /// one.
    fn matching_member<'m>(
        &self,
        own: usize,
        members: &'m [Member],
    ) -> Result<Option<&'m Member>, Malformed> {
        let above = std::iter::successors(Some(own), |at| self.component(*at).parent);
        let candidates =
            above.flat_map(|at| members.iter().filter(move |member| member.component == at));
        for member in candidates {
            if self.passes_filters(&member.filters)? {
                return Ok(Some(member));
            }
        }
        Ok(None)
    }

    fn passes_filters(&self, filters: &[Expression]) -> Result<bool, Malformed> {
        for filter in filters {
            if filter.single_value(&self.pod)? != JqValue::Bool(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Instance of the pod; `None` if its component has no instances.
    fn instance_of_pod(&self, own: usize) -> Result<Option<String>, Malformed> {
        let component = self.component(own);
        let (Some(names), Some(of_pod)) = (&component.instances, &component.instance_of_pod) else {
            return Ok(None);
        };
        let names = names.names(&self.workload)?;
        if names.is_empty() {
            return Ok(None);
        }
        let name = of_pod.scalar_text(&self.pod)?;
        if names.contains(&name) {
            Ok(Some(name))
        } else {
            Err(of_pod.malformed(&name, EXPECTED_INSTANCE))
        }
    }

    /// Number of pods that a component starts with, checked against [`PODS_MAX`].
    fn min_member_of(
        &self,
        field: &str,
        at: usize,
        instance: InstanceFilter<'_>,
    ) -> Result<u32, Malformed> {
        let pods = self.initial_pods(at, instance)?;
        let too_many = || Malformed::new(field, "more", EXPECTED_PODS);
        Some(pods).filter(|pods| *pods <= PODS_MAX).ok_or_else(too_many)
    }

    /// Number of pods that a component and those below it start with; saturates at `u32::MAX`.
    fn initial_pods(&self, at: usize, instance: InstanceFilter<'_>) -> Result<u32, Malformed> {
        if self.karta.components.iter().any(|component| component.scale.is_some()) {
            self.pods_by_scale(at, instance)
        } else {
            self.pods_by_component(at, instance)
        }
    }

    /// Number of initial pods by scale definitions: the replicas of a component multiply the pods
    /// below it. A component without replicas has the pods below it, and one with nothing below has
    /// its replicas.
    fn pods_by_scale(&self, at: usize, instance: InstanceFilter<'_>) -> Result<u32, Malformed> {
        let scales = self.instance_pod_counts(at)?;
        let own = match instance.filter(|(of, _)| *of == at && scales.len() > 1) {
            Some((_, name)) => scales.get(name).copied().unwrap_or(0),
            None => scales.values().fold(0_u32, |sum, scale| sum.saturating_add(*scale)),
        };
        let mut below = 0_u32;
        for child in self.child_indices(at) {
            below = below.saturating_add(self.pods_by_scale(child, instance)?);
        }
        Ok(match (own, below) {
            (own, 0) => own,
            (0, below) => below,
            (own, below) => own.saturating_mul(below),
        })
    }

    fn instance_pod_counts(&self, at: usize) -> Result<&InstancePodCounts, Malformed> {
        let known = &self.scales[at];
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let scales = self.compute_instance_pod_counts(self.component(at))?;
        Ok(known.get_or_init(|| scales))
    }

    fn compute_instance_pod_counts(
        &self,
        component: &Component,
    ) -> Result<InstancePodCounts, Malformed> {
        let Some(scale) = &component.scale else { return Ok(InstancePodCounts::new()) };
        let counts = |expression: &Option<Expression>| {
            expression.as_ref().map_or(Ok(Vec::new()), |asked| asked.pod_counts(&self.workload))
        };
        let (replicas, least) = (counts(&scale.replicas)?, counts(&scale.min_replicas)?);
        let count = replicas.len().max(least.len()).max(counts(&scale.max_replicas)?.len());
        let names = match &component.instances {
            None => vec![String::new()],
            Some(names) => names.names(&self.workload)?,
        };
        if names.len() != count {
            let found = format!("{count} replica counts for {} instances", names.len());
            return Err(Malformed::new(&scale.field, found, EXPECTED_COUNT_PER_INSTANCE));
        }
        let positive =
            |of: &[Option<u32>], at: usize| of.get(at).copied().flatten().filter(|it| *it > 0);
        let scale = |(at, name)| {
            (name, positive(&least, at).or_else(|| positive(&replicas, at)).unwrap_or(0))
        };
        Ok(names.into_iter().enumerate().map(scale).collect())
    }

    /// Number of initial pods without any scale definition: one pod per instance of each component
    /// with pods.
    fn pods_by_component(&self, at: usize, instance: InstanceFilter<'_>) -> Result<u32, Malformed> {
        let component = self.component(at);
        if component.has_pods {
            let Some(names) = &component.instances else { return Ok(1) };
            let names = names.names(&self.workload)?;
            let is_meant = instance.is_some_and(|(of, _)| of == at);
            return Ok(if is_meant { 1 } else { u32::try_from(names.len()).unwrap_or(u32::MAX) });
        }
        let mut pods = 0_u32;
        for child in self.child_indices(at) {
            pods = pods.saturating_add(self.pods_by_component(child, instance)?);
        }
        Ok(pods)
    }
}
