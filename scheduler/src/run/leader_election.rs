//! Leader election by a Lease, as in Kubernetes' own components: of several replicas only the
//! holder schedules. Clocks are not compared between machines: a lease is expired if it did not
//! change for its duration, measured by the local clock.

use std::{fmt, time::Duration};

use schedlab_api::{Value, json};
use serde::de::IgnoredAny;
use thiserror::Error;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    config::Clock,
};

const LEASE_API_VERSION: &str = "coordination.k8s.io/v1";

/// Settings of one candidate. Default timings are those of Kubernetes' components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionConfig {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease; of all candidates for one lease, at most one leads.
    pub name: String,
    /// Unique identity of this candidate.
    pub identity: String,
    /// Time after the last renewal for which other candidates wait.
    pub lease_duration: Duration,
    /// Time without successful renewal after which a leader stops leading; less than
    /// `lease_duration`.
    pub renew_deadline: Duration,
    /// Time between two tries to acquire or renew the lease.
    pub retry_period: Duration,
}

impl ElectionConfig {
    /// Settings with lease duration 15 s, renew deadline 10 s and retry period 2 s.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Sets other timings.
    ///
    /// # Errors
    /// Two candidates could lead at once with these timings.
    pub fn with_timings(
        self,
        lease: Duration,
        renew_deadline: Duration,
        retry: Duration,
    ) -> Result<Self, InvalidTimings> {
        if lease.subsec_nanos() != 0 || lease <= renew_deadline || renew_deadline <= retry {
            return Err(InvalidTimings { lease, renew_deadline, retry });
        }
        Ok(Self { lease_duration: lease, renew_deadline, retry_period: retry, ..self })
    }
}

/// Timings with which two candidates could lead at once, or none for long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "leader election: got lease duration {lease:?}, renew deadline {renew_deadline:?}, retry period \
     {retry:?}, expected a lease duration in whole seconds, above the renew deadline, which is \
     above the retry period"
)]
pub struct InvalidTimings {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// State of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeaderState {
    /// The candidate has not read the lease yet.
    #[default]
    Acquiring,
    /// The API server denies access to the lease, with this message.
    Rejected(String),
    /// Another candidate leads, with this identity.
    Standby(String),
    /// This candidate leads.
    Leading,
    /// This candidate stopped leading but could not release the lease, with this error. Other
    /// candidates wait until the lease expires.
    ReleaseFailed(String),
}

impl fmt::Display for LeaderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquiring => write!(f, "this candidate has not read the lease yet"),
            Self::Rejected(why) => write!(f, "cannot acquire the lease: {why}"),
            Self::Standby(leader) => write!(f, "standing by, {leader} leads"),
            Self::Leading => write!(f, "leads"),
            Self::ReleaseFailed(why) => write!(f, "could not release the lease: {why}"),
        }
    }
}

/// Why a leader lost the lease.
#[derive(Debug, Error)]
pub enum LeadershipLost {
    /// Another candidate holds the lease.
    #[error("lost the lease {lease} to {holder}")]
    TakenOver {
        /// Namespace and name of the lease.
        lease: String,
        /// Identity of the new holder.
        holder: String,
    },
    /// No renewal succeeded within the deadline.
    #[error("could not renew the lease {lease} for {} s: {why}", deadline.as_secs())]
    RenewalTimedOut {
        /// Namespace and name of the lease.
        lease: String,
        /// The renew deadline.
        deadline: Duration,
        /// The last error.
        why: String,
    },
    /// The renewal task ended unexpectedly.
    #[error("the lease renewal stopped unexpectedly")]
    RenewalStopped,
}

/// Acquires the lease, then runs `work` while renewing it. `stop` ends both and releases the lease,
/// so that the next candidate can acquire it at once.
///
/// # Errors
/// The error of `work`, or [`LeadershipLost`].
pub async fn lead(
    client: kube::Client,
    election: ElectionConfig,
    now: Clock,
    state: watch::Sender<LeaderState>,
    work: impl Future<Output = anyhow::Result<()>>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let api = ApiClient::new(client, election.identity.clone());
    let elector = Elector { api, election, now };
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        biased;
        () = &mut stop => {
            // It may have been acquired just now.
            elector.release_within_deadline(&state).await;
            return Ok(());
        }
        () = elector.acquire(&state) => {}
    }
    state.send_replace(LeaderState::Leading);
    // A task of its own, so that a long decision does not delay renewals.
    let mut renewal = Renewal(tokio::spawn(elector.clone().renew()));
    let done = tokio::select! {
        biased;
        lost = &mut renewal.0 => return Err(lost.unwrap_or(LeadershipLost::RenewalStopped).into()),
        () = &mut stop => Ok(()),
        done = work => done,
    };
    renewal.abort_and_wait().await;
    elector.release_within_deadline(&state).await;
    done
}

/// The task that renews the lease. Dropping it aborts the task, so that an ended process does not
/// keep the lease.
struct Renewal(JoinHandle<LeadershipLost>);

impl Renewal {
    /// Aborts the renewal task and waits until it sends no more requests.
    async fn abort_and_wait(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone)]
struct Elector {
    api: ApiClient,
    election: ElectionConfig,
    now: Clock,
}

/// Version of the lease, and when it was first observed.
struct ObservedLease {
    version: String,
    at: Instant,
}

/// Result of a try to acquire or renew the lease.
enum LeaseAttempt {
    Held,
    HeldByOther(String),
}

impl Elector {
    /// Tries to acquire the lease, and returns when it is acquired.
    async fn acquire(&self, state: &watch::Sender<LeaderState>) {
        let mut observed = None;
        loop {
            match self.try_acquire_or_renew(&mut observed).await {
                Ok(LeaseAttempt::Held) => return,
                Ok(LeaseAttempt::HeldByOther(holder)) => {
                    state.send_replace(LeaderState::Standby(holder));
                }
                Err(error) => {
                    state.send_replace(LeaderState::Rejected(error.to_string()));
                }
            }
            sleep(self.election.retry_period).await;
        }
    }

    /// Renews the lease until it is lost.
    async fn renew(self) -> LeadershipLost {
        let lease = format!("{}/{}", self.election.namespace, self.election.name);
        let mut renewed = Instant::now();
        let mut why = "no answer".to_owned();
        loop {
            sleep(self.election.retry_period).await;
            let began = Instant::now();
            let end = renewed + self.election.renew_deadline;
            match timeout_at(end, self.try_acquire_or_renew(&mut None)).await {
                Ok(Ok(LeaseAttempt::Held)) => renewed = began,
                Ok(Ok(LeaseAttempt::HeldByOther(to))) => {
                    return LeadershipLost::TakenOver { lease, holder: to };
                }
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => {
                    let deadline = self.election.renew_deadline;
                    return LeadershipLost::RenewalTimedOut { lease, deadline, why };
                }
            }
        }
    }

    /// Writes our identity into the lease if we hold it, or if it is missing, released or expired.
    async fn try_acquire_or_renew(
        &self,
        observed: &mut Option<ObservedLease>,
    ) -> Result<LeaseAttempt, ApiError> {
        let lease = match self.api.get(&self.lease_path()).await {
            Ok(lease) => lease,
            Err(ApiError::NotFound(_)) => return self.create_lease().await,
            Err(error) => return Err(error),
        };
        let text = |at: &str| lease.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let holder = text("/spec/holderIdentity");
        let version = text("/metadata/resourceVersion");
        let ours = holder == self.election.identity;
        if !ours && !holder.is_empty() && !self.is_expired(&lease, version, observed) {
            return Ok(LeaseAttempt::HeldByOther(holder.to_owned()));
        }
        let mut spec = self.lease_spec();
        if ours {
            // Other fields stay as they are.
            spec = json!({ "renewTime": spec["renewTime"] });
        } else {
            let before = lease.pointer("/spec/leaseTransitions").and_then(Value::as_i64);
            spec["leaseTransitions"] = json!(before.unwrap_or(0) + 1);
        }
        let change = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
        match self.api.patch(&self.lease_path(), PatchKind::Merge, &change).await {
            Ok(IgnoredAny) => Ok(LeaseAttempt::Held),
            Err(ApiError::Conflict(_)) => {
                Ok(LeaseAttempt::HeldByOther("another candidate".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the lease did not change for its duration, measured by our own clock.
    fn is_expired(
        &self,
        lease: &Value,
        version: &str,
        observed: &mut Option<ObservedLease>,
    ) -> bool {
        let now = Instant::now();
        let since = match observed {
            Some(observed) if observed.version == version => observed.at,
            Some(_) | None => {
                *observed = Some(ObservedLease { version: version.to_owned(), at: now });
                now
            }
        };
        let duration = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        now >= since + duration.map_or(self.election.lease_duration, Duration::from_secs)
    }

    /// Creates the lease.
    async fn create_lease(&self) -> Result<LeaseAttempt, ApiError> {
        let lease = json!({
            "apiVersion": LEASE_API_VERSION,
            "kind": "Lease",
            "metadata": { "name": self.election.name, "namespace": self.election.namespace },
            "spec": self.lease_spec(),
        });
        let all = object_path(LEASE_API_VERSION, &self.election.namespace, "leases", "");
        match self.api.create(&all, &lease).await {
            Ok(IgnoredAny) => Ok(LeaseAttempt::Held),
            Err(ApiError::Conflict(_)) => {
                Ok(LeaseAttempt::HeldByOther("another candidate".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Releases the lease within the renew deadline. After a failure other candidates wait until
    /// the lease expires.
    async fn release_within_deadline(&self, state: &watch::Sender<LeaderState>) {
        let deadline = self.election.renew_deadline;
        let release = async {
            match self.release_lease().await {
                // The last renewal was still in flight.
                Err(ApiError::Conflict(_)) => self.release_lease().await,
                released => released,
            }
        };
        let why = match timeout(deadline, release).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the API server did not answer for {} s", deadline.as_secs()),
        };
        state.send_replace(LeaderState::ReleaseFailed(why));
    }

    /// Clears the holder of the lease, like client-go with `ReleaseOnCancel`.
    async fn release_lease(&self) -> Result<(), ApiError> {
        let lease = match self.api.get(&self.lease_path()).await {
            Err(ApiError::NotFound(_)) => return Ok(()),
            lease => lease?,
        };
        if lease["spec"]["holderIdentity"] != *self.election.identity {
            return Ok(());
        }
        let mut spec = self.lease_spec();
        spec["holderIdentity"] = json!("");
        spec["leaseDurationSeconds"] = json!(1);
        spec["leaseTransitions"] = lease["spec"]["leaseTransitions"].clone();
        let version = &lease["metadata"]["resourceVersion"];
        let change = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
        let IgnoredAny = self.api.patch(&self.lease_path(), PatchKind::Merge, &change).await?;
        Ok(())
    }

    fn lease_spec(&self) -> Value {
        let now = (self.now)().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        json!({
            "holderIdentity": self.election.identity,
            "leaseDurationSeconds": self.election.lease_duration.as_secs(),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        })
    }

    fn lease_path(&self) -> String {
        object_path(LEASE_API_VERSION, &self.election.namespace, "leases", &self.election.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_lease_timings_are_rejected() {
        let timed = |lease, deadline, retry| {
            let [lease, deadline, retry] = [lease, deadline, retry].map(Duration::from_millis);
            ElectionConfig::new("ns", "name", "me").with_timings(lease, deadline, retry).map(|_| ())
        };
        assert_eq!(timed(15_000, 10_000, 2_000), Ok(()));
        for (lease, deadline, retry) in
            [(10_000, 10_000, 2_000), (15_000, 2_000, 2_000), (15_500, 10_000, 2_000)]
        {
            assert!(timed(lease, deadline, retry).is_err(), "{lease} {deadline} {retry}");
        }
    }
}
