//! Queues from rows, and whether they form a tree.

use std::collections::BTreeMap;

use schedlab_json::{Value, json};

use super::manifest::Document;
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

const AMOUNT_MAX: f64 = 1e9;
const ALLOWED: &str = "a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), \
                       `unlimited`, or `unset`";
const WEIGHT: &str = "a number from 0 to 1000000000, or `unset`";

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
        if let Some(text) = row.duration(column)? {
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
    Ok(json!({"spec": {"resources": {(*resource): {(*field): value}}}}))
}

/// An amount in the API's units; `Some(null)` for `unset`.
fn amount(row: &Row<'_>, column: &str) -> Result<Option<Value>, RowError> {
    let Some(cell) = row.text(column) else { return Ok(None) };
    let is_weight = column.ends_with("weight");
    match cell {
        "unlimited" if !is_weight => return Ok(Some(json!(-1))),
        "unset" => return Ok(Some(Value::Null)),
        _ => {}
    }
    let number: Option<f64> = cell.parse().ok();
    let number = number.filter(|number| (0.0..=AMOUNT_MAX).contains(number));
    let allowed = if is_weight { WEIGHT } else { ALLOWED };
    let number = number.ok_or_else(|| row.error(column, cell, allowed))?;
    // The API counts thousandths of a core and millions of bytes.
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

/// Who is whose parent, to be told what does not fit before anything is made. A manifest below a step
/// may hold queues that form no tree, as the API server does not mind: tables and files may not.
#[derive(Debug, Default)]
pub(crate) struct QueueTree(BTreeMap<String, String>);

impl QueueTree {
    /// The tree of queues that exist.
    pub(crate) fn of(queues: &[Value]) -> Self {
        let mut tree = Self::default();
        for queue in queues {
            tree.add(queue);
        }
        tree
    }

    /// With one more queue.
    pub(crate) fn add(&mut self, queue: &Value) {
        let text = |at: &str| queue.pointer(at).and_then(Value::as_str).unwrap_or_default();
        self.0.insert(text("/metadata/name").to_owned(), text("/spec/parentQueue").to_owned());
    }

    /// Whether the queue of a row stands in the tree.
    pub(crate) fn check(&self, row: &Row<'_>) -> Result<(), RowError> {
        self.place(row.required("queue")?)
            .map_err(|Misplaced { found, allowed }| row.error("parent", &found, &allowed))
    }

    /// Whether a document's queue stands in the tree.
    pub(crate) fn check_document(&self, document: &Document) -> Result<(), String> {
        let Document { origin, object } = document;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.place(name).map_err(|Misplaced { found, allowed }| {
            let field = "spec.parentQueue";
            let (place, title) = (origin.of(field), crate::api::title(object));
            format!("{place}: {title}: {field}: found {found}, allowed is {allowed}")
        })
    }

    fn place(&self, queue: &str) -> Result<(), Misplaced> {
        let mut path = vec![queue];
        loop {
            let parent = path.last().and_then(|queue| self.0.get(*queue));
            let Some(parent) = parent.filter(|parent| !parent.is_empty()) else { return Ok(()) };
            if !self.0.contains_key(parent) {
                let others = self.0.keys().filter(|known| Some(&&***known) != path.last());
                let others: Vec<&str> = others.map(String::as_str).collect();
                let allowed = match others.as_slice() {
                    [] => "a queue beside it or in the cluster, and there is no other".to_owned(),
                    others => format!("a queue that exists: {}", others.join(", ")),
                };
                return Err(Misplaced { found: parent.clone(), allowed });
            }
            let goes_round = path.contains(&parent.as_str());
            path.push(parent);
            if goes_round {
                let found = format!("the circle {}", path.join(" below "));
                return Err(Misplaced { found, allowed: "a tree".to_owned() });
            }
        }
    }
}

/// A parent that cannot be.
struct Misplaced {
    found: String,
    allowed: String,
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
        assert_snapshot!(error, @"f.feature:3: column `quota`: found eight, allowed is a number from 0 to 1000000000 (GPUs, CPU cores, GB of memory), `unlimited`, or `unset`");
        for wrong in [("quota", "-3"), ("limit", "NaN"), ("weight", "unlimited"), ("quota", "1e99")]
        {
            assert!(queue(&row(&[("queue", "a"), wrong])).is_err(), "{wrong:?}");
        }
        let patch = set_queue_field(&row(&[("quota", "16")]), "quota").unwrap();
        assert_snapshot!(patch, @r#"{"spec":{"resources":{"gpu":{"quota":16}}}}"#);
    }

    #[test]
    fn queues_of_a_table_form_a_tree() {
        let rows = [
            row(&[("queue", "a"), ("parent", "b")]),
            row(&[("queue", "b"), ("parent", "a")]),
            row(&[("queue", "c"), ("parent", "root")]),
            row(&[("queue", "d"), ("parent", "ghost")]),
        ];
        let queues: Vec<Value> = rows.iter().map(|row| queue(row).unwrap()).collect();
        let mut tree = QueueTree::of(&[json!({"metadata": {"name": "root"}})]);
        for queue in &queues {
            tree.add(queue);
        }
        let told =
            rows.map(|row| tree.check(&row).map_or_else(|e| e.to_string(), |()| "good".to_owned()));
        assert_snapshot!(told.join("\n"), @r"
        f.feature:3: column `parent`: found the circle a below b below a, allowed is a tree
        f.feature:3: column `parent`: found the circle b below a below b, allowed is a tree
        good
        f.feature:3: column `parent`: found ghost, allowed is a queue that exists: a, b, c, root
        ");
    }
}
