//! The cells of a workload's row for placement constraints of its pods, and the node labels that they
//! need.

use std::collections::BTreeSet;

use schedlab_api::{Map, Value, labels, object};

use super::{rows::Inexpressible, table::Cells};
use crate::Case;

/// The constraints that hold while a pod is scheduled.
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
/// The constraints that the scheduler tries to meet.
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Operators of node affinity, and their words in a table.
const OPERATORS: [(&str, &str); 6] = [
    ("In", "in"),
    ("NotIn", "notin"),
    ("Gt", "gt"),
    ("Lt", "lt"),
    ("Exists", "exists"),
    ("DoesNotExist", "absent"),
];

/// The cells for affinity and spreading of a pod. The selectors of a table select the pods of the
/// workload; a selector that selects others or not all of them cannot be said.
pub(super) fn placement_cells(
    case: &Case,
    pod: &Value,
    members: &[&Value],
) -> Result<Cells, Inexpressible> {
    let name = object::name(pod);
    let wrong = |what: &str| Inexpressible(format!("pod {name} has {what}"));
    let is_own = |term: &Value| selects_exactly(case, term.get("labelSelector"), members);
    let mut cells = Cells::new();
    for (part, terms) in parts(pod.pointer("/spec/affinity")) {
        let column = match (part.0, part.1) {
            ("nodeAffinity", _) => {
                cells
                    .push(node_affinity_cell(part.1, terms).ok_or_else(|| wrong("node affinity"))?);
                continue;
            }
            ("podAffinity", REQUIRED) => "together by",
            ("podAntiAffinity", REQUIRED) => "apart by",
            _ => return Err(wrong("a preferred affinity to pods")),
        };
        match terms.as_array().map(Vec::as_slice) {
            Some([term]) if is_own(term) => {
                cells.push((column, object::text(term, &["topologyKey"]).to_owned()));
            }
            _ => return Err(wrong("affinity to other pods")),
        }
    }
    let spread = object::list(pod, &["spec", "topologySpreadConstraints"]);
    match spread {
        [] => {}
        [one]
            if is_own(one)
                && object::number(one, &["maxSkew"]) == Some(1)
                && object::text(one, &["whenUnsatisfiable"]) == "DoNotSchedule" =>
        {
            cells.push(("spread by", object::text(one, &["topologyKey"]).to_owned()));
        }
        _ => return Err(wrong("topologySpreadConstraints")),
    }
    Ok(cells)
}

/// The parts of an affinity that are not empty: kind and strictness, and the terms.
fn parts(affinity: Option<&Value>) -> Vec<((&str, &str), &Value)> {
    let kinds = affinity.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    let parts = kinds.flat_map(|(kind, part)| {
        let part = part.as_object().into_iter().flat_map(Map::iter);
        part.map(move |(strictness, terms)| ((kind.as_str(), strictness.as_str()), terms))
    });
    let is_empty = |terms: &Value| terms.is_null() || terms.as_array().is_some_and(Vec::is_empty);
    parts.filter(|(_, terms)| !is_empty(terms)).collect()
}

/// The cell of a node affinity with one term; `None` if a table cannot say it.
fn node_affinity_cell(strictness: &str, terms: &Value) -> Option<(&'static str, String)> {
    let (column, term) = match strictness {
        REQUIRED => match object::list(terms, &["nodeSelectorTerms"]) {
            [term] => ("node affinity", term),
            _ => return None,
        },
        PREFERRED => match terms.as_array().map(Vec::as_slice) {
            Some([term]) => ("prefer", term.get("preference")?),
            _ => return None,
        },
        _ => return None,
    };
    if !object::list(term, &["matchFields"]).is_empty() {
        return None;
    }
    let requirement = |requirement: &Value| {
        let operator = object::text(requirement, &["operator"]);
        let (_, word) = OPERATORS.iter().find(|(known, _)| *known == operator)?;
        let values = object::list(requirement, &["values"]).iter().filter_map(Value::as_str);
        let words = [object::text(requirement, &["key"]), word].into_iter().chain(values);
        Some(words.collect::<Vec<_>>().join(" "))
    };
    let all = object::list(term, &["matchExpressions"]).iter().map(requirement);
    let all: Option<Vec<String>> = all.collect();
    all.filter(|all| !all.is_empty()).map(|all| (column, all.join("; ")))
}

/// Whether a selector of labels selects the pods of a workload and no others of their namespace.
fn selects_exactly(case: &Case, selector: Option<&Value>, members: &[&Value]) -> bool {
    let Some(selector) = selector else { return false };
    let wanted = object::map(selector, &["matchLabels"]);
    let has_expressions = !object::list(selector, &["matchExpressions"]).is_empty();
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty() && !has_expressions) else {
        return false;
    };
    let matches =
        |pod: &Value| wanted.iter().all(|(key, value)| object::label(pod, key) == value.as_str());
    let is_member = |pod: &Value| {
        members.iter().any(|member| {
            object::name(member) == object::name(pod)
                && object::namespace(member) == object::namespace(pod)
        })
    };
    case.objects("pods").all(|pod| matches(pod) == is_member(pod))
}

/// The node labels that pods select by, beside the name of the node, which each node has.
pub(super) fn selected_labels(case: &Case) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for pod in case.objects("pods") {
        let selector = object::map(pod, &["spec", "nodeSelector"]).into_iter();
        keys.extend(selector.flat_map(Map::keys).map(ToString::to_string));
        collect_keys(pod.pointer("/spec/affinity"), &mut keys);
        collect_keys(pod.pointer("/spec/topologySpreadConstraints"), &mut keys);
    }
    keys.remove(labels::HOSTNAME);
    keys
}

/// Keys of requirements for nodes, and topology keys.
fn collect_keys(value: Option<&Value>, keys: &mut BTreeSet<String>) {
    match value {
        Some(Value::Array(items)) => items.iter().for_each(|item| collect_keys(Some(item), keys)),
        Some(Value::Object(map)) => {
            for (field, value) in map {
                match (field.as_str(), value) {
                    ("key" | "topologyKey", Value::String(key)) => {
                        keys.insert(key.to_string());
                    }
                    ("labelSelector", _) => {}
                    _ => collect_keys(Some(value), keys),
                }
            }
        }
        _ => {}
    }
}
