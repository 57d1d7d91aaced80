//! Actors as pure functions: what is there and the time in, writes and the next moment out.

use std::sync::Arc;

use super::{ACTORS, Actor, BESIDE, Change, Context, KubeletDefaults, Step, View, key_of};
use crate::kinds::Kinds;
use crate::object::{annotation, text, uid};
use crate::store::{Key, Op, Subresource};
use schedlab_json::{Value, json};

/// The time of every look: one minute into 2026.
const NOW: &str = "2026-01-01T00:01:00Z";

/// The objects of a YAML text with their places; each has a uid of its own.
fn objects(yaml: &str) -> Vec<(Key, Value)> {
    let kinds = Kinds::built_in();
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    all.into_iter()
        .map(|mut object| {
            let (group, _) = text(&object, &["apiVersion"]).rsplit_once('/').unwrap_or_default();
            let kind = kinds.by_kind(group, text(&object, &["kind"]));
            let resource = kind.map_or_else(|| custom(&object), |kind| kind.resource.clone());
            if uid(&object).is_empty() {
                let made = format!("uid-{}", crate::object::name(&object));
                crate::object::set(&mut object, &["metadata", "uid"], json!(made));
            }
            (key_of(&resource, &object), object)
        })
        .collect()
}

fn custom(object: &Value) -> crate::store::Resource {
    let (group, _) = text(object, &["apiVersion"]).rsplit_once('/').unwrap();
    let plural = format!("{}s", text(object, &["kind"]).to_lowercase());
    crate::store::Resource::new(group, &plural)
}

fn view(objects: &[(Key, Value)]) -> View {
    let mut view = View::default();
    view.learn(&Kinds::built_in());
    for (key, object) in objects {
        let after = Some(Arc::new(object.clone()));
        view.apply(&Change { key: key.clone(), before: None, after }, NOW.parse().unwrap());
    }
    view
}

fn actor(name: &str) -> &'static Actor {
    ACTORS.iter().chain([BESIDE]).find(|actor| actor.name == name).unwrap()
}

fn step(actor: &Actor, key: &Key, view: &View) -> Step {
    let defaults = KubeletDefaults::default();
    (actor.step)(key, &Context { view, now: NOW.parse().unwrap(), defaults: &defaults })
}

/// What an actor does about the first object of a text, the others being there too.
fn look(who: &str, yaml: &str) -> String {
    let objects = objects(yaml);
    let step = step(actor(who), &objects[0].0, &view(&objects));
    let mut lines: Vec<String> = step
        .writes
        .iter()
        .map(|request| {
            let verb = match &request.op {
                Op::Create(object) => format!("create {}", summary(object)),
                Op::Update(Subresource::Status, object) => format!("status {}", summary(object)),
                Op::Update(_, object) => format!("update {}", summary(object)),
                Op::Delete(options) => format!(
                    "delete grace={:?} {:?}",
                    options.grace_secs,
                    options.propagation.unwrap()
                ),
                Op::Patch(..) | Op::Bind(_) | Op::Evict(_) => "another verb".to_owned(),
            };
            // An event's name is made from what it says.
            let name = if request.key.resource.is("", "events") { "*" } else { &request.key.name };
            format!("{}/{name}: {verb}", request.key.resource).trim_end().to_owned()
        })
        .collect();
    lines.extend(step.again.map(|again| format!("again {again}")));
    lines.join("\n")
}

/// The part of an object that matters to these tests.
fn summary(object: &Value) -> String {
    let event = text(object, &["reason"]);
    let gpus = annotation(object, "schedlab.dev/gpu-devices").unwrap_or_default();
    let parts = [text(object, &["status", "phase"]), event, gpus];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

const NODE: &str = "
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '8', memory: 8Gi, pods: '10', nvidia.com/gpu: '2'}}
";

fn pod(more: &str, status: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{namespace: ns, name: p, {more}}}
spec:
  nodeName: n1
  restartPolicy: Never
  containers: [{{name: c, resources: {{limits: {{nvidia.com/gpu: '1'}}}}}}]
status: {{{status}}}
"
    )
}

const STARTED: &str = "phase: Running, startTime: '2026-01-01T00:00:00Z', conditions: [{type: Ready, status: 'True'}], containerStatuses: [{name: c, state: {running: {startedAt: '2026-01-01T00:00:00Z'}}}]";

#[test]
fn a_kubelet_starts_a_pod_that_is_bound_to_its_node() {
    let found = look("kubelet", &(pod("", "phase: Pending") + NODE));
    assert_eq!(found, "pods/p: status Running 0");
}

#[test]
fn a_kubelet_leaves_a_pod_alone_whose_node_is_down_or_absent() {
    let down = NODE.replace("{name: n1}", "{name: n1, annotations: {schedlab.dev/down: 'true'}}");
    assert_eq!(look("kubelet", &(pod("", "phase: Pending") + &down)), "");
    assert_eq!(look("kubelet", &pod("", "phase: Pending")), "");
}

#[test]
fn a_kubelet_waits_for_the_end_of_a_run() {
    let runs = pod("annotations: {schedlab.dev/run-time: 90s}", STARTED);
    assert_eq!(look("kubelet", &(runs + NODE)), "again 2026-01-01T00:01:30Z");
    let over = pod("annotations: {schedlab.dev/run-time: 60s}", STARTED);
    assert_eq!(look("kubelet", &(over + NODE)), "pods/p: status Succeeded");
}

#[test]
fn a_kubelet_does_nothing_about_a_pod_that_runs_for_ever() {
    assert_eq!(look("kubelet", &(pod("", STARTED) + NODE)), "");
}

#[test]
fn a_kubelet_ends_a_deleted_pod_with_its_status_first() {
    let deleted = "deletionTimestamp: '2026-01-01T00:01:29Z', deletionGracePeriodSeconds: 30";
    insta::assert_snapshot!(look("kubelet", &(pod(deleted, STARTED) + NODE)), @r"
    events/*: create Killing
    pods/p: status Failed
    pods/p: delete grace=Some(0) Background
    ");
}

#[test]
fn a_kubelet_gives_the_lowest_gpu_that_no_living_pod_has() {
    let other = pod("annotations: {schedlab.dev/gpu-devices: '0'}", STARTED)
        .replace("name: p,", "name: q,");
    let yaml = pod("", "phase: Pending") + NODE + "---" + &other;
    assert_eq!(look("kubelet", &yaml), "pods/p: status Running 1");
    let done = yaml.replace("phase: Running", "phase: Succeeded");
    assert_eq!(look("kubelet", &done), "pods/p: status Running 0");
}

#[test]
fn beside_kwok_a_pod_gets_its_gpus_and_its_end_and_nothing_else() {
    let beside = |yaml: &str| look("kubelet-beside", yaml);
    let reserves = pod("labels: {runai-gpu-group: g}", STARTED)
        .replace("name: p,", "name: gpu-reservation-p,");
    let objects = objects(&(reserves + NODE));
    let step = step(actor("kubelet-beside"), &objects[0].0, &view(&objects));
    let Op::Update(_, told) = &step.writes[0].op else { panic!("it is written: {step:?}") };
    assert_eq!(annotation(told, "run.ai/reserve_for_gpu_index"), Some("0"));
    // Its status is kwok's to write, started or not.
    assert_eq!(beside(&(pod("", "phase: Pending") + NODE)), "pods/p: update Pending 0");
    assert_eq!(beside(&(pod("", STARTED) + NODE)), "pods/p: update Running 0");
    let none = pod("", STARTED).replace("nvidia.com/gpu: '1'", "cpu: '1'");
    assert_eq!(beside(&(none + NODE)), "");
    let full = NODE.replace("nvidia.com/gpu: '2'", "nvidia.com/gpu: '0'");
    assert_eq!(beside(&(pod("", STARTED) + &full)), "");
    let with = |more: &str| {
        pod(&format!("annotations: {{schedlab.dev/gpu-devices: '1', {more}}}"), STARTED)
    };
    assert_eq!(beside(&(with("") + NODE)), "");
    let runs = with("schedlab.dev/run-time: 90s");
    assert_eq!(beside(&(runs + NODE)), "again 2026-01-01T00:01:30Z");
    let over = with("schedlab.dev/run-time: 60s, schedlab.dev/exit-code: '1'");
    assert_eq!(beside(&(over + NODE)), "pods/p: status Failed 1");
    let late = with("").replace("nodeName: n1", "nodeName: n1\n  activeDeadlineSeconds: 60");
    assert_eq!(beside(&(late + NODE)), "pods/p: status Failed 1");
    let deleted = "deletionTimestamp: '2026-01-01T00:00:30Z', deletionGracePeriodSeconds: 30";
    assert_eq!(beside(&(pod(deleted, STARTED) + NODE)), "");
    // kwok has let it go, and its Job waits for it to have ended.
    let held = deleted.replace("Seconds: 30", "Seconds: 0, finalizers: [of/a-job]");
    assert_eq!(beside(&(pod(&held, STARTED) + NODE)), "pods/p: status Failed");
}

#[test]
fn a_node_that_spoke_last_forty_seconds_ago_is_lost() {
    let lost = |renewed: &str| {
        look(
            "node-life",
            &format!(
                "
apiVersion: v1
kind: Node
metadata: {{name: n1, annotations: {{schedlab.dev/down: 'true'}}}}
status: {{conditions: [{{type: Ready, status: 'True'}}]}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {{name: n1, namespace: kube-node-lease, annotations: {{schedlab.dev/down: 'true'}}}}
spec: {{renewTime: '{renewed}'}}
"
            ),
        )
    };
    assert_eq!(lost("2026-01-01T00:00:21.5Z"), "again 2026-01-01T00:01:01.5Z");
    insta::assert_snapshot!(lost("2026-01-01T00:00:20Z"), @r"
    nodes/n1: status
    events/*: create NodeNotReady
    ");
}

#[test]
fn a_pod_leaves_a_tainted_node_by_its_shortest_toleration() {
    let tainted = NODE.replace(
        "status:",
        "spec: {taints: [{key: k, effect: NoExecute, timeAdded: '2026-01-01T00:00:00Z'}]}\nstatus:",
    );
    let tolerating = |secs: &str| {
        let toleration = format!("  tolerations: [{{key: k, operator: Exists{secs}}}]\nstatus:");
        look(
            "taint-eviction",
            &(pod("", STARTED).replace("status: {phase", &(toleration + " {phase")) + &tainted),
        )
    };
    assert_eq!(tolerating(""), "");
    assert_eq!(tolerating(", tolerationSeconds: 90"), "again 2026-01-01T00:01:30Z");
    insta::assert_snapshot!(tolerating(", tolerationSeconds: 60"), @r"
    pods/p: status Running
    events/*: create TaintManagerEviction
    pods/p: delete grace=None Background
    ");
}

#[test]
fn an_owner_of_the_same_name_and_another_uid_is_no_owner() {
    let owned = |uid: &str| {
        look(
            "garbage",
            &format!(
                "
apiVersion: v1
kind: ConfigMap
metadata:
  {{name: b, namespace: ns, ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: a, uid: {uid}}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: a, namespace: ns}}
"
            ),
        )
    };
    assert_eq!(owned("uid-a"), "");
    assert_eq!(owned("uid-of-an-earlier-a"), "configmaps/b: delete grace=None Background");
}

#[test]
fn an_object_with_one_owner_left_loses_only_the_reference() {
    let found = look(
        "garbage",
        "
apiVersion: v1
kind: ConfigMap
metadata:
  name: b
  namespace: ns
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: a, uid: uid-a}
  - {apiVersion: v1, kind: ConfigMap, name: gone, uid: uid-gone}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: ns}
",
    );
    assert_eq!(found, "configmaps/b: update");
}

/// One object of every kind that an actor reads, tied to each other.
fn menagerie() -> Vec<(Key, Value)> {
    let mut all = objects(include_str!("tests/menagerie.yaml"));
    // What every object may carry, so that it is broken everywhere.
    for (_, object) in &mut all {
        crate::object::set(object, &["metadata", "labels"], json!({"app": "a"}));
        crate::object::set(object, &["metadata", "generation"], json!(2));
        let notes = json!({
            "schedlab.dev/startup": "1s",
            "schedlab.dev/gpu-devices": "0",
            "deployment.kubernetes.io/revision": "1",
        });
        crate::object::set(object, &["metadata", "annotations"], notes);
    }
    all
}

/// Everything that stands anywhere in a value, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    if let Some(map) = value.as_object() {
        map.iter().for_each(|(key, value)| places(value, &format!("{at}/{}", escaped(key)), found));
    }
    if let Some(list) = value.as_array() {
        let items = list.iter().enumerate();
        items.for_each(|(index, value)| places(value, &format!("{at}/{index}"), found));
    }
}

#[test]
fn no_malformed_object_makes_any_actor_fail() {
    let sound = menagerie();
    let looks: u64 = (0..sound.len()).map(|index| break_everywhere(&sound, index)).sum();
    assert!(looks > 10_000, "{looks}");
}

/// Breaks one object in every place in every way, has all actors look, and counts their looks.
fn break_everywhere(sound: &[(Key, Value)], index: usize) -> u64 {
    let wrongs = [
        json!(null),
        json!(true),
        json!(-1),
        json!(i64::MAX),
        json!(1.5),
        json!(""),
        json!("nonsense"),
        json!("9999-12-31T23:59:59Z"),
        json!([]),
        json!([null, 1, "x"]),
        json!({}),
        json!({"x": []}),
    ];
    let mut all = Vec::new();
    places(&sound[index].1, "", &mut all);
    let ways = all.iter().flat_map(|place| wrongs.iter().map(move |wrong| (place, wrong)));
    // So many jobs would be made, as they would by the real controller.
    let ways = ways.filter(|(place, wrong)| **wrong != json!(i64::MAX) || !asks_for_many(place));
    ways.map(|(place, wrong)| {
        let mut broken = sound.to_vec();
        *broken[index].1.pointer_mut(place).unwrap() = wrong.clone();
        look_at_all(&broken, &sound[index], index)
    })
    .sum()
}

/// Has every actor look at whatever a change of one object makes worth a look.
fn look_at_all(broken: &[(Key, Value)], (key, before): &(Key, Value), index: usize) -> u64 {
    let view = view(broken);
    let change = Change {
        key: key.clone(),
        before: Some(Arc::new(before.clone())),
        after: Some(Arc::new(broken[index].1.clone())),
    };
    let mut looks = 0;
    for actor in ACTORS.iter().chain([BESIDE]) {
        for key in (actor.concerns)(&change, &view) {
            let _ = step(actor, &key, &view);
            looks += 1;
        }
    }
    looks
}

/// Whether a field is a count of objects to make.
fn asks_for_many(place: &str) -> bool {
    let last = place.rsplit('/').next().unwrap_or_default();
    last == "replicas"
}
