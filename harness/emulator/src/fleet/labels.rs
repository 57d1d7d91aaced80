//! Validates labels, annotations, taints and topology of a pool by the rules of the API server, so
//! that errors have a location in the file.

use std::collections::{BTreeMap, BTreeSet};

use serde_saphyr::Spanned;

use super::FleetError;
use super::pool::NODES_MAX;
use super::spanned_value::{FleetFile, Scalar};
use super::taint::TaintText;
use crate::api_types::{kubelet_timing, names};

/// Validates the labels of a pool.
pub(super) fn labels(
    file: FleetFile,
    texts: BTreeMap<String, Spanned<String>>,
) -> Result<BTreeMap<String, String>, FleetError> {
    let mut labels = BTreeMap::new();
    for (key, text) in texts {
        check_rules(
            file,
            &text,
            &format!("labels: {key:?}"),
            names::qualified_name_violations(&key),
        )?;
        let value = value(file, &format!("labels.{key}"), &text)?;
        labels.insert(key, value);
    }
    Ok(labels)
}

/// Validates a label value.
pub(super) fn value(
    file: FleetFile,
    field: &str,
    text: &Spanned<String>,
) -> Result<String, FleetError> {
    check_rules(
        file,
        text,
        &format!("{field}: {:?}", text.value),
        names::label_value_violation(&text.value),
    )?;
    Ok(text.value.clone())
}

/// Validates the key of an annotation, and the value of a timing annotation.
pub(super) fn annotation(
    file: FleetFile,
    key: &str,
    text: &Spanned<String>,
) -> Result<(), FleetError> {
    let rules = names::qualified_name_violations(&key.to_lowercase());
    check_rules(file, text, &format!("annotations: {key:?}"), rules)?;
    let rule = kubelet_timing::violated_rule(key, &text.value).map(str::to_owned);
    check_rules(file, text, &format!("annotations.{key}: {:?}", text.value), rule)
}

/// Validates the taints of a pool.
pub(super) fn taints(
    file: FleetFile,
    texts: Vec<Spanned<TaintText>>,
) -> Result<Vec<TaintText>, FleetError> {
    let mut seen = BTreeSet::new();
    for (index, text) in texts.iter().enumerate() {
        let TaintText { key, value, effect } = &text.value;
        let field = |of: &str, found: &str| format!("taints[{index}].{of}: {found:?}");
        check_rules(file, text, &field("key", key), names::qualified_name_violations(key))?;
        check_rules(file, text, &field("value", value), names::label_value_violation(value))?;
        if !seen.insert((key, effect)) {
            let message = format!(
                "taints[{index}]: got {key} with {effect} again, expected each key and effect once"
            );
            return Err(file.error(text.referenced, message));
        }
    }
    Ok(texts.into_iter().map(|text| text.value).collect())
}

/// Validates topology labels with the number of nodes per domain.
pub(super) fn topology(
    file: FleetFile,
    texts: &BTreeMap<String, Spanned<Scalar>>,
) -> Result<BTreeMap<String, u64>, FleetError> {
    let mut topology = BTreeMap::new();
    for (label, nodes) in texts {
        check_rules(
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

/// Returns an error with the violated rules, if any.
fn check_rules<T>(
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
