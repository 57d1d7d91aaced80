//! Queues from rows.

use serde_json::{Value, json};

use super::rows::{Row, RowError};

/// Columns of a table of queues.
pub(crate) const QUEUE_COLUMNS: &[&str] = &[
    "queue",
    "parent",
    "quota",
    "weight",
    "limit",
    "priority",
    "cpu quota",
    "cpu weight",
    "cpu limit",
    "memory quota",
    "memory weight",
    "memory limit",
    "reclaim min runtime",
    "preempt min runtime",
];

/// Fields that can be set one at a time: column, and where it is in the object.
const FIELDS: &[(&str, &str, &str)] = &[
    ("quota", "gpu", "quota"),
    ("weight", "gpu", "overQuotaWeight"),
    ("limit", "gpu", "limit"),
    ("cpu quota", "cpu", "quota"),
    ("cpu weight", "cpu", "overQuotaWeight"),
    ("cpu limit", "cpu", "limit"),
    ("memory quota", "memory", "quota"),
    ("memory weight", "memory", "overQuotaWeight"),
    ("memory limit", "memory", "limit"),
];

const ALLOWED: &str = "a number (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`";

/// A queue. What is not said: quota 0, weight 1 and no limit for GPUs; CPU and memory free.
pub(crate) fn queue(row: &Row<'_>) -> Result<Value, RowError> {
    let mut resources = json!({});
    for (column, resource, field) in FIELDS {
        let default = match (*resource, *field) {
            ("gpu", "quota") => json!(0),
            (_, "overQuotaWeight") => json!(1),
            _ => json!(-1),
        };
        let value = amount(row, column)?.unwrap_or(default);
        if !value.is_null() {
            resources[resource][field] = value;
        }
    }
    let mut spec = json!({"resources": resources});
    if let Some(parent) = row.text("parent") {
        spec["parentQueue"] = json!(parent);
    }
    if let Some(priority) = row.parsed::<i32>("priority", "a whole number")? {
        spec["priority"] = json!(priority);
    }
    let runtimes = [
        ("reclaim min runtime", "reclaimMinRuntime"),
        ("preempt min runtime", "preemptMinRuntime"),
    ];
    for (column, field) in runtimes {
        if let Some(text) = row.text(column) {
            spec[field] = json!(text);
        }
    }
    Ok(json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": row.required("queue")?},
        "spec": spec,
    }))
}

/// The patch that sets one field of a queue, by its column's name.
pub(crate) fn set_queue_field(row: &Row<'_>, column: &str) -> Result<Value, RowError> {
    if column == "priority" {
        let priority: Option<i32> = row.parsed(column, "a whole number")?;
        return Ok(json!({"spec": {"priority": priority}}));
    }
    let field = FIELDS.iter().find(|(name, ..)| *name == column);
    let Some((_, resource, field)) = field else {
        let names: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
        return Err(row.error("field", column, &format!("priority, {}", names.join(", "))));
    };
    let value = amount(row, column)?.unwrap_or(Value::Null);
    Ok(json!({"spec": {"resources": {*resource: {*field: value}}}}))
}

/// An amount in the API's units; `Some(null)` for `unset`.
fn amount(row: &Row<'_>, column: &str) -> Result<Option<Value>, RowError> {
    let Some(cell) = row.text(column) else { return Ok(None) };
    match cell {
        "unlimited" => return Ok(Some(json!(-1))),
        "unset" => return Ok(Some(Value::Null)),
        _ => {}
    }
    let number: f64 = cell.parse().map_err(|_| row.error(column, cell, ALLOWED))?;
    // The API counts thousandths of a core and millions of bytes.
    let scaled = match column {
        "cpu quota" | "cpu limit" | "memory quota" | "memory limit" if number > 0.0 => {
            number * 1000.0
        }
        _ => number,
    };
    if scaled.fract() == 0.0 && scaled.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        return Ok(Some(json!(scaled as i64)));
    }
    Ok(Some(json!(scaled)))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn row<'a>(cells: &[(&'a str, &'a str)]) -> Row<'a> {
        Row::of("f.feature:3".to_owned(), cells)
    }

    #[test]
    fn what_a_row_does_not_say_does_not_hold_work_back() {
        let queue = queue(&row(&[("queue", "team-a"), ("quota", "8"), ("limit", "")])).unwrap();
        assert_snapshot!(queue["spec"], @r#"{"resources":{"cpu":{"limit":-1,"overQuotaWeight":1,"quota":-1},"gpu":{"limit":-1,"overQuotaWeight":1,"quota":8},"memory":{"limit":-1,"overQuotaWeight":1,"quota":-1}}}"#);
    }

    #[test]
    fn unset_leaves_the_field_out_and_cores_become_thousandths() {
        let queue = queue(&row(&[
            ("queue", "a"),
            ("parent", "root"),
            ("limit", "unset"),
            ("cpu quota", "2.5"),
            ("priority", "200"),
        ]));
        assert_snapshot!(queue.unwrap()["spec"], @r#"{"parentQueue":"root","priority":200,"resources":{"cpu":{"limit":-1,"overQuotaWeight":1,"quota":2500},"gpu":{"overQuotaWeight":1,"quota":0},"memory":{"limit":-1,"overQuotaWeight":1,"quota":-1}}}"#);
    }

    #[test]
    fn a_bad_amount_and_an_unknown_field_say_what_is_allowed() {
        let error = queue(&row(&[("queue", "a"), ("quota", "eight")])).unwrap_err();
        assert_snapshot!(error, @"f.feature:3: column `quota`: found eight, allowed is a number (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`");
        let patch = set_queue_field(&row(&[("quota", "16")]), "quota").unwrap();
        assert_snapshot!(patch, @r#"{"spec":{"resources":{"gpu":{"quota":16}}}}"#);
    }
}
