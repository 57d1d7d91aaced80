//! Explanations and suggestions of a cluster written as text, as text.

mod apply_suggestion;

use apply_suggestion::{AddedNodeSize, apply_suggestion, runs_after_cycles};
use schedlab_explain::{
    ExplanationText, NewNodeSize, QueueExplanationText, SuggestedStep, TrialOutcome, explain,
    explain_queue,
};
use schedlab_scheduler_core::{
    Profile, Reason, Snapshot,
    model::{PodGroupId, QueueId},
    reason::Suggestion,
    schedule,
};
use schedlab_testkit::{cycles_until_steady_from, kube_snapshot_of, snapshot_of};

/// Why a pod group is pending, and the suggestions with the result of trying each.
pub(crate) fn suggestions_of(text: &str, group: &str) -> String {
    suggestions_with(&Profile::kai(), text, group)
}

/// Like [`suggestions_of`], for a pod under profile `kube`.
pub(crate) fn kube_suggestions_of(text: &str, pod: &str) -> String {
    suggestions(&kube_snapshot_of(text), &Profile::kube(), pod)
}

/// Like [`suggestions_of`], with another profile.
pub(crate) fn suggestions_with(profile: &Profile, text: &str, group: &str) -> String {
    suggestions(&snapshot_of(text), profile, group)
}

fn suggestions(snapshot: &Snapshot, profile: &Profile, group: &str) -> String {
    let explanation = explain(snapshot, profile, group_of(snapshot, group));
    let steps = explanation.suggestions.iter().map(
        |SuggestedStep { suggestion, total: in_all, minimum: least, outcome }| {
            let line = |word, it: &Option<Suggestion>| match it {
                Some(it) => format!("\n  {word}: {it}"),
                None => String::new(),
            };
            let in_all = line("in all", in_all) + &line("least", least);
            match outcome {
                TrialOutcome::Runs { node, fits, new_nodes } => {
                    let only = match new_nodes {
                        NewNodeSize::Any => "",
                        NewNodeSize::OnePodEach => ", on small nodes",
                        NewNodeSize::AllPodsOfNode => ", on one node",
                        NewNodeSize::Large => ", on a large node",
                    };
                    format!("{suggestion}{in_all}\n  then it runs on {node} ({fits:?}{only})")
                }
                TrialOutcome::EvictedAgain(reason) => {
                    format!("{suggestion}{in_all}\n  then it leaves: {reason}")
                }
                TrialOutcome::StillPending(reason) => {
                    format!("{suggestion}{in_all}\n  then it waits: {reason}")
                }
                TrialOutcome::NotSimulated => format!("{suggestion}{in_all}\n  not tried"),
            }
        },
    );
    let reason = explanation.reason.as_ref().map_or("nothing", Reason::code);
    std::iter::once(reason.to_owned()).chain(steps).collect::<Vec<_>>().join("\n")
}

/// Applies the suggestions of each pending group that are said to let it run, in each way of adding
/// nodes. Returns those that do not let it run, and how many were applied.
pub(crate) fn ineffective_suggestions(text: &str) -> (Vec<String>, usize) {
    let (snapshot, profile) = (snapshot_of(text), Profile::kai());
    let (mut wrong, mut all) = (Vec::new(), 0);
    for group in schedule(&snapshot, &profile).waiting.into_keys() {
        let steps = explain(&snapshot, &profile, group).suggestions;
        let Some(TrialOutcome::Runs { new_nodes, .. }) = steps.last().map(|last| &last.outcome)
        else {
            continue;
        };
        let ways: &[AddedNodeSize] = match new_nodes {
            NewNodeSize::Any => &[AddedNodeSize::OnePodEach, AddedNodeSize::OneForAll],
            NewNodeSize::OnePodEach => &[AddedNodeSize::OnePodEach],
            NewNodeSize::AllPodsOfNode => &[AddedNodeSize::OneForAll],
            NewNodeSize::Large => &[],
        };
        for &way in ways {
            let mut suggestions =
                steps.iter().map(|step| step.total.as_ref().unwrap_or(&step.suggestion));
            let changed = suggestions.try_fold(snapshot.clone(), |cluster, suggestion| {
                apply_suggestion(&cluster, &profile, group, suggestion, way)
            });
            all += usize::from(changed.is_some());
            if let Some(changed) =
                changed.filter(|changed| !runs_after_cycles(changed, &profile, group))
            {
                let name = &snapshot.pod_groups[group.0 as usize].name;
                let rounds = cycles_until_steady_from(changed);
                wrong.push(format!("{way:?} {name}: {}\n{rounds}", suggestions_of(text, name)));
            }
        }
    }
    (wrong, all)
}

/// The explanation of a pod group.
pub(crate) fn explained(text: &str, group: &str) -> String {
    let snapshot = snapshot_of(text);
    let explanation = explain(&snapshot, &Profile::kai(), group_of(&snapshot, group));
    ExplanationText { snapshot: &snapshot, explanation: &explanation }.to_string()
}

/// The explanation of a queue.
pub(crate) fn queue_explained(text: &str, queue: &str) -> String {
    let snapshot = snapshot_of(text);
    let at = snapshot.queues.iter().position(|known| *known.name == *queue);
    let id = QueueId(u32::try_from(at.expect("a queue of that name")).expect("few queues"));
    let explanation = explain_queue(&snapshot, &Profile::kai(), id);
    QueueExplanationText { snapshot: &snapshot, explanation: &explanation }.to_string()
}

pub(crate) fn group_of(snapshot: &Snapshot, name: &str) -> PodGroupId {
    let at = snapshot.pod_groups.iter().position(|group| *group.name == *name);
    PodGroupId(u32::try_from(at.expect("a job or gang of that name")).expect("few groups"))
}
