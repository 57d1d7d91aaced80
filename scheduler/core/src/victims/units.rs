//! A job as pieces that can be evicted one after the other: its elastic surplus pod by pod (or
//! sub-group by sub-group), worst first, and at last the rest of the gang as a whole.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{
    model::{Name, NodeId, PodGroup, PodGroupId, PodId, QueueId},
    queues::{Bill, JobKey, Shortfall},
    resources::PerResource,
    session::Session,
};

/// Place of a unit among all of its queue; the largest is considered first.
pub(crate) type UnitKey = (JobKey, u32);

/// Which part of its job a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// The job keeps its minimum without it.
    Surplus,
    /// What is left when all surplus is gone.
    Core,
}

/// Pods, and where they run.
pub(crate) type Pods = Vec<(PodId, NodeId)>;

/// Pods that are evicted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) key: UnitKey,
    pub(crate) queue: QueueId,
    pub(crate) group: PodGroupId,
    pub(crate) piece: Piece,
    /// Where they run.
    pub(crate) pods: Pods,
    /// What they use together.
    pub(crate) amount: PerResource<i64>,
}

/// The pods of a job that hold a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    /// Those that may be evicted.
    pub(super) pods: Pods,
    /// The sub-groups of those that got their node in this cycle. They stay, and with them the
    /// core of their gang.
    pub(super) newly_placed: Vec<usize>,
}

/// The running pods of one job and its tree of sub-groups.
struct Job<'a> {
    group: &'a PodGroup,
    /// By sub-group, best pod first.
    running: Vec<Vec<(PodId, NodeId)>>,
    /// By sub-group, how many more hold a node.
    staying: Vec<usize>,
}

/// The pieces of a job, worst first.
pub(crate) fn units_of(
    session: &Session<'_>,
    (id, queue): (PodGroupId, QueueId),
    running: &Running,
) -> Vec<Unit> {
    let group = session.group(id);
    let mut job = Job::new(session, group, running);
    let mut pieces: Vec<(Piece, Pods)> = Vec::new();
    while let Some(pods) = job.take_surplus() {
        pieces.push((Piece::Surplus, pods));
    }
    let core: Pods = job.running.into_iter().flatten().collect();
    if !core.is_empty() && running.newly_placed.is_empty() {
        pieces.push((Piece::Core, core));
    }
    let count = u32::try_from(pieces.len()).expect("pod ids are 32 bits");
    let unit = |(from_end, (piece, pods)): (u32, (Piece, Pods))| {
        Unit::new(session, (id, queue), (piece, count - from_end), pods)
    };
    (0..).zip(pieces).map(unit).collect()
}

/// What was evicted, in the pieces in which it comes back: those of a group with several sub-groups
/// are others than the ones that it loses.
pub(super) fn on_return<'u>(
    session: &Session<'_>,
    evicted: impl IntoIterator<Item = &'u Unit>,
) -> Vec<Cow<'u, Unit>> {
    let mut units: Vec<Cow<'_, Unit>> = Vec::new();
    let mut apart: BTreeMap<(PodGroupId, QueueId), BTreeMap<PodId, NodeId>> = BTreeMap::new();
    for unit in evicted {
        if session.group(unit.group).sub_groups.len() > 1 {
            apart.entry((unit.group, unit.queue)).or_default().extend(unit.pods.iter().copied());
        } else {
            let amount = amount_on_return(session, &unit.pods);
            units.push(if amount == unit.amount {
                Cow::Borrowed(unit)
            } else {
                Cow::Owned(Unit { amount, ..unit.clone() })
            });
        }
    }
    for (of, nodes) in apart {
        units.extend(pieces_on_return(session, of, &nodes).map(Cow::Owned));
    }
    units
}

fn pieces_on_return(
    session: &Session<'_>,
    (id, queue): (PodGroupId, QueueId),
    nodes: &BTreeMap<PodId, NodeId>,
) -> impl Iterator<Item = Unit> {
    let (group, members) = (session.group(id), session.members(id));
    let place = |pod: &PodId| (*pod, (session.pod(*pod).sub_group, session.task_rank(*pod)));
    let first = match members.shortfall(group) {
        Shortfall::BelowMinimum => 1,
        Shortfall::AtMinimum => 2,
        Shortfall::AboveMinimum => 3,
    };
    let pieces = members.returning(group, &nodes.keys().map(place).collect());
    (first..).zip(pieces).map(move |(place, piece): (u32, _)| {
        let of = if place == 1 { Piece::Core } else { Piece::Surplus };
        let pods: Pods = piece.into_iter().map(|pod| (pod, nodes[&pod])).collect();
        let amount = amount_on_return(session, &pods);
        Unit { amount, ..Unit::new(session, (id, queue), (of, place), pods) }
    })
}

/// A claim that others of the queue have, too, counts for one of them alone: the first of those
/// that stay.
fn amount_of(session: &Session<'_>, pods: &Pods) -> PerResource<i64> {
    let bills = pods.iter().map(|(pod, node)| {
        let pays = |claim: &Name| session.first_user(*pod, claim);
        session.bill_on(*pod, *node).with_claims(pays)
    });
    bills.collect::<Bill>().total()
}

/// What the evicted pods ask for: claims that stay with others not included.
fn amount_on_return(session: &Session<'_>, pods: &Pods) -> PerResource<i64> {
    let Some((first, _)) = pods.first() else { return PerResource::default() };
    let bills = pods.iter().map(|(pod, node)| session.bill_on(*pod, *node));
    session.due(*first, &bills.collect())
}

impl Unit {
    fn new(
        session: &Session<'_>,
        (group, queue): (PodGroupId, QueueId),
        (piece, place): (Piece, u32),
        pods: Pods,
    ) -> Self {
        let shortfall = match piece {
            Piece::Surplus => Shortfall::AboveMinimum,
            Piece::Core => Shortfall::AtMinimum,
        };
        let key = (session.job_key(group, shortfall), place);
        let amount = amount_of(session, &pods);
        Self { key, queue, group, piece, pods, amount }
    }

    /// What its queue would be charged if it came back now.
    pub(super) fn due(&self, session: &Session<'_>) -> PerResource<i64> {
        amount_on_return(session, &self.pods)
    }

    /// Those of its pods that do not stay.
    pub(super) fn without(
        &self,
        session: &Session<'_>,
        stays: impl Fn(PodId) -> bool,
    ) -> Option<Self> {
        let leaving = self.pods.iter().filter(|(pod, _)| !stays(*pod));
        let pods: Pods = leaving.copied().collect();
        let amount = amount_of(session, &pods);
        (!pods.is_empty()).then(|| Self { pods, amount, ..self.clone() })
    }
}

impl<'a> Job<'a> {
    fn new(session: &Session<'_>, group: &'a PodGroup, running: &Running) -> Self {
        let mut by_sub_group = vec![Vec::new(); group.sub_groups.len()];
        for &(pod, node) in &running.pods {
            by_sub_group[session.pod(pod).sub_group].push((pod, node));
        }
        for pods in &mut by_sub_group {
            pods.sort_by_key(|(pod, _)| session.task_rank(*pod));
        }
        let mut staying = vec![0; group.sub_groups.len()];
        for sub_group in &running.newly_placed {
            staying[*sub_group] += 1;
        }
        Self { group, running: by_sub_group, staying }
    }

    /// Takes out the worst piece that the job can do without.
    fn take_surplus(&mut self) -> Option<Pods> {
        self.take_from(None)
    }

    fn take_from(&mut self, at: Option<usize>) -> Option<Pods> {
        let children = self.children(at);
        let needed = match at {
            Some(at) => self.group.sub_groups[at].min_sub_group,
            None => self.group.min_sub_group,
        };
        if children.is_empty() {
            return at.and_then(|leaf| self.take_pod(leaf));
        }
        let mut worst_first: Vec<usize> =
            children.into_iter().filter(|child| self.size(*child) > 0).collect();
        worst_first.sort_by(|a, b| self.worse(*a, *b));
        let satisfied = worst_first.iter().filter(|child| self.is_satisfied(**child)).count();
        let needed = needed.map_or(usize::MAX, |needed| needed as usize);
        if satisfied > needed && self.stays_without(worst_first[0]) {
            return Some(self.take_all(worst_first[0]));
        }
        worst_first.into_iter().find_map(|child| self.take_from(Some(child)))
    }

    fn take_pod(&mut self, leaf: usize) -> Option<Pods> {
        let minimum = self.group.sub_groups[leaf].min_member as usize;
        let spare = (self.running[leaf].len() + self.staying[leaf]).saturating_sub(minimum);
        if spare == 0 {
            return None;
        }
        self.running[leaf].pop().map(|pod| vec![pod])
    }

    /// Nobody in it got a node in this cycle.
    fn stays_without(&self, at: usize) -> bool {
        self.staying[at] == 0
            && self.children(Some(at)).into_iter().all(|child| self.stays_without(child))
    }

    fn take_all(&mut self, at: usize) -> Pods {
        let mut pods = std::mem::take(&mut self.running[at]);
        for child in self.children(Some(at)) {
            pods.extend(self.take_all(child));
        }
        pods
    }

    fn children(&self, at: Option<usize>) -> Vec<usize> {
        let all = self.group.sub_groups.iter().enumerate();
        all.filter(|(_, sub_group)| sub_group.parent == at).map(|(child, _)| child).collect()
    }

    fn size(&self, at: usize) -> usize {
        let below: usize = self.children(Some(at)).into_iter().map(|child| self.size(child)).sum();
        self.running[at].len() + self.staying[at] + below
    }

    /// How many pods it takes at least to satisfy it.
    fn minimum(&self, at: usize) -> usize {
        let children = self.children(Some(at));
        let sub_group = &self.group.sub_groups[at];
        if children.is_empty() {
            return sub_group.min_member as usize;
        }
        let needed = sub_group.min_sub_group.map_or(children.len(), |needed| needed as usize);
        let mut minima: Vec<usize> =
            children.into_iter().map(|child| self.minimum(child)).collect();
        minima.sort_unstable();
        minima.into_iter().take(needed).sum()
    }

    fn is_satisfied(&self, at: usize) -> bool {
        let children = self.children(Some(at));
        if children.is_empty() {
            let holding = self.running[at].len() + self.staying[at];
            return holding >= self.group.sub_groups[at].min_member as usize;
        }
        let satisfied = children.iter().filter(|child| self.is_satisfied(**child)).count();
        let needed = self.group.sub_groups[at].min_sub_group;
        satisfied >= needed.map_or(children.len(), |needed| needed as usize)
    }

    /// Without a minimum first, then by more pods per minimum, then the later name.
    fn worse(&self, a: usize, b: usize) -> std::cmp::Ordering {
        let (minimum_a, minimum_b) = (self.minimum(a), self.minimum(b));
        let ratios = (self.size(b) * minimum_a).cmp(&(self.size(a) * minimum_b));
        (minimum_b == 0)
            .cmp(&(minimum_a == 0))
            .then(ratios)
            .then_with(|| self.group.sub_groups[b].name.cmp(&self.group.sub_groups[a].name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, testing::snapshot_of};

    /// The pieces of the first group of the table, worst first; pods of sub-groups `newly` got
    /// their node in this cycle.
    fn pieces_with(newly: &[usize], text: &str) -> String {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let on = |pod: PodId| session.state(pod).charged_on().map(|node| (pod, node));
        let pods = session.pod_ids().filter_map(on).collect();
        let running = Running { pods, newly_placed: newly.to_vec() };
        let name = |(pod, _): &(PodId, NodeId)| session.pod(*pod).name.to_string();
        let told = |unit: &Unit| {
            let pods = unit.pods.iter().map(name).collect::<Vec<_>>().join(" ");
            format!("{:?} {pods} ({})", unit.piece, unit.amount.gpu / 1000)
        };
        let units = units_of(&session, (PodGroupId(0), QueueId(0)), &running);
        assert!(units.iter().rev().is_sorted_by_key(|unit| unit.key), "the worst is the largest");
        units.iter().map(told).collect::<Vec<_>>().join(", ")
    }

    fn pieces(text: &str) -> String {
        pieces_with(&[], text)
    }

    #[test]
    fn surplus_goes_pod_by_pod_and_the_minimum_as_one() {
        let job = "node n1 gpus=9\njob a pods=4 min=2 gpus=2 on";
        assert_eq!(
            pieces(&format!("{job} n1 n1 n1 n1")),
            "Surplus a-3 (2), Surplus a-2 (2), Core a-0 a-1 (4)"
        );
        assert_eq!(pieces(&format!("{job} n1 n1")), "Core a-0 a-1 (4)");
        assert_eq!(pieces(&format!("{job} n1")), "Core a-0 (2)", "what is left of it");
        let free = "node n1\njob a pods=2 min=0 on n1 n1";
        assert_eq!(pieces(free), "Surplus a-1 (0), Surplus a-0 (0)");
    }

    #[test]
    fn who_got_a_node_in_this_cycle_counts_and_keeps_the_core_of_its_gang() {
        let job = "node n1\njob a pods=4 min=2 on n1 n1 n1";
        assert_eq!(pieces_with(&[0], job), "Surplus a-2 (0), Surplus a-1 (0)");
    }

    #[test]
    fn of_parts_the_one_with_more_pods_per_minimum_loses_its_surplus_first() {
        assert_eq!(
            pieces(
                "
                node n1
                gang a
                part l pods=4 min=2 on n1 n1 n1 n1
                part m pods=5 min=1 on n1 n1 n1
                part r pods=2 min=0 on n1
            "
            ),
            "Surplus a-r-0 (0), Surplus a-m-2 (0), Surplus a-m-1 (0), Surplus a-l-3 (0), \
             Surplus a-l-2 (0), Core a-l-0 a-l-1 a-m-0 (0)"
        );
    }

    #[test]
    fn a_part_that_is_not_needed_goes_as_a_whole_unless_some_of_it_are_new() {
        let parts = "
            node n1
            gang a needs=1
            part l pods=2 on n1 n1
            part m pods=2 on n1 n1
        ";
        assert_eq!(pieces(parts), "Surplus a-m-0 a-m-1 (0), Core a-l-0 a-l-1 (0)");
        assert_eq!(pieces_with(&[1], parts), "Surplus a-m-1 (0)");
        let nested = "
            node n1
            gang a needs=1
            part rack needs=1
            part l parent=rack pods=2 on n1 n1
            part r parent=rack pods=3 on n1 n1 n1
            part z pods=2 on n1 n1
        ";
        assert_eq!(
            pieces(nested),
            "Surplus a-l-0 a-l-1 a-r-0 a-r-1 a-r-2 (0), Core a-z-0 a-z-1 (0)",
            "the rack has five pods for a minimum of two"
        );
    }
}
