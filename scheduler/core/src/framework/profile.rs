//! Configuration of the scheduler: its actions and its plugins with their arguments.

use std::{collections::BTreeMap, time::Duration};

use super::Plugins;
use crate::{
    profile::{Action, JobOrderRule, Placement, ResolveMethod, TaskOrderRule, VictimSearch},
    queues::FairShareRules,
};

/// Actions and plugins of one scheduler. Built in: [`Profile::kai`] and [`Profile::kube`].
#[derive(Clone, Debug)]
pub struct Profile {
    /// Actions of a cycle, in order.
    pub actions: Vec<Action>,
    /// Plugins of each extension point, in order.
    pub plugins: Plugins,
    /// Rules that order the jobs of a queue, each at most once. The first rule that distinguishes
    /// two jobs decides; otherwise the older job comes first. Victims are taken in reverse order.
    pub job_order: Vec<JobOrderRule>,
    /// Rules that order the pods of a job, each at most once. The first rule that distinguishes two
    /// pods decides.
    pub task_order: Vec<TaskOrderRule>,
    /// How nodes are chosen for pods that request GPUs.
    pub gpu_placement: Placement,
    /// How nodes are chosen for pods that request none.
    pub cpu_placement: Placement,
    /// How a GPU of the node is chosen for pods that request a fraction: the fullest or the
    /// emptiest.
    pub device_placement: Placement,
    /// Whether sibling queues are ordered by fair share and reclaim by it (KAI's plugin
    /// `proportion`). When false, the older queue comes first and no queue reclaims.
    pub uses_fair_shares: bool,
    /// KAI's `kValue`: weight of past usage in the fair share, in thousandths.
    pub k_value_milli: i64,
    /// Grace period of stale gangs that set none of their own.
    pub staleness_grace: Duration,
    /// A pod that takes longer to terminate counts as stuck: no pod is pipelined to its capacity.
    pub release_timeout: Option<Duration>,
    /// KAI's reclaimer saturation multiplier: how much further over fair share than the reclaimer a
    /// victim's queue must be, in thousandths, at least 1000.
    pub reclaim_saturation_milli: i64,
    /// KAI's `allowConsolidatingReclaim`: victims that are moved to another node do not count as
    /// reclaimed. When false, they do.
    pub allow_consolidating_reclaim: bool,
    /// Maximum number of victim jobs of one consolidation search.
    pub consolidation_victims_max: usize,
    /// Maximum number of jobs of a leaf queue, in order, that an action considers; no entry means
    /// all. Stale gang eviction considers all.
    pub queue_depth: BTreeMap<Action, usize>,
    /// Whether running jobs are protected for a minimum runtime (KAI's plugin `minruntime`).
    pub protects_min_runtime: bool,
    /// Minimum runtime before preemption, for queues without one.
    pub preempt_min_runtime: Duration,
    /// Minimum runtime before reclaim, for queues without one.
    pub reclaim_min_runtime: Duration,
    /// Which queue's minimum runtime applies when another queue reclaims.
    pub reclaim_resolve_method: ResolveMethod,
    /// Maximum number of jobs per cycle that evict others (preempt and reclaim together); `None`:
    /// no limit.
    pub preemptions_max: Option<usize>,
    /// For which pending jobs actions search pods to evict.
    pub victim_search: VictimSearch,
    /// How much higher a job's priority must be than a victim's to preempt it within its queue; at
    /// least 1.
    pub priority_difference_min: i32,
}

impl Profile {
    /// The rules by which the cluster is divided among queues.
    pub const fn fair_share_rules(&self) -> FairShareRules {
        FairShareRules { are_used: self.uses_fair_shares, k_value_milli: self.k_value_milli }
    }
}
