//! Who was evicted, and for whom: as the scheduler itself says in its events.

use std::collections::BTreeSet;

use cucumber::then;

use super::StepResult;
use super::parameters::{Count, Stays, When};
use super::subjects::Subject;
use crate::view::{Eviction, Pod, victims};
use crate::world::World;

/// So many pods were evicted by the scheduler since the scenario began.
/// ```gherkin
/// Then 4 pods of queue "team-b" were evicted
/// Then for 10 minutes no pods of the cluster were evicted
/// Then 4 pods of queue "team-b" were evicted and stays so for 5 cycles
/// ```
#[then(expr = "{when}{count} pod(s) of {subject} was/were evicted{stays}")]
async fn evicted(
    world: &mut World,
    when: When,
    count: Count,
    subject: Subject,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| counted(world, count, &subject, |_| true, "");
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// So many pods were evicted for a workload or queue: the scheduler's words name a pod of it, the
/// pod's group or what made the pod.
/// ```gherkin
/// Then 4 pods of queue "team-b" were evicted for queue "team-a"
/// Then 1 pod of job "low" was evicted for job "high"
/// ```
#[then(expr = "{when}{count} pod(s) of {subject} was/were evicted for {subject}{stays}")]
#[expect(clippy::too_many_arguments, reason = "one for each value in the sentence")]
async fn evicted_for(
    world: &mut World,
    when: When,
    count: Count,
    subject: Subject,
    other: Subject,
    stays: Stays,
) -> StepResult {
    let words = format!(" for {other}");
    let claim = |world: &World| {
        let names: BTreeSet<&str> = other.pods_ever(&world.view).flat_map(Pod::names).collect();
        let is_for = |eviction: &Eviction<'_>| {
            eviction.tells_of(&names) || tells_of_queue(world, eviction, &other)
        };
        counted(world, count, &subject, is_for, &words)
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// So many pods were evicted with words that contain these.
/// ```gherkin
/// Then 2 pods of the cluster were evicted with "resource consolidation"
/// ```
#[then(expr = "{when}{count} pod(s) of {subject} was/were evicted with {string}{stays}")]
#[expect(clippy::too_many_arguments, reason = "one for each value in the sentence")]
async fn evicted_with(
    world: &mut World,
    when: When,
    count: Count,
    subject: Subject,
    words: String,
    stays: Stays,
) -> StepResult {
    super::reasons::check_words(&words)?;
    let with = format!(" with {words:?}");
    let claim = |world: &World| {
        counted(world, count, &subject, |eviction| eviction.message.contains(&words), &with)
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// Words that name queues name the victim's own, too.
fn tells_of_queue(world: &World, eviction: &Eviction<'_>, queue: &Subject) -> bool {
    let is_victims = eviction.pod.is_none_or(|pod| queue.means(pod, &world.view));
    queue.is_queue() && !is_victims && eviction.tells_of_queue(queue.name())
}

fn counted(
    world: &World,
    count: Count,
    subject: &Subject,
    wanted: impl Fn(&Eviction<'_>) -> bool,
    words: &str,
) -> Result<(), String> {
    let all = world.view.evictions();
    let of_subject =
        |eviction: &&Eviction<'_>| eviction.pod.is_some_and(|pod| subject.means(pod, &world.view));
    let found = victims(all.iter().filter(of_subject).filter(|eviction| wanted(eviction)));
    if count.means(found) {
        return Ok(());
    }
    let told: Vec<String> =
        all.iter().map(|e| format!("\n  {} {}: {}", e.time, e.name, e.message)).collect();
    Err(format!(
        "expected {count} pods of {subject} evicted{words}, found {found}; evicted were: {}",
        if told.is_empty() { "none".to_owned() } else { told.concat() }
    ))
}
