//! Queues.

use cucumber::{given, when};
use gherkin::Step;
use schedlab_api::json;

use super::StepResult;
use super::parameters::{QueueAmount, QueueField};
use super::unknown_names::require_known;
use crate::world::World;
use crate::world::manifests::{
    Document, QUEUE_COLUMNS, QueueTree, queue_field_patch, queue_from_row,
};

const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";

/// Creates queues. Omitted columns: GPU quota 0, weight 1, no limit; CPU and memory are unlimited.
/// Units: GPUs, CPU cores, GB; `unlimited` is -1, `unset` omits the field. Columns: queue, parent,
/// quota, weight, limit, priority, cpu quota, cpu weight, cpu limit, memory quota, memory weight,
/// memory limit, reclaim min runtime, preempt min runtime.
/// ```gherkin
/// Given these queues:
///   | queue      | parent     | quota | weight | limit |
///   | ai-factory |            | 32    |        |       |
///   | team-a     | ai-factory | 16    | 1      | 24    |
/// ```
#[given(expr = "these queues:")]
#[when(expr = "these queues are created:")]
async fn queues(world: &mut World, step: &Step) -> StepResult {
    let queues =
        world.objects_from_table(step, QUEUE_COLUMNS, &|row| Ok(vec![queue_from_row(row)?]))?;
    let tree = tree_with(world, queues.iter()).await?;
    world.rows(step, QUEUE_COLUMNS)?.rows.iter().try_for_each(|row| tree.check(row))?;
    world.submit(queues).await?;
    Ok(())
}

/// The queues of the cluster, and these.
async fn tree_with(
    world: &World,
    queues: impl Iterator<Item = &Document>,
) -> anyhow::Result<QueueTree> {
    let there = world.api.get(QUEUES).await.map_err(schedlab_clusters::api::api_error)?;
    let mut tree = QueueTree::from_queues(there["items"].as_array().map_or(&[], Vec::as_slice));
    for queue in queues {
        tree.add(&queue.object);
    }
    Ok(tree)
}

/// Rejects a file with a queue whose parent does not exist or leads back to it.
pub(super) async fn check_tree(world: &World, documents: &[Document]) -> anyhow::Result<()> {
    let queues = documents.iter().filter(|document| {
        let of = |field: &str| document.object[field].as_str().unwrap_or_default();
        of("kind") == "Queue" && of("apiVersion").starts_with("scheduling.run.ai/")
    });
    if queues.clone().next().is_none() {
        return Ok(());
    }
    let tree = tree_with(world, queues.clone()).await?;
    queues.into_iter().try_for_each(|queue| tree.check_document(queue)).map_err(anyhow::Error::msg)
}

/// Creates one queue with this GPU quota, weight 1 and no limit.
/// ```gherkin
/// Given a queue "team-a" with a quota of 8
/// ```
#[given(expr = "a queue {string} with a quota of {amount}")]
#[when(expr = "a queue {string} with a quota of {amount} is created")]
async fn one_queue(world: &mut World, name: String, quota: QueueAmount) -> StepResult {
    let row = world.inline_row(&[("queue", &name), ("quota", &quota.0)]);
    let queue = world.inline_documents(vec![queue_from_row(&row)?]);
    world.submit(queue).await?;
    Ok(())
}

/// Changes one field of a queue: quota, weight, limit, priority, cpu quota …
/// ```gherkin
/// When the quota of queue "team-a" becomes 16
/// ```
#[when(expr = "the {field} of queue {string} becomes {amount}")]
async fn field_becomes(
    world: &mut World,
    field: QueueField,
    name: String,
    to: QueueAmount,
) -> StepResult {
    let row = world.inline_row(&[(&field.0, &to.0)]);
    let patch = queue_field_patch(&row, &field.0)?;
    require_known(world, "queue", &name).await?;
    world.patch_requiring_change(&format!("{QUEUES}/{name}"), &patch).await?;
    Ok(())
}

/// Moves a queue below another parent.
/// ```gherkin
/// When queue "team-a" moves under "department-2"
/// ```
#[when(expr = "queue {string} moves under {string}")]
async fn moves(world: &mut World, name: String, parent: String) -> StepResult {
    let patch = json!({"spec": {"parentQueue": parent}});
    require_known(world, "queue", &name).await?;
    require_known(world, "queue", &parent).await?;
    let mut tree = tree_with(world, [].iter()).await?;
    tree.add(&json!({"metadata": {"name": name}, "spec": patch["spec"]}));
    let row = world.inline_row(&[("queue", &name), ("parent", &parent)]);
    tree.check(&row)?;
    world.patch_requiring_change(&format!("{QUEUES}/{name}"), &patch).await?;
    Ok(())
}

/// Sets a queue's label.
/// ```gherkin
/// Given the label "kai.scheduler/node-pool" of queue "team-a" becomes "a100"
/// ```
#[given(expr = "the label {string} of queue {string} becomes {string}")]
#[when(expr = "the label {string} of queue {string} becomes {string}")]
async fn label(world: &mut World, key: String, name: String, value: String) -> StepResult {
    require_known(world, "queue", &name).await?;
    let patch = json!({"metadata": {"labels": {key: value}}});
    world.patch_requiring_change(&format!("{QUEUES}/{name}"), &patch).await?;
    Ok(())
}

/// Deletes a queue; its pods stay.
/// ```gherkin
/// When queue "team-a" is deleted
/// ```
#[when(expr = "queue {string} is deleted")]
async fn deleted(world: &mut World, name: String) -> StepResult {
    require_known(world, "queue", &name).await?;
    world.delete(&format!("{QUEUES}/{name}")).await?;
    Ok(())
}
