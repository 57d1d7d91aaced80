//! Applies a plan through the API: first the decisions, in the order of the plan where they depend
//! on each other; then events about them; then the reasons why pods wait. All writes can be
//! repeated: the successor of a scheduler that died sees what was written, decides the same for the
//! rest, and writes the missing events.

mod bind_requests;
mod claims;
mod device_bindings;
mod events;
mod evictions;
mod extended_resources;
mod missed_writes;
mod pending;
mod pending_messages;
mod placements;
mod pod_groups;
mod queue_details;
mod scheduling_groups;
pub(crate) mod volumes;
mod warnings;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::fmt::temporal::DateTimePrinter;
use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{Name, PodGroupId, PodId, Time},
};

use crate::{
    api::ApiClient,
    cache::ClusterCache,
    concurrency::WriteLimiter,
    config::{Binding, Config, Flavor, NodePool},
    records::{ObjectKey, PodRecord},
    snapshot_builder::BuiltSnapshot,
};

pub(crate) use events::{Event, EventType, InvolvedObject, fnv1a_hash};
use evictions::EvictionGroupSizes;
use pending_messages::MessageCache;
pub(crate) use placements::shared_gpu_labels;

/// The result of applying a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApplyOutcome {
    /// Something must be retried in the next cycle.
    pub(crate) retry: bool,
    /// The outcome of a write is unknown, so all pods must be listed again.
    pub(crate) in_doubt: bool,
    /// Pods are not bound until their volumes and devices are ready; events of these will follow.
    pub(crate) waits_for_others: bool,
    /// The last error of the API server.
    pub(crate) failure: Option<String>,
}

/// Applies plans. Remembers what it wrote, to avoid repetition.
pub(crate) struct Applier {
    api: ApiClient,
    flavor: Flavor,
    binding: Binding,
    node_pool: Option<NodePool>,
    /// Name of the node pool in conditions and events.
    pool: String,
    /// Minimum grace period of evicted pods, in seconds.
    grace_secs: Option<i64>,
    limiter: WriteLimiter,
    /// Pods may have been bound without an event: after a start, and after a write of unknown
    /// outcome.
    needs_recovery: bool,
    /// Durations of bindings since the last call of `take_binding_times`.
    binding_times: Vec<Duration>,
    /// Pods that were bound in this cycle.
    bound: BTreeSet<ObjectKey>,
    /// Pods that the API server refused to bind in this cycle, with its message.
    refused: BTreeMap<ObjectKey, String>,
    /// Messages for pods that are held until their volumes or devices are ready.
    held_messages: BTreeMap<ObjectKey, String>,
    /// Pods that have a node and wait for their volumes, since when.
    waiting_for_volumes: BTreeMap<ObjectKey, Time>,
    /// When pods give up waiting for their devices.
    device_deadlines: Vec<Time>,
    /// Names of the `Pipelined` events that were written, by pod.
    reported_pipelined: BTreeMap<ObjectKey, String>,
    /// Names of the warning events that were written.
    reported_warnings: BTreeSet<String>,
    /// Pods without group, with the time that remains before the missing group is reported.
    grouping_grace: BTreeMap<ObjectKey, Duration>,
    /// Messages of waiting groups.
    messages: MessageCache,
    /// The last pod whose message was updated.
    last_refreshed: Option<ObjectKey>,
    outcome: ApplyOutcome,
}

/// Snapshot, plan and time of the cycle that is applied.
pub(crate) struct Cycle<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) plan: &'a Plan,
    pub(crate) now: Time,
}

impl Cycle<'_> {
    fn group(&self, pod: PodId) -> Option<PodGroupId> {
        self.snapshot.pods[pod.0 as usize].group
    }

    fn key(&self, pod: PodId) -> ObjectKey {
        let pod = &self.snapshot.pods[pod.0 as usize];
        ObjectKey { namespace: Name::clone(&pod.namespace), name: Name::clone(&pod.name) }
    }
}

impl Applier {
    pub(crate) fn new(api: ApiClient, config: &Config) -> Self {
        let (bound, refused, held_messages, reported_pipelined) = Default::default();
        let (reported_warnings, grouping_grace, messages, last_refreshed, outcome) =
            Default::default();
        let (flavor, limiter) = (config.flavor, WriteLimiter::with_limit(config.writes_at_once));
        let (needs_recovery, binding_times) = (true, Vec::new());
        let waiting_for_volumes = BTreeMap::new();
        let grace = config.eviction_grace.map(|grace| grace.as_secs_f64().ceil());
        #[expect(clippy::cast_possible_truncation, reason = "saturates, as is meant")]
        let grace_secs = grace.map(|grace| grace as i64);
        let (binding, node_pool) = (config.binding, config.node_pool.clone());
        let pool = NodePool::name(node_pool.as_ref()).to_owned();
        Self {
            api,
            flavor,
            binding,
            node_pool,
            pool,
            grace_secs,
            limiter,
            needs_recovery,
            binding_times,
            bound,
            refused,
            held_messages,
            waiting_for_volumes,
            device_deadlines: Vec::new(),
            reported_pipelined,
            reported_warnings,
            grouping_grace,
            messages,
            last_refreshed,
            outcome,
        }
    }

    /// Applies a plan, and updates the cache with the responses.
    pub(crate) async fn apply(
        &mut self,
        cache: &mut ClusterCache,
        built: &BuiltSnapshot,
        plan: &Plan,
    ) -> ApplyOutcome {
        self.outcome = ApplyOutcome::default();
        let snapshot = &built.snapshot;
        let cycle = Cycle { snapshot, plan, now: snapshot.now };
        self.reported_pipelined
            .retain(|key, _| cache.pods.get(key).is_some_and(PodRecord::is_waiting));
        self.recover_missed_writes(cache, &cycle).await;
        self.delete_obsolete_bind_requests(cache).await;
        self.report_warnings(cache, cycle.now).await;
        self.annotate_staleness(cache, &cycle).await;
        self.apply_decisions(cache, &cycle).await;
        self.report_pending(cache, &cycle, &built.unschedulable).await;
        self.needs_recovery |= self.outcome.in_doubt;
        std::mem::take(&mut self.outcome)
    }

    /// Returns the durations of bindings since the last call.
    pub(crate) fn take_binding_times(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.binding_times)
    }

    async fn apply_decisions(&mut self, cache: &mut ClusterCache, cycle: &Cycle<'_>) {
        self.held_messages.clear();
        let mut blocked = self.allocate_claims(cache, cycle).await;
        blocked.extend(self.bind_volumes(cache, cycle, &blocked).await);
        let (mut losing, group_sizes) = (BTreeSet::new(), EvictionGroupSizes::new(cycle));
        let mut chains = Vec::new();
        for decision in &cycle.plan.decisions {
            chains.extend(match decision {
                Decision::Bind { pod, .. } if blocked.contains(&cycle.group(*pod)) => None,
                Decision::Bind { pod, node } => Some(match self.binding {
                    Binding::Direct => self.binding_writes(cache, cycle, *pod, *node),
                    Binding::Requests => self.create_bind_request(cycle, *pod, *node),
                }),
                Decision::Evict { pod, cause } => {
                    // The group is annotated before its first pod is evicted.
                    let group = cycle.group(*pod).filter(|group| losing.insert(*group));
                    let group = group.map(|group| &cycle.snapshot.pod_groups[group.0 as usize]);
                    let mark = group.and_then(|group| self.eviction_annotation(group, cycle.now));
                    let evict = self.eviction_writes(cache, cycle, *pod, cause, &group_sizes);
                    Some(mark.into_iter().chain(evict).collect())
                }
                Decision::Pipeline { pod, node } => self.nominate_nodes(cache, cycle, *pod, *node),
            });
        }
        self.bound.clear();
        self.refused.clear();
        self.write(cache, chains).await;
        self.report_bindings(cache, cycle).await;
    }
}

/// Formats times with whole seconds, as Kubernetes writes them.
const SECONDS_PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(0));

/// Formats a time as Kubernetes does.
pub(crate) fn rfc3339(time: Time) -> String {
    let time = jiff::Timestamp::from_millisecond(time.0).unwrap_or_default();
    SECONDS_PRINTER.timestamp_to_string(&time)
}

#[cfg(test)]
mod tests;
