//! NUMA zones: their free capacity, and which of them a kubelet would allocate to a pod. It takes
//! the smallest set of zones that its policy allows, the lowest one of several.

use super::NodeInfo;
use crate::{
    Snapshot,
    framework::{Session, pod::Occupancy},
    model::{
        ContainerRequests, Node, NodeId, NumaAllocation, NumaPolicy, NumaScope, NumaTopology,
        PodId, PodShape,
    },
    resources::Resources,
};

/// Capacity of one NUMA zone, counted like that of a node in [`NodeInfo`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumaZoneCapacity {
    /// Resources of the zone that are not allocated.
    pub idle: Resources,
    /// Resources of terminating pods minus those of pipelined pods.
    pub releasing: Resources,
}

/// Amounts that a pod takes from NUMA zones, by position of the zone.
pub(in crate::framework) type NumaShares = Vec<(usize, Resources)>;

/// Which capacity counts as free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Capacity that is neither allocated nor taken by pipelined pods.
    Idle,
    /// Like `Idle`, plus the capacity of terminating pods.
    AfterRelease,
}

impl NumaZoneCapacity {
    /// The NUMA zones of `node`, without any pods.
    pub(super) fn zones_without_pods(node: &Node) -> Vec<Self> {
        let zones = node.numa.iter().flat_map(|numa| &numa.zones);
        let empty = |idle: &Resources| Self { idle: idle.clone(), ..Self::default() };
        zones.map(|zone| empty(&zone.allocatable)).collect()
    }

    /// Capacity for further pipelined pods.
    pub fn free_after_release(&self) -> Resources {
        self.idle.plus(&self.releasing)
    }

    fn free_amounts(&self, availability: Availability) -> Resources {
        match availability {
            Availability::AfterRelease => self.free_after_release(),
            Availability::Idle if self.releasing == Resources::default() => self.idle.clone(),
            Availability::Idle => self.idle.elementwise_min(&self.free_after_release()),
        }
    }

    fn allocate(&mut self, amount: &Resources, occupancy: Occupancy) {
        occupancy.subtract_from(amount, &mut self.idle, &mut self.releasing);
    }

    fn release(&mut self, amount: &Resources, occupancy: Occupancy) {
        occupancy.add_back_to(amount, &mut self.idle, &mut self.releasing);
    }
}

impl NodeInfo {
    pub(super) fn allocate_numa(&mut self, shares: &NumaShares, occupancy: Occupancy) {
        for (at, amount) in shares {
            self.numa_zones[*at].allocate(amount, occupancy);
        }
    }

    pub(super) fn release_numa(&mut self, shares: &NumaShares, occupancy: Occupancy) {
        for (at, amount) in shares {
            self.numa_zones[*at].release(amount, occupancy);
        }
    }

    /// Whether an evicted pod could keep these shares of the NUMA zones.
    pub(super) fn can_keep_numa(&self, shares: &NumaShares) -> bool {
        shares.iter().all(|(at, amount)| amount.fits_in(&self.numa_zones[*at].free_after_release()))
    }

    /// What a pod of `shape` would get from the NUMA zones of `node`. `None`: the kubelet would
    /// reject the pod; empty: the pod takes nothing from zones.
    pub(super) fn numa_shares(
        &self,
        node: &Node,
        shape: &PodShape,
        availability: Availability,
    ) -> Option<NumaShares> {
        let Some(numa) = &node.numa else { return Some(NumaShares::new()) };
        let mut free: Vec<Resources> =
            self.numa_zones.iter().map(|zone| zone.free_amounts(availability)).collect();
        if shape.containers.is_empty() || numa.scope == NumaScope::Pod {
            return aligned_numa_shares(
                numa,
                &free,
                &numa.alignable_requests(shape, &shape.requests),
            );
        }
        let mut all = NumaShares::new();
        for ContainerRequests { requests, ends_before_next } in &shape.containers {
            let shares =
                aligned_numa_shares(numa, &free, &numa.alignable_requests(shape, requests))?;
            if *ends_before_next {
                continue;
            }
            for (at, amount) in shares {
                free[at].subtract(&amount);
                match all.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, sum)) => sum.add(&amount),
                    None => all.push((at, amount)),
                }
            }
        }
        all.sort_by_key(|(at, _)| *at);
        Some(all)
    }
}

/// The shares of NUMA zones for a request, given the free amounts of each zone. `None`: the kubelet
/// would reject the request.
fn aligned_numa_shares(
    numa: &NumaTopology,
    free: &[Resources],
    requested: &Resources,
) -> Option<NumaShares> {
    if *requested == Resources::default() {
        return Some(NumaShares::new());
    }
    let widths = 1..=free.len();
    let first_of = |width| first_zone_set(free, requested, width);
    match numa.policy {
        NumaPolicy::None => Some(NumaShares::new()),
        NumaPolicy::SingleNumaNode => first_of(1),
        NumaPolicy::Restricted => first_of(min_zone_count(numa, requested)?),
        NumaPolicy::BestEffort => Some(widths.into_iter().find_map(first_of).unwrap_or_default()),
    }
}

/// Smallest number of zones that can hold the request on the empty node. `None` when the resources
/// need different numbers, or no number suffices: a kubelet with policy `restricted` then has no
/// preferred set.
fn min_zone_count(numa: &NumaTopology, requested: &Resources) -> Option<usize> {
    let mut widths = requested.positive_amounts().map(|(resource, amount)| {
        let zones = numa.zones.iter();
        let mut offers: Vec<i64> = zones.map(|it| it.allocatable.amount_of(&resource)).collect();
        offers.sort_unstable_by(|a, b| b.cmp(a));
        let sums = offers.iter().scan(0_i64, |sum, offer| {
            *sum = sum.saturating_add(*offer);
            Some(*sum)
        });
        sums.into_iter().position(|sum| sum >= amount).map(|at| at + 1)
    });
    let first = widths.next().flatten()?;
    widths.all(|width| width == Some(first)).then_some(first)
}

/// The lowest set of `zone_count` zones that holds the request, filled from the lowest zone.
fn first_zone_set(
    free: &[Resources],
    requested: &Resources,
    zone_count: usize,
) -> Option<NumaShares> {
    let sets = (1_u32..1 << free.len().min(NumaTopology::ZONES_MAX))
        .filter(|set| set.count_ones() as usize == zone_count);
    sets.into_iter().find_map(|set| {
        let mut left = requested.clone();
        let mut shares = NumaShares::new();
        for (at, zone) in free.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0) {
            let amount = left.elementwise_min(zone).at_least_zero();
            left.subtract(&amount);
            shares.push((at, amount));
        }
        let nothing = Resources::default();
        left.fits_in(&nothing).then_some(shares)
    })
}

/// Maximum number of NUMA zones of any node; 0 when no node publishes zones.
pub(super) fn max_numa_zones(snapshot: &Snapshot) -> usize {
    let topologies = snapshot.nodes.iter().filter_map(|node| node.numa.as_ref());
    topologies.map(|numa| numa.zones.len()).max().unwrap_or(0)
}

impl Session<'_> {
    /// Maximum number of NUMA zones of any node; 0 when no node publishes zones.
    pub const fn numa_zones_max(&self) -> usize {
        self.nodes.numa_zones_max()
    }

    /// Whether the kubelet of `node` could align a pod of `shape` if the node were empty.
    pub fn can_align_when_empty(&self, node: NodeId, shape: &PodShape) -> bool {
        let node = self.node(node);
        NodeInfo::without_pods(node).numa_shares(node, shape, Availability::AfterRelease).is_some()
    }

    /// Whether the kubelet of `node` could align a pod of `shape` with the capacity that counts as
    /// free.
    pub fn can_align(&self, node: NodeId, shape: &PodShape, availability: Availability) -> bool {
        self.node_info(node).numa_shares(self.node(node), shape, availability).is_some()
    }

    /// Number of NUMA zones from which a pod of `shape` would get its resources on `node`, now or
    /// else later; `None` when the kubelet would reject the pod.
    pub fn numa_zone_count(&self, node: NodeId, shape: &PodShape) -> Option<usize> {
        let (info, node) = (self.node_info(node), self.node(node));
        let shares = |availability| info.numa_shares(node, shape, availability);
        shares(Availability::Idle)
            .or_else(|| shares(Availability::AfterRelease))
            .map(|shares| shares.len())
    }

    /// Amounts that the pod has from its node's NUMA zones, or would get where it is pipelined.
    pub fn numa_allocations(&self, pod: PodId) -> Vec<NumaAllocation> {
        let state = self.state(pod);
        let occupancy =
            if state.is_pipelined() { Occupancy::Pipelined } else { Occupancy::Allocated };
        let shares = self.pods.portion_table().numa_shares_of(pod, occupancy);
        let numa = state.charged_node().and_then(|node| self.node(node).numa.as_ref());
        let Some(numa) = numa else { return Vec::new() };
        let named = |(at, amount): &(usize, Resources)| NumaAllocation {
            zone: numa.zones[*at].name.clone(),
            amount: amount.clone(),
        };
        shares.iter().map(named).collect()
    }

    /// Whether the evicted pod could keep its shares of the NUMA zones of `node`.
    pub fn can_keep_numa(&self, pod: PodId, node: NodeId) -> bool {
        self.node_info(node)
            .can_keep_numa(self.pods.portion_table().numa_shares_of(pod, Occupancy::Allocated))
    }

    /// The shares of NUMA zones that a pod gets on `node`. An evicted pod gets its previous shares
    /// again if possible.
    pub(in crate::framework) fn choose_numa(
        &self,
        pod: PodId,
        node: NodeId,
        occupancy: Occupancy,
    ) -> NumaShares {
        let info = self.node_info(node);
        if info.numa_zones.is_empty() {
            return NumaShares::new();
        }
        let availability = match occupancy {
            Occupancy::Pipelined => Availability::AfterRelease,
            Occupancy::Allocated | Occupancy::Releasing | Occupancy::Stuck => Availability::Idle,
        };
        if self.state(pod).nodes_with_presence().any(|(at, _)| at == node) {
            let own = self.pods.portion_table().numa_shares_of(pod, Occupancy::Allocated);
            if info.can_keep_numa(own) {
                return own.clone();
            }
        }
        info.numa_shares(self.node(node), self.shape_of(pod), availability).unwrap_or_default()
    }
}

/// Takes from NUMA zones what pods use whose zones are unknown.
pub(super) fn assign_unaligned_use(
    zones: &mut [NumaZoneCapacity],
    numa: &NumaTopology,
    mut unknown: Resources,
) {
    let mut published_use = Resources::default();
    for (info, zone) in zones.iter().zip(&numa.zones) {
        let mut more = info.idle.clone();
        more.subtract(&zone.available);
        published_use.add(&more);
    }
    unknown = unknown.elementwise_min(&published_use).at_least_zero();
    for (info, zone) in zones.iter_mut().zip(&numa.zones) {
        let mut more = info.idle.clone();
        more.subtract(&zone.available);
        let taken = more.elementwise_min(&unknown).at_least_zero();
        info.idle.subtract(&taken);
        unknown.subtract(&taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use schedlab_testkit::snapshot_of;

    /// Cores and GPUs that the pending pod would get of each zone of the first node.
    fn shares_when(availability: Availability, text: &str) -> String {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("a pending pod");
        let shape = &snapshot.shapes[pod.shape.0 as usize];
        let Some(shares) =
            session.node_info(NodeId(0)).numa_shares(&snapshot.nodes[0], shape, availability)
        else {
            return "refused".to_owned();
        };
        let describe = |(at, amount): &(usize, Resources)| {
            format!("z{at} {}/{}", amount.cpu_milli / 1000, amount.gpu_milli / 1000)
        };
        shares.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    fn shares(policy: &str, asks: &str) -> String {
        let zones = "zone z0:cpu=4,gpus=2 zone z1:cpu=4,gpus=2 zone z2:cpu=8,gpus=1";
        let node = format!("node n1 cpu=16 gpus=5 numa={policy} {zones}");
        shares_when(Availability::Idle, &format!("{node}\njob x {asks}"))
    }

    #[test]
    fn single_numa_node_takes_the_lowest_zone_that_fits() {
        let of = |asks: &str| shares("single/pod", asks);
        assert_eq!(of("cpu=4 guaranteed"), "z0 4/0");
        assert_eq!(of("cpu=6 guaranteed"), "z2 6/0");
        assert_eq!(of("cpu=4 gpus=2 guaranteed"), "z0 4/2");
        assert_eq!(of("cpu=6 gpus=2 guaranteed"), "refused");
        assert_eq!(of("cpu=6 gpus=2"), "z0 0/2", "cores are for guaranteed pods");
        assert_eq!(of("cpu=9 guaranteed"), "refused");
        assert_eq!(of("cpu=9"), "");
    }

    #[test]
    fn restricted_takes_the_minimum_zone_count_shared_by_all_resources() {
        let of = |asks: &str| shares("restricted/pod", asks);
        assert_eq!(of("cpu=6 guaranteed"), "z2 6/0");
        assert_eq!(of("cpu=9 guaranteed"), "z0 4/0, z2 5/0");
        assert_eq!(of("cpu=12 guaranteed"), "z0 4/0, z2 8/0");
        assert_eq!(of("cpu=16 guaranteed"), "z0 4/0, z1 4/0, z2 8/0");
        assert_eq!(of("cpu=17 guaranteed"), "refused");
        assert_eq!(of("cpu=9 gpus=3 guaranteed"), "z0 4/2, z2 5/1");
        assert_eq!(
            of("cpu=6 gpus=3 guaranteed"),
            "refused",
            "the cores need one zone, the GPUs two"
        );
    }

    #[test]
    fn best_effort_prefers_few_zones_and_never_rejects() {
        let of = |asks: &str| shares("best-effort/pod", asks);
        assert_eq!(of("cpu=6 gpus=3 guaranteed"), "z0 4/2, z1 2/1");
        assert_eq!(of("cpu=8 gpus=1 guaranteed"), "z2 8/1");
        assert_eq!(of("cpu=17 guaranteed"), "");
        assert_eq!(shares("none/pod", "cpu=6 guaranteed"), "");
    }

    #[test]
    fn containers_are_aligned_in_order_from_the_remaining_capacity() {
        let of = |asks: &str| shares("single/container", asks);
        assert_eq!(
            of("cpu=6 guaranteed container cpu=3 container cpu=2 container cpu=1"),
            "z0 4/0, z1 2/0"
        );
        assert_eq!(of("cpu=8 guaranteed container first:cpu=8 container cpu=4"), "z0 4/0");
        assert_eq!(of("cpu=9 guaranteed container first:cpu=9 container cpu=1"), "refused");
        assert_eq!(of("cpu=4 guaranteed"), "z0 4/0", "with one container");
    }

    #[test]
    fn releasing_capacity_counts_only_after_release() {
        let text = "
            node n1 cpu=16 numa=single/pod zone z0:cpu=4 zone z1:cpu=8
            job a cpu=2 guaranteed on n1@z0
            job r cpu=5 guaranteed releasing on n1@z1
            job x cpu=4 guaranteed
        ";
        assert_eq!(shares_when(Availability::Idle, text), "refused");
        assert_eq!(shares_when(Availability::AfterRelease, text), "z1 4/0");
    }

    #[test]
    fn pods_with_unknown_alignment_occupy_the_published_usage() {
        let left = |published: &str, unknown: u32| {
            let zone = |at: usize| {
                let gone = published.chars().nth(at).and_then(|digit| digit.to_digit(10));
                format!("zone z{at}:cpu=4/cpu={}", 4 - gone.expect("a digit for each zone"))
            };
            let text = format!(
                "
                node n1 cpu=16 numa=single/pod {} {}
                job a cpu=1 guaranteed on n1@z0
                foreign f cpu={unknown} guaranteed on n1
            ",
                zone(0),
                zone(1)
            );
            let (snapshot, profile) = (snapshot_of(&text), Profile::kai());
            let session = Session::new(&snapshot, &profile);
            let zones = session.node_info(NodeId(0)).numa_zones.iter();
            zones.map(|zone| zone.idle.cpu_milli / 1000).collect::<Vec<_>>()
        };
        assert_eq!(left("10", 2), [3, 4], "known usage is published; the rest is not yet");
        assert_eq!(left("32", 4), [1, 2]);
        assert_eq!(left("32", 3), [1, 3], "the lowest zones first");
        assert_eq!(left("00", 2), [3, 4], "the publication is behind");
        assert_eq!(left("44", 9), [0, 0]);
    }
}
