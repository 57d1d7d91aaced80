//! Which remedies together let a pod group run: each is tried on a copy of the cluster in which
//! those before it were taken.

use super::{
    NewNodes, Step, Tried,
    new_node::Size,
    trial::tried,
    what_if::{Missing, with_remedy},
};
use crate::{
    Decision, Profile, Reason, Snapshot,
    decision::{Misfit, Quantity, Remedy},
    model::{Name, PodGroupId},
};

/// Most remedies that are told one after the other.
const STEPS_MAX: usize = 12;

/// Most remedies that are tried in search of them, more of one that was taken in two cycles.
const TRIES_MAX: usize = 64;

/// So often in a row more of one is tried, though others get no other nodes for it.
const IN_VAIN_MAX: usize = 8;

/// For whom remedies are looked for.
pub(super) struct Search<'a> {
    /// The cluster before any.
    pub(super) snapshot: &'a Snapshot,
    /// How it is decided there.
    pub(super) profile: &'a Profile,
    /// Who waits.
    pub(super) group: PodGroupId,
    /// How large nodes are that are added.
    pub(super) size: Size,
}

/// How the group stands before a remedy.
#[derive(Clone)]
pub(super) struct Plight {
    /// Why it waits.
    pub(super) reason: Reason,
    /// Its pods for which there is no node.
    pub(super) missing: Missing,
    /// Who else gets a node, and which.
    pub(super) others: Vec<Decision>,
}

/// A remedy that was taken.
#[derive(Clone)]
struct Taken {
    step: Step,
    /// The pods without a node before it was.
    missing: Missing,
    /// Who else got a node before it was taken first.
    others_before: Vec<Decision>,
    /// And before it was taken last.
    others: Vec<Decision>,
    /// So often in a row more of it changed nothing for others.
    in_vain: usize,
}

/// A cluster, pods of the group for which there is no node there, and who else gets one.
type Stand<'a> = (&'a Snapshot, &'a Missing, &'a [Decision]);

/// A remedy that was tried.
struct Attempt {
    remedy: Remedy,
    /// The cluster with it. `None`: no copy can show it.
    cured: Option<Snapshot>,
    tried: Tried,
    /// Pods of the group for which there is no node then.
    missing: Missing,
    /// Who else gets one.
    others: Vec<Decision>,
}

impl Attempt {
    const fn waits_for_mere_room(&self) -> bool {
        matches!(self.tried, Tried::Waits(Reason::NoNode { .. } | Reason::GangTooLarge { .. }))
    }
}

impl Taken {
    /// When these pods had no node, and others those.
    fn first(remedy: Remedy, (missing, others): (&Missing, &[Decision])) -> Self {
        let step = Step { remedy, in_all: None, least: None, tried: Tried::Untold };
        let (others_before, others) = (others.to_vec(), others.to_vec());
        Self { step, missing: missing.clone(), others_before, others, in_vain: 0 }
    }

    /// When others have those nodes.
    fn take_more(&mut self, in_all: Remedy, others: &[Decision]) {
        self.step.in_all = Some(in_all);
        self.in_vain = if self.others == others { self.in_vain + 1 } else { 0 };
        self.others = others.to_vec();
    }

    /// Others may have taken what it gave.
    fn may_be_too_little(&self, others: &[Decision]) -> bool {
        self.others_before != others && (self.others != others || self.in_vain < IN_VAIN_MAX)
    }

    const fn may_add_nodes(&self) -> bool {
        matches!(
            self.step.remedy,
            Remedy::MakeRoom { .. }
                | Remedy::MakePlace { .. }
                | Remedy::LargerNodes { .. }
                | Remedy::LargerDevices { .. }
                | Remedy::LargerFleet { .. }
                | Remedy::Admit { .. }
        )
    }

    /// As much of it as is told.
    fn told(&self) -> &Remedy {
        self.step.in_all.as_ref().unwrap_or(&self.step.remedy)
    }
}

impl Search<'_> {
    /// The remedies for who stands like this, in the order in which they are needed, until the
    /// group runs or nothing more can be tried. Whoever adds nodes may add such as others are or such
    /// as its pods need: what is told does with the latter, if anything does, and with both if it is the
    /// same. Which nodes would do is told, if not all.
    pub(super) fn remedies(&self, plight: Plight) -> Vec<Step> {
        let mut taken = self.chain(plight.clone());
        if taken.last().is_some_and(|last| last.step.runs())
            && taken.iter().any(Taken::may_add_nodes)
        {
            taken = self.with_new_nodes(taken, plight);
        }
        taken.into_iter().map(|one| one.step).collect()
    }

    /// Remedies with which it runs, these if others do no better, and with which nodes.
    fn with_new_nodes(&self, mut taken: Vec<Taken>, plight: Plight) -> Vec<Taken> {
        let [exact, whole] = [Size::Exact, Size::Whole].map(|size| Search { size, ..*self });
        let mut do_small = exact.runs_as_told(&taken);
        if !do_small {
            let others = exact.chain(plight);
            do_small = exact.runs_as_told(&others);
            taken = if do_small { others } else { taken };
        }
        let with = match (do_small, whole.runs_as_told(&taken)) {
            (true, false) => NewNodes::OnePodEach,
            (false, true) => NewNodes::Whole,
            (false, false) if self.runs_as_told(&taken) => NewNodes::Large,
            (true, true) | (false, false) => NewNodes::OfAnySize,
        };
        if let Some(Tried::Runs { new_nodes, .. }) =
            taken.last_mut().map(|last| &mut last.step.tried)
        {
            *new_nodes = with;
        }
        taken
    }

    /// The same with nodes of one size.
    fn chain(&self, plight: Plight) -> Vec<Taken> {
        let mut taken = self.one_by_one(plight);
        let runs = |taken: &[Taken]| matches!(taken.last(), Some(last) if last.step.runs());
        let had_more = taken.len() > 1 && taken.iter().any(|one| one.step.in_all.is_some());
        let in_order = if had_more && runs(&taken) { self.in_order(&taken) } else { None };
        let is_in_order = !had_more || in_order.is_some();
        taken = in_order.unwrap_or(taken);
        if is_in_order && runs(&taken) {
            for at in 0..taken.len() {
                taken[at].step.least = self.least(&taken, at);
            }
        }
        taken
    }

    /// One remedy on top of the other. Where others took what one gave, more of it is needed,
    /// however many others were taken since: then all that is told by now is tried anew.
    fn one_by_one(&self, plight: Plight) -> Vec<Taken> {
        let Plight { mut reason, mut missing, mut others } = plight;
        let (mut taken, mut cluster) = (Vec::<Taken>::new(), self.snapshot.clone());
        // Before more of those that were taken was tried.
        let mut alone: Option<Vec<Taken>> = None;
        for _ in 0..TRIES_MAX {
            let stand = (&cluster, &missing, &others[..]);
            let mut attempt = self.next_attempt(stand, &reason, &taken);
            let more = more_of_taken(&taken, &attempt.remedy, &others);
            if more.is_none() && (taken.len() == STEPS_MAX || is_told(&taken, &attempt.remedy)) {
                break;
            }
            if let Some((at, in_all)) = more {
                alone.get_or_insert_with(|| taken.clone());
                taken[at].take_more(in_all, &others);
                attempt = self.all_as_told(&taken).unwrap_or(attempt);
            } else {
                alone = None;
                taken.push(Taken::first(attempt.remedy.clone(), (&missing, &others)));
            }
            let Attempt { cured, tried, .. } = attempt;
            (missing, others) = (attempt.missing, attempt.others);
            if let Some(last) = taken.last_mut() {
                last.step.tried = tried.clone();
            }
            match (tried, cured) {
                (Tried::Waits(next) | Tried::Leaves(next), Some(cured)) => {
                    (reason, cluster) = (next, cured);
                }
                (_, None) | (Tried::Runs { .. } | Tried::Untold, _) => return taken,
            }
        }
        alone.unwrap_or(taken)
    }

    /// What the reason asks for is tried. Others who do not leave all the same are no reason.
    fn next_attempt(&self, stand: Stand<'_>, reason: &Reason, taken: &[Taken]) -> Attempt {
        if let Reason::FairShare { instead, .. } | Reason::BehindShare { instead, .. } = reason {
            let attempt = self.attempt(stand, reason.remedy());
            if !attempt.waits_for_mere_room() {
                return attempt;
            }
            return self.next_attempt(stand, instead, taken);
        }
        let (remedy, (_, _, others)) = (reason.remedy(), stand);
        let attempt = self.attempt(stand, one_more_node(taken, &remedy, others).unwrap_or(remedy));
        let tolerated = tolerated_instead(&attempt, others).map(|own| self.attempt(stand, own));
        tolerated.filter(|own| matches!(own.tried, Tried::Runs { .. })).unwrap_or(attempt)
    }

    fn attempt(&self, (cluster, missing, others): Stand<'_>, remedy: Remedy) -> Attempt {
        let cured = with_remedy(cluster, (self.group, missing), &remedy, self.size);
        let (tried, missing, others) = match &cured {
            Some(cured) => tried(cured, self.profile, self.group),
            None => (Tried::Untold, missing.clone(), others.to_vec()),
        };
        Attempt { remedy, cured, tried, missing, others }
    }

    /// The same, each taken once, as much of it as is told. `None`: it does not run so.
    fn in_order(&self, taken: &[Taken]) -> Option<Vec<Taken>> {
        let mut missing = taken.first()?.missing.clone();
        let (mut again, mut cluster) = (Vec::<Taken>::new(), self.snapshot.clone());
        for one in taken {
            cluster = with_remedy(&cluster, (self.group, &missing), one.told(), self.size)?;
            let (tried, missing_then, _) = tried(&cluster, self.profile, self.group);
            let missing = std::mem::replace(&mut missing, missing_then);
            let step = Step { tried, ..one.step.clone() };
            again.push(Taken { step, missing, ..one.clone() });
            if again.last()?.step.runs() {
                return Some(again);
            }
        }
        None
    }

    /// The least to which a bound has to be raised beside all the others, if that is less than is
    /// told of the step at `at`. Where others leave once all the rest is taken, it may not have been
    /// too low at all.
    fn least(&self, taken: &[Taken], at: usize) -> Option<Remedy> {
        let Remedy::Raise { queue, bound, by, to, .. } = taken[at].told() else { return None };
        let of = |amount| Quantity { resource: to.resource.clone(), amount };
        let before = to.amount.saturating_sub(by.amount);
        let raise = |amount: i64| Remedy::Raise {
            queue: Name::clone(queue),
            bound: *bound,
            by: of(amount.saturating_sub(before)),
            to: of(amount),
            with_more: false,
        };
        let grain = to.grain();
        let (mut too_low, mut enough) = (before, to.amount.saturating_sub(grain));
        let runs_at = |amount| self.runs_with(taken, (at, &raise(amount)));
        if enough <= too_low || !runs_at(enough) || runs_at(too_low) {
            return None;
        }
        while enough - too_low > grain {
            let middle = too_low + (enough - too_low) / grain / 2 * grain;
            if runs_at(middle) {
                enough = middle;
            } else {
                too_low = middle;
            }
        }
        Some(raise(enough))
    }

    /// It runs when all is taken, of each as little as is known to do, and `other` at its place.
    fn runs_with(&self, taken: &[Taken], (at, other): (usize, &Remedy)) -> bool {
        let least = |(place, one): (usize, &Taken)| {
            let least = one.step.least.as_ref().unwrap_or(one.told());
            if place == at { other.clone() } else { least.clone() }
        };
        let cured = self.with_all(taken, taken.iter().enumerate().map(least));
        cured.is_some_and(|cured| {
            matches!(tried(&cured, self.profile, self.group).0, Tried::Runs { .. })
        })
    }

    /// It runs when all is taken as it is told.
    fn runs_as_told(&self, taken: &[Taken]) -> bool {
        let all = self.all_as_told(taken);
        all.is_some_and(|all| matches!(all.tried, Tried::Runs { .. }))
    }

    /// All of them, as they are told.
    fn all_as_told(&self, taken: &[Taken]) -> Option<Attempt> {
        let remedy = taken.last()?.told().clone();
        let cured = self.with_all(taken, taken.iter().map(|one| one.told().clone()))?;
        let (tried, missing, others) = tried(&cured, self.profile, self.group);
        Some(Attempt { remedy, cured: Some(cured), tried, missing, others })
    }

    /// The cluster with these in place of those that were taken.
    fn with_all(
        &self,
        taken: &[Taken],
        remedies: impl Iterator<Item = Remedy>,
    ) -> Option<Snapshot> {
        let mut all = taken.iter().zip(remedies);
        all.try_fold(self.snapshot.clone(), |cluster, (one, remedy)| {
            with_remedy(&cluster, (self.group, &one.missing), &remedy, self.size)
        })
    }
}

impl Step {
    const fn runs(&self) -> bool {
        matches!(self.tried, Tried::Runs { .. })
    }
}

/// To tell it again would not help.
fn is_told(taken: &[Taken], remedy: &Remedy) -> bool {
    let remedy = remedy.to_string();
    taken.iter().any(|one| one.step.remedy.to_string() == remedy)
}

/// The place of the one of which `next` is only more, if others got nodes otherwise since, and
/// both together.
fn more_of_taken(taken: &[Taken], next: &Remedy, others: &[Decision]) -> Option<(usize, Remedy)> {
    let mut all = taken.iter().enumerate().rev().filter(|(_, one)| one.may_be_too_little(others));
    all.find_map(|(at, one)| Some((at, more_of(one.told(), next)?)))
}

/// Where others took what one node gave that was opened, or added, another one does as well as `next`.
fn one_more_node(taken: &[Taken], next: &Remedy, others: &[Decision]) -> Option<Remedy> {
    let last = taken.last().filter(|last| last.others != others)?;
    match (last.told(), next) {
        (
            Remedy::Admit { misfit, nodes, pods, added, with_more },
            Remedy::MakeRoom { pods: more, .. },
        ) if misfit.is_of_closed_nodes() && pods < nodes || misfit.place_need().is_some() => {
            Some(Remedy::Admit {
                misfit: misfit.clone(),
                nodes: nodes.saturating_sub(*pods),
                pods: *more,
                added: added.clone(),
                with_more: *with_more,
            })
        }
        _ => None,
    }
}

/// Where others took what taking a taint off all nodes gave, a toleration may do.
fn tolerated_instead(attempt: &Attempt, others: &[Decision]) -> Option<Remedy> {
    let Remedy::Admit { misfit: Misfit::Taint { key, value, .. }, nodes, pods, .. } =
        &attempt.remedy
    else {
        return None;
    };
    let are_taken = attempt.waits_for_mere_room() && attempt.others != others;
    (pods >= nodes && are_taken)
        .then(|| Remedy::Tolerate { key: Name::clone(key), value: Name::clone(value) })
}

/// Both remedies together, if the second is only more of the first.
fn more_of(first: &Remedy, next: &Remedy) -> Option<Remedy> {
    match (first, next) {
        (
            Remedy::Raise { queue, bound, by, .. },
            Remedy::Raise { queue: q, bound: b, by: more, to, with_more },
        ) if queue == q && bound == b && by.resource == more.resource => {
            let amount = by.amount.saturating_add(more.amount);
            let by = Quantity { resource: by.resource.clone(), amount };
            let (queue, to) = (Name::clone(queue), to.clone());
            Some(Remedy::Raise { queue, bound: *bound, by, to, with_more: *with_more })
        }
        (Remedy::Deserve { queue, more }, Remedy::Deserve { queue: again, more: next })
            if queue == again =>
        {
            let mut all = more.clone();
            for next in next {
                match all.iter_mut().find(|known| known.resource == next.resource) {
                    Some(known) => known.amount = known.amount.saturating_add(next.amount),
                    None => all.push(next.clone()),
                }
            }
            Some(Remedy::Deserve { queue: Name::clone(queue), more: all })
        }
        (
            Remedy::MakeRoom { pods, short, room, places },
            Remedy::MakeRoom { pods: more, room: again, .. },
        ) if room.is_like(again) => {
            let pods = pods.saturating_add(*more);
            let (short, room, places) = (short.clone(), room.clone(), places.clone());
            Some(Remedy::MakeRoom { pods, short, room, places })
        }
        (
            Remedy::MakePlace { topology, level, pods, kept_to, selection, or_prefer },
            Remedy::MakePlace { topology: t, level: l, .. },
        ) if topology == t && level == l => Some(Remedy::MakePlace {
            topology: Name::clone(topology),
            level: Name::clone(level),
            pods: pods.saturating_add(1),
            kept_to: kept_to.clone(),
            selection: selection.clone(),
            or_prefer: *or_prefer,
        }),
        (
            Remedy::Admit { misfit, nodes, pods, added, with_more },
            Remedy::Admit { misfit: again, pods: more, .. },
        ) if misfit == again && (misfit.place_need().is_some() || misfit.is_of_closed_nodes()) => {
            let pods = pods.saturating_add(*more);
            let (misfit, added) = (misfit.clone(), added.clone());
            let (nodes, with_more) = (*nodes, *with_more);
            Some(Remedy::Admit { misfit, nodes, pods, added, with_more })
        }
        _ => None,
    }
}
