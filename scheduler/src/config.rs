//! How a scheduler is set up. Decisions are set up by the core's [`Profile`]; this is the rest.

pub(crate) mod arguments;
mod file;
mod given;
pub mod names;
pub(crate) mod plugins;

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
    profile::{JobRule, TaskRule},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::watch;

pub(crate) use file::Grace;
pub use file::{ConfigFile, FileError};
pub use given::{GivenError, GivenFile};

use crate::{status::Status, trace::Trace, usage::UsageDatabase};

/// The label of node pools, where the configuration names none.
pub(crate) const NODE_POOL_LABEL: &str = "kai.scheduler/node-pool";

/// Tells the time. Handed in, so that a scheduler can run on virtual time.
pub type Clock = Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;

/// One scheduler's set-up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pods with this `spec.schedulerName` are scheduled; all others only take room.
    pub scheduler_name: String,
    /// Whose API, events and texts are spoken.
    pub flavor: Flavor,
    /// Actions and plugins of a cycle.
    pub profile: Profile,
    /// Plugins that are not asked, by KAI's names: [`Config::go_without`].
    pub plugins_off: BTreeSet<String>,
    /// Which plugins come first, where it is not as KAI has it; the highest does:
    /// [`Config::prioritize`].
    pub plugin_priorities: BTreeMap<String, i32>,
    /// Time from the start of one cycle to the start of the next.
    pub period: Duration,
    /// What happens while nothing changes.
    pub idle: Idle,
    /// What is done here; the rest is another process's work.
    pub components: BTreeSet<Component>,
    /// How decisions reach the cluster. (Flavor `kai`; `kube` binds directly.)
    pub binding: Binding,
    /// How the binder reserves GPUs that pods share. `None`: it does not, and no device plugin knows
    /// that they are taken. Set by [`Config::reserve_gpus`].
    pub gpu_reservation: Option<GpuReservation>,
    /// Component admission keeps containers that ask for no GPU from seeing one, and refuses pods
    /// that say themselves which they see.
    pub block_nvidia_visible_devices: bool,
    /// Component admission gives it to pods that ask for GPUs and name no runtime class.
    pub gpu_pod_runtime_class: Option<String>,
    /// Where it stands which priority kinds of owners have. `None`: as KAI has it built in.
    pub default_priorities: Option<DefaultPriorities>,
    /// The nodes that are this scheduler's, and the pods that go there. `None`: all.
    pub node_pool: Option<NodePool>,
    /// Nodes that are labelled neither as GPU nor as CPU workers do not exist for it; the profile's
    /// plugins keep work to what nodes are labelled for. Set by [`Config::restrict_nodes`].
    pub restrict_node_scheduling: bool,
    /// Queues are a tree. Else, as in KAI, those with a parent stand side by side, whatever it is, and
    /// those without do not exist.
    pub full_hierarchy_fairness: bool,
    /// Labels of queues that metrics about them tell, in the order of those labels.
    pub queue_metric_labels: Vec<QueueMetricLabel>,
    /// Most writes under way at once. With 1 they follow each other, in an order of their own
    /// that repeats: what virtual time wants.
    pub writes_at_once: usize,
    /// Window of the queues' usage history. `None`, as in KAI without a usage database: past
    /// usage plays no part in the shares.
    pub usage_window: Option<Duration>,
    /// After so long past usage counts for half. `None`: alike over the whole window.
    pub usage_half_life: Option<Duration>,
    /// Knows past usage better than the own history, which counts where this does not answer.
    pub usage_database: Option<UsageDatabase>,
    /// The least time that pods have to end, and to save their work, when they are evicted for
    /// others. `None`: as long as they say themselves.
    pub eviction_grace: Option<Duration>,
    /// Where cycles note how they decide; [`Config::trace`] wraps the plugins. `None`: nowhere.
    pub trace: Option<Trace>,
    /// Breaks ties where a rule asks for chance.
    pub seed: u64,
    /// When it ends by itself.
    pub ends: Ends,
    /// Where the scheduler tells how far it is: subscribe before [`crate::run`] takes it.
    pub status: watch::Sender<Status>,
}

/// How a pod that was given a node gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Binding {
    /// The scheduler binds it.
    Direct,
    /// The scheduler writes a BindRequest, as KAI's does, and a binder binds it, ours or KAI's.
    Requests,
}

/// What one process may do alone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// Gives nodes to pods, evicts pods, and says why others wait.
    Scheduler,
    /// Carries out BindRequests (profile `kai` only), where they are written or where the
    /// scheduler runs elsewhere.
    Binder,
    /// Puts pods into PodGroups by their owners (profile `kai` only).
    Podgrouper,
    /// Writes the status of queues (profile `kai` only).
    QueueController,
    /// Judges queues, pod groups and pods before they are stored, and gives pods that share GPUs
    /// what tells them which (profile `kai` only), where it is given a certificate.
    Admission,
}

impl Component {
    /// What a list of parts may be.
    pub const ALLOWED: &str = "one or more, each once";

    /// What is wrong with a list of parts.
    pub fn misfit(list: &[Self]) -> Option<String> {
        if list.is_empty() {
            return Some("none".to_owned());
        }
        let twice = list.iter().enumerate().find(|(at, part)| list[..*at].contains(part));
        twice.and_then(|(_, part)| part.name()).map(|name| format!("{name} twice"))
    }

    fn name(self) -> Option<String> {
        self.to_possible_value().map(|value| value.get_name().to_owned())
    }
}

/// Whose behaviour clients of the API see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Queues and PodGroups, with KAI's events and texts.
    Kai,
    /// Single pods, with kube-scheduler's events and texts.
    Kube,
}

/// A `ConfigMap` with the priority classes and preemptibility of kinds of owners, for pods and
/// owners that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPriorities {
    /// `None`: the scheduler's.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// A label of queues that becomes one of the metrics about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueMetricLabel {
    /// The queue's.
    pub queue_label: String,
    /// The metrics'.
    pub metric_label: String,
    /// What it is where a queue lacks the label.
    pub default: String,
}

/// Nodes and pods whose label says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// The label's key, on nodes as on pods.
    pub label: String,
    /// Its value; empty: those without the label.
    pub value: String,
}

impl NodePool {
    /// What conditions and events call a pool; that of nodes without the label is `default`.
    pub(crate) fn name(pool: Option<&Self>) -> &str {
        pool.map(|pool| &*pool.value).filter(|value| !value.is_empty()).unwrap_or("default")
    }
}

/// How reservation pods are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuReservation {
    /// Where they stand; it has to exist.
    pub namespace: String,
    /// KAI's image for them, or one that writes the same annotation.
    pub image: String,
    /// `spec.serviceAccountName`: it may patch pods there.
    pub service_account: Option<String>,
    /// `spec.runtimeClassName`.
    pub runtime_class: Option<String>,
    /// That of pods that share GPUs and name none, where component admission is asked.
    pub pod_runtime_class: Option<String>,
}

impl GpuReservation {
    /// In KAI's namespace.
    pub fn with_image(image: &str) -> Self {
        let namespace = "kai-resource-reservation".to_owned();
        let (service_account, runtime_class, pod_runtime_class) = (None, None, None);
        let image = image.to_owned();
        Self { namespace, image, service_account, runtime_class, pod_runtime_class }
    }
}

/// When a scheduler ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It runs until it is stopped.
    Never,
    /// After its first cycle.
    AfterOneCycle,
}

/// What a scheduler does while nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// A cycle each period, as KAI does.
    EveryPeriod,
    /// Nothing, until something changes or a deadline of the last plan is reached.
    UntilEvent,
}

impl Config {
    /// As KAI runs: queues, gangs, all five actions, a cycle a second.
    pub fn kai() -> Self {
        Self {
            scheduler_name: "kai-scheduler".to_owned(),
            flavor: Flavor::Kai,
            profile: Profile::kai(),
            plugins_off: BTreeSet::new(),
            plugin_priorities: BTreeMap::new(),
            period: Duration::from_secs(1),
            idle: Idle::EveryPeriod,
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
            ends: Ends::Never,
            status: watch::Sender::default(),
        }
    }

    /// Only these parts run here. The binder may be another process then: where nothing else is
    /// said, it is asked by requests.
    pub fn only(&mut self, components: BTreeSet<Component>) {
        self.components = components;
        if self.flavor == Flavor::Kai {
            self.binding = Binding::Requests;
        }
    }

    /// Are BindRequests carried out here?
    pub(crate) fn binds_requests(&self) -> bool {
        let wanted = self.binding == Binding::Requests || !self.runs(Component::Scheduler);
        self.runs(Component::Binder) && wanted
    }

    /// Are reservation pods ended when nobody shares their device any more, here or by a binder that
    /// is another process? (Those of profile `kai`; `kube` has none.)
    pub(crate) fn ends_reservations(&self) -> bool {
        let by_requests = self.binding == Binding::Requests || !self.runs(Component::Scheduler);
        let by_binder = self.gpu_reservation.is_some() || !self.runs(Component::Binder);
        self.flavor == Flavor::Kube || (by_requests && by_binder)
    }

    /// Is there anything to do here but to bind and to answer reviews?
    pub(crate) fn runs_cycles(&self) -> bool {
        let beside = [Component::Binder, Component::Admission];
        self.components.iter().any(|component| !beside.contains(component))
    }

    /// Is this done here?
    pub fn runs(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    /// These plugins are not asked, and all others are.
    pub fn go_without(&mut self, plugins: BTreeSet<String>) {
        self.plugins_off = plugins;
        self.list_plugins();
    }

    /// These plugins have these priorities, and all others KAI's.
    pub fn prioritize(&mut self, priorities: BTreeMap<String, i32>) {
        self.plugin_priorities = priorities;
        self.list_plugins();
    }

    /// Plugins come in this order, whatever their priorities are.
    pub(crate) fn line_up(&mut self, plugins: &[&str]) {
        let as_in_kai = |rules: &[&str]| {
            let named = plugins.iter().filter(|name| rules.contains(name));
            named.is_sorted_by_key(|name| Reverse(plugins::priority(name)))
        };
        let is_known = as_in_kai(&JobRule::ALL.map(JobRule::plugin))
            && as_in_kai(&TaskRule::ALL.map(TaskRule::plugin));
        let mut priorities = BTreeMap::new();
        if !is_known {
            let last_first = (1..).zip(plugins.iter().rev());
            priorities.extend(last_first.map(|(at, name)| ((*name).to_owned(), at * 100)));
        }
        self.prioritize(priorities);
    }

    /// The place of a plugin among all, by its priority, then by name.
    pub(crate) fn place<'n>(&self, plugin: &'n str) -> impl Ord + use<'n> {
        (Reverse(self.plugin_priority(plugin)), plugin)
    }

    /// The higher it is, the earlier the plugin comes.
    pub(crate) fn plugin_priority(&self, plugin: &str) -> i32 {
        let given = self.plugin_priorities.get(plugin).copied();
        given.unwrap_or_else(|| plugins::priority(plugin))
    }

    /// Are nodes kept to the work that they are labelled for?
    pub fn restrict_nodes(&mut self, is_restricted: bool) {
        self.restrict_node_scheduling = is_restricted;
        self.list_plugins();
    }

    /// The binder reserves GPUs that pods share, and nodes keep room for the pods that do.
    pub fn reserve_gpus(&mut self, reservation: GpuReservation) {
        self.gpu_reservation = Some(reservation);
        self.list_plugins();
    }

    /// The last lines of how cycles decide are kept, so many at most.
    pub fn trace(&mut self, lines: usize) {
        self.trace = Some(Trace::of_lines(lines));
        self.list_plugins();
    }

    /// The profile's plugins are those that the rest of the set-up asks for.
    fn list_plugins(&mut self) {
        let mut plugins = match self.flavor {
            Flavor::Kai => Plugins::kai_with(|name| !self.plugins_off.contains(name)),
            Flavor::Kube => Plugins::kube(),
        };
        if self.restrict_node_scheduling {
            plugins.keep_to_roles();
        }
        if self.gpu_reservation.is_some() {
            plugins.leave_room_for_reservations();
        }
        self.profile.fair_shares = !self.plugins_off.contains("proportion");
        self.profile.min_runtimes = !self.plugins_off.contains("minruntime");
        self.profile.job_order = self.in_order(JobRule::ALL, JobRule::plugin);
        self.profile.task_order = self.in_order(TaskRule::ALL, TaskRule::plugin);
        self.profile.plugins = match &self.trace {
            Some(trace) => trace.watch(&plugins),
            None => plugins,
        };
    }

    /// The rules of the plugins that are asked.
    fn in_order<R: Copy>(
        &self,
        rules: impl IntoIterator<Item = R>,
        plugin: fn(R) -> &'static str,
    ) -> Vec<R> {
        let asked = rules.into_iter().filter(|rule| !self.plugins_off.contains(plugin(*rule)));
        let mut asked: Vec<R> = asked.collect();
        asked.sort_by_key(|rule| self.place(plugin(*rule)));
        asked
    }

    /// Evicted pods have at least this time to end. Those that take it are not stuck.
    pub fn give_grace(&mut self, grace: Duration) {
        let before = self.eviction_grace.replace(grace).unwrap_or_default();
        let longer = |most: Duration| most.saturating_sub(before) + grace;
        self.profile.release_max = self.profile.release_max.map(longer);
    }

    /// The name of the first of these parts that profile `kube` does not have.
    pub fn not_of_kube<'a>(parts: impl IntoIterator<Item = &'a Component>) -> Option<String> {
        let mut others = parts.into_iter().filter(|part| **part != Component::Scheduler);
        others.next()?.name()
    }

    /// As default kube-scheduler runs: pod by pod, by priority.
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
