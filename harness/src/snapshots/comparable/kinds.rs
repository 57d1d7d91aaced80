//! Nodes of which any will do: equal but for their names.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_emulator::store::LogEntry;
use schedlab_json::Value;

use crate::fields::at;
use crate::snapshots::ordinals::{Shown, joined};

/// Labels that name one node.
const OWN_LABELS: [&str; 1] = ["kubernetes.io/hostname"];

/// Every node that there ever was, by its kind.
#[derive(Debug)]
pub(super) struct NodeKinds {
    by_node: BTreeMap<String, String>,
    many: bool,
}

impl NodeKinds {
    pub(super) fn of(log: &[Arc<LogEntry>]) -> Self {
        let mut last: BTreeMap<&str, &Value> = BTreeMap::new();
        for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "nodes") {
            last.insert(&entry.key.name, &entry.object);
        }
        let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (name, node) in last {
            alike.entry(likeness(node)).or_default().push(name);
        }
        let many = alike.len() > 1;
        let by_node = alike.into_values().flat_map(|names| {
            let kind = joined(names.iter().map(|name| Shown::plain(name)).collect());
            names.into_iter().map(move |name| (name.to_owned(), kind.clone()))
        });
        Self { by_node: by_node.collect(), many }
    }

    /// The names of all nodes like this one.
    pub(super) fn kind<'a>(&'a self, node: &'a str) -> &'a str {
        self.by_node.get(node).map_or(node, String::as_str)
    }

    /// How binding to a node is told: where there is one kind only, it goes without saying.
    pub(super) fn on(&self, node: &str) -> String {
        if self.many { format!("bound to one of {}", self.kind(node)) } else { "bound".to_owned() }
    }
}

/// What makes a difference to a scheduler.
fn likeness(node: &Value) -> String {
    let labels = at(node, "/metadata/labels").and_then(Value::as_object);
    let labels: BTreeMap<&str, &Value> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
        .filter(|(key, _)| !OWN_LABELS.contains(key))
        .collect();
    let amounts = at(node, "/status/allocatable");
    let closed = at(node, "/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    let taints = at(node, "/spec/taints").and_then(Value::as_array);
    let taint = |taint: &Value| format!("{}={}:{}", taint["key"], taint["value"], taint["effect"]);
    let mut taints: Vec<String> = taints.into_iter().flatten().map(taint).collect();
    taints.sort();
    format!("{labels:?} {amounts:?} {closed} {taints:?}")
}
