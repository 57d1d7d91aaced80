//! Nodes and fleets.

use cucumber::{given, when};
use gherkin::Step;
use schedlab_api::Value;
use schedlab_emulator::{Fleet, FleetLocation};

use super::StepResult;
use crate::world::World;
use crate::world::manifests::{FLEET_COLUMNS, ManifestDocument, SourceLocation, nodes_from_row};

/// Nodes `node-1`, `node-2` … with this number of GPUs each and ample CPU and memory.
/// ```gherkin
/// Given a fleet of 4 nodes with 8 GPUs each
/// ```
#[given(expr = "a fleet of {int} node(s) with {int} GPU(s) each")]
async fn nodes_with_gpus_exist(world: &mut World, nodes: String, gpus: String) -> StepResult {
    let row = world.inline_row(&[("nodes", &nodes), ("gpus", &gpus)]);
    let nodes = world.inline_documents(nodes_from_row(&row)?);
    world.submit(nodes).await?;
    Ok(())
}

/// Pools of identical nodes, named `<pool>-1`, `<pool>-2` …; without a node count, one node with
/// the pool's name. Columns: pool, nodes, gpus, gpu model, gpu memory, gpus by (plugin: pods request
/// `nvidia.com/gpu`; claim: a driver publishes devices of class `gpu.nvidia.com` for resource
/// claims), cpu, memory, pods, labels (`key=value, …`), taints (`key=value:NoSchedule, …`).
/// ```gherkin
/// Given a fleet:
///   | pool | nodes | gpus | labels  | taints              |
///   | h100 | 2     | 8    | rack=r1 | gpu=true:NoSchedule |
///   | cpu  | 1     | 0    | rack=r2 |                     |
/// ```
#[given(expr = "a fleet:")]
async fn node_pools_exist(world: &mut World, step: &Step) -> StepResult {
    let nodes = world.objects_from_table(step, FLEET_COLUMNS, &nodes_from_row)?;
    world.submit(nodes).await?;
    Ok(())
}

/// A fleet from a file under fixtures/, in the fleet format (pools with counts, models, topology).
/// ```gherkin
/// Given the fleet "fleets/lab.yaml"
/// ```
#[given(expr = "the fleet {string}")]
async fn nodes_of_fleet_file_exist(world: &mut World, file: String) -> StepResult {
    let (path, text) = world.fixture_text(&file)?;
    let fleet = Fleet::parse(&path, &text)?;
    let document = |(node, location): (&Value, &FleetLocation)| ManifestDocument {
        location: SourceLocation::Fleet(location.clone()),
        object: node.clone(),
    };
    world.submit(fleet.nodes_with_locations().map(document).collect()).await?;
    Ok(())
}

/// Adds one node.
/// ```gherkin
/// When a node "node-9" with 8 GPUs is added
/// ```
#[given(expr = "a node {string} with {int} GPU(s) is added")]
#[when(expr = "a node {string} with {int} GPU(s) is added")]
async fn node_with_gpus_exists(world: &mut World, name: String, gpus: u32) -> StepResult {
    let gpus = gpus.to_string();
    let row = world.inline_row(&[("pool", &name), ("gpus", &gpus)]);
    let node = world.inline_documents(nodes_from_row(&row)?);
    world.submit(node).await?;
    Ok(())
}
