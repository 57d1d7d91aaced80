//! Fleets written as plain Kubernetes objects, or printed by kubectl as YAML or JSON.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::{Location, Spanned};

use super::scalar::{Place, Taken, parse_error, written_at};
use super::{FleetError, FleetPlace, Source};
use crate::object::{list, text};
use schedlab_json::Value;

/// What a server writes into the metadata of objects, and refuses of those that are new.
const BY_SERVER: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Whether a text holds Kubernetes objects rather than pools.
pub(super) fn is_plain(text: &str) -> bool {
    let is_json = || {
        let object: Option<Value> = serde_saphyr::from_str(text).ok();
        object.is_some_and(|object| object.get("apiVersion").is_some())
    };
    text.lines().any(|line| line.starts_with("apiVersion:"))
        || (text.trim_start().starts_with('{') && is_json())
}

/// The nodes of a text, and where each is written: its document begins there.
pub(super) fn nodes(place: Place, text: &str) -> Result<Vec<(Value, FleetPlace)>, FleetError> {
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple(text).map_err(|error| parse_error(place, &error))?;
    let mut all = Vec::new();
    let mut names = Taken::default();
    let source: Arc<str> = text.into();
    let items = items(text);
    for (number, document) in documents.into_iter().enumerate() {
        let items = items.get(number).map_or(&[][..], Vec::as_slice);
        for (mut node, at, prefix) in unfold(place, document, items)? {
            let source = Source { text: Arc::clone(&source), document: number, prefix };
            let written = FleetPlace { source: Some(source), ..place.at(at) };
            check(place, (at, &written), &node, &mut names)?;
            if let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|field, _| !BY_SERVER.contains(&&**field));
            }
            all.push((node, written));
        }
    }
    Ok(all)
}

/// Where the items of each document begin, if it has some.
fn items(text: &str) -> Vec<Vec<Location>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<Spanned<IgnoredAny>>,
    }
    let lists: Vec<List> = serde_saphyr::from_multiple(text).unwrap_or_default();
    let begins = |list: List| list.items.into_iter().map(|item| item.referenced).collect();
    lists.into_iter().map(begins).collect()
}

/// The nodes of a document, where each begins, and the path to it.
fn unfold(
    place: Place,
    document: Spanned<Value>,
    items: &[Location],
) -> Result<Vec<(Value, Location, String)>, FleetError> {
    let at = document.referenced;
    match text(&document.value, &["kind"]) {
        "Node" => Ok(vec![(document.value, at, String::new())]),
        "NodeList" | "List" => {
            let nodes = list(&document.value, &["items"]).iter().enumerate();
            let begins = |index: usize| items.get(index).copied().unwrap_or(at);
            let path = |index| format!("items[{index}].");
            Ok(nodes.map(|(index, node)| (node.clone(), begins(index), path(index))).collect())
        }
        other => {
            let message =
                format!("kind: found \"{other}\", allowed are Node, NodeList and List of nodes");
            Err(place.error(document.referenced, message))
        }
    }
}

fn check(
    place: Place,
    (begins, at): (Location, &FleetPlace),
    node: &Value,
    names: &mut Taken,
) -> Result<(), FleetError> {
    let wrong = |at: &FleetPlace, message: String| FleetError { place: at.clone(), message };
    let kind = text(node, &["kind"]);
    // The items of a NodeList need not say what they are.
    if !matches!(kind, "Node" | "") {
        return Err(wrong(at, format!("kind: found \"{kind}\", allowed is Node")));
    }
    match &node["metadata"]["name"] {
        Value::String(name) if !name.is_empty() => {
            names.take(place, ("found node", "nodes"), (name, begins))
        }
        Value::Null | Value::String(_) => {
            let message = "metadata.name: found none, nodes need names of their own";
            Err(wrong(at, message.to_owned()))
        }
        // YAML has many words for true and false: `n` and `on` are some.
        found @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            let name = wrong(&at.of("metadata.name"), String::new());
            let as_written = at.source.as_ref().map(|source| written_at(&source.text, &name));
            let message = format!(
                "metadata.name: found {}, which YAML reads as {found}; allowed is a text, in \
                 quotes where YAML needs them",
                as_written.unwrap_or_default()
            );
            Err(FleetError { message, ..name })
        }
    }
}
