//! Rules 4 and 12: a gang comes and goes whole. What counts is what one decision of the scheduler
//! did to it, which may take several writes: a gang is judged when none of them has come for a
//! moment, and some cycles have ended where the scheduler tells. Members that fail or are deleted by others meanwhile count as if they were still
//! there, finished ones count as present, pods that consolidation moves have a place elsewhere
//! (KAI moves no more of a gang than it must), and what a crash cut short is judged at the next
//! rest instead.

use std::{collections::BTreeMap, time::Duration};

use super::{Auditor, Concern, GroupView, Phase, PodView, Rule, SubGroupView, Writer};
use crate::model::{Name, Time};

/// Of a scheduler that tells of its cycles: how many end before a gang is judged. One is that in
/// which it changed, one goes on where the server's answer to a write was lost, and one passes
/// until everybody has heard of it.
const CYCLES: u64 = 3;

/// The gangs that changed, and may go on to do so.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    gangs: BTreeMap<Name, Change>,
    /// How many cycles the scheduler has ended, when it tells.
    pub(super) cycles: Option<u64>,
    /// When the scheduler last died, perhaps in the middle of it.
    killed: Option<Time>,
}

/// What has become of a gang since it was judged last.
#[derive(Clone, Debug)]
struct Change {
    /// When it changed last, and how many cycles had ended then.
    at: Time,
    cycles: Option<u64>,
    /// A pod was bound.
    bound: bool,
    /// A pod was evicted by the scheduler.
    evicted: bool,
    /// Members that others took away, by part.
    lost: Vec<Option<Name>>,
    /// The scheduler died in the middle of it.
    cut_short: bool,
}

impl Change {
    fn none(at: Time) -> Self {
        let lost = Vec::new();
        Self { at, cycles: None, bound: false, evicted: false, lost, cut_short: false }
    }
}

impl Open {
    /// Takes out what has not changed for longer than `moment`, and for some cycles.
    pub(super) fn due(&mut self, at: Time, moment: Duration) -> Self {
        let cycles = self.cycles;
        let is_due = |change: &Change| {
            let since = cycles.zip(change.cycles).map(|(now, then)| now.saturating_sub(then));
            at.since(change.at) > moment && since.is_none_or(|since| since >= CYCLES)
        };
        let gangs = self.gangs.extract_if(.., |_, change| is_due(change)).collect();
        self.killed = self.killed.filter(|killed| at.since(*killed) <= moment);
        Self { gangs, ..Self::default() }
    }

    /// Takes out all.
    pub(super) fn all(&mut self) -> Self {
        Self { gangs: std::mem::take(&mut self.gangs), ..Self::default() }
    }

    /// The scheduler died: what it began may stay as it is until the next rest.
    pub(super) fn cut_short(&mut self, at: Time) {
        self.killed = Some(at);
        for change in self.gangs.values_mut() {
            change.cut_short = true;
        }
    }

    fn change(&mut self, gang: Name, at: Time) -> &mut Change {
        let (cycles, cut_short) = (self.cycles, self.killed.is_some());
        let new = Change { cycles, cut_short, ..Change::none(at) };
        let change = self.gangs.entry(gang).or_insert(new);
        (change.at, change.cycles) = (at, cycles);
        change
    }
}

/// Notes what a change of a pod means for its group.
pub(super) fn note(
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
    let change = auditor.open.change(group, auditor.now);
    if is {
        change.bound = true;
    } else if writer == Writer::Scheduler {
        change.evicted = true;
    } else {
        change.lost.push(before.and_then(|pod| pod.sub_group.clone()));
    }
}

/// The pod was evicted, and promised a place elsewhere.
pub(super) fn note_moved(auditor: &mut Auditor, pod: &Name) {
    let Some(pod) = auditor.view.pods.get(pod) else { return };
    if let Some(group) = pod.group.clone() {
        let part = pod.sub_group.clone();
        auditor.open.change(group, auditor.now).lost.push(part);
    }
}

/// Groups of which pods were bound or evicted must be whole or absent now.
pub(super) fn judge(auditor: &mut Auditor, due: &Open) {
    for (name, change) in due.gangs.iter().filter(|(_, change)| change.evicted) {
        if let Some(why) = broken(auditor, name, change).filter(|_| !change.cut_short) {
            let detail = format!("gang {name} was evicted in part: {why}");
            report(auditor, Rule::WholeGang, name, detail);
        }
    }
    for (name, change) in due.gangs.iter().filter(|(_, change)| change.bound) {
        let broken = broken(auditor, name, change);
        if broken.is_none() {
            auditor.started.insert(name.clone());
        }
        let judged = !change.cut_short && !auditor.started.contains(name);
        if let Some(why) = broken.filter(|_| judged) {
            let detail = format!("gang {name} was bound in part: {why}");
            report(auditor, Rule::Gang, name, detail);
        }
    }
    for (name, change) in &due.gangs {
        let left = change.evicted || !change.lost.is_empty();
        if left && Count::of(auditor, name, change).absent() {
            auditor.started.remove(name);
        }
    }
}

/// Nothing moves: what never was whole must be absent.
pub(super) fn judge_rest(auditor: &mut Auditor) {
    let groups = auditor.view.groups.keys();
    let unstarted: Vec<Name> =
        groups.filter(|name| !auditor.started.contains(*name)).cloned().collect();
    let unchanged = Open::default().change(Name::default(), auditor.now).clone();
    for name in unstarted {
        if let Some(why) = broken(auditor, &name, &unchanged) {
            let detail = format!("gang {name} stays bound in part: {why}");
            report(auditor, Rule::Gang, &name, detail);
        }
    }
}

fn report(auditor: &mut Auditor, rule: Rule, group: &Name, detail: String) {
    let mut concerns = vec![Concern::Group(group.clone())];
    concerns.extend(auditor.accounts.members(group).cloned().map(Concern::Pod));
    auditor.breach(rule, concerns, detail);
}

/// What is missing, if something of the group is there and not all that must be.
fn broken(auditor: &Auditor, name: &Name, change: &Change) -> Option<String> {
    let count = Count::of(auditor, name, change);
    let seen = auditor.view.groups.get(name)?.seen(change.at);
    let verdicts: Vec<Option<String>> = seen.map(|group| count.missing(group)).collect();
    if verdicts.iter().any(Option::is_none) { None } else { verdicts.into_iter().next()? }
}

/// Its node was there as far as the scheduler knew: a member whose node is gone runs no more.
fn stands(auditor: &Auditor, pod: &PodView, change: &Change) -> bool {
    let node = pod.node.as_ref().and_then(|node| auditor.view.nodes.get(node));
    node.is_some_and(|node| node.seen(change.at).next().is_some())
}

/// Were enough parts of a gang whole with this member, as the scheduler knew the nodes?
pub(super) fn is_whole_with(auditor: &Auditor, group: &GroupView, member: &PodView) -> bool {
    let Some(name) = &member.group else { return false };
    let mut count = Count::of(auditor, name, &Change::none(auditor.now));
    let others = auditor.accounts.members(name).filter_map(|name| auditor.view.pods.get(name));
    if !others.filter(|pod| pod.uid == member.uid).any(PodView::stays) {
        *count.staying.entry(member.sub_group.clone()).or_default() += 1;
    }
    count.enough(group)
}

/// Members of a group that is being judged, by part.
#[derive(Default)]
struct Count {
    staying: BTreeMap<Option<Name>, usize>,
    excused: BTreeMap<Option<Name>, usize>,
}

impl Count {
    fn of(auditor: &Auditor, group: &Name, change: &Change) -> Self {
        let mut count = Self::default();
        let members = auditor.accounts.members(group);
        for pod in members.filter_map(|name| auditor.view.pods.get(name)) {
            if pod.stays() && stands(auditor, pod, change) {
                *count.staying.entry(pod.sub_group.clone()).or_default() += 1;
            } else if pod.phase == Phase::Succeeded {
                *count.excused.entry(pod.sub_group.clone()).or_default() += 1;
            }
        }
        for part in &change.lost {
            *count.excused.entry(part.clone()).or_default() += 1;
        }
        count
    }

    fn absent(&self) -> bool {
        self.staying.is_empty()
    }

    fn missing(&self, group: &GroupView) -> Option<String> {
        if self.absent() {
            return None;
        }
        let partial = (0..group.sub_groups.len()).find_map(|at| self.partial(group, at));
        let (whole, wanted) = self.roots(group);
        partial.or_else(|| {
            (whole < wanted).then(|| format!("{whole} parts are whole, {wanted} must be"))
        })
    }

    fn enough(&self, group: &GroupView) -> bool {
        let (whole, wanted) = self.roots(group);
        whole >= wanted
    }

    /// How many parts that are in no other are whole, and how many must be.
    fn roots(&self, group: &GroupView) -> (usize, usize) {
        let roots: Vec<usize> = children(group, None).collect();
        let whole = roots.iter().filter(|at| self.whole(group, **at)).count();
        (whole, group.min_sub_groups.unwrap_or(roots.len()))
    }

    /// What a leaf lacks that is there in part.
    fn partial(&self, group: &GroupView, at: usize) -> Option<String> {
        if children(group, Some(at)).next().is_some() {
            return None;
        }
        let part = &group.sub_groups[at];
        let staying = of_part(&self.staying, part, at);
        let bound = staying + of_part(&self.excused, part, at);
        if staying == 0 || bound >= part.min_member {
            return None;
        }
        let of = if group.sub_groups.len() > 1 {
            format!(" of part {}", part.name)
        } else {
            String::new()
        };
        Some(format!("{bound} pods{of} are bound, its minimum is {}", part.min_member))
    }

    fn whole(&self, group: &GroupView, at: usize) -> bool {
        let part = &group.sub_groups[at];
        let below: Vec<usize> = children(group, Some(at)).collect();
        if below.is_empty() {
            let bound = of_part(&self.staying, part, at) + of_part(&self.excused, part, at);
            return bound >= part.min_member;
        }
        let whole = below.iter().filter(|at| self.whole(group, **at)).count();
        whole >= part.min_sub_groups.unwrap_or(below.len())
    }
}

/// Pods of a part; those that name none belong to the first.
fn of_part(counts: &BTreeMap<Option<Name>, usize>, part: &SubGroupView, at: usize) -> usize {
    let named = counts.get(&Some(part.name.clone())).copied().unwrap_or(0);
    let unnamed = counts.get(&None).copied().filter(|_| at == 0);
    named + unnamed.unwrap_or(0)
}

fn children(group: &GroupView, parent: Option<usize>) -> impl Iterator<Item = usize> {
    let parts = group.sub_groups.iter().enumerate();
    // A part that is its own ancestor is nobody's child here: `parent` points upwards in valid
    // groups, and the API refuses circles.
    parts.filter(move |(at, part)| part.parent == parent && parent != Some(*at)).map(|(at, _)| at)
}
