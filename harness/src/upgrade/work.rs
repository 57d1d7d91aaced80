//! The work that an upgrade must not harm: running, pending, half-bound, and gangs. It fits 32
//! GPUs on 4 nodes.

use schedlab_json::{Value, json};

use super::state::{PodState, State};
use super::watching::Watching;
use super::{Bench, PATIENCE, Way};
use crate::api::{Api, is_not_found, refusal};
use crate::view::{Kind, Phase, View};

/// Name of the queue above all others.
const ROOT: &str = "upgrade";

/// Queue of what is submitted while schedulers change.
const NEW: &str = "upgrade-new";

/// Queue at its limit.
const CAPPED: &str = "upgrade-capped";

/// Queue at its limit, where all work is of the queue below it, which has none.
const BOUNDED: &str = "upgrade-bounded";

/// Queue below [`BOUNDED`].
const INNER: &str = "upgrade-inner";

/// Queues with their parents, and their quotas and limits in GPUs; -1 is none.
const QUEUES: [(&str, Option<&str>, (i32, i32)); 7] = [
    (ROOT, None, (32, -1)),
    ("upgrade-steady", Some(ROOT), (10, -1)),
    ("upgrade-gangs", Some(ROOT), (8, -1)),
    (CAPPED, Some(ROOT), (2, 2)),
    (BOUNDED, Some(ROOT), (1, 1)),
    (INNER, Some(BOUNDED), (1, -1)),
    (NEW, Some(ROOT), (11, 12)),
];

/// Members of the gang that is caught half-bound.
const MEMBERS: usize = 4;

/// What is submitted afterwards and has no room below a limit.
pub(super) const BEYOND: [(&str, &str); 2] = [("capped", CAPPED), ("inner", INNER)];

/// There or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    There(Way),
    Back(Way),
}

impl Round {
    pub(super) fn way(self) -> Way {
        match self {
            Self::There(way) | Self::Back(way) => way,
        }
    }

    /// Names what is submitted in it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::There(_) => "there",
            Self::Back(_) => "back",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::There(_) => "upgrade to",
            Self::Back(_) => "back to",
        }
    }

    fn gang(self) -> String {
        format!("half-{}", self.name())
    }

    fn fresh(self) -> String {
        format!("fresh-{}", self.name())
    }

    fn beyond(self, name: &str) -> String {
        format!("beyond-{name}-{}", self.name())
    }
}

/// Whether work that is submitted while schedulers change makes this field of a queue's status
/// another.
pub(super) fn new_work_changes(queue: &str, field: &str) -> bool {
    match queue {
        NEW | ROOT => true,
        // What comes there waits.
        CAPPED | BOUNDED | INNER => field == "requested",
        _ => false,
    }
}

/// Makes the queues, where the cluster knows queues.
pub(super) async fn queues(api: &mut Api, view: &mut Watching) -> anyhow::Result<()> {
    let kind = "/apis/scheduling.run.ai/v2";
    match api.get(kind).await {
        Ok(_) => {}
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(refusal(error)),
    }
    for (name, parent, bounds) in QUEUES {
        api.create(&queue(name, parent, bounds)).await?;
    }
    view.drain().await
}

fn queue(name: &str, parent: Option<&str>, (quota, limit): (i32, i32)) -> Value {
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    json!({
        "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
        "spec": {
            "parentQueue": parent,
            "resources": {
                "gpu": {"quota": quota, "overQuotaWeight": 1, "limit": limit},
                "cpu": free, "memory": free,
            },
        },
    })
}

/// Submits what stands before the upgrade: 10 single pods and a gang that run, a gang that never
/// fits, and queues at their limits.
pub(super) async fn standing(api: &mut Api, scheduler: &str) -> anyhow::Result<()> {
    for number in 0..10 {
        let name = format!("steady-{number}");
        api.create(&pod(&name, "upgrade-steady", (scheduler, None), 1)).await?;
    }
    gang(api, ("train", "upgrade-gangs", scheduler), 4, 2).await?;
    gang(api, ("giant", "upgrade-gangs", scheduler), 5, 8).await?;
    for number in 0..4 {
        let name = format!("capped-{number}");
        api.create(&pod(&name, CAPPED, (scheduler, None), 1)).await?;
    }
    for number in 0..2 {
        let name = format!("inner-{number}");
        api.create(&pod(&name, INNER, (scheduler, None), 1)).await?;
    }
    Ok(())
}

/// Whether it does.
pub(super) fn stands(state: &State) -> Result<(), String> {
    let count = |prefix: &str, phase: Phase| {
        let of =
            |name: &&String| name.strip_prefix("default/").is_some_and(|n| n.starts_with(prefix));
        state.pods.iter().filter(|(name, pod)| of(name) && pod.phase == phase).count()
    };
    let wanted = [
        ("steady-", Phase::Running, 10),
        ("train-", Phase::Running, 4),
        ("giant-", Phase::Pending, 5),
        ("capped-", Phase::Running, 2),
        ("capped-", Phase::Pending, 2),
        ("inner-", Phase::Running, 1),
        ("inner-", Phase::Pending, 1),
    ];
    for (prefix, phase, wanted) in wanted {
        let found = count(prefix, phase);
        if found != wanted {
            return Err(format!("{found} of {wanted} pods {prefix}* are {phase}"));
        }
    }
    all_told(state.pods.iter())
}

/// Whether those that wait are told why.
fn all_told<'a>(mut pods: impl Iterator<Item = (&'a String, &'a PodState)>) -> Result<(), String> {
    match pods.find(|(_, pod)| pod.phase == Phase::Pending && !pod.is_told()) {
        Some((name, _)) => Err(format!("{name} waits and is not told why")),
        None => Ok(()),
    }
}

/// A gang of which two members are bound, as by a scheduler that ended between two writes.
pub(super) async fn half_bound(
    bench: &mut Bench,
    view: &mut Watching,
    round: Round,
) -> anyhow::Result<()> {
    let name = round.gang();
    let scheduler = bench.scheduler_name.clone();
    let api = &mut bench.api;
    group(api, &name, NEW, MEMBERS).await?;
    let make = |number: usize| pod(&format!("{name}-{number}"), NEW, (&scheduler, Some(&name)), 1);
    for number in 0..2 {
        let pod = make(number);
        api.create(&pod).await?;
        let state = view.state();
        let mut free = state.nodes.iter().filter(|(node, has)| state.held(node) + 1000 <= **has);
        let Some((node, _)) = free.next() else { anyhow::bail!("no node has a free GPU") };
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": pod["metadata"],
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        let path = format!("/api/v1/namespaces/default/pods/{name}-{number}/binding");
        match api.post(&path, &binding).await {
            Ok(_) => {}
            // The old version was faster.
            Err(kube::Error::Api(status)) if round.way() == Way::Rolling && status.code == 409 => {}
            Err(error) => return Err(refusal(error)),
        }
        shown_bound(view, &format!("default/{name}-{number}")).await?;
    }
    for number in 2..MEMBERS {
        api.create(&make(number)).await?;
    }
    Ok(())
}

/// Waits until the view shows a pod's node.
async fn shown_bound(view: &mut Watching, pod: &str) -> anyhow::Result<()> {
    let shown = async {
        while view.view().pod(pod).is_none_or(|pod| pod.node().is_empty()) {
            view.next().await?;
        }
        Ok(())
    };
    let shown = tokio::time::timeout(PATIENCE, shown).await;
    shown.unwrap_or_else(|_| Err(anyhow::anyhow!("{pod} was bound and is not shown so")))
}

/// Whether the half-bound gang was finished.
pub(super) fn gang_is_whole(state: &State, round: Round) -> Result<(), String> {
    let prefix = format!("default/{}-", round.gang());
    let members = state.pods.iter().filter(|(name, _)| name.starts_with(&prefix));
    let running = members.filter(|(_, pod)| pod.phase == Phase::Running).count();
    if running == MEMBERS {
        return Ok(());
    }
    Err(format!("{running} of {MEMBERS} members of the half-bound gang {} run", round.gang()))
}

/// Submits pods that only the new version can see: at last one that has room, before it two that
/// are beyond limits.
pub(super) async fn fresh(api: &mut Api, scheduler: &str, round: Round) -> anyhow::Result<()> {
    let beyond = BEYOND.into_iter().map(|(name, queue)| (round.beyond(name), queue));
    for (name, queue) in beyond.chain([(round.fresh(), NEW)]) {
        api.create(&pod(&name, queue, (scheduler, None), 1)).await?;
    }
    Ok(())
}

/// Whether it runs.
pub(super) fn fresh_runs(state: &State, round: Round) -> Result<(), String> {
    let name = format!("default/{}", round.fresh());
    match state.pods.get(&name) {
        Some(pod) if pod.phase == Phase::Running => Ok(()),
        Some(pod) => Err(format!("{name}, submitted afterwards, is {}", pod.phase)),
        None => Err(format!("{name}, submitted afterwards, is gone")),
    }
}

/// Whether those beyond limits are told why they wait. Whether they do is another question.
pub(super) fn told(state: &State, round: Round) -> Result<(), String> {
    let names: Vec<String> =
        BEYOND.iter().map(|(name, _)| format!("default/{}", round.beyond(name))).collect();
    all_told(state.pods.iter().filter(|(name, _)| names.contains(name)))
}

/// Takes away what the old version computed, so that the new one has to compute it anew.
pub(super) async fn forget_queue_status(api: &Api, view: &View) -> anyhow::Result<()> {
    for queue in view.all(Kind::Queues).filter(|queue| queue.get("status").is_some()) {
        let name = queue["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/apis/scheduling.run.ai/v2/queues/{name}/status");
        let nothing = json!({"status": {"allocated": null, "requested": null,
            "allocatedNonPreemptible": null, "childQueues": null}});
        api.merge(&path, &nothing).await.map_err(refusal)?;
    }
    Ok(())
}

async fn gang(
    api: &mut Api,
    (name, queue, scheduler): (&str, &str, &str),
    members: usize,
    gpus: u32,
) -> anyhow::Result<()> {
    group(api, name, queue, members).await?;
    for number in 0..members {
        let member = pod(&format!("{name}-{number}"), queue, (scheduler, Some(name)), gpus);
        api.create(&member).await?;
    }
    Ok(())
}

async fn group(api: &mut Api, name: &str, queue: &str, members: usize) -> anyhow::Result<()> {
    let object = json!({
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": members, "queue": queue},
    });
    api.create(&object).await.map(drop)
}

fn pod(name: &str, queue: &str, (scheduler, group): (&str, Option<&str>), gpus: u32) -> Value {
    let annotations = group.map(|group| json!({"pod-group-name": group}));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {"kai.scheduler/queue": queue},
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{
                "name": "main", "image": "work",
                "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}},
            }],
        },
    })
}
