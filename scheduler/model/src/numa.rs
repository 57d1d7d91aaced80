//! NUMA zones of a node, as a `NodeResourceTopology` publishes them, and what pods have of them. A
//! kubelet aligns pods with its zones, or rejects those that it cannot align.

use super::{Name, PodShape};
use crate::resources::Resources;

/// The NUMA zones of a node and the kubelet's policy for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaTopology {
    /// `topologyManagerPolicy`.
    pub policy: NumaPolicy,
    /// `topologyManagerScope`.
    pub scope: NumaScope,
    /// The NUMA zones in the order of publication; at most [`NumaTopology::ZONES_MAX`].
    pub zones: Vec<NumaZone>,
}

/// Topology Manager policy: what a kubelet does with a pod that it cannot align.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaPolicy {
    /// The kubelet aligns no pods.
    None,
    /// The kubelet runs the pod without alignment.
    BestEffort,
    /// The kubelet rejects the pod unless all requests come from the smallest set of zones that can
    /// hold them.
    Restricted,
    /// The kubelet rejects the pod unless all requests come from one zone.
    SingleNumaNode,
}

/// Topology Manager scope: what a kubelet aligns as one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaScope {
    /// Each container is aligned for itself.
    Container,
    /// The whole pod is aligned as one unit.
    Pod,
}

/// One NUMA zone. Resources that the zone does not list are not bound to zones on that node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaZone {
    /// Name of the zone, unique on the node.
    pub name: Name,
    /// Amounts that the zone offers to pods.
    pub allocatable: Resources,
    /// Amounts of the zone that were free when the topology was published.
    pub available: Resources,
}

/// The amounts that a pod has allocated from one NUMA zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumaAllocation {
    /// Name of the zone.
    pub zone: Name,
    /// The allocated amount.
    pub amount: Resources,
}

/// The requests of one container of a pod with several, as far as NUMA alignment needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRequests {
    /// Resource requests of the container.
    pub requests: Resources,
    /// Whether the container is an init container that ends before the next one starts.
    pub ends_before_next: bool,
}

impl NumaTopology {
    /// Maximum number of zones that are considered: twice the number that a kubelet aligns by
    /// default (8).
    pub const ZONES_MAX: usize = 16;

    /// The part of `requests` that the kubelet takes from NUMA zones for a pod of `shape`:
    /// resources that some zone offers, CPU and memory only for guaranteed pods, devices for all.
    /// Devices of claims and GPU fractions are not aligned by the kubelet.
    pub fn alignable_requests(&self, shape: &PodShape, requests: &Resources) -> Resources {
        let is_offered =
            |of: &dyn Fn(&Resources) -> i64| self.zones.iter().any(|it| of(&it.allocatable) > 0);
        let part = |is_aligned: bool, of: &dyn Fn(&Resources) -> i64| {
            if is_aligned && is_offered(of) { of(requests).max(0) } else { 0 }
        };
        let extended = requests.extended.iter().filter(|(name, _)| {
            let is_pinned = shape.guaranteed || !name.starts_with("hugepages-");
            is_pinned && is_offered(&|zone| zone.extended_amount(name))
        });
        Resources {
            gpu_milli: part(!shape.gpus_via_dra, &|it| it.gpu_milli),
            cpu_milli: part(shape.guaranteed, &|it| it.cpu_milli),
            memory_bytes: part(shape.guaranteed, &|it| it.memory_bytes),
            pods: 0,
            extended: extended
                .filter(|(_, amount)| **amount > 0)
                .map(|(name, amount)| (Name::clone(name), *amount))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_with_a_zero_request_are_not_aligned() {
        let of = |count: i64| Resources {
            extended: std::iter::once(("nic".into(), count)).collect(),
            ..Resources::default()
        };
        let zone = NumaZone { name: "z0".into(), allocatable: of(2), available: of(2) };
        let zones = NumaTopology {
            policy: NumaPolicy::SingleNumaNode,
            scope: NumaScope::Pod,
            zones: vec![zone],
        };
        let aligned = |count: i64| zones.alignable_requests(&PodShape::default(), &of(count));
        assert_eq!(aligned(1), of(1));
        assert_eq!(aligned(0), Resources::default());
    }
}
