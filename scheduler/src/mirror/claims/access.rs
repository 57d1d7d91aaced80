//! From where devices can be used: as slices, their devices and allocations say it, and which nodes
//! that are.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::{Name, NodeSelectorTerm, Reach};

use super::{Claims, Picked};
use crate::{
    mirror::{NodeRecord, selectors},
    parse::{at, list, name, text},
};

/// From where something can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// From this node.
    Node(Name),
    /// From those that this node selector selects, as it stands there.
    Selected(Value),
    /// From all.
    All,
}

impl Access {
    /// What a `ResourceSlice`, or one of its devices, says of it, if anything.
    pub(super) fn read(offer: &Value) -> Option<Self> {
        if let Some(node) = name(offer, "/nodeName") {
            return Some(Self::Node(node));
        }
        match at(offer, "/nodeSelector") {
            Some(selector) if selector.is_object() => Some(Self::Selected(selector.clone())),
            _ => (at(offer, "/allNodes") == Some(&Value::Bool(true))).then_some(Self::All),
        }
    }

    /// What the allocation of a claim says of it.
    pub(super) fn of_allocation(allocation: &Value) -> Self {
        let terms = list(allocation, "/nodeSelector/nodeSelectorTerms").iter();
        let mut fields = terms.flat_map(|term| list(term, "/matchFields"));
        let by_name = fields.find(|field| text(field, "/key") == Some("metadata.name"));
        let node = by_name.and_then(|field| name(field, "/values/0"));
        node.map(Self::Node).or_else(|| Self::read(allocation)).unwrap_or(Self::All)
    }
}

/// The nodes that each known node selector selects.
#[derive(Debug, Default)]
pub(super) struct Reaches(Vec<(Value, Reach)>);

impl Reaches {
    /// Of all that is said.
    pub(super) fn of<'a>(
        all: impl Iterator<Item = &'a Access>,
        nodes: &BTreeMap<Name, NodeRecord>,
    ) -> Self {
        let mut reaches = Self::default();
        for access in all {
            if let (Access::Selected(selector), false) = (access, reaches.knows(access)) {
                reaches.0.push((selector.clone(), selected(selector, nodes)));
            }
        }
        reaches
    }

    /// It needs no other look at the nodes.
    pub(super) fn knows(&self, access: &Access) -> bool {
        let Access::Selected(selector) = access else { return true };
        self.0.iter().any(|(known, _)| known == selector)
    }

    /// Labels of nodes matter.
    pub(super) const fn are_selected(&self) -> bool {
        !self.0.is_empty()
    }

    /// The nodes.
    pub(super) fn reach(&self, access: &Access) -> Reach {
        match access {
            Access::Node(node) => Reach::Node(Name::clone(node)),
            Access::All => Reach::All,
            Access::Selected(selector) => {
                let known = self.0.iter().find(|(known, _)| known == selector);
                known.map_or_else(|| Reach::Nodes(Arc::default()), |(_, reach)| reach.clone())
            }
        }
    }
}

/// A term that cannot be read selects nothing.
fn selected(selector: &Value, nodes: &BTreeMap<Name, NodeRecord>) -> Reach {
    let terms = list(selector, "/nodeSelectorTerms").iter();
    let terms: Vec<NodeSelectorTerm> =
        terms.filter_map(|term| selectors::node_term(term).ok()).collect();
    let matches = |record: &NodeRecord| terms.iter().any(|term| term.matches(&record.node));
    let selected = nodes.iter().filter(|(_, record)| matches(record));
    Reach::Nodes(Arc::new(selected.map(|(name, _)| Name::clone(name)).collect()))
}

impl Claims {
    /// From where a claim can be used that gets these devices on `node`, as an allocation says it:
    /// all that the slices and devices ask of a node has to hold, unless one device is the node's
    /// own. `None`: from everywhere.
    pub(crate) fn node_selector(&self, node: &Name, picked: &Picked) -> Option<Value> {
        let by_name = |node: &Name| {
            let field = json!({ "key": "metadata.name", "operator": "In", "values": [&**node] });
            json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] })
        };
        let (mut labels, mut fields) = (Vec::<Value>::new(), Vec::<Value>::new());
        for (_, id) in picked {
            match self.published.get(id).map(|device| &device.access) {
                None | Some(Access::Node(_)) => return Some(by_name(node)),
                Some(Access::All) => {}
                Some(Access::Selected(selector)) => {
                    add_new(&mut labels, list(selector, "/nodeSelectorTerms/0/matchExpressions"));
                    add_new(&mut fields, list(selector, "/nodeSelectorTerms/0/matchFields"));
                }
            }
        }
        let parts = [("matchExpressions", labels), ("matchFields", fields)];
        let mut term = json!({});
        for (field, requirements) in parts.into_iter().filter(|(_, all)| !all.is_empty()) {
            term[field] = requirements.into_iter().collect();
        }
        (term != json!({})).then(|| json!({ "nodeSelectorTerms": [term] }))
    }
}

fn add_new(known: &mut Vec<Value>, requirements: &[Value]) {
    for requirement in requirements {
        if !known.contains(requirement) {
            known.push(requirement.clone());
        }
    }
}
