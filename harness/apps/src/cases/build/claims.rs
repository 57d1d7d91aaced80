//! Resource claims, and the devices of nodes.

use std::collections::BTreeMap;

use schedlab_api::labels;
use schedlab_scheduler_core::{
    model::{DeviceClaim, DeviceReach},
    resources::Resources,
};

use super::{round_to_i64, to_name};
use crate::cases::format::{Case, ClaimSpec, Job, Task};

/// Adds the devices of non-GPU classes that the node publishes in ResourceSlices to `allocatable`.
pub(super) fn add_devices_of_slices(case: &Case, node: &str, allocatable: &mut Resources) {
    let slices = case.cluster.dra.iter().flat_map(|dra| &dra.resource_slices);
    for slice in slices.filter(|slice| slice.node == node && !is_gpu_class(&slice.class)) {
        *allocatable.extended.entry(to_name(&slice.class)).or_default() += slice.count;
    }
}

/// Whether the node publishes its GPUs in ResourceSlices, so that pods get them through claims.
pub(super) fn offers_gpus_via_claims(case: &Case, node: &str) -> bool {
    let mut slices = case.cluster.dra.iter().flat_map(|dra| &dra.resource_slices);
    slices.any(|slice| slice.node == node && is_gpu_class(&slice.class))
}

/// The device claims of a task. A claim that does not exist, or whose device class does not exist,
/// requests devices that no node has.
pub(super) fn task_claims(case: &Case, job: &Job, task: &Task) -> Vec<DeviceClaim> {
    let named = task.resource_claim_names.iter().map(|name| (name, false));
    let made = task.resource_claim_templates.values().map(|name| (name, true));
    let of = |(claim_name, is_own): (&String, bool)| match case.find_claim(job, claim_name) {
        Some(spec) if case.has_device_class(&spec.class) => {
            device_claim_from_spec(case, spec, is_own)
        }
        Some(_) | None => missing_claim(claim_name),
    };
    named.chain(made).map(of).collect()
}

fn device_claim_from_spec(case: &Case, spec: &ClaimSpec, is_own: bool) -> DeviceClaim {
    let mut devices = Resources::default();
    if is_gpu_class(&spec.class) {
        devices.gpu_milli = round_to_i64(spec.count * 1000.0);
    } else {
        devices.extended.insert(to_name(&spec.class), round_to_i64(spec.count));
    }
    let reserved = spec.status.iter().filter_map(|status| status.get("reservedFor")?.as_array());
    let users = reserved.flatten().filter_map(|user| user.get("name")?.as_str());
    let is_task =
        |user: &str| case.jobs.iter().flat_map(|job| &job.tasks).any(|task| task.id == user);
    let others = users.filter(|user| !is_task(user)).count();
    DeviceClaim {
        name: to_name(&format!("{}/{}", spec.namespace, spec.name)),
        devices,
        requests: None,
        allocate_all: BTreeMap::new(),
        queue: spec.labels.get(labels::QUEUE).map(|queue| to_name(queue)),
        plugin_resources: None,
        is_pod_owned: is_own,
        allocated_on: None,
        also_counts_as: None,
        reserved_for_others: u32::try_from(others).unwrap_or(u32::MAX),
        reach: DeviceReach::NodeLocal,
    }
}

fn missing_claim(claim_name: &str) -> DeviceClaim {
    let devices = [(to_name(&format!("claim {claim_name}")), 1)].into_iter().collect();
    DeviceClaim {
        name: to_name(claim_name),
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
fn is_gpu_class(class: &str) -> bool {
    class.to_ascii_lowercase().contains("gpu")
}
