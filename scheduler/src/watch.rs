//! Lists and watches of the kinds that decisions depend on. A watch goes on from the last
//! resource version it saw, begins anew with a list when that is too old, and waits a fixed
//! time after a failure. Lines that are no objects are skipped, so that one of them cannot stop
//! the rest.

mod bell;
mod line;

use std::{collections::BTreeMap, pin::Pin, sync::Arc, task::Context, task::Poll, time::Duration};

use futures::{
    AsyncBufRead, AsyncBufReadExt, Stream, StreamExt,
    stream::{BoxStream, unfold},
    task::AtomicWaker,
};
use http::{Request, header::ACCEPT};
use kube::Client;
use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;
use serde::Deserialize;

use self::{
    bell::Bell,
    line::{Said, glance},
};
use crate::{
    api::{ApiError, path, tree_of},
    config::Flavor,
    parse::at,
};

/// Wait after the first failure in a row; doubled with each further one.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(32);

/// The kinds that are mirrored, in the order in which their news are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Namespace,
    PriorityClass,
    Queue,
    Topology,
    Karta,
    DeviceClass,
    ResourceSlice,
    Storage(Storage),
    ConfigMap,
    NodeResourceTopology,
    Node,
    PodGroup,
    PodDisruptionBudget,
    ResourceClaim,
    BindRequest,
    Pod,
}

/// What claims on volumes depend on, in the order in which its news are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Storage {
    /// `StorageClass`.
    Class,
    /// `PersistentVolume`.
    Volume,
    /// `PersistentVolumeClaim`.
    Claim,
    /// `CSIDriver`.
    Driver,
    /// `CSIStorageCapacity`.
    Capacity,
    /// `CSINode`.
    Node,
    /// `VolumeAttachment`.
    Attachment,
}

impl Kind {
    /// What a scheduler of this flavor has to know.
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
                Self::Storage(Storage::Class),
                Self::Storage(Storage::Volume),
                Self::Storage(Storage::Claim),
                Self::Storage(Storage::Driver),
                Self::Storage(Storage::Capacity),
                Self::Storage(Storage::Node),
                Self::Storage(Storage::Attachment),
                Self::ConfigMap,
                Self::NodeResourceTopology,
                Self::Node,
                Self::PodGroup,
                Self::ResourceClaim,
                Self::BindRequest,
                Self::Pod,
            ],
            Flavor::Kube => &[
                Self::Namespace,
                Self::DeviceClass,
                Self::ResourceSlice,
                Self::Storage(Storage::Class),
                Self::Storage(Storage::Volume),
                Self::Storage(Storage::Claim),
                Self::Storage(Storage::Driver),
                Self::Storage(Storage::Capacity),
                Self::Storage(Storage::Node),
                Self::Storage(Storage::Attachment),
                Self::Node,
                Self::PodDisruptionBudget,
                Self::ResourceClaim,
                Self::Pod,
            ],
        }
    }

    /// What pods have to name before anybody asks for the kind; `None`: it matters at any time.
    pub(crate) const fn need(self) -> Option<Need> {
        match self {
            Self::Storage(_) => Some(Need::Volumes),
            Self::ConfigMap => Some(Need::ConfigMaps),
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

    /// How the kind is asked for: of config maps no decision needs more than their names.
    pub(crate) fn asks_for(self, path: &str, asking: Asking) -> Request<Vec<u8>> {
        let mut request = Request::get(path);
        if self == Self::ConfigMap {
            let of = match asking {
                Asking::One => "PartialObjectMetadata",
                Asking::List => "PartialObjectMetadataList",
            };
            let accepted = format!("application/json;as={of};g=meta.k8s.io;v=v1");
            request = request.header(ACCEPT, accepted);
        }
        request.body(Vec::new()).expect("a fixed path, a version, a fixed header")
    }

    /// Where all of them are listed.
    pub(crate) fn path(self) -> String {
        let (api_version, plural) = match self {
            Self::PriorityClass => ("scheduling.k8s.io/v1", "priorityclasses"),
            Self::Queue => ("scheduling.run.ai/v2", "queues"),
            Self::Topology => ("kai.scheduler/v1alpha1", "topologies"),
            Self::Karta => ("run.ai/v1alpha1", "kartas"),
            Self::DeviceClass => ("resource.k8s.io/v1", "deviceclasses"),
            Self::ResourceSlice => ("resource.k8s.io/v1", "resourceslices"),
            Self::Storage(Storage::Class) => ("storage.k8s.io/v1", "storageclasses"),
            Self::Storage(Storage::Volume) => ("v1", "persistentvolumes"),
            Self::Storage(Storage::Claim) => ("v1", "persistentvolumeclaims"),
            Self::Storage(Storage::Driver) => ("storage.k8s.io/v1", "csidrivers"),
            Self::Storage(Storage::Capacity) => ("storage.k8s.io/v1", "csistoragecapacities"),
            Self::Storage(Storage::Node) => ("storage.k8s.io/v1", "csinodes"),
            Self::Storage(Storage::Attachment) => ("storage.k8s.io/v1", "volumeattachments"),
            Self::ConfigMap => ("v1", "configmaps"),
            Self::NodeResourceTopology => {
                ("topology.node.k8s.io/v1alpha2", "noderesourcetopologies")
            }
            Self::ResourceClaim => ("resource.k8s.io/v1", "resourceclaims"),
            Self::Namespace => ("v1", "namespaces"),
            Self::Node => ("v1", "nodes"),
            Self::PodGroup => ("scheduling.run.ai/v2alpha2", "podgroups"),
            Self::BindRequest => ("scheduling.run.ai/v1alpha2", "bindrequests"),
            Self::PodDisruptionBudget => ("policy/v1", "poddisruptionbudgets"),
            Self::Pod => ("v1", "pods"),
        };
        path(api_version, "", plural, "")
    }

    /// The definition without which nobody need ask for it; `None`: it is part of any cluster that
    /// is scheduled.
    fn definition(self) -> Option<&'static str> {
        match self {
            Self::NodeResourceTopology => Some("noderesourcetopologies.topology.node.k8s.io"),
            Self::Karta => Some("kartas.run.ai"),
            Self::Namespace
            | Self::PriorityClass
            | Self::Queue
            | Self::Topology
            | Self::DeviceClass
            | Self::ResourceSlice
            | Self::Storage(_)
            | Self::ConfigMap
            | Self::Node
            | Self::PodGroup
            | Self::PodDisruptionBudget
            | Self::ResourceClaim
            | Self::BindRequest
            | Self::Pod => None,
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// Objects, one by one.
    One,
    List,
}

/// What pods may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Volumes,
    ConfigMaps,
}

impl Need {
    pub(crate) const ALL: [Self; 2] = [Self::Volumes, Self::ConfigMaps];
}

/// What the watches say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// All objects of a kind, in place of everything known of it.
    All(Kind, Vec<Value>),
    /// An object is new or different.
    Changed(Kind, Unread),
    /// An object is gone.
    Gone(Kind, Unread),
}

impl News {
    /// Of which kind it is.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::All(kind, _) | Self::Changed(kind, _) | Self::Gone(kind, _) => *kind,
        }
    }
}

/// An object as the watch wrote it, of which no more was read than which one it is: most are
/// answers to writes of ours come back, and known already.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unread {
    pub(crate) namespace: Name,
    pub(crate) name: Name,
    /// `metadata.resourceVersion` as a number; 0 when it is none.
    pub(crate) version: u64,
    line: String,
}

impl Unread {
    #[cfg(test)]
    pub(crate) fn of(object: &Value) -> Self {
        let line = schedlab_json::json!({ "type": "MODIFIED", "object": object }).to_string();
        glance(line.as_bytes()).expect("a line of a watch").2
    }

    /// The object; `None` where the line holds none after all.
    pub(crate) fn object(&self) -> Option<Value> {
        let line: Line = serde_json::from_str(&self.line).ok()?;
        Some(line.object)
    }
}

/// All watches of one scheduler, or of another of its parts.
pub(crate) struct Watches {
    /// In the order of the kinds.
    kinds: BTreeMap<Kind, (BoxStream<'static, News>, Bell)>,
    whole: Arc<AtomicWaker>,
}

impl Watches {
    pub(crate) fn start(client: &Client, kinds: impl IntoIterator<Item = Kind>) -> Self {
        let mut watches = Self { kinds: BTreeMap::new(), whole: Arc::new(AtomicWaker::new()) };
        for kind in kinds {
            watches.begin(client, kind);
        }
        watches
    }

    /// Begins a kind, or begins it anew after an answer was lost and nobody knows how it stands.
    pub(crate) fn begin(&mut self, client: &Client, kind: Kind) {
        let watch = (watch(client.clone(), kind).boxed(), Bell::new(&self.whole));
        self.kinds.insert(kind, watch);
    }

    /// How many there are.
    pub(crate) fn started(&self) -> usize {
        self.kinds.len()
    }
}

impl Stream for Watches {
    type Item = News;

    /// Kinds are asked in their order, so equal runs hear equal news; those that have not rung
    /// since they were asked last have none.
    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<News>> {
        self.whole.register(ctx.waker());
        for (kind, bell) in self.kinds.values_mut() {
            if let Poll::Ready(news) = bell.ask(|ctx| kind.poll_next_unpin(ctx)) {
                return Poll::Ready(news);
            }
        }
        Poll::Pending
    }
}

/// Where one watch is.
enum State {
    /// Knows nothing.
    Listing,
    /// Knows everything up to this resource version.
    Connecting(String),
    /// Reads lines.
    Reading(String, Lines),
}

type Lines = Pin<Box<dyn AsyncBufRead + Send>>;

struct Watch {
    client: Client,
    kind: Kind,
    failures: u32,
    line: Vec<u8>,
}

fn watch(client: Client, kind: Kind) -> impl Stream<Item = News> {
    let watch = Watch { client, kind, failures: 0, line: Vec::new() };
    unfold((watch, State::Listing), |(mut watch, mut state)| async move {
        loop {
            let (news, next) = watch.step(state).await;
            state = next;
            if let Some(news) = news {
                return Some((news, (watch, state)));
            }
        }
    })
}

impl Watch {
    async fn step(&mut self, state: State) -> (Option<News>, State) {
        match state {
            State::Listing => match self.list().await {
                Ok((version, objects)) => {
                    self.failures = 0;
                    (Some(News::All(self.kind, objects)), State::Connecting(version))
                }
                Err(error) => self.after_failure(&error, State::Listing).await,
            },
            State::Connecting(version) => match self.connect(&version).await {
                Ok(lines) => (None, State::Reading(version, lines)),
                Err(error) => self.after_failure(&error, State::Connecting(version)).await,
            },
            State::Reading(version, lines) => self.read(version, lines).await,
        }
    }

    async fn list(&self) -> Result<(String, Vec<Value>), ApiError> {
        let request = self.kind.asks_for(&self.kind.path(), Asking::List);
        let mut list = tree_of(&self.client, request).await?;
        let version = at(&list, "/metadata/resourceVersion").and_then(Value::as_str);
        let version = version.unwrap_or("0").to_owned();
        let objects = match list.get_mut("items").map(Value::take) {
            Some(Value::Array(objects)) => objects,
            _ => Vec::new(),
        };
        Ok((version, objects))
    }

    async fn connect(&self, version: &str) -> Result<Lines, ApiError> {
        let path = self.kind.path();
        let path = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let request = self.kind.asks_for(&path, Asking::One);
        Ok(Box::pin(self.client.request_stream(request).await?))
    }

    /// A kind that does not exist (yet) is asked for again, as is a server that is away.
    async fn after_failure(&mut self, error: &ApiError, state: State) -> (Option<News>, State) {
        if matches!(error, ApiError::Gone(_)) {
            return (None, State::Listing);
        }
        let absent = matches!(error, ApiError::NotFound(_)) && self.failures == 0;
        let wait = RETRY_FIRST.saturating_mul(1 << self.failures.min(5)).min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        if absent {
            return (Some(News::All(self.kind, Vec::new())), State::Listing);
        }
        if let (ApiError::NotFound(_), Some(definition)) = (error, self.kind.definition()) {
            // Whatever goes wrong with that, the kind itself is asked for again.
            if let Ok(Definition::CameJustNow) = self.definition_comes(definition).await {
                self.failures = 0;
                return (None, State::Listing);
            }
        }
        tokio::time::sleep(wait).await;
        (None, state)
    }

    /// Waits until the definition is there, or its watch ends.
    async fn definition_comes(&self, name: &str) -> Result<Definition, ApiError> {
        let definitions = path("apiextensions.k8s.io/v1", "", "customresourcedefinitions", "");
        let named = format!("{definitions}?fieldSelector=metadata.name%3D{name}");
        let request = Request::get(&named).body(Vec::new()).expect("a fixed path");
        let list = tree_of(&self.client, request).await?;
        if !crate::parse::list(&list, "/items").is_empty() {
            return Ok(Definition::WasThere);
        }
        let version = at(&list, "/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0");
        let watch = format!("{named}&watch=true&resourceVersion={version}");
        let request = Request::get(watch).body(Vec::new()).expect("a fixed path and a version");
        let mut lines = Box::pin(self.client.request_stream(request).await?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
            if glance(&line).is_some_and(|(said, ..)| said == Said::Changed) {
                return Ok(Definition::CameJustNow);
            }
            line.clear();
        }
        Ok(Definition::Unknown)
    }

    async fn read(&mut self, version: String, mut lines: Lines) -> (Option<News>, State) {
        self.line.clear();
        match lines.read_until(b'\n', &mut self.line).await {
            Ok(0) | Err(_) => return self.after_end(version).await,
            Ok(_) => self.failures = 0,
        }
        let Some((said, seen, object)) = glance(&self.line) else {
            return (None, State::Reading(version, lines));
        };
        let seen = if seen.is_empty() { version } else { seen };
        let news = match said {
            Said::Changed => Some(News::Changed(self.kind, object)),
            Said::Gone => Some(News::Gone(self.kind, object)),
            Said::TooOld => return (None, State::Listing),
            Said::Failed => return self.after_end(seen).await,
            Said::Nothing => None,
        };
        (news, State::Reading(seen, lines))
    }

    /// Servers end watches now and then; one that ended without a word is not taken up at once.
    async fn after_end(&mut self, version: String) -> (Option<News>, State) {
        if self.failures > 0 {
            tokio::time::sleep(RETRY_FIRST).await;
        }
        self.failures = self.failures.saturating_add(1);
        (None, State::Connecting(version))
    }
}

/// What is known of the definition of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Definition {
    WasThere,
    CameJustNow,
    Unknown,
}

/// One line of a watch, of which its kind is known.
#[derive(Deserialize)]
struct Line {
    object: Value,
}
