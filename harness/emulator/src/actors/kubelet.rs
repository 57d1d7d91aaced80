//! The kubelets: what happens to a pod once it is bound.
//!
//! ```text
//! bound ─► admitted ─► running ─► Succeeded | Failed
//!    └───► Failed         └◄─ restart, with CrashLoopBackOff
//! deleted at any time: the containers end within the grace period, then the object goes
//! ```
//! All containers of a pod start and end together; init containers take no time, and sidecars among
//! them run from before the others' start until those have ended. Containers wait for the config
//! maps and secrets that they need. Images, probes and other volumes are left out: a container that
//! runs is ready.

mod admission;
pub(super) mod beside;
mod mounts;
mod pace;
mod predicates;
mod stage;
mod status;

use jiff::Timestamp;

use super::fields::{after, after_secs, time};
use super::kinds::{CLAIMS, CONFIG_MAPS, NODES, PODS, SECRETS};
use super::resource_claim::are_ready;
use super::step::Notice;
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{annotation, condition, is_deleting, list, number, text};
use crate::store::{Key, Object};
use schedlab_json::Value;

use pace::{Pace, check_annotations};
use stage::{Exit, Stage};
pub(super) use status::host_address;

pub use crate::pace::DOWN;

/// All kubelets.
pub(super) const ACTOR: Actor = Actor {
    name: "kubelet",
    manager: "kubelet",
    watches: Watched::Kinds(&[&PODS, &CLAIMS, &CONFIG_MAPS, &SECRETS, &NODES]),
    concerns,
    step,
};

/// A pod's own changes; for a node, all its pods: it may have come, died or returned.
fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource == *PODS {
        let bound = change.after.as_ref().filter(|pod| !node_name(pod).is_empty());
        return bound.map(|_| change.key.clone()).into_iter().collect();
    }
    if change.key.resource == *CLAIMS {
        return super::resource_claim::users(change).collect();
    }
    if [&*CONFIG_MAPS, &SECRETS].contains(&&change.key.resource) {
        return mounts::waiting_for(change, view);
    }
    if !change.key.resource.is("", "nodes") || same_for_pods(change) {
        return Vec::new();
    }
    view.pods_on(&change.key.name).map(|(key, _)| key.clone()).collect()
}

/// Whether a node is to its pods what it was.
fn same_for_pods(change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    is_down(before) == is_down(after)
}

/// Whether a node has died.
pub(super) fn is_down(node: &Value) -> bool {
    annotation(node, DOWN) == Some("true")
}

/// `spec.nodeName`.
pub(super) fn node_name(pod: &Value) -> &str {
    text(pod, &["spec", "nodeName"])
}

/// Whether a pod has run to its end.
pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// A pod on a living node.
struct Held<'a> {
    key: &'a Key,
    pod: &'a Object,
    node: &'a Object,
    pace: Pace,
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(pod) = ctx.view.get(key) else { return Step::rest() };
    let Some(node) = living_node(pod, ctx.view) else { return Step::rest() };
    let held = Held { key, pod, node, pace: Pace::of(pod, node, ctx.defaults) };
    if is_deleting(pod) {
        return end(&held, ctx);
    }
    if is_finished(pod) {
        return Step::rest();
    }
    let deadline = deadline(pod);
    if deadline.is_some_and(|deadline| deadline <= ctx.now) {
        return Step::of(held.status(|pod| status::overdue(pod, ctx.now)));
    }
    live(&held, ctx).by(deadline)
}

fn living_node<'v>(pod: &Value, view: &'v View) -> Option<&'v Object> {
    let name = node_name(pod);
    let key = Key { resource: NODES.clone(), namespace: "".into(), name: name.into() };
    let node = view.get(&key)?;
    (!is_down(node)).then_some(node)
}

/// When `activeDeadlineSeconds` is over.
fn deadline(pod: &Value) -> Option<Timestamp> {
    let secs = number(pod, &["spec", "activeDeadlineSeconds"])?;
    Some(after_secs(time(pod, &["status", "startTime"])?, secs))
}

/// A pod that nobody has asked to stop.
fn live(held: &Held, ctx: &Context) -> Step {
    match Stage::of(held.pod) {
        Stage::Arriving if !are_ready(held.pod, ctx.view) => unprepared(held, ctx),
        Stage::Arriving => arrive(held, ctx),
        Stage::Starting { since } => {
            let ready = after(since, held.pace.startup);
            if ctx.now < ready {
                return Step::at(ready);
            }
            match mounts::lack(held.pod, ctx.view) {
                Some(lack) => lacking(held, &lack, ctx),
                None => Step::of(held.status(|pod| status::running(pod, ctx.now))),
            }
        }
        Stage::Running { since } if is_ready(held.pod) => run(held, since, ctx),
        // Its node was lost and is back.
        Stage::Running { .. } => Step::of(held.status(|pod| status::ready(pod, ctx.now))),
        Stage::BackingOff { until } if ctx.now < until => Step::at(until),
        Stage::BackingOff { .. } => Step::of(held.status(|pod| status::running(pod, ctx.now))),
    }
}

/// It has claims that are not its own yet: it waits for them.
fn unprepared(held: &Held, ctx: &Context) -> Step {
    let notice = Notice {
        component: "kubelet",
        kind: "Warning",
        reason: "FailedPrepareDynamicResources",
        message: "Failed to prepare dynamic resources: a resource claim is not allocated, or not reserved for this pod".to_owned(),
    };
    Step::of(notice.once(held.pod, ctx))
}

/// Its containers cannot start yet.
fn lacking(held: &Held, lack: &mounts::Lack, ctx: &Context) -> Step {
    let (reason, message) = (lack.event.0, lack.event.1.clone());
    let notice = Notice { component: "kubelet", kind: "Warning", reason, message };
    let status = held.status(|pod| status::waiting(pod, lack.state, &lack.message));
    Step::of(notice.once(held.pod, ctx).into_iter().chain(status))
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready") == Some("True")
}

/// Admits a pod or turns it away.
fn arrive(held: &Held, ctx: &Context) -> Step {
    let mut writes: Vec<Request> = check_annotations(held.pod, ctx).into_iter().collect();
    let (key, pod, node) = (held.key, held.pod, held.node);
    let admitted = admission::admit(key, pod, node, ctx.view)
        .and_then(|devices| predicates::check(key, pod, node, ctx.view).map(|()| devices));
    let devices = match admitted {
        Ok(devices) => devices,
        Err(refusal) => {
            writes.push(
                Notice {
                    component: "kubelet",
                    kind: "Warning",
                    reason: &refusal.reason,
                    message: refusal.message.clone(),
                }
                .about(held.pod, ctx),
            );
            writes.extend(held.status(|pod| status::refused(pod, &refusal, ctx.now)));
            return Step::of(writes);
        }
    };
    let address = status::free_address(held.pod, held.node, ctx.view);
    let instant = held.pace.startup.is_zero() && mounts::lack(held.pod, ctx.view).is_none();
    writes.extend(held.status(|pod| {
        admission::record(pod, &devices);
        status::admitted(pod, &address, ctx.now);
        if instant {
            status::running(pod, ctx.now);
        } else {
            status::starting(pod, ctx.now);
        }
    }));
    Step::of(writes)
}

/// Waits for a running pod's end and sees it through.
fn run(held: &Held, since: Timestamp, ctx: &Context) -> Step {
    let Some(run_time) = held.pace.run_time else { return Step::rest() };
    let over = after(since, run_time);
    if ctx.now < over {
        return Step::at(over);
    }
    let exit = Exit::of_run(held.pace.exit_code);
    match text(held.pod, &["spec", "restartPolicy"]) {
        "Never" => Step::of(held.status(|pod| status::finished(pod, &exit, ctx.now))),
        "OnFailure" if exit.code == 0 => {
            Step::of(held.status(|pod| status::finished(pod, &exit, ctx.now)))
        }
        _ => restart(held, &exit, ctx),
    }
}

fn restart(held: &Held, exit: &Exit, ctx: &Context) -> Step {
    let mut writes = Vec::new();
    if stage::back_off(held.pod, ctx.now).is_zero() {
        writes.extend(held.status(|pod| status::restarted(pod, exit, ctx.now)));
    } else {
        let notice = Notice {
            component: "kubelet",
            kind: "Warning",
            reason: "BackOff",
            message: "Back-off restarting failed container".to_owned(),
        };
        writes.push(notice.about(held.pod, ctx));
        writes.extend(held.status(|pod| status::backing_off(pod, exit, ctx.now)));
    }
    Step::of(writes)
}

/// Ends a pod that is to go: its containers first, then the object.
fn end(held: &Held, ctx: &Context) -> Step {
    let gone = Request::delete_now(held.key, held.pod);
    let runs = match Stage::of(held.pod) {
        Stage::Running { .. } => !is_finished(held.pod),
        Stage::Arriving | Stage::Starting { .. } | Stage::BackingOff { .. } => false,
    };
    if !runs {
        return if released(held.pod) { Step::rest() } else { give_up(held, gone, ctx) };
    }
    let latest = time(held.pod, &["metadata", "deletionTimestamp"]).unwrap_or(ctx.now);
    let grace = number(held.pod, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let graceful = after(after_secs(latest, grace.saturating_neg()), held.pace.termination);
    let over = latest.min(graceful);
    let sidecars = list(held.pod, &["spec", "initContainers"]).iter();
    let sidecars = sidecars.filter(|container| status::is_sidecar(container));
    let containers = list(held.pod, &["spec", "containers"]).iter().chain(sidecars);
    let notice = |container| Notice {
        component: "kubelet",
        kind: "Normal",
        reason: "Killing",
        message: format!("Stopping container {}", text(container, &["name"])),
    };
    let mut writes: Vec<Request> =
        containers.filter_map(|container| notice(container).once(held.pod, ctx)).collect();
    if ctx.now < over {
        return Step::of(writes).by(over);
    }
    let exit = if graceful <= latest { Exit::TERMINATED } else { Exit::KILLED };
    writes.extend(held.status(|pod| status::finished(pod, &exit, ctx.now)));
    writes.push(gone);
    Step::of(writes)
}

/// Ends a pod that does not run; one that a finalizer holds must show that it ended.
fn give_up(held: &Held, gone: Request, ctx: &Context) -> Step {
    let is_held = crate::object::finalizers(held.pod).next().is_some();
    let shows = is_held && !is_finished(held.pod);
    let ended = shows.then(|| held.status(|pod| status::finished(pod, &Exit::NEVER_RAN, ctx.now)));
    Step::of(ended.flatten().into_iter().chain([gone]))
}

/// Whether the kubelet has already let the object go and only finalizers hold it.
fn released(pod: &Value) -> bool {
    number(pod, &["metadata", "deletionGracePeriodSeconds"]) == Some(0)
        && crate::object::finalizers(pod).next().is_some()
}

impl Held<'_> {
    /// The pod's status, changed.
    fn status(&self, change: impl FnOnce(&mut Value)) -> Option<Request> {
        let mut pod = Value::clone(self.pod);
        change(&mut pod);
        Request::status(self.key, self.pod, pod)
    }
}
