//! The components of a kind: where a pod stands among them, and how many pods they start with.

use std::{cell::OnceCell, collections::BTreeMap};

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, TopologyConstraint};

use super::{
    ask::{Asked, Asking},
    jq::{Allowance, Found, Object, Purse},
};
use crate::parse::Malformed;

const MEMBER: &str = "a pod whose component, or one above it, is a member that takes it";
const OWN: &str = "a pod that the podSelector of a component with pods describes";
const SCALED: &str = "a component with at least one replica";
const INSTANCE: &str = "an instance that the workload has";
const PAIRED: &str = "as many as instances";
/// A PodGroup counts no more.
const PODS_MAX: u32 = i32::MAX as u32;
const COUNTED: &str = "at most 2147483647 pods";

/// How the pods of a kind are grouped.
#[derive(Debug, PartialEq)]
pub(crate) struct Karta {
    pub(super) called: Name,
    /// The root first.
    pub(super) components: Vec<Component>,
    pub(super) gang: Gang,
}

/// A component of the kind; what it says of pods is asked of a workload or of a pod.
#[derive(Debug, PartialEq)]
pub(super) struct Component {
    pub(super) name: Name,
    /// None of the root.
    pub(super) parent: Option<usize>,
    /// It says where its pods are described; others are made of components alone.
    pub(super) has_pods: bool,
    pub(super) scale: Option<Scale>,
    /// The names of its instances, where it may have several.
    pub(super) instances: Option<Asked>,
    pub(super) selector: Option<Selector>,
    /// The name of a pod's instance.
    pub(super) instance_of_pod: Option<Asked>,
}

/// How many pods a component has, by instance.
#[derive(Debug, PartialEq)]
pub(super) struct Scale {
    /// Where that is said.
    pub(super) field: String,
    pub(super) replicas: Option<Asked>,
    pub(super) least: Option<Asked>,
    pub(super) most: Option<Asked>,
}

/// By what a pod is known to be a component's.
#[derive(Debug, PartialEq)]
pub(super) enum Selector {
    /// Something is found.
    Has(Asked),
    /// True is found.
    Is(Asked),
}

/// Which pods of the kind start together.
#[derive(Debug, PartialEq)]
pub(super) enum Gang {
    /// One group a workload, of components or of all pods.
    Group {
        field: String,
        name: Name,
        topology: Option<TopologyConstraint>,
        sub_groups: Vec<SubGroup>,
    },
    /// Such a group that nobody can make: pods of the kind are told why.
    Unusable(Malformed),
    /// Groups of the pods for which expressions find the same.
    Members(Vec<Member>),
}

/// A component whose pods are a sub-group, with those of the components below it.
#[derive(Debug, PartialEq)]
pub(super) struct SubGroup {
    /// Where its component is named.
    pub(super) field: String,
    pub(super) component: usize,
    pub(super) topology: Option<TopologyConstraint>,
}

/// Pods of a component that are grouped by what these expressions find on each.
#[derive(Debug, PartialEq)]
pub(super) struct Member {
    /// Where the keys stand.
    pub(super) field: String,
    pub(super) component: usize,
    /// The words of the group's name.
    pub(super) keys: Vec<Asked>,
    /// All hold for the pods that it takes.
    pub(super) filters: Vec<Asked>,
}

/// The group of a pod.
#[derive(Debug, PartialEq)]
pub(crate) struct Grouped {
    /// What its name has beside the owner's UID.
    pub(crate) words: Vec<String>,
    /// The field that they come from.
    pub(crate) field: String,
    pub(crate) topology: Option<TopologyConstraint>,
    /// How many pods must run together, where there are no sub-groups.
    pub(crate) minimum: u32,
    pub(crate) parts: Vec<Part>,
    /// The part that the pod stands in.
    pub(crate) part: Option<Name>,
}

/// A sub-group.
#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) name: Name,
    pub(crate) minimum: u32,
    pub(crate) topology: Option<TopologyConstraint>,
}

impl Karta {
    /// The group of a pod of a workload.
    pub(crate) fn group(
        &self,
        (workload, pod): (&Value, &Value),
        allowance: &Allowance,
    ) -> Result<Grouped, Malformed> {
        let purse = Purse::new();
        let grouped = self.group_for(&purse, workload, pod);
        allowance.pay(&purse);
        grouped
    }

    fn group_for(
        &self,
        purse: &Purse,
        workload: &Value,
        pod: &Value,
    ) -> Result<Grouped, Malformed> {
        let asking = |object| Asking { of: Object::of(object), purse };
        let scales = self.components.iter().map(|_| OnceCell::new()).collect();
        let case = Case { karta: self, workload: asking(workload), pod: asking(pod), scales };
        match &self.gang {
            Gang::Group { field, name, topology, sub_groups } => {
                let (parts, part) = case.parts(sub_groups)?;
                let minimum = if parts.is_empty() { case.start(field, 0, None)? } else { 0 };
                let (words, field) = (vec![name.to_string()], field.clone());
                Ok(Grouped { words, field, topology: topology.clone(), minimum, parts, part })
            }
            Gang::Unusable(wrong) => Err(wrong.clone()),
            Gang::Members(members) => case.by_words(members, pod),
        }
    }
}

/// Pods that the instances of a component start with, by their names.
type Scales = BTreeMap<String, u32>;

/// A pod to be grouped.
struct Case<'a> {
    karta: &'a Karta,
    workload: Asking<'a>,
    pod: Asking<'a>,
    /// By component, as soon as they are known.
    scales: Vec<OnceCell<Scales>>,
}

/// One instance of a component, all of which are meant else.
type Instance<'i> = Option<(usize, &'i str)>;

impl Case<'_> {
    fn component(&self, at: usize) -> &Component {
        &self.karta.components[at]
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        let all = self.karta.components.iter().enumerate();
        all.filter(move |(_, component)| component.parent == Some(of)).map(|(at, _)| at)
    }

    /// The sub-groups, and the first of them that has the pod.
    fn parts(&self, sub_groups: &[SubGroup]) -> Result<(Vec<Part>, Option<Name>), Malformed> {
        let (mut parts, mut part) = (Vec::new(), None);
        for SubGroup { field, component, topology } in sub_groups {
            let name = &self.component(*component).name;
            let minimum = self.start(field, *component, None)?;
            if minimum == 0 {
                let found = format!("{name} with no replicas");
                return Err(Malformed::new(field, found, SCALED));
            }
            if part.is_none() && self.stands_below(*component)? {
                part = Some(Name::clone(name));
            }
            let (name, topology) = (Name::clone(name), topology.clone());
            parts.push(Part { name, minimum, topology });
        }
        Ok((parts, part))
    }

    /// The pod is of a component, or of one that this one owns.
    fn stands_below(&self, at: usize) -> Result<bool, Malformed> {
        if self.is_of(at)? {
            return Ok(true);
        }
        for child in self.children(at) {
            if self.stands_below(child)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_of(&self, at: usize) -> Result<bool, Malformed> {
        Ok(match &self.component(at).selector {
            None => false,
            Some(Selector::Has(key)) => key.all(&self.pod)?.iter().any(|it| *it != Found::Null),
            Some(Selector::Is(key)) => key.all(&self.pod)?.contains(&Found::Bool(true)),
        })
    }

    fn by_words(&self, members: &[Member], pod: &Value) -> Result<Grouped, Malformed> {
        let called = crate::parse::text(pod, "/metadata/name").unwrap_or_default();
        let nobodys = |part: &str, allowed| {
            let found = format!("no {part} of Karta {} for it", self.karta.called);
            Malformed::new(format!("pod {called}"), found, allowed)
        };
        let own = self.own_component()?.ok_or_else(|| nobodys("component", OWN))?;
        let member = self.member(own, members)?.ok_or_else(|| nobodys("member", MEMBER))?;
        let instance = if member.component == own { self.instance(own)? } else { None };
        let words = member.keys.iter().map(|key| key.word(&self.pod));
        let words = words.collect::<Result<Vec<String>, Malformed>>()?;
        let instance = instance.as_deref().map(|name| (own, name));
        let minimum = self.start(&member.field, member.component, instance)?;
        let field = member.field.clone();
        Ok(Grouped { words, field, topology: None, minimum, parts: Vec::new(), part: None })
    }

    /// The component that the pod is of: the only one with pods, or the first that it is known by.
    fn own_component(&self) -> Result<Option<usize>, Malformed> {
        let all = self.karta.components.iter().enumerate();
        let with_pods = all.filter(|(_, component)| component.has_pods).map(|(at, _)| at);
        let with_pods: Vec<usize> = with_pods.collect();
        if let [only] = *with_pods {
            return Ok(Some(only));
        }
        for at in with_pods {
            if self.is_of(at)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The first member that is the pod's component, else the next above it, and takes the pod.
    fn member<'m>(
        &self,
        own: usize,
        members: &'m [Member],
    ) -> Result<Option<&'m Member>, Malformed> {
        let above = std::iter::successors(Some(own), |at| self.component(*at).parent);
        let candidates =
            above.flat_map(|at| members.iter().filter(move |member| member.component == at));
        for member in candidates {
            if self.passes(&member.filters)? {
                return Ok(Some(member));
            }
        }
        Ok(None)
    }

    fn passes(&self, filters: &[Asked]) -> Result<bool, Malformed> {
        for filter in filters {
            if filter.one(&self.pod)? != Found::Bool(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The instance that the pod is of, where its component may have several.
    fn instance(&self, own: usize) -> Result<Option<String>, Malformed> {
        let component = self.component(own);
        let (Some(names), Some(of_pod)) = (&component.instances, &component.instance_of_pod) else {
            return Ok(None);
        };
        let names = names.names(&self.workload)?;
        if names.is_empty() {
            return Ok(None);
        }
        let name = of_pod.word(&self.pod)?;
        if names.contains(&name) { Ok(Some(name)) } else { Err(of_pod.wrong(&name, INSTANCE)) }
    }

    /// With how many pods starts what this field says to group.
    fn start(&self, field: &str, at: usize, instance: Instance<'_>) -> Result<u32, Malformed> {
        let pods = self.pods_below(at, instance)?;
        let too_many = || Malformed::new(field, "a workload with more", COUNTED);
        Some(pods).filter(|pods| *pods <= PODS_MAX).ok_or_else(too_many)
    }

    /// How many pods a component and those below it start with; there may be more than can be
    /// counted.
    fn pods_below(&self, at: usize, instance: Instance<'_>) -> Result<u32, Malformed> {
        if self.karta.components.iter().any(|component| component.scale.is_some()) {
            self.by_scale(at, instance)
        } else {
            self.by_components(at, instance)
        }
    }

    /// Replicas of what is above multiply; who says nothing has as many as the others say.
    fn by_scale(&self, at: usize, instance: Instance<'_>) -> Result<u32, Malformed> {
        let scales = self.scales(at)?;
        let own = match instance.filter(|(of, _)| *of == at && scales.len() > 1) {
            Some((_, name)) => scales.get(name).copied().unwrap_or(0),
            None => scales.values().fold(0_u32, |sum, scale| sum.saturating_add(*scale)),
        };
        let mut below = 0_u32;
        for child in self.children(at) {
            below = below.saturating_add(self.by_scale(child, instance)?);
        }
        Ok(match (own, below) {
            (own, 0) => own,
            (0, below) => below,
            (own, below) => own.saturating_mul(below),
        })
    }

    fn scales(&self, at: usize) -> Result<&Scales, Malformed> {
        let known = &self.scales[at];
        if let Some(known) = known.get() {
            return Ok(known);
        }
        let scales = self.scales_of(self.component(at))?;
        Ok(known.get_or_init(|| scales))
    }

    fn scales_of(&self, component: &Component) -> Result<Scales, Malformed> {
        let Some(scale) = &component.scale else { return Ok(Scales::new()) };
        let counts = |asked: &Option<Asked>| {
            asked.as_ref().map_or(Ok(Vec::new()), |asked| asked.counts(&self.workload))
        };
        let (replicas, least) = (counts(&scale.replicas)?, counts(&scale.least)?);
        let count = replicas.len().max(least.len()).max(counts(&scale.most)?.len());
        let names = match &component.instances {
            None => vec![String::new()],
            Some(names) => names.names(&self.workload)?,
        };
        if names.len() != count {
            let found = format!("{count}, while there are {} instances", names.len());
            return Err(Malformed::new(&scale.field, found, PAIRED));
        }
        let said =
            |of: &[Option<u32>], at: usize| of.get(at).copied().flatten().filter(|it| *it > 0);
        let scale =
            |(at, name)| (name, said(&least, at).or_else(|| said(&replicas, at)).unwrap_or(0));
        Ok(names.into_iter().enumerate().map(scale).collect())
    }

    /// Where no component says how many there are: one of each that has pods.
    fn by_components(&self, at: usize, instance: Instance<'_>) -> Result<u32, Malformed> {
        let component = self.component(at);
        if component.has_pods {
            let Some(names) = &component.instances else { return Ok(1) };
            let names = names.names(&self.workload)?;
            let is_meant = instance.is_some_and(|(of, _)| of == at);
            return Ok(if is_meant { 1 } else { u32::try_from(names.len()).unwrap_or(u32::MAX) });
        }
        let mut pods = 0_u32;
        for child in self.children(at) {
            pods = pods.saturating_add(self.by_components(child, instance)?);
        }
        Ok(pods)
    }
}
