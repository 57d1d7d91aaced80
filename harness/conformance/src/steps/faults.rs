//! Faults and maintenance of nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use cucumber::{given, when};
use schedlab_api::{Value, annotations, json, object};

use super::StepResult;
use super::subjects::Workload;
use super::unknown_names::require_known_name;
use crate::world::World;
use crate::world::observed::{Pod, WatchedKind};
use schedlab_clusters::api;

const NODES_PATH: &str = "/api/v1/nodes";

/// How long `kubectl drain` waits before it retries a pod protected by a disruption budget.
const DRAIN_RETRY_PERIOD: Duration = Duration::from_secs(5);
/// How often the eviction of a pod is retried; kubectl itself never gives up.
const DRAIN_ATTEMPTS_MAX: usize = 60;

/// A node stops sending heartbeats; whether its pods still run is unknown.
/// ```gherkin
/// When node "node-1" dies
/// ```
#[given(expr = "node {string} dies")]
#[when(expr = "node {string} dies")]
async fn node_dies(world: &mut World, name: String) -> StepResult {
    annotate_node(world, &name, json!("true")).await
}

/// A node that died sends heartbeats again.
/// ```gherkin
/// When node "node-1" returns
/// ```
#[when(expr = "node {string} returns")]
async fn node_returns(world: &mut World, name: String) -> StepResult {
    require_node_state(world, &name, "has not died", |node| {
        object::annotation(node, annotations::NODE_DOWN).is_some()
    })
    .await?;
    annotate_node(world, &name, Value::Null).await
}

/// Fails unless the node has the state that the current step ends.
async fn require_node_state(
    world: &mut World,
    name: &str,
    missing: &str,
    is_done: impl Fn(&Value) -> bool,
) -> anyhow::Result<()> {
    require_known_name(world, "node", name).await?;
    let node = world.view.get(WatchedKind::Nodes, name);
    anyhow::ensure!(node.is_some_and(is_done), "node {name:?} {missing}");
    Ok(())
}

async fn annotate_node(world: &mut World, name: &str, down: Value) -> StepResult {
    let patch = json!({"metadata": {"annotations": {(annotations::NODE_DOWN): down}}});
    patch_node(world, name, &patch).await
}

/// Deletes a node object.
/// ```gherkin
/// When node "node-1" is deleted
/// ```
#[given(expr = "node {string} is deleted")]
#[when(expr = "node {string} is deleted")]
async fn node_is_deleted(world: &mut World, name: String) -> StepResult {
    require_known_name(world, "node", &name).await?;
    world.delete_object(&format!("{NODES_PATH}/{name}")).await?;
    Ok(())
}

async fn patch_node(world: &mut World, name: &str, patch: &Value) -> StepResult {
    require_known_name(world, "node", name).await?;
    world.patch_requiring_change(&format!("{NODES_PATH}/{name}"), patch).await?;
    Ok(())
}

/// Deletes the node on which all pods of a workload run.
/// ```gherkin
/// When the node of pod "a" is deleted
/// ```
#[when(expr = "the node of {workload} is deleted")]
async fn node_of_workload_is_deleted(world: &mut World, workload: Workload) -> StepResult {
    world.catch_up_with_watches().await?;
    let pods = workload.pods(&world.view);
    let nodes: BTreeSet<String> =
        pods.iter().map(|pod| pod.node_name().to_owned()).filter(|node| !node.is_empty()).collect();
    let mut nodes = nodes.into_iter();
    let (Some(node), None) = (nodes.next(), nodes.next()) else {
        return Err(anyhow!(
            "the pods of {workload} are on no node or on several, expected exactly \
            one"
        )
        .into());
    };
    node_is_deleted(world, node).await
}

/// Adds a deleted node again, with its original name and spec.
/// ```gherkin
/// When node "node-1" is added again
/// ```
#[when(expr = "node {string} is added again")]
async fn node_is_added_again(world: &mut World, name: String) -> StepResult {
    world.catch_up_with_watches().await?;
    if world.view.get(WatchedKind::Nodes, &name).is_some() {
        return Err(anyhow!("node {name:?} still exists, expected a deleted one").into());
    }
    world.resubmit_deleted("node", &name).await?;
    Ok(())
}

/// Cordons a node: no new pod may be scheduled to it.
/// ```gherkin
/// When node "node-1" is cordoned
/// ```
#[given(expr = "node {string} is cordoned")]
#[when(expr = "node {string} is cordoned")]
async fn node_is_cordoned(world: &mut World, name: String) -> StepResult {
    patch_node(world, &name, &cordon_patch()).await
}

fn cordon_patch() -> Value {
    json!({"spec": {"unschedulable": true}})
}

/// Uncordons a node.
/// ```gherkin
/// When node "node-1" is uncordoned
/// ```
#[when(expr = "node {string} is uncordoned")]
async fn node_is_uncordoned(world: &mut World, name: String) -> StepResult {
    require_node_state(world, &name, "is not cordoned", |node| {
        node["spec"]["unschedulable"] == true
    })
    .await?;
    let patch = json!({"spec": {"unschedulable": null}});
    patch_node(world, &name, &patch).await
}

/// Cordons a node and evicts its pods through the API, as `kubectl drain` does: evictions rejected
/// by a disruption budget are retried every 5 seconds for 5 minutes.
/// ```gherkin
/// When node "node-1" is drained
/// ```
#[when(expr = "node {string} is drained")]
async fn node_is_drained(world: &mut World, name: String) -> StepResult {
    require_known_name(world, "node", &name).await?;
    // The node may be cordoned already.
    world.patch_object(&format!("{NODES_PATH}/{name}"), &cordon_patch()).await?;
    let mut rounds = 0..DRAIN_ATTEMPTS_MAX;
    loop {
        world.catch_up_with_watches().await?;
        let on_it = |pod: &Pod<'_>| {
            pod.node_name() == name && pod.holds_resources() && !pod.is_terminating()
        };
        let pods = world.view.current_pods().filter(on_it);
        let pods: Vec<(String, String)> =
            pods.map(|pod| (pod.pod_namespace().to_owned(), pod.pod_name().to_owned())).collect();
        let mut kept = None;
        for (namespace, pod) in pods {
            let refused = evict_pod(world, &namespace, &pod).await?;
            kept = kept.or(refused.map(|error| error.context(format!("pod {namespace}/{pod}"))));
        }
        match (kept, rounds.next()) {
            (None, _) => return Ok(()),
            (Some(_), Some(_)) => world.run_for(DRAIN_RETRY_PERIOD).await?,
            (Some(error), None) => {
                return Err(error
                    .context(format!("node {name:?} is not drained after 5 minutes"))
                    .into());
            }
        }
    }
}

/// Evicts a pod through the API. The inner error means that a later retry may succeed.
async fn evict_pod(
    world: &mut World,
    namespace: &str,
    pod: &str,
) -> anyhow::Result<Option<anyhow::Error>> {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": pod},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
    world.record_deletion_by_step(&path);
    match world.api.post(&format!("{path}/eviction"), &eviction).await {
        Ok(_) => Ok(None),
        Err(error) if api::is_not_found(&error) => Ok(None),
        Err(error) if api::is_too_many_requests(&error) => Ok(Some(api::to_anyhow_error(error))),
        Err(error) => Err(api::to_anyhow_error(error).context(format!("pod {namespace}/{pod}"))),
    }
}

/// Adds a taint to a node, written `key=value:Effect`.
/// ```gherkin
/// When node "node-1" is tainted with "gpu=broken:NoExecute"
/// ```
#[given(expr = "node {string} is tainted with {string}")]
#[when(expr = "node {string} is tainted with {string}")]
async fn node_is_tainted(world: &mut World, name: String, taint: String) -> StepResult {
    let parts = taint
        .rsplit_once(':')
        .map(|(key, effect)| (key.split_once('=').unwrap_or((key, "")), effect));
    let Some(((key, value), effect)) = parts else {
        return Err(anyhow!(
            "got taint {taint:?}, expected key=value:Effect, such as \
            gpu=true:NoSchedule"
        )
        .into());
    };
    let mut taints = node_taints(world, &name).await?;
    taints.retain(|taint| taint["key"] != *key);
    taints.push(json!({"key": key, "value": value, "effect": effect}));
    set_node_taints(world, &name, taints).await
}

/// Removes the taints with this key from a node.
/// ```gherkin
/// When the taint "gpu" of node "node-1" is removed
/// ```
#[when(expr = "the taint {string} of node {string} is removed")]
async fn node_is_untainted(world: &mut World, key: String, name: String) -> StepResult {
    let mut taints = node_taints(world, &name).await?;
    let before = taints.len();
    taints.retain(|taint| taint["key"] != *key);
    if taints.len() == before {
        return Err(anyhow!("node {name:?} has no taint {key:?}").into());
    }
    set_node_taints(world, &name, taints).await
}

async fn node_taints(world: &mut World, name: &str) -> anyhow::Result<Vec<Value>> {
    require_known_name(world, "node", name).await?;
    let node = world.view.get(WatchedKind::Nodes, name);
    let node = node.ok_or_else(|| anyhow!("node {name:?} no longer exists"))?;
    Ok(node["spec"]["taints"].as_array().cloned().unwrap_or_default())
}

async fn set_node_taints(world: &mut World, name: &str, taints: Vec<Value>) -> StepResult {
    let patch = json!({"spec": {"taints": taints}});
    patch_node(world, name, &patch).await
}

/// Sets a node's label.
/// ```gherkin
/// When the label "rack" of node "node-1" becomes "r2"
/// ```
#[given(expr = "the label {string} of node {string} becomes {string}")]
#[when(expr = "the label {string} of node {string} becomes {string}")]
async fn node_is_labelled(
    world: &mut World,
    key: String,
    name: String,
    value: String,
) -> StepResult {
    let patch = json!({"metadata": {"labels": {key: value}}});
    patch_node(world, &name, &patch).await
}
