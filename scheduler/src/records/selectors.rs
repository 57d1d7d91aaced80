//! Node selectors, label selectors, tolerations and spread constraints of a pod's spec.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{
    Inclusion, LabelSelector, Name, NamespaceSet, NodeSelectorTerm, Operator, PodAffinityTerm,
    Requirement, TaintEffect, Toleration, TopologySpread, WhenUnsatisfiable,
};

use crate::parse::{Malformed, at, int32, list, name, strings, text};

const EXPECTED_OPERATOR: &str = "In, NotIn, Exists, DoesNotExist, Gt or Lt";
const EXPECTED_EFFECT: &str = "NoSchedule, PreferNoSchedule or NoExecute";

/// Parses the required terms of `spec.affinity.nodeAffinity`.
pub(crate) fn parse_node_terms(spec: &Value) -> Result<Option<Vec<NodeSelectorTerm>>, Malformed> {
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let Some(selector) = at(spec, required) else {
        return Ok(None);
    };
    list(selector, "/nodeSelectorTerms")
        .iter()
        .map(parse_node_term)
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Parses the preferred terms of `spec.affinity.nodeAffinity`, with weights.
pub(crate) fn parse_node_preferences(
    spec: &Value,
) -> Result<Vec<(i32, NodeSelectorTerm)>, Malformed> {
    let preferred = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let preference = |item: &Value| {
        let term = parse_node_term(item.get("preference").unwrap_or(&Value::Null))?;
        Ok((int32(item, "/weight").unwrap_or(0), term))
    };
    list(spec, preferred).iter().map(preference).collect()
}

pub(crate) fn parse_node_term(term: &Value) -> Result<NodeSelectorTerm, Malformed> {
    let of = |pointer| list(term, pointer).iter().map(parse_requirement).collect::<Result<_, _>>();
    Ok(NodeSelectorTerm { labels: of("/matchExpressions")?, fields: of("/matchFields")? })
}

fn parse_requirement(item: &Value) -> Result<Requirement, Malformed> {
    let operator = match text(item, "/operator").unwrap_or_default() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        other => return Err(Malformed::new("spec.affinity: operator", other, EXPECTED_OPERATOR)),
    };
    let named = list(item, "/values").iter().filter_map(Value::as_str);
    if matches!(operator, Operator::Gt | Operator::Lt)
        && let Some(other) = named.clone().find(|value| value.parse::<i64>().is_err())
    {
        return Err(Malformed::new("spec.affinity: values", other, "an integer for Gt and Lt"));
    }
    let values = named.map(Name::from).collect();
    Ok(Requirement { key: text(item, "/key").unwrap_or_default().into(), operator, values })
}

/// Parses required pod affinity (`of` is `podAffinity`) or anti-affinity (`podAntiAffinity`).
pub(crate) fn parse_pod_terms(spec: &Value, of: &str) -> Result<Vec<PodAffinityTerm>, Malformed> {
    let required = format!("/affinity/{of}/requiredDuringSchedulingIgnoredDuringExecution");
    list(spec, &required).iter().map(parse_pod_term).collect()
}

/// Parses preferred pod affinity and anti-affinity; weights of the latter are negative.
pub(crate) fn parse_pod_preferences(
    spec: &Value,
) -> Result<Vec<(i32, PodAffinityTerm)>, Malformed> {
    let mut preferences = Vec::new();
    for (of, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
        let preferred = format!("/affinity/{of}/preferredDuringSchedulingIgnoredDuringExecution");
        for item in list(spec, &preferred) {
            let term = parse_pod_term(item.get("podAffinityTerm").unwrap_or(&Value::Null))?;
            preferences.push((int32(item, "/weight").unwrap_or(0).saturating_mul(sign), term));
        }
    }
    Ok(preferences)
}

fn parse_pod_term(term: &Value) -> Result<PodAffinityTerm, Malformed> {
    Ok(PodAffinityTerm {
        selector: term.get("labelSelector").map(parse_label_selector).transpose()?,
        namespaces: parse_namespaces(term)?,
        topology_key: text(term, "/topologyKey").unwrap_or_default().into(),
    })
}

/// Parses the namespaces of a term, by name and by label. `None` if neither is set: the namespace
/// of the pod.
fn parse_namespaces(term: &Value) -> Result<Option<NamespaceSet>, Malformed> {
    let selector = term.get("namespaceSelector").filter(|selector| !selector.is_null());
    let set = NamespaceSet {
        names: list(term, "/namespaces").iter().filter_map(Value::as_str).map(Name::from).collect(),
        selector: selector.map(parse_label_selector).transpose()?,
    };
    Ok((set != NamespaceSet::default()).then_some(set))
}

pub(crate) fn parse_label_selector(selector: &Value) -> Result<LabelSelector, Malformed> {
    let equal = |(key, value)| Requirement { key, operator: Operator::In, values: vec![value] };
    let mut requirements: Vec<_> =
        strings(selector, "/matchLabels").into_iter().map(equal).collect();
    for item in list(selector, "/matchExpressions") {
        requirements.push(parse_requirement(item)?);
    }
    Ok(LabelSelector { requirements })
}

/// Parses `spec.tolerations`.
pub(crate) fn parse_tolerations(spec: &Value) -> Result<Vec<Toleration>, Malformed> {
    list(spec, "/tolerations").iter().map(parse_toleration).collect()
}

fn parse_toleration(item: &Value) -> Result<Toleration, Malformed> {
    let value = match text(item, "/operator").unwrap_or("Equal") {
        "Exists" => None,
        "Equal" | "" => Some(text(item, "/value").unwrap_or_default().into()),
        other => {
            return Err(Malformed::new("spec.tolerations: operator", other, "Equal or Exists"));
        }
    };
    let effect = match text(item, "/effect").unwrap_or_default() {
        "" => None,
        other => Some(parse_effect("spec.tolerations: effect", other)?),
    };
    Ok(Toleration { key: name(item, "/key"), value, effect })
}

/// Parses the effect of a taint or a toleration.
pub(crate) fn parse_effect(field: &str, found: &str) -> Result<TaintEffect, Malformed> {
    match found {
        "NoSchedule" => Ok(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Ok(TaintEffect::PreferNoSchedule),
        "NoExecute" => Ok(TaintEffect::NoExecute),
        other => Err(Malformed::new(field, other, EXPECTED_EFFECT)),
    }
}

/// Parses `spec.topologySpreadConstraints`.
pub(crate) fn parse_topology_spread(spec: &Value) -> Result<Vec<TopologySpread>, Malformed> {
    list(spec, "/topologySpreadConstraints").iter().map(parse_spread_constraint).collect()
}

fn parse_spread_constraint(item: &Value) -> Result<TopologySpread, Malformed> {
    let when_unsatisfiable = match text(item, "/whenUnsatisfiable").unwrap_or("DoNotSchedule") {
        "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
        "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
        other => {
            let field = "spec.topologySpreadConstraints: whenUnsatisfiable";
            return Err(Malformed::new(field, other, "DoNotSchedule or ScheduleAnyway"));
        }
    };
    Ok(TopologySpread {
        max_skew: int32(item, "/maxSkew").unwrap_or(1),
        topology_key: text(item, "/topologyKey").unwrap_or_default().into(),
        when_unsatisfiable,
        selector: item.get("labelSelector").map(parse_label_selector).transpose()?,
        min_domains: int32(item, "/minDomains"),
        node_affinity_policy: parse_inclusion(item, "nodeAffinityPolicy", Inclusion::Honor)?,
        node_taints_policy: parse_inclusion(item, "nodeTaintsPolicy", Inclusion::Ignore)?,
    })
}

fn parse_inclusion(item: &Value, field: &str, default: Inclusion) -> Result<Inclusion, Malformed> {
    match text(item, &format!("/{field}")) {
        None => Ok(default),
        Some("Honor") => Ok(Inclusion::Honor),
        Some("Ignore") => Ok(Inclusion::Ignore),
        Some(other) => {
            let field = format!("spec.topologySpreadConstraints: {field}");
            Err(Malformed::new(field, other, "Honor or Ignore"))
        }
    }
}
