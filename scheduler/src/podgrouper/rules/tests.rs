//! Tables: owners and a pod in, group out.

use insta::assert_snapshot;
use schedlab_json::json;

use super::{parts::MIN_MEMBER_ANNOTATION, *};
use crate::karta::Kartas;

mod grove;
mod karta;
mod ray;
mod trees;

/// `group/Kind`, or a built-in kind.
fn link(kind: &str, object: Value) -> Link {
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
    Link { owner, object }
}

fn told(pod_labels: &Value, chain: &[Link]) -> String {
    told_with(&json!({ "labels": pod_labels }), chain, (&[], None))
}

/// The group of a pod with this metadata, among others with these labels.
fn told_with(metadata: &Value, chain: &[Link], around: (&[Value], Option<&Value>)) -> String {
    told_by(&json!(null), (metadata, chain), around)
}

/// The same, where a config map says what kinds of owners have by default.
fn told_by(
    defaults: &Value,
    pod_and_chain: (&Value, &[Link]),
    around: (&[Value], Option<&Value>),
) -> String {
    told_among(&Kartas::default(), defaults, pod_and_chain, around)
}

fn pod_of(name: &str, metadata: &Value) -> Value {
    let mut pod = json!({ "metadata": metadata });
    for (field, value) in [("name", name), ("namespace", "ns"), ("uid", "u0")] {
        pod["metadata"][field] = json!(value);
    }
    pod
}

/// The same, where Kartas say how kinds are grouped.
fn told_among(
    kartas: &Kartas,
    defaults: &Value,
    (metadata, chain): (&Value, &[Link]),
    (others, beside): (&[Value], Option<&Value>),
) -> String {
    let pod = |name: &str, metadata: &Value| {
        let pod = pod_of(name, metadata);
        (Key::of(&pod), PodRecord::read(&pod, "kai-scheduler"))
    };
    let classes = ["train", "inference", "build"]
        .map(|name| (Name::from(name), ClassRecord { value: 1, global_default: false }));
    let classes = BTreeMap::from(classes);
    let (key, record) = pod("p", metadata);
    let others = others.iter().map(|labels| pod("other", &json!({ "labels": labels })));
    let whole = pod_of("p", metadata);
    let karta = described(chain).and_then(|owner| kartas.of(&owner.api_version, &owner.kind));
    let around = Around {
        karta: karta.map(|karta| (karta, &whole)),
        allowance: &Allowance::new(),
        pods: &others.collect(),
        classes: &classes,
        pool_label: "kai.scheduler/node-pool",
        beside,
        defaults: &Defaults::read(&json!({ "data": { "types": defaults } }), &classes).0,
    };
    let member = match group_of(&key, &record, chain, around) {
        Ok(member) => member,
        Err(malformed) => return malformed.to_string(),
    };
    let Member { group, part } = member;
    let mut told = format!(
        "{} of {} min={} queue={} class={}{}{}",
        group.name,
        group.owner.kind,
        group.min_parts.map_or_else(|| group.min_member.to_string(), |min| format!("{min} parts")),
        group.queue,
        group.priority_class,
        group.preemptibility.as_ref().map(|is| format!(" {is}")).unwrap_or_default(),
        group.preemption_delay.as_ref().map(|is| format!(" delay={is}")).unwrap_or_default(),
    );
    let spec = group.derived_spec();
    if let Some(constraint) = spec["topologyConstraint"].as_object() {
        told = format!("{told}\n  within {}", Value::from(constraint.clone()));
    }
    for part in spec["subGroups"].as_array().into_iter().flatten() {
        told = format!("{told}\n  {part}");
    }
    if let Some(doubt) = group.doubt {
        told = format!("{told}\n  {}", super::super::warnings::told(&doubt, &group.name).1);
    }
    match part {
        Some(part) => format!("{told}\n  the pod: {part}"),
        None => told,
    }
}

#[test]
fn a_pod_without_owner_is_its_own_group() {
    assert_snapshot!(told(&json!({}), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=train");
}

#[test]
fn each_pod_of_a_deployment_is_a_group_that_serves() {
    let labels = json!({ "metadata": { "labels": { "kai.scheduler/queue": "a" } } });
    let chain = [link("ReplicaSet", json!({})), link("Deployment", labels)];
    assert_snapshot!(told(&json!({}), &chain), @"pg-p-u0 of Pod min=1 queue=a class=inference");
}

#[test]
fn what_kinds_have_by_default_holds_where_nobody_says_otherwise() {
    let types = json!([
        { "typeName": "Deployment", "group": "apps", "priorityName": "train" },
        { "typeName": "DynamoGraphDeployment", "priorityName": "build", "preemptibility": "preemptible" },
        { "typeName": "Pod", "preemptibility": "non-preemptible" },
    ]);
    let of = |labels: Value, chain: &[Link]| {
        let metadata = json!({ "labels": labels });
        told_by(&json!(types.to_string()), (&metadata, chain), (&[], None))
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
fn a_job_is_a_gang_only_when_it_says_so() {
    let job = |annotations: Value| {
        let object = json!({ "metadata": { "annotations": annotations },
                             "spec": { "parallelism": 8 } });
        vec![link("Job", object)]
    };
    assert_snapshot!(told(&json!({ "project": "b" }), &job(json!({}))), @"pg-job-u1 of Job min=1 queue=b class=train");
    let stated = |text: &str| job(json!({ MIN_MEMBER_ANNOTATION: text }));
    assert_snapshot!(told(&json!({}), &stated("4")), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
    assert_snapshot!(told(&json!({}), &stated("-4")), @r#"annotation kai.scheduler/batch-min-member: found "-4", allowed: an integer from 1 to 2147483647"#);
    let of_cron_job = [stated("4").remove(0), link("CronJob", json!({}))];
    assert_snapshot!(told(&json!({}), &of_cron_job), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
    let workflow = link("argoproj.io/Workflow", stated("3").remove(0).object);
    assert_snapshot!(told(&json!({}), &[job(json!({})).remove(0), workflow]), @"pg-job-u1 of Job min=3 queue=default-queue class=train");
}

#[test]
fn a_minimum_of_more_pods_than_a_job_has_at_once_is_in_doubt() {
    let of = |spec: Value| {
        let annotations = json!({ MIN_MEMBER_ANNOTATION: "4" });
        let object = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        told(&json!({}), &[link("Job", object)])
    };
    assert_snapshot!(of(json!({ "parallelism": 3 })), @r"
    pg-job-u1 of Job min=4 queue=default-queue class=train
      annotation kai.scheduler/batch-min-member: found 4, while at most 3 of its pods run at once, allowed: no more than spec.parallelism and spec.completions; PodGroup pg-job-u1 waits for pods that do not come: lower its minMember, too
    ");
    assert_snapshot!(of(json!({ "parallelism": 4, "completions": 2 })), @r"
    pg-job-u1 of Job min=4 queue=default-queue class=train
      annotation kai.scheduler/batch-min-member: found 4, while at most 2 of its pods run at once, allowed: no more than spec.parallelism and spec.completions; PodGroup pg-job-u1 waits for pods that do not come: lower its minMember, too
    ");
    assert_snapshot!(of(json!({ "parallelism": 4, "completions": 9 })), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
    assert_snapshot!(of(json!({ "parallelism": 0 })), @"pg-job-u1 of Job min=4 queue=default-queue class=train");
}

/// A `StatefulSet` makes one pod after the other: a minimum of several would wait for ever.
#[test]
fn the_minimum_of_a_job_says_nothing_on_other_kinds() {
    let annotations = json!({ MIN_MEMBER_ANNOTATION: "3" });
    let stating = |kind: &str, spec: Value| {
        link(kind, json!({ "metadata": { "annotations": annotations }, "spec": spec }))
    };
    let of = |kind: &str| told(&json!({}), &[stating(kind, json!({}))]);
    assert_snapshot!(of("StatefulSet"), @"pg-statefulset-u1 of StatefulSet min=1 queue=default-queue class=train");
    assert_snapshot!(of("ReplicaSet"), @"pg-replicaset-u1 of ReplicaSet min=1 queue=default-queue class=train");
    assert_snapshot!(of("kubeflow.org/Notebook"), @"pg-notebook-u1 of Notebook min=1 queue=default-queue class=build");
    assert_snapshot!(of("egx.nvidia.io/SPOTRequest"), @"pg-spotrequest-u1 of SPOTRequest min=1 queue=default-queue class=inference");
    assert_snapshot!(of("run.ai/RunaiJob"), @"pg-p-u1 of RunaiJob min=1 queue=default-queue class=train");
    assert_snapshot!(of("ray.io/RayService"), @"pg-rayservice-u1 of RayService min=1 queue=default-queue class=train");
    let own = [stating("Job", json!({})), link("example.com/Sweep", json!({}))];
    assert_snapshot!(told(&json!({}), &own), @"pg-sweep-u1 of Sweep min=1 queue=default-queue class=train");
    let torch = json!({ "pytorchReplicaSpecs": { "Worker": { "replicas": 5 } } });
    assert_snapshot!(told(&json!({}), &[stating("PyTorchJob", torch)]).lines().next().unwrap(), @"pg-pytorchjob-u1 of PyTorchJob min=5 queue=default-queue class=train");
    let tensor = json!({ "tfReplicaSpecs": { "Worker": { "replicas": 5 } } });
    assert_snapshot!(told(&json!({}), &[stating("kubeflow.org/TFJob", tensor)]), @"pg-tfjob-u1 of TFJob min=5 queue=default-queue class=train");
}

#[test]
fn other_kinds_are_groups_of_minimum_one_under_their_top_owner() {
    let of = |kind| told(&json!({}), &[link(kind, json!({ "spec": { "replicas": 3 } }))]);
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
    assert_snapshot!(told(&json!({}), &chain), @"pg-revision-u1 of Revision min=3 queue=default-queue class=inference");
}

#[test]
fn a_spark_driver_and_its_executors_are_one_group() {
    let labels = json!({ "spark-app-name": "pi", "spark-app-selector": "spark-1" });
    assert_snapshot!(told(&labels, &[]), @"spark-1 of Pod min=1 queue=default-queue class=train");
    assert_snapshot!(told(&labels, &[link("Pod", json!({}))]), @"spark-1 of Pod min=1 queue=default-queue class=train");
}

#[test]
fn each_job_of_a_cron_job_is_a_group() {
    let chain = [link("Job", json!({})), link("CronJob", json!({}))];
    assert_snapshot!(told(&json!({}), &chain), @"pg-job-u1 of Job min=1 queue=default-queue class=train");
}

#[test]
fn a_project_has_a_queue_for_each_node_pool() {
    let labels = json!({ "project": "b", "kai.scheduler/node-pool": "a100" });
    assert_snapshot!(told(&labels, &[]), @"pg-p-u0 of Pod min=1 queue=b-a100 class=train");
}

#[test]
fn a_level_without_its_topology_is_told_by_the_annotation_that_is_missing() {
    let of = |annotations: Value| {
        told(&json!({}), &[link("Job", json!({ "metadata": { "annotations": annotations } }))])
    };
    assert_snapshot!(of(json!({ "kai.scheduler/topology-required-placement": "rack" })), @"annotation kai.scheduler/topology: found nothing beside kai.scheduler/topology-required-placement, allowed: the name of a Topology");
    let preferred = json!({ "kai.scheduler/topology": "", "kai.scheduler/topology-preferred-placement": "rack" });
    assert_snapshot!(of(preferred), @"annotation kai.scheduler/topology: found nothing beside kai.scheduler/topology-preferred-placement, allowed: the name of a Topology");
}

#[test]
fn labels_choose_priority_class_and_preemptibility() {
    let labels = |preemptibility: &str| json!({ "priorityClassName": "build", "kai.scheduler/preemptibility": preemptibility });
    assert_snapshot!(told(&labels("preemptible"), &[]), @"pg-p-u0 of Pod min=1 queue=default-queue class=build preemptible");
    assert_snapshot!(told(&labels("maybe"), &[]), @"label kai.scheduler/preemptibility: found maybe, allowed: preemptible or non-preemptible");
}

#[test]
fn where_no_kind_decides_every_owner_has_its_say_the_nearest_first() {
    let says = |class: &str, preemptibility: &str, delay: &str| {
        json!({ "metadata": {
            "labels": { "priorityClassName": class, "kai.scheduler/preemptibility": preemptibility },
            "annotations": { "kai.scheduler/preemption-delay": delay } } })
    };
    let of = |pod: Value, kinds: [&str; 3], objects: [Value; 3]| {
        let chain: Vec<Link> = kinds.into_iter().zip(objects).map(|(k, o)| link(k, o)).collect();
        told(&pod, &chain).lines().next().unwrap().to_owned()
    };
    let seldon = ["ReplicaSet", "Deployment", "machinelearning.seldon.io/SeldonDeployment"];
    let middle = || says("build", "preemptible", "5m");
    let top = || says("inference", "non-preemptible", "1m");
    assert_snapshot!(of(json!({}), seldon, [json!({}), middle(), top()]), @"pg-seldondeployment-u1 of SeldonDeployment min=1 queue=default-queue class=build preemptible delay=5m");
    assert_snapshot!(of(json!({}), seldon, [says("gone", "", ""), middle(), top()]), @"pg-seldondeployment-u1 of SeldonDeployment min=1 queue=default-queue class=build delay=5m");
    let train = json!({ "priorityClassName": "train",
                        "kai.scheduler/preemptibility": "non-preemptible" });
    assert_snapshot!(of(train, seldon, [json!({}), middle(), top()]), @"pg-seldondeployment-u1 of SeldonDeployment min=1 queue=default-queue class=train preemptible delay=5m");
    let ray = ["ReplicaSet", "ray.io/RayCluster", "ray.io/RayJob"];
    assert_snapshot!(of(json!({}), ray, [json!({}), middle(), top()]), @"pg-rayjob-u1 of RayJob min=1 queue=default-queue class=inference non-preemptible delay=1m");
}

#[test]
fn of_several_owners_above_the_pod_one_has_to_be_the_controller() {
    let owned = json!({ "metadata": { "ownerReferences": [{ "kind": "A" }, { "kind": "B" }] } });
    assert_snapshot!(told(&json!({}), &[link("StatefulSet", owned)]), @"metadata.ownerReferences of StatefulSet statefulset: found 2 owners, allowed: one, or one with controller: true");
}

#[test]
fn a_group_keeps_what_is_written_on_its_owner_and_says_who_that_is() {
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
    let around = Around {
        pods,
        classes,
        pool_label: "pool",
        defaults,
        beside: None,
        karta: None,
        allowance: &Allowance::new(),
    };
    let group_of = |chain: &[Link]| {
        group_of(&Key::of(&pod), &PodRecord::read(&pod, "kai-scheduler"), chain, around)
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
          "kai.scheduler/top-owner-metadata": "name: job\nuid: u1\ngroup: batch\nversion: v1\nkind: Job\n"
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
    assert_snapshot!(group_of(&[link("Job", json!({ "metadata": { "annotations": { "kai.scheduler/preemption-delay": "soon" } } }))]).unwrap_err(), @"annotation kai.scheduler/preemption-delay: found soon, allowed: a duration such as 90s or 1h30m");
}
