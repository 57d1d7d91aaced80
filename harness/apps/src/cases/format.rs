//! The JSON format of cases, as far as it is used. Units are in the field names: devices,
//! millicores, bytes, megabytes, seconds.

mod expected;

use std::collections::BTreeMap;

use schedlab_api::{Value, json};
use serde::{Deserialize, Deserializer, Serialize};

pub(super) use expected::{ExpectedOutcome, ExpectedSums, ExpectedTasks};

/// A test case: a cluster and its expected outcome.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Case {
    /// Unique id of the case.
    pub(super) id: String,
    /// Title of the case.
    #[serde(default)]
    pub(super) title: String,
    /// How the case is run. If absent: in rounds if `rounds` is given, else in a single pass.
    #[serde(default)]
    pub(super) mode: Option<CaseMode>,
    pub(super) actions: Vec<ActionName>,
    #[serde(default)]
    pub(super) rounds: Option<Rounds>,
    #[serde(default)]
    call_limits_per_session: Option<CallLimits>,
    #[serde(default)]
    pub(super) config: RecordedConfig,
    pub(super) cluster: ClusterSpec,
    pub(super) queues: Vec<QueueSpec>,
    pub(super) jobs: Vec<Job>,
    /// The expected outcome. If absent or written in prose, it is taken from the recording by
    /// [`Self::expect_what_was_recorded`].
    #[serde(default, deserialize_with = "expected_or_nothing")]
    pub(super) expected: ExpectedOutcome,
    #[serde(default)]
    observed: Option<RecordedOutcome>,
    /// Notes on ignored parts of the case, added when the case is parsed.
    #[serde(skip)]
    pub(super) notes: Vec<String>,
}

/// The recorded configuration of KAI.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct RecordedConfig {
    /// Names of the enabled plugins; absent: all plugins.
    #[serde(default)]
    plugins: Option<Vec<String>>,
    #[serde(default)]
    plugin_arguments: Option<BTreeMap<String, BTreeMap<String, Value>>>,
    #[serde(default)]
    predicates_plugin_active: Option<bool>,
    #[serde(default)]
    numa_plugin_active: bool,
}

/// The outcome that KAI recorded.
#[derive(Clone, Debug, Deserialize)]
struct RecordedOutcome {
    #[serde(rename = "final")]
    last: RecordedState,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct RecordedState {
    #[serde(default)]
    jobs: BTreeMap<String, RecordedJob>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedJob {
    tasks: BTreeMap<String, RecordedTask>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedTask {
    status: String,
    #[serde(default)]
    node: Option<String>,
    #[serde(default)]
    gpu_groups: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CaseMode {
    SinglePass,
    Rounds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ActionName {
    Allocate,
    Consolidation,
    Reclaim,
    Preempt,
    StaleGangEviction,
}

impl ActionName {
    const fn as_kai(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Consolidation => "consolidation",
            Self::Reclaim => "reclaim",
            Self::Preempt => "preempt",
            Self::StaleGangEviction => "stalegangeviction",
        }
    }
}

/// The state of a task at the start of the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum TaskState {
    Pending,
    Gated,
    Allocated,
    Binding,
    Bound,
    Running,
    Releasing,
    StuckInReleasing,
    Succeeded,
    Failed,
    /// The task is pipelined to a node whose resources are still being released.
    Pipelined,
    /// The task's pod was deleted.
    Deleted,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct Rounds {
    pub(super) until_match: u32,
    pub(super) after_match: u32,
    pub(super) delay_between_rounds_s: f64,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { until_match: 2, after_match: 5, delay_between_rounds_s: 0.0 }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct CallLimits {
    pub(super) binds: usize,
    pub(super) evictions: usize,
    pub(super) pipelines: usize,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ClusterSpec {
    pub(super) nodes: Vec<NodeSpec>,
    #[serde(default)]
    pub(super) topologies: Vec<TopologySpec>,
    #[serde(default)]
    pub(super) dra: Option<DraObjects>,
}

/// Objects of dynamic resource allocation. GPUs in slices are already counted in the nodes' GPUs.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct DraObjects {
    /// Existing device classes; absent: all classes that claims name.
    #[serde(default)]
    pub(super) device_classes: Option<Vec<String>>,
    #[serde(default)]
    pub(super) resource_claims: Vec<ClaimSpec>,
    #[serde(default)]
    pub(super) resource_slices: Vec<SliceSpec>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ClaimSpec {
    pub(super) name: String,
    #[serde(default, rename = "Namespace")]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(rename = "deviceClassName")]
    pub(super) class: String,
    pub(super) count: f64,
    #[serde(default, rename = "claimStatus")]
    pub(super) status: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct SliceSpec {
    #[serde(rename = "DeviceClassName")]
    pub(super) class: String,
    #[serde(rename = "nodeName")]
    pub(super) node: String,
    #[serde(rename = "Count")]
    pub(super) count: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopologySpec {
    pub(super) name: String,
    pub(super) levels: Vec<LevelSpec>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct LevelSpec {
    #[serde(rename = "nodeLabel")]
    pub(super) node_label: String,
    #[serde(default)]
    pub(super) alias: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ConstraintSpec {
    pub(super) topology: String,
    #[serde(default)]
    pub(super) required_level: Option<String>,
    #[serde(default)]
    pub(super) preferred_level: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct NodeSpec {
    pub(super) name: String,
    pub(super) allocatable: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) numa: Option<NumaSpec>,
    #[serde(default)]
    pub(super) gpu_memory_mib: i64,
}

/// The NUMA zones of a node. Amounts are in millicores, bytes and devices.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NumaSpec {
    pub(super) policy: NumaPolicyName,
    pub(super) scope: NumaScopeName,
    pub(super) zones: Vec<ZoneSpec>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum NumaPolicyName {
    None,
    BestEffort,
    Restricted,
    SingleNumaNode,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NumaScopeName {
    Container,
    Pod,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ZoneSpec {
    pub(super) id: String,
    pub(super) allocatable: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) available: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct QueueSpec {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parent: Option<String>,
    #[serde(default)]
    pub(super) created_offset_s: i64,
    #[serde(default = "default_priority")]
    pub(super) priority: i32,
    pub(super) resources: QueueShares,
    #[serde(default)]
    pub(super) reclaim_min_runtime_s: Option<u64>,
    #[serde(default)]
    pub(super) preempt_min_runtime_s: Option<u64>,
}

const fn default_priority() -> i32 {
    100
}

fn expected_or_nothing<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<ExpectedOutcome, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct QueueShares {
    pub(super) gpu: ResourceShare,
    pub(super) cpu_millis: ResourceShare,
    pub(super) memory_mb: ResourceShare,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ResourceShare {
    pub(super) quota: f64,
    pub(super) limit: f64,
    pub(super) over_quota_weight: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Job {
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    pub(super) queue: String,
    pub(super) priority: i32,
    pub(super) preemptibility: Preemptibility,
    #[serde(default)]
    pub(super) qos_class: String,
    pub(super) age_s: i64,
    #[serde(default)]
    pub(super) running_for_s: Option<i64>,
    #[serde(default)]
    pub(super) stale_for_s: Option<i64>,
    #[serde(default)]
    pub(super) staleness_grace_period_s: Option<i64>,
    #[serde(default)]
    pub(super) preemption_delay_s: u64,
    #[serde(default)]
    pub(super) delete_when_released: bool,
    pub(super) gang: Gang,
    pub(super) tasks: Vec<Task>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Preemptibility {
    Preemptible,
    NonPreemptible,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Gang {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) min_sub_group: Option<u32>,
    #[serde(default)]
    pub(super) sub_groups: Vec<Gang>,
    #[serde(default)]
    pub(super) pod_sets: Vec<PodSet>,
    #[serde(default)]
    pub(super) topology_constraint: Option<ConstraintSpec>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PodSet {
    pub(super) name: String,
    pub(super) min_available: u32,
    #[serde(default)]
    pub(super) topology_constraint: Option<ConstraintSpec>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) state: TaskState,
    #[serde(default)]
    pub(super) node: Option<String>,
    #[serde(default)]
    pub(super) subgroup: Option<String>,
    pub(super) request: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) gpus_total: f64,
    #[serde(default, rename = "task_priority_label")]
    pub(super) priority_label: Option<Value>,
    #[serde(default)]
    pub(super) required_node_affinity_in: Vec<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) gpu_fraction: Option<f64>,
    #[serde(default)]
    pub(super) gpu_memory_mib: Option<i64>,
    #[serde(default)]
    pub(super) gpu_fraction_devices: Option<u32>,
    #[serde(default)]
    pub(super) gpu_groups: Vec<String>,
    #[serde(default)]
    pub(super) legacy_mig: bool,
    #[serde(default)]
    pub(super) resource_claim_names: Vec<String>,
    /// Names of the generated claims, by the name of their template.
    #[serde(default)]
    pub(super) resource_claim_templates: BTreeMap<String, String>,
    /// Names of the volume claims that the task uses. None of them exists.
    #[serde(default)]
    pub(super) pvc_names: Vec<String>,
    #[serde(default)]
    pub(super) pod_affinity_topology_key: Option<String>,
    #[serde(default)]
    pub(super) pod_anti_affinity_topology_key: Option<String>,
}

pub(super) const NOTHING_EXPECTED: &str = "the case has no expectation in `expected` or `observed`";

impl Task {
    /// Names of all resource claims of the task.
    pub(super) fn claim_names(&self) -> impl Iterator<Item = &String> {
        self.resource_claim_names.iter().chain(self.resource_claim_templates.values())
    }
}

impl Case {
    /// The claim of this name in the job's namespace.
    pub(super) fn find_claim(&self, job: &Job, name: &str) -> Option<&ClaimSpec> {
        let mut claims = self.cluster.dra.iter().flat_map(|dra| &dra.resource_claims);
        claims.find(|claim| claim.name == *name && claim.namespace == job.namespace)
    }

    /// Whether a device class of this name exists.
    pub(super) fn has_device_class(&self, class: &str) -> bool {
        let classes = self.cluster.dra.as_ref().and_then(|dra| dra.device_classes.as_ref());
        classes.is_none_or(|classes| classes.iter().any(|known| known == class))
    }

    /// Why the case cannot be run; `None` if it can.
    pub(super) fn unsupported_reason(&self) -> Option<&'static str> {
        let shows_nothing = !self.jobs.is_empty() && self.expected.is_empty();
        shows_nothing.then_some(NOTHING_EXPECTED)
    }
}

impl Case {
    /// How many binds, evictions and pipelined pods one session may decide on. If the predicates
    /// plugin is off and no limits are given, none is allowed.
    pub(super) fn call_limits(&self) -> Option<CallLimits> {
        let none = self.config.predicates_plugin_active == Some(false);
        self.call_limits_per_session.or(none.then(CallLimits::default))
    }

    /// The recorded final node and shared GPUs of each task.
    pub(super) fn recorded_devices(&self) -> BTreeMap<&str, (&str, &[String])> {
        self.recorded_tasks()
            .filter_map(|(id, task)| Some((id, (task.node.as_deref()?, &*task.gpu_groups))))
            .filter(|(_, (_, devices))| !devices.is_empty())
            .collect()
    }

    fn recorded_tasks(&self) -> impl Iterator<Item = (&str, &RecordedTask)> {
        let jobs = self.observed.iter().flat_map(|observed| observed.last.jobs.values());
        jobs.flat_map(|job| &job.tasks).map(|(id, task)| (id.as_str(), task))
    }

    /// Makes the recorded outcome the expected one, if the case expects nothing else.
    pub(super) fn expect_what_was_recorded(&mut self) {
        if !self.expected.is_empty() {
            return;
        }
        let recorded: BTreeMap<&str, &RecordedTask> = self.recorded_tasks().collect();
        let tasks = self.jobs.iter().flat_map(|job| &job.tasks).filter_map(|task| {
            let RecordedTask { status, node, .. } = recorded.get(task.id.as_str())?;
            let (status, node) = (status.clone(), node.clone());
            let gpus_requested_sum = task.gpus_total;
            Some((
                task.id.clone(),
                ExpectedTasks { status, node, gpus_requested_sum, ..ExpectedTasks::default() },
            ))
        });
        self.expected = ExpectedOutcome { tasks: tasks.collect(), ..ExpectedOutcome::default() };
    }
}

impl Case {
    /// The configuration in the format of KAI's configuration file.
    pub(super) fn kai_configuration(&self) -> Value {
        let RecordedConfig {
            plugins,
            plugin_arguments,
            predicates_plugin_active,
            numa_plugin_active,
        } = &self.config;
        let actions: Vec<&str> = self.actions.iter().map(|action| action.as_kai()).collect();
        let arguments = plugin_arguments.as_ref();
        let plugin = |name: &str| json!({ "name": name, "arguments": arguments.and_then(|all| all.get(name)) });
        let is_active =
            |name: &&str| *name != "predicates" || *predicates_plugin_active != Some(false);
        let numa = numa_plugin_active.then_some("numa");
        let tiers = plugins.as_ref().map(|plugins| {
            let enabled = plugins.iter().map(String::as_str).filter(|name| *name != "numa");
            let enabled = enabled.filter(is_active).chain(numa).map(plugin);
            json!([{ "plugins": enabled.collect::<Vec<Value>>() }])
        });
        json!({ "actions": actions.join(","), "tiers": tiers })
    }
}
