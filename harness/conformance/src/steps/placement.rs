//! Placement of pods, and free capacity of nodes.

use std::collections::BTreeSet;

use anyhow::anyhow;
use cucumber::{given, then};
use schedlab_api::{quantity::thousandths, resources};
use schedlab_audit::{is_reservation_pod, shared_device_names};

use super::StepResult;
use super::parameters::{Count, NodeState, StableCycles, Timing};
use super::subjects::Workload;
use super::usage::claimed_gpu_milli;
use crate::text::counted_noun;
use crate::world::observed::{ObservedCluster, Pod, WatchedKind};
use crate::world::{Temporal, World};

/// Every pod of the workload that has a node is on this node, and at least one has a node.
/// ```gherkin
/// Then pod "a" is on node "node-1"
/// ```
#[then(expr = "{when}{workload} is on node {string}{stays}")]
async fn pods_are_on_node(
    world: &mut World,
    when: Timing,
    which: Workload,
    node: String,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let nodes = nodes_of_workload(&world.view, &which);
        let only = nodes.len() == 1 && nodes.contains(node.as_str());
        if only { Ok(()) } else { Err(format!("{which} is on {}", joined_names(&nodes))) }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// No pod of the workload is on this node.
/// ```gherkin
/// Then pod "a" is not on node "node-1"
/// ```
#[then(expr = "{when}{workload} is not on node {string}{stays}")]
async fn pods_are_not_on_node(
    world: &mut World,
    when: Timing,
    which: Workload,
    node: String,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let nodes = nodes_of_workload(&world.view, &which);
        if nodes.contains(node.as_str()) {
            Err(format!("{which} is on {}", joined_names(&nodes)))
        } else {
            Ok(())
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// The workload's pods are on this number of different nodes.
/// ```gherkin
/// Then deployment "web" is on 4 nodes
/// ```
#[then(expr = "{when}{workload} is on {count} node(s){stays}")]
async fn pods_are_on_nodes(
    world: &mut World,
    when: Timing,
    which: Workload,
    count: Count,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let nodes = nodes_of_workload(&world.view, &which);
        if count.matches(nodes.len()) {
            Ok(())
        } else {
            Err(format!("{which} is on {}", joined_names(&nodes)))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// Precondition: once everything has settled, the workload's pods must be on this number of nodes.
/// ```gherkin
/// Given pod "filler" is on 4 nodes
/// ```
#[given(expr = "{workload} is on {count} node(s)")]
async fn given_pods_stand_on_nodes(world: &mut World, which: Workload, count: Count) -> StepResult {
    pods_are_on_nodes(world, Timing(Temporal::Settled), which, count, StableCycles(0)).await
}

/// The nodes of the workload's pods have this number of different values of a label.
/// ```gherkin
/// Then gang "train" is within 1 "rack"
/// ```
#[then(expr = "{when}{workload} is within {count} {string}{stays}")]
async fn pods_are_within_domains(
    world: &mut World,
    when: Timing,
    which: Workload,
    count: Count,
    label: String,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let view = &world.view;
        if !view
            .objects_of_kind(WatchedKind::Nodes)
            .any(|node| node["metadata"]["labels"].get(&label).is_some())
        {
            return Err(format!("no node has a label {label:?}"));
        }
        let values = topology_domains(view, &which, &label)?;
        if count.matches(values.len()) {
            Ok(())
        } else {
            Err(format!("{which} is in {label} {}", joined_names(&values)))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    let mut nodes = world.view.objects_ever_seen(WatchedKind::Nodes);
    let was_there = nodes.any(|node| node["metadata"]["labels"].get(&label).is_some());
    if was_there { Ok(()) } else { Err(anyhow!("no node ever had a label {label:?}").into()) }
}

/// On this number of nodes no pod uses a GPU, a fraction of one, or one through a claim.
/// ```gherkin
/// Then 2 nodes have no GPU in use
/// ```
#[then(expr = "{when}{count} node(s) has/have no GPU in use{stays}")]
async fn nodes_have_no_gpu_in_use(
    world: &mut World,
    when: Timing,
    count: Count,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let view = &world.view;
        let free: Vec<&str> = node_names(view)
            .filter(|node| used_gpu_milli(view, node) == 0 && !has_claimed_gpus(view, node))
            .collect();
        if count.matches(free.len()) {
            Ok(())
        } else {
            let nodes = counted_noun(free.len(), "node");
            Err(format!("got {nodes} with no GPU in use ({}), expected {count}", free.join(", ")))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// The node has this number of GPUs that no pod uses.
/// ```gherkin
/// Then node "node-1" has 3 free GPUs
/// ```
#[then(expr = "{when}node {string} has {count} free GPU(s){stays}")]
async fn node_has_free_gpus(
    world: &mut World,
    when: Timing,
    node: String,
    count: Count,
    stays: StableCycles,
) -> StepResult {
    let claim =
        |world: &World| free_gpus(&world.view, &node).and_then(|free| check_free_gpus(free, count));
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// All nodes together have this number of GPUs that no pod uses.
/// ```gherkin
/// Then 8 GPUs are free
/// ```
#[then(expr = "{when}{count} GPU(s) is/are free{stays}")]
async fn nodes_have_free_gpus_in_all(
    world: &mut World,
    when: Timing,
    count: Count,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let free = node_names(&world.view).map(|node| free_gpus(&world.view, node));
        check_free_gpus(free.sum::<Result<i128, String>>()?, count)
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// A node is `ready`, `not ready` (it exists and sends no heartbeats), `cordoned` or `gone`.
/// ```gherkin
/// Then eventually within 2 minutes node "node-1" is not ready
/// ```
#[then(expr = "{when}node {string} is {condition}{stays}")]
async fn node_is_in_state(
    world: &mut World,
    when: Timing,
    node: String,
    expected: NodeState,
    stays: StableCycles,
) -> StepResult {
    let claim = |world: &World| {
        let object = world.view.get(WatchedKind::Nodes, &node);
        let lives = world.view.is_node_ready(&node);
        let holds = match expected {
            NodeState::Ready => lives,
            NodeState::NotReady => object.is_some() && !lives,
            NodeState::Cordoned => object.is_some_and(|o| o["spec"]["unschedulable"] == true),
            NodeState::Gone => object.is_none(),
        };
        let found = match (object, lives) {
            (None, _) => "gone",
            (Some(_), true) => "ready",
            (Some(_), false) => "not ready",
        };
        if holds { Ok(()) } else { Err(format!("node {node:?}: got {found}, expected {expected}")) }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

fn nodes_of_workload<'v>(view: &'v ObservedCluster, which: &Workload) -> BTreeSet<&'v str> {
    which.pods(view).into_iter().filter(|pod| pod.holds_resources()).map(Pod::node_name).collect()
}

/// The values of a label on the nodes of a workload's pods. Fails if one of the nodes lacks the
/// label.
fn topology_domains<'v>(
    view: &'v ObservedCluster,
    which: &Workload,
    label: &str,
) -> Result<BTreeSet<&'v str>, String> {
    let value = |pod: Pod<'v>| {
        let mut nodes = view.objects_ever_seen(WatchedKind::Nodes);
        let node = nodes.find(|node| node["metadata"]["name"] == *pod.node_name());
        node.and_then(|node| node["metadata"]["labels"][label].as_str()).ok_or_else(|| {
            let (pod, node) = (pod.pod_name(), pod.node_name());
            format!("pod {pod:?} is on node {node:?}, which has no label {label:?}")
        })
    };
    which.pods(view).into_iter().filter(|pod| pod.holds_resources()).map(value).collect()
}

fn joined_names(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

fn node_names(view: &ObservedCluster) -> impl Iterator<Item = &str> {
    view.objects_of_kind(WatchedKind::Nodes).filter_map(|node| node["metadata"]["name"].as_str())
}

/// GPUs of a node that pods use, in thousandths. A shared device counts as a whole one.
fn used_gpu_milli(view: &ObservedCluster, node: &str) -> i128 {
    let pods =
        || view.current_pods().filter(|pod| pod.node_name() == node && pod.holds_resources());
    let whole: i128 = pods().filter(|pod| !is_reservation_pod(pod.0)).map(Pod::gpu_milli).sum();
    let shared: BTreeSet<&str> = pods().flat_map(|pod| shared_device_names(pod.0)).collect();
    whole + 1000 * i128::try_from(shared.len()).expect("fewer devices than that")
}

fn has_claimed_gpus(view: &ObservedCluster, node: &str) -> bool {
    let mut pods =
        view.current_pods().filter(|pod| pod.node_name() == node && pod.holds_resources());
    pods.any(|pod| claimed_gpu_milli(view, &[pod]) > 0)
}

fn free_gpus(view: &ObservedCluster, node: &str) -> Result<i128, String> {
    let object =
        view.get(WatchedKind::Nodes, node).ok_or_else(|| format!("there is no node {node:?}"))?;
    let all = thousandths(&object["status"]["allocatable"][resources::GPU]).unwrap_or(0);
    Ok((all - used_gpu_milli(view, node)) / 1000)
}

fn check_free_gpus(free: i128, count: Count) -> Result<(), String> {
    let free = usize::try_from(free).map_err(|_| format!("{free} GPUs are free"))?;
    if count.matches(free) {
        Ok(())
    } else {
        Err(format!("got {}, expected {count}", counted_noun(free, "free GPU")))
    }
}
