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

mod build;
mod by_hand;
mod rounds;
mod show;
mod words;

use std::sync::Arc;

use by_hand::{Way, by_hand, comes_to_run};

use crate::{
    Decision, Plan, Profile, Reason, Snapshot,
    audit::{self, Rule, Rules},
    decision::Remedy,
    explain::{NewNodes, QueueTold, Step, Told, Tried, explain, explain_queue},
    model::{PodGroupId, QueueId},
    profile::Placement,
    schedule,
    words::eviction_message,
};

/// The cluster of `text`.
pub(crate) fn snapshot_of(text: &str) -> Snapshot {
    build::snapshot(text, build::Grouping::ByLine)
}

/// The same where every pod is for itself.
pub(crate) fn kube_snapshot_of(text: &str) -> Snapshot {
    build::snapshot(text, build::Grouping::EachPod)
}

/// What profile `kai` decides, and what of it the audit objects to.
pub(crate) fn plan_of(text: &str) -> String {
    plan_with(&Profile::kai(), text)
}

/// The same with a profile of one's own.
pub(crate) fn plan_with(profile: &Profile, text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, profile);
    report(&snapshot, &plan, Rules::kai())
}

/// The same where work is spread.
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

/// What profile `kube` decides: every pod is for itself, and queues do not exist.
pub(crate) fn kube_plan_of(text: &str) -> String {
    let snapshot = kube_snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kube());
    report(&snapshot, &plan, Rules::kube())
}

/// What every evicted pod is told under profile `kai`.
pub(crate) fn messages_of(text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kai());
    let messages = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, cause } => Some(eviction_message(&snapshot, *pod, cause)),
        Decision::Bind { .. } | Decision::Pipeline { .. } => None,
    });
    messages.collect::<Vec<_>>().join("\n")
}

/// Why a pod group waits, what is to be done, and what came of trying it; then, step by step.
pub(crate) fn remedies_of(text: &str, group: &str) -> String {
    remedies_with(&Profile::kai(), text, group)
}

/// The same of a pod under profile `kube`.
pub(crate) fn kube_remedies_of(text: &str, pod: &str) -> String {
    remedies(&kube_snapshot_of(text), &Profile::kube(), pod)
}

/// The same with a profile of one's own.
pub(crate) fn remedies_with(profile: &Profile, text: &str, group: &str) -> String {
    remedies(&snapshot_of(text), profile, group)
}

fn remedies(snapshot: &Snapshot, profile: &Profile, group: &str) -> String {
    let explanation = explain(snapshot, profile, group_of(snapshot, group));
    let steps = explanation.remedies.iter().map(|Step { remedy, in_all, least, tried }| {
        let line = |word, it: &Option<Remedy>| match it {
            Some(it) => format!("\n  {word}: {it}"),
            None => String::new(),
        };
        let in_all = line("in all", in_all) + &line("least", least);
        match tried {
            Tried::Runs { node, fits, new_nodes } => {
                let only = match new_nodes {
                    NewNodes::OfAnySize => "",
                    NewNodes::OnePodEach => ", on small nodes",
                    NewNodes::Whole => ", on one node",
                    NewNodes::Large => ", on a large node",
                };
                format!("{remedy}{in_all}\n  then it runs on {node} ({fits:?}{only})")
            }
            Tried::Leaves(reason) => format!("{remedy}{in_all}\n  then it leaves: {reason}"),
            Tried::Waits(reason) => format!("{remedy}{in_all}\n  then it waits: {reason}"),
            Tried::Untold => format!("{remedy}{in_all}\n  not tried"),
        }
    });
    let reason = explanation.reason.as_ref().map_or("nothing", Reason::code);
    std::iter::once(reason.to_owned()).chain(steps).collect::<Vec<_>>().join("\n")
}

/// Of each group that waits and is told remedies with which it runs, how those are that do not let it
/// run as somebody takes them who reads them, in each way; and how many were taken.
pub(crate) fn false_remedies(text: &str) -> (Vec<String>, usize) {
    let (snapshot, profile) = (snapshot_of(text), Profile::kai());
    let (mut wrong, mut all) = (Vec::new(), 0);
    for group in schedule(&snapshot, &profile).waiting.into_keys() {
        let steps = explain(&snapshot, &profile, group).remedies;
        let Some(Tried::Runs { new_nodes, .. }) = steps.last().map(|last| &last.tried) else {
            continue;
        };
        let ways: &[Way] = match new_nodes {
            NewNodes::OfAnySize => &[Way::OnePodEach, Way::OneForAll],
            NewNodes::OnePodEach => &[Way::OnePodEach],
            NewNodes::Whole => &[Way::OneForAll],
            NewNodes::Large => &[],
        };
        for &way in ways {
            let mut told = steps.iter().map(|step| step.in_all.as_ref().unwrap_or(&step.remedy));
            let cured = told.try_fold(snapshot.clone(), |cluster, remedy| {
                by_hand((&cluster, &profile), group, remedy, way)
            });
            all += usize::from(cured.is_some());
            if let Some(cured) = cured.filter(|cured| !comes_to_run(cured, &profile, group)) {
                let name = &snapshot.pod_groups[group.0 as usize].name;
                let rounds = rounds::until_steady(cured);
                wrong.push(format!("{way:?} {name}: {}\n{rounds}", remedies_of(text, name)));
            }
        }
    }
    (wrong, all)
}

/// All that is to be said about a pod group.
pub(crate) fn explained(text: &str, group: &str) -> String {
    let snapshot = snapshot_of(text);
    let explanation = explain(&snapshot, &Profile::kai(), group_of(&snapshot, group));
    Told { snapshot: &snapshot, explanation: &explanation }.to_string()
}

/// All that is to be said about a queue.
pub(crate) fn queue_explained(text: &str, queue: &str) -> String {
    let snapshot = snapshot_of(text);
    let at = snapshot.queues.iter().position(|known| *known.name == *queue);
    let id = QueueId(u32::try_from(at.expect("a queue of that name")).expect("few queues"));
    let explanation = explain_queue(&snapshot, &Profile::kai(), id);
    QueueTold { snapshot: &snapshot, explanation: &explanation }.to_string()
}

fn group_of(snapshot: &Snapshot, name: &str) -> PodGroupId {
    let at = snapshot.pod_groups.iter().position(|group| *group.name == *name);
    PodGroupId(u32::try_from(at.expect("a job or gang of that name")).expect("few groups"))
}

/// What profile `kai` decides cycle after cycle, until it decides nothing any more. Pods that
/// were evicted are gone, and wait again, before the next cycle.
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
    let mut breaches = audit::breaches_of(snapshot, plan, rules);
    breaches.retain(|breach| breach.rule != Rule::Gang || breach.at == snapshot.now);
    breaches.iter().map(|breach| format!("BREACH {breach:?}")).collect()
}

/// A name.
fn name(text: &str) -> Arc<str> {
    text.into()
}
