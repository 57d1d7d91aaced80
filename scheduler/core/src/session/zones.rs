//! Zones of nodes: what is free of them, and which of them a kubelet would give to a pod. It takes
//! the narrowest set that its policy allows, of several the one with the lowest zones.

use super::{NodeRoom, Session, state::Hold};
use crate::{
    Snapshot,
    model::{
        ContainerRequests, Node, NodeId, NumaPolicy, NumaScope, NumaTopology, PodId, PodShape,
        ZoneShare,
    },
    resources::Resources,
};

/// What a zone has, as [`NodeRoom`] has it for the whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneRoom {
    /// Nobody has it.
    pub idle: Resources,
    /// On its way back, less what was promised.
    pub releasing: Resources,
}

/// Positions of zones, and how much of each.
pub(super) type Shares = Vec<(usize, Resources)>;

/// Counted on for a pod: what is free at once, or when everything is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Nobody has it, and it was promised to nobody.
    Idle,
    /// The same when everything is released.
    Later,
}

impl ZoneRoom {
    /// Nobody is on the node.
    pub(super) fn all_empty(node: &Node) -> Vec<Self> {
        let zones = node.numa.iter().flat_map(|numa| &numa.zones);
        let empty = |idle: &Resources| Self { idle: idle.clone(), ..Self::default() };
        zones.map(|zone| empty(&zone.allocatable)).collect()
    }

    /// What can be promised.
    pub fn free_later(&self) -> Resources {
        self.idle.plus(&self.releasing)
    }

    fn free(&self, counted: Counted) -> Resources {
        match counted {
            Counted::Later => self.free_later(),
            Counted::Idle if self.releasing == Resources::default() => self.idle.clone(),
            Counted::Idle => self.idle.lesser(&self.free_later()),
        }
    }

    fn take(&mut self, amount: &Resources, hold: Hold) {
        hold.take(amount, &mut self.idle, &mut self.releasing);
    }

    fn give(&mut self, amount: &Resources, hold: Hold) {
        hold.give(amount, &mut self.idle, &mut self.releasing);
    }
}

impl NodeRoom {
    pub(super) fn take_zones(&mut self, shares: &Shares, hold: Hold) {
        for (at, amount) in shares {
            self.zones[*at].take(amount, hold);
        }
    }

    pub(super) fn give_zones(&mut self, shares: &Shares, hold: Hold) {
        for (at, amount) in shares {
            self.zones[*at].give(amount, hold);
        }
    }

    /// A pod that has these shares, and was asked to leave, can stay.
    pub(super) fn can_keep_zones(&self, shares: &Shares) -> bool {
        shares.iter().all(|(at, amount)| amount.fits_in(&self.zones[*at].free_later()))
    }

    /// What of the zones of `node` a pod of `shape` would get. `None`: its kubelet would refuse it;
    /// empty: it takes nothing from zones.
    pub(super) fn shares(&self, node: &Node, shape: &PodShape, counted: Counted) -> Option<Shares> {
        let Some(numa) = &node.numa else { return Some(Shares::new()) };
        let mut free: Vec<Resources> = self.zones.iter().map(|zone| zone.free(counted)).collect();
        if shape.containers.is_empty() || numa.scope == NumaScope::Pod {
            return align(numa, &free, &numa.aligned(shape, &shape.requests));
        }
        let mut all = Shares::new();
        for ContainerRequests { requests, ends } in &shape.containers {
            let shares = align(numa, &free, &numa.aligned(shape, requests))?;
            if *ends {
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

/// The shares of somebody who asks for `asked`, with so much free in each zone.
fn align(numa: &NumaTopology, free: &[Resources], asked: &Resources) -> Option<Shares> {
    if *asked == Resources::default() {
        return Some(Shares::new());
    }
    let widths = 1..=free.len();
    let first_of = |width| first_set(free, asked, width);
    match numa.policy {
        NumaPolicy::None => Some(Shares::new()),
        NumaPolicy::SingleNumaNode => first_of(1),
        NumaPolicy::Restricted => first_of(least_width(numa, asked)?),
        NumaPolicy::BestEffort => Some(widths.into_iter().find_map(first_of).unwrap_or_default()),
    }
}

/// How many zones it takes at least, whoever is there; `None`: not as many for each resource,
/// or more than there are. That is when kubelets of policy `restricted` prefer no set of zones.
fn least_width(numa: &NumaTopology, asked: &Resources) -> Option<usize> {
    let mut widths = asked.amounts().map(|(resource, wanted)| {
        let zones = numa.zones.iter();
        let mut offers: Vec<i64> = zones.map(|it| it.allocatable.amount(&resource)).collect();
        offers.sort_unstable_by(|a, b| b.cmp(a));
        let sums = offers.iter().scan(0_i64, |sum, offer| {
            *sum = sum.saturating_add(*offer);
            Some(*sum)
        });
        sums.into_iter().position(|sum| sum >= wanted).map(|at| at + 1)
    });
    let first = widths.next().flatten()?;
    widths.all(|width| width == Some(first)).then_some(first)
}

/// The lowest set of so many zones that have it all together, taken from the lowest first.
fn first_set(free: &[Resources], asked: &Resources, width: usize) -> Option<Shares> {
    let sets = (1_u32..1 << free.len().min(NumaTopology::ZONES_MAX))
        .filter(|set| set.count_ones() as usize == width);
    sets.into_iter().find_map(|set| {
        let mut left = asked.clone();
        let mut shares = Shares::new();
        for (at, zone) in free.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0) {
            let amount = left.lesser(zone).at_least_zero();
            left.subtract(&amount);
            shares.push((at, amount));
        }
        let nothing = Resources::default();
        left.fits_in(&nothing).then_some(shares)
    })
}

/// The most zones of a node; 0 where none are published.
pub(super) fn most(snapshot: &Snapshot) -> usize {
    let topologies = snapshot.nodes.iter().filter_map(|node| node.numa.as_ref());
    topologies.map(|numa| numa.zones.len()).max().unwrap_or(0)
}

impl Session<'_> {
    /// The most zones of a node; 0 where none are published.
    pub const fn zones_max(&self) -> usize {
        self.zones_max
    }

    /// Would the kubelet of `node` take a pod of `shape`, were nobody there?
    pub fn aligns_when_empty(&self, node: NodeId, shape: &PodShape) -> bool {
        let node = self.node(node);
        NodeRoom::empty(node).shares(node, shape, Counted::Later).is_some()
    }

    /// Would the kubelet of `node` take a pod of `shape`?
    pub fn aligns(&self, node: NodeId, shape: &PodShape, counted: Counted) -> bool {
        self.room(node).shares(self.node(node), shape, counted).is_some()
    }

    /// From how many zones of `node` a pod of `shape` would get what it takes from zones, as soon
    /// as it gets it; `None`: its kubelet would refuse it.
    pub fn span(&self, node: NodeId, shape: &PodShape) -> Option<usize> {
        let (room, node) = (self.room(node), self.node(node));
        let shares = |counted| room.shares(node, shape, counted);
        shares(Counted::Idle).or_else(|| shares(Counted::Later)).map(|shares| shares.len())
    }

    /// What the pod has of its node's zones, or was promised.
    pub fn zones(&self, pod: PodId) -> Vec<ZoneShare> {
        let state = self.state(pod);
        let hold = if state.is_promised() { Hold::IsPromised } else { Hold::Has };
        let shares = self.parts.zones_held_by(pod, hold);
        let numa = state.charged_on().and_then(|node| self.node(node).numa.as_ref());
        let Some(numa) = numa else { return Vec::new() };
        let named = |(at, amount): &(usize, Resources)| ZoneShare {
            zone: numa.zones[*at].name.clone(),
            amount: amount.clone(),
        };
        shares.iter().map(named).collect()
    }

    /// The pod was asked to leave `node`, and its share of zones is still to be had.
    pub fn can_keep_zones(&self, pod: PodId, node: NodeId) -> bool {
        self.room(node).can_keep_zones(self.parts.zones_held_by(pod, Hold::Has))
    }

    /// The share of zones that a pod gets on `node`; one that was asked to leave gets its own
    /// again, where it can.
    pub(super) fn choose_zones(&self, pod: PodId, node: NodeId, hold: Hold) -> Shares {
        let room = self.room(node);
        if room.zones.is_empty() {
            return Shares::new();
        }
        let counted = match hold {
            Hold::IsPromised => Counted::Later,
            Hold::Has | Hold::Releases | Hold::IsStuck => Counted::Idle,
        };
        if self.state(pod).places().any(|(at, _)| at == node) {
            let own = self.parts.zones_held_by(pod, Hold::Has);
            if room.can_keep_zones(own) {
                return own.clone();
            }
        }
        room.shares(self.node(node), self.shape_of(pod), counted).unwrap_or_default()
    }

    /// Pods of which nobody knows where they are aligned hold what is published as taken and not
    /// known to be anybody else's. Otherwise what is published is behind what we know, or ahead.
    pub(super) fn heed_published_zones(&mut self) {
        let snapshot = self.snapshot;
        for (at, of) in snapshot.nodes.iter().enumerate() {
            let Some(numa) = &of.numa else { continue };
            let room = &self.nodes[at];
            let pods = room.staying.iter().chain(&room.leaving).chain(&room.stuck);
            let mut unknown = Resources::default();
            for pod in pods.filter(|pod| self.parts.zones_held_by(**pod, Hold::Has).is_empty()) {
                let shape = self.shape_of(*pod);
                unknown.add(&numa.aligned(shape, &shape.requests));
            }
            if unknown != Resources::default() {
                settle_unknown(&mut self.nodes[at].zones, numa, unknown);
            }
        }
    }
}

/// Takes from zones what pods hold that are aligned nobody knows where.
fn settle_unknown(zones: &mut [ZoneRoom], numa: &NumaTopology, mut unknown: Resources) {
    let mut untold = Resources::default();
    for (room, zone) in zones.iter().zip(&numa.zones) {
        let mut more = room.idle.clone();
        more.subtract(&zone.available);
        untold.add(&more);
    }
    unknown = unknown.lesser(&untold).at_least_zero();
    for (room, zone) in zones.iter_mut().zip(&numa.zones) {
        let mut more = room.idle.clone();
        more.subtract(&zone.available);
        let taken = more.lesser(&unknown).at_least_zero();
        room.idle.subtract(&taken);
        unknown.subtract(&taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, testing::snapshot_of};

    /// What the waiting pod would get of each zone of the first node: cores and GPUs.
    fn shares_when(counted: Counted, text: &str) -> String {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let pod = snapshot.pods.iter().find(|pod| pod.node.is_none()).expect("one waits");
        let shape = &snapshot.shapes[pod.shape.0 as usize];
        let Some(shares) = session.room(NodeId(0)).shares(&snapshot.nodes[0], shape, counted)
        else {
            return "refused".to_owned();
        };
        let told = |(at, amount): &(usize, Resources)| {
            format!("z{at} {}/{}", amount.cpu_milli / 1000, amount.gpu_milli / 1000)
        };
        shares.iter().map(told).collect::<Vec<_>>().join(", ")
    }

    fn shares(policy: &str, asks: &str) -> String {
        let zones = "zone z0:cpu=4,gpus=2 zone z1:cpu=4,gpus=2 zone z2:cpu=8,gpus=1";
        let node = format!("node n1 cpu=16 gpus=5 numa={policy} {zones}");
        shares_when(Counted::Idle, &format!("{node}\njob x {asks}"))
    }

    #[test]
    fn one_zone_gives_it_all_and_the_lowest_that_can() {
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
    fn a_restricted_node_gives_from_as_few_zones_as_each_resource_needs_and_from_no_more() {
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
            "one zone has the cores, two the GPUs"
        );
    }

    #[test]
    fn best_effort_gives_from_few_zones_and_refuses_nobody() {
        let of = |asks: &str| shares("best-effort/pod", asks);
        assert_eq!(of("cpu=6 gpus=3 guaranteed"), "z0 4/2, z1 2/1");
        assert_eq!(of("cpu=8 gpus=1 guaranteed"), "z2 8/1");
        assert_eq!(of("cpu=17 guaranteed"), "");
        assert_eq!(shares("none/pod", "cpu=6 guaranteed"), "");
    }

    #[test]
    fn containers_are_served_one_after_the_other_from_what_is_left() {
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
    fn what_is_on_its_way_back_counts_later() {
        let text = "
            node n1 cpu=16 numa=single/pod zone z0:cpu=4 zone z1:cpu=8
            job a cpu=2 guaranteed on n1@z0
            job r cpu=5 guaranteed releasing on n1@z1
            job x cpu=4 guaranteed
        ";
        assert_eq!(shares_when(Counted::Idle, text), "refused");
        assert_eq!(shares_when(Counted::Later, text), "z1 4/0");
    }

    #[test]
    fn pods_aligned_nobody_knows_where_hold_what_is_published_as_taken() {
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
            let zones = session.room(NodeId(0)).zones.iter();
            zones.map(|zone| zone.idle.cpu_milli / 1000).collect::<Vec<_>>()
        };
        assert_eq!(left("10", 2), [3, 4], "what is known is published; the rest is to come");
        assert_eq!(left("32", 4), [1, 2]);
        assert_eq!(left("32", 3), [1, 3], "the lowest zones first");
        assert_eq!(left("00", 2), [3, 4], "what is published is behind");
        assert_eq!(left("44", 9), [0, 0]);
    }
}
