//! Who schedules when several of us run: the one whose name stands in a Lease, as Kubernetes'
//! own components do it. Nobody's clock is compared with anybody else's: a lease is free when
//! nothing changed in it, by our own clock, for as long as its holder said.

use std::{fmt, time::Duration};

use schedlab_json::{Value, json};
use serde::de::IgnoredAny;
use thiserror::Error;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    api::{Api, ApiError, Merge, path},
    config::Clock,
};

const LEASES: &str = "coordination.k8s.io/v1";

/// How one candidate takes part. The times are those of Kubernetes' components by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Where the lease stands.
    pub namespace: String,
    /// What it is called: candidates for one name exclude each other.
    pub name: String,
    /// What this candidate is called; no other may have the name.
    pub identity: String,
    /// How long others wait after the leader's last sign of life.
    pub lease: Duration,
    /// A leader that could not renew for so long leads no more; shorter than `lease`.
    pub renew_deadline: Duration,
    /// Time from one try to the next.
    pub retry: Duration,
}

impl Election {
    /// With 15 s, 10 s and 2 s.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }

    /// With other times.
    ///
    /// # Errors
    /// They do not allow a safe election.
    pub fn timed(
        self,
        lease: Duration,
        renew_deadline: Duration,
        retry: Duration,
    ) -> Result<Self, Unsafe> {
        if lease.subsec_nanos() != 0 || lease <= renew_deadline || renew_deadline <= retry {
            return Err(Unsafe { lease, renew_deadline, retry });
        }
        Ok(Self { lease, renew_deadline, retry, ..self })
    }
}

/// Times with which two could lead, or none for long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "leader election: lease duration {lease:?}, renew deadline {renew_deadline:?}, retry period \
     {retry:?}; allowed: whole seconds of lease, more than the deadline, more than the retry period"
)]
pub struct Unsafe {
    lease: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

/// Where a candidate stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It has not seen the lease yet.
    #[default]
    Asking,
    /// The API server does not let it see or take the lease, and why.
    Refused(String),
    /// Another one leads.
    StandingBy(String),
    /// It leads.
    Leading,
    /// It leads no more, but could not release the lease, and why: others wait until that is over.
    Unreleased(String),
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking => write!(f, "has not seen the lease yet"),
            Self::Refused(why) => write!(f, "cannot have the lease: {why}"),
            Self::StandingBy(leader) => write!(f, "stands by, {leader} leads"),
            Self::Leading => write!(f, "leads"),
            Self::Unreleased(why) => write!(f, "could not release the lease: {why}"),
        }
    }
}

/// Why a leader leads no more.
#[derive(Debug, Error)]
pub enum Lost {
    /// Somebody else's name stands in the lease.
    #[error("lost the lease {lease} to {to}")]
    Taken {
        /// Namespace and name.
        lease: String,
        /// Who has it now.
        to: String,
    },
    /// The API server did not take our sign of life in time.
    #[error("could not renew the lease {lease} for {} s: {why}", deadline.as_secs())]
    NotRenewed {
        /// Namespace and name.
        lease: String,
        /// How long.
        deadline: Duration,
        /// What it answered last.
        why: String,
    },
    /// The task that renews ended.
    #[error("the lease is renewed no more")]
    Forgotten,
}

/// Waits for the lease, then does `work` for as long as it is kept. `stop` ends both, and
/// leaves the lease to the next candidate at once.
///
/// # Errors
/// What `work` ended with, or [`Lost`].
pub async fn lead(
    client: kube::Client,
    (election, now): (Election, Clock),
    standing: watch::Sender<Standing>,
    work: impl Future<Output = anyhow::Result<()>>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let api = Api::new(client, election.identity.clone());
    let seat = Seat { api, election, now };
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        biased;
        () = &mut stop => {
            // It may have been won just now, and nobody has said so yet.
            seat.leave(&standing).await;
            return Ok(());
        }
        () = seat.win(&standing) => {}
    }
    standing.send_replace(Standing::Leading);
    // A task of its own, so that a long decision does not hold up the sign of life.
    let mut renewal = Renewal(tokio::spawn(seat.clone().keep()));
    let done = tokio::select! {
        biased;
        lost = &mut renewal.0 => return Err(lost.unwrap_or(Lost::Forgotten).into()),
        () = &mut stop => Ok(()),
        done = work => done,
    };
    renewal.end().await;
    seat.leave(&standing).await;
    done
}

/// The renewing task; it ends with its leader, or a dead one would lead on.
struct Renewal(JoinHandle<Lost>);

impl Renewal {
    /// Returns once it sends nothing more.
    async fn end(mut self) {
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
struct Seat {
    api: Api,
    election: Election,
    now: Clock,
}

/// The lease as it was last seen to change.
struct Seen {
    version: String,
    at: Instant,
}

/// How a try ended.
enum Try {
    Mine,
    Others(String),
}

impl Seat {
    /// Returns when the lease is ours.
    async fn win(&self, standing: &watch::Sender<Standing>) {
        let mut seen = None;
        loop {
            match self.take(&mut seen).await {
                Ok(Try::Mine) => return,
                Ok(Try::Others(holder)) => {
                    standing.send_replace(Standing::StandingBy(holder));
                }
                Err(error) => {
                    standing.send_replace(Standing::Refused(error.to_string()));
                }
            }
            sleep(self.election.retry).await;
        }
    }

    /// Renews until that fails for too long.
    async fn keep(self) -> Lost {
        let lease = format!("{}/{}", self.election.namespace, self.election.name);
        let mut renewed = Instant::now();
        let mut why = "no answer".to_owned();
        loop {
            sleep(self.election.retry).await;
            let began = Instant::now();
            let end = renewed + self.election.renew_deadline;
            match timeout_at(end, self.take(&mut None)).await {
                Ok(Ok(Try::Mine)) => renewed = began,
                Ok(Ok(Try::Others(to))) => return Lost::Taken { lease, to },
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => {
                    let deadline = self.election.renew_deadline;
                    return Lost::NotRenewed { lease, deadline, why };
                }
            }
        }
    }

    /// Puts our name into the lease, if it is ours, new or free.
    async fn take(&self, seen: &mut Option<Seen>) -> Result<Try, ApiError> {
        let lease = match self.api.get(&self.path()).await {
            Ok(lease) => lease,
            Err(ApiError::NotFound(_)) => return self.found().await,
            Err(error) => return Err(error),
        };
        let text = |at: &str| lease.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let holder = text("/spec/holderIdentity");
        let version = text("/metadata/resourceVersion");
        let ours = holder == self.election.identity;
        if !ours && !holder.is_empty() && !self.is_over(&lease, version, seen) {
            return Ok(Try::Others(holder.to_owned()));
        }
        let mut spec = self.spec();
        if ours {
            // The rest stands as it was.
            spec = json!({ "renewTime": spec["renewTime"] });
        } else {
            let before = lease.pointer("/spec/leaseTransitions").and_then(Value::as_i64);
            spec["leaseTransitions"] = json!(before.unwrap_or(0) + 1);
        }
        let change = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
        match self.api.patch(&self.path(), Merge::Plain, &change).await {
            Ok(IgnoredAny) => Ok(Try::Mine),
            Err(ApiError::Conflict(_)) => Ok(Try::Others("another candidate".to_owned())),
            Err(error) => Err(error),
        }
    }

    /// Did nothing change in it for as long as its holder said?
    fn is_over(&self, lease: &Value, version: &str, seen: &mut Option<Seen>) -> bool {
        let now = Instant::now();
        let since = match seen {
            Some(seen) if seen.version == version => seen.at,
            Some(_) | None => {
                *seen = Some(Seen { version: version.to_owned(), at: now });
                now
            }
        };
        let said = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_u64);
        now >= since + said.map_or(self.election.lease, Duration::from_secs)
    }

    /// The first of all leases of this name.
    async fn found(&self) -> Result<Try, ApiError> {
        let lease = json!({
            "apiVersion": LEASES,
            "kind": "Lease",
            "metadata": { "name": self.election.name, "namespace": self.election.namespace },
            "spec": self.spec(),
        });
        let all = path(LEASES, &self.election.namespace, "leases", "");
        match self.api.create(&all, &lease).await {
            Ok(IgnoredAny) => Ok(Try::Mine),
            Err(ApiError::Conflict(_)) => Ok(Try::Others("another candidate".to_owned())),
            Err(error) => Err(error),
        }
    }

    /// Lets the next one in at once. If that fails it waits for the lease to end.
    async fn leave(&self, standing: &watch::Sender<Standing>) {
        let deadline = self.election.renew_deadline;
        let release = async {
            match self.release().await {
                // The last sign of life was still under way.
                Err(ApiError::Conflict(_)) => self.release().await,
                released => released,
            }
        };
        let why = match timeout(deadline, release).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer for {} s", deadline.as_secs()),
        };
        standing.send_replace(Standing::Unreleased(why));
    }

    /// As client-go does it with `ReleaseOnCancel`: nobody holds the lease, for a second.
    async fn release(&self) -> Result<(), ApiError> {
        let lease = match self.api.get(&self.path()).await {
            Err(ApiError::NotFound(_)) => return Ok(()),
            lease => lease?,
        };
        if lease["spec"]["holderIdentity"] != *self.election.identity {
            return Ok(());
        }
        let mut spec = self.spec();
        spec["holderIdentity"] = json!("");
        spec["leaseDurationSeconds"] = json!(1);
        spec["leaseTransitions"] = lease["spec"]["leaseTransitions"].clone();
        let version = &lease["metadata"]["resourceVersion"];
        let change = json!({ "metadata": { "resourceVersion": version }, "spec": spec });
        let IgnoredAny = self.api.patch(&self.path(), Merge::Plain, &change).await?;
        Ok(())
    }

    fn spec(&self) -> Value {
        let now = (self.now)().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        json!({
            "holderIdentity": self.election.identity,
            "leaseDurationSeconds": self.election.lease.as_secs(),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        })
    }

    fn path(&self) -> String {
        path(LEASES, &self.election.namespace, "leases", &self.election.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_which_two_could_lead_are_refused() {
        let timed = |lease, deadline, retry| {
            let [lease, deadline, retry] = [lease, deadline, retry].map(Duration::from_millis);
            Election::new("ns", "name", "me").timed(lease, deadline, retry).map(|_| ())
        };
        assert_eq!(timed(15_000, 10_000, 2_000), Ok(()));
        for (lease, deadline, retry) in
            [(10_000, 10_000, 2_000), (15_000, 2_000, 2_000), (15_500, 10_000, 2_000)]
        {
            assert!(timed(lease, deadline, retry).is_err(), "{lease} {deadline} {retry}");
        }
    }
}
