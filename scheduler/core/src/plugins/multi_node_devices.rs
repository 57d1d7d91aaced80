//! Devices that several nodes can use: a pod fits on nodes that can use the allocated devices of its
//! claims. Claims that are not allocated are left to [`super::DeviceAllocation`].

use crate::{
    framework::{Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{DeviceClaim, DeviceReach, Name, Node, PodId},
    reason::{DeviceFitError, FitError},
};

/// Rejects nodes that cannot use the multi-node devices that are allocated to the pod's claims.
#[derive(Debug)]
pub(super) struct MultiNodeDevices;

impl Filter for MultiNodeDevices {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let claims = &session.shape_of(pod).claims;
        let is_allocated = |claim: &DeviceClaim| matches!(claim.reach, DeviceReach::Allocated(_));
        claims.iter().any(is_allocated).then(|| {
            let filter = move |node| {
                let node = session.node(node);
                claims.iter().try_for_each(|claim| check_device_reach(claim, node))?;
                Ok(Fit::Now)
            };
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

/// Checks that the node can use the devices that are allocated to the claim.
fn check_device_reach(claim: &DeviceClaim, node: &Node) -> Result<(), FitError> {
    let DeviceReach::Allocated(Some(terms)) = &claim.reach else { return Ok(()) };
    if terms.iter().any(|term| term.matches_node(node)) {
        return Ok(());
    }
    Err(FitError::Devices(DeviceFitError::ClaimOnOtherNode(Name::clone(&claim.name))))
}
