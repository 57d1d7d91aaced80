//! Fleets written as plain Kubernetes objects.

use std::sync::Arc;

use serde_saphyr::{Location, Spanned};

use super::scalar::{Place, Taken, parse_error};
use super::{FleetError, FleetPlace, Source};
use crate::object::{list, name, text};
use schedlab_json::Value;

/// Whether a text holds Kubernetes objects rather than pools.
pub(super) fn is_plain(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("apiVersion:"))
}

/// The nodes of a text, and where each is written: its document begins there.
pub(super) fn nodes(place: Place, text: &str) -> Result<Vec<(Value, FleetPlace)>, FleetError> {
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple(text).map_err(|error| parse_error(place, &error))?;
    let mut all = Vec::new();
    let mut names = Taken::default();
    let source: Arc<str> = text.into();
    for (number, document) in documents.into_iter().enumerate() {
        let at = document.referenced;
        for (node, prefix) in unfold(place, document)? {
            check(place, at, &node, &mut names)?;
            let source = Source { text: Arc::clone(&source), document: number, prefix };
            all.push((node, FleetPlace { source: Some(source), ..place.at(at) }));
        }
    }
    Ok(all)
}

/// The nodes of a document, and the path to each.
fn unfold(place: Place, document: Spanned<Value>) -> Result<Vec<(Value, String)>, FleetError> {
    match text(&document.value, &["kind"]) {
        "Node" => Ok(vec![(document.value, String::new())]),
        "NodeList" | "List" => {
            let items = list(&document.value, &["items"]).iter().enumerate();
            Ok(items.map(|(index, item)| (item.clone(), format!("items[{index}]."))).collect())
        }
        other => {
            let message =
                format!("kind: found \"{other}\", allowed are Node, NodeList and List of nodes");
            Err(place.error(document.referenced, message))
        }
    }
}

fn check(place: Place, at: Location, node: &Value, names: &mut Taken) -> Result<(), FleetError> {
    let kind = text(node, &["kind"]);
    // The items of a NodeList need not say what they are.
    if !matches!(kind, "Node" | "") {
        return Err(place.error(at, format!("kind: found \"{kind}\", allowed is Node")));
    }
    if name(node).is_empty() {
        let message = "metadata.name: found none, nodes need names of their own".to_owned();
        return Err(place.error(at, message));
    }
    names.take(place, ("found node", "nodes"), (name(node), at))
}
