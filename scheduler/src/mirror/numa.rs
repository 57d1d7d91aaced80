//! Zones of nodes as `NodeResourceTopology` objects publish them, and what pods' annotations say
//! they have of them, in the form in which KAI's binder and its exporter write it.

use std::collections::BTreeMap;

use schedlab_json::{Map, Value, json};
use schedlab_scheduler_core::{
    model::{ContainerRequests, Name, NumaPolicy, NumaScope, NumaTopology, NumaZone, ZoneShare},
    resources::Resources,
};

use super::requests;
use crate::parse::{Malformed, list, milli, name, text, uid};

/// Where a pod was foretold to be, written with its binding.
pub(crate) const PREDICTED: &str = "kai.scheduler/numa-placement-predicted";

/// Where the kubelet put it, written by an exporter on the node: it outweighs the prediction.
const OBSERVED: &str = "kai.scheduler/numa-placement-observed";

const POLICIES: &str = "none, best-effort, restricted or single-numa-node";
const SCOPES: &str = "container or pod";
const FEW: &str = "at most 16 zones of type Node";

/// What is kept of a `NodeResourceTopology`; it has the name of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumaRecord {
    pub(crate) uid: Name,
    pub(crate) topology: NumaTopology,
    /// The first thing that cannot be used. What is malformed binds nobody.
    pub(crate) malformed: Option<Malformed>,
}

impl NumaRecord {
    pub(super) fn read(object: &Value) -> Self {
        let mut malformed = None;
        let (policy, scope) = policy_and_scope(object).unwrap_or_else(|wrong| {
            malformed.get_or_insert(wrong);
            (NumaPolicy::None, NumaScope::Container)
        });
        let of_nodes = list(object, "/zones").iter().enumerate().filter(|(_, zone)| {
            text(zone, "/type").is_none_or(|of| of.eq_ignore_ascii_case("node"))
        });
        let mut zones: Vec<NumaZone> =
            of_nodes.map(|(at, object)| zone(object, at, &mut malformed)).collect();
        if zones.len() > NumaTopology::ZONES_MAX {
            malformed.get_or_insert(Malformed::new("zones", zones.len(), FEW));
            zones.clear();
        }
        let uid = uid(object);
        Self { uid, topology: NumaTopology { policy, scope, zones }, malformed }
    }
}

/// Attributes outweigh the older list of policies, which names both in one word.
fn policy_and_scope(object: &Value) -> Result<(NumaPolicy, NumaScope), Malformed> {
    let attribute = |wanted: &str| {
        let mut all = list(object, "/attributes").iter();
        let found = all.find(|one| text(one, "/name") == Some(wanted))?;
        text(found, "/value")
    };
    let old = list(object, "/topologyPolicies").first().and_then(Value::as_str);
    let (old_policy, old_scope) = match old {
        Some(old) => {
            let wrong = || Malformed::new("topologyPolicies", format!("{old:?}"), POLICIES);
            of_old(old).ok_or_else(wrong)?
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
            return Err(Malformed::new(field, format!("{other:?}"), POLICIES));
        }
    };
    let scope = match attribute("topologyManagerScope") {
        None => old_scope,
        Some("container") => NumaScope::Container,
        Some("pod") => NumaScope::Pod,
        Some(other) => {
            let field = "attributes: topologyManagerScope";
            return Err(Malformed::new(field, format!("{other:?}"), SCOPES));
        }
    };
    Ok((policy, scope))
}

/// `SingleNUMANodePodLevel` and its like.
fn of_old(word: &str) -> Option<(NumaPolicy, NumaScope)> {
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

fn zone(object: &Value, at: usize, malformed: &mut Option<Malformed>) -> NumaZone {
    let mut amounts = |of: &str| {
        let resources = list(object, "/resources").iter();
        let named = resources.filter_map(|one| Some((text(one, "/name")?, one.get(of)?)));
        let listed: Map = named.map(|(name, amount)| (name.to_owned(), amount.clone())).collect();
        let field = format!("zones[{at}].resources.{of}");
        let (resources, wrong) = requests::resources(Some(&Value::Object(listed)), &field);
        if malformed.is_none() {
            *malformed = wrong;
        }
        resources
    };
    let (allocatable, available) = (amounts("allocatable"), amounts("available"));
    let name = name(object, "/name").unwrap_or_else(|| format!("node-{at}").into());
    NumaZone { name, allocatable, available }
}

/// What the pod's annotations say; nothing where they cannot be read.
pub(super) fn shares_of(annotations: &BTreeMap<Name, Name>) -> Vec<ZoneShare> {
    let told = [OBSERVED, PREDICTED].into_iter().find_map(|key| annotations.get(key));
    let told = told.and_then(|told| serde_json::from_str(told).ok());
    told.map(|told| read_shares(&told)).unwrap_or_default()
}

/// Somebody saw where the pod is.
pub(super) fn is_observed(annotations: &BTreeMap<Name, Name>) -> bool {
    annotations.contains_key(OBSERVED)
}

/// `[{"zone": "node-0", "amount": {"cpu": "3"}}]`.
pub(super) fn read_shares(placements: &Value) -> Vec<ZoneShare> {
    let placements = placements.as_array().map_or(&[][..], Vec::as_slice).iter();
    let share = |placement: &Value| {
        let (amount, wrong) = requests::resources(placement.get("amount"), "amount");
        let zone = name(placement, "/zone")?;
        wrong.is_none().then_some(ZoneShare { zone, amount })
    };
    placements.filter_map(share).collect()
}

/// The same, to be written.
pub(crate) fn written_shares(shares: &[ZoneShare]) -> Value {
    let placement = |share: &ZoneShare| {
        let Resources { gpu_milli, cpu_milli, memory_bytes, pods: _, extended } = &share.amount;
        let fixed = [
            ("cpu", milli(*cpu_milli)),
            ("memory", memory_bytes.to_string()),
            ("nvidia.com/gpu", milli(*gpu_milli)),
        ];
        let fixed = fixed.into_iter().map(|(name, amount)| (name.to_owned(), amount));
        let extended = extended.iter().map(|(name, amount)| (name.to_string(), amount.to_string()));
        let all = fixed.chain(extended).filter(|(_, amount)| amount != "0");
        let amount: Map = all.map(|(name, it)| (name, json!(it))).collect();
        json!({ "zone": &*share.zone, "amount": amount })
    };
    shares.iter().map(placement).collect()
}

/// Quality of service class `Guaranteed`: as the server says, else as it would.
pub(super) fn is_guaranteed(pod: &Value, spec: &Value) -> bool {
    if let Some(class) = text(pod, "/status/qosClass") {
        return class == "Guaranteed";
    }
    let mut containers = list(spec, "/containers").iter().chain(list(spec, "/initContainers"));
    !list(spec, "/containers").is_empty()
        && containers.all(|container| {
            let of = |list: &str| {
                let amounts = container.get("resources").and_then(|all| all.get(list));
                let (amounts, _) = requests::resources(amounts, list);
                (amounts.cpu_milli, amounts.memory_bytes)
            };
            let (limits, requests) = (of("limits"), of("requests"));
            let or_limit = |request: i64, limit: i64| if request == 0 { limit } else { request };
            limits.0 > 0
                && limits.1 > 0
                && (or_limit(requests.0, limits.0), or_limit(requests.1, limits.1)) == limits
        })
}

/// The containers of a pod that has several, in the order in which they start.
pub(super) fn containers(spec: &Value) -> Vec<ContainerRequests> {
    let (first, then) = (list(spec, "/initContainers"), list(spec, "/containers"));
    if first.len() + then.len() < 2 {
        return Vec::new();
    }
    let of = |container: &Value, starts_first: bool| {
        let stays = text(container, "/restartPolicy") == Some("Always");
        let requests = requests::container_requests(container);
        ContainerRequests { requests, ends: starts_first && !stays }
    };
    let first = first.iter().map(|container| of(container, true));
    first.chain(then.iter().map(|container| of(container, false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(object: &Value) -> String {
        let NumaRecord { topology, malformed, .. } = NumaRecord::read(object);
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
    fn policy_scope_and_zones_are_read_in_the_new_form_and_in_the_old() {
        insta::assert_snapshot!(told(&published("single-numa-node", "pod")), @"SingleNumaNode Pod node-0: 3500/4000 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0");
        let old = |word: &str| told(&json!({ "topologyPolicies": [word] }));
        insta::assert_snapshot!(old("RestrictedPodLevel"), @"Restricted Pod");
        insta::assert_snapshot!(old("SingleNUMANodeContainerLevel"), @"SingleNumaNode Container");
        insta::assert_snapshot!(old("BestEffort"), @"BestEffort Container");
        insta::assert_snapshot!(told(&json!({})), @"None Container");
    }

    #[test]
    fn what_cannot_be_read_binds_nobody_and_is_told() {
        insta::assert_snapshot!(told(&published("strict", "pod")), @r#"None Container node-0: 3500/4000 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0 (attributes: topologyManagerPolicy: found "strict", allowed: none, best-effort, restricted or single-numa-node)"#);
        insta::assert_snapshot!(told(&published("restricted", "node")), @r#"None Container node-0: 3500/4000 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0 (attributes: topologyManagerScope: found "node", allowed: container or pod)"#);
        insta::assert_snapshot!(told(&json!({ "topologyPolicies": ["Any"] })), @r#"None Container (topologyPolicies: found "Any", allowed: none, best-effort, restricted or single-numa-node)"#);
        let mut wrong = published("restricted", "pod");
        wrong["zones"][0]["resources"][0]["allocatable"] = json!("lots");
        insta::assert_snapshot!(told(&wrong), @r#"Restricted Pod node-0: 3500/0 GPUs 1000/2000 node-1: 4000/4000 GPUs 0/0 (zones[0].resources.allocatable.cpu: found "lots", allowed: a quantity such as 2, 500m, 1.5Gi or 1e3)"#);
        let zones: Vec<Value> = (0..17).map(|at| json!({ "name": format!("z{at}") })).collect();
        insta::assert_snapshot!(told(&json!({ "zones": zones })), @"None Container (zones: found 17, allowed: at most 16 zones of type Node)");
    }

    #[test]
    fn what_is_written_of_a_pod_s_zones_is_read_again() {
        let written = json!([{ "zone": "node-1", "amount": {
            "cpu": "3500m", "memory": "1073741824", "nvidia.com/gpu": "2", "example.com/nic": "1" } }]);
        let shares = read_shares(&written);
        assert_eq!(shares[0].amount.cpu_milli, 3500);
        assert_eq!(written_shares(&shares), written);
        let annotations = |pairs: &[(&str, &str)]| {
            shares_of(&pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect())
        };
        let (seen, foretold) = (r#"[{"zone":"node-0","amount":{"cpu":"1"}}]"#, written.to_string());
        assert_eq!(annotations(&[(PREDICTED, &foretold)]), shares);
        assert_eq!(&*annotations(&[(PREDICTED, &foretold), (OBSERVED, seen)])[0].zone, "node-0");
        assert_eq!(annotations(&[(PREDICTED, "{"), (PREDICTED, "[1]")]), Vec::new());
    }

    #[test]
    fn a_pod_is_guaranteed_when_all_its_containers_ask_for_all_they_may_use() {
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
