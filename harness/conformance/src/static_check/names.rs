//! The queues and nodes that exist at a step of a case, as far as its steps show.

use std::collections::BTreeSet;

use schedlab_api::Value;

use crate::world::manifests::{ExistingNames, QueueTree};

/// The kind of an object that a step creates or refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Queue,
    Node,
    /// Any other kind. Names of such objects are not followed.
    Other,
}

impl ObjectKind {
    /// The kind that a word in a sentence means; `None` if names of that kind are not followed.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        match word {
            "queue" => Some(Self::Queue),
            "node" => Some(Self::Node),
            _ => None,
        }
    }
}

/// Names of queues and nodes that exist or existed at a step of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownNames {
    queues: KindNames,
    nodes: KindNames,
    tree: QueueTree,
}

/// Names of one kind of object.
#[derive(Clone, Debug, Default)]
struct KindNames {
    existing: BTreeSet<String>,
    /// Names of objects that exist or were deleted.
    ever: BTreeSet<String>,
    knowledge: NameKnowledge,
}

/// Whether all names of a kind are known at a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NameKnowledge {
    #[default]
    Complete,
    /// Not all: a step may have created objects with unknown names.
    Partial,
}

impl KnownNames {
    fn of(&mut self, kind: ObjectKind) -> Option<&mut KindNames> {
        match kind {
            ObjectKind::Queue => Some(&mut self.queues),
            ObjectKind::Node => Some(&mut self.nodes),
            ObjectKind::Other => None,
        }
    }

    /// Adds the name of an object.
    pub(super) fn add_object(&mut self, kind: ObjectKind, object: &Value) {
        let Some(name) = object["metadata"]["name"].as_str() else {
            // The API server generates a name.
            return self.forget_kind(kind);
        };
        if let Some(names) = self.of(kind) {
            names.existing.insert(name.to_owned());
            names.ever.insert(name.to_owned());
        }
        if kind == ObjectKind::Queue {
            self.tree.add_queue(object);
        }
    }

    /// Removes a name from those that exist.
    pub(super) fn remove_name(&mut self, kind: ObjectKind, name: &str) {
        if let Some(names) = self.of(kind) {
            names.existing.remove(name);
        }
        if kind == ObjectKind::Queue {
            self.tree.remove_queue(name);
        }
    }

    /// Notes that from now on there may be objects of this kind with unknown names.
    pub(super) fn forget_kind(&mut self, kind: ObjectKind) {
        if let Some(names) = self.of(kind) {
            names.knowledge = NameKnowledge::Partial;
        }
    }

    /// Notes that from now on there may be queues and nodes with unknown names.
    pub(super) fn forget_all_kinds(&mut self) {
        self.forget_kind(ObjectKind::Queue);
        self.forget_kind(ObjectKind::Node);
    }

    /// The names that exist at this step.
    pub(super) fn existing_names(&self) -> ExistingNames {
        let of = |names: &KindNames| {
            (names.knowledge == NameKnowledge::Complete).then(|| names.existing.clone())
        };
        ExistingNames { queues: of(&self.queues), nodes: of(&self.nodes) }
    }

    /// The tree of the queues that exist at this step; `None` if not all are known.
    pub(super) fn queue_tree(&self) -> Option<&QueueTree> {
        (self.queues.knowledge == NameKnowledge::Complete).then_some(&self.tree)
    }

    /// All names of a kind that ever existed, if `name` is not among them. `None` if it is, or if
    /// not all names are known.
    pub(super) fn all_names_if_unknown(
        &mut self,
        kind: ObjectKind,
        name: &str,
    ) -> Option<Vec<String>> {
        let names = self.of(kind)?;
        let unknown = names.knowledge == NameKnowledge::Complete && !names.ever.contains(name);
        unknown.then(|| names.ever.iter().cloned().collect())
    }
}
