//! Kinds that only a Karta describes: their pods are grouped as the Karta says, as long as it
//! exists.

use insta::assert_snapshot;
use schedlab_api::{Value, json};

use super::lab::Lab;

/// Creates a workload of one master and some workers; returns the owner reference of its pods.
fn flow(lab: &Lab, name: &str, workers: &Value) -> Value {
    let object = json!({
        "apiVersion": "jobs.example.com/v1", "kind": "PyFlow",
        "metadata": { "name": name, "namespace": "default", "labels": { "kai.scheduler/queue": "q" } },
        "spec": { "workers": workers },
    });
    let uid = lab.create("jobs.example.com", "pyflows", &object);
    json!({ "apiVersion": "jobs.example.com/v1", "kind": "PyFlow", "name": name, "uid": uid,
            "controller": true })
}

/// Creates a pod that requests a GPU.
fn pod(lab: &Lab, name: &str, role: &str, owner: &Value) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "role": role },
                      "ownerReferences": [owner] },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{ "name": "main", "image": "train",
                             "resources": { "limits": { "nvidia.com/gpu": 1 } } }],
        },
    });
    lab.create("", "pods", &pod);
}

fn define_flows(lab: &Lab) {
    lab.define_kind("jobs.example.com", "v1", "pyflows", "PyFlow");
}

/// Creates the CustomResourceDefinition of Kartas, which are cluster-scoped.
fn define_kartas(lab: &Lab) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "kartas.run.ai" },
        "spec": {
            "group": "run.ai",
            "scope": "Cluster",
            "names": { "plural": "kartas", "singular": "karta", "kind": "Karta" },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    lab.create("apiextensions.k8s.io", "customresourcedefinitions", &definition);
}

/// A Karta of the kind `PyFlow`.
fn karta(name: &str, replicas: &str, sub_groups: &[&str]) -> Value {
    let sub_groups: Vec<Value> =
        sub_groups.iter().map(|name| json!({ "componentName": name })).collect();
    let role = |name: &str, replicas: &str| {
        json!({
            "name": name,
            "ownerRef": "flow",
            "specDefinition": { "podTemplateSpecPath": ".spec.template" },
            "scaleDefinition": { "replicasPath": replicas },
            "podSelector": { "componentTypeSelector": {
                "keyPath": ".metadata.labels.role", "value": name } },
        })
    };
    json!({
        "apiVersion": "run.ai/v1alpha1", "kind": "Karta",
        "metadata": { "name": name, "labels": {
            "run.ai/karta-group": "jobs.example.com",
            "run.ai/karta-version": "v1",
            "run.ai/karta-kind": "PyFlow",
        } },
        "spec": {
            "structureDefinition": {
                "rootComponent": {
                    "name": "flow",
                    "kind": { "group": "jobs.example.com", "version": "v1", "kind": "PyFlow" },
                    "statusDefinition": { "statusMappings": {} },
                },
                "childComponents": [role("master", "1"), role("worker", replicas)],
            },
            "optimizationInstructions": { "gangScheduling": {
                "podGroup": { "name": "training", "subGroups": sub_groups },
            } },
        },
    })
}

/// Each pod with its phase, pod group and sub-group, and each pod group with its spec; without
/// those of Jobs.
fn grouping(lab: &Lab, owner: &Value) -> String {
    let uid = owner["uid"].as_str().unwrap_or_default();
    let mut lines = Vec::new();
    for pod in lab.list("", "pods") {
        let text = |pointer| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
        lines.push(format!(
            "{} {} in {} {}",
            text("/metadata/name"),
            text("/status/phase"),
            text("/metadata/annotations/pod-group-name"),
            text("/metadata/labels/kai.scheduler~1subgroup-name"),
        ));
    }
    for group in lab.list("scheduling.run.ai", "podgroups") {
        lines.push(format!(
            "{} {}",
            group["metadata"]["name"].as_str().unwrap_or_default(),
            group["spec"]
        ));
    }
    lines.retain(|line| !line.contains("job-"));
    lines.join("\n").replace(uid, "UID")
}

#[test]
fn the_pods_of_a_kind_with_a_karta_are_one_gang() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 3);
        lab.queue("q", 8, -1);
        define_flows(&lab);
        define_kartas(&lab);
        lab.create("run.ai", "kartas", &karta("flows", ".spec.workers", &["master", "worker"]));
        lab.start();
        lab.advance(2).await;
        let owner = flow(&lab, "f", &json!(3));
        for (name, role) in [("m", "master"), ("w0", "worker"), ("w1", "worker"), ("w2", "worker")]
        {
            pod(&lab, name, role, &owner);
        }
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        m Pending in pg-UID-training master
        w0 Pending in pg-UID-training worker
        w1 Pending in pg-UID-training worker
        w2 Pending in pg-UID-training worker
        pg-UID-training {"minSubGroup":2,"priorityClassName":"train","queue":"q","subGroups":[{"minMember":1,"name":"master"},{"minMember":3,"name":"worker"}]}
        "#);
        lab.apply("{apiVersion: v1, kind: Node, metadata: {name: more}, status: {capacity: {cpu: '8', pods: '9', nvidia.com/gpu: '1'}}}");
        lab.advance(5).await;
        assert!(lab.pods().lines().all(|pod| pod.contains("Running")), "{}", lab.pods());
    });
}

#[test]
fn pods_are_regrouped_when_a_karta_is_created_changed_or_deleted() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 8, -1);
        define_flows(&lab);
        lab.sleep_until_events();
        lab.start();
        let owner = flow(&lab, "f", &json!(2));
        for (name, role) in [("m", "master"), ("w0", "worker"), ("w1", "worker")] {
            pod(&lab, name, role, &owner);
        }
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        m Running in pg-f-UID -
        w0 Running in pg-f-UID -
        w1 Pending in pg-f-UID -
        pg-f-UID {"minMember":1,"priorityClassName":"train","queue":"q"}
        "#);
        define_kartas(&lab);
        lab.advance(5).await;
        lab.create("run.ai", "kartas", &karta("flows", ".spec.workers", &["master", "worker"]));
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        m Running in pg-UID-training master
        w0 Running in pg-UID-training worker
        w1 Pending in pg-UID-training worker
        pg-UID-training {"minSubGroup":2,"priorityClassName":"train","queue":"q","subGroups":[{"minMember":1,"name":"master"},{"minMember":2,"name":"worker"}]}
        pg-f-UID {"minMember":1,"priorityClassName":"train","queue":"q"}
        "#);
        let gang = json!({ "podGroup": { "name": "all", "subGroups": null } });
        let gang = json!({ "spec": { "optimizationInstructions": { "gangScheduling": gang } } });
        lab.patch("/apis/run.ai/v1alpha1/kartas/flows", &gang).await;
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        m Running in pg-UID-all -
        w0 Running in pg-UID-all -
        w1 Pending in pg-UID-all -
        pg-UID-all {"minMember":3,"priorityClassName":"train","queue":"q"}
        pg-UID-training {"minSubGroup":2,"priorityClassName":"train","queue":"q","subGroups":[{"minMember":1,"name":"master"},{"minMember":2,"name":"worker"}]}
        pg-f-UID {"minMember":1,"priorityClassName":"train","queue":"q"}
        "#);
        let gang = json!({ "podGroup": { "subGroups": [{ "componentName": "boss" }] } });
        let gang = json!({ "spec": { "optimizationInstructions": { "gangScheduling": gang } } });
        lab.patch("/apis/run.ai/v1alpha1/kartas/flows", &gang).await;
        lab.advance(5).await;
        assert!(grouping(&lab, &owner).starts_with("m Running in pg-UID-all"));
        let warnings = lab.events().lines().filter(|it| it.contains("got boss")).count();
        assert_eq!(warnings, 1, "{}", lab.events());
        lab.delete("kartas", "run.ai", "flows");
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner).lines().take(3).collect::<Vec<_>>().join("\n"), @r"
        m Running in pg-f-UID -
        w0 Running in pg-f-UID -
        w1 Pending in pg-f-UID -
        ");
    });
}

/// Each scheduler continues with the labels that the previous one has written.
#[test]
fn pods_are_regrouped_although_the_scheduler_crashes_after_every_write() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 8, -1);
        define_flows(&lab);
        define_kartas(&lab);
        lab.create("run.ai", "kartas", &karta("flows", ".spec.workers", &[]));
        lab.start();
        let owner = flow(&lab, "f", &json!(1));
        for (name, role) in [("m", "master"), ("w0", "worker")] {
            pod(&lab, name, role, &owner);
        }
        lab.advance(5).await;
        lab.stop().await;
        let sub_groups =
            [json!({ "componentName": "master" }), json!({ "componentName": "worker" })];
        let gang = json!({ "podGroup": { "name": "parts", "subGroups": sub_groups } });
        let gang = json!({ "spec": { "optimizationInstructions": { "gangScheduling": gang } } });
        lab.patch("/apis/run.ai/v1alpha1/kartas/flows", &gang).await;
        lab.crash_repeatedly(1, 6).await;
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        m Running in pg-UID-parts master
        w0 Running in pg-UID-parts worker
        pg-UID-parts {"minSubGroup":2,"priorityClassName":"train","queue":"q","subGroups":[{"minMember":1,"name":"master"},{"minMember":1,"name":"worker"}]}
        pg-UID-training {"minMember":2,"priorityClassName":"train","queue":"q"}
        "#);
    });
}

#[test]
fn an_unusable_karta_gets_an_event_and_pods_are_grouped_without_it() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        define_flows(&lab);
        define_kartas(&lab);
        lab.create("run.ai", "kartas", &karta("endless", "[repeat(1)]", &[]));
        lab.start();
        let owner = flow(&lab, "f", &json!(2));
        pod(&lab, "w0", "worker", &owner);
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        w0 Running in pg-f-UID -
        pg-f-UID {"minMember":1,"priorityClassName":"train","queue":"q"}
        "#);
        assert_snapshot!(lab.events(), @r"
        Karta PodGrouperWarning spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta endless: got repeat, expected functions and operators of jq that this scheduler supports; until this is fixed it groups no pods
        Pod Scheduled Successfully assigned pod default/w0 to node n-0 at node-pool default
        ");
        for name in ["one", "other"] {
            lab.create("run.ai", "kartas", &karta(name, ".spec.workers", &[]));
        }
        lab.advance(5).await;
        assert_snapshot!(lab.events(), @r"
        Karta PodGrouperWarning spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta endless: got repeat, expected functions and operators of jq that this scheduler supports; until this is fixed it groups no pods
        Karta PodGrouperWarning spec.structureDefinition.rootComponent.kind: got PyFlow of jobs.example.com/v1, also described by Karta one, expected a kind that no other Karta with gangScheduling describes; until this is fixed it groups no pods
        Karta PodGrouperWarning spec.structureDefinition.rootComponent.kind: got PyFlow of jobs.example.com/v1, also described by Karta other, expected a kind that no other Karta with gangScheduling describes; until this is fixed it groups no pods
        Pod Scheduled Successfully assigned pod default/w0 to node n-0 at node-pool default
        ");
    });
}

/// As in KAI, such a Karta groups nothing; KAI does not report it.
#[test]
fn a_karta_that_groups_nothing_gets_one_event() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        define_flows(&lab);
        define_kartas(&lab);
        let mut bare = karta("bare", ".spec.workers", &["worker"]);
        bare["metadata"] = json!({ "name": "bare" });
        let mut yes = karta("yes", ".spec.workers", &[]);
        yes["spec"]["optimizationInstructions"]["gangScheduling"] = json!("yes");
        for karta in [&bare, &yes] {
            lab.create("run.ai", "kartas", karta);
        }
        lab.start();
        let owner = flow(&lab, "f", &json!(2));
        pod(&lab, "w0", "worker", &owner);
        lab.advance(5).await;
        lab.stop().await;
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        w0 Running in pg-f-UID -
        pg-f-UID {"minMember":1,"priorityClassName":"train","queue":"q"}
        "#);
        assert_snapshot!(lab.events(), @r#"
        Karta PodGrouperWarning metadata.labels[run.ai/karta-group] of Karta bare: got nothing for rootComponent.kind "jobs.example.com", expected the group of its rootComponent.kind; until this is fixed it groups no pods
        Karta PodGrouperWarning spec.optimizationInstructions.gangScheduling of Karta yes: got "yes", expected an object; until this is fixed it groups no pods
        Pod Scheduled Successfully assigned pod default/w0 to node n-0 at node-pool default
        "#);
    });
}

/// Other workloads are scheduled, and this one too once it is fixed.
#[test]
fn a_workload_that_does_not_fit_its_karta_is_pending_with_a_reason() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        define_flows(&lab);
        define_kartas(&lab);
        lab.create("run.ai", "kartas", &karta("flows", ".spec.workers", &[]));
        lab.start();
        let owner = flow(&lab, "f", &json!("many"));
        pod(&lab, "w0", "worker", &owner);
        lab.job("job", "q", 1, 1);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r#"
        job-0 Running n-0
        w0 Pending -: The pod cannot be put into a PodGroup: spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta flows: got "many", expected a whole number up to 2147483647
        "#);
        assert_snapshot!(lab.events(), @r#"
        Pod PodGrouperWarning The pod cannot be put into a PodGroup: spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta flows: got "many", expected a whole number up to 2147483647
        Pod Scheduled Successfully assigned pod default/job-0 to node n-0 at node-pool default
        Pod Unschedulable The pod cannot be put into a PodGroup: spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta flows: got "many", expected a whole number up to 2147483647
        "#);
        assert_snapshot!(lab.explain("w0").await, @r#"
        pod default/w0 waits

        reason: The pod cannot be put into a PodGroup: spec.structureDefinition.childComponents[1].scaleDefinition.replicasPath of Karta flows: got "many", expected a whole number up to 2147483647

        remedy: fix what the message names
        "#);
        let workers = json!({ "spec": { "workers": 1 } });
        lab.patch("/apis/jobs.example.com/v1/namespaces/default/pyflows/f", &workers).await;
        pod(&lab, "m", "master", &owner);
        lab.advance(70).await;
        assert_snapshot!(grouping(&lab, &owner), @r#"
        m Running in pg-UID-training -
        w0 Running in pg-UID-training -
        pg-UID-training {"minMember":2,"priorityClassName":"train","queue":"q"}
        "#);
    });
}

#[test]
fn workloads_of_an_expensive_karta_do_not_delay_others() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        define_flows(&lab);
        define_kartas(&lab);
        // For each item, this outputs the whole list.
        let costly = "[.spec.workers as $all | $all[] | $all] | length";
        lab.create("run.ai", "kartas", &karta("flows", costly, &[]));
        let workers: Value = (0..2000).collect();
        for at in 0..20 {
            let owner = flow(&lab, &format!("f{at:02}"), &workers);
            pod(&lab, &format!("w{at:02}-a"), "worker", &owner);
            pod(&lab, &format!("w{at:02}-b"), "worker", &owner);
        }
        lab.job("x-other", "q", 1, 1);
        lab.start();
        let mut progress = Vec::new();
        for _ in 0..4 {
            lab.advance(1).await;
            let pods = lab.pods();
            let count =
                pods.lines().filter(|pod| pod.contains("too many or too large values")).count();
            let runs = |pod: &str| pod.starts_with("x-other") && pod.contains("Running");
            progress.push((count, pods.lines().any(runs)));
        }
        // Pods whose condition was written have changed, so they are grouped again before the rest.
        assert_eq!(progress, [(32, true), (32, true), (40, true), (40, true)]);
    });
}
