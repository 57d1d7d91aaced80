//! The parts of kinds that train: replicas, masters and workers, leaders and workers, replicated
//! jobs.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, SubGroup};

use super::{
    Case,
    parts::{
        MIN_MEMBER_ANNOTATION, Parts, SEGMENT_LEVELS, SEGMENT_SIZE_ANNOTATION, Segments, count_or,
        countable, index, inner, leaf, positive, segment_size, segments, unread,
    },
    wishes,
};
use crate::parse::{Malformed, at, list, strings, text};

const REPLICATED_JOB_LABEL: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const JOB_INDEX_LABEL: &str = "jobset.sigs.k8s.io/job-index";
const ROLE_LABEL: &str = "training.kubeflow.org/replica-type";
const INDEX_LABEL: &str = "training.kubeflow.org/replica-index";
const JOB_NAME_LABEL: &str = "training.kubeflow.org/job-name";
const JOB_ROLE_LABEL: &str = "training.kubeflow.org/job-role";
const GROUP_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/group-index";
const WORKER_INDEX_LABEL: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// A tree: each replicated job, and in it each replica with as many pods as run at once. Jobs
/// that wait for each other cannot be one gang: then any one of them may begin.
pub(super) fn job_set(case: &Case<'_>) -> Result<Parts, Malformed> {
    let object = case.top.object;
    let jobs = list(object, "/spec/replicatedJobs").iter();
    // Of a job without replicas nobody makes a pod, and there is nothing to wait for.
    let jobs: Vec<_> = jobs.filter(|job| count_or(job, "/replicas", 1) > 0).collect();
    let mut sub_groups = Vec::new();
    for job in &jobs {
        let name = text(job, "/name").unwrap_or_default();
        let replicas = count_or(job, "/replicas", 1);
        countable("spec.replicatedJobs: replicas", sub_groups.len() as u64 + replicas)?;
        let parent = sub_groups.len();
        sub_groups.push(inner(name, Some(u32::try_from(replicas).unwrap_or(u32::MAX))));
        let annotations = strings(job, "/template/metadata/annotations");
        let pods = match annotations.get(MIN_MEMBER_ANNOTATION) {
            Some(stated) => positive(MIN_MEMBER_ANNOTATION, stated)?,
            None => pods_at_once(job.pointer("/template/spec").unwrap_or(&Value::Null)),
        };
        let topology = wishes::topology(&annotations)?;
        sub_groups.extend((0..replicas).map(|replica| SubGroup {
            parent: Some(parent),
            topology: topology.clone(),
            ..leaf(format!("{name}-replica-{replica}"), pods)
        }));
    }
    let all = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
    let in_order = text(object, "/spec/startupPolicy/startupPolicyOrder") == Some("InOrder");
    let waits = in_order || jobs.iter().any(|job| !list(job, "/dependsOn").is_empty());
    let least = match case.top.annotation(MIN_MEMBER_ANNOTATION) {
        Some(stated) => {
            u32::try_from(positive(MIN_MEMBER_ANNOTATION, stated)?).unwrap_or(all).min(all)
        }
        None if waits => 1,
        None => all,
    };
    let part = format!(
        "{}-replica-{}",
        of_label(case, REPLICATED_JOB_LABEL)?,
        index(case, JOB_INDEX_LABEL)?
    );
    Ok(Parts { min_sub_group: Some(least), sub_groups, part: Some(part.into()), ..Parts::alike(1) })
}

/// A label that the pod's controller gives it.
fn of_label<'a>(case: &'a Case<'_>, label: &str) -> Result<&'a Name, Malformed> {
    let wrong = || {
        let allowed = "the name that its controller gives it";
        Malformed::new(format!("label {label}"), "nothing", allowed)
    };
    case.pod.labels.get(label).ok_or_else(wrong)
}

/// A Job never runs more than it has to complete.
pub(super) fn pods_at_once(job: &Value) -> u64 {
    let parallelism = count_or(job, "/parallelism", 1);
    count_or(job, "/completions", parallelism).min(parallelism)
}

/// Over all roles, or fewer where the job says so.
pub(super) fn minimum(case: &Case<'_>, field: &str) -> Result<u64, Malformed> {
    let job = case.top.object;
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

/// A launcher that is made when the workers are ready is not waited for before.
pub(super) fn mpi_job(case: &Case<'_>) -> Result<u64, Malformed> {
    let all = minimum(case, "mpiReplicaSpecs")?;
    let is_late =
        text(case.top.object, "/spec/launcherCreationPolicy") == Some("WaitForWorkersReady");
    let job = &case.top.owner.name;
    let is_launcher = |labels: &schedlab_scheduler_core::model::Labels| {
        labels.get(JOB_ROLE_LABEL).is_some_and(|role| &**role == "launcher")
            && labels.get(JOB_NAME_LABEL) == Some(job)
    };
    let mut pods = case.around.pods.iter();
    let is_there = pods.any(|(key, pod)| {
        key.namespace == case.key.namespace
            && pod.leaving_since.is_none()
            && is_launcher(&pod.labels)
    });
    let launchers = count_or(case.top.object, "/spec/mpiReplicaSpecs/Launcher/replicas", 1);
    Ok(if is_late && !is_there { all.saturating_sub(launchers).max(1) } else { all })
}

/// Masters, and workers or segments of workers. As in KAI the pods of the workers say how they are
/// segmented, not the job.
pub(super) fn pytorch_job(case: &Case<'_>) -> Result<Parts, Malformed> {
    let specs = "pytorchReplicaSpecs";
    let all = minimum(case, specs)?;
    let role = |name: &str| case.top.object["spec"][specs].get(name);
    let masters = role("Master").map_or(0, |role| count_or(role, "/replicas", 1));
    let of_pod = case.pod.labels.get(ROLE_LABEL).cloned();
    let mut sub_groups = Vec::new();
    if masters > 0 {
        sub_groups.push(leaf("master", masters));
    }
    let mut part = of_pod.filter(|role| matches!(&**role, "master" | "worker"));
    let worker = role("Worker");
    let template = worker.map(|worker| strings(worker, "/template/metadata/annotations"));
    let template = template.unwrap_or_default();
    let [required, preferred] = SEGMENT_LEVELS;
    let of_workers = [SEGMENT_SIZE_ANNOTATION, required, preferred];
    let doubt = unread(case, &template, (&of_workers, ("kubeflow.org/v1", "PyTorchJob")));
    if let Some(worker) = worker {
        let least = all.saturating_sub(masters);
        match segment_size([&case.pod.annotations, &template])? {
            None => sub_groups.push(leaf("worker", least)),
            Some(size) => {
                let segments = segments(case, template, size)?;
                let workers = count_or(worker, "/replicas", 1);
                segmented(&mut sub_groups, (workers, least), &segments)?;
                if part.as_deref() == Some("worker") {
                    let segment = index(case, INDEX_LABEL)? / segments.size;
                    part = Some(format!("worker-{segment}").into());
                }
            }
        }
    }
    let min_member = u32::try_from(all).unwrap_or(u32::MAX);
    Ok(Parts { min_member, doubt, ..Parts::of(sub_groups, part) })
}

/// Workers in segments by their index; those beyond the minimum may come later.
fn segmented(
    sub_groups: &mut Vec<SubGroup>,
    (workers, least): (u64, u64),
    segments: &Segments,
) -> Result<(), Malformed> {
    let parent = sub_groups.len();
    sub_groups.push(inner("worker", None));
    for segment in 0..countable("segments", workers.div_ceil(segments.size))? {
        let before = segment * segments.size;
        let size = segments.size.min(workers - before);
        sub_groups.push(SubGroup {
            parent: Some(parent),
            topology: segments.topology.clone(),
            ..leaf(format!("worker-{segment}"), least.saturating_sub(before).min(size))
        });
    }
    Ok(())
}

/// A group for each replica: its leader and its workers; in segments, if it says so. Where
/// workers are made only when their leader is ready, they are waited for from then on.
pub(super) fn leader_worker_set(case: &Case<'_>) -> Result<Parts, Malformed> {
    let set = case.top.object;
    let template = set.pointer("/spec/leaderWorkerTemplate").unwrap_or(&Value::Null);
    let size = count_or(template, "/size", 0);
    if size == 0 {
        let field = "spec.leaderWorkerTemplate.size";
        return Err(Malformed::new(field, "nothing", "how many pods a replica has"));
    }
    let position = index(case, WORKER_INDEX_LABEL)?;
    let late = text(set, "/spec/startupPolicy") == Some("LeaderReady");
    let alone = late && position == 0 && case.pod.node.is_none();
    let pods = if alone { 1 } else { size };
    let worker = strings(template, "/workerTemplate/metadata/annotations");
    let of = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet");
    let doubt = unread(case, &worker, (&SEGMENT_LEVELS, of));
    let stated = at(template, "/subGroupPolicy/subGroupSize").and_then(Value::as_u64);
    let wanted = match stated {
        Some(size) => Some(size),
        None => segment_size([&case.top.annotations, &worker])?,
    };
    let wanted = wanted.filter(|_| !alone).map(|size| segments(case, worker, size)).transpose()?;
    let (sub_groups, part) = match wanted {
        None => leader_and_workers(pods, position),
        Some(segments) if (2..=size).contains(&segments.size) => {
            let policy = text(template, "/subGroupPolicy/subGroupPolicyType");
            let excluded = policy == Some("LeaderExcluded");
            in_segments((pods, position), &segments, excluded)?
        }
        Some(segments) => {
            let allowed = "at least 2, and at most the size of a replica";
            return Err(Malformed::new("segment size", segments.size, allowed));
        }
    };
    let tail = index(case, GROUP_INDEX_LABEL).ok().map(|group| format!("group-{group}"));
    Ok(Parts { tail, doubt, ..Parts::of(sub_groups, Some(part)) })
}

fn leader_and_workers(pods: u64, at: u64) -> (Vec<SubGroup>, Name) {
    let mut sub_groups = vec![leaf("leader", 1)];
    if pods > 1 {
        sub_groups.push(leaf("workers", pods - 1));
    }
    (sub_groups, if at == 0 { "leader".into() } else { "workers".into() })
}

/// The leader is the first of the first segment, or one more than that where the others divide
/// evenly; or it stands outside.
fn in_segments(
    (pods, at): (u64, u64),
    segments: &Segments,
    leader_excluded: bool,
) -> Result<(Vec<SubGroup>, Name), Malformed> {
    let divides = (pods - 1).is_multiple_of(segments.size);
    if leader_excluded && !divides {
        let allowed = "a divisor of the number of workers, where the leader is excluded";
        return Err(Malformed::new("segment size", segments.size, allowed));
    }
    let extra = u64::from(divides);
    let count = countable("segments", (pods - extra).div_ceil(segments.size))?;
    let size = |segment: u64| segments.size.min(pods - extra - segment * segments.size);
    let placed =
        |sub_group: SubGroup| SubGroup { topology: segments.topology.clone(), ..sub_group };
    let mut sub_groups = Vec::new();
    if leader_excluded {
        sub_groups.push(leaf("leader", 1));
        sub_groups.extend((0..count).map(|at| placed(leaf(format!("segment-{at}"), size(at)))));
    } else {
        sub_groups.push(placed(inner("segment-0", None)));
        sub_groups.push(SubGroup { parent: Some(0), ..leaf("leader", 1) });
        let workers = size(0) + extra - 1;
        sub_groups.push(SubGroup { parent: Some(0), ..leaf("workers", workers) });
        sub_groups.extend((1..count).map(|at| placed(leaf(format!("segment-{at}"), size(at)))));
    }
    let segment = at.saturating_sub(extra) / segments.size;
    let part = match (at, segment) {
        (0, _) => "leader".into(),
        (_, 0) if !leader_excluded => "workers".into(),
        (_, segment) => format!("segment-{segment}").into(),
    };
    Ok((sub_groups, part))
}
