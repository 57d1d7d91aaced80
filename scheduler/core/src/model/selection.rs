//! How a pod selects nodes, as far as a node that is added has to suit it.

use std::collections::BTreeSet;

use super::{
    HOSTNAME, Name, NodeSelectorTerm, Operator, PodShape, Requirement, VolumeAccess, VolumeClaim,
    VolumeReach,
};

/// How a pod selects nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// It does not.
    #[default]
    All,
    /// By nothing but one label, `key=value`.
    Label(Name),
    /// By labels.
    Labels,
    /// By their names, or by volumes of nodes with such names: others never suit it.
    Names,
}

impl PodShape {
    /// How it selects nodes.
    pub fn selection(&self) -> Selection {
        let affinity = self.node_affinity.as_deref();
        if self.node_selector.contains_key(HOSTNAME)
            || affinity.is_some_and(all_name_nodes)
            || self.volumes.iter().any(VolumeClaim::is_on_named_nodes)
        {
            return Selection::Names;
        }
        match self.only_label() {
            Some(label) => Selection::Label(label),
            None if self.node_selector.is_empty() && self.node_affinity.is_none() => Selection::All,
            None => Selection::Labels,
        }
    }

    /// The only values of a label with which it selects nodes. `None`: others would do.
    pub(crate) fn values_of(&self, label: &str) -> Option<BTreeSet<Name>> {
        if let Some(value) = self.node_selector.get(label) {
            return Some(BTreeSet::from([Name::clone(value)]));
        }
        let one_of = |term: &NodeSelectorTerm| {
            let mut wanted = term.labels.iter().filter(|wanted| &*wanted.key == label);
            let named = wanted.find(|wanted| wanted.operator == Operator::In)?;
            Some(named.values.clone())
        };
        let terms: Option<Vec<Vec<Name>>> =
            self.node_affinity.as_ref()?.iter().map(one_of).collect();
        Some(terms?.into_iter().flatten().collect())
    }

    /// `key=value`, where it selects nodes by nothing else.
    pub(crate) fn only_label(&self) -> Option<Name> {
        let mut pairs = self.node_selector.iter();
        match (pairs.next(), pairs.next(), &self.node_affinity) {
            (Some((key, value)), None, None) => Some(format!("{key}={value}").into()),
            _ => None,
        }
    }
}

impl VolumeClaim {
    /// All that it has, or could get, can be used only from nodes of certain names.
    fn is_on_named_nodes(&self) -> bool {
        let is_there = |reach: &VolumeReach| reach.affinity.as_deref().is_some_and(all_name_nodes);
        match &self.access {
            VolumeAccess::Nowhere(_) => false,
            VolumeAccess::Bound(reach) => is_there(reach),
            VolumeAccess::Open { volumes, made } => {
                let made = made.iter().map(|made| &made.reach);
                let mut all = volumes.iter().map(|volume| &volume.reach).chain(made).peekable();
                all.peek().is_some() && all.all(is_there)
            }
        }
    }
}

fn all_name_nodes(terms: &[NodeSelectorTerm]) -> bool {
    !terms.is_empty() && terms.iter().all(names_nodes)
}

fn names_nodes(term: &NodeSelectorTerm) -> bool {
    let is_one_of = |wanted: &Requirement| wanted.operator == Operator::In;
    let hosts = term.labels.iter().filter(|wanted| &*wanted.key == HOSTNAME);
    hosts.chain(&term.fields).any(is_one_of)
}
