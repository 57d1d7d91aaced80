//! What is asked of the binder, as a BindRequest says it.

use std::ops::Deref;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Labels, Name};

use crate::{
    mirror::RequestRecord,
    parse::{at, int32, list, name, strings, text},
};

/// A BindRequest.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// What the scheduler reads of it, too.
    pub(super) request: RequestRecord,
    pub(super) pod: Name,
    /// `Regular` or `Fraction`.
    pub(super) resource_type: Name,
    /// Which part of each, with two decimals.
    pub(super) portion: Name,
    /// What the pod gets besides.
    pub(super) labels: Labels,
    /// Which devices the pod's resource claims get: `ResourceClaimAllocation`.
    pub(super) claims: Vec<Value>,
    /// And a claim for its extended resources: `ExtendedResourceClaimAllocation`.
    pub(super) extended: Option<Value>,
    /// How many have failed.
    pub(super) attempts: i32,
}

impl Deref for Order {
    type Target = RequestRecord;

    fn deref(&self) -> &RequestRecord {
        &self.request
    }
}

impl Order {
    pub(super) fn read(object: &Value) -> Self {
        let part = |pointer| name(object, pointer).unwrap_or_else(|| "".into());
        Self {
            request: RequestRecord::read(object),
            pod: part("/spec/podName"),
            resource_type: part("/spec/receivedResourceType"),
            portion: part("/spec/receivedGPU/portion"),
            labels: strings(object, "/spec/labels"),
            claims: list(object, "/spec/resourceClaimAllocations").to_vec(),
            extended: at(object, "/spec/extendedResourceClaimAllocation").cloned(),
            attempts: int32(object, "/status/failedAttempts").unwrap_or(0),
        }
    }

    /// It leaves devices of claims to the binder.
    pub(super) fn has_claims(&self) -> bool {
        !self.claims.is_empty() || self.extended.is_some()
    }

    /// There is something left to do.
    pub(super) fn is_open(&self) -> bool {
        !self.has_succeeded && !self.is_spent
    }

    /// What in it cannot be carried out, whatever the cluster looks like.
    pub(super) fn problem(&self, request: &str) -> Option<String> {
        let wrong = |field: &str, found: &str, allowed| {
            format!("{field}: found {found:?}, allowed: {allowed}")
        };
        if *self.pod != *request {
            return Some(wrong("spec.podName", &self.pod, "the name of the request"));
        }
        if !["", "Regular", "Fraction"].contains(&&*self.resource_type) {
            let field = "spec.receivedResourceType";
            return Some(wrong(field, &self.resource_type, "Regular or Fraction"));
        }
        let is_part = self.portion.parse().is_ok_and(|part: f64| (0.0..=1.0).contains(&part));
        if !self.portion.is_empty() && !is_part {
            let field = "spec.receivedGPU.portion";
            return Some(wrong(field, &self.portion, "a number from 0 to 1, as 0.50"));
        }
        let devices = "the devices that the claim gets";
        for (asked, at) in self.claims.iter().zip(0..) {
            if text(asked, "/name").is_none_or(str::is_empty) {
                let field = format!("spec.resourceClaimAllocations[{at}].name");
                return Some(wrong(&field, "", "the name of a claim of the pod"));
            }
            if !asked["allocation"].is_object() {
                let field = format!("spec.resourceClaimAllocations[{at}].allocation");
                return Some(wrong(&field, "", devices));
            }
        }
        if self.extended.as_ref().is_some_and(|asked| !asked["allocation"].is_object()) {
            return Some(wrong("spec.extendedResourceClaimAllocation.allocation", "", devices));
        }
        self.node.is_empty().then(|| wrong("spec.selectedNode", "", "the name of a node"))
    }
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    fn open(limit: Option<i32>, phase: &str, attempts: i32) -> bool {
        let spec = json!({ "podName": "p", "selectedNode": "n", "backoffLimit": limit });
        let status = json!({ "phase": phase, "failedAttempts": attempts });
        Order::read(&json!({ "spec": spec, "status": status })).is_open()
    }

    #[test]
    fn a_request_is_open_until_it_succeeded_or_used_up_its_attempts() {
        assert!(open(None, "", 0) && open(None, "Pending", 0) && open(Some(3), "Failed", 2));
        assert!(!open(None, "Failed", 1) && !open(Some(3), "Failed", 3));
        assert!(!open(Some(3), "Succeeded", 0));
    }

    #[test]
    fn what_can_never_be_carried_out_is_told() {
        let problem = |spec| Order::read(&json!({ "spec": spec })).problem("p");
        assert_eq!(problem(json!({ "podName": "p", "selectedNode": "n" })), None);
        assert_eq!(
            problem(json!({ "podName": "q", "selectedNode": "n" })).unwrap(),
            "spec.podName: found \"q\", allowed: the name of the request"
        );
        assert_eq!(
            problem(json!({ "podName": "p", "resourceClaimAllocations": [{}] })).unwrap(),
            "spec.resourceClaimAllocations[0].name: found \"\", allowed: the name of a claim of the pod"
        );
        let unallocated = json!([{ "name": "a", "allocation": {} }, { "name": "b" }]);
        assert_eq!(
            problem(json!({ "podName": "p", "resourceClaimAllocations": unallocated })).unwrap(),
            "spec.resourceClaimAllocations[1].allocation: found \"\", allowed: the devices that the claim gets"
        );
        assert_eq!(
            problem(json!({ "podName": "p", "extendedResourceClaimAllocation": {} })).unwrap(),
            "spec.extendedResourceClaimAllocation.allocation: found \"\", allowed: the devices that the claim gets"
        );
        assert_eq!(
            problem(json!({ "podName": "p", "receivedResourceType": "Banana" })).unwrap(),
            "spec.receivedResourceType: found \"Banana\", allowed: Regular or Fraction"
        );
        let portion = |portion: &str| json!({ "podName": "p", "selectedNode": "n", "receivedGPU": { "portion": portion } });
        assert_eq!(
            problem(portion("abc")).unwrap(),
            "spec.receivedGPU.portion: found \"abc\", allowed: a number from 0 to 1, as 0.50"
        );
        assert_eq!(
            problem(portion("NaN")).unwrap(),
            "spec.receivedGPU.portion: found \"NaN\", allowed: a number from 0 to 1, as 0.50"
        );
        assert_eq!((problem(portion("0.00")), problem(portion("1"))), (None, None));
        assert_eq!(
            problem(json!({ "podName": "p" })).unwrap(),
            "spec.selectedNode: found \"\", allowed: the name of a node"
        );
    }
}
