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
    /// The kind that a word in a sentence means, if its names are followed.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        match word {
            "queue" => Some(Self::Queue),
            "node" => Some(Self::Node),
            _ => None,
        }
    }
}

/// Names of queues and nodes that exist or existed at a step of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
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
    knowledge: Knowledge,
}

/// Whether all names of a kind are known at a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Knowledge {
    #[default]
    Complete,
    /// Not all: a step may have created objects with unknown names.
    Partial,
}

impl Names {
    fn of(&mut self, kind: ObjectKind) -> Option<&mut KindNames> {
        match kind {
            ObjectKind::Queue => Some(&mut self.queues),
            ObjectKind::Node => Some(&mut self.nodes),
            ObjectKind::Other => None,
        }
    }

    /// Adds or updates an object.
    pub(super) fn add(&mut self, kind: ObjectKind, object: &Value) {
        let Some(name) = object["metadata"]["name"].as_str() else {
            // The API server generates a name.
            return self.forget(kind);
        };
        if let Some(names) = self.of(kind) {
            names.existing.insert(name.to_owned());
            names.ever.insert(name.to_owned());
        }
        if kind == ObjectKind::Queue {
            self.tree.add(object);
        }
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, kind: ObjectKind, name: &str) {
        if let Some(names) = self.of(kind) {
            names.existing.remove(name);
        }
        if kind == ObjectKind::Queue {
            self.tree.remove(name);
        }
    }

    /// From now on there may be other objects of this kind.
    pub(super) fn forget(&mut self, kind: ObjectKind) {
        if let Some(names) = self.of(kind) {
            names.knowledge = Knowledge::Partial;
        }
    }

    /// From now on there may be other queues and nodes.
    pub(super) fn forget_all(&mut self) {
        self.forget(ObjectKind::Queue);
        self.forget(ObjectKind::Node);
    }

    /// The names that exist now.
    pub(super) fn existing(&self) -> ExistingNames {
        let of = |names: &KindNames| {
            (names.knowledge == Knowledge::Complete).then(|| names.existing.clone())
        };
        ExistingNames { queues: of(&self.queues), nodes: of(&self.nodes) }
    }

    /// The tree of the queues that exist at this step; `None` if not all are known.
    pub(super) fn queue_tree(&self) -> Option<&QueueTree> {
        (self.queues.knowledge == Knowledge::Complete).then_some(&self.tree)
    }

    /// All names that ever existed, if all are known and this name is not among them.
    pub(super) fn unless_known(&mut self, kind: ObjectKind, name: &str) -> Option<Vec<String>> {
        let names = self.of(kind)?;
        let unknown = names.knowledge == Knowledge::Complete && !names.ever.contains(name);
        unknown.then(|| names.ever.iter().cloned().collect())
    }
}
