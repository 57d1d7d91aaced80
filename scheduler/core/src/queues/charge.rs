//! What queues are charged for a pod: its requests, MIG instances as whole GPUs, and GPU fractions.
//! A request for GPU memory is a fraction of a particular GPU: of the one it is allocated on; while
//! pending, of the smallest GPU of the cluster for fair shares and of the largest for limits and
//! quotas. A claim on all devices of a node is charged for those of its node; while pending, for
//! those of the eligible node with the fewest or most. Claims that other pods may share are kept
//! apart in a [`Charge`]: a queue pays for each once.

use std::collections::BTreeMap;

use crate::{
    Snapshot,
    model::{FractionalGpu, Name, Node, PodShape, ShapeId, mig_profile_gpus},
    resources::{PerResource, Resources},
};

/// What queues are charged for a pod of each shape.
#[derive(Clone, Debug)]
pub struct ChargeTable {
    shapes: Vec<ShapeCharge>,
    by_node: BTreeMap<ShapeId, NodeDependentCharge>,
    smallest_mib: i64,
    largest_mib: i64,
}

#[derive(Clone, Debug)]
struct ShapeCharge {
    fixed: Charge,
    fractional_gpu: Option<FractionalGpu>,
}

/// The charge of a shape with claims that take all devices of their node.
#[derive(Clone, Debug)]
struct NodeDependentCharge {
    shape: PodShape,
    least: Charge,
    most: Charge,
}

/// What a queue is charged for one or several pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    exclusive: PerResource<i64>,
    claims: Vec<(Name, PerResource<i64>)>,
}

impl ChargeTable {
    /// The charges of all shapes of the snapshot, given the GPUs of its nodes.
    pub fn new(snapshot: &Snapshot) -> Self {
        let with_gpus = snapshot.nodes.iter().filter(|node| node.allocatable.gpu_milli > 0);
        let sizes = || with_gpus.clone().map(|node| node.gpu_memory_mib).filter(|mib| *mib > 0);
        Self {
            shapes: snapshot.shapes.iter().map(ShapeCharge::for_shape).collect(),
            by_node: NodeDependentCharge::for_snapshot(snapshot),
            smallest_mib: sizes().min().unwrap_or(0),
            largest_mib: sizes().max().unwrap_or(0),
        }
    }

    /// Whether some pods share claims for which queues pay once, or are charged for all devices of
    /// their node: then what a pod is charged depends on other pods, or on more than its node's
    /// size of GPUs.
    pub(crate) fn depends_on_other_pods(&self) -> bool {
        !self.by_node.is_empty() || self.shapes.iter().any(|shape| !shape.fixed.claims.is_empty())
    }

    /// Whether GPUs have the same sizes as in `other`, so that shapes of both are charged alike.
    pub(crate) const fn has_same_gpus(&self, other: &Self) -> bool {
        self.smallest_mib == other.smallest_mib && self.largest_mib == other.largest_mib
    }

    /// The charge for a pod of this shape that is allocated on or pipelined to `node`.
    pub fn charge_on_node(&self, shape: ShapeId, node: &Node) -> Charge {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.charge_on_node(node));
        self.charge_with_gpu_memory(shape, fixed, node.gpu_memory_mib)
    }

    /// The charge for a pending pod of this shape when limits and quotas are checked.
    pub fn charge_for_bounds(&self, shape: ShapeId) -> Charge {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.most.clone());
        self.charge_with_gpu_memory(shape, fixed, self.largest_mib)
    }

    /// The charge for a pending pod of this shape when fair shares are divided, queues ordered and
    /// resources reclaimed.
    pub fn charge_for_fair_share(&self, shape: ShapeId) -> Charge {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.least.clone());
        self.charge_with_gpu_memory(shape, fixed, self.smallest_mib)
    }

    fn charge_with_gpu_memory(
        &self,
        shape: ShapeId,
        by_node: Option<Charge>,
        device_mib: i64,
    ) -> Charge {
        let ShapeCharge { fixed, fractional_gpu } = &self.shapes[shape.0 as usize];
        let mut charge = by_node.unwrap_or_else(|| fixed.clone());
        if let Some(fractional_gpu) = fractional_gpu {
            charge.exclusive.gpu =
                charge.exclusive.gpu.saturating_add(fractional_gpu.charged_milli(device_mib));
        }
        charge
    }
}

impl Charge {
    fn for_shape(shape: &PodShape, node: &Node) -> Self {
        let mut charge = Self::from(accounted_with_mig(&shape.requests));
        for claim in &shape.claims {
            let cost = accounted_with_mig(&claim.devices_on(node));
            if claim.claims_gpus() && !claim.is_pod_owned {
                charge.claims.push((claim.name.clone(), cost));
            } else {
                charge.exclusive = charge.exclusive.plus(cost);
            }
        }
        charge
    }

    /// Claims of the pods that other pods may share, with the charge of each claim.
    pub fn shareable_claims(&self) -> impl Iterator<Item = &(Name, PerResource<i64>)> {
        self.claims.iter()
    }

    /// The total charge, in which those claims count for which `counts_claim` holds.
    pub fn total_with_claims(&self, counts_claim: impl Fn(&Name) -> bool) -> PerResource<i64> {
        let claims = self.claims.iter().filter(|(name, _)| counts_claim(name));
        claims.fold(self.exclusive, |sum, (_, cost)| sum.plus(*cost))
    }

    /// The total charge, in which all claims count.
    pub fn total(&self) -> PerResource<i64> {
        self.total_with_claims(|_| true)
    }

    /// The charge with only those claims for which `counts_claim` holds.
    #[must_use]
    pub fn retain_claims(mut self, counts_claim: impl Fn(&Name) -> bool) -> Self {
        self.claims.retain(|(name, _)| counts_claim(name));
        self
    }

    /// Adds the charge of other pods; claims that both have count once.
    pub fn add_charge(&mut self, other: Self) {
        self.exclusive = self.exclusive.plus(other.exclusive);
        for (name, cost) in other.claims {
            if self.claims.iter().all(|(known, _)| *known != name) {
                self.claims.push((name, cost));
            }
        }
    }
}

impl From<PerResource<i64>> for Charge {
    /// A charge without shareable claims.
    fn from(alone: PerResource<i64>) -> Self {
        Self { exclusive: alone, claims: Vec::new() }
    }
}

impl FromIterator<Self> for Charge {
    /// Sums up charges; claims that several of them have count once.
    fn from_iter<I: IntoIterator<Item = Self>>(charges: I) -> Self {
        let mut all = Self::default();
        charges.into_iter().for_each(|charge| all.add_charge(charge));
        all
    }
}

impl ShapeCharge {
    fn for_shape(shape: &PodShape) -> Self {
        Self {
            fixed: Charge::for_shape(shape, &Node::default()),
            fractional_gpu: shape.fractional_gpu,
        }
    }
}

impl NodeDependentCharge {
    fn for_snapshot(snapshot: &Snapshot) -> BTreeMap<ShapeId, Self> {
        let shapes = snapshot.shapes.iter().zip(0..);
        let shapes = shapes.filter(|(shape, _)| shape.requests_all_devices());
        shapes.map(|(shape, at)| (ShapeId(at), Self::for_shape(shape, &snapshot.nodes))).collect()
    }

    fn for_shape(shape: &PodShape, nodes: &[Node]) -> Self {
        let nowhere = Node::default();
        let fits = |node: &&Node| {
            shape.selects_node(node)
                && shape.requests_and_claims_on(node).fits_in(&node.capacity_when_empty())
        };
        let gpus = |node: &&Node| shape.requests_and_claims_on(node).gpu_milli;
        let nodes = || nodes.iter().filter(fits);
        let least = nodes().min_by_key(gpus).unwrap_or(&nowhere);
        let most = nodes().max_by_key(gpus).unwrap_or(&nowhere);
        let on = |node| Charge::for_shape(shape, node);
        Self { least: on(least), most: on(most), shape: shape.clone() }
    }

    fn charge_on_node(&self, node: &Node) -> Charge {
        Charge::for_shape(&self.shape, node)
    }
}

/// The amounts that queues account for, with MIG instances counted as GPUs.
pub fn accounted_with_mig(resources: &Resources) -> PerResource<i64> {
    let instances = resources.extended.iter().filter_map(|(name, count)| {
        mig_profile_gpus(name).map(|gpus| gpus.saturating_mul(*count).saturating_mul(1000))
    });
    let accounted = resources.accounted_amounts();
    PerResource { gpu: instances.fold(accounted.gpu, i64::saturating_add), ..accounted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_testkit::snapshot_of;

    /// Thousandths of GPUs that the pending pod is charged: for fair shares, for bounds, and on
    /// each node.
    fn gpus(text: &str) -> (i64, i64, Vec<i64>) {
        let snapshot = snapshot_of(text);
        let charges = ChargeTable::new(&snapshot);
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("a pending pod");
        let on =
            snapshot.nodes.iter().map(|node| charges.charge_on_node(pod.shape, node).total().gpu);
        let gpus = |charge: Charge| charge.total().gpu;
        (
            gpus(charges.charge_for_fair_share(pod.shape)),
            gpus(charges.charge_for_bounds(pod.shape)),
            on.collect(),
        )
    }

    #[test]
    fn gpu_memory_is_charged_by_the_allocated_device_or_the_smallest_or_largest_while_pending() {
        let nodes = "
            node n1 gpus=8 gpu-memory=8000
            node n2 gpus=8 gpu-memory=16000
            node n3 gpus=8
            node n4 gpu-memory=1000
        ";
        let of = |asks: &str| gpus(&format!("{nodes}\njob x {asks}"));
        let (share, bounds, on) = of("part-memory=4000");
        assert_eq!((share, bounds, &on[..2]), (500, 250, &[500, 250][..]));
        let (share, bounds, _) = of("part-memory=4001 devices=2");
        assert_eq!((share, bounds), (1020, 520), "in whole hundredths, rounded up");
        assert_eq!(of("part=0.3 devices=2"), (600, 600, vec![600; 4]));
        assert_eq!(of("gpus=2"), (2000, 2000, vec![2000; 4]));
    }

    #[test]
    fn gpu_memory_on_devices_of_unknown_size_is_charged_as_whole_gpus() {
        let of = |asks: &str| gpus(&format!("\nnode n1 gpus=8\njob x {asks}"));
        assert_eq!(of("part-memory=1000"), (1000, 1000, vec![1000]));
        assert_eq!(of("part-memory=1000 devices=2"), (2000, 2000, vec![2000]));
    }

    #[test]
    fn a_mig_instance_is_charged_by_the_slices_of_its_profile() {
        let of = |asks: &str| gpus(&format!("\nnode n1\njob x {asks}")).0;
        assert_eq!(of("extended nvidia.com/mig-2g.10gb=3"), 6000);
        assert_eq!(of("gpus=1 extended nvidia.com/mig-1g.5gb=2"), 3000);
        assert_eq!(of("extended nic=3"), 0);
    }

    #[test]
    fn allocate_all_claims_are_charged_by_node_or_the_least_or_most_possible_while_pending() {
        let nodes = "
            node n1 gpus=2 by-claim label kind=a
            node n2 gpus=4 by-claim label kind=a
            node n3 gpus=8 by-claim label kind=b
        ";
        let of = |asks: &str| gpus(&format!("{nodes}\njob x {asks}"));
        assert_eq!(of("claim c:all"), (2000, 8000, vec![2000, 4000, 8000]));
        assert_eq!(of("claim c:all needs kind=a"), (2000, 4000, vec![2000, 4000, 8000]));
        assert_eq!(of("claim c:1"), (1000, 1000, vec![1000; 3]));
    }
}
