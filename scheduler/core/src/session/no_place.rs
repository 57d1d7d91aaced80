//! Why pods are put together in no place of a topology.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    Session, Unplaced,
    topology::{Levels, Together},
};
use crate::{
    decision::{PlaceMisfit, Site},
    model::{HOSTNAME, Name, NodeId, PodId, PodShape, Selection, ShapeId, TopologyConstraint},
};

/// There is no place for pods that are put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPlace {
    /// The topology that they keep to.
    pub topology: Name,
    /// The level on which they need one place.
    pub level: Name,
    /// How many there are.
    pub pods: u32,
    /// Places of that level that they may use, and how many of them fit there.
    pub places: Vec<(Name, u64)>,
    /// Others of them run there, so that no other place will do.
    pub are_in_use: bool,
    /// Of that level they select no other places; none: they may be in any.
    pub selected: Vec<Name>,
    /// How they select nodes.
    pub selection: Selection,
    /// They would run if they only preferred that level.
    pub would_spread: bool,
    /// There are no such places, however much is free.
    pub wrong: Option<Box<WrongLevel>>,
}

/// Why a constraint leads to no places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrongLevel {
    /// There is no such topology, or no such level in it.
    Unknown {
        /// The level that is asked for.
        level: Name,
    },
    /// The preferred level lies around the required one: all places of the one that may be used
    /// are in one place of the other.
    PrefersWider {
        /// The level on which they need one place.
        required: Name,
        /// The level on which they would like one.
        preferred: Name,
    },
    /// No place holds two of them.
    KeptApart {
        /// Names of the two.
        pods: [Name; 2],
        /// The label over which they are kept apart; `None`: they have a host port in common.
        over: Option<Name>,
        /// A wider level on which there is a place that holds all of them as things are.
        wider: Option<Name>,
    },
}

impl NoPlace {
    pub(super) fn of(constraint: &TopologyConstraint, together: Together<'_>) -> Self {
        let levels = [&constraint.required, &constraint.preferred];
        let level = levels.into_iter().flatten().next().unwrap_or(&constraint.topology);
        Self {
            topology: constraint.topology.clone(),
            level: level.clone(),
            pods: u32::try_from(together.pods.len()).expect("pod ids are 32 bits"),
            places: Vec::new(),
            are_in_use: false,
            selected: Vec::new(),
            selection: Selection::All,
            would_spread: false,
            wrong: None,
        }
    }

    /// The same was found elsewhere.
    pub(super) fn add(&mut self, other: Self) {
        self.places.extend(other.places);
        self.would_spread |= other.would_spread;
    }
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topology, level, pods, places, wrong, .. } = self;
        match wrong.as_deref() {
            None => {}
            Some(WrongLevel::Unknown { level }) => {
                return write!(f, "topology {topology} with level {level} does not exist");
            }
            Some(WrongLevel::PrefersWider { required, preferred }) => {
                return write!(
                    f,
                    "preferredTopologyLevel {preferred} of topology {topology} is wider than \
                     requiredTopologyLevel {required}"
                );
            }
            Some(WrongLevel::KeptApart { pods: [one, other], over, .. }) => {
                write!(
                    f,
                    "requiredTopologyLevel {level} of topology {topology} asks for one place for \
                     {one} and {other}, "
                )?;
                return match over {
                    Some(label) => write!(f, "and anti-affinity over {label} keeps them apart"),
                    None => f.write_str("and a node has the host port of both only once"),
                };
            }
        }
        for (place, fitting) in places.iter().take(TOLD_MAX) {
            write!(f, "node-group {place} can allocate only {fitting} of {pods} required pods. ")?;
        }
        if let Some(more) = places.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            write!(f, "So it is with {more} more. ")?;
        }
        write!(f, "topology {topology}, requirement {level} couldn't be satisfied.")
    }
}

/// So many places are told one by one.
const TOLD_MAX: usize = 3;

/// Pods that a constraint keeps together, inside of where what is around them is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sought<'a> {
    pub(super) constraint: &'a TopologyConstraint,
    pub(super) together: Together<'a>,
    pub(super) within: Option<&'a BTreeSet<NodeId>>,
}

impl Session<'_> {
    /// No place holds them. What refuses one of them on every node that they may use, whoever
    /// leaves, comes first: a place would not help then.
    pub(super) fn without_place(&mut self, sought: Sought<'_>, no_place: NoPlace) -> Unplaced {
        let Sought { constraint, together, within } = sought;
        if no_place.wrong.is_some() {
            return Unplaced::in_no(no_place, together);
        }
        if let Some(at_odds) = self.at_odds(sought) {
            return at_odds;
        }
        let counted = self.how_many_fit(constraint, together, within);
        let places = counted.unwrap_or(no_place.places);
        let no_place = NoPlace { places, ..no_place };
        let anywhere = TopologyConstraint { required: None, ..constraint.clone() };
        let spread = self.try_in_place(Sought { constraint: &anywhere, ..sought });
        let would_spread = spread.is_ok();
        let refused = match spread {
            Ok(()) => no_place.places.is_empty().then_some((together.pods[0], 0)),
            Err(Unplaced { no_place: Some(_), .. }) => None,
            Err(Unplaced { pod, found, .. }) => Some((pod, found)),
        };
        if let Some((pod, found)) = refused {
            let outside = self.outside(sought, None);
            let inside = self.nodes_among(within).filter(|node| !outside.contains_key(node));
            if self.is_kept_from_all(pod, inside) {
                let misfits = self.misfits_beside(pod, within, &outside);
                return Unplaced { pod, found, misfits, no_place: None };
            }
        }
        let (selected, selection) = self.selected_places(constraint, together.pods);
        Unplaced::in_no(NoPlace { selected, selection, would_spread, ..no_place }, together)
    }

    /// The only places of the required level that all of them select, and how they select nodes.
    fn selected_places(
        &self,
        constraint: &TopologyConstraint,
        pods: &[PodId],
    ) -> (Vec<Name>, Selection) {
        let shapes: BTreeSet<ShapeId> = pods.iter().map(|pod| self.pod(*pod).shape).collect();
        let shapes = shapes.iter().map(|shape| &self.snapshot.shapes[shape.0 as usize]);
        let levels = self.levels(constraint).ok();
        let label = levels.as_ref().and_then(Levels::required_label);
        let values = shapes.clone().filter_map(|shape| shape.values_of(label?));
        let all = values.reduce(|one, other| one.intersection(&other).cloned().collect());
        let selections = shapes.map(PodShape::selection);
        let selection = selections.reduce(|one, other| {
            let is_same = one == other;
            if is_same { one } else { Selection::Labels }
        });
        (all.into_iter().flatten().collect(), selection.unwrap_or_default())
    }

    /// Each of the places that hold them was tried, and why they are in none of them.
    pub(super) fn in_none_of(
        &mut self,
        sought: Sought<'_>,
        tried: Vec<(BTreeSet<NodeId>, Unplaced)>,
    ) -> Unplaced {
        if let Some(at_odds) = self.at_odds(sought) {
            return at_odds;
        }
        let inside = self.nearest(sought.constraint, &tried);
        let opening = self.opening(sought.together.pods, &tried);
        let nodes: BTreeSet<NodeId> = tried.iter().flat_map(|(nodes, _)| nodes).copied().collect();
        let all = tried.into_iter().map(|(_, why)| why).reduce(Unplaced::and);
        let mut all = all.expect("there is a place, or it is said why there is none");
        let others = self.nodes_among(sought.within).filter(|node| !nodes.contains(node));
        let others: BTreeSet<NodeId> = others.collect();
        let outside = self.outside(sought, Some(&nodes));
        all.misfits.add(self.misfits_beside(all.pod, Some(&others), &outside));
        let are_apart = self.places_apart(sought.together.pods).is_some();
        // A part of it may have to be in a place of its own inside of that.
        let of_part = |site: &Site| !site.inside.is_empty() || site.together > 0;
        let site = all.misfits.site.as_mut().filter(|site| !of_part(site));
        if let Some(site) = site {
            let is_shut = |label: &Name| **label == *HOSTNAME || site.apart_over.contains(label);
            if !inside.iter().any(|(label, _)| is_shut(label)) {
                site.inside = inside;
            } else if !are_apart {
                site.together = NoPlace::of(sought.constraint, sought.together).pods;
            }
        }
        if let Some(opening) = opening {
            all.misfits.places.get_or_insert_default().opening = Some(opening);
        }
        all
    }

    /// Labels of the place that comes nearest to holding all.
    fn nearest(
        &self,
        constraint: &TopologyConstraint,
        tried: &[(BTreeSet<NodeId>, Unplaced)],
    ) -> Vec<(Name, Name)> {
        let levels = self.levels(constraint).ok().filter(Levels::is_required);
        let nearest = tried.iter().rev().max_by_key(|(_, why)| why.found);
        let node = nearest.and_then(|(nodes, _)| nodes.first());
        let labels = levels.zip(node).map(|(levels, node)| levels.labels_of(self, *node));
        labels.unwrap_or_default()
    }

    /// Nodes outside of all places in which those of `pods` could run that are put together with
    /// `pod`.
    pub fn out_of_place(&self, pods: &[PodId], pod: PodId) -> BTreeMap<NodeId, PlaceMisfit> {
        let mut out = BTreeMap::new();
        let Some(id) = self.pod(pod).group else { return out };
        let group = self.group(id);
        let parts = group.lineage(self.pod(pod).sub_group).map(Some).chain([None]);
        for (part, constraint) in parts.filter_map(|part| Some((part, group.topology_of(part)?))) {
            let is_inside = |pod: &PodId| group.is_within(self.pod(*pod).sub_group, part);
            let inside: Vec<PodId> = pods.iter().copied().filter(is_inside).collect();
            let together = Together { group: id, part, pods: &inside };
            let places = self.places(constraint, together, None).unwrap_or_default();
            let holding: BTreeSet<NodeId> =
                places.into_iter().flat_map(|place| place.nodes).collect();
            let sought = Sought { constraint, together, within: None };
            for (node, misfit) in self.outside(sought, Some(&holding)) {
                out.entry(node).or_insert(misfit);
            }
        }
        out
    }

    /// Nodes in no place that they may use. Of those that they may, the ones that hold them are
    /// where `holding` is; `None`: that does not matter.
    fn outside(
        &self,
        Sought { constraint, together, within }: Sought<'_>,
        holding: Option<&BTreeSet<NodeId>>,
    ) -> BTreeMap<NodeId, PlaceMisfit> {
        let NoPlace { topology, level, pods, .. } = NoPlace::of(constraint, together);
        let too_full =
            PlaceMisfit::TooFull { topology: topology.clone(), level: level.clone(), pods };
        let nodes = self.nodes_among(within);
        let Ok(levels) = self.levels(constraint) else {
            return nodes.map(|node| (node, too_full.clone())).collect();
        };
        let used = self.used_places(levels, together);
        let place_of = |node: &NodeId| levels.place_of(self, *node);
        let holding: Option<BTreeSet<Vec<Name>>> = holding
            .filter(|_| levels.is_required())
            .map(|nodes| nodes.iter().filter_map(place_of).collect());
        let has = |places: &Option<BTreeSet<Vec<Name>>>, place: &Vec<Name>| {
            places.as_ref().is_none_or(|places| places.contains(place))
        };
        let misfit = |node: &NodeId| match place_of(node) {
            None => Some(PlaceMisfit::Unlabelled { topology: topology.clone() }),
            Some(place) if !has(&used, &place) => {
                Some(PlaceMisfit::Elsewhere { topology: topology.clone(), level: level.clone() })
            }
            Some(place) => (!has(&holding, &place)).then(|| too_full.clone()),
        };
        nodes.filter_map(|node| Some((node, misfit(&node)?))).collect()
    }

    /// Where others of them run, and all have to. `None`: they may be in any place.
    fn used_places(
        &self,
        levels: Levels<'_>,
        together: Together<'_>,
    ) -> Option<BTreeSet<Vec<Name>>> {
        let in_use = self.nodes_in_use(together);
        let keeps = levels.is_required() && !in_use.is_empty();
        keeps.then(|| in_use.into_iter().filter_map(|node| levels.place_of(self, node)).collect())
    }
}
