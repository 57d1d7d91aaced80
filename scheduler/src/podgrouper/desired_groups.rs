//! The PodGroups that pods need, and the writes that create or correct them.

use std::collections::BTreeMap;

use schedlab_api::{Value, api_versions};
use schedlab_scheduler_core::model::Name;

use super::{
    key_in_namespace,
    mark_pods::{SubGroupLabel, mark_pod, write_marks},
    rules::{Group, Member},
    warnings::{self, Warning},
};
use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    cache::{ClusterCache, PodGroupRecord},
    concurrency::WriteLimiter,
    parse::Malformed,
    records::{ObjectKey, PodRecord},
    watch::Kind,
};

/// Key of a group, a warning about its owner, and the result of writing it.
type EnsureResult = (ObjectKey, Option<Warning>, Result<Vec<Value>, ApiError>);

/// Groups that pods need, in the order in which they were found, and the pods to be annotated.
#[derive(Default)]
pub(super) struct DesiredGroups {
    positions: BTreeMap<ObjectKey, usize>,
    groups: Vec<(ObjectKey, Vec<Group>)>,
    /// Pods to annotate, the names of their groups, and their sub-group labels.
    members: Vec<(ObjectKey, Name, SubGroupLabel)>,
    /// Warnings about the owners of groups that were written.
    pub(super) warnings: Vec<Warning>,
}

impl DesiredGroups {
    /// Adds a pod without group, to be annotated with the member's group.
    pub(super) fn add_pod(&mut self, pod: &ObjectKey, Member { group, sub_group: part }: Member) {
        let part = part.map_or(SubGroupLabel::Keep, SubGroupLabel::Set);
        self.members.push((pod.clone(), Name::clone(&group.name), part));
        self.require_group(pod, Some(group));
    }

    /// Adds a pod that already has a group; it is annotated anew if group or sub-group differ.
    pub(super) fn move_pod(&mut self, key: &ObjectKey, pod: &PodRecord, member: Member) {
        self.mark_if_moved(key, pod, &member);
        self.require_group(key, Some(member.group));
    }

    fn mark_if_moved(&mut self, key: &ObjectKey, pod: &PodRecord, member: &Member) {
        let Member { group, sub_group: part } = member;
        if pod.group.as_ref() != Some(&group.name) || pod.sub_group() != part.as_ref() {
            let part = part.clone().map_or(SubGroupLabel::Remove, SubGroupLabel::Set);
            self.members.push((key.clone(), Name::clone(&group.name), part));
        }
    }

    /// Corrects a group whose owner changed, and the sub-groups of `members`, which are all its
    /// pods. If the pods' labels lead to different groups, the group stays if it is right for one
    /// of them.
    pub(super) fn correct_group(
        &mut self,
        members: Vec<(ObjectKey, &PodRecord, Member)>,
        record: Option<&PodGroupRecord>,
    ) {
        let is_right = members
            .iter()
            .any(|(.., member)| record.is_some_and(|record| member.group.is_written_to(record)));
        for (key, pod, member) in &members {
            self.mark_if_moved(key, pod, member);
        }
        if let Some((key, _, member)) = members.into_iter().next_back().filter(|_| !is_right) {
            self.require_group(&key, Some(member.group));
        }
    }

    /// Requires that the group of a pod exists and is up to date.
    pub(super) fn require_group(&mut self, pod: &ObjectKey, group: Option<Group>) {
        let Some(group) = group else { return };
        let key = key_in_namespace(pod, &group.name);
        let position = *self.positions.entry(key.clone()).or_insert(self.groups.len());
        match self.groups.get_mut(position) {
            // Pods of one group may derive different fields from their own labels; the last pod
            // wins.
            Some((_, groups)) if groups.last() == Some(&group) => {}
            Some((_, groups)) => groups.push(group),
            None => self.groups.push((key, vec![group])),
        }
    }

    /// Creates the groups, or corrects the fields that derive from their owners. Returns the pods
    /// whose group the API server rejected, with the reason; they do not affect other pods.
    pub(super) async fn ensure_groups(
        &mut self,
        api: &ApiClient,
        cache: &mut ClusterCache,
        limiter: &mut WriteLimiter,
    ) -> (BTreeMap<ObjectKey, Malformed>, Result<(), ApiError>) {
        let work = std::mem::take(&mut self.groups).into_iter().filter_map(|(key, groups)| {
            let record = cache.groups.get(&key).cloned();
            let groups: Vec<Group> =
                groups.into_iter().map(|group| group.for_record(record.as_ref())).collect();
            let agrees = |record| groups.iter().all(|group| group.is_written_to(record));
            let pool = cache.pool_name();
            let is_right = record.as_ref().is_some_and(agrees);
            let pool = pool.to_owned();
            let warning = groups.last().and_then(warnings::for_group);
            (!is_right).then_some(async move {
                let written = ensure_group(api, &key, record, pool, groups).await;
                (key, warning, written)
            })
        });
        let work: Vec<_> = work.collect();
        let (mut ended, mut rejected) = (Ok(()), BTreeMap::new());
        let warnings = &mut self.warnings;
        let take = |(key, warning, written): EnsureResult| match written {
            Ok(objects) => {
                for is in &objects {
                    cache.upsert(Kind::PodGroup, is);
                }
                warnings.extend(warning);
            }
            Err(ApiError::Refused(message)) => drop(rejected.insert(key, Some(message))),
            // The group or its namespace was just deleted.
            Err(ApiError::NotFound(_)) => drop(rejected.insert(key, None)),
            Err(error) => ended = Err(error),
        };
        limiter.run_all(work, take).await;
        let mut out = BTreeMap::new();
        self.members.retain(|(pod, name, _)| {
            let Some(message) = rejected.get(&key_in_namespace(pod, name)) else { return true };
            let (field, allowed) =
                (format!("PodGroup {name}"), "a PodGroup that the API server accepts");
            let wrong = message.clone().map(|found| Malformed { field, found, allowed });
            out.extend(wrong.map(|wrong| (pod.clone(), wrong)));
            false
        });
        (out, ended)
    }

    /// Annotates the pods whose group annotation no Binding or status write will carry.
    pub(super) async fn annotate_pods(
        &self,
        api: &ApiClient,
        cache: &mut ClusterCache,
        limiter: &mut WriteLimiter,
    ) -> Result<(), ApiError> {
        for (pod, group, _) in self.members.iter().filter(|(.., part)| *part == SubGroupLabel::Keep)
        {
            cache.assume_grouped(pod, group);
        }
        // The sub-group is a label, which a Binding cannot carry; a pod created with a node name
        // gets no Binding at all.
        let marks = self.members.iter().filter_map(|(pod, group, part)| {
            let placed = || cache.pods.get(pod).is_some_and(|pod| pod.node.is_some());
            (*part != SubGroupLabel::Keep || placed()).then(|| mark_pod(api, pod, group, part))
        });
        let marks = marks.collect();
        write_marks(marks, cache, limiter).await
    }
}

/// Creates a group, or corrects the fields that derive from its owner and differ from what was
/// derived before. An existing group keeps its queue: a user may have moved it.
async fn ensure_group(
    api: &ApiClient,
    key: &ObjectKey,
    mut existing: Option<PodGroupRecord>,
    pool: String,
    groups: Vec<Group>,
) -> Result<Vec<Value>, ApiError> {
    let mut written = Vec::new();
    for group in groups {
        let answer = match &existing {
            Some(record) if group.is_written_to(record) => continue,
            Some(record) => {
                let change = group.correction_patch(record);
                let path =
                    object_path(api_versions::POD_GROUP, &key.namespace, "podgroups", &key.name);
                api.patch(&path, PatchKind::Merge, &change).await
            }
            None => {
                let path = object_path(api_versions::POD_GROUP, &key.namespace, "podgroups", "");
                api.create(&path, &group.manifest()).await
            }
        };
        match answer {
            Ok(object) => {
                existing = Some(PodGroupRecord::from_object(&object, &pool));
                written.push(object);
            }
            // It exists; the watch event has not arrived yet.
            Err(ApiError::Conflict(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}
