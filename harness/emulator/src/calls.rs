//! Asks admission webhooks. A write that hangs on what they say is tried again with their answers;
//! meanwhile nobody waits for the store, and nothing is half done.
//!
//! A webhook is called where its `url` says, over TLS and in real time: virtual time stands still
//! meanwhile. A `service` is one that somebody has put up in this process; there is no network of
//! services to find another in.

mod post;
mod target;
mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};

use crate::error::ApiError;
use crate::hooks;
use crate::kinds::Resource;
use crate::object;
use crate::shared::SharedStore;
use crate::store::{
    Answer, Consultation, Key, ListQuery, Object, Question, Said, Stop, Write, Written,
};
use schedlab_json::Value;

use target::Target;

/// So often a write is tried while what it is about keeps changing.
const TRIES_MAX: usize = 100;

/// A webhook in this process: gets the path and the review, answers with the review.
pub type Service = Arc<dyn Fn(String, Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Namespace and name of a service.
type Place = (String, String);

/// The webhooks that can be called. Clones call the same ones.
#[derive(Clone, Default)]
pub struct Webhooks {
    services: Arc<Mutex<BTreeMap<Place, Service>>>,
}

impl Webhooks {
    /// Puts up a service in this process, or another one in its place.
    pub fn serve(&self, namespace: &str, name: &str, service: Service) {
        self.services().insert((namespace.to_owned(), name.to_owned()), service);
    }

    /// Takes a service away.
    pub fn withdraw(&self, namespace: &str, name: &str) {
        self.services().remove(&(namespace.to_owned(), name.to_owned()));
    }

    fn services(&self) -> std::sync::MutexGuard<'_, BTreeMap<Place, Service>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one write; where webhooks are configured, for this user.
    pub(crate) async fn write(
        &self,
        store: &SharedStore,
        write: Write,
        user: impl FnOnce() -> Consultation,
    ) -> Result<Written, ApiError> {
        let first = store.change(|store, now| {
            if hooks::any(store) { Err(Box::new(write)) } else { Ok(store.write(write, now)) }
        });
        match first {
            Ok(done) => done,
            Err(write) => self.write_consulted(store, &write, user()).await,
        }
    }

    async fn write_consulted(
        &self,
        store: &SharedStore,
        write: &Write,
        mut consultation: Consultation,
    ) -> Result<Written, ApiError> {
        let mut warnings: Vec<String> = Vec::new();
        for _ in 0..TRIES_MAX {
            let (write, knowing) = (write.clone(), Some(Box::new(consultation.clone())));
            match store.change(|store, now| store.attempt(write, now, knowing)) {
                Ok(mut written) => {
                    written.warnings.append(&mut warnings);
                    return Ok(written);
                }
                Err(Stop::Refused(error)) => return Err(ApiError { warnings, ..error }),
                Err(Stop::Asks(questions, begun)) => {
                    consultation.begun = Some(begun);
                    let asked = questions.into_iter().map(|question| self.ask(store, question));
                    let (said, told): (Vec<Said>, Vec<_>) =
                        join_all(asked).await.into_iter().unzip();
                    consultation.said.extend(said);
                    take_in(&mut warnings, told.concat());
                }
            }
        }
        Err(ApiError::modified(&write.key.resource, &write.key.name))
    }

    /// Deletes every object that `query` selects, one by one if webhooks are configured.
    pub(crate) async fn delete_collection(
        &self,
        store: &SharedStore,
        (write, query): (Write, &ListQuery),
        user: impl Fn() -> Consultation,
    ) -> Result<Vec<Object>, ApiError> {
        if !store.read(hooks::any) {
            return store.change(|store, now| store.delete_collection(&write, query, now));
        }
        let selected = store.read(|store| store.list_page(&write.key.resource, query))?.items;
        let mut deleted = Vec::with_capacity(selected.len());
        for object in selected {
            let mut one = write.clone();
            one.key.namespace = object::namespace(&object).into();
            one.key.name = object::name(&object).into();
            let user = || Consultation { of_collection: true, ..user() };
            match self.write(store, one, user).await {
                Ok(_) => deleted.push(object),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    async fn ask(&self, store: &SharedStore, question: Question) -> (Said, Vec<String>) {
        let (answer, warnings) = match self.called(store, &question).await {
            Ok(review) => hooks::answered(&question, &review),
            Err(why) => (Answer::Failed(format!("failed to call webhook: {why}")), Vec::new()),
        };
        let Question { webhook, request, .. } = question;
        (Said { webhook, request, answer }, warnings)
    }

    /// What the webhook sends back.
    async fn called(&self, store: &SharedStore, question: &Question) -> Result<Value, String> {
        let review = hooks::review(question);
        let target = Target::of(&question.webhook);
        let failed = |why: String| format!("Post {:?}: {why}", target.url);
        let Some(place) = &target.service else {
            let posted = tokio::task::spawn_blocking(move || post::post(&target, &review));
            return posted.await.unwrap_or_else(|error| Err(error.to_string()));
        };
        let service = self.services().get(place).cloned();
        let Some(service) = service else { return Err(failed(absence(store, place, target.port))) };
        let patience = Duration::from_secs(question.webhook.timeout_secs);
        let answered = tokio::time::timeout(patience, service(target.path.clone(), review));
        answered.await.map_err(|_| failed("context deadline exceeded".to_owned()))
    }
}

/// Warnings are given once each.
fn take_in(warnings: &mut Vec<String>, told: Vec<String>) {
    for warning in told {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Why there is nobody behind a service.
fn absence(store: &SharedStore, (namespace, name): &Place, port: i64) -> String {
    let key = Key::new(Resource::new("", "services"), namespace, name);
    let Some(service) = store.read(|store| store.find(&key).cloned()) else {
        return format!("service {name:?} not found");
    };
    // As where kube-proxy finds no endpoint.
    let address = object::text(&service, &["spec", "clusterIP"]);
    format!("dial tcp {address}:{port}: connect: connection refused")
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<Place> = self.services().keys().cloned().collect();
        formatter.debug_struct("Webhooks").field("services", &places).finish()
    }
}
