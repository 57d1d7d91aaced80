//! Zones of a node (NUMA nodes), as a `NodeResourceTopology` publishes them, and what a pod has of
//! them. A kubelet aligns pods with its zones, or refuses those that it cannot align.

use super::{Name, PodShape};
use crate::resources::Resources;

/// A node's zones and how its kubelet uses them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaTopology {
    /// `topologyManagerPolicy`.
    pub policy: NumaPolicy,
    /// `topologyManagerScope`.
    pub scope: NumaScope,
    /// In the order in which they are published; at most [`NumaTopology::ZONES_MAX`].
    pub zones: Vec<NumaZone>,
}

/// What a kubelet does with a pod that it cannot align.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaPolicy {
    /// It aligns nobody.
    None,
    /// It runs it all the same.
    BestEffort,
    /// It refuses it, unless all that is asked for comes from the fewest zones that can hold it.
    Restricted,
    /// It refuses it, unless all that is asked for comes from one zone.
    SingleNumaNode,
}

/// What a kubelet aligns at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaScope {
    /// Each container.
    Container,
    /// The pod as a whole.
    Pod,
}

/// One zone. What is not named there is not bound to zones on that node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaZone {
    /// Its name on that node.
    pub name: Name,
    /// What it can give to pods.
    pub allocatable: Resources,
    /// What of that was free when this was published.
    pub available: Resources,
}

/// What a pod has of a zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneShare {
    /// The zone's name.
    pub zone: Name,
    /// How much.
    pub amount: Resources,
}

/// A container of a pod that has several, as far as zones matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRequests {
    /// What it asks for.
    pub requests: Resources,
    /// It is an init container and ends before the next one starts.
    pub ends: bool,
}

impl NumaTopology {
    /// More zones than any kubelet aligns by default (8), twice over.
    pub const ZONES_MAX: usize = 16;

    /// What of `requests` a kubelet takes from zones for a pod of `shape`: what some zone offers,
    /// CPUs and memory for guaranteed pods only, devices for all. Devices of claims are not the
    /// kubelet's to align, nor are parts of GPUs.
    pub fn aligned(&self, shape: &PodShape, requests: &Resources) -> Resources {
        let is_offered =
            |of: &dyn Fn(&Resources) -> i64| self.zones.iter().any(|it| of(&it.allocatable) > 0);
        let part = |wanted: bool, of: &dyn Fn(&Resources) -> i64| {
            if wanted && is_offered(of) { of(requests).max(0) } else { 0 }
        };
        let extended = requests.extended.iter().filter(|(name, _)| {
            let is_pinned = shape.guaranteed || !name.starts_with("hugepages-");
            is_pinned && is_offered(&|zone| zone.extended_of(name))
        });
        Resources {
            gpu_milli: part(!shape.gpus_by_claim, &|it| it.gpu_milli),
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
    fn devices_that_nobody_asks_for_are_not_aligned() {
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
        let aligned = |count: i64| zones.aligned(&PodShape::default(), &of(count));
        assert_eq!(aligned(1), of(1));
        assert_eq!(aligned(0), Resources::default());
    }
}
