//! Kubernetes Events about a run's cluster-scoped objects. They are in the namespace `default` and
//! expire after an hour. The node controller writes them for each node, and an installed scheduler
//! for queues.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schedlab_api::{
    Value,
    pointer::{list, text},
};
use tokio::time::Instant;

use super::{objects, short_name_from_run_id};
use crate::api::{Api, to_anyhow_error};

/// The path of Events about cluster-scoped objects.
const EVENTS_PATH: &str = "/api/v1/namespaces/default/events";
/// How long the node controller may take to write `RemovingNode` for each node that has
/// `RegisteredNode`: it checks every five seconds.
const NODE_EVENTS_TIMEOUT: Duration = Duration::from_secs(15);
/// How often Events are listed.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How many DELETE requests run concurrently.
const CONCURRENT_DELETES: usize = 16;

/// Whether there are events about objects of a run.
pub(super) async fn has_events_of_run(api: &Api, run: &str) -> anyhow::Result<bool> {
    Ok(!events_of_run(api, run).await?.is_empty())
}

/// Deletes the events about objects of a run, after the objects were deleted. Waits for the events
/// that the node controller writes about the removal of nodes.
pub(super) async fn delete_events_of_run(api: &Api, run: &str) -> anyhow::Result<()> {
    let end = Instant::now() + NODE_EVENTS_TIMEOUT;
    let (mut came, mut went) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let events = events_of_run(api, run).await?;
        for one in &events {
            match one.reason.as_str() {
                "RegisteredNode" => came.insert(one.involved_name.clone()),
                "RemovingNode" => went.insert(one.involved_name.clone()),
                _ => false,
            };
        }
        let gone = stream::iter(events)
            .map(|one| async move { objects::delete_if_present(api, &one.path).await });
        gone.buffer_unordered(CONCURRENT_DELETES).try_collect::<()>().await?;
        if came.is_subset(&went) || Instant::now() >= end {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

struct RunEvent {
    involved_name: String,
    reason: String,
    path: String,
}

async fn events_of_run(api: &Api, run: &str) -> anyhow::Result<Vec<RunEvent>> {
    let found = api.get(EVENTS_PATH).await.map_err(to_anyhow_error).context(EVENTS_PATH)?;
    let name = short_name_from_run_id(run);
    let one = |event: &Value| {
        let field = |at: &str| text(event, at).unwrap_or_default().to_owned();
        let path = format!("{EVENTS_PATH}/{}", field("/metadata/name"));
        RunEvent { involved_name: field("/involvedObject/name"), reason: field("/reason"), path }
    };
    let all = list(&found, "/items").iter().map(one);
    // The node with which kwok is detected has the run's id in its name.
    Ok(all
        .filter(|events| {
            events.involved_name.starts_with(&name) || events.involved_name.contains(run)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::{Emulator, Options};

    use super::*;

    #[tokio::test]
    async fn only_events_about_objects_of_the_run_are_deleted() {
        let api = Api::new(Emulator::start(Options::with_clock(Clock::real())).client());
        let run = "20261125t231021-1234";
        let ours = short_name_from_run_id(run);
        for (name, kind, about) in [
            ("node", "Node", format!("{ours}x0-node-1")),
            ("queue", "Queue", format!("{ours}x0-training")),
            ("probe", "Node", format!("probe-{run}")),
            ("theirs", "Queue", "training".to_owned()),
        ] {
            let about = json!({"kind": kind, "name": about});
            let event = json!({"metadata": {"name": name}, "involvedObject": about});
            api.post(EVENTS_PATH, &event).await.unwrap();
        }
        assert!(has_events_of_run(&api, run).await.unwrap());
        delete_events_of_run(&api, run).await.unwrap();
        assert!(!has_events_of_run(&api, run).await.unwrap());
        let left = api.get(EVENTS_PATH).await.unwrap();
        let left = list(&left, "/items").iter().filter_map(|one| text(one, "/metadata/name"));
        assert_eq!(left.collect::<Vec<_>>(), ["theirs"]);
    }
}
