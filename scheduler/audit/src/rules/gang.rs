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

/// Number of completed cycles after the last change of a gang before it is checked, if the
/// scheduler reports cycles: one in which the gang changed, one that continues after a write whose
/// response was lost, and one until all components have seen the change.
const CYCLES_UNTIL_CHECK: u64 = 3;

/// Gangs that changed recently, so that the scheduler may not be done with them.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingChanges {
    gangs: BTreeMap<Name, GangChange>,
    /// Number of completed cycles, if the scheduler reports them.
    pub(super) cycles: Option<u64>,
    /// When the scheduler was last killed.
    killed: Option<Time>,
}

/// The changes of one gang since it was last checked.
#[derive(Clone, Debug)]
struct GangChange {
    /// Time of the last change, and number of completed cycles at that time.
    at: Time,
    cycles: Option<u64>,
    /// Whether the scheduler bound a pod of the gang.
    bound: bool,
    /// Whether the scheduler evicted a pod of the gang.
    evicted: bool,
    /// Sub-groups of the members that other clients than the scheduler removed, one entry per pod.
    taken_by_others: Vec<Option<Name>>,
    /// Whether the scheduler was killed between these changes.
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
    /// Removes and returns the gangs that have not changed for longer than `window`, nor within the
    /// last cycles.
    pub(super) fn take_due(&mut self, at: Time, window: Duration) -> Self {
        let cycles = self.cycles;
        let is_due = |change: &GangChange| {
            let since = cycles.zip(change.cycles).map(|(now, then)| now.saturating_sub(then));
            at.elapsed_since(change.at) > window
                && since.is_none_or(|since| since >= CYCLES_UNTIL_CHECK)
        };
        let gangs = self.gangs.extract_if(.., |_, change| is_due(change)).collect();
        self.killed = self.killed.filter(|killed| at.elapsed_since(*killed) <= window);
        Self { gangs, ..Self::default() }
    }

    /// Removes and returns all gangs with pending changes.
    pub(super) fn take_all(&mut self) -> Self {
        Self { gangs: std::mem::take(&mut self.gangs), ..Self::default() }
    }

    /// Records that the scheduler was killed: its incomplete changes may stay until the cluster is
    /// next quiescent.
    pub(super) fn record_interruption(&mut self, at: Time) {
        self.killed = Some(at);
        for change in self.gangs.values_mut() {
            change.was_interrupted = true;
        }
    }

    fn change_of_gang(&mut self, gang: Name, at: Time) -> &mut GangChange {
        let (cycles, was_interrupted) = (self.cycles, self.killed.is_some());
        let new = GangChange { cycles, was_interrupted, ..GangChange::new(at) };
        let change = self.gangs.entry(gang).or_insert(new);
        (change.at, change.cycles) = (at, cycles);
        change
    }
}

/// Records that a pod was created, changed or deleted, as a change of its gang.
pub(super) fn record_pod_change(
    auditor: &mut Auditor,
    before: Option<&PodView>,
    after: Option<&PodView>,
    writer: Writer,
) {
    let Some(group) = after.or(before).and_then(|pod| pod.group.clone()) else { return };
    let (was, is) =
        (before.is_some_and(PodView::is_staying), after.is_some_and(PodView::is_staying));
    if was == is {
        return;
    }
    let change = auditor.pending.change_of_gang(group, auditor.now);
    if is {
        change.bound = true;
    } else if writer == Writer::Scheduler {
        change.evicted = true;
    } else {
        change.taken_by_others.push(before.and_then(|pod| pod.sub_group.clone()));
    }
}

/// Records that the scheduler evicted the pod and pipelined it onto another node.
pub(super) fn record_move(auditor: &mut Auditor, pod: &Name) {
    let Some(pod) = auditor.view.pods.get(pod) else { return };
    if let Some(group) = pod.group.clone() {
        let sub_group = pod.sub_group.clone();
        auditor.pending.change_of_gang(group, auditor.now).taken_by_others.push(sub_group);
    }
}

/// Checks that every changed gang is either bound whole or not at all.
pub(super) fn check_changed_gangs(auditor: &mut Auditor, due: &PendingChanges) {
    for (name, change) in due.gangs.iter().filter(|(_, change)| change.evicted) {
        if let Some(why) =
            missing_members_text(auditor, name, change).filter(|_| !change.was_interrupted)
        {
            let detail = format!("gang {name} was evicted in part: {why}");
            report_gang(auditor, Rule::WholeGang, name, detail);
        }
    }
    for (name, change) in due.gangs.iter().filter(|(_, change)| change.bound) {
        let missing = missing_members_text(auditor, name, change);
        if missing.is_none() {
            auditor.started.insert(name.clone());
        }
        let is_checked = !change.was_interrupted && !auditor.started.contains(name);
        if let Some(why) = missing.filter(|_| is_checked) {
            let detail = format!("gang {name} was bound in part: {why}");
            report_gang(auditor, Rule::Gang, name, detail);
        }
    }
    for (name, change) in &due.gangs {
        let left = change.evicted || !change.taken_by_others.is_empty();
        if left && MemberCount::new(auditor, name, change).is_absent() {
            auditor.started.remove(name);
        }
    }
}

/// Checks a quiescent cluster: a gang that never was whole must have no bound pod.
pub(super) fn check_quiescent(auditor: &mut Auditor) {
    let groups = auditor.view.groups.keys();
    let unstarted: Vec<Name> =
        groups.filter(|name| !auditor.started.contains(*name)).cloned().collect();
    let unchanged = PendingChanges::default().change_of_gang(Name::default(), auditor.now).clone();
    for name in unstarted {
        if let Some(why) = missing_members_text(auditor, &name, &unchanged) {
            let detail = format!("gang {name} stays bound in part: {why}");
            report_gang(auditor, Rule::Gang, &name, detail);
        }
    }
}

fn report_gang(auditor: &mut Auditor, rule: Rule, group: &Name, detail: String) {
    let mut objects = vec![AuditedObject::Group(group.clone())];
    objects.extend(auditor.accounts.pods_of_group(group).cloned().map(AuditedObject::Pod));
    auditor.report_breach(rule, objects, detail);
}

/// What the gang lacks, as text; `None` if the gang is whole or absent.
fn missing_members_text(auditor: &Auditor, name: &Name, change: &GangChange) -> Option<String> {
    let count = MemberCount::new(auditor, name, change);
    let seen = auditor.view.groups.get(name)?.visible_at(change.at);
    let verdicts: Vec<Option<String>> = seen.map(|group| count.missing_text(group)).collect();
    if verdicts.iter().any(Option::is_none) { None } else { verdicts.into_iter().next()? }
}

/// Whether the pod's node still existed as far as the scheduler knew. A member on a deleted node no
/// longer runs.
fn is_node_visible(auditor: &Auditor, pod: &PodView, change: &GangChange) -> bool {
    let node = pod.node.as_ref().and_then(|node| auditor.view.nodes.get(node));
    node.is_some_and(|node| node.visible_at(change.at).next().is_some())
}

/// Whether enough sub-groups of the gang were whole when `member` still counted, given the nodes
/// that the scheduler knew.
pub(super) fn is_whole_with(auditor: &Auditor, group: &GroupView, member: &PodView) -> bool {
    let Some(name) = &member.group else { return false };
    let mut count = MemberCount::new(auditor, name, &GangChange::new(auditor.now));
    let others =
        auditor.accounts.pods_of_group(name).filter_map(|name| auditor.view.pods.get(name));
    if !others.filter(|pod| pod.uid == member.uid).any(PodView::is_staying) {
        *count.staying.entry(member.sub_group.clone()).or_default() += 1;
    }
    count.is_whole(group)
}

/// Members of the gang that is checked, counted by sub-group.
#[derive(Default)]
struct MemberCount {
    staying: BTreeMap<Option<Name>, usize>,
    excused: BTreeMap<Option<Name>, usize>,
}

impl MemberCount {
    fn new(auditor: &Auditor, group: &Name, change: &GangChange) -> Self {
        let mut count = Self::default();
        let members = auditor.accounts.pods_of_group(group);
        for pod in members.filter_map(|name| auditor.view.pods.get(name)) {
            if pod.is_staying() && is_node_visible(auditor, pod, change) {
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

    fn missing_text(&self, group: &GroupView) -> Option<String> {
        if self.is_absent() {
            return None;
        }
        let partial =
            (0..group.sub_groups.len()).find_map(|at| self.missing_in_leaf_text(group, at));
        let (whole, required) = self.count_whole_root_sub_groups(group);
        partial.or_else(|| {
            (whole < required).then(|| format!("{whole} of {required} required sub-groups whole"))
        })
    }

    fn is_whole(&self, group: &GroupView) -> bool {
        let (whole, required) = self.count_whole_root_sub_groups(group);
        whole >= required
    }

    /// Number of top-level sub-groups that are whole, and the required number.
    fn count_whole_root_sub_groups(&self, group: &GroupView) -> (usize, usize) {
        let roots: Vec<usize> = child_sub_groups(group, None).collect();
        let whole = roots.iter().filter(|at| self.is_sub_group_whole(group, **at)).count();
        (whole, group.min_sub_groups.unwrap_or(roots.len()))
    }

    /// What a leaf sub-group lacks, as text; `None` if the sub-group is whole or absent.
    fn missing_in_leaf_text(&self, group: &GroupView, index: usize) -> Option<String> {
        if child_sub_groups(group, Some(index)).next().is_some() {
            return None;
        }
        let sub_group = &group.sub_groups[index];
        let staying = count_in_sub_group(&self.staying, sub_group, index);
        let bound = staying + count_in_sub_group(&self.excused, sub_group, index);
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

    fn is_sub_group_whole(&self, group: &GroupView, index: usize) -> bool {
        let sub_group = &group.sub_groups[index];
        let below: Vec<usize> = child_sub_groups(group, Some(index)).collect();
        if below.is_empty() {
            let bound = count_in_sub_group(&self.staying, sub_group, index)
                + count_in_sub_group(&self.excused, sub_group, index);
            return bound >= sub_group.min_member;
        }
        let whole = below.iter().filter(|at| self.is_sub_group_whole(group, **at)).count();
        whole >= sub_group.min_sub_groups.unwrap_or(below.len())
    }
}

/// Number of these pods in a sub-group. Pods that name no sub-group belong to the first one.
fn count_in_sub_group(
    counts: &BTreeMap<Option<Name>, usize>,
    sub_group: &SubGroupView,
    at: usize,
) -> usize {
    let named = counts.get(&Some(sub_group.name.clone())).copied().unwrap_or(0);
    let unnamed = counts.get(&None).copied().filter(|_| at == 0);
    named + unnamed.unwrap_or(0)
}

fn child_sub_groups(group: &GroupView, parent: Option<usize>) -> impl Iterator<Item = usize> {
    let sub_groups = group.sub_groups.iter().enumerate();
    // A sub-group that is its own parent is skipped: in valid groups `parent` points upwards, and
    // the API rejects cycles.
    sub_groups
        .filter(move |(at, sub_group)| sub_group.parent == parent && parent != Some(*at))
        .map(|(at, _)| at)
}
