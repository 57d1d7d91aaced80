//! Watches the owners of pod groups, so that a group follows its owner: one that is scaled gets its
//! new minimum at once. Only metadata is watched; an owner is read again when its generation,
//! labels or annotations change. KAI reads owners again when one of their pods changes.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use kube::Client;
use schedlab_api::{Value, annotations};
use schedlab_scheduler_core::model::{Labels, Name};

use crate::{
    api::object_path,
    cache::ClusterCache,
    parse::{at, strings, uid},
    records::ObjectKey,
    watch::{WatchEvent, Watched, Watches},
};

/// Kinds that need no watch: their objects own pods and are no workloads, or the cache watches
/// them.
const UNWATCHED_PLURALS: [&str; 2] = ["nodes", "pods"];

/// A kind of owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerResource {
    pub(super) api_version: Name,
    /// Resource name (plural).
    pub(super) plural: Name,
}

impl Watched for OwnerResource {
    fn path(&self) -> String {
        object_path(&self.api_version, "", &self.plural, "")
    }

    fn is_metadata_only(&self) -> bool {
        true
    }
}

/// An event of the watch of an owner.
pub(crate) type OwnerEvent = WatchEvent<OwnerResource>;

/// The watched owners.
#[derive(Default)]
pub(super) struct OwnerWatches {
    watches: Watches<OwnerResource>,
    owners: BTreeMap<(OwnerResource, ObjectKey), WatchedOwner>,
    /// Groups of which an owner changed since they were derived.
    outdated: BTreeSet<ObjectKey>,
    /// Whether an owner changed whose pods could not be grouped.
    has_corrected: bool,
}

/// An owner, as it was when its groups were derived.
struct WatchedOwner {
    version: OwnerVersion,
    groups: BTreeSet<ObjectKey>,
    /// Whether pods of this owner could not be grouped.
    is_invalid: bool,
}

/// The part of an owner that changes when its groups may change; a new status changes none of it.
#[derive(Clone, PartialEq, Eq)]
struct OwnerVersion {
    uid: Name,
    generation: Value,
    labels: Labels,
    annotations: Labels,
}

impl OwnerVersion {
    fn of(object: &Value) -> Self {
        let mut annotations = strings(object, "/metadata/annotations");
        annotations.remove(annotations::LAST_APPLIED_CONFIGURATION);
        // Without a generation each change counts.
        let generation = ["/metadata/generation", "/metadata/resourceVersion"];
        let generation = generation.iter().find_map(|part| at(object, part)).cloned();
        Self {
            uid: uid(object),
            generation: generation.unwrap_or_default(),
            labels: strings(object, "/metadata/labels"),
            annotations,
        }
    }
}

impl OwnerWatches {
    /// Records that a group was derived from this owner (`None`: none could be derived), and
    /// watches the owner.
    pub(super) fn record(
        &mut self,
        client: &Client,
        resource: OwnerResource,
        key: ObjectKey,
        object: &Value,
        group: Option<&ObjectKey>,
    ) {
        if UNWATCHED_PLURALS.contains(&&*resource.plural) {
            return;
        }
        if !self.watches.contains(&resource) {
            self.watches.start_or_restart_kind(client, resource.clone());
        }
        let version = OwnerVersion::of(object);
        let owner = self.owners.entry((resource, key)).or_insert_with(|| WatchedOwner {
            version: version.clone(),
            groups: BTreeSet::new(),
            is_invalid: false,
        });
        if owner.version != version {
            // Its other groups were derived from an earlier version.
            self.outdated.extend(owner.groups.iter().cloned());
            owner.version = version;
        }
        owner.groups.extend(group.cloned());
        owner.is_invalid = group.is_none();
    }

    /// The next event of any watch; waits forever while none is watched.
    pub(super) async fn next(&mut self) -> Option<OwnerEvent> {
        self.watches.next().await
    }

    /// Handles an event. Returns whether a pod must be grouped again.
    pub(super) fn on_event(&mut self, event: OwnerEvent) -> bool {
        match event {
            WatchEvent::Listed(resource, objects) => {
                let changed = objects.iter().map(|object| self.update_version(&resource, object));
                changed.fold(false, |any, changed| any | changed)
            }
            WatchEvent::Changed(resource, object) => {
                let key = ObjectKey::from_raw(&object);
                let is_known = self.owners.contains_key(&(resource.clone(), key));
                let object = is_known.then(|| object.decode()).flatten();
                object.is_some_and(|object| self.update_version(&resource, &object))
            }
            // Its groups are deleted with it.
            WatchEvent::Deleted(..) => false,
        }
    }

    fn update_version(&mut self, resource: &OwnerResource, object: &Value) -> bool {
        let key = (resource.clone(), ObjectKey::from_object(object));
        let Some(owner) = self.owners.get_mut(&key) else { return false };
        let version = OwnerVersion::of(object);
        if owner.version == version {
            return false;
        }
        owner.version = version;
        self.outdated.extend(owner.groups.iter().cloned());
        self.has_corrected |= owner.is_invalid;
        true
    }

    /// Whether an owner whose pods could not be grouped has changed since the last call.
    pub(super) fn take_has_corrected(&mut self) -> bool {
        std::mem::take(&mut self.has_corrected)
    }

    /// Counts all groups as outdated: their owners may have changed while no pod grouper ran.
    pub(super) fn mark_all_outdated(&mut self, cache: &ClusterCache) {
        let owned = cache.groups.iter().filter(|(_, group)| group.owner.is_some());
        self.outdated.extend(owned.map(|(key, _)| key.clone()));
    }

    /// The first outdated groups, at most this many.
    pub(super) fn first_outdated_groups(&self, limit: usize) -> Vec<ObjectKey> {
        self.outdated.iter().take(limit).cloned().collect()
    }

    /// Whether any group is outdated.
    pub(super) fn has_outdated_groups(&self) -> bool {
        !self.outdated.is_empty()
    }

    /// Records that the group is up to date.
    pub(super) fn mark_up_to_date(&mut self, group: &ObjectKey) {
        self.outdated.remove(group);
    }

    /// Forgets groups that do not exist any more, and their owners.
    pub(super) fn prune(&mut self, cache: &ClusterCache) {
        if self.owners.len() <= 2 * cache.groups.len() + 64 {
            return;
        }
        self.owners.retain(|_, owner| {
            owner.groups.retain(|group| cache.groups.contains_key(group));
            !owner.groups.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;
    use crate::watch::RawObject;

    fn resource() -> OwnerResource {
        OwnerResource { api_version: "batch/v1".into(), plural: "jobs".into() }
    }

    fn job(uid: &str, generation: u32, version: u32, annotations: &Value) -> Value {
        json!({ "metadata": {
            "namespace": "ns", "name": "j", "uid": uid, "generation": generation,
            "resourceVersion": version.to_string(), "annotations": annotations,
        } })
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey { namespace: "ns".into(), name: name.into() }
    }

    fn watched(object: &Value) -> OwnerWatches {
        let mut watches = OwnerWatches::default();
        let groups = BTreeSet::from([key("g")]);
        let owner = WatchedOwner { version: OwnerVersion::of(object), groups, is_invalid: false };
        watches.owners.insert((resource(), key("j")), owner);
        watches
    }

    #[test]
    fn a_group_is_outdated_when_generation_labels_or_annotations_of_its_owner_change() {
        let first = job("u", 1, 1, &json!({}));
        let changed = |object: &Value| {
            let mut watches = watched(&first);
            let event = WatchEvent::Changed(resource(), RawObject::from_value(object));
            assert_eq!(watches.on_event(event), watches.has_outdated_groups());
            watches.has_outdated_groups()
        };
        assert!(!changed(&job("u", 1, 2, &json!({}))), "status");
        let applied = json!({ (annotations::LAST_APPLIED_CONFIGURATION): "{}" });
        assert!(!changed(&job("u", 1, 2, &applied)));
        assert!(changed(&job("u", 2, 2, &json!({}))));
        assert!(changed(&job("u", 1, 2, &json!({ "a": "b" }))));
        assert!(changed(&job("v", 1, 2, &json!({}))));
    }

    #[test]
    fn a_list_reports_changes_that_the_watch_missed() {
        let mut watches = watched(&job("u", 1, 1, &json!({})));
        let listed = |object| WatchEvent::Listed(resource(), vec![object]);
        assert!(!watches.on_event(listed(job("u", 1, 1, &json!({})))));
        assert!(watches.on_event(listed(job("u", 2, 2, &json!({})))));
        assert_eq!(watches.first_outdated_groups(9), [key("g")]);
        watches.mark_up_to_date(&key("g"));
        assert!(!watches.has_outdated_groups());
    }
}
