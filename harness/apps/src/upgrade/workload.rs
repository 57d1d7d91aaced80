//! The workload of an upgrade: running, pending and half-bound pods and gangs. It needs 32 GPUs on
//! nodes with two or more.

use schedlab_api::{Value, annotations, api_versions, json, labels, resources};

use super::capture::{ClusterCapture, PodState};
use super::monitor::InvariantMonitor;
use super::{STATE_WAIT_MAX, Strategy, UpgradeCluster};
use schedlab_clusters::api::{Api, is_not_found, to_anyhow_error};
use schedlab_conformance::world::observed::{ObservedCluster, Phase, WatchedKind};

/// Name of the root queue of the test workload.
const ROOT_QUEUE: &str = "upgrade";

/// Queue of the work that is submitted during the replacement.
const NEW_PODS_QUEUE: &str = "upgrade-new";

/// A queue whose pods use all of its limit.
const CAPPED_QUEUE: &str = "upgrade-capped";

/// A queue whose pods use all of its limit. They are all in a child queue without a limit.
const BOUNDED_QUEUE: &str = "upgrade-bounded";

/// Child queue of [`BOUNDED_QUEUE`].
const INNER_QUEUE: &str = "upgrade-inner";

/// Queues with their parent, and their quota and limit in GPUs; -1 is unlimited.
const QUEUES: [(&str, Option<&str>, (i32, i32)); 7] = [
    (ROOT_QUEUE, None, (32, -1)),
    ("upgrade-steady", Some(ROOT_QUEUE), (10, -1)),
    ("upgrade-gangs", Some(ROOT_QUEUE), (8, -1)),
    (CAPPED_QUEUE, Some(ROOT_QUEUE), (2, 2)),
    (BOUNDED_QUEUE, Some(ROOT_QUEUE), (1, 1)),
    (INNER_QUEUE, Some(BOUNDED_QUEUE), (1, -1)),
    (NEW_PODS_QUEUE, Some(ROOT_QUEUE), (11, 12)),
];

/// Number of members of the half-bound gang.
const GANG_MEMBERS: usize = 4;

/// Name and queue of the pods that are submitted later and would exceed a queue's limit.
pub(super) const OVER_LIMIT_PODS: [(&str, &str); 2] =
    [("capped", CAPPED_QUEUE), ("inner", INNER_QUEUE)];

/// Direction of a replacement: to the new version or back to the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpgradeDirection {
    Forward(Strategy),
    Back(Strategy),
}

impl UpgradeDirection {
    pub(super) fn strategy(self) -> Strategy {
        match self {
            Self::Forward(way) | Self::Back(way) => way,
        }
    }

    /// `there` or `back`, for the names of steps and of objects that are submitted in this
    /// direction.
    pub(super) fn name_suffix(self) -> &'static str {
        match self {
            Self::Forward(_) => "there",
            Self::Back(_) => "back",
        }
    }

    pub(super) fn title_prefix(self) -> &'static str {
        match self {
            Self::Forward(_) => "upgrade to",
            Self::Back(_) => "back to",
        }
    }

    fn gang_name(self) -> String {
        format!("half-{}", self.name_suffix())
    }

    fn new_pod_name(self) -> String {
        format!("fresh-{}", self.name_suffix())
    }

    fn over_limit_pod_name(self, name: &str) -> String {
        format!("beyond-{name}-{}", self.name_suffix())
    }
}

/// Whether work that is submitted during the replacement changes this field of a queue's status.
pub(super) fn is_changed_by_new_work(queue: &str, field: &str) -> bool {
    match queue {
        NEW_PODS_QUEUE | ROOT_QUEUE => true,
        // New pods in these queues stay pending.
        CAPPED_QUEUE | BOUNDED_QUEUE | INNER_QUEUE => field == "requested",
        _ => false,
    }
}

/// Creates the queues, if the cluster has the Queue CRD.
pub(super) async fn create_queues(
    api: &mut Api,
    view: &mut InvariantMonitor,
) -> anyhow::Result<()> {
    let kind = "/apis/scheduling.run.ai/v2";
    match api.get(kind).await {
        Ok(_) => {}
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(to_anyhow_error(error)),
    }
    for (name, parent, (quota, limit)) in QUEUES {
        api.create(&queue_object(name, parent, quota, limit)).await?;
    }
    view.drain_events().await
}

fn queue_object(name: &str, parent: Option<&str>, quota: i32, limit: i32) -> Value {
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    json!({
        "apiVersion": api_versions::QUEUE, "kind": "Queue", "metadata": {"name": name},
        "spec": {
            "parentQueue": parent,
            "resources": {
                "gpu": {"quota": quota, "overQuotaWeight": 1, "limit": limit},
                "cpu": free, "memory": free,
            },
        },
    })
}

/// A gang that never fits: each member needs a whole one of the largest nodes, and there is a node
/// too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GiantGang {
    members: usize,
    gpus: i128,
}

impl GiantGang {
    fn of(state: &ClusterCapture) -> Self {
        let largest = state.nodes.values().copied().max().unwrap_or_default();
        let nodes = state.nodes.values().filter(|milli| **milli == largest).count();
        Self { members: nodes + 1, gpus: largest / 1000 }
    }
}

/// Submits the initial work: 10 single pods and a gang that run, a gang that never fits, and pods
/// that bring queues to their limits.
pub(super) async fn submit_initial_workload(
    api: &mut Api,
    scheduler: &str,
    state: &ClusterCapture,
) -> anyhow::Result<()> {
    let giant = GiantGang::of(state);
    for number in 0..10 {
        let name = format!("steady-{number}");
        api.create(&pod_object(&name, "upgrade-steady", scheduler, None, 1)).await?;
    }
    create_gang(api, "train", "upgrade-gangs", scheduler, 4, 2).await?;
    let GiantGang { members, gpus } = giant;
    create_gang(api, "giant", "upgrade-gangs", scheduler, members, gpus).await?;
    for number in 0..4 {
        let name = format!("capped-{number}");
        api.create(&pod_object(&name, CAPPED_QUEUE, scheduler, None, 1)).await?;
    }
    for number in 0..2 {
        let name = format!("inner-{number}");
        api.create(&pod_object(&name, INNER_QUEUE, scheduler, None, 1)).await?;
    }
    Ok(())
}

/// Fails, with what is missing, unless the initial work has reached its expected state.
pub(super) fn check_initial_is_scheduled(state: &ClusterCapture) -> Result<(), String> {
    let count = |prefix: &str, phase: Phase| {
        let of =
            |name: &&String| name.strip_prefix("default/").is_some_and(|n| n.starts_with(prefix));
        state.pods.iter().filter(|(name, pod)| of(name) && pod.phase == phase).count()
    };
    let expected = [
        ("steady-", Phase::Running, 10),
        ("train-", Phase::Running, 4),
        ("giant-", Phase::Pending, GiantGang::of(state).members),
        ("capped-", Phase::Running, 2),
        ("capped-", Phase::Pending, 2),
        ("inner-", Phase::Running, 1),
        ("inner-", Phase::Pending, 1),
    ];
    for (prefix, phase, expected) in expected {
        let found = count(prefix, phase);
        if found != expected {
            return Err(format!("{found} of {expected} pods {prefix}* are {phase}"));
        }
    }
    check_pending_have_reasons(state.pods.iter())
}

/// Fails unless all pending pods have a reason.
fn check_pending_have_reasons<'a>(
    mut pods: impl Iterator<Item = (&'a String, &'a PodState)>,
) -> Result<(), String> {
    match pods.find(|(_, pod)| pod.phase == Phase::Pending && !pod.has_pending_reason()) {
        Some((name, _)) => Err(format!("{name} is pending without a reason")),
        None => Ok(()),
    }
}

/// Creates a gang with two bound members, as left by a scheduler that stopped between two writes.
pub(super) async fn create_half_bound_gang(
    environment: &mut UpgradeCluster,
    monitor: &mut InvariantMonitor,
    direction: UpgradeDirection,
) -> anyhow::Result<()> {
    let name = direction.gang_name();
    let scheduler = environment.scheduler_name.clone();
    let api = &mut environment.api;
    create_pod_group(api, &name, NEW_PODS_QUEUE, GANG_MEMBERS).await?;
    let make = |number: usize| {
        pod_object(&format!("{name}-{number}"), NEW_PODS_QUEUE, &scheduler, Some(&name), 1)
    };
    for number in 0..2 {
        let pod = make(number);
        api.create(&pod).await?;
        let state = monitor.capture();
        let mut free =
            state.nodes.iter().filter(|(node, has)| state.held_gpu_milli(node) + 1000 <= **has);
        let Some((node, _)) = free.next() else { anyhow::bail!("no node has a free GPU") };
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": pod["metadata"],
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = format!("/api/v1/namespaces/default/pods/{name}-{number}/binding");
        match api.post(&path, &binding).await {
            Ok(_) => {}
            // The old version bound the pod first.
            Err(kube::Error::Api(status))
                if direction.strategy() == Strategy::Rolling && status.code == 409 => {}
            Err(error) => return Err(to_anyhow_error(error)),
        }
        wait_until_bound(monitor, &format!("default/{name}-{number}")).await?;
    }
    for number in 2..GANG_MEMBERS {
        api.create(&make(number)).await?;
    }
    Ok(())
}

/// Waits until the view shows a pod's node.
async fn wait_until_bound(view: &mut InvariantMonitor, pod: &str) -> anyhow::Result<()> {
    let shown = async {
        while view.view().find_pod(pod).is_none_or(|pod| pod.node_name().is_empty()) {
            view.next_capture().await?;
        }
        Ok(())
    };
    let shown = tokio::time::timeout(STATE_WAIT_MAX, shown).await;
    shown.unwrap_or_else(|_| {
        Err(anyhow::anyhow!(
            "{pod} was bound, but the watch does not show \
        its node"
        ))
    })
}

/// Fails unless all members of the half-bound gang run.
pub(super) fn check_gang_is_whole(
    state: &ClusterCapture,
    direction: UpgradeDirection,
) -> Result<(), String> {
    let prefix = format!("default/{}-", direction.gang_name());
    let members = state.pods.iter().filter(|(name, _)| name.starts_with(&prefix));
    let running = members.filter(|(_, pod)| pod.phase == Phase::Running).count();
    if running == GANG_MEMBERS {
        return Ok(());
    }
    Err(format!(
        "{running} of {GANG_MEMBERS} members of the half-bound gang {} run",
        direction.gang_name()
    ))
}

/// Submits pods that only the new version sees: two that would exceed limits, then one that fits.
pub(super) async fn submit_new_workload(
    api: &mut Api,
    scheduler: &str,
    direction: UpgradeDirection,
) -> anyhow::Result<()> {
    let beyond = OVER_LIMIT_PODS
        .into_iter()
        .map(|(name, queue)| (direction.over_limit_pod_name(name), queue));
    for (name, queue) in beyond.chain([(direction.new_pod_name(), NEW_PODS_QUEUE)]) {
        api.create(&pod_object(&name, queue, scheduler, None, 1)).await?;
    }
    Ok(())
}

/// Fails unless the new pod that fits runs.
pub(super) fn check_new_pod_runs(
    state: &ClusterCapture,
    direction: UpgradeDirection,
) -> Result<(), String> {
    let name = format!("default/{}", direction.new_pod_name());
    match state.pods.get(&name) {
        Some(pod) if pod.phase == Phase::Running => Ok(()),
        Some(pod) => Err(format!("pod {name}, submitted after the replacement, is {}", pod.phase)),
        None => Err(format!("pod {name}, submitted after the replacement, is gone")),
    }
}

/// Fails unless the pending pods that would exceed limits have a reason. Whether they are pending
/// is checked elsewhere.
pub(super) fn check_over_limit_pods_have_reasons(
    state: &ClusterCapture,
    direction: UpgradeDirection,
) -> Result<(), String> {
    let names: Vec<String> = OVER_LIMIT_PODS
        .iter()
        .map(|(name, _)| format!("default/{}", direction.over_limit_pod_name(name)))
        .collect();
    check_pending_have_reasons(state.pods.iter().filter(|(name, _)| names.contains(name)))
}

/// Clears the queue status that the old version wrote, so that the new version must compute it
/// anew.
pub(super) async fn clear_queue_status(api: &Api, view: &ObservedCluster) -> anyhow::Result<()> {
    for queue in
        view.objects_of_kind(WatchedKind::Queues).filter(|queue| queue.get("status").is_some())
    {
        let name = queue["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/apis/scheduling.run.ai/v2/queues/{name}/status");
        let nothing = json!({"status": {"allocated": null, "requested": null,
            "allocatedNonPreemptible": null, "childQueues": null}});
        api.merge_patch(&path, &nothing).await.map_err(to_anyhow_error)?;
    }
    Ok(())
}

async fn create_gang(
    api: &mut Api,
    name: &str,
    queue: &str,
    scheduler: &str,
    members: usize,
    gpus: i128,
) -> anyhow::Result<()> {
    create_pod_group(api, name, queue, members).await?;
    for number in 0..members {
        let member = pod_object(&format!("{name}-{number}"), queue, scheduler, Some(name), gpus);
        api.create(&member).await?;
    }
    Ok(())
}

async fn create_pod_group(
    api: &mut Api,
    name: &str,
    queue: &str,
    members: usize,
) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": api_versions::POD_GROUP, "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": members, "queue": queue},
    });
    api.create(&object).await.map(drop)
}

fn pod_object(name: &str, queue: &str, scheduler: &str, group: Option<&str>, gpus: i128) -> Value {
    let annotations = group.map(|group| json!({(annotations::POD_GROUP_NAME): group}));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {(labels::QUEUE): queue},
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main", "image": "work",
                "resources": {"limits": {(resources::GPU): gpus.to_string()}},
            }],
        },
    })
}
