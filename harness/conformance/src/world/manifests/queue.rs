//! Queues from table rows, and the check that they form a tree.

use std::collections::BTreeMap;

use schedlab_api::{Value, api_versions, json};

use super::manifest::ManifestDocument;
use super::table::{Row, RowError};

/// The columns of a table of queues.
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

/// Columns for fields that a step can change, each with the resource and the field in the Queue
/// object.
const SPEC_FIELD_OF_COLUMN: &[(&str, &str, &str)] = &[
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

const AMOUNT_MAX: f64 = 1e9;
const ALLOWED_AMOUNT: &str = "a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), \
                       `unlimited`, or `unset`";
const ALLOWED_WEIGHT: &str = "a number from 0 to 1000000000, or `unset`";

/// Builds the Queue object of a table row. Defaults: GPU quota 0, weight 1, no limit; CPU and
/// memory unlimited.
pub(crate) fn queue_from_row(row: &Row<'_>) -> Result<Value, RowError> {
    let mut resources = json!({});
    for (column, resource, field) in SPEC_FIELD_OF_COLUMN {
        let default = match (*resource, *field) {
            ("gpu", "quota") => json!(0),
            (_, "overQuotaWeight") => json!(1),
            _ => json!(-1),
        };
        let value = amount_in_column(row, column)?.unwrap_or(default);
        if !value.is_null() {
            resources[resource][field] = value;
        }
    }
    let mut spec = json!({"resources": resources});
    if let Some(parent) = row.cell("parent") {
        spec["parentQueue"] = json!(parent);
    }
    if let Some(priority) = row.parsed_cell::<i32>("priority", "a whole number")? {
        spec["priority"] = json!(priority);
    }
    let runtimes = [
        ("reclaim min runtime", "reclaimMinRuntime"),
        ("preempt min runtime", "preemptMinRuntime"),
    ];
    for (column, field) in runtimes {
        if let Some(text) = row.go_duration_cell(column)? {
            spec[field] = json!(text);
        }
    }
    Ok(json!({
        "apiVersion": api_versions::QUEUE,
        "kind": "Queue",
        "metadata": {"name": row.required_cell("queue")?},
        "spec": spec,
    }))
}

/// The patch that sets the field of a Queue to which a column belongs.
pub(crate) fn queue_field_patch(row: &Row<'_>, column: &str) -> Result<Value, RowError> {
    if column == "priority" {
        let priority: Option<i32> = row.parsed_cell(column, "a whole number")?;
        return Ok(json!({"spec": {"priority": priority}}));
    }
    let field = SPEC_FIELD_OF_COLUMN.iter().find(|(name, ..)| *name == column);
    let Some((_, resource, field)) = field else {
        let names: Vec<&str> = SPEC_FIELD_OF_COLUMN.iter().map(|(name, ..)| *name).collect();
        return Err(row.cell_error("field", column, &format!("priority, {}", names.join(", "))));
    };
    let value = amount_in_column(row, column)?.unwrap_or(Value::Null);
    Ok(json!({"spec": {"resources": {(*resource): {(*field): value}}}}))
}

/// The amount in a column, in the units of the API; `Some(null)` for `unset`.
fn amount_in_column(row: &Row<'_>, column: &str) -> Result<Option<Value>, RowError> {
    let Some(cell) = row.cell(column) else { return Ok(None) };
    let is_weight = column.ends_with("weight");
    match cell {
        "unlimited" if !is_weight => return Ok(Some(json!(-1))),
        "unset" => return Ok(Some(Value::Null)),
        _ => {}
    }
    let number: Option<f64> = cell.parse().ok();
    let number = number.filter(|number| (0.0..=AMOUNT_MAX).contains(number));
    let allowed = if is_weight { ALLOWED_WEIGHT } else { ALLOWED_AMOUNT };
    let number = number.ok_or_else(|| row.cell_error(column, cell, allowed))?;
    // The API uses millicores and megabytes.
    let scaled = match column {
        "cpu quota" | "cpu limit" | "memory quota" | "memory limit" if number > 0.0 => {
            number * 1000.0
        }
        _ => number,
    };
    if scaled.fract() == 0.0 {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and at most 10^12")]
        return Ok(Some(json!(scaled as i64)));
    }
    Ok(Some(json!(scaled)))
}

/// The parent of each queue. With it an invalid tree is rejected before any object is created. It
/// is used for tables and manifest files; a manifest below a step may contain an invalid tree,
/// which the API server accepts.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueTree(BTreeMap<String, String>);

impl QueueTree {
    /// The tree of existing queues.
    pub(crate) fn from_queues(queues: &[Value]) -> Self {
        let mut tree = Self::default();
        for queue in queues {
            tree.add_queue(queue);
        }
        tree
    }

    /// Adds a queue or changes its parent.
    pub(crate) fn add_queue(&mut self, queue: &Value) {
        let text = |at: &str| queue.pointer(at).and_then(Value::as_str).unwrap_or_default();
        self.0.insert(text("/metadata/name").to_owned(), text("/spec/parentQueue").to_owned());
    }

    /// Removes a queue from the tree.
    pub(crate) fn remove_queue(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Checks the ancestors of the queue in a row.
    pub(crate) fn check_row(&self, row: &Row<'_>) -> Result<(), RowError> {
        self.check_ancestors_of(row.required_cell("queue")?)
            .map_err(|InvalidParent { found, allowed }| row.cell_error("parent", &found, &allowed))
    }

    /// Checks the ancestors of the queue in a document.
    pub(crate) fn check_document(&self, document: &ManifestDocument) -> Result<(), String> {
        let ManifestDocument { location: origin, object } = document;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.check_ancestors_of(name).map_err(|InvalidParent { found, allowed }| {
            let field = "spec.parentQueue";
            let (location, title) =
                (origin.location_of_field(field), schedlab_clusters::api::object_title(object));
            format!("{location}: {title}: {field}: got {found}, expected {allowed}")
        })
    }

    fn check_ancestors_of(&self, queue: &str) -> Result<(), InvalidParent> {
        let mut path = vec![queue];
        loop {
            let parent = path.last().and_then(|queue| self.0.get(*queue));
            let Some(parent) = parent.filter(|parent| !parent.is_empty()) else { return Ok(()) };
            if !self.0.contains_key(parent) {
                let others = self.0.keys().filter(|known| Some(&&***known) != path.last());
                let others: Vec<&str> = others.map(String::as_str).collect();
                let allowed = match others.as_slice() {
                    [] => "an existing queue, but there is no other".to_owned(),
                    others => format!("a queue that exists: {}", others.join(", ")),
                };
                return Err(InvalidParent { found: parent.clone(), allowed });
            }
            let goes_round = path.contains(&parent.as_str());
            path.push(parent);
            if goes_round {
                let found = format!("the cycle {}", path.join(" below "));
                return Err(InvalidParent { found, allowed: "a tree".to_owned() });
            }
        }
    }
}

/// Why the parent of a queue is invalid.
struct InvalidParent {
    found: String,
    allowed: String,
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn row<'a>(cells: &[(&'a str, &'a str)]) -> Row<'a> {
        Row::from_cells("f.feature:3".to_owned(), cells)
    }

    #[test]
    fn omitted_columns_impose_no_limits() {
        let queue =
            queue_from_row(&row(&[("queue", "team-a"), ("quota", "8"), ("limit", "")])).unwrap();
        assert_snapshot!(queue["spec"], @r#"{"resources":{"cpu":{"limit":-1,"overQuotaWeight":1,"quota":-1},"gpu":{"limit":-1,"overQuotaWeight":1,"quota":8},"memory":{"limit":-1,"overQuotaWeight":1,"quota":-1}}}"#);
    }

    #[test]
    fn unset_omits_the_field_and_cores_become_millicores() {
        let queue = queue_from_row(&row(&[
            ("queue", "a"),
            ("parent", "root"),
            ("limit", "unset"),
            ("cpu quota", "2.5"),
            ("priority", "200"),
        ]));
        assert_snapshot!(queue.unwrap()["spec"], @r#"{"parentQueue":"root","priority":200,"resources":{"cpu":{"limit":-1,"overQuotaWeight":1,"quota":2500},"gpu":{"overQuotaWeight":1,"quota":0},"memory":{"limit":-1,"overQuotaWeight":1,"quota":-1}}}"#);
    }

    #[test]
    fn a_bad_amount_and_an_unknown_field_are_rejected_with_expected_values() {
        let error = queue_from_row(&row(&[("queue", "a"), ("quota", "eight")])).unwrap_err();
        assert_snapshot!(error, @"f.feature:3: column `quota`: got eight, expected a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`");
        for wrong in [("quota", "-3"), ("limit", "NaN"), ("weight", "unlimited"), ("quota", "1e99")]
        {
            assert!(queue_from_row(&row(&[("queue", "a"), wrong])).is_err(), "{wrong:?}");
        }
        let patch = queue_field_patch(&row(&[("quota", "16")]), "quota").unwrap();
        assert_snapshot!(patch, @r#"{"spec":{"resources":{"gpu":{"quota":16}}}}"#);
    }

    #[test]
    fn a_queue_with_a_missing_parent_or_a_parent_cycle_is_rejected() {
        let rows = [
            row(&[("queue", "a"), ("parent", "b")]),
            row(&[("queue", "b"), ("parent", "a")]),
            row(&[("queue", "c"), ("parent", "root")]),
            row(&[("queue", "d"), ("parent", "ghost")]),
        ];
        let queues: Vec<Value> = rows.iter().map(|row| queue_from_row(row).unwrap()).collect();
        let mut tree = QueueTree::from_queues(&[json!({"metadata": {"name": "root"}})]);
        for queue in &queues {
            tree.add_queue(queue);
        }
        let messages = rows
            .map(|row| tree.check_row(&row).map_or_else(|e| e.to_string(), |()| "good".to_owned()));
        assert_snapshot!(messages.join("\n"), @r"
        f.feature:3: column `parent`: got the cycle a below b below a, expected a tree
        f.feature:3: column `parent`: got the cycle b below a below b, expected a tree
        good
        f.feature:3: column `parent`: got ghost, expected a queue that exists: a, b, c, root
        ");
    }
}
