//! Placement constraints of a workload's pods from the columns of a row.

use schedlab_api::{Value, json};

use super::table::{Row, RowError};
use crate::world::observed::WORKLOAD_LABEL;

/// Adds selectors, affinities, topology spread and tolerations from the columns of a row to a pod's
/// `spec`.
pub(super) fn apply_placement_columns(
    row: &Row<'_>,
    name: &str,
    spec: &mut Value,
) -> Result<(), RowError> {
    for (key, value) in row.key_value_pairs("node selector")? {
        spec["nodeSelector"][key] = json!(value);
    }
    let node = "nodeAffinity";
    if let Some(requirements) = node_requirements(row, "node affinity")? {
        let term = json!({"matchExpressions": requirements});
        spec["affinity"][node]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({"nodeSelectorTerms": [term]});
    }
    if let Some(requirements) = node_requirements(row, "prefer")? {
        let preference = json!({"weight": 100, "preference": {"matchExpressions": requirements}});
        spec["affinity"][node]["preferredDuringSchedulingIgnoredDuringExecution"] =
            json!([preference]);
    }
    let own = json!({"matchLabels": {WORKLOAD_LABEL: name}});
    for (column, kind) in [("together by", "podAffinity"), ("apart by", "podAntiAffinity")] {
        if let Some(key) = row.cell(column) {
            spec["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"] =
                json!([{"labelSelector": own, "topologyKey": key}]);
        }
    }
    if let Some(key) = row.cell("spread by") {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": own,
        }]);
    }
    if let Some(cell) = row.cell("tolerations") {
        spec["tolerations"] = cell.split(',').map(|one| parse_toleration(one.trim())).collect();
    }
    Ok(())
}

/// A toleration written as `key=value:Effect`, `key:Effect`, `key=value` or `key`; `*` tolerates
/// everything.
fn parse_toleration(text: &str) -> Value {
    let (rest, effect) = text.rsplit_once(':').map_or((text, None), |(r, e)| (r, Some(e)));
    let mut toleration = match rest.split_once('=') {
        _ if rest == "*" => json!({"operator": "Exists"}),
        Some((key, value)) => json!({"key": key, "operator": "Equal", "value": value}),
        None => json!({"key": rest, "operator": "Exists"}),
    };
    if let Some(effect) = effect {
        toleration["effect"] = json!(effect);
    }
    toleration
}

/// Node requirements written as `key in a b; key notin c; key gt 3; key exists`, all of which must
/// hold.
fn node_requirements(row: &Row<'_>, column: &str) -> Result<Option<Vec<Value>>, RowError> {
    let Some(cell) = row.cell(column) else { return Ok(None) };
    let requirement = |text: &str| {
        let mut words = text.split_whitespace();
        let (key, operator) = (words.next()?, words.next()?);
        let operator = match operator {
            "in" => "In",
            "notin" => "NotIn",
            "gt" => "Gt",
            "lt" => "Lt",
            "exists" => "Exists",
            "absent" => "DoesNotExist",
            _ => return None,
        };
        let values: Vec<&str> = words.collect();
        let mut requirement = json!({"key": key, "operator": operator});
        if !values.is_empty() {
            requirement["values"] = json!(values);
        }
        Some(requirement)
    };
    let requirements: Option<Vec<Value>> = cell.split(';').map(requirement).collect();
    let allowed = "key in|notin|gt|lt|exists|absent values, separated by `;`";
    requirements.map(Some).ok_or_else(|| row.cell_error(column, cell, allowed))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn spec(cells: &[(&str, &str)]) -> String {
        let mut spec = json!({});
        let row = Row::from_cells("f:3".to_owned(), cells);
        apply_placement_columns(&row, "a", &mut spec)
            .map_or_else(|e| e.to_string(), |()| spec.to_string())
    }

    #[test]
    fn placement_columns_become_affinities_and_tolerations() {
        assert_snapshot!(spec(&[("node affinity", "gpu in h100 a100; rack notin r1")]), @r#"{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpu","operator":"In","values":["h100","a100"]},{"key":"rack","operator":"NotIn","values":["r1"]}]}]}}}}"#);
        assert_snapshot!(spec(&[("apart by", "kubernetes.io/hostname")]), @r#"{"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"schedlab.dev/workload":"a"}},"topologyKey":"kubernetes.io/hostname"}]}}}"#);
        assert_snapshot!(spec(&[("tolerations", "gpu=true:NoSchedule, spot")]), @r#"{"tolerations":[{"effect":"NoSchedule","key":"gpu","operator":"Equal","value":"true"},{"key":"spot","operator":"Exists"}]}"#);
        assert_snapshot!(spec(&[("node affinity", "gpu like h100")]), @"f:3: column `node affinity`: got gpu like h100, expected key in|notin|gt|lt|exists|absent values, separated by `;`");
    }
}
