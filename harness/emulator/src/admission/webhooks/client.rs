//! Calls admission webhooks. The store does no IO: a write that needs a webhook's verdict ends
//! without effect and returns the pending calls; this module makes the calls and tries the write
//! again with the verdicts. The store stays unlocked meanwhile.
//!
//! A webhook with a `url` is called over TLS and in real time, while virtual time stands still. A
//! webhook with a `service` reaches only handlers that were registered in this process; the
//! emulator has no service network.

mod post;
mod target;
mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};

use crate::admission::webhooks;
use crate::api_types::error::ApiError;
use crate::api_types::resource::Resource;
use crate::store::shared::SharedStore;
use crate::store::{
    CompletedCall, Key, ListQuery, Object, PendingCall, RuleEvaluation, Store, WebhookContext,
    WebhookVerdict, Write, WriteError, WriteOutcome,
};
use schedlab_api::{Value, object};

use target::Target;

/// The maximum number of attempts of a write if the object keeps changing between its attempts.
const ATTEMPTS_MAX: usize = 100;

/// A webhook handler in this process: takes the URL path and the `AdmissionReview`, returns the
/// `AdmissionReview` with the response.
pub type ServiceHandler = Arc<dyn Fn(String, Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Namespace and name of a service.
type ServiceKey = (String, String);

/// The webhook handlers of this process. Clones share them.
#[derive(Clone, Default)]
pub struct Webhooks {
    services: Arc<Mutex<BTreeMap<ServiceKey, ServiceHandler>>>,
}

impl Webhooks {
    /// Registers the handler of a service, or replaces it.
    pub fn register_service(&self, namespace: &str, name: &str, service: ServiceHandler) {
        self.lock_services().insert((namespace.to_owned(), name.to_owned()), service);
    }

    /// Removes the handler of a service.
    pub fn remove_service(&self, namespace: &str, name: &str) {
        self.lock_services().remove(&(namespace.to_owned(), name.to_owned()));
    }

    fn lock_services(&self) -> std::sync::MutexGuard<'_, BTreeMap<ServiceKey, ServiceHandler>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs one write. `user` is the webhook context of the request; it is evaluated only if
    /// webhooks are configured.
    pub(crate) async fn write(
        &self,
        store: &SharedStore,
        write: Write,
        user: impl FnOnce() -> WebhookContext,
    ) -> Result<WriteOutcome, ApiError> {
        let first = store.change(|store, now| {
            if webhooks::has_webhooks(store) || has_rules(store, &write) {
                Err(Box::new(write))
            } else {
                Ok(store.write(write, now))
            }
        });
        match first {
            Ok(result) => result,
            Err(write) => self.write_in_attempts(store, *write, user()).await,
        }
    }

    /// Performs a write that may need verdicts of webhooks or of costly rules.
    async fn write_in_attempts(
        &self,
        store: &SharedStore,
        mut write: Write,
        mut context: WebhookContext,
    ) -> Result<WriteOutcome, ApiError> {
        let mut warnings: Vec<String> = Vec::new();
        write.rules = RuleEvaluation::Deferred;
        for _ in 0..ATTEMPTS_MAX {
            let (attempt, known) = (write.clone(), Some(Box::new(context.clone())));
            match store.change(|store, now| store.try_write(attempt, now, known)) {
                Ok(mut written) => {
                    written.warnings.append(&mut warnings);
                    return Ok(written);
                }
                Err(WriteError::Refused(error)) => return Err(ApiError { warnings, ..error }),
                Err(WriteError::NeedsRules(mut pending)) => {
                    context.first_attempt = pending.first_attempt.take();
                    write.rules = RuleEvaluation::Known(Arc::new(pending.evaluate()));
                }
                Err(WriteError::NeedsWebhooks(pending, first_attempt)) => {
                    context.first_attempt = Some(first_attempt);
                    let calls = pending.into_iter().map(|call| self.call_webhook(store, call));
                    let (completed, new_warnings): (Vec<CompletedCall>, Vec<_>) =
                        join_all(calls).await.into_iter().unzip();
                    context.completed_calls.extend(completed);
                    add_new_warnings(&mut warnings, new_warnings.concat());
                }
            }
        }
        Err(ApiError::modified(&write.key.resource, &write.key.name))
    }

    /// Deletes every object that `query` selects; one by one if webhooks are configured.
    pub(crate) async fn delete_collection(
        &self,
        store: &SharedStore,
        write: Write,
        query: &ListQuery,
        user: impl Fn() -> WebhookContext,
    ) -> Result<Vec<Object>, ApiError> {
        if !store.read(webhooks::has_webhooks) {
            return store.change(|store, now| store.delete_collection(&write, query, now));
        }
        let selected = store.read(|store| store.list_page(&write.key.resource, query))?.items;
        let mut deleted = Vec::with_capacity(selected.len());
        for object in selected {
            let mut one = write.clone();
            one.key.namespace = object::namespace(&object).into();
            one.key.name = object::name(&object).into();
            let user = || WebhookContext { is_collection: true, ..user() };
            match self.write(store, one, user).await {
                Ok(_) => deleted.push(object),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    async fn call_webhook(
        &self,
        store: &SharedStore,
        call: PendingCall,
    ) -> (CompletedCall, Vec<String>) {
        let (verdict, warnings) = match self.send_review(store, &call).await {
            Ok(review) => webhooks::parse_response(&call, &review),
            Err(why) => {
                (WebhookVerdict::Failed(format!("failed to call webhook: {why}")), Vec::new())
            }
        };
        let PendingCall { webhook, request, .. } = call;
        (CompletedCall { webhook, request, verdict }, warnings)
    }

    /// Calls the webhook and returns its `AdmissionReview`.
    async fn send_review(&self, store: &SharedStore, call: &PendingCall) -> Result<Value, String> {
        let review = webhooks::admission_review(call);
        let target = Target::from_webhook(&call.webhook);
        let failed = |why: String| format!("Post {:?}: {why}", target.url);
        let Some(service_key) = &target.service else {
            let posted = tokio::task::spawn_blocking(move || post::post_review(&target, &review));
            return posted.await.unwrap_or_else(|error| Err(error.to_string()));
        };
        let service = self.lock_services().get(service_key).cloned();
        let Some(service) = service else {
            return Err(failed(unreachable_reason(store, service_key, target.port)));
        };
        let timeout = Duration::from_secs(call.webhook.timeout_secs);
        let response = tokio::time::timeout(timeout, service(target.path.clone(), review));
        response.await.map_err(|_| failed("context deadline exceeded".to_owned()))
    }
}

/// Whether the kind of the written object has CEL rules, which may be costly.
fn has_rules(store: &Store, write: &Write) -> bool {
    let kind = store.kinds().get(&write.key.resource);
    kind.is_some_and(|kind| {
        let mut schemas = kind.versions.iter().filter_map(|version| version.schema.as_ref());
        schemas.any(|schema| schema.has_rules())
    })
}

/// Adds those of `new_warnings` that are not in `warnings` yet.
fn add_new_warnings(warnings: &mut Vec<String>, new_warnings: Vec<String>) {
    for warning in new_warnings {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Why a webhook service without a handler cannot be called: no such service, or nothing listens
/// there.
fn unreachable_reason(store: &SharedStore, service: &ServiceKey, port: i64) -> String {
    let (namespace, name) = service;
    let key = Key::new(Resource::new("", "services"), namespace, name);
    let Some(service) = store.read(|store| store.find(&key).cloned()) else {
        return format!("service {name:?} not found");
    };
    // The error that the API server gets from kube-proxy if the service has no endpoints.
    let address = object::text(&service, &["spec", "clusterIP"]);
    format!("dial tcp {address}:{port}: connect: connection refused")
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registered: Vec<ServiceKey> = self.lock_services().keys().cloned().collect();
        formatter.debug_struct("Webhooks").field("services", &registered).finish()
    }
}
