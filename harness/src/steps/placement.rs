//! Where pods are, and what is left on nodes.

use std::collections::BTreeSet;

use anyhow::anyhow;
use cucumber::{given, then};
use schedlab_emulator::quantity::thousandths;

use super::StepResult;
use super::parameters::{Condition, Count, Stays, When};
use super::subjects::Workload;
use super::usage::gpus_claimed;
use crate::audit::{reserves, shared_devices};
use crate::view::{Kind, Pod, View};
use crate::world::{TimeWord, World};

/// Every pod of the workload that has a node is on this one, and there is at least one.
/// ```gherkin
/// Then pod "a" is on node "node-1"
/// ```
#[then(expr = "{when}{workload} is on node {string}{stays}")]
async fn on_node(
    world: &mut World,
    when: When,
    which: Workload,
    node: String,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| {
        let nodes = nodes_of(&world.view, &which);
        let only = nodes.len() == 1 && nodes.contains(node.as_str());
        if only { Ok(()) } else { Err(format!("{which} is on {}", named(&nodes))) }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// No pod of the workload is on this node.
/// ```gherkin
/// Then pod "a" is not on node "node-1"
/// ```
#[then(expr = "{when}{workload} is not on node {string}{stays}")]
async fn not_on_node(
    world: &mut World,
    when: When,
    which: Workload,
    node: String,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| {
        let nodes = nodes_of(&world.view, &which);
        if nodes.contains(node.as_str()) {
            Err(format!("{which} is on {}", named(&nodes)))
        } else {
            Ok(())
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// The workload's pods are on so many different nodes.
/// ```gherkin
/// Then deployment "web" is on 4 nodes
/// ```
#[then(expr = "{when}{workload} is on {count} node(s){stays}")]
async fn on_nodes(
    world: &mut World,
    when: When,
    which: Workload,
    count: Count,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| {
        let nodes = nodes_of(&world.view, &which);
        if count.means(nodes.len()) {
            Ok(())
        } else {
            Err(format!("{which} is on {}", named(&nodes)))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// The same as a starting point: everything settles, and then this must hold.
/// ```gherkin
/// Given pod "filler" is on 4 nodes
/// ```
#[given(expr = "{workload} is on {count} node(s)")]
async fn stands_on(world: &mut World, which: Workload, count: Count) -> StepResult {
    on_nodes(world, When(TimeWord::Settled), which, count, Stays(0)).await
}

/// The nodes of the workload's pods have so many different values of a label.
/// ```gherkin
/// Then gang "train" is within 1 "rack"
/// ```
#[then(expr = "{when}{workload} is within {count} {string}{stays}")]
#[expect(clippy::too_many_arguments, reason = "one for each value in the sentence")]
async fn within(
    world: &mut World,
    when: When,
    which: Workload,
    count: Count,
    label: String,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| {
        let view = &world.view;
        if !view.all(Kind::Nodes).any(|node| node["metadata"]["labels"].get(&label).is_some()) {
            return Err(format!("no node has a label {label:?}"));
        }
        let values = domains(view, &which, &label)?;
        if count.means(values.len()) {
            Ok(())
        } else {
            Err(format!("{which} is in {label} {}", named(&values)))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    let mut nodes = world.view.ever(Kind::Nodes);
    let was_there = nodes.any(|node| node["metadata"]["labels"].get(&label).is_some());
    if was_there {
        Ok(())
    } else {
        Err(anyhow!("no node ever had a label {label:?}: nothing is within one").into())
    }
}

/// On so many nodes no pod holds a GPU, a part of one, or one by a claim.
/// ```gherkin
/// Then 2 nodes have no GPU in use
/// ```
#[then(expr = "{when}{count} node(s) has/have no GPU in use{stays}")]
async fn empty(world: &mut World, when: When, count: Count, stays: Stays) -> StepResult {
    let claim = |world: &World| {
        let view = &world.view;
        let free: Vec<&str> = node_names(view)
            .filter(|node| gpus_used(view, node) == 0 && !has_gpus_by_claim(view, node))
            .collect();
        if count.means(free.len()) {
            Ok(())
        } else {
            Err(format!("nodes with no GPU in use: {} ({})", free.len(), free.join(", ")))
        }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// GPUs of a node that no pod holds.
/// ```gherkin
/// Then node "node-1" has 3 free GPUs
/// ```
#[then(expr = "{when}node {string} has {count} free GPU(s){stays}")]
async fn free(
    world: &mut World,
    when: When,
    node: String,
    count: Count,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| free_gpus(&world.view, &node).and_then(|free| enough(free, count));
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// GPUs of all nodes that no pod holds.
/// ```gherkin
/// Then 8 GPUs are free
/// ```
#[then(expr = "{when}{count} GPU(s) is/are free{stays}")]
async fn free_in_all(world: &mut World, when: When, count: Count, stays: Stays) -> StepResult {
    let claim = |world: &World| {
        let free = node_names(&world.view).map(|node| free_gpus(&world.view, node));
        enough(free.sum::<Result<i128, String>>()?, count)
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

/// A node is `ready`, `not ready` (it is there and does not answer), `cordoned` or `gone`.
/// ```gherkin
/// Then eventually within 2 minutes node "node-1" is not ready
/// ```
#[then(expr = "{when}node {string} is {condition}{stays}")]
async fn node_state(
    world: &mut World,
    when: When,
    node: String,
    wanted: Condition,
    stays: Stays,
) -> StepResult {
    let claim = |world: &World| {
        let object = world.view.get(Kind::Nodes, &node);
        let lives = world.view.node_lives(&node);
        let holds = match wanted {
            Condition::Ready => lives,
            Condition::NotReady => object.is_some() && !lives,
            Condition::Cordoned => object.is_some_and(|o| o["spec"]["unschedulable"] == true),
            Condition::Gone => object.is_none(),
        };
        let found = match (object, lives) {
            (None, _) => "gone",
            (Some(_), true) => "ready",
            (Some(_), false) => "not ready",
        };
        if holds { Ok(()) } else { Err(format!("node {node:?} is {found}, expected {wanted}")) }
    };
    world.expect(when.0, stays.0, &claim).await?;
    Ok(())
}

fn nodes_of<'v>(view: &'v View, which: &Workload) -> BTreeSet<&'v str> {
    which.pods(view).into_iter().filter(|pod| pod.holds_room()).map(Pod::node).collect()
}

/// The values of a label of the nodes that a workload's pods are on, each of which has it.
fn domains<'v>(view: &'v View, which: &Workload, label: &str) -> Result<BTreeSet<&'v str>, String> {
    let value = |pod: Pod<'v>| {
        let mut nodes = view.ever(Kind::Nodes);
        let node = nodes.find(|node| node["metadata"]["name"] == *pod.node());
        node.and_then(|node| node["metadata"]["labels"][label].as_str()).ok_or_else(|| {
            let (pod, node) = (pod.name(), pod.node());
            format!("pod {pod:?} is on node {node:?}, which has no label {label:?}")
        })
    };
    which.pods(view).into_iter().filter(|pod| pod.holds_room()).map(value).collect()
}

fn named(names: &BTreeSet<&str>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

fn node_names(view: &View) -> impl Iterator<Item = &str> {
    view.all(Kind::Nodes).filter_map(|node| node["metadata"]["name"].as_str())
}

/// In thousandths; a device that pods share is in use as a whole.
fn gpus_used(view: &View, node: &str) -> i128 {
    let pods = || view.pods().filter(|pod| pod.node() == node && pod.holds_room());
    let whole: i128 = pods().filter(|pod| !reserves(pod.0)).map(Pod::gpu_milli).sum();
    let shared: BTreeSet<&str> = pods().flat_map(|pod| shared_devices(pod.0)).collect();
    whole + 1000 * i128::try_from(shared.len()).expect("fewer devices than that")
}

fn has_gpus_by_claim(view: &View, node: &str) -> bool {
    let mut pods = view.pods().filter(|pod| pod.node() == node && pod.holds_room());
    pods.any(|pod| gpus_claimed(view, &[pod]) > 0)
}

fn free_gpus(view: &View, node: &str) -> Result<i128, String> {
    let object = view.get(Kind::Nodes, node).ok_or_else(|| format!("there is no node {node:?}"))?;
    let all = thousandths(&object["status"]["allocatable"]["nvidia.com/gpu"]).unwrap_or(0);
    Ok((all - gpus_used(view, node)) / 1000)
}

fn enough(free: i128, count: Count) -> Result<(), String> {
    let free = usize::try_from(free).map_err(|_| format!("{free} GPUs are free"))?;
    if count.means(free) {
        Ok(())
    } else {
        Err(format!("expected {count} free GPUs, found {free}"))
    }
}
