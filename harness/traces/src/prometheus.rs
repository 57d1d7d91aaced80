//! Recorded pods from the series of kube-state-metrics in Prometheus. This module makes the
//! queries and reads the responses; the caller sends them to Prometheus.

use std::collections::HashMap;

use schedlab_api::annotations;
use serde::Deserialize;
use smol_str::SmolStr;

use crate::{
    fleet::TraceQueue,
    numbers::{to_count, to_f64},
    objects::{QUEUE_LABELS, USER_LABELS, set_share},
    pods::PodRecord,
};

/// A series that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// `kube_pod_created`.
    Created,
    /// `kube_pod_start_time`.
    Started,
    /// `kube_pod_completion_time`.
    Completed,
    /// `kube_pod_container_resource_requests`.
    Requests,
    /// `kube_pod_labels`.
    Labels,
    /// `kube_pod_annotations`.
    Annotations,
    /// `kube_pod_owner`.
    Owner,
    /// `kube_pod_info`.
    Info,
    /// When `kube_pod_created` was last scraped: a pod that is gone has no completion time.
    LastSeen,
    /// `kai_queue_deserved_gpus`: quotas of KAI's queues.
    QueueQuota,
}

impl Series {
    /// All series, in the order in which they are read.
    pub const ALL: [Self; 10] = [
        Self::Created,
        Self::Started,
        Self::Completed,
        Self::Requests,
        Self::Labels,
        Self::Annotations,
        Self::Owner,
        Self::Info,
        Self::LastSeen,
        Self::QueueQuota,
    ];

    fn metric(self) -> &'static str {
        match self {
            Self::Created | Self::LastSeen => "kube_pod_created",
            Self::Started => "kube_pod_start_time",
            Self::Completed => "kube_pod_completion_time",
            Self::Requests => "kube_pod_container_resource_requests",
            Self::Labels => "kube_pod_labels",
            Self::Annotations => "kube_pod_annotations",
            Self::Owner => "kube_pod_owner",
            Self::Info => "kube_pod_info",
            Self::QueueQuota => "kai_queue_deserved_gpus",
        }
    }

    /// The expression whose value at a step is the last one of that step. `matchers` are label
    /// matchers such as `cluster="a"`, or empty.
    pub fn expression(self, matchers: &str, step_secs: u64) -> String {
        let mut selector = self.metric().to_owned();
        let of_gpus = "resource=~\"cpu|memory|nvidia_com_gpu\"";
        let all = [if self == Self::Requests { of_gpus } else { "" }, matchers];
        let all: Vec<&str> = all.into_iter().filter(|part| !part.is_empty()).collect();
        if !all.is_empty() {
            selector = format!("{selector}{{{}}}", all.join(","));
        }
        match self {
            Self::LastSeen => {
                let step = SCRAPE_SECS.min(step_secs);
                format!("max_over_time(timestamp({selector})[{step_secs}s:{step}s])")
            }
            Self::Created
            | Self::Started
            | Self::Completed
            | Self::Requests
            | Self::Labels
            | Self::Annotations
            | Self::Owner
            | Self::Info
            | Self::QueueQuota => format!("last_over_time({selector}[{step_secs}s])"),
        }
    }
}

/// Distance of the points at which it is asked whether a pod was still there, in seconds.
const SCRAPE_SECS: u64 = 60;

/// The answer of Prometheus to a range query.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// `success` or `error`.
    pub status: String,
    /// The message about an error.
    #[serde(default)]
    pub error: String,
    /// The series.
    #[serde(default)]
    pub data: AnswerData,
    /// What was left out, such as series beyond a limit.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The series of an answer.
#[derive(Debug, Default, Deserialize)]
pub struct AnswerData {
    #[serde(default)]
    result: Vec<Points>,
}

#[derive(Debug, Deserialize)]
struct Points {
    metric: HashMap<SmolStr, SmolStr>,
    values: Vec<(f64, SmolStr)>,
}

impl Points {
    fn label(&self, name: &str) -> &str {
        self.metric.get(name).map_or("", SmolStr::as_str)
    }

    fn last(&self) -> Option<f64> {
        self.values.iter().rev().find_map(|(_, value)| value.parse().ok())
    }

    /// The first of these Kubernetes labels or annotations, as kube-state-metrics names them.
    fn first_of(&self, prefix: &str, keys: &[&str]) -> &str {
        let values = keys.iter().map(|key| self.label(&format!("{prefix}{}", metric_name(key))));
        values.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
    }
}

/// A key as part of a metric label: other characters than letters and digits become `_`.
fn metric_name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PodKey {
    namespace: SmolStr,
    name: SmolStr,
    uid: SmolStr,
}

/// What was read of Prometheus.
#[derive(Debug, Default)]
pub struct PrometheusPods {
    pods: HashMap<PodKey, MetricPod>,
    quotas: HashMap<SmolStr, f64>,
}

#[derive(Debug, Default)]
struct MetricPod {
    record: PodRecord,
    last_seen: f64,
    requests: HashMap<RequestKey, f64>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RequestKey {
    container: SmolStr,
    resource: SmolStr,
}

/// Pods and queues that Prometheus knows.
#[derive(Debug)]
pub struct PrometheusRecord {
    /// The pods.
    pub pods: Vec<PodRecord>,
    /// KAI's queues with their quotas, without their tree.
    pub queues: Vec<TraceQueue>,
}

impl PrometheusPods {
    /// Number of pods so far.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Takes an answer.
    pub fn add(&mut self, series: Series, answer: &AnswerData) {
        for points in &answer.result {
            let Some(value) = points.last() else { continue };
            if series == Series::QueueQuota {
                let names = [points.label("queue_metadata_name"), points.label("queue_name")];
                let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
                self.quotas.insert(name.into(), value);
            } else {
                self.add_pod_points(series, points, value);
            }
        }
    }

    fn add_pod_points(&mut self, series: Series, points: &Points, value: f64) {
        let text = |label: &str| SmolStr::from(points.label(label));
        let key = PodKey { namespace: text("namespace"), name: text("pod"), uid: text("uid") };
        let pod = self.pods.entry(key).or_default();
        let record = &mut pod.record;
        match series {
            Series::Created => {
                record.created = Some(value);
                record.namespace = text("namespace");
                record.name = text("pod");
            }
            Series::Started => record.started = Some(value),
            Series::Completed => record.ended = Some(value),
            Series::LastSeen => pod.last_seen = pod.last_seen.max(value),
            Series::Requests => {
                let key = RequestKey { container: text("container"), resource: text("resource") };
                pod.requests.insert(key, value);
            }
            Series::Labels => {
                record.queue = points.first_of("label_", &QUEUE_LABELS).into();
                record.user = points.first_of("label_", &USER_LABELS).into();
            }
            Series::Annotations => {
                let of = |key: &str| points.first_of("annotation_", &[key]);
                record.pod_group = of(annotations::POD_GROUP_NAME).into();
                set_share(record, |key| Some(of(key)).filter(|value| !value.is_empty()));
            }
            Series::Owner => {
                let or_none =
                    |text: SmolStr| if text == "<none>" { SmolStr::default() } else { text };
                record.owner_kind = or_none(text("owner_kind"));
                record.owner_name = or_none(text("owner_name"));
            }
            Series::Info => record.priority_class = text("priority_class"),
            Series::QueueQuota => {}
        }
    }

    /// The pods and queues. A pod without a completion time that was not seen in the last
    /// `gone_after_secs` before `to` ended when it was last seen.
    pub fn finish(self, to: f64, gone_after_secs: f64) -> PrometheusRecord {
        let pod = |pod: MetricPod| {
            let mut record = pod.record;
            let sum = |resource: &str| -> f64 {
                let requests = pod.requests.iter().filter(|(key, _)| key.resource == resource);
                let mut amounts: Vec<f64> = requests.map(|(_, amount)| *amount).collect();
                amounts.sort_by(f64::total_cmp);
                amounts.into_iter().sum()
            };
            record.cpu_milli = to_count(sum("cpu") * 1000.0);
            record.memory_mib = to_count(sum("memory") / to_f64(1_u64 << 20));
            if record.gpus == 0 {
                record.gpus = to_count(sum("nvidia_com_gpu"));
                record.gpu_milli = record.gpus * 1000;
            }
            let is_gone = pod.last_seen > 0.0 && pod.last_seen < to - gone_after_secs;
            if record.ended.is_none() && is_gone {
                record.ended = Some(pod.last_seen);
            }
            record
        };
        let mut pods: Vec<PodRecord> = self.pods.into_values().map(pod).collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let queue = |(name, quota): (SmolStr, f64)| TraceQueue {
            line: 0,
            name: name.to_string(),
            parent: String::new(),
            quota,
            weight: 1.0,
            limit: -1.0,
            priority: 100,
        };
        let mut queues: Vec<TraceQueue> = self.quotas.into_iter().map(queue).collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        PrometheusRecord { pods, queues }
    }
}
