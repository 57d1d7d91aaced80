//! Workloads that are scaled, suspended and resumed.

use anyhow::{anyhow, bail, ensure};
use cucumber::{given, when};
use schedlab_api::{Value, json, object};

use super::StepResult;
use super::subjects::Workload;
use crate::world::World;

/// Kinds of workloads that can be scaled, and kinds that can be suspended, as steps write them.
const SCALABLE_KINDS: &str = "deployment, statefulset, job, jobset, trainjob, pytorchjob, raycluster or \
                        leaderworkerset";
const SUSPENDABLE_KINDS: &str = "job, jobset, trainjob, pytorchjob, raycluster or rayjob";

/// Sets the number of pods of a deployment, statefulset, job (more than its completions only with
/// completion mode Indexed), jobset (with one replicated job), trainjob, pytorchjob or raycluster
/// (the workers change), or the number of groups of a leaderworkerset.
/// ```gherkin
/// When job "train" is scaled to 4
/// ```
#[given(expr = "{workload} is scaled to {int}")]
#[when(expr = "{workload} is scaled to {int}")]
async fn workload_is_scaled(world: &mut World, which: Workload, count: u32) -> StepResult {
    let Some((path, live)) = find_live_owner(world, &which).await? else {
        return Err(anyhow!("{which} cannot be scaled, expected a {SCALABLE_KINDS}").into());
    };
    let patch = scale_patch(&live, count)
        .map_err(|why| anyhow!("{which} cannot be scaled to {count}: {why:#}"))?;
    world.patch_requiring_change(&path, &patch).await?;
    Ok(())
}

/// Suspends a job, jobset, trainjob, pytorchjob, raycluster or rayjob: its pods are deleted until it
/// is resumed.
/// ```gherkin
/// When jobset "train" is suspended
/// ```
#[given(expr = "{workload} is suspended")]
#[when(expr = "{workload} is suspended")]
async fn workload_is_suspended(world: &mut World, which: Workload) -> StepResult {
    set_suspend_field(world, &which, &json!(true)).await?;
    Ok(())
}

/// Resumes a suspended workload.
/// ```gherkin
/// When jobset "train" is resumed
/// ```
#[when(expr = "{workload} is resumed")]
async fn workload_is_resumed(world: &mut World, which: Workload) -> StepResult {
    set_suspend_field(world, &which, &json!(false)).await?;
    Ok(())
}

async fn set_suspend_field(world: &mut World, which: &Workload, to: &Value) -> anyhow::Result<()> {
    let found = find_live_owner(world, which).await?;
    let Some((path, live)) = found else {
        bail!("{which} cannot be suspended, expected a {SUSPENDABLE_KINDS}");
    };
    let (field, patch) = match object::text(&live, &["kind"]) {
        "Job" | "JobSet" | "TrainJob" | "RayCluster" | "RayJob" => {
            ("/spec/suspend", json!({"spec": {"suspend": to}}))
        }
        "PyTorchJob" => {
            ("/spec/runPolicy/suspend", json!({"spec": {"runPolicy": {"suspend": to}}}))
        }
        kind => bail!(
            "{which} cannot be suspended: a {kind} has no field `suspend`; expected \
             a {SUSPENDABLE_KINDS}, or scale it to 0"
        ),
    };
    let is_suspended = live.pointer(field) == Some(&Value::Bool(true));
    let state = if is_suspended { "is suspended already" } else { "is not suspended" };
    ensure!(Value::Bool(is_suspended) != *to, "{which} {state}");
    world.patch_requiring_change(&path, &patch).await
}

/// The API path and the current state of the object that owns a workload's pods; `None` if no
/// controller owns the pods.
async fn find_live_owner(
    world: &mut World,
    which: &Workload,
) -> anyhow::Result<Option<(String, Value)>> {
    let objects = world.submitted_objects(which.kind(), which.subject_name())?;
    let no_owner = ["Pod", "PodGroup", "PriorityClass", "ClusterTrainingRuntime"];
    let is_owner = |one: &&Value| !no_owner.contains(&object::text(one, &["kind"]));
    let Some(owner) = objects.iter().find(is_owner) else { return Ok(None) };
    let path = world.api.object_path(owner).await?;
    let live = world.api.get(&path).await.map_err(schedlab_clusters::api::to_anyhow_error)?;
    Ok(Some((path, live)))
}

/// The patch that scales a workload to `count`.
///
/// # Errors
/// The kind cannot have this size; the error says why and what works.
fn scale_patch(live: &Value, count: u32) -> anyhow::Result<Value> {
    match object::text(live, &["kind"]) {
        "Deployment" | "StatefulSet" | "LeaderWorkerSet" => {
            Ok(json!({"spec": {"replicas": count}}))
        }
        "Job" => job_scale_patch(live, count),
        "JobSet" => job_set_scale_patch(live, count),
        "TrainJob" => {
            ensure!(count > 0, "a TrainJob has at least 1 node; suspend it instead");
            Ok(json!({"spec": {"trainer": {"numNodes": count}}}))
        }
        "PyTorchJob" => py_torch_job_scale_patch(live, count),
        "RayCluster" => ray_cluster_scale_patch(live, count),
        "RayJob" => bail!(
            "its RayCluster keeps the size with which the RayJob created it; expected a {SCALABLE_KINDS}"
        ),
        kind => bail!("a {kind} has no size that can change; expected a {SCALABLE_KINDS}"),
    }
}

fn int_at(live: &Value, pointer: &str, default: i64) -> i64 {
    live.pointer(pointer).and_then(Value::as_i64).unwrap_or(default)
}

/// The patch that scales a Job. The API server lets completions change only together with the
/// parallelism of an Indexed Job.
fn job_scale_patch(live: &Value, count: u32) -> anyhow::Result<Value> {
    let is_indexed = live.pointer("/spec/completionMode").is_some_and(|mode| mode == "Indexed");
    let completions = int_at(live, "/spec/completions", i64::MAX);
    if is_indexed && count > 0 {
        return Ok(json!({"spec": {"parallelism": count, "completions": count}}));
    }
    ensure!(
        i64::from(count) <= completions,
        "the job has {completions} completions, which cannot change as its completion mode is \
         NonIndexed; expected at most {completions}, or a job with completion mode Indexed"
    );
    Ok(json!({"spec": {"parallelism": count}}))
}

fn job_set_scale_patch(live: &Value, count: u32) -> anyhow::Result<Value> {
    ensure!(count > 0, "a JobSet has at least 1 pod in each job; suspend it instead");
    let mut groups = object::list(live, &["spec", "replicatedJobs"]).to_vec();
    let [group] = groups.as_mut_slice() else {
        bail!(
            "the jobset has {} replicated jobs; apply a manifest with the size of each",
            groups.len()
        );
    };
    let replicas = int_at(group, "/replicas", 1);
    ensure!(
        replicas == 1,
        "the jobset's replicated job has {replicas} replicas, a number that cannot change; expected one \
         with 1 replica"
    );
    let mode = group.pointer("/template/spec/completionMode");
    ensure!(
        mode.is_none_or(|mode| mode == "Indexed"),
        "the completion mode of the jobset's jobs is NonIndexed; expected Indexed"
    );
    for field in ["parallelism", "completions"] {
        group["template"]["spec"][field] = json!(count);
    }
    Ok(json!({"spec": {"replicatedJobs": groups}}))
}

fn py_torch_job_scale_patch(live: &Value, count: u32) -> anyhow::Result<Value> {
    let role = |name: &str| live["spec"]["pytorchReplicaSpecs"].get(name);
    let masters = role("Master").map_or(0, |master| int_at(master, "/replicas", 1));
    ensure!(
        role("Worker").is_some(),
        "the pytorchjob has no workers; expected a pytorchjob of 2 pods or more"
    );
    let workers = i64::from(count) - masters;
    ensure!(workers >= 0, "the pytorchjob has {masters} master; expected at least {masters}");
    Ok(json!({"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": workers}}}}))
}

fn ray_cluster_scale_patch(live: &Value, count: u32) -> anyhow::Result<Value> {
    let mut groups = object::list(live, &["spec", "workerGroupSpecs"]).to_vec();
    let [group] = groups.as_mut_slice() else {
        bail!(
            "the raycluster has {} worker groups; apply a manifest with the size of each",
            groups.len()
        );
    };
    ensure!(count > 0, "the raycluster has a head; expected at least 1, or suspend it");
    let workers = i64::from(count) - 1;
    let hosts = int_at(group, "/numOfHosts", 1).max(1);
    ensure!(
        workers % hosts == 0,
        "a replica has {hosts} hosts; expected 1 and a multiple of {hosts}"
    );
    let [least, most] = [("/minReplicas", 0), ("/maxReplicas", i64::MAX)]
        .map(|(field, default)| int_at(group, field, default));
    let replicas = workers / hosts;
    ensure!(
        (least..=most).contains(&replicas),
        "the raycluster's worker group allows from {least} to {most} replicas"
    );
    group["replicas"] = json!(replicas);
    Ok(json!({"spec": {"workerGroupSpecs": groups}}))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn patch_of(live: &Value, count: u32) -> String {
        scale_patch(live, count)
            .map_or_else(|why| why.to_string(), |patch| patch["spec"].to_string())
    }

    #[test]
    fn a_job_is_scaled_by_parallelism_and_an_indexed_one_by_completions_too() {
        let job = |mode: &str| json!({"kind": "Job", "spec": {"completionMode": mode, "parallelism": 4, "completions": 4}});
        assert_snapshot!(patch_of(&job("NonIndexed"), 2), @r#"{"parallelism":2}"#);
        assert_snapshot!(patch_of(&job("NonIndexed"), 6), @"the job has 4 completions, which cannot change as its completion mode is NonIndexed; expected at most 4, or a job with completion mode Indexed");
        assert_snapshot!(patch_of(&job("Indexed"), 6), @r#"{"completions":6,"parallelism":6}"#);
        assert_snapshot!(patch_of(&job("Indexed"), 0), @r#"{"parallelism":0}"#);
    }

    #[test]
    fn a_head_and_a_master_are_part_of_the_size() {
        let ray = json!({"kind": "RayCluster", "spec": {"workerGroupSpecs": [{"groupName": "w", "replicas": 3, "maxReplicas": 8}]}});
        assert_snapshot!(patch_of(&ray, 3), @r#"{"workerGroupSpecs":[{"groupName":"w","maxReplicas":8,"replicas":2}]}"#);
        assert_snapshot!(patch_of(&ray, 10), @"the raycluster's worker group allows from 0 to 8 replicas");
        assert_snapshot!(patch_of(&ray, 0), @"the raycluster has a head; expected at least 1, or suspend it");
        let torch = json!({"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 3}}}});
        assert_snapshot!(patch_of(&torch, 3), @r#"{"pytorchReplicaSpecs":{"Worker":{"replicas":2}}}"#);
        assert_snapshot!(patch_of(&torch, 0), @"the pytorchjob has 1 master; expected at least 1");
    }

    #[test]
    fn a_size_that_a_kind_cannot_have_is_refused_with_a_reason() {
        let set = |replicas: u32, more: &[Value]| {
            let first = json!({"name": "w", "replicas": replicas, "template": {"spec": {}}});
            let groups = [&[first], more].concat();
            json!({"kind": "JobSet", "spec": {"replicatedJobs": groups}})
        };
        assert_snapshot!(patch_of(&set(1, &[]), 2), @r#"{"replicatedJobs":[{"name":"w","replicas":1,"template":{"spec":{"completions":2,"parallelism":2}}}]}"#);
        assert_snapshot!(patch_of(&set(2, &[]), 2), @"the jobset's replicated job has 2 replicas, a number that cannot change; expected one with 1 replica");
        assert_snapshot!(patch_of(&set(1, &[json!({})]), 2), @"the jobset has 2 replicated jobs; apply a manifest with the size of each");
        assert_snapshot!(patch_of(&set(1, &[]), 0), @"a JobSet has at least 1 pod in each job; suspend it instead");
        assert_snapshot!(patch_of(&json!({"kind": "RayJob"}), 2), @"its RayCluster keeps the size with which the RayJob created it; expected a deployment, statefulset, job, jobset, trainjob, pytorchjob, raycluster or leaderworkerset");
    }
}
