//! Messages of waiting groups, cached between cycles: most groups wait for the same reason as
//! before.

use std::{collections::BTreeMap, sync::Arc};

use schedlab_api::conditions::BINDING_ERROR;
use schedlab_scheduler_core::{
    Reason,
    model::{Name, PodGroup, PodGroupId},
};

use super::{Cycle, pod_groups::group_key};
use crate::{
    cache::{BindFailure, PodGroupRecord},
    records::ObjectKey,
    snapshot_builder::UnschedulableReason,
};

/// Why a group waits, as text.
#[derive(Debug)]
pub(super) struct PendingMessage {
    pub(super) code: &'static str,
    pub(super) reason: String,
    /// Reason and remedy of the pending group.
    pub(super) message: String,
}

impl PendingMessage {
    fn from_reason(reason: &Reason, is_head_of_line_blocked: bool) -> Self {
        Self::new(
            reason.code(),
            reason.to_string(),
            &reason.suggestion().text_with_queue_order(is_head_of_line_blocked),
        )
    }

    /// The message of a malformed group; `None` if it is well-formed.
    pub(super) fn for_malformed_group(key: &ObjectKey, group: &PodGroupRecord) -> Option<Self> {
        let unschedulable = UnschedulableReason::for_malformed_group(&key.name, group)?;
        Some(Self::new("Malformed", unschedulable.to_string(), &unschedulable.remedy()))
    }

    /// The message of a group with a pod that has a node and cannot be bound.
    pub(super) fn for_bind_failure(failure: &BindFailure) -> Self {
        Self::new(BINDING_ERROR, failure.message.to_string(), &failure.remedy())
    }

    /// Adds how to have the group retried, which its `schedulingBackoff` prevents.
    pub(super) fn with_retry_hint(&self) -> Self {
        let Self { code, reason, message } = self;
        let message = format!(
            "{message}; then, as its schedulingBackoff is 1, {}",
            Reason::SchedulingBackoff.suggestion()
        );
        Self { code, reason: reason.clone(), message }
    }

    fn new(code: &'static str, reason: String, remedy: &str) -> Self {
        let stop = if reason.ends_with('.') { "" } else { "." };
        let message = format!("{reason}{stop} Remedy: {remedy}");
        Self { code, reason, message }
    }
}

/// The messages of the last cycle: group, reason, whether the group is blocked by the head of the
/// line, and message, ordered by group.
#[derive(Debug, Default)]
pub(super) struct MessageCache(Vec<(ObjectKey, (Reason, bool), Arc<PendingMessage>)>);

impl MessageCache {
    /// Returns the messages of this cycle, by group. Messages of unchanged reasons are reused.
    pub(super) fn messages_of_cycle(
        &mut self,
        cycle: &Cycle<'_>,
    ) -> BTreeMap<PodGroupId, Arc<PendingMessage>> {
        let mut previous = std::mem::take(&mut self.0).into_iter().peekable();
        let mut messages = BTreeMap::new();
        for (id, reason) in &cycle.plan.waiting {
            let group = &cycle.snapshot.pod_groups[id.0 as usize];
            while previous.next_if(|(key, ..)| is_before_group(key, group)).is_some() {}
            let is_head_of_line_blocked = cycle.plan.blocked_by_head_of_line.contains(id);
            let is_same =
                |known: &(Reason, bool)| known.1 == is_head_of_line_blocked && known.0 == *reason;
            let known = previous.next_if(|(key, known, _)| is_key_of(key, group) && is_same(known));
            let entry = known.unwrap_or_else(|| {
                let message =
                    Arc::new(PendingMessage::from_reason(reason, is_head_of_line_blocked));
                (group_key(group), (reason.clone(), is_head_of_line_blocked), message)
            });
            messages.insert(*id, Arc::clone(&entry.2));
            self.0.push(entry);
        }
        messages
    }
}

/// Whether `key` is the key of the group. Most often both hold the same strings, so addresses are
/// compared first.
pub(super) fn is_key_of(key: &ObjectKey, group: &PodGroup) -> bool {
    has_same_strings(key, group) || sort_key(key) == group_sort_key(group)
}

/// Whether `key` comes before the key of the group, by namespace and name.
pub(super) fn is_before_group(key: &ObjectKey, group: &PodGroup) -> bool {
    !has_same_strings(key, group) && sort_key(key) < group_sort_key(group)
}

fn has_same_strings(key: &ObjectKey, group: &PodGroup) -> bool {
    Name::ptr_eq(&key.name, &group.name) && Name::ptr_eq(&key.namespace, &group.namespace)
}

fn sort_key(key: &ObjectKey) -> (&str, &str) {
    (&key.namespace, &key.name)
}

fn group_sort_key(group: &PodGroup) -> (&str, &str) {
    (&group.namespace, &group.name)
}
