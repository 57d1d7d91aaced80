//! A BindRequest as the binder reads it, and its validation.

use std::ops::Deref;

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Labels, Name};

use crate::{
    cache::BindRequestRecord,
    parse::{at, int32, list, name, strings, text},
};

/// A BindRequest (`scheduling.run.ai/v1alpha2`).
#[derive(Clone, Debug)]
pub(super) struct BindRequest {
    /// The fields that the scheduler reads as well.
    pub(super) record: BindRequestRecord,
    pub(super) pod_name: Name,
    /// `Regular`, `Fraction` or empty.
    pub(super) resource_type: Name,
    /// Portion of each GPU, with two decimals.
    pub(super) portion: Name,
    /// Additional labels to set on the pod.
    pub(super) labels: Labels,
    /// Allocations of the pod's resource claims: `ResourceClaimAllocation`.
    pub(super) claims: Vec<Value>,
    /// Allocation of a claim for the pod's extended resources: `ExtendedResourceClaimAllocation`.
    pub(super) extended_claim: Option<Value>,
    /// Number of failed attempts.
    pub(super) failed_attempts: i32,
}

impl Deref for BindRequest {
    type Target = BindRequestRecord;

    fn deref(&self) -> &BindRequestRecord {
        &self.record
    }
}

impl BindRequest {
    pub(super) fn read(object: &Value) -> Self {
        let part = |pointer| name(object, pointer).unwrap_or_else(|| "".into());
        Self {
            record: BindRequestRecord::from_object(object),
            pod_name: part("/spec/podName"),
            resource_type: part("/spec/receivedResourceType"),
            portion: part("/spec/receivedGPU/portion"),
            labels: strings(object, "/spec/labels"),
            claims: list(object, "/spec/resourceClaimAllocations").to_vec(),
            extended_claim: at(object, "/spec/extendedResourceClaimAllocation").cloned(),
            failed_attempts: int32(object, "/status/failedAttempts").unwrap_or(0),
        }
    }

    /// Whether the binder has to allocate resource claims.
    pub(super) fn has_claims(&self) -> bool {
        !self.claims.is_empty() || self.extended_claim.is_some()
    }

    /// Whether the request has not succeeded and has attempts left.
    pub(super) fn is_open(&self) -> bool {
        !self.has_succeeded && !self.is_exhausted
    }

    /// The message about the first invalid field; `None` if the request is valid. Does not depend
    /// on the state of the cluster.
    pub(super) fn validation_error(&self, request_name: &str) -> Option<String> {
        let wrong = |field: &str, found: &str, allowed| {
            format!("{field}: got {found:?}, expected {allowed}")
        };
        if *self.pod_name != *request_name {
            return Some(wrong("spec.podName", &self.pod_name, "the name of the request"));
        }
        if !["", "Regular", "Fraction"].contains(&&*self.resource_type) {
            let field = "spec.receivedResourceType";
            return Some(wrong(field, &self.resource_type, "Regular or Fraction"));
        }
        let is_part = self.portion.parse().is_ok_and(|part: f64| (0.0..=1.0).contains(&part));
        if !self.portion.is_empty() && !is_part {
            let field = "spec.receivedGPU.portion";
            return Some(wrong(field, &self.portion, "a number from 0 to 1, for example 0.50"));
        }
        let devices = "the allocated devices of the claim";
        for (claim, at) in self.claims.iter().zip(0..) {
            if text(claim, "/name").is_none_or(str::is_empty) {
                let field = format!("spec.resourceClaimAllocations[{at}].name");
                return Some(wrong(&field, "", "the name of a claim of the pod"));
            }
            if !claim["allocation"].is_object() {
                let field = format!("spec.resourceClaimAllocations[{at}].allocation");
                return Some(wrong(&field, "", devices));
            }
        }
        if self.extended_claim.as_ref().is_some_and(|claim| !claim["allocation"].is_object()) {
            return Some(wrong("spec.extendedResourceClaimAllocation.allocation", "", devices));
        }
        self.node.is_empty().then(|| wrong("spec.selectedNode", "", "the name of a node"))
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn open(limit: Option<i32>, phase: &str, attempts: i32) -> bool {
        let spec = json!({ "podName": "p", "selectedNode": "n", "backoffLimit": limit });
        let status = json!({ "phase": phase, "failedAttempts": attempts });
        BindRequest::read(&json!({ "spec": spec, "status": status })).is_open()
    }

    #[test]
    fn a_request_is_open_until_it_succeeds_or_uses_up_its_attempts() {
        assert!(open(None, "", 0) && open(None, "Pending", 0) && open(Some(3), "Failed", 2));
        assert!(!open(None, "Failed", 1) && !open(Some(3), "Failed", 3));
        assert!(!open(Some(3), "Succeeded", 0));
    }

    #[test]
    fn an_invalid_request_reports_the_first_invalid_field() {
        let problem = |spec| BindRequest::read(&json!({ "spec": spec })).validation_error("p");
        assert_eq!(problem(json!({ "podName": "p", "selectedNode": "n" })), None);
        assert_eq!(
            problem(json!({ "podName": "q", "selectedNode": "n" })).unwrap(),
            "spec.podName: got \"q\", expected the name of the request"
        );
        assert_eq!(
            problem(json!({ "podName": "p", "resourceClaimAllocations": [{}] })).unwrap(),
            "spec.resourceClaimAllocations[0].name: got \"\", expected the name of a claim of the pod"
        );
        let unallocated = json!([{ "name": "a", "allocation": {} }, { "name": "b" }]);
        assert_eq!(
            problem(json!({ "podName": "p", "resourceClaimAllocations": unallocated })).unwrap(),
            "spec.resourceClaimAllocations[1].allocation: got \"\", expected the allocated devices of the claim"
        );
        assert_eq!(
            problem(json!({ "podName": "p", "extendedResourceClaimAllocation": {} })).unwrap(),
            "spec.extendedResourceClaimAllocation.allocation: got \"\", expected the allocated devices of the claim"
        );
        assert_eq!(
            problem(json!({ "podName": "p", "receivedResourceType": "Banana" })).unwrap(),
            "spec.receivedResourceType: got \"Banana\", expected Regular or Fraction"
        );
        let portion = |portion: &str| json!({ "podName": "p", "selectedNode": "n", "receivedGPU": { "portion": portion } });
        assert_eq!(
            problem(portion("abc")).unwrap(),
            "spec.receivedGPU.portion: got \"abc\", expected a number from 0 to 1, for example 0.50"
        );
        assert_eq!(
            problem(portion("NaN")).unwrap(),
            "spec.receivedGPU.portion: got \"NaN\", expected a number from 0 to 1, for example 0.50"
        );
        assert_eq!((problem(portion("0.00")), problem(portion("1"))), (None, None));
        assert_eq!(
            problem(json!({ "podName": "p" })).unwrap(),
            "spec.selectedNode: got \"\", expected the name of a node"
        );
    }
}
