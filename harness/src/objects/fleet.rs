//! Nodes from rows, one pool a row, through the emulator's own fleet format.

use std::fmt::Write as _;

use schedlab_emulator::fleet::Fleet;
use schedlab_json::Value;

use super::rows::{Row, RowError};

/// Columns of a table of node pools.
pub(crate) const FLEET_COLUMNS: &[&str] = &[
    "pool",
    "nodes",
    "gpus",
    "gpu model",
    "gpu memory",
    "cpu",
    "memory",
    "pods",
    "labels",
    "taints",
];

/// The nodes of a pool: `<pool>-1` and so on; one alone has the pool's name.
pub(crate) fn fleet(row: &Row<'_>) -> Result<Vec<Value>, RowError> {
    let pool = row.text("pool").unwrap_or("node");
    let count = row.objects("nodes", 1)?;
    let names: Vec<String> = match count {
        Some(count) => (1..=count).map(|number| format!("{pool}-{number}")).collect(),
        None => vec![pool.to_owned()],
    };
    let mut text = format!("pools:\n- name: {pool}\n  names: [{}]\n", names.join(", "));
    let fields = [
        ("gpus", "gpus"),
        ("gpu model", "gpuProduct"),
        ("gpu memory", "gpuMemory"),
        ("cpu", "cpu"),
        ("memory", "memory"),
        ("pods", "pods"),
    ];
    for (column, field) in fields {
        if let Some(cell) = row.text(column) {
            let _ = writeln!(text, "  {field}: {}", quoted(cell));
        }
    }
    text.push_str(&labels(row)?);
    text.push_str(&taints(row)?);
    let fleet = Fleet::parse("the pool", &text).map_err(|error| row.wrong(&error.message))?;
    Ok(fleet.nodes().to_vec())
}

fn labels(row: &Row<'_>) -> Result<String, RowError> {
    let pairs = row.pairs("labels")?;
    if pairs.is_empty() {
        return Ok(String::new());
    }
    Ok(pairs.into_iter().fold("  labels:\n".to_owned(), |mut text, (key, value)| {
        let _ = writeln!(text, "    {}: {}", quoted(key), quoted(value));
        text
    }))
}

/// `key=value:Effect`, separated by commas; the value may be absent.
fn taints(row: &Row<'_>) -> Result<String, RowError> {
    let Some(cell) = row.text("taints") else { return Ok(String::new()) };
    let mut text = "  taints:\n".to_owned();
    for taint in cell.split(',') {
        let (rest, effect) = taint
            .trim()
            .rsplit_once(':')
            .ok_or_else(|| row.error("taints", taint, "key=value:NoSchedule"))?;
        let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
        let (key, value, effect) = (quoted(key), quoted(value), quoted(effect));
        let _ = writeln!(text, "  - {{key: {key}, value: {value}, effect: {effect}}}");
    }
    Ok(text)
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_becomes_numbered_nodes_with_labels_and_taints() {
        let row = Row::of(
            "f:1".to_owned(),
            &[
                ("pool", "h100"),
                ("nodes", "2"),
                ("gpus", "8"),
                ("labels", "rack=r1"),
                ("taints", "gpu=true:NoSchedule"),
            ],
        );
        let nodes = fleet(&row).unwrap();
        let names: Vec<_> = nodes.iter().map(|n| n["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["h100-1", "h100-2"]);
        assert_eq!(nodes[0]["metadata"]["labels"]["rack"], "r1");
        assert_eq!(nodes[0]["spec"]["taints"][0]["effect"], "NoSchedule");
        assert_eq!(nodes[0]["status"]["allocatable"]["nvidia.com/gpu"], "8");
    }

    #[test]
    fn a_pool_that_cannot_be_says_why() {
        let row = Row::of("f:1".to_owned(), &[("gpus", "-1")]);
        let error = fleet(&row).unwrap_err().to_string();
        assert_eq!(error, "f:1: gpus: found -1, allowed is a whole number from 0 to 1024");
        let row = Row::of("f:1".to_owned(), &[("taints", "gpu")]);
        assert!(fleet(&row).unwrap_err().to_string().contains("key=value:NoSchedule"));
    }
}
