//! The history of a cluster in a form that fits into a page: what each write changed of the state.
//! The state at a write is the sum of the changes up to it, in Rust ([`Timeline::state_at`]) as in
//! the script of the page.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use jiff::Timestamp;
use schedlab_emulator::store::{EventKind, LogEntry};
use serde::{Deserialize, Serialize};

use crate::events::events_of_entry;
use crate::state::{
    ClusterState, GpuState, GpuUser, MilliGpus, NodeState, PartState, PendingWorkload, QueueState,
    StateBuilder,
};

/// The history of a cluster. Names of fields are short, because there are many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// What each write changed, in the order of revisions.
    pub frames: Vec<Frame>,
    /// For each step of a scenario, the number of frames when it ended.
    pub steps: Vec<usize>,
}

/// One write and what it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The revision of the write.
    #[serde(rename = "r")]
    pub revision: u64,
    /// Milliseconds since the start of the scenario.
    #[serde(rename = "t")]
    pub millis: i64,
    /// Author, verb, kind and name, such as `kai-scheduler updates pods default/train`. A client that
    /// did not name itself is "a client".
    #[serde(rename = "w")]
    pub write: String,
    /// The nodes that changed; a node that is gone has no value.
    #[serde(rename = "n", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Option<NodeRow>>,
    /// The names of all queues, parents first, if they changed.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub queue_order: Option<Vec<String>>,
    /// The queues that changed.
    #[serde(rename = "q", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queues: BTreeMap<String, QueueRow>,
    /// The workloads with pending pods that changed; one without pending pods has no value.
    #[serde(rename = "p", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pending: BTreeMap<String, Option<PendingRow>>,
    /// What the write means to a user.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRow>,
}

/// A node: its problem, the number of pods without a GPU of the node, the users of each GPU, and the
/// MIG slices and DRA devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRow(
    pub Option<String>,
    pub usize,
    pub Vec<Vec<UserRow>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")] pub Vec<PartRow>,
);

/// A MIG slice or a DRA device: its profile or driver, its name, and the pods that use it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRow(pub String, pub String, pub Vec<UserRow>);

/// A pod that uses a GPU: the pod, its queue, 1 if it is being deleted, else 0, and the part of the
/// GPU that it uses, in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserRow(
    pub Arc<str>,
    pub Arc<str>,
    pub u8,
    #[serde(default = "whole_gpu", skip_serializing_if = "is_whole_gpu")] pub MilliGpus,
);

const fn whole_gpu() -> MilliGpus {
    1000
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_whole_gpu(portion: &MilliGpus) -> bool {
    *portion == whole_gpu()
}

impl From<&GpuUser> for UserRow {
    fn from(user: &GpuUser) -> Self {
        let (pod, queue) = (Arc::clone(&user.pod), Arc::clone(&user.queue));
        Self(pod, queue, u8::from(user.is_terminating), user.portion)
    }
}

impl From<&UserRow> for GpuUser {
    fn from(UserRow(pod, queue, is_terminating, portion): &UserRow) -> Self {
        Self {
            pod: Arc::clone(pod),
            queue: Arc::clone(queue),
            is_terminating: *is_terminating == 1,
            portion: *portion,
        }
    }
}

/// A queue. Amounts are thousandths of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueRow {
    #[serde(rename = "d")]
    depth: usize,
    #[serde(rename = "q")]
    quota: Option<MilliGpus>,
    #[serde(rename = "l")]
    limit: Option<MilliGpus>,
    #[serde(rename = "f")]
    fair_share: Option<MilliGpus>,
    #[serde(rename = "u")]
    used: MilliGpus,
    #[serde(rename = "p")]
    pending: MilliGpus,
    #[serde(rename = "c")]
    has_children: bool,
}

/// A workload with pending pods; its key is its namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRow {
    #[serde(rename = "t")]
    title: String,
    #[serde(rename = "q")]
    queue: String,
    #[serde(rename = "n")]
    pods: usize,
    #[serde(rename = "r")]
    running: usize,
    #[serde(rename = "g")]
    gpus: MilliGpus,
    #[serde(rename = "w")]
    reason: String,
}

/// Kind of the event, kind of the object, name of the object, and what happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow(pub String, pub String, pub String, pub String);

impl From<&NodeState> for NodeRow {
    fn from(node: &NodeState) -> Self {
        let users = |users: &[GpuUser]| users.iter().map(UserRow::from).collect();
        let gpus = node.gpus.iter().map(|gpu| users(&gpu.users)).collect();
        let part =
            |part: &PartState| PartRow(part.group.clone(), part.name.clone(), users(&part.users));
        let parts = node.parts.iter().map(part).collect();
        Self(node.problem.map(str::to_owned), node.other_pods, gpus, parts)
    }
}

impl From<&QueueState> for QueueRow {
    fn from(queue: &QueueState) -> Self {
        Self {
            depth: queue.depth,
            quota: queue.quota,
            limit: queue.limit,
            fair_share: queue.fair_share,
            used: queue.used,
            pending: queue.pending,
            has_children: queue.has_children,
        }
    }
}

impl From<PendingWorkload> for PendingRow {
    fn from(workload: PendingWorkload) -> Self {
        Self {
            title: workload.title,
            queue: workload.queue,
            pods: workload.pods,
            running: workload.running,
            gpus: workload.gpus,
            reason: workload.reason,
        }
    }
}

/// The names of the problems of nodes, so that they are read as the same static texts.
const NODE_PROBLEMS: [&str; 2] = ["not ready", "cordoned"];

/// A timeline that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TimelineError {
    /// The text is not base64.
    #[error("the timeline is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The data cannot be decompressed.
    #[error("the timeline cannot be decompressed: {0}")]
    Compression(#[from] std::io::Error),
    /// The data is not a timeline.
    #[error("the timeline is not in its JSON form: {0}")]
    Json(#[from] serde_json::Error),
}

/// The queues of the last frame.
#[derive(Default)]
struct QueueRows {
    rows: BTreeMap<String, QueueRow>,
    order: Vec<String>,
}

impl QueueRows {
    /// Takes over the queues of a new state, and adds to the frame those that changed.
    fn update(&mut self, states: &[QueueState], frame: &mut Frame) {
        let names: Vec<String> = states.iter().map(|queue| queue.name.clone()).collect();
        for state in states {
            let row = QueueRow::from(state);
            if self.rows.get(&state.name) != Some(&row) {
                self.rows.insert(state.name.clone(), row.clone());
                frame.queues.insert(state.name.clone(), row);
            }
        }
        if names != self.order {
            self.order.clone_from(&names);
            frame.queue_order = Some(names);
        }
    }
}

impl Timeline {
    /// The timeline of a log that begins with the first write. `step_revisions` has the revision of
    /// the cluster at the end of each step.
    pub fn of_log(log: &[Arc<LogEntry>], start: Timestamp, step_revisions: &[u64]) -> Self {
        let mut builder = StateBuilder::default();
        let mut queues = QueueRows::default();
        let mut frames = Vec::with_capacity(log.len());
        for entry in log {
            let mut frame = Frame {
                revision: entry.revision,
                millis: entry.time.as_millisecond() - start.as_millisecond(),
                write: write_text(entry),
                events: event_rows(entry),
                ..Frame::default()
            };
            let change = builder.apply_entry(entry);
            for node in change.nodes {
                let row = builder.node_state(&node).as_ref().map(NodeRow::from);
                frame.nodes.insert(node.to_string(), row);
            }
            for workload in change.workloads {
                let row = builder.pending_workload(&workload).map(PendingRow::from);
                frame.pending.insert(format!("{}/{}", workload.0, workload.1), row);
            }
            if change.has_queue_change {
                queues.update(&builder.queue_states(), &mut frame);
            }
            frames.push(frame);
        }
        let steps = step_revisions.iter();
        let steps = steps.map(|end| log.partition_point(|entry| entry.revision <= *end)).collect();
        Self { frames, steps }
    }

    /// The state after the first `count` writes.
    pub fn state_at(&self, count: usize) -> ClusterState {
        let mut nodes: BTreeMap<&str, &NodeRow> = BTreeMap::new();
        let mut queues: BTreeMap<&str, &QueueRow> = BTreeMap::new();
        let mut pending: BTreeMap<&str, &PendingRow> = BTreeMap::new();
        let mut order: &[String] = &[];
        for frame in self.frames.iter().take(count) {
            merge(&mut nodes, &frame.nodes);
            merge(&mut pending, &frame.pending);
            queues.extend(frame.queues.iter().map(|(name, row)| (&**name, row)));
            order = frame.queue_order.as_deref().unwrap_or(order);
        }
        let queues = order.iter().filter_map(|name| {
            let row = queues.get(&**name)?;
            Some(queue_state(name, row))
        });
        let nodes: Vec<NodeState> =
            nodes.into_iter().map(|(name, row)| node_state(name, row)).collect();
        let gpus = nodes.iter().flat_map(|node| &node.gpus);
        ClusterState {
            gpus: gpus.clone().count(),
            gpus_in_use: gpus.filter(|gpu| !gpu.users.is_empty()).count(),
            queues: queues.collect(),
            pending: pending_states(&pending),
            nodes,
        }
    }

    /// The timeline as compressed JSON in base64.
    ///
    /// # Errors
    /// The timeline cannot be written as JSON.
    pub fn encode(&self) -> Result<String, TimelineError> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&serde_json::to_vec(self)?)?;
        Ok(STANDARD.encode(encoder.finish()?))
    }

    /// Reads what [`Timeline::encode`] wrote.
    ///
    /// # Errors
    /// The text is not an encoded timeline.
    pub fn decode(text: &str) -> Result<Self, TimelineError> {
        let compressed = STANDARD.decode(text)?;
        let mut json = Vec::new();
        ZlibDecoder::new(&*compressed).read_to_end(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }
}

fn merge<'t, R>(rows: &mut BTreeMap<&'t str, &'t R>, changes: &'t BTreeMap<String, Option<R>>) {
    for (name, row) in changes {
        match row {
            Some(row) => rows.insert(name, row),
            None => rows.remove(&**name),
        };
    }
}

fn write_text(entry: &LogEntry) -> String {
    let verb = match entry.kind {
        EventKind::Added => "creates",
        EventKind::Modified => "updates",
        EventKind::Deleted => "removes",
    };
    let key = &entry.key;
    // The emulator's name for a client without a name.
    let author = if &*entry.manager == "unknown" { "a client" } else { &*entry.manager };
    let plural = &key.resource.plural;
    match &*key.namespace {
        "" => format!("{author} {verb} {plural} {}", key.name),
        namespace => format!("{author} {verb} {plural} {namespace}/{}", key.name),
    }
}

fn event_rows(entry: &LogEntry) -> Vec<EventRow> {
    let row = |event: crate::events::ClusterEvent| {
        let name = match &*event.namespace {
            "" => event.name.to_string(),
            namespace => format!("{namespace}/{}", event.name),
        };
        EventRow(event.kind.as_str().to_owned(), event.object_kind.to_owned(), name, event.text)
    };
    events_of_entry(entry).into_iter().map(row).collect()
}

fn node_state(name: &str, NodeRow(problem, other_pods, gpus, parts): &NodeRow) -> NodeState {
    let users = |users: &[UserRow]| users.iter().map(GpuUser::from).collect();
    let part = |PartRow(group, name, of): &PartRow| PartState {
        group: group.clone(),
        name: name.clone(),
        users: users(of),
    };
    let problem = problem.as_deref();
    NodeState {
        name: name.to_owned(),
        problem: NODE_PROBLEMS.into_iter().find(|known| Some(*known) == problem),
        gpus: gpus.iter().map(|of| GpuState { users: users(of) }).collect(),
        parts: parts.iter().map(part).collect(),
        other_pods: *other_pods,
    }
}

fn queue_state(name: &str, row: &QueueRow) -> QueueState {
    QueueState {
        name: name.to_owned(),
        depth: row.depth,
        quota: row.quota,
        limit: row.limit,
        fair_share: row.fair_share,
        used: row.used,
        pending: row.pending,
        has_children: row.has_children,
    }
}

/// The workloads, ordered by namespace and name.
fn pending_states(rows: &BTreeMap<&str, &PendingRow>) -> Vec<PendingWorkload> {
    let workload = |(key, row): (&&str, &&PendingRow)| {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        PendingWorkload {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            title: row.title.clone(),
            queue: row.queue.clone(),
            pods: row.pods,
            running: row.running,
            gpus: row.gpus,
            reason: row.reason.clone(),
        }
    };
    let mut workloads: Vec<PendingWorkload> = rows.iter().map(workload).collect();
    workloads.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    workloads
}
