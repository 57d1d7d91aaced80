//! Names in a step that no object ever had: an assertion about them could not fail, so they are
//! treated as typos.

use std::sync::LazyLock;

use anyhow::anyhow;
use regex::Regex;
use schedlab_api::Value;
use schedlab_audit::claim_names;

use super::subjects::Subject;
use crate::text::{did_you_mean_suffix, shortened_name_list};
use crate::world::World;
use crate::world::observed::{Pod, WatchedKind};

/// A queue, node, claim, namespace or workload that a sentence mentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubjectMention<'s> {
    /// The words that mention it: `queue "a"`.
    pub(crate) text: &'s str,
    /// The kind of the mentioned object: `queue`.
    pub(crate) kind: &'s str,
    /// The name of the mentioned object: `a`.
    pub(crate) name: &'s str,
}

/// The subjects that a sentence mentions, in their order.
pub(crate) fn mentions_in_sentence(sentence: &str) -> impl Iterator<Item = SubjectMention<'_>> {
    SUBJECTS.captures_iter(sentence).filter_map(|found| {
        let name = found.get(2).or_else(|| found.get(3))?.as_str();
        Some(SubjectMention { text: found.get(0)?.as_str(), kind: found.get(1)?.as_str(), name })
    })
}

/// The message about a subject that never existed.
pub(crate) fn never_existed_message(subject: &str, name: &str, known: &[String]) -> String {
    let near = did_you_mean_suffix(name, known.iter().map(String::as_str));
    format!(
        "{subject} does not exist and never did; known: {}{near}",
        shortened_name_list(known.iter().map(String::as_str))
    )
}

/// Matches subjects by kind and name. Matches other quoted text, too, so that a subject inside
/// quotes does not count.
static SUBJECTS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"\b(queue|namespace|node|claim|workload|pod|gang|job|deployment|statefulset|jobset|trainjob|pytorchjob|raycluster|rayjob|leaderworkerset|podgroup) (?:"([^"]*)"|'([^']*)')|"[^"]*"|'[^']*'"#;
    Regex::new(pattern).expect("the pattern is valid")
});

/// The message about the first subject of a sentence that never existed; `None` if all exist or
/// existed.
pub(crate) fn unknown_name_message(world: &World, sentence: &str) -> Option<String> {
    mentions_in_sentence(sentence).find_map(|SubjectMention { text: subject, kind, name }| {
        let names = match kind {
            "queue" => all_names_if_unknown(world, WatchedKind::Queues, name)?,
            "node" => all_names_if_unknown(world, WatchedKind::Nodes, name)?,
            "namespace" => all_namespaces_if_unknown(world, name)?,
            "claim" => all_claims_if_unknown(world, name)?,
            _ => return unknown_workload_message(world, subject, kind, name),
        };
        Some(never_existed_message(subject, name, &names))
    })
}

/// Fails unless the node or queue on which a step acts exists or existed.
pub(super) async fn require_known_name(
    world: &mut World,
    kind: &str,
    name: &str,
) -> anyhow::Result<()> {
    world.catch_up_with_watches().await?;
    match unknown_name_message(world, &format!("{kind} {name:?}")) {
        Some(message) => Err(anyhow!("{}: {message}", world.step_location())),
        None => Ok(()),
    }
}

/// All names of this kind that ever existed, if `name` is not among them; else `None`.
fn all_names_if_unknown(world: &World, kind: WatchedKind, name: &str) -> Option<Vec<String>> {
    let names = || {
        world.view.objects_ever_seen(kind).filter_map(|object| object["metadata"]["name"].as_str())
    };
    (!names().any(|known| known == name)).then(|| names().map(str::to_owned).collect())
}

fn all_namespaces_if_unknown(world: &World, name: &str) -> Option<Vec<String>> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().map(str::to_owned);
    let made = world.all_submitted_objects().filter_map(|object| match object["kind"].as_str() {
        Some("Namespace") => text(object, "name"),
        _ => text(object, "namespace"),
    });
    let seen =
        world.view.objects_ever_seen(WatchedKind::Pods).filter_map(|pod| text(pod, "namespace"));
    let names: Vec<String> = made.chain(seen).collect();
    (!names.iter().any(|known| known == name)).then_some(names)
}

/// Names of all existing, deleted and referenced claims, if `name` is not among them; else `None`.
fn all_claims_if_unknown(world: &World, name: &str) -> Option<Vec<String>> {
    let made = all_names_if_unknown(world, WatchedKind::Claims, name)?;
    let referenced =
        world.view.objects_ever_seen(WatchedKind::Pods).flat_map(claim_names).map(str::to_owned);
    let names: Vec<String> = made.into_iter().chain(referenced).collect();
    (!names.iter().any(|known| known == name)).then_some(names)
}

fn unknown_workload_message(
    world: &World,
    subject: &str,
    kind: &str,
    name: &str,
) -> Option<String> {
    let kinds = world.submitted_kinds(name);
    let any_kind = matches!(kind, "workload" | "gang" | "pod");
    if kinds.iter().any(|submitted| any_kind || submitted.to_lowercase() == kind) {
        return None;
    }
    if !kinds.is_empty() {
        return Some(format!("{subject} does not exist; {name:?} is a {}", kinds.join(" and a ")));
    }
    let means: Subject = subject.parse().ok()?;
    let has_pods = world
        .view
        .objects_ever_seen(WatchedKind::Pods)
        .any(|pod| means.includes_pod(Pod(pod), &world.view));
    let names = world.submitted_names();
    (!has_pods && !names.iter().any(|known| known == name)).then(|| {
        let near = did_you_mean_suffix(name, names.iter().map(String::as_str));
        format!(
            "{subject} does not exist and never did; submitted: {}{near}",
            shortened_name_list(names.iter().map(String::as_str))
        )
    })
}
