//! What queues pay for a pod: its requests, MIG instances as whole GPUs, and parts of GPUs as
//! such. Memory of a GPU is a part only of a device: of the one it has, else, while it waits, of
//! the smallest one of the cluster where shares are divided, of the largest one where limits and
//! quotas are checked. All devices of a node are priced alike: of the node it has, else of the one
//! with the fewest, or the most, of those that have room for it when they are empty. Claims on
//! GPUs that others may use, too, stand apart on the [`Bill`]: a queue pays for each once.

use std::collections::BTreeMap;

use crate::{
    model::{Name, Node, PodShape, ShapeId, SharedGpu, mig_gpus},
    resources::{PerResource, Resources},
    snapshot::Snapshot,
};

/// The price of every shape.
#[derive(Clone, Debug)]
pub struct Prices {
    shapes: Vec<Price>,
    by_node: BTreeMap<ShapeId, PriceByNode>,
    smallest_mib: i64,
    largest_mib: i64,
}

#[derive(Clone, Debug)]
struct Price {
    fixed: Bill,
    shared: Option<SharedGpu>,
}

/// Of a shape that takes every device of a node.
#[derive(Clone, Debug)]
struct PriceByNode {
    shape: PodShape,
    least: Bill,
    most: Bill,
}

/// What one pod, or several, cost their queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    alone: PerResource<i64>,
    claims: Vec<(Name, PerResource<i64>)>,
}

impl Prices {
    /// Of the shapes of the snapshot, and of its devices.
    pub fn of(snapshot: &Snapshot) -> Self {
        let with_gpus = snapshot.nodes.iter().filter(|node| node.allocatable.gpu_milli > 0);
        let sizes = || with_gpus.clone().map(|node| node.gpu_memory_mib).filter(|mib| *mib > 0);
        Self {
            shapes: snapshot.shapes.iter().map(Price::of).collect(),
            by_node: PriceByNode::all(snapshot),
            smallest_mib: sizes().min().unwrap_or(0),
            largest_mib: sizes().max().unwrap_or(0),
        }
    }

    /// For a pod that has, or was promised, room on `node`.
    pub fn on(&self, shape: ShapeId, node: &Node) -> Bill {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.on(node));
        self.with_devices_of((shape, fixed), node.gpu_memory_mib)
    }

    /// What a waiting pod asks for when limits and quotas are checked.
    pub fn to_keep_bounds(&self, shape: ShapeId) -> Bill {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.most.clone());
        self.with_devices_of((shape, fixed), self.largest_mib)
    }

    /// What a waiting pod asks for when shares are divided, and when it is asked whose turn it is
    /// and what may be taken back.
    pub fn to_share(&self, shape: ShapeId) -> Bill {
        let fixed = self.by_node.get(&shape).map(|by_node| by_node.least.clone());
        self.with_devices_of((shape, fixed), self.smallest_mib)
    }

    fn with_devices_of(&self, (shape, by_node): (ShapeId, Option<Bill>), device_mib: i64) -> Bill {
        let Price { fixed, shared } = &self.shapes[shape.0 as usize];
        let mut bill = by_node.unwrap_or_else(|| fixed.clone());
        if let Some(shared) = shared {
            bill.alone.gpu = bill.alone.gpu.saturating_add(shared.milli_of(device_mib));
        }
        bill
    }
}

impl Bill {
    fn of(shape: &PodShape, node: &Node) -> Self {
        let mut bill = Self::from(with_mig(&shape.requests));
        for claim in &shape.claims {
            let cost = with_mig(&claim.devices_on(node));
            if claim.is_gpu() && !claim.is_own {
                bill.claims.push((claim.name.clone(), cost));
            } else {
                bill.alone = bill.alone.plus(cost);
            }
        }
        bill
    }

    /// Claims that others may use, too, and what each costs.
    pub fn claims(&self) -> impl Iterator<Item = &(Name, PerResource<i64>)> {
        self.claims.iter()
    }

    /// With those of its claims that `pays` picks.
    pub fn total_of(&self, pays: impl Fn(&Name) -> bool) -> PerResource<i64> {
        let claims = self.claims.iter().filter(|(name, _)| pays(name));
        claims.fold(self.alone, |sum, (_, cost)| sum.plus(*cost))
    }

    /// With all its claims.
    pub fn total(&self) -> PerResource<i64> {
        self.total_of(|_| true)
    }

    /// Without the claims that `pays` does not pick.
    #[must_use]
    pub fn with_claims(mut self, pays: impl Fn(&Name) -> bool) -> Self {
        self.claims.retain(|(name, _)| pays(name));
        self
    }

    /// One bill for both.
    pub fn add(&mut self, other: Self) {
        self.alone = self.alone.plus(other.alone);
        for (name, cost) in other.claims {
            if self.claims.iter().all(|(known, _)| *known != name) {
                self.claims.push((name, cost));
            }
        }
    }
}

impl From<PerResource<i64>> for Bill {
    /// Without claims that others may use, too.
    fn from(alone: PerResource<i64>) -> Self {
        Self { alone, claims: Vec::new() }
    }
}

impl FromIterator<Self> for Bill {
    /// One bill for all.
    fn from_iter<I: IntoIterator<Item = Self>>(bills: I) -> Self {
        let mut all = Self::default();
        bills.into_iter().for_each(|bill| all.add(bill));
        all
    }
}

impl Price {
    fn of(shape: &PodShape) -> Self {
        Self { fixed: Bill::of(shape, &Node::default()), shared: shape.shared_gpu }
    }
}

impl PriceByNode {
    fn all(snapshot: &Snapshot) -> BTreeMap<ShapeId, Self> {
        let shapes = snapshot.shapes.iter().zip(0..);
        let shapes = shapes.filter(|(shape, _)| shape.takes_every_device());
        shapes.map(|(shape, at)| (ShapeId(at), Self::of(shape, &snapshot.nodes))).collect()
    }

    fn of(shape: &PodShape, nodes: &[Node]) -> Self {
        let nowhere = Node::default();
        let fits = |node: &&Node| {
            shape.selects(node) && shape.requests_and_claims_on(node).fits_in(&node.room())
        };
        let gpus = |node: &&Node| shape.requests_and_claims_on(node).gpu_milli;
        let nodes = || nodes.iter().filter(fits);
        let least = nodes().min_by_key(gpus).unwrap_or(&nowhere);
        let most = nodes().max_by_key(gpus).unwrap_or(&nowhere);
        let on = |node| Bill::of(shape, node);
        Self { least: on(least), most: on(most), shape: shape.clone() }
    }

    fn on(&self, node: &Node) -> Bill {
        Bill::of(&self.shape, node)
    }
}

/// The part that queues account for, MIG instances included.
pub fn with_mig(resources: &Resources) -> PerResource<i64> {
    let instances = resources.extended.iter().filter_map(|(name, count)| {
        mig_gpus(name).map(|gpus| gpus.saturating_mul(*count).saturating_mul(1000))
    });
    let accounted = resources.accounted();
    PerResource { gpu: instances.fold(accounted.gpu, i64::saturating_add), ..accounted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::snapshot_of;

    /// GPUs, in thousandths, that queues pay for the waiting pod: while shares are divided, while
    /// bounds are checked, and on each node.
    fn gpus(text: &str) -> (i64, i64, Vec<i64>) {
        let snapshot = snapshot_of(text);
        let prices = Prices::of(&snapshot);
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("one waits");
        let on = snapshot.nodes.iter().map(|node| prices.on(pod.shape, node).total().gpu);
        let gpus = |bill: Bill| bill.total().gpu;
        (gpus(prices.to_share(pod.shape)), gpus(prices.to_keep_bounds(pod.shape)), on.collect())
    }

    #[test]
    fn memory_is_a_part_of_the_device_it_is_on_and_of_the_least_or_most_while_it_waits() {
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
    fn memory_of_devices_whose_size_nobody_knows_costs_them_whole() {
        let of = |asks: &str| gpus(&format!("\nnode n1 gpus=8\njob x {asks}"));
        assert_eq!(of("part-memory=1000"), (1000, 1000, vec![1000]));
        assert_eq!(of("part-memory=1000 devices=2"), (2000, 2000, vec![2000]));
    }

    #[test]
    fn an_instance_costs_as_many_gpus_as_its_profile_has_slices() {
        let of = |asks: &str| gpus(&format!("\nnode n1\njob x {asks}")).0;
        assert_eq!(of("extended nvidia.com/mig-2g.10gb=3"), 6000);
        assert_eq!(of("gpus=1 extended nvidia.com/mig-1g.5gb=2"), 3000);
        assert_eq!(of("extended nic=3"), 0);
    }

    #[test]
    fn all_devices_cost_what_their_node_has_and_while_one_waits_the_least_or_most_that_may_be() {
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
