//! Single fields of objects.

use anyhow::anyhow;
use cucumber::then;
use schedlab_emulator::kinds::{Kinds, from_crd};
use schedlab_json::Value;
use schedlab_scheduler::crds;

use super::StepResult;
use super::parameters::{Stays, When};
use super::subjects::Subject;
use crate::view::Kind;
use crate::world::World;

/// A field of a queue, pod, node, pod group or resource claim, by its path; texts and numbers alike,
/// and what is not there is `""`.
/// ```gherkin
/// Then the field "status.conditions.0.status" of queue "team-a" is "True"
/// Then the field "metadata.annotations.schedlab.dev/gpu-devices" of pod "a" is "0,1"
/// ```
#[then(expr = "{when}the field {string} of {subject} is {string}{stays}")]
#[expect(clippy::too_many_arguments, reason = "one for each value in the sentence")]
async fn field(
    world: &mut World,
    when: When,
    path: String,
    subject: Subject,
    value: String,
    stays: Stays,
) -> StepResult {
    let kind = kind(&subject)?;
    let claim = |world: &World| {
        let object = object(world.view.all(kind), &subject);
        let object = object.ok_or_else(|| format!("there is no {subject}"))?;
        let found = at(object, &path).map(text).unwrap_or_default();
        if found == value { Ok(()) } else { Err(format!("{path} of {subject} is {found:?}")) }
    };
    world.expect(when.0, stays.0, &claim).await?;
    // What is not there is never so, and `""`.
    let ever = object(world.view.ever(kind), &subject);
    let ever = ever.ok_or_else(|| anyhow!("there is no {subject} and there was none"))?;
    if at(ever, &path).is_none() && !declares(ever, &path) {
        let kind = ever.get("kind").map(text).unwrap_or_default();
        return Err(anyhow!("{path} of {subject} is no field of a {kind}").into());
    }
    Ok(())
}

/// Of which kind is the object that a subject names?
fn kind(subject: &Subject) -> anyhow::Result<Kind> {
    match subject.word() {
        "queue" => Ok(Kind::Queues),
        "pod" => Ok(Kind::Pods),
        "node" => Ok(Kind::Nodes),
        "gang" | "workload" => Ok(Kind::PodGroups),
        "claim" => Ok(Kind::Claims),
        _ => Err(anyhow!(
            "found {subject}, allowed is a queue, pod, node or claim, or a gang or workload, \
             which is its pod group"
        )),
    }
}

/// The one of that name, which may have a namespace before it.
fn object<'v>(
    mut objects: impl Iterator<Item = &'v Value>,
    subject: &Subject,
) -> Option<&'v Value> {
    let (namespace, name) = match subject.name().split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, subject.name()),
    };
    objects.find(|object| {
        let metadata = &object["metadata"];
        metadata["name"] == *name && namespace.is_none_or(|of| metadata["namespace"] == *of)
    })
}

/// Whether an object of this kind can have a field at a path; without its type, any.
fn declares(object: &Value, path: &str) -> bool {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let mut kinds = Kinds::built_in();
    for custom in crds::all() {
        kinds.register(from_crd(&custom).0);
    }
    kinds.by_kind(group, text("kind")).is_none_or(|kind| kind.declares(path))
}

/// Follows a path of keys and positions; keys may have dots of their own.
fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    if path.is_empty() {
        return Some(object);
    }
    if let Some(items) = object.as_array() {
        let (index, rest) = path.split_once('.').unwrap_or((path, ""));
        return at(items.get(index.parse::<usize>().ok()?)?, rest);
    }
    let fields = object.as_object()?;
    let longest = fields.keys().filter(|key| {
        path.strip_prefix(key.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('.'))
    });
    let key = longest.max_by_key(|key| key.len())?;
    at(&fields[key], path.strip_prefix(key.as_str())?.trim_start_matches('.'))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::at;

    #[test]
    fn paths_follow_keys_with_dots_and_positions() {
        let object = json!({"metadata": {"annotations": {"schedlab.dev/x": "1"}}, "l": [{"a": 2}]});
        assert_eq!(at(&object, "metadata.annotations.schedlab.dev/x"), Some(&json!("1")));
        assert_eq!(at(&object, "l.0.a"), Some(&json!(2)));
        assert_eq!(at(&object, "l.1.a"), None);
    }
}
