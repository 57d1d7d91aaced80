//! Rule 1 for NUMA zones: no zone is oversubscribed, and with policy `single-numa-node` one zone
//! holds all aligned resources of a pod.

use schedlab_api::resources;

use super::objects::Name;
use super::{Amounts, Auditor, NodeView, PodView, breach::format_thousandths};

/// Resources that a kubelet aligns with NUMA zones only for pods of `QoS` class Guaranteed.
const GUARANTEED_PODS_ONLY: [&str; 2] = ["cpu", "memory"];
const ALL_PODS: [&str; 1] = [resources::GPU];

/// The error message if the node's NUMA zones cannot hold the pod.
pub(super) fn misalignment_error(
    auditor: &Auditor,
    pod: &PodView,
    name: &Name,
    node: &NodeView,
) -> Option<String> {
    if node.numa_zones.is_empty() {
        return None;
    }
    no_single_zone_error(pod, node).or_else(|| overfull_zone_error(auditor, pod, name, node))
}

fn no_single_zone_error(pod: &PodView, node: &NodeView) -> Option<String> {
    let is_offered = |resource: &str| {
        let mut offers = node.numa_zones.values().filter_map(|zone| zone.get(resource));
        offers.any(|offer| *offer > 0)
    };
    let requested = pod.requests.iter().filter(|(resource, requested)| {
        let pinned = pod.guaranteed && GUARANTEED_PODS_ONLY.contains(&&***resource);
        let is_taken = pinned || ALL_PODS.contains(&&***resource);
        **requested > 0 && is_taken && is_offered(resource)
    });
    let mut requested = requested.filter(|_| node.is_single_numa_node);
    let serves = |zone: &Amounts, (resource, requested): (&Name, &i128)| {
        zone.get(resource) >= Some(requested)
    };
    requested.find_map(|requested| {
        let in_one = pod.numa_zones.values().any(|zone| serves(zone, requested));
        (!in_one).then(|| {
            format!(
                "have no NUMA zone with {} {} for the pod",
                format_thousandths(*requested.1),
                requested.0
            )
        })
    })
}

fn overfull_zone_error(
    auditor: &Auditor,
    pod: &PodView,
    name: &Name,
    node: &NodeView,
) -> Option<String> {
    let account = auditor.accounts.node_usage(name)?;
    let pods = account.pods.iter().filter_map(|pod| auditor.view.pods.get(pod));
    let pods: Vec<&PodView> = pods.collect();
    pod.numa_zones.iter().find_map(|(zone, amounts)| {
        amounts.iter().filter(|(_, taken)| **taken > 0).find_map(|(resource, _)| {
            let taken = pods.iter().filter_map(|pod| pod.numa_zones.get(zone)?.get(resource));
            let taken: i128 = taken.sum();
            let offered = node.numa_zones.get(zone).and_then(|zone| zone.get(resource)).copied();
            let offered = offered.unwrap_or(0);
            (taken > offered).then(|| {
                let (taken, offered) = (format_thousandths(taken), format_thousandths(offered));
                format!("use {taken} {resource} of NUMA zone {zone}, which has {offered}")
            })
        })
    })
}
