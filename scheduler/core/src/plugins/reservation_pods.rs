//! Reservation pods: the binder starts one for each shared device. Until it exists, the node keeps
//! a pod slot for it. Difference from KAI: KAI counts one more pod for every fractional request,
//! even if its device is already shared.

use crate::{
    framework::{DeviceCandidate, Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{GpuGroup, NodeId, PodId, PodShape},
    reason::{EvenWhenEmpty, FitError},
    resources::{Resources, Shortage},
};

/// Rejects nodes that lack pod slots for the pod and for all missing reservation pods of shared
/// GPUs.
#[derive(Debug)]
pub(super) struct ReservationPods;

impl Filter for ReservationPods {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        Some(Box::new(move |node| {
            let reservation_pods = count_missing_reservation_pods(session, node)
                + count_newly_shared_devices(session, node, shape);
            if reservation_pods == 0 {
                return Ok(Fit::Now);
            }
            let pods = shape.requests.pods.saturating_add(reservation_pods);
            let fits =
                session.node_info(node).fit_resources(&Resources { pods, ..Resources::default() });
            fits.ok_or_else(|| insufficient_pod_slots(session, node, pods))
        }))
    }
}

/// Number of shared GPUs on the node that have no reservation pod yet; GPUs shared only by
/// pipelined pods count.
fn count_missing_reservation_pods(session: &Session<'_>, node: NodeId) -> i64 {
    let info = session.node_info(node);
    if info.shared_devices.is_empty() {
        return 0;
    }
    let pods = info.staying.iter().chain(&info.leaving).chain(&info.stuck);
    let reservations = pods.filter(|pod| session.shape_of(**pod).fractional_gpu.is_none());
    let reserved: Vec<&GpuGroup> =
        reservations.flat_map(|pod| &session.pod(*pod).gpu_groups).collect();
    let used = info.shared_devices.iter().filter(|device| device.used_later() > 0);
    device_count(used.filter(|device| !reserved.contains(&&device.group)).count())
}

/// Number of GPUs that would become shared if the pod was placed on the node.
fn count_newly_shared_devices(session: &Session<'_>, node: NodeId, shape: &PodShape) -> i64 {
    let Some(shared) = &shape.fractional_gpu else { return 0 };
    let (info, choice) = (session.node_info(node), session.device_preference());
    let chosen = info.choose_devices(session.node(node), shared, choice);
    let new = chosen.into_iter().flatten().filter(|(device, _)| *device == DeviceCandidate::New);
    device_count(new.count())
}

fn insufficient_pod_slots(session: &Session<'_>, node: NodeId, pods: i64) -> FitError {
    let fits_when_empty = pods <= session.node(node).allocatable.pods;
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    FitError::InsufficientResources {
        shortage: Shortage { pods: true, ..Shortage::default() },
        even_when_empty,
    }
}

fn device_count(devices: usize) -> i64 {
    i64::try_from(devices).unwrap_or(i64::MAX)
}
