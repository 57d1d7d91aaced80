//! Converts raw API objects to the audit's views. Conversion never fails: invalid parts are left
//! out, and the rules check the rest.

mod devices;
mod gpu_fractions;
mod numa;
mod queue_status;

use std::collections::BTreeMap;

use schedlab_api::{
    Value, annotations, conditions, labels,
    pointer::{at, list, text},
    quantity::thousandths,
    resources,
};

use crate::change::condition_of_type;
use crate::rules::{
    Amounts, GroupView, Labels, Name, NodeSelectorTerm, NodeView, Operator, Phase, PodView,
    QueueView, Requirement, SubGroupView, Taint, TaintEffect, Toleration,
};

pub(crate) use devices::{ObservedDevices, claim_view};
pub use devices::{claim_names, claimed_gpu_milli};
pub(crate) use gpu_fractions::add_gpu_fractions;
pub use gpu_fractions::{
    charged_fraction_milli, gpu_memory_mib, is_reservation_pod, shared_device_names,
};
pub(crate) use numa::add_numa_zones;
pub(crate) use queue_status::reported_allocation;

/// KAI's default priority classes and their values, for clusters in which these classes were not
/// created.
const KAI_PRIORITY_CLASSES: [(&str, i32); 4] =
    [("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125)];

pub(crate) fn node_view(node: &Value) -> NodeView {
    let ready = list(node, "/status/conditions").iter().any(|condition| {
        text(condition, "/type") == Some(conditions::READY)
            && text(condition, "/status") == Some("True")
    });
    NodeView {
        allocatable: parse_amounts(at(node, "/status/allocatable")),
        labels: parse_labels(at(node, "/metadata/labels")),
        taints: list(node, "/spec/taints").iter().filter_map(parse_taint).collect(),
        cordoned: bool_at(node, "/spec/unschedulable"),
        ready,
        numa_zones: BTreeMap::new(),
        is_single_numa_node: false,
    }
}

pub(crate) fn queue_view(queue: &Value) -> QueueView {
    QueueView {
        parent: text(queue, "/spec/parentQueue").filter(|name| !name.is_empty()).map(Name::from),
        quota: queue_bounds(queue, "quota"),
        limit: queue_bounds(queue, "limit"),
    }
}

/// The amounts in `spec.resources.*.{quota,limit}` of a queue, in thousandths. The API's units are
/// GPUs, millicores and megabytes; -1 is unlimited, a missing value is 0.
fn queue_bounds(queue: &Value, field: &str) -> Amounts {
    let listed = [("gpu", resources::GPU, 1), ("cpu", "cpu", 1000), ("memory", "memory", 0)];
    let bounds = listed.into_iter().filter_map(|(resource, name, divisor)| {
        let found = at(queue, &format!("/spec/resources/{resource}/{field}"));
        let bound = found.and_then(thousandths).unwrap_or(0);
        let amount = if divisor == 0 { bound * 1_000_000 } else { bound / divisor };
        (bound != -1000).then(|| (Name::from(name), amount))
    });
    bounds.collect()
}

pub(crate) fn group_view(group: &Value, priorities: &BTreeMap<String, i32>) -> GroupView {
    let class = text(group, "/spec/priorityClassName").unwrap_or("train");
    let well_known =
        || KAI_PRIORITY_CLASSES.iter().find(|(name, _)| *name == class).map(|(_, value)| *value);
    let priority = priorities.get(class).copied().or_else(well_known).unwrap_or(50);
    let parts = list(group, "/spec/subGroups");
    GroupView {
        queue: text(group, "/spec/queue").unwrap_or_default().into(),
        priority,
        preemptible: match text(group, "/spec/preemptibility") {
            Some("preemptible") => true,
            Some("non-preemptible") => false,
            Some(_) | None => priority < 100,
        },
        sub_groups: if parts.is_empty() {
            let min_member = count_at(group, "/spec/minMember").unwrap_or(1);
            vec![SubGroupView { name: "default".into(), min_member, ..SubGroupView::default() }]
        } else {
            parts.iter().map(|part| sub_group_view(part, parts)).collect()
        },
        min_sub_groups: count_at(group, "/spec/minSubGroup"),
    }
}

fn sub_group_view(sub_group: &Value, all_sub_groups: &[Value]) -> SubGroupView {
    let parent = text(sub_group, "/parent").filter(|name| !name.is_empty());
    SubGroupView {
        name: text(sub_group, "/name").unwrap_or_default().into(),
        parent: parent.and_then(|name| {
            all_sub_groups.iter().position(|part| text(part, "/name") == Some(name))
        }),
        min_member: count_at(sub_group, "/minMember").unwrap_or(0),
        min_sub_groups: count_at(sub_group, "/minSubGroup"),
    }
}

pub(crate) fn pod_view(pod: &Value) -> PodView {
    // This runs at every write of a pod, so each part is looked up once.
    let part = |name: &str| pod.get(name).unwrap_or(&Value::Null);
    let (metadata, spec, status) = (part("metadata"), part("spec"), part("status"));
    let annotations = metadata.get("annotations");
    let annotation = |key: &str| annotations?.get(key)?.as_str();
    let namespace = text(metadata, "/namespace").unwrap_or_default();
    let gated = !list(spec, "/schedulingGates").is_empty();
    let affinity = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let requests = requests_of_node(spec, status);
    PodView {
        uid: text(metadata, "/uid").unwrap_or_default().into(),
        group: annotation(annotations::POD_GROUP_NAME)
            .map(|group| format!("{namespace}/{group}").into()),
        scheduling_group: text(spec, "/schedulingGroup/podGroupName")
            .map(|group| format!("{namespace}/{group}").into()),
        sub_group: at(metadata, "/labels")
            .and_then(|all| all.get(labels::SUB_GROUP)?.as_str())
            .map(Name::from),
        extra_charges: mig_charge(&requests),
        requests,
        node: text(spec, "/nodeName").filter(|node| !node.is_empty()).map(Name::from),
        phase: match text(status, "/phase") {
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            Some(_) | None if gated => Phase::Gated,
            Some(_) | None => Phase::Alive,
        },
        binding_refused: is_binding_refused(pod),
        leaving: metadata.get("deletionTimestamp").is_some(),
        priority: spec.get("priority").and_then(as_i32).unwrap_or(0),
        node_selector: parse_labels(spec.get("nodeSelector")),
        node_affinity: at(spec, affinity).map(|affinity| {
            list(affinity, "/nodeSelectorTerms").iter().map(parse_node_selector_term).collect()
        }),
        tolerations: list(spec, "/tolerations").iter().map(parse_toleration).collect(),
        devices: annotation(annotations::GPU_DEVICES)
            .map(|devices| devices.split(',').filter_map(|one| one.trim().parse().ok()).collect()),
        guaranteed: text(status, "/qosClass") == Some("Guaranteed"),
        numa_zones: numa::numa_placement(pod),
        device_shares: Vec::new(),
        claims: BTreeMap::new(),
    }
}

/// Whether condition `PodScheduled` reports a binding that failed.
fn is_binding_refused(pod: &Value) -> bool {
    condition_of_type(pod, conditions::POD_SCHEDULED).is_some_and(|scheduled| {
        text(scheduled, "/status") == Some("False")
            && text(scheduled, "/reason") == Some(conditions::BINDING_ERROR)
    })
}

/// The GPUs that queues are charged for the requested MIG instances, by number of GPU slices:
/// `nvidia.com/mig-2g.10gb` counts as two.
fn mig_charge(requests: &Amounts) -> Amounts {
    let slices = |resource: &str| -> Option<i128> {
        let profile = resource.strip_prefix(resources::MIG_PREFIX)?;
        profile.split_once('g')?.0.parse().ok()
    };
    let gpus = |(resource, amount): (&Name, &i128)| Some(slices(resource)? * amount);
    let gpus: i128 = requests.iter().filter_map(gpus).sum();
    (gpus > 0).then(|| (resources::GPU.into(), gpus)).into_iter().collect()
}

/// The effective requests of a pod as Kubernetes computes them: the sum of containers and sidecars,
/// or the largest init container plus the sidecars before it; plus overhead; and one pod.
pub fn pod_requests(pod: &Value) -> Amounts {
    let part = |name: &str| pod.get(name).unwrap_or(&Value::Null);
    requests_of_node(part("spec"), part("status"))
}

/// The requests without extended resources that devices of a claim serve.
fn requests_of_node(spec: &Value, status: &Value) -> Amounts {
    let mut requests = spec_requests(spec);
    for mapping in list(status, "/extendedResourceClaimStatus/requestMappings") {
        requests.remove(text(mapping, "/resourceName").unwrap_or_default());
    }
    requests
}

/// Like [`pod_requests`], from the pod's `spec`.
fn spec_requests(spec: &Value) -> Amounts {
    let mut running = Amounts::new();
    let mut peak = Amounts::new();
    for container in list(spec, "/initContainers") {
        let requests = parse_amounts(at(container, "/resources/requests"));
        if text(container, "/restartPolicy") == Some("Always") {
            add_amounts(&mut running, &requests);
            raise_to_minimum(&mut peak, &running);
        } else {
            let mut during = running.clone();
            add_amounts(&mut during, &requests);
            raise_to_minimum(&mut peak, &during);
        }
    }
    for container in list(spec, "/containers") {
        add_amounts(&mut running, &parse_amounts(at(container, "/resources/requests")));
    }
    raise_to_minimum(&mut running, &peak);
    // Pod-level requests replace the sum; a pod-level limit counts if there is no request.
    for (resource, bound) in parse_amounts(at(spec, "/resources/limits")) {
        running.entry(resource).or_insert(bound);
    }
    running.extend(parse_amounts(at(spec, "/resources/requests")));
    add_amounts(&mut running, &parse_amounts(spec.get("overhead")));
    running.insert("pods".into(), 1000);
    if let Some(memory) = running.get_mut("memory") {
        *memory = (*memory + 999) / 1000 * 1000; // a part of a byte is a byte
    }
    running
}

fn add_amounts(total: &mut Amounts, added: &Amounts) {
    for (resource, amount) in added {
        *total.entry(resource.clone()).or_default() += amount;
    }
}

fn raise_to_minimum(total: &mut Amounts, minimum: &Amounts) {
    for (resource, amount) in minimum {
        let entry = total.entry(resource.clone()).or_insert(*amount);
        *entry = (*entry).max(*amount);
    }
}

fn parse_taint(taint: &Value) -> Option<Taint> {
    let effect = parse_taint_effect(text(taint, "/effect")?)?;
    let value = text(taint, "/value").unwrap_or_default().into();
    Some(Taint { key: text(taint, "/key")?.into(), value, effect })
}

fn parse_toleration(toleration: &Value) -> Toleration {
    let key = text(toleration, "/key").filter(|key| !key.is_empty());
    let exists = text(toleration, "/operator") == Some("Exists");
    let value = text(toleration, "/value").unwrap_or_default();
    Toleration {
        key: key.map(Name::from),
        value: (!exists).then(|| value.into()),
        effect: text(toleration, "/effect").and_then(parse_taint_effect),
    }
}

fn parse_taint_effect(name: &str) -> Option<TaintEffect> {
    match name {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

pub(crate) fn parse_node_selector_term(term: &Value) -> NodeSelectorTerm {
    let read = |path: &str| list(term, path).iter().filter_map(parse_requirement).collect();
    NodeSelectorTerm { labels: read("/matchExpressions"), fields: read("/matchFields") }
}

fn parse_requirement(requirement: &Value) -> Option<Requirement> {
    let operator = match text(requirement, "/operator")? {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    };
    let values = list(requirement, "/values").iter().filter_map(Value::as_str);
    let key = text(requirement, "/key")?.into();
    Some(Requirement { key, operator, values: values.map(Name::from).collect() })
}

pub(crate) fn parse_amounts(quantities: Option<&Value>) -> Amounts {
    let listed = quantities.and_then(Value::as_object).into_iter().flatten();
    listed.filter_map(|(name, found)| Some((name.as_str().into(), thousandths(found)?))).collect()
}

fn parse_labels(object: Option<&Value>) -> Labels {
    let listed = object.and_then(Value::as_object).into_iter().flatten();
    listed.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into()))).collect()
}

fn bool_at(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

fn count_at(object: &Value, path: &str) -> Option<usize> {
    usize::try_from(at(object, path)?.as_u64()?).ok()
}

fn as_i32(value: &Value) -> Option<i32> {
    i32::try_from(value.as_i64()?).ok()
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn mig_instances_are_charged_by_gpu_slices() {
        let limits = json!({"nvidia.com/mig-2g.10gb": 2, "nvidia.com/mig-1g.5gb": "1", "cpu": 1});
        let containers = json!([{"name": "c", "resources": {"requests": limits}}]);
        let view =
            pod_view(&json!({"metadata": {"name": "p"}, "spec": {"containers": containers}}));
        let paid: Vec<_> = view.extra_charges.into_iter().collect();
        assert_eq!(paid, [("nvidia.com/gpu".into(), 5000)]);
    }

    fn requested(spec: &Value, resource: &str) -> i128 {
        spec_requests(spec).get(resource).copied().unwrap_or(0)
    }

    fn container(requests: &Value) -> Value {
        json!({"resources": {"requests": requests}})
    }

    #[test]
    fn a_pod_requests_what_its_containers_need_at_once() {
        let sidecar = json!({"restartPolicy": "Always",
            "resources": {"requests": {"nvidia.com/gpu": "2"}}});
        let spec = json!({"initContainers": [sidecar, container(&json!({"cpu": "4"}))],
            "containers": [container(&json!({"cpu": "1", "nvidia.com/gpu": "1"}))]});
        assert_eq!((requested(&spec, "nvidia.com/gpu"), requested(&spec, "cpu")), (3000, 4000));
    }

    #[test]
    fn pod_level_resources_take_precedence() {
        let spec = json!({"containers": [container(&json!({"cpu": "1", "memory": "1Gi"}))],
            "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "1"}});
        assert_eq!((requested(&spec, "cpu"), requested(&spec, "memory")), (5000, 1000 << 30));
        let bounded = json!({"containers": [container(&json!({"cpu": "1"}))],
            "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}});
        assert_eq!((requested(&bounded, "cpu"), requested(&bounded, "memory")), (1000, 1000 << 30));
    }

    #[test]
    fn fractions_of_a_byte_are_rounded_up() {
        let spec = json!({"containers": [container(&json!({"memory": "1500m"}))]});
        assert_eq!(requested(&spec, "memory"), 2000);
    }
}
