//! Pods of a PodGroup that differ where all of them must be equal (profile `kube`).

use std::fmt;

use crate::model::{Name, PreemptionPolicy};

/// Why kube-scheduler does not place a PodGroup: a pod differs from the group or from its other pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDifference {
    /// Namespace and name of the first pod that differs.
    pub pod: Name,
    /// Number of pods that differ.
    pub pods: u32,
    /// In what the pod differs.
    pub field: DifferentField,
}

/// The field in which a pod differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferentField {
    /// `spec.priority` is not that of the PodGroup.
    Priority {
        /// The priority of the pod.
        pod: i32,
        /// The priority of the PodGroup.
        group: i32,
    },
    /// `spec.preemptionPolicy` is not that of the first pod.
    PreemptionPolicy {
        /// The policy of the pod.
        pod: PreemptionPolicy,
        /// The policy of the first pod.
        first: PreemptionPolicy,
    },
}

impl DifferentField {
    /// How to fix the pod.
    pub fn fix(self) -> Name {
        match self {
            Self::Priority { group, .. } => {
                format!("give it the priority of its PodGroup, {group}").into()
            }
            Self::PreemptionPolicy { first, .. } => {
                format!("give it preemptionPolicy {}, as the first pod has", policy_name(first))
                    .into()
            }
        }
    }
}

impl fmt::Display for GroupDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            DifferentField::Priority { pod, group } => write!(
                f,
                "all pods in a single pod group should have the same priority as the pod group's \
                 priority, got {pod} and {group}"
            ),
            DifferentField::PreemptionPolicy { pod, first } => write!(
                f,
                "all pods in a single pod group should have the same preemption policy, got {} and {}",
                policy_name(pod),
                policy_name(first)
            ),
        }
    }
}

const fn policy_name(policy: PreemptionPolicy) -> &'static str {
    match policy {
        PreemptionPolicy::PreemptLowerPriority => "PreemptLowerPriority",
        PreemptionPolicy::Never => "Never",
    }
}
