//! Sub-groups of training kinds: JobSet, PyTorchJob, MPIJob, LeaderWorkerSet and the Kubeflow kinds
//! with replica specs.

use schedlab_api::{Value, annotations::BATCH_MIN_MEMBER, api_versions, labels};
use schedlab_scheduler_core::model::{Name, SubGroup};

use super::{
    GroupingInput, annotations,
    sub_groups::{
        GroupShape, OwnerKind, SEGMENT_LEVEL_ANNOTATIONS, SEGMENT_SIZE_ANNOTATION, Segments,
        check_count, count_or, ignored_annotations, index_label, inner_sub_group, leaf_sub_group,
        parse_positive, read_segments, segment_size,
    },
};
use crate::parse::{Malformed, at, list, strings, text};

const GROUP_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/group-index";
const WORKER_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/worker-index";
const PYTORCH_JOB: OwnerKind =
    OwnerKind { api_version: api_versions::PYTORCH_JOB, kind: "PyTorchJob" };
const LEADER_WORKER_SET: OwnerKind =
    OwnerKind { api_version: api_versions::LEADER_WORKER_SET, kind: "LeaderWorkerSet" };

/// The shape of a JobSet, a tree of sub-groups: each replicated job, and below it each replica with
/// the pods that it runs at once. Jobs that start one after the other cannot be one gang: then one
/// job is enough.
pub(super) fn job_set_shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let object = input.top.object;
    let jobs = list(object, "/spec/replicatedJobs").iter();
    // A job with 0 replicas creates no pods.
    let jobs: Vec<_> = jobs.filter(|job| count_or(job, "/replicas", 1) > 0).collect();
    let mut sub_groups = Vec::new();
    for job in &jobs {
        let name = text(job, "/name").unwrap_or_default();
        let replicas = count_or(job, "/replicas", 1);
        check_count("spec.replicatedJobs: replicas", sub_groups.len() as u64 + replicas)?;
        let parent = sub_groups.len();
        sub_groups.push(inner_sub_group(name, Some(u32::try_from(replicas).unwrap_or(u32::MAX))));
        let annotations = strings(job, "/template/metadata/annotations");
        let pods = match annotations.get(BATCH_MIN_MEMBER) {
            Some(stated) => parse_positive(BATCH_MIN_MEMBER, stated)?,
            None => pods_at_once(job.pointer("/template/spec").unwrap_or(&Value::Null)),
        };
        let topology = annotations::topology_constraint(&annotations)?;
        sub_groups.extend((0..replicas).map(|replica| SubGroup {
            parent: Some(parent),
            topology: topology.clone(),
            ..leaf_sub_group(format!("{name}-replica-{replica}"), pods)
        }));
    }
    let all = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    let in_order = text(object, "/spec/startupPolicy/startupPolicyOrder") == Some("InOrder");
    let waits = in_order || jobs.iter().any(|job| !list(job, "/dependsOn").is_empty());
    let min_sub_group = match input.top.annotation(BATCH_MIN_MEMBER) {
        Some(stated) => {
            u32::try_from(parse_positive(BATCH_MIN_MEMBER, stated)?).unwrap_or(all).min(all)
        }
        None if waits => 1,
        None => all,
    };
    let part = format!(
        "{}-replica-{}",
        required_label(input, labels::JOB_SET_REPLICATED_JOB)?,
        index_label(input, labels::JOB_SET_JOB_INDEX)?
    );
    Ok(GroupShape {
        min_sub_group: Some(min_sub_group),
        sub_groups,
        sub_group: Some(part.into()),
        ..GroupShape::without_sub_groups(1)
    })
}

/// A label that the pod's controller sets; an error if it is missing.
fn required_label<'a>(input: &'a GroupingInput<'_>, label: &str) -> Result<&'a Name, Malformed> {
    let wrong = || {
        let allowed = "the name that its controller sets";
        Malformed::new(format!("label {label}"), "nothing", allowed)
    };
    input.pod.labels.get(label).ok_or_else(wrong)
}

/// Number of pods of a Job that run at once: parallelism, limited by completions.
pub(super) fn pods_at_once(job: &Value) -> u64 {
    let parallelism = count_or(job, "/parallelism", 1);
    count_or(job, "/completions", parallelism).min(parallelism)
}

/// `minAvailable` or elastic minimum of a job, or else the sum of replicas over all roles.
pub(super) fn min_available(input: &GroupingInput<'_>, field: &str) -> Result<u64, Malformed> {
    let job = input.top.object;
    let stated = at(job, "/spec/runPolicy/schedulingPolicy/minAvailable").and_then(Value::as_u64);
    let elastic = || at(job, "/spec/elasticPolicy/minReplicas").and_then(Value::as_u64);
    if let Some(stated) = stated.or_else(elastic) {
        return Ok(stated);
    }
    let roles = job.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_object);
    let Some(roles) = roles else {
        return Err(Malformed::new(
            format!("spec.{field}"),
            "nothing",
            "the replicas of each role",
        ));
    };
    let pods = roles.iter().map(|(_, role)| count_or(role, "/replicas", 1));
    Ok(pods.fold(0, u64::saturating_add))
}

/// Minimum of an MPIJob. A launcher that is created when the workers are ready does not count
/// before it exists.
pub(super) fn mpi_job_minimum(input: &GroupingInput<'_>) -> Result<u64, Malformed> {
    let all = min_available(input, "mpiReplicaSpecs")?;
    let is_late =
        text(input.top.object, "/spec/launcherCreationPolicy") == Some("WaitForWorkersReady");
    let job = &input.top.owner.name;
    let is_launcher = |labels: &schedlab_scheduler_core::model::Labels| {
        labels.get(labels::TRAINING_JOB_ROLE).is_some_and(|role| &**role == "launcher")
            && labels.get(labels::TRAINING_JOB_NAME) == Some(job)
    };
    let mut pods = input.context.pods.iter();
    let is_there = pods.any(|(key, pod)| {
        key.namespace == input.key.namespace
            && pod.releasing_since.is_none()
            && is_launcher(&pod.labels)
    });
    let launchers = count_or(input.top.object, "/spec/mpiReplicaSpecs/Launcher/replicas", 1);
    Ok(if is_late && !is_there { all.saturating_sub(launchers).max(1) } else { all })
}

/// Sub-groups for masters, and for workers or segments of workers. As in KAI segments are
/// configured on the worker pods, not on the job.
pub(super) fn pytorch_job_shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let specs = "pytorchReplicaSpecs";
    let all = min_available(input, specs)?;
    let role = |name: &str| input.top.object["spec"][specs].get(name);
    let masters = role("Master").map_or(0, |role| count_or(role, "/replicas", 1));
    let of_pod = input.pod.labels.get(labels::TRAINING_REPLICA_TYPE).cloned();
    let mut sub_groups = Vec::new();
    if masters > 0 {
        sub_groups.push(leaf_sub_group("master", masters));
    }
    let mut part = of_pod.filter(|role| matches!(&**role, "master" | "worker"));
    let worker = role("Worker");
    let template = worker.map(|worker| strings(worker, "/template/metadata/annotations"));
    let template = template.unwrap_or_default();
    let [required, preferred] = SEGMENT_LEVEL_ANNOTATIONS;
    let of_workers = [SEGMENT_SIZE_ANNOTATION, required, preferred];
    let warning = ignored_annotations(input, &template, &of_workers, PYTORCH_JOB);
    if let Some(worker) = worker {
        let min_workers = all.saturating_sub(masters);
        match segment_size([&input.pod.annotations, &template])? {
            None => sub_groups.push(leaf_sub_group("worker", min_workers)),
            Some(size) => {
                let segments = read_segments(input, template, size)?;
                let workers = count_or(worker, "/replicas", 1);
                push_segments(&mut sub_groups, workers, min_workers, &segments)?;
                if part.as_deref() == Some("worker") {
                    let segment =
                        index_label(input, labels::TRAINING_REPLICA_INDEX)? / segments.size;
                    part = Some(format!("worker-{segment}").into());
                }
            }
        }
    }
    let min_member = u32::try_from(all).unwrap_or(u32::MAX);
    Ok(GroupShape { min_member, warning, ..GroupShape::from_sub_groups(sub_groups, part) })
}

/// Adds a sub-group per segment of workers, by worker index. Workers beyond the minimum are
/// elastic.
fn push_segments(
    sub_groups: &mut Vec<SubGroup>,
    workers: u64,
    min_workers: u64,
    segments: &Segments,
) -> Result<(), Malformed> {
    let parent = sub_groups.len();
    sub_groups.push(inner_sub_group("worker", None));
    for segment in 0..check_count("segments", workers.div_ceil(segments.size))? {
        let before = segment * segments.size;
        let size = segments.size.min(workers - before);
        sub_groups.push(SubGroup {
            parent: Some(parent),
            topology: segments.topology.clone(),
            ..leaf_sub_group(
                format!("worker-{segment}"),
                min_workers.saturating_sub(before).min(size),
            )
        });
    }
    Ok(())
}

/// One group per replica with its leader and workers, optionally in segments. With start-up policy
/// `LeaderReady` the workers count as soon as the leader has a node.
pub(super) fn leader_worker_set_shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let set = input.top.object;
    let template = set.pointer("/spec/leaderWorkerTemplate").unwrap_or(&Value::Null);
    let size = count_or(template, "/size", 0);
    if size == 0 {
        let field = "spec.leaderWorkerTemplate.size";
        return Err(Malformed::new(field, "nothing", "the number of pods per replica"));
    }
    let position = index_label(input, WORKER_INDEX_LABEL)?;
    let late = text(set, "/spec/startupPolicy") == Some("LeaderReady");
    let alone = late && position == 0 && input.pod.node.is_none();
    let pods = if alone { 1 } else { size };
    let worker = strings(template, "/workerTemplate/metadata/annotations");
    let warning =
        ignored_annotations(input, &worker, &SEGMENT_LEVEL_ANNOTATIONS, LEADER_WORKER_SET);
    let stated = at(template, "/subGroupPolicy/subGroupSize").and_then(Value::as_u64);
    let segments_wanted = match stated {
        Some(size) => Some(size),
        None => segment_size([&input.top.annotations, &worker])?,
    };
    let segments_wanted = segments_wanted
        .filter(|_| !alone)
        .map(|size| read_segments(input, worker, size))
        .transpose()?;
    let (sub_groups, part) = match segments_wanted {
        None => leader_and_workers(pods, position),
        Some(segments) if (2..=size).contains(&segments.size) => {
            let policy = text(template, "/subGroupPolicy/subGroupPolicyType");
            let excluded = policy == Some("LeaderExcluded");
            segmented_sub_groups(pods, position, &segments, excluded)?
        }
        Some(segments) => {
            let allowed = "at least 2, and at most the size of a replica";
            return Err(Malformed::new("segment size", segments.size, allowed));
        }
    };
    let name_suffix =
        index_label(input, GROUP_INDEX_LABEL).ok().map(|group| format!("group-{group}"));
    Ok(GroupShape { name_suffix, warning, ..GroupShape::from_sub_groups(sub_groups, Some(part)) })
}

fn leader_and_workers(pods: u64, worker_index: u64) -> (Vec<SubGroup>, Name) {
    let mut sub_groups = vec![leaf_sub_group("leader", 1)];
    if pods > 1 {
        sub_groups.push(leaf_sub_group("workers", pods - 1));
    }
    (sub_groups, if worker_index == 0 { "leader".into() } else { "workers".into() })
}

/// Sub-groups per segment. The leader is part of the first segment (as an additional pod if the
/// workers divide evenly), or a sub-group of its own if it is excluded.
fn segmented_sub_groups(
    pods: u64,
    worker_index: u64,
    segments: &Segments,
    leader_excluded: bool,
) -> Result<(Vec<SubGroup>, Name), Malformed> {
    let divides = (pods - 1).is_multiple_of(segments.size);
    if leader_excluded && !divides {
        let allowed = "a divisor of the number of workers, as the leader is excluded";
        return Err(Malformed::new("segment size", segments.size, allowed));
    }
    let extra = u64::from(divides);
    let count = check_count("segments", (pods - extra).div_ceil(segments.size))?;
    let size = |segment: u64| segments.size.min(pods - extra - segment * segments.size);
    let placed =
        |sub_group: SubGroup| SubGroup { topology: segments.topology.clone(), ..sub_group };
    let mut sub_groups = Vec::new();
    if leader_excluded {
        sub_groups.push(leaf_sub_group("leader", 1));
        sub_groups
            .extend((0..count).map(|at| placed(leaf_sub_group(format!("segment-{at}"), size(at)))));
    } else {
        sub_groups.push(placed(inner_sub_group("segment-0", None)));
        sub_groups.push(SubGroup { parent: Some(0), ..leaf_sub_group("leader", 1) });
        let workers = size(0) + extra - 1;
        sub_groups.push(SubGroup { parent: Some(0), ..leaf_sub_group("workers", workers) });
        sub_groups
            .extend((1..count).map(|at| placed(leaf_sub_group(format!("segment-{at}"), size(at)))));
    }
    let segment = worker_index.saturating_sub(extra) / segments.size;
    let part = match (worker_index, segment) {
        (0, _) => "leader".into(),
        (_, 0) if !leader_excluded => "workers".into(),
        (_, segment) => format!("segment-{segment}").into(),
    };
    Ok((sub_groups, part))
}
