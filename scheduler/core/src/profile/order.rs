//! By which plugins jobs of a queue, and pods of a job, are told apart.

/// Tells two jobs of a queue apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobRule {
    /// The higher priority first.
    Priority,
    /// Those below their minimum first, then those at it, then those above.
    Elastic,
}

/// Tells two pods of a job apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskRule {
    /// The master or launcher of a Kubeflow job first.
    Kubeflow,
    /// The head of a Ray cluster first.
    Ray,
    /// The higher task priority first, any before none.
    TaskOrder,
}

impl JobRule {
    /// All, in KAI's order.
    pub const ALL: [Self; 2] = [Self::Priority, Self::Elastic];

    /// KAI's plugin.
    pub const fn plugin(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Elastic => "elastic",
        }
    }
}

impl TaskRule {
    /// All, in KAI's order.
    pub const ALL: [Self; 3] = [Self::Kubeflow, Self::Ray, Self::TaskOrder];

    /// KAI's plugin.
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
    fn rules_are_those_of_kais_plugins() {
        let of_jobs = JobRule::ALL.map(JobRule::plugin);
        assert_eq!(of_jobs, ["priority", "elastic"]);
        let of_tasks = TaskRule::ALL.map(TaskRule::plugin);
        assert_eq!(of_tasks, ["kubeflow", "ray", "taskorder"]);
    }
}
