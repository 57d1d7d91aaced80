//! Waiting pods that cannot be scheduled, as their pod groups know of them: they are there, and of
//! no help. (KAI counts them as it counts the others.)

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::{Name, ShapeId, UnusableMember};

use super::{
    Translator, Trouble,
    groups::{find, group_key},
    sub_groups::place,
};
use crate::{
    config::Flavor,
    mirror::{Key, Mirror, PodRecord},
};

impl Trouble {
    /// The member that has it, by its name.
    pub(crate) fn of_member(
        &self,
        pod: Name,
        sub_group: Option<usize>,
        shape: ShapeId,
    ) -> UnusableMember {
        // That the pod cannot be scheduled is said already, and which one it is.
        let (problem, cure) = if let Self::Pod(malformed) = self {
            let allowed = format!("{} allows {}", malformed.field, malformed.allowed);
            (malformed.to_string(), allowed)
        } else {
            (self.to_string(), self.remedy())
        };
        let (problem, cure) = (problem.into(), cure.into());
        UnusableMember { pod, sub_group, gated: false, shape, problem, cure }
    }
}

impl Translator {
    /// For groups of which nothing was noted yet.
    pub(super) fn note_all_unusable(&mut self, mirror: &Mirror) {
        let group = |pod: &Key| Some(group_key(pod, mirror.pods.get(pod)?.group.as_ref()?));
        let groups: BTreeSet<Key> = self.translation.troubles.keys().filter_map(group).collect();
        for key in groups {
            self.note_unusable(mirror, &key);
        }
    }

    /// For a group of which nothing was noted yet. One that cannot be read is told that instead.
    pub(super) fn note_unusable(&mut self, mirror: &Mirror, key: &Key) {
        let (snapshot, troubles) = (&mut self.translation.snapshot, &self.translation.troubles);
        let is_malformed =
            |key| mirror.groups.get(key).is_none_or(|group| group.malformed.is_some());
        if self.flavor == Flavor::Kube || troubles.is_empty() || is_malformed(key) {
            return;
        }
        let Ok(at) = find(&snapshot.pod_groups, key) else { return };
        let group = &mut snapshot.pod_groups[at];
        for (pod, record, trouble) in troubled(mirror, troubles, key) {
            let sub_group = place(&group.sub_groups, record.sub_group()).ok();
            let shape = self.shapes.id(&record.shape, &mut snapshot.shapes);
            let member = trouble.of_member(pod.name, sub_group, shape);
            group.unusable.push(UnusableMember { gated: record.gated, ..member });
        }
    }
}

/// The members of a group that have any trouble, by name. Whichever are fewer are walked: few pods
/// have trouble, and few groups many pods.
fn troubled<'a>(
    mirror: &'a Mirror,
    troubles: &'a BTreeMap<Key, Trouble>,
    group: &Key,
) -> Vec<(Key, &'a PodRecord, &'a Trouble)> {
    let Some(members) = mirror.members.get(group) else { return Vec::new() };
    let first = Key { namespace: Name::clone(&group.namespace), name: "".into() };
    let near = troubles.range(first..).take_while(|(pod, _)| pod.namespace == group.namespace);
    if near.clone().nth(members.len()).is_none() {
        let of_group = near.filter(|(pod, _)| members.contains(&pod.name));
        let known = of_group
            .filter_map(|(pod, trouble)| Some((pod.clone(), mirror.pods.get(pod)?, trouble)));
        return known.collect();
    }
    let known = mirror.pods_of(group).filter_map(|(pod, record)| {
        let trouble = troubles.get(&pod)?;
        Some((pod, record, trouble))
    });
    known.collect()
}
