//! A write request in progress: its target, writer and time, and the decoding of its body.

use std::mem;
use std::sync::Arc;

use jiff::Timestamp;

use super::patch::subresource_path;
use crate::admission::Admission;
use crate::api_types::error::{ApiError, go_json};
use crate::api_types::kinds::Kind;
use crate::api_types::kinds::schema::Schema;
use crate::api_types::kinds::{Origin, typed};
use crate::store::{
    Commit, DuplicateFields, FieldValidation, FirstAttempt, Key, Object, Op, RuleEvaluation, Store,
    Subresource, WebhookContext, Write, WriteOutcome,
};
use schedlab_api::{Value, object};

/// A write request without its body.
pub(super) struct WriteRequest {
    pub(super) kind: Arc<Kind>,
    /// The key under which the object is stored, also for a request to an alias kind.
    pub(super) key: Key,
    /// The kind named in the request; differs from `kind` for an alias kind.
    pub(super) requested_kind: Arc<Kind>,
    pub(super) dry_run: bool,
    pub(super) manager: Arc<str>,
    pub(super) validation: FieldValidation,
    /// Duplicate fields of the body, until they are reported.
    duplicate_fields: DuplicateFields,
    rules: RuleEvaluation,
    /// The time of the first attempt, for timestamps in the object.
    pub(super) now: Timestamp,
    /// The time of this attempt, for the log.
    log_time: Timestamp,
    /// The attributes and verdicts for webhooks; `None` if no webhook is called.
    pub(super) webhook_context: Option<Box<WebhookContext>>,
    /// Generated values of the first attempt.
    pub(super) first_attempt: FirstAttempt,
    pub(super) warnings: Vec<String>,
    pub(super) subresource: Subresource,
    /// It is an apply patch, which records `managedFields` itself.
    pub(super) is_apply: bool,
    /// The API version of the body.
    version: Arc<str>,
}

impl WriteRequest {
    pub(super) fn new(
        store: &Store,
        write: Write,
        log_time: Timestamp,
        webhook_context: Option<Box<WebhookContext>>,
    ) -> Result<(Self, Op), ApiError> {
        let Write { op, dry_run, field_manager, field_validation, .. } = write;
        let (mut key, duplicate_fields, rules) = (write.key, write.duplicate_fields, write.rules);
        let requested_kind =
            Arc::clone(store.kinds().get(&key.resource).ok_or_else(ApiError::no_such_resource)?);
        key.resource = requested_kind.storage_resource();
        let kind =
            Arc::clone(store.kinds().get(&key.resource).ok_or_else(ApiError::no_such_resource)?);
        let subresource = match &op {
            Op::Update(subresource, _) | Op::Patch(subresource, _) => *subresource,
            Op::Create(_) | Op::Delete(_) | Op::Bind(_) | Op::Evict(_) => Subresource::None,
        };
        let first_attempt =
            webhook_context.as_ref().and_then(|context| context.first_attempt.clone());
        let first_attempt = first_attempt.unwrap_or(FirstAttempt {
            now: log_time,
            uid: String::new(),
            name: String::new(),
        });
        let webhook_context =
            webhook_context.map(|context| with_path_defaults(context, &requested_kind, &op));
        let request = Self {
            version: Arc::clone(&kind.storage),
            subresource,
            is_apply: false,
            kind,
            key,
            requested_kind,
            dry_run,
            manager: field_manager.into(),
            validation: field_validation,
            duplicate_fields,
            rules,
            now: first_attempt.now,
            log_time,
            first_attempt,
            webhook_context,
            warnings: Vec::new(),
        };
        Ok((request, op))
    }

    /// Decodes a body into the stored form: checks its kind and converts it to the storage version.
    pub(super) fn decode(&mut self, body: Value) -> Result<Value, ApiError> {
        let kind = object::text(&body, &["kind"]);
        let version = object::text(&body, &["apiVersion"]);
        if !body.is_object() {
            return Err(ApiError::bad_request("the object provided is unrecognized: not a map"));
        }
        if let Some(why) = go_json::type_meta_error(&body) {
            let why = format!("couldn't get version/kind; json parse error: {why}");
            return Err(self.decode_error(&why));
        }
        let versions = &self.requested_kind.versions;
        let known =
            versions.iter().find(|known| self.requested_kind.api_version(&known.name) == version);
        let is_other = !kind.is_empty() && kind != &*self.requested_kind.kind;
        let is_versioned = known.is_some() || version.is_empty();
        if is_other || (!is_versioned && self.kind.origin != Origin::Custom) {
            return Err(self.wrong_kind_error(kind, version, is_versioned));
        }
        if let Some(known) = known {
            self.version = Arc::clone(&known.name);
        } else if !version.is_empty() {
            let expected = self.requested_kind.api_version(&self.requested_kind.storage);
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version \
                 ({expected})"
            )));
        }
        let mut object = self.requested_kind.to_stored(body);
        self.prune_and_default(&mut object)?;
        if is_nested_deeper(&object, DEPTH_MAX) {
            return Err(self.decode_error(&format!("exceeded max depth of {DEPTH_MAX}")));
        }
        Ok(object)
    }

    /// The 400 error for a body of another kind than the path.
    fn wrong_kind_error(&self, kind: &str, version: &str, is_versioned: bool) -> ApiError {
        let requested = &self.requested_kind.kind;
        let bare = version.rsplit('/').next().unwrap_or_default();
        let package = self.requested_kind.package();
        let is_kind = typed::is_known(&self.requested_kind.resource.group, kind);
        let why = if is_kind && is_versioned {
            format!("converting ({bare}.{kind}) to ({package}.{requested}): unknown conversion")
        } else {
            format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        };
        ApiError::bad_request(format!(
            "{kind} in version \"{bare}\" cannot be handled as a {requested}: {why}"
        ))
    }

    /// Prunes unknown fields and sets schema defaults. Unknown and duplicate fields are ignored,
    /// warned about or refused according to `fieldValidation`.
    pub(super) fn prune_and_default(&mut self, object: &mut Value) -> Result<(), ApiError> {
        let mut dropped = if matches!(self.kind.origin, Origin::Custom) {
            typed::decode_metadata(&self.kind, object)?.unknown
        } else {
            typed::decode(&self.kind, object)?.unknown
        };
        if let Some(schema) = self.schema() {
            schema.prune(object, &mut dropped);
            schema.decode_embedded(object, &mut dropped).map_err(|why| self.decode_error(&why))?;
            schema.fill_defaults(object);
        }
        let duplicates = mem::take(&mut self.duplicate_fields);
        let unknown = dropped.iter().map(|field| format!("unknown field \"{field}\""));
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                self.warnings.extend(duplicates.warnings.into_iter().chain(unknown));
            }
            FieldValidation::Strict if duplicates.strict_error.is_empty() && dropped.is_empty() => {
            }
            FieldValidation::Strict => {
                let refusal = Some(duplicates.strict_error).filter(|refusal| !refusal.is_empty());
                let errors: Vec<String> = refusal.into_iter().chain(unknown).collect();
                return Err(ApiError::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                    self.requested_kind.kind,
                    self.version,
                    self.requested_kind.kind,
                    errors.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// The 400 error for a field of a wrong type.
    fn decode_error(&self, why: &str) -> ApiError {
        let kind = &self.requested_kind.kind;
        let version = &self.version;
        let head = format!("{kind} in version \"{version}\" cannot be handled as a {kind}");
        ApiError::bad_request(format!("{head}: {why}"))
    }

    /// Like [`Self::prune_and_default`] for an object that a webhook changed: without warnings.
    pub(super) fn prune_and_default_webhook_change(
        &mut self,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        let validation = mem::replace(&mut self.validation, FieldValidation::Ignore);
        let fitted = self.prune_and_default(object).map_err(|error| {
            let head = format!("cannot be handled as a {}: ", self.requested_kind.kind);
            let why = error.message.split_once(&head).map(|(_, why)| why.to_owned());
            ApiError::internal(why.unwrap_or(error.message))
        });
        self.validation = validation;
        fitted
    }

    /// The schema of a custom resource in the body's version.
    fn schema(&self) -> Option<Arc<Schema>> {
        self.kind.version(&self.version)?.schema.clone()
    }

    /// The input of built-in admission.
    pub(super) fn admission<'r>(&'r self, store: &'r Store) -> Admission<'r> {
        Admission {
            store,
            kind: &self.kind,
            via_view: self.requested_kind.origin == Origin::View,
            key: &self.key,
            schema: self.kind.version(&self.version).and_then(|version| version.schema.as_ref()),
            rules: &self.rules,
        }
    }

    /// The time of the request in whole seconds, as in object metadata.
    pub(super) fn time(&self) -> Value {
        rfc3339(self.now).into()
    }

    /// The object as it is read: with the current defaults of its definition.
    pub(super) fn as_read(&self, stored: &Object) -> Object {
        self.kind.in_version(&self.kind.storage, stored)
    }

    /// Commits the object unless this is a dry run.
    pub(super) fn commit(&self, store: &mut Store, object: Value, created: bool) -> WriteOutcome {
        let object = if self.dry_run {
            Arc::new(object)
        } else {
            store.commit(Commit {
                key: &self.key,
                object: Some(object),
                manager: &self.manager,
                now: self.log_time,
                subresource: self.subresource,
            })
        };
        WriteOutcome { object, created, deleted: false, warnings: Vec::new() }
    }

    /// Removes the object unless this is a dry run.
    pub(super) fn remove(&self, store: &mut Store, last: &Object) -> WriteOutcome {
        let object = if self.dry_run {
            Arc::clone(last)
        } else {
            store.commit(Commit {
                key: &self.key,
                object: None,
                manager: &self.manager,
                now: self.log_time,
                subresource: self.subresource,
            })
        };
        WriteOutcome { object, created: false, deleted: true, warnings: Vec::new() }
    }

    /// The outcome of a write that changes nothing.
    pub(super) fn unchanged(old: &Object) -> WriteOutcome {
        WriteOutcome {
            object: Arc::clone(old),
            created: false,
            deleted: false,
            warnings: Vec::new(),
        }
    }
}

/// The nesting of arrays and objects in an object. kube-apiserver stores up to 10,000 levels; most
/// clients, and the emulator, read 128.
const DEPTH_MAX: usize = 120;

fn is_nested_deeper(value: &Value, levels: usize) -> bool {
    let is_inner_deeper = |inner: &Value| is_nested_deeper(inner, levels - 1);
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => true,
        Value::Array(items) => items.iter().any(is_inner_deeper),
        Value::Object(fields) => fields.values().any(is_inner_deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Fills in the version and subresource that an HTTP path would name.
fn with_path_defaults(
    mut context: Box<WebhookContext>,
    kind: &Kind,
    op: &Op,
) -> Box<WebhookContext> {
    if context.version.is_empty() {
        context.version = kind.storage.to_string();
    }
    if context.subresource.is_empty() {
        let part = match op {
            Op::Update(part, _) | Op::Patch(part, _) => subresource_path(*part),
            Op::Bind(_) => "binding",
            Op::Evict(_) => "eviction",
            Op::Create(_) | Op::Delete(_) => "",
        };
        part.clone_into(&mut context.subresource);
    }
    context
}

/// A time as `metadata` has it: RFC 3339, whole seconds, UTC.
pub(super) fn rfc3339(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .expect("a whole second of a valid time is valid")
        .to_string()
}
