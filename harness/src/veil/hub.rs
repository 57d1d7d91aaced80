//! One watch of each collection for all scenarios of a run. Every scenario watches the whole
//! cluster several times over, and each change of each of them would be written out, sent and
//! taken apart once for every watch. Here it comes once, and goes to those whose names it bears.

mod feed;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use feed::Feed;
pub(super) use feed::Told;

/// The watches that all scenarios share. They run on a thread of their own, which ends with the
/// last handle.
#[derive(Clone, Debug)]
pub(crate) struct Hub(UnboundedSender<Ask>);

/// Who wants to hear what.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The collection, as in `/api/v1/pods`.
    pub(crate) path: String,
    /// The revision after which changes are told.
    pub(crate) from: u64,
    /// What stands before the names of the scenario.
    pub(crate) prefix: String,
    /// Whether bookmarks are wanted.
    pub(crate) bookmarks: bool,
}

/// Somebody who asked and waits for an answer.
struct Ask {
    wanted: Wanted,
    answer: oneshot::Sender<UnboundedReceiver<Told>>,
}

impl Hub {
    /// Watches what `config` reaches, for scenarios of the run of this name.
    pub(crate) fn start(config: kube::Config, name: &str) -> anyhow::Result<Self> {
        let (asks, asked) = unbounded_channel();
        let name = name.into();
        let serve = move || serve(config, &name, asked);
        let thread = std::thread::Builder::new().name("watches".to_owned()).spawn(serve);
        thread.context("cannot start a thread for watches")?;
        Ok(Self(asks))
    }

    /// The changes from there on, line by line; `None` where they are not kept any more, or the
    /// cluster does not tell them: then it is for the cluster to say so.
    pub(super) async fn follow(&self, wanted: Wanted) -> Option<UnboundedReceiver<Told>> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Ask { wanted, answer }).ok()?;
        answered.await.ok()
    }
}

fn serve(config: kube::Config, name: &Arc<str>, mut asked: UnboundedReceiver<Ask>) {
    // Where this cannot be, whoever asks watches for himself.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async move {
        let Ok(client) = kube::Client::try_from(config) else { return };
        let mut feeds: BTreeMap<String, UnboundedSender<Ask>> = BTreeMap::new();
        while let Some(ask) = asked.recv().await {
            let path = ask.wanted.path.clone();
            let feed = feeds.entry(path).or_insert_with_key(|path| {
                let (asks, asked) = unbounded_channel();
                tokio::spawn(watch(client.clone(), path.clone(), Arc::clone(name), asked));
                asks
            });
            let _ = feed.send(ask);
        }
    });
}

/// Watches a collection as long as somebody may ask. When the cluster ends the watch, so end
/// those of all who follow: they come again, and the first of them says from where.
async fn watch(
    client: kube::Client,
    path: String,
    name: Arc<str>,
    mut asked: UnboundedReceiver<Ask>,
) {
    while let Some(first) = asked.recv().await {
        let from = first.wanted.from;
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        let Ok(request) = Request::get(uri).body(Vec::new()) else { continue };
        let Ok(news) = client.request_stream(request).await else { continue };
        let mut lines = Box::pin(news.lines());
        let mut feed = Feed::new(&name, from);
        join(&mut feed, first);
        loop {
            tokio::select! {
                biased;
                ask = asked.recv() => match ask {
                    Some(ask) => join(&mut feed, ask),
                    None => return,
                },
                line = lines.next() => {
                    let told = line.and_then(Result::ok).is_some_and(|line| feed.tell(line));
                    if !told {
                        break;
                    }
                },
            }
        }
    }
}

fn join(feed: &mut Feed, ask: Ask) {
    let (told, heard) = unbounded_channel();
    if feed.join(&ask.wanted, told) {
        let _ = ask.answer.send(heard);
    }
}
