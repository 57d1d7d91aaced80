//! Rules 4 and 12: a gang comes and goes whole. What counts is what the scheduler did within
//! one moment; members that fail or are deleted by others meanwhile count as if they were still
//! there, finished ones count as present, pods that consolidation moves have a place elsewhere
//! (KAI moves no more of a gang than it must), and a moment that a crash cut short is judged at
//! the next rest instead.

use std::collections::{BTreeMap, BTreeSet};

use super::{Auditor, Concern, GroupView, Phase, PodView, Rule, SubGroupView, Writer};
use crate::model::{Name, Time};

/// What happened since the present moment began.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub(super) began: Time,
    /// Groups of which a pod was bound.
    bound: BTreeSet<Name>,
    /// Groups of which a pod was evicted by the scheduler.
    evicted: BTreeSet<Name>,
    /// Members that others took away, by group and part.
    lost: BTreeMap<Name, Vec<Option<Name>>>,
    /// The scheduler died in the middle of it.
    pub(super) cut_short: bool,
}

impl Moment {
    pub(super) fn beginning(began: Time) -> Self {
        Self { began, ..Self::default() }
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
    let moment = &mut auditor.moment;
    if !was && is {
        moment.bound.insert(group);
    } else if was && !is && writer == Writer::Scheduler {
        moment.evicted.insert(group);
    } else if was && !is {
        let part = before.and_then(|pod| pod.sub_group.clone());
        moment.lost.entry(group).or_default().push(part);
    }
}

/// The pod was evicted, and promised a place elsewhere.
pub(super) fn note_moved(auditor: &mut Auditor, pod: &Name) {
    let Some(pod) = auditor.view.pods.get(pod) else { return };
    if let Some(group) = pod.group.clone() {
        let part = pod.sub_group.clone();
        auditor.moment.lost.entry(group).or_default().push(part);
    }
}

/// The moment is over: groups of which pods were bound or evicted must be whole or absent.
pub(super) fn judge_moment(auditor: &mut Auditor, moment: &Moment) {
    for name in &moment.evicted {
        if let Some(why) = broken(auditor, name, moment).filter(|_| !moment.cut_short) {
            let detail = format!("gang {name} was evicted in part: {why}");
            report(auditor, Rule::WholeGang, name, detail);
        }
    }
    for name in &moment.bound {
        let broken = broken(auditor, name, moment);
        if broken.is_none() {
            auditor.started.insert(name.clone());
        }
        let judged = !moment.cut_short && !auditor.started.contains(name);
        if let Some(why) = broken.filter(|_| judged) {
            let detail = format!("gang {name} was bound in part: {why}");
            report(auditor, Rule::Gang, name, detail);
        }
    }
    for name in moment.evicted.iter().chain(moment.lost.keys()) {
        if Count::of(auditor, name, moment).absent() {
            auditor.started.remove(name);
        }
    }
}

/// Nothing moves: what never was whole must be absent.
pub(super) fn judge_rest(auditor: &mut Auditor) {
    let moment = Moment::beginning(auditor.moment.began);
    let groups = auditor.view.groups.keys();
    let unstarted: Vec<Name> =
        groups.filter(|name| !auditor.started.contains(*name)).cloned().collect();
    for name in unstarted {
        if let Some(why) = broken(auditor, &name, &moment) {
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
fn broken(auditor: &Auditor, name: &Name, moment: &Moment) -> Option<String> {
    let count = Count::of(auditor, name, moment);
    let seen = auditor.view.groups.get(name)?.seen(moment.began);
    let verdicts: Vec<Option<String>> = seen.map(|group| count.missing(group)).collect();
    if verdicts.iter().any(Option::is_none) { None } else { verdicts.into_iter().next()? }
}

/// Its node was there at some time of the moment: a member whose node is gone runs no more.
fn stands(auditor: &Auditor, pod: &PodView, moment: &Moment) -> bool {
    let node = pod.node.as_ref().and_then(|node| auditor.view.nodes.get(node));
    node.is_some_and(|node| node.seen(moment.began).next().is_some())
}

/// Members of a group that is being judged, by part.
#[derive(Default)]
struct Count {
    staying: BTreeMap<Option<Name>, usize>,
    excused: BTreeMap<Option<Name>, usize>,
}

impl Count {
    fn of(auditor: &Auditor, group: &Name, moment: &Moment) -> Self {
        let mut count = Self::default();
        let members = auditor.accounts.members(group);
        for pod in members.filter_map(|name| auditor.view.pods.get(name)) {
            if pod.stays() && stands(auditor, pod, moment) {
                *count.staying.entry(pod.sub_group.clone()).or_default() += 1;
            } else if pod.phase == Phase::Succeeded {
                *count.excused.entry(pod.sub_group.clone()).or_default() += 1;
            }
        }
        for part in moment.lost.get(group).into_iter().flatten() {
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
        let roots: Vec<usize> = children(group, None).collect();
        let partial = (0..group.sub_groups.len()).find_map(|at| self.partial(group, at));
        let whole = roots.iter().filter(|at| self.whole(group, **at)).count();
        let wanted = group.min_sub_groups.unwrap_or(roots.len());
        partial.or_else(|| {
            (whole < wanted).then(|| format!("{whole} parts are whole, {wanted} must be"))
        })
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
