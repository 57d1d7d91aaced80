//! Reservation pods, where the binder starts them: one for each device that pods share. Until it
//! is there, the node keeps room for it among its pods. (KAI counts one more pod for whoever asks
//! for a part, whether or not its device is shared already.)

use crate::{
    decision::{EvenWhenEmpty, Misfit},
    framework::{DependsOn, Filter, NodeFilter},
    model::{GpuGroup, NodeId, PodId, PodShape},
    resources::{Resources, Shortage},
    session::{Choice, Device, Fits, Session},
};

/// Pods, and reservation pods to come, are no more than the node takes.
#[derive(Debug)]
pub(super) struct ReservationPods;

impl Filter for ReservationPods {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        Some(Box::new(move |node| {
            let to_come = missing(session, node) + new_devices(session, node, shape);
            if to_come == 0 {
                return Ok(Fits::Now);
            }
            let pods = shape.requests.pods.saturating_add(to_come);
            let fits = session.room(node).fits(&Resources { pods, ..Resources::default() });
            fits.ok_or_else(|| too_many(session, node, pods))
        }))
    }
}

/// Devices that pods share, or were promised, without a reservation pod.
fn missing(session: &Session<'_>, node: NodeId) -> i64 {
    let room = session.room(node);
    if room.shared.is_empty() {
        return 0;
    }
    let there = room.staying.iter().chain(&room.leaving).chain(&room.stuck);
    let reservations = there.filter(|pod| session.shape_of(**pod).shared_gpu.is_none());
    let reserved: Vec<&GpuGroup> =
        reservations.flat_map(|pod| &session.pod(*pod).gpu_groups).collect();
    let used = room.shared.iter().filter(|device| device.later() > 0);
    count(used.filter(|device| !reserved.contains(&&device.group)).count())
}

/// Devices that nobody shares yet, of those that the pod would get.
fn new_devices(session: &Session<'_>, node: NodeId, shape: &PodShape) -> i64 {
    let Some(shared) = &shape.shared_gpu else { return 0 };
    let placement = session.profile.device_placement;
    let choice = Choice { placement, at_once_first: !session.looks_ahead() };
    let chosen = session.room(node).choose_devices(session.node(node), shared, choice);
    let new = chosen.into_iter().flatten().filter(|(device, _)| *device == Device::New);
    count(new.count())
}

fn too_many(session: &Session<'_>, node: NodeId, pods: i64) -> Misfit {
    let fits_when_empty = pods <= session.node(node).allocatable.pods;
    let even_when_empty = if fits_when_empty { EvenWhenEmpty::No } else { EvenWhenEmpty::Yes };
    Misfit::TooLittle { of: Shortage { pods: true, ..Shortage::default() }, even_when_empty }
}

fn count(devices: usize) -> i64 {
    i64::try_from(devices).unwrap_or(i64::MAX)
}
