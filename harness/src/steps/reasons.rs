//! Why pods wait, and what events say.

use std::collections::BTreeSet;

use cucumber::then;
use schedlab_emulator::object;
use schedlab_json::Value;

use super::StepResult;
use super::parameters::{Count, Stays, When};
use super::subjects::Subject;
use crate::view::{Kind, Phase, Pod};
use crate::world::World;

/// There is at least one pending pod, and the reason of each contains these words.
/// ```gherkin
/// Then job "train" is pending because "quota has reached the allowable limit"
/// Then queue "team-a" is pending because "Non-preemptible workload is over quota"
/// ```
#[then(expr = "{when}{subject} is pending because {string}{stays}")]
async fn pending_because(
    world: &mut World,
    when: When,
    subject: Subject,
    words: String,
    stays: Stays,
) -> StepResult {
    check_words(&words)?;
    let claim = |world: &World| {
        let pods = subject.pods(&world.view);
        let mut waiting = pods
            .iter()
            .filter(|pod| matches!(pod.phase(), Phase::Pending | Phase::Gated))
            .peekable();
        if waiting.peek().is_none() {
            return Err(format!("{subject} has no pending pod"));
        }
        let tells =
            |pod: &&Pod<'_>| pod.waiting_reason().is_some_and(|reason| reason.contains(&words));
        match waiting.find(|pod| !tells(pod)) {
            None => Ok(()),
            Some(pod) => {
                let reason = pod.waiting_reason().unwrap_or("nothing");
                Err(format!("pod {:?} is pending because: {reason}", pod.name()))
            }
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// There is an event about this object, one of its pods or its pod group whose reason or message
/// contains these words.
/// ```gherkin
/// Then an event of gang "train" says "StaleJob"
/// Then an event of queue "team-a" says "above the capacity"
/// ```
#[then(expr = "{when}an event of {subject} says {string}{stays}")]
async fn event(
    world: &mut World,
    when: When,
    subject: Subject,
    words: String,
    stays: Stays,
) -> StepResult {
    check_words(&words)?;
    let claim = |world: &World| match events(world, &subject, &words).len() {
        0 => {
            Err(format!("no event of {subject} says {words:?}; they say: {}", all(world, &subject)))
        }
        _ => Ok(()),
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// So many events about this object say these words; one that was repeated counts as often.
/// ```gherkin
/// Then no events of pod "a" say "Evict"
/// Then at most 3 events of pod "a" say "Unschedulable"
/// ```
#[then(expr = "{when}{count} event(s) of {subject} say(s) {string}{stays}")]
#[expect(clippy::too_many_arguments, reason = "one for each value in the sentence")]
async fn event_count(
    world: &mut World,
    when: When,
    count: Count,
    subject: Subject,
    words: String,
    stays: Stays,
) -> StepResult {
    check_words(&words)?;
    let claim = |world: &World| {
        let times = |event: &&Value| event["count"].as_u64().unwrap_or(1).max(1);
        let found: u64 = events(world, &subject, &words).iter().map(times).sum();
        let found = usize::try_from(found).unwrap_or(usize::MAX);
        if count.means(found) {
            return Ok(());
        }
        Err(format!(
            "{found} events of {subject} say {words:?}; they say: {}",
            all(world, &subject)
        ))
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// There is an event about this object, one of its pods or its pod group with this annotation.
/// ```gherkin
/// Then an event of gang "lent" has the annotation "evictor-action-type" with "reclaim"
/// ```
#[then(expr = "{when}an event of {subject} has the annotation {string} with {string}{stays}")]
#[expect(clippy::too_many_arguments, reason = "one for each value in the sentence")]
async fn annotation(
    world: &mut World,
    when: When,
    subject: Subject,
    key: String,
    value: String,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| {
        let annotations = about(world, &subject).map(|event| &event["metadata"]["annotations"]);
        let mut found: Vec<&str> = annotations.filter_map(|all| all[&*key].as_str()).collect();
        if found.contains(&&*value) {
            return Ok(());
        }
        found.dedup();
        Err(format!("no event of {subject} has {key} with {value:?}, found {found:?}"))
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// Once everything has settled, what `schedlab-scheduler explain` says of a workload (one that has
/// a pod): its reason, the remedy and what came of trying it, queues, plugins, nodes.
/// ```gherkin
/// Then the explanation of job "train" says "raise the quota"
/// ```
#[then(expr = "the explanation of {subject} says {string}")]
async fn explained(world: &mut World, subject: Subject, words: String) -> StepResult {
    check_words(&words)?;
    world.settle().await?;
    let pods = subject.pods(&world.view);
    let pod = pods.first().ok_or_else(|| anyhow::anyhow!("{subject} has no pod"))?;
    let namespace = pod.0["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
    let told = world.explanation(&namespace, subject.name()).await?;
    if !told.contains(&words) {
        return Err(anyhow::anyhow!("{subject} is explained otherwise:\n{told}").into());
    }
    Ok(())
}

/// No words are in every text.
pub(super) fn check_words(words: &str) -> anyhow::Result<()> {
    anyhow::ensure!(!words.is_empty(), "found \"\", which every text contains; name some words");
    Ok(())
}

fn events<'w>(world: &'w World, subject: &'w Subject, words: &str) -> Vec<&'w Value> {
    let says = |event: &&Value| {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        text("reason").contains(words)
            || text("message").contains(words)
            || text("note").contains(words)
    };
    about(world, subject).filter(says).collect()
}

fn about<'w>(world: &'w World, subject: &'w Subject) -> impl Iterator<Item = &'w Value> {
    let view = &world.view;
    // Pods that are gone are of their workload, too, and so are their pod groups.
    let of_pod = |pod: Pod<'w>| {
        let group = object::annotation(pod.0, "pod-group-name").map(|name| ("PodGroup", name));
        let both = [Some(("Pod", pod.name())), group].into_iter().flatten();
        both.map(move |(kind, name)| (kind, pod.namespace(), name))
    };
    let its: BTreeSet<(&str, &str, &str)> = subject.pods_ever(view).flat_map(of_pod).collect();
    view.all(Kind::Events).filter(move |event| {
        let field = |name: &str| event["involvedObject"][name].as_str().unwrap_or_default();
        let (kind, namespace, name) = (field("kind"), field("namespace"), field("name"));
        let is_it = name == subject.name() && subject.may_be_a(kind);
        is_it || subject.is_all() || its.contains(&(kind, namespace, name))
    })
}

fn all(world: &World, subject: &Subject) -> String {
    let mut texts: Vec<String> = about(world, subject)
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            format!("\n  {} {}: {}", text("type"), text("reason"), text("message"))
        })
        .collect();
    texts.sort();
    texts.dedup();
    if texts.is_empty() { "nothing".to_owned() } else { texts.concat() }
}
