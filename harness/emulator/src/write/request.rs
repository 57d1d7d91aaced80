//! One request on its way: whose, to what, when; and its body brought into stored form.

use std::mem;
use std::sync::Arc;

use jiff::Timestamp;

use super::patch::path_of;
use crate::admit::Admission;
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::kinds::schema::Schema;
use crate::kinds::{Origin, typed};
use crate::object;
use crate::store::{
    Begun, Change, Consultation, FieldValidation, Key, Object, Op, Slips, Store, Subresource,
    Write, Written,
};
use schedlab_json::Value;

/// A write without its body.
pub(super) struct Request {
    pub(super) kind: Arc<Kind>,
    /// Where the object is at home, whatever view it was asked for in.
    pub(super) key: Key,
    /// The kind under whose name it was asked for.
    pub(super) asked: Arc<Kind>,
    pub(super) dry_run: bool,
    pub(super) manager: Arc<str>,
    pub(super) validation: FieldValidation,
    /// What the body's text says twice, until that is told.
    slips: Slips,
    /// When its first try began: what is stamped.
    pub(super) now: Timestamp,
    /// When it happens: what is logged.
    at: Timestamp,
    /// Who is to be told to webhooks, and what they have said; without it they are not asked.
    pub(super) consultation: Option<Box<Consultation>>,
    /// What this try has drawn, or an earlier one.
    pub(super) begun: Begun,
    pub(super) warnings: Vec<String>,
    pub(super) subresource: Subresource,
    /// An apply patch: it has recorded its owner itself.
    pub(super) applies: bool,
    /// The version the body is in.
    version: Arc<str>,
}

impl Request {
    pub(super) fn new(
        store: &Store,
        write: Write,
        (at, consultation): (Timestamp, Option<Box<Consultation>>),
    ) -> Result<(Self, Op), ApiError> {
        let Write { mut key, op, dry_run, field_manager, field_validation, slips } = write;
        let asked =
            Arc::clone(store.kinds().get(&key.resource).ok_or_else(ApiError::no_such_resource)?);
        key.resource = asked.home();
        let kind =
            Arc::clone(store.kinds().get(&key.resource).ok_or_else(ApiError::no_such_resource)?);
        let subresource = match &op {
            Op::Update(subresource, _) | Op::Patch(subresource, _) => *subresource,
            Op::Create(_) | Op::Delete(_) | Op::Bind(_) | Op::Evict(_) => Subresource::None,
        };
        let begun = consultation.as_ref().and_then(|consultation| consultation.begun.clone());
        let begun = begun.unwrap_or(Begun { now: at, uid: String::new(), name: String::new() });
        let consultation = consultation.map(|consultation| completed(consultation, &asked, &op));
        let request = Self {
            version: Arc::clone(&kind.storage),
            subresource,
            applies: false,
            kind,
            key,
            asked,
            dry_run,
            manager: field_manager.into(),
            validation: field_validation,
            slips,
            now: begun.now,
            at,
            begun,
            consultation,
            warnings: Vec::new(),
        };
        Ok((request, op))
    }

    /// The body as it would be stored: of the right kind, in the storage version.
    pub(super) fn decode(&mut self, body: Value) -> Result<Value, ApiError> {
        let kind = object::text(&body, &["kind"]);
        let version = object::text(&body, &["apiVersion"]);
        if !body.is_object() {
            return Err(ApiError::bad_request("the object provided is unrecognized: not a map"));
        }
        let versions = &self.asked.versions;
        let known = versions.iter().find(|known| self.asked.api_version(&known.name) == version);
        let is_other = !kind.is_empty() && kind != &*self.asked.kind;
        let is_versioned = known.is_some() || version.is_empty();
        if is_other || (!is_versioned && self.kind.origin != Origin::Custom) {
            return Err(self.unconvertible(kind, version, is_versioned));
        }
        if let Some(known) = known {
            self.version = Arc::clone(&known.name);
        } else if !version.is_empty() {
            let expected = self.asked.api_version(&self.asked.storage);
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version \
                 ({expected})"
            )));
        }
        let mut object = self.asked.to_stored(body);
        self.fit(&mut object)?;
        Ok(object)
    }

    /// 400: the body is of another kind than the path.
    fn unconvertible(&self, kind: &str, version: &str, is_versioned: bool) -> ApiError {
        let asked = &self.asked.kind;
        let bare = version.rsplit('/').next().unwrap_or_default();
        let package = self.asked.package();
        let is_kind = typed::is_known(&self.asked.resource.group, kind);
        let why = if is_kind && is_versioned {
            format!("converting ({bare}.{kind}) to ({package}.{asked}): unknown conversion")
        } else {
            format!(
                "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
                 \"pkg/runtime/scheme.go:111\""
            )
        };
        ApiError::bad_request(format!(
            "{kind} in version \"{bare}\" cannot be handled as a {asked}: {why}"
        ))
    }

    /// Drops what the schema does not know, as far as `fieldValidation` lets that pass (as also
    /// what the body says twice), and fills in the schema's defaults.
    pub(super) fn fit(&mut self, object: &mut Value) -> Result<(), ApiError> {
        let mut dropped = if matches!(self.kind.origin, Origin::Custom) {
            typed::decode_metadata(&self.kind, object)?.unknown
        } else {
            typed::decode(&self.kind, object)?.unknown
        };
        if let Some(schema) = self.schema() {
            schema.prune(object, &mut dropped);
            schema.decode_embedded(object, &mut dropped).map_err(|why| self.undecodable(&why))?;
            schema.default_fields(object);
        }
        let slips = mem::take(&mut self.slips);
        let unknown = dropped.iter().map(|field| format!("unknown field \"{field}\""));
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                self.warnings.extend(slips.warnings.into_iter().chain(unknown));
            }
            FieldValidation::Strict if slips.refusal.is_empty() && dropped.is_empty() => {}
            FieldValidation::Strict => {
                let refusal = Some(slips.refusal).filter(|refusal| !refusal.is_empty());
                let slips: Vec<String> = refusal.into_iter().chain(unknown).collect();
                return Err(ApiError::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                    self.asked.kind,
                    self.version,
                    self.asked.kind,
                    slips.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// 400: something in the body has another type than it must have.
    fn undecodable(&self, why: &str) -> ApiError {
        let kind = &self.asked.kind;
        let version = &self.version;
        let head = format!("{kind} in version \"{version}\" cannot be handled as a {kind}");
        ApiError::bad_request(format!("{head}: {why}"))
    }

    /// The same for what a webhook has changed, of which nobody is warned.
    pub(super) fn refit(&mut self, object: &mut Value) -> Result<(), ApiError> {
        let validation = mem::replace(&mut self.validation, FieldValidation::Ignore);
        let fitted = self.fit(object).map_err(|error| {
            let head = format!("cannot be handled as a {}: ", self.asked.kind);
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

    /// Where admission decides about this request.
    pub(super) fn admission<'r>(&'r self, store: &'r Store) -> Admission<'r> {
        Admission {
            store,
            kind: &self.kind,
            by_view: self.asked.origin == Origin::View,
            key: &self.key,
            schema: self.kind.version(&self.version).and_then(|version| version.schema.as_deref()),
        }
    }

    /// The time as objects show it: whole seconds.
    pub(super) fn time(&self) -> Value {
        rfc3339(self.now).into()
    }

    /// Makes the change (unless this is a dry run) and says what was done.
    pub(super) fn commit(&self, store: &mut Store, object: Value, created: bool) -> Written {
        let object = if self.dry_run {
            Arc::new(object)
        } else {
            store.commit(Change {
                key: &self.key,
                object: Some(object),
                manager: &self.manager,
                now: self.at,
                part: self.subresource,
            })
        };
        Written { object, created, deleted: false, warnings: Vec::new() }
    }

    /// Takes the object away (unless this is a dry run).
    pub(super) fn take_away(&self, store: &mut Store, last: &Object) -> Written {
        let object = if self.dry_run {
            Arc::clone(last)
        } else {
            store.commit(Change {
                key: &self.key,
                object: None,
                manager: &self.manager,
                now: self.at,
                part: self.subresource,
            })
        };
        Written { object, created: false, deleted: true, warnings: Vec::new() }
    }

    /// Nothing changed.
    pub(super) fn unchanged(old: &Object) -> Written {
        Written { object: Arc::clone(old), created: false, deleted: false, warnings: Vec::new() }
    }
}

/// With what the path would say, where there was none.
fn completed(mut consultation: Box<Consultation>, asked: &Kind, op: &Op) -> Box<Consultation> {
    if consultation.version.is_empty() {
        consultation.version = asked.storage.to_string();
    }
    if consultation.subresource.is_empty() {
        let part = match op {
            Op::Update(part, _) | Op::Patch(part, _) => path_of(*part),
            Op::Bind(_) => "binding",
            Op::Evict(_) => "eviction",
            Op::Create(_) | Op::Delete(_) => "",
        };
        part.clone_into(&mut consultation.subresource);
    }
    consultation
}

/// A time as `metadata` has it: RFC 3339, whole seconds, UTC.
pub(super) fn rfc3339(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .expect("a whole second of a valid time is valid")
        .to_string()
}
