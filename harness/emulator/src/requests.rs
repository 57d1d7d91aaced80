//! Write requests: decoding, preconditions, admission and bookkeeping, up to `Store::commit`. One
//! file per verb.

pub(crate) mod patch_types;

mod apply_validation;
mod bind;
mod crd;
mod create;
mod delete;
mod evict;
mod managed_fields_bootstrap;
mod patch;
mod quota;
mod request;
mod scale;
mod update;
mod webhooks;

use jiff::Timestamp;

use crate::api_types::error::ApiError;
use crate::api_types::kinds::Origin;
use crate::api_types::resource::Resource;
use crate::store::{
    Key, ListQuery, Object, Op, Preconditions, RuleEvaluation, Store, Subresource, WebhookContext,
    Write, WriteError, WriteOutcome,
};

use request::WriteRequest;
use schedlab_api::Value;

impl Store {
    /// Applies one write atomically, without calling webhooks.
    ///
    /// # Errors
    /// The write is refused; the store is unchanged.
    pub fn write(&mut self, write: Write, now: Timestamp) -> Result<WriteOutcome, ApiError> {
        let write = Write { rules: RuleEvaluation::Here, ..write };
        self.try_write(write, now, None).map_err(|stop| match stop {
            WriteError::Refused(error) => error,
            WriteError::NeedsWebhooks(..) | WriteError::NeedsRules(..) => {
                unreachable!("`Store::write` calls no webhooks and defers no rules")
            }
        })
    }

    /// Applies one write atomically. On an error the store is unchanged: the write was refused, or
    /// it needs verdicts of webhooks or of costly rules.
    pub(crate) fn try_write(
        &mut self,
        write: Write,
        now: Timestamp,
        webhook_context: Option<Box<WebhookContext>>,
    ) -> Result<WriteOutcome, WriteError> {
        let (mut request, op) = WriteRequest::new(self, write, now, webhook_context)?;
        let written = match op {
            Op::Create(body) => create::create_object(self, &mut request, body),
            Op::Update(subresource, body) => {
                update::update_object(self, &mut request, subresource, body)
            }
            Op::Delete(options) => delete::delete_object(self, &mut request, &options),
            Op::Patch(subresource, body) => {
                patch::patch_object(self, &mut request, subresource, &body)
            }
            Op::Bind(binding) => bind::bind_pod(self, &mut request, binding),
            Op::Evict(eviction) => evict::evict_pod(self, &mut request, eviction),
        };
        let mut written = written.map_err(|stop| {
            stop.with_warnings(&request.warnings).with_first_attempt(&request.first_attempt)
        })?;
        crd::sync_kind_registry(self, &request, &written);
        written.warnings = request.warnings;
        Ok(written)
    }

    /// Deletes every object that `query` selects, one by one, and returns the deleted objects.
    /// `write` is the deletion to apply to each; the name in its key is ignored.
    ///
    /// # Errors
    ///
    /// The query is invalid, or an object cannot be deleted. Objects before it are deleted then.
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
            one.key.namespace = schedlab_api::object::namespace(&object).into();
            one.key.name = schedlab_api::object::name(&object).into();
            match self.write(one, now) {
                Ok(_) => deleted.push(object),
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }
}

/// The uid and the resourceVersion that a writer expects the object to have.
struct WritePreconditions<'w> {
    uid: Option<&'w str>,
    revision: Option<&'w str>,
    is_update: bool,
}

/// Refuses a write that expects another uid or another resourceVersion.
fn check_preconditions(
    request: &WriteRequest,
    old: &Object,
    expected: &WritePreconditions<'_>,
) -> Result<(), ApiError> {
    let (resource, name) = (&request.key.resource, &*request.key.name);
    let uid = schedlab_api::object::uid(old);
    if let Some(expected) = expected.uid.filter(|expected| *expected != uid) {
        let why = format!("UID in precondition: {expected}, UID in object meta: {uid}");
        return Err(ApiError::conflict(
            resource,
            name,
            &precondition_failed_message(request, &why),
        ));
    }
    let revision = schedlab_api::object::resource_version(old);
    match expected.revision {
        Some(stale) if stale != revision && expected.is_update => {
            Err(ApiError::modified(resource, name))
        }
        Some(stale) if stale != revision => {
            let why = format!(
                "ResourceVersion in precondition: {stale}, ResourceVersion in object meta: \
                 {revision}"
            );
            Err(ApiError::conflict(resource, name, &precondition_failed_message(request, &why)))
        }
        Some(_) | None => Ok(()),
    }
}

/// The message of kube-apiserver's storage layer about a failed precondition. It names the object's
/// etcd key.
fn precondition_failed_message(request: &WriteRequest, why: &str) -> String {
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

/// Refuses a deletion whose preconditions name another uid or another resourceVersion.
fn check_delete_preconditions(
    request: &WriteRequest,
    old: &Object,
    preconditions: &Preconditions,
) -> Result<(), ApiError> {
    let uid = schedlab_api::object::uid(old);
    let revision = schedlab_api::object::resource_version(old);
    let (what, expected, found, how) = match preconditions {
        Preconditions { uid: Some(expected), .. } if expected != uid => {
            ("UID", expected, uid, "deleted and then recreated")
        }
        Preconditions { resource_version: Some(expected), .. } if expected != revision => {
            ("ResourceVersion", expected, revision, "modified")
        }
        Preconditions { .. } => return Ok(()),
    };
    let kind = Resource::new(&request.kind.resource.group, &request.kind.kind);
    let why = format!(
        "the {what} in the precondition ({expected}) does not match the {what} in record ({found}). \
         The object might have been {how}"
    );
    Err(ApiError::conflict(&kind, &request.key.name, &why))
}

/// The maximum size of a write to etcd, in bytes.
const ETCD_REQUEST_BYTES_MAX: usize = 1536 * 1024;

/// Refuses an object that is too large for etcd. Custom objects are stored as JSON, others as
/// protobuf without field names.
fn check_size(request: &WriteRequest, object: &Value) -> Result<(), ApiError> {
    let name_bytes = |name: &str| match request.kind.origin {
        Origin::Custom => name.len() + "\"\":,".len(),
        Origin::BuiltIn | Origin::View => 0,
    };
    if value_bytes(object, &name_bytes) > ETCD_REQUEST_BYTES_MAX {
        return Err(ApiError::without_reason("etcdserver: request is too large"));
    }
    Ok(())
}

/// The approximate encoded size of a value in bytes, without building the text. `name_bytes` is the
/// size of a field name.
fn value_bytes(value: &Value, name_bytes: &dyn Fn(&str) -> usize) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            items.iter().map(|item| value_bytes(item, name_bytes) + 1).sum::<usize>() + 2
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let bytes =
                fields.map(|(name, field)| name_bytes(name) + value_bytes(field, name_bytes));
            bytes.sum::<usize>() + 2
        }
    }
}

/// Refuses a subresource that the kind does not have.
fn check_subresource(request: &WriteRequest, subresource: Subresource) -> Result<(), ApiError> {
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
