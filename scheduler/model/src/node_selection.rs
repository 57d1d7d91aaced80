//! How a pod selects nodes, as far as added nodes must match.

use std::collections::BTreeSet;

use super::{
    HOSTNAME, Name, NodeSelectorTerm, Operator, PodShape, Requirement, VolumeAccess, VolumeClaim,
    VolumeReach,
};

/// How a pod selects nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeSelection {
    /// The pod selects all nodes.
    #[default]
    All,
    /// The pod selects nodes by this one label, `key=value`, and nothing else.
    Label(Name),
    /// The pod selects nodes by labels.
    Labels,
    /// The pod selects nodes by name, or by volumes on nodes with such names: added nodes never
    /// match.
    Names,
}

impl PodShape {
    /// How pods of this shape select nodes.
    pub fn node_selection(&self) -> NodeSelection {
        let affinity = self.node_affinity.as_deref();
        if self.node_selector.contains_key(HOSTNAME)
            || affinity.is_some_and(do_all_terms_name_nodes)
            || self.volumes.iter().any(VolumeClaim::has_volumes_on_named_nodes_only)
        {
            return NodeSelection::Names;
        }
        match self.only_selected_label() {
            Some(label) => NodeSelection::Label(label),
            None if self.node_selector.is_empty() && self.node_affinity.is_none() => {
                NodeSelection::All
            }
            None => NodeSelection::Labels,
        }
    }

    /// The only values that the label may have on nodes which the shape selects; `None` when other
    /// values match as well.
    pub fn selected_values(&self, label: &str) -> Option<BTreeSet<Name>> {
        if let Some(value) = self.node_selector.get(label) {
            return Some(BTreeSet::from([Name::clone(value)]));
        }
        let one_of = |term: &NodeSelectorTerm| {
            let mut requirement =
                term.labels.iter().filter(|requirement| &*requirement.key == label);
            let named = requirement.find(|requirement| requirement.operator == Operator::In)?;
            Some(named.values.clone())
        };
        let terms: Option<Vec<Vec<Name>>> =
            self.node_affinity.as_ref()?.iter().map(one_of).collect();
        Some(terms?.into_iter().flatten().collect())
    }

    /// The label `key=value` if the shape selects nodes by nothing else.
    pub fn only_selected_label(&self) -> Option<Name> {
        let mut pairs = self.node_selector.iter();
        match (pairs.next(), pairs.next(), &self.node_affinity) {
            (Some((key, value)), None, None) => Some(format!("{key}={value}").into()),
            _ => None,
        }
    }
}

impl VolumeClaim {
    /// Whether all volumes of the shape, existing or provisionable, are accessible only from named
    /// nodes.
    fn has_volumes_on_named_nodes_only(&self) -> bool {
        let is_there =
            |reach: &VolumeReach| reach.affinity.as_deref().is_some_and(do_all_terms_name_nodes);
        match &self.access {
            VolumeAccess::Unavailable(_) => false,
            VolumeAccess::Bound(reach) => is_there(reach),
            VolumeAccess::WaitForFirstConsumer { volumes, provisionable } => {
                let provisionable = provisionable.iter().map(|provisionable| &provisionable.reach);
                let mut all =
                    volumes.iter().map(|volume| &volume.reach).chain(provisionable).peekable();
                all.peek().is_some() && all.all(is_there)
            }
        }
    }
}

fn do_all_terms_name_nodes(terms: &[NodeSelectorTerm]) -> bool {
    !terms.is_empty() && terms.iter().all(does_term_name_nodes)
}

fn does_term_name_nodes(term: &NodeSelectorTerm) -> bool {
    let is_one_of = |requirement: &Requirement| requirement.operator == Operator::In;
    let hosts = term.labels.iter().filter(|requirement| &*requirement.key == HOSTNAME);
    hosts.chain(&term.fields).any(is_one_of)
}
