//! Assertions on single fields of objects.

use anyhow::anyhow;
use cucumber::then;
use schedlab_api::{Value, crds};
use schedlab_emulator::kinds::{Kinds, from_crd};

use super::StepResult;
use super::parameters::{StableCycles, Timing};
use super::subjects::Subject;
use crate::world::World;
use crate::world::observed::WatchedKind;

/// A field of a queue, pod, node, pod group (KAI's: `gang`; that of Kubernetes:
/// `podgroup`) or resource claim, named by its path, has this value.
/// Numbers and text compare as text; a missing field is `""`.
/// ```gherkin
/// Then the field "status.conditions.0.status" of queue "team-a" is "True"
/// Then the field "metadata.annotations.schedlab.dev/gpu-devices" of pod "a" is "0,1"
/// ```
#[then(expr = "{when}the field {string} of {subject} is {string}{stays}")]
async fn field_has_value(
    world: &mut World,
    when: Timing,
    path: String,
    subject: Subject,
    value: String,
    stays: StableCycles,
) -> StepResult {
    let kind = kind_of_subject(&subject)?;
    let claim = |world: &World| {
        let object = find_subject_object(world.view.objects_of_kind(kind), &subject);
        let object = object.ok_or_else(|| format!("{subject} does not exist"))?;
        let found = value_at(object, &path).map(value_text).unwrap_or_default();
        if found == value {
            Ok(())
        } else {
            Err(format!(
                "{path} of {subject}: got {found:?}, \
            expected {value:?}"
            ))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    // A missing object would equal `""`, so the object must have existed.
    let ever = find_subject_object(world.view.objects_ever_seen(kind), &subject);
    let ever = ever.ok_or_else(|| anyhow!("{subject} does not exist and never did"))?;
    if value_at(ever, &path).is_none() && !declares_field(ever, &path) {
        let kind = ever.get("kind").map(value_text).unwrap_or_default();
        return Err(anyhow!("{path} of {subject} is not a field of {kind}").into());
    }
    Ok(())
}

/// The watched kind of the object that a subject names.
fn kind_of_subject(subject: &Subject) -> anyhow::Result<WatchedKind> {
    match subject.kind_word() {
        "queue" => Ok(WatchedKind::Queues),
        "pod" => Ok(WatchedKind::Pods),
        "node" => Ok(WatchedKind::Nodes),
        "gang" | "workload" => Ok(WatchedKind::PodGroups),
        "podgroup" => Ok(WatchedKind::SchedulingGroups),
        "claim" => Ok(WatchedKind::Claims),
        _ => Err(anyhow!(
            "got {subject}, expected a queue, pod, node, claim or podgroup, or a gang or workload (its pod \
             group)"
        )),
    }
}

/// Finds an object by its `name` or by `namespace/name`.
fn find_subject_object<'v>(
    mut objects: impl Iterator<Item = &'v Value>,
    subject: &Subject,
) -> Option<&'v Value> {
    let (namespace, name) = match subject.subject_name().split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, subject.subject_name()),
    };
    objects.find(|object| {
        let metadata = &object["metadata"];
        metadata["name"] == *name && namespace.is_none_or(|of| metadata["namespace"] == *of)
    })
}

/// Whether the kind of an object declares a field at this path; `true` for kinds without a schema.
fn declares_field(object: &Value, path: &str) -> bool {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let mut kinds = Kinds::built_in();
    for custom in crds::all_crds() {
        kinds.register(from_crd(&custom).0);
    }
    kinds.by_kind(group, text("kind")).is_none_or(|kind| kind.has_path(path))
}

/// The value at a path of keys and list indexes separated by dots. Keys may themselves contain
/// dots.
fn value_at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    if path.is_empty() {
        return Some(object);
    }
    if let Some(items) = object.as_array() {
        let (index, rest) = path.split_once('.').unwrap_or((path, ""));
        return value_at(items.get(index.parse::<usize>().ok()?)?, rest);
    }
    let fields = object.as_object()?;
    let longest = fields.keys().filter(|key| {
        path.strip_prefix(key.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('.'))
    });
    let key = longest.max_by_key(|key| key.len())?;
    value_at(&fields[key], path.strip_prefix(key.as_str())?.trim_start_matches('.'))
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::value_at;

    #[test]
    fn paths_follow_keys_with_dots_and_positions() {
        let object = json!({"metadata": {"annotations": {"schedlab.dev/x": "1"}}, "l": [{"a": 2}]});
        assert_eq!(value_at(&object, "metadata.annotations.schedlab.dev/x"), Some(&json!("1")));
        assert_eq!(value_at(&object, "l.0.a"), Some(&json!(2)));
        assert_eq!(value_at(&object, "l.1.a"), None);
    }
}
