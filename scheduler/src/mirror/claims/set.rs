//! The devices that a claim gets together: as many as its requests ask for, and alike in what its
//! constraints name. A node offers such sets as a resource, as many as its free devices make. Sets
//! of devices that are only looked after (`adminAccess`) take none, and whoever has them is no matter.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

use super::{
    DEVICES_MAX, are_known,
    device::{Device, DeviceId, Selection},
    record::{Access, Count, Wanted},
};
use crate::parse::{Malformed, list, name, shown};

/// How many devices are tried for a set before it counts as not to be had.
const TRIES: u32 = 10_000;

/// What a claim asks for as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceSet {
    wanted: Vec<Wanted>,
    constraints: BTreeSet<Alike>,
}

/// An attribute of which the devices of some requests have the same value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    /// With its domain.
    attribute: Name,
    /// Empty: all requests.
    requests: BTreeSet<Name>,
}

impl DeviceSet {
    /// Reads the constraints of a claim for these requests of it; all that it knows have `names`.
    pub(super) fn read(
        claim: &Value,
        wanted: Vec<Wanted>,
        names: &[&Name],
    ) -> Result<Self, Malformed> {
        let constraints = list(claim, "/spec/devices/constraints").iter().zip(0..);
        let read = |(constraint, at)| Alike::read(constraint, at, (&wanted, names));
        let constraints = constraints.map(read);
        Ok(Self { constraints: constraints.collect::<Result<_, _>>()?, wanted })
    }

    /// Any devices of its selections do, and it says how many.
    pub(super) fn is_plain(&self) -> bool {
        let is_plain = |one: &Wanted| one.count != Count::All && one.access == Access::Alone;
        self.constraints.is_empty() && self.wanted.iter().all(is_plain)
    }

    /// It has no constraints.
    pub(super) fn is_unbound(&self) -> bool {
        self.constraints.is_empty()
    }

    /// These of its requests, where it has no constraints.
    pub(super) fn of(&self, are_of_it: impl Fn(&Wanted) -> bool) -> Self {
        let wanted = self.wanted.iter().filter(|one| are_of_it(one)).cloned().collect();
        Self { wanted, constraints: BTreeSet::new() }
    }

    /// It looks after some devices.
    pub(super) fn looks(&self) -> bool {
        self.wanted.iter().any(|one| one.access == Access::Admin)
    }

    /// It has none of its devices for itself.
    pub(super) fn takes_none(&self) -> bool {
        self.looks() && self.wanted.iter().all(|one| one.access == Access::Admin)
    }

    /// Whichever free devices it takes, the node has enough others for it to look after.
    pub(super) fn leaves_enough(&self, of_node: &[Device]) -> bool {
        let Some(counts) = self.counts(of_node) else { return false };
        let all = || self.wanted.iter().zip(&counts);
        let suffice = |(one, _): (&Wanted, &usize)| {
            let rivals = all().filter(|(other, _)| one.shares_with(other, of_node));
            let rivals = rivals.fold(0_usize, |sum, (_, count)| sum.saturating_add(*count));
            one.access == Access::Alone || one.selection.count(of_node) >= rivals
        };
        self.constraints.is_empty() && self.looks() && all().all(suffice)
    }

    /// How many devices a plain set is of.
    pub(super) fn devices(&self) -> usize {
        usize::try_from(exactly(&self.wanted)).unwrap_or(usize::MAX)
    }

    /// The devices of a plain set: the request for which each is, and the how manieth of it.
    pub(super) fn each(&self) -> impl Iterator<Item = (&Wanted, i64)> {
        self.wanted.iter().flat_map(|one| {
            let count = match one.count {
                Count::Exactly(count) => count,
                Count::All => 0,
            };
            (0..count).map(move |at| (one, at))
        })
    }

    /// What all of these plain sets ask for, one after the other.
    pub(super) fn all_of(plain: &[&Self]) -> Self {
        let wanted = plain.iter().flat_map(|set| &set.wanted).cloned().collect();
        Self { wanted, constraints: BTreeSet::new() }
    }

    /// Its requests.
    pub(super) fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// What it is counted as; `None`: any devices do, and they are counted by themselves.
    pub(super) fn name(&self) -> Option<Name> {
        if !self.constraints.is_empty() || self.takes_none() {
            return Some(self.told().into());
        }
        self.looks().then(|| format!("devices together: {}", self.told()).into())
    }

    /// In words, which are the same for what is the same.
    pub(super) fn told(&self) -> String {
        let names_requests = self.constraints.iter().any(|one| !one.requests.is_empty());
        let takes_none = self.takes_none();
        let part = |one: &Wanted| {
            let access = match one.access {
                Access::Admin if !takes_none => " with adminAccess",
                Access::Admin | Access::Alone => "",
            };
            let request = names_requests.then(|| format!(" as {}", one.request));
            let count = match one.count {
                Count::Exactly(count) => count.to_string(),
                Count::All => "all".to_owned(),
            };
            let request = request.unwrap_or_default();
            format!("{count} of class {}{access}{request}", one.selection.name())
        };
        let alike: Vec<String> = self.constraints.iter().map(Alike::told).collect();
        let parts: Vec<String> = self.wanted.iter().map(part).collect();
        let parts = parts.join(" and ");
        match alike.as_slice() {
            [] if takes_none => format!("devices with adminAccess: {parts}"),
            [] => parts,
            alike => {
                let access = if takes_none { " with adminAccess," } else { "" };
                format!("devices{access} alike in {}: {parts}", alike.join(" and "))
            }
        }
    }

    /// Devices that it takes by what they are counted as, but for what it wants all of.
    pub(super) fn kinds(&self, of: &dyn Fn(&Selection) -> BTreeSet<Name>) -> BTreeMap<Name, i64> {
        let mut kinds: BTreeMap<Name, i64> = BTreeMap::new();
        for Wanted { selection, count, access, .. } in &self.wanted {
            let (Count::Exactly(count), Access::Alone) = (count, access) else { continue };
            for kind in of(selection) {
                let entry = kinds.entry(kind).or_default();
                *entry = entry.saturating_add(*count);
            }
        }
        kinds
    }

    /// Devices of the node for each request, free ones but for what it looks after, of the fewest
    /// that are alike and suffice, and of those first what the fewest can use; `None`: there are
    /// too few.
    pub(crate) fn pick<'s, 'd>(
        &'s self,
        free: &[&'d Device],
        of_node: &'d [Device],
    ) -> Option<Vec<(&'s Wanted, &'d DeviceId)>> {
        let counts = self.counts(of_node)?;
        let mut devices = self.candidates(free, of_node);
        let mut alike: BTreeMap<Vec<Option<&str>>, usize> = BTreeMap::new();
        for Candidate { device, .. } in &devices {
            *alike.entry(self.values(device)).or_default() += 1;
        }
        let suits = |(wanted, count): (&Wanted, &usize)| {
            let selection = wanted.selection.name();
            devices.iter().filter(|one| one.suits(wanted, &selection)).count() >= *count
        };
        if !self.wanted.iter().zip(&counts).all(suits) {
            return None;
        }
        let sort_key =
            |one: &Candidate<'d>| (alike[&self.values(one.device)], one.device.kinds.len());
        devices.sort_by_cached_key(sort_key);
        let mut search = Search {
            devices: &devices,
            order: self.order(),
            counts,
            picked: Vec::new(),
            tries: TRIES,
        };
        self.search(&mut search, 0).then(|| {
            search.picked.sort_by_key(|(request, _)| *request);
            let of =
                |(request, at): &(usize, usize)| (&self.wanted[*request], &devices[*at].device.id);
            search.picked.iter().map(of).collect()
        })
    }

    /// How many devices each request gets on the node; `None`: more than any node has, or than can
    /// be written to the claim.
    fn counts(&self, of_node: &[Device]) -> Option<Vec<usize>> {
        let counts: Vec<usize> =
            self.wanted.iter().map(|wanted| wanted.among(of_node)).collect::<Option<_>>()?;
        let sum = counts.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
        let are_too_many = i64::try_from(sum).map_or(true, |sum| sum > DEVICES_MAX);
        (!self.looks() || !are_too_many).then_some(counts)
    }

    /// The devices that may be picked.
    fn candidates<'d>(&self, free: &[&'d Device], of_node: &'d [Device]) -> Vec<Candidate<'d>> {
        if !self.looks() {
            return free.iter().map(|device| Candidate { device, is_free: true }).collect();
        }
        let free: BTreeSet<&DeviceId> = free.iter().map(|device| &device.id).collect();
        let of_node = of_node.iter();
        of_node.map(|device| Candidate { device, is_free: free.contains(&device.id) }).collect()
    }

    /// Its requests, those first that need free devices: what the others get leaves them none.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.wanted.len()).collect();
        order.sort_by_key(|at| self.wanted[*at].access == Access::Admin);
        order
    }

    /// What decides whether devices are alike.
    fn values<'d>(&self, device: &'d Device) -> Vec<Option<&'d str>> {
        let attributes = self.constraints.iter().map(|one| device.attributes.get(&one.attribute));
        attributes.map(|value| value.map(String::as_str)).collect()
    }

    /// Picks for the request of this place and all that follow; what it picked in vain it puts back.
    fn search(&self, search: &mut Search<'_, '_>, place: usize) -> bool {
        let Some(request) = search.order.get(place).copied() else { return true };
        let wanted = &self.wanted[request];
        let mut its = search.picked.iter().filter(|(of, _)| *of == request);
        if its.clone().count() >= search.counts[request] {
            return self.search(search, place + 1);
        }
        // Which of its devices a request got first is all the same.
        let from = its.next_back().map_or(0, |(_, at)| at + 1);
        let selection = wanted.selection.name();
        (from..search.devices.len()).any(|at| {
            search.tries = search.tries.saturating_sub(1);
            search.tries > 0
                && search.devices[at].suits(wanted, &selection)
                && self.may_join(search, request, at)
                && self.goes_on_with(search, place, at)
        })
    }

    fn goes_on_with(&self, search: &mut Search<'_, '_>, place: usize, at: usize) -> bool {
        search.picked.push((search.order[place], at));
        let found = self.search(search, place);
        if !found {
            search.picked.pop();
        }
        found
    }

    /// The device is not picked yet, and is like those that are, as far as it has to be.
    fn may_join(&self, search: &Search<'_, '_>, request: usize, at: usize) -> bool {
        let is_new = search.picked.iter().all(|(_, known)| *known != at);
        is_new
            && self.constraints.iter().all(|one| {
                let bound = |request: usize| one.binds(&self.wanted[request].request);
                let value = |at: usize| search.devices[at].device.attributes.get(&one.attribute);
                let mut others = search.picked.iter().filter(|(request, _)| bound(*request));
                !bound(request)
                    || (value(at).is_some() && others.all(|(_, other)| value(*other) == value(at)))
            })
    }
}

/// How many devices the requests ask for that say how many.
pub(super) fn exactly(wanted: &[Wanted]) -> i64 {
    let counts = wanted.iter().map(|one| match one.count {
        Count::Exactly(count) => count,
        Count::All => 0,
    });
    counts.fold(0, i64::saturating_add)
}

/// A device that may be picked.
#[derive(Clone, Copy)]
struct Candidate<'d> {
    device: &'d Device,
    is_free: bool,
}

/// The way to a set: by request, which of the devices are picked.
struct Search<'s, 'd> {
    devices: &'s [Candidate<'d>],
    /// In which order requests are served.
    order: Vec<usize>,
    /// How many each request gets.
    counts: Vec<usize>,
    picked: Vec<(usize, usize)>,
    tries: u32,
}

impl Candidate<'_> {
    /// It may be given for the request, whose selection has this name.
    fn suits(&self, wanted: &Wanted, selection: &Name) -> bool {
        (self.is_free || wanted.access == Access::Admin) && self.device.kinds.contains(selection)
    }
}

impl Wanted {
    /// How many that is on a node with these devices; `None`: more than any node has.
    fn among(&self, of_node: &[Device]) -> Option<usize> {
        match self.count {
            Count::Exactly(count) => usize::try_from(count).ok(),
            // For who takes all of them the core knows that they are not.
            Count::All if self.access == Access::Admin && !are_known(of_node) => None,
            Count::All => Some(self.selection.count(of_node).max(1)),
        }
    }

    /// It is the same request, or a device of the node would do for either.
    fn shares_with(&self, other: &Self, of_node: &[Device]) -> bool {
        let (own, theirs) = (self.selection.name(), other.selection.name());
        let is_of_both = |one: &Device| one.kinds.contains(&own) && one.kinds.contains(&theirs);
        self.request == other.request || of_node.iter().any(is_of_both)
    }
}

impl Alike {
    fn read(
        constraint: &Value,
        at: usize,
        (wanted, known): (&[Wanted], &[&Name]),
    ) -> Result<Self, Malformed> {
        let field = |tail: &str| format!("spec.devices.constraints[{at}].{tail}");
        let attribute = name(constraint, "/matchAttribute").ok_or_else(|| {
            let allowed = "an attribute with its domain";
            Malformed::new(field("matchAttribute"), shown(constraint), allowed)
        })?;
        let named = list(constraint, "/requests");
        let is_there =
            |one: &Value| one.as_str().is_some_and(|one| known.iter().any(|name| is_of(name, one)));
        if let Some(unknown) = named.iter().find(|one| !is_there(one)) {
            let allowed = "names of the claim's requests";
            return Err(Malformed::new(field("requests"), shown(unknown), allowed));
        }
        let requests: BTreeSet<Name> =
            named.iter().filter_map(Value::as_str).map(Name::from).collect();
        let bound = |one: &Wanted| requests.iter().any(|name| is_of(&one.request, name));
        let binds_all = wanted.iter().all(bound);
        Ok(Self { attribute, requests: if binds_all { BTreeSet::new() } else { requests } })
    }

    fn binds(&self, request: &Name) -> bool {
        self.requests.is_empty() || self.requests.iter().any(|name| is_of(request, name))
    }

    fn told(&self) -> String {
        let requests: Vec<&str> = self.requests.iter().map(|request| &**request).collect();
        match requests.as_slice() {
            [] => self.attribute.to_string(),
            requests => format!("{} ({})", self.attribute, requests.join(", ")),
        }
    }
}

/// A request is called so, or an alternative of one that is.
pub(super) fn is_of(request: &str, name: &str) -> bool {
    request == name || request.split_once('/').is_some_and(|(whole, _)| whole == name)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::json;

    use super::*;
    use crate::mirror::claims::Choices;

    fn wanted(request: &str, count: i64) -> Wanted {
        let exactly = json!({ "deviceClassName": "gpu.x" });
        let selection = Selection::read(&exactly, "").unwrap();
        let count = Count::Exactly(count);
        Wanted { request: request.into(), selection, count, access: Access::Alone }
    }

    fn set(constraints: &Value, wanted: Vec<Wanted>) -> Result<DeviceSet, Malformed> {
        let claim = json!({ "spec": { "devices": { "constraints": constraints } } });
        let names: Vec<Name> = wanted.iter().map(|one| Name::clone(&one.request)).collect();
        DeviceSet::read(&claim, wanted, &names.iter().collect::<Vec<_>>())
    }

    /// `a=1 b=2`: devices by name, and the zone that each is in.
    fn devices(text: &str) -> Vec<Device> {
        let device = |word: &str| {
            let (name, zone) = word.split_once('=').unwrap();
            let zone = (zone != "?").then(|| ("gpu.x/zone".into(), zone.to_owned()));
            let part = Name::from;
            Device {
                id: DeviceId { driver: part("gpu.x"), pool: part("n"), device: part(name) },
                pool_is_whole: true,
                is_gpu: true,
                kinds: BTreeSet::from(["gpu.x".into()]),
                attributes: zone.into_iter().collect(),
            }
        };
        text.split(' ').map(device).collect()
    }

    /// How many sets there are, and the devices of the next, by request.
    fn told(set: &DeviceSet, text: &str) -> String {
        let devices = devices(text);
        let free: Vec<&Device> = devices.iter().collect();
        let picked = set.pick(&free, &devices).map(|picked| {
            let devices = picked.iter().map(|(of, id)| format!("{}:{}", of.request, id.device));
            devices.collect::<Vec<_>>().join(" ")
        });
        let count = Choices::of(set.clone()).count(devices.iter(), &devices);
        format!("{text}: {count} sets, {}", picked.as_deref().unwrap_or("none now"))
    }

    #[test]
    fn a_set_is_of_devices_that_are_alike() {
        let alike = json!([{ "matchAttribute": "gpu.x/zone" }]);
        let told = |wanted: Vec<Wanted>, text: &str| told(&set(&alike, wanted).unwrap(), text);
        let two = || vec![wanted("r", 2)];
        let one_and_one = || vec![wanted("r", 1), wanted("s", 1)];
        let told = [
            told(two(), "a=1 b=1 c=1 d=1"),
            told(two(), "a=1 b=2 c=1 d=2"),
            told(two(), "a=1 b=1 c=1 d=2 e=2"),
            told(two(), "a=1 b=2 c=3"),
            told(two(), "a=? b=? c=1 d=1"),
            told(one_and_one(), "a=1 b=2 c=1"),
            told(vec![wanted("r", 3)], "a=1 b=2 c=1 d=2"),
            told(vec![wanted("r", 3)], "a=1 b=1"),
        ];
        assert_snapshot!(told.join("\n"), @"
        a=1 b=1 c=1 d=1: 2 sets, r:a r:b
        a=1 b=2 c=1 d=2: 2 sets, r:a r:c
        a=1 b=1 c=1 d=2 e=2: 2 sets, r:d r:e
        a=1 b=2 c=3: 0 sets, none now
        a=? b=? c=1 d=1: 1 sets, r:c r:d
        a=1 b=2 c=1: 1 sets, r:a s:c
        a=1 b=2 c=1 d=2: 0 sets, none now
        a=1 b=1: 0 sets, none now
        ");
    }

    #[test]
    fn a_constraint_binds_the_requests_that_it_names() {
        let alike = json!([
            { "matchAttribute": "gpu.x/zone", "requests": ["r"] },
            { "matchAttribute": "gpu.x/zone", "requests": ["s", "t"] },
        ]);
        let wanted = vec![wanted("r", 2), wanted("s", 1), wanted("t", 1)];
        let set = set(&alike, wanted).unwrap();
        let told = [
            told(&set, "a=1 b=1 c=2 d=2"),
            told(&set, "a=1 b=2 c=1 d=2 e=1"),
            told(&set, "a=1 b=2 c=1 d=3"),
        ];
        assert_snapshot!(told.join("\n"), @"
        a=1 b=1 c=2 d=2: 1 sets, r:a r:b s:c t:d
        a=1 b=2 c=1 d=2 e=1: 1 sets, r:b r:d s:a t:c
        a=1 b=2 c=1 d=3: 0 sets, none now
        ");
        assert_snapshot!(set.name().unwrap(), @"devices alike in gpu.x/zone (r) and gpu.x/zone (s, t): 2 of class gpu.x as r and 1 of class gpu.x as s and 1 of class gpu.x as t");
    }

    #[test]
    fn a_set_is_counted_by_what_it_is() {
        let of = |constraints: Value| set(&constraints, vec![wanted("r", 2)]).unwrap().name();
        let alike = of(json!([{ "matchAttribute": "gpu.x/zone" }]));
        assert_snapshot!(alike.clone().unwrap(), @"devices alike in gpu.x/zone: 2 of class gpu.x");
        assert_eq!(of(json!([{ "matchAttribute": "gpu.x/zone", "requests": ["r"] }])), alike);
        assert_eq!(of(json!([])), None);
    }

    #[test]
    fn a_constraint_that_cannot_be_heeded_is_named() {
        let told = |constraint: Value| {
            set(&json!([constraint]), vec![wanted("r", 1), wanted("s", 1)]).unwrap_err()
        };
        let of_another = json!({ "matchAttribute": "gpu.x/zone", "requests": ["r", "x"] });
        assert_snapshot!(told(of_another), @r#"spec.devices.constraints[0].requests: found "x", allowed: names of the claim's requests"#);
        assert_snapshot!(told(json!({ "distinctAttribute": "gpu.x/zone" })), @r#"spec.devices.constraints[0].matchAttribute: found {"distinctAttribute":"gpu.x/zone"}, allowed: an attribute with its domain"#);
    }
}
