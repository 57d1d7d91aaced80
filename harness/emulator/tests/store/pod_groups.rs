//! `Workload`, `PodGroup` and `CompositePodGroup`, and the group of a pod.

use schedlab_api::{Value, json, object::text};

use crate::test_store::{TestStore, outcome, pod_spec};

const GROUPS: &str = "scheduling.k8s.io/v1beta1";
const ALL_GATES: [&str; 6] = [
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "DRAWorkloadResourceClaims",
    "PodGroupPreemptionPolicy",
    "WorkloadWithJob",
    "CompositePodGroup",
];

fn group(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": GROUPS, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec})
}

fn workload(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": GROUPS, "kind": "Workload", "metadata": {"name": name}, "spec": spec})
}

fn gang(count: i64) -> Value {
    json!({"gang": {"minCount": count}})
}

#[test]
fn pod_groups_are_served_only_with_their_gate() {
    let without = TestStore::new();
    assert!(without.store.kinds().by_kind("scheduling.k8s.io", "PodGroup").is_none());
    let with = TestStore::with_gates(&["GenericWorkload"]);
    assert!(with.store.kinds().by_path("scheduling.k8s.io", "v1beta1", "workloads").is_some());
    assert!(with.store.kinds().by_kind("scheduling.k8s.io", "CompositePodGroup").is_none());
}

#[test]
fn a_pod_group_gets_its_defaults_priority_and_finalizer() {
    let mut store = TestStore::with_gates(&["GenericWorkload"]);
    store
        .create(json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never",
        }))
        .unwrap();
    let spec = json!({"schedulingPolicy": gang(2), "priorityClassName": "high",
        "schedulingConstraints": {"topology": [{"key": "zone"}]}, "preemptionPolicy": "Never"});
    let created = store.create(group("a", &spec)).unwrap();
    assert_eq!(
        created["spec"],
        json!({"schedulingPolicy": gang(2), "priorityClassName": "high", "priority": 7,
            "disruptionMode": {"single": {}}})
    );
    assert_eq!(created["status"], json!({}));
    assert_eq!(created["metadata"]["finalizers"], json!(["scheduling.k8s.io/podgroup-protection"]));
    assert_eq!(created["metadata"]["generation"], Value::Null);
    let other = json!({"schedulingPolicy": gang(2), "priorityClassName": "low"});
    assert_eq!(
        outcome(store.create(group("b", &other))),
        "403 Forbidden: podgroups.scheduling.k8s.io \"b\" is forbidden: no PriorityClass with name \
         low was found"
    );
    let other = json!({"schedulingPolicy": gang(2), "priority": 3});
    assert_eq!(
        outcome(store.create(group("c", &other))),
        "403 Forbidden: podgroups.scheduling.k8s.io \"c\" is forbidden: priority set in the pod group \
         (3) must match the priority computed (0) based on the priority class set in the spec"
    );
}

#[test]
fn the_preemption_policy_of_a_pod_group_is_that_of_its_class() {
    let mut store = TestStore::with_gates(&ALL_GATES);
    let created = store.create(group("a", &json!({"schedulingPolicy": {"basic": {}}}))).unwrap();
    assert_eq!(created["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let never = json!({"schedulingPolicy": {"basic": {}}, "preemptionPolicy": "Never"});
    assert_eq!(
        outcome(store.create(group("b", &never))),
        "403 Forbidden: podgroups.scheduling.k8s.io \"b\" is forbidden: the string value of \
         PreemptionPolicy (Never) must not be provided in pod group spec; priority admission \
         controller computed PreemptLowerPriority from the given PriorityClass name"
    );
}

#[test]
fn a_pod_group_has_exactly_one_policy() {
    let mut store = TestStore::with_gates(&["GenericWorkload"]);
    let mut refuse = |spec: Value| outcome(store.create(group("a", &spec)));
    assert_eq!(
        refuse(json!({})),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: spec.schedulingPolicy: Invalid \
         value: \"\": must specify one of: `basic`, `gang`"
    );
    assert_eq!(
        refuse(json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}})),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: spec.schedulingPolicy: Invalid \
         value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`"
    );
    assert_eq!(
        refuse(json!({"schedulingPolicy": {"gang": {}}})),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: \
         spec.schedulingPolicy.gang.minCount: Required value"
    );
    assert_eq!(
        refuse(json!({"schedulingPolicy": gang(-1), "workloadRef": {"workloadName": "A"}})),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: \
         [spec.workloadRef.workloadName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must \
         consist of lower case alphanumeric characters, '-' or '.', and must start and end with an \
         alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), \
         spec.workloadRef.templateName: Required value, spec.schedulingPolicy.gang.minCount: Invalid \
         value: -1: must be greater than or equal to 1]"
    );
}

#[test]
fn only_the_minimum_of_a_pod_group_changes() {
    let mut store = TestStore::with_gates(&["GenericWorkload"]);
    store.create(group("a", &json!({"schedulingPolicy": gang(2)}))).unwrap();
    let key = store.key("scheduling.k8s.io", "PodGroup", "a");
    let policy = ["spec", "schedulingPolicy"];
    let changed = store.edit(key.clone(), &policy, gang(3)).unwrap();
    assert_eq!(changed["spec"]["schedulingPolicy"], gang(3));
    assert_eq!(
        outcome(store.edit(key.clone(), &policy, json!({"basic": {}}))),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: [spec.schedulingPolicy.basic: \
         Invalid value: null: field is immutable, spec.schedulingPolicy.gang: Invalid value: null: \
         field cannot be cleared once set]"
    );
    assert_eq!(
        outcome(store.edit(key.clone(), &["spec", "priority"], json!(1))),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: spec.priority: Invalid value: \
         null: field is immutable"
    );
    let unconditional = group("a", &json!({"schedulingPolicy": gang(4)}));
    assert!(outcome(store.update(key, unconditional)).contains("must be specified for an update"));
}

#[test]
fn a_status_update_of_a_pod_group_changes_only_its_status() {
    let mut store = TestStore::with_gates(&["GenericWorkload"]);
    store.create(group("a", &json!({"schedulingPolicy": gang(2)}))).unwrap();
    let key = store.key("scheduling.k8s.io", "PodGroup", "a");
    let condition = json!({"type": "PodGroupInitiallyScheduled", "status": "True",
        "reason": "Scheduled", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"conditions": [condition], "resourceClaimStatuses": [{"name": "x"}]});
    let updated = store.set_status(key.clone(), status).unwrap();
    assert_eq!(updated["status"], json!({"conditions": [condition]}));
    assert_eq!(
        outcome(store.set_status(key, json!({"conditions": [{"type": "A", "status": "No"}]}))),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: [status.conditions[0].status: \
         Unsupported value: \"No\": supported values: \"False\", \"True\", \"Unknown\", \
         status.conditions[0].lastTransitionTime: Required value, status.conditions[0].reason: \
         Required value]"
    );
}

#[test]
fn the_claims_in_the_status_of_a_pod_group_are_those_of_its_spec() {
    let mut store = TestStore::with_gates(&ALL_GATES);
    let claim = json!({"name": "gpu", "resourceClaimTemplateName": "gpu"});
    let spec = json!({"schedulingPolicy": gang(2), "resourceClaims": [claim]});
    store.create(group("a", &spec)).unwrap();
    let key = store.key("scheduling.k8s.io", "PodGroup", "a");
    let status = |name: &str| json!({"resourceClaimStatuses": [{"name": name, "resourceClaimName": "made"}]});
    assert!(store.set_status(key.clone(), status("gpu")).is_ok());
    assert_eq!(
        outcome(store.set_status(key, status("other"))),
        "422 Invalid: PodGroup.scheduling.k8s.io \"a\" is invalid: \
         status.resourceClaimStatuses[0].name: Invalid value: \"other\": must match the name of an \
         entry in `spec.resourceClaims`"
    );
}

#[test]
fn templates_of_a_workload_are_neither_added_nor_removed() {
    let mut store = TestStore::with_gates(&["GenericWorkload"]);
    let template = |name: &str| json!({"name": name, "schedulingPolicy": gang(2)});
    assert_eq!(
        outcome(store.create(workload("w", &json!({})))),
        "422 Invalid: Workload.scheduling.k8s.io \"w\" is invalid: spec: Invalid value: \"\": must \
         specify one of: `podGroupTemplates`, `compositePodGroupTemplates`"
    );
    let spec = json!({"podGroupTemplates": [template("a"), template("a")]});
    assert_eq!(
        outcome(store.create(workload("w", &spec))),
        "422 Invalid: Workload.scheduling.k8s.io \"w\" is invalid: spec.podGroupTemplates[1]: \
         Duplicate value: {\"name\":\"a\",\"schedulingPolicy\":{\"gang\":{\"minCount\":2}},\
         \"schedulingConstraints\":null}"
    );
    let created =
        store.create(workload("w", &json!({"podGroupTemplates": [template("a")]}))).unwrap();
    assert_eq!(
        created["spec"]["podGroupTemplates"][0],
        json!({"name": "a", "schedulingPolicy": gang(2), "schedulingConstraints": null})
    );
    let key = store.key("scheduling.k8s.io", "Workload", "w");
    let templates = json!([template("b")]);
    assert_eq!(
        outcome(store.edit(key, &["spec", "podGroupTemplates"], templates)),
        "422 Invalid: Workload.scheduling.k8s.io \"w\" is invalid: [spec.podGroupTemplates[0]: \
         Forbidden: item may not be added, spec.podGroupTemplates: Forbidden: item may not be removed]"
    );
}

#[test]
fn composite_templates_form_a_tree_of_different_names() {
    let mut store = TestStore::with_gates(&ALL_GATES);
    let leaf = |name: &str| json!({"name": name, "schedulingPolicy": {"basic": {}}});
    let composite = |name: &str, children: Value| {
        json!({"name": name, "schedulingPolicy": {"gang": {"minGroupCount": 1}},
            "podGroupTemplates": children})
    };
    let spec = json!({"compositePodGroupTemplates": [composite("a", json!([leaf("a")]))]});
    assert_eq!(
        outcome(store.create(workload("w", &spec))),
        "422 Invalid: Workload.scheduling.k8s.io \"w\" is invalid: \
         spec.compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: \"a\""
    );
    let spec = json!({"compositePodGroupTemplates": [composite("a", json!([]))]});
    assert_eq!(
        outcome(store.create(workload("w", &spec))),
        "422 Invalid: Workload.scheduling.k8s.io \"w\" is invalid: \
         spec.compositePodGroupTemplates[0]: Invalid value: \"a\": must have at least one child \
         PodGroupTemplate or CompositePodGroupTemplate"
    );
    let spec = json!({"compositePodGroupTemplates": [composite("a", json!([leaf("b")]))]});
    assert_eq!(outcome(store.create(workload("w", &spec))), "accepted");
}

#[test]
fn a_pod_keeps_its_scheduling_group_only_with_the_gate() {
    let mut without = TestStore::new();
    let body = pod_spec("a", "schedulingGroup", json!({"podGroupName": "g"}));
    assert_eq!(without.create(body.clone()).unwrap()["spec"]["schedulingGroup"], Value::Null);
    let mut with = TestStore::with_gates(&["GenericWorkload"]);
    let created = with.create(body).unwrap();
    assert_eq!(text(&created, &["spec", "schedulingGroup", "podGroupName"]), "g");
    let body = pod_spec("b", "schedulingGroup", json!({}));
    assert_eq!(
        outcome(with.create(body)),
        "422 Invalid: Pod \"b\" is invalid: spec.schedulingGroup.podGroupName: Invalid value: null: \
         must specify one of: `podGroupName`"
    );
    let key = with.key("", "Pod", "a");
    let changed = with.edit(key, &["spec", "schedulingGroup", "podGroupName"], json!("other"));
    assert!(outcome(changed).contains("pod updates may not change fields other than"));
}
