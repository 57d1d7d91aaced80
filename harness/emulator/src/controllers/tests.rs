//! Controllers as pure functions of the cache and the time.

use std::sync::Arc;

use super::{CONTROLLERS, KWOK_COMPANION};
use crate::api_types::feature_gates::FeatureGates;
use crate::api_types::kinds::Kinds;
use crate::reconcile::{
    Context, Controller, InformerCache, KubeletDefaults, ObjectChange, ReconcileResult, key_of,
};
use crate::store::{Key, Op, Subresource};
use schedlab_api::{
    Value, json,
    object::{annotation, text, uid},
};

/// The time of every reconciliation: one minute into 2026.
const NOW: &str = "2026-01-01T00:01:00Z";

/// The objects of a YAML text with their keys. Each gets a uid.
fn objects(yaml: &str) -> Vec<(Key, Value)> {
    let kinds = Kinds::built_in();
    let all: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    all.into_iter()
        .map(|mut object| {
            let (group, _) = text(&object, &["apiVersion"]).rsplit_once('/').unwrap_or_default();
            let kind = kinds.by_kind(group, text(&object, &["kind"]));
            let resource = kind.map_or_else(|| custom(&object), |kind| kind.resource.clone());
            if uid(&object).is_empty() {
                let made = format!("uid-{}", schedlab_api::object::name(&object));
                schedlab_api::object::set(&mut object, &["metadata", "uid"], json!(made));
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

fn view(objects: &[(Key, Value)]) -> InformerCache {
    let mut view = InformerCache::default();
    view.register_kinds(&Kinds::built_in());
    for (key, object) in objects {
        let after = Some(Arc::new(object.clone()));
        view.apply(&ObjectChange { key: key.clone(), before: None, after }, NOW.parse().unwrap());
    }
    view
}

fn controller(name: &str) -> &'static Controller {
    CONTROLLERS.iter().chain([KWOK_COMPANION]).find(|controller| controller.name == name).unwrap()
}

fn step(controller: &Controller, key: &Key, view: &InformerCache) -> ReconcileResult {
    let defaults = KubeletDefaults::default();
    (controller.reconcile)(
        key,
        &Context {
            cache: view,
            now: NOW.parse().unwrap(),
            kubelet_defaults: &defaults,
            feature_gates: &FeatureGates::default(),
        },
    )
}

/// What a controller does for the first object of a YAML text.
fn reconcile_first(name: &str, yaml: &str) -> String {
    let objects = objects(yaml);
    let step = step(controller(name), &objects[0].0, &view(&objects));
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
            // The name of an event is a hash.
            let name = if request.key.resource.is("", "events") { "*" } else { &request.key.name };
            format!("{}/{name}: {verb}", request.key.resource).trim_end().to_owned()
        })
        .collect();
    lines.extend(step.requeue_at.map(|again| format!("again {again}")));
    lines.join("\n")
}

/// The fields of an object that these tests check.
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
    let found = reconcile_first("kubelet", &(pod("", "phase: Pending") + NODE));
    assert_eq!(found, "pods/p: status Running 0");
}

#[test]
fn a_kubelet_ignores_a_pod_of_a_node_that_is_down_or_absent() {
    let down = NODE.replace("{name: n1}", "{name: n1, annotations: {schedlab.dev/down: 'true'}}");
    assert_eq!(reconcile_first("kubelet", &(pod("", "phase: Pending") + &down)), "");
    assert_eq!(reconcile_first("kubelet", &pod("", "phase: Pending")), "");
}

#[test]
fn a_kubelet_waits_for_the_end_of_a_run() {
    let runs = pod("annotations: {schedlab.dev/run-time: 90s}", STARTED);
    assert_eq!(reconcile_first("kubelet", &(runs + NODE)), "again 2026-01-01T00:01:30Z");
    let over = pod("annotations: {schedlab.dev/run-time: 60s}", STARTED);
    assert_eq!(reconcile_first("kubelet", &(over + NODE)), "pods/p: status Succeeded");
}

#[test]
fn a_kubelet_does_nothing_about_a_pod_that_runs_for_ever() {
    assert_eq!(reconcile_first("kubelet", &(pod("", STARTED) + NODE)), "");
}

#[test]
fn a_kubelet_ends_a_deleted_pod_with_its_status_first() {
    let deleted = "deletionTimestamp: '2026-01-01T00:01:29Z', deletionGracePeriodSeconds: 30";
    insta::assert_snapshot!(reconcile_first("kubelet", &(pod(deleted, STARTED) + NODE)), @r"
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
    assert_eq!(reconcile_first("kubelet", &yaml), "pods/p: status Running 1");
    let done = yaml.replace("phase: Running", "phase: Succeeded");
    assert_eq!(reconcile_first("kubelet", &done), "pods/p: status Running 0");
}

#[test]
fn the_kwok_companion_assigns_gpus_and_ends_runs_and_does_nothing_else() {
    let companion = |yaml: &str| reconcile_first("kubelet-beside", yaml);
    let reserves = pod("labels: {runai-gpu-group: g}", STARTED)
        .replace("name: p,", "name: gpu-reservation-p,");
    let objects = objects(&(reserves + NODE));
    let step = step(controller("kubelet-beside"), &objects[0].0, &view(&objects));
    let Op::Update(_, updated) = &step.writes[0].op else { panic!("expected an update: {step:?}") };
    assert_eq!(annotation(updated, "run.ai/reserve_for_gpu_index"), Some("0"));
    // kwok writes the status.
    assert_eq!(companion(&(pod("", "phase: Pending") + NODE)), "pods/p: update Pending 0");
    assert_eq!(companion(&(pod("", STARTED) + NODE)), "pods/p: update Running 0");
    let none = pod("", STARTED).replace("nvidia.com/gpu: '1'", "cpu: '1'");
    assert_eq!(companion(&(none + NODE)), "");
    let full = NODE.replace("nvidia.com/gpu: '2'", "nvidia.com/gpu: '0'");
    assert_eq!(companion(&(pod("", STARTED) + &full)), "");
    let with = |more: &str| {
        pod(&format!("annotations: {{schedlab.dev/gpu-devices: '1', {more}}}"), STARTED)
    };
    assert_eq!(companion(&(with("") + NODE)), "");
    let runs = with("schedlab.dev/run-time: 90s");
    assert_eq!(companion(&(runs + NODE)), "again 2026-01-01T00:01:30Z");
    let over = with("schedlab.dev/run-time: 60s, schedlab.dev/exit-code: '1'");
    assert_eq!(companion(&(over + NODE)), "pods/p: status Failed 1");
    let late = with("").replace("nodeName: n1", "nodeName: n1\n  activeDeadlineSeconds: 60");
    assert_eq!(companion(&(late + NODE)), "pods/p: status Failed 1");
    let deleted = "deletionTimestamp: '2026-01-01T00:00:30Z', deletionGracePeriodSeconds: 30";
    assert_eq!(companion(&(pod(deleted, STARTED) + NODE)), "");
    // kwok has removed the pod, and its Job waits for its end.
    let held = deleted.replace("Seconds: 30", "Seconds: 0, finalizers: [of/a-job]");
    assert_eq!(companion(&(pod(&held, STARTED) + NODE)), "pods/p: status Failed");
}

#[test]
fn a_node_is_unknown_forty_seconds_after_its_last_renewal() {
    let lost = |renewed: &str| {
        reconcile_first(
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
        reconcile_first(
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
        reconcile_first(
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
    let found = reconcile_first(
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

/// One object of every kind that a controller reads, with references between them.
fn sample_objects() -> Vec<(Key, Value)> {
    let mut all = objects(include_str!("tests/menagerie.yaml"));
    // Metadata that every object may have, so that the test breaks it everywhere.
    for (_, object) in &mut all {
        schedlab_api::object::set(object, &["metadata", "labels"], json!({"app": "a"}));
        schedlab_api::object::set(object, &["metadata", "generation"], json!(2));
        let notes = json!({
            "schedlab.dev/startup": "1s",
            "schedlab.dev/gpu-devices": "0",
            "deployment.kubernetes.io/revision": "1",
        });
        schedlab_api::object::set(object, &["metadata", "annotations"], notes);
    }
    all
}

/// All JSON pointers into a value.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    if let Some(map) = value.as_object() {
        map.iter()
            .for_each(|(key, value)| pointers(value, &format!("{at}/{}", escaped(key)), found));
    }
    if let Some(list) = value.as_array() {
        let items = list.iter().enumerate();
        items.for_each(|(index, value)| pointers(value, &format!("{at}/{index}"), found));
    }
}

#[test]
fn no_malformed_object_makes_a_controller_panic() {
    let sound = sample_objects();
    let looks: u64 = (0..sound.len()).map(|index| break_everywhere(&sound, index)).sum();
    assert!(looks > 10_000, "{looks}");
}

/// Breaks one object at every pointer in every way, runs all controllers, and counts their
/// reconciliations.
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
    pointers(&sound[index].1, "", &mut all);
    let ways = all.iter().flat_map(|pointer| wrongs.iter().map(move |wrong| (pointer, wrong)));
    // Such counts would create too many jobs, as in the real controller.
    let ways = ways
        .filter(|(pointer, wrong)| **wrong != json!(i64::MAX) || !requests_many_replicas(pointer));
    ways.map(|(pointer, wrong)| {
        let mut broken = sound.to_vec();
        *broken[index].1.pointer_mut(pointer).unwrap() = wrong.clone();
        reconcile_affected(&broken, &sound[index].0, &sound[index].1, index)
    })
    .sum()
}

/// Runs every controller for the keys that a change of one object affects.
fn reconcile_affected(broken: &[(Key, Value)], key: &Key, before: &Value, index: usize) -> u64 {
    let view = view(broken);
    let change = ObjectChange {
        key: key.clone(),
        before: Some(Arc::new(before.clone())),
        after: Some(Arc::new(broken[index].1.clone())),
    };
    let mut looks = 0;
    for controller in CONTROLLERS.iter().chain([KWOK_COMPANION]) {
        for key in (controller.keys_to_reconcile)(&change, &view) {
            let _ = step(controller, &key, &view);
            looks += 1;
        }
    }
    looks
}

/// Whether a field is a count of objects to make.
fn requests_many_replicas(pointer: &str) -> bool {
    let last = pointer.rsplit('/').next().unwrap_or_default();
    last == "replicas"
}
