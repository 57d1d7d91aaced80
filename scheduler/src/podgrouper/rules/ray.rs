//! Ray: a cluster is its head and groups of workers; the pod that submits a job to it comes when
//! it is ready.

use schedlab_json::{Map, Value};
use schedlab_scheduler_core::model::{Name, SubGroup};

use super::{
    Case, Link,
    parts::{Parts, count_or, leaf},
    wishes,
};
use crate::{
    mirror::Owner,
    parse::{Malformed, at, list, name, strings, text},
};

const GROUP_LABEL: &str = "ray.io/group";
/// The sub-group of the pod that submits a job.
const SUBMITTER: &str = "submitter";
const CLUSTER_FIELD: &str = "status.rayClusterName";

/// The cluster that a job made for itself, for a pod that stands below the job alone.
pub(super) fn cluster_beside(chain: &[Link]) -> Option<Owner> {
    let job = job_at_top(chain).filter(|_| of_chain(chain).is_none())?;
    Some(Owner {
        api_version: Name::clone(&job.owner.api_version),
        kind: "RayCluster".into(),
        name: name(&job.object, "/status/rayClusterName")?,
        uid: "".into(),
    })
}

fn of_chain(chain: &[Link]) -> Option<&Link> {
    chain.iter().find(|link| &*link.owner.kind == "RayCluster")
}

/// The job, unless it is submitted to a cluster that was there before.
fn job_at_top(chain: &[Link]) -> Option<&Link> {
    let job = chain.last().filter(|top| &*top.owner.kind == "RayJob")?;
    let selected = at(&job.object, "/spec/clusterSelector").and_then(Value::as_object);
    selected.is_none_or(Map::is_empty).then_some(job)
}

/// The pods of a cluster, and the one that submits to it the job that made it: that one is not
/// waited for, and is no part of a cluster that was there before.
pub(super) fn cluster(case: &Case<'_>) -> Result<Parts, Malformed> {
    let job = job_at_top(case.chain).map(|job| &job.object);
    let (cluster, part) = match (of_chain(case.chain), job) {
        (Some(link), _) => (&link.object, case.pod.labels.get(GROUP_LABEL).cloned()),
        (None, None) => (&Value::Null, None),
        (None, Some(job)) => (made_by(case, job)?, Some(SUBMITTER.into())),
    };
    if !cluster.is_object() {
        return Ok(Parts::alike(1));
    }
    let mut sub_groups = head_and_workers(cluster)?;
    if job.is_some_and(has_submitter) {
        sub_groups.push(leaf(SUBMITTER, 0));
    }
    Ok(Parts::of(sub_groups, part))
}

fn made_by<'a>(case: &Case<'a>, job: &Value) -> Result<&'a Value, Malformed> {
    let named = text(job, "/status/rayClusterName").unwrap_or("nothing");
    let wrong = || Malformed::new(CLUSTER_FIELD, named, "the name of a RayCluster that exists");
    case.around.beside.ok_or_else(wrong)
}

/// A pod of its own submits the job, as where nothing is said.
fn has_submitter(job: &Value) -> bool {
    text(job, "/spec/submissionMode").is_none_or(|mode| matches!(mode, "" | "K8sJobMode"))
}

/// The head, and each group of workers with what it starts with.
fn head_and_workers(cluster: &Value) -> Result<Vec<SubGroup>, Malformed> {
    let topology =
        |group: &Value| wishes::topology(&strings(group, "/template/metadata/annotations"));
    let head = cluster.pointer("/spec/headGroupSpec").unwrap_or(&Value::Null);
    let mut sub_groups = vec![SubGroup { topology: topology(head)?, ..leaf("headgroup", 1) }];
    let scales = at(cluster, "/spec/enableInTreeAutoscaling") == Some(&Value::Bool(true));
    for (position, group) in list(cluster, "/spec/workerGroupSpecs").iter().enumerate() {
        let name = text(group, "/groupName").filter(|name| !name.is_empty());
        let name = name.map_or_else(|| format!("worker-group-{position}"), str::to_owned);
        let [least, replicas] = ["/minReplicas", "/replicas"].map(|of| count_or(group, of, 0));
        if least > replicas {
            let field = format!("spec.workerGroupSpecs[{position}].minReplicas");
            return Err(Malformed::new(field, least, "at most as many as replicas"));
        }
        let at_first = match (scales || least > 0, group.get("suspend") == Some(&Value::Bool(true)))
        {
            (_, true) => 0,
            (true, false) => least,
            (false, false) => replicas,
        };
        let pods = at_first.saturating_mul(count_or(group, "/numOfHosts", 1));
        sub_groups.push(SubGroup { topology: topology(group)?, ..leaf(name, pods) });
    }
    Ok(sub_groups)
}
