//! Which group a chain of owners makes. Pure: pod and owners in, group out.

use std::collections::BTreeMap;

use schedlab_scheduler_core::model::{Labels, Name, TopologyConstraint};
use serde_json::{Value, json};

use crate::{
    mirror::{ClassRecord, GroupRecord, Key, Owner, PodRecord},
    parse::{Malformed, list, strings},
    translate::is_known_class,
};

const QUEUE_LABEL: &str = "kai.scheduler/queue";
const QUEUE_DEFAULT: &str = "default-queue";
const PREEMPTIBILITY_LABEL: &str = "kai.scheduler/preemptibility";
const MIN_MEMBER_ANNOTATION: &str = "kai.scheduler/batch-min-member";
/// Name of the topology; with `-required-placement` or `-preferred-placement`: of a level of it.
const TOPOLOGY_ANNOTATION: &str = "kai.scheduler/topology";
const REPLICATED_JOB_LABEL: &str = "jobset.sigs.k8s.io/replicatedjob-name";

/// One owner in a chain; its object is null when it does not exist any more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) object: Value,
}

/// A pod group as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: Name,
    namespace: Name,
    owner: Owner,
    min_member: u32,
    queue: Name,
    priority_class: Name,
    preemptibility: Option<Name>,
    topology: Option<TopologyConstraint>,
}

impl Group {
    /// The fields that follow from the owner already stand so.
    pub(super) fn agrees_with(&self, record: &GroupRecord) -> bool {
        record.min_member == self.min_member
            && record.priority_class.as_ref() == Some(&self.priority_class)
            && record.preemptible == self.preemptibility.as_deref().map(|is| is == "preemptible")
            && record.topology == self.topology
    }

    pub(super) fn derived_spec(&self) -> Value {
        json!({
            "minMember": self.min_member,
            "priorityClassName": &*self.priority_class,
            "preemptibility": self.preemptibility.as_deref(),
            "topologyConstraint": self.topology_constraint(),
        })
    }

    fn topology_constraint(&self) -> Value {
        let Some(topology) = &self.topology else { return Value::Null };
        let mut constraint = json!({ "topology": &*topology.topology });
        if let Some(level) = &topology.required {
            constraint["requiredTopologyLevel"] = json!(&**level);
        }
        if let Some(level) = &topology.preferred {
            constraint["preferredTopologyLevel"] = json!(&**level);
        }
        constraint
    }

    pub(super) fn manifest(&self) -> Value {
        let mut spec = json!({
            "minMember": self.min_member,
            "queue": &*self.queue,
            "priorityClassName": &*self.priority_class,
        });
        if let Some(preemptibility) = &self.preemptibility {
            spec["preemptibility"] = json!(&**preemptibility);
        }
        if self.topology.is_some() {
            spec["topologyConstraint"] = self.topology_constraint();
        }
        json!({
            "apiVersion": super::GROUPS,
            "kind": "PodGroup",
            "metadata": {
                "name": &*self.name,
                "namespace": &*self.namespace,
                "labels": { QUEUE_LABEL: &*self.queue },
                "ownerReferences": [{
                    "apiVersion": &*self.owner.api_version,
                    "kind": &*self.owner.kind,
                    "name": &*self.owner.name,
                    "uid": &*self.owner.uid,
                }],
            },
            "spec": spec,
        })
    }
}

/// Plural names of the kinds that own pods most often; others are asked of the server.
pub(super) fn known_plural(kind: &str) -> Option<&'static str> {
    match kind {
        "ReplicaSet" => Some("replicasets"),
        "Deployment" => Some("deployments"),
        "StatefulSet" => Some("statefulsets"),
        "Job" => Some("jobs"),
        "CronJob" => Some("cronjobs"),
        "JobSet" => Some("jobsets"),
        "TrainJob" => Some("trainjobs"),
        "PyTorchJob" => Some("pytorchjobs"),
        _ => None,
    }
}

/// The kinds that are grouped by rules of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grouping {
    /// No owner: the pod is its own group.
    Alone,
    /// Each pod by itself, served before batch work.
    EachPod,
    /// All pods of the Job.
    Job,
    /// All pods of the JobSet, or of a part of it that starts by itself.
    JobSet,
    /// As many as the TrainJob has nodes.
    TrainJob,
    /// As many as the PyTorchJob has replicas.
    PyTorchJob,
    /// All pods of the top owner, one at a time.
    Default,
}

/// The group of a pod.
pub(super) fn group_of(
    key: &Key,
    pod: &PodRecord,
    chain: &[Link],
    classes: &BTreeMap<Name, ClassRecord>,
) -> Result<Group, Malformed> {
    let chain = below_cron_job(chain);
    let grouping = grouping(chain);
    let itself = Owner {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: Name::clone(&key.name),
        uid: Name::clone(&pod.uid),
    };
    let owner = match (grouping, chain.last()) {
        (Grouping::Alone | Grouping::EachPod, _) | (_, None) => itself,
        (_, Some(top)) => top.owner.clone(),
    };
    let top = chain.last().map_or(&Value::Null, |top| &top.object);
    let part = part_of_job_set(pod, chain, grouping);
    let labels = strings(top, "/metadata/labels");
    Ok(Group {
        name: group_name(&owner, part),
        namespace: Name::clone(&key.namespace),
        min_member: min_member(grouping, chain, part)?,
        queue: queue(&labels, &pod.labels),
        priority_class: priority_class(grouping, &labels, pod, classes),
        preemptibility: preemptibility(&labels, &pod.labels)?,
        topology: topology(top),
        owner,
    })
}

/// Annotations of the top owner: in places of which levels its pods run together.
fn topology(top: &Value) -> Option<TopologyConstraint> {
    let annotations = top.pointer("/metadata/annotations")?;
    let annotation = |key: &str| {
        let text = annotations.get(format!("{TOPOLOGY_ANNOTATION}{key}"))?.as_str()?;
        (!text.is_empty()).then(|| Name::from(text))
    };
    let (required, preferred) =
        (annotation("-required-placement"), annotation("-preferred-placement"));
    let is_placed = required.is_some() || preferred.is_some();
    let topology = annotation("").unwrap_or_default();
    is_placed.then_some(TopologyConstraint { topology, required, preferred })
}

/// Each Job of a `CronJob` is a workload of its own.
fn below_cron_job(chain: &[Link]) -> &[Link] {
    match chain {
        [jobs @ .., top] if &*top.owner.kind == "CronJob" && !jobs.is_empty() => jobs,
        _ => chain,
    }
}

fn grouping(chain: &[Link]) -> Grouping {
    let Some(top) = chain.last() else {
        return Grouping::Alone;
    };
    match &*top.owner.kind {
        "Deployment" => Grouping::EachPod,
        "Job" => Grouping::Job,
        "PyTorchJob" => Grouping::PyTorchJob,
        _ if job_set(chain).is_some() => Grouping::JobSet,
        "TrainJob" => Grouping::TrainJob,
        _ => Grouping::Default,
    }
}

fn job_set(chain: &[Link]) -> Option<&Value> {
    let is_job_set = |link: &&Link| &*link.owner.kind == "JobSet" && link.object.is_object();
    chain.iter().find(is_job_set).map(|link| &link.object)
}

/// Parts of a JobSet that wait for each other cannot be one gang.
fn part_of_job_set<'a>(pod: &'a PodRecord, chain: &[Link], grouping: Grouping) -> Option<&'a Name> {
    let job_set = job_set(chain).filter(|_| grouping == Grouping::JobSet)?;
    let in_order = job_set.pointer("/spec/startupPolicy/startupPolicyOrder")
        == Some(&Value::String("InOrder".to_owned()));
    let depends = |job: &Value| !list(job, "/dependsOn").is_empty();
    let ordered = in_order || list(job_set, "/spec/replicatedJobs").iter().any(depends);
    pod.labels.get(REPLICATED_JOB_LABEL).filter(|_| ordered)
}

/// At most as long as a name may be.
fn group_name(owner: &Owner, part: Option<&Name>) -> Name {
    let tail = match part {
        Some(part) => format!("-{}-{part}", owner.uid),
        None => format!("-{}", owner.uid),
    };
    let room = 253_usize.saturating_sub("pg-".len() + tail.len());
    let name: String = owner.name.chars().take(room).collect();
    format!("pg-{name}{tail}").into()
}

fn min_member(grouping: Grouping, chain: &[Link], part: Option<&Name>) -> Result<u32, Malformed> {
    let top = chain.last().map_or(&Value::Null, |top| &top.object);
    if !matches!(grouping, Grouping::Alone | Grouping::EachPod)
        && let Some(minimum) = stated_minimum(chain)?
    {
        return Ok(minimum);
    }
    let pods = match grouping {
        Grouping::Alone | Grouping::EachPod | Grouping::Job | Grouping::Default => 1,
        Grouping::JobSet => pods_of_job_set(job_set(chain).unwrap_or(&Value::Null), part),
        Grouping::TrainJob => count(top, "/spec/trainer/numNodes"),
        Grouping::PyTorchJob => pods_of_pytorch_job(top),
    };
    Ok(u32::try_from(pods).unwrap_or(u32::MAX).clamp(1, i32::MAX.unsigned_abs()))
}

/// Annotation `kai.scheduler/batch-min-member` of the nearest owner that has it.
fn stated_minimum(chain: &[Link]) -> Result<Option<u32>, Malformed> {
    let stated = |link: &Link| {
        let annotations = link.object.pointer("/metadata/annotations")?;
        annotations.get(MIN_MEMBER_ANNOTATION)?.as_str().map(str::to_owned)
    };
    let Some(text) = chain.iter().find_map(stated) else {
        return Ok(None);
    };
    let minimum = text.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok());
    let wrong = || {
        let field = format!("annotation {MIN_MEMBER_ANNOTATION}");
        Malformed::new(field, format!("{text:?}"), "an integer from 1 to 2147483647")
    };
    minimum.filter(|minimum| *minimum > 0).map(Some).ok_or_else(wrong)
}

fn pods_of_job_set(job_set: &Value, part: Option<&Name>) -> u64 {
    let jobs = list(job_set, "/spec/replicatedJobs").iter();
    let wanted = jobs.filter(|job| part.is_none_or(|part| job["name"].as_str() == Some(part)));
    let pods = |job: &Value| {
        let parallelism = count(job, "/template/spec/parallelism");
        let completions = job.pointer("/template/spec/completions").and_then(Value::as_u64);
        let at_once = completions.map_or(parallelism, |completions| completions.min(parallelism));
        count(job, "/replicas").saturating_mul(at_once)
    };
    wanted.map(pods).fold(0, u64::saturating_add)
}

fn pods_of_pytorch_job(job: &Value) -> u64 {
    let stated = job.pointer("/spec/runPolicy/schedulingPolicy/minAvailable");
    if let Some(stated) = stated.and_then(Value::as_u64) {
        return stated;
    }
    let replicas = job.pointer("/spec/pytorchReplicaSpecs").and_then(Value::as_object);
    let pods = replicas.into_iter().flatten().map(|(_, spec)| count(spec, "/replicas"));
    pods.fold(0, u64::saturating_add)
}

/// A number that is 1 when it is not given.
fn count(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(1)
}

fn queue(owner: &Labels, pod: &Labels) -> Name {
    let labels = [QUEUE_LABEL, "project"];
    let stated = labels.iter().find_map(|label| owner.get(*label).or_else(|| pod.get(*label)));
    stated.cloned().unwrap_or_else(|| QUEUE_DEFAULT.into())
}

fn priority_class(
    grouping: Grouping,
    owner: &Labels,
    pod: &PodRecord,
    classes: &BTreeMap<Name, ClassRecord>,
) -> Name {
    let label = "priorityClassName";
    let stated = owner.get(label).or_else(|| pod.labels.get(label)).or(pod.priority_class.as_ref());
    if let Some(stated) = stated.filter(|class| is_known_class(classes, class)) {
        return Name::clone(stated);
    }
    match grouping {
        Grouping::EachPod => "inference".into(),
        Grouping::Alone
        | Grouping::Job
        | Grouping::JobSet
        | Grouping::TrainJob
        | Grouping::PyTorchJob
        | Grouping::Default => "train".into(),
    }
}

fn preemptibility(owner: &Labels, pod: &Labels) -> Result<Option<Name>, Malformed> {
    let stated = owner.get(PREEMPTIBILITY_LABEL).or_else(|| pod.get(PREEMPTIBILITY_LABEL));
    match stated.map(|stated| &**stated) {
        None | Some("") => Ok(None),
        Some("preemptible" | "non-preemptible") => Ok(stated.cloned()),
        Some(other) => Err(Malformed::new(
            format!("label {PREEMPTIBILITY_LABEL}"),
            other,
            "preemptible or non-preemptible",
        )),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn link(kind: &str, object: Value) -> Link {
        let owner = Owner {
            api_version: "x/v1".into(),
            kind: kind.into(),
            name: kind.to_lowercase().into(),
            uid: "u1".into(),
        };
        Link { owner, object }
    }

    fn told(pod_labels: &Value, chain: &[Link]) -> String {
        let pod = json!({ "metadata": { "name": "p", "namespace": "ns", "uid": "u0",
                                        "labels": pod_labels } });
        let classes = ["train", "inference", "build"]
            .map(|name| (Name::from(name), ClassRecord { value: 1, global_default: false }));
        let record = PodRecord::read(&pod, "kai-scheduler");
        match group_of(&Key::of(&pod), &record, chain, &classes.into()) {
            Ok(group) => format!(
                "{} of {} min={} queue={} class={} {}",
                group.name,
                group.owner.kind,
                group.min_member,
                group.queue,
                group.priority_class,
                group.preemptibility.as_deref().unwrap_or_default(),
            ),
            Err(malformed) => malformed.to_string(),
        }
    }

    #[test]
    fn a_pod_without_owner_is_its_own_group() {
        assert_snapshot!(told(&json!({}), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=train");
    }

    #[test]
    fn each_pod_of_a_deployment_is_a_group_that_serves() {
        let chain = [
            link("ReplicaSet", json!({})),
            link(
                "Deployment",
                json!({ "metadata":
            { "labels": { "kai.scheduler/queue": "a" } } }),
            ),
        ];
        assert_snapshot!(told(&json!({}), &chain), @"pg-p-u0 of Pod min=1 queue=a class=inference");
    }

    #[test]
    fn a_job_is_a_gang_only_when_it_says_so() {
        let job = |annotations: Value| {
            [link(
                "Job",
                json!({ "metadata": { "annotations": annotations },
                                 "spec": { "parallelism": 8 } }),
            )]
        };
        assert_snapshot!(told(&json!({ "project": "b" }), &job(json!({}))), @"pg-job-u1 of Job min=1 queue=b class=train");
        let stated = |text: &str| job(json!({ MIN_MEMBER_ANNOTATION: text }));
        assert_snapshot!(told(&json!({}), &stated("4")), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
        assert_snapshot!(told(&json!({}), &stated("-4")), @r#"annotation kai.scheduler/batch-min-member: found "-4", allowed: an integer from 1 to 2147483647"#);
    }

    #[test]
    fn a_stateful_set_and_an_unknown_kind_are_groups_of_minimum_one() {
        let of = |kind| told(&json!({}), &[link(kind, json!({ "spec": { "replicas": 3 } }))]);
        assert_snapshot!(of("StatefulSet"), @"pg-statefulset-u1 of StatefulSet min=1 queue=default-queue class=train");
        assert_snapshot!(of("Rollout"), @"pg-rollout-u1 of Rollout min=1 queue=default-queue class=train");
    }

    fn job_set(extra: &Value) -> Link {
        let mut object = json!({ "spec": { "replicatedJobs": [
            { "name": "leader", "template": { "spec": {} } },
            { "name": "worker", "replicas": 2, "template": { "spec": { "parallelism": 3 } } },
        ] } });
        json_merge(&mut object, extra);
        link("JobSet", object)
    }

    fn json_merge(object: &mut Value, extra: &Value) {
        for (key, value) in extra.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
    }

    #[test]
    fn a_job_set_is_one_gang_of_all_its_pods() {
        let chain = [link("Job", json!({})), job_set(&json!({}))];
        assert_snapshot!(told(&json!({}), &chain), @"pg-jobset-u1 of JobSet min=7 queue=default-queue class=train");
    }

    #[test]
    fn parts_of_a_job_set_that_start_in_order_are_gangs_of_their_own() {
        let ordered = json!({ "startupPolicy": { "startupPolicyOrder": "InOrder" } });
        let chain = [link("Job", json!({})), job_set(&ordered)];
        let pod = json!({ REPLICATED_JOB_LABEL: "worker" });
        assert_snapshot!(told(&pod, &chain), @"pg-jobset-u1-worker of JobSet min=6 queue=default-queue class=train");
    }

    #[test]
    fn a_train_job_is_one_gang_through_its_job_set_or_by_its_nodes() {
        let train_job = || {
            link(
                "TrainJob",
                json!({ "spec": { "trainer": { "numNodes": 4 } },
            "metadata": { "labels": { "kai.scheduler/queue": "research" } } }),
            )
        };
        let through = [link("Job", json!({})), job_set(&json!({})), train_job()];
        assert_snapshot!(told(&json!({}), &through), @"pg-trainjob-u1 of TrainJob min=7 queue=research class=train");
        let by_nodes = [link("Job", json!({})), train_job()];
        assert_snapshot!(told(&json!({}), &by_nodes), @"pg-trainjob-u1 of TrainJob min=4 queue=research class=train");
    }

    #[test]
    fn a_pytorch_job_is_a_gang_of_its_replicas_unless_it_states_fewer() {
        let job = |policy: Value| {
            [link(
                "PyTorchJob",
                json!({ "spec": { "runPolicy": policy, "pytorchReplicaSpecs":
                { "Master": { "replicas": 1 }, "Worker": { "replicas": 3 } } } }),
            )]
        };
        assert_snapshot!(told(&json!({}), &job(json!({}))), @"pg-pytorchjob-u1 of PyTorchJob min=4 queue=default-queue class=train");
        let fewer = json!({ "schedulingPolicy": { "minAvailable": 2 } });
        assert_snapshot!(told(&json!({}), &job(fewer)), @"pg-pytorchjob-u1 of PyTorchJob min=2 queue=default-queue class=train");
    }

    #[test]
    fn each_job_of_a_cron_job_is_a_group() {
        let chain = [link("Job", json!({})), link("CronJob", json!({}))];
        assert_snapshot!(told(&json!({}), &chain), @"pg-job-u1 of Job min=1 queue=default-queue class=train");
    }

    #[test]
    fn labels_choose_priority_class_and_preemptibility() {
        let labels = |preemptibility: &str| json!({ "priorityClassName": "build", PREEMPTIBILITY_LABEL: preemptibility });
        assert_snapshot!(told(&labels("preemptible"), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=build preemptible");
        assert_snapshot!(told(&labels("maybe"), &[]), @"label kai.scheduler/preemptibility: found maybe, allowed: preemptible or non-preemptible");
    }
}
