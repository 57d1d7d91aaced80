//! What each write means: the way of a request through decoding, preconditions, admission and
//! bookkeeping to `Store::commit`. One file a verb.

mod bind;
mod crd;
mod create;
mod delete;
mod evict;
mod history;
mod patch;
mod request;
mod scale;
mod update;

use jiff::Timestamp;

use crate::error::ApiError;
use crate::store::{ListQuery, Object, Op, Store, Subresource, Write, Written};

use request::Request;

impl Store {
    /// Does one write, or nothing at all.
    pub fn write(&mut self, write: Write, now: Timestamp) -> Result<Written, ApiError> {
        let (mut request, op) = Request::new(self, write, now)?;
        let mut written = match op {
            Op::Create(body) => create::create(self, &mut request, body),
            Op::Update(subresource, body) => update::update(self, &mut request, subresource, body),
            Op::Delete(options) => delete::delete(self, &request, &options),
            Op::Patch(subresource, body) => patch::patch(self, &mut request, subresource, body),
            Op::Bind(binding) => bind::bind(self, &request, &binding),
            Op::Evict(eviction) => evict::evict(self, &request, &eviction),
        }?;
        crd::follow(self, &request, &written);
        written.warnings = request.warnings;
        Ok(written)
    }

    /// Deletes every object that `query` selects, as `write` would one by one. `write` holds a
    /// delete; its key's name is not looked at.
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
                Ok(written) => deleted.push(written.object),
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
        let why =
            format!("Precondition failed: UID in precondition: {seen}, UID in object meta: {uid}");
        return Err(ApiError::conflict(resource, name, &why));
    }
    let revision = crate::object::resource_version(old);
    match seen.revision {
        Some(stale) if stale != revision && seen.by_update => {
            Err(ApiError::modified(resource, name))
        }
        Some(stale) if stale != revision => {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {stale}, ResourceVersion \
                 in object meta: {revision}"
            );
            Err(ApiError::conflict(resource, name, &why))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether the kind's subresource can be written at all.
fn check_subresource(request: &Request, subresource: Subresource) -> Result<(), ApiError> {
    let version = request.kind.stored();
    let there = match subresource {
        Subresource::None | Subresource::Other => true,
        Subresource::Status => version.status,
        Subresource::Scale => version.scale.is_some(),
        Subresource::Finalize => request.kind.is("", "Namespace"),
    };
    if there { Ok(()) } else { Err(ApiError::no_such_resource()) }
}
