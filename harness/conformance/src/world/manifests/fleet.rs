//! Nodes from table rows, one node pool per row, through the emulator's fleet format.

use std::fmt::Write as _;

use schedlab_api::Value;
use schedlab_emulator::fleet::Fleet;

use super::table::{Row, RowError};

/// The columns of a table of node pools.
pub(crate) const FLEET_COLUMNS: &[&str] = &[
    "pool",
    "nodes",
    "gpus",
    "gpu model",
    "gpu memory",
    "gpus by",
    "cpu",
    "memory",
    "pods",
    "labels",
    "taints",
];

/// The nodes of a pool, from a row of a table: `<pool>-1`, `<pool>-2` …; without a count, one node
/// with the pool's name.
pub(crate) fn nodes_from_row(row: &Row<'_>) -> Result<Vec<Value>, RowError> {
    let pool = row.cell("pool").unwrap_or("node");
    let count = row.object_count("nodes", 1)?;
    let names: Vec<String> = match count {
        Some(count) => (1..=count).map(|number| format!("{pool}-{number}")).collect(),
        None => vec![pool.to_owned()],
    };
    if let Some(cell) = row.cell("gpus by").filter(|cell| !["plugin", "claim"].contains(cell)) {
        return Err(row.cell_error("gpus by", cell, "plugin or claim"));
    }
    let mut text = format!("pools:\n- name: {pool}\n  names: [{}]\n", names.join(", "));
    let fields = [
        ("gpus", "gpus"),
        ("gpu model", "gpuProduct"),
        ("gpu memory", "gpuMemory"),
        ("gpus by", "gpusBy"),
        ("cpu", "cpu"),
        ("memory", "memory"),
        ("pods", "pods"),
    ];
    for (column, field) in fields {
        if let Some(cell) = row.cell(column) {
            let _ = writeln!(text, "  {field}: {}", quoted_value(cell));
        }
    }
    text.push_str(&labels_yaml(row)?);
    text.push_str(&taints_yaml(row)?);
    let fleet = Fleet::parse("the pool", &text).map_err(|error| row.row_error(&error.message))?;
    Ok(fleet.nodes().to_vec())
}

fn labels_yaml(row: &Row<'_>) -> Result<String, RowError> {
    let pairs = row.key_value_pairs("labels")?;
    if pairs.is_empty() {
        return Ok(String::new());
    }
    Ok(pairs.into_iter().fold("  labels:\n".to_owned(), |mut text, (key, value)| {
        let _ = writeln!(text, "    {}: {}", quoted_value(key), quoted_value(value));
        text
    }))
}

/// The taints in a row as YAML, from `key=value:Effect` separated by commas; the value is optional.
fn taints_yaml(row: &Row<'_>) -> Result<String, RowError> {
    let Some(cell) = row.cell("taints") else { return Ok(String::new()) };
    let mut text = "  taints:\n".to_owned();
    for taint in cell.split(',') {
        let (rest, effect) = taint
            .trim()
            .rsplit_once(':')
            .ok_or_else(|| row.cell_error("taints", taint, "key=value:NoSchedule"))?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let (key, value, effect) = (quoted_value(key), quoted_value(value), quoted_value(effect));
        let _ = writeln!(text, "  - {{key: {key}, value: {value}, effect: {effect}}}");
    }
    Ok(text)
}

fn quoted_value(text: &str) -> Value {
    Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_becomes_numbered_nodes_with_labels_and_taints() {
        let row = Row::from_cells(
            "f:1".to_owned(),
            &[
                ("pool", "h100"),
                ("nodes", "2"),
                ("gpus", "8"),
                ("labels", "rack=r1"),
                ("taints", "gpu=true:NoSchedule"),
            ],
        );
        let nodes = nodes_from_row(&row).unwrap();
        let names: Vec<_> = nodes.iter().map(|n| n["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["h100-1", "h100-2"]);
        assert_eq!(nodes[0]["metadata"]["labels"]["rack"], "r1");
        assert_eq!(nodes[0]["spec"]["taints"][0]["effect"], "NoSchedule");
        assert_eq!(nodes[0]["status"]["allocatable"]["nvidia.com/gpu"], "8");
    }

    #[test]
    fn an_invalid_pool_is_rejected_with_a_reason() {
        let row = Row::from_cells("f:1".to_owned(), &[("gpus", "-1")]);
        let error = nodes_from_row(&row).unwrap_err().to_string();
        assert_eq!(error, "f:1: gpus: got -1, expected a whole number from 0 to 1024");
        let row = Row::from_cells("f:1".to_owned(), &[("gpus by", "clam")]);
        let error = nodes_from_row(&row).unwrap_err().to_string();
        assert_eq!(error, "f:1: column `gpus by`: got clam, expected plugin or claim");
        let row = Row::from_cells("f:1".to_owned(), &[("taints", "gpu")]);
        assert!(nodes_from_row(&row).unwrap_err().to_string().contains("key=value:NoSchedule"));
    }
}
