//! Malformed objects that the API server accepts: other workloads are scheduled, and a message on
//! the object names the invalid field.

use std::fmt::Write as _;

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_emulator::store::Resource;

use crate::lab::Lab;

/// Values that are invalid in most fields.
fn odd_values() -> Vec<Value> {
    vec![
        json!(true),
        json!(0),
        json!(-1),
        json!(i32::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(-0.5),
        json!(""),
        json!("-1"),
        json!("x"),
        json!("9223372036854775807"),
        json!("9999999h"),
        json!("-5m"),
        json!("2026-13-99T99:99:99Z"),
        json!("a/b"),
        json!("ü\n\u{7f}"),
        json!([]),
        json!([{}]),
        json!({}),
        json!({ "x": "y" }),
    ]
}

/// One object of each kind with all fields that the scheduler reads.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  namespace: default
  labels: {kai.scheduler/queue: odd, kai.scheduler/subgroup-name: default, kai.scheduler/task-priority: "1",
           kai.scheduler/preemptibility: preemptible, priorityClassName: train, team: odd}
  annotations: {pod-group-name: odd, kai.scheduler/skip-podgrouper: "true", schedlab.dev/run-time: 1h,
                kai.scheduler/preemption-delay: 1s, kai.scheduler/staleness-grace-period: 1s}
spec:
  schedulerName: kai-scheduler
  priorityClassName: train
  preemptionPolicy: PreemptLowerPriority
  containers:
  - {name: c, image: i, ports: [{containerPort: 80, hostPort: 80, protocol: TCP}],
     resources: {requests: {cpu: "1", memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}
  initContainers: [{name: s, image: i, restartPolicy: Always, resources: {requests: {cpu: "1"}}}]
  nodeSelector: {team: odd}
  tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: rank, operator: Gt, values: ["1"]}]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [x]}]}}
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {labelSelector: {matchLabels: {team: odd}}, topologyKey: z}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {labelSelector: {matchExpressions: [{key: team, operator: Exists}]}, namespaces: [default], topologyKey: z}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, minDomains: 1}
---
apiVersion: v1
kind: Node
metadata: {labels: {team: odd, rank: "2", z: z, nvidia.com/gpu.memory: "81920"}}
spec: {taints: [{key: k, value: v, effect: NoSchedule}], unschedulable: false}
status:
  capacity: {cpu: "8", nvidia.com/gpu: "8", pods: "110", memory: 8Gi}
  allocatable: {cpu: "8", nvidia.com/gpu: "8", pods: "110", memory: 8Gi}
  images: [{names: [i], sizeBytes: 7}]
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {}
spec:
  parentQueue: top
  priority: 1
  preemptMinRuntime: 1s
  reclaimMinRuntime: 1s
  resources:
    gpu: {quota: 1, overQuotaWeight: 1, limit: -1}
    cpu: {quota: 1, overQuotaWeight: 1, limit: -1}
    memory: {quota: 1, overQuotaWeight: 1, limit: -1}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  namespace: default
  annotations: {kai.scheduler/last-start-timestamp: "2026-01-01T00:00:00Z", kai.scheduler/stale-podgroup-timestamp: "2026-01-01T00:00:00Z"}
spec:
  {minMember: 1, queue: odd, priorityClassName: train, preemptibility: preemptible,
   stalenessGracePeriod: 1s, preemptionDelay: 1s, markUnschedulable: true, schedulingBackoff: 1,
   topologyConstraint: {topology: t, requiredTopologyLevel: z},
   subGroups: [{name: default, minMember: 1, parent: b}, {name: b, minSubGroup: 1}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {}
value: 7
preemptionPolicy: Never
---
apiVersion: batch/v1
kind: Job
metadata:
  namespace: default
  labels: {kai.scheduler/queue: odd, priorityClassName: train, kai.scheduler/preemptibility: preemptible}
  annotations: {kai.scheduler/batch-min-member: "1", kai.scheduler/preemption-delay: 1s, kai.scheduler/staleness-grace-period: 1s}
spec:
  parallelism: 1
  template:
    metadata: {labels: {team: odd}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]
"#;

fn resource(object: &Value) -> Resource {
    let (group, plural) = match object["kind"].as_str().unwrap_or_default() {
        "Pod" => ("", "pods"),
        "Node" => ("", "nodes"),
        "Queue" => ("scheduling.run.ai", "queues"),
        "PodGroup" => ("scheduling.run.ai", "podgroups"),
        "PriorityClass" => ("scheduling.k8s.io", "priorityclasses"),
        "Job" => ("batch", "jobs"),
        other => panic!("add kind {other} to `resource`"),
    };
    Resource::new(group, plural)
}

fn objects(yaml: &str) -> Vec<Value> {
    yaml.split("---\n")
        .map(|text| serde_yaml::from_str(text).expect("the manifests are YAML"))
        .collect()
}

/// JSON pointers of a value and all values inside it.
fn pointers(value: &Value, at: &str) -> Vec<String> {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    let inner: Vec<String> = match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, field)| pointers(field, &format!("{at}/{}", escape(key))))
            .collect(),
        Value::Array(items) => (0..)
            .zip(items)
            .flat_map(|(index, item): (usize, _)| pointers(item, &format!("{at}/{index}")))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    inner.into_iter().chain([at.to_owned()]).collect()
}

/// Fields that keep their value: the kind, and the number of pods that a controller creates.
const FIXED_FIELDS: [&str; 3] = ["/apiVersion", "/kind", "/spec/parallelism"];

/// A pseudo-random number generator.
struct SeededRng(u64);

impl SeededRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits fit") % bound
    }

    fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }

    /// An object of this name in which one to three fields have odd values.
    fn odd_object(&mut self, name: &str) -> Value {
        let mut object = self.pick(&objects(OBJECTS)).clone();
        for _ in 0..=self.below(3) {
            let mut fields = pointers(&object, "");
            fields.retain(|at| at.len() > 1 && !FIXED_FIELDS.contains(&at.as_str()));
            let odd_value = self.pick(&odd_values()).clone();
            let pointer: &String = self.pick(&fields);
            if let Some(field) = object.pointer_mut(pointer) {
                *field = odd_value;
            }
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["name"] = json!(name);
        object
    }
}

/// A queue, and a node that only pods named `good-*` tolerate.
fn create_good_neighbours(lab: &Lab) {
    lab.queue("good", 8, -1);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "good", "labels": { "good": "yes" } },
        "spec": { "taints": [{ "key": "good", "effect": "NoSchedule" }] },
        "status": { "allocatable": { "cpu": "64", "memory": "1Ti", "nvidia.com/gpu": "1000", "pods": "1000" } },
    });
    lab.create("", "nodes", &node);
}

fn good_pod(number: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("good-{number}"), "namespace": "default",
                      "labels": { "kai.scheduler/queue": "good" } },
        "spec": {
            "schedulerName": "kai-scheduler",
            "nodeSelector": { "good": "yes" },
            "tolerations": [{ "key": "good", "operator": "Exists" }],
            "containers": [{ "name": "c", "image": "i", "resources": { "limits": { "nvidia.com/gpu": 1 } } }],
        },
    })
}

/// A pending pod of our scheduler that has no message.
fn without_message(pod: &Value) -> Option<String> {
    let text = |at| pod.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let is_pending = text("/spec/schedulerName") == "kai-scheduler"
        && text("/spec/nodeName").is_empty()
        && text("/status/phase") == "Pending"
        && pod.pointer("/metadata/deletionTimestamp").is_none();
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let has_message = conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "PodScheduled"
            && condition["message"].as_str().is_some_and(|words| !words.is_empty())
    });
    (is_pending && !has_message).then(|| pod.to_string())
}

/// Creates sixty odd objects and a good pod; returns the number of objects that the API server
/// accepted.
async fn odd_round(lab: &mut Lab, rng: &mut SeededRng, round: u32) -> u32 {
    let mut accepted = 0;
    for number in 0..60 {
        let odd = rng.odd_object(&format!("odd-{round}-{number}"));
        accepted += u32::from(lab.emulator.create(&resource(&odd), odd.clone()).is_ok());
    }
    lab.create("", "pods", &good_pod(round));
    lab.advance(20).await;
    accepted
}

fn is_good_and_runs(pod: &Value) -> bool {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    name.starts_with("good-") && pod["status"]["phase"] == "Running"
}

/// Runs a cluster with odd and good objects for a seed; returns the number of odd objects that the
/// API server accepted.
fn odd_cluster(seed: u64) -> u32 {
    Lab::run(async |mut lab| {
        let mut rng = SeededRng(seed);
        let mut accepted = 0;
        create_good_neighbours(&lab);
        lab.queue("top", 8, -1);
        lab.start();
        for round in 0..4 {
            accepted += odd_round(&mut lab, &mut rng, round).await;
            let pods = lab.list("", "pods");
            let good = pods.iter().filter(|pod| is_good_and_runs(pod)).count();
            assert_eq!(good, round as usize + 1, "seed {seed} round {round}");
            let silent: Vec<String> = pods.iter().filter_map(without_message).collect();
            assert!(silent.is_empty(), "seed {seed} round {round}: {}", silent.join("\n"));
        }
        accepted
    })
}

#[test]
fn odd_values_in_any_field_are_reported_and_do_not_stop_other_pods() {
    let accepted: u32 = (1..=6).map(odd_cluster).sum();
    assert!(accepted > 100, "the API server accepted only {accepted} objects");
}

/// The messages about malformed objects, on pending pods, on queues and in events.
fn messages(yaml: &str) -> String {
    Lab::run(async |mut lab| {
        create_good_neighbours(&lab);
        lab.nodes(1, 8);
        lab.queue("odd", 8, -1);
        lab.start();
        for object in objects(yaml) {
            lab.emulator
                .create(&resource(&object), object)
                .expect("the API server accepts the object");
        }
        lab.create("", "pods", &good_pod(0));
        lab.advance(20).await;
        let mut text: String = lab
            .pods()
            .lines()
            .filter(|pod| pod.contains("odd"))
            .fold(String::new(), |text, pod| text + pod + "\n");
        let queues = lab.list("scheduling.run.ai", "queues");
        let conditions =
            queues.iter().filter_map(|queue| queue["status"]["conditions"].as_array()).flatten();
        for condition in conditions.filter(|condition| condition["type"] == "Unusable") {
            writeln!(text, "Queue: {}", condition["message"])
                .expect("writing to a string succeeds");
        }
        for event in lab.events().lines().filter(|event| event.contains("Malformed")) {
            writeln!(text, "event: {event}").expect("writing to a string succeeds");
        }
        assert!(lab.pods().contains("good-0 Running good"), "{}", lab.pods());
        text
    })
}

/// A pod with these additional lines of metadata and spec.
fn pod(metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: odd\n  namespace: default\n  {metadata}\nspec:\n  \
         schedulerName: kai-scheduler\n  containers: [{{name: c, image: i}}]\n  {spec}\n"
    )
}

#[test]
fn messages_on_pods_name_the_invalid_field() {
    let queue = "labels: {kai.scheduler/queue: odd}";
    let affinity = |term: &str| {
        let terms = format!("nodeSelectorTerms: [{{matchExpressions: [{term}]}}]");
        pod(
            queue,
            &format!(
                "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{{terms}}}}}}}"
            ),
        )
    };
    let pods = [
        affinity("{key: rank, operator: Gt, values: [many]}"),
        pod("labels: {kai.scheduler/queue: odd, kai.scheduler/task-priority: high}", ""),
        pod("labels: {kai.scheduler/queue: odd, kai.scheduler/preemptibility: perhaps}", ""),
        pod("annotations: {pod-group-name: nobody}", ""),
        pod("labels: {kai.scheduler/queue: nowhere}", ""),
    ];
    assert_snapshot!(pods.map(|pod| messages(&pod)).concat(), @r"
    odd Pending -: The pod cannot be scheduled: spec.affinity: values: got many, expected an integer for Gt and Lt
    odd Running n-0
    event: Pod Malformed label kai.scheduler/task-priority: got high, expected an integer of 32 bits; the label is ignored until it is fixed
    odd Pending -: The pod cannot be put into a PodGroup: label kai.scheduler/preemptibility: got perhaps, expected preemptible or non-preemptible
    odd Pending -: PodGroup nobody, named in annotation pod-group does not exist
    odd Pending -: Queue 'nowhere' does not exist
    ");
}

#[test]
fn messages_on_queues_and_pod_groups_name_the_invalid_field() {
    let queue = |spec: &str| {
        format!(
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: bad}}\nspec: {{{spec}}}\n"
        )
    };
    let gpu = |gpu: &str| queue(&format!("resources: {{gpu: {{{gpu}}}}}"));
    let group = |spec: &str| {
        let pod = pod("annotations: {pod-group-name: odd}", "");
        format!(
            "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {{name: odd, namespace: default}}\nspec: {{queue: odd, {spec}}}\n---\n{pod}"
        )
    };
    let messages = [
        messages(&gpu("quota: -7")),
        messages(&gpu("limit: 1.0e+30")),
        messages(&gpu("overQuotaWeight: -3")),
        messages(&queue("preemptMinRuntime: soon")),
        messages(&queue("parentQueue: ghost")),
        messages(&queue("parentQueue: bad")),
        messages(&group("stalenessGracePeriod: soon")),
        messages(&group("preemptionDelay: later")),
        messages(&group("subGroups: [{name: a}, {name: a}]")),
        messages(&group("subGroups: [{name: a, parent: b}, {name: b, parent: a}]")),
        messages(&group("subGroups: [{name: default}]")),
        messages(&group("topologyConstraint: {topology: nowhere}")),
        messages(&group("topologyConstraint: {topology: nowhere, preferredTopologyLevel: rack}")),
    ];
    assert_snapshot!(messages.concat(), @r#"
    Queue: "Queue 'bad' cannot be used: spec.resources.gpu.quota: got -7, expected -1 (unlimited), or 0 to 9200000000000000 devices"
    Queue: "Queue 'bad' cannot be used: spec.resources.gpu.limit: got 1e+30, expected -1 (unlimited), or 0 to 9200000000000000 devices"
    Queue: "Queue 'bad' cannot be used: spec.resources.gpu.overQuotaWeight: got -3, expected -1 (no weight, as with 0), or 0 to 9200000000000000"
    Queue: "Queue 'bad' cannot be used: spec.preemptMinRuntime: got \"soon\", expected a duration such as 90s or 1h30m, not negative"
    Queue: "Queue 'bad' cannot be used: its parent 'ghost' does not exist"
    Queue: "Queue 'bad' cannot be used: spec.parentQueue forms a cycle: bad -> bad"
    odd Pending -: PodGroup odd cannot be scheduled: spec.stalenessGracePeriod: got "soon", expected a duration such as 90s or 1h30m
    event: PodGroup Malformed spec.stalenessGracePeriod: got "soon", expected a duration such as 90s or 1h30m
    odd Pending -: PodGroup odd cannot be scheduled: spec.preemptionDelay: got "later", expected a duration such as 90s or 1h30m
    event: PodGroup Malformed spec.preemptionDelay: got "later", expected a duration such as 90s or 1h30m
    odd Pending -: PodGroup odd cannot be scheduled: spec.subGroups: name: got a, expected a name that no other sub-group has
    event: PodGroup Malformed spec.subGroups: name: got a, expected a name that no other sub-group has
    odd Pending -: PodGroup odd cannot be scheduled: spec.subGroups: parent: got a circle, expected the name of another sub-group, from which parents lead to the root
    event: PodGroup Malformed spec.subGroups: parent: got a circle, expected the name of another sub-group, from which parents lead to the root
    odd Pending -: PodGroup odd cannot be scheduled: spec.subGroups[0].minMember: got nothing of default, expected minMember, as the sub-group has no child sub-groups
    event: PodGroup Malformed spec.subGroups[0].minMember: got nothing of default, expected minMember, as the sub-group has no child sub-groups
    odd Pending -: PodGroup odd cannot be scheduled: spec.topologyConstraint: got topology nowhere without a level, expected requiredTopologyLevel, preferredTopologyLevel or both beside it
    event: PodGroup Malformed spec.topologyConstraint: got topology nowhere without a level, expected requiredTopologyLevel, preferredTopologyLevel or both beside it
    odd Pending -: topology nowhere with level rack does not exist
    "#);
}

#[test]
fn messages_on_workloads_name_the_invalid_annotation() {
    let job = |annotations: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: odd, namespace: default, labels: {{kai.scheduler/queue: odd}}, annotations: {{{annotations}}}}}\n\
             spec: {{template: {{spec: {{schedulerName: kai-scheduler, restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}\n"
        )
    };
    let messages = [
        messages(&job("kai.scheduler/batch-min-member: many")),
        messages(&job("kai.scheduler/batch-min-member: \"-1\"")),
    ];
    assert_snapshot!(messages.concat(), @r#"
    odd-qtxqh Pending -: The pod cannot be put into a PodGroup: annotation kai.scheduler/batch-min-member: got "many", expected an integer from 1 to 2147483647
    odd-qtxqh Pending -: The pod cannot be put into a PodGroup: annotation kai.scheduler/batch-min-member: got "-1", expected an integer from 1 to 2147483647
    "#);
}
