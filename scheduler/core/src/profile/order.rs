//! The rules that order the jobs of a queue and the pods of a job, by KAI plugin.

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
