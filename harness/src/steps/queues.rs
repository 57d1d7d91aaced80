//! Queues.

use cucumber::{given, when};
use gherkin::Step;
use schedlab_json::json;

use super::StepResult;
use super::parameters::{Amount, Field};
use super::strangers::known;
use crate::objects::{Document, QUEUE_COLUMNS, QueueTree, queue, set_queue_field};
use crate::world::World;

const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";

/// Queues. GPU quota is 0, weight 1 and the limit none where a row does not say; CPU and memory
/// are free. Amounts are GPUs, CPU cores, GB; `unlimited` is -1, `unset` leaves the field out.
/// Columns: queue, parent, quota, weight, limit, priority, cpu quota, cpu weight, cpu limit,
/// memory quota, memory weight, memory limit, reclaim min runtime, preempt min runtime.
/// ```gherkin
/// Given these queues:
///   | queue      | parent     | quota | weight | limit |
///   | ai-factory |            | 32    |        |       |
///   | team-a     | ai-factory | 16    | 1      | 24    |
/// ```
#[given(expr = "these queues:")]
#[when(expr = "these queues are created:")]
async fn queues(world: &mut World, step: &Step) -> StepResult {
    let queues = world.objects_of(step, QUEUE_COLUMNS, &|row| Ok(vec![queue(row)?]))?;
    let tree = tree_with(world, queues.iter()).await?;
    world.rows(step, QUEUE_COLUMNS)?.rows.iter().try_for_each(|row| tree.check(row))?;
    world.submit(queues).await?;
    Ok(())
}

/// The queues that are there, and these.
async fn tree_with(
    world: &World,
    queues: impl Iterator<Item = &Document>,
) -> anyhow::Result<QueueTree> {
    let there = world.api.get(QUEUES).await.map_err(crate::api::refusal)?;
    let mut tree = QueueTree::of(there["items"].as_array().map_or(&[], Vec::as_slice));
    for queue in queues {
        tree.add(&queue.object);
    }
    Ok(tree)
}

/// Tells the first queue of a file whose parent is nowhere, or leads back to it.
pub(super) async fn form_a_tree(world: &World, documents: &[Document]) -> anyhow::Result<()> {
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

/// One queue with this quota of GPUs, weight 1 and no limit.
/// ```gherkin
/// Given a queue "team-a" with a quota of 8
/// ```
#[given(expr = "a queue {string} with a quota of {amount}")]
#[when(expr = "a queue {string} with a quota of {amount} is created")]
async fn one_queue(world: &mut World, name: String, quota: Amount) -> StepResult {
    let row = world.sentence(&[("queue", &name), ("quota", &quota.0)]);
    let queue = world.written_here(vec![queue(&row)?]);
    world.submit(queue).await?;
    Ok(())
}

/// Changes one field of a queue: quota, weight, limit, priority, cpu quota …
/// ```gherkin
/// When the quota of queue "team-a" becomes 16
/// ```
#[when(expr = "the {field} of queue {string} becomes {amount}")]
async fn field_becomes(world: &mut World, field: Field, name: String, to: Amount) -> StepResult {
    let row = world.sentence(&[(&field.0, &to.0)]);
    let patch = set_queue_field(&row, &field.0)?;
    known(world, "queue", &name).await?;
    world.change(&format!("{QUEUES}/{name}"), &patch).await?;
    Ok(())
}

/// Gives a queue another parent.
/// ```gherkin
/// When queue "team-a" moves under "department-2"
/// ```
#[when(expr = "queue {string} moves under {string}")]
async fn moves(world: &mut World, name: String, parent: String) -> StepResult {
    let patch = json!({"spec": {"parentQueue": parent}});
    known(world, "queue", &name).await?;
    known(world, "queue", &parent).await?;
    let mut tree = tree_with(world, [].iter()).await?;
    tree.add(&json!({"metadata": {"name": name}, "spec": patch["spec"]}));
    let place = world.sentence(&[("queue", &name), ("parent", &parent)]);
    tree.check(&place)?;
    world.change(&format!("{QUEUES}/{name}"), &patch).await?;
    Ok(())
}

/// Sets a queue's label.
/// ```gherkin
/// Given the label "kai.scheduler/node-pool" of queue "team-a" becomes "a100"
/// ```
#[given(expr = "the label {string} of queue {string} becomes {string}")]
#[when(expr = "the label {string} of queue {string} becomes {string}")]
async fn label(world: &mut World, key: String, name: String, value: String) -> StepResult {
    known(world, "queue", &name).await?;
    let patch = json!({"metadata": {"labels": {key: value}}});
    world.change(&format!("{QUEUES}/{name}"), &patch).await?;
    Ok(())
}

/// Deletes a queue; its pods stay.
/// ```gherkin
/// When queue "team-a" is deleted
/// ```
#[when(expr = "queue {string} is deleted")]
async fn deleted(world: &mut World, name: String) -> StepResult {
    known(world, "queue", &name).await?;
    world.delete(&format!("{QUEUES}/{name}")).await?;
    Ok(())
}
