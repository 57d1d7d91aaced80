//! Pod groups: their protection, the groups of jobs, and the claims of groups.

use crate::api_types::feature_gates::FeatureGates;
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::emulator::test_cluster::TestCluster;
use schedlab_api::{
    Value, json,
    object::{list, name, set, text, uid},
};

const GATES: &str = "GenericWorkload=true,WorkloadWithJob=true,DRAWorkloadResourceClaims=true,\
                     TopologyAwareWorkloadScheduling=true";

const GROUP: &str = "
    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata: {name: g}
    spec:
      schedulingPolicy: {gang: {minCount: 2}}
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
    ";

const JOB: &str = "
    apiVersion: batch/v1
    kind: Job
    metadata: {name: train}
    spec:
      parallelism: 3
      completions: 3
      scheduling:
        schedulingPolicy: {gang: {}}
        disruptionMode: {all: {}}
        schedulingConstraints: {topology: [{key: rack}]}
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: i}]
    ";

fn member(name: &str) -> String {
    format!(
        "
    apiVersion: v1
    kind: Pod
    metadata: {{name: {name}, annotations: {{schedlab.dev/run-time: 20s}}}}
    spec:
      restartPolicy: Never
      schedulingGroup: {{podGroupName: g}}
      resourceClaims: [{{name: gpu, resourceClaimTemplateName: one-gpu}}]
      containers: [{{name: c, image: i, resources: {{claims: [{{name: gpu}}]}}}}]
    "
    )
}

const TEMPLATE: &str = "
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaimTemplate
    metadata: {name: one-gpu}
    spec:
      spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
    ";

fn cluster() -> TestCluster {
    TestCluster::with(|options| {
        options.feature_gates = FeatureGates::parse(KubernetesVersion::V1_37, GATES).unwrap();
    })
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_stays_until_its_pods_have_ended() {
    let cluster = cluster();
    cluster.nodes(&["n1"]).await;
    cluster.apply(&GROUP.replace("resourceClaims", "# "));
    cluster.apply(
        "
        apiVersion: v1
        kind: Pod
        metadata: {name: a, annotations: {schedlab.dev/run-time: 20s}}
        spec:
          restartPolicy: Never
          schedulingGroup: {podGroupName: g}
          containers: [{name: c, image: i}]
        ",
    );
    cluster.bind_all("n1");
    cluster.secs(5).await;
    cluster.delete("podgroups", "g");
    cluster.secs(5).await;
    assert!(!cluster.get("podgroups", "g")["metadata"]["deletionTimestamp"].is_null());
    cluster.secs(20).await;
    assert_eq!(text(&cluster.get("pods", "a"), &["status", "phase"]), "Succeeded");
    assert!(cluster.all("podgroups").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_gets_a_workload_and_a_group_of_its_pods() {
    let cluster = cluster();
    cluster.nodes(&["n1"]).await;
    cluster.apply(JOB);
    cluster.settle().await;
    let workload = cluster.all("workloads").remove(0);
    assert_eq!(
        workload["spec"],
        json!({
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [{
                "name": "train-pgt-0",
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
            }],
        })
    );
    let group = cluster.all("podgroups").remove(0);
    assert_eq!(
        group["spec"],
        json!({
            "workloadRef": {"workloadName": name(&workload), "templateName": "train-pgt-0"},
            "schedulingPolicy": {"gang": {"minCount": 3}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "priority": 0,
        })
    );
    assert!(name(&group).starts_with(&format!("{}-train-pgt-0-", name(&workload))));
    let owners = |object: &Value| {
        let all = list(object, &["metadata", "ownerReferences"]);
        all.iter().map(|owner| text(owner, &["kind"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(owners(&group), ["Job", "Workload"]);
    let pods = cluster.all("pods");
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(text(pod, &["spec", "schedulingGroup", "podGroupName"]), name(&group));
        assert_eq!(owners(pod), ["Job"]);
    }
    let events = cluster.events("train");
    assert!(events.contains(&"WorkloadCreated".to_owned()), "{events:?}");
    assert!(events.contains(&"PodGroupCreated".to_owned()), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn the_minimum_of_a_job_reaches_its_group() {
    let cluster = cluster();
    cluster.nodes(&["n1"]).await;
    cluster.apply(JOB);
    cluster.settle().await;
    cluster.edit("jobs", "train", |job| {
        set(job, &["spec", "scheduling", "schedulingPolicy", "gang", "minCount"], json!(2));
    });
    cluster.settle().await;
    let gang = json!({"gang": {"minCount": 2}});
    assert_eq!(cluster.all("podgroups")[0]["spec"]["schedulingPolicy"], gang);
    let workload = &cluster.all("workloads")[0];
    assert_eq!(workload["spec"]["podGroupTemplates"][0]["schedulingPolicy"], gang);
}

#[tokio::test(start_paused = true)]
async fn the_groups_of_a_deleted_job_are_collected() {
    let cluster = cluster();
    cluster.nodes(&["n1"]).await;
    cluster.apply(JOB);
    cluster.settle().await;
    cluster.delete("jobs", "train");
    cluster.secs(60).await;
    assert_eq!(cluster.names("pods").len(), 0);
    assert!(cluster.all("podgroups").is_empty());
    assert!(cluster.all("workloads").is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_group_share_its_claim() {
    let cluster = cluster();
    cluster.nodes(&["n1"]).await;
    cluster.apply(TEMPLATE);
    cluster.apply(&member("a"));
    cluster.settle().await;
    assert!(cluster.all("resourceclaims").is_empty(), "the group does not exist");
    cluster.apply(GROUP);
    cluster.apply(&member("b"));
    cluster.settle().await;
    let claims = cluster.all("resourceclaims");
    assert_eq!(claims.len(), 1);
    let (claim, group) = (&claims[0], cluster.get("podgroups", "g"));
    assert_eq!(
        claim["metadata"]["ownerReferences"],
        json!([{"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g",
            "uid": uid(&group), "controller": true}])
    );
    let recorded = json!([{"name": "gpu", "resourceClaimName": name(claim)}]);
    assert_eq!(group["status"]["resourceClaimStatuses"], recorded);
    for pod in ["a", "b"] {
        assert_eq!(cluster.get("pods", pod)["status"]["resourceClaimStatuses"], recorded);
    }
    let key = format!("default/{}", name(claim));
    cluster.update_status("resourceclaims", &key, |claim| {
        let device =
            json!({"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"});
        set(claim, &["status", "allocation"], json!({"devices": {"results": [device]}}));
        let user = json!([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g",
            "uid": uid(&group)}]);
        set(claim, &["status", "reservedFor"], user);
    });
    cluster.bind_all("n1");
    cluster.secs(5).await;
    assert_eq!(cluster.in_phase("Running"), 2);
    cluster.secs(30).await;
    let claim = cluster.get("resourceclaims", &key);
    assert_eq!(list(&claim, &["status", "reservedFor"]).len(), 1, "the group still exists");
    cluster.delete("podgroups", "g");
    cluster.secs(10).await;
    assert!(cluster.all("resourceclaims").is_empty());
}
