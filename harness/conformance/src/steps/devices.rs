//! Devices of nodes that become unhealthy.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use cucumber::{given, when};
use schedlab_api::{Value, annotations, json, object, resources};

use super::StepResult;
use super::unknown_names::require_known_name;
use crate::text::counted_noun;
use crate::world::World;
use crate::world::observed::WatchedKind;

/// A GPU of a node becomes unhealthy, by its index. The GPUs of a device plugin fall out of the
/// node's allocatable ones while its capacity stays; a published device is withdrawn. As with the
/// kubelet, a pod that has the GPU keeps running.
/// ```gherkin
/// When GPU 0 of node "node-1" becomes unhealthy
/// ```
#[given(expr = "GPU {int} of node {string} becomes unhealthy")]
#[when(expr = "GPU {int} of node {string} becomes unhealthy")]
async fn gpu_becomes_unhealthy(world: &mut World, index: u64, node_name: String) -> StepResult {
    let mut gpus = GpuHealth::read_from_node(world, &node_name).await?;
    gpus.withdraw_gpu(index)?;
    gpus.write_to_node(world).await?;
    Ok(())
}

/// This number of a node's healthy GPUs becomes unhealthy, the first ones.
/// ```gherkin
/// When 2 GPUs of node "node-1" become unhealthy
/// ```
#[given(expr = "{int} GPU(s) of node {string} become(s) unhealthy")]
#[when(expr = "{int} GPU(s) of node {string} become(s) unhealthy")]
async fn gpus_become_unhealthy(world: &mut World, count: usize, node_name: String) -> StepResult {
    let mut gpus = GpuHealth::read_from_node(world, &node_name).await?;
    gpus.withdraw_first_gpus(count)?;
    gpus.write_to_node(world).await?;
    Ok(())
}

/// An unhealthy GPU of a node works again.
/// ```gherkin
/// When GPU 0 of node "node-1" becomes healthy
/// ```
#[when(expr = "GPU {int} of node {string} becomes healthy")]
async fn gpu_becomes_healthy(world: &mut World, index: u64, node_name: String) -> StepResult {
    let mut gpus = GpuHealth::read_from_node(world, &node_name).await?;
    gpus.restore_gpu(index)?;
    gpus.write_to_node(world).await?;
    Ok(())
}

/// The GPUs of a node and which of them are unhealthy.
struct GpuHealth {
    node: String,
    count: u64,
    unhealthy: BTreeSet<u64>,
}

impl GpuHealth {
    async fn read_from_node(world: &mut World, name: &str) -> anyhow::Result<Self> {
        require_known_name(world, "node", name).await?;
        let node = world.view.get(WatchedKind::Nodes, name);
        let node = node.with_context(|| format!("node {name:?} no longer exists"))?;
        let unhealthy = object::annotation(node, annotations::UNHEALTHY_GPUS).unwrap_or_default();
        Ok(Self {
            node: name.to_owned(),
            count: gpu_count(node),
            unhealthy: unhealthy.split(',').filter_map(|index| index.parse().ok()).collect(),
        })
    }

    fn withdraw_gpu(&mut self, index: u64) -> anyhow::Result<()> {
        self.require_gpu_index(index)?;
        let is_new = self.unhealthy.insert(index);
        ensure!(is_new, "GPU {index} of node {:?} is unhealthy already", self.node);
        Ok(())
    }

    fn withdraw_first_gpus(&mut self, count: usize) -> anyhow::Result<()> {
        let mut healthy: Vec<u64> = (0..self.count).collect();
        healthy.retain(|index| !self.unhealthy.contains(index));
        let (node, all) = (&self.node, healthy.len());
        let has = counted_noun(all, "healthy GPU");
        ensure!(count > 0, "got 0 GPUs, expected 1 or more");
        ensure!(count <= all, "got {count} GPUs, expected at most {all}: node {node:?} has {has}");
        self.unhealthy.extend(healthy.into_iter().take(count));
        Ok(())
    }

    fn restore_gpu(&mut self, index: u64) -> anyhow::Result<()> {
        self.require_gpu_index(index)?;
        let was_unhealthy = self.unhealthy.remove(&index);
        ensure!(was_unhealthy, "GPU {index} of node {:?} is not unhealthy", self.node);
        Ok(())
    }

    fn require_gpu_index(&self, index: u64) -> anyhow::Result<()> {
        let node = &self.node;
        match self.count.checked_sub(1) {
            None => bail!("got GPU {index}, but node {node:?} has no GPUs"),
            Some(last) if index > last => {
                bail!("got GPU {index}, expected from 0 to {last}: the GPUs of node {node:?}")
            }
            Some(_) => Ok(()),
        }
    }

    async fn write_to_node(&self, world: &mut World) -> anyhow::Result<()> {
        let all: Vec<String> = self.unhealthy.iter().map(u64::to_string).collect();
        let changed = json!({(annotations::UNHEALTHY_GPUS): all.join(",")});
        let patch = json!({"metadata": {"annotations": changed}});
        world.patch_requiring_change(&format!("/api/v1/nodes/{}", self.node), &patch).await
    }
}

/// The number of GPUs that a node has from a device plugin, or else from published devices.
fn gpu_count(node: &Value) -> u64 {
    let plugged = object::text(node, &["status", "capacity", resources::GPU]);
    let published = object::annotation(node, annotations::PUBLISHED_GPUS);
    plugged.parse().ok().or_else(|| published?.parse().ok()).unwrap_or(0)
}
