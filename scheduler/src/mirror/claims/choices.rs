//! What a claim is content with: one set of devices, or the first of several that can be had
//! (`firstAvailable`). A node offers such choices as a resource, as many as its free devices make;
//! what all of them have in common is counted besides, as it is of other claims. So every choice
//! has to ask for the same number of GPUs, which queues pay for.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;
use schedlab_scheduler_core::{model::Name, resources::Resources};

use super::{
    DEVICES_MAX,
    device::{Device, DeviceId, Selection},
    record::{Access, Allocation, Count, Wanted},
    set::{DeviceSet, exactly},
};
use crate::parse::Malformed;

/// More of them are not looked through.
const CHOICES_MAX: usize = 64;

/// What to choose from, best first; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choices(Vec<DeviceSet>);

impl Choices {
    /// Of a claim whose requests have these alternatives: those of earlier requests are clung to
    /// longest.
    pub(super) fn read(claim: &Value, requests: &[Vec<Wanted>]) -> Result<Self, Malformed> {
        let count = requests.iter().fold(1_usize, |count, of| count.saturating_mul(of.len()));
        if count > CHOICES_MAX {
            let allowed = "at most 64 ways to choose of firstAvailable";
            return Err(Malformed::new("spec.devices.requests", count, allowed));
        }
        let names: Vec<&Name> = requests.iter().flatten().map(|wanted| &wanted.request).collect();
        let mut ways = vec![Vec::new()];
        for alternatives in requests {
            let with = |way: &[Wanted], one: &Wanted| [way, std::slice::from_ref(one)].concat();
            let longer =
                ways.iter().flat_map(|way| alternatives.iter().map(move |one| with(way, one)));
            ways = longer.collect();
        }
        if let Some(most) =
            ways.iter().map(|way| exactly(way)).max().filter(|most| *most > DEVICES_MAX)
        {
            let found = format!("{most} devices");
            return Err(Malformed::new("spec.devices.requests", found, "32 devices at most"));
        }
        let sets = ways.into_iter().map(|way| DeviceSet::read(claim, way, &names));
        Ok(Self(sets.collect::<Result<_, _>>()?))
    }

    /// Nothing to choose from.
    pub(super) fn of(set: DeviceSet) -> Self {
        Self(vec![set])
    }

    /// All requests of all sets.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        self.0.iter().flat_map(DeviceSet::wanted)
    }

    /// Requests that take devices.
    pub(super) fn taken(&self) -> impl Iterator<Item = &Wanted> {
        self.wanted().filter(|wanted| wanted.access == Access::Alone)
    }

    /// What it is counted as; `None`: any devices do, and they are counted by themselves.
    pub(super) fn name(&self) -> Option<Name> {
        match self.0.as_slice() {
            [only] => only.name(),
            several => {
                let told: Vec<String> = several.iter().map(DeviceSet::told).collect();
                Some(format!("the first to be had of {}", told.join(", or ")).into())
            }
        }
    }

    /// How many of the sets the node offers, of which so many are had. Whatever is only looked after
    /// (`adminAccess`) is there for everybody.
    pub(super) fn offered<'d>(
        &self,
        free: impl Iterator<Item = &'d Device>,
        of_node: &'d [Device],
        had: i64,
    ) -> i64 {
        match self.0.as_slice() {
            [only] if only.leaves_enough(of_node) => Resources::FOR_ALL,
            [only] if only.takes_none() => {
                only.pick(&[], of_node).map_or(0, |_| Resources::FOR_ALL)
            }
            _ => self.count(free, of_node) + had,
        }
    }

    /// How many times the free devices of the node make one of the sets.
    pub(super) fn count<'d>(
        &self,
        free: impl Iterator<Item = &'d Device>,
        of_node: &'d [Device],
    ) -> i64 {
        let mut free: Vec<&Device> = free.collect();
        let mut count = 0;
        while let Some(picked) = self.pick(&free, of_node) {
            let before = free.len();
            free.retain(|device| !takes(&picked, device));
            if free.len() == before {
                break;
            }
            count += 1;
        }
        count
    }

    /// Devices of the node for each request of the first set that can be had.
    pub(crate) fn pick<'s, 'd>(
        &'s self,
        free: &[&'d Device],
        of_node: &'d [Device],
    ) -> Option<Vec<(&'s Wanted, &'d DeviceId)>> {
        self.0.iter().find_map(|set| set.pick(free, of_node))
    }

    /// Devices by what they are counted as, whichever set it gets, but for what it wants all of.
    pub(super) fn kinds(&self, of: &dyn Fn(&Selection) -> BTreeSet<Name>) -> BTreeMap<Name, i64> {
        let mut sets = self.0.iter().map(|set| set.kinds(of));
        let first = sets.next().unwrap_or_default();
        sets.fold(first, |mut common, other| {
            common.retain(|kind, count| other.get(kind) == Some(count));
            common
        })
    }

    /// What it takes, where any devices do for that and it says how many.
    pub(super) fn taken_plainly(&self) -> Option<DeviceSet> {
        let takes = self.unbound()?.of(|one| one.access == Access::Alone);
        takes.is_plain().then_some(takes)
    }

    /// The set of claims that have neither a choice nor constraints.
    pub(super) fn unbound(&self) -> Option<&DeviceSet> {
        match self.0.as_slice() {
            [only] if only.is_unbound() => Some(only),
            _ => None,
        }
    }

    /// Whichever set it gets, a request of it is such a one.
    pub(super) fn all_have(&self, is_one: impl Fn(&Wanted) -> bool) -> bool {
        self.0.iter().all(|set| set.wanted().iter().any(&is_one))
    }

    /// It has the choice.
    pub(super) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// How many GPUs it has, but for what it wanted all of.
    pub(super) fn gpus_had(&self, has: &Allocation, is_gpu: impl Fn(&Name) -> bool) -> i64 {
        let known: BTreeMap<&Name, &Wanted> =
            self.wanted().map(|wanted| (&wanted.request, wanted)).collect();
        let exactly = known.values().filter(|wanted| wanted.count != Count::All);
        let gpus = exactly.filter(|wanted| is_gpu(&wanted.selection.class));
        gpus.map(|wanted| has.count_for(&wanted.request)).fold(0, i64::saturating_add)
    }

    /// How many GPUs it wants, but for what it wants all of.
    pub(super) fn gpus(&self, is_gpu: impl Fn(&Name) -> bool) -> Result<i64, Malformed> {
        let of = |set: &DeviceSet| {
            let wanted = set.wanted().iter().filter(|wanted| wanted.access == Access::Alone);
            let wanted = wanted.filter(|wanted| is_gpu(&wanted.selection.class));
            let counts = wanted.map(|wanted| match wanted.count {
                Count::Exactly(count) => count,
                Count::All => 0,
            });
            counts.fold(0, i64::saturating_add)
        };
        let all_gpus =
            |wanted: &Wanted| wanted.count == Count::All && is_gpu(&wanted.selection.class);
        if self.are_several() && self.taken().any(all_gpus) {
            return Err(Malformed::new(
                "spec.devices.requests",
                "firstAvailable with allocationMode All of GPUs",
                "allocationMode ExactCount, as queues pay for GPUs beforehand",
            ));
        }
        let gpus = self.0.first().map_or(0, of);
        match self.0.iter().map(of).find(|other| *other != gpus) {
            Some(other) => Err(Malformed::new(
                "spec.devices.requests",
                format!("firstAvailable of {gpus} or {other} GPUs"),
                "alternatives of equally many GPUs, as queues pay for them",
            )),
            None => Ok(gpus),
        }
    }
}

/// One of the picks takes the device.
pub(super) fn takes(picked: &[(&Wanted, &DeviceId)], device: &Device) -> bool {
    let mut taken = picked.iter().filter(|(of, _)| of.access == Access::Alone);
    taken.any(|(_, id)| **id == device.id)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::json;

    use super::*;
    use crate::mirror::ClaimRecord;

    fn sub(name: &str, class: &str, count: i64) -> Value {
        json!({ "name": name, "deviceClassName": class, "count": count })
    }

    fn read(requests: &Value, constraints: &Value) -> Result<Choices, Malformed> {
        let devices = json!({ "requests": requests, "constraints": constraints });
        ClaimRecord::read(&json!({ "spec": { "devices": devices } })).wanted
    }

    /// Devices by name, and their classes.
    fn devices(all: &[(&str, &[&str])]) -> Vec<Device> {
        let device = |(name, kinds): &(&str, &[&str])| Device {
            id: DeviceId { driver: "d".into(), pool: "p".into(), device: (*name).into() },
            pool_is_whole: true,
            is_gpu: true,
            kinds: kinds.iter().copied().map(Name::from).collect(),
            attributes: BTreeMap::new(),
        };
        all.iter().map(device).collect()
    }

    fn picked(choices: &Choices, all: &[(&str, &[&str])]) -> String {
        let devices = devices(all);
        let free: Vec<&Device> = devices.iter().collect();
        let picked = choices.pick(&free, &devices).unwrap_or_default();
        let picked = picked.iter().map(|(of, id)| format!("{}:{}", of.request, id.device));
        let count = choices.count(devices.iter(), &devices);
        format!("{count} sets, {}", picked.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn the_first_alternative_that_can_be_had_is_taken_and_earlier_requests_choose_first() {
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
        assert_snapshot!(choices.name().unwrap(), @"the first to be had of 1 of class big-gpu and 1 of class big-gpu, or 1 of class big-gpu and 1 of class small-gpu, or 1 of class small-gpu and 1 of class big-gpu, or 1 of class small-gpu and 1 of class small-gpu");
    }

    /// All devices of one class, or one of another.
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
        let all = devices(&[x("1"), x("2"), y("3")]);
        let free: Vec<&Device> = all.iter().skip(1).collect();
        let picked = choices.pick(&free, &all).unwrap();
        assert_eq!(&*picked[0].0.request, "a/y", "of all devices one is had");
        assert_snapshot!(choices.name().unwrap(), @"the first to be had of all of class nic.x, or 1 of class nic.y");
    }

    #[test]
    fn a_claim_on_more_devices_than_it_can_have_is_refused() {
        let of = |count| {
            json!([{ "name": "a", "exactly": { "deviceClassName": "x", "count": 20 } },
                                { "name": "b", "exactly": { "deviceClassName": "x", "count": count } }])
        };
        assert!(read(&of(12), &json!([])).is_ok());
        assert_snapshot!(read(&of(13), &json!([])).unwrap_err(), @"spec.devices.requests: found 33 devices, allowed: 32 devices at most");
    }

    #[test]
    fn what_all_alternatives_have_in_common_is_counted() {
        let selecting = |name: &str, count: i64| {
            let selector =
                json!([{ "cel": { "expression": format!("device.driver == '{name}'") } }]);
            json!({ "name": name, "deviceClassName": "gpu.x", "count": count, "selectors": selector })
        };
        let of = |first: Value, second: Value| {
            read(&json!([{ "name": "a", "firstAvailable": [first, second] }]), &json!([])).unwrap()
        };
        let own_kinds = |one: &Selection| BTreeSet::from([Name::clone(&one.class), one.name()]);
        let told = |choices: &Choices| {
            format!("{:?} {:?}", choices.kinds(&own_kinds), choices.gpus(|_| true))
        };
        assert_snapshot!(told(&of(selecting("x", 2), selecting("y", 2))), @r#"{"gpu.x": 2} Ok(2)"#);
        assert_snapshot!(told(&of(sub("x", "gpu.x", 1), sub("y", "gpu.y", 1))), @"{} Ok(1)");
        let unequal = of(selecting("x", 1), selecting("y", 2));
        assert_snapshot!(unequal.gpus(|_| true).unwrap_err(), @"spec.devices.requests: found firstAvailable of 1 or 2 GPUs, allowed: alternatives of equally many GPUs, as queues pay for them");
        assert_eq!(unequal.gpus(|_| false), Ok(0), "nobody pays for what is no GPU");
    }

    #[test]
    fn what_cannot_be_chosen_is_named() {
        let one = |request: Value| read(&json!([request]), &json!([])).unwrap_err();
        let with_all = read(&json!([all_or_one()]), &json!([])).unwrap();
        assert_snapshot!(with_all.gpus(|_| true).unwrap_err(), @"spec.devices.requests: found firstAvailable with allocationMode All of GPUs, allowed: allocationMode ExactCount, as queues pay for GPUs beforehand");
        assert_eq!(with_all.gpus(|_| false), Ok(0), "nobody pays for what is no GPU");
        assert_snapshot!(one(json!({ "name": "a" })), @"spec.devices.requests[0].exactly: found nothing, allowed: exactly or firstAvailable, with a deviceClassName");
        let of_no_class = json!({ "name": "a", "exactly": { "deviceClassName": "" } });
        assert_snapshot!(one(of_no_class), @"spec.devices.requests[0].exactly.deviceClassName: found nothing, allowed: the name of a DeviceClass");
        let counting = |count: Value| {
            let exactly = json!({ "deviceClassName": "gpu.x", "count": count });
            one(json!({ "name": "a", "exactly": exactly })).to_string()
        };
        let field = "spec.devices.requests[0].exactly.count";
        for count in [json!(-1), json!(0), json!(1.5), json!("two"), json!(u64::MAX)] {
            let told = format!("{field}: found {count}, allowed: a positive number of devices");
            assert_eq!(counting(count), told);
        }
        let all = json!({ "deviceClassName": "gpu.x", "allocationMode": "All", "count": 2 });
        assert_snapshot!(one(json!({ "name": "a", "exactly": all })), @"spec.devices.requests[0].exactly.count: found 2, allowed: none beside allocationMode All");
        assert_snapshot!(one(json!({ "name": "a", "firstAvailable": [sub("x", "gpu.x", -2)] })), @"spec.devices.requests[0].firstAvailable[0].count: found -2, allowed: a positive number of devices");
        let two = json!([sub("x", "gpu.x", 1), sub("y", "gpu.y", 1)]);
        let exactly = json!({ "deviceClassName": "gpu.x" });
        let both = json!({ "name": "a", "exactly": exactly, "firstAvailable": two });
        assert_snapshot!(one(both), @"spec.devices.requests[0].exactly: found firstAvailable beside it, allowed: exactly or firstAvailable, with a deviceClassName");
        let many: Vec<_> =
            (0..7).map(|at| json!({ "name": at.to_string(), "firstAvailable": two })).collect();
        assert_snapshot!(read(&json!(many), &json!([])).unwrap_err(), @"spec.devices.requests: found 128, allowed: at most 64 ways to choose of firstAvailable");
    }

    #[test]
    fn a_constraint_may_name_a_request_or_one_of_its_alternatives() {
        let of = |requests: Value| {
            let two = json!([sub("x", "gpu.x", 2), sub("y", "gpu.y", 2)]);
            let constraints = json!([{ "matchAttribute": "gpu.x/zone", "requests": requests }]);
            read(&json!([{ "name": "a", "firstAvailable": two }]), &constraints)
                .map_or_else(|wrong| wrong.to_string(), |read| read.name().unwrap().to_string())
        };
        assert_snapshot!(of(json!(["a"])), @"the first to be had of devices alike in gpu.x/zone: 2 of class gpu.x, or devices alike in gpu.x/zone: 2 of class gpu.y");
        assert_snapshot!(of(json!(["a/x"])), @"the first to be had of devices alike in gpu.x/zone: 2 of class gpu.x, or devices alike in gpu.x/zone (a/x): 2 of class gpu.y as a/y");
        assert_snapshot!(of(json!(["a/z"])), @r#"spec.devices.constraints[0].requests: found "a/z", allowed: names of the claim's requests"#);
    }
}
