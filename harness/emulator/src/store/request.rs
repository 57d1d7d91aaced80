//! Requests to the store and their results, shared by the HTTP API and the controllers.

use std::sync::Arc;

use jiff::Timestamp;

use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::schema::Schema;
use crate::api_types::resource::{Key, Object};
use crate::store::FirstAttempt;
use schedlab_api::Value;

/// A write request to the store.
#[derive(Clone, Debug)]
pub struct Write {
    /// The object to write.
    pub key: Key,
    /// The operation and its body.
    pub op: Op,
    /// `dryRun=All`: runs admission and validation without committing the change.
    pub dry_run: bool,
    /// `fieldManager`, or the first part of the User-Agent.
    pub field_manager: String,
    /// How unknown and duplicate fields of the body are treated (`fieldValidation`).
    pub field_validation: FieldValidation,
    /// Fields that occur twice in the text of the body.
    pub duplicate_fields: DuplicateFields,
    /// Where costly rules of a custom resource are evaluated.
    pub rules: RuleEvaluation,
}

impl Write {
    /// A write by `manager` with the API's default options.
    pub fn new(key: Key, op: Op, manager: &str) -> Self {
        Self {
            key,
            op,
            dry_run: false,
            field_manager: manager.to_owned(),
            field_validation: FieldValidation::default(),
            duplicate_fields: DuplicateFields::default(),
            rules: RuleEvaluation::default(),
        }
    }
}

/// Where the rules of a custom resource are evaluated if that may take longer than a millisecond. A
/// write locks the store, so that other requests wait for it.
#[derive(Clone, Debug, Default)]
pub enum RuleEvaluation {
    /// The rules are evaluated during the write, under the store's lock.
    #[default]
    Here,
    /// The write ends without effect. The rules are evaluated without the lock, and the write is
    /// repeated with the verdict.
    Deferred,
    /// The rules have been evaluated, with this verdict. If the object has changed since, they are
    /// evaluated during the write.
    Known(Arc<RuleVerdict>),
}

/// The violations of the rules by an object.
#[derive(Debug)]
pub struct RuleVerdict {
    pub(crate) old: Option<Object>,
    pub(crate) new: Value,
    pub(crate) violations: FieldErrors,
}

/// Rules that must be evaluated before a write is repeated.
#[derive(Clone, Debug)]
pub(crate) struct PendingRules {
    pub(crate) schema: Arc<Schema>,
    pub(crate) old: Option<Object>,
    pub(crate) new: Value,
    /// The generated values of this attempt.
    pub(crate) first_attempt: Option<FirstAttempt>,
}

impl PendingRules {
    /// Evaluates the rules and returns the verdict.
    pub(crate) fn evaluate(self) -> RuleVerdict {
        let Self { schema, old, new, .. } = self;
        let violations = schema.rule_violations(old.as_deref(), &new);
        RuleVerdict { old, new, violations }
    }
}

/// The operation of a write.
#[derive(Clone, Debug)]
pub enum Op {
    /// POST of an object.
    Create(Value),
    /// PUT of an object, or of one of its subresources.
    Update(Subresource, Value),
    /// PATCH of an object or subresource. An apply patch creates the object if it does not exist.
    Patch(Subresource, PatchBody),
    /// DELETE of an object.
    Delete(DeleteOptions),
    /// POST of a `Binding` to `pods/{name}/binding`.
    Bind(Value),
    /// POST of an `Eviction` to `pods/{name}/eviction`.
    Evict(Value),
}

/// The subresource that a write addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself. Its status is not changed if the kind has a status subresource.
    None,
    /// The subresource `/status`.
    Status,
    /// The subresource `/scale`.
    Scale,
    /// The subresource `/finalize` of namespaces.
    Finalize,
    /// The subresource `/resize` of pods, which changes container resources.
    Resize,
    /// The subresource `/ephemeralcontainers` of pods, which adds ephemeral containers.
    EphemeralContainers,
}

/// The body of a patch, by content type.
#[derive(Clone, Debug)]
pub enum PatchBody {
    /// A JSON Patch (`application/json-patch+json`).
    Json(Value),
    /// A merge patch (`application/merge-patch+json`).
    Merge(Value),
    /// A strategic merge patch (`application/strategic-merge-patch+json`).
    Strategic(Value),
    /// A server-side apply (`application/apply-patch+yaml`).
    Apply {
        /// The applied configuration.
        object: Value,
        /// The parameter `force`: take over fields that other managers own.
        force: bool,
    },
}

/// `fieldValidation`: how unknown and duplicate fields are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate fields are dropped silently.
    Ignore,
    /// Unknown and duplicate fields are dropped with a warning (the API's default).
    #[default]
    Warn,
    /// A request with unknown or duplicate fields is refused.
    Strict,
}

/// Fields that occur twice in the text of a request body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuplicateFields {
    /// One message for each duplicate field, for `Warning` headers.
    pub warnings: Vec<String>,
    /// The message of a refusal under strict field validation; empty if there are none.
    pub strict_error: String,
}

/// The options of a deletion (`DeleteOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The grace period in seconds (`gracePeriodSeconds`); `None` for the default.
    pub grace_secs: Option<i64>,
    /// What happens to dependents (`propagationPolicy`); `None` for the default.
    pub propagation: Option<Propagation>,
    /// The preconditions (`preconditions`).
    pub preconditions: Preconditions,
}

/// What happens to an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are kept; their references to this owner are removed.
    Orphan,
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
}

/// Preconditions of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub resource_version: Option<String>,
}

/// The result of a write.
#[derive(Clone, Debug)]
pub struct WriteOutcome {
    /// The object after the write; for a deletion, its last state.
    pub object: Object,
    /// Whether the object did not exist before.
    pub created: bool,
    /// Whether the object was removed from the store.
    pub deleted: bool,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was removed.
    Deleted,
}

/// An entry of the change log. Every change of the store has its own entry and revision.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The store's revision after the change.
    pub revision: u64,
    /// The time of the change.
    pub time: Timestamp,
    /// The kind of change.
    pub kind: EventKind,
    /// The changed object.
    pub key: Key,
    /// The object after the change; for a deletion, its last state with this revision.
    pub object: Object,
    /// The object before the change; `None` if it was created.
    pub previous: Option<Object>,
    /// The field manager of the write.
    pub manager: Arc<str>,
    /// The subresource that was written.
    pub subresource: Subresource,
}
