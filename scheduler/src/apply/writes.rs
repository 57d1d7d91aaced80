//! How plans reach the server: chains of requests, one after the other inside a chain, several
//! chains at once. What every answer means is said by who asks, so that the mirror is brought up
//! to date in one place.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, Time, ZoneShare};
use serde::de::IgnoredAny;
use tokio::time::Instant;

use super::{Applier, Event};
use crate::{
    api::{Api, ApiError, Merge},
    mirror::{Key, Mirror},
    pacing::Pacing,
    watch::Kind,
};

/// One request.
pub(super) struct Write {
    pub(super) call: Call,
    pub(super) then: Then,
}

/// What is asked.
pub(super) enum Call {
    /// An event. Nobody reads the answer.
    Tell {
        path: String,
        event: Vec<u8>,
    },
    /// It is answered with a `Status`, which nobody reads.
    Bind {
        path: String,
        object: Value,
    },
    /// The object is known from then on.
    Make {
        path: String,
        object: Value,
    },
    Patch {
        path: String,
        merge: Merge,
        change: Value,
    },
    Delete {
        path: String,
        options: Value,
    },
}

/// What its answer means.
pub(super) enum Then {
    /// An event: that it is there already, or cannot be written, changes nothing.
    Told,
    /// The object stands as answered.
    Stands(Kind),
    /// The pod holds its node, and so much of its zones.
    Bound(Key, Name, Vec<ZoneShare>),
    /// The pod holds the place that its BindRequest names.
    Requested(Key),
    /// The pod's BindRequest is gone.
    Cleared(Key),
    /// The pod leaves, from this moment on.
    Leaving(Key, Time),
}

/// Requests that are sent one after the other; a refusal ends them, unless it is an event's.
pub(super) type Chain = Vec<Write>;

impl Write {
    pub(super) fn event(event: &Event<'_>, component: &str, now: Time) -> Self {
        Self::told(event.request(component, now))
    }

    /// Path and body of an event.
    pub(super) fn told((path, event): (String, Vec<u8>)) -> Self {
        Self { call: Call::Tell { path, event }, then: Then::Told }
    }

    /// A patch whose answer is the object as it stands now.
    pub(super) fn patch(kind: Kind, path: String, merge: Merge, change: Value) -> Self {
        Self { call: Call::Patch { path, merge, change }, then: Then::Stands(kind) }
    }
}

impl Call {
    async fn send(self, api: &Api) -> Result<Value, ApiError> {
        match self {
            Self::Tell { path, event } => {
                api.tell(&path, event).await?;
                Ok(Value::Null)
            }
            Self::Bind { path, object } => {
                let IgnoredAny = api.create(&path, &object).await?;
                Ok(Value::Null)
            }
            Self::Make { path, object } => api.create(&path, &object).await,
            Self::Patch { path, merge, change } => api.patch(&path, merge, &change).await,
            Self::Delete { path, options } => api.delete(&path, &options).await,
        }
    }
}

/// And how long it took.
type Answer = (Then, Result<Value, ApiError>, Duration);

/// Sends a chain. Once nobody knows how the cluster stands, nothing more is written.
async fn send(api: &Api, chain: Chain, in_doubt: &AtomicBool) -> Vec<Answer> {
    let mut answers = Vec::new();
    for Write { call, then } in chain {
        if in_doubt.load(Ordering::Relaxed) {
            break;
        }
        let sent = Instant::now();
        let answer = call.send(api).await;
        if matches!(answer, Err(ApiError::Unknown(_))) {
            in_doubt.store(true, Ordering::Relaxed);
        }
        let ends = answer.is_err() && !matches!(then, Then::Told);
        answers.push((then, answer, sent.elapsed()));
        if ends {
            break;
        }
    }
    answers
}

impl Applier {
    /// Sends chains, in their order where only one is under way at a time.
    pub(super) async fn write(&mut self, mirror: &mut Mirror, chains: Vec<Chain>) {
        let in_doubt = AtomicBool::new(self.outcome.in_doubt);
        let api = self.api.clone();
        let chains = chains.into_iter().filter(|chain| !chain.is_empty());
        let sent = chains.map(|chain| send(&api, chain, &in_doubt));
        let mut pacing = std::mem::replace(&mut self.pacing, Pacing::up_to(1));
        let take = |answers: Vec<Answer>| {
            let is_binding =
                |(then, ..): &&Answer| matches!(then, Then::Bound(..) | Then::Requested(_));
            self.binding_times.extend(answers.iter().filter(is_binding).map(|answer| answer.2));
            for (then, answer, _) in answers {
                self.take(mirror, then, answer);
            }
        };
        pacing.all(sent, take).await;
        self.pacing = pacing;
    }

    fn take(&mut self, mirror: &mut Mirror, then: Then, answer: Result<Value, ApiError>) {
        let object = match (answer, &then) {
            (Ok(object), _) => object,
            (Err(error @ ApiError::Unknown(_)), _) => return self.failed(error),
            (Err(_), Then::Told) => return,
            (Err(error), _) => {
                if let (ApiError::Refused(why), Then::Bound(key, ..) | Then::Requested(key)) =
                    (&error, &then)
                {
                    self.refused.insert(key.clone(), why.clone());
                }
                return self.failed(error);
            }
        };
        match then {
            Then::Told => {}
            Then::Stands(kind) => mirror.upsert(kind, &object),
            Then::Bound(key, node, zones) => {
                mirror.assume_bound(&key, &node, zones);
                self.bound.insert(key);
            }
            Then::Requested(key) => {
                mirror.upsert(Kind::BindRequest, &object);
                self.bound.insert(key);
            }
            Then::Cleared(key) => mirror.forget_request(key),
            Then::Leaving(key, now) => {
                if object["kind"] == "Pod" {
                    mirror.upsert(Kind::Pod, &object);
                }
                mirror.assume_leaving(&key, now);
            }
        }
    }

    /// What happened is remembered.
    pub(super) fn failed(&mut self, error: ApiError) {
        self.outcome.retry = true;
        match error {
            // It changed under our hands; the watch tells, and the next cycle decides.
            ApiError::NotFound(_) | ApiError::Conflict(_) | ApiError::Gone(_) => {}
            ApiError::Refused(message) => self.outcome.failure = Some(message),
            ApiError::Unknown(error) => {
                self.outcome.in_doubt = true;
                self.outcome.failure = Some(error.to_string());
            }
        }
    }
}
