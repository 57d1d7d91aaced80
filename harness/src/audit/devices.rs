//! Claims on devices and the devices that nodes publish, from raw objects of `resource.k8s.io`.

use std::collections::BTreeMap;

use schedlab_emulator::store::Object;
use schedlab_json::Value;
use schedlab_scheduler_core::{
    audit::{Amounts, ClaimView, NodeView, PodView},
    model::Name,
};

use super::{keep, read::node_selector_term};
use crate::fields::{at, list, text};

const GPU: &str = "nvidia.com/gpu";

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Devices {
    claims: BTreeMap<Name, Object>,
    slices: BTreeMap<Name, Object>,
}

impl Devices {
    pub(super) fn claim(&mut self, name: &Name, claim: Option<&Object>) {
        keep(&mut self.claims, name, claim);
    }

    /// The node of the slice.
    pub(super) fn slice(&mut self, name: &Name, slice: Option<&Object>) -> Option<Name> {
        let known = slice.or_else(|| self.slices.get(name));
        let node = known.and_then(|slice| text(slice, "/spec/nodeName")).map(Name::from);
        keep(&mut self.slices, name, slice);
        node
    }

    /// The node with the GPUs that are published for it.
    pub(super) fn add_to(&self, mut view: NodeView, node: &Name) -> NodeView {
        let of_node =
            self.slices.values().filter(|slice| text(slice, "/spec/nodeName") == Some(node));
        let of_gpus = of_node.filter(|slice| is_gpu(text(slice, "/spec/driver").unwrap_or("")));
        let gpus: usize = of_gpus.map(|slice| list(slice, "/spec/devices").len()).sum();
        if gpus > 0 {
            let published = 1000 * i128::try_from(gpus).unwrap_or(i128::MAX / 1000);
            *view.allocatable.entry(GPU.into()).or_default() += published;
        }
        view
    }

    /// The pod with what it has by its claims.
    pub(super) fn add_claims(&self, mut view: PodView, pod: &Value) -> PodView {
        let namespace = text(pod, "/metadata/namespace").unwrap_or_default();
        for name in names(pod) {
            let name: Name = format!("{namespace}/{name}").into();
            let gpus = self.claims.get(&name).map_or(0, |claim| gpu_milli(claim));
            view.claims.insert(name, Amounts::from([(GPU.into(), gpus)]));
        }
        view
    }
}

/// The names of a pod's claims, as far as they have one.
pub(crate) fn names(pod: &Value) -> impl Iterator<Item = &str> {
    let made = list(pod, "/status/resourceClaimStatuses").iter();
    let all = list(pod, "/spec/resourceClaims").iter().chain(made);
    all.filter_map(|one| text(one, "/resourceClaimName"))
}

/// Thousandths of GPUs that a claim asks for; of one that wants all of a node (`allocationMode: All`),
/// those that it has, and at least one. A class of GPUs is known by its name. Of alternatives the
/// one that was had counts; before, the first, as all are of equally many, or none is had by
/// who pays for GPUs.
pub(crate) fn gpu_milli(claim: &Value) -> i128 {
    let results = list(claim, "/status/allocation/devices/results");
    let had =
        |name: &str| results.iter().filter(|result| text(result, "/request") == Some(name)).count();
    let asked = list(claim, "/spec/devices/requests").iter().filter_map(|request| {
        let own = text(request, "/name").unwrap_or_default();
        if let Some(exactly) = at(request, "/exactly") {
            return Some((had(own), exactly));
        }
        let name = |one| format!("{own}/{}", text(one, "/name").unwrap_or_default());
        let all = list(request, "/firstAvailable").iter().map(|one| (had(&name(one)), one));
        all.clone().find(|(had, _)| *had > 0).or_else(|| all.clone().next())
    });
    let of_gpus = asked.filter(|(_, asked)| {
        is_gpu(text(asked, "/deviceClassName").unwrap_or_default()) && !is_admin(asked)
    });
    let count = |(had, asked): (usize, &Value)| match text(asked, "/allocationMode") {
        Some("All") => i128::try_from(had.max(1)).unwrap_or(i128::MAX / 1000),
        _ => i128::from(at(asked, "/count").and_then(Value::as_i64).unwrap_or(1)),
    };
    of_gpus.map(|asked| 1000 * count(asked)).sum()
}

pub(super) fn claim(claim: &Value) -> ClaimView {
    let device = |result: &Value| {
        let part = |path| text(result, path).unwrap_or_default();
        let name =
            format!("device {} of pool {} ({})", part("/device"), part("/pool"), part("/driver"));
        // To look after a device is no having it: whoever else may have it.
        let uid = text(claim, "/metadata/uid").unwrap_or_default();
        if is_admin(result) { format!("{name}, to look at ({uid})").into() } else { name.into() }
    };
    let selector = at(claim, "/status/allocation/nodeSelector");
    let terms = list(claim, "/status/allocation/nodeSelector/nodeSelectorTerms").iter();
    let mut fields = terms.clone().flat_map(|term| list(term, "/matchFields"));
    let field = fields.find(|field| text(field, "/key") == Some("metadata.name"));
    let field = field.filter(|field| list(field, "/values").len() == 1);
    let users = list(claim, "/status/reservedFor").iter();
    ClaimView {
        node: field.and_then(|field| list(field, "/values").first()?.as_str()).map(Name::from),
        terms: selector.map(|_| terms.map(node_selector_term).collect()),
        devices: list(claim, "/status/allocation/devices/results").iter().map(device).collect(),
        users: users.filter_map(|user| text(user, "/uid")).map(Name::from).collect(),
    }
}

/// A request, or what came of one, that is for looking after devices.
fn is_admin(of: &Value) -> bool {
    at(of, "/adminAccess").and_then(Value::as_bool) == Some(true)
}

fn is_gpu(name: &str) -> bool {
    name.to_ascii_lowercase().contains("gpu")
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    #[test]
    fn a_claim_with_alternatives_takes_what_the_one_has_that_was_had() {
        let alternative = |name: &str, mode: &str, count: u32| json!({ "name": name, "deviceClassName": "gpu.x", "allocationMode": mode, "count": count });
        let all = [alternative("all", "All", 0), alternative("three", "ExactCount", 3)];
        let with = |had: &[&str]| {
            let results = had.iter().map(|request| json!({ "request": request }));
            let results: Vec<Value> = results.collect();
            gpu_milli(&json!({
                "spec": { "devices": { "requests": [{ "name": "r", "firstAvailable": all.as_slice() }] } },
                "status": { "allocation": { "devices": { "results": results } } },
            }))
        };
        assert_eq!(with(&[]), 1000, "one at least");
        assert_eq!(with(&["r/all", "r/all"]), 2000);
        assert_eq!(with(&["r/three", "r/three", "r/three"]), 3000);
    }

    #[test]
    fn who_looks_after_a_device_has_none() {
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
        let told = |admin: bool| (claim(&looking(admin)).devices, gpu_milli(&looking(admin)));
        assert_eq!(told(false), ([Name::from("device a of pool n (gpu.x)")].into(), 1000));
        assert_eq!(
            told(true),
            ([Name::from("device a of pool n (gpu.x), to look at (u)")].into(), 0)
        );
    }
}
