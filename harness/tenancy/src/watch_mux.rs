//! A watch multiplexer: one watch of each collection for all scenarios of a run. Without it, every
//! scenario would watch the whole cluster several times, and the API server would serialize and
//! send each change once per watch. Here each change arrives once and is forwarded to the scenarios
//! whose prefix it contains.

mod shared_watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use futures::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use shared_watch::SharedWatch;
pub(super) use shared_watch::WatchLine;

/// A handle on the watches that scenarios share. The watches run on a thread of their own, which
/// ends when the last handle is dropped.
#[derive(Clone, Debug)]
pub struct WatchMux(UnboundedSender<SubscribeRequest>);

/// A scenario's request for the changes of one collection.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    /// The path of the collection, for example `/api/v1/pods`.
    pub path: String,
    /// The `resourceVersion` after which changes are wanted.
    pub(crate) from_revision: u64,
    /// The name prefix of the scenario.
    pub prefix: String,
    /// Whether the subscriber wants bookmarks.
    pub(crate) wants_bookmarks: bool,
}

/// A subscription, and the channel that receives its stream.
struct SubscribeRequest {
    subscription: Subscription,
    reply: oneshot::Sender<UnboundedReceiver<WatchLine>>,
}

impl WatchMux {
    /// Starts a multiplexer for the cluster of `config`. `name` is the part that all prefixes of
    /// the run share.
    ///
    /// # Errors
    /// The thread for watches cannot be started.
    pub fn start(config: kube::Config, name: &str) -> anyhow::Result<Self> {
        let (requests, received) = unbounded_channel();
        let name = name.into();
        let serve = move || serve_subscriptions(config, &name, received);
        let thread = std::thread::Builder::new().name("watches".to_owned()).spawn(serve);
        thread.context("cannot start a thread for watches")?;
        Ok(Self(requests))
    }

    /// The stream of changes after the subscription's `resourceVersion`, line by line. `None` if
    /// these changes are no longer available or the watch failed; the caller then sends its own
    /// watch and gets the API server's error.
    pub(super) async fn subscribe(
        &self,
        subscription: Subscription,
    ) -> Option<UnboundedReceiver<WatchLine>> {
        let (reply, receiver) = oneshot::channel();
        self.0.send(SubscribeRequest { subscription, reply }).ok()?;
        receiver.await.ok()
    }
}

fn serve_subscriptions(
    config: kube::Config,
    name: &Arc<str>,
    mut requests: UnboundedReceiver<SubscribeRequest>,
) {
    // Without a runtime, subscribers fall back to watches of their own.
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async move {
        let Ok(client) = kube::Client::try_from(config) else { return };
        let mut feeds: BTreeMap<String, UnboundedSender<SubscribeRequest>> = BTreeMap::new();
        while let Some(request) = requests.recv().await {
            let path = request.subscription.path.clone();
            let feed = feeds.entry(path).or_insert_with_key(|path| {
                let (sender, receiver) = unbounded_channel();
                tokio::spawn(run_shared_watch(
                    client.clone(),
                    path.clone(),
                    Arc::clone(name),
                    receiver,
                ));
                sender
            });
            let _ = feed.send(request);
        }
    });
}

/// Watches a collection while there are handles. When the API server ends the watch, the streams of
/// all subscribers end; the first of them that subscribes again determines the revision from which
/// the next watch starts.
async fn run_shared_watch(
    client: kube::Client,
    path: String,
    name: Arc<str>,
    mut requests: UnboundedReceiver<SubscribeRequest>,
) {
    while let Some(first) = requests.recv().await {
        let from = first.subscription.from_revision;
        let uri = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        let Ok(request) = Request::get(uri).body(Vec::new()) else { continue };
        let Ok(body) = client.request_stream(request).await else { continue };
        let mut lines = Box::pin(body.lines());
        let mut feed = SharedWatch::new(&name, from);
        subscribe_or_reject(&mut feed, first);
        loop {
            tokio::select! {
                biased;
                request = requests.recv() => match request {
                    Some(ask) => subscribe_or_reject(&mut feed, ask),
                    None => return,
                },
                line = lines.next() => {
                    let published = line.and_then(Result::ok).is_some_and(|line| feed.publish_line(line));
                    if !published {
                        break;
                    }
                },
            }
        }
    }
}

fn subscribe_or_reject(feed: &mut SharedWatch, request: SubscribeRequest) {
    let (sender, receiver) = unbounded_channel();
    if feed.subscribe(&request.subscription, sender) {
        let _ = request.reply.send(receiver);
    }
}
