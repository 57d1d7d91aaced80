//! Queues.

use cucumber::{given, when};
use gherkin::Step;
use schedlab_api::json;

use super::StepResult;
use super::parameters::{QueueAmount, QueueField};
use super::unknown_names::require_known_name;
use crate::world::World;
use crate::world::manifests::{
    ManifestDocument, QUEUE_COLUMNS, QueueTree, queue_field_patch, queue_from_row,
};

const QUEUES_PATH: &str = "/apis/scheduling.run.ai/v2/queues";

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
async fn queues_exist(world: &mut World, step: &Step) -> StepResult {
    let queues =
        world.objects_from_table(step, QUEUE_COLUMNS, &|row| Ok(vec![queue_from_row(row)?]))?;
    let tree = queue_tree_with(world, queues.iter()).await?;
    world.table_rows(step, QUEUE_COLUMNS)?.rows.iter().try_for_each(|row| tree.check_row(row))?;
    world.submit(queues).await?;
    Ok(())
}

/// The tree of the existing queues and of `queues`.
async fn queue_tree_with(
    world: &World,
    queues: impl Iterator<Item = &ManifestDocument>,
) -> anyhow::Result<QueueTree> {
    let there =
        world.api.get(QUEUES_PATH).await.map_err(schedlab_clusters::api::to_anyhow_error)?;
    let mut tree = QueueTree::from_queues(there["items"].as_array().map_or(&[], Vec::as_slice));
    for queue in queues {
        tree.add_queue(&queue.object);
    }
    Ok(tree)
}

/// Rejects a manifest that contains a queue whose parent does not exist or is a descendant of the
/// queue.
pub(super) async fn check_queue_tree(
    world: &World,
    documents: &[ManifestDocument],
) -> anyhow::Result<()> {
    let queues = documents.iter().filter(|document| {
        let of = |field: &str| document.object[field].as_str().unwrap_or_default();
        of("kind") == "Queue" && of("apiVersion").starts_with("scheduling.run.ai/")
    });
    if queues.clone().next().is_none() {
        return Ok(());
    }
    let tree = queue_tree_with(world, queues.clone()).await?;
    queues.into_iter().try_for_each(|queue| tree.check_document(queue)).map_err(anyhow::Error::msg)
}

/// Creates one queue with this GPU quota, weight 1 and no limit.
/// ```gherkin
/// Given a queue "team-a" with a quota of 8
/// ```
#[given(expr = "a queue {string} with a quota of {amount}")]
#[when(expr = "a queue {string} with a quota of {amount} is created")]
async fn queue_with_quota_exists(
    world: &mut World,
    name: String,
    quota: QueueAmount,
) -> StepResult {
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
async fn queue_field_becomes(
    world: &mut World,
    field: QueueField,
    name: String,
    to: QueueAmount,
) -> StepResult {
    let row = world.inline_row(&[(&field.0, &to.0)]);
    let patch = queue_field_patch(&row, &field.0)?;
    require_known_name(world, "queue", &name).await?;
    world.patch_requiring_change(&format!("{QUEUES_PATH}/{name}"), &patch).await?;
    Ok(())
}

/// Moves a queue below another parent.
/// ```gherkin
/// When queue "team-a" moves under "department-2"
/// ```
#[when(expr = "queue {string} moves under {string}")]
async fn queue_moves_below(world: &mut World, name: String, parent: String) -> StepResult {
    let patch = json!({"spec": {"parentQueue": parent}});
    require_known_name(world, "queue", &name).await?;
    require_known_name(world, "queue", &parent).await?;
    let mut tree = queue_tree_with(world, [].iter()).await?;
    tree.add_queue(&json!({"metadata": {"name": name}, "spec": patch["spec"]}));
    let row = world.inline_row(&[("queue", &name), ("parent", &parent)]);
    tree.check_row(&row)?;
    world.patch_requiring_change(&format!("{QUEUES_PATH}/{name}"), &patch).await?;
    Ok(())
}

/// Sets a queue's label.
/// ```gherkin
/// Given the label "kai.scheduler/node-pool" of queue "team-a" becomes "a100"
/// ```
#[given(expr = "the label {string} of queue {string} becomes {string}")]
#[when(expr = "the label {string} of queue {string} becomes {string}")]
async fn queue_is_labelled(
    world: &mut World,
    key: String,
    name: String,
    value: String,
) -> StepResult {
    require_known_name(world, "queue", &name).await?;
    let patch = json!({"metadata": {"labels": {key: value}}});
    world.patch_requiring_change(&format!("{QUEUES_PATH}/{name}"), &patch).await?;
    Ok(())
}

/// Deletes a queue; its pods stay.
/// ```gherkin
/// When queue "team-a" is deleted
/// ```
#[when(expr = "queue {string} is deleted")]
async fn queue_is_deleted(world: &mut World, name: String) -> StepResult {
    require_known_name(world, "queue", &name).await?;
    world.delete_object(&format!("{QUEUES_PATH}/{name}")).await?;
    Ok(())
}
