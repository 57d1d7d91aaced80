//! Why a pod fits on no node, and what one would have to be like on which it did.

use std::collections::{BTreeMap, BTreeSet};

use super::{Asked, Free, Session, parts_on};
use crate::{
    decision::{Lacking, Misfit, Misfits, Pin, PlaceMisfit, Site},
    model::{HOSTNAME, Name, Node, NodeId, PodId, PodShape, Selection, WhenUnsatisfiable},
};

impl Session<'_> {
    /// Why the pod fits on no node. Nodes on which it does are not counted.
    pub fn misfits(&self, pod: PodId, within: Option<&BTreeSet<NodeId>>) -> Misfits {
        self.misfits_beside(pod, within, &BTreeMap::new())
    }

    /// The same, where nodes are `outside` of its places, too.
    pub(super) fn misfits_beside(
        &self,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
        outside: &BTreeMap<NodeId, PlaceMisfit>,
    ) -> Misfits {
        let filters = self.all_filters(pod);
        let mut survey = Survey::of(self, pod);
        let selection = self.shape_of(pod).selection();
        let is_by_name = selection == Selection::Names;
        let mut misfits = Misfits { selection, ..Misfits::default() };
        let group = self.pod(pod).group;
        let has_mates = group.is_some_and(|group| self.members(group).active() > 0);
        let is_for_mates =
            |node, worst: &Misfit| has_mates && self.is_for_mates(pod, (node, worst));
        let mut is_any_for_it = within.is_some();
        for node in self.nodes_among(within) {
            let place = outside.get(&node).cloned().map(Misfit::Place);
            let against: Vec<Misfit> =
                filters.iter().filter_map(|filter| filter(node).err()).collect();
            is_any_for_it |= !against.iter().any(Misfit::is_of_role);
            if let Some(survey) = &mut survey {
                survey.look_at(self.node(node), &against, place.is_some());
                let more = self.room_if_uneven(pod, (node, &against));
                survey.site.room_if_uneven = survey.site.room_if_uneven.saturating_add(more);
            }
            if is_by_name && !against.iter().any(Misfit::is_not_selected) {
                let is_small = against.iter().any(Misfit::is_too_small);
                misfits.named_are_small = Some(is_small && misfits.named_are_small != Some(false));
            }
            misfits.count(against.into_iter().chain(place), |worst| is_for_mates(node, worst));
        }
        misfits.site = survey.map(|survey| Box::new(survey.site()));
        if !is_any_for_it {
            misfits.left_out = self.left_out_for(pod);
        }
        misfits
    }

    /// How many pods like it the node has room for, if its spread is all that speaks against them.
    fn room_if_uneven(&self, pod: PodId, (node, against): (NodeId, &[Misfit])) -> u32 {
        if !matches!(against, [only] if only.is_of_spread()) {
            return 0;
        }
        self.room_on(node, pod)
    }

    /// How many pods like it the node has room for, whatever else speaks against them.
    pub(super) fn room_on(&self, node: NodeId, pod: PodId) -> u32 {
        let (shape, of) = (self.shape_of(pod), self.node(node));
        let (once, parts) = (&shape.new_claims_on(of), parts_on(of, shape.shared_gpu.as_ref()));
        Free::of(self, node).times(None, Asked { resources: &shape.requests, once, parts })
    }

    /// How many nodes that are left out lack what for the pod; `None`: there are none.
    fn left_out_for(&self, pod: PodId) -> Option<Box<Lacking>> {
        let mut lacking = Lacking::default();
        for left_out in &self.snapshot.left_out {
            let nodes = u32::try_from(left_out.nodes.len()).expect("node ids are 32 bits");
            let Some(first) = left_out.nodes.iter().min() else { continue };
            let lacks = left_out.lacks_for(self.shape_of(pod));
            let (all, name) = lacking.0.entry(lacks).or_insert_with(|| (0, Name::clone(first)));
            *all += nodes;
            if first < name {
                *name = Name::clone(first);
            }
        }
        (!lacking.0.is_empty()).then(|| Box::new(lacking))
    }

    /// Labels over which pods that are there shun this one.
    fn shunned_over(&self, pod: PodId) -> BTreeSet<Name> {
        let minding = self.minding(pod);
        let there = minding.shunning.iter();
        let there = there
            .filter(|(other, _)| *other != pod && self.state(*other).places().next().is_some());
        let term = |(other, at): &(PodId, usize)| {
            Name::clone(&self.shape_of(*other).pod_anti_affinity[*at].topology_key)
        };
        there.map(term).collect()
    }
}

/// What nodes tell of where a pod could be.
struct Survey<'a> {
    shape: &'a PodShape,
    site: Site,
    /// Values of labels that matter, of all nodes, and of those on which it has to be apart from
    /// others.
    values: BTreeMap<Name, BTreeSet<Name>>,
    shut: BTreeMap<Name, BTreeSet<Name>>,
}

impl<'a> Survey<'a> {
    /// `None`: it does not matter to the pod where others are, or who gives GPUs.
    fn of(session: &'a Session<'_>, pod: PodId) -> Option<Self> {
        let (shape, shunned) = (session.shape_of(pod), session.shunned_over(pod));
        let hard = shape.topology_spread.iter();
        let hard =
            hard.filter(|spread| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        let spread: Vec<&Name> = hard.map(|spread| &spread.topology_key).collect();
        let is_alone = shape.minds_others();
        let cares = is_alone
            || !(shunned.is_empty() && spread.is_empty() && shape.pod_affinity.is_empty())
            || !shape.gpu_classes.is_empty();
        let mut apart_over = shape.apart_over();
        apart_over.extend(shunned.into_iter().filter(|label| **label != *HOSTNAME));
        let spread = spread.into_iter().filter(|label| ***label != *HOSTNAME);
        let even = spread.map(|label| (Name::clone(label), BTreeSet::new())).collect();
        let (asks, gpu_classes) = (shape.room_for(1), shape.gpu_classes.clone());
        cares.then(|| Self {
            shape,
            site: Site { asks, gpu_classes, apart_over, even, is_alone, ..Site::default() },
            values: BTreeMap::new(),
            shut: BTreeMap::new(),
        })
    }

    fn look_at(&mut self, node: &Node, against: &[Misfit], is_out_of_place: bool) {
        let site = &mut self.site;
        let of_place = against.iter().filter(|misfit| misfit.place_need().is_some());
        if let Some(nearest) = of_place.min_by_key(|misfit| rank(misfit))
            && site.kept_by.as_ref().is_none_or(|kept| rank(nearest) < rank(kept))
        {
            site.kept_by = Some(nearest.clone());
        }
        let is_shut = against.iter().any(Misfit::is_of_apartness);
        for label in site.apart_over.iter().chain(site.even.keys()) {
            let Some(value) = node.labels.get(label) else { continue };
            if is_shut {
                note(&mut self.shut, label, value);
            }
            note(&mut self.values, label, value);
        }
        if let (1, Some(label)) = (site.apart_over.len(), site.apart_over.first())
            && !is_out_of_place
            && against.iter().all(Misfit::is_too_full)
        {
            site.full.extend(node.labels.get(label).cloned());
        }
        if against.iter().any(Misfit::is_not_selected) {
            return;
        }
        for (label, values) in &mut site.even {
            if !against.iter().any(|misfit| misfit.is_of_spread_over(label)) {
                values.extend(node.labels.get(label).cloned());
            }
        }
        let is_far = |misfit| matches!(misfit, &Misfit::PodAffinity | &Misfit::AffinityToMates);
        if site.near.is_none() && !against.iter().any(is_far) {
            let keys = self.shape.pod_affinity.iter().map(|term| &term.topology_key);
            let value_of =
                |label: &Name| Some((Name::clone(label), node.labels.get(label)?.clone()));
            let near: BTreeMap<Name, Name> = keys.filter_map(value_of).collect();
            site.near = Some(near.into_iter().collect());
        }
    }

    fn site(self) -> Site {
        let Self { shape, mut site, values, shut } = self;
        let all_of = |label: &Name, among: &BTreeMap<Name, BTreeSet<Name>>| {
            let wanted = shape.values_of(label)?;
            wanted.is_subset(among.get(label)?).then_some(wanted)
        };
        let labels: BTreeSet<&Name> = site.apart_over.iter().chain(site.even.keys()).collect();
        let pinned = labels.into_iter().filter(|label| all_of(label, &values).is_some());
        site.pinned = pinned.cloned().collect();
        let mut apart = site.apart_over.iter();
        site.shut = apart.find_map(|label| {
            Some(Pin { label: Name::clone(label), values: all_of(label, &shut)? })
        });
        site
    }
}

/// A value of the label is there. Most are known: of those nothing is copied.
fn note(values: &mut BTreeMap<Name, BTreeSet<Name>>, label: &Name, value: &Name) {
    match values.get_mut(label) {
        Some(known) if known.contains(value) => {}
        Some(known) => drop(known.insert(Name::clone(value))),
        None => drop(values.insert(Name::clone(label), BTreeSet::from([Name::clone(value)]))),
    }
}

/// What is told of a node that is added for one reason has to hold for those after it, too.
fn rank(misfit: &Misfit) -> (bool, bool) {
    (!misfit.needs_a_node_each(), !misfit.is_of_spread())
}
