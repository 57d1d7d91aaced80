//! Devices that a driver prepares after their allocation: a pod is bound when the binding
//! conditions of its devices are true. If one fails, or the time is over, the claim is deallocated
//! and the pod gives up its node for a backoff. No state is kept: the claim has the allocation and
//! its time.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use schedlab_scheduler_core::{
    Decision,
    model::{PodGroupId, Time},
};

use super::{
    Applier, Cycle,
    claims::{ClaimConsumers, claim_status_write},
};
use crate::{
    cache::ClusterCache,
    dra::{BindingState, ClaimRecord, claim_patches::released_status},
    records::ObjectKey,
};

/// Time limit for the preparation of devices, as in kube-scheduler.
const DEVICE_BINDING_TIMEOUT: Duration = Duration::from_mins(10);

impl Applier {
    /// Deallocates claims whose devices cannot be prepared. Returns the pod groups that waited for
    /// them.
    pub(super) async fn give_up_devices(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
    ) -> BTreeSet<Option<PodGroupId>> {
        let claims = cache.resource_claims.claims.iter();
        let given_up: Vec<(ObjectKey, String)> = claims
            .filter(|(key, claim)| claim.is_reserved_for_waiting_pods(key, &cache.pods))
            .filter_map(|(key, claim)| Some((key.clone(), failure(claim, cycle.now)?)))
            .collect();
        let mut users = BTreeSet::new();
        for (claim, why) in &given_up {
            for pod in cache.resource_claims.waiting_users(claim, &cache.pods) {
                let message =
                    format!("Failed to bind pod {pod}. ResourceClaim {}: {why}", claim.name);
                cache.record_bind_failure(&pod, &message, cycle.now);
                users.insert(pod);
            }
        }
        let free = released_status();
        let chains = given_up.iter().filter_map(|(key, _)| {
            let claim = cache.resource_claims.claims.get(key)?;
            Some(vec![claim_status_write(key, claim, &free)])
        });
        let chains = chains.collect();
        self.write(cache, chains).await;
        self.outcome.retry |= !given_up.is_empty();
        let bound = cycle.plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Bind { pod, .. } => Some(*pod),
            Decision::Evict { .. } | Decision::Pipeline { .. } => None,
        });
        let bound = bound.filter(|pod| users.contains(&cycle.key(*pod)));
        bound.map(|pod| cycle.group(pod)).collect()
    }

    /// The pod groups that wait until their devices are prepared.
    pub(super) fn wait_for_devices(
        &mut self,
        cache: &ClusterCache,
        cycle: &Cycle<'_>,
        uses: &BTreeMap<ObjectKey, ClaimConsumers>,
    ) -> BTreeSet<Option<PodGroupId>> {
        self.device_deadlines.clear();
        let mut waiting = BTreeSet::new();
        for (key, users) in uses {
            let claim = cache.resource_claims.claims.get(key);
            let Some(BindingState::Pending { device, condition, since }) =
                claim.map(|claim| &claim.binding)
            else {
                continue;
            };
            self.device_deadlines
                .extend(since.map(|since| since.plus_duration(DEVICE_BINDING_TIMEOUT)));
            for (pod, node) in users {
                let node = &cycle.snapshot.nodes[node.0 as usize].name;
                let text = format!(
                    "Waits on node {node} for device {device} of ResourceClaim {}: condition \
                     {condition} is not true",
                    key.name
                );
                self.held_messages.insert(cycle.key(*pod), text);
                waiting.insert(cycle.group(*pod));
            }
        }
        self.outcome.waits_for_others |= !waiting.is_empty();
        waiting
    }

    /// Time until the first pod gives up waiting for its devices.
    pub(super) fn next_device_timeout(&self, now: Time) -> Option<Duration> {
        self.device_deadlines.iter().map(|deadline| deadline.elapsed_since(now)).min()
    }
}

/// Why pods that have the claim cannot be bound.
fn failure(claim: &ClaimRecord, now: Time) -> Option<String> {
    match &claim.binding {
        BindingState::Unconditional | BindingState::Ready => None,
        BindingState::Failed { device, condition, message } => {
            Some(format!("condition {condition} of device {device} is true: {message}"))
        }
        BindingState::Pending { device, condition, since } => {
            let is_over =
                since.is_some_and(|since| now.elapsed_since(since) >= DEVICE_BINDING_TIMEOUT);
            let secs = DEVICE_BINDING_TIMEOUT.as_secs();
            is_over.then(|| {
                format!("condition {condition} of device {device} was not true within {secs} s")
            })
        }
    }
}
