//! NUMA zones of nodes from `NodeResourceTopology` objects, and the placements in pod annotations,
//! in the format of KAI's binder and exporter.

use std::collections::BTreeMap;

use schedlab_api::{Map, Value, annotations, json, resources};
use schedlab_scheduler_core::{
    model::{
        ContainerRequests, Name, NumaAllocation, NumaPolicy, NumaScope, NumaTopology, NumaZone,
    },
    resources::Resources,
};

use super::pod_requests;
use crate::parse::{Malformed, format_milli, list, name, text, uid};

const EXPECTED_POLICY: &str = "none, best-effort, restricted or single-numa-node";
const EXPECTED_SCOPE: &str = "container or pod";
const EXPECTED_ZONES: &str = "at most 16 zones of type Node";

/// The fields of a `NodeResourceTopology` that affect scheduling. The object has the name of its
/// node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumaRecord {
    pub(crate) uid: Name,
    pub(crate) topology: NumaTopology,
    /// The first malformed field. A malformed policy counts as `none`.
    pub(crate) malformed: Option<Malformed>,
}

impl NumaRecord {
    pub(crate) fn from_object(object: &Value) -> Self {
        let mut malformed = None;
        let (policy, scope) = policy_and_scope(object).unwrap_or_else(|wrong| {
            malformed.get_or_insert(wrong);
            (NumaPolicy::None, NumaScope::Container)
        });
        let of_nodes = list(object, "/zones").iter().enumerate().filter(|(_, zone)| {
            text(zone, "/type").is_none_or(|of| of.eq_ignore_ascii_case("node"))
        });
        let mut zones: Vec<NumaZone> =
            of_nodes.map(|(at, object)| parse_zone(object, at, &mut malformed)).collect();
        if zones.len() > NumaTopology::ZONES_MAX {
            malformed.get_or_insert(Malformed::new("zones", zones.len(), EXPECTED_ZONES));
            zones.clear();
        }
        let uid = uid(object);
        Self { uid, topology: NumaTopology { policy, scope, zones }, malformed }
    }
}

/// Policy and scope of the topology manager. Attributes take precedence over the older list
/// `topologyPolicies`, which has policy and scope in one word.
fn policy_and_scope(object: &Value) -> Result<(NumaPolicy, NumaScope), Malformed> {
    let attribute = |attribute: &str| {
        let mut all = list(object, "/attributes").iter();
        let found = all.find(|one| text(one, "/name") == Some(attribute))?;
        text(found, "/value")
    };
    let old = list(object, "/topologyPolicies").first().and_then(Value::as_str);
    let (old_policy, old_scope) = match old {
        Some(old) => {
            let wrong = || Malformed::new("topologyPolicies", format!("{old:?}"), EXPECTED_POLICY);
            parse_legacy_policy(old).ok_or_else(wrong)?
        }
        None => (NumaPolicy::None, NumaScope::Container),
    };
    let policy = match attribute("topologyManagerPolicy") {
        None => old_policy,
        Some("none") => NumaPolicy::None,
        Some("best-effort") => NumaPolicy::BestEffort,
        Some("restricted") => NumaPolicy::Restricted,
        Some("single-numa-node") => NumaPolicy::SingleNumaNode,
        Some(other) => {
            let field = "attributes: topologyManagerPolicy";
            return Err(Malformed::new(field, format!("{other:?}"), EXPECTED_POLICY));
        }
    };
    let scope = match attribute("topologyManagerScope") {
        None => old_scope,
        Some("container") => NumaScope::Container,
        Some("pod") => NumaScope::Pod,
        Some(other) => {
            let field = "attributes: topologyManagerScope";
            return Err(Malformed::new(field, format!("{other:?}"), EXPECTED_SCOPE));
        }
    };
    Ok((policy, scope))
}

/// Parses a word of `topologyPolicies`, such as `SingleNUMANodePodLevel`.
fn parse_legacy_policy(word: &str) -> Option<(NumaPolicy, NumaScope)> {
    let (policy, scope) = match word.strip_suffix("PodLevel") {
        Some(policy) => (policy, NumaScope::Pod),
        None => (word.strip_suffix("ContainerLevel").unwrap_or(word), NumaScope::Container),
    };
    let policy = match policy {
        "None" => NumaPolicy::None,
        "BestEffort" => NumaPolicy::BestEffort,
        "Restricted" => NumaPolicy::Restricted,
        "SingleNUMANode" => NumaPolicy::SingleNumaNode,
        _ => return None,
    };
    Some((policy, scope))
}

fn parse_zone(object: &Value, index: usize, malformed: &mut Option<Malformed>) -> NumaZone {
    let mut amounts = |of: &str| {
        let resources = list(object, "/resources").iter();
        let named = resources.filter_map(|one| Some((text(one, "/name")?, one.get(of)?)));
        let listed: Map = named.map(|(name, amount)| (name.to_owned(), amount.clone())).collect();
        let field = format!("zones[{index}].resources.{of}");
        let (resources, wrong) =
            pod_requests::parse_resource_list(Some(&Value::Object(listed)), &field);
        if malformed.is_none() {
            *malformed = wrong;
        }
        resources
    };
    let (allocatable, available) = (amounts("allocatable"), amounts("available"));
    let name = name(object, "/name").unwrap_or_else(|| format!("node-{index}").into());
    NumaZone { name, allocatable, available }
}

/// The placements in the annotations of a pod; empty if they are malformed.
pub(crate) fn placements_from_annotations(
    annotations: &BTreeMap<Name, Name>,
) -> Vec<NumaAllocation> {
    let placements = [annotations::NUMA_PLACEMENT_OBSERVED, annotations::NUMA_PLACEMENT_PREDICTED]
        .into_iter()
        .find_map(|key| annotations.get(key));
    let placements = placements.and_then(|text| serde_json::from_str(text).ok());
    placements.map(|placements| parse_placements(&placements)).unwrap_or_default()
}

/// Whether KAI's exporter on the node has reported the pod's placement.
pub(crate) fn has_observed_placement(annotations: &BTreeMap<Name, Name>) -> bool {
    annotations.contains_key(annotations::NUMA_PLACEMENT_OBSERVED)
}

/// Parses `[{"zone": "node-0", "amount": {"cpu": "3"}}]`.
pub(crate) fn parse_placements(placements: &Value) -> Vec<NumaAllocation> {
    let placements = placements.as_array().map_or(&[][..], Vec::as_slice).iter();
    let share = |placement: &Value| {
        let (amount, wrong) = pod_requests::parse_resource_list(placement.get("amount"), "amount");
        let zone = name(placement, "/zone")?;
        wrong.is_none().then_some(NumaAllocation { zone, amount })
    };
    placements.filter_map(share).collect()
}

/// NUMA allocations as JSON; the inverse of [`parse_placements`].
pub(crate) fn placements_to_json(shares: &[NumaAllocation]) -> Value {
    let placement = |share: &NumaAllocation| {
        let Resources { gpu_milli, cpu_milli, memory_bytes, pods: _, extended } = &share.amount;
        let fixed = [
            ("cpu", format_milli(*cpu_milli)),
            ("memory", memory_bytes.to_string()),
            (resources::GPU, format_milli(*gpu_milli)),
        ];
        let fixed = fixed.into_iter().map(|(name, amount)| (name.to_owned(), amount));
        let extended = extended.iter().map(|(name, amount)| (name.to_string(), amount.to_string()));
        let all = fixed.chain(extended).filter(|(_, amount)| amount != "0");
        let amount: Map = all.map(|(name, it)| (name, json!(it))).collect();
        json!({ "zone": &*share.zone, "amount": amount })
    };
    shares.iter().map(placement).collect()
}

/// Whether the pod's `QoS` class is `Guaranteed`: from the status, else computed as the API server
/// does.
pub(crate) fn is_guaranteed(pod: &Value, spec: &Value) -> bool {
    if let Some(class) = text(pod, "/status/qosClass") {
        return class == "Guaranteed";
    }
    let mut containers = list(spec, "/containers").iter().chain(list(spec, "/initContainers"));
    !list(spec, "/containers").is_empty()
        && containers.all(|container| {
            let of = |list: &str| {
                let amounts = container.get("resources").and_then(|all| all.get(list));
                let (amounts, _) = pod_requests::parse_resource_list(amounts, list);
                (amounts.cpu_milli, amounts.memory_bytes)
            };
            let (limits, requests) = (of("limits"), of("requests"));
            let or_limit = |request: i64, limit: i64| if request == 0 { limit } else { request };
            limits.0 > 0
                && limits.1 > 0
                && (or_limit(requests.0, limits.0), or_limit(requests.1, limits.1)) == limits
        })
}

/// The requests of the containers of a pod, in the order in which they start; empty for a pod with
/// a single container.
pub(crate) fn container_requests_in_order(spec: &Value) -> Vec<ContainerRequests> {
    let (first, then) = (list(spec, "/initContainers"), list(spec, "/containers"));
    if first.len() + then.len() < 2 {
        return Vec::new();
    }
    let of = |container: &Value, starts_first: bool| {
        let stays = text(container, "/restartPolicy") == Some("Always");
        let requests = pod_requests::container_requests(container);
        ContainerRequests { requests, ends_before_next: starts_first && !stays }
    };
    let first = first.iter().map(|container| of(container, true));
    first.chain(then.iter().map(|container| of(container, false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(object: &Value) -> String {
        let NumaRecord { topology, malformed, .. } = NumaRecord::from_object(object);
        let zones = topology.zones.iter().map(|zone| {
            let (all, free) = (&zone.allocatable, &zone.available);
            format!(
                " {}: {}/{} GPUs {}/{}",
                zone.name, free.cpu_milli, all.cpu_milli, free.gpu_milli, all.gpu_milli
            )
        });
        let wrong = malformed.map(|wrong| format!(" ({wrong})")).unwrap_or_default();
        format!("{:?} {:?}{}{wrong}", topology.policy, topology.scope, zones.collect::<String>())
    }

    fn published(policy: &str, scope: &str) -> Value {
        let amount = |name: &str, all: &str, free: &str| json!({ "name": name, "capacity": all, "allocatable": all, "available": free });
        json!({
            "metadata": { "name": "n1", "uid": "u" },
            "attributes": [
                { "name": "topologyManagerPolicy", "value": policy },
                { "name": "topologyManagerScope", "value": scope },
            ],
            "zones": [
                { "name": "node-0", "type": "Node",
                  "resources": [amount("cpu", "4", "3500m"), amount("nvidia.com/gpu", "2", "1")] },
                { "name": "core-0", "type": "Core", "resources": [amount("cpu", "1", "1")] },
                { "name": "node-1", "type": "Node", "resources": [amount("cpu", "4", "4")] },
            ],
        })
    }

    #[test]
    fn policy_scope_and_zones_are_parsed_from_attributes_and_from_the_old_list() {
        insta::assert_snapshot!(rendered(&published("single-numa-node", "pod")), @"SingleNumaNode Pod node-0: 3500/4000 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0");
        let old = |word: &str| rendered(&json!({ "topologyPolicies": [word] }));
        insta::assert_snapshot!(old("RestrictedPodLevel"), @"Restricted Pod");
        insta::assert_snapshot!(old("SingleNUMANodeContainerLevel"), @"SingleNumaNode Container");
        insta::assert_snapshot!(old("BestEffort"), @"BestEffort Container");
        insta::assert_snapshot!(rendered(&json!({})), @"None Container");
    }

    #[test]
    fn an_invalid_numa_topology_is_malformed_and_has_no_policy() {
        insta::assert_snapshot!(rendered(&published("strict", "pod")), @r#"None Container node-0: 3500/4000 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0 (attributes: topologyManagerPolicy: got "strict", expected none, best-effort, restricted or single-numa-node)"#);
        insta::assert_snapshot!(rendered(&published("restricted", "node")), @r#"None Container node-0: 3500/4000 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0 (attributes: topologyManagerScope: got "node", expected container or pod)"#);
        insta::assert_snapshot!(rendered(&json!({ "topologyPolicies": ["Any"] })), @r#"None Container (topologyPolicies: got "Any", expected none, best-effort, restricted or single-numa-node)"#);
        let mut wrong = published("restricted", "pod");
        wrong["zones"][0]["resources"][0]["allocatable"] = json!("lots");
        insta::assert_snapshot!(rendered(&wrong), @r#"Restricted Pod node-0: 3500/0 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0 (zones[0].resources.allocatable.cpu: got "lots", expected a quantity such as 2, 500m, 1.5Gi or 1e3)"#);
        let zones: Vec<Value> = (0..17).map(|at| json!({ "name": format!("z{at}") })).collect();
        insta::assert_snapshot!(rendered(&json!({ "zones": zones })), @"None Container (zones: got 17, expected at most 16 zones of type Node)");
    }

    #[test]
    fn placements_survive_a_round_trip() {
        let written = json!([{ "zone": "node-1", "amount": {
            "cpu": "3500m", "memory": "1073741824", "nvidia.com/gpu": "2", "example.com/nic": "1" } }]);
        let shares = parse_placements(&written);
        assert_eq!(shares[0].amount.cpu_milli, 3500);
        assert_eq!(placements_to_json(&shares), written);
        let annotations = |pairs: &[(&str, &str)]| {
            placements_from_annotations(
                &pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            )
        };
        let (seen, foretold) = (r#"[{"zone":"node-0","amount":{"cpu":"1"}}]"#, written.to_string());
        assert_eq!(annotations(&[(annotations::NUMA_PLACEMENT_PREDICTED, &foretold)]), shares);
        assert_eq!(
            &*annotations(&[
                (annotations::NUMA_PLACEMENT_PREDICTED, &foretold),
                (annotations::NUMA_PLACEMENT_OBSERVED, seen)
            ])[0]
                .zone,
            "node-0"
        );
        assert_eq!(
            annotations(&[
                (annotations::NUMA_PLACEMENT_PREDICTED, "{"),
                (annotations::NUMA_PLACEMENT_PREDICTED, "[1]")
            ]),
            Vec::new()
        );
    }

    #[test]
    fn a_pod_is_guaranteed_when_the_requests_of_all_containers_equal_their_limits() {
        let is = |resources: Value| {
            is_guaranteed(&Value::Null, &json!({ "containers": [{ "resources": resources }] }))
        };
        let some = json!({ "cpu": "1", "memory": "1Gi" });
        assert!(is(json!({ "limits": some, "requests": some })) && is(json!({ "limits": some })));
        assert!(!is(json!({ "requests": some })) && !is(json!({ "limits": { "cpu": "1" } })));
        assert!(!is(json!({ "limits": some, "requests": { "cpu": "500m" } })));
        let pod = json!({ "status": { "qosClass": "Burstable" } });
        let spec = json!({ "containers": [{ "resources": { "limits": some } }] });
        assert!(!is_guaranteed(&pod, &spec), "the server knows");
    }
}
