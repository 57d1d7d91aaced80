//! `ResourceClaim`s and their allocations.

use std::collections::BTreeMap;

use schedlab_api::{Value, labels};
use schedlab_scheduler_core::model::{
    DeviceAccess, DeviceAmounts, DeviceCount, Name, NodeSelectorTerm,
};

use super::{
    DeviceAlternatives, DeviceId, DeviceSelection, ObjectKey, PodRecord,
    binding_state::BindingState, capacity,
};
use crate::{
    parse::{Malformed, at, list, name, shown, text, uid, version},
    records::{controller_owner, selectors::parse_node_term},
};

const EXPECTED_ALTERNATIVE: &str = "exactly or firstAvailable, with a deviceClassName";
const EXPECTED_COUNT: &str = "a positive number of devices";
const EXPECTED_NO_COUNT: &str = "none beside allocationMode All";

/// The fields of a `ResourceClaim` that affect scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRecord {
    pub(crate) version: u64,
    pub(crate) uid: Name,
    /// UID of the pod that the claim was created for.
    owner: Option<Name>,
    /// Label `kai.scheduler/queue`.
    pub(super) queue: Option<Name>,
    pub(crate) requests: Result<DeviceAlternatives, Malformed>,
    pub(crate) allocation: Option<ClaimAllocation>,
    /// `status.reservedFor`: names and UIDs of pods.
    pub(crate) reserved_pods: Vec<(Name, Name)>,
    /// `status.reservedFor`: entries that are no pods, unparsed.
    pub(crate) reserved_others: Vec<Value>,
    pub(crate) finalizers: Vec<Name>,
    /// Whether pods that have it can be bound.
    pub(crate) binding: BindingState,
    /// `spec.devices.config`, unparsed.
    pub(super) config: Vec<Value>,
}

/// A request of a claim, or one of its alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceRequestRecord {
    /// Name of the request; `request/alternative` for an alternative.
    pub(crate) request: Name,
    pub(crate) selection: DeviceSelection,
    pub(crate) count: DeviceCount,
    pub(crate) access: DeviceAccess,
    /// Its tolerations, unparsed: the allocation repeats them.
    pub(crate) tolerations: Vec<Value>,
}

/// `status.allocation` of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimAllocation {
    /// The only node that can use the allocation, if there is one.
    pub(crate) node: Option<Name>,
    /// Node selector terms of which one must match; `None`: all nodes.
    pub(super) terms: Option<Vec<NodeSelectorTerm>>,
    /// Devices that no other claim can get, with the request that each was allocated for.
    pub(crate) devices: BTreeMap<DeviceId, Name>,
    /// Shares of devices.
    pub(super) shares: Vec<ClaimShare>,
    /// Devices with admin access, with the request that each was allocated for.
    admin_devices: BTreeMap<DeviceId, Name>,
}

/// A share of a device that allows multiple allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimShare {
    pub(super) device: DeviceId,
    pub(super) request: Name,
    /// `consumedCapacity`.
    pub(super) consumed: DeviceAmounts,
}

impl ClaimAllocation {
    /// Parses an `AllocationResult`.
    pub(crate) fn from_object(allocation: &Value) -> Self {
        let device = |result: &Value| {
            let part = |pointer| Name::from(text(result, pointer).unwrap_or_default());
            let (driver, pool, device) = (part("/driver"), part("/pool"), part("/device"));
            (DeviceId { driver, pool, device }, part("/request"))
        };
        let results = list(allocation, "/devices/results").iter();
        let (looked_after, had): (Vec<_>, Vec<_>) =
            results.partition(|result| is_admin_access(result));
        let (shared, had): (Vec<_>, Vec<_>) =
            had.into_iter().partition(|result| text(result, "/shareID").is_some());
        let share = |result: &Value| {
            let (device, request) = device(result);
            let consumed = capacity::amounts(at(result, "/consumedCapacity"));
            ClaimShare { device, request, consumed }
        };
        let terms = list(allocation, "/nodeSelector/nodeSelectorTerms").iter();
        let mut fields = terms.flat_map(|term| list(term, "/matchFields"));
        let by_name = fields.find(|field| text(field, "/key") == Some("metadata.name"));
        let by_name = by_name.filter(|field| list(field, "/values").len() == 1);
        // A malformed term matches no node.
        let selector = at(allocation, "/nodeSelector").filter(|selector| !selector.is_null());
        let terms = selector.map(|selector| {
            let terms = list(selector, "/nodeSelectorTerms").iter();
            terms.filter_map(|term| parse_node_term(term).ok()).collect()
        });
        Self {
            node: by_name.and_then(|field| name(field, "/values/0")),
            terms,
            shares: shared.into_iter().map(share).collect(),
            devices: had.into_iter().map(device).collect(),
            admin_devices: looked_after.into_iter().map(device).collect(),
        }
    }

    /// Whether both allocations have the same devices.
    pub(crate) fn has_same_devices(&self, other: &Self) -> bool {
        self.devices == other.devices
            && self.shares == other.shares
            && self.admin_devices == other.admin_devices
    }

    /// Whether it has the device, or a share of it.
    pub(super) fn has(&self, device: &DeviceId) -> bool {
        self.devices.contains_key(device) || self.shares.iter().any(|it| it.device == *device)
    }

    /// Number of devices and shares of this request, without admin access.
    pub(super) fn device_count_for(&self, request: &Name) -> i64 {
        let shares = self.shares.iter().map(|share| &share.request);
        let of_it = self.devices.values().chain(shares).filter(|of| *of == request).count();
        i64::try_from(of_it).unwrap_or(i64::MAX)
    }
}

impl ClaimRecord {
    pub(crate) fn from_object(object: &Value) -> Self {
        let owner = controller_owner(object).filter(|owner| &*owner.kind == "Pod");
        let user = |entry: &Value| Some((name(entry, "/name")?, name(entry, "/uid")?));
        let users = list(object, "/status/reservedFor").iter();
        let (pods, others): (Vec<_>, Vec<_>) = users.partition(|user| is_pod_reference(user));
        let finalizers = list(object, "/metadata/finalizers").iter().filter_map(Value::as_str);
        let labels = at(object, "/metadata/labels");
        let queue = labels.and_then(|labels| labels.get(labels::QUEUE)?.as_str());
        let requests = list(object, "/spec/devices/requests").iter().zip(0..);
        Self {
            version: version(object),
            uid: uid(object),
            owner: owner.map(|owner| owner.uid),
            queue: queue.filter(|queue| !queue.is_empty()).map(Name::from),
            requests: requests
                .map(|(request, at)| parse_alternatives(request, at))
                .collect::<Result<Vec<_>, _>>()
                .and_then(|requests| DeviceAlternatives::parse(object, &requests)),
            allocation: at(object, "/status/allocation").map(ClaimAllocation::from_object),
            reserved_pods: pods.into_iter().filter_map(user).collect(),
            reserved_others: others.into_iter().cloned().collect(),
            finalizers: finalizers.map(Name::from).collect(),
            binding: BindingState::from_object(object),
            config: list(object, "/spec/devices/config").to_vec(),
        }
    }

    /// Selections with expressions of their own.
    pub(super) fn narrowing_selections(&self) -> impl Iterator<Item = &DeviceSelection> {
        let wanted = self.requests.iter().flat_map(DeviceAlternatives::requests);
        wanted.map(|wanted| &wanted.selection).filter(|selection| selection.has_own_criteria())
    }

    /// Its devices, with their requests.
    pub(super) fn allocated_devices(&self) -> impl Iterator<Item = (&DeviceId, &Name)> {
        self.allocation.iter().flat_map(|allocation| &allocation.devices)
    }

    /// Its shares of devices.
    pub(super) fn allocated_shares(&self) -> impl Iterator<Item = &ClaimShare> {
        self.allocation.iter().flat_map(|allocation| &allocation.shares)
    }

    /// The tolerations of the request.
    pub(super) fn tolerations_of(&self, request: &Name) -> &[Value] {
        let mut requests = self.requests.iter().flat_map(DeviceAlternatives::requests);
        requests.find(|known| known.request == *request).map_or(&[], |it| &it.tolerations)
    }

    /// What the request selects.
    pub(super) fn selection_of(&self, request: &Name) -> Option<&DeviceSelection> {
        let mut requests = self.requests.iter().flat_map(DeviceAlternatives::requests);
        Some(&requests.find(|known| known.request == *request)?.selection)
    }

    /// Selections of which the claim requests all devices.
    pub(super) fn all_mode_selections(&self) -> impl Iterator<Item = &DeviceSelection> {
        let wanted = self.requests.iter().flat_map(DeviceAlternatives::requests);
        let all = wanted.filter(|wanted| wanted.count == DeviceCount::All);
        all.map(|wanted| &wanted.selection)
    }

    /// Whether the claim was created for this pod.
    pub(crate) fn is_owned_by(&self, pod: &Name) -> bool {
        self.owner.as_ref() == Some(pod)
    }

    /// Whether the claim was created for another pod.
    pub(crate) fn is_owned_by_other(&self, pod: &Name) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner != pod)
    }

    /// The pods that the claim is reserved for; `None` for each that does not exist.
    fn reserving_pods<'p>(
        &self,
        key: &ObjectKey,
        pods: &'p BTreeMap<ObjectKey, PodRecord>,
    ) -> impl Iterator<Item = Option<&'p PodRecord>> {
        self.reserved_pods.iter().map(|(name, uid)| {
            let key = ObjectKey { namespace: Name::clone(&key.namespace), name: Name::clone(name) };
            pods.get(&key).filter(|pod| pod.uid == *uid)
        })
    }

    /// Whether the claim is reserved only for pods that have no node, as after a scheduler that
    /// died between allocation and binding, and no device is or was prepared for them.
    pub(crate) fn is_leftover(
        &self,
        key: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> bool {
        matches!(self.binding, BindingState::Unconditional | BindingState::Failed { .. })
            && self.is_reserved_for_waiting_pods(key, pods)
    }

    /// Whether it is allocated, and reserved only for pods that have no node.
    pub(crate) fn is_reserved_for_waiting_pods(
        &self,
        key: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> bool {
        let waits =
            |pod: Option<&PodRecord>| pod.is_some_and(|pod| pod.is_ours && pod.is_waiting());
        self.allocation.is_some()
            && self.is_reserved_for_pods_only()
            && self.reserving_pods(key, pods).all(waits)
    }

    /// Whether all pods that the claim is reserved for are gone or finished, so that the claim
    /// controller deallocates the claim.
    pub(super) fn is_being_released(
        &self,
        key: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> bool {
        self.is_reserved_for_pods_only()
            && self.reserving_pods(key, pods).all(|pod| pod.is_none_or(PodRecord::is_finished))
    }

    /// Whether the claim is allocated and reserved for nothing.
    pub(crate) fn is_unreserved(&self) -> bool {
        self.allocation.is_some()
            && self.reserved_pods.is_empty()
            && self.reserved_others.is_empty()
    }

    /// Whether it is reserved for the pod or PodGroup with this UID.
    pub(crate) fn is_reserved_for(&self, uid: &Name) -> bool {
        self.reserved_pods.iter().any(|(_, known)| known == uid)
            || self.reserved_others.iter().any(|other| text(other, "/uid") == Some(&**uid))
    }

    /// Whether the claim is reserved, and for pods only.
    fn is_reserved_for_pods_only(&self) -> bool {
        !self.reserved_pods.is_empty() && self.reserved_others.is_empty()
    }

    /// The number of entries in `reservedFor` that are no pods in the cache.
    pub(super) fn unknown_consumer_count(
        &self,
        key: &ObjectKey,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> u32 {
        let strange = self.reserving_pods(key, pods).filter(Option::is_none).count();
        u32::try_from(strange + self.reserved_others.len()).unwrap_or(u32::MAX)
    }
}

/// Whether a request or an allocated device has `adminAccess`.
fn is_admin_access(request: &Value) -> bool {
    at(request, "/adminAccess") == Some(&Value::Bool(true))
}

/// Whether an entry of `status.reservedFor` is a pod.
fn is_pod_reference(reference: &Value) -> bool {
    text(reference, "/resource") == Some("pods")
        && text(reference, "/apiGroup").is_none_or(str::is_empty)
}

/// The alternatives of a request, in order of preference.
fn parse_alternatives(
    request: &Value,
    at_index: usize,
) -> Result<Vec<DeviceRequestRecord>, Malformed> {
    let field = format!("spec.devices.requests[{at_index}]");
    let own = text(request, "/name").unwrap_or_default();
    let exactly = request.get("exactly").filter(|exactly| !exactly.is_null());
    let all = list(request, "/firstAvailable");
    if let Some(exactly) = exactly.filter(|_| all.is_empty()) {
        let field = format!("{field}.exactly");
        let wanted = parse_request(exactly, own.to_owned(), &field)?;
        let access =
            if is_admin_access(exactly) { DeviceAccess::Admin } else { DeviceAccess::Exclusive };
        return Ok(vec![DeviceRequestRecord { access, ..wanted }]);
    }
    if exactly.is_some() || all.is_empty() {
        let found = if all.is_empty() { "nothing" } else { "firstAvailable beside it" };
        return Err(Malformed::new(format!("{field}.exactly"), found, EXPECTED_ALTERNATIVE));
    }
    let one = |(alternative, at): (&Value, usize)| {
        let name = format!("{own}/{}", text(alternative, "/name").unwrap_or_default());
        let field = format!("{field}.firstAvailable[{at}]");
        if is_admin_access(alternative) {
            let field = format!("{field}.adminAccess");
            return Err(Malformed::new(field, "true", "adminAccess in exactly alone"));
        }
        parse_request(alternative, name, &field)
    };
    all.iter().zip(0..).map(one).collect()
}

fn parse_request(
    of: &Value,
    request: String,
    field: &str,
) -> Result<DeviceRequestRecord, Malformed> {
    let allowed = "allocationMode ExactCount or All";
    if text(of, "/deviceClassName").is_none_or(str::is_empty) {
        let field = format!("{field}.deviceClassName");
        return Err(Malformed::new(field, "nothing", "the name of a DeviceClass"));
    }
    let count = match text(of, "/allocationMode").unwrap_or("ExactCount") {
        "ExactCount" => DeviceCount::Exactly(parse_count(of, field)?),
        "All" => {
            reject_count(of, field)?;
            DeviceCount::All
        }
        other => return Err(Malformed::new(format!("{field}.allocationMode"), other, allowed)),
    };
    let selection = DeviceSelection::parse(of, field)?;
    Ok(DeviceRequestRecord {
        request: request.into(),
        selection,
        count,
        access: DeviceAccess::Exclusive,
        tolerations: list(of, "/tolerations").to_vec(),
    })
}

/// Parses a count of devices; 1 if unset.
fn parse_count(of: &Value, field: &str) -> Result<i64, Malformed> {
    let Some(found) = of.get("count").filter(|found| !found.is_null()) else { return Ok(1) };
    let count = found.as_i64().filter(|count| *count > 0);
    count.ok_or_else(|| Malformed::new(format!("{field}.count"), shown(found), EXPECTED_COUNT))
}

/// Rejects a count beside `allocationMode: All`; 0 counts as unset, as in the API.
fn reject_count(of: &Value, field: &str) -> Result<(), Malformed> {
    match of.get("count").filter(|found| !found.is_null() && **found != 0) {
        None => Ok(()),
        Some(found) => {
            Err(Malformed::new(format!("{field}.count"), shown(found), EXPECTED_NO_COUNT))
        }
    }
}
