//! Extended resources that devices serve: a DeviceClass names one (`extendedResourceName`) and
//! implies one (`deviceclass.resource.kubernetes.io/NAME`). Where no device plugin provides the
//! resource, the scheduler creates a claim for the pod, as kube-scheduler does. Until then, a pod
//! counts as if it had the claim already.

use std::{cmp::Reverse, collections::BTreeMap};

use schedlab_api::{Value, json, resources};
use schedlab_scheduler_core::{
    model::{DeviceClaim, Name, Node},
    resources::Resources,
};

use super::{
    ClaimProblem, ClaimRecord, ClaimRequest, ObjectKey, PodRecord, ResourceClaims, claim_requests,
};
use crate::records::extended_requests::{DEVICE_CLASS_PREFIX, ExtendedRequest};

/// The claim to create for extended resources of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtendedResourceClaim {
    /// `spec.devices.requests`.
    pub(crate) requests: Vec<Value>,
    /// Which request serves which container.
    pub(crate) mappings: Vec<Value>,
}

/// A device request: its name and number of devices.
#[derive(Clone)]
struct SizedRequest {
    name: String,
    count: i64,
}

impl ResourceClaims {
    /// The DeviceClass whose devices serve the resource. Of several the newest.
    fn class_of_resource(&self, resource: &str) -> Option<&Name> {
        let named = self.classes.iter().filter(|(_, class)| {
            class.extended_resource.as_ref().is_some_and(|name| **name == *resource)
        });
        let newest = named.max_by_key(|(name, class)| (class.created, Reverse(*name)));
        let implied = || self.classes.get_key_value(resource.strip_prefix(DEVICE_CLASS_PREFIX)?);
        newest.or_else(implied).map(|(name, _)| name)
    }

    /// The requested resources that devices may serve, with their classes.
    fn mapped_resources<'p>(&self, pod: &'p PodRecord) -> BTreeMap<&'p Name, &Name> {
        let requested = pod.extended.requests.iter().map(|request| &request.resource);
        let shares_gpus = pod.shape.fractional_gpu.is_some();
        let requested = requested.filter(|name| !(shares_gpus && ***name == *resources::GPU));
        requested.filter_map(|name| Some((name, self.class_of_resource(name)?))).collect()
    }

    /// The requests of a pod that devices serve or may serve, without the pod's claims.
    pub(super) fn requests_served(&self, pod: &PodRecord) -> Resources {
        let mut served = Resources::default();
        if pod.extended.claim.is_some() {
            for resource in &pod.extended.served {
                served.add(&requested_amount(pod, resource));
            }
        } else if pod.node.is_none() {
            for resource in self.mapped_resources(pod).keys() {
                served.add(&requested_amount(pod, resource));
            }
        }
        served
    }

    /// Claims that a waiting pod needs where no device plugin provides its extended resources.
    ///
    /// # Errors
    /// The devices of the class are not supported.
    pub(super) fn expected_claims(
        &self,
        key: &ObjectKey,
        pod: &PodRecord,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Result<Vec<DeviceClaim>, ClaimProblem> {
        if pod.extended.claim.is_some() || pod.node.is_some() {
            return Ok(Vec::new());
        }
        let mut claims = Vec::new();
        for (resource, class) in self.mapped_resources(pod) {
            let claim =
                extended_device_requests(&pod.extended.requests, &[(resource, class)].into());
            let spec = json!({ "devices": { "requests": claim.requests } });
            let record = ClaimRecord::from_object(&json!({ "spec": spec }));
            let name: Name = format!("{} for {resource}", key.name).into();
            let own_key = ObjectKey { namespace: Name::clone(&key.namespace), name };
            let reach = self.claim_reach(&own_key, &record, pods)?;
            let request = self.resolve_claim_request(&own_key.name, &record, None)?;
            // Multi-node devices are no resources of a node.
            let is_of_one_node = reach.has_node_local_devices();
            let ClaimRequest { devices, all_devices } =
                if is_of_one_node { request } else { ClaimRequest::default() };
            claims.push(DeviceClaim {
                name: own_key.to_string().into(),
                devices,
                requests: claim_requests(&record),
                allocate_all: all_devices,
                plugin_resources: Some(requested_amount(pod, resource)),
                is_pod_owned: true,
                queue: None,
                allocated_on: None,
                also_counts_as: None,
                reserved_for_others: 0,
                reach,
            });
        }
        Ok(claims)
    }

    /// The claim to create before the pod is bound to the node; `None` if it needs none.
    pub(crate) fn extended_resource_claim(
        &self,
        pod: &PodRecord,
        node: &Node,
    ) -> Option<ExtendedResourceClaim> {
        if pod.extended.claim.is_some() {
            return None;
        }
        let mut mapped = self.mapped_resources(pod);
        mapped.retain(|resource, _| !node.has_device_plugin_for(&requested_amount(pod, resource)));
        let claim = extended_device_requests(&pod.extended.requests, &mapped);
        (!claim.requests.is_empty()).then_some(claim)
    }
}

/// What the pod requests of a resource in all.
fn requested_amount(pod: &PodRecord, resource: &Name) -> Resources {
    let requests = &pod.shape.requests;
    if **resource == *resources::GPU {
        return Resources { gpu_milli: requests.gpu_milli, ..Resources::default() };
    }
    let amount = requests.extended_amount(resource);
    Resources { extended: [(Name::clone(resource), amount)].into(), ..Resources::default() }
}

/// The device requests for these resources. Init containers use the devices of later containers
/// first, and share what they need in addition.
fn extended_device_requests(
    requests: &[ExtendedRequest],
    classes: &BTreeMap<&Name, &Name>,
) -> ExtendedResourceClaim {
    let mut claim = ExtendedResourceClaim::default();
    for (resource, class) in classes {
        let mut of_resource = requests.iter().filter(|request| request.resource == **resource);
        let (short, long): (Vec<_>, Vec<_>) =
            of_resource.by_ref().partition(|request| request.is_short_lived);
        let own = |request: &ExtendedRequest, count: i64| SizedRequest {
            name: format!("container-{}-request-{}", request.container_index, request.index),
            count,
        };
        let kept: Vec<(usize, SizedRequest)> =
            long.iter().map(|one| (one.container_index, own(one, one.count))).collect();
        // `None`: the request that init containers share.
        let mut mapped: Vec<(&ExtendedRequest, Option<&SizedRequest>)> =
            long.iter().zip(&kept).map(|(one, (_, kept))| (*one, Some(kept))).collect();
        let mut largest: Option<SizedRequest> = None;
        for one in short {
            let mut missing = one.count;
            let mut later = kept.iter().filter(|(at, _)| *at >= one.container_index);
            while missing > 0
                && let Some((_, later)) = later.next()
            {
                mapped.push((one, Some(later)));
                missing -= later.count;
            }
            if missing > 0 {
                mapped.push((one, None));
            }
            if missing > largest.as_ref().map_or(0, |largest| largest.count) {
                largest = Some(own(one, missing));
            }
        }
        let shared = largest.clone();
        claim.mappings.extend(mapped.into_iter().filter_map(|(one, request)| {
            let request = request.or(shared.as_ref())?;
            Some(json!({ "containerName": &*one.container, "resourceName": &***resource,
                         "requestName": request.name }))
        }));
        let all = largest.into_iter().chain(kept.into_iter().map(|(_, request)| request));
        claim.requests.extend(all.map(|SizedRequest { name, count }| {
            json!({ "name": name, "exactly": {
                "deviceClassName": &***class, "allocationMode": "ExactCount", "count": count,
            } })
        }));
    }
    claim.requests.sort_by_key(|request| request["name"].as_str().map(str::to_owned));
    claim
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::records::extended_requests::ExtendedRequests;

    /// The requests and mappings for containers that request this many; `i` marks an init
    /// container.
    fn rendered(containers: &[&str]) -> String {
        let container = |(at, word): (usize, &&str)| {
            let count = word.trim_start_matches('i');
            json!({ "name": format!("c{at}"),
                    "resources": { "requests": { "cpu": "1", "x.io/card": count } } })
        };
        let all: Vec<(bool, Value)> = containers
            .iter()
            .enumerate()
            .map(|one| (one.1.starts_with('i'), container(one)))
            .collect();
        let of = |init: bool| -> Vec<Value> {
            all.iter().filter(|(is, _)| *is == init).map(|(_, it)| it.clone()).collect()
        };
        let pod = json!({ "spec": { "initContainers": of(true), "containers": of(false) } });
        let (resource, class): (Name, Name) = ("x.io/card".into(), "card".into());
        let requests = ExtendedRequests::from_pod(&pod).requests;
        let claim = extended_device_requests(&requests, &[(&resource, &class)].into());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let requests = claim
            .requests
            .iter()
            .map(|one| format!("{}*{}", text(&one["name"]), one["exactly"]["count"]));
        let mappings = claim
            .mappings
            .iter()
            .map(|one| format!("{}={}", text(&one["containerName"]), text(&one["requestName"])));
        format!(
            "{}; {}",
            requests.collect::<Vec<_>>().join(" "),
            mappings.collect::<Vec<_>>().join(" ")
        )
    }

    #[test]
    fn each_container_has_a_request() {
        assert_snapshot!(rendered(&["1", "2"]), @"container-0-request-1*1 container-1-request-1*2; c0=container-0-request-1 c1=container-1-request-1");
    }

    #[test]
    fn init_containers_use_devices_of_containers_first() {
        assert_snapshot!(rendered(&["i1", "2"]), @"container-1-request-1*2; c1=container-1-request-1 c0=container-1-request-1");
        assert_snapshot!(rendered(&["i3", "i4", "2"]), @"container-1-request-1*2 container-2-request-1*2; c2=container-2-request-1 c0=container-2-request-1 c0=container-1-request-1 c1=container-2-request-1 c1=container-1-request-1");
    }
}
