//! Queue status: what is used, which queues stand below, and what is wrong with the set-up.
//! Written only when it differs from what stands there.

mod left_alone;
mod warnings;

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    QueueUse,
    model::{Name, Time},
    resources::{PerResource, Resources},
};
use serde::Serialize;

use crate::{
    api::{Api, ApiError, Merge, path},
    apply::{About, Event, Level, rfc3339},
    mirror::{Condition, Key, Mirror, QueueRecord, QueueTold},
    parse::milli,
};

pub(crate) use left_alone::add as add_left_alone;

/// The conditions of each queue that has any.
pub(crate) fn warnings(
    queues: &BTreeMap<Name, QueueRecord>,
    capacity: PerResource<i64>,
) -> BTreeMap<Name, BTreeMap<Name, Condition>> {
    warnings::of(queues, capacity)
}

/// Brings the status of every queue up to date. An error leaves the rest for the next cycle.
pub(crate) async fn write(
    api: &Api,
    mirror: &mut Mirror,
    uses: &BTreeMap<Name, QueueUse>,
    (capacity, now): (PerResource<i64>, Time),
) -> Result<(), ApiError> {
    let mut warnings = warnings::of(&mirror.queues, capacity);
    let mut children: BTreeMap<Name, Vec<Name>> = BTreeMap::new();
    for (name, record) in &mirror.queues {
        if let Some(parent) = &record.parent {
            children.entry(Name::clone(parent)).or_default().push(Name::clone(name));
        }
    }
    let mut outrun = Ok(());
    for (name, record) in &mut mirror.queues {
        let account = uses.get(name).cloned().unwrap_or_default();
        let mut told = QueueTold {
            version: record.told.version,
            children: children.remove(name).unwrap_or_default(),
            allocated: quantities(&account.allocated),
            allocated_non_preemptible: quantities(&account.allocated_non_preemptible),
            requested: quantities(&account.requested),
            conditions: warnings.remove(name).unwrap_or_default(),
        };
        if record.told == told {
            continue;
        }
        let about = About {
            api_version: "scheduling.run.ai/v2",
            kind: "Queue",
            key: Key { namespace: "".into(), name: Name::clone(name) },
            uid: Name::clone(&record.uid),
        };
        warn(api, &about, (&record.told.conditions, &told.conditions), now).await?;
        let path = path("scheduling.run.ai/v2", "", "queues", &format!("{name}/status"));
        let metadata = Seen { resource_version: record.told.version.to_string() };
        let change = Change { metadata, status: Status::new(&record.told, &told, now) };
        match api.patch_metadata(&path, Merge::Plain, &change).await {
            Ok(metadata) => {
                // What the watch will tell of this is no news then, for nothing came between.
                told.version = metadata.version();
                record.told = told;
            }
            // It is gone; the watch will tell.
            Err(ApiError::NotFound(_)) => {}
            // Somebody changed it: the next cycle tells, when the watch has told of that.
            Err(conflict @ ApiError::Conflict(_)) => outrun = Err(conflict),
            Err(error) => return Err(error),
        }
    }
    outrun
}

/// An event for each new warning.
async fn warn(
    api: &Api,
    about: &About,
    (stands, wanted): (&BTreeMap<Name, Condition>, &BTreeMap<Name, Condition>),
    now: Time,
) -> Result<(), ApiError> {
    for (kind, condition) in wanted.iter().filter(|(kind, is)| stands.get(*kind) != Some(is)) {
        let event = Event {
            about,
            level: Level::Warning,
            reason: kind,
            message: &condition.message,
            gist: None,
            occasion: &rfc3339(now),
        };
        let (path, body) = event.request(&api.name, now);
        if let Err(ApiError::Unknown(error)) = api.tell(&path, body).await {
            return Err(ApiError::Unknown(error));
        }
    }
    Ok(())
}

/// A merge patch of the queue as it was seen. Of the answer only the version is read: without this
/// condition, what somebody changed in between would be taken for known.
#[derive(Serialize)]
struct Change<'q> {
    metadata: Seen,
    status: Status<'q>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    resource_version: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'q> {
    child_queues: Vec<&'q str>,
    allocated: Amounts<'q>,
    allocated_non_preemptible: Amounts<'q>,
    requested: Amounts<'q>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<Vec<StatusCondition<'q>>>,
}

/// What is not used any more is taken away by `null`.
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

impl<'q> Status<'q> {
    /// From what `stands` to what is `wanted`.
    fn new(stands: &'q QueueTold, wanted: &'q QueueTold, now: Time) -> Self {
        let condition = |(kind, is): (&'q Name, &'q Condition)| StatusCondition {
            kind,
            status: &is.status,
            reason: &is.reason,
            message: &is.message,
            last_transition_time: rfc3339(now),
        };
        let differ = stands.conditions != wanted.conditions;
        Self {
            child_queues: wanted.children.iter().map(|name| &**name).collect(),
            allocated: amounts(&stands.allocated, &wanted.allocated),
            allocated_non_preemptible: amounts(
                &stands.allocated_non_preemptible,
                &wanted.allocated_non_preemptible,
            ),
            requested: amounts(&stands.requested, &wanted.requested),
            conditions: differ.then(|| wanted.conditions.iter().map(condition).collect()),
        }
    }
}

fn amounts<'q>(stands: &'q BTreeMap<Name, Name>, wanted: &'q BTreeMap<Name, Name>) -> Amounts<'q> {
    let gone = stands.keys().map(|name| (&**name, None));
    gone.chain(wanted.iter().map(|(name, is)| (&**name, Some(&**is)))).collect()
}

/// Amounts as Kubernetes writes them; what is zero is left out.
fn quantities(resources: &Resources) -> BTreeMap<Name, Name> {
    let used = |name: &str, amount: i64, text: &dyn Fn(i64) -> String| {
        (amount != 0).then(|| (name.into(), text(amount).into()))
    };
    let all = [
        used("cpu", resources.cpu_milli, &milli),
        used("memory", resources.memory_bytes, &|bytes| bytes.to_string()),
        used("nvidia.com/gpu", resources.gpu_milli, &milli),
    ];
    all.into_iter().flatten().collect()
}
