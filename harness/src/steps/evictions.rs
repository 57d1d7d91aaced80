//! Who was evicted, and for whom: as the scheduler itself says in its events. Who was deleted while
//! it ran counts, too, where nothing announced it and nobody else had a reason to.

use std::collections::BTreeSet;

use cucumber::then;

use super::StepResult;
use super::parameters::{Count, Stays, When};
use super::subjects::Subject;
use crate::view::{Eviction, Pod, victims};
use crate::world::World;

/// So many pods were evicted by the scheduler since the scenario began, whether it said so or not.
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
        let tells = |eviction: &Eviction<'_>| {
            eviction.message.is_some_and(|message| message.contains(&words))
        };
        counted(world, count, &subject, tells, &with)
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
    let unannounced = world.unannounced();
    let all = world.view.evictions(&unannounced);
    let of_subject =
        |eviction: &&Eviction<'_>| eviction.pod.is_some_and(|pod| subject.means(pod, &world.view));
    let found = victims(all.iter().filter(of_subject).filter(|eviction| wanted(eviction)));
    if count.means(found) {
        return Ok(());
    }
    let told: Vec<String> =
        all.iter().map(|eviction| format!("\n  {} {eviction}", eviction.time)).collect();
    Err(format!(
        "expected {count} pods of {subject} evicted{words}, found {found}; evicted were: {}",
        if told.is_empty() { "none".to_owned() } else { told.concat() }
    ))
}

#[cfg(test)]
mod tests {
    use crate::report::Outcome;
    use crate::runner::tests::{regex, verdict};
    use crate::view::Phase;
    use crate::vocabulary;
    use crate::world::World;

    const WORK: &str = "
    Given a fleet of 1 node with 8 GPUs each
    And a queue \"q\" with a quota of 8
    And 4 pods \"a\" with 1 GPU each are submitted to queue \"q\"
    And these workloads are submitted:
      | name | kind | queue | pods | gpus |
      | j    | job  | q     | 3    | 1    |
    And queue \"q\" has 7 running pods";

    /// Deletes a running pod of `a` and one of `j`, under this name.
    async fn delete_one_of_each(world: &mut World, by: &str) {
        world.catch_up().await.unwrap();
        for workload in ["a", "j"] {
            let is_one = |pod: &crate::view::Pod<'_>| {
                pod.belongs_to("workload", workload) && pod.phase() == Phase::Running
            };
            let path = world.view.pods().find(is_one).unwrap().path();
            let request = http::Request::delete(path).header("user-agent", by).body(Vec::new());
            world.api.client().request::<schedlab_json::Value>(request.unwrap()).await.unwrap();
        }
    }

    /// Why a scenario failed that ends with these lines; nothing when it passed.
    fn found(lines: &str) -> String {
        let steps = vocabulary::collection()
            .when(None, regex("^a stranger deletes two$"), |world, _| {
                Box::pin(delete_one_of_each(world, "kube-controller-manager"))
            })
            .when(None, regex("^the scheduler deletes two$"), |world, _| {
                Box::pin(delete_one_of_each(world, "kai-scheduler"))
            });
        let report = verdict(&format!("{WORK}\n    {lines}"), &steps);
        let message = report.failure.map(|failure| failure.message).unwrap_or_default();
        assert_eq!(message.is_empty(), report.outcome == Outcome::Passed, "{message}");
        message
    }

    #[test]
    fn who_is_deleted_without_a_word_was_evicted() {
        for who in ["a stranger", "the scheduler"] {
            let silent = format!("When {who} deletes two\n    And 15 seconds pass\n    Then ");
            let told = found(&format!("{silent}no pods of the cluster were evicted"));
            assert!(told.contains("expected no pods of the cluster evicted, found 2"), "{told}");
            let why = ": it was deleted while it ran, though nothing announced it";
            assert_eq!(told.matches(why).count(), 4, "in the claim and below it: {told}");
            assert_eq!(found(&format!("{silent}1 pod of job \"j\" was evicted")), "");
            let with = found(&format!("{silent}1 pod of pod \"a\" was evicted with \"deleted\""));
            assert!(with.contains("evicted with \"deleted\", found 0"), "{with}");
        }
    }

    #[test]
    fn what_steps_and_controllers_take_away_was_not_evicted() {
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
            let told = found(&format!(
                "When {cause}\n    Then for 10 minutes no pods of the cluster were evicted"
            ));
            assert_eq!(told, "", "{cause}");
        }
    }

    #[test]
    fn a_pod_that_two_events_tell_of_was_evicted_once() {
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
        assert_eq!(found(&format!("{lines}{gone}")), "");
    }
}
