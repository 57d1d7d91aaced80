//! Disruption budgets, as far as preemption considers them.

use super::{LabelSelector, Name};

/// A `policy/v1` `PodDisruptionBudget`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisruptionBudget {
    /// Namespace of the budget and its pods.
    pub namespace: Name,
    /// Name of the budget.
    pub name: Name,
    /// `spec.selector`. Without requirements it selects no pods in preemption, as in
    /// kube-scheduler.
    pub selector: LabelSelector,
    /// `status.disruptionsAllowed`.
    pub allowed: i32,
    /// Names in `status.disruptedPods`: pods that are evicted already and counted in `allowed`.
    pub disrupted: Vec<Name>,
}
