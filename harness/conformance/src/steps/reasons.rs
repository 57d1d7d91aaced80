//! Reasons of pending pods, and events.

use std::collections::BTreeSet;

use cucumber::then;
use schedlab_api::{Value, annotations, object};

use super::StepResult;
use super::parameters::{Count, StableCycles, Timing};
use super::subjects::Subject;
use crate::text::counted_noun;
use crate::world::World;
use crate::world::observed::{Phase, Pod, WatchedKind};

/// There is at least one pending pod, and the reason of each contains this text.
/// Wording: on every scheduler, that a pod is pending.
/// ```gherkin
/// Then job "train" is pending because "quota has reached the allowable limit"
/// Then queue "team-a" is pending because "Non-preemptible workload is over quota"
/// ```
#[then(expr = "{when}{subject} is pending because {string}{stays}")]
async fn subject_is_pending_because(
    world: &mut World,
    when: Timing,
    subject: Subject,
    words: String,
    stays: StableCycles,
) -> StepResult {
    require_nonempty_text(&words)?;
    let judges_words = world.judges_words(&words);
    let claim = |world: &World| {
        let pods = subject.pods(&world.view);
        let mut waiting = pods
            .iter()
            .filter(|pod| matches!(pod.current_phase(), Phase::Pending | Phase::Gated))
            .peekable();
        if waiting.peek().is_none() {
            return Err(format!("{subject} has no pending pod"));
        }
        let has_text = |pod: &&Pod<'_>| {
            !judges_words
                || pod.unschedulable_message().is_some_and(|reason| reason.contains(&words))
                || world.accepts_group_reasons() && group_reason_contains(world, **pod, &words)
        };
        match waiting.find(|pod| !has_text(pod)) {
            None => Ok(()),
            Some(pod) => {
                let reason = pod.unschedulable_message().unwrap_or("no reason reported");
                Err(format!("pod {:?} is pending because: {reason}", pod.pod_name()))
            }
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// Whether a condition or an event of the pod's PodGroup contains this text. KAI reports there why a
/// gang waits, and by an event alone that members are missing; one of the pods has the reason for
/// which that pod itself fits nowhere.
fn group_reason_contains(world: &World, pod: Pod<'_>, words: &str) -> bool {
    let Some(name) = object::annotation(pod.0, annotations::POD_GROUP_NAME) else { return false };
    let group = world.view.get_in_namespace(WatchedKind::PodGroups, pod.pod_namespace(), name);
    let conditions = group.into_iter().flat_map(|group| {
        let lists = ["/status/schedulingConditions", "/status/conditions"];
        lists.into_iter().flat_map(|list| schedlab_api::pointer::list(group, list))
    });
    let events = world.view.objects_of_kind(WatchedKind::Events).filter(|event| {
        let about = &event["involvedObject"];
        about["kind"] == "PodGroup"
            && about["namespace"] == pod.pod_namespace()
            && about["name"] == name
    });
    let mut messages = conditions.chain(events).filter_map(|found| found["message"].as_str());
    messages.any(|message| message.contains(words))
}

/// There is an event about this object, one of its pods or its pod group whose reason or message
/// contains this text.
/// Wording: nothing else.
/// ```gherkin
/// Then an event of gang "train" says "StaleJob"
/// Then an event of queue "team-a" says "above the capacity"
/// ```
#[then(expr = "{when}an event of {subject} says {string}{stays}")]
async fn event_says(
    world: &mut World,
    when: Timing,
    subject: Subject,
    words: String,
    stays: StableCycles,
) -> StepResult {
    require_nonempty_text(&words)?;
    if !world.judges_words(&words) {
        return Ok(world.wait_unjudged(when.0).await?);
    }
    let claim = |world: &World| match matching_events(world, &subject, &words).len() {
        0 => Err(format!(
            "no event of {subject} contains {words:?}; events: {}",
            all_event_texts(world, &subject)
        )),
        _ => Ok(()),
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// This number of events about this object contain this text; a repeated event counts as often as
/// its `count`.
/// Wording: nothing else.
/// ```gherkin
/// Then no events of pod "a" say "Evict"
/// Then at most 3 events of pod "a" say "Unschedulable"
/// ```
#[then(expr = "{when}{count} event(s) of {subject} say(s) {string}{stays}")]
async fn event_count_says(
    world: &mut World,
    when: Timing,
    count: Count,
    subject: Subject,
    words: String,
    stays: StableCycles,
) -> StepResult {
    require_nonempty_text(&words)?;
    if !world.judges_words(&words) {
        return Ok(world.wait_unjudged(when.0).await?);
    }
    let claim = |world: &World| {
        let times = |event: &&Value| event["count"].as_u64().unwrap_or(1).max(1);
        let found: u64 = matching_events(world, &subject, &words).iter().map(times).sum();
        let found = usize::try_from(found).unwrap_or(usize::MAX);
        if count.matches(found) {
            return Ok(());
        }
        Err(format!(
            "got {} of {subject} with {words:?}, expected {count}; events: {}",
            counted_noun(found, "event"),
            all_event_texts(world, &subject)
        ))
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// There is an event about this object, one of its pods or its pod group with this annotation.
/// Wording: nothing else.
/// ```gherkin
/// Then an event of gang "lent" has the annotation "evictor-action-type" with "reclaim"
/// ```
#[then(expr = "{when}an event of {subject} has the annotation {string} with {string}{stays}")]
async fn event_has_annotation(
    world: &mut World,
    when: Timing,
    subject: Subject,
    key: String,
    value: String,
    stays: StableCycles,
) -> StepResult {
    if !world.judges_words(&key) {
        return Ok(world.wait_unjudged(when.0).await?);
    }
    let claim = |world: &World| {
        let annotations =
            events_about_subject(world, &subject).map(|event| &event["metadata"]["annotations"]);
        let mut found: Vec<&str> = annotations.filter_map(|all| all[&*key].as_str()).collect();
        if found.contains(&&*value) {
            return Ok(());
        }
        found.dedup();
        Err(format!("no event of {subject} has the annotation {key} with {value:?}; got {found:?}"))
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// Once everything has settled, the output of `schedlab-scheduler explain` for a workload (which
/// must have a pod) contains this text: its reason, the suggestions and their trial, queues,
/// plugins, nodes.
/// Wording: nothing else.
/// ```gherkin
/// Then the explanation of job "train" says "raise the quota"
/// ```
#[then(expr = "the explanation of {subject} says {string}")]
async fn explanation_says(world: &mut World, subject: Subject, words: String) -> StepResult {
    require_nonempty_text(&words)?;
    world.settle().await?;
    if !world.judges_explanation(&words) {
        return Ok(());
    }
    let pods = subject.pods(&world.view);
    let pod = pods.first().ok_or_else(|| anyhow::anyhow!("{subject} has no pod"))?;
    let namespace = pod.0["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
    let explanation = world.explanation_of_workload(&namespace, subject.subject_name()).await?;
    if !explanation.contains(&words) {
        return Err(anyhow::anyhow!(
            "the explanation of {subject} does not contain \
            {words:?}:\n{explanation}"
        )
        .into());
    }
    Ok(())
}

/// Rejects an empty text in a step, because every message contains it.
pub(super) fn require_nonempty_text(words: &str) -> anyhow::Result<()> {
    anyhow::ensure!(!words.is_empty(), "got \"\", which every text contains, expected some text");
    Ok(())
}

fn matching_events<'w>(world: &'w World, subject: &'w Subject, text_part: &str) -> Vec<&'w Value> {
    let contains_text = |event: &&Value| {
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        text("reason").contains(text_part)
            || text("message").contains(text_part)
            || text("note").contains(text_part)
    };
    events_about_subject(world, subject).filter(contains_text).collect()
}

fn events_about_subject<'w>(
    world: &'w World,
    subject: &'w Subject,
) -> impl Iterator<Item = &'w Value> {
    let view = &world.view;
    // Deleted pods still belong to their workload, and so do their pod groups.
    let of_pod = |pod: Pod<'w>| {
        let group =
            object::annotation(pod.0, annotations::POD_GROUP_NAME).map(|name| ("PodGroup", name));
        let both = [Some(("Pod", pod.pod_name())), group].into_iter().flatten();
        both.map(move |(kind, name)| (kind, pod.pod_namespace(), name))
    };
    let its: BTreeSet<(&str, &str, &str)> = subject.pods_ever_seen(view).flat_map(of_pod).collect();
    view.objects_of_kind(WatchedKind::Events).filter(move |event| {
        let field = |name: &str| event["involvedObject"][name].as_str().unwrap_or_default();
        let (kind, namespace, name) = (field("kind"), field("namespace"), field("name"));
        let is_it = name == subject.subject_name() && subject.may_be_of_kind(kind);
        is_it || subject.is_cluster() || its.contains(&(kind, namespace, name))
    })
}

fn all_event_texts(world: &World, subject: &Subject) -> String {
    let mut texts: Vec<String> = events_about_subject(world, subject)
        .map(|event| {
            let text = |field: &str| event[field].as_str().unwrap_or_default();
            format!("\n  {} {}: {}", text("type"), text("reason"), text("message"))
        })
        .collect();
    texts.sort();
    texts.dedup();
    if texts.is_empty() { "none".to_owned() } else { texts.concat() }
}
