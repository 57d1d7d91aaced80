//! Texts of the problems of queues.

use std::fmt;

use super::{Name, QueueProblem};

/// Formats a cycle of queue parents, from its first queue back to that queue.
pub fn format_cycle(cycle: &[Name]) -> String {
    let way: Vec<&str> = cycle.iter().chain(cycle.first()).map(|queue| &**queue).collect();
    way.join(" -> ")
}

impl fmt::Display for QueueProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { queue } if queue.is_empty() => {
                write!(f, "The workload names no queue: spec.queue of its pod group is empty")
            }
            Self::Missing { queue } => write!(f, "Queue '{queue}' does not exist"),
            Self::ParentMissing { queue, child, parent } => {
                let which = if child == queue {
                    format!("its parent '{parent}'")
                } else {
                    format!("the parent '{parent}' of its ancestor '{child}'")
                };
                write!(f, "Queue '{queue}' cannot be used: {which} does not exist")
            }
            Self::Cycle { queue, cycle } => write!(
                f,
                "Queue '{queue}' cannot be used: spec.parentQueue forms a cycle: {}",
                format_cycle(cycle)
            ),
            Self::NotALeaf { queue, child } => write!(
                f,
                "Queue '{queue}' accepts no workloads: it has child queues, such as '{child}'"
            ),
            Self::Malformed { queue, faulty_queue, detail } if faulty_queue == queue => {
                write!(f, "Queue '{queue}' cannot be used: {detail}")
            }
            Self::Malformed { queue, faulty_queue, detail } => {
                write!(f, "Queue '{queue}' cannot be used: queue {faulty_queue}: {detail}")
            }
            Self::OtherNodePool { apparent_problem, .. } => apparent_problem.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_problem_names_the_queue_and_the_fault() {
        let problems = [
            QueueProblem::Missing { queue: "a".into() },
            QueueProblem::ParentMissing {
                queue: "a".into(),
                child: "a".into(),
                parent: "b".into(),
            },
            QueueProblem::ParentMissing {
                queue: "a".into(),
                child: "b".into(),
                parent: "c".into(),
            },
            QueueProblem::Cycle { queue: "a".into(), cycle: vec!["b".into(), "c".into()] },
            QueueProblem::NotALeaf { queue: "a".into(), child: "b".into() },
        ];
        let messages: Vec<_> = problems.map(|problem| problem.to_string()).into();
        assert_eq!(
            messages,
            [
                "Queue 'a' does not exist",
                "Queue 'a' cannot be used: its parent 'b' does not exist",
                "Queue 'a' cannot be used: the parent 'c' of its ancestor 'b' does not exist",
                "Queue 'a' cannot be used: spec.parentQueue forms a cycle: b -> c -> b",
                "Queue 'a' accepts no workloads: it has child queues, such as 'b'",
            ]
        );
    }
}
