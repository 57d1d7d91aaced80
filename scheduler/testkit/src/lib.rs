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
//! gang c pods=2 gpus=8                         the minimum is all pods; of one group with `kube`, too
//! gang c pods=2 gpus=8 whole                   its pods are evicted together
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
//! node n5 device d0:any,big@zone=a device d1:any   devices with their kinds and attributes
//! node n6 device d0:any,-big                   requests of kind `big` do not tolerate its taints
//! job i template big|any select x=any*2~zone   a claim of its own, and one that its pods share
//! device d2:any#mem=3 for zone=a counters mem=4    several nodes can use it, `for all` every node
//! foreign x gpus=1 on n1                       a pod of another scheduler
//! ```
//! Every word is `key=value` or stands alone; unknown words are refused. Without a `queue` line
//! there is one queue without bounds. Lines lower down are younger.

mod build;
mod plan_audit;
pub mod random;
mod rounds;
pub mod saturated;
mod show;
pub mod synthetic;
mod tokens;

pub use plan_audit::audit_plan;

use std::sync::Arc;

use schedlab_audit::{Rule, Rules};
use schedlab_scheduler_core::{
    Decision, Plan, Profile, Snapshot, plan::eviction_message, profile::Placement, schedule,
};

/// Parses a cluster from text.
pub fn snapshot_of(text: &str) -> Snapshot {
    build::build_snapshot(text, build::Grouping::ByLine)
}

/// Like [`snapshot_of`], with a pod group of its own for each pod, as in profile `kube`.
pub fn kube_snapshot_of(text: &str) -> Snapshot {
    build::build_snapshot(text, build::Grouping::EachPod)
}

/// The plan of profile `kai` for a cluster as text, followed by the breaches that the audit finds
/// in the plan.
pub fn plan_of(text: &str) -> String {
    plan_with(&Profile::kai(), text)
}

/// Like [`plan_of`], for another profile.
pub fn plan_with(profile: &Profile, text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, profile);
    plan_with_breaches(&snapshot, &plan, Rules::kai())
}

/// Like [`plan_of`], with placement strategy `Spread` for nodes and GPUs.
pub fn spread_plan_of(text: &str) -> String {
    let spread = Placement::Spread;
    let profile = Profile {
        gpu_placement: spread,
        cpu_placement: spread,
        device_placement: spread,
        ..Profile::kai()
    };
    plan_with(&profile, text)
}

/// Like [`plan_of`], for profile `kube`: each pod is its own group, and there are no queues.
pub fn kube_plan_of(text: &str) -> String {
    let snapshot = kube_snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kube());
    plan_with_breaches(&snapshot, &plan, Rules::kube())
}

/// The eviction messages of profile `kai` for a cluster as text.
pub fn eviction_messages_of(text: &str) -> String {
    let snapshot = snapshot_of(text);
    let plan = schedule(&snapshot, &Profile::kai());
    let messages = plan.decisions.iter().filter_map(|decision| match decision {
        Decision::Evict { pod, cause } => Some(eviction_message(&snapshot, *pod, cause)),
        Decision::Bind { .. } | Decision::Pipeline { .. } => None,
    });
    messages.collect::<Vec<_>>().join("\n")
}

/// The plans of profile `kai`, cycle after cycle, until one has no decisions. Evicted pods are
/// pending again in the next cycle.
pub fn cycles_until_steady_of(text: &str) -> String {
    cycles_until_steady_from(snapshot_of(text))
}

/// Like [`cycles_until_steady_of`], for a snapshot.
pub fn cycles_until_steady_from(snapshot: Snapshot) -> String {
    rounds::run_cycles_until_steady(snapshot)
}

fn plan_with_breaches(snapshot: &Snapshot, plan: &Plan, rules: Rules) -> String {
    let mut lines = show::plan_lines(snapshot, plan);
    lines.extend(breach_texts(snapshot, plan, rules));
    lines.join("\n")
}

/// The breaches that the audit finds in the plan, as text.
fn breach_texts(snapshot: &Snapshot, plan: &Plan, rules: Rules) -> Vec<String> {
    let mut breaches = audit_plan(snapshot, plan, rules);
    breaches.retain(|breach| breach.rule != Rule::Gang || breach.at.0 == snapshot.now.0);
    breaches.iter().map(|breach| format!("BREACH {breach:?}")).collect()
}

fn to_name(text: &str) -> Arc<str> {
    text.into()
}
