//! How the scheduler is set up: which actions, which plugins with which arguments.

mod order;

use std::{collections::BTreeMap, time::Duration};

pub use order::{JobRule, TaskRule};

use crate::framework::Plugins;

/// Actions and plugins of one scheduler. Two are built in: [`Profile::kai`], [`Profile::kube`].
#[derive(Clone, Debug)]
pub struct Profile {
    /// What a cycle does, in order.
    pub actions: Vec<Action>,
    /// What is asked at each extension point, in order.
    pub plugins: Plugins,
    /// What tells jobs of a queue apart, each rule once; the first that does decides, and where
    /// none does the older job comes first. Victims are taken in the reverse order.
    pub job_order: Vec<JobRule>,
    /// What tells pods of a job apart, in the same way.
    pub task_order: Vec<TaskRule>,
    /// How nodes are chosen for pods that ask for GPUs.
    pub gpu_placement: Placement,
    /// How nodes are chosen for pods that ask for none.
    pub cpu_placement: Placement,
    /// Which device of a node pods go to that ask for part of one: the fullest, or the emptiest.
    pub device_placement: Placement,
    /// Sibling queues are told apart by what they deserve and use, and take back by it (KAI's plugin
    /// `proportion`); else the older one comes first, and none takes back anything.
    pub fair_shares: bool,
    /// Weight of historical usage in the fair share, in thousandths (KAI's `kValue`).
    pub k_value_milli: i64,
    /// Grace of stale gangs that set none.
    pub staleness_grace: Duration,
    /// A pod that takes longer than this to leave is stuck: its room is promised to nobody.
    pub release_max: Option<Duration>,
    /// How much further from their fair share than the reclaimer its victims' queues must stay,
    /// in thousandths, at least 1000.
    pub reclaim_saturation_milli: i64,
    /// What a reclaimer takes is judged by what is lost; else work that only moves for it counts as
    /// taken, too (KAI's `allowConsolidatingReclaim`).
    pub consolidating_reclaim: bool,
    /// Most victim jobs of one consolidation.
    pub consolidation_victims_max: usize,
    /// Most jobs of a leaf queue, in serving order, that an action looks at; all, where it is
    /// not named. (Of stale gangs all are looked at.)
    pub queue_depth: BTreeMap<Action, usize>,
    /// Running work is protected for a time (KAI's plugin `minruntime`).
    pub min_runtimes: bool,
    /// Protects running work from preemption where no queue says otherwise.
    pub preempt_min_runtime: Duration,
    /// Protects running work from reclaim where no queue says otherwise.
    pub reclaim_min_runtime: Duration,
    /// Which queue says first how long running work is protected from reclaim.
    pub reclaim_resolve_method: ResolveMethod,
    /// Most workloads of one cycle for which others have to leave (preempt and reclaim together);
    /// `None`: all that may.
    pub preemptions_max: Option<usize>,
    /// By how much a priority must be higher to take a place inside its queue; at least 1.
    pub priority_difference_min: i32,
}

/// The actions of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Place pending pods on free room.
    Allocate,
    /// Move running work together to make room.
    Consolidate,
    /// Take back what other queues borrowed.
    Reclaim,
    /// Higher priority first inside a queue. Profile `kube` preempts within [`Self::Allocate`],
    /// by a PostFilter plugin.
    Preempt,
    /// Evict what is left of gangs below their minimum.
    StaleGangEviction,
}

impl Action {
    /// As KAI names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Consolidate => "consolidation",
            Self::Reclaim => "reclaim",
            Self::Preempt => "preempt",
            Self::StaleGangEviction => "stalegangeviction",
        }
    }
}

/// Where pods go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Onto the fullest node.
    BinPack,
    /// Onto the emptiest node.
    Spread,
    /// Where the least is broken up of what the cluster's pods could still use of its GPUs. Among
    /// devices, as `BinPack`.
    LeastFragmentation,
}

/// Which queue of a victim is asked first for its minimum run time; then those above it are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveMethod {
    /// The one just below the lowest queue that is above reclaimer and victim (KAI's default).
    Lca,
    /// Its leaf queue.
    Queue,
}

impl Profile {
    /// What KAI does by default.
    pub fn kai() -> Self {
        Self {
            actions: vec![
                Action::Allocate,
                Action::Consolidate,
                Action::Reclaim,
                Action::Preempt,
                Action::StaleGangEviction,
            ],
            plugins: Plugins::kai(),
            job_order: JobRule::ALL.to_vec(),
            task_order: TaskRule::ALL.to_vec(),
            gpu_placement: Placement::BinPack,
            cpu_placement: Placement::BinPack,
            device_placement: Placement::BinPack,
            fair_shares: true,
            k_value_milli: 1000,
            staleness_grace: Duration::from_mins(1),
            release_max: Some(Duration::from_mins(2)),
            reclaim_saturation_milli: 1000,
            consolidating_reclaim: true,
            consolidation_victims_max: 16,
            queue_depth: BTreeMap::new(),
            min_runtimes: true,
            preempt_min_runtime: Duration::ZERO,
            reclaim_min_runtime: Duration::ZERO,
            reclaim_resolve_method: ResolveMethod::Lca,
            preemptions_max: None,
            priority_difference_min: 1,
        }
    }

    /// What default kube-scheduler does.
    pub fn kube() -> Self {
        Self {
            actions: vec![Action::Allocate],
            plugins: Plugins::kube(),
            // A preemptor waits for its victims for as long as they take.
            release_max: None,
            ..Self::kai()
        }
    }
}
