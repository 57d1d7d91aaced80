//! Resource claims, and the devices of nodes.

use std::collections::BTreeMap;

use schedlab_api::labels;
use schedlab_scheduler_core::{
    model::{DeviceClaim, DeviceReach},
    resources::Resources,
};

use super::{name, whole};
use crate::cases::format::{Case, ClaimSpec, Job, Task};

/// Adds the node's devices of non-GPU classes.
pub(super) fn add_slices(case: &Case, node: &str, allocatable: &mut Resources) {
    let slices = case.cluster.dra.iter().flat_map(|dra| &dra.resource_slices);
    for slice in slices.filter(|slice| slice.node == node && !is_gpu(&slice.class)) {
        *allocatable.extended.entry(name(&slice.class)).or_default() += slice.count;
    }
}

/// Whether the node offers its GPUs through claims.
pub(super) fn has_gpus(case: &Case, node: &str) -> bool {
    let mut slices = case.cluster.dra.iter().flat_map(|dra| &dra.resource_slices);
    slices.any(|slice| slice.node == node && is_gpu(&slice.class))
}

/// The claims of a task. A missing claim, or one of a missing class, requests devices that no node
/// has.
pub(super) fn task_claims(case: &Case, job: &Job, task: &Task) -> Vec<DeviceClaim> {
    let named = task.resource_claim_names.iter().map(|name| (name, false));
    let made = task.resource_claim_templates.values().map(|name| (name, true));
    let of = |(claim_name, is_own): (&String, bool)| match case.claim(job, claim_name) {
        Some(spec) if case.has_class(&spec.class) => claim(case, spec, is_own),
        Some(_) | None => missing_claim(claim_name),
    };
    named.chain(made).map(of).collect()
}

fn claim(case: &Case, spec: &ClaimSpec, is_own: bool) -> DeviceClaim {
    let mut devices = Resources::default();
    if is_gpu(&spec.class) {
        devices.gpu_milli = whole(spec.count * 1000.0);
    } else {
        devices.extended.insert(name(&spec.class), whole(spec.count));
    }
    let reserved = spec.status.iter().filter_map(|status| status.get("reservedFor")?.as_array());
    let users = reserved.flatten().filter_map(|user| user.get("name")?.as_str());
    let is_task =
        |user: &str| case.jobs.iter().flat_map(|job| &job.tasks).any(|task| task.id == user);
    let others = users.filter(|user| !is_task(user)).count();
    DeviceClaim {
        name: name(&format!("{}/{}", spec.namespace, spec.name)),
        devices,
        requests: None,
        allocate_all: BTreeMap::new(),
        queue: spec.labels.get(labels::QUEUE).map(|queue| name(queue)),
        plugin_resources: None,
        is_pod_owned: is_own,
        allocated_on: None,
        also_counts_as: None,
        reserved_for_others: u32::try_from(others).unwrap_or(u32::MAX),
        reach: DeviceReach::NodeLocal,
    }
}

fn missing_claim(claim_name: &str) -> DeviceClaim {
    let devices = [(name(&format!("claim {claim_name}")), 1)].into_iter().collect();
    DeviceClaim {
        name: name(claim_name),
        devices: Resources { extended: devices, ..Resources::default() },
        requests: None,
        allocate_all: BTreeMap::new(),
        queue: None,
        plugin_resources: None,
        is_pod_owned: false,
        allocated_on: None,
        also_counts_as: None,
        reserved_for_others: 0,
        reach: DeviceReach::NodeLocal,
    }
}

/// Whether devices of this class count as GPUs.
fn is_gpu(class: &str) -> bool {
    class.to_ascii_lowercase().contains("gpu")
}
