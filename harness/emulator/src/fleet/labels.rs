//! Labels, annotations, taints and topology of a pool, checked by the rules of the API server, so
//! that what is wrong is told where it is written.

use std::collections::{BTreeMap, BTreeSet};

use serde_saphyr::Spanned;

use super::FleetError;
use super::pool::NODES_MAX;
use super::scalar::{Place, Scalar};
use super::taint::TaintText;
use crate::{names, pace};

/// Labels that a node may have.
pub(super) fn labels(
    place: Place,
    texts: BTreeMap<String, Spanned<String>>,
) -> Result<BTreeMap<String, String>, FleetError> {
    let mut labels = BTreeMap::new();
    for (key, text) in texts {
        refuse(place, &text, &format!("labels: {key:?}"), names::qualified_name(&key))?;
        let value = value(place, &format!("labels.{key}"), &text)?;
        labels.insert(key, value);
    }
    Ok(labels)
}

/// A text that becomes a label's value.
pub(super) fn value(
    place: Place,
    field: &str,
    text: &Spanned<String>,
) -> Result<String, FleetError> {
    refuse(place, text, &format!("{field}: {:?}", text.value), names::label_value(&text.value))?;
    Ok(text.value.clone())
}

/// Annotations may say anything, but their keys may not, nor those that the kubelets here read.
pub(super) fn annotation(
    place: Place,
    key: &str,
    text: &Spanned<String>,
) -> Result<(), FleetError> {
    let rules = names::qualified_name(&key.to_lowercase());
    refuse(place, text, &format!("annotations: {key:?}"), rules)?;
    let rule = pace::broken(key, &text.value).map(str::to_owned);
    refuse(place, text, &format!("annotations.{key}: {:?}", text.value), rule)
}

/// Taints that a node may have.
pub(super) fn taints(
    place: Place,
    texts: Vec<Spanned<TaintText>>,
) -> Result<Vec<TaintText>, FleetError> {
    let mut seen = BTreeSet::new();
    for (index, text) in texts.iter().enumerate() {
        let TaintText { key, value, effect } = &text.value;
        let field = |of: &str, found: &str| format!("taints[{index}].{of}: {found:?}");
        refuse(place, text, &field("key", key), names::qualified_name(key))?;
        refuse(place, text, &field("value", value), names::label_value(value))?;
        if !seen.insert((key, effect)) {
            let message = format!(
                "taints[{index}]: found {key} with {effect} again, allowed is each key and effect once"
            );
            return Err(place.error(text.referenced, message));
        }
    }
    Ok(texts.into_iter().map(|text| text.value).collect())
}

/// Labels and how many nodes share one of their values, which are made of the labels' names.
pub(super) fn topology(
    place: Place,
    texts: &BTreeMap<String, Spanned<Scalar>>,
) -> Result<BTreeMap<String, u64>, FleetError> {
    let mut topology = BTreeMap::new();
    for (label, nodes) in texts {
        refuse(place, nodes, &format!("topology: {label:?}"), names::qualified_name(label))?;
        let count = place.whole(&format!("topology.{label}"), nodes, [1, NODES_MAX])?;
        topology.insert(label.clone(), count);
    }
    Ok(topology)
}

/// What breaks rules is refused where it stands.
fn refuse<T>(
    place: Place,
    text: &Spanned<T>,
    found: &str,
    rules: impl IntoIterator<Item = String>,
) -> Result<(), FleetError> {
    let rules: Vec<String> = rules.into_iter().collect();
    if rules.is_empty() {
        return Ok(());
    }
    Err(place.error(text.referenced, format!("{found}: {}", rules.join("; "))))
}
