//! Pods: defaults, server-set fields and validation.

use crate::test_store::{TestStore, outcome, pod, pod_spec, pod_with};
use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_emulator::store::{Op, PatchBody, Subresource};

#[test]
fn a_new_pod_has_the_defaults_that_a_real_server_shows() {
    let pod = pod_spec("web-0", "automountServiceAccountToken", false.into());
    let created = TestStore::new().create(pod).unwrap();
    let spec = serde_json::to_string(&created["spec"]).unwrap();
    assert_snapshot!(spec.replace(",\"", ",\n\""), @r#"
    {"automountServiceAccountToken":false,
    "containers":[{"image":"busybox",
    "imagePullPolicy":"Always",
    "name":"main",
    "resources":{},
    "terminationMessagePath":"/dev/termination-log",
    "terminationMessagePolicy":"File"}],
    "dnsPolicy":"ClusterFirst",
    "enableServiceLinks":true,
    "preemptionPolicy":"PreemptLowerPriority",
    "priority":0,
    "restartPolicy":"Always",
    "schedulerName":"default-scheduler",
    "securityContext":{},
    "serviceAccount":"default",
    "serviceAccountName":"default",
    "terminationGracePeriodSeconds":30,
    "tolerations":[{"effect":"NoExecute",
    "key":"node.kubernetes.io/not-ready",
    "operator":"Exists",
    "tolerationSeconds":300},{"effect":"NoExecute",
    "key":"node.kubernetes.io/unreachable",
    "operator":"Exists",
    "tolerationSeconds":300}]}
    "#);
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    assert_eq!(created["metadata"]["generation"], 1);
}

#[test]
fn a_condition_has_a_null_probe_time() {
    let mut fixture = TestStore::new();
    fixture.create(pod("web-0")).unwrap();
    let condition = json!({"type": "Ready", "status": "False"});
    let status = json!({"conditions": [condition]});
    let key = fixture.key("", "Pod", "web-0");
    let written = fixture.set_status(key, status).unwrap();
    let unknown = json!({
        "type": "Ready", "status": "False", "lastProbeTime": null, "lastTransitionTime": null,
    });
    assert_eq!(written["status"]["conditions"], json!([unknown]));
}

#[test]
fn limits_stand_for_missing_requests() {
    let resources =
        json!({"limits": {"cpu": "1", "nvidia.com/gpu": 2}, "requests": {"cpu": "500m"}});
    let created = TestStore::new().create(pod_with("a", resources)).unwrap();
    assert_eq!(
        created["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "500m", "nvidia.com/gpu": "2"})
    );
}

#[test]
fn pod_level_requests_default_from_containers_or_limits() {
    let mut fixture = TestStore::new();
    let mut filled = |name, containers: Value, whole: Value| {
        let mut pod = pod_with(name, containers);
        pod["spec"]["resources"] = whole;
        let created = fixture.create(pod).unwrap();
        let resources = created["spec"]["resources"].to_string();
        format!("{resources} {}", created["status"]["qosClass"].as_str().unwrap())
    };
    let bounds = json!({"limits": {"cpu": "2", "memory": "4Gi"}});
    let asks = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
    let lines = [
        filled("a", json!({}), bounds.clone()),
        filled("b", asks.clone(), bounds),
        filled("c", asks.clone(), json!({"requests": {"cpu": "1", "memory": "2Gi"}})),
        filled("d", asks, json!({"limits": {"cpu": "2"}})),
    ];
    assert_snapshot!(lines.join("\n"), @r#"
    {"limits":{"cpu":"2","memory":"4Gi"},"requests":{"cpu":"2","memory":"4Gi"}} Guaranteed
    {"limits":{"cpu":"2","memory":"4Gi"},"requests":{"cpu":"500m","memory":"1Gi"}} Burstable
    {"requests":{"cpu":"1","memory":"2Gi"}} Burstable
    {"limits":{"cpu":"2"},"requests":{"cpu":"500m","memory":"1Gi"}} Burstable
    "#);
}

#[test]
fn the_quality_of_service_follows_from_cpu_and_memory() {
    let mut fixture = TestStore::new();
    let mut quality = |name, resources| {
        let created = fixture.create(pod_with(name, resources)).unwrap();
        created["status"]["qosClass"].clone()
    };
    assert_eq!(quality("a", json!({"limits": {"nvidia.com/gpu": "1"}})), "BestEffort");
    assert_eq!(quality("b", json!({"requests": {"cpu": "1"}})), "Burstable");
    assert_eq!(quality("c", json!({"limits": {"cpu": "1", "memory": "1Gi"}})), "Guaranteed");
}

#[test]
fn a_pod_keeps_its_tolerations_when_its_manifest_is_applied_again() {
    let mut fixture = TestStore::new();
    let own = json!({"key": "gpu", "operator": "Exists"});
    let created = fixture.create(pod_spec("a", "tolerations", json!([own]))).unwrap();
    let key = fixture.key("", "Pod", "a");
    let again = fixture.edit(key.clone(), &["spec", "tolerations"], json!([own])).unwrap();
    assert_eq!(again["spec"]["tolerations"], created["spec"]["tolerations"]);
    assert_eq!(again["spec"]["tolerations"].as_array().unwrap().len(), 3);
    assert_snapshot!(outcome(fixture.edit(key, &["spec", "tolerations"], json!([]))), @r#"422 Invalid: Pod "a" is invalid: spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"#);
}

#[test]
fn a_pod_keeps_an_unlimited_outage_toleration() {
    let toleration = json!([{"operator": "Exists"}]);
    let created =
        TestStore::new().create(pod_spec("a", "tolerations", toleration.clone())).unwrap();
    assert_eq!(created["spec"]["tolerations"], toleration);
}

#[test]
fn priority_comes_from_the_class() {
    let mut fixture = TestStore::new();
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    fixture.create(class).unwrap();
    let created = fixture.create(pod_spec("a", "priorityClassName", json!("high"))).unwrap();
    assert_eq!(created["spec"]["priority"], 1000);
    assert_eq!(created["spec"]["preemptionPolicy"], "Never");
    let system = json!("system-node-critical");
    let created = fixture.create(pod_spec("b", "priorityClassName", system)).unwrap();
    assert_eq!(created["spec"]["priority"], 2_000_001_000);
}

#[test]
fn the_default_class_gives_its_name_too() {
    let mut fixture = TestStore::new();
    let class = |name: &str| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": 7, "globalDefault": true})
    };
    fixture.create(class("usual")).unwrap();
    let created = fixture.create(pod("a")).unwrap();
    assert_eq!(created["spec"]["priorityClassName"], "usual");
    assert_eq!(created["spec"]["priority"], 7);
    assert_snapshot!(outcome(fixture.create(class("other"))), @r#"403 Forbidden: priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. Only one default can exist"#);
}

#[test]
fn an_unknown_class_or_an_own_priority_is_refused() {
    let mut fixture = TestStore::new();
    let unknown = pod_spec("a", "priorityClassName", json!("nope"));
    assert_snapshot!(outcome(fixture.create(unknown)), @r#"403 Forbidden: pods "a" is forbidden: no PriorityClass with name nope was found"#);
    assert_snapshot!(outcome(fixture.create(pod_spec("a", "priority", json!(5)))), @r#"403 Forbidden: pods "a" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"#);
}

#[test]
fn a_gated_pod_has_a_condition_and_cannot_be_bound() {
    let mut fixture = TestStore::new();
    let gates = json!([{"name": "schedlab.dev/quota"}]);
    let created = fixture.create(pod_spec("a", "schedulingGates", gates)).unwrap();
    assert_eq!(created["status"]["conditions"][0]["reason"], "SchedulingGated");
    assert_snapshot!(outcome(fixture.bind("a", "n1")), @r#"409 Conflict: Operation cannot be fulfilled on pods/binding "a": pod a has non-empty .spec.schedulingGates"#);
    let key = fixture.key("", "Pod", "a");
    fixture.edit(key, &["spec", "schedulingGates"], json!([])).unwrap();
    assert_eq!(fixture.bind("a", "n1").unwrap()["spec"]["nodeName"], "n1");
}

#[test]
fn gates_can_only_be_taken_away() {
    let mut fixture = TestStore::new();
    fixture.create(pod("a")).unwrap();
    let key = fixture.key("", "Pod", "a");
    let gates = json!([{"name": "x.io/y"}]);
    assert_snapshot!(outcome(fixture.edit(key, &["spec", "schedulingGates"], gates)), @r#"422 Invalid: Pod "a" is invalid: spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x.io/y'"#);
}

#[test]
fn broken_resources_are_refused_field_by_field() {
    let mut fixture = TestStore::new();
    let mut refusal = |resources| outcome(fixture.create(pod_with("a", resources)));
    assert_snapshot!(refusal(json!({"requests": {"cpu": "-1"}})), @r#"422 Invalid: Pod "a" is invalid: spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0"#);
    assert_snapshot!(refusal(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})), @r#"422 Invalid: Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#);
    assert_snapshot!(refusal(json!({"limits": {"nvidia.com/gpu": "0.5"}})), @r#"422 Invalid: Pod "a" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer, spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer]"#);
    assert_snapshot!(refusal(json!({"requests": {"nvidia.com/gpu": "1"}})), @r#"422 Invalid: Pod "a" is invalid: spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"#);
    assert_snapshot!(
        refusal(json!({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}})),
        @r#"422 Invalid: Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2"#
    );
    assert_snapshot!(refusal(json!({"requests": {"gpu": "1"}})), @r#"422 Invalid: Pod "a" is invalid: [spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified, spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers]"#);
    assert_snapshot!(refusal(json!({"requests": {"cpu": "99999999999999999999"}})), @r#"400 BadRequest: Pod in version "v1" cannot be handled as a Pod: quantity "99999999999999999999": too large: a quantity holds at most 9223372036854775807 (2^63 - 1)"#);
    assert_snapshot!(refusal(json!({"requests": {"cpu": "one"}})), @r#"400 BadRequest: Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"#);
}

#[test]
fn a_pod_without_a_sound_container_is_refused() {
    let mut fixture = TestStore::new();
    let mut refusal = |containers| outcome(fixture.create(pod_spec("a", "containers", containers)));
    assert_snapshot!(refusal(json!([])), @r#"422 Invalid: Pod "a" is invalid: spec.containers: Required value"#);
    assert_snapshot!(refusal(json!([{"name": "A", "image": "x"}])), @r#"422 Invalid: Pod "a" is invalid: spec.containers[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"#);
    assert_snapshot!(refusal(json!([{"name": "a"}, {"name": "a", "image": "x"}])), @r#"422 Invalid: Pod "a" is invalid: [spec.containers[0].image: Required value, spec.containers[1].name: Duplicate value: "a"]"#);
    let mount =
        json!([{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]);
    assert_snapshot!(refusal(mount), @r#"422 Invalid: Pod "a" is invalid: spec.containers[0].volumeMounts[0].name: Not found: "v""#);
}

#[test]
fn broken_placement_rules_are_refused() {
    let mut fixture = TestStore::new();
    let mut refusal = |field, value| outcome(fixture.create(pod_spec("a", field, value)));
    assert_snapshot!(refusal("tolerations", json!([{"key": "a", "operator": "Like"}])), @r#"422 Invalid: Pod "a" is invalid: spec.tolerations[0].operator: Unsupported value: "Like": supported values: "Equal", "Exists""#);
    assert_snapshot!(refusal("tolerations", json!([{"operator": "Equal", "value": "x"}])), @r#"422 Invalid: Pod "a" is invalid: spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys""#);
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In"}]}]}}});
    assert_snapshot!(refusal("affinity", affinity), @r#"422 Invalid: Pod "a" is invalid: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"#);
    let spread =
        json!([{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    assert_snapshot!(refusal("topologySpreadConstraints", spread), @r#"422 Invalid: Pod "a" is invalid: spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"#);
    assert_snapshot!(refusal("restartPolicy", json!("Sometimes")), @r#"422 Invalid: Pod "a" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never""#);
}

#[test]
fn a_bad_name_is_refused() {
    assert_snapshot!(outcome(TestStore::new().create(pod("Web_0"))), @r#"422 Invalid: Pod "Web_0" is invalid: metadata.name: Invalid value: "Web_0": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#);
    let mut nameless = pod("");
    nameless["metadata"] = json!({});
    assert_snapshot!(outcome(TestStore::new().create(nameless)), @r#"422 Invalid: Pod "" is invalid: metadata.name: Required value: name or generateName is required"#);
}

#[test]
fn a_generated_name_ends_in_five_letters() {
    let mut body = pod("");
    body["metadata"] = json!({"generateName": "web-"});
    let created = TestStore::new().create(body).unwrap();
    let name = created["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), name.starts_with("web-")), (9, true), "{name}");
}

#[test]
fn a_pod_is_refused_by_its_stem_as_long_as_it_has_no_name() {
    let mut fixture = TestStore::new();
    let mut body = pod_spec("", "priorityClassName", json!("none"));
    body["metadata"] = json!({"generateName": "web-"});
    assert_snapshot!(outcome(fixture.create(body)), @r#"403 Forbidden: pods "web-" is forbidden: no PriorityClass with name none was found"#);
}

#[test]
fn overhead_comes_from_a_runtime_class_alone() {
    let mut fixture = TestStore::new();
    assert_snapshot!(outcome(fixture.create(pod_spec("a", "overhead", json!({})))), @r#"403 Forbidden: pods "a" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"#);
    assert_snapshot!(outcome(fixture.create(pod_spec("a", "overhead", json!({"cpu": "1"})))), @r#"403 Forbidden: pods "a" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"#);
    fixture.create(pod("a")).unwrap();
    let kept = fixture.edit(fixture.key("", "Pod", "a"), &["spec", "overhead"], json!({})).unwrap();
    assert_eq!(kept["spec"].get("overhead"), None);
}

#[test]
fn most_of_a_pods_spec_stays_as_it_is() {
    let mut fixture = TestStore::new();
    fixture.create(pod("a")).unwrap();
    let key = fixture.key("", "Pod", "a");
    assert_snapshot!(outcome(fixture.edit(key.clone(), &["spec", "nodeName"], json!("n1"))), @r#"422 Invalid: Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"#);
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:1"}]);
    let patch = PatchBody::Json(image);
    let op = Op::Patch(Subresource::None, patch);
    let written = fixture.write(key, op).unwrap().object;
    assert_eq!(written["spec"]["containers"][0]["image"], "nginx:1");
    assert_eq!(written["metadata"]["generation"], 2);
}

#[test]
fn a_runtime_class_adds_its_overhead() {
    let mut fixture = TestStore::new();
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "250m"}}});
    fixture.create(class).unwrap();
    let created = fixture.create(pod_spec("a", "runtimeClassName", json!("vm"))).unwrap();
    assert_eq!(created["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_snapshot!(outcome(fixture.create(pod_spec("b", "runtimeClassName", json!("no")))), @r#"403 Forbidden: pods "b" is forbidden: pod rejected: RuntimeClass "no" not found"#);
}

#[test]
fn a_resize_changes_only_container_resources() {
    let mut fixture = TestStore::new();
    let took = json!({"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}});
    let created = fixture.create(pod_with("a", took)).unwrap();
    let key = fixture.key("", "Pod", "a");
    let mut resize = |change: Value| {
        let op = Op::Patch(Subresource::Resize, PatchBody::Strategic(change));
        fixture.write(key.clone(), op).map(|written| written.object)
    };
    let sized = resize(json!({
        "metadata": {"labels": {"app": "other"}},
        "spec": {"nodeName": "n", "priority": 5, "containers": [
            {"name": "main", "image": "other", "resources": {"requests": {"cpu": "2"}}},
        ]},
    }));
    let mut expected = Value::clone(&created);
    expected["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    expected["metadata"]["generation"] = json!(2);
    let sized = sized.unwrap();
    expected["metadata"]["resourceVersion"] = sized["metadata"]["resourceVersion"].clone();
    assert_eq!(*sized, expected);
    let gpus = json!({"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}});
    let gpus = json!({"spec": {"containers": [{"name": "main", "resources": gpus}]}});
    assert_snapshot!(outcome(resize(gpus)), @r#"422 Invalid: Pod "a" is invalid: spec: Forbidden: only cpu and memory resources are mutable"#);
}
