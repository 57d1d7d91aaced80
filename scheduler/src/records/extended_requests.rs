//! Requests of containers for extended resources, which a device plugin or claimed devices serve.

use std::collections::BTreeSet;

use schedlab_api::{Value, quantity};
use schedlab_scheduler_core::model::Name;

use crate::parse::{at, list, name, text};

/// Prefix of the extended resource that every DeviceClass implies.
pub(crate) const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// What a pod requests of extended resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExtendedRequests {
    /// In the order of containers.
    pub(crate) requests: Vec<ExtendedRequest>,
    /// The claim of which devices serve some of them (`status.extendedResourceClaimStatus`).
    pub(crate) claim: Option<Name>,
    /// The resources that its devices serve.
    pub(crate) served: BTreeSet<Name>,
}

/// A request of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtendedRequest {
    pub(crate) container: Name,
    /// Index among init containers and containers.
    pub(crate) container_index: usize,
    /// Index among the requests of the container, sorted by name.
    pub(crate) index: usize,
    /// Its container is an init container that ends before others start.
    pub(crate) is_short_lived: bool,
    pub(crate) resource: Name,
    /// Positive.
    pub(crate) count: i64,
}

impl ExtendedRequests {
    pub(crate) fn from_pod(pod: &Value) -> Self {
        let claim_status_path = "/status/extendedResourceClaimStatus";
        let mappings = list(pod, &format!("{claim_status_path}/requestMappings")).iter();
        let init = list(pod, "/spec/initContainers").iter().map(|container| (container, true));
        let containers = list(pod, "/spec/containers").iter().map(|container| (container, false));
        let containers = init.chain(containers).enumerate();
        Self {
            requests: containers
                .flat_map(|(at, (container, is_init))| of_container(container, at, is_init))
                .collect(),
            claim: name(pod, &format!("{claim_status_path}/resourceClaimName")),
            served: mappings.filter_map(|mapping| name(mapping, "/resourceName")).collect(),
        }
    }
}

fn of_container(container: &Value, container_index: usize, is_init: bool) -> Vec<ExtendedRequest> {
    let Some(requests) = at(container, "/resources/requests").and_then(Value::as_object) else {
        return Vec::new();
    };
    let is_sidecar = text(container, "/restartPolicy") == Some("Always");
    let mut names: Vec<&str> = requests.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    let request = |(index, resource): (usize, &str)| {
        let amount = quantity::thousandths(requests.get(resource)?)?;
        let count = i64::try_from(amount / 1000).ok().filter(|count| *count > 0)?;
        is_extended(resource).then(|| ExtendedRequest {
            container: text(container, "/name").unwrap_or_default().into(),
            container_index,
            index,
            is_short_lived: is_init && !is_sidecar,
            resource: resource.into(),
            count,
        })
    };
    names.into_iter().enumerate().filter_map(request).collect()
}

/// Whether it is the name of an extended resource.
fn is_extended(resource: &str) -> bool {
    let is_native_resource = !resource.contains('/') || resource.contains("kubernetes.io/");
    resource.starts_with(DEVICE_CLASS_PREFIX)
        || !is_native_resource && !resource.starts_with("requests.")
}
