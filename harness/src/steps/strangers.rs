//! Names that a sentence gives and nobody ever bore: a claim about nobody cannot fail, so it is
//! taken for a slip of the pen.

use std::sync::LazyLock;

use anyhow::anyhow;
use regex::Regex;
use schedlab_json::Value;

use super::subjects::Subject;
use crate::audit::claim_names;
use crate::view::{Kind, Pod};
use crate::world::World;

/// Names are listed up to so many.
const NAMES_MAX: usize = 12;

/// Subjects by kind and name, and texts in quotes: what stands in those is no subject.
static SUBJECTS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"\b(queue|namespace|node|claim|workload|pod|gang|job|deployment|statefulset|jobset|trainjob|pytorchjob) (?:"([^"]*)"|'([^']*)')|"[^"]*"|'[^']*'"#;
    Regex::new(pattern).expect("it is written here")
});

/// The first subject of a sentence that never was, in words.
pub(crate) fn stranger(world: &World, sentence: &str) -> Option<String> {
    SUBJECTS.captures_iter(sentence).find_map(|found| {
        let (subject, kind) = (&found[0], &found.get(1)?.as_str());
        let name = found.get(2).or_else(|| found.get(3))?.as_str();
        let names = match *kind {
            "queue" => unknown(world, Kind::Queues, name)?,
            "node" => unknown(world, Kind::Nodes, name)?,
            "namespace" => namespaces(world, name)?,
            "claim" => claims(world, name)?,
            _ => return no_workload(world, subject, (kind, name)),
        };
        Some(format!("there is no {subject} and there was none; known are: {}", listed(&names)))
    })
}

/// That a node or queue whom a step acts on is or was one.
pub(super) async fn known(world: &mut World, kind: &str, name: &str) -> anyhow::Result<()> {
    world.catch_up().await?;
    match stranger(world, &format!("{kind} {name:?}")) {
        Some(message) => Err(anyhow!("{}: {message}", world.here())),
        None => Ok(()),
    }
}

/// The names of this kind, when this name is none of them.
fn unknown(world: &World, kind: Kind, name: &str) -> Option<Vec<String>> {
    let names = || world.view.ever(kind).filter_map(|object| object["metadata"]["name"].as_str());
    (!names().any(|known| known == name)).then(|| names().map(str::to_owned).collect())
}

fn namespaces(world: &World, name: &str) -> Option<Vec<String>> {
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().map(str::to_owned);
    let made = world.all_submitted().filter_map(|object| match object["kind"].as_str() {
        Some("Namespace") => text(object, "name"),
        _ => text(object, "namespace"),
    });
    let seen = world.view.ever(Kind::Pods).filter_map(|pod| text(pod, "namespace"));
    let names: Vec<String> = made.chain(seen).collect();
    (!names.iter().any(|known| known == name)).then_some(names)
}

/// Claims that are or were, and those that pods are waiting for.
fn claims(world: &World, name: &str) -> Option<Vec<String>> {
    let made = unknown(world, Kind::Claims, name)?;
    let asked = world.view.ever(Kind::Pods).flat_map(claim_names).map(str::to_owned);
    let names: Vec<String> = made.into_iter().chain(asked).collect();
    (!names.iter().any(|known| known == name)).then_some(names)
}

fn no_workload(world: &World, subject: &str, (kind, name): (&str, &str)) -> Option<String> {
    let kinds = world.kinds_submitted(name);
    let any_kind = matches!(kind, "workload" | "gang" | "pod");
    if kinds.iter().any(|submitted| any_kind || submitted.to_lowercase() == kind) {
        return None;
    }
    if !kinds.is_empty() {
        return Some(format!("there is no {subject}; {name:?} is {}", kinds.join(" and ")));
    }
    let means: Subject = subject.parse().ok()?;
    let has_pods = world.view.ever(Kind::Pods).any(|pod| means.means(Pod(pod), &world.view));
    let names = world.names_submitted();
    (!has_pods && !names.iter().any(|known| known == name)).then(|| {
        format!("there is no {subject} and there was none; submitted were: {}", listed(&names))
    })
}

fn listed(names: &[String]) -> String {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let more = if sorted.len() > NAMES_MAX { ", …" } else { "" };
    sorted.truncate(NAMES_MAX);
    if sorted.is_empty() { "none".to_owned() } else { format!("{}{more}", sorted.join(", ")) }
}
