//! How a pod selects nodes, as far as a node that is added has to suit it.

use super::{HOSTNAME, Name, NodeSelectorTerm, Operator, PodShape, Requirement};

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
    /// By their names, so that nodes of other names never suit it.
    Names,
}

impl PodShape {
    /// How it selects nodes.
    pub fn selection(&self) -> Selection {
        let mut terms = self.node_affinity.iter().flatten().peekable();
        let has_terms = terms.peek().is_some();
        if self.node_selector.contains_key(HOSTNAME) || has_terms && terms.all(names_nodes) {
            return Selection::Names;
        }
        match self.only_label() {
            Some(label) => Selection::Label(label),
            None if self.node_selector.is_empty() && self.node_affinity.is_none() => Selection::All,
            None => Selection::Labels,
        }
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

fn names_nodes(term: &NodeSelectorTerm) -> bool {
    let is_one_of = |wanted: &Requirement| wanted.operator == Operator::In;
    let hosts = term.labels.iter().filter(|wanted| &*wanted.key == HOSTNAME);
    hosts.chain(&term.fields).any(is_one_of)
}
