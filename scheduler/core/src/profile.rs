//! The choices that a profile offers: actions, orders of jobs and pods, placement of pods, and for
//! which jobs pods are evicted.

use crate::model::PodGroupId;

/// An action of a scheduling cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Places pending pods on free capacity.
    Allocate,
    /// Moves running pods to make contiguous capacity.
    Consolidate,
    /// Evicts pods of queues over their share for queues below theirs.
    Reclaim,
    /// Evicts pods of lower priority within a queue. Profile `kube` preempts within
    /// [`Self::Allocate`], by a PostFilter plugin.
    Preempt,
    /// Evicts the remaining pods of gangs below their minimum.
    StaleGangEviction,
}

impl Action {
    /// KAI's name of the action.
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

/// How nodes or GPUs are chosen for pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The fullest node or GPU first.
    BinPack,
    /// The emptiest node or GPU first.
    Spread,
    /// The node where GPU fragmentation grows least, measured by what the cluster's pods could
    /// still use. For choosing among GPUs it is like `BinPack`.
    LeastFragmentation,
}

/// Which queue of a victim is the first whose minimum runtime applies; its ancestors follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveMethod {
    /// The ancestor of the victim's queue just below the lowest common ancestor of reclaimer and
    /// victim (KAI's default).
    Lca,
    /// The victim's leaf queue.
    Queue,
}

/// For which pending jobs the actions of a cycle search pods to evict. Schedulers search for all;
/// each search in a large, saturated cluster simulates very many evictions, which an explanation or
/// forecast need not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VictimSearch {
    /// For all jobs.
    Unlimited,
    /// For all jobs, until an action has simulated this number of victim sets: after that, it evicts
    /// for no further job.
    AtMost(usize),
    /// For one job only, without a limit. The simulated next cycle still places the jobs that come
    /// before it.
    OnlyFor(PodGroupId),
    /// For no job.
    Nothing,
}

impl VictimSearch {
    /// Number of victim sets after which an action evicts for no further job; `None`: no limit.
    pub const fn simulations_max(self) -> Option<usize> {
        match self {
            Self::AtMost(most) => Some(most),
            Self::Unlimited | Self::OnlyFor(_) | Self::Nothing => None,
        }
    }

    /// Whether pods may be evicted for the job.
    pub(crate) fn includes(self, job: PodGroupId) -> bool {
        match self {
            Self::Unlimited | Self::AtMost(_) => true,
            Self::OnlyFor(only) => only == job,
            Self::Nothing => false,
        }
    }
}

/// A rule that orders two jobs of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOrderRule {
    /// The job with the higher priority comes first.
    Priority,
    /// Jobs below their minimum come first, then those at it, then those above it.
    Elastic,
}

/// A rule that orders two pods of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOrderRule {
    /// The master or launcher of a Kubeflow job comes first.
    Kubeflow,
    /// The head of a Ray cluster comes first.
    Ray,
    /// The pod with the higher task priority comes first; pods without a task priority come last.
    TaskOrder,
}

impl JobOrderRule {
    /// All job order rules, in KAI's order.
    pub const ALL: [Self; 2] = [Self::Priority, Self::Elastic];

    /// Name of the KAI plugin that implements the rule.
    pub const fn plugin_name(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Elastic => "elastic",
        }
    }
}

impl TaskOrderRule {
    /// All task order rules, in KAI's order.
    pub const ALL: [Self; 3] = [Self::Kubeflow, Self::Ray, Self::TaskOrder];

    /// Name of the KAI plugin that implements the rule.
    pub const fn plugin_name(self) -> &'static str {
        match self {
            Self::Kubeflow => "kubeflow",
            Self::Ray => "ray",
            Self::TaskOrder => "taskorder",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_rules_are_named_after_kai_plugins() {
        let of_jobs = JobOrderRule::ALL.map(JobOrderRule::plugin_name);
        assert_eq!(of_jobs, ["priority", "elastic"]);
        let of_tasks = TaskOrderRule::ALL.map(TaskOrderRule::plugin_name);
        assert_eq!(of_tasks, ["kubeflow", "ray", "taskorder"]);
    }
}
