//! The objects that a lesson prepares: which of them are gone, and which were changed although no
//! task changes them.

use std::collections::BTreeMap;

use schedlab_api::{Value, object};
use schedlab_clusters::api::object_title;
use schedlab_conformance::runner::live::LiveCluster;
use schedlab_emulator::store::{EventKind, LogEntry};

use crate::lesson::MayChange;

/// Kinds that a lesson can prepare, by the plural of their resource. Those without `spec` of their
/// own are left out.
const PLURALS: [&str; 8] = [
    "nodes",
    "queues",
    "deployments",
    "jobs",
    "pods",
    "trainjobs",
    "clustertrainingruntimes",
    "topologies",
];

/// Maximum number of changed fields that are named of an object.
const FIELDS_MAX: usize = 3;

/// The objects that a lesson prepared, by kind, namespace and name.
#[derive(Debug)]
pub(crate) struct PreparedObjects(BTreeMap<ObjectKey, Value>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObjectKey {
    plural: String,
    namespace: String,
    name: String,
}

impl PreparedObjects {
    /// The objects of a cluster that were not made for another object.
    pub(crate) fn of(cluster: &LiveCluster) -> Self {
        let mut objects = current_objects(cluster);
        objects.retain(|_, object| object["metadata"]["ownerReferences"][0].is_null());
        Self(objects)
    }

    /// Nodes and queues that do not exist any more. Without them, the lesson cannot be verified.
    pub(crate) fn missing(&self, cluster: &LiveCluster) -> Vec<&Value> {
        let current = current_objects(cluster);
        let gone = self.0.iter().filter(|(key, _)| !current.contains_key(*key));
        gone.filter(|(key, _)| is_environment(key)).map(|(_, object)| object).collect()
    }

    /// Titles of other objects that do not exist any more, unless the learner may delete them.
    pub(crate) fn deleted(&self, cluster: &LiveCluster, allowed: &[MayChange]) -> Vec<String> {
        let current = current_objects(cluster);
        let gone = self.0.iter().filter(|(key, object)| {
            !current.contains_key(*key) && !is_environment(key) && !may_delete(allowed, object)
        });
        gone.map(|(_, object)| object_title(object)).collect()
    }

    /// What was changed and is not allowed, a line for each object. Nodes are left out: their kubelet
    /// changes them.
    pub(crate) fn changes(&self, cluster: &LiveCluster, allowed: &[MayChange]) -> Vec<String> {
        let current = current_objects(cluster);
        let mut lines = Vec::new();
        for (key, before) in self.0.iter().filter(|(key, _)| key.plural != "nodes") {
            let title = object_title(before);
            let Some(now) = current.get(key) else {
                let is_missed = !may_delete(allowed, before);
                lines.extend(is_missed.then(|| format!("{title} was deleted")));
                continue;
            };
            let mut differences = Vec::new();
            collect_differences("spec", &before["spec"], &now["spec"], &mut differences);
            differences.retain(|difference| {
                let fields = rules_of(allowed, before).map(|rule| rule.field.as_deref());
                !fields.into_iter().any(|field| field.is_none_or(|field| difference.is_in(field)))
            });
            if !differences.is_empty() {
                let shown = differences.iter().take(FIELDS_MAX).map(ToString::to_string);
                lines.push(format!("{title}: {}", shown.collect::<Vec<_>>().join("; ")));
            }
        }
        lines
    }

    /// What the learner may change and the lesson does not prepare.
    pub(crate) fn unknown(&self, allowed: &[MayChange]) -> Vec<String> {
        let unknown =
            allowed.iter().filter(|rule| !self.0.values().any(|object| is_about(rule, object)));
        unknown.map(|rule| format!("{} {}", rule.kind, rule.name)).collect()
    }
}

/// Whether an object is a part of the fleet: a node or a queue.
fn is_environment(key: &ObjectKey) -> bool {
    matches!(&*key.plural, "nodes" | "queues")
}

fn is_about(rule: &MayChange, object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    rule.kind.eq_ignore_ascii_case(kind) && rule.name == object::name(object)
}

fn rules_of<'a>(
    allowed: &'a [MayChange],
    object: &'a Value,
) -> impl Iterator<Item = &'a MayChange> {
    allowed.iter().filter(|rule| is_about(rule, object))
}

fn may_delete(allowed: &[MayChange], object: &Value) -> bool {
    rules_of(allowed, object).any(|rule| rule.field.is_none())
}

fn current_objects(cluster: &LiveCluster) -> BTreeMap<ObjectKey, Value> {
    let mut objects = BTreeMap::new();
    for entry in cluster.write_log() {
        let LogEntry { key, kind, object, .. } = &*entry;
        if !PLURALS.contains(&&*key.resource.plural) {
            continue;
        }
        let place = ObjectKey {
            plural: key.resource.plural.to_string(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
        };
        match kind {
            EventKind::Deleted => objects.remove(&place),
            EventKind::Added | EventKind::Modified => objects.insert(place, (**object).clone()),
        };
    }
    objects
}

/// A field that has another value than before.
#[derive(Debug, PartialEq, Eq)]
struct FieldDifference {
    path: String,
    before: Value,
    now: Value,
}

impl FieldDifference {
    /// Whether the field is this one, or within it.
    fn is_in(&self, field: &str) -> bool {
        self.path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl std::fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |value: &Value| match value {
            Value::Null => "nothing".to_owned(),
            Value::Number(number) => {
                number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string())
            }
            Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                value.to_string()
            }
        };
        write!(f, "{}: got {}, expected {}", self.path, shown(&self.now), shown(&self.before))
    }
}

/// Whether both are numbers and equal, as 8 and 8.0 are.
fn is_same_number(one: &Value, other: &Value) -> bool {
    let numbers = one.as_f64().zip(other.as_f64());
    numbers.is_some_and(|(one, other)| one.total_cmp(&other).is_eq())
}

fn collect_differences(path: &str, before: &Value, now: &Value, found: &mut Vec<FieldDifference>) {
    if before == now || is_same_number(before, now) {
        return;
    }
    let (Some(old), Some(new)) = (before.as_object(), now.as_object()) else {
        let (path, before, now) = (path.to_owned(), before.clone(), now.clone());
        found.push(FieldDifference { path, before, now });
        return;
    };
    let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let key: &str = key;
        collect_differences(&format!("{path}.{key}"), &before[key], &now[key], found);
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn differences(before: &Value, now: &Value) -> Vec<FieldDifference> {
        let mut found = Vec::new();
        collect_differences("spec", before, now, &mut found);
        found
    }

    #[test]
    fn a_difference_names_the_field_and_both_values() {
        let before = json!({"parallelism": 40, "gpu": {"quota": 16, "limit": -1}});
        let now = json!({"parallelism": 24, "gpu": {"quota": 16.0}, "suspend": true});
        let found: Vec<String> =
            differences(&before, &now).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "spec.gpu.limit: got nothing, expected -1",
                "spec.parallelism: got 24, expected 40",
                "spec.suspend: got true, expected nothing",
            ]
        );
    }

    #[test]
    fn a_field_contains_the_fields_below_it_and_no_others() {
        let found = differences(&json!({"gpu": {"quota": 1}}), &json!({"gpu": {"quota": 2}}));
        assert!(found[0].is_in("spec") && found[0].is_in("spec.gpu.quota"));
        assert!(!found[0].is_in("spec.gp") && !found[0].is_in("spec.gpu.quota.x"));
    }
}
