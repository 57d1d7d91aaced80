//! NodeResourcesFit with LeastAllocated, and NodeResourcesBalancedAllocation: is there room, and
//! on which node is it used most evenly.

use crate::{
    decision::{EvenWhenEmpty, Misfit},
    framework::{DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{NodeId, PodId, PodShape},
    resources::Resources,
    session::{NodeRoom, Session},
};

/// Everything that is asked for is idle, or will be when what is leaving has left.
#[derive(Debug)]
pub(super) struct NodeResourcesFit;

/// The node with most CPU and memory left.
#[derive(Debug)]
pub(super) struct LeastAllocated;

/// The node on which CPU and memory are used to the most similar parts.
#[derive(Debug)]
pub(super) struct BalancedAllocation;

impl Filter for NodeResourcesFit {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        Some(Box::new(move |node| {
            let fits = session.room(node).fits_shape(session.node(node), shape);
            fits.ok_or_else(|| too_little(session, shape, node))
        }))
    }
}

fn too_little(session: &Session<'_>, shape: &PodShape, node: NodeId) -> Misfit {
    let (room, request) = (session.room(node), &shape.requests);
    let mut of = request.short_in(&room.idle);
    if of.is_empty() {
        of = request.short_in(&room.free_later());
    }
    let node = session.node(node);
    let parts = |room: &NodeRoom| {
        shape.shared_gpu.as_ref().is_none_or(|shared| room.fits_parts(node, shared).is_some())
    };
    of.gpu |= !parts(room);
    let fits_when_empty = request.fits_in(&node.allocatable) && parts(&NodeRoom::empty(node));
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    Misfit::TooLittle { of, even_when_empty }
}

/// What kube-scheduler counts for a pod that asks for no CPU or memory when it scores.
const DEFAULT_CPU_MILLI: i64 = 100;
const DEFAULT_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

impl Score for LeastAllocated {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn applies(&self, _: &Session<'_>, _: PodId) -> bool {
        true
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let (cpu, memory) = counted(session.shape_of(pod));
        let some_ask_nothing = session
            .snapshot
            .shapes
            .iter()
            .any(|shape| shape.requests.cpu_milli == 0 || shape.requests.memory_bytes == 0);
        Box::new(move |node| {
            let (offered, used) = (&session.node(node).allocatable, used(session, node));
            let (extra_cpu, extra_memory) =
                if some_ask_nothing { uncounted(session, node) } else { (0, 0) };
            let parts = [
                left_percent(
                    offered.cpu_milli,
                    used.0.saturating_add(extra_cpu).saturating_add(cpu),
                ),
                left_percent(
                    offered.memory_bytes,
                    used.1.saturating_add(extra_memory).saturating_add(memory),
                ),
            ];
            let offered: Vec<i64> = parts.into_iter().flatten().collect();
            let count = i64::try_from(offered.len()).unwrap_or(1).max(1);
            offered.into_iter().sum::<i64>() / count
        })
    }
}

impl Score for BalancedAllocation {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        let request = &session.shape_of(pod).requests;
        request.cpu_milli > 0 || request.memory_bytes > 0
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let request = &session.shape_of(pod).requests;
        Box::new(move |node| {
            let (offered, used) = (&session.node(node).allocatable, used(session, node));
            let cpu = (used.0.saturating_add(request.cpu_milli), offered.cpu_milli);
            let memory = (used.1.saturating_add(request.memory_bytes), offered.memory_bytes);
            balance_percent(cpu, memory)
        })
    }
}

/// `100 (1 - |cpu - memory| / 2)`, the standard deviation of two parts; 100 where the node
/// offers only one of them.
fn balance_percent((cpu, cpu_total): (i64, i64), (memory, memory_total): (i64, i64)) -> i64 {
    if cpu_total <= 0 || memory_total <= 0 {
        return 100;
    }
    let part = |used: i64, total: i64| i128::from(used.clamp(0, total));
    let (cpu, memory) = (part(cpu, cpu_total), part(memory, memory_total));
    let (cpu_total, memory_total) = (i128::from(cpu_total), i128::from(memory_total));
    let difference = (cpu * memory_total - memory * cpu_total).abs();
    let total = cpu_total * memory_total;
    i64::try_from((100 * total - 50 * difference) / total).unwrap_or(0)
}

/// CPU and memory that are not idle.
fn used(session: &Session<'_>, node: NodeId) -> (i64, i64) {
    let (offered, idle) = (&session.node(node).allocatable, &session.room(node).idle);
    let taken = |of: fn(&Resources) -> i64| of(offered).saturating_sub(of(idle));
    (taken(|all| all.cpu_milli), taken(|all| all.memory_bytes))
}

/// What is counted on top of that for pods that ask for nothing.
fn uncounted(session: &Session<'_>, node: NodeId) -> (i64, i64) {
    let room = session.room(node);
    let all = room.staying.iter().chain(&room.leaving).chain(&room.stuck);
    all.fold((0, 0), |sum, pod| {
        let shape = session.shape_of(*pod);
        let (cpu, memory) = counted(shape);
        (sum.0 + cpu - shape.requests.cpu_milli, sum.1 + memory - shape.requests.memory_bytes)
    })
}

const fn counted(shape: &PodShape) -> (i64, i64) {
    let (cpu, memory) = (shape.requests.cpu_milli, shape.requests.memory_bytes);
    (
        if cpu == 0 { DEFAULT_CPU_MILLI } else { cpu },
        if memory == 0 { DEFAULT_MEMORY_BYTES } else { memory },
    )
}

/// `None`: the node offers nothing of it.
fn left_percent(offered: i64, used: i64) -> Option<i64> {
    if offered <= 0 {
        return None;
    }
    let left = i128::from(offered.saturating_sub(used).max(0)) * 100 / i128::from(offered);
    i64::try_from(left).ok()
}
