//! What is written for a plan, as text. No server is asked.

use insta::assert_snapshot;
use schedlab_json::{Value, json};
use schedlab_scheduler_core::{Profile, schedule};

use super::{
    pending::reasons,
    writes::{Call, Chain},
    *,
};
use crate::{
    parse::{list, text},
    translate::Translator,
};

/// One cycle over these objects: what pod groups are told, and what their pods are.
fn told(objects: &[Value]) -> String {
    cycle_over(objects, |applier, mirror, cycle| {
        let words = applier.words.of(cycle);
        let groups = lines(applier.told_groups(mirror, cycle, &words));
        let pods = reasons(mirror, cycle, &words);
        let pods = pods.into_iter().map(|(pod, text)| format!("{pod}: {text}"));
        groups.into_iter().chain(pods).collect::<Vec<_>>().join("\n")
    })
}

fn cycle_over<T>(
    objects: &[Value],
    told: impl FnOnce(&mut Applier, &Mirror, &Cycle<'_>) -> T,
) -> T {
    let mut mirror = Mirror::of(objects);
    let mut translator = Translator::new(Flavor::Kai, 0);
    translator.refresh(&mut mirror);
    let snapshot = &translator.translation.snapshot;
    let plan = schedule(snapshot, &Profile::kai());
    let cycle = Cycle { snapshot, plan: &plan, now: snapshot.now };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _entered = runtime.enter();
    let nowhere = kube::Config::new("http://localhost:1".parse().unwrap());
    let client = kube::Client::try_from(nowhere).unwrap();
    let api = Api::new(client, "kai-scheduler".to_owned());
    told(&mut Applier::new(api, &Config::kai()), &mirror, &cycle)
}

/// Events by reason and message, patches by what they change.
fn lines(chains: Vec<Chain>) -> Vec<String> {
    let writes = chains.into_iter().flatten().map(|write| match write.call {
        Call::Tell { event, .. } => {
            let event: Value = serde_json::from_slice(&event).unwrap();
            let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let about =
                format!("{} {}", text("/involvedObject/kind"), text("/involvedObject/name"));
            format!("event on {about}: {}: {}", text("/reason"), text("/message"))
        }
        Call::Patch { path, change, .. } => format!("patch {path}: {change}"),
        Call::Bind { path, object } | Call::Make { path, object } => {
            format!("create {path}: {object}")
        }
        Call::Delete { path, .. } => format!("delete {path}"),
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
fn a_group_that_is_to_be_tried_once_is_left_alone_once_it_was_tried_in_vain() {
    let after = |fields: Value, marks: &[Value]| {
        told(&[node(1), queue("q", 1), group("g", &fields, &json!(marks)), pod("g", 0, None)])
    };
    let once = || json!({ "schedulingBackoff": 1 });
    let tried = |pool, transition| mark(pool, transition, "PodSchedulingErrors");
    let is_left_alone = |told: String| told.contains("is not tried here again");
    assert!(after(once(), &[tried("default", 1)]).contains("\nns/g-0: It was found unschedulable on this node pool once and is not tried here again, as its schedulingBackoff is 1"));
    // What is no such mark: none, that of another pool, a later one of another pool, pods missing.
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

/// What group `g`, the first of the objects, is told; its status stands so from then on.
fn told_group(objects: &mut [Value]) -> String {
    let told = told(objects);
    let patch = told.lines().find_map(|line| line.split_once("/podgroups/g/status: "));
    let Some((_, change)) = patch else { return "nothing".to_owned() };
    let change: Value = serde_json::from_str(change).unwrap();
    objects[0]["status"] = change["status"].clone();
    let condition = &change["status"]["schedulingConditions"][0];
    let reasons: Vec<_> = list(condition, "/reasons").iter().map(|of| &of["reason"]).collect();
    let (reason, reasons) = (&condition["reason"], json!(reasons));
    let event = told.lines().next().unwrap();
    assert!(event.ends_with(text(condition, "/message").unwrap()), "{told}");
    format!("{event}\n{reason}, with reasons {reasons}")
}

#[test]
fn a_group_that_is_tried_once_is_told_what_lets_it_be_tried_again() {
    let once = group("g", &json!({ "schedulingBackoff": 1 }), &json!([]));
    let mut objects = [once, queue("q", 1), node(1), pod("g", 0, None)];
    objects[1]["spec"]["resources"]["gpu"]["limit"] = 0.into();
    assert_snapshot!(told_group(&mut objects), @r#"
    event on PodGroup g: Unschedulable: q quota has reached the allowable limit of GPUs. Limit is 0 GPUs, currently 0 GPUs allocated and workload requested 1 GPUs. Remedy: raise the limit of queue q by 1 GPU to 1 GPU; then, as its schedulingBackoff is 1, take condition UnschedulableOnNodePool off its status, move it to another node pool, or set its schedulingBackoff to -1
    "OverLimit", with reasons ["OverLimit"]
    "#);
    assert_snapshot!(told_group(&mut objects), @r#"
    event on PodGroup g: Unschedulable: It was found unschedulable on this node pool once and is not tried here again, as its schedulingBackoff is 1. Remedy: take condition UnschedulableOnNodePool off its status, move it to another node pool, or set its schedulingBackoff to -1
    "SchedulingBackoff", with reasons ["SchedulingBackoff","OverLimit"]
    "#);
    // That is the mark, too.
    assert_eq!(told_group(&mut objects), "nothing");
    assert!(told(&objects).contains("is not tried here again"));
    objects[0]["spec"]["schedulingBackoff"] = (-1).into();
    assert_snapshot!(told_group(&mut objects), @r#"
    event on PodGroup g: Unschedulable: q quota has reached the allowable limit of GPUs. Limit is 0 GPUs, currently 0 GPUs allocated and workload requested 1 GPUs. Remedy: raise the limit of queue q by 1 GPU to 1 GPU
    "OverLimit", with reasons ["OverLimit"]
    "#);
}

#[test]
fn a_mark_has_a_higher_number_than_those_of_other_pools() {
    let marks = json!([mark("other", 7, "OverLimit")]);
    let told = told(&[queue("q", 1), group("g", &json!({}), &marks), pod("g", 0, None)]);
    assert!(told.contains(r#""transitionID":"8""#), "{told}");
}

#[test]
fn a_group_that_is_to_be_tried_once_is_not_marked_while_pods_of_it_run() {
    let with = |fields| {
        let group = group("g", &fields, &json!([]));
        told(&[node(1), queue("q", 1), group, pod("g", 0, Some("n1")), pod("g", 1, None)])
    };
    assert!(with(json!({})).contains("event on PodGroup g"));
    assert!(!with(json!({ "schedulingBackoff": 1 })).contains("PodGroup g"));
}

#[test]
fn pods_are_told_nothing_where_their_group_wants_them_unmarked() {
    let with = |marks: bool| {
        let group = group("g", &json!({ "markUnschedulable": marks }), &json!([]));
        told(&[queue("q", 1), group, pod("g", 0, None)])
    };
    assert!(with(true).contains("\nns/g-0: "));
    assert!(!with(false).contains("\nns/g-0: "));
    assert!(with(false).contains("event on PodGroup g: Unschedulable: "));
}

#[test]
fn the_group_of_an_evicted_pod_is_told_for_programs_who_made_how_many_leave() {
    let mut mine = group("mine", &json!({ "minMember": 2 }), &json!([]));
    mine["spec"]["queue"] = "owner".into();
    let mut objects = vec![node(3), queue("q", 0), queue("owner", 2), mine];
    objects.push(group("lent", &json!({}), &json!([])));
    objects.extend((0..3).map(|at| pod("lent", at, Some("n1"))));
    objects.extend((0..2).map(|at| pod("mine", at, None)));
    let told = cycle_over(&objects, |applier, mirror, cycle| {
        let together = Together::of(cycle);
        let evictions = cycle.plan.decisions.iter().filter_map(|decision| match decision {
            Decision::Evict { pod, cause } => Some((*pod, cause)),
            Decision::Bind { .. } | Decision::Pipeline { .. } => None,
        });
        let chains = evictions.map(|one| applier.evict(mirror, cycle, one, &together));
        let events = chains.flatten().filter_map(|write| match write.call {
            Call::Tell { event, .. } => Some(serde_json::from_slice::<Value>(&event).unwrap()),
            Call::Bind { .. } | Call::Make { .. } | Call::Patch { .. } | Call::Delete { .. } => {
                None
            }
        });
        let lines = events.map(|event| {
            let annotations = event.pointer("/metadata/annotations").unwrap_or(&Value::Null);
            format!("{} {annotations}", event["involvedObject"]["name"])
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    assert_snapshot!(told, @r#"
    "lent-2" null
    "lent" {"evictor-action-type":"reclaim","evictor-pod-group-name":"mine","evictor-pod-group-namespace":"ns","num-evicted-pods":"2"}
    "lent-1" null
    "lent" {"evictor-action-type":"reclaim","evictor-pod-group-name":"mine","evictor-pod-group-namespace":"ns","num-evicted-pods":"2"}
    "#);
}

#[test]
fn a_pod_that_the_server_does_not_bind_is_told_why_once() {
    let mut objects = vec![node(1), queue("q", 1), group("g", &json!({}), &json!([]))];
    objects.push(pod("g", 0, None));
    let told = |objects: &[Value]| {
        cycle_over(objects, |applier, mirror, _| {
            let key = Key { namespace: "ns".into(), name: "g-0".into() };
            applier.refused.insert(key.clone(), "no such pod".to_owned());
            let chain = applier.tell_refused(mirror, (&key, &"n1".into()), Time(0));
            lines(chain.into_iter().collect()).join("\n")
        })
    };
    assert_snapshot!(told(&objects), @r#"
    event on Pod g-0: FailedBinding: Failed to bind pod ns/g-0 to node n1. no such pod
    patch /api/v1/namespaces/ns/pods/g-0/status: {"status":{"conditions":[{"message":"Failed to bind pod ns/g-0 to node n1. no such pod","reason":"BindingError","status":"False","type":"PodScheduled"}]}}
    "#);
    objects[3]["status"]["conditions"] = json!([{
        "type": "PodScheduled", "status": "False", "reason": "BindingError",
        "message": "Failed to bind pod ns/g-0 to node n1. no such pod",
    }]);
    assert_eq!(told(&objects), "");
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
fn a_group_of_which_a_pod_cannot_be_bound_to_its_place_is_told_that() {
    let request = |failed: u32| {
        let status = json!({ "phase": "Failed", "failedAttempts": failed });
        json!({ "kind": "BindRequest", "metadata": { "namespace": "ns", "name": "g-0" },
                "spec": { "podName": "g-0", "selectedNode": "n1", "backoffLimit": 3 },
                "status": if failed > 0 { status } else { Value::Null } })
    };
    let told = |request, pod, fields: Value| {
        told(&[node(1), queue("q", 1), group("g", &fields, &json!([])), pod, request])
    };
    let waiting = || pod("g", 0, None);
    assert_eq!(told(request(0), waiting(), json!({})), "", "it has not failed yet");
    let failing = told(request(1), unbound(waiting()), json!({}));
    assert_snapshot!(failing, @r#"
    event on PodGroup g: BindingError: Failed to bind pod ns/g-0 to node n1: no such thing. Remedy: mend what it failed for; it is tried again by itself
    patch /apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/g/status: {"status":{"schedulingConditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"Failed to bind pod ns/g-0 to node n1: no such thing. Remedy: mend what it failed for; it is tried again by itself","nodePool":"default","reason":"BindingError","reasons":[{"message":"Failed to bind pod ns/g-0 to node n1: no such thing","reason":"BindingError"}],"status":"True","transitionID":"1","type":"UnschedulableOnNodePool"}]}}
    "#);
    assert_eq!(told(request(0), unbound(waiting()), json!({})), failing, "and is asked for again");
    assert_eq!(told(request(3), unbound(waiting()), json!({})), "", "it is given a place anew");
    assert_eq!(told(request(1), unbound(pod("g", 0, Some("n1"))), json!({})), "", "it runs");
    let once = told(request(1), unbound(waiting()), json!({ "schedulingBackoff": 1 }));
    assert_eq!(once, "", "no mark keeps it from being tried");
}

#[test]
fn a_group_whose_pod_the_server_does_not_bind_is_told_that() {
    let mut pod = pod("g", 0, None);
    pod["status"]["conditions"] = json!([{
        "type": "PodScheduled", "status": "False", "reason": "BindingError",
        "message": "Failed to bind pod ns/g-0 to node n1. no such thing",
    }]);
    let objects = [node(1), queue("q", 1), group("g", &json!({}), &json!([])), pod];
    let told = |refused: &[&str]| {
        cycle_over(&objects, |applier, mirror, cycle| {
            let key = |name: &&str| Key { namespace: "ns".into(), name: (*name).into() };
            applier.refused =
                refused.iter().map(|it| (key(it), "no such thing".to_owned())).collect();
            let words = applier.words.of(cycle);
            lines(applier.told_groups(mirror, cycle, &words)).join("\n")
        })
    };
    assert_snapshot!(told(&["g-0"]), @r#"
    event on PodGroup g: BindingError: Failed to bind pod ns/g-0 to node n1. no such thing. Remedy: mend what it failed for; it is tried again by itself
    patch /apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/g/status: {"status":{"schedulingConditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"Failed to bind pod ns/g-0 to node n1. no such thing. Remedy: mend what it failed for; it is tried again by itself","nodePool":"default","reason":"BindingError","reasons":[{"message":"Failed to bind pod ns/g-0 to node n1. no such thing","reason":"BindingError"}],"status":"True","transitionID":"1","type":"UnschedulableOnNodePool"}]}}
    "#);
    assert_eq!(told(&[]), "", "this time it was bound");
}

#[test]
fn a_group_for_which_a_queue_is_too_small_is_told_for_programs_how_the_queue_stands() {
    let details = |fields: Value| {
        let limited = |quota, limit| json!({ "quota": quota, "limit": limit });
        let resources = json!({
            "gpu": limited(1, 2), "cpu": limited(-1, -1), "memory": limited(8000, -1),
        });
        let q = json!({ "kind": "Queue", "metadata": { "name": "q" },
                        "spec": { "resources": resources } });
        let mut objects = vec![node(8), q, group("g", &fields, &json!([]))];
        objects.extend((0..3).map(|at| pod("g", at, None)));
        cycle_over(&objects, |applier, mirror, cycle| {
            let words = applier.words.of(cycle);
            let told = applier.told_groups(mirror, cycle, &words).into_iter().flatten();
            let mut conditions = told.filter_map(|write| match write.call {
                Call::Patch { change, .. } => Some(change),
                Call::Tell { .. } | Call::Bind { .. } | Call::Make { .. } | Call::Delete { .. } => {
                    None
                }
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
    let told = details(fixed);
    assert!(told.contains(r#""podGroupRequestedNonPreemptibleResources": {"#), "{told}");
}

#[test]
fn a_group_that_cannot_be_read_is_told_so_whether_or_not_its_pods_run() {
    let fields = json!({ "minMember": 2, "stalenessGracePeriod": "soon" });
    let objects =
        [node(2), queue("q", 2), group("g", &fields, &json!([])), pod("g", 0, Some("n1"))];
    assert_snapshot!(told(&objects), @r#"patch /apis/scheduling.run.ai/v2alpha2/namespaces/ns/podgroups/g/status: {"status":{"schedulingConditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"PodGroup g cannot be scheduled: spec.stalenessGracePeriod: found \"soon\", allowed: a duration such as 90s or 1h30m. Remedy: mend PodGroup g: spec.stalenessGracePeriod allows a duration such as 90s or 1h30m","nodePool":"default","reason":"Malformed","reasons":[{"message":"PodGroup g cannot be scheduled: spec.stalenessGracePeriod: found \"soon\", allowed: a duration such as 90s or 1h30m","reason":"Malformed"}],"status":"True","transitionID":"1","type":"UnschedulableOnNodePool"}]}}"#);
}
