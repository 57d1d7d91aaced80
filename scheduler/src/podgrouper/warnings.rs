//! What the grouper tells of what is written on pods and their owners, with events as KAI's pod
//! grouper does: where it runs alone, nobody else knows. Who cannot be told has the pod's condition.

use schedlab_scheduler_core::model::{Name, Time};

use super::{
    Wrong,
    rules::{Doubt, Group},
};
use crate::{
    api::Api,
    apply::{About, Event, Level},
    mirror::Key,
    pacing::Pacing,
    translate::Trouble,
};

/// What its events name as their source.
const COMPONENT: &str = "pod-grouper";

/// About what which words are.
pub(super) type Warning = (About, String);

/// A pod that cannot be grouped.
pub(super) fn of_pod((key, pod, malformed): &Wrong<'_>) -> Warning {
    (About::pod(key, &pod.uid), Trouble::Grouping(malformed.clone()).to_string())
}

/// The owner of a group, of what it cannot mean. KAI tells of nothing.
pub(super) fn of_group(group: &Group) -> Option<Warning> {
    let doubt = group.doubt.as_ref()?;
    let key =
        Key { namespace: Name::clone(&group.namespace), name: Name::clone(&group.owner.name) };
    let uid = Name::clone(&group.owner.uid);
    let ((api_version, kind), message) = told(doubt, &group.name);
    Some((About { api_version, kind, key, uid }, message))
}

/// What kind of owner a doubt is about, and its words.
pub(super) fn told(doubt: &Doubt, group: &Name) -> ((&'static str, &'static str), String) {
    match doubt {
        Doubt::TooManyPods(wrong) => {
            let then = "waits for pods that do not come: lower its minMember, too";
            (("batch/v1", "Job"), format!("{wrong}; PodGroup {group} {then}"))
        }
        Doubt::Unread(of, wrong) => (*of, format!("{wrong}; it is not read there")),
    }
}

/// Tells all of them.
pub(super) async fn tell(
    api: &Api,
    warnings: impl Iterator<Item = Warning>,
    now: Time,
    pacing: &mut Pacing,
) {
    let event = |(about, message): Warning| {
        let event = Event {
            about: &about,
            level: Level::Warning,
            reason: "PodGrouperWarning",
            message: &message,
            gist: None,
            occasion: "",
        };
        event.request(COMPONENT, now)
    };
    let mut work = Vec::new();
    for (path, event) in warnings.map(event) {
        work.push(async move { api.tell(&path, event).await });
    }
    pacing.all(work, drop).await;
}
