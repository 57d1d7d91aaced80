//! Tables for tests: a cluster written as text, and what is decided about it as text.
//!
//! ```text
//! node n1 gpus=8 cpu=64 memory=512Gi pods=110 label zone=a taint dedicated=x:NoSchedule
//! node n2 gpus=8 cordoned                      (or: not-ready)
//! node n3 lacks pool=b lacks gpu-worker        left out; pool=: it has the label, and should not
//! topology dc levels zone rack                 from wide to narrow; nodes carry the labels
//! queue team parent=lab quota=8 limit=16 weight=1 priority=100 cpu-quota=4 cpu-limit=8
//! job a gpus=1 queue=team priority=50          one pod
//! job b pods=4 min=2 gpus=1 on n1 n1 n2        three run, one waits; two are the minimum
//! gang c pods=2 gpus=8                         the minimum is all pods
//! gang d                                       with parts of their own, each on a line:
//!   part head gpus=1
//!   part rack needs=1                          an inner part: one of its children suffices
//!   part left parent=rack pods=2 gpus=4
//! job e pods=2 part=0.5 on n1/g1 n1/g1         half of one GPU each: both of the GPU g1
//! node n3 cpu=8 numa=single/pod zone z0:cpu=4 zone z1:cpu=4
//! job g cpu=3 guaranteed on n3@z0              what its kubelet aligns stands in zone z0
//! job h pods=3 min=2 unusable=1                the first cannot be scheduled as it stands
//! job f pods=2 gpus=1 together=dc/zone close=dc/rack   in one zone, if possible in one rack
//! node n4 volumes=2 attached old               two volumes of driver `csi` at most; it has one
//! foreign x gpus=1 on n1                       a pod of another scheduler
//! ```
//! Every word is `key=value` or stands alone; unknown words are refused. Without a `queue` line
//! there is one queue without bounds. Lines lower down are younger.

mod apply_suggestion;
mod build;
mod rounds;
mod show;
mod tokens;

use std::sync::Arc;

use apply_suggestion::{AddedNodeSize, apply_suggestion, runs_after_cycles};
use schedlab_audit::{Rule, Rules};

use crate::{
    Decision, Plan, Profile, Reason, Snapshot, audit,
    decision::Suggestion,
    explain::{
        ExplanationText, NewNodeSize, QueueExplanationText, SuggestedStep, TrialOutcome, explain,
        explain_queue,
    },
    messages::eviction_message,
    model::{PodGroupId, QueueId},
    profile::Placement,
    schedule,
};

/// The snapshot of `text`.
pub(crate) fn snapshot_of(text: &str) -> Snapshot {
    build::snapshot(text, build::Grouping::ByLine)
}

/// Like [`snapshot_of`], with a pod group for each pod.
pub(crate) fn kube_snapshot_of(text: &str) -> Snapshot {
    build::snapshot(text, build::Grouping::EachPod)
}

/// The plan of profile `kai`, and what the audit objects to.
pub(crate) fn plan_of(text: &str) -> String {
    plan_with(&Profile::kai(), text)
}

/// Like [`plan_of`], with another profile.
pub(crate) fn plan_with(profile: &Profile, text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, profile);
    report(&snapshot, &plan, Rules::kai())
}

/// Like [`plan_of`], with placement `Spread`.
pub(crate) fn spread_plan_of(text: &str) -> String {
    let spread = Placement::Spread;
    let profile = Profile {
        gpu_placement: spread,
        cpu_placement: spread,
        device_placement: spread,
        ..Profile::kai()
    };
    plan_with(&profile, text)
}

/// The plan of profile `kube`: each pod is its own group, and there are no queues.
pub(crate) fn kube_plan_of(text: &str) -> String {
    let snapshot = kube_snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kube());
    report(&snapshot, &plan, Rules::kube())
}

/// The eviction messages of profile `kai`.
pub(crate) fn messages_of(text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kai());
    let messages = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, cause } => Some(eviction_message(&snapshot, *pod, cause)),
        Decision::Bind { .. } | Decision::Pipeline { .. } => None,
    });
    messages.collect::<Vec<_>>().join("\n")
}

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
                let rounds = rounds::until_steady(changed);
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

fn group_of(snapshot: &Snapshot, name: &str) -> PodGroupId {
    let at = snapshot.pod_groups.iter().position(|group| *group.name == *name);
    PodGroupId(u32::try_from(at.expect("a job or gang of that name")).expect("few groups"))
}

/// The plans of profile `kai`, cycle after cycle, until one is empty. Evicted pods are pending
/// again in the next cycle.
pub(crate) fn rounds_of(text: &str) -> String {
    rounds::until_steady(snapshot_of(text))
}

fn report(snapshot: &Snapshot, plan: &Plan, rules: Rules) -> String {
    let mut lines = show::lines(snapshot, plan);
    lines.extend(breaches(snapshot, plan, rules));
    lines.join("\n")
}

/// What the audit objects to.
fn breaches(snapshot: &Snapshot, plan: &Plan, rules: Rules) -> Vec<String> {
    let mut breaches = audit::audit_plan(snapshot, plan, rules);
    breaches.retain(|breach| breach.rule != Rule::Gang || breach.at.0 == snapshot.now.0);
    breaches.iter().map(|breach| format!("BREACH {breach:?}")).collect()
}

/// A name.
fn name(text: &str) -> Arc<str> {
    text.into()
}
