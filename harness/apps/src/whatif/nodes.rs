//! Nodes that are added: copies of a node of the fleet with the wanted GPUs.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{Value, json, labels, object, quantity, resources};
use schedlab_casefiles::Case;
use schedlab_conformance::text::counted_noun;

use super::{
    apply::first_names,
    change::{ChangeError, NewNodes},
};

const OPTION: &str = "--nodes";

/// GPUs and model of a node.
type NodeShape<'a> = (u32, &'a str);

/// The nodes, and what they are in words.
pub(super) fn new_nodes(
    case: &Case,
    wanted: &NewNodes,
) -> Result<(Vec<Value>, String), ChangeError> {
    let model = wanted.model.as_deref().map(|model| known_model(case, model)).transpose()?;
    let mut by_shape: BTreeMap<NodeShape<'_>, Vec<&Value>> = BTreeMap::new();
    for node in case.objects("nodes") {
        let shape = (gpus_of(node), model_of(node));
        if model.is_none_or(|model| model == shape.1) && takes_pods(node) {
            by_shape.entry(shape).or_default().push(node);
        }
    }
    // The shape with the wanted GPUs, else the nearest; of several, the most frequent.
    let distance = |gpus: u32| match (wanted.gpus, gpus) {
        (Some(wanted), gpus) => wanted.abs_diff(gpus),
        (None, 0) => 1,
        (None, _) => 0,
    };
    let rank = |shape: &NodeShape<'_>, nodes: &[&Value]| {
        (distance(shape.0), std::cmp::Reverse(nodes.len()))
    };
    let Some((shape, nodes)) = by_shape.iter().min_by_key(|(shape, nodes)| rank(shape, nodes))
    else {
        let message = "got nodes to add, and the case has no node to copy".to_owned();
        return Err(ChangeError { option: OPTION, message });
    };
    let gpus = wanted.gpus.unwrap_or(shape.0);
    let template = nodes[0];
    let known: BTreeSet<&str> = case.objects("nodes").map(object::name).collect();
    let names = (1..).map(|number| format!("new-node-{number}"));
    let names = names.filter(|name| !known.contains(&**name)).take(wanted.count as usize);
    let nodes = names.map(|name| copy_of(template, &name, shape.0, gpus));
    let model = if shape.1.is_empty() { String::new() } else { format!(" of model {}", shape.1) };
    let description = format!(
        "{} with {}{model} {} added (like {}, also in its topology domain)",
        counted_noun(wanted.count as usize, "node"),
        counted_noun(gpus as usize, "GPU"),
        if wanted.count == 1 { "is" } else { "are" },
        object::name(template)
    );
    Ok((nodes.collect(), description))
}

/// The model of the fleet that is meant: its name, or a word of it, in any case.
fn known_model<'c>(case: &'c Case, wanted: &str) -> Result<&'c str, ChangeError> {
    let models: BTreeSet<&str> =
        case.objects("nodes").map(model_of).filter(|model| !model.is_empty()).collect();
    let refuse = |message: String| Err(ChangeError { option: OPTION, message });
    if models.is_empty() {
        return refuse(format!(
            "got model {wanted}, and no node has label {}, expected +COUNTxGPUS",
            labels::GPU_PRODUCT
        ));
    }
    let fits = |model: &&&str| {
        model.eq_ignore_ascii_case(wanted)
            || words(model).any(|word| word.eq_ignore_ascii_case(wanted))
    };
    let fitting: Vec<&str> = models.iter().filter(fits).copied().collect();
    match fitting.as_slice() {
        [model] => Ok(model),
        [] => {
            let lower = wanted.to_lowercase();
            let distance = |word: &&str| strsim::osa_distance(&word.to_lowercase(), &lower);
            let all = models.iter().flat_map(|model| words(model).chain([*model]));
            let near = all.min_by_key(distance).filter(|near| distance(near) <= 2);
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            refuse(format!(
                "got model {wanted}, expected one of {}{near}",
                first_names(models.into_iter())
            ))
        }
        several => refuse(format!(
            "got model {wanted}, which is a word of several, expected one of {}",
            first_names(several.iter().copied())
        )),
    }
}

fn words(model: &str) -> impl Iterator<Item = &str> {
    model.split(['-', '_', ' ']).filter(|word| !word.is_empty())
}

fn copy_of(template: &Value, name: &str, old_gpus: u32, gpus: u32) -> Value {
    let mut node = template.clone();
    for path in [
        &["spec", "providerID"][..],
        &["spec", "podCIDR"],
        &["metadata", "annotations"],
        &["metadata", "resourceVersion"],
    ] {
        object::remove(&mut node, path);
    }
    object::set(&mut node, &["metadata", "name"], json!(name));
    object::set(&mut node, &["metadata", "uid"], json!(name));
    object::set(&mut node, &["metadata", "labels", labels::HOSTNAME], json!(name));
    if gpus == old_gpus {
        return node;
    }
    for amounts in ["allocatable", "capacity"] {
        let Some(amounts) = node["status"][amounts].as_object_mut() else { continue };
        for resource in ["cpu", "memory"] {
            let scaled = amounts.get(resource).and_then(quantity::thousandths);
            let scaled = scaled.map(|milli| milli / i128::from(old_gpus.max(1)) * i128::from(gpus));
            if let Some(milli) = scaled.filter(|milli| *milli > 0 && old_gpus > 0) {
                let amount = match resource {
                    "cpu" => format!("{milli}m"),
                    _ => (milli / 1000).to_string(),
                };
                amounts.insert(resource.to_owned(), json!(amount));
            }
        }
        amounts.insert(resources::GPU.to_owned(), json!(gpus.to_string()));
    }
    if object::label(&node, labels::GPU_COUNT).is_some() {
        object::set(&mut node, &["metadata", "labels", labels::GPU_COUNT], json!(gpus.to_string()));
    }
    node
}

fn gpus_of(node: &Value) -> u32 {
    let found = object::at(node, &["status", "allocatable", resources::GPU]);
    let milli = found.and_then(quantity::thousandths).unwrap_or_default();
    u32::try_from(milli / 1000).unwrap_or_default()
}

fn model_of(node: &Value) -> &str {
    object::label(node, labels::GPU_PRODUCT).unwrap_or_default()
}

fn takes_pods(node: &Value) -> bool {
    node.pointer("/spec/unschedulable") != Some(&Value::Bool(true))
        && object::condition(node, "Ready") != Some("False")
}

/// Whether a name matches a pattern, in which `*` stands for any text.
pub(super) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).any(|at| name.get(at..).is_some_and(|end| matches_pattern(rest, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, matched) in
            [("node-1", true), ("node-*", true), ("*", true), ("n*1", true), ("node-2*", false)]
        {
            assert_eq!(matches_pattern(pattern, "node-1"), matched, "{pattern}");
        }
    }
}
