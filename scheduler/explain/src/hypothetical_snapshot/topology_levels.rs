//! Suggestions about topology levels.

use std::collections::BTreeMap;

use super::{HypotheticalSnapshot, MissingPods, NewNodePlacement, hypothetical_node};
use schedlab_scheduler_core::model::{HOSTNAME, Name, Node, Pod, ShapeId};

/// The label of a level, and the labels of a domain of that level.
type DomainLabels = (Name, Vec<(Name, Name)>);

impl HypotheticalSnapshot<'_> {
    /// Turns the required level of the group and its sub-groups into a preferred one.
    pub(super) fn prefer_instead_of_require(&mut self, topology: &Name, level: &Name) {
        let group = &mut self.snapshot.pod_groups[self.group.0 as usize];
        let constraints = group.sub_groups.iter_mut().map(|sub_group| &mut sub_group.topology);
        for constraint in constraints.chain([&mut group.topology]).flatten() {
            if constraint.topology == *topology && constraint.required.as_ref() == Some(level) {
                constraint.preferred = constraint.required.take();
            }
        }
    }

    /// Adds nodes for the next `pods` missing pods, separately for each sub-group that requires one
    /// domain.
    pub(super) fn add_nodes_by_sub_group(
        &mut self,
        pods: usize,
        unique_labels: &[Name],
    ) -> Option<()> {
        let template = self.template_node().cloned();
        let anywhere =
            NewNodePlacement { size: self.size, unique_labels, ..NewNodePlacement::default() };
        self.add_nodes_in_domains_of_sub_groups(pods, template.as_ref(), anywhere)
    }

    /// Adds nodes for the missing pods in one domain of the level: in one of `domains` if there are
    /// any, else in a new domain.
    pub(super) fn add_nodes_in_domain(
        &mut self,
        topology: &Name,
        level: &Name,
        domains: &[Name],
        pods: usize,
    ) -> Option<()> {
        let (label, labels_of_domain) = self.domain_labels(topology, level, domains.first())?;
        let is_there =
            |node: &&Node| node.labels.get(&label).is_some_and(|value| domains.contains(value));
        let existing = self.snapshot.nodes.iter().find(is_there);
        let template = self
            .template_node()
            .filter(|template| existing.is_none() || is_there(template))
            .or(existing)
            .cloned();
        let is_single_node = *label == *HOSTNAME;
        let placement = NewNodePlacement {
            size: self.size,
            labels: &labels_of_domain,
            is_single_node,
            ..NewNodePlacement::default()
        };
        self.add_nodes_in_domains_of_sub_groups(pods, template.as_ref(), placement)
    }

    /// Adds nodes for the pods of each sub-group; sub-groups that require a narrower level get a
    /// domain inside this one.
    fn add_nodes_in_domains_of_sub_groups(
        &mut self,
        pods: usize,
        template: Option<&Node>,
        placement: NewNodePlacement<'_>,
    ) -> Option<()> {
        let MissingPods { shapes, constrained_sub_groups, .. } = self.missing;
        let mut by_sub_group: BTreeMap<Option<usize>, Vec<ShapeId>> = BTreeMap::new();
        for (shape, sub_group) in shapes.iter().zip(constrained_sub_groups).cycle().take(pods) {
            by_sub_group.entry(*sub_group).or_default().push(*shape);
        }
        if by_sub_group.is_empty() {
            return None;
        }
        by_sub_group.into_iter().try_for_each(|(sub_group, shapes)| {
            let inside =
                sub_group.and_then(|sub_group| self.domain_of_sub_group(sub_group, placement));
            let Some((label, labels_of_domain)) = inside else {
                return self.add_nodes(shapes.into_iter(), template, placement);
            };
            let labels: Vec<(Name, Name)> =
                placement.labels.iter().cloned().chain(labels_of_domain).collect();
            let is_single_node = *label == *HOSTNAME;
            self.add_nodes(
                shapes.into_iter(),
                template,
                NewNodePlacement { labels: &labels, is_single_node, ..placement },
            )
        })
    }

    /// The new domain for a sub-group, inside the given placement. `None`: the sub-group requires
    /// no domain, or its pods already run in one.
    fn domain_of_sub_group(
        &self,
        sub_group: usize,
        placement: NewNodePlacement<'_>,
    ) -> Option<DomainLabels> {
        let group = &self.snapshot.pod_groups[self.group.0 as usize];
        let constraint = group.topology_constraint(Some(sub_group))?;
        let is_of_part = |pod: &Pod| {
            pod.group == Some(self.group) && group.is_in_sub_group(pod.sub_group, Some(sub_group))
        };
        if self.snapshot.pods.iter().any(|pod| pod.node.is_some() && is_of_part(pod)) {
            return None;
        }
        let domain =
            self.domain_labels(&constraint.topology, constraint.required.as_ref()?, None)?;
        let mut narrower = placement.labels.iter().skip(1).map(|(label, _)| label);
        let is_inside = placement.labels.is_empty() && !placement.is_single_node
            || narrower.any(|label| *label == domain.0)
            || *domain.0 == *HOSTNAME && !placement.is_single_node;
        is_inside.then_some(domain)
    }

    /// The label of the level, and the labels of one domain of the level (the given domain, or a
    /// new one), including all inner levels.
    fn domain_labels(
        &self,
        topology: &Name,
        level: &Name,
        value: Option<&Name>,
    ) -> Option<DomainLabels> {
        let mut topologies = self.snapshot.topologies.iter();
        let topology = topologies.find(|known| known.name == *topology)?;
        let inside = topology.level_depth(level)?.checked_sub(1)?;
        let new = hypothetical_node::next_node_name(&self.snapshot.nodes);
        let labels = topology.levels[inside..].iter().map(|level| Name::clone(&level.label));
        let values = value.into_iter().chain(std::iter::repeat(&new)).cloned();
        let labels_of_domain =
            labels.zip(values).filter(|(label, _)| **label != *HOSTNAME).collect();
        Some((Name::clone(&topology.levels[inside].label), labels_of_domain))
    }
}
