//! Groups of Ray workloads: a cluster has a head and worker groups; the pod that submits a job is
//! created when the cluster is ready.

use schedlab_api::{Map, Value};
use schedlab_scheduler_core::model::{Name, SubGroup};

use super::{
    GroupingInput, OwnerLink, annotations,
    sub_groups::{GroupShape, count_or, leaf_sub_group},
};
use crate::{
    parse::{Malformed, at, list, name, strings, text},
    records::Owner,
};

const GROUP_LABEL: &str = "ray.io/group";
/// Name of the sub-group of the pod that submits a job.
const SUBMITTER: &str = "submitter";
const CLUSTER_FIELD: &str = "status.rayClusterName";

/// The RayCluster that a RayJob created, for a pod whose owner chain has the job only.
pub(super) fn cluster_of_job(chain: &[OwnerLink]) -> Option<Owner> {
    let job = job_at_top(chain).filter(|_| cluster_in_chain(chain).is_none())?;
    Some(Owner {
        api_version: Name::clone(&job.owner.api_version),
        kind: "RayCluster".into(),
        name: name(&job.object, "/status/rayClusterName")?,
        uid: "".into(),
    })
}

fn cluster_in_chain(chain: &[OwnerLink]) -> Option<&OwnerLink> {
    chain.iter().find(|link| &*link.owner.kind == "RayCluster")
}

/// The RayJob at the top, unless it selects an existing cluster.
fn job_at_top(chain: &[OwnerLink]) -> Option<&OwnerLink> {
    let job = chain.last().filter(|top| &*top.owner.kind == "RayJob")?;
    let selected = at(&job.object, "/spec/clusterSelector").and_then(Value::as_object);
    selected.is_none_or(Map::is_empty).then_some(job)
}

/// The shape of a Ray cluster: its sub-groups, and one with minimum 0 for the submitter of the
/// RayJob that created the cluster. The submitter of a job on an existing cluster gets a group of
/// its own.
pub(super) fn cluster_shape(input: &GroupingInput<'_>) -> Result<GroupShape, Malformed> {
    let job = job_at_top(input.chain).map(|job| &job.object);
    let (cluster, part) = match (cluster_in_chain(input.chain), job) {
        (Some(link), _) => (&link.object, input.pod.labels.get(GROUP_LABEL).cloned()),
        (None, None) => (&Value::Null, None),
        (None, Some(job)) => (cluster_made_by(input, job)?, Some(SUBMITTER.into())),
    };
    if !cluster.is_object() {
        return Ok(GroupShape::without_sub_groups(1));
    }
    let mut sub_groups = head_and_workers(cluster)?;
    if job.is_some_and(has_submitter) {
        sub_groups.push(leaf_sub_group(SUBMITTER, 0));
    }
    Ok(GroupShape::from_sub_groups(sub_groups, part))
}

fn cluster_made_by<'a>(input: &GroupingInput<'a>, job: &Value) -> Result<&'a Value, Malformed> {
    let named = text(job, "/status/rayClusterName").unwrap_or("nothing");
    let wrong = || Malformed::new(CLUSTER_FIELD, named, "the name of a RayCluster that exists");
    input.context.related_object.ok_or_else(wrong)
}

/// Whether a separate pod submits the job, as is the default.
fn has_submitter(job: &Value) -> bool {
    text(job, "/spec/submissionMode").is_none_or(|mode| matches!(mode, "" | "K8sJobMode"))
}

/// The head and each worker group, with the number of pods that it starts with as minimum.
fn head_and_workers(cluster: &Value) -> Result<Vec<SubGroup>, Malformed> {
    let topology = |group: &Value| {
        annotations::topology_constraint(&strings(group, "/template/metadata/annotations"))
    };
    let head = cluster.pointer("/spec/headGroupSpec").unwrap_or(&Value::Null);
    let mut sub_groups =
        vec![SubGroup { topology: topology(head)?, ..leaf_sub_group("headgroup", 1) }];
    let scales = at(cluster, "/spec/enableInTreeAutoscaling") == Some(&Value::Bool(true));
    for (position, group) in list(cluster, "/spec/workerGroupSpecs").iter().enumerate() {
        let name = text(group, "/groupName").filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("worker-group-{position}"), str::to_owned);
        let [least, replicas] = ["/minReplicas", "/replicas"].map(|of| count_or(group, of, 0));
        if least > replicas {
            let field = format!("spec.workerGroupSpecs[{position}].minReplicas");
            return Err(Malformed::new(field, least, "at most the number of replicas"));
        }
        let at_first = match (scales || least > 0, group.get("suspend") == Some(&Value::Bool(true)))
        {
            (_, true) => 0,
            (true, false) => least,
            (false, false) => replicas,
        };
        let pods = at_first.saturating_mul(count_or(group, "/numOfHosts", 1));
        sub_groups.push(SubGroup { topology: topology(group)?, ..leaf_sub_group(name, pods) });
    }
    Ok(sub_groups)
}
