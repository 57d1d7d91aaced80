//! Disruption budgets, as far as preemption considers them.

use super::{LabelSelector, Name};

/// A `policy/v1` `PodDisruptionBudget`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// Namespace of its pods.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// `spec.selector`; without requirements it selects nothing here.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
    /// Names in `status.disruptedPods`: evicted already, and counted in `allowed`.
    pub disrupted: Vec<Name>,
}
