//! What becomes of pods when a Karta of their kind comes, changes or goes: in KAI they are grouped
//! anew as soon as anything changes on them.

use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

use super::{may_be_grouped, warnings::Warning};
use crate::{
    api::{Api, ApiError, path},
    apply::About,
    karta::{self, Changed},
    mirror::{GroupRecord, Key, Mirror, PodRecord},
    parse::Malformed,
};

/// Kartas and kinds that are different now: to who has just started, all of them.
#[derive(Debug)]
pub(super) struct News(Changed);

impl News {
    pub(super) fn of(mirror: &Mirror) -> Self {
        Self(mirror.kartas.changed().clone())
    }

    /// Nothing is described differently.
    pub(super) fn is_none(&self) -> bool {
        self.0.kinds.is_empty()
    }

    /// Those who made Kartas that count as not there.
    pub(super) fn warnings(&self, mirror: &Mirror) -> Vec<Warning> {
        let wrong = mirror.kartas.wrong(&self.0);
        let warning = |(name, uid, wrong): (&Name, &Name, Malformed)| {
            let key = Key { namespace: "".into(), name: Name::clone(name) };
            let uid = Name::clone(uid);
            let about = About { api_version: karta::API_VERSION, kind: "Karta", key, uid };
            (about, format!("{wrong}; until then it groups no pods"))
        };
        wrong.map(warning).collect()
    }

    /// Pods in groups that may not be theirs any more.
    pub(super) fn pods(&self, mirror: &Mirror) -> Vec<(Key, PodRecord)> {
        if self.is_none() {
            return Vec::new();
        }
        let groups = mirror.groups.iter().filter(|(key, group)| self.is_about(key, group));
        let pods = groups.flat_map(|(key, _)| mirror.pods_of(key));
        let pods = pods.filter(|(_, pod)| pod.ours && pod.owner.is_some() && may_be_grouped(pod));
        pods.map(|(key, pod)| (key, pod.clone())).collect()
    }

    /// The group was made of an owner of such a kind, and by nobody's hand.
    fn is_about(&self, key: &Key, group: &GroupRecord) -> bool {
        let Some(owner) = &group.owner else { return false };
        let described = (Name::clone(&owner.api_version), Name::clone(&owner.kind));
        let is_ours = key.name.starts_with("pg-") && key.name.contains(&*owner.uid);
        is_ours && self.0.kinds.contains(&described)
    }
}

/// The pod as a whole; the mirror keeps what decisions depend on. `None`: it is gone.
pub(super) async fn whole(
    api: &Api,
    pod: &Key,
) -> Result<Option<Result<Value, Malformed>>, ApiError> {
    match api.get(&path("v1", &pod.namespace, "pods", &pod.name)).await {
        Ok(object) => Ok(Some(Ok(object))),
        Err(ApiError::NotFound(_)) => Ok(None),
        Err(ApiError::Refused(why)) => {
            let allowed = "a pod that the grouper may read";
            Ok(Some(Err(Malformed::new(format!("pod {}", pod.name), why, allowed))))
        }
        Err(error) => Err(error),
    }
}
