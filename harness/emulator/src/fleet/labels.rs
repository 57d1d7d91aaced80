//! Validates labels, annotations, taints and topology of a pool by the rules of the API server, so
//! that errors have a location in the file.

use std::collections::{BTreeMap, BTreeSet};

use serde_saphyr::Spanned;

use super::FleetError;
use super::pool::NODES_MAX;
use super::spanned_value::{FleetFile, Scalar};
use super::taint::TaintText;
use crate::api_types::{kubelet_timing, names};

/// Validates the labels of a pool and returns them.
pub(super) fn validate_labels(
    file: FleetFile,
    texts: BTreeMap<String, Spanned<String>>,
) -> Result<BTreeMap<String, String>, FleetError> {
    let mut labels = BTreeMap::new();
    for (key, text) in texts {
        ok_unless_violated(
            file,
            &text,
            &format!("labels: {key:?}"),
            names::qualified_name_violations(&key),
        )?;
        let value = validate_label_value(file, &format!("labels.{key}"), &text)?;
        labels.insert(key, value);
    }
    Ok(labels)
}

/// Validates a label value and returns it.
pub(super) fn validate_label_value(
    file: FleetFile,
    field: &str,
    text: &Spanned<String>,
) -> Result<String, FleetError> {
    ok_unless_violated(
        file,
        text,
        &format!("{field}: {:?}", text.value),
        names::label_value_violation(&text.value),
    )?;
    Ok(text.value.clone())
}

/// Validates the key of an annotation, and the value of a timing annotation.
pub(super) fn validate_annotation(
    file: FleetFile,
    key: &str,
    text: &Spanned<String>,
) -> Result<(), FleetError> {
    let rules = names::qualified_name_violations(&key.to_lowercase());
    ok_unless_violated(file, text, &format!("annotations: {key:?}"), rules)?;
    let rule = kubelet_timing::violated_rule(key, &text.value).map(str::to_owned);
    ok_unless_violated(file, text, &format!("annotations.{key}: {:?}", text.value), rule)
}

/// Validates the taints of a pool and returns them.
pub(super) fn validate_taints(
    file: FleetFile,
    texts: Vec<Spanned<TaintText>>,
) -> Result<Vec<TaintText>, FleetError> {
    let mut seen = BTreeSet::new();
    for (index, text) in texts.iter().enumerate() {
        let TaintText { key, value, effect } = &text.value;
        let field = |of: &str, found: &str| format!("taints[{index}].{of}: {found:?}");
        ok_unless_violated(file, text, &field("key", key), names::qualified_name_violations(key))?;
        ok_unless_violated(
            file,
            text,
            &field("value", value),
            names::label_value_violation(value),
        )?;
        if !seen.insert((key, effect)) {
            let message = format!(
                "taints[{index}]: got {key} with {effect} again, expected each key and effect once"
            );
            return Err(file.error(text.referenced, message));
        }
    }
    Ok(texts.into_iter().map(|text| text.value).collect())
}

/// Validates `topology` of a pool: topology labels with the number of nodes per domain.
pub(super) fn validate_topology(
    file: FleetFile,
    texts: &BTreeMap<String, Spanned<Scalar>>,
) -> Result<BTreeMap<String, u64>, FleetError> {
    let mut topology = BTreeMap::new();
    for (label, nodes) in texts {
        ok_unless_violated(
            file,
            nodes,
            &format!("topology: {label:?}"),
            names::qualified_name_violations(label),
        )?;
        let count = file.parse_whole(&format!("topology.{label}"), nodes, [1, NODES_MAX])?;
        topology.insert(label.clone(), count);
    }
    Ok(topology)
}

/// Returns an error that lists the violated rules; `Ok` if there are none.
fn ok_unless_violated<T>(
    file: FleetFile,
    text: &Spanned<T>,
    found: &str,
    rules: impl IntoIterator<Item = String>,
) -> Result<(), FleetError> {
    let rules: Vec<String> = rules.into_iter().collect();
    if rules.is_empty() {
        return Ok(());
    }
    Err(file.error(text.referenced, format!("{found}: {}", rules.join("; "))))
}
