//! Queue status: what is used, which queues stand below, and what is wrong with the set-up.
//! Written only when it differs from what stands there.

mod warnings;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    QueueUse,
    model::{Name, Time},
    resources::{PerResource, Resources},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json};

use crate::{
    api::{Api, ApiError, Merge, path},
    apply::{About, Event, Level, rfc3339},
    mirror::{Condition, Key, Mirror, QueueRecord, QueueTold},
};

/// The conditions of each queue that has any.
pub(crate) fn warnings(
    queues: &BTreeMap<Name, QueueRecord>,
    capacity: PerResource<i64>,
) -> BTreeMap<Name, BTreeMap<Name, Condition>> {
    warnings::of(queues, capacity)
}

/// Of the answer to a write only which state of the object it is.
#[derive(Deserialize)]
struct Answer {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
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
        let change = json!({ "status": status(&record.told, &told, now) });
        match api.patch(&path, Merge::Plain, &change).await {
            Ok(Answer { metadata }) => {
                // What the watch will tell of this is no news then.
                told.version = metadata.resource_version.parse().unwrap_or(0);
                record.told = told;
            }
            // It is gone; the watch will tell.
            Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
        if let Err(ApiError::Unknown(error)) = api.create::<IgnoredAny>(&path, &body).await {
            return Err(ApiError::Unknown(error));
        }
    }
    Ok(())
}

/// A merge patch: what is not used any more is taken away by `null`.
fn status(stands: &QueueTold, wanted: &QueueTold, now: Time) -> Value {
    let amounts = |stands: &BTreeMap<Name, Name>, wanted: &BTreeMap<Name, Name>| -> Value {
        let names: BTreeSet<&Name> = stands.keys().chain(wanted.keys()).collect();
        let amount = |name: &Name| (name.to_string(), json!(wanted.get(name).map(|is| &**is)));
        names.into_iter().map(amount).collect::<serde_json::Map<_, _>>().into()
    };
    let children: Vec<&str> = wanted.children.iter().map(|name| &**name).collect();
    let mut status = json!({
        "childQueues": children,
        "allocated": amounts(&stands.allocated, &wanted.allocated),
        "allocatedNonPreemptible":
            amounts(&stands.allocated_non_preemptible, &wanted.allocated_non_preemptible),
        "requested": amounts(&stands.requested, &wanted.requested),
    });
    if stands.conditions != wanted.conditions {
        let condition = |(kind, is): (&Name, &Condition)| {
            json!({
                "type": &**kind,
                "status": &*is.status,
                "reason": &*is.reason,
                "message": &*is.message,
                "lastTransitionTime": rfc3339(now),
            })
        };
        status["conditions"] = wanted.conditions.iter().map(condition).collect();
    }
    status
}

/// Amounts as Kubernetes writes them; what is zero is left out.
fn quantities(resources: &Resources) -> BTreeMap<Name, Name> {
    let milli = |amount: i64| match amount % 1000 {
        0 => (amount / 1000).to_string(),
        _ => format!("{amount}m"),
    };
    let named = [
        ("cpu", resources.cpu_milli, milli(resources.cpu_milli)),
        ("memory", resources.memory_bytes, resources.memory_bytes.to_string()),
        ("nvidia.com/gpu", resources.gpu_milli, milli(resources.gpu_milli)),
    ];
    let used = named.into_iter().filter(|(_, amount, _)| *amount != 0);
    used.map(|(name, _, text)| (name.into(), text.into())).collect()
}
