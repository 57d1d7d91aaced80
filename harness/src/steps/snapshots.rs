//! What is shown for a person's eye and compared with the reviewed snapshot, one file a
//! scenario: `snapshots/<area>/<feature>__<scenario>.snap`.

use cucumber::then;

use super::StepResult;
use crate::snapshots::{Cluster, FairShares, event_stream, placement};
use crate::view::{Kind, View};
use crate::world::{TimeWord, World};

/// Where everything runs, once it has settled: nodes with their GPUs, and queues with quota,
/// fair share and use.
/// ```gherkin
/// Then the placement matches its snapshot
/// ```
#[then(expr = "the placement matches its snapshot")]
async fn placement_matches(world: &mut World) -> StepResult {
    world.expect(TimeWord::Settled, 0, &|_| Ok(())).await?;
    let text = placement_text(world);
    world.show("placement", &text);
    Ok(())
}

/// The same at this very moment.
/// ```gherkin
/// Then now the placement matches its snapshot
/// ```
#[then(expr = "now the placement matches its snapshot")]
async fn placement_matches_now(world: &mut World) -> StepResult {
    world.expect(TimeWord::Now, 0, &|_| Ok(())).await?;
    let text = placement_text(world);
    world.show("placement", &text);
    Ok(())
}

/// What happened since the beginning, once everything has settled: one event a line, with time
/// and cause.
/// ```gherkin
/// Then the events match their snapshot
/// ```
#[then(expr = "the events match their snapshot")]
async fn events_match(world: &mut World) -> StepResult {
    world.expect(TimeWord::Settled, 0, &|_| Ok(())).await?;
    let text = event_stream(&world.log(), world.born());
    world.show("events", &text);
    Ok(())
}

fn placement_text(world: &World) -> String {
    let view = &world.view;
    let (nodes, pods) = (all(view, Kind::Nodes), all(view, Kind::Pods));
    let (queues, pod_groups) = (all(view, Kind::Queues), all(view, Kind::PodGroups));
    let cluster = Cluster { nodes: &nodes, pods: &pods, queues: &queues, pod_groups: &pod_groups };
    placement(cluster, &fair_shares(world))
}

fn all(view: &View, kind: Kind) -> Vec<&schedlab_json::Value> {
    view.all(kind).collect()
}

/// Fair shares in GPUs.
fn fair_shares(world: &World) -> FairShares {
    let status = world.scheduler_status();
    #[expect(clippy::cast_precision_loss, reason = "GPUs of a cluster stay far below 2^53")]
    let gpus = |milli: i64| milli as f64 / 1000.0;
    let shares = status.queues.iter();
    shares.map(|queue| (queue.name.to_string(), gpus(queue.fair_share.gpu))).collect()
}
