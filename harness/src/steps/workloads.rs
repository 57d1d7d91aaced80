//! Workloads: what is submitted, changed and deleted.

use anyhow::{Context as _, anyhow};
use cucumber::{given, then, when};
use gherkin::Step;
use schedlab_json::json;

use super::StepResult;
use super::parameters::{SomeTime, Span};
use super::reasons::check_words;
use super::subjects::Workload;
use crate::objects::{WORKLOAD_COLUMNS, workload};
use crate::view::{Phase, Pod};
use crate::world::World;

/// Workloads, one a row, in this order. Kinds: pod (with `pods`: that many, `<name>-0` …), gang
/// (a pod group and its pods), job, deployment, statefulset, jobset, trainjob, pytorchjob (one
/// master, the rest workers). Columns: name, kind, queue, pods, gpus, cpu, memory, min (of a gang,
/// job or pytorchjob: members that must run together), priority (a class, or a number), preemptible
/// (yes, no), run time, startup, termination, exit code, grace (seconds), preemption delay,
/// staleness grace, sub-groups (of a gang: `leader 1, workers 2/4`), gang (of a pod: the gang that
/// it is a further member of), gated (of a pod or gang: yes, or how many of the pods wait for a
/// gate), labels, annotations, node selector,
/// node affinity (`key in a b; key gt 3`), prefer (the same), together by, apart by, spread by
/// (a node label), tolerations (`key=value:Effect`), host port, node, scheduler, namespace.
/// ```gherkin
/// When these workloads are submitted:
///   | name  | kind | queue  | pods | gpus | min | priority | run time |
///   | train | gang | team-a | 10   | 1    | 10  | train    |          |
///   | batch | job  | team-b | 4    | 2    |     |          | 10m      |
/// ```
#[given(expr = "these workloads are submitted:")]
#[when(expr = "these workloads are submitted:")]
async fn workloads(world: &mut World, step: &Step) -> StepResult {
    let scheduler = world.scheduler_name();
    let objects = world.objects_of(step, WORKLOAD_COLUMNS, &|row| workload(row, &scheduler))?;
    world.submit(objects).await?;
    Ok(())
}

/// So many single pods, `<name>-0` and so on, preemptible as KAI's priority class `train` is.
/// ```gherkin
/// When 8 pods "work" with 1 GPU each are submitted to queue "team-a"
/// ```
#[given(expr = "{int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}")]
#[when(expr = "{int} pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}")]
async fn single_pods(
    world: &mut World,
    pods: String,
    name: String,
    gpus: String,
    queue: String,
) -> StepResult {
    let cells = [("name", &*name), ("pods", &pods), ("gpus", &gpus), ("queue", &queue)];
    submit(world, &cells).await
}

/// The same, non-preemptible: they stay inside the queue's quota.
/// ```gherkin
/// When 8 non-preemptible pods "serve" with 1 GPU each are submitted to queue "team-a"
/// ```
#[given(
    expr = "{int} non-preemptible pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}"
)]
#[when(
    expr = "{int} non-preemptible pod(s) {string} with {int} GPU(s) each is/are submitted to queue {string}"
)]
async fn non_preemptible(
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
    submit(world, &cells).await
}

/// A pod group of which all pods must run together.
/// ```gherkin
/// When a gang "train" of 10 pods with 1 GPU each is submitted to queue "team-a"
/// ```
#[given(
    expr = "a gang {string} of {int} pod(s) with {int} GPU(s) each is submitted to queue {string}"
)]
#[when(
    expr = "a gang {string} of {int} pod(s) with {int} GPU(s) each is submitted to queue {string}"
)]
async fn gang(
    world: &mut World,
    name: String,
    pods: String,
    gpus: String,
    queue: String,
) -> StepResult {
    let cells =
        [("name", &*name), ("kind", "gang"), ("pods", &pods), ("gpus", &gpus), ("queue", &queue)];
    submit(world, &cells).await
}

async fn submit(world: &mut World, cells: &[(&str, &str)]) -> StepResult {
    let objects = workload(&world.sentence(cells), &world.scheduler_name())?;
    let objects = world.written_here(objects);
    world.submit(objects).await?;
    Ok(())
}

/// Work arrives by itself from now on: so many pods each time, `<name>-0-0` and so on, which run
/// for so long. Claims about a cluster that never rests need a time word.
/// ```gherkin
/// When every 10 minutes 4 pods "small" with 1 GPU each that run for 15 minutes arrive in queue "a"
/// ```
#[given(
    expr = "every {duration} {int} pod(s) {string} with {int} GPU(s) each that run(s) for {duration} arrive(s) in queue {string}"
)]
#[when(
    expr = "every {duration} {int} pod(s) {string} with {int} GPU(s) each that run(s) for {duration} arrive(s) in queue {string}"
)]
#[expect(clippy::too_many_arguments, reason = "one for each value in the sentence")]
#[expect(clippy::needless_pass_by_value, reason = "steps are handed what the sentence says")]
fn stream(
    world: &mut World,
    every: SomeTime,
    pods: String,
    name: String,
    gpus: String,
    time: Span,
    queue: String,
) -> StepResult {
    let time = time.written().with_context(|| world.here())?;
    let cells = [
        ("name", &*name),
        ("pods", &pods),
        ("gpus", &gpus),
        ("run time", &time),
        ("queue", &queue),
    ];
    let objects = workload(&world.sentence(&cells), &world.scheduler_name())?;
    world.stream(&name, every.0, move |number| {
        let numbered = objects.iter().zip(0..).map(|(object, index)| {
            let mut object = object.clone();
            let workload = object["metadata"]["labels"][crate::view::WORKLOAD].clone();
            let workload = workload.as_str().unwrap_or_default();
            object["metadata"]["name"] = json!(format!("{workload}-{number}-{index}"));
            object
        });
        numbered.collect()
    })?;
    Ok(())
}

/// No more of that work arrives.
/// ```gherkin
/// When no more pods "small" arrive
/// ```
#[when(expr = "no more pods {string} arrive")]
#[expect(clippy::needless_pass_by_value, reason = "steps are handed what the sentence says")]
fn stream_ends(world: &mut World, name: String) -> StepResult {
    world.end_stream(&name)?;
    Ok(())
}

/// Plain Kubernetes YAML from a file under fixtures/: created, or changed where it is there. Parents of
/// its queues stand in it or in the cluster.
/// ```gherkin
/// When the manifest "lab/exercise-a.yaml" is applied
/// ```
#[given(expr = "the manifest {string} is applied")]
#[when(expr = "the manifest {string} is applied")]
async fn manifest_file(world: &mut World, file: String) -> StepResult {
    let documents = world.read_fixture(&file)?;
    super::queues::form_a_tree(world, &documents).await?;
    world.apply(documents).await?;
    Ok(())
}

/// Plain Kubernetes YAML below the step: created, or changed where it is there.
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
async fn manifest(world: &mut World, step: &Step) -> StepResult {
    let documents = world.read_docstring(step)?;
    world.apply(documents).await?;
    Ok(())
}

/// Status of objects that are there, as those write it whose part it is.
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
async fn status(world: &mut World, step: &Step) -> StepResult {
    let documents = world.read_docstring(step)?;
    world.write_status(&documents).await?;
    Ok(())
}

/// The API server refuses the manifest below the step, in words that contain this.
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
async fn refused(world: &mut World, step: &Step, words: String) -> StepResult {
    check_words(&words)?;
    let documents = world.read_docstring(step)?;
    match world.apply(documents).await {
        Ok(()) => Err(anyhow!("the API server took it").into()),
        Err(error) if format!("{error:#}").contains(&words) => Ok(()),
        Err(error) => Err(anyhow!("it was refused with other words: {error:#}").into()),
    }
}

/// A priority class.
/// ```gherkin
/// Given a priority class "urgent" with value 90
/// ```
#[given(expr = "a priority class {string} with value {int}")]
async fn priority_class(world: &mut World, name: String, value: i32) -> StepResult {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    });
    let class = world.written_here(vec![class]);
    world.submit(class).await?;
    Ok(())
}

/// Deletes everything that was submitted under this name.
/// ```gherkin
/// When job "train" is deleted
/// ```
#[when(expr = "{workload} is deleted")]
async fn deleted(world: &mut World, which: Workload) -> StepResult {
    let live = which.0.pods(&world.view).len();
    match world.submitted(which.key()) {
        Ok(objects) => {
            let there = world.withdraw(&objects).await?;
            if there == 0 {
                return Err(anyhow!("found nothing of {which} there, it was deleted before").into());
            }
        }
        Err(error) if live == 0 => return Err(error.into()),
        Err(_) => delete_pods(world, &which, live).await?,
    }
    Ok(())
}

/// Deletes so many of a workload's pods, the last by name first.
/// ```gherkin
/// When 2 pods of gang "train" are deleted
/// ```
#[given(expr = "{int} pod(s) of {workload} is/are deleted")]
#[when(expr = "{int} pod(s) of {workload} is/are deleted")]
async fn some_deleted(world: &mut World, count: usize, which: Workload) -> StepResult {
    delete_pods(world, &which, count).await
}

async fn delete_pods(world: &mut World, which: &Workload, count: usize) -> StepResult {
    world.catch_up().await?;
    let pods = which.pods(&world.view);
    if pods.len() < count {
        return Err(anyhow!("{which} has only {} pods", pods.len()).into());
    }
    let paths: Vec<String> = pods.iter().rev().take(count).map(Pod::path).collect();
    for path in paths {
        world.delete(&path).await?;
    }
    Ok(())
}

/// Submits once more, under the same names, what was submitted as this workload and is gone. What
/// is leaving is waited for.
/// ```gherkin
/// When pod "a" is submitted again
/// ```
#[when(expr = "{workload} is submitted again")]
async fn again(world: &mut World, which: Workload) -> StepResult {
    world.resubmit(which.key()).await?;
    Ok(())
}

/// Sets the replicas of a deployment or statefulset, or the parallelism of a job.
/// ```gherkin
/// When deployment "web" is scaled to 4
/// ```
#[when(expr = "{workload} is scaled to {int}")]
async fn scaled(world: &mut World, which: Workload, replicas: u32) -> StepResult {
    let objects = world.submitted(which.key())?;
    for object in objects {
        let patch = match object["kind"].as_str() {
            Some("Deployment" | "StatefulSet") => json!({"spec": {"replicas": replicas}}),
            Some("Job") => json!({"spec": {"parallelism": replicas}}),
            _ => continue,
        };
        let at = world.api.path(&object).await?;
        world.change(&at, &patch).await?;
        return Ok(());
    }
    Err(anyhow!("{which} has nothing to scale: allowed are deployments, statefulsets, jobs").into())
}

/// So many of a workload's running pods fail now, as if their containers had exited with 1.
/// ```gherkin
/// When 1 pod of gang "train" fails
/// ```
#[given(expr = "{int} pod(s) of {workload} fail(s)")]
#[when(expr = "{int} pod(s) of {workload} fail(s)")]
async fn fail(world: &mut World, count: usize, which: Workload) -> StepResult {
    end(world, &which, count, "1").await
}

/// So many of a workload's running pods finish now, as if their containers had exited with 0.
/// ```gherkin
/// When 1 pod of gang "train" finishes
/// ```
#[given(expr = "{int} pod(s) of {workload} finish(es)")]
#[when(expr = "{int} pod(s) of {workload} finish(es)")]
async fn finish(world: &mut World, count: usize, which: Workload) -> StepResult {
    end(world, &which, count, "0").await
}

/// The kubelet reads the pod's run time anew: what has run longer than a moment ends.
async fn end(world: &mut World, which: &Workload, count: usize, code: &str) -> StepResult {
    world.settle().await?;
    let pods = which.pods(&world.view);
    let running = pods.iter().filter(|pod| pod.phase() == Phase::Running);
    let paths: Vec<String> = running.take(count).map(Pod::path).collect();
    if paths.len() < count {
        return Err(anyhow!("{which} has only {} running pods", paths.len()).into());
    }
    let annotations = json!({"schedlab.dev/run-time": "0s", "schedlab.dev/exit-code": code});
    for path in paths {
        world.patch(&path, &json!({"metadata": {"annotations": annotations}})).await?;
    }
    Ok(())
}

/// Lifts the scheduling gates of a workload's pods, of which one at least has some.
/// ```gherkin
/// When the gates of gang "train" are lifted
/// ```
#[when(expr = "the gates of {workload} are lifted")]
async fn lifted(world: &mut World, which: Workload) -> StepResult {
    patch_pods(world, &which, &json!({"spec": {"schedulingGates": null}})).await
}

/// Sets a label on a workload's pods.
/// ```gherkin
/// When the label "kai.scheduler/queue" of pod "a" becomes "team-b"
/// ```
#[when(expr = "the label {string} of {workload} becomes {string}")]
async fn label(world: &mut World, key: String, which: Workload, value: String) -> StepResult {
    patch_pods(world, &which, &json!({"metadata": {"labels": {key: value}}})).await
}

/// Sets an annotation on a workload's pods.
/// ```gherkin
/// When the annotation "schedlab.dev/run-time" of pod "a" becomes "1h"
/// ```
#[when(expr = "the annotation {string} of {workload} becomes {string}")]
async fn annotation(world: &mut World, key: String, which: Workload, value: String) -> StepResult {
    patch_pods(world, &which, &json!({"metadata": {"annotations": {key: value}}})).await
}

async fn patch_pods(
    world: &mut World,
    which: &Workload,
    patch: &schedlab_json::Value,
) -> StepResult {
    world.catch_up().await?;
    let pods = which.pods(&world.view);
    if pods.is_empty() {
        return Err(anyhow!("{which} has no pods").into());
    }
    let paths: Vec<String> = pods.iter().map(Pod::path).collect();
    let mut changed = false;
    for path in paths {
        changed |= world.patch(&path, patch).await?;
    }
    if !changed {
        return Err(anyhow!("found all pods of {which} so already, allowed is a change").into());
    }
    Ok(())
}

/// Changes any field of a gang's pod group, by JSON merge.
/// ```gherkin
/// When the pod group of gang "train" becomes:
///   """yaml
///   spec: {minMember: 4}
///   """
/// ```
#[when(expr = "the pod group of {workload} becomes:")]
async fn pod_group(world: &mut World, step: &Step, which: Workload) -> StepResult {
    let mut change = world.read_change(step)?;
    world.catch_up().await?;
    let pods = which.pods(&world.view);
    let group = pods.first().and_then(|pod| pod.group(&world.view)).cloned();
    let Some(group) = group else { return Err(anyhow!("{which} has no pod group").into()) };
    let field = |name: &str| group["metadata"][name].as_str().unwrap_or_default().to_owned();
    let groups = "/apis/scheduling.run.ai/v2alpha2/namespaces";
    let at = format!("{groups}/{}/podgroups/{}", field("namespace"), field("name"));
    if let Err(error) = world.change(&at, &change.object).await {
        // The server's words about a patch name no object.
        for part in ["apiVersion", "kind"] {
            change.object[part] = group[part].clone();
        }
        change.object["metadata"]["name"] = json!(field("name"));
        return Err(world.told(&change, error).await.into());
    }
    Ok(())
}

/// Lets a workload's pods run for so long and no longer, from their start; one at least has not ended.
/// ```gherkin
/// Given pods of gang "train" run for 10 minutes
/// ```
#[given(expr = "pods of {workload} run for {duration}")]
#[when(expr = "pods of {workload} run for {duration}")]
async fn run_time(world: &mut World, which: Workload, time: Span) -> StepResult {
    let text = time.written().with_context(|| world.here())?;
    world.catch_up().await?;
    let ended = [Phase::Succeeded, Phase::Failed, Phase::Terminating];
    if which.pods(&world.view).iter().all(|pod| ended.contains(&pod.phase())) {
        return Err(anyhow!("found no pod of {which} that runs or will, allowed is one").into());
    }
    let annotations = json!({"schedlab.dev/run-time": text});
    patch_pods(world, &which, &json!({"metadata": {"annotations": annotations}})).await
}
