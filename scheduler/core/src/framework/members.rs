//! The members of a pod group by sub-group: how many have a node, which are pending in which order,
//! and which are placed next. A sub-group is a leaf with a minimum of pods, or an inner node with a
//! minimum of satisfied children. Succeeded pods count towards the minimum: what is left of it is
//! what must run together. (KAI counts them for staleness only.)

mod gang_readiness;

use std::collections::{BTreeMap, BTreeSet};

use super::PodState;
use crate::{
    model::{Pod, PodGroup, PodId, PodStatus},
    queues::MinimumStatus,
    reason::GangReadiness,
};

/// The members of one pod group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    sub_groups: Vec<SubGroupMembers>,
    /// Positions of the children of each inner sub-group.
    children: BTreeMap<usize, Vec<usize>>,
    /// Positions of the top-level sub-groups.
    top: Vec<usize>,
}

/// The members of one sub-group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubGroupMembers {
    /// Pending pods with their task rank, in task order.
    pub waiting: BTreeSet<(u32, PodId)>,
    /// Number of allocated and pipelined pods.
    pub active: u32,
    /// Number of pipelined pods among the active ones.
    pub pipelined: u32,
    /// Number of pods with scheduling gates.
    pub gated: u32,
    /// Number of pods that are terminating or lost their node.
    pub leaving: u32,
    /// Number of pods that succeeded.
    pub succeeded: u32,
    /// Number of pods that are invalid and cannot be scheduled.
    pub unschedulable: u32,
}

impl Members {
    pub(super) fn new(group: &PodGroup) -> Self {
        let mut members = Self {
            sub_groups: vec![SubGroupMembers::default(); group.sub_groups.len()],
            ..Self::default()
        };
        for (at, sub_group) in group.sub_groups.iter().enumerate() {
            match sub_group.parent {
                Some(parent) => members.children.entry(parent).or_default().push(at),
                None => members.top.push(at),
            }
        }
        for sub_group in group.unschedulable_members.iter().filter_map(|member| member.sub_group) {
            members.sub_groups[sub_group].unschedulable += 1;
        }
        members
    }

    /// The members of the sub-group at this position.
    pub fn of_sub_group(&self, sub_group: usize) -> &SubGroupMembers {
        &self.sub_groups[sub_group]
    }

    pub(super) fn add_pod(&mut self, pod: PodId, rank: u32, spec: &Pod, state: PodState) {
        let sub_group = &mut self.sub_groups[spec.sub_group];
        if state == PodState::Pending {
            sub_group.waiting.insert((rank, pod));
        } else if let Some(count) = sub_group.counter_mut(state, spec.status) {
            *count += 1;
            sub_group.pipelined += u32::from(state.is_pipelined());
        }
    }

    pub(super) fn remove_pod(&mut self, pod: PodId, rank: u32, spec: &Pod, state: PodState) {
        let sub_group = &mut self.sub_groups[spec.sub_group];
        if state == PodState::Pending {
            sub_group.waiting.remove(&(rank, pod));
        } else if let Some(count) = sub_group.counter_mut(state, spec.status) {
            *count -= 1;
            sub_group.pipelined -= u32::from(state.is_pipelined());
        }
    }

    /// Renumbers the pending pods. The order of pods stays; a removed pod gets no number, and the
    /// group is filled anew after.
    pub(super) fn renumber_pods(&mut self, positions: &[Option<u32>]) {
        for sub_group in &mut self.sub_groups {
            let waiting = std::mem::take(&mut sub_group.waiting).into_iter();
            let waiting =
                waiting.filter_map(|(rank, pod)| Some((rank, PodId(positions[pod.0 as usize]?))));
            sub_group.waiting = waiting.collect();
        }
    }

    /// Whether the group is marked as stale, or has pods with a node and a sub-group with fewer of
    /// them than its minimum. Other groups are not stale.
    pub(super) fn may_be_stale(&self, group: &PodGroup) -> bool {
        let is_short = || {
            let sub_groups = self.sub_groups.iter().zip(&group.sub_groups);
            sub_groups.into_iter().any(|(has, of)| has.active + has.leaving < of.min_member)
        };
        group.stale_since.is_some() || self.active_count() > 0 && is_short()
    }

    /// Whether the group meets a minimum only if pipelined pods count.
    pub fn is_minimum_pipelined(&self, group: &PodGroup) -> bool {
        self.sub_groups.iter().enumerate().any(|(at, members)| {
            members.pipelined > 0
                && members.active - members.pipelined < self.remaining_minimum(group, at)
        })
    }

    /// Whether the group has pending pods.
    pub fn has_waiting(&self) -> bool {
        self.sub_groups.iter().any(|members| !members.waiting.is_empty())
    }

    /// Whether the group has pipelined pods.
    pub fn has_pipelined(&self) -> bool {
        self.sub_groups.iter().any(|members| members.pipelined > 0)
    }

    /// Pending pods, by sub-group and task order.
    pub fn waiting_pods(&self) -> impl Iterator<Item = PodId> + '_ {
        self.sub_groups.iter().flat_map(|members| members.waiting.iter().map(|(_, pod)| *pod))
    }

    /// Number of allocated and pipelined pods.
    pub fn active_count(&self) -> u32 {
        self.sub_groups.iter().map(|members| members.active).sum()
    }

    /// Number of pods that have a node, terminating ones too.
    pub fn scheduled_count(&self) -> u32 {
        self.sub_groups.iter().map(|members| members.active + members.leaving).sum()
    }

    /// Number of pods with scheduling gates.
    pub fn gated_count(&self) -> u32 {
        self.sub_groups.iter().map(|members| members.gated).sum()
    }

    /// Number of pods that succeeded.
    pub fn succeeded_count(&self) -> u32 {
        self.sub_groups.iter().map(|members| members.succeeded).sum()
    }

    /// Whether the group is below, at or above its minimum number of pods.
    pub fn minimum_status(&self, group: &PodGroup) -> MinimumStatus {
        let tree = SubGroupTree { group, members: self };
        if !tree.is_satisfied(None) {
            return MinimumStatus::BelowMinimum;
        }
        let minima = (0..group.sub_groups.len()).map(|at| self.remaining_minimum(group, at));
        let needed: u64 = minima.map(u64::from).sum();
        if u64::from(self.active_count()) > needed {
            MinimumStatus::AboveMinimum
        } else {
            MinimumStatus::AtMinimum
        }
    }

    /// The minimum of a sub-group minus its succeeded pods.
    pub fn remaining_minimum(&self, group: &PodGroup, sub_group: usize) -> u32 {
        let succeeded = self.sub_groups[sub_group].succeeded;
        group.sub_groups[sub_group].min_member.saturating_sub(succeeded)
    }

    /// Minimum number of pods of the group that must run together.
    pub fn minimum_count(&self, group: &PodGroup) -> u64 {
        SubGroupTree { group, members: self }.active_and_minimum(None).1
    }

    /// Checks that enough pods without scheduling gates exist for the minimum.
    ///
    /// # Errors
    ///
    /// What is missing: too few pods of the group or of a sub-group exist without scheduling gates.
    pub fn check_gang_ready(&self, group: &PodGroup) -> Result<(), GangReadiness> {
        let tree = SubGroupTree { group, members: self };
        if tree.can_be_satisfied(None) { Ok(()) } else { Err(self.gang_readiness(group)) }
    }

    /// Splits evicted pods, given with sub-group and task rank, into the chunks in which they are
    /// placed again, in order. Pods that cannot be placed again form the last chunk.
    pub fn split_into_requeue_chunks(
        &self,
        group: &PodGroup,
        pods: &BTreeMap<PodId, (usize, u32)>,
    ) -> Vec<Vec<PodId>> {
        let mut members = self.clone();
        for sub_group in &mut members.sub_groups {
            sub_group.waiting.clear();
        }
        for (pod, (sub_group, rank)) in pods {
            members.sub_groups[*sub_group].waiting.insert((*rank, *pod));
        }
        let mut pieces = Vec::new();
        loop {
            let piece = members.next_chunk(group);
            if piece.is_empty() {
                let rest: Vec<PodId> = members.waiting_pods().collect();
                pieces.extend((!rest.is_empty()).then_some(rest));
                return pieces;
            }
            for pod in &piece {
                let (sub_group, rank) = pods[pod];
                members.sub_groups[sub_group].waiting.remove(&(rank, *pod));
                members.sub_groups[sub_group].active += 1;
            }
            pieces.push(piece);
        }
    }

    /// The pods to place next: those that the gang lacks of its minimum; otherwise one more pod, or
    /// one more optional sub-group. Empty when no pod is pending, or none that helps.
    pub fn next_chunk(&self, group: &PodGroup) -> Vec<PodId> {
        SubGroupTree { group, members: self }.next_chunk_in(None)
    }
}

impl SubGroupMembers {
    fn counter_mut(&mut self, state: PodState, status: PodStatus) -> Option<&mut u32> {
        match state {
            PodState::Allocated(_)
            | PodState::Pipelined(_)
            | PodState::Moving { .. }
            | PodState::OnExcludedNode => Some(&mut self.active),
            PodState::Gated => Some(&mut self.gated),
            PodState::Releasing(_) | PodState::Stuck(_) | PodState::OnMissingNode => {
                Some(&mut self.leaving)
            }
            PodState::Finished => (status == PodStatus::Succeeded).then_some(&mut self.succeeded),
            PodState::Pending => None,
        }
    }

    /// Number of pods that have a node or are pending.
    fn alive_count(&self) -> u32 {
        let waiting = u32::try_from(self.waiting.len()).expect("pod ids are 32 bits");
        self.active + waiting
    }
}

/// The tree of sub-groups. Where a sub-group is an `Option`, `None` is the root, the pod group
/// itself.
struct SubGroupTree<'a> {
    group: &'a PodGroup,
    members: &'a Members,
}

impl<'a> SubGroupTree<'a> {
    fn children(&self, sub_group: Option<usize>) -> &'a [usize] {
        match sub_group {
            Some(at) => self.members.children.get(&at).map_or(&[], Vec::as_slice),
            None => &self.members.top,
        }
    }

    fn required_children(&self, sub_group: Option<usize>, children: usize) -> usize {
        let needed = match sub_group {
            Some(at) => self.group.sub_groups[at].min_sub_group,
            None => self.group.min_sub_group,
        };
        needed.map_or(children, |needed| needed as usize)
    }

    fn is_satisfied(&self, sub_group: Option<usize>) -> bool {
        let children = self.children(sub_group);
        if children.is_empty() {
            return sub_group
                .is_none_or(|leaf| self.active_in_leaf(leaf) >= self.minimum_of_leaf(leaf));
        }
        let satisfied = children.iter().filter(|child| self.is_satisfied(Some(**child))).count();
        satisfied >= self.required_children(sub_group, children.len())
    }

    fn can_be_satisfied(&self, sub_group: Option<usize>) -> bool {
        let children = self.children(sub_group);
        if children.is_empty() {
            return sub_group.is_none_or(|leaf| {
                self.members.sub_groups[leaf].alive_count() >= self.minimum_of_leaf(leaf)
            });
        }
        let able = children.iter().filter(|child| self.can_be_satisfied(Some(**child))).count();
        able >= self.required_children(sub_group, children.len())
    }

    fn next_chunk_in(&self, sub_group: Option<usize>) -> Vec<PodId> {
        // Shortcut for groups with one sub-group, which most have.
        if let [only] = *self.children(sub_group) {
            let able = self.can_be_satisfied(Some(only));
            return if able { self.next_chunk_in(Some(only)) } else { Vec::new() };
        }
        let children = self.satisfiable_children(sub_group);
        if children.is_empty() {
            return sub_group.map_or_else(Vec::new, |leaf| self.next_pods_of_leaf(leaf));
        }
        let needed = self.required_children(sub_group, children.len());
        let satisfied = children.iter().filter(|child| self.is_satisfied(Some(**child))).count();
        if satisfied < needed {
            let first = children.into_iter().take(needed);
            let unsatisfied = first.filter(|child| !self.is_satisfied(Some(*child)));
            return unsatisfied.flat_map(|child| self.next_chunk_in(Some(child))).collect();
        }
        let mut chunks = children.into_iter().map(|child| self.next_chunk_in(Some(child)));
        chunks.find(|pods| !pods.is_empty()).unwrap_or_default()
    }

    fn next_pods_of_leaf(&self, leaf: usize) -> Vec<PodId> {
        let missing = self.minimum_of_leaf(leaf).saturating_sub(self.active_in_leaf(leaf)).max(1);
        let waiting = self.members.sub_groups[leaf].waiting.iter();
        waiting.take(missing as usize).map(|(_, pod)| *pod).collect()
    }

    /// Children that can be satisfied, in placement order: unsatisfied ones first, then by fewer
    /// pods per minimum, those without a minimum last; then by name.
    fn satisfiable_children(&self, sub_group: Option<usize>) -> Vec<usize> {
        let mut children = self.children(sub_group).to_vec();
        children.retain(|child| self.can_be_satisfied(Some(*child)));
        let key = |child: usize| {
            let satisfied = self.is_satisfied(Some(child));
            let (active, minimum) = self.active_and_minimum(Some(child));
            let per_minimum = if satisfied { active * 1_000_000 / minimum.max(1) } else { 0 };
            (minimum == 0, satisfied, per_minimum, &self.group.sub_groups[child].name)
        };
        children.sort_by_cached_key(|child| key(*child));
        children
    }

    /// Number of active pods in the sub-group and its descendants, and the minimum number that
    /// satisfies it.
    fn active_and_minimum(&self, sub_group: Option<usize>) -> (u64, u64) {
        let children = self.children(sub_group);
        if children.is_empty() {
            let of_leaf = |leaf| {
                (u64::from(self.active_in_leaf(leaf)), u64::from(self.minimum_of_leaf(leaf)))
            };
            return sub_group.map_or((0, 0), of_leaf);
        }
        let needed = self.required_children(sub_group, children.len());
        let (mut active, mut minima) = (0, Vec::new());
        for (below, minimum) in children.iter().map(|child| self.active_and_minimum(Some(*child))) {
            active += below;
            minima.push(minimum);
        }
        minima.sort_unstable();
        (active, minima.into_iter().take(needed).sum())
    }

    fn active_in_leaf(&self, leaf: usize) -> u32 {
        self.members.sub_groups[leaf].active
    }

    fn minimum_of_leaf(&self, leaf: usize) -> u32 {
        self.members.remaining_minimum(self.group, leaf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Profile,
        framework::{Session, Statement},
        model::{NodeId, PodGroupId},
    };
    use schedlab_testkit::snapshot_of;

    /// The first group: its status, whether it is ready, and its next pods.
    fn summary(text: &str) -> String {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let (group, members) = (&snapshot.pod_groups[0], session.members(PodGroupId(0)));
        let pods = members.next_chunk(group).into_iter();
        let pods: Vec<&str> = pods.map(|pod| &*snapshot.pods[pod.0 as usize].name).collect();
        let ready = match members.check_gang_ready(group) {
            Ok(()) => String::new(),
            Err(GangReadiness { sub_group, required, exist, gated, .. }) => {
                let part = sub_group.map_or_else(String::new, |part| format!(" of {part}"));
                format!(", {exist} exist{part} and {gated} of them are gated, {required} must")
            }
        };
        format!("{:?}{ready}: {}", members.minimum_status(group), pods.join(" "))
    }

    #[test]
    fn a_missing_minimum_is_one_chunk_and_surplus_pods_come_one_by_one() {
        assert_eq!(summary("job a pods=5 min=3"), "BelowMinimum: a-0 a-1 a-2");
        assert_eq!(summary("node n1\njob a pods=5 min=3 on n1"), "BelowMinimum: a-1 a-2");
        assert_eq!(summary("node n1\njob a pods=5 min=2 on n1 n1"), "AtMinimum: a-2");
        assert_eq!(summary("node n1\njob a pods=5 min=2 on n1 n1 n1"), "AboveMinimum: a-3");
        assert_eq!(summary("job a pods=2 min=0"), "AtMinimum: a-0");
        assert_eq!(summary("node n1\ngang a pods=2 gpus=1 on n1 n1"), "AtMinimum: ");
    }

    #[test]
    fn succeeded_pods_count_towards_the_minimum() {
        assert_eq!(summary("node n1\njob a pods=3 min=3 succeeded=1 on n1"), "BelowMinimum: a-1");
        assert_eq!(summary("node n1\njob a pods=3 min=3 succeeded=2 on n1"), "AtMinimum: ");
        assert_eq!(summary("node n1\njob a pods=4 min=3 succeeded=2 on n1"), "AtMinimum: a-1");
        assert_eq!(
            summary("job a pods=3 min=4 succeeded=1"),
            "BelowMinimum, 2 exist and 0 of them are gated, 3 must: "
        );
        let parts = "
            node n1
            gang a
              part left pods=2 succeeded=1
              part right pods=3 min=3 succeeded=1 on n1
        ";
        assert_eq!(summary(parts), "BelowMinimum: a-left-0 a-right-1");
    }

    #[test]
    fn an_incomplete_gang_reports_the_deficient_sub_group() {
        assert_eq!(
            summary("job a pods=4 min=3 gated=2"),
            "BelowMinimum, 4 exist and 2 of them are gated, 3 must: "
        );
        assert_eq!(summary("job a pods=4 min=3 gated=1"), "BelowMinimum: a-0 a-1 a-2");
        let parts = "
            node n1
            gang a
              part head
              part left pods=3 gated=1
              part right pods=2 gated=1
        ";
        assert_eq!(
            summary(parts),
            "BelowMinimum, 3 exist of left and 1 of them are gated, 3 must: a-head"
        );
        assert_eq!(
            summary("node n1\ngang a pods=3 gpus=1 releasing on n1"),
            "BelowMinimum, 2 exist and 0 of them are gated, 3 must: "
        );
    }

    #[test]
    fn required_sub_groups_are_one_chunk_and_others_come_one_by_one() {
        let of = |parts: &str| summary(&format!("node n1\ngang a needs=2\n{parts}"));
        assert_eq!(of("part c\npart b pods=2\npart a"), "BelowMinimum: a-a a-b-0 a-b-1", "by name");
        assert_eq!(of("part a on n1\npart b\npart c"), "BelowMinimum: a-b a-c");
        assert_eq!(of("part a on n1\npart b on n1\npart c"), "AtMinimum: a-c");
        assert_eq!(of("part a gated=1\npart b\npart c"), "BelowMinimum: a-b a-c");
        assert_eq!(of("part a min=0\npart b\npart c"), "BelowMinimum: a-b a-c");
    }

    #[test]
    fn the_satisfied_sub_group_with_fewer_pods_per_minimum_grows_first() {
        let of = |parts: &str| summary(&format!("node n1\ngang a\n{parts}"));
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
    fn a_minimum_is_pipelined_while_some_of_its_pods_are() {
        let text = "
            node n1
            job a pods=4 min=2 on n1
        ";
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let mut statement = Statement::new(Session::new(&snapshot, &profile));
        let (group, id) = (&snapshot.pod_groups[0], PodGroupId(0));
        let state = |statement: &Session<'_>| {
            let members = statement.members(id);
            (members.is_minimum_pipelined(group), members.has_pipelined(), members.has_waiting())
        };
        assert_eq!(state(&statement), (false, false, true));
        statement.pipeline(PodId(1), NodeId(0));
        assert_eq!(state(&statement), (true, true, true));
        statement.allocate(PodId(2), NodeId(0));
        assert_eq!(state(&statement), (false, true, true));
        statement.allocate(PodId(3), NodeId(0));
        assert_eq!(state(&statement), (false, true, false));
    }
}
