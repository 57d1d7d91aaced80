//! Pod groups that pods need, and what becomes of them.

use std::collections::BTreeMap;

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::Name;

use super::{
    GROUPS, beside,
    marks::{Part, mark_one, write_marks},
    rules::{Group, Member},
    warnings::{self, Warning},
};
use crate::{
    api::{Api, ApiError, Merge, path},
    mirror::{GroupRecord, Key, Mirror, PodRecord},
    pacing::Pacing,
    parse::Malformed,
    watch::Kind,
};

/// The key of a group, what of it is in doubt, and what became of it.
type Ensured = (Key, Option<Warning>, Result<Vec<Value>, ApiError>);

/// Groups that pods need, in the order in which they were found.
#[derive(Default)]
pub(super) struct Wanted {
    positions: BTreeMap<Key, usize>,
    groups: Vec<(Key, Vec<Group>)>,
    /// Pods, the names of their groups, and where they stand in them.
    members: Vec<(Key, Name, Part)>,
    /// Of groups that were written: what of their owners cannot be meant.
    pub(super) doubts: Vec<Warning>,
}

impl Wanted {
    /// A pod that is to be marked with its group.
    pub(super) fn add(&mut self, pod: &Key, Member { group, part }: Member) {
        let part = part.map_or(Part::Whole, Part::In);
        self.members.push((pod.clone(), Name::clone(&group.name), part));
        self.need(pod, Some(group));
    }

    /// A pod that may be in another group, or elsewhere in its own, than it is to be.
    pub(super) fn move_to(&mut self, key: &Key, pod: &PodRecord, Member { group, part }: Member) {
        if pod.group.as_ref() != Some(&group.name) || pod.sub_group() != part.as_ref() {
            let part = part.map_or(Part::None, Part::In);
            self.members.push((key.clone(), Name::clone(&group.name), part));
        }
        self.need(key, Some(group));
    }

    /// The group of a pod, if there is one.
    pub(super) fn need(&mut self, pod: &Key, group: Option<Group>) {
        let Some(group) = group else { return };
        let key = beside(pod, &group.name);
        let position = *self.positions.entry(key.clone()).or_insert(self.groups.len());
        match self.groups.get_mut(position) {
            // Members may differ in what follows from themselves; the last one is right.
            Some((_, groups)) if groups.last() == Some(&group) => {}
            Some((_, groups)) => groups.push(group),
            None => self.groups.push((key, vec![group])),
        }
    }

    /// Creates the groups, or corrects what follows from their owners. Answers which pods are in
    /// none because the API server refuses theirs: they leave the rest alone.
    pub(super) async fn ensure(
        &mut self,
        api: &Api,
        mirror: &mut Mirror,
        pacing: &mut Pacing,
    ) -> (BTreeMap<Key, Malformed>, Result<(), ApiError>) {
        let work = std::mem::take(&mut self.groups).into_iter().filter_map(|(key, groups)| {
            let record = mirror.groups.get(&key).cloned();
            let agrees = |record| groups.iter().all(|group| group.agrees_with(record));
            let pool = mirror.pool_name();
            let is_right = record.as_ref().is_some_and(agrees);
            let pool = pool.to_owned();
            let doubt = groups.last().and_then(warnings::of_group);
            (!is_right).then_some(async move {
                let written = ensure(api, &key, (record, pool), groups).await;
                (key, doubt, written)
            })
        });
        let work: Vec<_> = work.collect();
        let (mut ended, mut refused) = (Ok(()), BTreeMap::new());
        let doubts = &mut self.doubts;
        let take = |(key, doubt, written): Ensured| match written {
            Ok(objects) => {
                for is in &objects {
                    mirror.upsert(Kind::PodGroup, is);
                }
                doubts.extend(doubt);
            }
            Err(ApiError::Refused(words)) => drop(refused.insert(key, Some(words))),
            // It, or its namespace, has just gone.
            Err(ApiError::NotFound(_)) => drop(refused.insert(key, None)),
            Err(error) => ended = Err(error),
        };
        pacing.all(work, take).await;
        let mut out = BTreeMap::new();
        self.members.retain(|(pod, name, _)| {
            let Some(words) = refused.get(&beside(pod, name)) else { return true };
            let (field, allowed) = (format!("PodGroup {name}"), "what the API server accepts");
            let wrong = words.clone().map(|found| Malformed { field, found, allowed });
            out.extend(wrong.map(|wrong| (pod.clone(), wrong)));
            false
        });
        (out, ended)
    }

    /// Marks the pods, where neither their bindings nor their status will.
    pub(super) async fn mark(
        &self,
        api: &Api,
        mirror: &mut Mirror,
        pacing: &mut Pacing,
    ) -> Result<(), ApiError> {
        for (pod, group, _) in self.members.iter().filter(|(.., part)| *part == Part::Whole) {
            mirror.assume_grouped(pod, group);
        }
        // Where a pod stands in its group is a label, which no binding carries; who comes with a
        // node gets no binding at all.
        let marks = self.members.iter().filter_map(|(pod, group, part)| {
            let placed = || mirror.pods.get(pod).is_some_and(|pod| pod.node.is_some());
            (*part != Part::Whole || placed()).then(|| mark_one(api, pod, (group, part)))
        });
        let marks = marks.collect();
        write_marks(marks, mirror, pacing).await
    }
}

/// Creates a group, or corrects what follows from its owner. The queue of a group that exists
/// is left as it is: somebody may have moved it.
async fn ensure(
    api: &Api,
    key: &Key,
    (mut stands, pool): (Option<GroupRecord>, String),
    groups: Vec<Group>,
) -> Result<Vec<Value>, ApiError> {
    let mut written = Vec::new();
    for group in groups {
        let answer = match &stands {
            Some(record) if group.agrees_with(record) => continue,
            Some(_) => {
                let change = json!({ "spec": group.derived_spec() });
                let path = path(GROUPS, &key.namespace, "podgroups", &key.name);
                api.patch(&path, Merge::Plain, &change).await
            }
            None => {
                let path = path(GROUPS, &key.namespace, "podgroups", "");
                api.create(&path, &group.manifest()).await
            }
        };
        match answer {
            Ok(object) => {
                stands = Some(GroupRecord::read(&object, &pool));
                written.push(object);
            }
            // It is there and the watch has not told yet.
            Err(ApiError::Conflict(_)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}
