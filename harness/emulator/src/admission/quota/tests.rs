//! Tables of quota usage and scopes.

use super::*;
use schedlab_api::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn quota(spec: &Value) -> Value {
    json!({"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec})
}

/// The usage of a quota with these objects, each with its resource.
fn used(spec: &Value, objects: &[(&str, Value)]) -> String {
    let resources: Vec<Resource> = objects
        .iter()
        .map(|(resource, _)| {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            Resource::new(group, plural)
        })
        .collect();
    let items = resources.iter().zip(objects);
    let items = items.map(|(resource, (_, object))| CountedObject { resource, object, now: now() });
    counted_quota_status(&quota(spec), items)["used"].to_string()
}

fn pod(spec: &Value) -> (&'static str, Value) {
    ("pods", json!({"metadata": {"name": "p"}, "spec": spec}))
}

#[test]
fn a_pod_counts_as_the_scheduler_counts_it() {
    let hard = json!({"hard": {
        "pods": 9, "count/pods": 9, "cpu": 9, "requests.cpu": 9, "limits.cpu": 9,
        "requests.memory": "9Gi", "requests.nvidia.com/gpu": 9, "limits.memory": "9G",
    }});
    let spec = json!({
        "overhead": {"cpu": "100m", "memory": "1Mi"},
        "initContainers": [
            {"name": "beside", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "first", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}},
        ],
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "2", "memory": "512Mi",
                "nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}},
            {"name": "b", "resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}}},
        ],
    });
    insta::assert_snapshot!(used(&hard, &[pod(&spec)]), @r#"{"count/pods":"1","cpu":"5100m","limits.cpu":"2100m","limits.memory":"0","pods":"1","requests.cpu":"5100m","requests.memory":"1025Mi","requests.nvidia.com/gpu":"2"}"#);
}

#[test]
fn pod_level_resources_count_instead_of_those_of_the_containers() {
    let hard = json!({"hard": {"requests.cpu": 9, "limits.cpu": 9, "requests.memory": "9Gi"}});
    let spec = json!({
        "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}},
        "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    });
    insta::assert_snapshot!(used(&hard, &[pod(&spec)]), @r#"{"limits.cpu":"4","requests.cpu":"3","requests.memory":"1Gi"}"#);
}

#[test]
fn a_finished_pod_counts_only_as_an_object() {
    let hard = json!({"hard": {"pods": 9, "count/pods": 9, "requests.nvidia.com/gpu": 9}});
    let gpu = json!({"containers": [{"resources": {"requests": {"nvidia.com/gpu": 1}}}]});
    let with = |changes: Value| {
        let (resource, mut pod) = pod(&gpu);
        for (field, value) in changes.as_object().unwrap() {
            pod[field.as_str()] = value.clone();
        }
        (resource, pod)
    };
    let leaving = |at: &str, grace: i64| json!({"metadata": {"deletionTimestamp": at, "deletionGracePeriodSeconds": grace}});
    let results = [
        used(&hard, &[with(json!({"status": {"phase": "Running"}}))]),
        used(&hard, &[with(json!({"status": {"phase": "Succeeded"}}))]),
        used(&hard, &[with(leaving("2026-01-01T00:00:30Z", 30))]),
        used(&hard, &[with(leaving("2026-01-01T00:00:29Z", 30))]),
    ];
    insta::assert_snapshot!(results.join("\n"), @r#"
    {"count/pods":"1","pods":"1","requests.nvidia.com/gpu":"1"}
    {"count/pods":"1","pods":"0","requests.nvidia.com/gpu":"0"}
    {"count/pods":"1","pods":"1","requests.nvidia.com/gpu":"1"}
    {"count/pods":"1","pods":"0","requests.nvidia.com/gpu":"0"}
    "#);
}

#[test]
fn other_kinds_count_by_their_names() {
    let hard = json!({"hard": {
        "count/jobs.batch": 9, "configmaps": 9, "count/configmaps": 9, "services": 9,
        "services.nodeports": 9, "services.loadbalancers": 9, "requests.storage": "9Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "9Gi",
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": 9, "nobody.knows/it": 9,
    }});
    let volume = json!({"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}});
    let class = "gpu.nvidia.com";
    let asks = json!([
        {"exactly": {"deviceClassName": class, "count": 2}},
        {"firstAvailable": [{"deviceClassName": class}, {"deviceClassName": class, "count": 3}]},
    ]);
    let objects = [
        ("jobs.batch", json!({})),
        ("configmaps", json!({})),
        ("services", json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}})),
        ("services", json!({"spec": {"type": "ClusterIP", "ports": [{}]}})),
        ("persistentvolumeclaims", json!({"spec": volume})),
        ("persistentvolumeclaims", json!({"spec": volume})),
        ("resourceclaims.resource.k8s.io", json!({"spec": {"devices": {"requests": asks}}})),
        ("secrets", json!({})),
    ];
    insta::assert_snapshot!(used(&hard, &objects).replace("\",", "\",\n"), @r#"
    {"configmaps":"1",
    "count/configmaps":"1",
    "count/jobs.batch":"1",
    "fast.storageclass.storage.k8s.io/requests.storage":"2Gi",
    "gpu.nvidia.com.deviceclass.resource.k8s.io/devices":"5",
    "requests.storage":"2Gi",
    "services":"2",
    "services.loadbalancers":"1",
    "services.nodeports":"2"}
    "#);
}

#[test]
fn sums_are_written_as_their_parts() {
    let hard = json!({"hard": {"requests.memory": "9Gi", "requests.cpu": 9}});
    let of = |memory: &str, cpu: &str| {
        pod(&json!({"containers": [
            {"resources": {"requests": {"memory": memory, "cpu": cpu}}}]}))
    };
    let results = [
        used(&hard, &[]),
        used(&hard, &[of("1Gi", "1"), of("512Mi", "500m")]),
        used(&hard, &[of("1Ki", "1"), of("500", "1")]),
        used(&hard, &[of("1G", "999m"), of("1Gi", "1m")]),
        used(&hard, &[of("0", "0"), of("1Gi", "2500m")]),
    ];
    insta::assert_snapshot!(results.join("\n"), @r#"
    {"requests.cpu":"0","requests.memory":"0"}
    {"requests.cpu":"1500m","requests.memory":"1536Mi"}
    {"requests.cpu":"2","requests.memory":"1524"}
    {"requests.cpu":"1","requests.memory":"2073741824"}
    {"requests.cpu":"2500m","requests.memory":"1Gi"}
    "#);
}

#[test]
fn scopes_select_pods() {
    let best_effort = json!({"status": {"qosClass": "BestEffort"}});
    let short = json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"qosClass": "Burstable"}});
    let high = json!({"spec": {"priorityClassName": "high"}, "status": {"qosClass": "Burstable"}});
    let pods = Resource::new("", "pods");
    let meant = |scopes: Value| {
        let mut spec = json!({"hard": {"pods": 1}});
        spec.as_object_mut().unwrap().extend(scopes.as_object().unwrap().clone());
        let quota = quota(&spec);
        let counts = |pod: &Value| {
            does_quota_count(&quota, CountedObject { resource: &pods, object: pod, now: now() })
        };
        format!("{scopes} {:?}", [&best_effort, &short, &high].map(counts))
    };
    let class = |operator: &str, values: Value| {
        let expression =
            json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
        meant(json!({"scopeSelector": {"matchExpressions": [expression]}}))
    };
    let results = [
        meant(json!({"scopes": []})),
        meant(json!({"scopes": ["BestEffort"]})),
        meant(json!({"scopes": ["NotBestEffort", "NotTerminating"]})),
        meant(json!({"scopes": ["Terminating"]})),
        meant(json!({"scopes": ["PriorityClass"]})),
        class("In", json!(["high"])),
        class("NotIn", json!(["high"])),
        class("DoesNotExist", json!(null)),
    ];
    insta::assert_snapshot!(results.join("\n"), @r#"
    {"scopes":[]} [true, true, true]
    {"scopes":["BestEffort"]} [true, false, false]
    {"scopes":["NotBestEffort","NotTerminating"]} [false, false, true]
    {"scopes":["Terminating"]} [false, true, false]
    {"scopes":["PriorityClass"]} [false, false, true]
    {"scopeSelector":{"matchExpressions":[{"operator":"In","scopeName":"PriorityClass","values":["high"]}]}} [false, false, true]
    {"scopeSelector":{"matchExpressions":[{"operator":"NotIn","scopeName":"PriorityClass","values":["high"]}]}} [true, true, false]
    {"scopeSelector":{"matchExpressions":[{"operator":"DoesNotExist","scopeName":"PriorityClass","values":null}]}} [true, true, false]
    "#);
}
