//! Classes of interchangeable nodes: nodes that differ only in their names.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_api::{Value, labels, pointer::at};
use schedlab_emulator::store::LogEntry;

use crate::render::aliases::{Alias, join_alias_texts};

/// Node labels that are left out, because each node has a value of its own.
const NODE_SPECIFIC_LABELS: [&str; 1] = [labels::HOSTNAME];

/// The classes of all nodes that ever existed: nodes are in one class if a scheduler cannot tell
/// them apart.
#[derive(Debug)]
pub(super) struct NodeClasses {
    class_by_node: BTreeMap<String, String>,
    is_heterogeneous: bool,
}

impl NodeClasses {
    pub(super) fn from_log(log: &[Arc<LogEntry>]) -> Self {
        let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
        for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "nodes") {
            last.insert(&entry.key.name, &entry.object);
        }
        let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, node) in last {
            alike.entry(node_signature(node)).or_default().push(name);
        }
        let is_heterogeneous = alike.len() > 1;
        let by_node = alike.into_values().flat_map(|names| {
            let kind = join_alias_texts(names.iter().map(|name| Alias::from_name(name)).collect());
            names.into_iter().map(move |name| (name.to_owned(), kind.clone()))
        });
        Self { class_by_node: by_node.collect(), is_heterogeneous }
    }

    /// The class of a node, named by the names of all nodes in it.
    pub(super) fn class_of_node<'a>(&'a self, node: &'a str) -> &'a str {
        self.class_by_node.get(node).map_or(node, String::as_str)
    }

    /// The text for a binding to a node. It names the class of the node only if there are several
    /// classes.
    pub(super) fn binding_text(&self, node: &str) -> String {
        if self.is_heterogeneous {
            format!("bound to one of {}", self.class_of_node(node))
        } else {
            "bound".to_owned()
        }
    }
}

/// A text with everything about a node that matters to a scheduler.
fn node_signature(node: &Value) -> String {
    let labels = at(node, "/metadata/labels").and_then(Value::as_object);
    let labels: BTreeMap<&str, &Value> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
        .filter(|(key, _)| !NODE_SPECIFIC_LABELS.contains(key))
        .collect();
    let amounts = at(node, "/status/allocatable");
    let closed = at(node, "/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    let taints = at(node, "/spec/taints").and_then(Value::as_array);
    let taint = |taint: &Value| format!("{}={}:{}", taint["key"], taint["value"], taint["effect"]);
    let mut taints: Vec<String> = taints.into_iter().flatten().map(taint).collect();
    taints.sort();
    format!("{labels:?} {amounts:?} {closed} {taints:?}")
}
