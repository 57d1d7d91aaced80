//! Sends the writes of a plan: sequences of requests, several sequences at a time. Each write
//! states what its response means, so that the cache is updated in one place.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, NumaAllocation, Time};
use serde::de::IgnoredAny;
use tokio::time::Instant;
use tracing::{Instrument as _, Span, info, info_span, warn};

use super::{Applier, Event};
use crate::{
    api::{ApiClient, ApiError, PatchKind},
    cache::ClusterCache,
    concurrency::WriteLimiter,
    logging::millis,
    records::ObjectKey,
    watch::Kind,
};

/// A request to the API server, and how its response updates the cache.
pub(super) struct Write {
    pub(super) request: Request,
    pub(super) on_success: OnSuccess,
}

/// A request to the API server.
pub(super) enum Request {
    /// Creates an event. The response is ignored.
    CreateEvent {
        path: String,
        event: Vec<u8>,
    },
    /// Creates a Binding. The response is a Status, which is ignored.
    Bind {
        path: String,
        object: Value,
    },
    /// Creates an object, which the response contains.
    Create {
        path: String,
        object: Value,
    },
    Patch {
        path: String,
        merge: PatchKind,
        change: Value,
    },
    Delete {
        path: String,
        options: Value,
    },
}

/// How a successful response updates the cache.
pub(super) enum OnSuccess {
    /// The cache does not change. An event that exists already or cannot be written has no effect.
    EventWritten,
    /// The response is the object, which replaces the record in the cache.
    Observed(Kind),
    /// The pod is bound to this node, with these NUMA allocations.
    Bound(ObjectKey, Name, Vec<NumaAllocation>),
    /// The pod's BindRequest was created, so the pod has its node.
    BindRequestCreated(ObjectKey),
    /// The BindRequest of the pod is deleted.
    BindRequestDeleted(ObjectKey),
    /// The pod is terminating since this time, evicted by an action.
    Evicted { pod: ObjectKey, since: Time, cause: &'static str },
}

/// Requests that are sent one after the other. An error ends the sequence, except for an event.
pub(super) type WriteSequence = Vec<Write>;

impl Write {
    pub(super) fn create_event(event: &Event<'_>, component: &str, now: Time) -> Self {
        let (path, body) = event.to_request(component, now);
        Self::event_request(path, body)
    }

    /// The creation of an event; `create_event` is the JSON body.
    pub(super) fn event_request(path: String, event: Vec<u8>) -> Self {
        Self { request: Request::CreateEvent { path, event }, on_success: OnSuccess::EventWritten }
    }

    /// A patch of an object; the response is the patched object.
    pub(super) fn patch(kind: Kind, path: String, merge: PatchKind, change: Value) -> Self {
        Self {
            request: Request::Patch { path, merge, change },
            on_success: OnSuccess::Observed(kind),
        }
    }
}

impl OnSuccess {
    /// The tracing span of a decision; disabled for other writes.
    fn decision_span(&self) -> Span {
        match self {
            Self::Bound(pod, node, _) => info_span!("bind", %pod, %node),
            Self::BindRequestCreated(pod) => info_span!("bind_request", %pod),
            Self::Evicted { pod, cause, .. } => info_span!("evict", %pod, cause),
            Self::EventWritten | Self::Observed(_) | Self::BindRequestDeleted(_) => Span::none(),
        }
    }

    /// Logs the response to a write that carries out a decision, within its span.
    fn log_response(&self, error: Option<&ApiError>, duration: Duration) {
        let (done, failed) = match self {
            Self::Bound(..) => ("pod bound", "pod not bound"),
            Self::BindRequestCreated(_) => ("BindRequest created", "BindRequest not created"),
            Self::Evicted { .. } => ("pod evicted", "pod not evicted"),
            Self::EventWritten | Self::Observed(_) | Self::BindRequestDeleted(_) => return,
        };
        let duration_ms = millis(duration);
        match error {
            None => info!(duration_ms, "{done}"),
            Some(error) => warn!(%error, duration_ms, "{failed}"),
        }
    }
}

impl Request {
    async fn send(self, api: &ApiClient) -> Result<Value, ApiError> {
        match self {
            Self::CreateEvent { path, event } => {
                api.create_event(&path, event).await?;
                Ok(Value::Null)
            }
            Self::Bind { path, object } => {
                let IgnoredAny = api.create(&path, &object).await?;
                Ok(Value::Null)
            }
            Self::Create { path, object } => api.create(&path, &object).await,
            Self::Patch { path, merge, change } => api.patch(&path, merge, &change).await,
            Self::Delete { path, options } => api.delete(&path, &options).await,
        }
    }
}

/// How to update the cache on success, the response, and the duration of the request.
type WriteResult = (OnSuccess, Result<Value, ApiError>, Duration);

/// Sends a sequence. A write of unknown outcome sets `in_doubt`, which stops all sequences.
async fn send_sequence(
    api: &ApiClient,
    sequence: WriteSequence,
    in_doubt: &AtomicBool,
) -> Vec<WriteResult> {
    let mut responses = Vec::new();
    for Write { request, on_success } in sequence {
        if in_doubt.load(Ordering::Relaxed) {
            break;
        }
        let sent = Instant::now();
        let span = on_success.decision_span();
        let response = request.send(api).instrument(span.clone()).await;
        if matches!(response, Err(ApiError::OutcomeUnknown(_))) {
            in_doubt.store(true, Ordering::Relaxed);
        }
        let ends = response.is_err() && !matches!(on_success, OnSuccess::EventWritten);
        let duration = sent.elapsed();
        span.in_scope(|| on_success.log_response(response.as_ref().err(), duration));
        responses.push((on_success, response, duration));
        if ends {
            break;
        }
    }
    responses
}

impl Applier {
    /// Sends sequences concurrently, or in order if only one request at a time is allowed, and
    /// updates the cache.
    pub(super) async fn write(&mut self, cache: &mut ClusterCache, sequences: Vec<WriteSequence>) {
        let in_doubt = AtomicBool::new(self.outcome.in_doubt);
        let api = self.api.clone();
        let sequences = sequences.into_iter().filter(|chain| !chain.is_empty());
        let sent = sequences.map(|chain| send_sequence(&api, chain, &in_doubt));
        let mut pacing = std::mem::replace(&mut self.limiter, WriteLimiter::with_limit(1));
        let take = |responses: Vec<WriteResult>| {
            let is_binding = |(on_success, ..): &&WriteResult| {
                matches!(on_success, OnSuccess::Bound(..) | OnSuccess::BindRequestCreated(_))
            };
            self.binding_times
                .extend(responses.iter().filter(is_binding).map(|response| response.2));
            for (on_success, response, _) in responses {
                self.handle_response(cache, on_success, response);
            }
        };
        pacing.run_all(sent, take).await;
        self.limiter = pacing;
    }

    fn handle_response(
        &mut self,
        cache: &mut ClusterCache,
        on_success: OnSuccess,
        response: Result<Value, ApiError>,
    ) {
        let object = match (response, &on_success) {
            (Ok(object), _) => object,
            (Err(error @ ApiError::OutcomeUnknown(_)), _) => return self.record_failure(error),
            (Err(_), OnSuccess::EventWritten) => return,
            (Err(error), _) => {
                if let (
                    ApiError::Refused(why),
                    OnSuccess::Bound(key, ..) | OnSuccess::BindRequestCreated(key),
                ) = (&error, &on_success)
                {
                    self.refused.insert(key.clone(), why.clone());
                }
                return self.record_failure(error);
            }
        };
        match on_success {
            OnSuccess::EventWritten => {}
            OnSuccess::Observed(kind) => cache.upsert(kind, &object),
            OnSuccess::Bound(key, node, zones) => {
                cache.assume_bound(&key, &node, zones);
                self.bound.insert(key);
            }
            OnSuccess::BindRequestCreated(key) => {
                cache.upsert(Kind::BindRequest, &object);
                self.bound.insert(key);
            }
            OnSuccess::BindRequestDeleted(key) => cache.drop_bind_request(key),
            OnSuccess::Evicted { pod, since, cause: _ } => {
                if object["kind"] == "Pod" {
                    cache.upsert(Kind::Pod, &object);
                }
                cache.assume_releasing(&pod, since);
            }
        }
    }

    /// Records an API error in the outcome of the cycle.
    pub(super) fn record_failure(&mut self, error: ApiError) {
        self.outcome.retry = true;
        match error {
            // The object has changed; the watch reports it and the next cycle decides again.
            ApiError::NotFound(_) | ApiError::Conflict(_) | ApiError::Gone(_) => {}
            ApiError::Refused(message) => self.outcome.failure = Some(message),
            ApiError::OutcomeUnknown(error) => {
                self.outcome.in_doubt = true;
                self.outcome.failure = Some(error.to_string());
            }
        }
    }
}
