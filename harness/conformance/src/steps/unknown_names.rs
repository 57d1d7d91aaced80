//! Names in a step that no object ever had: an assertion about them could not fail, so they are
//! treated as typos.

use std::sync::LazyLock;

use anyhow::anyhow;
use regex::Regex;
use schedlab_api::Value;
use schedlab_audit::claim_names;

use super::subjects::Subject;
use crate::text::{did_you_mean, name_list};
use crate::world::World;
use crate::world::observed::{Pod, WatchedKind};

/// A queue, node, claim, namespace or workload in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mention<'s> {
    /// The words in the sentence: `queue "a"`.
    pub(crate) text: &'s str,
    /// Its kind: `queue`.
    pub(crate) kind: &'s str,
    /// Its name: `a`.
    pub(crate) name: &'s str,
}

/// The subjects in a sentence, in order.
pub(crate) fn mentions(sentence: &str) -> impl Iterator<Item = Mention<'_>> {
    SUBJECTS.captures_iter(sentence).filter_map(|found| {
        let name = found.get(2).or_else(|| found.get(3))?.as_str();
        Some(Mention { text: found.get(0)?.as_str(), kind: found.get(1)?.as_str(), name })
    })
}

/// The message about a subject that never existed.
pub(crate) fn never_existed(subject: &str, name: &str, known: &[String]) -> String {
    let near = did_you_mean(name, known.iter().map(String::as_str));
    format!(
        "{subject} does not exist and never did; known: {}{near}",
        name_list(known.iter().map(String::as_str))
    )
}

/// Matches subjects by kind and name, and other quoted text, so that a subject inside quotes does
/// not count.
static SUBJECTS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"\b(queue|namespace|node|claim|workload|pod|gang|job|deployment|statefulset|jobset|trainjob|pytorchjob|raycluster|rayjob|leaderworkerset|podgroup) (?:"([^"]*)"|'([^']*)')|"[^"]*"|'[^']*'"#;
    Regex::new(pattern).expect("the pattern is valid")
});

/// Describes the first subject of a sentence that never existed.
pub(crate) fn unknown_name(world: &World, sentence: &str) -> Option<String> {
    mentions(sentence).find_map(|Mention { text: subject, kind, name }| {
        let names = match kind {
            "queue" => names_unless_known(world, WatchedKind::Queues, name)?,
            "node" => names_unless_known(world, WatchedKind::Nodes, name)?,
            "namespace" => namespaces_unless_known(world, name)?,
            "claim" => claims_unless_known(world, name)?,
            _ => return unknown_workload(world, subject, kind, name),
        };
        Some(never_existed(subject, name, &names))
    })
}

/// Requires that the node or queue that a step acts on exists or existed.
pub(super) async fn require_known(world: &mut World, kind: &str, name: &str) -> anyhow::Result<()> {
    world.catch_up().await?;
    match unknown_name(world, &format!("{kind} {name:?}")) {
        Some(message) => Err(anyhow!("{}: {message}", world.step_location())),
        None => Ok(()),
    }
}

/// All names of this kind, if this name is not among them.
fn names_unless_known(world: &World, kind: WatchedKind, name: &str) -> Option<Vec<String>> {
    let names =
        || world.view.all_ever_seen(kind).filter_map(|object| object["metadata"]["name"].as_str());
    (!names().any(|known| known == name)).then(|| names().map(str::to_owned).collect())
}

fn namespaces_unless_known(world: &World, name: &str) -> Option<Vec<String>> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().map(str::to_owned);
    let made = world.all_submitted().filter_map(|object| match object["kind"].as_str() {
        Some("Namespace") => text(object, "name"),
        _ => text(object, "namespace"),
    });
    let seen = world.view.all_ever_seen(WatchedKind::Pods).filter_map(|pod| text(pod, "namespace"));
    let names: Vec<String> = made.chain(seen).collect();
    (!names.iter().any(|known| known == name)).then_some(names)
}

/// Names of existing, deleted and referenced claims, if this name is not among them.
fn claims_unless_known(world: &World, name: &str) -> Option<Vec<String>> {
    let made = names_unless_known(world, WatchedKind::Claims, name)?;
    let referenced =
        world.view.all_ever_seen(WatchedKind::Pods).flat_map(claim_names).map(str::to_owned);
    let names: Vec<String> = made.into_iter().chain(referenced).collect();
    (!names.iter().any(|known| known == name)).then_some(names)
}

fn unknown_workload(world: &World, subject: &str, kind: &str, name: &str) -> Option<String> {
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
        .all_ever_seen(WatchedKind::Pods)
        .any(|pod| means.includes(Pod(pod), &world.view));
    let names = world.submitted_names();
    (!has_pods && !names.iter().any(|known| known == name)).then(|| {
        let near = did_you_mean(name, names.iter().map(String::as_str));
        format!(
            "{subject} does not exist and never did; submitted: {}{near}",
            name_list(names.iter().map(String::as_str))
        )
    })
}
