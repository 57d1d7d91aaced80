//! Usage of objects, under the resource names of quotas.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Amount, Amounts, CountedObject, add_amounts, containers_and_init_containers};
use crate::api_types::pod_requests;
use crate::api_types::resource::Resource;
use schedlab_api::{
    Value,
    object::{at, list, map, number, text},
};

/// Resources of the core group that a quota counts as `count/PLURAL` and also as `PLURAL`.
const COUNTED_BY_PLURAL: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
const DEVICES_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
const STORAGE_CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";
/// The usage of a device request with allocation mode `All`: the maximum number of devices of a
/// claim.
const CLAIM_DEVICES_MAX: i64 = 32;

/// Whether the quota name `name` counts objects of `resource`.
pub(super) fn is_counted_as(resource: &Resource, name: &str) -> bool {
    counted_resource(name).as_ref() == Some(resource)
}

/// The resource whose objects the quota name `name` counts.
pub(super) fn counted_resource(name: &str) -> Option<Resource> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(Resource::new(group, plural));
    }
    let core = |plural: &str| Some(Resource::new("", plural));
    if COUNTED_BY_PLURAL.contains(&name) {
        return core(name);
    }
    if name.ends_with(DEVICES_SUFFIX) {
        return Some(Resource::new("resource.k8s.io", "resourceclaims"));
    }
    if name == "requests.storage" || name.contains(STORAGE_CLASS_INFIX) {
        return core("persistentvolumeclaims");
    }
    if name.starts_with("services.") {
        return core("services");
    }
    if is_pod_quota_name(name) { core("pods") } else { None }
}

/// Whether the quota name `name` is a usage of pods, such as `requests.cpu`. Of extended resources
/// only the requests count, since their limits are equal to the requests.
fn is_pod_quota_name(name: &str) -> bool {
    let (kind, bare) = match name.split_once('.') {
        Some((kind @ ("requests" | "limits"), bare)) => (kind, bare),
        Some(_) | None => ("", name),
    };
    let computed = ["cpu", "memory", "ephemeral-storage"].contains(&bare);
    let extended = kind == "requests" && bare.contains('/') && !bare.contains("kubernetes.io/");
    let pages = kind != "limits" && bare.starts_with("hugepages-");
    name == "pods" || computed || extended || pages
}

/// The usage of one object by quota name.
pub(super) fn object_usage(item: CountedObject<'_>) -> Amounts {
    let Resource { group, plural } = item.resource;
    let dot = if group.is_empty() { "" } else { "." };
    let mut all = Amounts::from([(format!("count/{plural}{dot}{group}"), Amount::ONE)]);
    match (&**group, &**plural) {
        ("", "pods") if has_released_resources(item.object, item.now) => {}
        ("", "pods") => add_pod_usage(item.object, &mut all),
        ("resource.k8s.io", "resourceclaims") => add_device_claim_usage(item.object, &mut all),
        ("", bare) if COUNTED_BY_PLURAL.contains(&bare) => {
            all.insert(bare.to_owned(), Amount::ONE);
            match bare {
                "services" => add_service_usage(item.object, &mut all),
                "persistentvolumeclaims" => add_volume_claim_usage(item.object, &mut all),
                _ => {}
            }
        }
        _ => {}
    }
    all
}

/// Whether a pod uses no resources any more: it has finished, or its deletion grace period has
/// passed, as on a lost node.
pub(crate) fn has_released_resources(pod: &Value, now: Timestamp) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
        || release_time(pod).is_some_and(|time| now > time)
}

/// The time from which a pod that is being deleted uses no resources.
pub(crate) fn release_time(pod: &Value) -> Option<Timestamp> {
    let deletion: Timestamp = text(pod, &["metadata", "deletionTimestamp"]).parse().ok()?;
    let grace = number(pod, &["metadata", "deletionGracePeriodSeconds"])?;
    deletion.checked_add(SignedDuration::from_secs(grace)).ok()
}

fn add_pod_usage(pod: &Value, total: &mut Amounts) {
    let binary = |kind: &str, resource: &str| {
        let written = containers_and_init_containers(pod)
            .filter_map(|one| at(one, &["resources", kind, resource]));
        written.map(Amount::from_value).any(|amount| amount.binary)
    };
    for (resource, milli) in pod_requests::pod_requests(pod) {
        let amount = Amount { milli, binary: binary("requests", &resource) };
        total.insert(format!("requests.{resource}"), amount);
        total.insert(resource, amount);
    }
    for (resource, milli) in pod_requests::pod_limits(pod) {
        let binary = binary("limits", &resource);
        total.insert(format!("limits.{resource}"), Amount { milli, binary });
    }
    total.retain(|name, _| counted_resource(name).is_some_and(|of| of.is("", "pods")));
}

fn add_service_usage(service: &Value, total: &mut Amounts) {
    let ports = i128::try_from(list(service, &["spec", "ports"]).len()).unwrap_or(0);
    let ports = Amount { milli: 1000 * ports, binary: false };
    let kind = text(service, &["spec", "type"]);
    let opens_ports = at(service, &["spec", "allocateLoadBalancerNodePorts"])
        .is_none_or(|allocates| *allocates != false);
    if kind == "LoadBalancer" {
        total.insert("services.loadbalancers".to_owned(), Amount::ONE);
    }
    if kind == "NodePort" || (kind == "LoadBalancer" && opens_ports) {
        total.insert("services.nodeports".to_owned(), ports);
    }
}

fn add_volume_claim_usage(claim: &Value, total: &mut Amounts) {
    let size = at(claim, &["spec", "resources", "requests", "storage"]).map(Amount::from_value);
    let size = size.unwrap_or_default();
    total.insert("requests.storage".to_owned(), size);
    let class = text(claim, &["spec", "storageClassName"]);
    if !class.is_empty() {
        total.insert(format!("{class}{STORAGE_CLASS_INFIX}persistentvolumeclaims"), Amount::ONE);
        total.insert(format!("{class}{STORAGE_CLASS_INFIX}requests.storage"), size);
    }
}

/// Adds the devices of a ResourceClaim by device class. Of several subrequests the greatest number
/// counts.
fn add_device_claim_usage(claim: &Value, total: &mut Amounts) {
    for request in list(claim, &["spec", "devices", "requests"]) {
        let mut dearest = BTreeMap::new();
        let alternatives = list(request, &["firstAvailable"]).iter().chain(request.get("exactly"));
        for choice in alternatives {
            let count = match text(choice, &["allocationMode"]) {
                "All" => CLAIM_DEVICES_MAX,
                _ => number(choice, &["count"]).unwrap_or(1),
            };
            let most = dearest.entry(text(choice, &["deviceClassName"])).or_insert(count);
            *most = count.max(*most);
        }
        for (class, count) in dearest {
            let sum = total.entry(format!("{class}{DEVICES_SUFFIX}")).or_default();
            *sum = add_amounts(*sum, Amount { milli: 1000 * i128::from(count), binary: false });
        }
    }
}

/// The requests and limits of cpu and memory that the quota limits and some containers do not set,
/// as text for a message (`requests.cpu for: a,b`); `None` if all are set.
pub(super) fn missing_container_amounts(
    item: CountedObject<'_>,
    bounds: &Amounts,
) -> Option<String> {
    if !item.resource.is("", "pods") || map(item.object, &["spec", "resources"]).is_some() {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for bound in bounds.keys() {
        let (kind, resource) = bound.split_once('.').unwrap_or(("requests", bound));
        if !matches!(resource, "cpu" | "memory") {
            continue;
        }
        for container in containers_and_init_containers(item.object) {
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
