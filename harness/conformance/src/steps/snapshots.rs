//! Views of the cluster that a person reviews, compared with one snapshot file per scenario:
//! `snapshots/<area>/<feature>__<scenario>.snap`.

use cucumber::then;

use super::StepResult;
use crate::render::{ClusterObjects, FairShares, event_stream, placement_text};
use crate::world::observed::{ObservedCluster, WatchedKind};
use crate::world::{Temporal, World};

/// The placement, once everything has settled, is that of the snapshot: nodes with their GPUs, and
/// queues with quota, fair share and usage.
/// Snapshot: nothing else.
/// ```gherkin
/// Then the placement matches its snapshot
/// ```
#[then(expr = "the placement matches its snapshot")]
async fn placement_matches(world: &mut World) -> StepResult {
    world.expect(Temporal::Settled, 0, &|_| Ok(())).await?;
    let text = placement_text_of_world(world);
    world.add_snapshot_part("placement", &text);
    Ok(())
}

/// The placement at this moment, without settling first, is that of the snapshot.
/// Snapshot: nothing else.
/// ```gherkin
/// Then now the placement matches its snapshot
/// ```
#[then(expr = "now the placement matches its snapshot")]
async fn placement_matches_without_waiting(world: &mut World) -> StepResult {
    world.expect(Temporal::Now, 0, &|_| Ok(())).await?;
    let text = placement_text_of_world(world);
    world.add_snapshot_part("placement", &text);
    Ok(())
}

/// All events since the start of the scenario, once everything has settled, are those of the
/// snapshot: one event a line, with time and cause.
/// Snapshot: nothing else.
/// ```gherkin
/// Then the events match their snapshot
/// ```
#[then(expr = "the events match their snapshot")]
async fn events_match(world: &mut World) -> StepResult {
    world.expect(Temporal::Settled, 0, &|_| Ok(())).await?;
    let text = event_stream(&world.write_log(), world.start_time());
    world.add_snapshot_part("events", &text);
    Ok(())
}

fn placement_text_of_world(world: &World) -> String {
    let view = &world.view;
    let (nodes, pods) =
        (objects_of_kind(view, WatchedKind::Nodes), objects_of_kind(view, WatchedKind::Pods));
    let (queues, pod_groups) =
        (objects_of_kind(view, WatchedKind::Queues), objects_of_kind(view, WatchedKind::PodGroups));
    let cluster =
        ClusterObjects { nodes: &nodes, pods: &pods, queues: &queues, pod_groups: &pod_groups };
    placement_text(cluster, &fair_shares_by_queue(world))
}

fn objects_of_kind(view: &ObservedCluster, kind: WatchedKind) -> Vec<&schedlab_api::Value> {
    view.objects_of_kind(kind).collect()
}

/// The fair shares of all queues in GPUs, as the scheduler last computed them.
fn fair_shares_by_queue(world: &World) -> FairShares {
    let status = world.scheduler_progress();
    #[expect(clippy::cast_precision_loss, reason = "GPUs of a cluster stay far below 2^53")]
    let gpus = |milli: i64| milli as f64 / 1000.0;
    let shares = status.queues.iter();
    shares.map(|queue| (queue.name.to_string(), gpus(queue.fair_share.gpu))).collect()
}
