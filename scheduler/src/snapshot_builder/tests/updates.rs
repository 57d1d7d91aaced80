//! Incremental updates equal full rebuilds.

use std::{fmt::Write as _, time::Duration};

use schedlab_api::{Value, json};
use schedlab_scheduler_core::{
    Decision, Profile,
    framework::KeptSession,
    model::{ShapeId, Time},
    schedule, schedule_kept,
};

use super::{group, in_phase, leaving, node, pod, queue};
use crate::{
    cache::ClusterCache,
    config::Flavor,
    records::ObjectKey,
    snapshot_builder::{BuiltSnapshot, SnapshotBuilder},
    watch::Kind,
};

/// Everything in a snapshot, with shapes instead of their IDs, which depend on history.
fn shown(built: &BuiltSnapshot) -> String {
    let snapshot = &built.snapshot;
    let mut text = format!("{:#?}{:#?}", snapshot.nodes, snapshot.queues);
    for pod in &snapshot.pods {
        let mut pod = pod.clone();
        let shape = &snapshot.shapes[pod.shape.0 as usize];
        pod.shape = ShapeId(0);
        writeln!(text, "{pod:?} {shape:?}").unwrap();
    }
    for group in &snapshot.pod_groups {
        let mut group = group.clone();
        for member in &mut group.unschedulable_members {
            let shape = &snapshot.shapes[member.shape.0 as usize];
            member.shape = ShapeId(0);
            writeln!(text, "{member:?} {shape:?}").unwrap();
        }
        writeln!(text, "{group:?}").unwrap();
    }
    writeln!(text, "{:#?}", built.unschedulable).unwrap();
    text
}

/// A pseudo-random number below `below`.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// A node with this number of GPUs.
fn small_node(at: u64, gpus: u64) -> Value {
    let mut node = node(&format!("n{at}"));
    node["status"]["allocatable"] =
        json!({ "nvidia.com/gpu": gpus.to_string(), "cpu": "8", "memory": "8Gi", "pods": "20" });
    node
}

/// A queue that deserves one GPU and has no limits.
fn open_queue(at: u64, parent: &str) -> Value {
    let mut queue = queue(&format!("q{at}"), parent);
    let share = |quota| json!({ "quota": quota, "limit": -1, "overQuotaWeight": 1 });
    queue["spec"]["resources"] = json!({ "gpu": share(1), "cpu": share(-1), "memory": share(-1) });
    queue
}

/// A random change, which may have no effect: an object of a few names is updated or removed.
fn change(cache: &mut ClusterCache, state: &mut u64, version: u64) {
    let n = |state: &mut u64| draw(state, 4);
    let (kind, mut object) = match draw(state, 15) {
        0 => (Kind::Node, small_node(n(state), 1 + draw(state, 2))),
        1 => {
            let parent = if draw(state, 2) == 0 { String::new() } else { format!("q{}", n(state)) };
            (Kind::Queue, open_queue(n(state), &parent))
        }
        2..5 => {
            let minimum = draw(state, 5).cast_signed() - 1;
            let class = ["train", "build"][usize::from(draw(state, 3) == 0)];
            let spec = json!({
                "queue": format!("q{}", n(state)),
                "minMember": minimum,
                "priorityClassName": class,
            });
            (Kind::PodGroup, group(&format!("g{}", n(state)), &spec))
        }
        12 => {
            let free =
                json!({ "name": "cpu", "allocatable": "4", "available": n(state).to_string() });
            let zones = json!([{ "name": "z0", "type": "Node", "resources": [free] }]);
            let name = json!({ "name": format!("n{}", n(state)) });
            (Kind::NodeResourceTopology, json!({ "metadata": name, "zones": zones }))
        }
        13..15 => {
            let name = json!({ "namespace": "ns", "name": format!("m{}", draw(state, 2)) });
            (Kind::ConfigMap, json!({ "metadata": name }))
        }
        _ => {
            let mut spec = json!({});
            if draw(state, 2) == 0 {
                let of_map = json!({ "configMapRef": { "name": format!("m{}", draw(state, 2)) } });
                spec["containers"] = json!([{ "name": "c", "envFrom": [of_map] }]);
            }
            if draw(state, 2) == 0 {
                spec["nodeName"] = json!(format!("n{}", n(state)));
            }
            let name = format!("p{}", draw(state, 9));
            let mut pod = pod(&name, &format!("g{}", n(state)), &spec);
            match draw(state, 8) {
                0 | 1 => pod["metadata"]["annotations"]["gpu-fraction"] = json!("1.5"),
                2 => {
                    pod["metadata"]["annotations"]["gpu-fraction"] = json!("0.5");
                    pod["metadata"]["labels"] = json!({ "runai-gpu-group": "d" });
                    pod["spec"]["containers"] = json!([{ "name": "c" }]);
                }
                3 => pod = leaving(pod),
                _ => {}
            }
            let phase = match draw(state, 3) {
                0 => "Pending",
                1 => "Running",
                _ => "Succeeded",
            };
            (Kind::Pod, in_phase(pod, phase))
        }
    };
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    object["metadata"]["uid"] = json!(version.to_string());
    match draw(state, 4) {
        0 => cache.remove(kind, ObjectKey::from_object(&object), crate::parse::version(&object)),
        _ => cache.upsert(kind, &object),
    }
}

#[test]
fn an_incremental_update_equals_a_full_rebuild() {
    for (seed, flavor) in (0..40).zip([Flavor::Kai, Flavor::Kai, Flavor::Kube].iter().cycle()) {
        let mut state = seed;
        let mut cache = ClusterCache::new("kai-scheduler");
        let mut builder = SnapshotBuilder::new(*flavor, 0);
        for step in 1..200 {
            change(&mut cache, &mut state, step);
            if draw(&mut state, 3) > 0 {
                continue;
            }
            builder.refresh(&mut cache);
            cache.changes.everything = true;
            let mut fresh = SnapshotBuilder::new(*flavor, 0);
            fresh.refresh(&mut cache);
            assert_eq!(
                shown(&builder.built),
                shown(&fresh.built),
                "seed {seed} {flavor:?} step {step}"
            );
        }
    }
}

/// Decisions that build on what the last cycle derived equal those of a new session. Debug builds
/// also compare what is kept with what is derived anew ([`schedule_kept`]).
#[test]
fn decisions_of_a_kept_session_equal_those_of_a_new_one() {
    let (mut bound, mut evicted) = (0, 0);
    for (seed, flavor) in (100..124).zip([Flavor::Kai, Flavor::Kai, Flavor::Kube].iter().cycle()) {
        let profile = match flavor {
            Flavor::Kai => Profile::kai(),
            Flavor::Kube => Profile::kube(),
        };
        let profile = Profile { release_timeout: Some(Duration::from_mins(1)), ..profile };
        let mut state = seed;
        let mut cache = ClusterCache::new("kai-scheduler");
        for at in 0..4 {
            cache.upsert(Kind::Node, &small_node(at, 1));
            cache.upsert(Kind::Queue, &open_queue(at, ""));
        }
        let mut builder = SnapshotBuilder::new(*flavor, 0);
        let mut kept = KeptSession::default();
        for step in 1..240 {
            change(&mut cache, &mut state, step);
            if draw(&mut state, 3) > 0 {
                continue;
            }
            builder.refresh(&mut cache);
            builder.built.snapshot.now = Time(1_767_225_600_000 + step.cast_signed() * 1000);
            let (changes, snapshot) = (builder.take_changes(), &builder.built.snapshot);
            let plan = schedule_kept(&mut kept, &changes, snapshot, &profile, &mut ());
            assert_eq!(plan, schedule(snapshot, &profile), "seed {seed} {flavor:?} step {step}");
            for decision in &plan.decisions {
                bound += usize::from(matches!(decision, Decision::Bind { .. }));
                evicted += usize::from(matches!(decision, Decision::Evict { .. }));
            }
        }
    }
    assert!(bound > 100, "{bound} bindings and {evicted} evictions");
}
