//! Table tests: owners and a pod in, group out.

use insta::assert_snapshot;
use schedlab_api::{annotations::BATCH_MIN_MEMBER, json};

use super::*;
use crate::karta::Kartas;

mod grove;
mod karta;
mod ray;
mod scheduling_group;
mod trees;

/// An owner of kind `group/Kind`, or of a built-in kind.
fn link(kind: &str, object: Value) -> OwnerLink {
    let (group, kind) = kind.split_once('/').unwrap_or(("", kind));
    let group = match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => "apps",
        "Job" | "CronJob" => "batch",
        "JobSet" => "jobset.x-k8s.io",
        "TrainJob" => "trainer.kubeflow.org",
        "PyTorchJob" => "kubeflow.org",
        _ => group,
    };
    let owner = Owner {
        api_version: if group.is_empty() { "v1".into() } else { format!("{group}/v1").into() },
        kind: kind.into(),
        name: kind.to_lowercase().into(),
        uid: "u1".into(),
    };
    OwnerLink { owner, object }
}

fn group_text(pod_labels: &Value, chain: &[OwnerLink]) -> String {
    group_text_with(&json!({ "labels": pod_labels }), chain, &[], None)
}

/// The group of a pod with this metadata, among other pods with these labels.
fn group_text_with(
    metadata: &Value,
    chain: &[OwnerLink],
    others: &[Value],
    related_object: Option<&Value>,
) -> String {
    group_text_by(&json!(null), metadata, chain, others, related_object)
}

/// Like [`group_text_with`], with kind defaults from a ConfigMap.
fn group_text_by(
    defaults: &Value,
    metadata: &Value,
    chain: &[OwnerLink],
    others: &[Value],
    related_object: Option<&Value>,
) -> String {
    group_text_among(&Kartas::default(), defaults, metadata, chain, others, related_object)
}

fn pod_of(name: &str, metadata: &Value) -> Value {
    let group = metadata.get("schedulingGroup");
    let mut pod = json!({ "metadata": metadata, "spec": { "schedulingGroup": group } });
    for (field, value) in [("name", name), ("namespace", "ns"), ("uid", "u0")] {
        pod["metadata"][field] = json!(value);
    }
    pod
}

/// Like [`group_text_by`], with Kartas.
fn group_text_among(
    kartas: &Kartas,
    defaults: &Value,
    metadata: &Value,
    chain: &[OwnerLink],
    others: &[Value],
    related_object: Option<&Value>,
) -> String {
    let pod = |name: &str, metadata: &Value| {
        let pod = pod_of(name, metadata);
        (ObjectKey::from_object(&pod), PodRecord::from_object(&pod, "kai-scheduler"))
    };
    let classes = ["train", "inference", "build"]
        .map(|name| (Name::from(name), PriorityClassRecord { value: 1, global_default: false }));
    let classes = BTreeMap::from(classes);
    let (key, record) = pod("p", metadata);
    let others = others.iter().map(|labels| pod("other", &json!({ "labels": labels })));
    let whole = pod_of("p", metadata);
    let karta = karta_owner(&record, chain)
        .and_then(|owner| kartas.for_kind(&owner.api_version, &owner.kind));
    let around = GroupingContext {
        karta: karta.map(|karta| (karta, &whole)),
        cycle_budget: &CycleBudget::new(),
        pods: &others.collect(),
        classes: &classes,
        pool_label: "kai.scheduler/node-pool",
        related_object,
        defaults: &Defaults::from_config_map(&json!({ "data": { "types": defaults } }), &classes).0,
    };
    let member = match group_of(&key, &record, chain, around) {
        Ok(member) => member,
        Err(malformed) => return malformed.to_string(),
    };
    let Member { group, sub_group: part } = member;
    let mut text = format!(
        "{} of {} min={} queue={} class={}{}{}",
        group.name,
        group.owner.kind,
        group
            .min_sub_group
            .map_or_else(|| group.min_member.to_string(), |min| format!("{min} parts")),
        group.queue,
        group.priority_class,
        group.preemptibility.as_ref().map(|is| format!(" {is}")).unwrap_or_default(),
        group.preemption_delay.as_ref().map(|is| format!(" delay={is}")).unwrap_or_default(),
    );
    let spec = group.derived_spec();
    if let Some(constraint) = spec["topologyConstraint"].as_object() {
        text = format!("{text}\n  within {}", Value::from(constraint.clone()));
    }
    for part in spec["subGroups"].as_array().into_iter().flatten() {
        text = format!("{text}\n  {part}");
    }
    if let Some(warning) = group.warning {
        text = format!(
            "{text}\n  {}",
            super::super::warnings::warning_message(&warning, &group.name).1
        );
    }
    match part {
        Some(part) => format!("{text}\n  the pod: {part}"),
        None => text,
    }
}

#[test]
fn a_pod_without_owner_is_its_own_group() {
    assert_snapshot!(group_text(&json!({}), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=train");
}

#[test]
fn each_pod_of_a_deployment_is_its_own_inference_group() {
    let labels = json!({ "metadata": { "labels": { "kai.scheduler/queue": "a" } } });
    let chain = [link("ReplicaSet", json!({})), link("Deployment", labels)];
    assert_snapshot!(group_text(&json!({}), &chain), @"pg-p-u0 of Pod min=1 queue=a class=inference");
}

#[test]
fn kind_defaults_apply_when_neither_owner_nor_pod_sets_a_value() {
    let types = json!([
        { "typeName": "Deployment", "group": "apps", "priorityName": "train" },
        { "typeName": "DynamoGraphDeployment", "priorityName": "build", "preemptibility": "preemptible" },
        { "typeName": "Pod", "preemptibility": "non-preemptible" },
    ]);
    let of = |labels: Value, chain: &[OwnerLink]| {
        let metadata = json!({ "labels": labels });
        group_text_by(&json!(types.to_string()), &metadata, chain, &[], None)
    };
    let deployment = [link("ReplicaSet", json!({})), link("Deployment", json!({}))];
    assert_snapshot!(of(json!({}), &deployment), @"pg-p-u0 of Pod min=1 queue=default-queue class=train");
    assert_snapshot!(of(json!({ "priorityClassName": "build" }), &deployment), @"pg-p-u0 of Pod min=1 queue=default-queue class=build");
    let graph = link("nvidia.com/DynamoGraphDeployment", json!({}));
    let skipped = [link("StatefulSet", json!({})), graph];
    assert_snapshot!(of(json!({}), &skipped), @"pg-statefulset-u1 of StatefulSet min=1 queue=default-queue class=build preemptible");
    assert_snapshot!(of(json!({}), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=train non-preemptible");
    assert_snapshot!(of(json!({ "kai.scheduler/preemptibility": "preemptible" }), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=train preemptible");
    assert_snapshot!(of(json!({ "kai.scheduler/preemptibility": "" }), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=train");
}

#[test]
fn a_job_is_a_gang_only_with_a_batch_min_member_annotation() {
    let job = |annotations: Value| {
        let object = json!({ "metadata": { "annotations": annotations },
                             "spec": { "parallelism": 8 } });
        vec![link("Job", object)]
    };
    assert_snapshot!(group_text(&json!({ "project": "b" }), &job(json!({}))), @"pg-job-u1 of Job min=1 queue=b class=train");
    let stated = |text: &str| job(json!({ BATCH_MIN_MEMBER: text }));
    assert_snapshot!(group_text(&json!({}), &stated("4")), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
    assert_snapshot!(group_text(&json!({}), &stated("-4")), @r#"annotation kai.scheduler/batch-min-member: got "-4", expected an integer from 1 to 2147483647"#);
    let of_cron_job = [stated("4").remove(0), link("CronJob", json!({}))];
    assert_snapshot!(group_text(&json!({}), &of_cron_job), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
    let workflow = link("argoproj.io/Workflow", stated("3").remove(0).object);
    assert_snapshot!(group_text(&json!({}), &[job(json!({})).remove(0), workflow]), @"pg-job-u1 of Job min=3 queue=default-queue class=train");
}

#[test]
fn a_min_member_above_the_parallelism_of_a_job_yields_a_warning() {
    let of = |spec: Value| {
        let annotations = json!({ BATCH_MIN_MEMBER: "4" });
        let object = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        group_text(&json!({}), &[link("Job", object)])
    };
    assert_snapshot!(of(json!({ "parallelism": 3 })), @r"
    pg-job-u1 of Job min=4 queue=default-queue class=train
      annotation kai.scheduler/batch-min-member: got 4 (at most 3 of its pods run at once), expected at most spec.parallelism and spec.completions; PodGroup pg-job-u1 waits for pods that are never created
    ");
    assert_snapshot!(of(json!({ "parallelism": 4, "completions": 2 })), @r"
    pg-job-u1 of Job min=4 queue=default-queue class=train
      annotation kai.scheduler/batch-min-member: got 4 (at most 2 of its pods run at once), expected at most spec.parallelism and spec.completions; PodGroup pg-job-u1 waits for pods that are never created
    ");
    assert_snapshot!(of(json!({ "parallelism": 4, "completions": 9 })), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
    assert_snapshot!(of(json!({ "parallelism": 0 })), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
}

/// A `StatefulSet` creates its pods one after the other: a minimum above 1 would never be reached.
#[test]
fn the_batch_min_member_annotation_is_ignored_on_other_kinds() {
    let annotations = json!({ BATCH_MIN_MEMBER: "3" });
    let stating = |kind: &str, spec: Value| {
        link(kind, json!({ "metadata": { "annotations": annotations }, "spec": spec }))
    };
    let of = |kind: &str| group_text(&json!({}), &[stating(kind, json!({}))]);
    assert_snapshot!(of("StatefulSet"), @"pg-statefulset-u1 of StatefulSet min=1 queue=default-queue class=train");
    assert_snapshot!(of("ReplicaSet"), @"pg-replicaset-u1 of ReplicaSet min=1 queue=default-queue class=train");
    assert_snapshot!(of("kubeflow.org/Notebook"), @"pg-notebook-u1 of Notebook min=1 queue=default-queue class=build");
    assert_snapshot!(of("egx.nvidia.io/SPOTRequest"), @"pg-spotrequest-u1 of SPOTRequest min=1 queue=default-queue class=inference");
    assert_snapshot!(of("run.ai/RunaiJob"), @"pg-p-u1 of RunaiJob min=1 queue=default-queue class=train");
    assert_snapshot!(of("ray.io/RayService"), @"pg-rayservice-u1 of RayService min=1 queue=default-queue class=train");
    let own = [stating("Job", json!({})), link("example.com/Sweep", json!({}))];
    assert_snapshot!(group_text(&json!({}), &own), @"pg-sweep-u1 of Sweep min=1 queue=default-queue class=train");
    let torch = json!({ "pytorchReplicaSpecs": { "Worker": { "replicas": 5 } } });
    assert_snapshot!(group_text(&json!({}), &[stating("PyTorchJob", torch)]).lines().next().unwrap(), @"pg-pytorchjob-u1 of PyTorchJob min=5 queue=default-queue class=train");
    let tensor = json!({ "tfReplicaSpecs": { "Worker": { "replicas": 5 } } });
    assert_snapshot!(group_text(&json!({}), &[stating("kubeflow.org/TFJob", tensor)]), @"pg-tfjob-u1 of TFJob min=5 queue=default-queue class=train");
}

#[test]
fn other_kinds_get_min_member_one_under_their_top_owner() {
    let of = |kind| group_text(&json!({}), &[link(kind, json!({ "spec": { "replicas": 3 } }))]);
    assert_snapshot!(of("StatefulSet"), @"pg-statefulset-u1 of StatefulSet min=1 queue=default-queue class=train");
    assert_snapshot!(of("argoproj.io/Rollout"), @"pg-rollout-u1 of Rollout min=1 queue=default-queue class=train");
    assert_snapshot!(of("kubeflow.org/ScheduledWorkflow"), @"pg-scheduledworkflow-u1 of ScheduledWorkflow min=1 queue=default-queue class=train");
    assert_snapshot!(of("tekton.dev/PipelineRun"), @"pg-pipelinerun-u1 of PipelineRun min=1 queue=default-queue class=train");
    assert_snapshot!(of("machinelearning.seldon.io/SeldonDeployment"), @"pg-seldondeployment-u1 of SeldonDeployment min=1 queue=default-queue class=train");
    assert_snapshot!(of("kubevirt.io/VirtualMachineInstance"), @"pg-virtualmachineinstance-u1 of VirtualMachineInstance min=1 queue=default-queue class=train");
    assert_snapshot!(of("workspace.devfile.io/DevWorkspace"), @"pg-devworkspace-u1 of DevWorkspace min=1 queue=default-queue class=train");
    assert_snapshot!(of("kubeflow.org/Notebook"), @"pg-notebook-u1 of Notebook min=1 queue=default-queue class=build");
    assert_snapshot!(of("egx.nvidia.io/SPOTRequest"), @"pg-spotrequest-u1 of SPOTRequest min=1 queue=default-queue class=inference");
    assert_snapshot!(of("run.ai/RunaiJob"), @"pg-p-u1 of RunaiJob min=1 queue=default-queue class=train");
}

#[test]
fn a_knative_revision_is_a_gang_of_its_minimal_scale() {
    let revision =
        json!({ "metadata": { "annotations": { "autoscaling.knative.dev/min-scale": "3" } } });
    let chain = [
        link("ReplicaSet", json!({})),
        link("Deployment", json!({})),
        link("serving.knative.dev/Revision", revision),
        link("serving.knative.dev/Configuration", json!({})),
        link("serving.knative.dev/Service", json!({})),
    ];
    assert_snapshot!(group_text(&json!({}), &chain), @"pg-revision-u1 of Revision min=3 queue=default-queue class=inference");
}

#[test]
fn a_spark_driver_and_its_executors_are_one_group() {
    let labels = json!({ "spark-app-name": "pi", "spark-app-selector": "spark-1" });
    assert_snapshot!(group_text(&labels, &[]), @"spark-1 of Pod min=1 queue=default-queue class=train");
    assert_snapshot!(group_text(&labels, &[link("Pod", json!({}))]), @"spark-1 of Pod min=1 queue=default-queue class=train");
}

#[test]
fn each_job_of_a_cron_job_is_a_group() {
    let chain = [link("Job", json!({})), link("CronJob", json!({}))];
    assert_snapshot!(group_text(&json!({}), &chain), @"pg-job-u1 of Job min=1 queue=default-queue class=train");
}

#[test]
fn a_project_has_a_queue_for_each_node_pool() {
    let labels = json!({ "project": "b", "kai.scheduler/node-pool": "a100" });
    assert_snapshot!(group_text(&labels, &[]), @"pg-p-u0 of Pod min=1 queue=b-a100 class=train");
}

#[test]
fn a_topology_level_without_a_topology_reports_the_missing_annotation() {
    let of = |annotations: Value| {
        group_text(
            &json!({}),
            &[link("Job", json!({ "metadata": { "annotations": annotations } }))],
        )
    };
    assert_snapshot!(of(json!({ "kai.scheduler/topology-required-placement": "rack" })), @"annotation kai.scheduler/topology: got nothing with kai.scheduler/topology-required-placement set, expected the name of a Topology");
    let preferred = json!({ "kai.scheduler/topology": "", "kai.scheduler/topology-preferred-placement": "rack" });
    assert_snapshot!(of(preferred), @"annotation kai.scheduler/topology: got nothing with kai.scheduler/topology-preferred-placement set, expected the name of a Topology");
}

#[test]
fn labels_choose_priority_class_and_preemptibility() {
    let labels = |preemptibility: &str| json!({ "priorityClassName": "build", "kai.scheduler/preemptibility": preemptibility });
    assert_snapshot!(group_text(&labels("preemptible"), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=build preemptible");
    assert_snapshot!(group_text(&labels("maybe"), &[]), @"label kai.scheduler/preemptibility: got maybe, expected preemptible or non-preemptible");
}

#[test]
fn for_unlisted_kinds_the_nearest_owner_with_a_value_wins() {
    let owner_with = |class: &str, preemptibility: &str, delay: &str| {
        json!({ "metadata": {
            "labels": { "priorityClassName": class, "kai.scheduler/preemptibility": preemptibility },
            "annotations": { "kai.scheduler/preemption-delay": delay } } })
    };
    let of = |pod: Value, kinds: [&str; 3], objects: [Value; 3]| {
        let chain: Vec<OwnerLink> =
            kinds.into_iter().zip(objects).map(|(k, o)| link(k, o)).collect();
        group_text(&pod, &chain).lines().next().unwrap().to_owned()
    };
    let seldon = ["ReplicaSet", "Deployment", "machinelearning.seldon.io/SeldonDeployment"];
    let middle = || owner_with("build", "preemptible", "5m");
    let top = || owner_with("inference", "non-preemptible", "1m");
    assert_snapshot!(of(json!({}), seldon, [json!({}), middle(), top()]), @"pg-seldondeployment-u1 of SeldonDeployment min=1 queue=default-queue class=build preemptible delay=5m");
    assert_snapshot!(of(json!({}), seldon, [owner_with("gone", "", ""), middle(), top()]), @"pg-seldondeployment-u1 of SeldonDeployment min=1 queue=default-queue class=build delay=5m");
    let train = json!({ "priorityClassName": "train",
                        "kai.scheduler/preemptibility": "non-preemptible" });
    assert_snapshot!(of(train, seldon, [json!({}), middle(), top()]), @"pg-seldondeployment-u1 of SeldonDeployment min=1 queue=default-queue class=train preemptible delay=5m");
    let ray = ["ReplicaSet", "ray.io/RayCluster", "ray.io/RayJob"];
    assert_snapshot!(of(json!({}), ray, [json!({}), middle(), top()]), @"pg-rayjob-u1 of RayJob min=1 queue=default-queue class=inference non-preemptible delay=1m");
}

#[test]
fn several_owner_references_require_a_controller() {
    let owned = json!({ "metadata": { "ownerReferences": [{ "kind": "A" }, { "kind": "B" }] } });
    assert_snapshot!(group_text(&json!({}), &[link("StatefulSet", owned)]), @"metadata.ownerReferences of StatefulSet statefulset: got 2 owners, expected one, or one with controller: true");
}

#[test]
fn a_group_inherits_labels_and_annotations_of_its_owner_and_names_it() {
    let metadata = json!({
        "labels": { "team": "vision" },
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kai.scheduler/preemption-delay": "10m",
            "kai.scheduler/staleness-grace-period": "-1s",
        },
    });
    let pod = json!({ "metadata": { "name": "p", "labels": { "user": "ada" } } });
    let (pods, classes, defaults) = &Default::default();
    let around = GroupingContext {
        pods,
        classes,
        pool_label: "pool",
        defaults,
        related_object: None,
        karta: None,
        cycle_budget: &CycleBudget::new(),
    };
    let group_of = |chain: &[OwnerLink]| {
        group_of(
            &ObjectKey::from_object(&pod),
            &PodRecord::from_object(&pod, "kai-scheduler"),
            chain,
            around,
        )
    };
    let manifest =
        group_of(&[link("Job", json!({ "metadata": metadata }))]).unwrap().group.manifest();
    assert_snapshot!(serde_json::to_string_pretty(&manifest).unwrap(), @r#"
    {
      "apiVersion": "scheduling.run.ai/v2alpha2",
      "kind": "PodGroup",
      "metadata": {
        "annotations": {
          "kai.scheduler/preemption-delay": "10m",
          "kai.scheduler/staleness-grace-period": "-1s",
          "kai.scheduler/top-owner-metadata": "name: job\nuid: u1\ngroup: batch\nversion: v1\nkind: Job\n",
          "schedlab.dev/derived-spec": "{\"minMember\":1,\"minSubGroup\":null,\"preemptibility\":null,\"preemptionDelay\":\"10m\",\"priorityClassName\":\"train\",\"stalenessGracePeriod\":\"-1s\",\"subGroups\":null,\"topologyConstraint\":null}"
        },
        "labels": {
          "kai.scheduler/queue": "default-queue",
          "team": "vision",
          "user": "ada"
        },
        "name": "pg-job-u1",
        "namespace": "",
        "ownerReferences": [
          {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "job",
            "uid": "u1"
          }
        ]
      },
      "spec": {
        "minMember": 1,
        "preemptionDelay": "10m",
        "priorityClassName": "train",
        "queue": "default-queue",
        "stalenessGracePeriod": "-1s"
      }
    }
    "#);
    assert_snapshot!(group_of(&[link("Job", json!({ "metadata": { "annotations": { "kai.scheduler/preemption-delay": "soon" } } }))]).unwrap_err(), @"annotation kai.scheduler/preemption-delay: got soon, expected a duration such as 90s or 1h30m");
}
