//! Writes the status of Queues: allocated and requested resources, child queues, and conditions
//! that warn about the configuration. A status is written only when it differs from the observed
//! one.

pub(crate) mod pod_groups;
mod skipped_requests;
mod warnings;

use std::collections::BTreeMap;

use schedlab_api::{api_versions, resources};
use schedlab_scheduler_core::{
    QueueUsage,
    model::{Name, Time},
    resources::{PerResource, Resources},
};
use serde::Serialize;

use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    apply::{Event, EventType, InvolvedObject, rfc3339},
    cache::{ClusterCache, QueueRecord, ReportedQueueStatus},
    parse::format_milli,
    records::{Condition, ObjectKey},
};

pub(crate) use skipped_requests::add_skipped_requests;

/// Warning conditions of each queue that has any.
pub(crate) fn queue_warnings(
    queues: &BTreeMap<Name, QueueRecord>,
    capacity: PerResource<i64>,
) -> BTreeMap<Name, BTreeMap<Name, Condition>> {
    warnings::conditions_by_queue(queues, capacity)
}

/// Updates the status of every queue whose status changed.
///
/// # Errors
/// The first API error; the remaining queues are updated in the next cycle.
pub(crate) async fn write_queue_statuses(
    api: &ApiClient,
    cache: &mut ClusterCache,
    uses: &BTreeMap<Name, QueueUsage>,
    capacity: PerResource<i64>,
    now: Time,
) -> Result<(), ApiError> {
    let mut warnings = warnings::conditions_by_queue(&cache.queues, capacity);
    let mut children: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
    for (name, record) in &cache.queues {
        if let Some(parent) = &record.parent {
            children.entry(Name::clone(parent)).or_default().push(Name::clone(name));
        }
    }
    let mut conflict_result = Ok(());
    for (name, record) in &mut cache.queues {
        let account = uses.get(name).cloned().unwrap_or_default();
        let mut desired = ReportedQueueStatus {
            version: record.reported.version,
            children: children.remove(name).unwrap_or_default(),
            allocated: resource_quantities(&account.allocated),
            allocated_non_preemptible: resource_quantities(&account.allocated_non_preemptible),
            requested: resource_quantities(&account.requested),
            pending: resource_quantities(&pending_requests(&account)),
            fair_share: resource_quantities(&fair_share(&account)),
            conditions: warnings.remove(name).unwrap_or_default(),
        };
        if record.reported == desired {
            continue;
        }
        let about = InvolvedObject {
            api_version: api_versions::QUEUE,
            kind: "Queue",
            key: ObjectKey { namespace: "".into(), name: Name::clone(name) },
            uid: Name::clone(&record.uid),
        };
        emit_warnings(api, &about, &record.reported.conditions, &desired.conditions, now).await?;
        let path = object_path(api_versions::QUEUE, "", "queues", &format!("{name}/status"));
        let metadata = ObservedMetadata { resource_version: record.reported.version.to_string() };
        let change =
            QueuePatch { metadata, status: StatusPatch::new(&record.reported, &desired, now) };
        match api.patch_metadata(&path, PatchKind::Merge, &change).await {
            Ok(metadata) => {
                // The watch event of this write then carries nothing new, as no other write came
                // between.
                desired.version = metadata.version();
                record.reported = desired;
            }
            // The queue was deleted; a watch event will follow.
            Err(ApiError::NotFound(_)) => {}
            // Another writer changed it; the next cycle retries after its watch event.
            Err(conflict @ ApiError::Conflict(_)) => conflict_result = Err(conflict),
            Err(error) => return Err(error),
        }
    }
    conflict_result
}

/// Writes an event for each new or changed warning.
async fn emit_warnings(
    api: &ApiClient,
    about: &InvolvedObject,
    reported: &BTreeMap<Name, Condition>,
    desired: &BTreeMap<Name, Condition>,
    now: Time,
) -> Result<(), ApiError> {
    for (kind, condition) in desired.iter().filter(|(kind, is)| reported.get(*kind) != Some(is)) {
        let event = Event {
            involved: about,
            event_type: EventType::Warning,
            reason: kind,
            message: &condition.message,
            dedup_key: None,
            dedup_scope: &rfc3339(now),
        };
        let (path, body) = event.to_request(&api.name, now);
        if let Err(ApiError::OutcomeUnknown(error)) = api.create_event(&path, body).await {
            return Err(ApiError::OutcomeUnknown(error));
        }
    }
    Ok(())
}

/// Merge patch of a queue. Its resourceVersion makes the patch fail if another writer changed the
/// queue: the cache takes over the version of the response, so it would miss the change of that
/// writer.
#[derive(Serialize)]
struct QueuePatch<'q> {
    metadata: ObservedMetadata,
    status: StatusPatch<'q>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ObservedMetadata {
    resource_version: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusPatch<'q> {
    child_queues: Vec<&'q str>,
    allocated: Amounts<'q>,
    allocated_non_preemptible: Amounts<'q>,
    requested: Amounts<'q>,
    pending: Amounts<'q>,
    fair_share: Amounts<'q>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<Vec<StatusCondition<'q>>>,
}

/// Amounts by resource name; `None` removes a resource that is not used any more.
type Amounts<'q> = BTreeMap<&'q str, Option<&'q str>>;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusCondition<'q> {
    #[serde(rename = "type")]
    kind: &'q str,
    status: &'q str,
    reason: &'q str,
    message: &'q str,
    last_transition_time: String,
}

impl<'q> StatusPatch<'q> {
    /// The patch that turns the reported status into the desired one.
    fn new(reported: &'q ReportedQueueStatus, desired: &'q ReportedQueueStatus, now: Time) -> Self {
        let condition = |(kind, is): (&'q Name, &'q Condition)| StatusCondition {
            kind,
            status: &is.status,
            reason: &is.reason,
            message: &is.message,
            last_transition_time: rfc3339(now),
        };
        let differ = reported.conditions != desired.conditions;
        Self {
            child_queues: desired.children.iter().map(|name| &**name).collect(),
            allocated: amount_changes(&reported.allocated, &desired.allocated),
            allocated_non_preemptible: amount_changes(
                &reported.allocated_non_preemptible,
                &desired.allocated_non_preemptible,
            ),
            requested: amount_changes(&reported.requested, &desired.requested),
            pending: amount_changes(&reported.pending, &desired.pending),
            fair_share: amount_changes(&reported.fair_share, &desired.fair_share),
            conditions: differ.then(|| desired.conditions.iter().map(condition).collect()),
        }
    }
}

fn amount_changes<'q>(
    previous: &'q BTreeMap<Name, Name>,
    desired: &'q BTreeMap<Name, Name>,
) -> Amounts<'q> {
    let gone = previous.keys().map(|name| (&**name, None));
    gone.chain(desired.iter().map(|(name, is)| (&**name, Some(&**is)))).collect()
}

/// The fair share of the queue.
fn fair_share(usage: &QueueUsage) -> Resources {
    let PerResource { gpu, cpu, memory } = usage.fair_share;
    Resources { gpu_milli: gpu, cpu_milli: cpu, memory_bytes: memory, ..Resources::default() }
}

/// What waiting pods request.
fn pending_requests(usage: &QueueUsage) -> Resources {
    let (requested, allocated) = (&usage.requested, &usage.allocated);
    Resources {
        gpu_milli: requested.gpu_milli.saturating_sub(allocated.gpu_milli).max(0),
        cpu_milli: requested.cpu_milli.saturating_sub(allocated.cpu_milli).max(0),
        memory_bytes: requested.memory_bytes.saturating_sub(allocated.memory_bytes).max(0),
        ..Resources::default()
    }
}

/// Amounts as Kubernetes quantities, without zeros.
fn resource_quantities(resources: &Resources) -> BTreeMap<Name, Name> {
    let used = |name: &str, amount: i64, text: &dyn Fn(i64) -> String| {
        (amount != 0).then(|| (name.into(), text(amount).into()))
    };
    let all = [
        used("cpu", resources.cpu_milli, &format_milli),
        used("memory", resources.memory_bytes, &|bytes| bytes.to_string()),
        used(resources::GPU, resources.gpu_milli, &format_milli),
    ];
    all.into_iter().flatten().collect()
}
