//! Workloads, nodes, quotas and the other kinds around pods.

use insta::assert_snapshot;
use schedlab_api::{Value, json, object};
use schedlab_emulator::store::{Op, PatchBody, Subresource};

use crate::test_store::{TestStore, outcome, pod, pod_with};

fn workload(version: &str, kind: &str) -> Value {
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            },
        },
    })
}

fn job(spec: Value) -> Value {
    let mut job = workload("batch/v1", "Job");
    job["spec"] = spec;
    job["spec"]["template"] = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox"}]}});
    job
}

#[test]
fn a_deployment_has_its_defaults() {
    let created = TestStore::new().create(workload("apps/v1", "Deployment")).unwrap();
    let spec = &created["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    let container = &spec["template"]["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["template"]["spec"].get("enableServiceLinks"), None);
}

#[test]
fn a_selector_must_fit_its_template_and_stay() {
    let mut fixture = TestStore::new();
    let mut odd = workload("apps/v1", "Deployment");
    odd["spec"]["selector"] = json!({"matchLabels": {"app": "db"}});
    assert_snapshot!(outcome(fixture.create(odd.clone())), @r#"422 Invalid: Deployment.apps "web" is invalid: spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`"#);
    odd["spec"]["selector"] = Value::Null;
    assert_snapshot!(outcome(fixture.create(odd)), @r#"422 Invalid: Deployment.apps "web" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`]"#);
    fixture.create(workload("apps/v1", "Deployment")).unwrap();
    let key = fixture.key("apps", "Deployment", "web");
    let other = json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]});
    assert_snapshot!(outcome(fixture.edit(key, &["spec", "selector"], other)), @r#"422 Invalid: Deployment.apps "web" is invalid: spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable"#);
}

#[test]
fn a_workloads_pods_must_restart_and_its_count_must_not_be_negative() {
    let mut fixture = TestStore::new();
    let mut odd = workload("apps/v1", "ReplicaSet");
    odd["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    odd["spec"]["replicas"] = json!(-1);
    assert_snapshot!(outcome(fixture.create(odd)), @r#"422 Invalid: ReplicaSet.apps "web" is invalid: [spec.replicas: Invalid value: -1: must be greater than or equal to 0, spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"]"#);
}

#[test]
fn a_stateful_set_changes_only_in_some_fields() {
    let mut fixture = TestStore::new();
    fixture.create(workload("apps/v1", "StatefulSet")).unwrap();
    let key = fixture.key("apps", "StatefulSet", "web");
    fixture.edit(key.clone(), &["spec", "replicas"], json!(3)).unwrap();
    let refusal = outcome(fixture.edit(key, &["spec", "serviceName"], json!("other")));
    assert_snapshot!(refusal, @r#"422 Invalid: StatefulSet.apps "web" is invalid: spec.serviceName: Invalid value: "other": field is immutable"#);
}

#[test]
fn a_job_selects_its_pods_by_its_own_uid() {
    let created = TestStore::new().create(job(json!({}))).unwrap();
    let uid = object::uid(&created);
    let spec = &created["spec"];
    assert_eq!(spec["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], uid);
    let labels = &spec["template"]["metadata"]["labels"];
    assert_eq!(labels["batch.kubernetes.io/job-name"], "web");
    assert_eq!(labels["controller-uid"], uid);
    assert_eq!((&spec["completions"], &spec["backoffLimit"]), (&json!(1), &json!(6)));
    assert_eq!(spec["podReplacementPolicy"], "TerminatingOrFailed");
    assert_eq!(spec.get("podFailurePolicy"), None, "a missing podFailurePolicy gets no default");
}

#[test]
fn an_indexed_job_must_set_completions() {
    let mut fixture = TestStore::new();
    let mut endless = job(json!({}));
    endless["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
    assert_snapshot!(outcome(fixture.create(endless)), @r#"422 Invalid: Job.batch "web" is invalid: spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#);
    let indexed = job(json!({"completionMode": "Indexed", "parallelism": 2}));
    assert_snapshot!(outcome(fixture.create(indexed)), @r#"422 Invalid: Job.batch "web" is invalid: spec.completions: Required value: when completion mode is Indexed"#);
}

#[test]
fn a_jobs_template_stays_unless_the_job_waits() {
    let mut fixture = TestStore::new();
    fixture.create(job(json!({"suspend": true}))).unwrap();
    let key = fixture.key("batch", "Job", "web");
    let path = ["spec", "template", "spec", "nodeSelector"];
    fixture.edit(key.clone(), &path, json!({"zone": "a"})).unwrap();
    fixture.edit(key.clone(), &["spec", "suspend"], json!(false)).unwrap();
    assert!(outcome(fixture.edit(key, &path, json!({"zone": "b"}))).contains("field is immutable"));
}

#[test]
fn scale_reads_and_writes_the_replicas_of_a_deployment() {
    let mut fixture = TestStore::new();
    let created = fixture.create(workload("apps/v1", "Deployment")).unwrap();
    let key = fixture.key("apps", "Deployment", "web");
    let kind = fixture.store.kinds().get(&key.resource).unwrap().clone();
    let mut scale = kind.scale_of(&created).unwrap();
    assert_eq!(scale["status"], json!({"replicas": 0, "selector": "app=web"}));
    scale["spec"]["replicas"] = json!(4);
    let written =
        fixture.write(key.clone(), Op::Update(Subresource::Scale, scale.clone())).unwrap();
    assert_eq!(written.object["spec"]["replicas"], 4);
    assert_eq!(written.object["metadata"]["generation"], 2);
    let refused = fixture.write(key.clone(), Op::Update(Subresource::Scale, scale));
    assert_eq!(refused.unwrap_err().reason, "Conflict");
    let op = Op::Patch(Subresource::Scale, PatchBody::Merge(json!({"spec": {"replicas": -1}})));
    assert_snapshot!(outcome(fixture.write(key, op)), @r#"422 Invalid: Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"#);
}

#[test]
fn a_kind_without_scale_has_no_scale() {
    let mut fixture = TestStore::new();
    fixture.create(pod("a")).unwrap();
    let op = Op::Update(Subresource::Scale, json!({}));
    assert_snapshot!(outcome(fixture.write(fixture.key("", "Pod", "a"), op)), @"404 NotFound: the server could not find the requested resource");
}

#[test]
fn a_new_node_is_tainted_and_keeps_the_status_it_came_with() {
    let node = json!({"kind": "Node", "metadata": {"name": "n1"},
        "status": {"capacity": {"nvidia.com/gpu": 8}}});
    let created = TestStore::new().create(node).unwrap();
    assert_eq!(
        created["spec"]["taints"],
        json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    );
    assert_eq!(created["status"]["allocatable"], json!({"nvidia.com/gpu": "8"}));
}

#[test]
fn a_nodes_broken_amounts_and_taints_are_refused() {
    let mut fixture = TestStore::new();
    let node = |spec: Value, status: Value| json!({"kind": "Node", "metadata": {"name": "n1"}, "spec": spec, "status": status});
    let negative = node(json!({}), json!({"capacity": {"cpu": "-1"}}));
    assert_snapshot!(outcome(fixture.create(negative)), @r#"422 Invalid: Node "n1" is invalid: [status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0, status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0]"#);
    let odd = node(json!({"taints": [{"key": "a", "effect": "Never"}]}), json!({}));
    assert_snapshot!(outcome(fixture.create(odd)), @r#"422 Invalid: Node "n1" is invalid: metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#);
}

#[test]
fn the_priority_of_users_has_a_ceiling() {
    let mut fixture = TestStore::new();
    let class = |name: &str, value: i64| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value})
    };
    assert_snapshot!(outcome(fixture.create(class("top", 1_000_000_001))), @r#"422 Invalid: PriorityClass.scheduling.k8s.io "top" is invalid: value: Forbidden: maximum allowed value of a user defined priority is 1000000000"#);
    assert!(outcome(fixture.create(class("system-mine", 1))).contains("reserved for system use"));
    fixture.create(class("fine", 1)).unwrap();
    let key = fixture.key("scheduling.k8s.io", "PriorityClass", "fine");
    assert_snapshot!(outcome(fixture.edit(key, &["value"], json!(2))), @r#"422 Invalid: PriorityClass.scheduling.k8s.io "fine" is invalid: value: Forbidden: may not be changed in an update."#);
}

#[test]
fn a_quota_counts_pods_and_their_requests() {
    let mut fixture = TestStore::new();
    fixture
        .create(json!({"kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2", "requests.nvidia.com/gpu": "3"}}}))
        .unwrap();
    let gpus =
        |name: &str, count: &str| pod_with(name, json!({"limits": {"nvidia.com/gpu": count}}));
    fixture.create(gpus("a", "2")).unwrap();
    assert_snapshot!(outcome(fixture.create(gpus("b", "2"))), @r#"403 Forbidden: pods "b" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=3"#);
    fixture.create(gpus("b", "1")).unwrap();
    assert_snapshot!(outcome(fixture.create(pod("c"))), @r#"403 Forbidden: pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"#);
}

#[test]
fn a_quota_on_memory_wants_every_pod_to_name_its_own() {
    let mut fixture = TestStore::new();
    fixture
        .create(json!({"kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"requests.memory": "1Gi"}}}))
        .unwrap();
    assert_snapshot!(outcome(fixture.create(pod("a"))), @r#"403 Forbidden: pods "a" is forbidden: failed quota: q: must specify requests.memory for: main"#);
}

#[test]
fn a_limit_range_fills_in_and_bounds() {
    let mut fixture = TestStore::new();
    fixture
        .create(json!({"kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"},
            "max": {"cpu": "2"}}]}}))
        .unwrap();
    let created = fixture.create(pod("a")).unwrap();
    assert_eq!(
        created["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}})
    );
    assert_eq!(
        created["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container main; cpu limit for container main"
    );
    assert_snapshot!(outcome(fixture.create(pod_with("b", json!({"limits": {"cpu": "3"}})))), @r#"403 Forbidden: pods "b" is forbidden: maximum cpu usage per Container is 2, but limit is 3"#);
}

#[test]
fn services_get_addresses_that_differ() {
    let mut fixture = TestStore::new();
    let service = |name: &str| json!({"kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let one = fixture.create(service("a")).unwrap();
    let other = fixture.create(service("b")).unwrap();
    assert_ne!(one["spec"]["clusterIP"], other["spec"]["clusterIP"]);
    assert_eq!(one["spec"]["ports"][0], json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
    let mut headless = service("c");
    headless["spec"]["clusterIP"] = "None".into();
    assert_eq!(fixture.create(headless).unwrap()["spec"]["clusterIPs"], json!(["None"]));
}

#[test]
fn an_external_service_has_a_traffic_policy() {
    let mut fixture = TestStore::new();
    let service = |kind: &str| {
        json!({"kind": "Service", "metadata": {"name": kind.to_lowercase()},
        "spec": {"type": kind, "ports": [{"port": 80}]}})
    };
    let policy = |service: &Value| service["spec"]["externalTrafficPolicy"].clone();
    let open = fixture.create(service("NodePort")).unwrap();
    assert_eq!(policy(&open), "Cluster");
    assert_eq!(policy(&fixture.create(service("ClusterIP")).unwrap()), Value::Null);
    let balanced = fixture.create(service("LoadBalancer")).unwrap();
    assert_eq!(policy(&balanced), "Cluster");
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], true);
    let key = fixture.key("", "Service", "loadbalancer");
    let closed = fixture.edit(key, &["spec", "type"], json!("ClusterIP")).unwrap();
    assert_eq!(policy(&closed), Value::Null);
    assert_eq!(closed["spec"].get("allocateLoadBalancerNodePorts"), None);
}

#[test]
fn ports_default_to_tcp() {
    let mut fixture = TestStore::new();
    let ports = json!([{"port": 80}]);
    let policy = fixture
        .create(json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "n"}, "spec": {"podSelector": {},
            "ingress": [{"ports": ports}], "egress": [{"ports": ports}]}}))
        .unwrap();
    let endpoints = fixture
        .create(json!({"kind": "Endpoints", "metadata": {"name": "e"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}]}))
        .unwrap();
    let slice = fixture
        .create(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [], "ports": ports}))
        .unwrap();
    let filled = json!([{"port": 80, "protocol": "TCP"}]);
    assert_eq!(policy["spec"]["ingress"][0]["ports"], filled);
    assert_eq!(policy["spec"]["egress"][0]["ports"], filled);
    assert_eq!(endpoints["subsets"][0]["ports"], filled);
    assert_eq!(slice["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
}

#[test]
fn both_groups_of_events_are_one_store() {
    let mut fixture = TestStore::new();
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "e1"}, "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
        "note": "placed", "reason": "Scheduled", "type": "Normal", "action": "Binding",
        "reportingController": "lab.dev/scheduler", "reportingInstance": "one",
        "eventTime": "2026-01-01T00:00:00.000000Z"});
    let mut untimed = event.clone();
    untimed["eventTime"] = Value::Null;
    untimed["metadata"]["name"] = "e0".into();
    assert_snapshot!(outcome(fixture.create(untimed)), @r#"422 Invalid: Event "e0" is invalid: eventTime: Required value"#);
    let created = fixture.create(event).unwrap();
    assert_eq!((&created["apiVersion"], &created["message"]), (&json!("v1"), &json!("placed")));
    assert_eq!(created.get("lastTimestamp"), Some(&Value::Null), "no time is written as none");
    let key = fixture.key("events.k8s.io", "Event", "e1");
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}});
    let patched = fixture.merge(key, series).unwrap();
    assert_eq!(patched["series"]["count"], 2);
    assert_eq!(patched["involvedObject"]["name"], "a");
    assert_eq!(*fixture.store.get(&fixture.key("", "Event", "e1")).unwrap(), *patched);
}

#[test]
fn an_apply_creates_and_then_owns_its_fields() {
    let mut fixture = TestStore::new();
    let key = fixture.key("", "ConfigMap", "a");
    let apply = |fixture: &mut TestStore, manager: &str, value: &str| {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"k": value}});
        let op = Op::Patch(Subresource::None, PatchBody::Apply { object, force: false });
        let write = schedlab_emulator::store::Write::new(key.clone(), op, manager);
        fixture.store.write(write, fixture.now)
    };
    assert!(apply(&mut fixture, "one", "1").unwrap().created);
    let before = fixture.store.revision();
    apply(&mut fixture, "one", "1").unwrap();
    assert_eq!(fixture.store.revision(), before, "the same again changes nothing");
    let conflict = apply(&mut fixture, "other", "2").unwrap_err();
    assert_eq!((conflict.code, conflict.reason.as_str()), (409, "Conflict"));
    fixture.edit(key.clone(), &["data", "k"], json!("3")).unwrap();
    let fields = fixture.store.get(&key).unwrap()["metadata"]["managedFields"].clone();
    let managers: Vec<&str> = fields
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["fieldsV1"]["f:data"]["f:k"].is_object())
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(managers, ["test"], "an update takes the field over");
}

#[test]
fn an_apply_conflict_names_the_earlier_scaler_and_its_subresource() {
    let mut fixture = TestStore::new();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }}});
    fixture.create(deployment.clone()).unwrap();
    let key = fixture.key("apps", "Deployment", "w");
    let mut write = |op: Op, manager: &str| {
        let write = schedlab_emulator::store::Write::new(key.clone(), op, manager);
        fixture.store.write(write, fixture.now)
    };
    let scale = json!({"metadata": {"name": "w"}, "spec": {"replicas": 3}});
    write(Op::Update(Subresource::Scale, scale), "mgr").unwrap();
    let apply = PatchBody::Apply { object: deployment, force: false };
    assert_snapshot!(outcome(write(Op::Patch(Subresource::None, apply), "ci")), @r#"409 Conflict: Apply failed with 1 conflict: conflict with "mgr" with subresource "scale" using apps/v1: .spec.replicas"#);
}

#[test]
fn an_immutable_config_map_stays() {
    let mut fixture = TestStore::new();
    fixture
        .create(json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"},
        "immutable": true}))
        .unwrap();
    let key = fixture.key("", "ConfigMap", "a");
    assert_snapshot!(outcome(fixture.edit(key, &["data", "k"], json!("w"))), @r#"422 Invalid: ConfigMap "a" is invalid: data: Forbidden: field is immutable when `immutable` is set"#);
}

#[test]
fn an_event_belongs_where_its_object_is() {
    let event = json!({"kind": "Event", "metadata": {"name": "e"},
        "involvedObject": {"namespace": "elsewhere"}});
    assert_snapshot!(outcome(TestStore::new().create(event)), @r#"422 Invalid: Event "e" is invalid: involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace"#);
}

#[test]
fn a_secrets_texts_are_stored_encoded() {
    let created = TestStore::new()
        .create(json!({"kind": "Secret", "metadata": {"name": "s"},
            "stringData": {"one": "a", "two": "ab", "three": "abc"}}))
        .unwrap();
    assert_eq!(created["type"], "Opaque");
    assert_eq!(created["data"], json!({"one": "YQ==", "two": "YWI=", "three": "YWJj"}));
    assert_eq!(created.get("stringData"), None);
}

#[test]
fn a_lease_is_made_by_its_first_update() {
    let mut fixture = TestStore::new();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "n1"}, "spec": {"leaseDurationSeconds": 0}});
    let key = fixture.key("coordination.k8s.io", "Lease", "n1");
    assert_snapshot!(outcome(fixture.update(key.clone(), lease.clone())), @r#"422 Invalid: Lease.coordination.k8s.io "n1" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"#);
    let mut sound = lease;
    sound["spec"]["leaseDurationSeconds"] = json!(40);
    fixture.update(key.clone(), sound).unwrap();
    assert!(fixture.store.get(&key).is_ok());
}
