//! Node selectors, label selectors, tolerations and spread constraints of a pod's spec.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{
    Inclusion, LabelSelector, Name, NamespaceSet, NodeSelectorTerm, Operator, PodAffinityTerm,
    Requirement, TaintEffect, Toleration, TopologySpread, WhenUnsatisfiable,
};

use crate::parse::{Malformed, at, int32, list, name, strings, text};

const OPERATORS: &str = "In, NotIn, Exists, DoesNotExist, Gt or Lt";
const EFFECTS: &str = "NoSchedule, PreferNoSchedule or NoExecute";

/// Parses the required terms of `spec.affinity.nodeAffinity`.
pub(crate) fn node_terms(spec: &Value) -> Result<Option<Vec<NodeSelectorTerm>>, Malformed> {
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let Some(selector) = at(spec, required) else {
        return Ok(None);
    };
    list(selector, "/nodeSelectorTerms").iter().map(node_term).collect::<Result<_, _>>().map(Some)
}

/// Parses the preferred terms of `spec.affinity.nodeAffinity`, with weights.
pub(crate) fn node_preferences(spec: &Value) -> Result<Vec<(i32, NodeSelectorTerm)>, Malformed> {
    let preferred = "/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
    let preference = |item: &Value| {
        let term = node_term(item.get("preference").unwrap_or(&Value::Null))?;
        Ok((int32(item, "/weight").unwrap_or(0), term))
    };
    list(spec, preferred).iter().map(preference).collect()
}

pub(crate) fn node_term(term: &Value) -> Result<NodeSelectorTerm, Malformed> {
    let of = |pointer| list(term, pointer).iter().map(requirement).collect::<Result<_, _>>();
    Ok(NodeSelectorTerm { labels: of("/matchExpressions")?, fields: of("/matchFields")? })
}

fn requirement(item: &Value) -> Result<Requirement, Malformed> {
    let operator = match text(item, "/operator").unwrap_or_default() {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        other => return Err(Malformed::new("spec.affinity: operator", other, OPERATORS)),
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
pub(crate) fn pod_terms(spec: &Value, of: &str) -> Result<Vec<PodAffinityTerm>, Malformed> {
    let required = format!("/affinity/{of}/requiredDuringSchedulingIgnoredDuringExecution");
    list(spec, &required).iter().map(pod_term).collect()
}

/// Parses preferred pod affinity and anti-affinity; weights of the latter are negative.
pub(crate) fn pod_preferences(spec: &Value) -> Result<Vec<(i32, PodAffinityTerm)>, Malformed> {
    let mut preferences = Vec::new();
    for (of, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
        let preferred = format!("/affinity/{of}/preferredDuringSchedulingIgnoredDuringExecution");
        for item in list(spec, &preferred) {
            let term = pod_term(item.get("podAffinityTerm").unwrap_or(&Value::Null))?;
            preferences.push((int32(item, "/weight").unwrap_or(0).saturating_mul(sign), term));
        }
    }
    Ok(preferences)
}

fn pod_term(term: &Value) -> Result<PodAffinityTerm, Malformed> {
    Ok(PodAffinityTerm {
        selector: term.get("labelSelector").map(label_selector).transpose()?,
        namespaces: namespaces(term)?,
        topology_key: text(term, "/topologyKey").unwrap_or_default().into(),
    })
}

/// Parses the namespaces of a term, by name and by label. `None` if neither is set: the namespace
/// of the pod.
fn namespaces(term: &Value) -> Result<Option<NamespaceSet>, Malformed> {
    let selector = term.get("namespaceSelector").filter(|selector| !selector.is_null());
    let set = NamespaceSet {
        names: list(term, "/namespaces").iter().filter_map(Value::as_str).map(Name::from).collect(),
        selector: selector.map(label_selector).transpose()?,
    };
    Ok((set != NamespaceSet::default()).then_some(set))
}

pub(crate) fn label_selector(selector: &Value) -> Result<LabelSelector, Malformed> {
    let equal = |(key, value)| Requirement { key, operator: Operator::In, values: vec![value] };
    let mut requirements: Vec<_> =
        strings(selector, "/matchLabels").into_iter().map(equal).collect();
    for item in list(selector, "/matchExpressions") {
        requirements.push(requirement(item)?);
    }
    Ok(LabelSelector { requirements })
}

/// Parses `spec.tolerations`.
pub(crate) fn tolerations(spec: &Value) -> Result<Vec<Toleration>, Malformed> {
    list(spec, "/tolerations").iter().map(toleration).collect()
}

fn toleration(item: &Value) -> Result<Toleration, Malformed> {
    let value = match text(item, "/operator").unwrap_or("Equal") {
        "Exists" => None,
        "Equal" | "" => Some(text(item, "/value").unwrap_or_default().into()),
        other => {
            return Err(Malformed::new("spec.tolerations: operator", other, "Equal or Exists"));
        }
    };
    let effect = match text(item, "/effect").unwrap_or_default() {
        "" => None,
        other => Some(effect("spec.tolerations: effect", other)?),
    };
    Ok(Toleration { key: name(item, "/key"), value, effect })
}

/// Parses the effect of a taint or a toleration.
pub(crate) fn effect(field: &str, found: &str) -> Result<TaintEffect, Malformed> {
    match found {
        "NoSchedule" => Ok(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Ok(TaintEffect::PreferNoSchedule),
        "NoExecute" => Ok(TaintEffect::NoExecute),
        other => Err(Malformed::new(field, other, EFFECTS)),
    }
}

/// Parses `spec.topologySpreadConstraints`.
pub(crate) fn topology_spread(spec: &Value) -> Result<Vec<TopologySpread>, Malformed> {
    list(spec, "/topologySpreadConstraints").iter().map(spread_constraint).collect()
}

fn spread_constraint(item: &Value) -> Result<TopologySpread, Malformed> {
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
        selector: item.get("labelSelector").map(label_selector).transpose()?,
        min_domains: int32(item, "/minDomains"),
        node_affinity_policy: inclusion(item, "nodeAffinityPolicy", Inclusion::Honor)?,
        node_taints_policy: inclusion(item, "nodeTaintsPolicy", Inclusion::Ignore)?,
    })
}

fn inclusion(item: &Value, field: &str, default: Inclusion) -> Result<Inclusion, Malformed> {
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
