//! Fleets of plain Kubernetes objects, also as kubectl prints them in YAML or JSON.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::{Location, Spanned};

use super::spanned_value::{FleetFile, UsedNames, parse_error, text_at_error};
use super::{FleetError, FleetLocation, NodeSource};
use schedlab_api::{
    Value,
    object::{list, text},
};

/// The metadata fields that the API server sets. They are removed from the nodes of a fleet file.
const SERVER_METADATA: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Whether a text contains Kubernetes objects instead of pools.
pub(super) fn is_kubernetes_yaml(text: &str) -> bool {
    let is_json = || {
        let object: Option<Value> = serde_saphyr::from_str(text).ok();
        object.is_some_and(|object| object.get("apiVersion").is_some())
    };
    text.lines().any(|line| line.starts_with("apiVersion:"))
        || (text.trim_start().starts_with('{') && is_json())
}

/// Parses the Kubernetes nodes of a text, with their locations.
pub(super) fn parse_nodes(
    file: FleetFile,
    text: &str,
) -> Result<Vec<(Value, FleetLocation)>, FleetError> {
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple(text).map_err(|error| parse_error(file, &error))?;
    let mut all = Vec::new();
    let mut names = UsedNames::default();
    let source: Arc<str> = text.into();
    let items = item_locations(text);
    for (number, document) in documents.into_iter().enumerate() {
        let items = items.get(number).map_or(&[][..], Vec::as_slice);
        for (mut node, at, prefix) in nodes_of_document(file, document, items)? {
            let source = NodeSource { text: Arc::clone(&source), document: number, prefix };
            let written = FleetLocation { source: Some(source), ..file.location(at) };
            check_node_manifest(file, at, &written, &node, &mut names)?;
            if let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|field, _| !SERVER_METADATA.contains(&&**field));
            }
            all.push((node, written));
        }
    }
    Ok(all)
}

/// The locations of the list items in each YAML document.
fn item_locations(text: &str) -> Vec<Vec<Location>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<Spanned<IgnoredAny>>,
    }
    let lists: Vec<List> = serde_saphyr::from_multiple(text).unwrap_or_default();
    let begins = |list: List| list.items.into_iter().map(|item| item.referenced).collect();
    lists.into_iter().map(begins).collect()
}

/// Collects the nodes of a YAML document, with location and path; lists are expanded.
fn nodes_of_document(
    file: FleetFile,
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
                format!("kind: got \"{other}\", expected Node, NodeList or List of nodes");
            Err(file.error(document.referenced, message))
        }
    }
}

fn check_node_manifest(
    file: FleetFile,
    begins: Location,
    at: &FleetLocation,
    node: &Value,
    names: &mut UsedNames,
) -> Result<(), FleetError> {
    let wrong = |at: &FleetLocation, message: String| FleetError { location: at.clone(), message };
    let kind = text(node, &["kind"]);
    // Items of a NodeList may omit their kind.
    if !matches!(kind, "Node" | "") {
        return Err(wrong(at, format!("kind: got \"{kind}\", expected Node")));
    }
    match &node["metadata"]["name"] {
        Value::String(name) if !name.is_empty() => names.insert(file, "node", name, begins),
        Value::Null | Value::String(_) => {
            let message = "metadata.name: got none, expected a unique node name";
            Err(wrong(at, message.to_owned()))
        }
        // YAML reads words such as `n` and `on` as booleans.
        found @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            let name = wrong(&at.location_of_field("metadata.name"), String::new());
            let source = at.source.as_ref();
            let as_written =
                source.map(|source| text_at_error(&source.text, &name)).unwrap_or_default();
            let message = format!(
                "metadata.name: got {as_written}, which YAML reads as {found}, expected a text: \
                 write \"{as_written}\" in quotes"
            );
            Err(FleetError { message, ..name })
        }
    }
}
