//! Evictions as the scheduler reports them in events, and running pods deleted without an event or
//! another cause.

use std::collections::BTreeSet;

use cucumber::then;

use super::StepResult;
use super::parameters::{Count, StableCycles, Timing};
use super::subjects::Subject;
use crate::text::counted_noun;
use crate::world::observed::{Eviction, Pod, distinct_victim_count};
use crate::world::{Temporal, World};

/// This number of pods were evicted by the scheduler since the scenario began, with or without an
/// event.
/// ```gherkin
/// Then 4 pods of queue "team-b" were evicted
/// Then for 10 minutes no pods of the cluster were evicted
/// Then 4 pods of queue "team-b" were evicted and stays so for 5 cycles
/// ```
#[then(expr = "{when}{count} pod(s) of {subject} was/were evicted{stays}")]
async fn pods_are_evicted(
    world: &mut World,
    when: Timing,
    count: Count,
    subject: Subject,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| check_victim_count(world, count, &subject, |_| true, "");
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// This number of pods were evicted for a workload or queue: the scheduler's message names one of
/// its pods, the pod group or the owner.
/// Wording: on every scheduler, that at least so many pods were evicted.
/// ```gherkin
/// Then 4 pods of queue "team-b" were evicted for queue "team-a"
/// Then 1 pod of job "low" was evicted for job "high"
/// ```
#[then(expr = "{when}{count} pod(s) of {subject} was/were evicted for {subject}{stays}")]
async fn pods_are_evicted_for(
    world: &mut World,
    when: Timing,
    count: Count,
    subject: Subject,
    other: Subject,
    stays: StableCycles,
) -> StepResult {
    let words = format!(" for {other}");
    if !world.judges_words(PREEMPTOR_WORDS) {
        return at_least_as_many_are_evicted(world, when.0, count, &subject).await;
    }
    let claim = |world: &World| {
        let names: BTreeSet<&str> =
            other.pods_ever_seen(&world.view).flat_map(Pod::known_names).collect();
        let is_for = |eviction: &Eviction<'_>| {
            eviction.mentions_any(&names) || eviction_names_queue(world, eviction, &other)
        };
        check_victim_count(world, count, &subject, is_for, &words)
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// This number of pods were evicted with a message that contains this text.
/// Wording: on every scheduler, that at least so many pods were evicted.
/// ```gherkin
/// Then 2 pods of the cluster were evicted with "resource consolidation"
/// ```
#[then(expr = "{when}{count} pod(s) of {subject} was/were evicted with {string}{stays}")]
async fn pods_are_evicted_with_text(
    world: &mut World,
    when: Timing,
    count: Count,
    subject: Subject,
    words: String,
    stays: StableCycles,
) -> StepResult {
    super::reasons::require_nonempty_text(&words)?;
    if !world.judges_words(&words) {
        return at_least_as_many_are_evicted(world, when.0, count, &subject).await;
    }
    let with = format!(" with {words:?}");
    let claim = |world: &World| {
        let has_text = |eviction: &Eviction<'_>| {
            eviction.message.is_some_and(|message| message.contains(&words))
        };
        check_victim_count(world, count, &subject, has_text, &with)
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// What stands for the message that names a preemptor, which KAI and kube-scheduler write.
const PREEMPTOR_WORDS: &str = "evictor-pod-group-name";

/// What is left of a claim about evictions with some message if messages are not judged: at least
/// as many pods were evicted, whatever for. Nothing is left of a claim that none were, or that this
/// never happens.
async fn at_least_as_many_are_evicted(
    world: &mut World,
    when: Temporal,
    count: Count,
    subject: &Subject,
) -> StepResult {
    let least = count.lower_bound();
    if least == 0 || matches!(when, Temporal::NeverWithin(_)) {
        return Ok(world.wait_unjudged(when).await?);
    }
    let count = Count::AtLeast(least);
    let claim = |world: &World| check_victim_count(world, count, subject, |_| true, "");
    world.expect(when, 0, &claim).await?;
    Ok(())
}

/// Whether the eviction's message names the queue as the preemptor's. A message that names queues
/// also names the victim's own queue, which does not count.
fn eviction_names_queue(world: &World, eviction: &Eviction<'_>, queue: &Subject) -> bool {
    let is_victims = eviction.pod.is_none_or(|pod| queue.includes_pod(pod, &world.view));
    queue.is_queue() && !is_victims && eviction.mentions_queue(queue.subject_name())
}

fn check_victim_count(
    world: &World,
    count: Count,
    subject: &Subject,
    matches: impl Fn(&Eviction<'_>) -> bool,
    words: &str,
) -> Result<(), String> {
    let unannounced = world.unannounced_evictions();
    let all = world.view.all_evictions(&unannounced);
    let of_subject = |eviction: &&Eviction<'_>| {
        eviction.pod.is_some_and(|pod| subject.includes_pod(pod, &world.view))
    };
    let found =
        distinct_victim_count(all.iter().filter(of_subject).filter(|eviction| matches(eviction)));
    if count.matches(found) {
        return Ok(());
    }
    let lines: Vec<String> =
        all.iter().map(|eviction| format!("\n  {} {eviction}", eviction.time)).collect();
    Err(format!(
        "got {} of {subject}{words}, expected {count}; evictions: {}",
        counted_noun(found, "evicted pod"),
        if lines.is_empty() { "none".to_owned() } else { lines.concat() }
    ))
}

#[cfg(test)]
mod tests {
    use crate::report::CaseOutcome;
    use crate::runner::tests::{regex, verdict};
    use crate::steps::catalogue;
    use crate::world::World;
    use crate::world::observed::Phase;

    const WORK: &str = "
    Given a fleet of 1 node with 8 GPUs each
    And a queue \"q\" with a quota of 8
    And 4 pods \"a\" with 1 GPU each are submitted to queue \"q\"
    And these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | j    | job  | q     | 3    | 1    |
    And queue \"q\" has 7 running pods";

    /// Deletes a running pod of `a` and one of `j`, with this user agent.
    async fn delete_one_of_each(world: &mut World, by: &str) {
        world.catch_up_with_watches().await.unwrap();
        for workload in ["a", "j"] {
            let is_one = |pod: &crate::world::observed::Pod<'_>| {
                pod.belongs_to("workload", workload) && pod.current_phase() == Phase::Running
            };
            let path = world.view.current_pods().find(is_one).unwrap().api_path();
            let request = http::Request::delete(path).header("user-agent", by).body(Vec::new());
            world.api.client().request::<schedlab_api::Value>(request.unwrap()).await.unwrap();
        }
    }

    /// The failure message of a scenario that ends with these lines; empty when it passed.
    fn failure_of(lines: &str) -> String {
        let steps = catalogue::step_collection()
            .when(None, regex("^a stranger deletes two$"), |world, _| {
                Box::pin(delete_one_of_each(world, "kube-controller-manager"))
            })
            .when(None, regex("^the scheduler deletes two$"), |world, _| {
                Box::pin(delete_one_of_each(world, "kai-scheduler"))
            });
        let report = verdict(&format!("{WORK}\n    {lines}"), &steps);
        let message = report.failure.map(|failure| failure.message).unwrap_or_default();
        assert_eq!(message.is_empty(), report.outcome == CaseOutcome::Passed, "{message}");
        message
    }

    #[test]
    fn a_pod_deleted_without_an_event_counts_as_evicted() {
        for who in ["a stranger", "the scheduler"] {
            let silent = format!("When {who} deletes two\n    And 15 seconds pass\n    Then ");
            let failure = failure_of(&format!("{silent}no pods of the cluster were evicted"));
            assert!(
                failure.contains("got 2 evicted pods of the cluster, expected no"),
                "{failure}"
            );
            let why = ": the pod was deleted while it ran, and no event announced that";
            assert_eq!(failure.matches(why).count(), 4, "in the claim and below it: {failure}");
            assert_eq!(failure_of(&format!("{silent}1 pod of job \"j\" was evicted")), "");
            let with =
                failure_of(&format!("{silent}1 pod of pod \"a\" was evicted with \"deleted\""));
            assert!(
                with.contains("got 0 evicted pods of pod \"a\" with \"deleted\", expected 1"),
                "{with}"
            );
        }
    }

    #[test]
    fn pods_deleted_by_steps_and_controllers_do_not_count_as_evicted() {
        for cause in [
            "1 pod of pod \"a\" is deleted",
            "1 pod of job \"j\" is deleted",
            "job \"j\" is deleted",
            "job \"j\" is scaled to 1",
            "1 pod of job \"j\" fails",
            "1 pod of job \"j\" finishes",
            "node \"node-1\" is drained",
            "node \"node-1\" is deleted",
            "node \"node-1\" dies",
            "node \"node-1\" is tainted with \"gpu=broken:NoExecute\"",
        ] {
            let failure = failure_of(&format!(
                "When {cause}\n    Then for 10 minutes no pods of the cluster were evicted"
            ));
            assert_eq!(failure, "", "{cause}");
        }
    }

    #[test]
    fn a_pod_with_two_eviction_events_counts_once() {
        let event = |name: &str| {
            let about = "involvedObject: {kind: Pod, namespace: default, name: gone}";
            let metadata = format!("metadata: {{name: {name}, namespace: default}}");
            format!(
                "{{apiVersion: v1, kind: Event, {metadata}, reason: Preempted, {about}, \
                 message: Preempted by pod {name}}}"
            )
        };
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: gone, namespace: default}, \
                   spec: {containers: [{name: c, image: i}]}}";
        let apply = |yaml: &str| {
            format!(
                "When this manifest is applied:\n      \"\"\"yaml\n      {yaml}\n      \"\"\"\n    "
            )
        };
        let lines = [pod, &event("first"), &event("second")].map(apply).concat();
        let gone = "When pod \"gone\" is deleted\n    Then 1 pod of the cluster was evicted";
        assert_eq!(failure_of(&format!("{lines}{gone}")), "");
    }
}
