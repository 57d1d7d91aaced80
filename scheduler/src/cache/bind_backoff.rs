//! Backoff of pods whose binding failed. In its backoff a pod has no node: it uses no capacity, and
//! pods behind it are placed. The delay doubles with each failure. A change of the cluster that may
//! have removed the cause ends a long backoff early, as in kube-scheduler.

use std::{collections::BTreeMap, time::Duration};

use schedlab_scheduler_core::model::{Name, Time};

use super::{ClusterCache, bind_failures::bind_failure_condition};
use crate::records::{ObjectKey, PodRecord};

/// Maximum delay between two attempts to bind a pod.
const BACKOFF_MAX: Duration = Duration::from_mins(5);

/// Minimum backoff after a failure, even if the cluster changes: a cluster that changes all the
/// time must cause no busy loop. The length is the maximum delay of kube-scheduler.
const BACKOFF_LEFT_AFTER_CHANGE: Duration = Duration::from_secs(10);

/// Number of failures that is assumed of a pod that an earlier scheduler could not bind: a
/// restarted scheduler does not try such pods at once.
const FAILURES_BEFORE_RESTART: u32 = 4;

/// The backoff after this many failures: 1 s after the first, doubled after each further one, up to
/// [`BACKOFF_MAX`].
pub(crate) fn bind_backoff(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.saturating_sub(1).min(16)).min(BACKOFF_MAX)
}

/// The backoffs of all pods whose last binding failed.
#[derive(Debug, Default)]
pub(super) struct BindBackoffs {
    pods: BTreeMap<ObjectKey, BindBackoff>,
    /// Whether the conditions that an earlier scheduler wrote have been read.
    is_seeded: bool,
    /// Whether the cluster changed since the last update in a way that may let a binding succeed.
    pub(super) cluster_changed: bool,
}

#[derive(Debug)]
struct BindBackoff {
    pod_uid: Name,
    failures: u32,
    failed_at: Time,
    /// When the next attempt may begin.
    until: Time,
    is_over: bool,
    /// The error of the last attempt.
    message: Name,
    /// UID of the BindRequest that failed last, so that it counts once.
    request_uid: Option<Name>,
}

impl ClusterCache {
    /// The error for which the pod is in its backoff; `None`: the pod may be bound.
    pub(crate) fn bind_backoff_message(&self, key: &ObjectKey, pod: &PodRecord) -> Option<Name> {
        let backoff = self.bind_backoffs.pods.get(key)?;
        if backoff.is_over || backoff.pod_uid != pod.uid || !pod.is_waiting() {
            return None;
        }
        // The binder reports the error on the pod, with more detail than on the request.
        let reported = bind_failure_condition(pod).map(|condition| Name::clone(&condition.message));
        Some(reported.unwrap_or_else(|| Name::clone(&backoff.message)))
    }

    /// Pods that are in their backoff.
    pub(crate) fn pods_in_bind_backoff(&self) -> impl Iterator<Item = &ObjectKey> {
        self.bind_backoffs.pods.iter().filter(|(_, backoff)| !backoff.is_over).map(|(key, _)| key)
    }

    /// Starts the backoff of a pod whose binding was refused now.
    pub(crate) fn record_bind_failure(&mut self, key: &ObjectKey, message: &str, now: Time) {
        self.start_bind_backoff(key, 1, message, now, None);
    }

    /// Time until the next pod leaves its backoff.
    pub(crate) fn next_bind_attempt(&self, now: Time) -> Option<Duration> {
        let waiting = self.bind_backoffs.pods.values().filter(|backoff| !backoff.is_over);
        waiting.map(|backoff| backoff.until.elapsed_since(now)).min()
    }

    /// Updates all backoffs before a cycle: starts those of pods whose BindRequest has failed for
    /// good, and ends those whose time is over.
    pub(crate) fn update_bind_backoffs(&mut self, now: Time) {
        let pods = &self.pods;
        self.bind_backoffs.pods.retain(|key, backoff| {
            pods.get(key).is_some_and(|pod| {
                let is_bound = pod.node.is_some() && !pod.is_bind_requested();
                pod.uid == backoff.pod_uid && !is_bound && pod.releasing_since.is_none()
            })
        });
        self.start_backoffs_of_exhausted_requests(now);
        if !std::mem::replace(&mut self.bind_backoffs.is_seeded, true) {
            self.seed_bind_backoffs(now);
        }
        let has_changed = std::mem::take(&mut self.bind_backoffs.cluster_changed);
        let mut over = Vec::new();
        for (key, backoff) in &mut self.bind_backoffs.pods {
            let least =
                Time(backoff.failed_at.0.saturating_add(to_millis(BACKOFF_LEFT_AFTER_CHANGE)));
            if has_changed && !backoff.is_over {
                backoff.until = backoff.until.min(least);
            }
            if !backoff.is_over && backoff.until <= now {
                backoff.is_over = true;
                over.push(key.clone());
            }
        }
        for key in over {
            self.pod_changed(key);
        }
    }

    fn start_backoffs_of_exhausted_requests(&mut self, now: Time) {
        let failed: Vec<(ObjectKey, Name, Name)> = self
            .bind_requests
            .iter()
            .filter(|(_, request)| request.is_exhausted)
            .filter(|(key, request)| {
                let backoff = self.bind_backoffs.pods.get(*key);
                let counted = backoff.and_then(|backoff| backoff.request_uid.as_ref());
                let is_of = |pod: &PodRecord| pod.is_ours && request.is_for_pod_uid(&pod.uid);
                counted != Some(&request.uid) && self.pods.get(*key).is_some_and(is_of)
            })
            .map(|(key, request)| {
                (key.clone(), Name::clone(&request.uid), request.failure_message(key))
            })
            .collect();
        for (key, uid, message) in failed {
            self.start_bind_backoff(&key, 1, &message, now, Some(uid));
        }
    }

    /// Starts the backoffs of pods that an earlier scheduler could not bind.
    fn seed_bind_backoffs(&mut self, now: Time) {
        let failed = self.pods.iter().filter_map(|(key, pod)| {
            let condition = bind_failure_condition(pod).filter(|_| pod.is_ours && pod.is_waiting());
            Some((key.clone(), Name::clone(&condition?.message)))
        });
        let known = |key: &ObjectKey| self.bind_backoffs.pods.contains_key(key);
        let failed: Vec<_> = failed.filter(|(key, _)| !known(key)).collect();
        for (key, message) in failed {
            self.start_bind_backoff(&key, FAILURES_BEFORE_RESTART, &message, now, None);
        }
    }

    fn start_bind_backoff(
        &mut self,
        key: &ObjectKey,
        more: u32,
        message: &str,
        now: Time,
        request_uid: Option<Name>,
    ) {
        let Some(pod) = self.pods.get(key) else { return };
        let previous = self.bind_backoffs.pods.get(key).filter(|it| it.pod_uid == pod.uid);
        let failures = previous.map_or(0, |backoff| backoff.failures).saturating_add(more);
        let backoff = BindBackoff {
            pod_uid: Name::clone(&pod.uid),
            failures,
            failed_at: now,
            until: Time(now.0.saturating_add(to_millis(bind_backoff(failures)))),
            is_over: false,
            message: message.into(),
            request_uid,
        };
        self.bind_backoffs.pods.insert(key.clone(), backoff);
        self.pod_changed(key.clone());
    }
}

fn to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use schedlab_api::{Value, json};

    use super::*;
    use crate::watch::Kind;

    const AT: i64 = 1_000_000;

    fn key() -> ObjectKey {
        ObjectKey { namespace: "ns".into(), name: "p".into() }
    }

    fn pod(version: u64, conditions: &Value) -> Value {
        json!({
            "metadata": { "namespace": "ns", "name": "p", "uid": "u",
                "resourceVersion": version.to_string() },
            "spec": { "schedulerName": "kai-scheduler", "containers": [{ "name": "main" }] },
            "status": { "conditions": conditions },
        })
    }

    fn is_waiting(cache: &ClusterCache) -> bool {
        cache.bind_backoff_message(&key(), &cache.pods[&key()]).is_some()
    }

    /// Whether the pod is in its backoff after this time.
    fn waits_at(cache: &mut ClusterCache, secs: i64) -> bool {
        cache.update_bind_backoffs(Time(AT + secs * 1000));
        is_waiting(cache)
    }

    #[test]
    fn the_delay_doubles_up_to_a_maximum() {
        let secs = [1, 2, 3, 4, 9, 10, 1000, u32::MAX, 0].map(|at| bind_backoff(at).as_secs());
        assert_eq!(secs, [1, 2, 4, 8, 256, 300, 300, 300, 1]);
    }

    #[test]
    fn a_refused_pod_waits_longer_after_each_failure() {
        let mut cache = ClusterCache::from_objects(&[pod(1, &json!([]))]);
        assert!(!waits_at(&mut cache, 0));
        cache.record_bind_failure(&key(), "denied", Time(AT));
        assert!(waits_at(&mut cache, 0));
        assert_eq!(cache.next_bind_attempt(Time(AT)), Some(Duration::from_secs(1)));
        assert!(!waits_at(&mut cache, 1));
        cache.record_bind_failure(&key(), "denied", Time(AT + 1000));
        assert!(waits_at(&mut cache, 2));
        assert!(!waits_at(&mut cache, 3));
        assert_eq!(cache.next_bind_attempt(Time(AT)), None);
    }

    #[test]
    fn a_change_of_the_cluster_ends_a_long_backoff_early() {
        let mut cache = ClusterCache::from_objects(&[pod(1, &json!([]))]);
        cache.update_bind_backoffs(Time(AT));
        for _ in 0..8 {
            cache.record_bind_failure(&key(), "denied", Time(AT));
        }
        let namespace = json!({ "metadata": { "name": "new", "labels": {} } });
        cache.upsert(Kind::Namespace, &namespace);
        assert!(waits_at(&mut cache, 9));
        assert!(!waits_at(&mut cache, 10));
    }

    #[test]
    fn a_restarted_scheduler_does_not_try_an_unbindable_pod_at_once() {
        let failed = json!([{ "type": "PodScheduled", "status": "False",
            "reason": "BindingError", "message": "denied" }]);
        let mut cache = ClusterCache::from_objects(&[pod(1, &failed)]);
        assert!(waits_at(&mut cache, 0));
        assert!(waits_at(&mut cache, 7));
        assert!(!waits_at(&mut cache, 8));
        cache.record_bind_failure(&key(), "denied", Time(AT + 8000));
        assert!(waits_at(&mut cache, 23));
    }

    #[test]
    fn an_exhausted_request_counts_as_one_failure() {
        let mut cache = ClusterCache::from_objects(&[pod(1, &json!([]))]);
        cache.update_bind_backoffs(Time(AT));
        let request = |uid: &str, version: u64| {
            json!({
                "metadata": { "namespace": "ns", "name": "p", "uid": uid,
                    "resourceVersion": version.to_string() },
                "spec": { "podName": "p", "selectedNode": "n" },
                "status": { "phase": "Failed", "failedAttempts": 1, "reason": "no such device" },
            })
        };
        cache.upsert(Kind::BindRequest, &request("r1", 2));
        assert!(waits_at(&mut cache, 0));
        assert!(!waits_at(&mut cache, 1), "the request is still there");
        cache.upsert(Kind::BindRequest, &request("r2", 3));
        assert!(waits_at(&mut cache, 2));
        assert!(!waits_at(&mut cache, 4));
    }
}
