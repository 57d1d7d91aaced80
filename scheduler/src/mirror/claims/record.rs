//! Claims as they are kept, and how pods name them.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, NodeSelectorTerm};

use super::{
    super::{controller, selectors::node_term},
    Choices, DeviceId, Key, PodRecord, Selection,
};
use crate::parse::{Malformed, at, list, name, shown, text, version};

const EITHER: &str = "exactly or firstAvailable, with a deviceClassName";
const COUNT: &str = "a positive number of devices";
const NO_COUNT: &str = "none beside allocationMode All";

/// What is kept of a `ResourceClaim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRecord {
    pub(crate) version: u64,
    /// The pod for which it was made.
    owner: Option<Name>,
    /// Label `kai.scheduler/queue`.
    pub(super) queue: Option<Name>,
    pub(crate) wanted: Result<Choices, Malformed>,
    pub(crate) allocation: Option<Allocation>,
    /// Names and uids of the pods for which it is reserved.
    pub(crate) reserved: Vec<(Name, Name)>,
    /// What else it is reserved for, as it stands there.
    pub(crate) reserved_otherwise: Vec<Value>,
    pub(crate) finalizers: Vec<Name>,
    /// What it tells drivers of its devices (`spec.devices.config`), as it stands there.
    pub(super) config: Vec<Value>,
}

/// One request of a claim, or one of the alternatives that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// An alternative's stands behind that of its request, and a slash.
    pub(crate) request: Name,
    pub(crate) selection: Selection,
    pub(crate) count: Count,
    pub(crate) access: Access,
}

/// Whether a request's devices are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody else has them.
    Alone,
    /// It looks after them, whoever has them (`adminAccess`).
    Admin,
}

/// How many devices a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// So many.
    Exactly(i64),
    /// All that the node has (`allocationMode: All`), and at least one.
    All,
}

/// What a claim has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Where, if it says so.
    pub(crate) node: Option<Name>,
    /// From which nodes its devices can be used: any of these; `None`: from all.
    pub(super) terms: Option<Vec<NodeSelectorTerm>>,
    /// Those that nobody else can be given, and the request for which each was given.
    pub(crate) devices: BTreeMap<DeviceId, Name>,
    /// Those that it looks after, whoever has them.
    looked_after: BTreeMap<DeviceId, Name>,
}

/// A claim as a pod names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodClaim {
    /// The pod's own name for it.
    pub(crate) name: Name,
    /// The claim's name; `None` while it is to be made from a template.
    pub(crate) claim: Option<Name>,
}

impl Allocation {
    /// An `AllocationResult`.
    pub(crate) fn read(allocation: &Value) -> Self {
        let device = |result: &Value| {
            let part = |pointer| Name::from(text(result, pointer).unwrap_or_default());
            let (driver, pool, device) = (part("/driver"), part("/pool"), part("/device"));
            (DeviceId { driver, pool, device }, part("/request"))
        };
        let results = list(allocation, "/devices/results").iter();
        let (looked_after, had): (Vec<_>, Vec<_>) = results.partition(|result| only_looks(result));
        let terms = list(allocation, "/nodeSelector/nodeSelectorTerms").iter();
        let mut fields = terms.flat_map(|term| list(term, "/matchFields"));
        let by_name = fields.find(|field| text(field, "/key") == Some("metadata.name"));
        let by_name = by_name.filter(|field| list(field, "/values").len() == 1);
        // A term that cannot be read selects no node.
        let selector = at(allocation, "/nodeSelector").filter(|selector| !selector.is_null());
        let terms = selector.map(|selector| {
            let terms = list(selector, "/nodeSelectorTerms").iter();
            terms.filter_map(|term| node_term(term).ok()).collect()
        });
        Self {
            node: by_name.and_then(|field| name(field, "/values/0")),
            terms,
            devices: had.into_iter().map(device).collect(),
            looked_after: looked_after.into_iter().map(device).collect(),
        }
    }

    /// It is of the same devices.
    pub(crate) fn is_of_those_of(&self, other: &Self) -> bool {
        self.devices == other.devices && self.looked_after == other.looked_after
    }

    /// How many devices it has for this request.
    pub(super) fn count_for(&self, request: &Name) -> i64 {
        let of_it = self.devices.values().filter(|of| *of == request).count();
        i64::try_from(of_it).unwrap_or(i64::MAX)
    }
}

impl PodClaim {
    pub(crate) fn all(pod: &Value) -> Vec<Self> {
        let made = list(pod, "/status/resourceClaimStatuses");
        let of = |entry: &Value| {
            let own = text(entry, "/name").unwrap_or_default();
            let made = made.iter().find(|status| text(status, "/name") == Some(own));
            let claim = made.unwrap_or(entry);
            Self { name: own.into(), claim: name(claim, "/resourceClaimName") }
        };
        list(pod, "/spec/resourceClaims").iter().map(of).collect()
    }
}

impl ClaimRecord {
    pub(crate) fn read(object: &Value) -> Self {
        let owner = controller(object).filter(|owner| &*owner.kind == "Pod");
        let user = |entry: &Value| Some((name(entry, "/name")?, name(entry, "/uid")?));
        let users = list(object, "/status/reservedFor").iter();
        let (pods, others): (Vec<_>, Vec<_>) = users.partition(|user| is_pod(user));
        let finalizers = list(object, "/metadata/finalizers").iter().filter_map(Value::as_str);
        let labels = at(object, "/metadata/labels");
        let queue = labels.and_then(|labels| labels.get("kai.scheduler/queue")?.as_str());
        let requests = list(object, "/spec/devices/requests").iter().zip(0..);
        Self {
            version: version(object),
            owner: owner.map(|owner| owner.uid),
            queue: queue.filter(|queue| !queue.is_empty()).map(Name::from),
            wanted: requests
                .map(|(request, at)| alternatives(request, at))
                .collect::<Result<Vec<_>, _>>()
                .and_then(|requests| Choices::read(object, &requests)),
            allocation: at(object, "/status/allocation").map(Allocation::read),
            reserved: pods.into_iter().filter_map(user).collect(),
            reserved_otherwise: others.into_iter().cloned().collect(),
            finalizers: finalizers.map(Name::from).collect(),
            config: list(object, "/spec/devices/config").to_vec(),
        }
    }

    /// What its requests select beyond their classes.
    pub(super) fn selections(&self) -> impl Iterator<Item = &Selection> {
        let wanted = self.wanted.iter().flat_map(Choices::wanted);
        wanted.map(|wanted| &wanted.selection).filter(|selection| selection.narrows())
    }

    /// Its devices, and whether it can be told what it asks for.
    pub(super) fn held(&self) -> impl Iterator<Item = (&DeviceId, bool)> {
        let devices = self.allocation.iter().flat_map(|allocation| allocation.devices.keys());
        devices.map(|device| (device, self.wanted.is_ok()))
    }

    /// What it wants all devices of.
    pub(super) fn wants_all_of(&self) -> impl Iterator<Item = &Selection> {
        let wanted = self.wanted.iter().flat_map(Choices::wanted);
        let all = wanted.filter(|wanted| wanted.count == Count::All);
        all.map(|wanted| &wanted.selection)
    }

    /// It was made for this pod.
    pub(crate) fn is_own_of(&self, pod: &Name) -> bool {
        self.owner.as_ref() == Some(pod)
    }

    /// It was made for another one.
    pub(crate) fn is_of_another(&self, pod: &Name) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner != pod)
    }

    /// The pods for which it is reserved; `None` for each that is not there.
    fn users<'p>(
        &self,
        key: &Key,
        pods: &'p BTreeMap<Key, PodRecord>,
    ) -> impl Iterator<Item = Option<&'p PodRecord>> {
        self.reserved.iter().map(|(name, uid)| {
            let key = Key { namespace: Name::clone(&key.namespace), name: Name::clone(name) };
            pods.get(&key).filter(|pod| pod.uid == *uid)
        })
    }

    /// It was allocated for pods of which none has its node: whoever did it got no further.
    pub(crate) fn is_left_over(&self, key: &Key, pods: &BTreeMap<Key, PodRecord>) -> bool {
        let waits = |pod: Option<&PodRecord>| pod.is_some_and(|pod| pod.ours && pod.waits());
        self.allocation.is_some() && self.is_for_pods() && self.users(key, pods).all(waits)
    }

    /// The pods for which it is reserved have all gone or ended: the claim controller takes it
    /// back.
    pub(super) fn is_given_back(&self, key: &Key, pods: &BTreeMap<Key, PodRecord>) -> bool {
        self.is_for_pods()
            && self.users(key, pods).all(|pod| pod.is_none_or(PodRecord::is_finished))
    }

    /// It is allocated, and reserved neither for pods nor for anything else.
    pub(crate) fn is_reserved_for_nobody(&self) -> bool {
        self.allocation.is_some() && self.reserved.is_empty() && self.reserved_otherwise.is_empty()
    }

    /// It is reserved, and for nothing but pods.
    fn is_for_pods(&self) -> bool {
        !self.reserved.is_empty() && self.reserved_otherwise.is_empty()
    }

    /// For how many it is reserved that are not known.
    pub(super) fn strangers(&self, key: &Key, pods: &BTreeMap<Key, PodRecord>) -> u32 {
        let strange = self.users(key, pods).filter(Option::is_none).count();
        u32::try_from(strange + self.reserved_otherwise.len()).unwrap_or(u32::MAX)
    }
}

/// A device is asked for, or was given, for looking after it (`adminAccess`), whoever has it.
fn only_looks(of: &Value) -> bool {
    at(of, "/adminAccess") == Some(&Value::Bool(true))
}

/// An entry of `status.reservedFor` names a pod.
fn is_pod(user: &Value) -> bool {
    text(user, "/resource") == Some("pods") && text(user, "/apiGroup").is_none_or(str::is_empty)
}

/// What a request is content with, best first.
fn alternatives(request: &Value, at_index: usize) -> Result<Vec<Wanted>, Malformed> {
    let field = format!("spec.devices.requests[{at_index}]");
    let own = text(request, "/name").unwrap_or_default();
    let exactly = request.get("exactly").filter(|exactly| !exactly.is_null());
    let all = list(request, "/firstAvailable");
    if let Some(exactly) = exactly.filter(|_| all.is_empty()) {
        let field = format!("{field}.exactly");
        let wanted = wanted(exactly, own.to_owned(), &field)?;
        let access = if only_looks(exactly) { Access::Admin } else { Access::Alone };
        return Ok(vec![Wanted { access, ..wanted }]);
    }
    if exactly.is_some() || all.is_empty() {
        let found = if all.is_empty() { "nothing" } else { "firstAvailable beside it" };
        return Err(Malformed::new(format!("{field}.exactly"), found, EITHER));
    }
    let one = |(alternative, at): (&Value, usize)| {
        let name = format!("{own}/{}", text(alternative, "/name").unwrap_or_default());
        let field = format!("{field}.firstAvailable[{at}]");
        if only_looks(alternative) {
            let field = format!("{field}.adminAccess");
            return Err(Malformed::new(field, "true", "adminAccess in exactly alone"));
        }
        wanted(alternative, name, &field)
    };
    all.iter().zip(0..).map(one).collect()
}

fn wanted(of: &Value, request: String, field: &str) -> Result<Wanted, Malformed> {
    let allowed = "allocationMode ExactCount or All";
    if text(of, "/deviceClassName").is_none_or(str::is_empty) {
        let field = format!("{field}.deviceClassName");
        return Err(Malformed::new(field, "nothing", "the name of a DeviceClass"));
    }
    let count = match text(of, "/allocationMode").unwrap_or("ExactCount") {
        "ExactCount" => Count::Exactly(count(of, field)?),
        "All" => {
            none(of, field)?;
            Count::All
        }
        other => return Err(Malformed::new(format!("{field}.allocationMode"), other, allowed)),
    };
    let selection = Selection::read(of, field)?;
    Ok(Wanted { request: request.into(), selection, count, access: Access::Alone })
}

/// One where it says nothing.
fn count(of: &Value, field: &str) -> Result<i64, Malformed> {
    let Some(found) = of.get("count").filter(|found| !found.is_null()) else { return Ok(1) };
    let count = found.as_i64().filter(|count| *count > 0);
    count.ok_or_else(|| Malformed::new(format!("{field}.count"), shown(found), COUNT))
}

/// All devices are as many as there are; 0 is none, as in the API.
fn none(of: &Value, field: &str) -> Result<(), Malformed> {
    match of.get("count").filter(|found| !found.is_null() && **found != 0) {
        None => Ok(()),
        Some(found) => Err(Malformed::new(format!("{field}.count"), shown(found), NO_COUNT)),
    }
}
