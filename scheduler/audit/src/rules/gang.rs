//! Rules 4 and 12: a gang is bound and evicted whole. What counts is one decision of the scheduler,
//! which may take several writes: a gang is checked when it has not changed for a window, and after
//! some cycles if the scheduler reports them.
//!
//! Members that fail, or that others delete, count as present; so do succeeded members, and members
//! whose binding the API server refuses: the scheduler decided on the whole gang. Pods that
//! consolidation moves count as placed elsewhere (KAI moves no more of a gang than it must). A
//! change that a crash interrupted is checked at the next quiescence instead.

use std::{collections::BTreeMap, time::Duration};

use super::objects::{Name, Time};
use super::{AuditedObject, Auditor, GroupView, Phase, PodView, Rule, SubGroupView, Writer};

/// Number of completed cycles before a gang is checked, if the scheduler reports cycles: one in
/// which it changed, one that continues after a write whose response was lost, and one until all
/// components have seen it.
const CYCLES_UNTIL_CHECK: u64 = 3;

/// Gangs whose changes may not be complete.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingChanges {
    gangs: BTreeMap<Name, GangChange>,
    /// Number of completed cycles, if the scheduler reports them.
    pub(super) cycles: Option<u64>,
    /// When the scheduler was last killed.
    killed: Option<Time>,
}

/// The changes of a gang since it was last checked.
#[derive(Clone, Debug)]
struct GangChange {
    /// Time of the last change, and number of completed cycles at that time.
    at: Time,
    cycles: Option<u64>,
    /// Whether a pod was bound.
    bound: bool,
    /// Whether the scheduler evicted a pod.
    evicted: bool,
    /// Members that others removed, by sub-group.
    taken_by_others: Vec<Option<Name>>,
    /// Whether the scheduler was killed during the change.
    was_interrupted: bool,
}

impl GangChange {
    fn new(at: Time) -> Self {
        let taken_by_others = Vec::new();
        Self {
            at,
            cycles: None,
            bound: false,
            evicted: false,
            taken_by_others,
            was_interrupted: false,
        }
    }
}

impl PendingChanges {
    /// Removes and returns the gangs that have not changed for longer than `window`, and for some
    /// cycles.
    pub(super) fn take_due(&mut self, at: Time, moment: Duration) -> Self {
        let cycles = self.cycles;
        let is_due = |change: &GangChange| {
            let since = cycles.zip(change.cycles).map(|(now, then)| now.saturating_sub(then));
            at.since(change.at) > moment && since.is_none_or(|since| since >= CYCLES_UNTIL_CHECK)
        };
        let gangs = self.gangs.extract_if(.., |_, change| is_due(change)).collect();
        self.killed = self.killed.filter(|killed| at.since(*killed) <= moment);
        Self { gangs, ..Self::default() }
    }

    /// Removes and returns all gangs.
    pub(super) fn take_all(&mut self) -> Self {
        Self { gangs: std::mem::take(&mut self.gangs), ..Self::default() }
    }

    /// The scheduler was killed: its incomplete changes may stay until the next quiescence.
    pub(super) fn interrupt(&mut self, at: Time) {
        self.killed = Some(at);
        for change in self.gangs.values_mut() {
            change.was_interrupted = true;
        }
    }

    fn change(&mut self, gang: Name, at: Time) -> &mut GangChange {
        let (cycles, was_interrupted) = (self.cycles, self.killed.is_some());
        let new = GangChange { cycles, was_interrupted, ..GangChange::new(at) };
        let change = self.gangs.entry(gang).or_insert(new);
        (change.at, change.cycles) = (at, cycles);
        change
    }
}

/// Records the change of a pod for its group.
pub(super) fn record(
    auditor: &mut Auditor,
    before: Option<&PodView>,
    after: Option<&PodView>,
    writer: Writer,
) {
    let Some(group) = after.or(before).and_then(|pod| pod.group.clone()) else { return };
    let (was, is) = (before.is_some_and(PodView::stays), after.is_some_and(PodView::stays));
    if was == is {
        return;
    }
    let change = auditor.pending.change(group, auditor.now);
    if is {
        change.bound = true;
    } else if writer == Writer::Scheduler {
        change.evicted = true;
    } else {
        change.taken_by_others.push(before.and_then(|pod| pod.sub_group.clone()));
    }
}

/// Records that the pod was evicted and pipelined onto another node.
pub(super) fn record_move(auditor: &mut Auditor, pod: &Name) {
    let Some(pod) = auditor.view.pods.get(pod) else { return };
    if let Some(group) = pod.group.clone() {
        let sub_group = pod.sub_group.clone();
        auditor.pending.change(group, auditor.now).taken_by_others.push(sub_group);
    }
}

/// Checks that changed groups are whole or absent.
pub(super) fn check(auditor: &mut Auditor, due: &PendingChanges) {
    for (name, change) in due.gangs.iter().filter(|(_, change)| change.evicted) {
        if let Some(why) =
            missing_members(auditor, name, change).filter(|_| !change.was_interrupted)
        {
            let detail = format!("gang {name} was evicted in part: {why}");
            report(auditor, Rule::WholeGang, name, detail);
        }
    }
    for (name, change) in due.gangs.iter().filter(|(_, change)| change.bound) {
        let missing = missing_members(auditor, name, change);
        if missing.is_none() {
            auditor.started.insert(name.clone());
        }
        let is_checked = !change.was_interrupted && !auditor.started.contains(name);
        if let Some(why) = missing.filter(|_| is_checked) {
            let detail = format!("gang {name} was bound in part: {why}");
            report(auditor, Rule::Gang, name, detail);
        }
    }
    for (name, change) in &due.gangs {
        let left = change.evicted || !change.taken_by_others.is_empty();
        if left && MemberCount::new(auditor, name, change).is_absent() {
            auditor.started.remove(name);
        }
    }
}

/// Checks a quiescent cluster: groups that never were whole must be absent.
pub(super) fn check_quiescent(auditor: &mut Auditor) {
    let groups = auditor.view.groups.keys();
    let unstarted: Vec<Name> =
        groups.filter(|name| !auditor.started.contains(*name)).cloned().collect();
    let unchanged = PendingChanges::default().change(Name::default(), auditor.now).clone();
    for name in unstarted {
        if let Some(why) = missing_members(auditor, &name, &unchanged) {
            let detail = format!("gang {name} stays bound in part: {why}");
            report(auditor, Rule::Gang, &name, detail);
        }
    }
}

fn report(auditor: &mut Auditor, rule: Rule, group: &Name, detail: String) {
    let mut objects = vec![AuditedObject::Group(group.clone())];
    objects.extend(auditor.accounts.members(group).cloned().map(AuditedObject::Pod));
    auditor.report(rule, objects, detail);
}

/// What the group lacks, if it is partly present.
fn missing_members(auditor: &Auditor, name: &Name, change: &GangChange) -> Option<String> {
    let count = MemberCount::new(auditor, name, change);
    let seen = auditor.view.groups.get(name)?.visible_at(change.at);
    let verdicts: Vec<Option<String>> = seen.map(|group| count.missing(group)).collect();
    if verdicts.iter().any(Option::is_none) { None } else { verdicts.into_iter().next()? }
}

/// Whether its node existed as far as the scheduler knew: a member of a deleted node no longer
/// runs.
fn is_node_visible(auditor: &Auditor, pod: &PodView, change: &GangChange) -> bool {
    let node = pod.node.as_ref().and_then(|node| auditor.view.nodes.get(node));
    node.is_some_and(|node| node.visible_at(change.at).next().is_some())
}

/// Whether enough sub-groups of the gang were whole with this member, given the nodes that the
/// scheduler knew.
pub(super) fn is_whole_with(auditor: &Auditor, group: &GroupView, member: &PodView) -> bool {
    let Some(name) = &member.group else { return false };
    let mut count = MemberCount::new(auditor, name, &GangChange::new(auditor.now));
    let others = auditor.accounts.members(name).filter_map(|name| auditor.view.pods.get(name));
    if !others.filter(|pod| pod.uid == member.uid).any(PodView::stays) {
        *count.staying.entry(member.sub_group.clone()).or_default() += 1;
    }
    count.is_whole(group)
}

/// Members of a checked group, by sub-group.
#[derive(Default)]
struct MemberCount {
    staying: BTreeMap<Option<Name>, usize>,
    excused: BTreeMap<Option<Name>, usize>,
}

impl MemberCount {
    fn new(auditor: &Auditor, group: &Name, change: &GangChange) -> Self {
        let mut count = Self::default();
        let members = auditor.accounts.members(group);
        for pod in members.filter_map(|name| auditor.view.pods.get(name)) {
            if pod.stays() && is_node_visible(auditor, pod, change) {
                *count.staying.entry(pod.sub_group.clone()).or_default() += 1;
            } else if pod.phase == Phase::Succeeded || pod.waits_for_refused_binding() {
                *count.excused.entry(pod.sub_group.clone()).or_default() += 1;
            }
        }
        for sub_group in &change.taken_by_others {
            *count.excused.entry(sub_group.clone()).or_default() += 1;
        }
        count
    }

    fn is_absent(&self) -> bool {
        self.staying.is_empty()
    }

    fn missing(&self, group: &GroupView) -> Option<String> {
        if self.is_absent() {
            return None;
        }
        let partial = (0..group.sub_groups.len()).find_map(|at| self.missing_in_leaf(group, at));
        let (whole, required) = self.whole_root_sub_groups(group);
        partial.or_else(|| {
            (whole < required).then(|| format!("{whole} of {required} required sub-groups whole"))
        })
    }

    fn is_whole(&self, group: &GroupView) -> bool {
        let (whole, required) = self.whole_root_sub_groups(group);
        whole >= required
    }

    /// The number of whole top-level sub-groups, and the required number.
    fn whole_root_sub_groups(&self, group: &GroupView) -> (usize, usize) {
        let roots: Vec<usize> = children(group, None).collect();
        let whole = roots.iter().filter(|at| self.is_sub_group_whole(group, **at)).count();
        (whole, group.min_sub_groups.unwrap_or(roots.len()))
    }

    /// What a partly present leaf sub-group lacks.
    fn missing_in_leaf(&self, group: &GroupView, at: usize) -> Option<String> {
        if children(group, Some(at)).next().is_some() {
            return None;
        }
        let sub_group = &group.sub_groups[at];
        let staying = count_in_sub_group(&self.staying, sub_group, at);
        let bound = staying + count_in_sub_group(&self.excused, sub_group, at);
        if staying == 0 || bound >= sub_group.min_member {
            return None;
        }
        let of = if group.sub_groups.len() > 1 {
            format!(" of sub-group {}", sub_group.name)
        } else {
            String::new()
        };
        Some(format!("{bound} of {} required pods{of} bound", sub_group.min_member))
    }

    fn is_sub_group_whole(&self, group: &GroupView, at: usize) -> bool {
        let sub_group = &group.sub_groups[at];
        let below: Vec<usize> = children(group, Some(at)).collect();
        if below.is_empty() {
            let bound = count_in_sub_group(&self.staying, sub_group, at)
                + count_in_sub_group(&self.excused, sub_group, at);
            return bound >= sub_group.min_member;
        }
        let whole = below.iter().filter(|at| self.is_sub_group_whole(group, **at)).count();
        whole >= sub_group.min_sub_groups.unwrap_or(below.len())
    }
}

/// Number of pods of a sub-group; pods without a name belong to the first.
fn count_in_sub_group(
    counts: &BTreeMap<Option<Name>, usize>,
    sub_group: &SubGroupView,
    at: usize,
) -> usize {
    let named = counts.get(&Some(sub_group.name.clone())).copied().unwrap_or(0);
    let unnamed = counts.get(&None).copied().filter(|_| at == 0);
    named + unnamed.unwrap_or(0)
}

fn children(group: &GroupView, parent: Option<usize>) -> impl Iterator<Item = usize> {
    let sub_groups = group.sub_groups.iter().enumerate();
    // A sub-group that is its own parent is skipped: in valid groups `parent` points upwards, and
    // the API rejects cycles.
    sub_groups
        .filter(move |(at, sub_group)| sub_group.parent == parent && parent != Some(*at))
        .map(|(at, _)| at)
}
