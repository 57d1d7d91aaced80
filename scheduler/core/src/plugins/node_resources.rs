//! NodeResourcesFit with LeastAllocated, and NodeResourcesBalancedAllocation: is there room, and
//! on which node is it used most evenly.

use std::{borrow::Cow, fmt};

use crate::{
    decision::{EvenWhenEmpty, Misfit},
    framework::{DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{GpuPart, Node, NodeId, PodId, PodShape, SharedGpu},
    resources::Resources,
    session::{NodeRoom, Session},
};

/// Everything that is asked for is idle, or will be when what is leaving has left.
#[derive(Clone, Copy)]
pub(super) enum NodeResourcesFit {
    /// Devices of claims among it.
    WithClaims,
    /// Another filter looks at claims.
    WithoutClaims,
}

/// The node with most CPU and memory left.
#[derive(Debug)]
pub(super) struct LeastAllocated;

/// The node on which CPU and memory are used to the most similar parts.
#[derive(Debug)]
pub(super) struct BalancedAllocation;

/// Its name, whatever it looks at.
impl fmt::Debug for NodeResourcesFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeResourcesFit")
    }
}

impl NodeResourcesFit {
    fn asked<'a>(
        self,
        shape: &'a PodShape,
        (room, node): (&NodeRoom, &Node),
    ) -> Cow<'a, Resources> {
        match self {
            Self::WithClaims => room.needed(node, shape),
            Self::WithoutClaims => Cow::Borrowed(&shape.requests),
        }
    }
}

impl Filter for NodeResourcesFit {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        let fit = *self;
        Some(Box::new(move |node| {
            let (room, of) = (session.room(node), session.node(node));
            let asked = fit.asked(shape, (room, of));
            let fits = room.fits_asking(of, &asked, shape.shared_gpu.as_ref());
            fits.ok_or_else(|| too_little(&asked, shape, (room, of)))
        }))
    }
}

fn too_little(request: &Resources, shape: &PodShape, (room, node): (&NodeRoom, &Node)) -> Misfit {
    if let Some(whole) = with_larger_devices(shape, node) {
        return too_small(&whole, node, room);
    }
    let mut of = request.short_in(&room.idle);
    if of.is_empty() {
        of = request.short_in(&room.free_later());
    }
    let parts = |room: &NodeRoom| {
        shape.shared_gpu.as_ref().is_none_or(|shared| room.fits_parts(node, shared).is_some())
    };
    of.gpu |= !parts(room);
    let fits_when_empty = request.fits_in(&node.room()) && parts(&NodeRoom::empty(node));
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    Misfit::TooLittle { of, even_when_empty }
}

/// What it would ask of the node if devices there had as much memory as it asks for; `None`: they
/// have.
fn with_larger_devices(shape: &PodShape, node: &Node) -> Option<Resources> {
    let SharedGpu { part: GpuPart::MemoryMib(asked), devices } = shape.shared_gpu? else {
        return None;
    };
    let gpu_milli = i64::from(devices) * 1000;
    (asked > node.gpu_memory_mib).then(|| Resources { gpu_milli, ..shape.requests.clone() })
}

/// Where devices are too small, and perhaps there are too few.
fn too_small(request: &Resources, node: &Node, room: &NodeRoom) -> Misfit {
    if request.fits_in(&node.room()) {
        return Misfit::DeviceMemory { mib: node.gpu_memory_mib };
    }
    let of = request.short_in(&room.idle);
    Misfit::TooLittle { of, even_when_empty: EvenWhenEmpty::Yes }
}

impl Score for LeastAllocated {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn applies(&self, _: &Session<'_>, _: PodId) -> bool {
        true
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let (cpu, memory) = counted(session.shape_of(pod));
        let shapes = &session.snapshot.shapes;
        let some_count_more = shapes.iter().any(|shape| unasked(shape) != (0, 0));
        Box::new(move |node| {
            let (offered, used) = (&session.node(node).allocatable, used(session, node));
            let more = if some_count_more { all_unasked(session, node) } else { (0, 0) };
            let used_cpu = used.0.saturating_add(more.0).saturating_add(cpu);
            let used_memory = used.1.saturating_add(more.1).saturating_add(memory);
            let parts = [
                left_percent(offered.cpu_milli, used_cpu),
                left_percent(offered.memory_bytes, used_memory),
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
/// offers only one of them. In floating point, as kube-scheduler has it: exact arithmetic would
/// differ by one where the result is a whole number.
#[expect(clippy::cast_possible_truncation, reason = "a part of a hundred")]
fn balance_percent((cpu, cpu_total): (i64, i64), (memory, memory_total): (i64, i64)) -> i64 {
    if cpu_total <= 0 || memory_total <= 0 {
        return 100;
    }
    let deviation = ((part(cpu, cpu_total) - part(memory, memory_total)) / 2.0).abs();
    ((1.0 - deviation) * 100.0) as i64
}

#[expect(clippy::cast_precision_loss, reason = "as kube-scheduler does it")]
fn part(used: i64, total: i64) -> f64 {
    (used as f64 / total as f64).min(1.0)
}

/// CPU and memory that are not idle.
fn used(session: &Session<'_>, node: NodeId) -> (i64, i64) {
    let (offered, idle) = (&session.node(node).allocatable, &session.room(node).idle);
    let taken = |of: fn(&Resources) -> i64| of(offered).saturating_sub(of(idle));
    (taken(|all| all.cpu_milli), taken(|all| all.memory_bytes))
}

/// What is counted on top of that for containers that ask for nothing.
fn all_unasked(session: &Session<'_>, node: NodeId) -> (i64, i64) {
    let room = session.room(node);
    let all = room.staying.iter().chain(&room.leaving).chain(&room.stuck);
    all.map(|pod| unasked(session.shape_of(*pod)))
        .fold((0, 0), |sum: (i64, i64), more| (sum.0 + more.0, sum.1 + more.1))
}

const fn unasked(shape: &PodShape) -> (i64, i64) {
    (shape.unasked_cpu_milli, shape.unasked_memory_bytes)
}

const fn counted(shape: &PodShape) -> (i64, i64) {
    let (cpu, memory) = unasked(shape);
    (
        shape.requests.cpu_milli.saturating_add(cpu),
        shape.requests.memory_bytes.saturating_add(memory),
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
