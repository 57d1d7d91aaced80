//! What a pod has of a kubelet where somebody else, as kwok, lets it run: its GPUs by index, and
//! the end of its run. Its start and its deletion are the other's.

use super::admission::{self, DEVICES};
use super::stage::{Exit, Stage};
use super::{Held, concerns, deadline, is_finished, is_ready, living_node, released, run, status};
use crate::actors::kinds::{NODES, PODS};
use crate::actors::kubelet::pace::Pace;
use crate::actors::{Actor, Context, Request, Step, Watched};
use crate::object::{annotation, is_deleting};
use crate::store::Key;
use schedlab_json::Value;

/// All of them.
pub(in crate::actors) const ACTOR: Actor = Actor {
    name: "kubelet-beside",
    manager: "kubelet",
    watches: Watched::Kinds(&[&PODS, &NODES]),
    concerns,
    step,
};

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(pod) = ctx.view.get(key) else { return Step::rest() };
    let Some(node) = living_node(pod, ctx.view) else { return Step::rest() };
    if is_finished(pod) {
        return Step::rest();
    }
    let held = Held { key, pod, node, pace: Pace::of(pod, node, ctx.defaults) };
    if is_deleting(pod) {
        // Gone for kwok, but not for the Job that made it, which waits for it to have ended.
        let ended = || held.status(|pod| status::finished(pod, &Exit::TERMINATED, ctx.now));
        return Step::of(released(pod).then(ended).flatten());
    }
    if let Some(handed) = hand_out(&held, ctx) {
        return Step::of([handed]);
    }
    let deadline = deadline(pod);
    if deadline.is_some_and(|deadline| deadline <= ctx.now) {
        return Step::of(held.status(|pod| status::overdue(pod, ctx.now)));
    }
    let step = match Stage::of(pod) {
        Stage::Running { since } if is_ready(pod) => run(&held, since, ctx),
        Stage::BackingOff { until } if ctx.now < until => Step::at(until),
        Stage::BackingOff { .. } => Step::of(held.status(|pod| status::running(pod, ctx.now))),
        Stage::Arriving | Stage::Starting { .. } | Stage::Running { .. } => Step::rest(),
    };
    step.by(deadline)
}

/// Records the GPUs of a pod that has none recorded. One that finds too few on its node runs all
/// the same, as the other says: that it stands there without is for whoever judges.
fn hand_out(held: &Held, ctx: &Context) -> Option<Request> {
    if annotation(held.pod, DEVICES).is_some() {
        return None;
    }
    let devices = admission::admit(held.key, held.pod, held.node, ctx.view).ok()?;
    if devices.is_empty() {
        return None;
    }
    let mut pod = Value::clone(held.pod);
    admission::record(&mut pod, &devices);
    status::reserved(&mut pod);
    Some(Request::update(held.key, pod))
}
