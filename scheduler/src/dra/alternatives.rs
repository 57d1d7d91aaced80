//! The alternatives of a claim: one set of devices, or several of which the first available one is
//! allocated (`firstAvailable`). A node provides such alternatives as an internal resource, in the
//! number that its free devices make up. Kinds that are common to all alternatives are also counted
//! separately, as for other claims. All alternatives must request the same number of GPUs, since
//! queues are charged for them.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::Value;
use schedlab_scheduler_core::{
    devices::{AllocationFailure, AvailableDevices, allocate_claims, max_claims},
    model::{ClaimRequests, DeviceAccess, DeviceCount, Name},
    resources::Resources,
};

use super::{
    DEVICES_MAX,
    claim::{ClaimAllocation, DeviceRequestRecord},
    device::{Device, DeviceSelection},
    device_set::{DeviceSet, exact_count_sum},
};
use crate::parse::Malformed;

/// Maximum number of combinations of alternatives of a claim.
const ALTERNATIVES_MAX: usize = 64;

/// The alternative device sets, in order of preference; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceAlternatives(Vec<DeviceSet>);

impl DeviceAlternatives {
    /// Combines the alternatives of all requests of a claim; the first alternative of the first
    /// request is given up last.
    pub(super) fn parse(
        claim: &Value,
        requests: &[Vec<DeviceRequestRecord>],
    ) -> Result<Self, Malformed> {
        let count = requests.iter().fold(1_usize, |count, of| count.saturating_mul(of.len()));
        if count > ALTERNATIVES_MAX {
            let allowed = "at most 64 combinations of firstAvailable alternatives";
            return Err(Malformed::new("spec.devices.requests", count, allowed));
        }
        let names: Vec<&Name> = requests.iter().flatten().map(|request| &request.request).collect();
        let mut ways = vec![Vec::new()];
        for alternatives in requests {
            let with = |way: &[DeviceRequestRecord], one: &DeviceRequestRecord| {
                [way, std::slice::from_ref(one)].concat()
            };
            let longer =
                ways.iter().flat_map(|way| alternatives.iter().map(move |one| with(way, one)));
            ways = longer.collect();
        }
        if let Some(most) =
            ways.iter().map(|way| exact_count_sum(way)).max().filter(|most| *most > DEVICES_MAX)
        {
            let found = format!("{most} devices");
            return Err(Malformed::new("spec.devices.requests", found, "at most 32 devices"));
        }
        let sets = ways.into_iter().map(|way| DeviceSet::parse(claim, way, &names));
        Ok(Self(sets.collect::<Result<_, _>>()?))
    }

    /// A single set without alternatives.
    #[cfg(test)]
    pub(super) fn from_single_set(set: DeviceSet) -> Self {
        Self(vec![set])
    }

    /// The requests of all sets.
    pub(super) fn requests(&self) -> impl Iterator<Item = &DeviceRequestRecord> {
        self.0.iter().flat_map(DeviceSet::requests)
    }

    /// Requests without admin access.
    pub(super) fn exclusive_requests(&self) -> impl Iterator<Item = &DeviceRequestRecord> {
        self.requests().filter(|request| request.access == DeviceAccess::Exclusive)
    }

    /// The name that the claim's device sets are counted as; `None` if any devices of the right
    /// kinds do, so that counting the kinds suffices.
    pub(super) fn counted_name(&self) -> Option<Name> {
        match self.0.as_slice() {
            [only] => only.name(),
            several => {
                let descriptions: Vec<String> =
                    several.iter().map(DeviceSet::description).collect();
                Some(format!("the first available of {}", descriptions.join(", or ")).into())
            }
        }
    }

    /// How many of the sets the node provides if all its devices, `free`, are free. Admin access is
    /// not limited; where counts are not exact, the search limits the number.
    pub(super) fn count_offered(&self, free: &AvailableDevices<'_>, of_node: &[Device]) -> i64 {
        let requests = self.claim_requests();
        if of_node.iter().any(Device::needs_search) {
            let is_offered =
                allocate_claims(&[(&requests).into()], free) != Err(AllocationFailure::Impossible);
            return if is_offered { Resources::INEXHAUSTIBLE } else { 0 };
        }
        let count = max_claims(&requests, free);
        let is_unlimited = match self.0.as_slice() {
            [only] => only.leaves_enough_for_admin(of_node) || only.is_admin_only() && count > 0,
            _ => false,
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if is_unlimited { Resources::INEXHAUSTIBLE } else { count }
    }

    /// The alternatives in the form in which the core allocates them.
    pub(super) fn claim_requests(&self) -> ClaimRequests {
        ClaimRequests { alternatives: self.0.iter().map(DeviceSet::to_alternative).collect() }
    }

    /// Number of devices by kind that every alternative requests, without requests for all devices.
    pub(super) fn device_counts_by_kind(
        &self,
        of: &dyn Fn(&DeviceSelection) -> BTreeSet<Name>,
    ) -> BTreeMap<Name, i64> {
        let mut sets = self.0.iter().map(|set| set.device_counts_by_kind(of));
        let first = sets.next().unwrap_or_default();
        sets.fold(first, |mut common, other| {
            common.retain(|kind, count| other.get(kind) == Some(count));
            common
        })
    }

    /// Whether every alternative has a request for which `is_one` holds.
    pub(super) fn every_set_has(&self, is_one: impl Fn(&DeviceRequestRecord) -> bool) -> bool {
        self.0.iter().all(|set| set.requests().iter().any(&is_one))
    }

    /// Whether there is more than one set.
    pub(super) fn has_alternatives(&self) -> bool {
        self.0.len() > 1
    }

    /// Number of allocated GPUs, without requests for all devices.
    pub(super) fn allocated_gpus(
        &self,
        has: &ClaimAllocation,
        is_gpu: impl Fn(&Name) -> bool,
    ) -> i64 {
        let known: BTreeMap<&Name, &DeviceRequestRecord> =
            self.requests().map(|request| (&request.request, request)).collect();
        let exactly = known.values().filter(|request| request.count != DeviceCount::All);
        let gpus = exactly.filter(|request| is_gpu(&request.selection.class));
        gpus.map(|request| has.device_count_for(&request.request)).fold(0, i64::saturating_add)
    }

    /// Number of requested GPUs, without requests for all devices.
    ///
    /// # Errors
    /// The alternatives request different numbers of GPUs, or all GPUs of a node.
    pub(super) fn requested_gpus(&self, is_gpu: impl Fn(&Name) -> bool) -> Result<i64, Malformed> {
        let of = |set: &DeviceSet| {
            let requests =
                set.requests().iter().filter(|request| request.access == DeviceAccess::Exclusive);
            let requests = requests.filter(|request| is_gpu(&request.selection.class));
            let counts = requests.map(|request| match request.count {
                DeviceCount::Exactly(count) => count,
                DeviceCount::All => 0,
            });
            counts.fold(0, i64::saturating_add)
        };
        let all_gpus = |request: &DeviceRequestRecord| {
            request.count == DeviceCount::All && is_gpu(&request.selection.class)
        };
        if self.has_alternatives() && self.exclusive_requests().any(all_gpus) {
            return Err(Malformed::new(
                "spec.devices.requests",
                "firstAvailable with allocationMode All of GPUs",
                "allocationMode ExactCount, since queues are charged for GPUs in advance",
            ));
        }
        let gpus = self.0.first().map_or(0, of);
        match self.0.iter().map(of).find(|other| *other != gpus) {
            Some(other) => Err(Malformed::new(
                "spec.devices.requests",
                format!("firstAvailable of {gpus} or {other} GPUs"),
                "alternatives with the same number of GPUs, since queues are charged for them",
            )),
            None => Ok(gpus),
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::json;
    use schedlab_scheduler_core::model::{DeviceAmounts, DeviceProperties};

    use super::*;
    use crate::dra::{ClaimRecord, DeviceId};

    fn sub(name: &str, class: &str, count: i64) -> Value {
        json!({ "name": name, "deviceClassName": class, "count": count })
    }

    fn read(requests: &Value, constraints: &Value) -> Result<DeviceAlternatives, Malformed> {
        let devices = json!({ "requests": requests, "constraints": constraints });
        ClaimRecord::from_object(&json!({ "spec": { "devices": devices } })).requests
    }

    /// Devices by name, with their classes.
    fn devices(all: &[(&str, &[&str])]) -> Vec<Device> {
        let device = |(name, kinds): &(&str, &[&str])| Device {
            id: DeviceId { driver: "d".into(), pool: "p".into(), device: (*name).into() },
            pool_is_whole: true,
            is_gpu: true,
            kinds: kinds.iter().copied().map(Name::from).collect(),
            ..Device::default()
        };
        all.iter().map(device).collect()
    }

    fn picked(choices: &DeviceAlternatives, all: &[(&str, &[&str])]) -> String {
        let devices = devices(all);
        let properties: Vec<DeviceProperties> = devices.iter().map(Device::properties).collect();
        let free = AvailableDevices::all_free(&properties, &DeviceAmounts::new());
        let requests = choices.claim_requests();
        let picked =
            allocate_claims(&[(&requests).into()], &free).unwrap_or_default().into_iter().flatten();
        let picked =
            picked.map(|one| format!("{}:{}", one.request.name, devices[one.device].id.device));
        let count = choices.count_offered(&free, &devices);
        format!("{count} sets, {}", picked.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_first_satisfiable_alternative_is_picked_and_earlier_requests_choose_first() {
        let of = json!([
            { "name": "a", "firstAvailable": [sub("x", "big-gpu", 1), sub("y", "small-gpu", 1)] },
            { "name": "b", "firstAvailable": [sub("x", "big-gpu", 1), sub("y", "small-gpu", 1)] },
        ]);
        let choices = read(&of, &json!([])).unwrap();
        let big = |name| (name, ["big-gpu"].as_slice());
        let small = |name| (name, ["small-gpu"].as_slice());
        assert_snapshot!(picked(&choices, &[big("1"), big("2"), small("3")]), @"1 sets, a/x:1 b/x:2");
        assert_snapshot!(picked(&choices, &[small("1"), small("2"), big("3")]), @"1 sets, a/x:3 b/y:1");
        assert_snapshot!(picked(&choices, &[small("1"), small("2"), small("3"), small("4")]), @"2 sets, a/y:1 b/y:2");
        assert_snapshot!(picked(&choices, &[small("1")]), @"0 sets,");
        assert_snapshot!(choices.counted_name().unwrap(), @"the first available of 1 of class big-gpu and 1 of class big-gpu, or 1 of class big-gpu and 1 of class small-gpu, or 1 of class small-gpu and 1 of class big-gpu, or 1 of class small-gpu and 1 of class small-gpu");
    }

    /// All devices of one class, or one device of another.
    fn all_or_one() -> Value {
        let mut all = sub("x", "nic.x", 1);
        all["allocationMode"] = json!("All");
        all["count"] = json!(0);
        json!({ "name": "a", "firstAvailable": [all, sub("y", "nic.y", 1)] })
    }

    #[test]
    fn an_alternative_may_be_all_devices_of_the_node() {
        let choices = read(&json!([all_or_one()]), &json!([])).unwrap();
        let x = |name| (name, ["nic.x"].as_slice());
        let y = |name| (name, ["nic.y"].as_slice());
        assert_snapshot!(picked(&choices, &[x("1"), x("2"), y("3")]), @"2 sets, a/x:1 a/x:2");
        assert_snapshot!(picked(&choices, &[y("3")]), @"1 sets, a/y:3");
        assert_snapshot!(picked(&choices, &[]), @"0 sets,");
        assert_snapshot!(choices.counted_name().unwrap(), @"the first available of all of class nic.x, or 1 of class nic.y");
    }

    #[test]
    fn a_claim_on_more_than_32_devices_is_malformed() {
        let of = |count| {
            json!([{ "name": "a", "exactly": { "deviceClassName": "x", "count": 20 } },
                                { "name": "b", "exactly": { "deviceClassName": "x", "count": count } }])
        };
        assert!(read(&of(12), &json!([])).is_ok());
        assert_snapshot!(read(&of(13), &json!([])).unwrap_err(), @"spec.devices.requests: got 33 devices, expected at most 32 devices");
    }

    #[test]
    fn kinds_common_to_all_alternatives_are_counted() {
        let selecting = |name: &str, count: i64| {
            let selector =
                json!([{ "cel": { "expression": format!("device.driver == '{name}'") } }]);
            json!({ "name": name, "deviceClassName": "gpu.x", "count": count, "selectors": selector })
        };
        let of = |first: Value, second: Value| {
            read(&json!([{ "name": "a", "firstAvailable": [first, second] }]), &json!([])).unwrap()
        };
        let own_kinds =
            |one: &DeviceSelection| BTreeSet::from([Name::clone(&one.class), one.name()]);
        let rendered = |choices: &DeviceAlternatives| {
            format!(
                "{:?} {:?}",
                choices.device_counts_by_kind(&own_kinds),
                choices.requested_gpus(|_| true)
            )
        };
        assert_snapshot!(rendered(&of(selecting("x", 2), selecting("y", 2))), @r#"{"gpu.x": 2} Ok(2)"#);
        assert_snapshot!(rendered(&of(sub("x", "gpu.x", 1), sub("y", "gpu.y", 1))), @"{} Ok(1)");
        let unequal = of(selecting("x", 1), selecting("y", 2));
        assert_snapshot!(unequal.requested_gpus(|_| true).unwrap_err(), @"spec.devices.requests: got firstAvailable of 1 or 2 GPUs, expected alternatives with the same number of GPUs, since queues are charged for them");
        assert_eq!(unequal.requested_gpus(|_| false), Ok(0), "only GPUs are charged");
    }

    #[test]
    fn malformed_requests_are_reported_with_their_field() {
        let one = |request: Value| read(&json!([request]), &json!([])).unwrap_err();
        let with_all = read(&json!([all_or_one()]), &json!([])).unwrap();
        assert_snapshot!(with_all.requested_gpus(|_| true).unwrap_err(), @"spec.devices.requests: got firstAvailable with allocationMode All of GPUs, expected allocationMode ExactCount, since queues are charged for GPUs in advance");
        assert_eq!(with_all.requested_gpus(|_| false), Ok(0), "only GPUs are charged");
        assert_snapshot!(one(json!({ "name": "a" })), @"spec.devices.requests[0].exactly: got nothing, expected exactly or firstAvailable, with a deviceClassName");
        let of_no_class = json!({ "name": "a", "exactly": { "deviceClassName": "" } });
        assert_snapshot!(one(of_no_class), @"spec.devices.requests[0].exactly.deviceClassName: got nothing, expected the name of a DeviceClass");
        let counting = |count: Value| {
            let exactly = json!({ "deviceClassName": "gpu.x", "count": count });
            one(json!({ "name": "a", "exactly": exactly })).to_string()
        };
        let field = "spec.devices.requests[0].exactly.count";
        for count in [json!(-1), json!(0), json!(1.5), json!("two"), json!(u64::MAX)] {
            let rendered = format!("{field}: got {count}, expected a positive number of devices");
            assert_eq!(counting(count), rendered);
        }
        let all = json!({ "deviceClassName": "gpu.x", "allocationMode": "All", "count": 2 });
        assert_snapshot!(one(json!({ "name": "a", "exactly": all })), @"spec.devices.requests[0].exactly.count: got 2, expected none beside allocationMode All");
        assert_snapshot!(one(json!({ "name": "a", "firstAvailable": [sub("x", "gpu.x", -2)] })), @"spec.devices.requests[0].firstAvailable[0].count: got -2, expected a positive number of devices");
        let two = json!([sub("x", "gpu.x", 1), sub("y", "gpu.y", 1)]);
        let exactly = json!({ "deviceClassName": "gpu.x" });
        let both = json!({ "name": "a", "exactly": exactly, "firstAvailable": two });
        assert_snapshot!(one(both), @"spec.devices.requests[0].exactly: got firstAvailable beside it, expected exactly or firstAvailable, with a deviceClassName");
        let many: Vec<_> =
            (0..7).map(|at| json!({ "name": at.to_string(), "firstAvailable": two })).collect();
        assert_snapshot!(read(&json!(many), &json!([])).unwrap_err(), @"spec.devices.requests: got 128, expected at most 64 combinations of firstAvailable alternatives");
    }

    #[test]
    fn a_constraint_may_name_a_request_or_one_of_its_alternatives() {
        let of = |requests: Value| {
            let two = json!([sub("x", "gpu.x", 2), sub("y", "gpu.y", 2)]);
            let constraints = json!([{ "matchAttribute": "gpu.x/zone", "requests": requests }]);
            read(&json!([{ "name": "a", "firstAvailable": two }]), &constraints).map_or_else(
                |wrong| wrong.to_string(),
                |read| read.counted_name().unwrap().to_string(),
            )
        };
        assert_snapshot!(of(json!(["a"])), @"the first available of devices alike in gpu.x/zone: 2 of class gpu.x, or devices alike in gpu.x/zone: 2 of class gpu.y");
        assert_snapshot!(of(json!(["a/x"])), @"the first available of devices alike in gpu.x/zone: 2 of class gpu.x, or devices alike in gpu.x/zone (a/x): 2 of class gpu.y as a/y");
        assert_snapshot!(of(json!(["a/z"])), @r#"spec.devices.constraints[0].requests: got "a/z", expected names of the claim's requests"#);
    }
}
