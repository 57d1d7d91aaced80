//! The members of a pod group, sub-group by sub-group: how many hold a node, which wait and in
//! which order, and which of them are next. A sub-group is a leaf with a minimum of pods, or an
//! inner node of which so many children must be satisfied.

mod not_ready;
mod short;

use std::collections::{BTreeMap, BTreeSet};

use super::PodState;
use crate::{
    model::{Pod, PodGroup, PodId, PodStatus},
    queues::Shortfall,
};

pub use not_ready::{NotReady, Unusable};

/// The members of one pod group.
#[derive(Clone, Debug, Default)]
pub struct Members {
    sub_groups: Vec<SubMembers>,
    /// Children of each inner sub-group.
    children: BTreeMap<usize, Vec<usize>>,
    /// Children of the group itself.
    top: Vec<usize>,
}

/// The members of one sub-group.
#[derive(Clone, Debug, Default)]
pub struct SubMembers {
    /// Pods that wait for a node, by task order.
    pub waiting: BTreeSet<(u32, PodId)>,
    /// Pods that hold, or were promised, a node.
    pub active: u32,
    /// Of those, pods that only were promised one.
    pub promised: u32,
    /// Pods behind scheduling gates.
    pub gated: u32,
    /// Pods that were asked to leave, or lost their node.
    pub leaving: u32,
    /// Pods that finished well.
    pub succeeded: u32,
    /// Pods that wait and cannot be scheduled as they stand.
    pub unusable: u32,
}

impl Members {
    pub(super) fn of(group: &PodGroup) -> Self {
        let mut members = Self {
            sub_groups: vec![SubMembers::default(); group.sub_groups.len()],
            ..Self::default()
        };
        for (at, sub_group) in group.sub_groups.iter().enumerate() {
            match sub_group.parent {
                Some(parent) => members.children.entry(parent).or_default().push(at),
                None => members.top.push(at),
            }
        }
        for sub_group in group.unusable.iter().filter_map(|member| member.sub_group) {
            members.sub_groups[sub_group].unusable += 1;
        }
        members
    }

    /// The members of one sub-group, by position.
    pub fn of_sub_group(&self, sub_group: usize) -> &SubMembers {
        &self.sub_groups[sub_group]
    }

    pub(super) fn enter(&mut self, (pod, rank): (PodId, u32), of: &Pod, state: PodState) {
        let sub_group = &mut self.sub_groups[of.sub_group];
        if state == PodState::Pending {
            sub_group.waiting.insert((rank, pod));
        } else if let Some(count) = sub_group.count(state, of.status) {
            *count += 1;
            sub_group.promised += u32::from(state.is_promised());
        }
    }

    pub(super) fn leave(&mut self, (pod, rank): (PodId, u32), of: &Pod, state: PodState) {
        let sub_group = &mut self.sub_groups[of.sub_group];
        if state == PodState::Pending {
            sub_group.waiting.remove(&(rank, pod));
        } else if let Some(count) = sub_group.count(state, of.status) {
            *count -= 1;
            sub_group.promised -= u32::from(state.is_promised());
        }
    }

    /// A minimum is met only by pods that wait for the room they were promised.
    pub fn minimum_waits(&self, group: &PodGroup) -> bool {
        let all = self.sub_groups.iter().zip(&group.sub_groups);
        all.into_iter().any(|(members, sub_group)| {
            members.promised > 0 && members.active - members.promised < sub_group.min_member
        })
    }

    /// Pods of it wait for a node.
    pub fn wait(&self) -> bool {
        self.sub_groups.iter().any(|members| !members.waiting.is_empty())
    }

    /// Pods of it wait for room that they were promised.
    pub fn were_promised(&self) -> bool {
        self.sub_groups.iter().any(|members| members.promised > 0)
    }

    /// The pods that wait, by sub-group and task order.
    pub fn waiting(&self) -> impl Iterator<Item = PodId> + '_ {
        self.sub_groups.iter().flat_map(|members| members.waiting.iter().map(|(_, pod)| *pod))
    }

    /// How many hold, or were promised, a node.
    pub fn active(&self) -> u32 {
        self.sub_groups.iter().map(|members| members.active).sum()
    }

    /// How many are behind scheduling gates.
    pub fn gated(&self) -> u32 {
        self.sub_groups.iter().map(|members| members.gated).sum()
    }

    /// How many finished well.
    pub fn succeeded(&self) -> u32 {
        self.sub_groups.iter().map(|members| members.succeeded).sum()
    }

    /// How the group stands to its minimum.
    pub fn shortfall(&self, group: &PodGroup) -> Shortfall {
        let tree = Tree { group, members: self };
        if !tree.is_satisfied(None) {
            return Shortfall::BelowMinimum;
        }
        let needed: u64 = group.sub_groups.iter().map(|sub| u64::from(sub.min_member)).sum();
        if u64::from(self.active()) > needed {
            Shortfall::AboveMinimum
        } else {
            Shortfall::AtMinimum
        }
    }

    /// How many pods must run together at least.
    pub fn minimum(&self, group: &PodGroup) -> u64 {
        Tree { group, members: self }.size(None).1
    }

    /// Enough pods are there, or have been let through their gates, for the minimum.
    pub fn ready(&self, group: &PodGroup) -> Result<(), NotReady> {
        let tree = Tree { group, members: self };
        if tree.can_be_satisfied(None) { Ok(()) } else { Err(self.not_ready(group)) }
    }

    /// These pods, that had left the group, with their sub-groups and places in task order: in the
    /// pieces, and the order, in which they come back; what cannot come back is the last piece.
    pub fn returning(
        &self,
        group: &PodGroup,
        left: &BTreeMap<PodId, (usize, u32)>,
    ) -> Vec<Vec<PodId>> {
        let mut members = self.clone();
        for sub_group in &mut members.sub_groups {
            sub_group.waiting.clear();
        }
        for (pod, (sub_group, rank)) in left {
            members.sub_groups[*sub_group].waiting.insert((*rank, *pod));
        }
        let mut pieces = Vec::new();
        loop {
            let piece = members.next_chunk(group);
            if piece.is_empty() {
                let rest: Vec<PodId> = members.waiting().collect();
                pieces.extend((!rest.is_empty()).then_some(rest));
                return pieces;
            }
            for pod in &piece {
                let (sub_group, rank) = left[pod];
                members.sub_groups[sub_group].waiting.remove(&(rank, *pod));
                members.sub_groups[sub_group].active += 1;
            }
            pieces.push(piece);
        }
    }

    /// The pods to place next: what a gang misses of its minimum, else one more pod, or one
    /// more sub-group that is not needed for the minimum. Empty: nothing (useful) waits.
    pub fn next_chunk(&self, group: &PodGroup) -> Vec<PodId> {
        Tree { group, members: self }.chunk(None)
    }
}

impl SubMembers {
    fn count(&mut self, state: PodState, status: PodStatus) -> Option<&mut u32> {
        match state {
            PodState::Holding(_)
            | PodState::Promised(_)
            | PodState::Moving { .. }
            | PodState::Away => Some(&mut self.active),
            PodState::Gated => Some(&mut self.gated),
            PodState::Releasing(_) | PodState::Stuck(_) | PodState::Lost => Some(&mut self.leaving),
            PodState::Finished => (status == PodStatus::Succeeded).then_some(&mut self.succeeded),
            PodState::Pending => None,
        }
    }

    /// Pods that hold a node or could get one.
    fn alive(&self) -> u32 {
        let waiting = u32::try_from(self.waiting.len()).expect("pod ids are 32 bits");
        self.active + waiting
    }
}

/// The tree of sub-groups; `None` is its root, the group itself.
struct Tree<'a> {
    group: &'a PodGroup,
    members: &'a Members,
}

impl<'a> Tree<'a> {
    fn children(&self, at: Option<usize>) -> &'a [usize] {
        match at {
            Some(at) => self.members.children.get(&at).map_or(&[], Vec::as_slice),
            None => &self.members.top,
        }
    }

    fn needed(&self, at: Option<usize>, children: usize) -> usize {
        let needed = match at {
            Some(at) => self.group.sub_groups[at].min_sub_group,
            None => self.group.min_sub_group,
        };
        needed.map_or(children, |needed| needed as usize)
    }

    fn is_satisfied(&self, at: Option<usize>) -> bool {
        let children = self.children(at);
        if children.is_empty() {
            return at.is_none_or(|leaf| self.active(leaf) >= self.minimum(leaf));
        }
        let satisfied = children.iter().filter(|child| self.is_satisfied(Some(**child))).count();
        satisfied >= self.needed(at, children.len())
    }

    fn can_be_satisfied(&self, at: Option<usize>) -> bool {
        let children = self.children(at);
        if children.is_empty() {
            return at
                .is_none_or(|leaf| self.members.sub_groups[leaf].alive() >= self.minimum(leaf));
        }
        let able = children.iter().filter(|child| self.can_be_satisfied(Some(**child))).count();
        able >= self.needed(at, children.len())
    }

    fn chunk(&self, at: Option<usize>) -> Vec<PodId> {
        // Nothing to choose from, as in most groups.
        if let [only] = *self.children(at) {
            let able = self.can_be_satisfied(Some(only));
            return if able { self.chunk(Some(only)) } else { Vec::new() };
        }
        let children = self.in_order(at);
        if children.is_empty() {
            return at.map_or_else(Vec::new, |leaf| self.next_pods(leaf));
        }
        let needed = self.needed(at, children.len());
        let satisfied = children.iter().filter(|child| self.is_satisfied(Some(**child))).count();
        if satisfied < needed {
            let first = children.into_iter().take(needed);
            let unsatisfied = first.filter(|child| !self.is_satisfied(Some(*child)));
            return unsatisfied.flat_map(|child| self.chunk(Some(child))).collect();
        }
        let mut chunks = children.into_iter().map(|child| self.chunk(Some(child)));
        chunks.find(|pods| !pods.is_empty()).unwrap_or_default()
    }

    fn next_pods(&self, leaf: usize) -> Vec<PodId> {
        let missing = self.minimum(leaf).saturating_sub(self.active(leaf)).max(1);
        let waiting = self.members.sub_groups[leaf].waiting.iter();
        waiting.take(missing as usize).map(|(_, pod)| *pod).collect()
    }

    /// Children that can be satisfied, in the order in which they are served: unsatisfied ones,
    /// then by fewer pods per minimum, those without a minimum last; then by name.
    fn in_order(&self, at: Option<usize>) -> Vec<usize> {
        let mut children = self.children(at).to_vec();
        children.retain(|child| self.can_be_satisfied(Some(*child)));
        let key = |child: usize| {
            let satisfied = self.is_satisfied(Some(child));
            let (active, minimum) = self.size(Some(child));
            let per_minimum = if satisfied { active * 1_000_000 / minimum.max(1) } else { 0 };
            (minimum == 0, satisfied, per_minimum, &self.group.sub_groups[child].name)
        };
        children.sort_by_cached_key(|child| key(*child));
        children
    }

    /// Active pods of everything below, and how many at least it takes to satisfy it.
    fn size(&self, at: Option<usize>) -> (u64, u64) {
        let children = self.children(at);
        if children.is_empty() {
            let of_leaf = |leaf| (u64::from(self.active(leaf)), u64::from(self.minimum(leaf)));
            return at.map_or((0, 0), of_leaf);
        }
        let needed = self.needed(at, children.len());
        let (mut active, mut minima) = (0, Vec::new());
        for (below, minimum) in children.iter().map(|child| self.size(Some(*child))) {
            active += below;
            minima.push(minimum);
        }
        minima.sort_unstable();
        (active, minima.into_iter().take(needed).sum())
    }

    fn active(&self, leaf: usize) -> u32 {
        self.members.sub_groups[leaf].active
    }

    fn minimum(&self, leaf: usize) -> u32 {
        self.group.sub_groups[leaf].min_member
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Profile,
        model::{NodeId, PodGroupId},
        session::Session,
        testing::snapshot_of,
    };

    /// The first group of the table: how it stands to its minimum, and who is next.
    fn standing(text: &str) -> String {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let (group, members) = (&snapshot.pod_groups[0], session.members(PodGroupId(0)));
        let pods = members.next_chunk(group).into_iter();
        let pods: Vec<&str> = pods.map(|pod| &*snapshot.pods[pod.0 as usize].name).collect();
        let ready = match members.ready(group) {
            Ok(()) => String::new(),
            Err(NotReady { sub_group, required, exist, gated, .. }) => {
                let part = sub_group.map_or_else(String::new, |part| format!(" of {part}"));
                format!(", {exist} exist{part} and {gated} of them are gated, {required} must")
            }
        };
        format!("{:?}{ready}: {}", members.shortfall(group), pods.join(" "))
    }

    #[test]
    fn what_is_missing_of_a_minimum_comes_at_once_and_surplus_one_by_one() {
        assert_eq!(standing("job a pods=5 min=3"), "BelowMinimum: a-0 a-1 a-2");
        assert_eq!(standing("node n1\njob a pods=5 min=3 on n1"), "BelowMinimum: a-1 a-2");
        assert_eq!(standing("node n1\njob a pods=5 min=2 on n1 n1"), "AtMinimum: a-2");
        assert_eq!(standing("node n1\njob a pods=5 min=2 on n1 n1 n1"), "AboveMinimum: a-3");
        assert_eq!(standing("job a pods=2 min=0"), "AtMinimum: a-0");
        assert_eq!(standing("node n1\ngang a pods=2 gpus=1 on n1 n1"), "AtMinimum: ");
    }

    #[test]
    fn a_gang_whose_pods_are_not_all_there_tells_of_the_part_that_is_short() {
        assert_eq!(
            standing("job a pods=4 min=3 gated=2"),
            "BelowMinimum, 4 exist and 2 of them are gated, 3 must: "
        );
        assert_eq!(standing("job a pods=4 min=3 gated=1"), "BelowMinimum: a-0 a-1 a-2");
        let parts = "
            node n1
            gang a
              part head
              part left pods=3 gated=1
              part right pods=2 gated=1
        ";
        assert_eq!(
            standing(parts),
            "BelowMinimum, 3 exist of left and 1 of them are gated, 3 must: a-head"
        );
        assert_eq!(
            standing("node n1\ngang a pods=3 gpus=1 releasing on n1"),
            "BelowMinimum, 2 exist and 0 of them are gated, 3 must: "
        );
    }

    #[test]
    fn so_many_parts_as_are_needed_come_together_and_others_one_by_one() {
        let of = |parts: &str| standing(&format!("node n1\ngang a needs=2\n{parts}"));
        assert_eq!(of("part c\npart b pods=2\npart a"), "BelowMinimum: a-a a-b-0 a-b-1", "by name");
        assert_eq!(of("part a on n1\npart b\npart c"), "BelowMinimum: a-b a-c");
        assert_eq!(of("part a on n1\npart b on n1\npart c"), "AtMinimum: a-c");
        assert_eq!(of("part a gated=1\npart b\npart c"), "BelowMinimum: a-b a-c");
        assert_eq!(of("part a min=0\npart b\npart c"), "BelowMinimum: a-b a-c");
    }

    #[test]
    fn of_satisfied_parts_the_one_with_fewer_pods_per_minimum_grows() {
        let of = |parts: &str| standing(&format!("node n1\ngang a\n{parts}"));
        let uneven = "
            part a pods=9 min=2 on n1 n1 n1 n1
            part b pods=9 min=4 on n1 n1 n1 n1 n1
        ";
        assert_eq!(of(uneven), "AboveMinimum: a-b-5");
        let nested = "
            part a pods=9 min=2 on n1 n1 n1
            part rack needs=1
            part l parent=rack pods=9 min=4 on n1 n1 n1 n1
            part r parent=rack pods=9 min=3 on n1 n1 n1
        ";
        assert_eq!(of(nested), "AboveMinimum: a-a-3");
        let fuller = "
            part a pods=9 min=2 on n1 n1 n1 n1 n1 n1
            part rack needs=1
            part l parent=rack pods=9 min=4 on n1 n1 n1 n1
            part r parent=rack pods=9 min=3 on n1 n1 n1
        ";
        assert_eq!(of(fuller), "AboveMinimum: a-l-4");
    }

    #[test]
    fn a_minimum_waits_as_long_as_some_of_it_only_was_promised_room() {
        let text = "
            node n1
            job a pods=4 min=2 on n1
        ";
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let mut session = Session::new(&snapshot, &profile);
        let (group, id) = (&snapshot.pod_groups[0], PodGroupId(0));
        let told = |session: &Session<'_>| {
            let members = session.members(id);
            (members.minimum_waits(group), members.were_promised(), members.wait())
        };
        assert_eq!(told(&session), (false, false, true));
        session.promise(PodId(1), NodeId(0));
        assert_eq!(told(&session), (true, true, true));
        session.place(PodId(2), NodeId(0));
        assert_eq!(told(&session), (false, true, true));
        session.place(PodId(3), NodeId(0));
        assert_eq!(told(&session), (false, true, false));
    }
}
