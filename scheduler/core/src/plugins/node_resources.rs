//! `NodeResourcesFit`, with the scores `LeastAllocated` and `NodeResourcesBalancedAllocation` of
//! nodes, and `MostAllocated` of placements.

use std::{borrow::Cow, fmt};

use crate::{
    framework::{
        Filter, GroupPlacement, NodeFilter, NodeInfo, NodeScore, PlacementScore, ResultInputs,
        Score, Session,
    },
    model::{FractionalGpu, GpuFraction, Node, NodeId, PodGroupId, PodId, PodShape},
    reason::{EvenWhenEmpty, FitError},
    resources::Resources,
};

/// Filter: all requested resources are idle on the node, or will be once terminating pods are gone.
#[derive(Clone, Copy)]
pub(super) enum NodeResourcesFit {
    /// Devices of claims count as requests.
    WithClaims,
    /// Claims are ignored, because another filter checks them.
    WithoutClaims,
}

/// Prefers nodes with more free CPU and memory.
#[derive(Debug)]
pub(super) struct LeastAllocated;

/// Prefers placements of a pod group that are fuller with the group: `MostAllocated`, over CPU and
/// memory of all nodes of the placement.
pub(super) struct MostAllocated;

/// Millicores of CPU and bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuAndMemory {
    cpu: i64,
    memory: i64,
}

impl CpuAndMemory {
    fn plus(self, more: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(more.cpu),
            memory: self.memory.saturating_add(more.memory),
        }
    }
}

/// Prefers nodes on which the pod brings the used fractions of CPU and memory closer together.
#[derive(Debug)]
pub(super) struct BalancedAllocation;

/// Prints the plugin's name, which is the same for both variants.
impl fmt::Debug for NodeResourcesFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeResourcesFit")
    }
}

/// Prints the plugin's name in kube-scheduler.
impl fmt::Debug for MostAllocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeResourcesFit")
    }
}

impl NodeResourcesFit {
    fn requested_on<'a>(
        self,
        shape: &'a PodShape,
        info: &NodeInfo,
        node: &Node,
    ) -> Cow<'a, Resources> {
        match self {
            Self::WithClaims => info.requests_on(node, shape),
            Self::WithoutClaims => Cow::Borrowed(&shape.requests),
        }
    }
}

impl Filter for NodeResourcesFit {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        let fit = *self;
        Some(Box::new(move |node| {
            let (info, of) = (session.node_info(node), session.node(node));
            let request = fit.requested_on(shape, info, of);
            let fits = info.fit_request(of, &request, shape.fractional_gpu.as_ref());
            fits.ok_or_else(|| insufficient_resources(&request, shape, info, of))
        }))
    }
}

fn insufficient_resources(
    request: &Resources,
    shape: &PodShape,
    info: &NodeInfo,
    node: &Node,
) -> FitError {
    if let Some(whole) = request_of_larger_devices(shape, node) {
        return insufficient_device_memory(&whole, node, info);
    }
    let mut shortage = request.shortage_in(&info.idle);
    if shortage.is_empty() {
        shortage = request.shortage_in(&info.free_after_release());
    }
    let mut fits_when_empty = request.fits_in(&node.capacity_when_empty());
    if let Some(shared) = &shape.fractional_gpu {
        let fits_fractions = |info: &NodeInfo| info.fit_fraction(node, shared).is_some();
        shortage.gpu |= !fits_fractions(info);
        fits_when_empty = fits_when_empty && fits_fractions(&NodeInfo::without_pods(node));
    }
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    FitError::InsufficientResources { shortage, even_when_empty }
}

/// For a GPU memory request: the request in whole GPUs instead of memory, if the GPUs of the node
/// have less memory than requested; `None` if they have enough.
fn request_of_larger_devices(shape: &PodShape, node: &Node) -> Option<Resources> {
    let FractionalGpu { fraction: GpuFraction::MemoryMib(requested), devices } =
        shape.fractional_gpu?
    else {
        return None;
    };
    let gpu_milli = i64::from(devices) * 1000;
    (requested > node.gpu_memory_mib).then(|| Resources { gpu_milli, ..shape.requests.clone() })
}

/// The error if the node's GPUs have too little memory for the request, or if there are also too
/// few of them.
fn insufficient_device_memory(request: &Resources, node: &Node, info: &NodeInfo) -> FitError {
    if request.fits_in(&node.capacity_when_empty()) {
        return FitError::InsufficientGpuMemory { mib: node.gpu_memory_mib };
    }
    let shortage = request.shortage_in(&info.idle);
    FitError::InsufficientResources { shortage, even_when_empty: EvenWhenEmpty::Yes }
}

impl Score for LeastAllocated {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn applies_to_pod(&self, _: &Session<'_>, _: PodId) -> bool {
        true
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let request = scored_request(session.shape_of(pod));
        let shapes = &session.snapshot.shapes;
        let none = CpuAndMemory::default();
        let some_count_more = shapes.iter().any(|shape| default_requests(shape) != none);
        Box::new(move |node| {
            let (offered, used) =
                (&session.node(node).allocatable, used_cpu_and_memory(session, node));
            let more = if some_count_more { default_requests_on(session, node) } else { none };
            let used = used.plus(more).plus(request);
            let percentages = [
                free_percent(offered.cpu_milli, used.cpu),
                free_percent(offered.memory_bytes, used.memory),
            ];
            let offered: Vec<i64> = percentages.into_iter().flatten().collect();
            let count = i64::try_from(offered.len()).unwrap_or(1).max(1);
            offered.into_iter().sum::<i64>() / count
        })
    }
}

impl PlacementScore for MostAllocated {
    fn score_placement(
        &self,
        session: &Session<'_>,
        _: PodGroupId,
        placement: &GroupPlacement,
    ) -> i64 {
        let pods = placement.assignments.iter().map(|assignment| session.shape_of(assignment.pod));
        let mut used = pods.map(scored_request).fold(CpuAndMemory::default(), CpuAndMemory::plus);
        let mut total = CpuAndMemory::default();
        for node in &placement.nodes {
            let offered = &session.node(*node).allocatable;
            let on_node = used_cpu_and_memory(session, *node);
            let on_node = on_node.plus(default_requests_on(session, *node));
            // A resource that the node does not offer does not count, whatever its pods request.
            let of = |offered: i64, amount: i64| if offered > 0 { amount } else { 0 };
            let (cpu, memory) = (offered.cpu_milli, offered.memory_bytes);
            total = total.plus(CpuAndMemory { cpu: of(cpu, cpu), memory: of(memory, memory) });
            used = used.plus(CpuAndMemory {
                cpu: of(cpu, on_node.cpu),
                memory: of(memory, on_node.memory),
            });
        }
        let percentages =
            [used_percent(total.cpu, used.cpu), used_percent(total.memory, used.memory)];
        let offered: Vec<i64> = percentages.into_iter().flatten().collect();
        let count = i64::try_from(offered.len()).unwrap_or(1).max(1);
        offered.into_iter().sum::<i64>() / count
    }
}

impl Score for BalancedAllocation {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        let request = &session.shape_of(pod).requests;
        request.cpu_milli > 0 || request.memory_bytes > 0
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let request = &session.shape_of(pod).requests;
        Box::new(move |node| {
            let (offered, used) =
                (&session.node(node).allocatable, used_cpu_and_memory(session, node));
            let cpu = used.cpu.saturating_add(request.cpu_milli);
            let memory = used.memory.saturating_add(request.memory_bytes);
            let balance =
                |cpu, memory| balance_percent(cpu, offered.cpu_milli, memory, offered.memory_bytes);
            // Since Kubernetes 1.36 the change counts: 75 if the balance stays as it is.
            50 + (50 + balance(cpu, memory) - balance(used.cpu, used.memory)) / 2
        })
    }
}

/// Score `100 (1 - |cpu - memory| / 2)` from the used fractions, which comes from the standard
/// deviation of two values; 100 if the node offers only one of them. In floating point, as in
/// kube-scheduler: exact arithmetic would differ by one if the result is a whole number.
#[expect(clippy::cast_possible_truncation, reason = "a percentage")]
fn balance_percent(cpu: i64, cpu_total: i64, memory: i64, memory_total: i64) -> i64 {
    if cpu_total <= 0 || memory_total <= 0 {
        return 100;
    }
    let deviation =
        ((fraction_used(cpu, cpu_total) - fraction_used(memory, memory_total)) / 2.0).abs();
    ((1.0 - deviation) * 100.0) as i64
}

#[expect(clippy::cast_precision_loss, reason = "as in kube-scheduler")]
fn fraction_used(used: i64, total: i64) -> f64 {
    (used as f64 / total as f64).min(1.0)
}

/// Used CPU (millicores) and memory (bytes) of the node, with defaults for containers without
/// requests.
fn used_cpu_and_memory(session: &Session<'_>, node: NodeId) -> CpuAndMemory {
    let (offered, idle) = (&session.node(node).allocatable, &session.node_info(node).idle);
    let taken = |of: fn(&Resources) -> i64| of(offered).saturating_sub(of(idle));
    CpuAndMemory { cpu: taken(|all| all.cpu_milli), memory: taken(|all| all.memory_bytes) }
}

/// The CPU (millicores) and memory (bytes) that scores assume for containers without requests on
/// the node.
fn default_requests_on(session: &Session<'_>, node: NodeId) -> CpuAndMemory {
    let info = session.node_info(node);
    let all = info.staying.iter().chain(&info.leaving).chain(&info.stuck);
    all.map(|pod| default_requests(session.shape_of(*pod)))
        .fold(CpuAndMemory::default(), CpuAndMemory::plus)
}

const fn default_requests(shape: &PodShape) -> CpuAndMemory {
    CpuAndMemory { cpu: shape.default_cpu_milli, memory: shape.default_memory_bytes }
}

fn scored_request(shape: &PodShape) -> CpuAndMemory {
    let requests = &shape.requests;
    let own = CpuAndMemory { cpu: requests.cpu_milli, memory: requests.memory_bytes };
    own.plus(default_requests(shape))
}

/// Free part of a resource in percent of what the node offers; `None` if the node offers none of
/// the resource.
fn free_percent(offered: i64, used: i64) -> Option<i64> {
    if offered <= 0 {
        return None;
    }
    let percent = i128::from(offered.saturating_sub(used).max(0)) * 100 / i128::from(offered);
    i64::try_from(percent).ok()
}

/// Used part of a resource in percent of what the nodes offer; `None` if they offer none of the
/// resource.
fn used_percent(offered: i64, used: i64) -> Option<i64> {
    if offered <= 0 {
        return None;
    }
    let percent = i128::from(used.clamp(0, offered)) * 100 / i128::from(offered);
    i64::try_from(percent).ok()
}
