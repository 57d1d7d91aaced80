//! The `Table` format, which `kubectl get` prints. The columns of built-in kinds are defined here,
//! those of custom kinds in their CRD.

mod field_columns;
mod json_path;
mod misc;
mod networking;
mod node;
mod pod;
mod workload;

use jiff::Timestamp;
use serde::Serialize;

use crate::api_types::kinds::{Column, Kind, Origin};
use crate::api_types::kubernetes_version::KubernetesVersion;
use schedlab_api::{
    Value,
    duration::age,
    json,
    object::{at, text},
};

use json_path::find;

const NONE: &str = "<none>";

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE } else { text }
}

/// The table columns of a kind.
pub(super) struct Table<'k> {
    version: &'static str,
    rows: Rows<'k>,
    include: Include,
}

enum Rows<'k> {
    BuiltIn(&'static [(&'static str, &'static str, i64)], fn(&Value, Timestamp) -> Vec<Value>),
    Fields(&'static [field_columns::FieldColumn]),
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
    /// A table for a kind. `version` is that of `meta.k8s.io`, `kind_version` that of the objects.
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
                let rare = field_columns::columns(&kind.resource.group, &kind.kind);
                rare.map_or_else(|| built_in(kind), Rows::Fields)
            }
        };
        let include = match include {
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            Some(_) | None => Include::Metadata,
        };
        Self { version, rows, include }
    }

    /// Renders a table. `metadata` is that of the list.
    pub(super) fn render<'o>(
        &self,
        objects: impl Iterator<Item = &'o Value>,
        metadata: &Value,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> = objects.map(|object| self.row(object, now)).collect();
        self.table_of(rows, metadata)
    }

    /// Renders the table of a list, in which the default `StorageClass` is marked.
    pub(super) fn render_list<'o>(
        &self,
        objects: impl Iterator<Item = &'o Value> + Clone,
        metadata: &Value,
        now: Timestamp,
    ) -> Value {
        let default = field_columns::default_storage_class(objects.clone());
        let rows = objects.map(|object| {
            let mut row = self.row(object, now);
            if default.is_some_and(|default| std::ptr::eq(default, object)) {
                let name = text(object, &["metadata", "name"]);
                row["cells"][0] = json!(format!("{name} (default)"));
            }
            row
        });
        let rows = rows.collect();
        self.table_of(rows, metadata)
    }

    fn table_of(&self, rows: Vec<Value>, metadata: &Value) -> Value {
        // Go serializes a nil slice as null.
        let is_allocated = !rows.is_empty() || !self.has_default_columns();
        json!({
            "kind": "Table",
            "apiVersion": format!("meta.k8s.io/{}", self.version),
            "metadata": metadata,
            "columnDefinitions": self.definitions(),
            "rows": is_allocated.then_some(rows),
        })
    }

    /// Whether the kind has no columns of its own.
    fn has_default_columns(&self) -> bool {
        self.has_columns(misc::DEFAULT) || self.has_columns(misc::DEFINITION)
    }

    /// Whether the table has these columns.
    fn has_columns(&self, known: &[(&str, &str, i64)]) -> bool {
        matches!(self.rows, Rows::BuiltIn(columns, _) if std::ptr::eq(columns, known))
    }

    /// A table of one row for a watch event. Only the first event has column definitions.
    pub(super) fn watch_row(&self, object: &Value, is_first: bool, now: Timestamp) -> Value {
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
        if let Some(end) = self.completion_condition(object) {
            row["conditions"] = json!([end]);
        }
        match self.include {
            Include::None => {}
            Include::Metadata => row["object"] = json!(partial_metadata(object, self.version)),
            Include::Object => row["object"] = object.clone(),
        }
        if self.has_columns(workload::DAEMON_SET)
            && let Some(object) = row.get_mut("object")
        {
            workload::undo_conversion(object);
        }
        row
    }

    /// The row condition of a completed object.
    fn completion_condition(&self, object: &Value) -> Option<Value> {
        if self.has_columns(pod::COLUMNS) { pod::completion_condition(object) } else { None }
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
            Rows::Fields(columns) => {
                let name = definition("Name", "string", "name", "", 0);
                // kube-apiserver gives "Attacher" the format "name".
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
            Rows::Fields(columns) => field_columns::cells(columns, object, now),
            Rows::Custom(columns) => {
                let mut cells = vec![json!(text(object, &["metadata", "name"]))];
                if columns.is_empty() {
                    let created = at(object, &["metadata", "creationTimestamp"]);
                    cells.push(json!(age::since(created, now)));
                }
                cells.extend(columns.iter().map(|column| cell(object, column, now)));
                cells
            }
        }
    }
}

/// An object's metadata only.
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
        "date" => json!(age::since(Some(value), now)),
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
            ("", "Namespace") => (misc::NAMESPACE, misc::namespace),
            ("" | "events.k8s.io", "Event") => (misc::EVENT, misc::event),
            ("", "Service") => (misc::SERVICE, misc::service),
            ("", "ConfigMap") => (misc::CONFIG_MAP, misc::config_map),
            ("", "Secret") => (misc::SECRET, misc::secret),
            ("" | "apps", "ReplicationController" | "ReplicaSet") => {
                (workload::REPLICA_SET, workload::replica_set)
            }
            ("apps", "Deployment") => (workload::DEPLOYMENT, workload::deployment),
            ("apps", "StatefulSet") => (workload::STATEFUL_SET, workload::stateful_set),
            ("apps", "DaemonSet") => (workload::DAEMON_SET, workload::daemon_set),
            ("batch", "Job") => (workload::JOB, workload::job),
            ("batch", "CronJob") => (workload::CRON_JOB, workload::cron_job),
            ("policy", "PodDisruptionBudget") => (misc::BUDGET, misc::budget),
            ("scheduling.k8s.io", "PriorityClass") => (misc::PRIORITY_CLASS, misc::priority_class),
            ("coordination.k8s.io", "Lease") => (misc::LEASE, misc::lease),
            ("node.k8s.io", "RuntimeClass") => (misc::RUNTIME_CLASS, misc::runtime_class),
            ("resource.k8s.io", "ResourceClaim") => (misc::CLAIM, misc::claim),
            ("apiextensions.k8s.io", "CustomResourceDefinition")
                if kind.kubernetes >= KubernetesVersion::V1_37 =>
            {
                (misc::DEFINITION, misc::definition)
            }
            _ => (misc::DEFAULT, misc::default),
        };
    Rows::BuiltIn(columns, cells)
}
