//! The evictable units of a job: its elastic surplus pod by pod (or sub-group by sub-group), worst
//! first, and finally the minimum of the gang as a whole.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{
    framework::Session,
    model::{Name, NodeId, PodGroup, PodGroupId, PodId, QueueId, SubGroup},
    queues::{Charge, JobKey, MinimumStatus},
    resources::PerResource,
};

/// Position of a unit among all units of its queue; the largest key is considered first.
pub(crate) type UnitKey = (JobKey, u32);

/// Which part of its job an evictable unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitPortion {
    /// Pods above the minimum: the job runs on without them.
    Elastic,
    /// The rest of the job, after all elastic units.
    Minimum,
}

/// Pods with the nodes on which they run.
pub type PlacedPods = Vec<(PodId, NodeId)>;

/// Pods of one job that are evicted together, as one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictableUnit {
    pub(crate) key: UnitKey,
    /// Leaf queue of the unit's job.
    pub queue: QueueId,
    /// Pod group of the unit's job.
    pub group: PodGroupId,
    /// Which part of the job the unit is.
    pub portion: UnitPortion,
    /// Pods of the unit with the nodes on which they run.
    pub pods: PlacedPods,
    /// What the unit's pods use together, as queues are charged for it.
    pub amount: PerResource<i64>,
}

/// The running pods of a job that may lose pods.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningPods {
    /// Pods that may be evicted.
    pub(super) pods: PlacedPods,
    /// Pods that were placed in this cycle. They leave only with the minimum of their gang: their
    /// bindings are cancelled then.
    pub(super) newly_placed: PlacedPods,
}

/// The running pods of one job, by sub-group, with the tree of its sub-groups.
struct RunningJob<'a> {
    group: &'a PodGroup,
    /// For each sub-group, its evictable pods in task order; the last is evicted first.
    running: Vec<Vec<(PodId, NodeId)>>,
    /// For each sub-group, the number of running pods that are not evictable.
    staying: Vec<usize>,
}

/// Splits the running pods of a job into evictable units, worst first.
pub(crate) fn units_of_job(
    session: &Session<'_>,
    id: PodGroupId,
    queue: QueueId,
    running: &RunningPods,
) -> Vec<EvictableUnit> {
    let group = session.group(id);
    if has_no_elastic_pods(group, running) {
        let mut minimum = running.pods.clone();
        minimum.sort_by_key(|(pod, _)| session.task_rank(*pod));
        minimum.extend(running.newly_placed.iter().copied());
        return vec![EvictableUnit::new(session, id, queue, UnitPortion::Minimum, 1, minimum)];
    }
    let mut job = RunningJob::new(session, group, running);
    let mut portions: Vec<(UnitPortion, PlacedPods)> = Vec::new();
    if !group.evicted_together {
        while let Some(pods) = job.take_elastic_pods() {
            portions.push((UnitPortion::Elastic, pods));
        }
    }
    let mut minimum: PlacedPods = job.running.into_iter().flatten().collect();
    minimum.extend(running.newly_placed.iter().copied());
    if !minimum.is_empty() {
        portions.push((UnitPortion::Minimum, minimum));
    }
    let count = u32::try_from(portions.len()).expect("pod ids are 32 bits");
    let unit = |(from_end, (piece, pods)): (u32, (UnitPortion, PlacedPods))| {
        EvictableUnit::new(session, id, queue, piece, count - from_end, pods)
    };
    (0..).zip(portions).map(unit).collect()
}

/// Whether a group without a tree of sub-groups needs all of its running pods.
fn has_no_elastic_pods(group: &PodGroup, running: &RunningPods) -> bool {
    let RunningPods { pods, newly_placed } = running;
    let is_minimum = |of: &SubGroup| pods.len() + newly_placed.len() <= of.min_member as usize;
    !pods.is_empty()
        && group.min_sub_group.is_none()
        && matches!(group.sub_groups.as_slice(), [only] if is_minimum(only))
}

/// Regroups evicted units into those in which the pods are placed again. A group with several
/// sub-groups is placed again in other units than those in which it was evicted.
pub(super) fn requeued_units<'u>(
    session: &Session<'_>,
    evicted: impl IntoIterator<Item = &'u EvictableUnit>,
) -> Vec<Cow<'u, EvictableUnit>> {
    let mut units: Vec<Cow<'_, EvictableUnit>> = Vec::new();
    let mut by_group: BTreeMap<(PodGroupId, QueueId), BTreeMap<PodId, NodeId>> = BTreeMap::new();
    for unit in evicted {
        if session.group(unit.group).sub_groups.len() > 1 {
            by_group.entry((unit.group, unit.queue)).or_default().extend(unit.pods.iter().copied());
        } else {
            let amount = requeue_charge(session, &unit.pods);
            units.push(if amount == unit.amount {
                Cow::Borrowed(unit)
            } else {
                Cow::Owned(EvictableUnit { amount, ..unit.clone() })
            });
        }
    }
    for ((group, queue), nodes) in by_group {
        units.extend(requeued_portions(session, group, queue, &nodes).map(Cow::Owned));
    }
    units
}

fn requeued_portions(
    session: &Session<'_>,
    id: PodGroupId,
    queue: QueueId,
    nodes: &BTreeMap<PodId, NodeId>,
) -> impl Iterator<Item = EvictableUnit> {
    let (group, members) = (session.group(id), session.members(id));
    let rank = |pod: &PodId| (*pod, (session.pod(*pod).sub_group, session.task_rank(*pod)));
    let first = match members.minimum_status(group) {
        MinimumStatus::BelowMinimum => 1,
        MinimumStatus::AtMinimum => 2,
        MinimumStatus::AboveMinimum => 3,
    };
    let portions = members.split_into_requeue_chunks(group, &nodes.keys().map(rank).collect());
    (first..).zip(portions).map(move |(rank, portion): (u32, _)| {
        let kind = if rank == 1 { UnitPortion::Minimum } else { UnitPortion::Elastic };
        let pods: PlacedPods = portion.into_iter().map(|pod| (pod, nodes[&pod])).collect();
        let amount = requeue_charge(session, &pods);
        EvictableUnit { amount, ..EvictableUnit::new(session, id, queue, kind, rank, pods) }
    })
}

/// What the queue is charged for the pods. A claim that other pods of the queue share is charged to
/// one of its users: the first that stays.
fn charged_amount(session: &Session<'_>, pods: &PlacedPods) -> PerResource<i64> {
    let charges = pods.iter().map(|(pod, node)| {
        let is_charged = |claim: &Name| session.is_first_user(*pod, claim);
        session.charge_on(*pod, *node).retain_claims(is_charged)
    });
    charges.collect::<Charge>().total()
}

/// What the queue would be charged if the evicted pods were placed again, without claims that other
/// pods still hold.
fn requeue_charge(session: &Session<'_>, pods: &PlacedPods) -> PerResource<i64> {
    let Some((first, _)) = pods.first() else { return PerResource::default() };
    let charges = pods.iter().map(|(pod, node)| session.charge_on(*pod, *node));
    session.additional_charge(*first, &charges.collect())
}

impl EvictableUnit {
    fn new(
        session: &Session<'_>,
        group: PodGroupId,
        queue: QueueId,
        portion: UnitPortion,
        rank: u32,
        pods: PlacedPods,
    ) -> Self {
        let shortfall = match portion {
            UnitPortion::Elastic => MinimumStatus::AboveMinimum,
            UnitPortion::Minimum => MinimumStatus::AtMinimum,
        };
        let key = (session.job_key(group, shortfall), rank);
        let amount = charged_amount(session, &pods);
        Self { key, queue, group, portion, pods, amount }
    }

    /// What the queue would be charged if the unit was placed again now.
    pub(super) fn requeue_charge(&self, session: &Session<'_>) -> PerResource<i64> {
        requeue_charge(session, &self.pods)
    }

    /// The unit without the pods that stay; `None` if all stay.
    pub(super) fn without_pods(
        &self,
        session: &Session<'_>,
        stays: impl Fn(PodId) -> bool,
    ) -> Option<Self> {
        let evicted = self.pods.iter().filter(|(pod, _)| !stays(*pod));
        let pods: PlacedPods = evicted.copied().collect();
        let amount = charged_amount(session, &pods);
        (!pods.is_empty()).then(|| Self { pods, amount, ..self.clone() })
    }
}

impl<'a> RunningJob<'a> {
    fn new(session: &Session<'_>, group: &'a PodGroup, running: &RunningPods) -> Self {
        let mut by_sub_group = vec![Vec::new(); group.sub_groups.len()];
        for &(pod, node) in &running.pods {
            by_sub_group[session.pod(pod).sub_group].push((pod, node));
        }
        for pods in &mut by_sub_group {
            pods.sort_by_key(|(pod, _)| session.task_rank(*pod));
        }
        let mut staying = vec![0; group.sub_groups.len()];
        for (pod, _) in &running.newly_placed {
            staying[session.pod(*pod).sub_group] += 1;
        }
        Self { group, running: by_sub_group, staying }
    }

    /// Removes and returns the worst pods that the job can run without.
    fn take_elastic_pods(&mut self) -> Option<PlacedPods> {
        self.take_elastic_pods_of(None)
    }

    fn take_elastic_pods_of(&mut self, sub_group: Option<usize>) -> Option<PlacedPods> {
        let children = self.children(sub_group);
        let needed = match sub_group {
            Some(at) => self.group.sub_groups[at].min_sub_group,
            None => self.group.min_sub_group,
        };
        if children.is_empty() {
            return sub_group.and_then(|leaf| self.take_elastic_pod_of_leaf(leaf));
        }
        let mut worst_first: Vec<usize> =
            children.into_iter().filter(|child| self.running_pods_of(*child) > 0).collect();
        worst_first.sort_by(|a, b| self.cmp_worst_first(*a, *b));
        let satisfied = worst_first.iter().filter(|child| self.is_satisfied(**child)).count();
        let needed = needed.map_or(usize::MAX, |needed| needed as usize);
        if satisfied > needed && self.has_no_newly_placed_pod(worst_first[0]) {
            return Some(self.take_all_pods_of(worst_first[0]));
        }
        worst_first.into_iter().find_map(|child| self.take_elastic_pods_of(Some(child)))
    }

    fn take_elastic_pod_of_leaf(&mut self, leaf: usize) -> Option<PlacedPods> {
        let minimum = self.group.sub_groups[leaf].min_member as usize;
        let spare = (self.running[leaf].len() + self.staying[leaf]).saturating_sub(minimum);
        if spare == 0 {
            return None;
        }
        self.running[leaf].pop().map(|pod| vec![pod])
    }

    /// Whether no pod of the sub-group, or of one below it, was placed in this cycle.
    fn has_no_newly_placed_pod(&self, sub_group: usize) -> bool {
        self.staying[sub_group] == 0
            && self
                .children(Some(sub_group))
                .into_iter()
                .all(|child| self.has_no_newly_placed_pod(child))
    }

    fn take_all_pods_of(&mut self, sub_group: usize) -> PlacedPods {
        let mut pods = std::mem::take(&mut self.running[sub_group]);
        for child in self.children(Some(sub_group)) {
            pods.extend(self.take_all_pods_of(child));
        }
        pods
    }

    fn children(&self, parent: Option<usize>) -> Vec<usize> {
        let all = self.group.sub_groups.iter().enumerate();
        all.filter(|(_, sub_group)| sub_group.parent == parent).map(|(child, _)| child).collect()
    }

    fn running_pods_of(&self, sub_group: usize) -> usize {
        let below: usize = self
            .children(Some(sub_group))
            .into_iter()
            .map(|child| self.running_pods_of(child))
            .sum();
        self.running[sub_group].len() + self.staying[sub_group] + below
    }

    /// The minimum number of pods that satisfies the sub-group.
    fn minimum_pods_of(&self, index: usize) -> usize {
        let children = self.children(Some(index));
        let sub_group = &self.group.sub_groups[index];
        if children.is_empty() {
            return sub_group.min_member as usize;
        }
        let needed = sub_group.min_sub_group.map_or(children.len(), |needed| needed as usize);
        let mut minima: Vec<usize> =
            children.into_iter().map(|child| self.minimum_pods_of(child)).collect();
        minima.sort_unstable();
        minima.into_iter().take(needed).sum()
    }

    fn is_satisfied(&self, sub_group: usize) -> bool {
        let children = self.children(Some(sub_group));
        if children.is_empty() {
            let holding = self.running[sub_group].len() + self.staying[sub_group];
            return holding >= self.group.sub_groups[sub_group].min_member as usize;
        }
        let satisfied = children.iter().filter(|child| self.is_satisfied(**child)).count();
        let needed = self.group.sub_groups[sub_group].min_sub_group;
        satisfied >= needed.map_or(children.len(), |needed| needed as usize)
    }

    /// Compares two sub-groups; the worse one, which loses pods first, comes first: sub-groups
    /// without a minimum, then those with more pods per minimum, then the later name.
    fn cmp_worst_first(&self, left: usize, right: usize) -> std::cmp::Ordering {
        let (minimum_a, minimum_b) = (self.minimum_pods_of(left), self.minimum_pods_of(right));
        let ratios = (self.running_pods_of(right) * minimum_a)
            .cmp(&(self.running_pods_of(left) * minimum_b));
        (minimum_b == 0)
            .cmp(&(minimum_a == 0))
            .then(ratios)
            .then_with(|| self.group.sub_groups[right].name.cmp(&self.group.sub_groups[left].name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use schedlab_testkit::snapshot_of;

    /// The units of the first group of the table, worst first. The last `newly` pods were placed in
    /// this cycle.
    fn units_with(newly: usize, text: &str) -> String {
        let (snapshot, profile) = (snapshot_of(text), Profile::kai());
        let session = Session::new(&snapshot, &profile);
        let on = |pod: PodId| session.state(pod).charged_node().map(|node| (pod, node));
        let mut pods: PlacedPods = session.pod_ids().filter_map(on).collect();
        let newly_placed = pods.split_off(pods.len() - newly);
        let running = RunningPods { pods, newly_placed };
        let name = |(pod, _): &(PodId, NodeId)| session.pod(*pod).name.to_string();
        let describe = |unit: &EvictableUnit| {
            let pods = unit.pods.iter().map(name).collect::<Vec<_>>().join(" ");
            format!("{:?} {pods} ({})", unit.portion, unit.amount.gpu / 1000)
        };
        let units = units_of_job(&session, PodGroupId(0), QueueId(0), &running);
        assert!(
            units.iter().rev().is_sorted_by_key(|unit| unit.key),
            "units are sorted worst first"
        );
        units.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    fn units(text: &str) -> String {
        units_with(0, text)
    }

    #[test]
    fn elastic_pods_are_single_units_and_the_minimum_is_one_unit() {
        let job = "node n1 gpus=9\njob a pods=4 min=2 gpus=2 on";
        assert_eq!(
            units(&format!("{job} n1 n1 n1 n1")),
            "Elastic a-3 (2), Elastic a-2 (2), Minimum a-0 a-1 (4)"
        );
        assert_eq!(units(&format!("{job} n1 n1")), "Minimum a-0 a-1 (4)");
        assert_eq!(units(&format!("{job} n1")), "Minimum a-0 (2)", "the rest of the gang");
        let free = "node n1\njob a pods=2 min=0 on n1 n1";
        assert_eq!(units(free), "Elastic a-1 (0), Elastic a-0 (0)");
    }

    #[test]
    fn newly_placed_pods_count_and_leave_with_the_minimum_of_their_gang() {
        let job = "node n1\njob a pods=4 min=2 on n1 n1 n1 n1";
        assert_eq!(units_with(1, job), "Elastic a-2 (0), Elastic a-1 (0), Minimum a-0 a-3 (0)");
    }

    #[test]
    fn the_sub_group_with_more_pods_per_minimum_loses_elastic_pods_first() {
        assert_eq!(
            units(
                "
                node n1
                gang a
                part l pods=4 min=2 on n1 n1 n1 n1
                part m pods=5 min=1 on n1 n1 n1
                part r pods=2 min=0 on n1
            "
            ),
            "Elastic a-r-0 (0), Elastic a-m-2 (0), Elastic a-m-1 (0), Elastic a-l-3 (0), \
             Elastic a-l-2 (0), Minimum a-l-0 a-l-1 a-m-0 (0)"
        );
    }

    #[test]
    fn an_optional_sub_group_is_one_unit_unless_newly_placed() {
        let parts = "
            node n1
            gang a needs=1
            part l pods=2 on n1 n1
            part m pods=2 on n1 n1
        ";
        assert_eq!(units(parts), "Elastic a-m-0 a-m-1 (0), Minimum a-l-0 a-l-1 (0)");
        assert_eq!(units_with(1, parts), "Minimum a-l-0 a-l-1 a-m-0 a-m-1 (0)");
        let nested = "
            node n1
            gang a needs=1
            part rack needs=1
            part l parent=rack pods=2 on n1 n1
            part r parent=rack pods=3 on n1 n1 n1
            part z pods=2 on n1 n1
        ";
        assert_eq!(
            units(nested),
            "Elastic a-l-0 a-l-1 a-r-0 a-r-1 a-r-2 (0), Minimum a-z-0 a-z-1 (0)",
            "sub-group rack has five pods and a minimum of two"
        );
    }
}
