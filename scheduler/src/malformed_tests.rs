//! Robustness against malformed objects: whatever an API server lets through, the scheduler keeps
//! scheduling all other pods.

use schedlab_api::{Value, json};
use schedlab_scheduler_core::{Decision, Profile, schedule};

use crate::{
    cache::ClusterCache, config::Flavor, parse::version, records::ObjectKey,
    snapshot_builder::SnapshotBuilder, watch::Kind,
};

/// Unexpected values that a test substitutes for any field.
pub(crate) fn unexpected_values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(-0.5),
        json!(""),
        json!("-1"),
        json!("9223372036854775808"),
        json!("1e400"),
        json!("NaN"),
        json!("-9999999h"),
        json!("9999-99-99T99:99:99Z"),
        json!("default/../x \u{0} é"),
        json!([]),
        json!([null, 1, "x", {}, []]),
        json!({}),
        json!({ "": { "": null } }),
    ]
}

/// YAML of one object per kind, with all fields that the scheduler reads.
const ALL_KINDS_YAML: &str = r#"
kind: Pod
metadata:
  {name: odd, namespace: ns, uid: u, resourceVersion: "7", creationTimestamp: "2026-01-01T00:00:00Z",
   labels: {kai.scheduler/subgroup-name: a, kai.scheduler/task-priority: "1"},
   annotations: {pod-group-name: odd, gpu-memory: "100", gpu-fraction-num-devices: "1"},
   ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: v, controller: true}]}
spec:
  schedulerName: kai-scheduler
  priority: 5
  preemptionPolicy: Never
  containers:
  - {name: c, image: i, ports: [{hostPort: 80, protocol: TCP}],
     resources: {requests: {cpu: "1", memory: 1Gi}, limits: {nvidia.com/gpu: 1}}}
  initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: "1"}}}]
  overhead: {cpu: 1m}
  nodeSelector: {a: b}
  tolerations: [{key: k, operator: Exists, effect: NoExecute}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}]
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [x]}]}}
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {labelSelector: {matchLabels: {a: b}}, namespaces: [ns],
         namespaceSelector: {matchLabels: {a: b}}, topologyKey: z}
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {labelSelector: {}, topologyKey: z}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {labelSelector: {matchExpressions: [{key: a, operator: Exists}]}, topologyKey: z}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, minDomains: 1}
status:
  {phase: Pending, startTime: "2026-01-01T00:00:00Z",
   conditions: [{type: PodScheduled, status: "False", message: m}]}
---
kind: Pod
metadata: {name: standing, namespace: ns, deletionTimestamp: "2026-01-01T00:00:00Z",
           deletionGracePeriodSeconds: 30, annotations: {pod-group-name: odd}}
spec:
  {schedulerName: kai-scheduler, nodeName: good, containers: [{resources: {requests: {cpu: "1"}}}]}
status: {phase: Running}
---
kind: Namespace
metadata: {name: ns, labels: {a: b}}
---
kind: Node
metadata: {name: odd, labels: {z: z, a: "2"}}
spec: {taints: [{key: k, effect: NoSchedule}], unschedulable: false}
status:
  {allocatable: {cpu: "8", nvidia.com/gpu: "8", pods: "110"},
   conditions: [{type: Ready, status: "True"}]}
---
kind: Queue
metadata: {name: odd}
spec:
  parentQueue: ""
  priority: 1
  preemptMinRuntime: 1s
  reclaimMinRuntime: 1s
  resources:
    gpu: {quota: 1, overQuotaWeight: 1, limit: -1}
    cpu: {quota: 1, overQuotaWeight: 1, limit: -1}
    memory: {quota: 1, overQuotaWeight: 1, limit: -1}
status: {allocated: {cpu: "1"}, childQueues: [x]}
---
kind: PodGroup
metadata:
  name: odd
  namespace: ns
  annotations: {kai.scheduler/last-start-timestamp: "2026-01-01T00:00:00Z"}
spec:
  {minMember: 1, minSubGroup: 1, queue: odd, priorityClassName: odd, preemptibility: preemptible,
   stalenessGracePeriod: 1s, preemptionDelay: 1s, schedulingBackoff: 1, markUnschedulable: false,
   subGroups: [{name: a, minMember: 1, parent: b}, {name: b, minSubGroup: 1}]}
---
kind: PriorityClass
metadata: {name: odd}
value: 7
---
kind: PodDisruptionBudget
metadata: {name: odd, namespace: ns}
spec: {selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]}}
status: {disruptionsAllowed: 1, disruptedPods: {x: "2026-01-01T00:00:00Z"}}
---
kind: DeviceClass
metadata: {name: odd}
spec: {selectors: [{cel: {expression: device.driver == 'odd'}}]}
---
kind: ResourceSlice
metadata: {name: odd, uid: s}
spec:
  driver: odd
  pool: {name: odd, generation: 1, resourceSliceCount: 1}
  perDeviceNodeSelection: true
  devices:
  - {name: a, nodeName: good, attributes: {a: {int: 1}}, capacity: {c: {value: 1Gi}}}
  - name: b
    nodeSelector:
      nodeSelectorTerms:
      - matchExpressions: [{key: a, operator: Gt, values: ["1"]}]
        matchFields: [{key: metadata.name, operator: In, values: [good]}]
  - {name: c, allNodes: true}
"#;

/// YAML of a valid pod, and of a node that only this pod tolerates.
const VALID_POD_YAML: &str = "
kind: Node
metadata: {name: good}
spec: {taints: [{key: good, effect: NoSchedule}]}
status:
  {allocatable: {nvidia.com/gpu: '8', pods: '110'}, conditions: [{type: Ready, status: 'True'}]}
---
kind: Queue
metadata: {name: good}
spec:
  resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}
---
kind: PodGroup
metadata: {name: good, namespace: ns}
spec: {queue: good}
---
kind: Pod
metadata: {name: good, namespace: ns, annotations: {pod-group-name: good}}
spec:
  schedulerName: kai-scheduler
  tolerations: [{key: good, operator: Exists}]
  containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]
";

fn parse_objects(yaml: &str) -> Vec<(Kind, Value)> {
    let object = |text| {
        let object: Value = serde_yaml::from_str(text).unwrap();
        let kind = match object["kind"].as_str().unwrap() {
            "Namespace" => Kind::Namespace,
            "Node" => Kind::Node,
            "Queue" => Kind::Queue,
            "PodGroup" => Kind::PodGroup,
            "PriorityClass" => Kind::PriorityClass,
            "PodDisruptionBudget" => Kind::PodDisruptionBudget,
            "DeviceClass" => Kind::DeviceClass,
            "ResourceSlice" => Kind::ResourceSlice,
            _ => Kind::Pod,
        };
        (kind, object)
    };
    yaml.split("---\n").map(object).collect()
}

/// JSON Pointers of all values in an object, including the object itself.
pub(crate) fn all_pointers(value: &Value, at: &str) -> Vec<String> {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    let inner: Vec<String> = match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(key, field)| all_pointers(field, &format!("{at}/{}", escaped(key))))
            .collect(),
        Value::Array(items) => (0..)
            .zip(items)
            .flat_map(|(index, item): (usize, _)| all_pointers(item, &format!("{at}/{index}")))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    inner.into_iter().chain([at.to_owned()]).collect()
}

fn binds_valid_pod(cache: &mut ClusterCache, flavor: Flavor, profile: &Profile) -> bool {
    cache.changes.everything = true;
    let mut translator = SnapshotBuilder::new(flavor, 0);
    translator.refresh(cache);
    let snapshot = &translator.built.snapshot;
    let plan = schedule(snapshot, profile);
    plan.decisions.iter().any(|decision| match decision {
        Decision::Bind { pod, .. } => &*snapshot.pods[pod.0 as usize].name == "good",
        Decision::Evict { .. } | Decision::Pipeline { .. } => false,
    })
}

/// Every object of [`ALL_KINDS_YAML`] with every unexpected value in every field, with a
/// description.
fn objects_with_unexpected_values() -> Vec<(Kind, String, Value)> {
    let mut odd = Vec::new();
    for (kind, whole) in parse_objects(ALL_KINDS_YAML) {
        let changes = all_pointers(&whole, "").into_iter().flat_map(|pointer| {
            unexpected_values().into_iter().map(move |odd_value| (pointer.clone(), odd_value))
        });
        for (pointer, odd_value) in changes {
            let mut object = whole.clone();
            let what = format!("{kind:?} {pointer} = {odd_value}");
            *object.pointer_mut(&pointer).expect("the pointer is of this object") = odd_value;
            odd.push((kind, what, object));
        }
    }
    odd
}

#[test]
fn any_value_in_any_field_leaves_the_rest_scheduled() {
    let flavors = [(Flavor::Kai, Profile::kai()), (Flavor::Kube, Profile::kube())];
    let around: Vec<_> =
        parse_objects(VALID_POD_YAML).into_iter().chain(parse_objects(ALL_KINDS_YAML)).collect();
    let good = ObjectKey { namespace: "ns".into(), name: "good".into() };
    for ((kind, what, object), (flavor, profile)) in
        objects_with_unexpected_values().iter().zip(flavors.iter().cycle())
    {
        let mut cache = ClusterCache::new("kai-scheduler");
        for (kind, object) in &around {
            cache.upsert(*kind, object);
        }
        cache.upsert(*kind, object);
        assert!(binds_valid_pod(&mut cache, *flavor, profile), "{flavor:?} {what}");
        cache.remove(*kind, ObjectKey::from_object(object), version(object));
        assert!(cache.pods.contains_key(&good), "{what}");
    }
}
