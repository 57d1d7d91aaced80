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

use json_path::find_value;

const NONE_TEXT: &str = "<none>";

fn or_none(text: &str) -> &str {
    if text.is_empty() { NONE_TEXT } else { text }
}

/// A `Table` of objects of one kind: the columns and how their cells are computed.
pub(super) struct Table<'k> {
    version: &'static str,
    rows: ColumnsAndCells<'k>,
    include: IncludeObject,
}

enum ColumnsAndCells<'k> {
    BuiltIn(&'static [(&'static str, &'static str, i64)], fn(&Value, Timestamp) -> Vec<Value>),
    Fields(&'static [field_columns::FieldColumn]),
    Custom(&'k [Column]),
}

/// The values of the parameter `includeObject`: what each row contains besides the cells.
#[derive(Clone, Copy)]
enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl<'k> Table<'k> {
    /// Creates a table for a kind. `version` is that of the `Table` (`meta.k8s.io`), `kind_version`
    /// that of the objects.
    pub(super) fn new(
        version: &'static str,
        kind: &'k Kind,
        kind_version: &str,
        include: Option<&str>,
    ) -> Self {
        let rows = match kind.origin {
            Origin::Custom => ColumnsAndCells::Custom(
                kind.version(kind_version).map_or(&[], |version| &version.columns),
            ),
            Origin::BuiltIn | Origin::View => {
                let rare = field_columns::columns_of_kind(&kind.resource.group, &kind.kind);
                rare.map_or_else(|| built_in_rows(kind), ColumnsAndCells::Fields)
            }
        };
        let include = match include {
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            Some(_) | None => IncludeObject::Metadata,
        };
        Self { version, rows, include }
    }

    /// Renders a table with a row for each object. `metadata` is the metadata of the list.
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
            "columnDefinitions": self.column_definitions(),
            "rows": is_allocated.then_some(rows),
        })
    }

    /// Whether the kind has only the default columns.
    fn has_default_columns(&self) -> bool {
        self.has_columns(misc::DEFAULT_COLUMNS) || self.has_columns(misc::DEFINITION)
    }

    /// Whether the columns of the table are `known`.
    fn has_columns(&self, known: &[(&str, &str, i64)]) -> bool {
        matches!(self.rows, ColumnsAndCells::BuiltIn(columns, _) if std::ptr::eq(columns, known))
    }

    /// A table with one row, for a watch event. Only the first event of a watch has column
    /// definitions.
    pub(super) fn watch_row(&self, object: &Value, is_first: bool, now: Timestamp) -> Value {
        let definitions = is_first.then(|| self.column_definitions());
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
            IncludeObject::None => {}
            IncludeObject::Metadata => {
                row["object"] = json!(partial_metadata(object, self.version));
            }
            IncludeObject::Object => row["object"] = object.clone(),
        }
        if self.has_columns(workload::DAEMON_SET_COLUMNS)
            && let Some(object) = row.get_mut("object")
        {
            workload::remove_conversion_annotation(object);
        }
        row
    }

    /// The condition in the row of a completed pod; `None` for other objects.
    fn completion_condition(&self, object: &Value) -> Option<Value> {
        if self.has_columns(pod::COLUMNS) { pod::completion_condition(object) } else { None }
    }

    fn column_definitions(&self) -> Vec<Value> {
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
            ColumnsAndCells::BuiltIn(columns, _) => columns.iter().map(built_in).collect(),
            ColumnsAndCells::Fields(columns) => {
                let name = definition("Name", "string", "name", "", 0);
                // kube-apiserver gives "Attacher" the format "name".
                let format = |name: &str| if name == "Attacher" { "name" } else { "" };
                let others = columns.iter().map(|column| {
                    definition(column.name, column.kind, format(column.name), "", column.priority)
                });
                std::iter::once(name).chain(others).collect()
            }
            ColumnsAndCells::Custom(columns) => {
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
            ColumnsAndCells::BuiltIn(_, cells) => cells(object, now),
            ColumnsAndCells::Fields(columns) => field_columns::cells(columns, object, now),
            ColumnsAndCells::Custom(columns) => {
                let mut cells = vec![json!(text(object, &["metadata", "name"]))];
                if columns.is_empty() {
                    let created = at(object, &["metadata", "creationTimestamp"]);
                    cells.push(json!(age::since(created, now)));
                }
                cells.extend(columns.iter().map(|column| custom_cell(object, column, now)));
                cells
            }
        }
    }
}

/// A `PartialObjectMetadata`: apiVersion, kind and metadata of an object.
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

fn custom_cell(object: &Value, column: &Column, now: Timestamp) -> Value {
    let Some(value) = find_value(object, &column.json_path).filter(|value| !value.is_null()) else {
        return Value::Null;
    };
    match column.kind.as_str() {
        "date" => json!(age::since(Some(value), now)),
        "integer" => value.as_i64().map_or(Value::Null, |number| json!(number)),
        "number" => value.as_f64().map_or(Value::Null, |number| json!(number)),
        "boolean" => value.as_bool().map_or(Value::Null, |switch| json!(switch)),
        _ => json!(json_path::value_text(value)),
    }
}

fn built_in_rows(kind: &Kind) -> ColumnsAndCells<'static> {
    let (columns, cells): (_, fn(&Value, Timestamp) -> Vec<Value>) =
        match (&*kind.resource.group, &*kind.kind) {
            ("", "Pod") => (pod::COLUMNS, pod::cells),
            ("", "Node") if kind.kubernetes < KubernetesVersion::V1_37 => {
                (node::COLUMNS, node::cells_without_architecture)
            }
            ("", "Node") => (node::COLUMNS, node::cells),
            ("", "Namespace") => (misc::NAMESPACE_COLUMNS, misc::namespace_cells),
            ("" | "events.k8s.io", "Event") => (misc::EVENT_COLUMNS, misc::event_cells),
            ("", "Service") => (misc::SERVICE_COLUMNS, misc::service_cells),
            ("", "ConfigMap") => (misc::CONFIG_MAP_COLUMNS, misc::config_map_cells),
            ("", "Secret") => (misc::SECRET_COLUMNS, misc::secret_cells),
            ("" | "apps", "ReplicationController" | "ReplicaSet") => {
                (workload::REPLICA_SET_COLUMNS, workload::replica_set_cells)
            }
            ("apps", "Deployment") => (workload::DEPLOYMENT_COLUMNS, workload::deployment_cells),
            ("apps", "StatefulSet") => {
                (workload::STATEFUL_SET_COLUMNS, workload::stateful_set_cells)
            }
            ("apps", "DaemonSet") => (workload::DAEMON_SET_COLUMNS, workload::daemon_set_cells),
            ("batch", "Job") => (workload::JOB_COLUMNS, workload::job_cells),
            ("batch", "CronJob") => (workload::CRON_JOB_COLUMNS, workload::cron_job_cells),
            ("policy", "PodDisruptionBudget") => (misc::BUDGET_COLUMNS, misc::budget_cells),
            ("scheduling.k8s.io", "PriorityClass") => {
                (misc::PRIORITY_CLASS_COLUMNS, misc::priority_class_cells)
            }
            ("coordination.k8s.io", "Lease") => (misc::LEASE_COLUMNS, misc::lease_cells),
            ("node.k8s.io", "RuntimeClass") => {
                (misc::RUNTIME_CLASS_COLUMNS, misc::runtime_class_cells)
            }
            ("resource.k8s.io", "ResourceClaim") => (misc::CLAIM_COLUMNS, misc::claim_cells),
            ("apiextensions.k8s.io", "CustomResourceDefinition")
                if kind.kubernetes >= KubernetesVersion::V1_37 =>
            {
                (misc::DEFINITION, misc::definition)
            }
            _ => (misc::DEFAULT_COLUMNS, misc::default),
        };
    ColumnsAndCells::BuiltIn(columns, cells)
}
