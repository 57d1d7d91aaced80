//! What others tell of a run's objects that have no namespace: in one that stays, and an hour long.
//! The controllers of a cluster tell of each node that it came and that it went, a scheduler that
//! was there before us of queues.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schedlab_json::Value;
use tokio::time::Instant;

use super::{name_of, objects};
use crate::api::{Api, refusal};
use crate::fields::{list, text};

/// Where news of what has no namespace are.
const NEWS: &str = "/api/v1/namespaces/default/events";
/// How long it may take until of each node that came is told that it went: the controller looks
/// every five seconds.
const TOLD_WITHIN: Duration = Duration::from_secs(15);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(200);
/// How many are deleted at once.
const AT_ONCE: usize = 16;

/// Whether there are any of a run's objects.
pub(super) async fn has_any(api: &Api, run: &str) -> anyhow::Result<bool> {
    Ok(!news(api, run).await?.is_empty())
}

/// Takes the news of a run's objects away, those of its nodes' end included. They are gone.
pub(super) async fn remove_all(api: &Api, run: &str) -> anyhow::Result<()> {
    let end = Instant::now() + TOLD_WITHIN;
    let (mut came, mut went) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let news = news(api, run).await?;
        for one in &news {
            match one.reason.as_str() {
                "RegisteredNode" => came.insert(one.about.clone()),
                "RemovingNode" => went.insert(one.about.clone()),
                _ => false,
            };
        }
        let gone = stream::iter(news).map(|one| async move { objects::end(api, &one.path).await });
        gone.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        if came.is_subset(&went) || Instant::now() >= end {
            return Ok(());
        }
        tokio::time::sleep(ASK).await;
    }
}

struct News {
    about: String,
    reason: String,
    path: String,
}

async fn news(api: &Api, run: &str) -> anyhow::Result<Vec<News>> {
    let found = api.get(NEWS).await.map_err(refusal).context(NEWS)?;
    let name = name_of(run);
    let one = |event: &Value| {
        let field = |at: &str| text(event, at).unwrap_or_default().to_owned();
        let path = format!("{NEWS}/{}", field("/metadata/name"));
        News { about: field("/involvedObject/name"), reason: field("/reason"), path }
    };
    let all = list(&found, "/items").iter().map(one);
    // A node by which kwok is looked for bears the run's id.
    Ok(all.filter(|news| news.about.starts_with(&name) || news.about.contains(run)).collect())
}

#[cfg(test)]
mod tests {
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::{Emulator, Options};
    use schedlab_json::json;

    use super::*;

    #[tokio::test]
    async fn news_of_a_runs_objects_go_whatever_they_are_and_those_of_others_stay() {
        let api = Api::new(Emulator::start(Options::at(Clock::real())).client());
        let run = "20261125t231021-1234";
        let ours = name_of(run);
        for (name, kind, about) in [
            ("node", "Node", format!("{ours}x0-node-1")),
            ("queue", "Queue", format!("{ours}x0-training")),
            ("probe", "Node", format!("probe-{run}")),
            ("theirs", "Queue", "training".to_owned()),
        ] {
            let about = json!({"kind": kind, "name": about});
            let event = json!({"metadata": {"name": name}, "involvedObject": about});
            api.post(NEWS, &event).await.unwrap();
        }
        assert!(has_any(&api, run).await.unwrap());
        remove_all(&api, run).await.unwrap();
        assert!(!has_any(&api, run).await.unwrap());
        let left = api.get(NEWS).await.unwrap();
        let left = list(&left, "/items").iter().filter_map(|one| text(one, "/metadata/name"));
        assert_eq!(left.collect::<Vec<_>>(), ["theirs"]);
    }
}
