//! ResourceClaims and published devices, from raw objects of `resource.k8s.io`.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{
    Value,
    pointer::{at, list, text},
    resources,
};

use crate::rules::{Amounts, ClaimView, Name, NodeView, PodView};
use crate::write::{Object, update_object};

use super::parse_node_selector_term;

/// The observed ResourceClaims and ResourceSlices.
#[derive(Debug, Default)]
pub(crate) struct ObservedDevices {
    claims: BTreeMap<Name, Object>,
    slices: BTreeMap<Name, Object>,
}

impl ObservedDevices {
    pub(crate) fn update_claim(&mut self, name: &Name, claim: Option<&Object>) {
        update_object(&mut self.claims, name, claim);
    }

    /// Records a ResourceSlice and returns the name of the nodes of its devices.
    pub(crate) fn update_slice(&mut self, name: &Name, slice: Option<&Object>) -> BTreeSet<Name> {
        let known = slice.or_else(|| self.slices.get(name));
        let devices = known.into_iter().flat_map(|slice| list(slice, "/spec/devices"));
        let of_slice = known.and_then(|slice| text(slice, "/spec/nodeName"));
        let nodes = devices.filter_map(|device| text(device, "/nodeName")).chain(of_slice);
        let nodes = nodes.map(Name::from).collect();
        update_object(&mut self.slices, name, slice);
        nodes
    }

    /// Adds the GPUs that ResourceSlices publish for a node to the view of the node.
    pub(crate) fn add_published_gpus(&self, mut view: NodeView, node: &Name) -> NodeView {
        let of_gpus = self
            .slices
            .values()
            .filter(|slice| is_gpu_class_name(text(slice, "/spec/driver").unwrap_or("")));
        let devices = of_gpus.flat_map(|slice| {
            list(slice, "/spec/devices").iter().map(move |device| (slice, device))
        });
        let gpus = devices
            .filter(|(slice, device)| {
                let of_device = || text(device, "/nodeName");
                text(slice, "/spec/nodeName").or_else(of_device) == Some(node)
            })
            .count();
        if gpus > 0 {
            let published = 1000 * i128::try_from(gpus).unwrap_or(i128::MAX / 1000);
            *view.allocatable.entry(resources::GPU.into()).or_default() += published;
        }
        view
    }

    /// Adds the devices that a pod has through its claims to the view of the pod.
    pub(crate) fn add_claimed_devices(&self, mut view: PodView, pod: &Value) -> PodView {
        let namespace = text(pod, "/metadata/namespace").unwrap_or_default();
        for name in claim_names(pod) {
            let name: Name = format!("{namespace}/{name}").into();
            let gpus = self.claims.get(&name).map_or(0, |claim| claimed_gpu_milli(claim));
            view.claims.insert(name, Amounts::from([(resources::GPU.into(), gpus)]));
        }
        view
    }
}

/// The names of the pod's claims, as far as these claims exist.
pub fn claim_names(pod: &Value) -> impl Iterator<Item = &str> {
    let made = list(pod, "/status/resourceClaimStatuses").iter();
    let all = list(pod, "/spec/resourceClaims").iter().chain(made);
    let special = text(pod, "/status/extendedResourceClaimStatus/resourceClaimName");
    all.filter_map(|one| text(one, "/resourceClaimName")).chain(special)
}

/// The GPUs of a claim, in thousandths. With `allocationMode: All` these are the allocated ones,
/// and at least one. A DeviceClass counts as GPUs if its name contains `gpu`. Of alternatives, the
/// allocated one counts; before the allocation the first one, because the audit charges GPUs only
/// where all alternatives have the same number. Shares of devices are not charged.
pub fn claimed_gpu_milli(claim: &Value) -> i128 {
    let results = list(claim, "/status/allocation/devices/results");
    let is_share =
        |result: &&Value| text(result, "/shareID").is_some_and(|share| !share.is_empty());
    let has_shares = |name: &str| {
        results.iter().filter(is_share).any(|result| text(result, "/request") == Some(name))
    };
    let allocated =
        |name: &str| results.iter().filter(|result| text(result, "/request") == Some(name)).count();
    let counted_requests = list(claim, "/spec/devices/requests").iter().filter_map(|request| {
        let own = text(request, "/name").unwrap_or_default();
        if let Some(exactly) = at(request, "/exactly") {
            return (!has_shares(own)).then(|| (allocated(own), exactly));
        }
        let name = |one| format!("{own}/{}", text(one, "/name").unwrap_or_default());
        let all = list(request, "/firstAvailable").iter().map(|one| (allocated(&name(one)), one));
        if list(request, "/firstAvailable").iter().any(|one| has_shares(&name(one))) {
            return None;
        }
        all.clone().find(|(allocated, _)| *allocated > 0).or_else(|| all.clone().next())
    });
    let of_gpus = counted_requests.filter(|(_, request)| {
        is_gpu_class_name(text(request, "/deviceClassName").unwrap_or_default())
            && !has_admin_access(request)
    });
    let count = |(allocated, request): (usize, &Value)| match text(request, "/allocationMode") {
        Some("All") => i128::try_from(allocated.max(1)).unwrap_or(i128::MAX / 1000),
        _ => i128::from(at(request, "/count").and_then(Value::as_i64).unwrap_or(1)),
    };
    of_gpus.map(|counted| 1000 * count(counted)).sum()
}

pub(crate) fn claim_view(claim: &Value) -> ClaimView {
    let device = |result: &Value| {
        let part = |path| text(result, path).unwrap_or_default();
        let name =
            format!("device {} of pool {} ({})", part("/device"), part("/pool"), part("/driver"));
        // Administrative access does not occupy a device, whoever else uses it.
        let uid = text(claim, "/metadata/uid").unwrap_or_default();
        if has_admin_access(result) {
            return format!("{name} with admin access ({uid})").into();
        }
        match text(result, "/shareID") {
            Some(share) => format!("{name}, share {share}").into(),
            None => name.into(),
        }
    };
    let selector = at(claim, "/status/allocation/nodeSelector");
    let terms = list(claim, "/status/allocation/nodeSelector/nodeSelectorTerms").iter();
    let mut fields = terms.clone().flat_map(|term| list(term, "/matchFields"));
    let field = fields.find(|field| text(field, "/key") == Some("metadata.name"));
    let field = field.filter(|field| list(field, "/values").len() == 1);
    let users = list(claim, "/status/reservedFor").iter();
    let namespace = text(claim, "/metadata/namespace").unwrap_or_default();
    ClaimView {
        pod_groups: users
            .clone()
            .filter(|user| text(user, "/resource") == Some("podgroups"))
            .filter_map(|user| Some(format!("{namespace}/{}", text(user, "/name")?).into()))
            .collect(),
        node: field.and_then(|field| list(field, "/values").first()?.as_str()).map(Name::from),
        terms: selector.map(|_| terms.map(parse_node_selector_term).collect()),
        devices: list(claim, "/status/allocation/devices/results").iter().map(device).collect(),
        users: users.filter_map(|user| text(user, "/uid")).map(Name::from).collect(),
    }
}

/// Whether a request of a claim, or its allocation result, has admin access.
fn has_admin_access(request_or_result: &Value) -> bool {
    at(request_or_result, "/adminAccess").and_then(Value::as_bool) == Some(true)
}

fn is_gpu_class_name(name: &str) -> bool {
    name.to_ascii_lowercase().contains("gpu")
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_claim_with_alternatives_counts_the_allocated_one() {
        let alternative = |name: &str, mode: &str, count: u32| json!({ "name": name, "deviceClassName": "gpu.x", "allocationMode": mode, "count": count });
        let all = [alternative("all", "All", 0), alternative("three", "ExactCount", 3)];
        let with = |allocated: &[&str]| {
            let results = allocated.iter().map(|request| json!({ "request": request }));
            let results: Vec<Value> = results.collect();
            claimed_gpu_milli(&json!({
                "spec": { "devices": { "requests": [{ "name": "r", "firstAvailable": all.as_slice() }] } },
                "status": { "allocation": { "devices": { "results": results } } },
            }))
        };
        assert_eq!(with(&[]), 1000, "one at least");
        assert_eq!(with(&["r/all", "r/all"]), 2000);
        assert_eq!(with(&["r/three", "r/three", "r/three"]), 3000);
    }

    #[test]
    fn administrative_access_occupies_no_device() {
        let looking = |admin: bool| {
            json!({
                "metadata": { "uid": "u" },
                "spec": { "devices": { "requests": [
                    { "name": "r", "exactly": { "deviceClassName": "gpu.x", "adminAccess": admin } },
                ] } },
                "status": { "allocation": { "devices": { "results": [
                    { "request": "r", "driver": "gpu.x", "pool": "n", "device": "a", "adminAccess": admin },
                ] } } },
            })
        };
        let claim_and_gpus =
            |admin: bool| (claim_view(&looking(admin)).devices, claimed_gpu_milli(&looking(admin)));
        assert_eq!(
            claim_and_gpus(false),
            ([Name::from("device a of pool n (gpu.x)")].into(), 1000)
        );
        assert_eq!(
            claim_and_gpus(true),
            ([Name::from("device a of pool n (gpu.x) with admin access (u)")].into(), 0)
        );
    }
}
