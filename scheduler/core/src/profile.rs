//! The choices that a profile offers: actions, orders of jobs and pods, placement of pods.

/// An action of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Place pending pods on free capacity.
    Allocate,
    /// Move running work to make contiguous capacity.
    Consolidate,
    /// Reclaim what other queues use beyond their share.
    Reclaim,
    /// Preempt lower priorities within a queue. Profile `kube` preempts within [`Self::Allocate`],
    /// by a PostFilter plugin.
    Preempt,
    /// Evict the remaining pods of gangs below their minimum.
    StaleGangEviction,
}

impl Action {
    /// KAI's name.
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

/// How nodes or GPUs are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The fullest first.
    BinPack,
    /// The emptiest first.
    Spread,
    /// The node where GPU fragmentation grows least, measured by what the cluster's pods could
    /// still use. For GPUs like `BinPack`.
    LeastFragmentation,
}

/// Which queue of a victim is the first whose minimum runtime applies; its ancestors follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolveMethod {
    /// The ancestor just below the lowest common ancestor of reclaimer and victim (KAI's default).
    Lca,
    /// The leaf queue.
    Queue,
}

/// Orders two jobs of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobOrderRule {
    /// Higher priority first.
    Priority,
    /// Jobs below their minimum first, then those at it, then those above it.
    Elastic,
}

/// Orders two pods of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOrderRule {
    /// The master or launcher of a Kubeflow job first.
    Kubeflow,
    /// The head of a Ray cluster first.
    Ray,
    /// Higher task priority first, then pods without one.
    TaskOrder,
}

impl JobOrderRule {
    /// All rules, in KAI's order.
    pub const ALL: [Self; 2] = [Self::Priority, Self::Elastic];

    /// Name of the KAI plugin.
    pub const fn plugin(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Elastic => "elastic",
        }
    }
}

impl TaskOrderRule {
    /// All rules, in KAI's order.
    pub const ALL: [Self; 3] = [Self::Kubeflow, Self::Ray, Self::TaskOrder];

    /// Name of the KAI plugin.
    pub const fn plugin(self) -> &'static str {
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
        let of_jobs = JobOrderRule::ALL.map(JobOrderRule::plugin);
        assert_eq!(of_jobs, ["priority", "elastic"]);
        let of_tasks = TaskOrderRule::ALL.map(TaskOrderRule::plugin);
        assert_eq!(of_tasks, ["kubeflow", "ray", "taskorder"]);
    }
}
