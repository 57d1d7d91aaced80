//! The `Table` form: what `kubectl get` prints. Columns of built-in kinds stand here, those of
//! custom kinds come from their CRD.

mod duration;
mod json_path;
mod node;
mod pod;
mod rare;
mod small;
mod workload;

use jiff::Timestamp;
use serde::Serialize;

use crate::kinds::{Column, Kind, Origin};
use crate::object::{at, text};
use schedlab_json::{Value, json};

use json_path::find;

const NONE: &str = "<none>";

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

/// How the objects of one kind are shown.
pub(super) struct Table<'k> {
    version: &'static str,
    rows: Rows<'k>,
    include: Include,
}

enum Rows<'k> {
    BuiltIn(&'static [(&'static str, &'static str, i64)], fn(&Value, Timestamp) -> Vec<Value>),
    Rare(&'static [rare::Rare]),
    Custom(&'k [Column]),
}

/// `includeObject`.
#[derive(Clone, Copy)]
enum Include {
    None,
    Metadata,
    Object,
}

impl<'k> Table<'k> {
    /// A table in a version of `meta.k8s.io`, for objects of a kind as its version shows them.
    pub(super) fn new(
        version: &'static str,
        kind: &'k Kind,
        kind_version: &str,
        include: Option<&str>,
    ) -> Self {
        let rows = match kind.origin {
            Origin::Custom => {
                Rows::Custom(kind.version(kind_version).map_or(&[], |version| &version.columns))
            }
            Origin::BuiltIn | Origin::View => {
                let rare = rare::columns(&kind.resource.group, &kind.kind);
                rare.map_or_else(|| built_in(kind), Rows::Rare)
            }
        };
        let include = match include {
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            Some(_) | None => Include::Metadata,
        };
        Self { version, rows, include }
    }

    /// A whole table. `metadata` is that of the list.
    pub(super) fn of<'o>(
        &self,
        objects: impl Iterator<Item = &'o Value>,
        metadata: &Value,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> = objects.map(|object| self.row(object, now)).collect();
        // Go writes a list that nobody has begun as null.
        let is_begun = !rows.is_empty() || !self.is_plain();
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": metadata,
            "columnDefinitions": self.definitions(),
            "rows": is_begun.then_some(rows),
        })
    }

    /// Whether nobody has made columns for the kind.
    fn is_plain(&self) -> bool {
        self.is_of(small::DEFAULT)
    }

    /// Whether these are its columns.
    fn is_of(&self, known: &[(&str, &str, i64)]) -> bool {
        matches!(self.rows, Rows::BuiltIn(columns, _) if std::ptr::eq(columns, known))
    }

    /// A table of one row, as watches send it; headings only on the first.
    pub(super) fn row_alone(&self, object: &Value, is_first: bool, now: Timestamp) -> Value {
        let definitions = is_first.then(|| self.definitions());
        let revision = at(object, &["metadata", "resourceVersion"]).unwrap_or(&Value::Null);
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": {"resourceVersion": revision},
            "columnDefinitions": definitions,
            "rows": [self.row(object, now)],
        })
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let mut row = json!({"cells": self.cells(object, now)});
        if let Some(end) = self.end(object) {
            row["conditions"] = json!([end]);
        }
        match self.include {
            Include::None => {}
            Include::Metadata => row["object"] = json!(partial_metadata(object, self.version)),
            Include::Object => row["object"] = object.clone(),
        }
        if self.is_of(workload::DAEMON_SET)
            && let Some(object) = row.get_mut("object")
        {
            workload::undo_conversion(object);
        }
        row
    }

    /// What a row says of an object that is over.
    fn end(&self, object: &Value) -> Option<Value> {
        if self.is_of(pod::COLUMNS) { pod::end(object) } else { None }
    }

    fn definitions(&self) -> Vec<Value> {
        let definition =
            |name: &str, kind: &str, format: &str, description: &str, priority: i64| {
                json!({
                    "name": name, "type": kind, "format": format,
                    "description": description, "priority": priority,
                })
            };
        let built_in = |&(name, kind, priority): &(&str, &str, i64)| {
            definition(name, kind, if name == "Name" { "name" } else { "" }, "", priority)
        };
        match &self.rows {
            Rows::BuiltIn(columns, _) => columns.iter().map(built_in).collect(),
            Rows::Rare(columns) => {
                let name = definition("Name", "string", "name", "", 0);
                // "Attacher" is a slip of the real server's.
                let format = |name: &str| if name == "Attacher" { "name" } else { "" };
                let others = columns.iter().map(|column| {
                    definition(column.name, column.kind, format(column.name), "", column.priority)
                });
                std::iter::once(name).chain(others).collect()
            }
            Rows::Custom(columns) => {
                let mut all = vec![definition("Name", "string", "name", "", 0)];
                if columns.is_empty() {
                    all.push(definition("Age", "date", "", "", 0));
                }
                all.extend(columns.iter().map(|column| {
                    let Column { name, kind, format, description, priority, .. } = column;
                    definition(name, kind, format, description, *priority)
                }));
                all
            }
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.rows {
            Rows::BuiltIn(_, cells) => cells(object, now),
            Rows::Rare(columns) => rare::cells(columns, object, now),
            Rows::Custom(columns) => {
                let mut cells = vec![json!(text(object, &["metadata", "name"]))];
                if columns.is_empty() {
                    let created = at(object, &["metadata", "creationTimestamp"]);
                    cells.push(json!(duration::since(created, now)));
                }
                cells.extend(columns.iter().map(|column| cell(object, column, now)));
                cells
            }
        }
    }
}

/// The metadata of an object, alone.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialObjectMetadata<'o> {
    api_version: String,
    kind: &'static str,
    metadata: &'o Value,
}

pub(super) fn partial_metadata<'o>(object: &'o Value, version: &str) -> PartialObjectMetadata<'o> {
    PartialObjectMetadata {
        api_version: format!("meta.k8s.io/{version}"),
        kind: "PartialObjectMetadata",
        metadata: &object["metadata"],
    }
}

fn cell(object: &Value, column: &Column, now: Timestamp) -> Value {
    let Some(value) = find(object, &column.json_path).filter(|value| !value.is_null()) else {
        return Value::Null;
    };
    match column.kind.as_str() {
        "date" => json!(duration::since(Some(value), now)),
        "integer" => value.as_i64().map_or(Value::Null, |number| json!(number)),
        "number" => value.as_f64().map_or(Value::Null, |number| json!(number)),
        "boolean" => value.as_bool().map_or(Value::Null, |switch| json!(switch)),
        _ => json!(json_path::text(value)),
    }
}

fn built_in(kind: &Kind) -> Rows<'static> {
    let (columns, cells): (_, fn(&Value, Timestamp) -> Vec<Value>) =
        match (&*kind.resource.group, &*kind.kind) {
            ("", "Pod") => (pod::COLUMNS, pod::cells),
            ("", "Node") => (node::COLUMNS, node::cells),
            ("", "Namespace") => (small::NAMESPACE, small::namespace),
            ("" | "events.k8s.io", "Event") => (small::EVENT, small::event),
            ("", "Service") => (small::SERVICE, small::service),
            ("", "ConfigMap") => (small::CONFIG_MAP, small::config_map),
            ("", "Secret") => (small::SECRET, small::secret),
            ("" | "apps", "ReplicationController" | "ReplicaSet") => {
                (workload::REPLICA_SET, workload::replica_set)
            }
            ("apps", "Deployment") => (workload::DEPLOYMENT, workload::deployment),
            ("apps", "StatefulSet") => (workload::STATEFUL_SET, workload::stateful_set),
            ("apps", "DaemonSet") => (workload::DAEMON_SET, workload::daemon_set),
            ("batch", "Job") => (workload::JOB, workload::job),
            ("batch", "CronJob") => (workload::CRON_JOB, workload::cron_job),
            ("policy", "PodDisruptionBudget") => (small::BUDGET, small::budget),
            ("scheduling.k8s.io", "PriorityClass") => {
                (small::PRIORITY_CLASS, small::priority_class)
            }
            ("coordination.k8s.io", "Lease") => (small::LEASE, small::lease),
            ("node.k8s.io", "RuntimeClass") => (small::RUNTIME_CLASS, small::runtime_class),
            ("resource.k8s.io", "ResourceClaim") => (small::CLAIM, small::claim),
            _ => (small::DEFAULT, small::default),
        };
    Rows::BuiltIn(columns, cells)
}
