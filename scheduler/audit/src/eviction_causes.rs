//! Why pods were evicted. As KAI does, the scheduler writes the action and the preemptor as
//! annotations of an event of the victim's pod group. The condition of the victim and the victim's
//! own event have the same message, which leads to that event. Messages are compared, not parsed.

use std::{collections::BTreeMap, fmt};

use schedlab_api::{
    Value,
    annotations::{EVICTOR_ACTION, EVICTOR_POD_GROUP_NAME, EVICTOR_POD_GROUP_NAMESPACE},
    pointer::{at, text},
};

use crate::rules::{EvictionKind, Name};

/// Maximum length of an event's message in the Kubernetes API, in characters.
const EVENT_MESSAGE_MAX: usize = 1024;

/// Why a pod was evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// The pod was evicted to make room for another pod group.
    Preemptor {
        /// The action of the scheduler that evicted the pod.
        kind: EvictionKind,
        /// The pod group that gets the room, as `namespace/name`.
        preemptor: Name,
    },
    /// The pod's gang stayed below its minimum.
    StaleGang,
}

/// Why the audit does not know the cause of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnknownCause {
    /// No event of a pod group has both this message and an annotation with an action.
    NotAnnounced(String),
    /// The event names this action, which KAI does not have.
    Action(String),
    /// The event names this action, but no preemptor.
    NoPreemptor(String),
}

impl fmt::Display for UnknownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnnounced(message) => write!(
                f,
                "no event of a pod group has the annotation {EVICTOR_ACTION} and the message \
                 {message:?}"
            ),
            Self::Action(action) => write!(
                f,
                "annotation {EVICTOR_ACTION}: got {action:?}, expected reclaim, preempt, \
                 consolidation or stalegangeviction"
            ),
            Self::NoPreemptor(action) => write!(
                f,
                "the event with {EVICTOR_ACTION} {action:?} lacks {EVICTOR_POD_GROUP_NAME} or \
                 {EVICTOR_POD_GROUP_NAMESPACE}"
            ),
        }
    }
}

/// The causes of evictions that were announced so far.
#[derive(Debug, Default)]
pub struct EvictionCauses {
    /// Eviction causes that events of pod groups announced, by event message.
    by_message: BTreeMap<String, Result<EvictionCause, UnknownCause>>,
    /// Message of the last eviction event of each victim, by uid of the pod. After a restart, the
    /// scheduler may write a condition with other numbers than the event has.
    messages: BTreeMap<String, String>,
}

impl EvictionCauses {
    /// Observes an event of the API.
    pub fn observe_event(&mut self, event: &Value) {
        let field = |path| text(event, path);
        if !matches!(field("/reason"), Some("Evict" | "Evicted" | "Preempted")) {
            return;
        }
        let Some(message) = field("/message").or_else(|| field("/note")) else { return };
        match field("/involvedObject/kind") {
            Some("Pod") => {
                let uid = field("/involvedObject/uid").unwrap_or_default();
                self.messages.insert(uid.to_owned(), message.to_owned());
            }
            Some("PodGroup") => {
                if let Some(cause) = announced_cause(event) {
                    self.by_message.insert(message.to_owned(), cause);
                }
            }
            Some(_) | None => {}
        }
    }

    /// Forgets the cause of a pod that no longer exists.
    pub(crate) fn forget_pod(&mut self, pod: &Value) {
        let uid = text(pod, "/metadata/uid").unwrap_or_default();
        if let Some(message) = self.messages.remove(uid) {
            self.by_message.remove(&message);
        }
    }

    /// The cause of the eviction of `pod`, found by the `message` of the pod's eviction condition.
    ///
    /// # Errors
    ///
    /// The scheduler announced no cause, or one that is not known.
    pub fn cause_of_eviction(
        &self,
        pod: &Value,
        message: &str,
    ) -> Result<EvictionCause, UnknownCause> {
        let uid = text(pod, "/metadata/uid").unwrap_or_default();
        let shortened: String = message.chars().take(EVENT_MESSAGE_MAX).collect();
        let announced = || self.by_message.get(self.messages.get(uid)?);
        let cause = self.by_message.get(&shortened).or_else(announced);
        cause.cloned().unwrap_or_else(|| Err(UnknownCause::NotAnnounced(message.to_owned())))
    }
}

/// The cause in the annotations of an event; `None` if the event names no action.
fn announced_cause(event: &Value) -> Option<Result<EvictionCause, UnknownCause>> {
    let annotations = at(event, "/metadata/annotations")?;
    let annotation = |key: &str| annotations.get(key)?.as_str();
    let action = annotation(EVICTOR_ACTION)?;
    let kind = match action {
        "reclaim" => EvictionKind::Reclaim,
        "preempt" => EvictionKind::Preempt,
        "consolidation" => EvictionKind::Consolidate,
        "stalegangeviction" => return Some(Ok(EvictionCause::StaleGang)),
        unknown => return Some(Err(UnknownCause::Action(unknown.to_owned()))),
    };
    let preemptor = annotation(EVICTOR_POD_GROUP_NAMESPACE).zip(annotation(EVICTOR_POD_GROUP_NAME));
    let Some((namespace, name)) = preemptor else {
        return Some(Err(UnknownCause::NoPreemptor(action.to_owned())));
    };
    let preemptor = format!("{namespace}/{name}").into();
    Some(Ok(EvictionCause::Preemptor { kind, preemptor }))
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn event(kind: &str, message: &str, annotations: &Value) -> Value {
        json!({"reason": "Evict", "message": message, "metadata": {"annotations": annotations},
            "involvedObject": {"kind": kind, "uid": "u"}})
    }

    #[test]
    fn a_later_condition_with_other_numbers_has_the_cause_of_the_first_event() {
        let mut causes = EvictionCauses::default();
        let pod = json!({"metadata": {"uid": "u"}});
        causes.observe_event(&event("Pod", "uses 16", &json!({})));
        causes.observe_event(&event(
            "PodGroup",
            "uses 16",
            &json!({EVICTOR_ACTION: "stalegangeviction"}),
        ));
        for message in ["uses 16", "uses 15"] {
            assert_eq!(
                causes.cause_of_eviction(&pod, message),
                Ok(EvictionCause::StaleGang),
                "{message}"
            );
        }
        causes.forget_pod(&pod);
        assert!(causes.cause_of_eviction(&pod, "uses 16").is_err());
    }
}
