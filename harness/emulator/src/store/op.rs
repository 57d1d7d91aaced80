//! What can be asked of the store and what it answers. Doors and actors speak this language.

use std::sync::Arc;

use jiff::Timestamp;

use crate::kinds::Resource;
use schedlab_json::Value;

/// An object as JSON, shared rather than copied. Stored in the kind's storage version.
pub type Object = Arc<Value>;

/// One object's place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its collection.
    pub resource: Resource,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Its name; empty when `generateName` is to make one.
    pub name: Arc<str>,
}

impl Key {
    /// `Key::new(resource, "default", "web-0")`; an empty namespace for cluster-scoped kinds.
    pub fn new(resource: Resource, namespace: &str, name: &str) -> Self {
        Self { resource, namespace: namespace.into(), name: name.into() }
    }
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    /// To which object.
    pub key: Key,
    /// What to do.
    pub op: Op,
    /// `dryRun=All`: everything but the change itself.
    pub dry_run: bool,
    /// `fieldManager`, else the first part of the User-Agent.
    pub field_manager: String,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
    /// What is wrong with the body's text itself.
    pub slips: Slips,
}

impl Write {
    /// A write by `manager`, with everything else as the API has it by default.
    pub fn new(key: Key, op: Op, manager: &str) -> Self {
        Self {
            key,
            op,
            dry_run: false,
            field_manager: manager.to_owned(),
            field_validation: FieldValidation::default(),
            slips: Slips::default(),
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Op {
    /// POST of an object.
    Create(Value),
    /// PUT of an object, or of one of its subresources.
    Update(Subresource, Value),
    /// PATCH. An apply patch creates what is not there.
    Patch(Subresource, PatchBody),
    /// DELETE.
    Delete(DeleteOptions),
    /// POST of a `Binding` to `pods/{name}/binding`.
    Bind(Value),
    /// POST of an `Eviction` to `pods/{name}/eviction`.
    Evict(Value),
}

/// Which part of the object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    /// The object itself; its status is left alone where the kind has a status subresource.
    None,
    /// `/status`.
    Status,
    /// `/scale`.
    Scale,
    /// Namespaces only: `/finalize`.
    Finalize,
    /// Pods only: `/resize`, what their containers take.
    Resize,
    /// Pods only: `/ephemeralcontainers`, which are added.
    EphemeralContainers,
}

/// A patch by its content type.
#[derive(Clone, Debug)]
pub enum PatchBody {
    /// `application/json-patch+json`.
    Json(Value),
    /// `application/merge-patch+json`.
    Merge(Value),
    /// `application/strategic-merge-patch+json`.
    Strategic(Value),
    /// `application/apply-patch+yaml`.
    Apply {
        /// What the manager wants.
        object: Value,
        /// Take fields over from others.
        force: bool,
    },
}

/// Strictness about unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them silently.
    Ignore,
    /// Drop them with a warning (the API's default).
    #[default]
    Warn,
    /// Refuse.
    Strict,
}

/// What a reader of a body took note of: fields that are there twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slips {
    /// One by one, as warnings tell them.
    pub warnings: Vec<String>,
    /// Together, as a refusal tells them.
    pub refusal: String,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`.
    pub grace_secs: Option<i64>,
    /// `propagationPolicy`.
    pub propagation: Option<Propagation>,
    /// `preconditions`.
    pub preconditions: Preconditions,
}

/// What happens to an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are left alone.
    Orphan,
    /// They go later.
    Background,
    /// They go first.
    Foreground,
}

/// What must hold for a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// `uid`.
    pub uid: Option<String>,
    /// `resourceVersion`.
    pub resource_version: Option<String>,
}

/// What a write did.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object as it is now (a deleted one: as it was last).
    pub object: Object,
    /// Nothing was there before.
    pub created: bool,
    /// It is gone from the store.
    pub deleted: bool,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It came.
    Added,
    /// It changed.
    Modified,
    /// It went.
    Deleted,
}

/// One line of the log. Every change of the store has exactly one, with a revision of its own.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The store's revision after it.
    pub revision: u64,
    /// When.
    pub time: Timestamp,
    /// What kind of change.
    pub kind: EventKind,
    /// Which object.
    pub key: Key,
    /// The object after it (a deleted one: as it was last, with this revision).
    pub object: Object,
    /// The object before it.
    pub previous: Option<Object>,
    /// Who wrote: the field manager.
    pub manager: Arc<str>,
    /// Which part of the object was written.
    pub part: Subresource,
}
