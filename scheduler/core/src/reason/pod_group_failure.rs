//! Why a PodGroup of Kubernetes cannot be placed, in the words of kube-scheduler.

use std::fmt;

use super::FitErrors;

/// The failed attempt to place a PodGroup (profile `kube`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodGroupFailure {
    /// Number of its pods that must be placed together.
    pub min_count: u32,
    /// Number of its pods that have a node or found one.
    pub scheduled: u32,
    /// Number of its pods that were not tried, since the minimum was out of reach.
    pub remaining: u32,
    /// Number of topology domains that were tried; `None`: it has no topology constraint.
    pub domains: Option<u32>,
    /// Errors of all nodes for the pod that found none.
    pub fit_errors: FitErrors,
    /// Result of the search for victims.
    pub preemption: PodGroupPreemption,
}

/// Result of the search for the victims of a PodGroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodGroupPreemption {
    /// The `preemptionPolicy` of its pods is `Never`.
    PolicyNever,
    /// No pod has a lower priority.
    NoVictims,
    /// It does not fit without any pod of lower priority.
    NotHelpful {
        /// Number of its pods that then have a node.
        scheduled: u32,
    },
    /// This many pods leave for it.
    Nominated {
        /// Number of victims.
        victims: u32,
    },
    /// Its victims are still terminating.
    VictimsTerminating,
}

impl PodGroupFailure {
    /// Number of pods that are missing to the minimum.
    pub fn missing(&self) -> u32 {
        self.min_count.saturating_sub(self.scheduled).max(1)
    }
}

impl fmt::Display for PodGroupFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min_count, scheduled, remaining, domains, preemption, .. } = self;
        let write_counts = |f: &mut fmt::Formatter<'_>, scheduled: u32, remaining: u32| {
            if let Some(domains) = domains {
                write!(f, "0/{domains} placements are available, first placement status: ")?;
            }
            write!(
                f,
                "minCount ({min_count}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
            )
        };
        write_counts(f, *scheduled, *remaining)?;
        f.write_str(", ")?;
        match preemption {
            PodGroupPreemption::PolicyNever => {
                f.write_str("not eligible due to preemptionPolicy=Never.")
            }
            PodGroupPreemption::NoVictims => {
                f.write_str("No preemption victims found for incoming preemptor")
            }
            PodGroupPreemption::NotHelpful { scheduled } => {
                let most = min_count.saturating_sub(1);
                let scheduled = most.min(*scheduled);
                write_counts(f, scheduled, most - scheduled)
            }
            PodGroupPreemption::Nominated { victims } => {
                write!(f, "found a placement for podgroup, preempting {victims} victims")
            }
            PodGroupPreemption::VictimsTerminating => {
                f.write_str("ongoing preemption on nominated nodes")
            }
        }
    }
}
