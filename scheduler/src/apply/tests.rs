//! The writes for a plan, rendered as text. There is no API server.

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler_core::{Profile, schedule};

use super::{
    pending::pending_reasons,
    writes::{Request, WriteSequence},
    *,
};
use crate::{
    parse::{list, text},
    snapshot_builder::SnapshotBuilder,
};

/// Runs one cycle over these objects; returns the updates of pod groups and the pending reasons of
/// their pods.
fn rendered(objects: &[Value]) -> String {
    cycle_over(objects, |applier, cache, cycle| {
        let words = applier.messages.messages_of_cycle(cycle);
        let groups = lines(applier.group_status_updates(cache, cycle, &words));
        let pods = pending_reasons(cache, cycle, &words, Flavor::Kai);
        let pods = pods.into_iter().map(|(pod, text)| format!("{pod}: {text}"));
        groups.into_iter().chain(pods).collect::<Vec<_>>().join("\n")
    })
}

fn cycle_over<T>(
    objects: &[Value],
    rendered: impl FnOnce(&mut Applier, &ClusterCache, &Cycle<'_>) -> T,
) -> T {
    let mut cache = ClusterCache::from_objects(objects);
    let mut builder = SnapshotBuilder::new(Flavor::Kai, 0);
    builder.refresh(&mut cache);
    let snapshot = &builder.built.snapshot;
    let plan = schedule(snapshot, &Profile::kai());
    let cycle = Cycle { snapshot, plan: &plan, now: snapshot.now };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let nowhere = kube::Config::new("http://localhost:1".parse().unwrap());
    let client = kube::Client::try_from(nowhere).unwrap();
    let api = ApiClient::new(client, "kai-scheduler".to_owned());
    rendered(&mut Applier::new(api, &Config::kai()), &cache, &cycle)
}

/// Events by reason and message, patches by what they change.
fn lines(chains: Vec<WriteSequence>) -> Vec<String> {
    let writes = chains.into_iter().flatten().map(|write| match write.request {
        Request::CreateEvent { event, .. } => {
            let event: Value = serde_json::from_slice(&event).unwrap();
            let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let about =
                format!("{} {}", text("/involvedObject/kind"), text("/involvedObject/name"));
            format!("event on {about}: {}: {}", text("/reason"), text("/message"))
        }
        Request::Patch { path, change, .. } => format!("patch {path}: {change}"),
        Request::Bind { path, object } | Request::Create { path, object } => {
            format!("create {path}: {object}")
        }
        Request::Delete { path, .. } => format!("delete {path}"),
    });
    writes.collect()
}

fn node(gpus: u32) -> Value {
    json!({ "kind": "Node", "metadata": { "name": "n1" }, "status": {
        "allocatable": { "nvidia.com/gpu": gpus.to_string(), "cpu": "8", "pods": "110" },
        "conditions": [{ "type": "Ready", "status": "True" }] } })
}

fn queue(name: &str, quota: i64) -> Value {
    let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    let gpu = json!({ "quota": quota, "limit": -1, "overQuotaWeight": 1 });
    json!({ "kind": "Queue", "metadata": { "name": name },
            "spec": { "resources": { "gpu": gpu, "cpu": all, "memory": all } } })
}

fn pod(group: &str, at: u32, node: Option<&str>) -> Value {
    json!({ "kind": "Pod",
            "metadata": { "namespace": "ns", "name": format!("{group}-{at}"),
                          "uid": format!("{group}-{at}"), "resourceVersion": "1",
                          "annotations": { "pod-group-name": group } },
            "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                      "containers": [{ "name": "c", "resources": {
                          "limits": { "nvidia.com/gpu": 1 } } }] },
            "status": { "phase": if node.is_some() { "Running" } else { "Pending" } } })
}

/// A group of queue `q` with these fields besides, and these conditions in its status.
fn group(name: &str, fields: &Value, conditions: &Value) -> Value {
    let mut group = json!({
        "kind": "PodGroup",
        "metadata": { "namespace": "ns", "name": name, "uid": name },
        "spec": { "queue": "q", "minMember": 1 },
        "status": { "schedulingConditions": conditions },
    });
    for (key, value) in fields.as_object().unwrap() {
        group["spec"][key.as_str()] = value.clone();
    }
    group
}

/// That a group waits in a node pool.
fn mark(pool: &str, transition: u32, reason: &str) -> Value {
    json!({ "type": "UnschedulableOnNodePool", "nodePool": pool, "status": "True",
            "reason": reason, "message": "as told before",
            "transitionID": transition.to_string() })
}

#[test]
fn a_group_with_scheduling_backoff_is_skipped_after_a_failed_attempt() {
    let after = |fields: Value, marks: &[Value]| {
        rendered(&[node(1), queue("q", 1), group("g", &fields, &json!(marks)), pod("g", 0, None)])
    };
    let once = || json!({ "schedulingBackoff": 1 });
    let tried = |pool, transition| mark(pool, transition, "PodSchedulingErrors");
    let is_left_alone = |rendered: String| rendered.contains("is not tried again here");
    assert!(after(once(), &[tried("default", 1)]).contains("\nns/g-0: It was unschedulable on this node pool and is not tried again here, because its schedulingBackoff is 1"));
    // Statuses that do not count as a failed attempt on this pool: no condition, one of another
    // pool, a later one of another pool, and one for missing pods.
    for marks in [
        vec![],
        vec![tried("other", 1)],
        vec![tried("default", 1), tried("other", 2)],
        vec![mark("default", 1, "NotReady")],
    ] {
        assert!(!is_left_alone(after(once(), &marks)), "{marks:?}");
    }
    assert!(is_left_alone(after(once(), &[tried("other", 1), tried("default", 2)])));
    let ever = json!({ "schedulingBackoff": -1 });
    assert!(!is_left_alone(after(ever, &[tried("default", 1)])));
    assert!(!is_left_alone(after(json!({}), &[tried("default", 1)])));
}

/// Returns the status update of group `g`, the first of the objects, and stores it in `objects`.
fn rendered_group(objects: &mut [Value]) -> String {
    let rendered = rendered(objects);
    let patch = rendered.lines().find_map(|line| line.split_once("/podgroups/g/status: "));
    let Some((_, change)) = patch else { return "nothing".to_owned() };
    let change: Value = serde_json::from_str(change).unwrap();
    objects[0]["status"] = change["status"].clone();
    let condition = &change["status"]["schedulingConditions"][0];
    let reasons: Vec<_> = list(condition, "/reasons").iter().map(|of| &of["reason"]).collect();
    let (reason, reasons) = (&condition["reason"], json!(reasons));
    let event = rendered.lines().next().unwrap();
    assert!(event.ends_with(text(condition, "/message").unwrap()), "{rendered}");
    format!("{event}\n{reason}, with reasons {reasons}")
}

#[test]
fn the_condition_of_a_group_with_scheduling_backoff_says_how_to_retry_it() {
    let once = group("g", &json!({ "schedulingBackoff": 1 }), &json!([]));
    let mut objects = [once, queue("q", 1), node(1), pod("g", 0, None)];
    objects[1]["spec"]["resources"]["gpu"]["limit"] = 0.into();
    assert_snapshot!(rendered_group(&mut objects), @r#"
    event on PodGroup g: Unschedulable: q quota has reached the allowable limit of GPUs. Limit is 0 GPUs, currently 0 GPUs allocated and workload requested 1 GPUs. Remedy: raise the limit of queue q by 1 GPU to 1 GPU; then, as its schedulingBackoff is 1, remove condition UnschedulableOnNodePool from its status, move it to another node pool, or set its schedulingBackoff to -1
    "OverLimit", with reasons ["OverLimit"]
    "#);
    assert_snapshot!(rendered_group(&mut objects), @r#"
    event on PodGroup g: Unschedulable: It was unschedulable on this node pool and is not tried again here, because its schedulingBackoff is 1. Remedy: remove condition UnschedulableOnNodePool from its status, move it to another node pool, or set its schedulingBackoff to -1
    "SchedulingBackoff", with reasons ["SchedulingBackoff","OverLimit"]
    "#);
    // That is the mark, too.
    assert_eq!(rendered_group(&mut objects), "nothing");
    assert!(rendered(&objects).contains("is not tried again here"));
    objects[0]["spec"]["schedulingBackoff"] = (-1).into();
    assert_snapshot!(rendered_group(&mut objects), @r#"
    event on PodGroup g: Unschedulable: q quota has reached the allowable limit of GPUs. Limit is 0 GPUs, currently 0 GPUs allocated and workload requested 1 GPUs. Remedy: raise the limit of queue q by 1 GPU to 1 GPU
    "OverLimit", with reasons ["OverLimit"]
    "#);
}

#[test]
fn a_condition_has_a_higher_transition_id_than_those_of_other_pools() {
    let marks = json!([mark("other", 7, "OverLimit")]);
    let rendered = rendered(&[queue("q", 1), group("g", &json!({}), &marks), pod("g", 0, None)]);
    assert!(rendered.contains(r#""transitionID":"8""#), "{rendered}");
}

#[test]
fn a_group_with_scheduling_backoff_is_not_marked_while_its_pods_run() {
    let with = |fields| {
        let group = group("g", &fields, &json!([]));
        rendered(&[node(1), queue("q", 1), group, pod("g", 0, Some("n1")), pod("g", 1, None)])
    };
    assert!(with(json!({})).contains("event on PodGroup g"));
    assert!(!with(json!({ "schedulingBackoff": 1 })).contains("PodGroup g"));
}

#[test]
fn pods_are_not_marked_when_their_group_sets_mark_unschedulable_to_false() {
    let with = |marks: bool| {
        let group = group("g", &json!({ "markUnschedulable": marks }), &json!([]));
        rendered(&[queue("q", 1), group, pod("g", 0, None)])
    };
    assert!(with(true).contains("\nns/g-0: "));
    assert!(!with(false).contains("\nns/g-0: "));
    assert!(with(false).contains("event on PodGroup g: Unschedulable: "));
}

#[test]
fn the_eviction_event_of_a_group_is_annotated_with_preemptor_and_pod_count() {
    let mut mine = group("mine", &json!({ "minMember": 2 }), &json!([]));
    mine["spec"]["queue"] = "owner".into();
    let mut objects = vec![node(3), queue("q", 0), queue("owner", 2), mine];
    objects.push(group("lent", &json!({}), &json!([])));
    objects.extend((0..3).map(|at| pod("lent", at, Some("n1"))));
    objects.extend((0..2).map(|at| pod("mine", at, None)));
    let rendered = cycle_over(&objects, |applier, cache, cycle| {
        let group_sizes = EvictionGroupSizes::new(cycle);
        let evictions = cycle.plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Evict { pod, cause } => Some((*pod, cause)),
            Decision::Bind { .. } | Decision::Pipeline { .. } => None,
        });
        let chains = evictions
            .map(|(pod, cause)| applier.eviction_writes(cache, cycle, pod, cause, &group_sizes));
        let events = chains.flatten().filter_map(|write| match write.request {
            Request::CreateEvent { event, .. } => {
                Some(serde_json::from_slice::<Value>(&event).unwrap())
            }
            Request::Bind { .. }
            | Request::Create { .. }
            | Request::Patch { .. }
            | Request::Delete { .. } => None,
        });
        let lines = events.map(|event| {
            let annotations = event.pointer("/metadata/annotations").unwrap_or(&Value::Null);
            format!("{} {annotations}", event["involvedObject"]["name"])
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    assert_snapshot!(rendered, @r#"
    "lent-2" null
    "lent" {"evictor-action-type":"reclaim","evictor-pod-group-name":"mine","evictor-pod-group-namespace":"ns","num-evicted-pods":"2"}
    "lent-1" null
    "lent" {"evictor-action-type":"reclaim","evictor-pod-group-name":"mine","evictor-pod-group-namespace":"ns","num-evicted-pods":"2"}
    "#);
}

#[test]
fn a_refused_binding_is_reported_on_the_pod_once() {
    let mut objects = vec![node(1), queue("q", 1), group("g", &json!({}), &json!([]))];
    objects.push(pod("g", 0, None));
    let rendered = |objects: &[Value]| {
        cycle_over(objects, |applier, cache, _| {
            let key = ObjectKey { namespace: "ns".into(), name: "g-0".into() };
            applier.refused.insert(key.clone(), "no such pod".to_owned());
            let chain = applier.refused_binding_report(cache, &key, &"n1".into(), Time(0));
            lines(chain.into_iter().collect()).join("\n")
        })
    };
    assert_snapshot!(rendered(&objects), @r#"
    event on Pod g-0: FailedBinding: Failed to bind pod ns/g-0 to node n1. no such pod
    patch /api/v1/namespaces/ns/pods/g-0/status: {"status":{"conditions":[{"message":"Failed to bind pod ns/g-0 to node n1. no such pod","reason":"BindingError","status":"False","type":"PodScheduled"}]}}
    "#);
    objects[3]["status"]["conditions"] = json!([{
        "type": "PodScheduled", "status": "False", "reason": "BindingError",
        "message": "Failed to bind pod ns/g-0 to node n1. no such pod",
    }]);
    assert_eq!(rendered(&objects), "");
}

/// That the binder could not bind the pod.
fn unbound(mut pod: Value) -> Value {
    pod["status"]["conditions"] = json!([{
        "type": "PodBound", "status": "False", "reason": "BindingError",
        "message": "Failed to bind pod ns/g-0 to node n1: no such thing",
    }]);
    pod
}

#[test]
fn a_failed_bind_request_is_reported_on_the_group() {
    let request = |failed: u32| {
        let status = json!({ "phase": "Failed", "failedAttempts": failed });
        json!({ "kind": "BindRequest", "metadata": { "namespace": "ns", "name": "g-0" },
                "spec": { "podName": "g-0", "selectedNode": "n1", "backoffLimit": 3 },
                "status": if failed > 0 { status } else { Value::Null } })
    };
    let rendered = |request, pod, fields: Value| {
        rendered(&[node(1), queue("q", 1), group("g", &fields, &json!([])), pod, request])
    };
    let waiting = || pod("g", 0, None);
    assert_eq!(rendered(request(0), waiting(), json!({})), "", "it has not failed yet");
    let failing = rendered(request(1), unbound(waiting()), json!({}));
    assert_snapshot!(failing, @r#"
    event on PodGroup g: BindingError: Failed to bind pod ns/g-0 to node n1: no such thing. Remedy: fix the cause; binding is retried automatically
    patch /apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/g/status: {"status":{"schedulingConditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"Failed to bind pod ns/g-0 to node n1: no such thing. Remedy: fix the cause; binding is retried automatically","nodePool":"default","reason":"BindingError","reasons":[{"message":"Failed to bind pod ns/g-0 to node n1: no such thing","reason":"BindingError"}],"status":"True","transitionID":"1","type":"UnschedulableOnNodePool"}]}}
    "#);
    assert_eq!(
        rendered(request(0), unbound(waiting()), json!({})),
        failing,
        "and is asked for again"
    );
    assert_eq!(rendered(request(3), unbound(waiting()), json!({})), "", "it is given a place anew");
    assert_eq!(rendered(request(1), unbound(pod("g", 0, Some("n1"))), json!({})), "", "it runs");
    let once = rendered(request(1), unbound(waiting()), json!({ "schedulingBackoff": 1 }));
    assert_eq!(once, "", "no mark keeps it from being tried");
}

#[test]
fn a_refused_binding_is_reported_on_the_group() {
    let mut pod = pod("g", 0, None);
    pod["status"]["conditions"] = json!([{
        "type": "PodScheduled", "status": "False", "reason": "BindingError",
        "message": "Failed to bind pod ns/g-0 to node n1. no such thing",
    }]);
    let objects = [node(1), queue("q", 1), group("g", &json!({}), &json!([])), pod];
    let rendered = |refused: &[&str]| {
        cycle_over(&objects, |applier, cache, cycle| {
            let key = |name: &&str| ObjectKey { namespace: "ns".into(), name: (*name).into() };
            applier.refused =
                refused.iter().map(|it| (key(it), "no such thing".to_owned())).collect();
            let words = applier.messages.messages_of_cycle(cycle);
            lines(applier.group_status_updates(cache, cycle, &words)).join("\n")
        })
    };
    assert_snapshot!(rendered(&["g-0"]), @r#"
    event on PodGroup g: BindingError: Failed to bind pod ns/g-0 to node n1. no such thing. Remedy: fix the cause; binding is retried automatically
    patch /apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/g/status: {"status":{"schedulingConditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"Failed to bind pod ns/g-0 to node n1. no such thing. Remedy: fix the cause; binding is retried automatically","nodePool":"default","reason":"BindingError","reasons":[{"message":"Failed to bind pod ns/g-0 to node n1. no such thing","reason":"BindingError"}],"status":"True","transitionID":"1","type":"UnschedulableOnNodePool"}]}}
    "#);
    assert_eq!(rendered(&[]), "", "this time it was bound");
}

#[test]
fn queue_details_describe_the_queue_that_is_too_small() {
    let details = |fields: Value| {
        let limited = |quota, limit| json!({ "quota": quota, "limit": limit });
        let resources = json!({
            "gpu": limited(1, 2), "cpu": limited(-1, -1), "memory": limited(8000, -1),
        });
        let q = json!({ "kind": "Queue", "metadata": { "name": "q" },
                        "spec": { "resources": resources } });
        let mut objects = vec![node(8), q, group("g", &fields, &json!([]))];
        objects.extend((0..3).map(|at| pod("g", at, None)));
        cycle_over(&objects, |applier, cache, cycle| {
            let words = applier.messages.messages_of_cycle(cycle);
            let rendered = applier.group_status_updates(cache, cycle, &words).into_iter().flatten();
            let mut conditions = rendered.filter_map(|write| match write.request {
                Request::Patch { change, .. } => Some(change),
                Request::CreateEvent { .. }
                | Request::Bind { .. }
                | Request::Create { .. }
                | Request::Delete { .. } => None,
            });
            let pointer = "/status/schedulingConditions/0/reasons/0/details";
            format!("{:#}", conditions.next().unwrap().pointer(pointer).unwrap())
        })
    };
    assert_snapshot!(details(json!({ "minMember": 3 })), @r#"
    {
      "queueDetails": {
        "name": "q",
        "podGroupRequestedResources": {
          "nvidia.com/gpu": "3"
        },
        "queueAllocatedNonPreemptibleResources": {
          "cpu": "0",
          "memory": "0",
          "nvidia.com/gpu": "0"
        },
        "queueAllocatedResources": {
          "cpu": "0",
          "memory": "0",
          "nvidia.com/gpu": "0"
        },
        "queueDeservedResources": {
          "memory": "8000000000",
          "nvidia.com/gpu": "1"
        },
        "queueRequestedResources": {
          "cpu": "0",
          "memory": "0",
          "nvidia.com/gpu": "3"
        },
        "queueResourceLimits": {
          "nvidia.com/gpu": "2"
        }
      }
    }
    "#);
    let fixed = json!({ "minMember": 2, "preemptibility": "non-preemptible" });
    let rendered = details(fixed);
    assert!(rendered.contains(r#""podGroupRequestedNonPreemptibleResources": {"#), "{rendered}");
}

#[test]
fn a_malformed_group_is_reported_even_while_its_pods_run() {
    let fields = json!({ "minMember": 2, "stalenessGracePeriod": "soon" });
    let objects =
        [node(2), queue("q", 2), group("g", &fields, &json!([])), pod("g", 0, Some("n1"))];
    assert_snapshot!(rendered(&objects), @r#"patch /apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/g/status: {"status":{"schedulingConditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"PodGroup g cannot be scheduled: spec.stalenessGracePeriod: got \"soon\", expected a duration such as 90s or 1h30m. Remedy: fix PodGroup g: spec.stalenessGracePeriod: expected a duration such as 90s or 1h30m","nodePool":"default","reason":"Malformed","reasons":[{"message":"PodGroup g cannot be scheduled: spec.stalenessGracePeriod: got \"soon\", expected a duration such as 90s or 1h30m","reason":"Malformed"}],"status":"True","transitionID":"1","type":"UnschedulableOnNodePool"}]}}"#);
}

/// The condition updates of PodGroup `train` of Kubernetes, with a minimum of two pods and these
/// conditions.
fn scheduling_group_updates(pods: &[Value], conditions: &Value) -> String {
    let upstream = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "namespace": "ns", "name": "train", "uid": "u", "generation": 3 },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } },
        "status": { "conditions": conditions },
    });
    let mut derived = group("g", &json!({ "minMember": 2 }), &json!([]));
    derived["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "train", "uid": "u",
    }]);
    let mut objects = vec![node(2), queue("q", 1), upstream, derived];
    objects.extend(pods.iter().cloned().map(|mut pod| {
        pod["spec"]["schedulingGroup"] = json!({ "podGroupName": "train" });
        pod
    }));
    cycle_over(&objects, |applier, cache, cycle| {
        let words = applier.messages.messages_of_cycle(cycle);
        lines(applier.scheduling_group_updates(cache, cycle, &words)).join("\n")
    })
}

#[test]
fn a_pod_group_of_kubernetes_gets_the_condition_of_kube_scheduler() {
    let none = json!([]);
    let on = |at, node| pod("g", at, Some(node));
    let waiting = |at| pod("g", at, None);
    let large = |at| {
        let mut pod = waiting(at);
        pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!(2);
        pod
    };
    // A pod is missing: no attempt was made.
    assert_eq!(scheduling_group_updates(&[waiting(0)], &none), "");
    let placed = scheduling_group_updates(&[on(0, "n1"), on(1, "n1")], &none);
    assert_snapshot!(placed, @r#"patch /apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/train/status: {"status":{"conditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"","observedGeneration":3,"reason":"Scheduled","status":"True","type":"PodGroupInitiallyScheduled"}]}}"#);
    let too_large = scheduling_group_updates(&[large(0), large(1)], &json!([{ "type": "Other" }]));
    assert_snapshot!(too_large, @r#"patch /apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/train/status: {"status":{"conditions":[{"type":"Other"},{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"The workload cannot run on this cluster as it is: 2 pods that must run together request 4 GPUs, and all nodes on which they may run offer 2 GPUs.","observedGeneration":3,"reason":"Unschedulable","status":"False","type":"PodGroupInitiallyScheduled"}]}}"#);
    // It stays true.
    let scheduled = json!([{ "type": "PodGroupInitiallyScheduled", "status": "True" }]);
    assert_eq!(scheduling_group_updates(&[large(0), large(1)], &scheduled), "");
}
