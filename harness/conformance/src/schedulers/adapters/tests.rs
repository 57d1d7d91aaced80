//! The same queues and gangs in every API.

use std::fmt::Write as _;

use insta::assert_snapshot;
use schedlab_api::{annotations, json, labels};

use super::*;

/// A queue with a quota and a limit for GPUs; -1 is unlimited.
fn queue(name: &str, parent: &str, quota: i64, limit: i64) -> Value {
    let free = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let gpu = json!({"quota": quota, "limit": limit, "overQuotaWeight": 1});
    json!({"apiVersion": api_versions::QUEUE, "kind": "Queue", "metadata": {"name": name},
           "spec": {"parentQueue": parent, "resources": {"gpu": gpu, "cpu": free, "memory": free}}})
}

fn nodes(gpus: &[u32]) -> Vec<Value> {
    let node =
        |gpus: &u32| json!({"status": {"allocatable": {"nvidia.com/gpu": gpus.to_string()}}});
    gpus.iter().map(node).collect()
}

/// Departments and teams, with limits, an unlimited queue and one without a quota.
fn departments() -> Vec<Value> {
    let mut queues = vec![
        queue("department", "", 16, 20),
        queue("a", "department", 8, -1),
        queue("b", "department", 4, 6),
        queue("guest", "", 0, -1),
    ];
    queues[1]["spec"]["resources"]["cpu"] = json!({"quota": 2500, "limit": 6000});
    queues[2]["spec"]["resources"]["memory"] = json!({"quota": 0, "limit": 64_000});
    queues
}

/// A line for each object that the API has for these queues on three nodes with 8 GPUs.
fn queue_objects(api: QueueApi, queues: &[Value]) -> String {
    let adapter = api.adapter().expect("the API is not KAI's");
    match adapter.queue_objects(&Queues::from_kai(queues), &nodes(&[8, 8, 8])) {
        Err(unsupported) => format!("unsupported {unsupported}"),
        Ok(objects) => objects.iter().map(one_line).collect::<Vec<_>>().join("\n"),
    }
}

/// Kind, name and content of an object.
fn one_line(object: &Value) -> String {
    let (kind, name) = (object["kind"].as_str().unwrap(), &object["metadata"]["name"]);
    match object["data"]["queues.yaml"].as_str() {
        Some(yaml) => format!("{kind} {name}:\n{yaml}"),
        None => format!("{kind} {name}: {}", object["spec"]),
    }
}

/// KAI's PodGroup and its pods.
fn gang(name: &str, minimum: u32, pods: u32) -> Vec<Value> {
    let group = json!({
        "apiVersion": api_versions::POD_GROUP,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns", "labels": {(WORKLOAD_LABEL): name}},
        "spec": {"queue": "a", "minMember": minimum, "priorityClassName": "train"},
    });
    let member = |index: u32| {
        let mut pod = pod(&format!("{name}-{index}"));
        pod["metadata"]["annotations"] = json!({(annotations::POD_GROUP_NAME): name});
        pod
    };
    [vec![group], (0..pods).map(member).collect()].concat()
}

fn pod(name: &str) -> Value {
    let requests = json!({"requests": {"cpu": "1", "nvidia.com/gpu": "1"}});
    json!({"apiVersion": "v1", "kind": "Pod",
           "metadata": {"name": name, "namespace": "ns", "labels": {(labels::QUEUE): "a"}},
           "spec": {"schedulerName": "s", "containers": [{"name": "main", "resources": requests}]}})
}

fn job(minimum: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job",
           "metadata": {"name": "job", "namespace": "ns", "labels": {(labels::QUEUE): "a"},
                        "annotations": {(annotations::BATCH_MIN_MEMBER): minimum}},
           "spec": {"parallelism": 4, "template": {"spec": {"containers": []}}}})
}

/// What the APIs add to these objects, a line for each object that is added or changed.
fn translated(queues: QueueApi, gangs: GangApi, mut objects: Vec<Value>) -> String {
    let translator = Translator {
        queue_api: queues,
        gang_api: gangs,
        scheduler: "s".to_owned(),
        queues: Queues::from_kai(&departments()),
        known_groups: Vec::new(),
    };
    let before = objects.clone();
    let translation = match translator.translate(&mut objects.iter_mut().collect::<Vec<_>>()) {
        Ok(translation) => translation,
        Err(unsupported) => return format!("unsupported {unsupported}"),
    };
    let mut text = String::new();
    for (index, object) in translation.prerequisites {
        let _ = writeln!(text, "before {index}: {}", one_line(&object));
    }
    for (index, object) in translation.additions {
        let _ = writeln!(text, "added {index}: {}", one_line(&object));
    }
    for (object, before) in objects.iter().zip(&before).filter(|(after, before)| after != before) {
        let pod = if object["kind"] == "Job" { &object["spec"]["template"] } else { object };
        let kept = if object["kind"] == "Job" { &before["spec"]["template"] } else { before };
        let _ = write!(text, "{}:", object["metadata"]["name"].as_str().unwrap());
        for part in ["labels", "annotations"] {
            let all = pod["metadata"][part].as_object().into_iter().flatten();
            for (key, value) in
                all.filter(|(key, _)| kept["metadata"][part][key.as_str()].is_null())
            {
                let _ = write!(text, " {key}={}", value.as_str().unwrap());
            }
        }
        if !pod["spec"]["schedulingGroup"].is_null() {
            let _ = write!(text, " schedulingGroup={}", pod["spec"]["schedulingGroup"]);
        }
        text.push('\n');
    }
    text
}

#[test]
fn queues_become_cluster_queues_and_cohorts() {
    assert_snapshot!(queue_objects(QueueApi::Kueue, &departments()), @r#"
    ResourceFlavor "schedlab-nodes": null
    Cohort "schedlab-everybody": {"resourceGroups":[{"coveredResources":["nvidia.com/gpu","cpu","memory"],"flavors":[{"name":"schedlab-nodes","resources":[{"name":"nvidia.com/gpu","nominalQuota":"8"},{"name":"cpu","nominalQuota":"0m"},{"name":"memory","nominalQuota":"0M"}]}]}]}
    Cohort "department": {"fairSharing":{"weight":"1"},"parentName":"schedlab-everybody","resourceGroups":[{"coveredResources":["nvidia.com/gpu","cpu","memory"],"flavors":[{"name":"schedlab-nodes","resources":[{"borrowingLimit":"4","name":"nvidia.com/gpu","nominalQuota":"4"},{"name":"cpu","nominalQuota":"0m"},{"name":"memory","nominalQuota":"0M"}]}]}]}
    ClusterQueue "a": {"cohortName":"department","fairSharing":{"weight":"1"},"namespaceSelector":{},"preemption":{"reclaimWithinCohort":"Any","withinClusterQueue":"LowerPriority"},"resourceGroups":[{"coveredResources":["nvidia.com/gpu","cpu","memory"],"flavors":[{"name":"schedlab-nodes","resources":[{"name":"nvidia.com/gpu","nominalQuota":"8"},{"borrowingLimit":"3500m","name":"cpu","nominalQuota":"2500m"},{"name":"memory","nominalQuota":"1000000000M"}]}]}]}
    ClusterQueue "b": {"cohortName":"department","fairSharing":{"weight":"1"},"namespaceSelector":{},"preemption":{"reclaimWithinCohort":"Any","withinClusterQueue":"LowerPriority"},"resourceGroups":[{"coveredResources":["nvidia.com/gpu","cpu","memory"],"flavors":[{"name":"schedlab-nodes","resources":[{"borrowingLimit":"2","name":"nvidia.com/gpu","nominalQuota":"4"},{"name":"cpu","nominalQuota":"1000000000m"},{"borrowingLimit":"64000M","name":"memory","nominalQuota":"0M"}]}]}]}
    ClusterQueue "guest": {"cohortName":"schedlab-everybody","fairSharing":{"weight":"1"},"namespaceSelector":{},"preemption":{"reclaimWithinCohort":"Any","withinClusterQueue":"LowerPriority"},"resourceGroups":[{"coveredResources":["nvidia.com/gpu","cpu","memory"],"flavors":[{"name":"schedlab-nodes","resources":[{"name":"nvidia.com/gpu","nominalQuota":"0"},{"name":"cpu","nominalQuota":"1000000000m"},{"name":"memory","nominalQuota":"1000000000M"}]}]}]}
    "#);
}

#[test]
fn queues_become_queues_of_volcano_parents_first() {
    assert_snapshot!(queue_objects(QueueApi::Volcano, &departments()), @r#"
    Queue "department": {"capability":{"nvidia.com/gpu":"20"},"deserved":{"nvidia.com/gpu":"16"},"parent":"root","reclaimable":true,"weight":1}
    Queue "guest": {"deserved":{"nvidia.com/gpu":"0"},"parent":"root","reclaimable":true,"weight":1}
    Queue "a": {"capability":{"cpu":"6000m","nvidia.com/gpu":"20"},"deserved":{"cpu":"2500m","nvidia.com/gpu":"8"},"parent":"department","reclaimable":true,"weight":1}
    Queue "b": {"capability":{"memory":"64000M","nvidia.com/gpu":"6"},"deserved":{"memory":"0M","nvidia.com/gpu":"4"},"parent":"department","reclaimable":true,"weight":1}
    "#);
}

#[test]
fn queues_become_the_queue_configuration_of_yunikorn() {
    assert_snapshot!(queue_objects(QueueApi::YuniKorn, &departments()), @r#"
    ConfigMap "yunikorn-configs":
    partitions:
    - name: default
      placementrules:
      - create: false
        name: provided
      queues:
      - name: root
        parent: true
        queues:
        - name: department
          parent: true
          queues:
          - name: a
            resources:
              guaranteed:
                nvidia.com/gpu: '8'
                vcore: 2500m
              max:
                nvidia.com/gpu: '20'
                vcore: 6000m
          - name: b
            resources:
              guaranteed:
                nvidia.com/gpu: '4'
              max:
                memory: 64000M
                nvidia.com/gpu: '6'
          resources:
            guaranteed:
              nvidia.com/gpu: '16'
            max:
              nvidia.com/gpu: '20'
        - name: guest
        - name: default
        submitacl: '*'
    "#);
}

#[test]
fn a_scheduler_without_queues_runs_what_no_limit_restricts() {
    let unlimited = [queue("a", "", 8, -1), queue("b", "", 4, 24)];
    assert_snapshot!(queue_objects(QueueApi::None, &unlimited), @"");
    assert_snapshot!(queue_objects(QueueApi::None, &departments()), @r#"unsupported quota: the scheduler has no queues, and queue "a" has a limit of 6000m cpu"#);
}

#[test]
fn a_queue_of_yunikorn_with_a_limit_of_0_has_a_maximum_that_yunikorn_does_not_ignore() {
    let mut queues = departments();
    queues.retain(|queue| queue["metadata"]["name"] == "guest");
    queues[0]["spec"]["resources"] =
        json!({"gpu": {"quota": 2, "limit": 0}, "cpu": {"limit": -1}, "memory": {"limit": -1}});
    let objects = queue_objects(QueueApi::YuniKorn, &queues);
    let resources: Vec<&str> =
        objects.lines().skip_while(|line| !line.contains("resources:")).take(4).collect();
    let resources: Vec<&str> = resources.iter().map(|line| line.trim()).collect();
    assert_eq!(resources, ["resources:", "max:", "nvidia.com/gpu: '0'", "pods: 1000000"]);
}

/// A change of the departments that some API cannot express.
fn changed(change: impl Fn(&mut Value)) -> String {
    let mut queues = departments();
    queues.iter_mut().for_each(change);
    let apis = [QueueApi::Kueue, QueueApi::Volcano, QueueApi::YuniKorn];
    let line = |api: QueueApi| {
        let objects = queue_objects(api, &queues);
        let found = objects.lines().find(|line| line.starts_with("unsupported"));
        format!("{api:?}: {}", found.unwrap_or("written"))
    };
    apis.map(line).join("\n")
}

#[test]
fn what_an_api_cannot_say_of_queues_is_a_capability_with_its_reason() {
    let of = |name: &'static str, at: &'static [&'static str], value: Value| {
        changed(move |queue| {
            if queue["metadata"]["name"] == *name {
                let field = at.iter().fold(&mut queue["spec"], |field, key| &mut field[*key]);
                *field = value.clone();
            }
        })
    };
    assert_snapshot!(of("a", &["reclaimMinRuntime"], json!("5m")), @r#"
    Kueue: unsupported min-runtime: a ClusterQueue has no minimum runtime, and queue "a" has
    Volcano: unsupported min-runtime: a Queue of Volcano has no minimum runtime, and queue "a" has
    YuniKorn: unsupported min-runtime: a queue of YuniKorn has no minimum runtime, and queue "a" has
    "#);
    assert_snapshot!(of("a", &["priority"], json!(200)), @"
    Kueue: unsupported queue-priority: a ClusterQueue has no priority
    Volcano: written
    YuniKorn: written
    ");
    assert_snapshot!(of("a", &["resources", "gpu", "overQuotaWeight"], json!(3)), @r#"
    Kueue: written
    Volcano: written
    YuniKorn: unsupported fair-share: a queue of YuniKorn has no weight, and queue "a" has
    "#);
    assert_snapshot!(of("a", &["resources", "gpu", "overQuotaWeight"], json!(0)), @r#"
    Kueue: written
    Volcano: unsupported fair-share: the weight of a Queue of Volcano is a whole number from 1 on, and that of queue "a" is 0
    YuniKorn: unsupported fair-share: a queue of YuniKorn has no weight, and queue "a" has
    "#);
    assert_snapshot!(of("a", &["resources", "gpu", "quota"], json!(13)), @r#"
    Kueue: written
    Volcano: unsupported hierarchy: Volcano rejects queues that deserve more than their parent: below queue "department" they deserve 17 nvidia.com/gpu, and it deserves 16
    YuniKorn: unsupported hierarchy: YuniKorn rejects queues to which more is guaranteed than to their parent: below queue "department" it is 17 nvidia.com/gpu, and that queue has 16
    "#);
    assert_snapshot!(of("guest", &["resources", "gpu", "quota"], json!(0.5)), @"
    Kueue: unsupported shared-gpus: Kueue counts whole GPUs, and a queue has a part of one
    Volcano: written
    YuniKorn: unsupported shared-gpus: YuniKorn counts whole GPUs, and a queue has a part of one
    ");
    assert_snapshot!(of("a", &["parentQueue"], json!("ghost")), @r#"
    Kueue: written
    Volcano: unsupported queue-checks: the parents of a queue must exist, and "ghost" does not
    YuniKorn: unsupported queue-checks: the parents of a queue must exist, and "ghost" does not
    "#);
    assert_snapshot!(of("department", &["parentQueue"], json!("a")), @r#"
    Kueue: unsupported hierarchy: the queues below "a" have more quota than its limit, and Kueue grants each its quota
    Volcano: unsupported queue-checks: queue "a" is below itself, expected a tree
    YuniKorn: unsupported queue-checks: queue "a" is below itself, expected a tree
    "#);
}

#[test]
fn gangs_become_groups_of_pods_of_kueue() {
    let of = |objects| translated(QueueApi::Kueue, GangApi::Kueue, objects);
    assert_snapshot!(of(gang("train", 2, 2)), @r#"
    before 1: LocalQueue "a": {"clusterQueue":"a"}
    train-0: kueue.x-k8s.io/managed=true kueue.x-k8s.io/pod-group-name=train kueue.x-k8s.io/queue-name=a kueue.x-k8s.io/pod-group-total-count=2
    train-1: kueue.x-k8s.io/managed=true kueue.x-k8s.io/pod-group-name=train kueue.x-k8s.io/queue-name=a kueue.x-k8s.io/pod-group-total-count=2
    "#);
    assert_snapshot!(of(gang("train", 2, 3)), @"unsupported elastic: a group of pods has a size and no smaller minimum");
    assert_snapshot!(of(gang("train", 1, 1)), @r#"
    before 1: LocalQueue "a": {"clusterQueue":"a"}
    train-0: kueue.x-k8s.io/managed=true kueue.x-k8s.io/queue-name=a
    "#);
    assert_snapshot!(of(vec![pod("single")]), @r#"
    before 0: LocalQueue "a": {"clusterQueue":"a"}
    single: kueue.x-k8s.io/managed=true kueue.x-k8s.io/queue-name=a
    "#);
    assert_snapshot!(of(vec![job("4")]), @r#"
    before 0: LocalQueue "a": {"clusterQueue":"a"}
    job: kueue.x-k8s.io/managed=true kueue.x-k8s.io/pod-group-name=job kueue.x-k8s.io/queue-name=a kueue.x-k8s.io/pod-group-total-count=4
    "#);
    assert_snapshot!(of(vec![job("2")]), @"unsupported elastic: a group of pods has a size and no smaller minimum");
}

#[test]
fn gangs_become_pod_groups_of_volcano() {
    let of = |objects| translated(QueueApi::Volcano, GangApi::Volcano, objects);
    assert_snapshot!(of(gang("train", 2, 3)), @r#"
    added 0: PodGroup "train": {"minMember":2,"priorityClassName":"train","queue":"a"}
    train-0: scheduling.k8s.io/group-name=train scheduling.volcano.sh/queue-name=a
    train-1: scheduling.k8s.io/group-name=train scheduling.volcano.sh/queue-name=a
    train-2: scheduling.k8s.io/group-name=train scheduling.volcano.sh/queue-name=a
    "#);
    assert_snapshot!(of(vec![pod("single"), job("4")]), @r#"
    added 1: PodGroup "job": {"minMember":4,"queue":"a"}
    single: scheduling.volcano.sh/queue-name=a
    job: scheduling.k8s.io/group-name=job scheduling.volcano.sh/queue-name=a
    "#);
}

#[test]
fn gangs_become_pod_groups_of_kubernetes() {
    let of = |objects| translated(QueueApi::None, GangApi::Kubernetes, objects);
    assert_snapshot!(of(gang("train", 2, 3)), @r#"
    added 0: PodGroup "train": {"priorityClassName":"train","schedulingPolicy":{"gang":{"minCount":2}}}
    train-0: schedulingGroup={"podGroupName":"train"}
    train-1: schedulingGroup={"podGroupName":"train"}
    train-2: schedulingGroup={"podGroupName":"train"}
    "#);
    assert_snapshot!(of(vec![pod("single"), job("4")]), @r#"
    added 1: PodGroup "job": {"disruptionMode":{"all":{}},"schedulingPolicy":{"gang":{"minCount":4}}}
    job: schedulingGroup={"podGroupName":"job"}
    "#);
}

#[test]
fn gangs_become_pod_groups_of_the_coscheduling_plugin() {
    let of = |objects| translated(QueueApi::None, GangApi::Coscheduling, objects);
    assert_snapshot!(of(gang("train", 2, 3)), @r#"
    added 0: PodGroup "train": {"minMember":2}
    train-0: scheduling.x-k8s.io/pod-group=train
    train-1: scheduling.x-k8s.io/pod-group=train
    train-2: scheduling.x-k8s.io/pod-group=train
    "#);
    assert_snapshot!(of(vec![pod("single"), job("4")]), @r#"
    added 1: PodGroup "job": {"minMember":4}
    job: scheduling.x-k8s.io/pod-group=job
    "#);
}

#[test]
fn gangs_become_task_groups_of_yunikorn() {
    let of = |objects| translated(QueueApi::YuniKorn, GangApi::YuniKorn, objects);
    assert_snapshot!(of(gang("train", 2, 2)), @r#"
    train-0: applicationId=ns-train yunikorn.apache.org/queue=root.department.a yunikorn.apache.org/schedulingPolicyParameters=placeholderTimeoutInSeconds=604800 gangSchedulingStyle=Hard yunikorn.apache.org/task-group-name=train yunikorn.apache.org/task-groups=[{"minMember":2,"minResource":{"cpu":"1","nvidia.com/gpu":"1"},"name":"train"}]
    train-1: applicationId=ns-train yunikorn.apache.org/queue=root.department.a yunikorn.apache.org/schedulingPolicyParameters=placeholderTimeoutInSeconds=604800 gangSchedulingStyle=Hard yunikorn.apache.org/task-group-name=train yunikorn.apache.org/task-groups=[{"minMember":2,"minResource":{"cpu":"1","nvidia.com/gpu":"1"},"name":"train"}]
    "#);
    assert_snapshot!(of(vec![pod("single"), job("4")]), @r#"
    single: applicationId=ns-single yunikorn.apache.org/queue=root.department.a
    job: applicationId=ns-job yunikorn.apache.org/queue=root.department.a yunikorn.apache.org/schedulingPolicyParameters=placeholderTimeoutInSeconds=604800 gangSchedulingStyle=Hard yunikorn.apache.org/task-group-name=job yunikorn.apache.org/task-groups=[{"minMember":4,"minResource":{},"name":"job"}]
    "#);
}

#[test]
fn a_target_without_gangs_runs_single_pods() {
    let of = |objects| translated(QueueApi::None, GangApi::None, objects);
    assert_snapshot!(of(gang("train", 2, 2)), @"unsupported gang: the scheduler starts pods one by one");
    assert_snapshot!(of(gang("train", 1, 1)), @"");
}

/// What each API makes of a gang whose PodGroup is changed.
fn changed_gang(change: impl Fn(&mut Value)) -> String {
    let mut objects = gang("train", 2, 2);
    change(&mut objects[0]["spec"]);
    for (pod, part) in objects.iter_mut().skip(1).zip(["leader", "workers"]) {
        pod["metadata"]["labels"][labels::SUB_GROUP] = json!(part);
    }
    let apis = [
        GangApi::Kueue,
        GangApi::Volcano,
        GangApi::Kubernetes,
        GangApi::Coscheduling,
        GangApi::YuniKorn,
    ];
    let text = |api| format!("{api:?}: {}", translated(QueueApi::None, api, objects.clone()));
    apis.map(text).join("\n")
}

#[test]
fn sub_groups_are_tasks_and_task_groups_or_unsupported() {
    let parts = json!([{"name": "leader", "minMember": 1}, {"name": "workers", "minMember": 1}]);
    assert_snapshot!(changed_gang(|spec| spec["subGroups"] = parts.clone()), @r#"
    Kueue: unsupported sub-groups: a group of pods has one size for all of its pods
    Volcano: added 0: PodGroup "train": {"minMember":2,"minTaskMember":{"leader":1,"workers":1},"priorityClassName":"train","queue":"a"}
    train-0: scheduling.k8s.io/group-name=train volcano.sh/task-spec=leader
    train-1: scheduling.k8s.io/group-name=train volcano.sh/task-spec=workers

    Kubernetes: unsupported sub-groups: a PodGroup has one minimum for all of its pods
    Coscheduling: unsupported sub-groups: a PodGroup has one minimum for all of its pods
    YuniKorn: train-0: applicationId=ns-train yunikorn.apache.org/schedulingPolicyParameters=placeholderTimeoutInSeconds=604800 gangSchedulingStyle=Hard yunikorn.apache.org/task-group-name=leader yunikorn.apache.org/task-groups=[{"minMember":1,"minResource":{"cpu":"1","nvidia.com/gpu":"1"},"name":"leader"},{"minMember":1,"minResource":{"cpu":"1","nvidia.com/gpu":"1"},"name":"workers"}]
    train-1: applicationId=ns-train yunikorn.apache.org/schedulingPolicyParameters=placeholderTimeoutInSeconds=604800 gangSchedulingStyle=Hard yunikorn.apache.org/task-group-name=workers yunikorn.apache.org/task-groups=[{"minMember":1,"minResource":{"cpu":"1","nvidia.com/gpu":"1"},"name":"leader"},{"minMember":1,"minResource":{"cpu":"1","nvidia.com/gpu":"1"},"name":"workers"}]
    "#);
    let nested = json!([{"name": "a", "parent": "b", "minMember": 1}]);
    assert_snapshot!(changed_gang(|spec| spec["subGroups"] = nested.clone()), @"
    Kueue: unsupported sub-groups: only KAI's PodGroups have sub-groups within sub-groups
    Volcano: unsupported sub-groups: only KAI's PodGroups have sub-groups within sub-groups
    Kubernetes: unsupported sub-groups: only KAI's PodGroups have sub-groups within sub-groups
    Coscheduling: unsupported sub-groups: only KAI's PodGroups have sub-groups within sub-groups
    YuniKorn: unsupported sub-groups: only KAI's PodGroups have sub-groups within sub-groups
    ");
}

#[test]
fn fields_of_kais_pod_groups_alone_are_unsupported() {
    assert_snapshot!(changed_gang(|spec| spec["schedulingBackoff"] = json!(1)), @"
    Kueue: unsupported pod-groups: only KAI's PodGroups have the field schedulingBackoff
    Volcano: unsupported pod-groups: only KAI's PodGroups have the field schedulingBackoff
    Kubernetes: unsupported pod-groups: only KAI's PodGroups have the field schedulingBackoff
    Coscheduling: unsupported pod-groups: only KAI's PodGroups have the field schedulingBackoff
    YuniKorn: unsupported pod-groups: only KAI's PodGroups have the field schedulingBackoff
    ");
    let topology = json!({"topology": "hall", "requiredTopologyLevel": "rack"});
    assert_snapshot!(changed_gang(|spec| spec["topologyConstraint"] = topology.clone()), @"
    Kueue: unsupported topology: topology constraints of gangs are written in KAI's API alone
    Volcano: unsupported topology: topology constraints of gangs are written in KAI's API alone
    Kubernetes: unsupported topology: topology constraints of gangs are written in KAI's API alone
    Coscheduling: unsupported topology: topology constraints of gangs are written in KAI's API alone
    YuniKorn: unsupported topology: topology constraints of gangs are written in KAI's API alone
    ");
}

#[test]
fn pods_with_a_node_and_pods_of_other_schedulers_are_left_alone() {
    let mut pods = [pod("bound"), pod("foreign")];
    pods[0]["spec"]["nodeName"] = json!("node-1");
    pods[1]["spec"]["schedulerName"] = json!("another");
    assert_eq!(translated(QueueApi::Kueue, GangApi::Kueue, pods.to_vec()), "");
}

#[test]
fn kais_objects_are_written_as_they_are() {
    assert_eq!(translated(QueueApi::Kai, GangApi::Kai, gang("train", 2, 3)), "");
}

#[test]
fn apis_report_gangs_and_the_use_of_queues() {
    let condition = |kind: &str, status: &str| {
        json!({"status": {"phase": "Pending",
        "conditions": [{"type": kind, "status": status, "message": "8 GPUs are missing"}]}})
    };
    let of = |api: GangApi, object: &Value| {
        let adapter = api.adapter().unwrap();
        let path = adapter.status_path("ns", "train").unwrap_or_default();
        format!("{path}: {:?}", adapter.gang_status(object))
    };
    let lines = [
        of(GangApi::Kueue, &condition("QuotaReserved", "False")),
        of(GangApi::Kueue, &condition("QuotaReserved", "True")),
        of(GangApi::Volcano, &condition("Unschedulable", "True")),
        of(GangApi::Volcano, &json!({"status": {"phase": "Running"}})),
        of(GangApi::Kubernetes, &condition("PodGroupInitiallyScheduled", "False")),
        of(GangApi::Coscheduling, &json!({"status": {"phase": "Scheduling"}})),
        of(GangApi::YuniKorn, &json!({})),
    ];
    assert_snapshot!(lines.join("\n"), @r#"
    /apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/train: Some(Pending("8 GPUs are missing"))
    /apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/train: Some(Admitted)
    /apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/train: Some(Pending("8 GPUs are missing"))
    /apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/train: Some(Admitted)
    /apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/train: Some(Pending("8 GPUs are missing"))
    /apis/scheduling.x-k8s.io/v1alpha1/namespaces/ns/podgroups/train: Some(Pending("its phase is Scheduling"))
    : None
    "#);
    let use_of = |api: QueueApi, status: Value| {
        let adapter = api.adapter().unwrap();
        let used = adapter.reported_use(&json!({"status": status}), QueueResource::Gpu);
        format!("{}: {used:?}", adapter.use_path("team").unwrap_or_default())
    };
    let resources =
        json!([{"name": "cpu", "total": "2"}, {"name": "nvidia.com/gpu", "total": "8"}]);
    let lines = [
        use_of(QueueApi::Kueue, json!({"flavorsUsage": [{"name": "x", "resources": resources}]})),
        use_of(QueueApi::Volcano, json!({"allocated": {"nvidia.com/gpu": "8"}})),
        use_of(QueueApi::YuniKorn, json!({})),
    ];
    assert_snapshot!(lines.join("\n"), @r#"
    /apis/kueue.x-k8s.io/v1beta2/clusterqueues/team: Some(String("8"))
    /apis/scheduling.volcano.sh/v1beta1/queues/team: Some(String("8"))
    : None
    "#);
}

#[test]
fn queues_without_a_parent_get_the_root_queue() {
    let mut queues = departments();
    put_below_root(queues.iter_mut(), "root");
    let parents: Vec<&Value> = queues.iter().map(|queue| &queue["spec"]["parentQueue"]).collect();
    assert_eq!(parents, ["root", "department", "department", "root"]);
}
