//! What happens to nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::anyhow;
use cucumber::{given, when};
use schedlab_emulator::{DOWN, object};
use schedlab_json::{Value, json};

use super::StepResult;
use super::strangers::known;
use super::subjects::Workload;
use crate::api;
use crate::view::{Kind, Pod};
use crate::world::World;

const NODES: &str = "/api/v1/nodes";

/// How long `kubectl drain` lets a pod be that its budget protects, before it tries again.
const DRAIN_PERIOD: Duration = Duration::from_secs(5);
/// How often it is tried again; kubectl itself never ends.
const DRAIN_ROUNDS: usize = 60;

/// A node stops answering: its heartbeats end, its pods run on or not, nobody knows.
/// ```gherkin
/// When node "node-1" dies
/// ```
#[given(expr = "node {string} dies")]
#[when(expr = "node {string} dies")]
async fn dies(world: &mut World, name: String) -> StepResult {
    annotate(world, &name, json!("true")).await
}

/// A node that died answers again.
/// ```gherkin
/// When node "node-1" returns
/// ```
#[when(expr = "node {string} returns")]
async fn returns(world: &mut World, name: String) -> StepResult {
    has(world, &name, "died", |node| object::annotation(node, DOWN).is_some()).await?;
    annotate(world, &name, Value::Null).await
}

/// What is to be undone was done.
async fn has(
    world: &mut World,
    name: &str,
    done: &str,
    is_done: impl Fn(&Value) -> bool,
) -> anyhow::Result<()> {
    known(world, "node", name).await?;
    let node = world.view.get(Kind::Nodes, name);
    anyhow::ensure!(node.is_some_and(is_done), "found node {name:?}, allowed is one that {done}");
    Ok(())
}

async fn annotate(world: &mut World, name: &str, down: Value) -> StepResult {
    let patch = json!({"metadata": {"annotations": {DOWN: down}}});
    change(world, name, &patch).await
}

/// Deletes a node object.
/// ```gherkin
/// When node "node-1" is deleted
/// ```
#[given(expr = "node {string} is deleted")]
#[when(expr = "node {string} is deleted")]
async fn deleted(world: &mut World, name: String) -> StepResult {
    known(world, "node", &name).await?;
    world.delete(&format!("{NODES}/{name}")).await?;
    Ok(())
}

async fn change(world: &mut World, name: &str, patch: &Value) -> StepResult {
    known(world, "node", name).await?;
    world.change(&format!("{NODES}/{name}"), patch).await?;
    Ok(())
}

/// Deletes the node on which a workload's pods are.
/// ```gherkin
/// When the node of pod "a" is deleted
/// ```
#[when(expr = "the node of {workload} is deleted")]
async fn node_of_deleted(world: &mut World, which: Workload) -> StepResult {
    world.catch_up().await?;
    let pods = which.pods(&world.view);
    let nodes: BTreeSet<String> =
        pods.iter().map(|pod| pod.node().to_owned()).filter(|node| !node.is_empty()).collect();
    let mut nodes = nodes.into_iter();
    let (Some(node), None) = (nodes.next(), nodes.next()) else {
        return Err(anyhow!("{which} is on no node, or on more than one").into());
    };
    deleted(world, node).await
}

/// Adds a node again as it was first added, under its old name.
/// ```gherkin
/// When node "node-1" is added again
/// ```
#[when(expr = "node {string} is added again")]
async fn added_again(world: &mut World, name: String) -> StepResult {
    world.catch_up().await?;
    if world.view.get(Kind::Nodes, &name).is_some() {
        return Err(anyhow!("found node {name:?}, allowed is one that is there no more").into());
    }
    world.resubmit(("node", &name)).await?;
    Ok(())
}

/// No new pod may go to the node.
/// ```gherkin
/// When node "node-1" is cordoned
/// ```
#[given(expr = "node {string} is cordoned")]
#[when(expr = "node {string} is cordoned")]
async fn cordoned(world: &mut World, name: String) -> StepResult {
    change(world, &name, &cordon()).await
}

fn cordon() -> Value {
    json!({"spec": {"unschedulable": true}})
}

/// New pods may go to the node again.
/// ```gherkin
/// When node "node-1" is uncordoned
/// ```
#[when(expr = "node {string} is uncordoned")]
async fn uncordoned(world: &mut World, name: String) -> StepResult {
    has(world, &name, "is cordoned", |node| node["spec"]["unschedulable"] == true).await?;
    let patch = json!({"spec": {"unschedulable": null}});
    change(world, &name, &patch).await
}

/// Cordons a node and evicts its pods through the API, as `kubectl drain` does: what a disruption
/// budget protects is tried again every 5 seconds, for 5 minutes.
/// ```gherkin
/// When node "node-1" is drained
/// ```
#[when(expr = "node {string} is drained")]
async fn drained(world: &mut World, name: String) -> StepResult {
    known(world, "node", &name).await?;
    // One that is cordoned already is drained all the same.
    world.patch(&format!("{NODES}/{name}"), &cordon()).await?;
    let mut rounds = 0..DRAIN_ROUNDS;
    loop {
        world.catch_up().await?;
        let on_it = |pod: &Pod<'_>| pod.node() == name && pod.holds_room() && !pod.is_leaving();
        let pods = world.view.pods().filter(on_it);
        let pods: Vec<(String, String)> =
            pods.map(|pod| (pod.namespace().to_owned(), pod.name().to_owned())).collect();
        let mut kept = None;
        for (namespace, pod) in pods {
            let refused = evict(world, (&namespace, &pod)).await?;
            kept = kept.or(refused.map(|error| error.context(format!("pod {namespace}/{pod}"))));
        }
        match (kept, rounds.next()) {
            (None, _) => return Ok(()),
            (Some(_), Some(_)) => world.pass(DRAIN_PERIOD).await?,
            (Some(error), None) => {
                return Err(error
                    .context(format!("node {name:?} is not drained after 5 minutes"))
                    .into());
            }
        }
    }
}

/// Evicts a pod; says why not, when its time may yet come.
async fn evict(
    world: &mut World,
    (namespace, pod): (&str, &str),
) -> anyhow::Result<Option<anyhow::Error>> {
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": pod},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
    world.note_deleted(&path);
    match world.api.post(&format!("{path}/eviction"), &eviction).await {
        Ok(_) => Ok(None),
        Err(error) if api::is_not_found(&error) => Ok(None),
        Err(error) if api::is_too_early(&error) => Ok(Some(api::refusal(error))),
        Err(error) => Err(api::refusal(error).context(format!("pod {namespace}/{pod}"))),
    }
}

/// Adds a taint, as `key=value:Effect`.
/// ```gherkin
/// When node "node-1" is tainted with "gpu=broken:NoExecute"
/// ```
#[given(expr = "node {string} is tainted with {string}")]
#[when(expr = "node {string} is tainted with {string}")]
async fn tainted(world: &mut World, name: String, taint: String) -> StepResult {
    let parts = taint
        .rsplit_once(':')
        .map(|(key, effect)| (key.split_once('=').unwrap_or((key, "")), effect));
    let Some(((key, value), effect)) = parts else {
        return Err(anyhow!("{taint:?} is no taint; allowed is key=value:NoSchedule").into());
    };
    let mut taints = taints(world, &name).await?;
    taints.retain(|taint| taint["key"] != *key);
    taints.push(json!({"key": key, "value": value, "effect": effect}));
    set_taints(world, &name, taints).await
}

/// Takes the taints of this key away.
/// ```gherkin
/// When the taint "gpu" of node "node-1" is removed
/// ```
#[when(expr = "the taint {string} of node {string} is removed")]
async fn untainted(world: &mut World, key: String, name: String) -> StepResult {
    let mut taints = taints(world, &name).await?;
    let before = taints.len();
    taints.retain(|taint| taint["key"] != *key);
    if taints.len() == before {
        return Err(
            anyhow!("found no taint {key:?} on node {name:?}, allowed is one of its").into()
        );
    }
    set_taints(world, &name, taints).await
}

async fn taints(world: &mut World, name: &str) -> anyhow::Result<Vec<Value>> {
    known(world, "node", name).await?;
    let node = world.view.get(Kind::Nodes, name);
    let node = node.ok_or_else(|| anyhow!("there is no node {name:?} any more"))?;
    Ok(node["spec"]["taints"].as_array().cloned().unwrap_or_default())
}

async fn set_taints(world: &mut World, name: &str, taints: Vec<Value>) -> StepResult {
    let patch = json!({"spec": {"taints": taints}});
    change(world, name, &patch).await
}

/// Sets a node's label.
/// ```gherkin
/// When the label "rack" of node "node-1" becomes "r2"
/// ```
#[given(expr = "the label {string} of node {string} becomes {string}")]
#[when(expr = "the label {string} of node {string} becomes {string}")]
async fn label(world: &mut World, key: String, name: String, value: String) -> StepResult {
    let patch = json!({"metadata": {"labels": {key: value}}});
    change(world, &name, &patch).await
}
