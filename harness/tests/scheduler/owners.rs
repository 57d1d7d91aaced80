//! Third-party workload kinds: their pods form the gangs that their controllers intend.

use http::{Request, Response};
use http_body_util::Either;
use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_emulator::Fleet;

use super::lab::Lab;
use schedlab_scheduler::DefaultPriorities;
use tower::{ServiceExt as _, service_fn};

/// Creates a pod that requests a GPU. `owners` is an owner reference or a list of them.
pub(super) fn pod(lab: &Lab, name: &str, labels: &Value, owners: &Value) {
    let owners = if owners.is_array() { owners.clone() } else { json!([owners]) };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": labels,
                      "ownerReferences": owners },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{ "name": "main", "image": "train",
                             "resources": { "limits": { "nvidia.com/gpu": 1 } } }],
        },
    });
    lab.create("", "pods", &pod);
}

/// The template of a pod that requests a GPU.
pub(super) fn pod_template() -> Value {
    json!({
        "metadata": { "labels": { "kai.scheduler/queue": "q" } },
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{ "name": "main", "image": "train",
                             "resources": { "limits": { "nvidia.com/gpu": 1 } } }],
        },
    })
}

/// Creates an owner named `x`; returns the owner reference of its pods.
fn owner(lab: &Lab, group: &str, plural: &str, kind: &str, spec: &Value) -> Value {
    owner_from(lab, group, plural, kind, json!({ "spec": spec }))
}

/// Like [`owner`], from an object with any fields.
pub(super) fn owner_from(
    lab: &Lab,
    group: &str,
    plural: &str,
    kind: &str,
    mut object: Value,
) -> Value {
    lab.define_kind(group, "v1", plural, kind);
    let api_version = format!("{group}/v1");
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"]["name"] = json!("x");
    object["metadata"]["namespace"] = json!("default");
    object["metadata"]["labels"] = json!({ "kai.scheduler/queue": "q" });
    let uid = lab.create(group, plural, &object);
    json!({ "apiVersion": api_version, "kind": kind, "name": "x", "uid": uid, "controller": true })
}

#[test]
fn a_ray_cluster_starts_with_its_head_and_its_minimum_of_workers() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 3);
        lab.queue("q", 8, -1);
        lab.job("other", "q", 1, 1);
        lab.start();
        lab.advance(3).await;
        let groups = json!([{ "groupName": "gpu", "replicas": 3, "minReplicas": 2 }]);
        let spec =
            json!({ "managedBy": "tests/none", "headGroupSpec": {}, "workerGroupSpecs": groups });
        let cluster = owner(&lab, "ray.io", "rayclusters", "RayCluster", &spec);
        pod(&lab, "head", &json!({ "ray.io/group": "headgroup" }), &cluster);
        for name in ["w0", "w1", "w2"] {
            pod(&lab, name, &json!({ "ray.io/group": "gpu" }), &cluster);
        }
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        head Pending -: Resources were found for 2 pods from all sub-groups while sub-group headgroup requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        other-0 Running n-0
        w0 Pending -: Resources were found for 2 pods from all sub-groups while sub-group headgroup requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        w1 Pending -: Resources were found for 2 pods from all sub-groups while sub-group headgroup requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        w2 Pending -: Resources were found for 2 pods from all sub-groups while sub-group headgroup requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        ");
        lab.delete_in("default", "jobs", "batch", "other");
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        head Running n-0
        w0 Running n-0
        w1 Running n-0
        w2 Pending -: Resources were not found for pod default/w2 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        ");
    });
}

/// As in KAI, `controller` of an owner reference does not matter, and the first owner of a pod
/// counts. If that owner has several owners itself, the one with `controller: true` counts; KAI
/// follows none of them.
#[test]
fn owners_without_controller_are_followed() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        let cr = owner(&lab, "example.com", "mycrs", "MyCr", &json!({}));
        let with_controller = |owner: &Value, value: bool| {
            let mut owner = owner.clone();
            owner["controller"] = json!(value);
            owner
        };
        let cr = with_controller(&cr, false);
        lab.define_kind("example.com", "v1", "parts", "Part");
        let part = |name: &str, owners: &Value| {
            let object = json!({ "apiVersion": "example.com/v1", "kind": "Part",
                "metadata": { "name": name, "namespace": "default", "ownerReferences": owners } });
            let uid = lab.create("example.com", "parts", &object);
            json!({ "apiVersion": "example.com/v1", "kind": "Part", "name": name, "uid": uid })
        };
        let one_owner = part("alone", &json!([cr]));
        let two_owners = part("torn", &json!([cr, one_owner]));
        pod(&lab, "direct", &json!({}), &json!([cr, with_controller(&two_owners, true)]));
        pod(&lab, "below", &json!({}), &json!([one_owner, with_controller(&two_owners, true)]));
        pod(&lab, "lost", &json!({}), &json!([two_owners]));
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-x {"minMember":1,"priorityClassName":"train","queue":"q"}"#);
        assert_snapshot!(lab.pods(), @r"
        below Running n-0
        direct Running n-0
        lost Pending -: The pod cannot be put into a PodGroup: metadata.ownerReferences of Part torn: got 2 owners, expected one, or one with controller: true
        ");
    });
}

#[test]
fn a_change_of_an_owner_reaches_its_group_at_once() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("grows", "q", 2, 4);
        lab.start();
        lab.advance(5).await;
        let minimum = |lab: &Lab| {
            lab.list("scheduling.run.ai", "podgroups")[0]["spec"]["minMember"].to_string()
        };
        let fewer = json!({ "metadata": { "annotations": { "kai.scheduler/batch-min-member": "2" },
                                          "labels": { "priorityClassName": "build" } } });
        lab.patch("/apis/batch/v1/namespaces/default/jobs/grows", &fewer).await;
        lab.advance(2).await;
        assert_eq!(minimum(&lab), "2");
        assert_snapshot!(lab.pods(), @r"
        grows-0 Running n-0
        grows-1 Running n-0
        ");
    });
}

/// The submitter's pod belongs to the RayJob only and is created when the RayCluster runs. It does
/// not change the gang of the cluster, and starts although it is in no sub-group of the cluster.
#[test]
fn the_submitter_of_a_ray_job_starts_beside_the_workers() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 5);
        lab.queue("q", 8, -1);
        lab.start();
        let spec = json!({ "managedBy": "tests/none" });
        let job = json!({ "spec": spec, "status": { "rayClusterName": "x" } });
        let job = owner_from(&lab, "ray.io", "rayjobs", "RayJob", job);
        let cluster = json!({
            "metadata": { "ownerReferences": [job] },
            "spec": {
                "managedBy": "tests/none",
                "headGroupSpec": {},
                "workerGroupSpecs": [{ "groupName": "w", "replicas": 3, "minReplicas": 1 }],
            },
        });
        let cluster = owner_from(&lab, "ray.io", "rayclusters", "RayCluster", cluster);
        pod(&lab, "head", &json!({ "ray.io/group": "headgroup" }), &cluster);
        pod(&lab, "w0", &json!({ "ray.io/group": "w" }), &cluster);
        lab.advance(5).await;
        let pods = json!({ "spec": {
            "schedulerName": "kai-scheduler", "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "ray" }],
        } });
        let submission = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": "submit", "namespace": "default", "ownerReferences": [job] },
            "spec": { "template": pods },
        });
        lab.create("batch", "jobs", &submission);
        pod(&lab, "w1", &json!({ "ray.io/group": "w" }), &cluster);
        lab.advance(5).await;
        pod(&lab, "w2", &json!({ "ray.io/group": "w" }), &cluster);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @"
        head Running n-0
        submit-xr6zj Running n-0
        w0 Running n-0
        w1 Running n-0
        w2 Running n-0
        ");
        assert_snapshot!(lab.pod_groups(), @r#"pg-x {"minMember":2,"priorityClassName":"train","queue":"q","subGroups":[{"minMember":1,"name":"headgroup"},{"minMember":1,"name":"w"},{"minMember":0,"name":"submitter"}]}"#);
    });
}

/// Adds nodes with one GPU each in one rack.
fn rack(lab: &Lab, name: &str, nodes: u32) {
    let pool = format!("{{name: {name}, count: {nodes}, gpus: 1, labels: {{rack: {name}}}}}");
    let fleet = Fleet::parse("fleet", &format!("pools: [{pool}]")).expect("the fleet is valid");
    lab.emulator.add_fleet(&fleet).expect("the nodes are new");
}

/// The cliques of a topology constraint group stay in one rack, although each of them alone would
/// fit elsewhere.
#[test]
fn a_topology_constraint_group_of_cliques_stays_in_one_rack() {
    Lab::run(async |mut lab| {
        rack(&lab, "r", 1);
        rack(&lab, "s", 1);
        lab.queue("q", 8, -1);
        let hall = json!({
            "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology",
            "metadata": { "name": "hall" }, "spec": { "levels": [{ "nodeLabel": "rack" }] },
        });
        lab.create("kai.scheduler", "topologies", &hall);
        let set = owner(&lab, "grove.io", "podcliquesets", "PodCliqueSet", &json!({}));
        lab.define_kind("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang");
        let clique = |name: &str| {
            json!({ "name": name, "minReplicas": 1,
                    "podReferences": [{ "namespace": "default", "name": name }] })
        };
        let gang = json!({
            "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
            "metadata": { "name": "g", "namespace": "default",
                          "annotations": { "grove.io/topology-name": "hall" } },
            "spec": {
                "topologyConstraintGroupConfigs": [{
                    "name": "both", "podGroupNames": ["prefill", "decode"],
                    "topologyConstraint": { "packConstraint": { "required": "rack" } },
                }],
                "podgroups": [clique("prefill"), clique("decode")],
            },
        });
        lab.create("scheduler.grove.io", "podgangs", &gang);
        for name in ["prefill", "decode"] {
            pod(&lab, name, &json!({ "grove.io/podgang": "g" }), &set);
        }
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        decode Pending -: node-group r can allocate only 1 of 2 required pods. node-group s can allocate only 1 of 2 required pods. topology hall, requirement rack couldn't be satisfied.
        prefill Pending -: node-group r can allocate only 1 of 2 required pods. node-group s can allocate only 1 of 2 required pods. topology hall, requirement rack couldn't be satisfied.
        ");
        rack(&lab, "t", 2);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        decode Running t-0
        prefill Running t-1
        ");
    });
}

#[test]
fn each_replica_of_a_leader_worker_set_is_a_gang_of_its_own() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 3);
        lab.queue("q", 8, -1);
        let (group, plural) = ("leaderworkerset.x-k8s.io", "leaderworkersets");
        // The emulator's controller creates the pods.
        let spec = json!({ "replicas": 2, "leaderWorkerTemplate": {
            "size": 2, "workerTemplate": pod_template(),
        } });
        owner(&lab, group, plural, "LeaderWorkerSet", &spec);
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @"
        x-0 Pending -: Resources were found for 1 pods from all sub-groups while sub-group workers requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        x-0-1 Pending -: Resources were found for 1 pods from all sub-groups while sub-group workers requires 1 pods for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        x-1 Running n-0
        x-1-1 Running n-0
        ");
    });
}

#[test]
fn unusable_default_priorities_are_reported_once_on_their_config_map() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        let name = "priorities".to_owned();
        lab.config.default_priorities =
            Some(DefaultPriorities { namespace: Some("default".to_owned()), name });
        lab.start();
        lab.job("first", "q", 1, 1);
        lab.advance(5).await;
        let types = json!([{ "typeName": "Job", "priorityName": "urgent" },
                           { "typeName": "Pod", "priorityName": "build" }]);
        let map = json!({
            "metadata": { "name": "priorities", "namespace": "default" },
            "data": { "types": types.to_string() },
        });
        lab.create("", "configmaps", &map);
        for name in ["second", "third"] {
            lab.job(name, "q", 1, 1);
            lab.advance(5).await;
        }
        let events = lab.list("", "events");
        let of_map = events.iter().filter(|event| event["involvedObject"]["kind"] == "ConfigMap");
        let mut messages: Vec<_> = of_map.map(|event| event["message"].as_str().unwrap()).collect();
        messages.sort_unstable();
        assert_snapshot!(messages.join("\n"), @r#"
        configmaps "priorities" not found; until this is fixed it sets no defaults
        data.types[0].priorityName: got "urgent", expected the name of a PriorityClass that exists; until this is fixed it sets no defaults
        "#);
        assert_eq!(lab.pods().matches("Running").count(), 3);
    });
}

/// A fixed owner causes no event that the scheduler watches, so an idle scheduler checks owners
/// again.
#[test]
fn an_idle_scheduler_finds_a_fixed_owner() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.job("train", "q", 2, 2);
        let minimum = |text: &str| json!({ "metadata": { "annotations": { "kai.scheduler/batch-min-member": text } } });
        let path = "/apis/batch/v1/namespaces/default/jobs/train";
        lab.patch(path, &minimum("many")).await;
        lab.sleep_until_events();
        lab.start();
        lab.advance(5).await;
        lab.patch(path, &minimum("2")).await;
        lab.advance(120).await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-0
        train-1 Running n-0
        ");
    });
}

#[test]
fn a_deleted_group_whose_pods_exist_is_recreated() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 0, 2);
        lab.job("first", "q", 2, 2);
        // This pod names a group that another component will create.
        pod(&lab, "stranger", &json!({}), &json!([]));
        let named = json!({ "metadata": { "annotations": { "pod-group-name": "of-somebody" } } });
        lab.patch("/api/v1/namespaces/default/pods/stranger", &named).await;
        lab.start();
        lab.advance(5).await;
        let groups = lab.list("scheduling.run.ai", "podgroups");
        let before = lab.pod_groups();
        for group in groups {
            let name = group["metadata"]["name"].as_str().unwrap();
            lab.delete_in("default", "podgroups", "scheduling.run.ai", name);
        }
        lab.advance(5).await;
        assert_eq!(lab.pod_groups(), before);
        // The running pods of the recreated group count again.
        lab.job("second", "q", 1, 1);
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        first-0 Running n-0
        first-1 Running n-0
        second-0 Pending -: q quota has reached the allowable limit of GPUs. Limit is 2 GPUs, currently 2 GPUs allocated and workload requested 1 GPUs
        stranger Pending -: PodGroup of-somebody, named in annotation pod-group does not exist
        ");
        // A group whose owner is deleted is not recreated.
        lab.delete_in("default", "jobs", "batch", "first");
        lab.advance(60).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-second {"minMember":1,"priorityClassName":"train","queue":"q"}"#);
    });
}

/// A client whose requests are forbidden if their path contains `part`.
fn client_forbidden_to_read(lab: &Lab, part: &'static str) -> kube::Client {
    let router = lab.emulator.service();
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let (router, is_forbidden) = (router.clone(), request.uri().path().contains(part));
        async move {
            if !is_forbidden {
                let response = router.oneshot(request).await;
                return response.map(|response| response.map(Either::Left));
            }
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
                               "reason": "Forbidden", "message": "forbidden", "code": 403 });
            let body = Either::Right(kube::client::Body::from(status.to_string().into_bytes()));
            Ok(Response::builder().status(403).body(body).expect("the response is well-formed"))
        }
    });
    kube::Client::new(service, "default")
}

#[test]
fn pods_of_an_unreadable_owner_are_grouped_by_the_owner_below_it() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        let trial = owner(&lab, "katib.example.com", "trials", "Trial", &json!({}));
        let labels = json!({ "kai.scheduler/queue": "q" });
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": { "name": "x", "namespace": "default", "labels": labels, "ownerReferences": [trial],
                          "annotations": { "kai.scheduler/batch-min-member": "2" } },
            "spec": { "parallelism": 0, "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } },
        });
        let uid = lab.create("batch", "jobs", &job);
        let job = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": uid });
        for name in ["w0", "w1"] {
            pod(&lab, name, &json!({}), &job);
        }
        for name in ["a", "b"] {
            pod(&lab, name, &json!({ "kai.scheduler/queue": "q" }), &trial);
        }
        lab.start_with(client_forbidden_to_read(&lab, "/trials"));
        lab.advance(5).await;
        assert_snapshot!(lab.pod_groups(), @r#"
        pg-a {"minMember":1,"priorityClassName":"train","queue":"q"}
        pg-b {"minMember":1,"priorityClassName":"train","queue":"q"}
        pg-x {"minMember":2,"priorityClassName":"train","queue":"q"}
        "#);
    });
}
