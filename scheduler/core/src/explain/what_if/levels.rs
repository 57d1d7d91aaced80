//! Levels of topologies that are asked for otherwise.

use std::collections::BTreeMap;

use super::{Missing, Site, WhatIf, new_node};
use crate::model::{HOSTNAME, Name, Node, Pod, ShapeId};

/// A label, and those of a place.
type Place = (Name, Vec<(Name, Name)>);

impl WhatIf<'_> {
    /// All of it that requires one place of the level prefers one.
    pub(super) fn only_prefer(&mut self, topology: &Name, level: &Name) {
        let group = &mut self.after.pod_groups[self.group.0 as usize];
        let parts = group.sub_groups.iter_mut().map(|part| &mut part.topology);
        for constraint in parts.chain([&mut group.topology]).flatten() {
            if constraint.topology == *topology && constraint.required.as_ref() == Some(level) {
                constraint.preferred = constraint.required.take();
            }
        }
    }

    /// Room for the next `pods` pods without a node, for each part of the gang that has to be in one
    /// place by itself.
    pub(super) fn make_room_by_part(&mut self, pods: usize, fresh: &[Name]) -> Option<()> {
        let like = self.like().cloned();
        let anywhere = Site { size: self.size, fresh, ..Site::default() };
        self.add_by_part(pods, like.as_ref(), anywhere)
    }

    /// The same in one place of the level, one of these if there are any, else a new one.
    pub(super) fn make_place(
        &mut self,
        (topology, level, kept_to): (&Name, &Name, &[Name]),
        pods: usize,
    ) -> Option<()> {
        let (label, place) = self.place((topology, level), kept_to.first())?;
        let is_there =
            |node: &&Node| node.labels.get(&label).is_some_and(|value| kept_to.contains(value));
        let there = self.after.nodes.iter().find(is_there);
        let like = self.like().filter(|like| there.is_none() || is_there(like)).or(there).cloned();
        let is_one = *label == *HOSTNAME;
        let site = Site { size: self.size, at: &place, is_one, ..Site::default() };
        self.add_by_part(pods, like.as_ref(), site)
    }

    /// On such nodes, and of what has to be in a narrower place on such as are there.
    fn add_by_part(&mut self, pods: usize, like: Option<&Node>, site: Site<'_>) -> Option<()> {
        let Missing { shapes, parts, .. } = self.missing;
        let mut of_part: BTreeMap<Option<usize>, Vec<ShapeId>> = BTreeMap::new();
        for (shape, part) in shapes.iter().zip(parts).cycle().take(pods) {
            of_part.entry(*part).or_default().push(*shape);
        }
        if of_part.is_empty() {
            return None;
        }
        of_part.into_iter().try_for_each(|(part, shapes)| {
            let inside = part.and_then(|part| self.place_of_part(part, site));
            let Some((label, place)) = inside else {
                return self.add_nodes(shapes.into_iter(), like, site);
            };
            let at: Vec<(Name, Name)> = site.at.iter().cloned().chain(place).collect();
            let is_one = *label == *HOSTNAME;
            self.add_nodes(shapes.into_iter(), like, Site { at: &at, is_one, ..site })
        })
    }

    /// Where the part has to be by itself, inside of there: a new place. `None`: it has to be in none, or
    /// where others of it run.
    fn place_of_part(&self, part: usize, site: Site<'_>) -> Option<Place> {
        let group = &self.after.pod_groups[self.group.0 as usize];
        let constraint = group.topology_of(Some(part))?;
        let is_of_part =
            |pod: &Pod| pod.group == Some(self.group) && group.is_within(pod.sub_group, Some(part));
        if self.after.pods.iter().any(|pod| pod.node.is_some() && is_of_part(pod)) {
            return None;
        }
        let place = self.place((&constraint.topology, constraint.required.as_ref()?), None)?;
        let mut narrower = site.at.iter().skip(1).map(|(label, _)| label);
        let is_inside = site.at.is_empty() && !site.is_one
            || narrower.any(|label| *label == place.0)
            || *place.0 == *HOSTNAME && !site.is_one;
        is_inside.then_some(place)
    }

    /// The label of the level, and labels of a place of it that is this one or new, with those inside of
    /// it.
    fn place(&self, (topology, level): (&Name, &Name), value: Option<&Name>) -> Option<Place> {
        let mut topologies = self.after.topologies.iter();
        let topology = topologies.find(|known| known.name == *topology)?;
        let inside = topology.depth(level)?.checked_sub(1)?;
        let new = new_node::name_of_next(&self.after.nodes);
        let labels = topology.levels[inside..].iter().map(|level| Name::clone(&level.label));
        let values = value.into_iter().chain(std::iter::repeat(&new)).cloned();
        let place = labels.zip(values).filter(|(label, _)| **label != *HOSTNAME).collect();
        Some((Name::clone(&topology.levels[inside].label), place))
    }
}
