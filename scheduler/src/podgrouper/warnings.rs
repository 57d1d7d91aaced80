//! Warning events of the pod grouper about invalid values on pods and their owners, like those of
//! KAI's pod grouper. A grouper in a process of its own is the only component that knows them. If
//! an event cannot be written, the pod's condition still shows the reason.

use schedlab_scheduler_core::model::{Name, Time};

use super::{
    UngroupedPod,
    rules::{Group, OwnerKind, OwnerWarning},
};
use crate::{
    api::ApiClient,
    apply::{Event, EventType, InvolvedObject},
    concurrency::WriteLimiter,
    records::ObjectKey,
    snapshot_builder::UnschedulableReason,
};

/// `source.component` of the events.
const COMPONENT: &str = "pod-grouper";

/// The object and the message of an event.
pub(super) type Warning = (InvolvedObject, String);

/// Warning about a pod that cannot be grouped.
pub(super) fn for_pod(UngroupedPod { key, pod, reason }: &UngroupedPod<'_>) -> Warning {
    (
        InvolvedObject::for_pod(key, &pod.uid),
        UnschedulableReason::MalformedOwners(reason.clone()).to_string(),
    )
}

/// Warning about the owner of a group. KAI writes no such event.
pub(super) fn for_group(group: &Group) -> Option<Warning> {
    let warning = group.warning.as_ref()?;
    let key = ObjectKey {
        namespace: Name::clone(&group.namespace),
        name: Name::clone(&group.owner.name),
    };
    let uid = Name::clone(&group.owner.uid);
    let (OwnerKind { api_version, kind }, message) = warning_message(warning, &group.name);
    Some((InvolvedObject { api_version, kind, key, uid }, message))
}

/// API version, kind and message of a warning.
pub(super) fn warning_message(warning: &OwnerWarning, group: &Name) -> (OwnerKind, String) {
    match warning {
        OwnerWarning::MinMemberAbovePods(wrong) => {
            let then = "waits for pods that are never created";
            (
                OwnerKind { api_version: "batch/v1", kind: "Job" },
                format!("{wrong}; PodGroup {group} {then}"),
            )
        }
        OwnerWarning::IgnoredAnnotation(of, wrong) => (*of, wrong.to_string()),
    }
}

/// Writes one event per warning; failures are ignored.
pub(super) async fn emit_warnings(
    api: &ApiClient,
    warnings: impl Iterator<Item = Warning>,
    now: Time,
    limiter: &mut WriteLimiter,
) {
    let event = |(about, message): Warning| {
        let event = Event {
            involved: &about,
            event_type: EventType::Warning,
            reason: "PodGrouperWarning",
            message: &message,
            dedup_key: None,
            dedup_scope: "",
        };
        event.to_request(COMPONENT, now)
    };
    let mut work = Vec::new();
    for (path, event) in warnings.map(event) {
        work.push(async move { api.create_event(&path, event).await });
    }
    limiter.run_all(work, drop).await;
}
