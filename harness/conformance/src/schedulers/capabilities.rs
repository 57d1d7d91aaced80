//! The capabilities of schedulers. Each names a behaviour, never the words in which a scheduler
//! reports it: a scenario needs those that its steps use and those that its tags name.

/// Tags that name a capability of a scheduler, each with the behaviour that it means.
pub(crate) const CAPABILITIES_AND_MEANINGS: [(&str, &str); 40] = [
    ("quota", "queues have quotas and limits that are enforced"),
    ("hierarchy", "quotas and limits of a queue hold for the queues below it together"),
    ("non-preemptible", "non-preemptible pods stay within the quota"),
    ("queue-priority", "queues are ordered by their priority"),
    ("queue-checks", "pods of a missing or invalid queue wait, and others are scheduled"),
    ("min-runtime", "pods are protected from eviction for a minimum runtime"),
    ("borrowing", "queues may use idle resources over their quota"),
    ("reclaim", "borrowed resources are reclaimed"),
    ("fair-share", "resources beyond all quotas are shared by weight"),
    ("reported-shares", "the scheduler reports the fair share of each queue to schedlab"),
    ("time-based-fairness", "queues with a high past usage get a smaller share"),
    ("preemption", "pods of a higher priority preempt pods of a lower one"),
    ("no-queue", "pods that name no queue are scheduled"),
    ("gang", "all pods of a group start, or none"),
    ("elastic", "a gang grows beyond its minimum, and shrinks to it"),
    ("sub-groups", "a gang has sub-groups with minimums of their own"),
    ("stale-gangs", "a gang that has lost members is evicted after a grace period"),
    ("podgrouper", "PodGroups are created for Jobs and other workloads"),
    ("pod-groups", "annotations and PodGroups of KAI make pods a group and report its state"),
    ("workload-api", "pods of a PodGroup of Kubernetes (scheduling.k8s.io) start together"),
    ("consolidation", "pods are moved to free contiguous resources"),
    ("bin-packing", "nodes are filled one by one, and GPU nodes are kept for GPU pods"),
    ("least-allocated", "the emptiest node comes first"),
    ("node-preference", "a node that a pod prefers comes before an emptier one"),
    ("spread", "topology spread constraints are kept"),
    ("topology", "a gang stays within a topology domain, such as a rack"),
    ("node-pools", "a scheduler serves the nodes and queues of a node pool"),
    ("shared-gpus", "pods can request a fraction of a GPU"),
    ("config-maps", "a pod waits unbound until the ConfigMaps that it requires exist"),
    ("mig", "pods can request MIG instances"),
    ("numa", "the devices and CPUs of a pod are of one NUMA zone"),
    ("dra", "devices are allocated to ResourceClaims"),
    ("dra-admin-access", "claims with adminAccess get devices that are in use"),
    ("dra-first-available", "requests list alternatives in firstAvailable"),
    ("dra-all-devices", "requests get all devices of a node with allocationMode All"),
    ("sparing-devices", "claims that any device satisfies leave scarce devices to other claims"),
    ("starvation", "pending pods do not starve, whatever their queue and priority"),
    ("bind-requests", "pods are bound by BindRequests of KAI"),
    ("configuration", "schedlab configures the scheduler for each scenario"),
    ("webhooks", "the scheduler's webhooks admit queues, pod groups and pods"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_lists_each_capability_with_its_meaning() {
        let page = include_str!("../../../../docs/reference/features.md");
        for (name, meaning) in CAPABILITIES_AND_MEANINGS {
            let row = format!("| `{name}` | {meaning} |");
            assert!(page.contains(&row), "docs/reference/features.md lacks {row}");
        }
    }
}
