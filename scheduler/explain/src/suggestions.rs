//! Finds suggestions that together let a pod group run: each is simulated on a copy of the cluster
//! to which the ones before it were applied.

use super::{
    NewNodeSize, SuggestedStep, TrialOutcome,
    hypothetical_node::NodeSize,
    hypothetical_snapshot::{MissingPods, apply_suggestion},
    simulator::CycleSimulator,
    trial::run_trial,
};
use schedlab_scheduler_core::{
    Decision, Reason, Snapshot,
    model::{Name, PodGroupId},
    reason::{FitError, Quantity, Suggestion},
};

/// Maximum number of suggestions that are applied one after another.
const SUGGESTIONS_MAX: usize = 12;

/// Maximum number of simulations, including those that increase an earlier suggestion.
const SIMULATIONS_MAX: usize = 64;

/// Maximum number of consecutive increases of one suggestion that do not change the nodes of other
/// jobs.
const INCREASES_WITHOUT_EFFECT_MAX: usize = 8;

/// A search for suggestions that let one pod group run.
pub(super) struct SuggestionSearch<'a> {
    /// The cluster before any suggestion is applied.
    pub(super) snapshot: &'a Snapshot,
    /// Runs the cycles after suggestions.
    pub(super) simulator: &'a CycleSimulator<'a>,
    /// The pending group that is to run.
    pub(super) group: PodGroupId,
    /// Size of added nodes.
    pub(super) size: NodeSize,
}

/// The situation of the group before a suggestion.
#[derive(Clone)]
pub(super) struct Situation {
    /// Why the group is pending.
    pub(super) reason: Reason,
    /// The pods of the group that do not fit.
    pub(super) missing: MissingPods,
    /// Placements of other jobs.
    pub(super) others: Vec<Decision>,
}

/// A suggestion that was applied, and the state of the cluster around it.
#[derive(Clone)]
struct AppliedSuggestion {
    step: SuggestedStep,
    /// The pods that did not fit before the suggestion was applied.
    missing: MissingPods,
    /// Placements of other jobs before the suggestion was first applied.
    others_before: Vec<Decision>,
    /// Placements of other jobs before the suggestion was last increased.
    others: Vec<Decision>,
    /// Number of consecutive increases of the suggestion that changed no placement of other jobs.
    no_progress: usize,
}

/// The state of the cluster on which a suggestion is simulated.
#[derive(Clone, Copy)]
struct TrialBase<'a> {
    cluster: &'a Snapshot,
    /// Pods of the group that do not fit in this state.
    missing: &'a MissingPods,
    /// Placements of other jobs in this state.
    others: &'a [Decision],
}

/// A simulated suggestion.
struct Trial {
    suggestion: Suggestion,
    /// The cluster with the suggestion applied. `None`: the suggestion cannot be simulated.
    snapshot: Option<Snapshot>,
    outcome: TrialOutcome,
    /// Pods of the group that do not fit after the suggestion.
    missing: MissingPods,
    /// Placements of other jobs after the suggestion.
    others: Vec<Decision>,
}

impl Trial {
    const fn waits_for_capacity_only(&self) -> bool {
        matches!(
            self.outcome,
            TrialOutcome::StillPending(Reason::NoNode { .. } | Reason::GangDoesNotFit { .. })
        )
    }
}

impl AppliedSuggestion {
    /// Records the first application of a suggestion: before it, `missing` pods did not fit and
    /// other jobs had the placements `others`.
    fn new(suggestion: Suggestion, missing: &MissingPods, others: &[Decision]) -> Self {
        let step = SuggestedStep {
            suggestion,
            total: None,
            minimum: None,
            outcome: TrialOutcome::NotSimulated,
        };
        let (others_before, others) = (others.to_vec(), others.to_vec());
        Self { step, missing: missing.clone(), others_before, others, no_progress: 0 }
    }

    /// Increases the suggestion to `total`, given the present placements of other jobs.
    fn increase_to(&mut self, total: Suggestion, others: &[Decision]) {
        self.step.total = Some(total);
        self.no_progress = if self.others == others { self.no_progress + 1 } else { 0 };
        self.others = others.to_vec();
    }

    /// Whether other jobs may have taken what the suggestion provided, so that more of it is
    /// needed.
    fn may_need_more(&self, others: &[Decision]) -> bool {
        self.others_before != others
            && (self.others != others || self.no_progress < INCREASES_WITHOUT_EFFECT_MAX)
    }

    const fn may_add_nodes(&self) -> bool {
        matches!(
            self.step.suggestion,
            Suggestion::FreeCapacity { .. }
                | Suggestion::FreeDomain { .. }
                | Suggestion::AddLargerNodes { .. }
                | Suggestion::UseLargerDevices { .. }
                | Suggestion::AddNodes { .. }
                | Suggestion::AdmitToNodes { .. }
        )
    }

    /// The suggestion, with its total amount.
    fn suggestion(&self) -> &Suggestion {
        self.step.total.as_ref().unwrap_or(&self.step.suggestion)
    }
}

impl SuggestionSearch<'_> {
    /// The suggestions for this situation, in the order in which they are needed, until the group
    /// runs or no further one can be tried. If nodes are added, they may have the size of existing
    /// nodes or of the pods. The suggestions work with nodes of the pods' size if any do, and with
    /// both sizes if they are equal. The required node size is reported if not all sizes work.
    pub(super) fn suggest_steps(&self, situation: Situation) -> Vec<SuggestedStep> {
        let mut applied = self.apply_until_running(situation.clone());
        if applied.last().is_some_and(|last| last.step.group_runs())
            && applied.iter().any(AppliedSuggestion::may_add_nodes)
        {
            applied = self.with_required_node_size(applied, situation);
        }
        applied.into_iter().map(|one| one.step).collect()
    }

    /// Finds the node size with which the group runs. Returns other suggestions if those work with
    /// small nodes and `applied` do not.
    fn with_required_node_size(
        &self,
        mut applied: Vec<AppliedSuggestion>,
        situation: Situation,
    ) -> Vec<AppliedSuggestion> {
        let [one_pod_each, all_pods] =
            [NodeSize::OnePod, NodeSize::AllPods].map(|size| SuggestionSearch { size, ..*self });
        let mut run_with_small_nodes = one_pod_each.runs_with_all(&applied);
        if !run_with_small_nodes {
            let others = one_pod_each.apply_until_running(situation);
            run_with_small_nodes = one_pod_each.runs_with_all(&others);
            applied = if run_with_small_nodes { others } else { applied };
        }
        let node_size = match (run_with_small_nodes, all_pods.runs_with_all(&applied)) {
            (true, false) => NewNodeSize::OnePodEach,
            (false, true) => NewNodeSize::AllPodsOfNode,
            (false, false) if self.runs_with_all(&applied) => NewNodeSize::Large,
            (true, true) | (false, false) => NewNodeSize::Any,
        };
        if let Some(TrialOutcome::Runs { new_nodes, .. }) =
            applied.last_mut().map(|last| &mut last.step.outcome)
        {
            *new_nodes = node_size;
        }
        applied
    }

    /// Applies suggestions, with added nodes of one size, until the group runs.
    fn apply_until_running(&self, situation: Situation) -> Vec<AppliedSuggestion> {
        let mut applied = self.apply_until_done(situation);
        let runs = |applied: &[AppliedSuggestion]| {
            applied.last().is_some_and(|last| last.step.group_runs())
        };
        let had_more = applied.len() > 1 && applied.iter().any(|one| one.step.total.is_some());
        let in_order =
            if had_more && runs(&applied) { self.reapply_in_order(&applied) } else { None };
        let is_in_order = !had_more || in_order.is_some();
        applied = in_order.unwrap_or(applied);
        if is_in_order && runs(&applied) && self.simulator.may_try_more() {
            for at in 0..applied.len() {
                applied[at].step.minimum = self.smaller_raise(&applied, at);
            }
        }
        applied
    }

    /// Applies one suggestion on top of the other. If other jobs took what an earlier suggestion
    /// provided, that suggestion is increased, and all suggestions so far are simulated again.
    fn apply_until_done(&self, situation: Situation) -> Vec<AppliedSuggestion> {
        let Situation { mut reason, mut missing, mut others } = situation;
        let (mut applied, mut cluster) = (Vec::<AppliedSuggestion>::new(), self.snapshot.clone());
        // The suggestions before any increase.
        let mut before_increases: Option<Vec<AppliedSuggestion>> = None;
        for _ in 0..SIMULATIONS_MAX {
            if !self.simulator.may_try_more() {
                break;
            }
            let base = TrialBase { cluster: &cluster, missing: &missing, others: &others };
            let mut trial = self.next_trial(base, &reason, &applied);
            let more = increase_of_applied(&applied, &trial.suggestion, &others);
            if more.is_none()
                && (applied.len() == SUGGESTIONS_MAX
                    || is_already_suggested(&applied, &trial.suggestion))
            {
                break;
            }
            if let Some((at, total)) = more {
                before_increases.get_or_insert_with(|| applied.clone());
                applied[at].increase_to(total, &others);
                trial = self.simulate_all(&applied).unwrap_or(trial);
            } else {
                before_increases = None;
                applied.push(AppliedSuggestion::new(trial.suggestion.clone(), &missing, &others));
            }
            let Trial { snapshot, outcome, .. } = trial;
            (missing, others) = (trial.missing, trial.others);
            if let Some(last) = applied.last_mut() {
                last.step.outcome = outcome.clone();
            }
            match (outcome, snapshot) {
                (
                    TrialOutcome::StillPending(next) | TrialOutcome::EvictedAgain(next),
                    Some(snapshot),
                ) => {
                    (reason, cluster) = (next, snapshot);
                }
                (_, None) | (TrialOutcome::Runs { .. } | TrialOutcome::NotSimulated, _) => {
                    return applied;
                }
            }
        }
        before_increases.unwrap_or(applied)
    }

    /// Simulates the suggestion for the present reason. A reason about fair share is passed over if
    /// capacity is still lacking after the suggestion for it.
    fn next_trial(
        &self,
        base: TrialBase<'_>,
        reason: &Reason,
        applied: &[AppliedSuggestion],
    ) -> Trial {
        if let Reason::FairShareExceeded { underlying, .. }
        | Reason::HeadOfLineBlocked { underlying, .. } = reason
        {
            let trial = self.try_suggestion(base, reason.suggestion());
            if !trial.waits_for_capacity_only() {
                return trial;
            }
            return self.next_trial(base, underlying, applied);
        }
        let suggestion = reason.suggestion();
        let one_more = suggest_one_more_node(applied, &suggestion, base.others);
        let trial = self.try_suggestion(base, one_more.unwrap_or(suggestion));
        let with_toleration = suggest_toleration_instead(&trial, base.others)
            .map(|toleration| self.try_suggestion(base, toleration));
        with_toleration
            .filter(|toleration| matches!(toleration.outcome, TrialOutcome::Runs { .. }))
            .unwrap_or(trial)
    }

    fn try_suggestion(&self, base: TrialBase<'_>, suggestion: Suggestion) -> Trial {
        let TrialBase { cluster, missing, others } = base;
        let snapshot = apply_suggestion(cluster, self.group, missing, &suggestion, self.size);
        let (outcome, missing, others) = match &snapshot {
            Some(snapshot) => run_trial(snapshot, self.simulator, self.group),
            None => (TrialOutcome::NotSimulated, missing.clone(), others.to_vec()),
        };
        Trial { suggestion, snapshot, outcome, missing, others }
    }

    /// Applies all suggestions again, each once, with its total amount. `None`: the group does not
    /// run then.
    fn reapply_in_order(&self, applied: &[AppliedSuggestion]) -> Option<Vec<AppliedSuggestion>> {
        let mut missing = applied.first()?.missing.clone();
        let (mut reapplied, mut cluster) = (Vec::<AppliedSuggestion>::new(), self.snapshot.clone());
        for one in applied {
            cluster =
                apply_suggestion(&cluster, self.group, &missing, one.suggestion(), self.size)?;
            let (outcome, missing_then, _) = run_trial(&cluster, self.simulator, self.group);
            let missing = std::mem::replace(&mut missing, missing_then);
            let step = SuggestedStep { outcome, ..one.step.clone() };
            reapplied.push(AppliedSuggestion { step, missing, ..one.clone() });
            if reapplied.last()?.step.group_runs() {
                return Some(reapplied);
            }
        }
        None
    }

    /// For a suggestion to raise a bound: the smallest raise that suffices with all other steps, if
    /// it is smaller than the step at `index`. The bound may have been high enough if pods are
    /// evicted once the other steps are applied.
    fn smaller_raise(&self, applied: &[AppliedSuggestion], index: usize) -> Option<Suggestion> {
        let Suggestion::RaiseBound { queue, bound, by, to, .. } = applied[index].suggestion()
        else {
            return None;
        };
        let quantity = |amount| Quantity { resource: to.resource.clone(), amount };
        let before = to.amount.saturating_sub(by.amount);
        let raise = |amount: i64| Suggestion::RaiseBound {
            queue: Name::clone(queue),
            bound: *bound,
            by: quantity(amount.saturating_sub(before)),
            to: quantity(amount),
            other_bounds_too_low: false,
        };
        let resolution = to.printed_resolution();
        let (mut too_low, mut enough) = (before, to.amount.saturating_sub(resolution));
        let runs_at = |amount| self.runs_with_replaced(applied, index, &raise(amount));
        if enough <= too_low || !runs_at(enough) || runs_at(too_low) {
            return None;
        }
        while enough - too_low > resolution {
            let middle = too_low + (enough - too_low) / resolution / 2 * resolution;
            if runs_at(middle) {
                enough = middle;
            } else {
                too_low = middle;
            }
        }
        Some(raise(enough))
    }

    /// Whether the group runs with all suggestions in their known minimum amount, and `replacement`
    /// in place of the suggestion at `index`.
    fn runs_with_replaced(
        &self,
        applied: &[AppliedSuggestion],
        replaced: usize,
        replacement: &Suggestion,
    ) -> bool {
        let minimum = |(index, one): (usize, &AppliedSuggestion)| {
            let minimum = one.step.minimum.as_ref().unwrap_or(one.suggestion());
            if index == replaced { replacement.clone() } else { minimum.clone() }
        };
        let snapshot = self.snapshot_with_all(applied, applied.iter().enumerate().map(minimum));
        snapshot.is_some_and(|snapshot| {
            matches!(run_trial(&snapshot, self.simulator, self.group).0, TrialOutcome::Runs { .. })
        })
    }

    /// Whether the group runs with all suggestions applied.
    fn runs_with_all(&self, applied: &[AppliedSuggestion]) -> bool {
        let all = self.simulate_all(applied);
        all.is_some_and(|all| matches!(all.outcome, TrialOutcome::Runs { .. }))
    }

    /// Simulates all suggestions with their total amounts.
    fn simulate_all(&self, applied: &[AppliedSuggestion]) -> Option<Trial> {
        let suggestion = applied.last()?.suggestion().clone();
        let snapshot =
            self.snapshot_with_all(applied, applied.iter().map(|one| one.suggestion().clone()))?;
        let (outcome, missing, others) = run_trial(&snapshot, self.simulator, self.group);
        Some(Trial { suggestion, snapshot: Some(snapshot), outcome, missing, others })
    }

    /// The cluster with these suggestions applied instead of those in `applied`; `None` if one
    /// cannot be applied.
    fn snapshot_with_all(
        &self,
        applied: &[AppliedSuggestion],
        suggestions: impl Iterator<Item = Suggestion>,
    ) -> Option<Snapshot> {
        let mut all = applied.iter().zip(suggestions);
        all.try_fold(self.snapshot.clone(), |cluster, (one, suggestion)| {
            apply_suggestion(&cluster, self.group, &one.missing, &suggestion, self.size)
        })
    }
}

impl SuggestedStep {
    const fn group_runs(&self) -> bool {
        matches!(self.outcome, TrialOutcome::Runs { .. })
    }
}

/// Whether the same suggestion was applied before: repeating it would not help.
fn is_already_suggested(applied: &[AppliedSuggestion], suggestion: &Suggestion) -> bool {
    let suggestion = suggestion.to_string();
    applied.iter().any(|one| one.step.suggestion.to_string() == suggestion)
}

/// If `next` only increases an applied suggestion and placements of other jobs changed since: the
/// index of that suggestion, and both combined.
fn increase_of_applied(
    applied: &[AppliedSuggestion],
    next: &Suggestion,
    others: &[Decision],
) -> Option<(usize, Suggestion)> {
    let mut all = applied.iter().enumerate().rev().filter(|(_, one)| one.may_need_more(others));
    all.find_map(|(at, one)| Some((at, merge_if_same_change(one.suggestion(), next)?)))
}

/// If other jobs took an opened or added node: a suggestion for one more such node, instead of
/// `next`.
fn suggest_one_more_node(
    applied: &[AppliedSuggestion],
    next: &Suggestion,
    others: &[Decision],
) -> Option<Suggestion> {
    let last = applied.last().filter(|last| last.others != others)?;
    match (last.suggestion(), next) {
        (
            Suggestion::AdmitToNodes { fit_error, nodes, pods, added, with_other_errors },
            Suggestion::FreeCapacity { pods: more, .. },
        ) if fit_error.is_node_closed() && pods < nodes || fit_error.placement_need().is_some() => {
            Some(Suggestion::AdmitToNodes {
                fit_error: fit_error.clone(),
                nodes: nodes.saturating_sub(*pods),
                pods: *more,
                added: added.clone(),
                with_other_errors: *with_other_errors,
            })
        }
        _ => None,
    }
}

/// If other jobs took the nodes from which a taint was removed: a suggestion to add a toleration
/// instead.
fn suggest_toleration_instead(trial: &Trial, others: &[Decision]) -> Option<Suggestion> {
    let Suggestion::AdmitToNodes {
        fit_error: FitError::Taint { key, value, .. }, nodes, pods, ..
    } = &trial.suggestion
    else {
        return None;
    };
    let are_taken = trial.waits_for_capacity_only() && trial.others != others;
    (pods >= nodes && are_taken)
        .then(|| Suggestion::TolerateTaint { key: Name::clone(key), value: Name::clone(value) })
}

/// One suggestion for both, if the second asks for more of the same change as the first; otherwise
/// `None`.
fn merge_if_same_change(first: &Suggestion, next: &Suggestion) -> Option<Suggestion> {
    match (first, next) {
        (
            Suggestion::RaiseBound { queue, bound, by, .. },
            Suggestion::RaiseBound { queue: q, bound: b, by: more, to, other_bounds_too_low },
        ) if queue == q && bound == b && by.resource == more.resource => {
            let amount = by.amount.saturating_add(more.amount);
            let by = Quantity { resource: by.resource.clone(), amount };
            let (queue, to) = (Name::clone(queue), to.clone());
            let other_bounds_too_low = *other_bounds_too_low;
            Some(Suggestion::RaiseBound { queue, bound: *bound, by, to, other_bounds_too_low })
        }
        (
            Suggestion::RaiseQuotaToReclaim { queue, more },
            Suggestion::RaiseQuotaToReclaim { queue: again, more: next },
        ) if queue == again => {
            let mut all = more.clone();
            for next in next {
                match all.iter_mut().find(|known| known.resource == next.resource) {
                    Some(known) => known.amount = known.amount.saturating_add(next.amount),
                    None => all.push(next.clone()),
                }
            }
            Some(Suggestion::RaiseQuotaToReclaim { queue: Name::clone(queue), more: all })
        }
        (
            Suggestion::FreeCapacity { pods, short, location, domains },
            Suggestion::FreeCapacity { pods: more, location: again, .. },
        ) if location.is_same_location(again) => {
            let pods = pods.saturating_add(*more);
            let (short, location, domains) = (short.clone(), location.clone(), domains.clone());
            Some(Suggestion::FreeCapacity { pods, short, location, domains })
        }
        (
            Suggestion::FreeDomain { topology, level, pods, domains, node_selection, or_prefer },
            Suggestion::FreeDomain { topology: t, level: l, .. },
        ) if topology == t && level == l => Some(Suggestion::FreeDomain {
            topology: Name::clone(topology),
            level: Name::clone(level),
            pods: pods.saturating_add(1),
            domains: domains.clone(),
            node_selection: node_selection.clone(),
            or_prefer: *or_prefer,
        }),
        (
            Suggestion::AdmitToNodes { fit_error, nodes, pods, added, with_other_errors },
            Suggestion::AdmitToNodes { fit_error: again, pods: more, .. },
        ) if fit_error == again
            && (fit_error.placement_need().is_some() || fit_error.is_node_closed()) =>
        {
            let pods = pods.saturating_add(*more);
            let (fit_error, added) = (fit_error.clone(), added.clone());
            let (nodes, with_other_errors) = (*nodes, *with_other_errors);
            Some(Suggestion::AdmitToNodes { fit_error, nodes, pods, added, with_other_errors })
        }
        _ => None,
    }
}
