//! Rule 2 for shared devices: no device is oversubscribed, a shared device is not also given as a
//! whole, and the devices of a claim are on one node.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::resources;

use super::objects::Name;
use super::{
    AuditedObject, Auditor, ClaimView, NodeView, PodView, Rule, breach::format_thousandths,
};

/// The error message if the pods on the node use more than all of a shared GPU, or more GPUs than
/// the node has.
pub(super) fn device_overuse_error(
    auditor: &Auditor,
    name: &Name,
    node: &NodeView,
) -> Option<String> {
    let account = auditor.accounts.node_usage(name)?;
    let mut taken: BTreeMap<&Name, i128> = BTreeMap::new();
    // Devices that reservation pods hold as a whole for the pods that share them.
    let mut reserved = BTreeSet::new();
    for pod in account.pods.iter().filter_map(|pod| auditor.view.pods.get(pod)) {
        for share in &pod.device_shares {
            *taken.entry(&share.device).or_default() += i128::from(share.milli);
            if share.milli == 0 {
                reserved.insert(&share.device);
            }
        }
    }
    if let Some((device, taken)) = taken.iter().find(|(_, taken)| **taken > 1000) {
        return Some(format!("use {} of shared GPU {device}", format_thousandths(*taken)));
    }
    let whole = account.used.get(resources::GPU).copied().unwrap_or(0);
    let shared = 1000 * i128::try_from(taken.len() - reserved.len()).unwrap_or(i128::MAX);
    let offered = node.allocatable.get(resources::GPU).copied().unwrap_or(0);
    (whole + shared > offered).then(|| {
        let (whole, shared) = (format_thousandths(whole), format_thousandths(shared));
        format!(
            "use {whole} whole and {shared} shared GPUs; the node has {}",
            format_thousandths(offered)
        )
    })
}

/// A node-local claim of the pod that pods on another node use as well, with that node.
pub(super) fn claim_on_other_node<'a>(
    auditor: &Auditor,
    pod: &'a PodView,
    node: &Name,
) -> Option<(&'a Name, Name)> {
    let is_for_several = |claim: &Name| {
        let view = auditor.view.claims.get(claim);
        view.is_some_and(|claim| claim.node.is_none() && !claim.devices.is_empty())
    };
    pod.claims.keys().filter(|claim| !is_for_several(claim)).find_map(|claim| {
        let mut others = auditor.accounts.nodes_of_claim(claim).filter(|other| *other != node);
        Some((claim, others.next()?.clone()))
    })
}

/// A claim of the pod that is not allocated on the node or not reserved for the pod, with the error
/// message.
pub(super) fn unready_claim_error(
    auditor: &Auditor,
    pod: &PodView,
    node: &Name,
) -> Option<(Name, String)> {
    pod.claims.keys().find_map(|name| {
        let claim = auditor.view.claims.get(name)?;
        let why = if claim.devices.is_empty() {
            "is not allocated".to_owned()
        } else if let Some(other) = claim.node.as_ref().filter(|other| *other != node) {
            format!("is allocated on {other}")
        } else if !claim.users.contains(&pod.uid)
            && !pod.scheduling_group.as_ref().is_some_and(|group| claim.pod_groups.contains(group))
        {
            "is not reserved for the pod".to_owned()
        } else {
            return None;
        };
        Some((name.clone(), why))
    })
}

/// Checks the devices of a claim: no other claim has them, and they do not change while pods use
/// the claim.
pub(super) fn check_claimed_devices(
    auditor: &mut Auditor,
    name: &Name,
    before: &ClaimView,
    after: &ClaimView,
) {
    let mut wrong = Vec::new();
    let is_used = before.users.intersection(&after.users).next().is_some();
    if is_used && !before.devices.is_empty() && before.devices != after.devices {
        wrong.push("was reallocated while in use".to_owned());
    }
    let others = auditor.view.claims.iter().filter(|(other, _)| *other != name);
    wrong.extend(others.filter_map(|(other, view)| {
        let both = after.devices.intersection(&view.devices).next()?;
        (!before.devices.contains(both)).then(|| format!("was given {both}, which {other} has"))
    }));
    for why in wrong {
        let objects = vec![AuditedObject::Claim(name.clone())];
        auditor.report_breach(Rule::Devices, objects, format!("claim {name} {why}"));
    }
}
