//! The state of a cluster as observed by watches, against which every `Then` is checked. Changes
//! are applied one at a time, so that an assertion that must always hold is checked after each of
//! them.

mod evictions;
mod objects;
mod store;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;

use schedlab_api::{Value, api_versions, conditions, taints};
use schedlab_emulator::Emulator;

use schedlab_audit::PodDeletion;
use schedlab_clusters::api::Api;
use schedlab_tenancy::Watermarks;
use watch::ObjectWatch;

pub(crate) use evictions::Eviction;
pub(crate) use evictions::distinct_victim_count;
pub(crate) use objects::WORKLOAD_LABEL;
pub use objects::{Phase, Pod};

/// The key of an object in a collection: namespace and name.
pub(crate) type ObjectKey = (String, String);

/// The kinds of objects that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchedKind {
    /// Nodes of the cluster.
    Nodes,
    /// Pods of all namespaces.
    Pods,
    /// KAI's Queue objects.
    Queues,
    /// KAI's PodGroup objects of all namespaces.
    PodGroups,
    /// PodGroups of Kubernetes of all namespaces.
    SchedulingGroups,
    /// Resource claims of all namespaces.
    Claims,
    /// Events of all namespaces.
    Events,
}

impl WatchedKind {
    const ALL: [Self; 7] = [
        Self::Nodes,
        Self::Pods,
        Self::Queues,
        Self::PodGroups,
        Self::SchedulingGroups,
        Self::Claims,
        Self::Events,
    ];

    /// API group, version and plural name of the kind's collection.
    fn collection(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Nodes => ("", "v1", "nodes"),
            Self::Pods => ("", "v1", "pods"),
            Self::Queues => (api_versions::SCHEDULING_GROUP, "v2", "queues"),
            Self::PodGroups => (api_versions::SCHEDULING_GROUP, "v2alpha2", "podgroups"),
            Self::SchedulingGroups => (api_versions::WORKLOAD_GROUP, "v1beta1", "podgroups"),
            Self::Claims => ("resource.k8s.io", "v1", "resourceclaims"),
            Self::Events => ("", "v1", "events"),
        }
    }

    fn api_list_path(self) -> String {
        match self.collection() {
            ("", version, plural) => format!("/api/{version}/{plural}"),
            (group, version, plural) => format!("/apis/{group}/{version}/{plural}"),
        }
    }
}

/// What watches have shown of one cluster: the current and the deleted objects.
#[derive(Debug)]
pub struct ObservedCluster {
    watches: Vec<ObjectWatch>,
    /// Deleted objects in their last state; deleted events are not kept.
    deleted: BTreeMap<(WatchedKind, ObjectKey), Arc<Value>>,
}

impl ObservedCluster {
    /// Lists the objects of all watched kinds and starts the watches. Kinds that the cluster does
    /// not serve stay empty.
    ///
    /// # Errors
    /// A request fails.
    pub async fn start_watches(api: &Api) -> anyhow::Result<Self> {
        let mut watches = Vec::new();
        for kind in WatchedKind::ALL {
            if let Some(watch) = ObjectWatch::start_on_api(api, kind).await? {
                watches.push(watch);
            }
        }
        Ok(Self { watches, deleted: BTreeMap::new() })
    }

    /// Like [`Self::start_watches`], directly from the store of an emulator in this process.
    pub(crate) fn watch_store_in_process(emulator: &Emulator) -> anyhow::Result<Self> {
        let mut watches = Vec::new();
        for kind in WatchedKind::ALL {
            watches.extend(ObjectWatch::start_in_process(emulator, kind)?);
        }
        Ok(Self { watches, deleted: BTreeMap::new() })
    }

    /// Waits for one change and applies it to the observed objects.
    ///
    /// # Errors
    /// A watch failed and cannot be restarted.
    pub async fn process_next_event(&mut self) -> anyhow::Result<()> {
        let watches = &mut self.watches;
        let (index, change) = std::future::poll_fn(|context| {
            let mut ready = watches.iter_mut().enumerate().filter_map(|(index, watch)| match watch
                .poll_update(context)
            {
                Poll::Ready(change) => Some((index, change)),
                Poll::Pending => None,
            });
            ready.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await;
        let watch = &mut self.watches[index];
        let Some(change) = change? else { return watch.restart_stream().await };
        if let Some((key, object)) = watch.apply_update(change)
            && watch.kind != WatchedKind::Events
        {
            self.deleted.insert((watch.kind, key), object);
        }
        Ok(())
    }

    /// Applies all changes that have already arrived.
    ///
    /// # Errors
    /// A watch failed and cannot be restarted.
    pub async fn process_available_events(&mut self) -> anyhow::Result<()> {
        use futures::FutureExt as _;
        while let Some(taken) = self.process_next_event().now_or_never() {
            taken?;
        }
        // The API may have to be polled once more before it delivers a change.
        tokio::task::yield_now().await;
        while let Some(taken) = self.process_next_event().now_or_never() {
            taken?;
        }
        Ok(())
    }

    /// Whether all changes up to these watermarks have been applied.
    pub(crate) fn has_reached_watermarks(&self, watermarks: &Watermarks) -> bool {
        self.watches.iter().all(|watch| watch.has_reached_watermarks(watermarks))
    }

    /// The objects of a kind, sorted by namespace and name.
    pub fn objects_of_kind(&self, kind: WatchedKind) -> impl Iterator<Item = &Value> {
        self.watches
            .iter()
            .filter(move |watch| watch.kind == kind)
            .flat_map(ObjectWatch::all_objects)
    }

    /// The objects of a kind, followed by the deleted objects of the kind in their last state.
    pub(crate) fn objects_ever_seen(&self, kind: WatchedKind) -> impl Iterator<Item = &Value> {
        let gone = self.deleted.iter().filter(move |((of, _), _)| *of == kind);
        self.objects_of_kind(kind).chain(gone.map(|(_, object)| &**object))
    }

    /// The first object of a kind with this name, in any namespace.
    pub fn get(&self, kind: WatchedKind, name: &str) -> Option<&Value> {
        self.objects_of_kind(kind).find(|object| object["metadata"]["name"] == *name)
    }

    /// The object of a kind with this namespace and name.
    pub(crate) fn get_in_namespace(
        &self,
        kind: WatchedKind,
        namespace: &str,
        name: &str,
    ) -> Option<&Value> {
        let mut watches = self.watches.iter().filter(|watch| watch.kind == kind);
        watches.find_map(|watch| watch.find_object(namespace, name))
    }

    /// Like [`Self::get_in_namespace`], also for a deleted object, in its last state.
    pub(crate) fn get_ever_seen(
        &self,
        kind: WatchedKind,
        namespace: &str,
        name: &str,
    ) -> Option<&Value> {
        let gone = || self.deleted.get(&(kind, (namespace.to_owned(), name.to_owned())));
        self.get_in_namespace(kind, namespace, name).or_else(|| gone().map(|object| &**object))
    }

    /// The pods of all namespaces, sorted by namespace and name, without placeholders.
    pub fn current_pods(&self) -> impl Iterator<Item = Pod<'_>> {
        self.objects_of_kind(WatchedKind::Pods).map(Pod).filter(|pod| !pod.is_placeholder())
    }

    /// The pods of all namespaces, followed by deleted ones, without placeholders.
    pub(crate) fn pods_ever_seen(&self) -> impl Iterator<Item = Pod<'_>> {
        self.objects_ever_seen(WatchedKind::Pods).map(Pod).filter(|pod| !pod.is_placeholder())
    }

    /// The pod with this name or, if the name contains a slash, with this `namespace/name`.
    pub fn find_pod(&self, name: &str) -> Option<Pod<'_>> {
        let (namespace, name) = name.split_once('/').map_or((None, name), |(n, p)| (Some(n), p));
        self.current_pods().find(|pod| {
            pod.pod_name() == name
                && namespace.is_none_or(|namespace| pod.pod_namespace() == namespace)
        })
    }

    /// A deleted pod in its last state.
    pub(crate) fn find_deleted_pod(&self, key: &ObjectKey) -> Option<Pod<'_>> {
        self.deleted.get(&(WatchedKind::Pods, key.clone())).map(|pod| Pod(pod))
    }

    /// Whether a node exists and is ready.
    pub(crate) fn is_node_ready(&self, name: &str) -> bool {
        let node = self.get(WatchedKind::Nodes, name);
        let conditions = node.and_then(|node| node["status"]["conditions"].as_array());
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == conditions::READY && c["status"] == "True")
    }

    /// Whether a node accepts pods: it is ready and does not have the taint for unready nodes any
    /// more.
    pub(crate) fn is_node_schedulable(&self, name: &str) -> bool {
        let node = self.get(WatchedKind::Nodes, name);
        let taints = node.and_then(|node| node["spec"]["taints"].as_array());
        self.is_node_ready(name)
            && !taints.into_iter().flatten().any(|taint| taint["key"] == taints::NOT_READY)
    }

    /// All evictions so far, in the order of their events. `unannounced` are evictions that no
    /// event announced.
    pub(crate) fn all_evictions<'a>(&'a self, unannounced: &'a [PodDeletion]) -> Vec<Eviction<'a>> {
        evictions::evictions_in(self, unannounced)
    }
}
