//! Lists and watches of the kinds that decisions depend on. A watch continues from the last
//! resourceVersion it saw, lists again when that has expired, and retries with a growing delay
//! after a failure. Lines that contain no object are skipped.
//!
//! `kube::runtime::watcher` does not serve here, for two reasons. It delays retries by a random
//! jitter, so that two runs in virtual time would differ. And it decodes every object, while most
//! events of pods are superseded or repeat our own writes, and are never decoded here
//! ([`RawObject`]).

mod line;
mod wake_flag;

use std::{
    collections::BTreeMap, fmt, pin::Pin, sync::Arc, task::Context, task::Poll, time::Duration,
};

use futures::{
    AsyncBufRead, AsyncBufReadExt, Stream, StreamExt,
    stream::{BoxStream, unfold},
    task::AtomicWaker,
};
use http::{Request, header::ACCEPT};
use kube::Client;
use schedlab_api::{Value, api_versions};
use schedlab_scheduler_core::model::Name;
use serde::Deserialize;
use tracing::{debug, warn};

use self::{
    line::{LineKind, peek_line},
    wake_flag::WakeFlag,
};
use crate::{
    api::{ApiError, object_path, request_json, request_lines},
    config::Flavor,
    parse::at,
};

/// Delay after the first of several failures in a row; it doubles with each further failure.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(32);

/// The watched kinds, in the order in which their events are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Namespace,
    PriorityClass,
    Queue,
    Topology,
    Karta,
    DeviceClass,
    ResourceSlice,
    DeviceTaintRule,
    Storage(StorageKind),
    ConfigMap,
    NodeResourceTopology,
    Node,
    /// A PodGroup of Kubernetes (`scheduling.k8s.io`).
    SchedulingGroup,
    PodGroup,
    PodDisruptionBudget,
    ResourceClaim,
    BindRequest,
    Pod,
}

/// The kinds that volume claims depend on, in the order in which their events are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StorageKind {
    /// Kind `StorageClass`.
    Class,
    /// Kind `PersistentVolume`.
    Volume,
    /// Kind `PersistentVolumeClaim`.
    Claim,
    /// Kind `CSIDriver`.
    Driver,
    /// Kind `CSIStorageCapacity`.
    Capacity,
    /// Kind `CSINode`.
    Node,
    /// Kind `VolumeAttachment`.
    Attachment,
}

/// A kind of objects that can be watched.
pub(crate) trait Watched: Clone + Ord + fmt::Debug + Send + Sync + 'static {
    /// Path of the collection, over all namespaces.
    fn path(&self) -> String;

    /// Whether only the metadata of the objects is requested.
    fn is_metadata_only(&self) -> bool;

    /// Name of the `CustomResourceDefinition` of a kind that a cluster may lack; `None` for kinds
    /// that are always there.
    fn crd_name(&self) -> Option<&'static str> {
        None
    }

    /// Builds a GET request that asks for this form of response.
    fn get_request(&self, path: &str, asking: ResponseForm) -> Request<Vec<u8>> {
        let mut request = Request::get(path);
        if self.is_metadata_only() {
            let of = match asking {
                ResponseForm::Object => "PartialObjectMetadata",
                ResponseForm::List => "PartialObjectMetadataList",
            };
            let accepted = format!("application/json;as={of};g=meta.k8s.io;v=v1");
            request = request.header(ACCEPT, accepted);
        }
        request.body(Vec::new()).expect("path, version and header are valid")
    }
}

impl Kind {
    /// The kinds that a scheduler of this flavor watches.
    pub(crate) fn watched(flavor: Flavor) -> &'static [Self] {
        match flavor {
            Flavor::Kai => &[
                Self::Namespace,
                Self::PriorityClass,
                Self::Queue,
                Self::Topology,
                Self::Karta,
                Self::DeviceClass,
                Self::ResourceSlice,
                Self::DeviceTaintRule,
                Self::Storage(StorageKind::Class),
                Self::Storage(StorageKind::Volume),
                Self::Storage(StorageKind::Claim),
                Self::Storage(StorageKind::Driver),
                Self::Storage(StorageKind::Capacity),
                Self::Storage(StorageKind::Node),
                Self::Storage(StorageKind::Attachment),
                Self::ConfigMap,
                Self::NodeResourceTopology,
                Self::Node,
                Self::SchedulingGroup,
                Self::PodGroup,
                Self::ResourceClaim,
                Self::BindRequest,
                Self::Pod,
            ],
            Flavor::Kube => &[
                Self::Namespace,
                Self::DeviceClass,
                Self::ResourceSlice,
                Self::DeviceTaintRule,
                Self::Storage(StorageKind::Class),
                Self::Storage(StorageKind::Volume),
                Self::Storage(StorageKind::Claim),
                Self::Storage(StorageKind::Driver),
                Self::Storage(StorageKind::Capacity),
                Self::Storage(StorageKind::Node),
                Self::Storage(StorageKind::Attachment),
                Self::Node,
                Self::SchedulingGroup,
                Self::PodDisruptionBudget,
                Self::ResourceClaim,
                Self::Pod,
            ],
        }
    }

    /// The use by pods without which the kind is not watched; `None`: the kind is always watched.
    pub(crate) const fn need(self) -> Option<OptionalKinds> {
        match self {
            Self::Storage(_) => Some(OptionalKinds::Volumes),
            Self::ConfigMap => Some(OptionalKinds::ConfigMaps),
            Self::DeviceTaintRule => Some(OptionalKinds::DeviceTaintRules),
            Self::SchedulingGroup => Some(OptionalKinds::SchedulingGroups),
            Self::Namespace
            | Self::PriorityClass
            | Self::Queue
            | Self::Topology
            | Self::Karta
            | Self::DeviceClass
            | Self::ResourceSlice
            | Self::NodeResourceTopology
            | Self::Node
            | Self::PodGroup
            | Self::PodDisruptionBudget
            | Self::ResourceClaim
            | Self::BindRequest
            | Self::Pod => None,
        }
    }
}

impl Watched for Kind {
    /// Whether only the metadata is requested: decisions need just the names of `ConfigMap`s.
    fn is_metadata_only(&self) -> bool {
        *self == Self::ConfigMap
    }

    fn path(&self) -> String {
        let (api_version, plural) = match self {
            Self::PriorityClass => ("scheduling.k8s.io/v1", "priorityclasses"),
            Self::Queue => (api_versions::QUEUE, "queues"),
            Self::Topology => (api_versions::TOPOLOGY, "topologies"),
            Self::Karta => ("run.ai/v1alpha1", "kartas"),
            Self::DeviceClass => ("resource.k8s.io/v1", "deviceclasses"),
            Self::ResourceSlice => ("resource.k8s.io/v1", "resourceslices"),
            Self::DeviceTaintRule => ("resource.k8s.io/v1", "devicetaintrules"),
            Self::Storage(StorageKind::Class) => ("storage.k8s.io/v1", "storageclasses"),
            Self::Storage(StorageKind::Volume) => ("v1", "persistentvolumes"),
            Self::Storage(StorageKind::Claim) => ("v1", "persistentvolumeclaims"),
            Self::Storage(StorageKind::Driver) => ("storage.k8s.io/v1", "csidrivers"),
            Self::Storage(StorageKind::Capacity) => ("storage.k8s.io/v1", "csistoragecapacities"),
            Self::Storage(StorageKind::Node) => ("storage.k8s.io/v1", "csinodes"),
            Self::Storage(StorageKind::Attachment) => ("storage.k8s.io/v1", "volumeattachments"),
            Self::ConfigMap => ("v1", "configmaps"),
            Self::NodeResourceTopology => {
                ("topology.node.k8s.io/v1alpha2", "noderesourcetopologies")
            }
            Self::ResourceClaim => ("resource.k8s.io/v1", "resourceclaims"),
            Self::Namespace => ("v1", "namespaces"),
            Self::Node => ("v1", "nodes"),
            Self::SchedulingGroup => (api_versions::WORKLOAD, "podgroups"),
            Self::PodGroup => (api_versions::POD_GROUP, "podgroups"),
            Self::BindRequest => (api_versions::BIND_REQUEST, "bindrequests"),
            Self::PodDisruptionBudget => ("policy/v1", "poddisruptionbudgets"),
            Self::Pod => ("v1", "pods"),
        };
        object_path(api_version, "", plural, "")
    }

    fn crd_name(&self) -> Option<&'static str> {
        match self {
            Self::NodeResourceTopology => Some("noderesourcetopologies.topology.node.k8s.io"),
            Self::Karta => Some("kartas.run.ai"),
            Self::Namespace
            | Self::PriorityClass
            | Self::Queue
            | Self::Topology
            | Self::DeviceClass
            | Self::ResourceSlice
            | Self::DeviceTaintRule
            | Self::Storage(_)
            | Self::ConfigMap
            | Self::Node
            | Self::SchedulingGroup
            | Self::PodGroup
            | Self::PodDisruptionBudget
            | Self::ResourceClaim
            | Self::BindRequest
            | Self::Pod => None,
        }
    }
}

/// The expected content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    /// A single object, or watch events of objects.
    Object,
    List,
}

/// Kinds that are watched only once pods use them, or devices are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionalKinds {
    Volumes,
    ConfigMaps,
    DeviceTaintRules,
    /// `spec.schedulingGroup`.
    SchedulingGroups,
}

impl OptionalKinds {
    pub(crate) const ALL: [Self; 4] =
        [Self::Volumes, Self::ConfigMaps, Self::DeviceTaintRules, Self::SchedulingGroups];
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WatchEvent<K = Kind> {
    /// A list: all objects of a kind.
    Listed(K, Vec<Value>),
    /// An object was added or modified.
    Changed(K, RawObject),
    /// An object was deleted.
    Deleted(K, RawObject),
}

impl WatchEvent {
    /// The kind of the event's objects.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Listed(kind, _) | Self::Changed(kind, _) | Self::Deleted(kind, _) => *kind,
        }
    }
}

/// An object as JSON text, with only its identity decoded. Most watch events repeat the response to
/// a write, which the cache knows already, so they need no decoding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawObject {
    pub(crate) namespace: Name,
    pub(crate) name: Name,
    /// `metadata.resourceVersion` as a number; 0 if it is none.
    pub(crate) version: u64,
    line: String,
}

impl RawObject {
    #[cfg(test)]
    pub(crate) fn from_value(object: &Value) -> Self {
        let line = schedlab_api::json!({ "type": "MODIFIED", "object": object }).to_string();
        peek_line(line.as_bytes()).expect("the test writes a valid line").2
    }

    /// Decodes the object; `None` if the text is no object.
    pub(crate) fn decode(&self) -> Option<Value> {
        let line: WatchLine = serde_json::from_str(&self.line).ok()?;
        Some(line.object)
    }
}

/// The watches of a component.
pub(crate) struct Watches<K = Kind> {
    /// The stream of each kind, in the order of the kinds.
    kinds: BTreeMap<K, (BoxStream<'static, WatchEvent<K>>, WakeFlag)>,
    parent_waker: Arc<AtomicWaker>,
}

impl<K: Watched> Watches<K> {
    pub(crate) fn start(client: &Client, kinds: impl IntoIterator<Item = K>) -> Self {
        let mut watches = Self::default();
        for kind in kinds {
            watches.start_or_restart_kind(client, kind);
        }
        watches
    }

    /// Starts the watch of a kind, or restarts it with a list, as after a write of unknown outcome.
    pub(crate) fn start_or_restart_kind(&mut self, client: &Client, kind: K) {
        let stream = watch_stream(client.clone(), kind.clone()).boxed();
        self.kinds.insert(kind, (stream, WakeFlag::new(&self.parent_waker)));
    }

    /// Whether the kind is watched.
    pub(crate) fn contains(&self, kind: &K) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Number of watched kinds.
    pub(crate) fn kind_count(&self) -> usize {
        self.kinds.len()
    }
}

impl<K> Default for Watches<K> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new(), parent_waker: Arc::new(AtomicWaker::new()) }
    }
}

impl<K: Watched> Stream for Watches<K> {
    type Item = WatchEvent<K>;

    /// Polls kinds in their order, so that equal runs handle events in the same order; skips those
    /// that were not woken since the last poll.
    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<WatchEvent<K>>> {
        self.parent_waker.register(ctx.waker());
        for (kind, bell) in self.kinds.values_mut() {
            if let Poll::Ready(event) = bell.poll_if_woken(|ctx| kind.poll_next_unpin(ctx)) {
                return Poll::Ready(event);
            }
        }
        Poll::Pending
    }
}

/// State of one watch.
enum WatchState {
    /// No resourceVersion is known yet: a list comes next.
    Listing,
    /// Objects were listed at this resourceVersion: a watch request comes next.
    Connecting(String),
    /// The watch is open: its lines are read.
    Reading(String, WatchLines),
}

type WatchLines = Pin<Box<dyn AsyncBufRead + Send>>;

struct Watch<K> {
    client: Client,
    kind: K,
    failures: u32,
    line: Vec<u8>,
}

fn watch_stream<K: Watched>(client: Client, kind: K) -> impl Stream<Item = WatchEvent<K>> {
    let watch = Watch { client, kind, failures: 0, line: Vec::new() };
    unfold((watch, WatchState::Listing), |(mut watch, mut state)| async move {
        loop {
            let (event, next) = watch.step(state).await;
            state = next;
            if let Some(event) = event {
                return Some((event, (watch, state)));
            }
        }
    })
}

impl<K: Watched> Watch<K> {
    async fn step(&mut self, state: WatchState) -> (Option<WatchEvent<K>>, WatchState) {
        match state {
            WatchState::Listing => match self.list_objects().await {
                Ok((version, objects)) => {
                    self.failures = 0;
                    (
                        Some(WatchEvent::Listed(self.kind.clone(), objects)),
                        WatchState::Connecting(version),
                    )
                }
                Err(error) => self.state_after_failure(&error, WatchState::Listing).await,
            },
            WatchState::Connecting(version) => match self.connect(&version).await {
                Ok(lines) => (None, WatchState::Reading(version, lines)),
                Err(error) => {
                    self.state_after_failure(&error, WatchState::Connecting(version)).await
                }
            },
            WatchState::Reading(version, lines) => self.read_line(version, lines).await,
        }
    }

    async fn list_objects(&self) -> Result<(String, Vec<Value>), ApiError> {
        let request = self.kind.get_request(&self.kind.path(), ResponseForm::List);
        let mut list = request_json(&self.client, request).await?;
        let version = at(&list, "/metadata/resourceVersion").and_then(Value::as_str);
        let version = version.unwrap_or("0").to_owned();
        let objects = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(objects)) => objects,
            _ => Vec::new(),
        };
        Ok((version, objects))
    }

    async fn connect(&self, version: &str) -> Result<WatchLines, ApiError> {
        let path = self.kind.path();
        let path = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let request = self.kind.get_request(&path, ResponseForm::Object);
        Ok(Box::pin(request_lines(&self.client, request).await?))
    }

    /// The state after a failure: retries after a delay. A kind that does not exist counts as an
    /// empty list once.
    async fn state_after_failure(
        &mut self,
        error: &ApiError,
        state: WatchState,
    ) -> (Option<WatchEvent<K>>, WatchState) {
        let kind = self.kind.clone();
        match error {
            ApiError::Gone(_) => {
                debug!(?kind, "resourceVersion expired, listing again");
                return (None, WatchState::Listing);
            }
            ApiError::NotFound(_) => debug!(?kind, "kind does not exist"),
            ApiError::Conflict(_) | ApiError::Refused(_) | ApiError::OutcomeUnknown(_) => {
                warn!(?kind, %error, "cannot list or watch");
            }
        }
        let absent = matches!(error, ApiError::NotFound(_)) && self.failures == 0;
        let wait = RETRY_FIRST.saturating_mul(1 << self.failures.min(5)).min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        if absent {
            return (Some(WatchEvent::Listed(self.kind.clone(), Vec::new())), WatchState::Listing);
        }
        if let (ApiError::NotFound(_), Some(definition)) = (error, self.kind.crd_name()) {
            // If this fails, the kind is listed again anyway.
            if let Ok(DefinitionState::Created) = self.wait_for_definition(definition).await {
                self.failures = 0;
                return (None, WatchState::Listing);
            }
        }
        tokio::time::sleep(wait).await;
        (None, state)
    }

    /// Waits until the `CustomResourceDefinition` exists or its watch ends.
    async fn wait_for_definition(&self, name: &str) -> Result<DefinitionState, ApiError> {
        let definitions =
            object_path("apiextensions.k8s.io/v1", "", "customresourcedefinitions", "");
        let named = format!("{definitions}?fieldSelector=metadata.name%3D{name}");
        let request = Request::get(&named).body(Vec::new()).expect("the path is valid");
        let list = request_json(&self.client, request).await?;
        if !crate::parse::list(&list, "/items").is_empty() {
            return Ok(DefinitionState::Existed);
        }
        let version = at(&list, "/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0");
        let watch = format!("{named}&watch=true&resourceVersion={version}");
        let request = Request::get(watch).body(Vec::new()).expect("path and version are valid");
        let mut lines = Box::pin(request_lines(&self.client, request).await?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
            if peek_line(&line).is_some_and(|(line_kind, ..)| line_kind == LineKind::Changed) {
                return Ok(DefinitionState::Created);
            }
            line.clear();
        }
        Ok(DefinitionState::Unknown)
    }

    async fn read_line(
        &mut self,
        version: String,
        mut lines: WatchLines,
    ) -> (Option<WatchEvent<K>>, WatchState) {
        self.line.clear();
        match lines.read_until(b'\n', &mut self.line).await {
            Ok(0) | Err(_) => return self.state_after_end(version).await,
            Ok(_) => self.failures = 0,
        }
        let Some((line_kind, seen, object)) = peek_line(&self.line) else {
            return (None, WatchState::Reading(version, lines));
        };
        let version_seen = if seen.is_empty() { version } else { seen };
        let event = match line_kind {
            LineKind::Changed => Some(WatchEvent::Changed(self.kind.clone(), object)),
            LineKind::Deleted => Some(WatchEvent::Deleted(self.kind.clone(), object)),
            LineKind::Expired => return (None, WatchState::Listing),
            LineKind::Failed => return self.state_after_end(version_seen).await,
            LineKind::Ignored => None,
        };
        (event, WatchState::Reading(version_seen, lines))
    }

    /// The state after the end of a watch, which servers end from time to time. A watch that ended
    /// without any line is resumed after a delay.
    async fn state_after_end(&mut self, version: String) -> (Option<WatchEvent<K>>, WatchState) {
        if self.failures > 0 {
            tokio::time::sleep(RETRY_FIRST).await;
        }
        self.failures = self.failures.saturating_add(1);
        (None, WatchState::Connecting(version))
    }
}

/// What is known of a `CustomResourceDefinition` after waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefinitionState {
    Existed,
    Created,
    Unknown,
}

/// A line of a watch, of which only the object is decoded.
#[derive(Deserialize)]
struct WatchLine {
    object: Value,
}
