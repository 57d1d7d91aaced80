//! What the cluster says of itself, kept up to date by watches: the ground on which every
//! `Then` stands. Changes are taken one at a time, so that a claim which must hold all the time
//! is judged after each of them.

mod evictions;
mod objects;
mod store;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use schedlab_emulator::{Emulator, NOT_READY};
use schedlab_json::Value;

use crate::api::Api;
use crate::audit::Departure;
use crate::veil::Marks;
use watch::Watch;

pub use evictions::Eviction;
pub(crate) use evictions::victims;
pub use objects::{Phase, Pod};
pub(crate) use objects::{QUEUE, WORKLOAD};

/// A place in a collection: namespace and name.
pub(crate) type Place = (String, String);

/// The collections that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nodes.
    Nodes,
    /// Pods of all namespaces.
    Pods,
    /// KAI's queues.
    Queues,
    /// KAI's pod groups, of all namespaces.
    PodGroups,
    /// Resource claims, of all namespaces.
    Claims,
    /// Events of all namespaces.
    Events,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::Nodes, Self::Pods, Self::Queues, Self::PodGroups, Self::Claims, Self::Events];

    /// Group, version and plural.
    fn collection(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Nodes => ("", "v1", "nodes"),
            Self::Pods => ("", "v1", "pods"),
            Self::Queues => ("scheduling.run.ai", "v2", "queues"),
            Self::PodGroups => ("scheduling.run.ai", "v2alpha2", "podgroups"),
            Self::Claims => ("resource.k8s.io", "v1", "resourceclaims"),
            Self::Events => ("", "v1", "events"),
        }
    }

    fn path(self) -> String {
        match self.collection() {
            ("", version, plural) => format!("/api/{version}/{plural}"),
            (group, version, plural) => format!("/apis/{group}/{version}/{plural}"),
        }
    }
}

/// A view of one cluster.
#[derive(Debug)]
pub struct View {
    watches: Vec<Watch>,
    /// What is gone, as it was last; events are not kept.
    gone: BTreeMap<(Kind, Place), Arc<Value>>,
}

impl View {
    /// Lists everything and begins to watch. Kinds that the cluster does not know stay empty.
    pub async fn open(api: &Api) -> anyhow::Result<Self> {
        let mut watches = Vec::new();
        for kind in Kind::ALL {
            if let Some(watch) = Watch::open(api, kind).await? {
                watches.push(watch);
            }
        }
        Ok(Self { watches, gone: BTreeMap::new() })
    }

    /// The same of a cluster in this process.
    pub(crate) fn within(emulator: &Emulator) -> anyhow::Result<Self> {
        let mut watches = Vec::new();
        for kind in Kind::ALL {
            watches.extend(Watch::within(emulator, kind)?);
        }
        Ok(Self { watches, gone: BTreeMap::new() })
    }

    /// Waits for one change and takes it in.
    pub async fn next(&mut self) -> anyhow::Result<()> {
        let watches = &mut self.watches;
        let (index, change) = std::future::poll_fn(|context| {
            let mut ready = watches.iter_mut().enumerate().filter_map(|(index, watch)| match watch
                .poll(context)
            {
                Poll::Ready(change) => Some((index, change)),
                Poll::Pending => None,
            });
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let watch = &mut self.watches[index];
        let Some(change) = change? else { return watch.reopen().await };
        if let Some((place, object)) = watch.take(change)
            && watch.kind != Kind::Events
        {
            self.gone.insert((watch.kind, place), object);
        }
        Ok(())
    }

    /// Takes in everything that is there to be taken.
    pub async fn drain(&mut self) -> anyhow::Result<()> {
        use futures::FutureExt as _;
        while let Some(taken) = self.next().now_or_never() {
            taken?;
        }
        // The API may have to be polled once more before it hands on what it has.
        tokio::task::yield_now().await;
        while let Some(taken) = self.next().now_or_never() {
            taken?;
        }
        Ok(())
    }

    /// Whether everything that is marked as written has been taken in.
    pub(crate) fn has_seen(&self, marks: &Marks) -> bool {
        self.watches.iter().all(|watch| watch.has_seen(marks))
    }

    /// The objects of a kind, in the order of their names.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.watches.iter().filter(move |watch| watch.kind == kind).flat_map(Watch::objects)
    }

    /// The objects of a kind, and after them those that are gone.
    pub(crate) fn ever(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        let gone = self.gone.iter().filter(move |((of, _), _)| *of == kind);
        self.all(kind).chain(gone.map(|(_, object)| &**object))
    }

    /// One object; the first of that name when the namespace is not known.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.all(kind).find(|object| object["metadata"]["name"] == *name)
    }

    /// The object of a kind in a namespace.
    pub(crate) fn at(&self, kind: Kind, place: (&str, &str)) -> Option<&Value> {
        self.watches.iter().filter(|watch| watch.kind == kind).find_map(|watch| watch.object(place))
    }

    /// The same as it is or, once it is gone, as it was.
    pub(crate) fn at_ever(&self, kind: Kind, (namespace, name): (&str, &str)) -> Option<&Value> {
        let gone = || self.gone.get(&(kind, (namespace.to_owned(), name.to_owned())));
        self.at(kind, (namespace, name)).or_else(|| gone().map(|object| &**object))
    }

    /// Pods of all namespaces, in the order of their names.
    pub fn pods(&self) -> impl Iterator<Item = Pod<'_>> {
        self.all(Kind::Pods).map(Pod)
    }

    /// Pods that are there, and after them those that are gone.
    pub(crate) fn pods_ever(&self) -> impl Iterator<Item = Pod<'_>> {
        self.ever(Kind::Pods).map(Pod)
    }

    /// A pod, by name or as `namespace/name`.
    pub fn pod(&self, name: &str) -> Option<Pod<'_>> {
        let (namespace, name) = name.split_once('/').map_or((None, name), |(n, p)| (Some(n), p));
        self.pods().find(|pod| {
            pod.name() == name && namespace.is_none_or(|namespace| pod.namespace() == namespace)
        })
    }

    /// A pod that is gone, as it was.
    pub(crate) fn pod_gone(&self, place: &Place) -> Option<Pod<'_>> {
        self.gone.get(&(Kind::Pods, place.clone())).map(|pod| Pod(pod))
    }

    /// Whether a node is there and ready.
    pub fn node_lives(&self, name: &str) -> bool {
        let node = self.get(Kind::Nodes, name);
        let conditions = node.and_then(|node| node["status"]["conditions"].as_array());
        conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
    }

    /// Whether a node takes pods: it is ready, and the taint that it had until then is gone.
    pub(crate) fn node_is_up(&self, name: &str) -> bool {
        let node = self.get(Kind::Nodes, name);
        let taints = node.and_then(|node| node["spec"]["taints"].as_array());
        self.node_lives(name)
            && !taints.into_iter().flatten().any(|taint| taint["key"] == NOT_READY)
    }

    /// What was evicted so far, in the order in which it was told; `unannounced` was by nobody.
    pub(crate) fn evictions<'a>(&'a self, unannounced: &'a [Departure]) -> Vec<Eviction<'a>> {
        evictions::evictions(self, unannounced)
    }
}
