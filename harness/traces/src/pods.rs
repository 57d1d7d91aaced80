//! Jobs from recorded pods: pods of one pod group or owner that arrive together are one job.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use smol_str::{SmolStr, format_smolstr};

use crate::{
    format::TraceFormat,
    job::{JobEnd, JobTrace, TraceJob},
    numbers::jobs_text,
    recorded::{NameMap, rebase, valid_model, valid_name},
};

/// Pods of a group that were created within this time are one job; later ones are the next job.
const GANG_SECS: f64 = 300.0;
/// Kinds of owners whose pods do not run together.
const SINGLE_KINDS: [&str; 6] =
    ["", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Node"];
/// Priority classes that a simulated cluster has.
const PRIORITY_CLASSES: [&str; 4] = ["train", "build-preemptible", "build", "inference"];

/// What was recorded of a pod. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRecord {
    /// Namespace of the pod.
    pub namespace: SmolStr,
    /// Name of the pod.
    pub name: SmolStr,
    /// When the pod was created.
    pub created: Option<f64>,
    /// When its first container started.
    pub started: Option<f64>,
    /// When it ended or was deleted.
    pub ended: Option<f64>,
    /// Kind of its owner, such as `PyTorchJob`; empty if it has none.
    pub owner_kind: SmolStr,
    /// Name of its owner.
    pub owner_name: SmolStr,
    /// Its pod group; empty if it is not known.
    pub pod_group: SmolStr,
    /// Its queue; empty if it has none.
    pub queue: SmolStr,
    /// Its user; empty if it is not known.
    pub user: SmolStr,
    /// Its priority class; empty if it is not known.
    pub priority_class: SmolStr,
    /// Its CPU request, in millicores.
    pub cpu_milli: u64,
    /// Its memory request, in MiB.
    pub memory_mib: u64,
    /// Its GPU devices; a fraction counts as one.
    pub gpus: u64,
    /// Its GPU request in thousandths.
    pub gpu_milli: u64,
    /// Its memory request on each GPU, in MiB; 0 if it requests whole GPUs or fractions.
    pub gpu_memory_mib: u64,
    /// GPU models that it accepts; empty: any.
    pub models: Vec<SmolStr>,
}

/// Which pods become jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodSelection {
    /// Pods that request a GPU or have a queue.
    #[default]
    GpuOrQueue,
    /// All pods.
    All,
}

/// What pods of one job have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    cpu_milli: u64,
    memory_mib: u64,
    gpus: u64,
    gpu_milli: u64,
    gpu_memory_mib: u64,
    models: Vec<SmolStr>,
}

/// Which pods belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct GroupKey {
    namespace: SmolStr,
    name: SmolStr,
}

#[derive(Default)]
struct Importer {
    names: BTreeSet<SmolStr>,
    queue_names: NameMap,
    still_running: usize,
    still_pending: usize,
    split: usize,
    other_classes: BTreeSet<SmolStr>,
    jobs: Vec<TraceJob>,
}

/// The jobs of recorded pods, with notes of what was left out.
pub fn jobs_from_pods(pods: Vec<PodRecord>, selection: PodSelection) -> JobTrace {
    let (mut without_time, mut not_selected) = (0, 0);
    let mut groups = HashMap::<GroupKey, Vec<PodRecord>>::new();
    for pod in pods {
        if selection == PodSelection::GpuOrQueue && pod.gpus == 0 && pod.queue.is_empty() {
            not_selected += 1;
        } else if pod.created.is_none() {
            without_time += 1;
        } else {
            groups.entry(group_key(&pod)).or_default().push(pod);
        }
    }
    let groups: BTreeMap<GroupKey, Vec<PodRecord>> = groups.into_iter().collect();
    let mut importer = Importer::default();
    for (key, pods) in groups {
        importer.add_group(&key, pods);
    }
    let mut notes = importer.notes();
    let mut note = |count: usize, text: &str| {
        if count > 0 {
            notes.push(format!("pods skipped: {count}, {text}"));
        }
    };
    note(not_selected, "without GPU and queue (--all-pods takes them)");
    note(without_time, "without a creation time");
    let mut jobs = importer.jobs;
    let start = rebase(&mut jobs);
    let mut trace = JobTrace { format: TraceFormat::JsonLines, start, jobs, notes };
    trace.sort_by_arrival();
    trace
}

fn group_key(pod: &PodRecord) -> GroupKey {
    let name = if !pod.pod_group.is_empty() {
        pod.pod_group.clone()
    } else if SINGLE_KINDS.contains(&pod.owner_kind.as_str()) {
        pod.name.clone()
    } else {
        pod.owner_name.clone()
    };
    GroupKey { namespace: pod.namespace.clone(), name }
}

impl Importer {
    fn add_group(&mut self, key: &GroupKey, mut pods: Vec<PodRecord>) {
        pods.sort_by(|a, b| {
            let created = |pod: &PodRecord| pod.created.unwrap_or_default();
            created(a).total_cmp(&created(b)).then_with(|| a.name.cmp(&b.name))
        });
        let mut rest = pods.as_slice();
        while let Some(first) = rest.first() {
            let latest = first.created.unwrap_or_default() + GANG_SECS;
            let together = rest.partition_point(|pod| pod.created.unwrap_or_default() <= latest);
            let (gang, later) = rest.split_at(together);
            self.add_gang(key, gang);
            rest = later;
        }
    }

    /// Adds pods that arrived together; pods of different requests become several jobs.
    fn add_gang(&mut self, key: &GroupKey, pods: &[PodRecord]) {
        let mut by_shape = BTreeMap::<Shape, Vec<&PodRecord>>::new();
        for pod in pods {
            by_shape.entry(shape(pod)).or_default().push(pod);
        }
        self.split += by_shape.len() - 1;
        for (shape, pods) in &by_shape {
            self.add_job(key, shape, pods);
        }
    }

    fn add_job(&mut self, key: &GroupKey, shape: &Shape, pods: &[&PodRecord]) {
        let Some(first) = pods.first() else { return };
        let arrives_secs = first.created.unwrap_or_default();
        let latest = |time: &dyn Fn(&PodRecord) -> Option<f64>| -> Option<f64> {
            let times: Option<Vec<f64>> = pods.iter().map(|pod| time(pod)).collect();
            times?.into_iter().max_by(f64::total_cmp)
        };
        // A gang runs from when all of its pods run until the last one ends.
        let end = match (latest(&|pod| pod.started), latest(&|pod| pod.ended)) {
            (Some(started), Some(ended)) => JobEnd::RunsSecs((ended - started).max(0.0)),
            (None, Some(ended)) => JobEnd::LeavesAfterSecs((ended - arrives_secs).max(0.0)),
            (Some(_), None) => {
                self.still_running += 1;
                JobEnd::Never
            }
            (None, None) => {
                self.still_pending += 1;
                JobEnd::Never
            }
        };
        let class = &first.priority_class;
        let is_known = PRIORITY_CLASSES.contains(&class.as_str());
        if !is_known && !class.is_empty() {
            self.other_classes.insert(class.clone());
        }
        let job = TraceJob {
            line: 0,
            name: self.free_name(key),
            pods: u64::try_from(pods.len()).unwrap_or(u64::MAX),
            cpu_milli: shape.cpu_milli,
            memory_mib: shape.memory_mib,
            gpus: shape.gpus,
            gpu_milli: shape.gpu_milli,
            gpu_memory_mib: shape.gpu_memory_mib,
            models: shape.models.iter().map(|model| valid_model(model)).collect(),
            queue: self.queue_names.valid(&first.queue),
            user: first.user.clone(),
            kind: first.owner_kind.clone(),
            priority_class: if is_known { class.clone() } else { SmolStr::default() },
            arrives_secs,
            end,
        };
        self.jobs.push(job);
    }

    fn free_name(&mut self, key: &GroupKey) -> SmolStr {
        let namespace = if key.namespace == "default" { "" } else { key.namespace.as_str() };
        let base = valid_name(format!("{namespace}-{}", key.name).trim_start_matches('-'), 190);
        let mut free = base.clone();
        let mut number = 2_u64;
        while !self.names.insert(free.clone()) {
            free = format_smolstr!("{base}-{number}");
            number += 1;
        }
        free
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: usize, text: &str| {
            if count > 0 {
                notes.push(format!("{} {text}", jobs_text(count)));
            }
        };
        note(self.still_running, "still running at the end: without runs_secs, so never ending");
        note(self.still_pending, "still pending at the end: without runs_secs, so never ending");
        note(self.split, "more than groups: pods of a group with different requests were split");
        if !self.other_classes.is_empty() {
            let classes: Vec<&str> = self.other_classes.iter().map(SmolStr::as_str).collect();
            notes.push(format!(
                "priority classes left out: {}; a trace has {}",
                classes.join(", "),
                PRIORITY_CLASSES.join(", ")
            ));
        }
        notes
    }
}

fn shape(pod: &PodRecord) -> Shape {
    Shape {
        cpu_milli: pod.cpu_milli,
        memory_mib: pod.memory_mib,
        gpus: pod.gpus,
        gpu_milli: pod.gpu_milli,
        gpu_memory_mib: pod.gpu_memory_mib,
        models: pod.models.clone(),
    }
}
