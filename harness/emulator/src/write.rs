//! What each write means: the way of a request through decoding, preconditions, admission and
//! bookkeeping to `Store::commit`. One file a verb.

mod bind;
mod configuration;
mod crd;
mod create;
mod delete;
mod evict;
mod history;
mod patch;
mod quota;
mod request;
mod scale;
mod update;
mod webhooks;

use jiff::Timestamp;

use crate::error::ApiError;
use crate::kinds::{Origin, Resource};
use crate::store::{
    Consultation, Key, ListQuery, Object, Op, Preconditions, Stop, Store, Subresource, Write,
    Written,
};

use request::Request;

impl Store {
    /// Does one write, or nothing at all. No webhook is asked.
    pub fn write(&mut self, write: Write, now: Timestamp) -> Result<Written, ApiError> {
        self.attempt(write, now, None).map_err(|stop| match stop {
            Stop::Refused(error) => error,
            Stop::Asks(..) => unreachable!("nobody is asked where nobody is consulted"),
        })
    }

    /// Does one write, or nothing at all: then it is refused, or hangs on what webhooks say.
    pub(crate) fn attempt(
        &mut self,
        write: Write,
        now: Timestamp,
        consultation: Option<Box<Consultation>>,
    ) -> Result<Written, Stop> {
        let (mut request, op) = Request::new(self, write, (now, consultation))?;
        let written = match op {
            Op::Create(body) => create::create(self, &mut request, body),
            Op::Update(subresource, body) => update::update(self, &mut request, subresource, body),
            Op::Delete(options) => delete::delete(self, &mut request, &options),
            Op::Patch(subresource, body) => patch::patch(self, &mut request, subresource, &body),
            Op::Bind(binding) => bind::bind(self, &mut request, binding),
            Op::Evict(eviction) => evict::evict(self, &mut request, eviction),
        };
        let mut written = written.map_err(|stop| stop.warning(&request.warnings))?;
        crd::follow(self, &request, &written);
        written.warnings = request.warnings;
        Ok(written)
    }

    /// Deletes every object that `query` selects, as `write` would one by one, and says what they
    /// were. `write` holds a delete; its key's name is not looked at.
    pub fn delete_collection(
        &mut self,
        write: &Write,
        query: &ListQuery,
        now: Timestamp,
    ) -> Result<Vec<Object>, ApiError> {
        let selected = self.list_page(&write.key.resource, query)?.items;
        let mut deleted = Vec::with_capacity(selected.len());
        for object in selected {
            let mut one = write.clone();
            one.key.namespace = crate::object::namespace(&object).into();
            one.key.name = crate::object::name(&object).into();
            match self.write(one, now) {
                Ok(_) => deleted.push(object),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }
}

/// What a writer says of the object it means.
struct Seen<'w> {
    uid: Option<&'w str>,
    revision: Option<&'w str>,
    by_update: bool,
}

/// Refuses a write by someone who saw another object, or another state of it.
fn check_seen(request: &Request, old: &Object, seen: &Seen<'_>) -> Result<(), ApiError> {
    let (resource, name) = (&request.key.resource, &*request.key.name);
    let uid = crate::object::uid(old);
    if let Some(seen) = seen.uid.filter(|seen| *seen != uid) {
        let why = format!("UID in precondition: {seen}, UID in object meta: {uid}");
        return Err(ApiError::conflict(resource, name, &precondition_failed(request, &why)));
    }
    let revision = crate::object::resource_version(old);
    match seen.revision {
        Some(stale) if stale != revision && seen.by_update => {
            Err(ApiError::modified(resource, name))
        }
        Some(stale) if stale != revision => {
            let why = format!(
                "ResourceVersion in precondition: {stale}, ResourceVersion in object meta: \
                 {revision}"
            );
            Err(ApiError::conflict(resource, name, &precondition_failed(request, &why)))
        }
        Some(_) | None => Ok(()),
    }
}

/// In the words of the real server's storage, which names the object's key in etcd.
fn precondition_failed(request: &Request, why: &str) -> String {
    let Key { resource, namespace, name } = &request.key;
    let folder = match (&*resource.group, &*resource.plural) {
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        (group, plural) if request.kind.origin == Origin::Custom => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{folder}/{namespace}{name}, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}"
    )
}

/// Refuses a deletion by someone who means another object, or another state of it.
fn check_deleted(
    request: &Request,
    old: &Object,
    preconditions: &Preconditions,
) -> Result<(), ApiError> {
    let uid = crate::object::uid(old);
    let revision = crate::object::resource_version(old);
    let (what, seen, found, how) = match preconditions {
        Preconditions { uid: Some(seen), .. } if seen != uid => {
            ("UID", seen, uid, "deleted and then recreated")
        }
        Preconditions { resource_version: Some(seen), .. } if seen != revision => {
            ("ResourceVersion", seen, revision, "modified")
        }
        Preconditions { .. } => return Ok(()),
    };
    let kind = Resource::new(&request.kind.resource.group, &request.kind.kind);
    let why = format!(
        "the {what} in the precondition ({seen}) does not match the {what} in record ({found}). \
         The object might have been {how}"
    );
    Err(ApiError::conflict(&kind, &request.key.name, &why))
}

/// Whether the kind's subresource can be written at all.
fn check_subresource(request: &Request, subresource: Subresource) -> Result<(), ApiError> {
    let version = request.kind.stored();
    let there = match subresource {
        Subresource::None => true,
        Subresource::Status => version.status,
        Subresource::Scale => version.scale.is_some(),
        Subresource::Finalize => request.kind.is("", "Namespace"),
        Subresource::Resize | Subresource::EphemeralContainers => request.kind.is("", "Pod"),
    };
    if there { Ok(()) } else { Err(ApiError::no_such_resource()) }
}
