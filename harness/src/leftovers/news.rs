//! What others tell of a run's nodes. The controllers of a cluster tell of each that it came and
//! that it went, in a namespace that stays, and an hour long.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use schedlab_json::Value;
use tokio::time::Instant;

use super::{name_of, objects};
use crate::api::{Api, refusal};
use crate::fields::text;

/// Where news of nodes are.
const NEWS: &str = "/api/v1/namespaces/default/events";
/// How long it may take until of each node that came is told that it went: the controller looks
/// every five seconds.
const TOLD_WITHIN: Duration = Duration::from_secs(15);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(200);
/// How many are deleted at once.
const AT_ONCE: usize = 16;

/// Whether there are any of a run's nodes.
pub(super) async fn has_any(api: &Api, run: &str) -> anyhow::Result<bool> {
    Ok(!news(api, run).await?.is_empty())
}

/// Takes the news of a run's nodes away, those of their end included. The nodes are gone.
pub(super) async fn remove_all(api: &Api, run: &str) -> anyhow::Result<()> {
    let end = Instant::now() + TOLD_WITHIN;
    let (mut came, mut went) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let news = news(api, run).await?;
        for one in &news {
            match one.reason.as_str() {
                "RegisteredNode" => came.insert(one.node.clone()),
                "RemovingNode" => went.insert(one.node.clone()),
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
    node: String,
    reason: String,
    path: String,
}

async fn news(api: &Api, run: &str) -> anyhow::Result<Vec<News>> {
    let of_nodes = format!("{NEWS}?fieldSelector=involvedObject.kind%3DNode");
    let list = api.get(&of_nodes).await.map_err(refusal).context(NEWS)?;
    let name = name_of(run);
    let one = |event: &Value| {
        let field = |at: &str| text(event, at).unwrap_or_default().to_owned();
        let path = format!("{NEWS}/{}", field("/metadata/name"));
        News { node: field("/involvedObject/name"), reason: field("/reason"), path }
    };
    let all = list["items"].as_array().into_iter().flatten().map(one);
    // A node by which kwok is looked for bears the run's id.
    Ok(all.filter(|news| news.node.starts_with(&name) || news.node.contains(run)).collect())
}
