//! The claims that are allocated together with those of a pod: claims of pods on the same node and,
//! where several nodes can use the same devices or their devices consume the same counters, on those
//! nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    devices::{AllocationFailure, AllocationProblem, AvailableDevices, PlacedClaim, UsableDevices},
    framework::{PodState, Session},
    model::{ClaimRequests, Name, Node, NodeDevice, NodeId, PodId},
};

/// When the devices of an allocated claim are free for other claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceAvailability {
    /// The devices are free now, because all users of the claim are gone.
    Now,
    /// The devices will be free, because all users of the claim are terminating.
    Later,
    /// The devices stay in use, because a user of the claim stays.
    Never,
}

/// Claims that need an allocation of devices if a pod is placed on a node.
pub(super) struct OpenClaims<'a> {
    session: &'a Session<'a>,
    /// The node of the pod, then those whose claims compete for the same devices.
    nodes: Vec<NodeId>,
    /// The claims of the pod come last.
    claims: Vec<OpenClaim<'a>>,
}

/// A claim that needs an allocation of devices.
pub(super) struct OpenClaim<'a> {
    pub(super) name: &'a Name,
    pub(super) requests: &'a ClaimRequests,
    /// Indexes of the nodes of its pods in [`OpenClaims::nodes`], in ascending order.
    nodes: Vec<usize>,
    /// Whether it may get multi-node devices.
    may_be_multi_node: bool,
    /// Whether all its pods wait for capacity that is being released.
    is_pipelined: bool,
}

impl<'a> OpenClaims<'a> {
    /// The claims to allocate if the pod is placed on the node.
    pub(super) fn new(session: &'a Session<'_>, pod: PodId, node: NodeId) -> Self {
        let nodes = competing_nodes(session, pod, node);
        let mut open = Self { session, nodes, claims: Vec::new() };
        for at in 0..open.nodes.len() {
            for user in session.node_info(open.nodes[at]).staying.iter().filter(|it| **it != pod) {
                open.add_claims_of(*user, at);
            }
        }
        open.add_claims_of(pod, 0);
        open
    }

    fn add_claims_of(&mut self, user: PodId, at: usize) {
        let session = self.session;
        let (id, node) = (self.nodes[at], session.node(self.nodes[at]));
        let is_pipelined = session.state(user).is_pipelined();
        for (name, requests) in session.node_claims_on(user, node) {
            if let Some(known) = self.claims.iter_mut().find(|known| known.name == name) {
                known.is_pipelined &= is_pipelined;
                known.nodes.push(at);
                known.nodes.sort_unstable();
                known.nodes.dedup();
            } else if !is_allocated(session, name, node, id) {
                let may_be_multi_node = may_be_multi_node(session, user, name);
                let nodes = vec![at];
                self.claims.push(OpenClaim {
                    name,
                    requests,
                    nodes,
                    may_be_multi_node,
                    is_pipelined,
                });
            }
        }
    }

    /// The claims, in the order of allocation.
    pub(super) fn claims(&self) -> &[OpenClaim<'a>] {
        &self.claims
    }

    /// Whether counts of devices do not tell if all claims can be allocated.
    pub(super) fn need_search(&self) -> bool {
        let node = self.session.node(self.nodes[0]);
        let mut nodes = self.nodes.iter().map(|node| self.session.node(*node));
        let mut claims = self.claims.iter();
        if claims.clone().any(|claim| claim.may_be_multi_node) {
            return true;
        }
        let needs_search = claims.any(|claim| claim.requests.needs_allocation_search())
            || nodes.any(Node::needs_device_search);
        needs_search && !node.devices.is_empty() && !self.claims.is_empty()
    }

    /// Whether all claims can be allocated if exactly the devices for whose claims `is_free` holds
    /// are free.
    ///
    /// # Errors
    /// No allocation exists, or none was found.
    pub(super) fn outcome(
        &self,
        is_free: impl Fn(DeviceAvailability) -> bool,
    ) -> Result<(), AllocationFailure> {
        let devices = self.devices(is_free);
        self.session.allocation_outcome(AllocationProblem::new(&self.placed(|_| true), &devices).0)
    }

    /// Whether the claims of pods that do not wait can be allocated now.
    ///
    /// # Errors
    /// No allocation exists, or none was found.
    pub(super) fn outcome_now(&self) -> Result<(), AllocationFailure> {
        let devices = self.devices(|when| when == DeviceAvailability::Now);
        let placed = self.placed(|claim| !claim.is_pipelined);
        self.session.allocation_outcome(AllocationProblem::new(&placed, &devices).0)
    }

    /// The claims for which `is_wanted` holds, with their nodes.
    pub(super) fn placed(
        &self,
        is_wanted: impl Fn(&OpenClaim<'a>) -> bool,
    ) -> Vec<PlacedClaim<'a>> {
        let claims = self.claims.iter().filter(|claim| is_wanted(claim));
        let placed = |claim: &OpenClaim<'a>| PlacedClaim {
            requests: claim.requests,
            nodes: claim.nodes.clone(),
        };
        claims.map(placed).collect()
    }

    /// The devices of the nodes if exactly those for whose claims `is_free` holds are free.
    pub(super) fn devices(
        &self,
        is_free: impl Fn(DeviceAvailability) -> bool,
    ) -> AvailableDevices<'a> {
        let session = self.session;
        let holders = self.nodes.iter().enumerate().flat_map(|(at, id)| {
            let devices = session.node(*id).devices.iter();
            let claims = devices.flat_map(|device| {
                let shares = device.shares.iter().map(|share| &share.claim);
                device.allocated_to.iter().chain(shares)
            });
            claims.map(move |claim| ((at, claim), *id))
        });
        let mut known: BTreeMap<(usize, &Name), DeviceAvailability> = BTreeMap::new();
        for ((at, claim), id) in holders {
            let when = || device_availability(session, claim, id);
            known.entry((at, claim)).or_insert_with(when);
        }
        let usable: Vec<UsableDevices<'a>> =
            self.nodes.iter().map(|id| session.node(*id).into()).collect();
        let keeps = |at, claim: &Name| known.get(&(at, claim)).is_some_and(|when| !is_free(*when));
        AvailableDevices::of_nodes(&usable, keeps).0
    }
}

/// The node, and others on which pods have claims that compete with those of the node: for devices
/// that several nodes can use, or for counters.
fn competing_nodes(session: &Session<'_>, pod: PodId, id: NodeId) -> Vec<NodeId> {
    let node = session.node(id);
    let may_be_multi_node =
        |user: PodId| session.shape_of(user).claims.iter().any(|claim| claim.reach.is_pending());
    let is_multi_node = node.has_multi_node_devices()
        && (may_be_multi_node(pod)
            || session.node_info(id).staying.iter().any(|user| may_be_multi_node(*user)));
    if !is_multi_node && node.device_counters.is_empty() {
        return vec![id];
    }
    let mut others = BTreeSet::new();
    for user in session.pods_with_claims().iter().filter(|user| **user != pod) {
        let Some(at) = session.state(*user).charged_node().filter(|at| *at != id) else { continue };
        let other = session.node(at);
        let shares_counter =
            || node.device_counters.keys().any(|name| other.device_counters.contains_key(name));
        let competes = is_multi_node && may_be_multi_node(*user) && other.has_multi_node_devices();
        if !others.contains(&at) && (competes || shares_counter()) {
            others.insert(at);
        }
    }
    [id].into_iter().chain(others).collect()
}

fn may_be_multi_node(session: &Session<'_>, user: PodId, name: &Name) -> bool {
    let mut claims = session.shape_of(user).claims.iter();
    claims.any(|claim| claim.name == *name && claim.reach.is_pending())
}

/// Whether the claim has devices of the node allocated and keeps them.
fn is_allocated(session: &Session<'_>, claim: &Name, node: &Node, node_id: NodeId) -> bool {
    let has = |device: &NodeDevice| {
        device.allocated_to.as_ref() == Some(claim)
            || device.shares.iter().any(|share| share.claim == *claim)
    };
    node.devices.iter().any(has)
        && device_availability(session, claim, node_id) == DeviceAvailability::Never
}

/// When the devices of the node that are allocated to the claim are free for other claims. A claim
/// keeps its devices as long as one of its users stays.
fn device_availability(session: &Session<'_>, claim: &Name, node_id: NodeId) -> DeviceAvailability {
    let holders = session.claim_holders(claim).iter();
    let holders = holders.filter(|pod| session.pod(**pod).node == Some(node_id));
    let of_holder = |pod: &PodId| match session.state(*pod) {
        PodState::Allocated(node) | PodState::Stuck(node) if node == node_id => {
            DeviceAvailability::Never
        }
        PodState::Releasing(_) | PodState::Moving { .. } => DeviceAvailability::Later,
        PodState::Allocated(_)
        | PodState::Stuck(_)
        | PodState::Pipelined(_)
        | PodState::Pending
        | PodState::Gated
        | PodState::OnExcludedNode
        | PodState::OnMissingNode
        | PodState::Finished => DeviceAvailability::Now,
    };
    let rank = |availability: &DeviceAvailability| match availability {
        DeviceAvailability::Now => 0,
        DeviceAvailability::Later => 1,
        DeviceAvailability::Never => 2,
    };
    let is_deallocating = || {
        let mut unused = session.node(node_id).unused_claims.iter();
        unused.any(|unused| unused.name == *claim && unused.is_deallocating)
    };
    holders.map(of_holder).max_by_key(rank).unwrap_or_else(|| {
        if is_deallocating() { DeviceAvailability::Later } else { DeviceAvailability::Never }
    })
}
