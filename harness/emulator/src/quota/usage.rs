//! What an object counts for, under the names that quotas use.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Amount, Amounts, Item, containers, plus};
use crate::kinds::Resource;
use crate::object::{at, list, map, number, text};
use crate::requests;
use schedlab_json::Value;

/// Kinds of the core group that quotas also count under their bare names.
const BARE: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
const STORAGE: &str = ".storageclass.storage.k8s.io/";
/// What a request for all devices of a class counts for: the most that a claim can have.
const DEVICES_MAX: i64 = 32;

/// Is this the name of something that objects of this collection count for?
pub(super) fn is_counted_as(resource: &Resource, name: &str) -> bool {
    collection(name).as_ref() == Some(resource)
}

/// The collection whose objects count under a name.
pub(super) fn collection(name: &str) -> Option<Resource> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(Resource::new(group, plural));
    }
    let core = |plural: &str| Some(Resource::new("", plural));
    if BARE.contains(&name) {
        return core(name);
    }
    if name.ends_with(DEVICES) {
        return Some(Resource::new("resource.k8s.io", "resourceclaims"));
    }
    if name == "requests.storage" || name.contains(STORAGE) {
        return core("persistentvolumeclaims");
    }
    if name.starts_with("services.") {
        return core("services");
    }
    if is_of_pods(name) { core("pods") } else { None }
}

/// Do pods count under this name? Extended resources are never more than asked for, so quotas
/// bound what is asked for alone.
fn is_of_pods(name: &str) -> bool {
    let (kind, bare) = match name.split_once('.') {
        Some((kind @ ("requests" | "limits"), bare)) => (kind, bare),
        Some(_) | None => ("", name),
    };
    let computed = ["cpu", "memory", "ephemeral-storage"].contains(&bare);
    let extended = kind == "requests" && bare.contains('/') && !bare.contains("kubernetes.io/");
    let pages = kind != "limits" && bare.starts_with("hugepages-");
    name == "pods" || computed || extended || pages
}

/// What an object counts for.
pub(super) fn usage(item: Item<'_>) -> Amounts {
    let Resource { group, plural } = item.resource;
    let dot = if group.is_empty() { "" } else { "." };
    let mut all = Amounts::from([(format!("count/{plural}{dot}{group}"), Amount::ONE)]);
    match (&**group, &**plural) {
        ("", "pods") if is_over(item.object, item.now) => {}
        ("", "pods") => of_pod(item.object, &mut all),
        ("resource.k8s.io", "resourceclaims") => of_claim(item.object, &mut all),
        ("", bare) if BARE.contains(&bare) => {
            all.insert(bare.to_owned(), Amount::ONE);
            match bare {
                "services" => of_service(item.object, &mut all),
                "persistentvolumeclaims" => of_volume(item.object, &mut all),
                _ => {}
            }
        }
        _ => {}
    }
    all
}

/// The pod holds nothing any more: it has ended, or should have been gone for as long as it was
/// given, as on a node that is lost.
pub(crate) fn is_over(pod: &Value, now: Timestamp) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
        || free_again(pod).is_some_and(|time| now > time)
}

/// From when on a pod that is being deleted holds nothing.
pub(crate) fn free_again(pod: &Value) -> Option<Timestamp> {
    let deletion: Timestamp = text(pod, &["metadata", "deletionTimestamp"]).parse().ok()?;
    let grace = number(pod, &["metadata", "deletionGracePeriodSeconds"])?;
    deletion.checked_add(SignedDuration::from_secs(grace)).ok()
}

fn of_pod(pod: &Value, all: &mut Amounts) {
    let binary = |kind: &str, resource: &str| {
        let written = containers(pod).filter_map(|one| at(one, &["resources", kind, resource]));
        written.map(Amount::read).any(|amount| amount.binary)
    };
    for (resource, milli) in requests::requested(pod) {
        let amount = Amount { milli, binary: binary("requests", &resource) };
        all.insert(format!("requests.{resource}"), amount);
        all.insert(resource, amount);
    }
    for (resource, milli) in requests::limited(pod) {
        let binary = binary("limits", &resource);
        all.insert(format!("limits.{resource}"), Amount { milli, binary });
    }
    all.retain(|name, _| collection(name).is_some_and(|of| of.is("", "pods")));
}

fn of_service(service: &Value, all: &mut Amounts) {
    let ports = i128::try_from(list(service, &["spec", "ports"]).len()).unwrap_or(0);
    let ports = Amount { milli: 1000 * ports, binary: false };
    let kind = text(service, &["spec", "type"]);
    let opens_ports = at(service, &["spec", "allocateLoadBalancerNodePorts"])
        .is_none_or(|allocates| *allocates != false);
    if kind == "LoadBalancer" {
        all.insert("services.loadbalancers".to_owned(), Amount::ONE);
    }
    if kind == "NodePort" || (kind == "LoadBalancer" && opens_ports) {
        all.insert("services.nodeports".to_owned(), ports);
    }
}

fn of_volume(claim: &Value, all: &mut Amounts) {
    let asked = at(claim, &["spec", "resources", "requests", "storage"]).map(Amount::read);
    let asked = asked.unwrap_or_default();
    all.insert("requests.storage".to_owned(), asked);
    let class = text(claim, &["spec", "storageClassName"]);
    if !class.is_empty() {
        all.insert(format!("{class}{STORAGE}persistentvolumeclaims"), Amount::ONE);
        all.insert(format!("{class}{STORAGE}requests.storage"), asked);
    }
}

/// Devices by class; of alternatives the dearest.
fn of_claim(claim: &Value, all: &mut Amounts) {
    for request in list(claim, &["spec", "devices", "requests"]) {
        let mut dearest = BTreeMap::new();
        let alternatives = list(request, &["firstAvailable"]).iter().chain(request.get("exactly"));
        for ask in alternatives {
            let count = match text(ask, &["allocationMode"]) {
                "All" => DEVICES_MAX,
                _ => number(ask, &["count"]).unwrap_or(1),
            };
            let most = dearest.entry(text(ask, &["deviceClassName"])).or_insert(count);
            *most = count.max(*most);
        }
        for (class, count) in dearest {
            let sum = all.entry(format!("{class}{DEVICES}")).or_default();
            *sum = plus(*sum, Amount { milli: 1000 * i128::from(count), binary: false });
        }
    }
}

/// What each container must say because the quota bounds it, and which containers do not.
pub(super) fn unsaid(item: Item<'_>, bounds: &Amounts) -> Option<String> {
    if !item.resource.is("", "pods") || map(item.object, &["spec", "resources"]).is_some() {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for bound in bounds.keys() {
        let (kind, resource) = bound.split_once('.').unwrap_or(("requests", bound));
        if !matches!(resource, "cpu" | "memory") {
            continue;
        }
        for container in containers(item.object) {
            if at(container, &["resources", kind, resource]).is_none() {
                missing.entry(bound).or_default().insert(text(container, &["name"]));
            }
        }
    }
    let missing = missing.into_iter().map(|(bound, names)| {
        format!("{bound} for: {}", names.into_iter().collect::<Vec<_>>().join(","))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}
