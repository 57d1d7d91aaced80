//! Workloads: submitting, changing and deleting them.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use cucumber::{given, then, when};
use gherkin::Step;
use schedlab_api::{Value, annotations, json};

use super::StepResult;
use super::parameters::{DurationValue, PositiveDuration};
use super::reasons::require_nonempty_text;
use super::subjects::Workload;
use crate::text::counted_noun;
use crate::world::manifests::{WORKLOAD_COLUMNS, workload_objects_from_row};
use crate::world::observed::{Phase, Pod};
use crate::world::{Temporal, World};

/// Submits workloads, one per row, in this order. Kinds: pod (with `pods`: that many, `<name>-0`
/// …), gang (a pod group and its pods), job, deployment, statefulset, jobset, trainjob, pytorchjob
/// (one master, the rest workers), raycluster (one head, the rest workers), rayjob (a raycluster and
/// a pod that submits the job, which has the run time), leaderworkerset (a leader, the rest
/// workers), podgroup (a PodGroup of Kubernetes and its pods). Columns: name, kind, queue, pods,
/// gpus, cpu, memory, min (of a gang, job, pytorchjob or podgroup: members that must run together),
/// policy (of a podgroup: gang or basic), topology (of a podgroup: a node label), disruption (of a
/// podgroup: single or all), group (of a pod: the podgroup that it joins), replicas (of a leaderworkerset: groups of `pods` pods),
/// completion mode (of a job: Indexed or `NonIndexed`), priority (a class, or a number),
/// preemptible (yes, no), run time, startup, termination, exit code, grace (seconds), preemption
/// delay, staleness grace, sub-groups (of a gang: `leader 1, workers 2/4`), gang (of a pod: the
/// existing gang that it joins), gated (of a pod or gang: yes, or the number of gated pods),
/// labels, annotations, node selector, node affinity (`key in a b; key gt 3`), prefer (preferred
/// node affinity, same syntax), together by, apart by, spread by (a node label), tolerations
/// (`key=value:Effect`), host port, node, scheduler, namespace. A queue or node that does not exist
/// is an error, unless the cell says `nowhere (missing)`.
/// ```gherkin
/// When these workloads are submitted:
///   | name  | kind | queue  | pods | gpus | min | priority | run time |
///   | train | gang | team-a | 10   | 1    | 10  | train    |          |
///   | batch | job  | team-b | 4    | 2    |     |          | 10m      |
/// ```
#[given(expr = "these workloads are submitted:")]
#[when(expr = "these workloads are submitted:")]
async fn workloads_of_table_are_submitted(world: &mut World, step: &Step) -> StepResult {
    let scheduler = world.scheduler_name();
    let objects = world.objects_from_table(step, WORKLOAD_COLUMNS, &|row| {
        workload_objects_from_row(row, &scheduler)
    })?;
    world.check_references(&world.table_rows(step, WORKLOAD_COLUMNS)?.rows).await?;
    world.submit(objects).await?;
    Ok(())
}

/// Submits this number of single pods, `<name>-0`, `<name>-1` …, preemptible like KAI's priority
/// class `train`. To a queue that does not exist, on purpose: `to queue "nowhere (missing)"`.
/// ```gherkin
/// When 8 pods "work" with 1 GPU each are submitted to queue "team-a"
/// ```
#[given(expr = "{int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}")]
#[when(expr = "{int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}")]
async fn single_pods_are_submitted(
    world: &mut World,
    pods: String,
    name: String,
    gpus: String,
    queue: String,
) -> StepResult {
    let cells = [("name", &*name), ("pods", &pods), ("gpus", &gpus), ("queue", &queue)];
    submit_inline_row(world, &cells).await
}

/// Submits non-preemptible single pods, which may not exceed the queue's quota.
/// ```gherkin
/// When 8 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-a"
/// ```
#[given(
    expr = "{int} non-preemptible pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}"
)]
#[when(
    expr = "{int} non-preemptible pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}"
)]
async fn non_preemptible_workload_is_submitted(
    world: &mut World,
    pods: String,
    name: String,
    gpus: String,
    queue: String,
) -> StepResult {
    let cells = [
        ("name", &*name),
        ("pods", &pods),
        ("gpus", &gpus),
        ("queue", &queue),
        ("priority", "build"),
    ];
    submit_inline_row(world, &cells).await
}

/// Submits a pod group whose pods must all run together.
/// ```gherkin
/// When a gang "train" of 10 pods with 1 GPU each is submitted to queue "team-a"
/// ```
#[given(
    expr = "a gang {string} of {int} pod(s) with {int} GPU(s) each is submitted to queue {string}"
)]
#[when(
    expr = "a gang {string} of {int} pod(s) with {int} GPU(s) each is submitted to queue {string}"
)]
async fn gang_is_submitted(
    world: &mut World,
    name: String,
    pods: String,
    gpus: String,
    queue: String,
) -> StepResult {
    let cells =
        [("name", &*name), ("kind", "gang"), ("pods", &pods), ("gpus", &gpus), ("queue", &queue)];
    submit_inline_row(world, &cells).await
}

async fn submit_inline_row(world: &mut World, cells: &[(&str, &str)]) -> StepResult {
    let row = world.inline_row(cells);
    let objects = workload_objects_from_row(&row, &world.scheduler_name())?;
    world.check_references(&[row]).await?;
    let objects = world.inline_documents(objects);
    world.submit(objects).await?;
    Ok(())
}

/// Submits this number of pods periodically from now on, `<name>-0-0` and so on; each runs for this
/// time. Assertions about a cluster that never settles need a temporal operator.
/// ```gherkin
/// When every 10 minutes 4 pods "small" with 1 GPU each that run for 15 minutes arrive in queue "a"
/// ```
#[given(
    expr = "every {duration} {int} pod(s) {string} with {int} GPU(s) each that run(s) for {duration} arrive(s) in queue {string}"
)]
#[when(
    expr = "every {duration} {int} pod(s) {string} with {int} GPU(s) each that run(s) for {duration} arrive(s) in queue {string}"
)]
async fn workload_stream_starts(
    world: &mut World,
    every: PositiveDuration,
    pods: String,
    name: String,
    gpus: String,
    time: DurationValue,
    queue: String,
) -> StepResult {
    let time = time.go_duration().with_context(|| world.step_location())?;
    let cells = [
        ("name", &*name),
        ("pods", &pods),
        ("gpus", &gpus),
        ("run time", &time),
        ("queue", &queue),
    ];
    let row = world.inline_row(&cells);
    let objects = workload_objects_from_row(&row, &world.scheduler_name())?;
    world.check_references(&[row]).await?;
    let make = move |number| {
        let numbered = objects.iter().zip(0..).map(|(object, index)| {
            let mut object = object.clone();
            let workload =
                object["metadata"]["labels"][crate::world::observed::WORKLOAD_LABEL].clone();
            let workload = workload.as_str().unwrap_or_default();
            object["metadata"]["name"] = json!(format!("{workload}-{number}-{index}"));
            object
        });
        numbered.collect()
    };
    world.start_workload_stream(&name, every.0, make).await?;
    Ok(())
}

/// Ends a periodic submission.
/// ```gherkin
/// When no more pods "small" arrive
/// ```
#[when(expr = "no more pods {string} arrive")]
#[expect(clippy::needless_pass_by_value, reason = "cucumber passes parameters by value")]
fn workload_stream_ends(world: &mut World, name: String) -> StepResult {
    world.end_workload_stream(&name)?;
    Ok(())
}

/// Applies plain Kubernetes YAML from a file under fixtures/: creates or updates its objects.
/// Parents of its queues must be in the file or in the cluster.
/// ```gherkin
/// When the manifest "lab/exercise-a.yaml" is applied
/// ```
#[given(expr = "the manifest {string} is applied")]
#[when(expr = "the manifest {string} is applied")]
async fn manifest_file_is_applied(world: &mut World, file: String) -> StepResult {
    let documents = world.read_fixture(&file)?;
    super::queues::check_queue_tree(world, &documents).await?;
    world.apply_documents(documents).await?;
    Ok(())
}

/// Applies the plain Kubernetes YAML below the step: creates or updates its objects.
/// ```gherkin
/// When this manifest is applied:
///   """yaml
///   apiVersion: v1
///   kind: Namespace
///   metadata: {name: kai-demo}
///   """
/// ```
#[given(expr = "this manifest is applied:")]
#[when(expr = "this manifest is applied:")]
async fn manifest_is_applied(world: &mut World, step: &Step) -> StepResult {
    let documents = world.read_docstring(step)?;
    world.apply_documents(documents).await?;
    Ok(())
}

/// Writes the status of existing objects, as their controllers would.
/// ```gherkin
/// When this status is written:
///   """yaml
///   apiVersion: resource.k8s.io/v1
///   kind: ResourceClaim
///   metadata: {name: kept}
///   status: {allocation: {}}
///   """
/// ```
#[given(expr = "this status is written:")]
#[when(expr = "this status is written:")]
async fn status_is_written(world: &mut World, step: &Step) -> StepResult {
    let documents = world.read_docstring(step)?;
    world.write_status(&documents).await?;
    Ok(())
}

/// The API server rejects the manifest below the step with a message that contains this text.
/// ```gherkin
/// Then this manifest is refused with "must be greater than or equal to 0":
///   """yaml
///   apiVersion: v1
///   kind: Pod
///   metadata: {name: broken}
///   spec: {containers: [{name: a, image: b, resources: {requests: {nvidia.com/gpu: -1}}}]}
///   """
/// ```
#[when(expr = "this manifest is refused with {string}:")]
#[then(expr = "this manifest is refused with {string}:")]
async fn manifest_is_refused(world: &mut World, step: &Step, words: String) -> StepResult {
    require_nonempty_text(&words)?;
    let documents = world.read_docstring(step)?;
    match world.apply_documents(documents).await {
        Ok(()) => Err(anyhow!("the API server accepted the manifest").into()),
        Err(error) if format!("{error:#}").contains(&words) => Ok(()),
        Err(error) => Err(anyhow!(
            "the manifest was rejected with another message: \
            {error:#}"
        )
        .into()),
    }
}

/// Creates a priority class.
/// ```gherkin
/// Given a priority class "urgent" with value 90
/// ```
#[given(expr = "a priority class {string} with value {int}")]
async fn priority_class_exists(world: &mut World, name: String, value: i32) -> StepResult {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    });
    let class = world.inline_documents(vec![class]);
    world.submit(class).await?;
    Ok(())
}

/// Deletes everything that was submitted under this name.
/// ```gherkin
/// When job "train" is deleted
/// ```
#[when(expr = "{workload} is deleted")]
async fn workload_is_deleted(world: &mut World, which: Workload) -> StepResult {
    let live = which.0.pods(&world.view).len();
    match world.submitted_objects(which.kind(), which.subject_name()) {
        Ok(objects) => {
            let there = world.delete_all(&objects).await?;
            if there == 0 {
                return Err(anyhow!("nothing of {which} exists, it was deleted before").into());
            }
        }
        Err(error) if live == 0 => return Err(error.into()),
        Err(_) => delete_pods(world, &which, live).await?,
    }
    Ok(())
}

/// Deletes this number of a workload's pods, in reverse order of their names.
/// ```gherkin
/// When 2 pods of gang "train" are deleted
/// ```
#[given(expr = "{int} pod(s) of {workload} is/are deleted")]
#[when(expr = "{int} pod(s) of {workload} is/are deleted")]
async fn some_pods_are_deleted(world: &mut World, count: usize, which: Workload) -> StepResult {
    delete_pods(world, &which, count).await
}

async fn delete_pods(world: &mut World, which: &Workload, count: usize) -> StepResult {
    world.catch_up_with_watches().await?;
    let pods = which.pods(&world.view);
    if pods.len() < count {
        return Err(anyhow!("{which} has only {}", counted_noun(pods.len(), "pod")).into());
    }
    let paths: Vec<String> = pods.iter().rev().take(count).map(Pod::api_path).collect();
    for path in paths {
        world.delete_object(&path).await?;
    }
    Ok(())
}

/// Submits a deleted workload again, with the same names. Waits for pods that are still
/// terminating.
/// ```gherkin
/// When pod "a" is submitted again
/// ```
#[when(expr = "{workload} is submitted again")]
async fn workload_is_submitted_again(world: &mut World, which: Workload) -> StepResult {
    world.resubmit_deleted(which.kind(), which.subject_name()).await?;
    Ok(())
}

/// Makes this number of a workload's running pods fail now, as if their containers had exited with
/// 1.
/// ```gherkin
/// When 1 pod of gang "train" fails
/// ```
#[given(expr = "{int} pod(s) of {workload} fail(s)")]
#[when(expr = "{int} pod(s) of {workload} fail(s)")]
async fn pods_fail(world: &mut World, count: usize, which: Workload) -> StepResult {
    end_running_pods(world, &which, count, "1").await
}

/// Makes this number of a workload's running pods finish now, as if their containers had exited
/// with 0.
/// ```gherkin
/// When 1 pod of gang "train" finishes
/// ```
#[given(expr = "{int} pod(s) of {workload} finish(es)")]
#[when(expr = "{int} pod(s) of {workload} finish(es)")]
async fn pods_finish(world: &mut World, count: usize, which: Workload) -> StepResult {
    end_running_pods(world, &which, count, "0").await
}

/// Maximum wait for the kubelet to end a pod.
const END_WAIT_MAX: Duration = Duration::from_mins(1);

/// Ends running pods with the annotations that the simulated kubelet obeys, and waits until they
/// have ended. The kubelet rereads the run time, and a pod that has run for as long ends at once. A
/// pod whose containers restart gets its old annotations back, so that the containers keep running
/// after the restart.
async fn end_running_pods(
    world: &mut World,
    which: &Workload,
    count: usize,
    exit_code: &str,
) -> StepResult {
    world.settle().await?;
    let pods = which.pods(&world.view);
    let running = pods.iter().filter(|pod| pod.current_phase() == Phase::Running);
    let ending: Vec<Value> = running.take(count).map(|pod| pod.0.clone()).collect();
    if ending.len() < count {
        return Err(
            anyhow!("{which} has only {}", counted_noun(ending.len(), "running pod")).into()
        );
    }
    for pod in &ending {
        let (path, run_time) = (Pod(pod).api_path(), format!("{}s", world.run_seconds(Pod(pod))));
        let annotations =
            json!({(annotations::RUN_TIME): run_time, (annotations::EXIT_CODE): exit_code});
        world.patch_object(&path, &json!({"metadata": {"annotations": annotations}})).await?;
    }
    let ended = |world: &World| match ending.iter().find(|pod| is_running_on_node(Pod(pod), world))
    {
        None => Ok(()),
        Some(pod) => Err(format!("pod {:?} still runs", Pod(pod).pod_name())),
    };
    world.expect(Temporal::EventuallyWithin(END_WAIT_MAX), 0, &ended).await?;
    for pod in ending.iter().map(Pod) {
        let now = current_pod(pod, world).map(Pod::current_phase);
        if matches!(now, Some(Phase::Running | Phase::Starting)) {
            let old = |key| pod.0["metadata"]["annotations"][key].clone();
            let (run_time, code) = (old(annotations::RUN_TIME), old(annotations::EXIT_CODE));
            let old = json!({(annotations::RUN_TIME): run_time, (annotations::EXIT_CODE): code});
            world.patch_object(&pod.api_path(), &json!({"metadata": {"annotations": old}})).await?;
        }
    }
    Ok(())
}

/// The pod with this uid, in its current state.
fn current_pod<'w>(pod: Pod<'_>, world: &'w World) -> Option<Pod<'w>> {
    world.view.current_pods().find(|other| other.uid() == pod.uid())
}

/// Whether a pod runs and was not restarted since `pod` was read.
fn is_running_on_node(pod: Pod<'_>, world: &World) -> bool {
    current_pod(pod, world).is_some_and(|now| {
        now.current_phase() == Phase::Running && now.restart_count() == pod.restart_count()
    })
}

/// Removes the scheduling gates of a workload's pods, of which at least one must have some.
/// ```gherkin
/// When the gates of gang "train" are lifted
/// ```
#[when(expr = "the gates of {workload} are lifted")]
async fn scheduling_gates_are_lifted(world: &mut World, which: Workload) -> StepResult {
    patch_pods(world, &which, &json!({"spec": {"schedulingGates": null}})).await
}

/// Sets a label on a workload's pods.
/// ```gherkin
/// When the label "kai.scheduler/queue" of pod "a" becomes "team-b"
/// ```
#[when(expr = "the label {string} of {workload} becomes {string}")]
async fn workload_is_labelled(
    world: &mut World,
    key: String,
    which: Workload,
    value: String,
) -> StepResult {
    patch_pods(world, &which, &json!({"metadata": {"labels": {key: value}}})).await
}

/// Sets an annotation on a workload's pods.
/// ```gherkin
/// When the annotation "schedlab.dev/run-time" of pod "a" becomes "1h"
/// ```
#[when(expr = "the annotation {string} of {workload} becomes {string}")]
async fn workload_is_annotated(
    world: &mut World,
    key: String,
    which: Workload,
    value: String,
) -> StepResult {
    patch_pods(world, &which, &json!({"metadata": {"annotations": {key: value}}})).await
}

async fn patch_pods(world: &mut World, which: &Workload, patch: &Value) -> StepResult {
    world.catch_up_with_watches().await?;
    let pods = which.pods(&world.view);
    if pods.is_empty() {
        return Err(anyhow!("{which} has no pods").into());
    }
    let paths: Vec<String> = pods.iter().map(Pod::api_path).collect();
    let mut changed = false;
    for path in paths {
        changed |= world.patch_object(&path, patch).await?;
    }
    if !changed {
        return Err(anyhow!("the patch changes no pod of {which}").into());
    }
    Ok(())
}

/// Patches a gang's pod group by JSON merge.
/// ```gherkin
/// When the pod group of gang "train" becomes:
///   """yaml
///   spec: {minMember: 4}
///   """
/// ```
#[when(expr = "the pod group of {workload} becomes:")]
async fn pod_group_is_patched(world: &mut World, step: &Step, which: Workload) -> StepResult {
    let mut change = world.read_patch_docstring(step)?;
    world.catch_up_with_watches().await?;
    let pods = which.pods(&world.view);
    let group = pods.first().and_then(|pod| pod.pod_group(&world.view)).cloned();
    let Some(group) = group else { return Err(anyhow!("{which} has no pod group").into()) };
    let field = |name: &str| group["metadata"][name].as_str().unwrap_or_default().to_owned();
    let groups = "/apis/scheduling.run.ai/v2alpha2/namespaces";
    let at = format!("{groups}/{}/podgroups/{}", field("namespace"), field("name"));
    if let Err(error) = world.patch_requiring_change(&at, &change.object).await {
        // The server's error about a patch does not name the object.
        for part in ["apiVersion", "kind"] {
            change.object[part] = group[part].clone();
        }
        change.object["metadata"]["name"] = json!(field("name"));
        return Err(world.locate_error(&change, error).await.into());
    }
    Ok(())
}

/// Limits the run time of a workload's pods, counted from their start; at least one must not have
/// ended.
/// ```gherkin
/// Given pods of gang "train" run for 10 minutes
/// ```
#[given(expr = "pods of {workload} run for {duration}")]
#[when(expr = "pods of {workload} run for {duration}")]
async fn run_time_is_set(world: &mut World, which: Workload, time: DurationValue) -> StepResult {
    let text = time.go_duration().with_context(|| world.step_location())?;
    world.catch_up_with_watches().await?;
    let ended = [Phase::Succeeded, Phase::Failed, Phase::Terminating];
    if which.pods(&world.view).iter().all(|pod| ended.contains(&pod.current_phase())) {
        return Err(anyhow!(
            "all pods of {which} have ended, expected at least one that has \
            not"
        )
        .into());
    }
    let annotations = json!({(annotations::RUN_TIME): text});
    patch_pods(world, &which, &json!({"metadata": {"annotations": annotations}})).await
}
