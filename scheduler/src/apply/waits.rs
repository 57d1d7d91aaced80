//! The words for why groups wait, kept from cycle to cycle: most groups wait as they did before,
//! and what was put into words once need not be again.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_scheduler_core::{
    Reason,
    model::{Name, PodGroup, PodGroupId},
};

use super::{Cycle, pod_groups::key};
use crate::{
    mirror::{BINDING_ERROR, GroupRecord, Key, Unbound},
    translate::Trouble,
};

/// What is told on a group that waits.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) code: &'static str,
    pub(super) reason: String,
    /// The reason and its remedy.
    pub(super) message: String,
}

impl Waits {
    fn of(reason: &Reason, is_behind: bool) -> Self {
        Self::new(reason.code(), reason.to_string(), &reason.remedy().told(is_behind))
    }

    /// The group cannot be read, and no pod of it is started until it can.
    pub(super) fn malformed((key, group): (&Key, &GroupRecord)) -> Option<Self> {
        let trouble = Trouble::of_group(&key.name, group)?;
        Some(Self::new("Malformed", trouble.to_string(), &trouble.remedy()))
    }

    /// Its pods have places, and one cannot be bound to its own.
    pub(super) fn unbound(unbound: &Unbound) -> Self {
        Self::new(BINDING_ERROR, unbound.message.to_string(), &unbound.remedy())
    }

    /// Whatever cures it, it is not tried here again before it is said to be.
    pub(super) fn of_only_try(&self) -> Self {
        let Self { code, reason, message } = self;
        let message = format!(
            "{message}; then, as its schedulingBackoff is 1, {}",
            Reason::LeftAlone.remedy()
        );
        Self { code, reason: reason.clone(), message }
    }

    fn new(code: &'static str, reason: String, remedy: &str) -> Self {
        let stop = if reason.ends_with('.') { "" } else { "." };
        let message = format!("{reason}{stop} Remedy: {remedy}");
        Self { code, reason, message }
    }
}

/// The words of the last cycle, in the order of groups.
#[derive(Debug, Default)]
pub(super) struct Words(Vec<(Key, (Reason, bool), Arc<Waits>)>);

impl Words {
    /// The words of this cycle.
    pub(super) fn of(&mut self, cycle: &Cycle<'_>) -> BTreeMap<PodGroupId, Arc<Waits>> {
        let mut before = std::mem::take(&mut self.0).into_iter().peekable();
        let mut words = BTreeMap::new();
        for (id, reason) in &cycle.plan.waiting {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            while before.next_if(|(key, ..)| comes_before(key, group)).is_some() {}
            let is_behind = cycle.plan.behind.contains(id);
            let is_same = |known: &(Reason, bool)| known.1 == is_behind && known.0 == *reason;
            let known = before.next_if(|(key, known, _)| is_of(key, group) && is_same(known));
            let entry = known.unwrap_or_else(|| {
                let words = Arc::new(Waits::of(reason, is_behind));
                (key(group), (reason.clone(), is_behind), words)
            });
            words.insert(*id, Arc::clone(&entry.2));
            self.0.push(entry);
        }
        words
    }
}

/// Most often it is even the same text.
pub(super) fn is_of(key: &Key, group: &PodGroup) -> bool {
    is_same(key, group) || place(key) == place_of(group)
}

/// In the order of names.
pub(super) fn comes_before(key: &Key, group: &PodGroup) -> bool {
    !is_same(key, group) && place(key) < place_of(group)
}

fn is_same(key: &Key, group: &PodGroup) -> bool {
    Name::ptr_eq(&key.name, &group.name) && Name::ptr_eq(&key.namespace, &group.namespace)
}

fn place(key: &Key) -> (&str, &str) {
    (&key.namespace, &key.name)
}

fn place_of(group: &PodGroup) -> (&str, &str) {
    (&group.namespace, &group.name)
}
