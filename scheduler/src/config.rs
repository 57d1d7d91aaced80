//! Configuration of a scheduler process. Decisions are configured by the core's [`Profile`], which
//! is part of it.

pub(crate) mod arguments;
mod feature_gates;
mod file;
pub mod names;
pub(crate) mod plugins;
mod source;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;
use schedlab_scheduler_core::{
    Profile,
    framework::Plugins,
    profile::{JobOrderRule, TaskOrderRule},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;

pub use feature_gates::{FeatureGateError, FeatureGates};
pub(crate) use file::GraceSetting;
pub use file::{ConfigFile, FileError};
pub use source::{ConfigSource, ConfigSourceError};

use crate::{progress::Progress, trace::Trace, usage::UsageDatabase};

/// A clock: returns the current time. A parameter of the scheduler, so that it can run on virtual
/// time.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// Configuration of one scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pods with this `spec.schedulerName` are scheduled; all others only occupy resources.
    pub scheduler_name: String,
    /// The scheduler whose API, events and messages are used: KAI or kube-scheduler.
    pub flavor: Flavor,
    /// Feature gates of flavor `kube`. (Flavor `kai` reads PodGroups of Kubernetes wherever pods
    /// name one.)
    pub feature_gates: FeatureGates,
    /// Actions and plugins of a cycle.
    pub profile: Profile,
    /// Disabled plugins, by KAI's names. Set by [`Config::disable_plugins`].
    pub disabled_plugins: BTreeSet<String>,
    /// Priorities of plugins that differ from KAI's; higher ones come first. Set by
    /// [`Config::set_plugin_priorities`].
    pub plugin_priorities: BTreeMap<String, i32>,
    /// Time from the start of one cycle to the start of the next.
    pub period: Duration,
    /// Whether cycles run while nothing changes.
    pub idle_policy: IdlePolicy,
    /// Components that run in this process.
    pub components: BTreeSet<Component>,
    /// How pods are bound. (Flavor `kai`; `kube` always binds directly.)
    pub binding: Binding,
    /// Reservation pods for shared GPUs. `None`: none are created, so device plugins do not know
    /// that these GPUs are in use. Set by [`Config::enable_gpu_reservation`].
    pub gpu_reservation: Option<GpuReservation>,
    /// Component admission hides GPUs from containers that request none, and denies pods that set
    /// `NVIDIA_VISIBLE_DEVICES` themselves.
    pub block_nvidia_visible_devices: bool,
    /// Runtime class that component admission sets on pods that request GPUs and name none.
    pub gpu_pod_runtime_class: Option<String>,
    /// `ConfigMap` with default priority classes per owner kind. `None`: KAI's built-in defaults.
    pub default_priorities: Option<DefaultPriorities>,
    /// Node pool that this scheduler serves. `None`: all nodes and pods.
    pub node_pool: Option<NodePool>,
    /// Ignores nodes without a GPU or CPU worker label, and restricts pods to nodes with the
    /// matching label. Set by [`Config::restrict_nodes`].
    pub restrict_node_scheduling: bool,
    /// Whether queues form a tree. If false, as in KAI, all queues with a parent are siblings, and
    /// queues without one are ignored.
    pub full_hierarchy_fairness: bool,
    /// Queue labels that become labels of queue metrics, ordered by queue label.
    pub queue_metric_labels: Vec<QueueMetricLabel>,
    /// Maximum number of concurrent writes to the API. With 1 the order of writes is deterministic,
    /// as virtual time requires.
    pub writes_at_once: usize,
    /// Window of the scheduler's own usage history. `None`: it keeps none, and unless there is a
    /// usage database, fair shares ignore past usage (as in KAI without a usage database).
    pub usage_window: Option<Duration>,
    /// Half-life of past usage in the scheduler's own history. `None`: no decay within the window.
    pub usage_half_life: Option<Duration>,
    /// External usage database. The scheduler's own history is used while the database gives no
    /// current answer.
    pub usage_database: Option<UsageDatabase>,
    /// Minimum termination grace period of evicted pods, to save their work. `None`: each pod's
    /// own.
    pub eviction_grace: Option<Duration>,
    /// Trace of decisions per plugin. Set by [`Config::enable_trace`]. `None`: no trace.
    pub trace: Option<Trace>,
    /// Seed of random tie-breaking.
    pub seed: u64,
    /// When the scheduler stops by itself.
    pub run_until: RunUntil,
    /// Channel of progress reports; subscribe before passing the configuration to [`crate::run`].
    pub progress: watch::Sender<Progress>,
}

/// How a pod is bound to the node that the scheduler chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// The scheduler creates the Binding.
    Direct,
    /// The scheduler writes a BindRequest, as KAI's does; a binder (ours or KAI's) binds the pod.
    Requests,
}

/// A part of the scheduler that can run in a process of its own.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// Assigns pods to nodes, evicts pods, and reports why pods are pending.
    Scheduler,
    /// Executes BindRequests (profile `kai` only) if binding is by requests or the scheduler runs
    /// in another process.
    Binder,
    /// Assigns pods to PodGroups by their owners (profile `kai` only).
    Podgrouper,
    /// Writes the status of queues (profile `kai` only).
    QueueController,
    /// Serves admission webhooks (profile `kai` only; needs a certificate): validates queues, pod
    /// groups and pods, and gives pods that share GPUs their device environment.
    Admission,
}

impl Component {
    /// What a list of components must be, for error messages.
    pub const ALLOWED: &str = "a non-empty list without duplicates";

    /// What is wrong with a list of components; `None`: the list is valid.
    pub fn list_error(components: &[Self]) -> Option<String> {
        if components.is_empty() {
            return Some("none".to_owned());
        }
        let twice =
            components.iter().enumerate().find(|(at, part)| components[..*at].contains(part));
        twice.and_then(|(_, part)| part.name()).map(|name| format!("{name} twice"))
    }

    fn name(self) -> Option<String> {
        self.to_possible_value().map(|value| value.get_name().to_owned())
    }
}

/// The scheduler whose API behavior clients see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavor {
    /// KAI: Queues and PodGroups, KAI's events and messages.
    #[default]
    Kai,
    /// kube-scheduler: single pods, kube-scheduler's events and messages.
    Kube,
}

/// A `ConfigMap` with default priority class and preemptibility per owner kind, for pods and owners
/// that set none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPriorities {
    /// Namespace of the `ConfigMap`; `None`: the scheduler's.
    pub namespace: Option<String>,
    /// Name of the `ConfigMap`.
    pub name: String,
}

/// A queue label that becomes a label of queue metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMetricLabel {
    /// Key of the queue label.
    pub queue_label: String,
    /// Name of the metric label.
    pub metric_label: String,
    /// Value of the metric label for queues without the queue label.
    pub default: String,
}

/// A node pool: nodes and pods with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// Key of the label on nodes and pods.
    pub label: String,
    /// Value of the label; empty: nodes and pods without the label.
    pub value: String,
}

impl NodePool {
    /// Name of the pool in conditions and events; `default` for nodes without the label.
    pub(crate) fn name(pool: Option<&Self>) -> &str {
        pool.map(|pool| &*pool.value).filter(|value| !value.is_empty()).unwrap_or("default")
    }
}

/// Settings of reservation pods for shared GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuReservation {
    /// Namespace of the reservation pods; the namespace has to exist.
    pub namespace: String,
    /// KAI's reservation image, or one that writes the same annotation.
    pub image: String,
    /// `spec.serviceAccountName` of the reservation pods; the account must be allowed to patch pods
    /// in their namespace.
    pub service_account: Option<String>,
    /// `spec.runtimeClassName` of the reservation pods.
    pub runtime_class: Option<String>,
    /// Runtime class that component admission sets on pods that share GPUs and name none.
    pub pod_runtime_class: Option<String>,
}

impl GpuReservation {
    /// Default settings of reservation pods with this image, in KAI's namespace.
    pub fn with_image(image: &str) -> Self {
        let namespace = "kai-resource-reservation".to_owned();
        let (service_account, runtime_class, pod_runtime_class) = (None, None, None);
        let image = image.to_owned();
        Self { namespace, image, service_account, runtime_class, pod_runtime_class }
    }
}

/// When a scheduler stops by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunUntil {
    /// The scheduler runs until it is stopped from outside.
    Stopped,
    /// The scheduler stops after its first cycle.
    FirstCycle,
}

/// When cycles run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdlePolicy {
    /// A cycle runs every period, as in KAI.
    EveryPeriod,
    /// A cycle runs when something changed, or when a deadline of the last plan is reached.
    UntilEvent,
}

impl Config {
    /// KAI's defaults: queues, gangs, all five actions, one cycle per second.
    pub fn kai() -> Self {
        Self {
            scheduler_name: "kai-scheduler".to_owned(),
            flavor: Flavor::Kai,
            feature_gates: FeatureGates::default(),
            profile: Profile::kai(),
            disabled_plugins: BTreeSet::new(),
            plugin_priorities: BTreeMap::new(),
            period: Duration::from_secs(1),
            idle_policy: IdlePolicy::EveryPeriod,
            components: Component::value_variants().iter().copied().collect(),
            binding: Binding::Direct,
            gpu_reservation: None,
            block_nvidia_visible_devices: false,
            gpu_pod_runtime_class: None,
            default_priorities: None,
            node_pool: None,
            restrict_node_scheduling: false,
            full_hierarchy_fairness: true,
            queue_metric_labels: Vec::new(),
            writes_at_once: 1,
            usage_window: None,
            usage_half_life: None,
            usage_database: None,
            eviction_grace: None,
            trace: None,
            seed: 0,
            run_until: RunUntil::Stopped,
            progress: watch::Sender::default(),
        }
    }

    /// Pods with `spec.schedulingGroup` are placed with their PodGroup.
    pub(crate) fn reads_scheduling_groups(&self) -> bool {
        self.flavor == Flavor::Kai || self.feature_gates.generic_workload
    }

    /// Restricts this process to these components. As the binder may run in another process then,
    /// binding changes to requests.
    pub fn run_only(&mut self, components: BTreeSet<Component>) {
        self.components = components;
        if self.flavor == Flavor::Kai {
            self.binding = Binding::Requests;
        }
    }

    /// Whether this process executes BindRequests.
    pub(crate) fn executes_bind_requests(&self) -> bool {
        let is_needed = self.binding == Binding::Requests || !self.runs(Component::Scheduler);
        self.runs(Component::Binder) && is_needed
    }

    /// Whether idle reservation pods are deleted, by this process or by a binder in another one.
    /// (Always true for flavor `kube`, which has no reservation pods.)
    pub(crate) fn deletes_idle_reservations(&self) -> bool {
        let uses_requests = self.binding == Binding::Requests || !self.runs(Component::Scheduler);
        let has_reserving_binder = self.gpu_reservation.is_some() || !self.runs(Component::Binder);
        self.flavor == Flavor::Kube || (uses_requests && has_reserving_binder)
    }

    /// Whether this process runs cycles, that is, more than binder and webhooks.
    pub(crate) fn runs_cycles(&self) -> bool {
        let serving_only = [Component::Binder, Component::Admission];
        self.components.iter().any(|component| !serving_only.contains(component))
    }

    /// Whether this process runs the component.
    pub fn runs(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    /// Disables these plugins, and enables all others.
    pub fn disable_plugins(&mut self, plugins: BTreeSet<String>) {
        self.disabled_plugins = plugins;
        self.rebuild_plugins();
    }

    /// Sets the priorities of these plugins; all others get KAI's.
    pub fn set_plugin_priorities(&mut self, priorities: BTreeMap<String, i32>) {
        self.plugin_priorities = priorities;
        self.rebuild_plugins();
    }

    /// Gives plugins this order. Assigns priorities if KAI's priorities would give another order.
    pub(crate) fn set_plugin_order(&mut self, plugins: &[&str]) {
        let is_kai_order = |rules: &[&str]| {
            let listed = plugins.iter().filter(|name| rules.contains(name));
            listed.is_sorted_by_key(|name| Reverse(plugins::default_priority(name)))
        };
        let matches_kai = is_kai_order(&JobOrderRule::ALL.map(JobOrderRule::plugin_name))
            && is_kai_order(&TaskOrderRule::ALL.map(TaskOrderRule::plugin_name));
        let mut priorities = BTreeMap::new();
        if !matches_kai {
            let last_first = (1..).zip(plugins.iter().rev());
            priorities.extend(last_first.map(|(at, name)| ((*name).to_owned(), at * 100)));
        }
        self.set_plugin_priorities(priorities);
    }

    /// Sort key of a plugin: higher priority first, then name.
    pub(crate) fn plugin_order_key<'n>(&self, plugin: &'n str) -> impl Ord + use<'n> {
        (Reverse(self.plugin_priority(plugin)), plugin)
    }

    /// Priority of a plugin; plugins with higher priority come first.
    pub(crate) fn plugin_priority(&self, plugin: &str) -> i32 {
        let configured = self.plugin_priorities.get(plugin).copied();
        configured.unwrap_or_else(|| plugins::default_priority(plugin))
    }

    /// Sets [`Config::restrict_node_scheduling`].
    pub fn restrict_nodes(&mut self, is_restricted: bool) {
        self.restrict_node_scheduling = is_restricted;
        self.rebuild_plugins();
    }

    /// Sets [`Config::gpu_reservation`]; the profile then keeps capacity for the reservation pods.
    pub fn enable_gpu_reservation(&mut self, reservation: GpuReservation) {
        self.gpu_reservation = Some(reservation);
        self.rebuild_plugins();
    }

    /// Keeps a trace of the decisions of the last cycles, of at most this many lines.
    pub fn enable_trace(&mut self, lines: usize) {
        self.trace = Some(Trace::with_capacity(lines));
        self.rebuild_plugins();
    }

    /// Rebuilds the profile's plugins from the rest of the configuration.
    fn rebuild_plugins(&mut self) {
        let mut plugins = match self.flavor {
            Flavor::Kai => Plugins::kai_with_active(|name| !self.disabled_plugins.contains(name)),
            Flavor::Kube => Plugins::kube(),
        };
        if self.restrict_node_scheduling {
            plugins.enforce_node_roles();
        }
        if self.gpu_reservation.is_some() {
            plugins.count_reservation_pods();
        }
        self.profile.uses_fair_shares = !self.disabled_plugins.contains("proportion");
        self.profile.protects_min_runtime = !self.disabled_plugins.contains("minruntime");
        self.profile.job_order = self.ordered_rules(JobOrderRule::ALL, JobOrderRule::plugin_name);
        self.profile.task_order =
            self.ordered_rules(TaskOrderRule::ALL, TaskOrderRule::plugin_name);
        self.profile.plugins = match &self.trace {
            Some(trace) => trace.wrap(&plugins),
            None => plugins,
        };
    }

    /// The order rules of the enabled plugins, sorted by plugin priority. `plugin` names the plugin
    /// of a rule.
    fn ordered_rules<R: Copy>(
        &self,
        rules: impl IntoIterator<Item = R>,
        plugin: fn(R) -> &'static str,
    ) -> Vec<R> {
        let enabled =
            rules.into_iter().filter(|rule| !self.disabled_plugins.contains(plugin(*rule)));
        let mut enabled: Vec<R> = enabled.collect();
        enabled.sort_by_key(|rule| self.plugin_order_key(plugin(*rule)));
        enabled
    }

    /// Sets [`Config::eviction_grace`]; the profile's limit for stuck terminating pods grows with
    /// it.
    pub fn set_eviction_grace(&mut self, grace: Duration) {
        let before = self.eviction_grace.replace(grace).unwrap_or_default();
        let lengthened = |max: Duration| max.saturating_sub(before) + grace;
        self.profile.release_timeout = self.profile.release_timeout.map(lengthened);
    }

    /// Name of the first of these components that profile `kube` does not have.
    pub fn first_not_in_kube<'a>(
        components: impl IntoIterator<Item = &'a Component>,
    ) -> Option<String> {
        let mut others = components.into_iter().filter(|part| **part != Component::Scheduler);
        others.next()?.name()
    }

    /// kube-scheduler's defaults: pod by pod, by priority.
    pub fn kube() -> Self {
        Self {
            scheduler_name: "default-scheduler".to_owned(),
            flavor: Flavor::Kube,
            profile: Profile::kube(),
            components: BTreeSet::from([Component::Scheduler]),
            ..Self::kai()
        }
    }
}
