//! Redaction: keeps the fields that decisions depend on, and replaces every name. Equal names get
//! equal replacements, so selectors still select; the order of names is kept, so decisions that fall
//! back to it stay the same.

mod allowed;
mod check;
mod expression;
mod names;
mod public;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::{Map, Text, Value, annotations, labels, object};
use schedlab_scheduler::snapshot_file::required_config_maps;

use crate::{Case, audit::AuditClaim, change::Change, pod_spec::portable_pod};
use allowed::{Fields, NameClass, Rule};
use names::Names;

pub use check::{RedactionCheck, check_redaction};
pub use names::RedactionTable;

/// Annotations that are kept, with the class of their value if it is a name.
const ANNOTATIONS: &[(&str, Option<NameClass>)] = &[
    (annotations::POD_GROUP_NAME, Some(NameClass::Workload)),
    (annotations::GPU_FRACTION, None),
    (annotations::GPU_MEMORY, None),
    (annotations::GPU_FRACTION_NUM_DEVICES, None),
    (annotations::GPU_FRACTION_CONTAINER_NAME, Some(NameClass::Container)),
    (annotations::SKIP_POD_GROUPER, None),
    (annotations::BATCH_MIN_MEMBER, None),
    (annotations::PREEMPTION_DELAY, None),
    (annotations::STALENESS_GRACE_PERIOD, None),
    (annotations::LAST_START_TIMESTAMP, None),
    (annotations::LAST_EVICTION_TIMESTAMP, None),
    (annotations::STALE_SINCE_TIMESTAMP, None),
    (annotations::BIND_COMPLETED, None),
    (annotations::SELECTED_NODE, Some(NameClass::Node)),
    ("mps", None),
];

/// Labels whose value is the name of an object, with the class of that name.
const NAMING_LABELS: &[(&str, NameClass)] = &[
    (labels::QUEUE, NameClass::Queue),
    (labels::SUB_GROUP, NameClass::SubGroup),
    (labels::PRIORITY_CLASS, NameClass::Priority),
    (labels::GPU_GROUP, NameClass::GpuGroup),
    (labels::HOSTNAME, NameClass::Node),
    (labels::STATEFUL_SET_POD_NAME, NameClass::Pod),
    (labels::JOB_SET_NAME, NameClass::Workload),
    (labels::TRAINING_JOB_NAME, NameClass::Workload),
    ("job-name", NameClass::Workload),
    ("batch.kubernetes.io/job-name", NameClass::Workload),
    ("controller-uid", NameClass::Uid),
    ("batch.kubernetes.io/controller-uid", NameClass::Uid),
    ("kubernetes.io/metadata.name", NameClass::Namespace),
    ("metadata.name", NameClass::Node),
];

/// A redacted case, and the table that translates it back.
#[derive(Debug)]
pub struct Redacted {
    /// The case without names.
    pub case: Case,
    /// The originals of all replacements.
    pub table: RedactionTable,
}

/// Redacts a case.
pub fn redact(case: &Case) -> Redacted {
    let mut redactor = Redactor { fields: allowed::all_fields(), names: Names::default() };
    let case = portable_case(case);
    // The first pass collects all names, the second one replaces them.
    redactor.redact_case(&case);
    redactor.names.assign();
    let case = redactor.redact_case(&case);
    Redacted { case, table: redactor.names.into_table() }
}

/// The case with pods that each API server admits, and with the `ConfigMap`s that they require.
fn portable_case(case: &Case) -> Case {
    let mut case = case.clone();
    let pods = case.cluster.objects.get_mut("pods").into_iter().flatten();
    let changed = case.changes.iter_mut().filter(|change| change.array == "pods");
    let mut required = BTreeSet::new();
    for pod in pods.chain(changed.map(|change| &mut change.object)) {
        let names = required_config_maps(pod).into_iter();
        let namespace = object::namespace(pod);
        required.extend(names.map(|name| (namespace.to_owned(), name.to_string())));
        *pod = Arc::new(portable_pod(pod));
    }
    let is_required = |object: &Value| {
        required.contains(&(object::namespace(object).to_owned(), object::name(object).to_owned()))
    };
    if let Some(config_maps) = case.cluster.objects.get_mut("configMaps") {
        config_maps.retain(|object| is_required(object));
    }
    case.changes.retain(|change| change.array != "configMaps" || is_required(&change.object));
    case
}

struct Redactor {
    fields: BTreeMap<&'static str, Fields>,
    names: Names,
}

impl Redactor {
    fn redact_case(&mut self, case: &Case) -> Case {
        let fields = std::mem::take(&mut self.fields);
        let mut redacted = Case { manifest: case.manifest.clone(), ..Case::default() };
        for (array, objects) in &case.cluster.objects {
            if let Some(of_kind) = fields.get(array.as_str()) {
                let objects =
                    objects.iter().map(|object| Arc::new(self.redact_fields(of_kind, object)));
                redacted.cluster.objects.insert(array.clone(), objects.collect());
            }
        }
        for change in &case.changes {
            if let Some(of_kind) = fields.get(change.array.as_str()) {
                let object = Arc::new(self.redact_fields(of_kind, &change.object));
                redacted.changes.push(Change { object, ..change.clone() });
            }
        }
        let of_event = &fields["events"];
        redacted.events =
            case.events.iter().map(|event| self.redact_fields(of_event, event)).collect();
        let from = &case.cluster;
        redacted.cluster.config = self.redact_settings(&from.config);
        redacted.cluster.scheduler_params = self.redact_settings(&from.scheduler_params);
        redacted.cluster.schedlab = self.redact_settings(&from.schedlab);
        redacted.cluster.discovery = Value::Null;
        self.redact_manifest(case, &mut redacted);
        self.fields = fields;
        redacted
    }

    fn redact_manifest(&mut self, case: &Case, redacted: &mut Case) {
        let manifest = &mut redacted.manifest;
        manifest.redacted = true;
        let version = case.manifest.kubernetes.split(['-', '+']).next().unwrap_or_default();
        version.clone_into(&mut manifest.kubernetes);
        let images = case.manifest.scheduler_images.iter().filter_map(|image| {
            let name = image.rsplit('/').next().unwrap_or(image);
            public::is_public(name).then(|| name.to_owned())
        });
        manifest.scheduler_images = images.collect();
        let kinds = case.manifest.ignored.iter();
        let kinds = kinds.map(|(kind, count)| {
            (if public::is_public(kind) { kind.clone() } else { "Object".to_owned() }, *count)
        });
        manifest.ignored = kinds.fold(BTreeMap::new(), |mut all, (kind, count)| {
            *all.entry(kind).or_default() += count;
            all
        });
        // A claim names objects of the original.
        let claims = case.manifest.shows.lines().map(|claim| self.redact_claim(claim));
        manifest.shows = claims.collect::<Vec<_>>().join("\n");
    }

    /// The names in a claim, such as `gang team-a/train pending`.
    fn redact_claim(&mut self, claim: &str) -> String {
        if let Some(rule) = claim.strip_prefix(AuditClaim::PREFIX) {
            return rule
                .parse()
                .map_or_else(|_| String::new(), |claim: AuditClaim| claim.to_string());
        }
        let Ok(mut claim) = claim.parse::<crate::predicate::Predicate>() else {
            return String::new();
        };
        let class = match claim.subject {
            crate::predicate::Subject::Gang => NameClass::Workload,
            crate::predicate::Subject::Pod => NameClass::Pod,
            crate::predicate::Subject::Queue => NameClass::Queue,
        };
        claim.name = match claim.name.split_once('/') {
            Some((namespace, name)) => {
                let namespace = self.names.replace(NameClass::Namespace, namespace);
                format!("{namespace}/{}", self.names.replace(class, name))
            }
            None => self.names.replace(class, &claim.name),
        };
        if !public::is_public(&claim.because) {
            claim.because.clear();
        }
        claim.to_string()
    }

    fn redact_fields(&mut self, fields: &Fields, value: &Value) -> Value {
        match (fields, value) {
            (_, Value::Null) => Value::Null,
            (Fields::Leaf(rule), value) => self.redact_leaf(*rule, value),
            (Fields::List(item), Value::Array(items)) => {
                let items = items.iter().map(|value| self.redact_fields(item, value));
                // An entry of which nothing is left had no effect: a variable of a container.
                items.filter(|item| *item != Value::Object(Map::new())).collect()
            }
            (Fields::Object(children), Value::Object(map)) => {
                let redacted = map.iter().filter_map(|(key, value)| {
                    let child = children.get(key.as_str())?;
                    Some((key.clone(), self.redact_fields(child, value)))
                });
                redacted.collect()
            }
            (Fields::List(_) | Fields::Object(_), other) => mistyped(other),
        }
    }

    fn redact_leaf(&mut self, rule: Rule, value: &Value) -> Value {
        match (rule, value) {
            (Rule::Plain, Value::Bool(_) | Value::Number(_)) => value.clone(),
            (Rule::Plain, Value::String(text)) if public::is_plain(text) => value.clone(),
            (Rule::Word, Value::String(text)) if public::is_public(text) => value.clone(),
            // A word of a newer API: its meaning is unknown here, too.
            (Rule::Plain | Rule::Word, Value::String(_)) => Value::from("unknown"),
            (Rule::Name(class), Value::String(text)) => self.name(class, text),
            (Rule::LabelKey, Value::String(text)) => self.name(NameClass::Label, text),
            (Rule::Labels, Value::Object(map)) => map
                .iter()
                .map(|(key, value)| (self.label_key(key), self.label_value(key, value)))
                .collect(),
            (Rule::Annotations, Value::Object(map)) => self.redact_annotations(map),
            (Rule::Resources, Value::Object(map)) => {
                let entries = map.iter().map(|(name, amount)| {
                    let name = self.names.replace(NameClass::Resource, name);
                    (Text::from(name), self.redact_leaf(Rule::Plain, amount))
                });
                entries.collect()
            }
            (Rule::KeyValue, Value::Object(map)) => self.redact_key_value(map),
            (Rule::Reference, Value::Object(map)) => self.redact_reference(map),
            (Rule::Image, Value::String(text)) => {
                let is_tagged = text.rfind(':') > text.rfind('/');
                let tagged = if is_tagged { text.to_string() } else { format!("{text}:latest") };
                self.name(NameClass::Image, &tagged)
            }
            (Rule::Attributes, Value::Object(map)) => self.redact_attributes(map),
            (Rule::Expression, Value::String(text)) => {
                let names = &mut self.names;
                Value::from(expression::redact(text, &mut |name| {
                    names.replace(NameClass::Device, name)
                }))
            }
            (_, other) => mistyped(other),
        }
    }

    fn name(&mut self, class: NameClass, text: &str) -> Value {
        if class == NameClass::Device {
            // A qualified name: a domain and a name.
            let parts = text.split('/').map(|part| self.names.replace(class, part));
            return Value::from(parts.collect::<Vec<_>>().join("/"));
        }
        Value::from(self.names.replace(class, text))
    }

    fn label_key(&mut self, key: &str) -> Text {
        match key.strip_prefix(labels::GPU_GROUP).and_then(|rest| rest.strip_prefix('/')) {
            Some(group) => {
                let group = self.names.replace(NameClass::GpuGroup, group);
                format!("{}/{group}", labels::GPU_GROUP).into()
            }
            None => self.names.replace(NameClass::Label, key).into(),
        }
    }

    fn label_value(&mut self, key: &str, value: &Value) -> Value {
        let Value::String(text) = value else { return mistyped(value) };
        if let Some((_, class)) = NAMING_LABELS.iter().find(|(known, _)| *known == key) {
            return self.name(*class, text);
        }
        if key.starts_with(labels::GPU_GROUP) {
            return self.name(NameClass::GpuGroup, text);
        }
        // Public values, such as the model of a GPU, are kept for public keys only.
        if public::is_public_key(key) && !key.contains("topology") && public::is_public(text) {
            return value.clone();
        }
        self.name(NameClass::Value, text)
    }

    fn redact_annotations(&mut self, map: &Map) -> Value {
        let mut kept = Map::new();
        for (key, value) in map {
            let known = ANNOTATIONS.iter().find(|(known, _)| *known == key.as_str());
            let is_mig = key.starts_with("nvidia.com/mig-") && public::is_plain_profile(key);
            match (known, value) {
                (Some((_, Some(class))), Value::String(text)) => {
                    kept.insert(key.clone(), self.name(*class, text));
                }
                (Some((_, None)), Value::String(text))
                    if public::is_plain(text) || public::is_public(text) =>
                {
                    kept.insert(key.clone(), value.clone());
                }
                // An invalid value stays invalid.
                (Some((_, None)), _) => {
                    kept.insert(key.clone(), Value::from("unknown"));
                }
                (None, Value::String(text)) if is_mig && public::is_plain(text) => {
                    kept.insert(key.clone(), value.clone());
                }
                (Some(_) | None, _) => {}
            }
        }
        Value::Object(kept)
    }

    fn redact_key_value(&mut self, map: &Map) -> Value {
        let key = map.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut kept = Map::new();
        for (field, value) in map {
            let redacted = match (field.as_str(), value) {
                ("key", Value::String(text)) => Value::from(self.label_key(text)),
                ("value", value) => self.label_value(&key, value),
                ("values", Value::Array(values)) => {
                    values.iter().map(|value| self.label_value(&key, value)).collect()
                }
                ("operator" | "effect", value) => self.redact_leaf(Rule::Word, value),
                ("tolerationSeconds" | "timeAdded", value) => self.redact_leaf(Rule::Plain, value),
                ("key" | "values", other) => mistyped(other),
                _ => continue,
            };
            kept.insert(field.clone(), redacted);
        }
        Value::Object(kept)
    }

    fn redact_reference(&mut self, map: &Map) -> Value {
        let class = match map.get("kind").and_then(Value::as_str).unwrap_or_default() {
            "Pod" => NameClass::Pod,
            "Node" => NameClass::Node,
            "Queue" => NameClass::Queue,
            _ => NameClass::Workload,
        };
        let mut kept = Map::new();
        for (field, value) in map {
            let redacted = match (field.as_str(), value) {
                ("apiVersion" | "kind", Value::String(text)) if public::is_public(text) => {
                    value.clone()
                }
                ("apiVersion", Value::String(_)) => Value::from("apps/v1"),
                ("kind", Value::String(_)) => Value::from("Workload"),
                ("name", Value::String(text)) => self.name(class, text),
                ("uid", Value::String(text)) => self.name(NameClass::Uid, text),
                ("namespace", Value::String(text)) => self.name(NameClass::Namespace, text),
                ("controller", Value::Bool(_)) => value.clone(),
                _ => continue,
            };
            kept.insert(field.clone(), redacted);
        }
        Value::Object(kept)
    }

    fn redact_attributes(&mut self, map: &Map) -> Value {
        let entry = |(name, value): (&Text, &Value)| {
            let name = self.name(NameClass::Device, name).as_str().unwrap_or_default().to_owned();
            (Text::from(name), self.redact_attribute(value))
        };
        map.iter().map(entry).collect()
    }

    /// An attribute of a device is an object: the name of its type, and the value.
    fn redact_attribute(&mut self, attribute: &Value) -> Value {
        let Value::Object(fields) = attribute else {
            return self.redact_leaf(Rule::Plain, attribute);
        };
        let known = ["string", "int", "bool", "version", "value"];
        let fields = fields.iter().filter(|(kind, _)| known.contains(&kind.as_str()));
        let redacted = fields.map(|(kind, value)| {
            let private = value.as_str().filter(|text| !public::is_plain(text));
            let value = match private {
                Some(text) => self.name(NameClass::Device, text),
                None => self.redact_leaf(Rule::Plain, value),
            };
            (kind.clone(), value)
        });
        redacted.collect()
    }

    /// Settings keep what consists of public words and numbers; the scheduler's name and its node
    /// pool are names.
    fn redact_settings(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) if public::is_plain(text) || public::is_public(text) => {
                value.clone()
            }
            Value::String(_) => Value::Null,
            Value::Array(items) => items.iter().map(|item| self.redact_settings(item)).collect(),
            Value::Object(map) => {
                let kept = map.iter().filter_map(|(key, value)| {
                    Some((key.clone(), self.redact_setting(key, value)?))
                });
                kept.collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// The value of one setting; `None` if the setting is not kept.
    fn redact_setting(&mut self, key: &str, value: &Value) -> Option<Value> {
        let redacted = match (key.to_ascii_lowercase().as_str(), value) {
            ("schedulername", Value::String(text)) => self.name(NameClass::Scheduler, text),
            ("nodepoollabelkey" | "label", Value::String(text)) => {
                self.name(NameClass::Label, text)
            }
            ("nodepoollabelvalue" | "value", Value::String(text)) => {
                self.name(NameClass::Value, text)
            }
            ("namespace", Value::String(text)) => self.name(NameClass::Namespace, text),
            ("usagedbconfig", _) => return None,
            _ if public::is_setting(key) => self.redact_settings(value),
            _ => return None,
        };
        Some(redacted)
    }
}

/// A value of the wrong type keeps its type, as the scheduler reports it.
fn mistyped(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        Value::String(_) => Value::from("unknown"),
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(_) => Value::Object(Map::new()),
    }
}

#[cfg(test)]
mod tests;
