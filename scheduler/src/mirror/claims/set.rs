//! The devices that a claim gets together: as many as its requests ask for, and alike in what its
//! constraints name. A node offers such sets as a resource, as many as its free devices make.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

use super::{
    device::{Device, DeviceId, Selection},
    record::{Count, Wanted},
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
        self.constraints.is_empty() && self.wanted.iter().all(|one| one.count != Count::All)
    }

    /// How many devices a plain set is of.
    pub(super) fn devices(&self) -> usize {
        let counts = self.wanted.iter().filter_map(|one| match one.count {
            Count::Exactly(count) => usize::try_from(count).ok(),
            Count::All => None,
        });
        counts.sum()
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
        (!self.constraints.is_empty()).then(|| self.told().into())
    }

    /// In words, which are the same for what is the same.
    pub(super) fn told(&self) -> String {
        let names_requests = self.constraints.iter().any(|one| !one.requests.is_empty());
        let part = |one: &Wanted| {
            let request = names_requests.then(|| format!(" as {}", one.request));
            let count = match one.count {
                Count::Exactly(count) => count.to_string(),
                Count::All => "all".to_owned(),
            };
            format!("{count} of class {}{}", one.selection.name(), request.unwrap_or_default())
        };
        let alike: Vec<String> = self.constraints.iter().map(Alike::told).collect();
        let parts: Vec<String> = self.wanted.iter().map(part).collect();
        let parts = parts.join(" and ");
        match alike.as_slice() {
            [] => parts,
            alike => format!("devices alike in {}: {parts}", alike.join(" and ")),
        }
    }

    /// Devices by what they are counted as, but for what it wants all of.
    pub(super) fn kinds(&self, of: &dyn Fn(&Selection) -> BTreeSet<Name>) -> BTreeMap<Name, i64> {
        let mut kinds: BTreeMap<Name, i64> = BTreeMap::new();
        for Wanted { selection, count, .. } in &self.wanted {
            let Count::Exactly(count) = count else { continue };
            for kind in of(selection) {
                let entry = kinds.entry(kind).or_default();
                *entry = entry.saturating_add(*count);
            }
        }
        kinds
    }

    /// Free devices of the node for each request, of the fewest that are alike and suffice, and of
    /// those first what the fewest can use; `None`: there are too few.
    pub(crate) fn pick<'d>(
        &self,
        free: &[&'d Device],
        of_node: &[Device],
    ) -> Option<Vec<(&Name, &'d DeviceId)>> {
        let counts: Vec<usize> =
            self.wanted.iter().map(|wanted| wanted.among(of_node)).collect::<Option<_>>()?;
        let mut alike: BTreeMap<Vec<Option<&str>>, usize> = BTreeMap::new();
        for device in free {
            *alike.entry(self.values(device)).or_default() += 1;
        }
        let suits = |(wanted, count): (&Wanted, &usize)| {
            let selection = wanted.selection.name();
            let suiting = free.iter().filter(|device| device.kinds.contains(&selection));
            suiting.count() >= *count
        };
        if !self.wanted.iter().zip(&counts).all(suits) {
            return None;
        }
        let mut free = free.to_vec();
        free.sort_by_key(|device| (alike[&self.values(device)], device.kinds.len()));
        let mut search = Search { free: &free, counts, picked: Vec::new(), tries: TRIES };
        self.search(&mut search, 0).then(|| {
            let of =
                |(request, at): &(usize, usize)| (&self.wanted[*request].request, &free[*at].id);
            search.picked.iter().map(of).collect()
        })
    }

    /// What decides whether devices are alike.
    fn values<'d>(&self, device: &'d Device) -> Vec<Option<&'d str>> {
        let attributes = self.constraints.iter().map(|one| device.attributes.get(&one.attribute));
        attributes.map(|value| value.map(String::as_str)).collect()
    }

    /// Picks for this request and all that follow; what it picked in vain it puts back.
    fn search(&self, search: &mut Search<'_, '_>, request: usize) -> bool {
        let Some(wanted) = self.wanted.get(request) else { return true };
        let mut its = search.picked.iter().filter(|(of, _)| *of == request);
        if its.clone().count() >= search.counts[request] {
            return self.search(search, request + 1);
        }
        // Which of its devices a request got first is all the same.
        let from = its.next_back().map_or(0, |(_, at)| at + 1);
        let selection = wanted.selection.name();
        (from..search.free.len()).any(|at| {
            search.tries = search.tries.saturating_sub(1);
            search.tries > 0
                && search.free[at].kinds.contains(&selection)
                && self.may_join(search, request, at)
                && self.goes_on_with(search, request, at)
        })
    }

    fn goes_on_with(&self, search: &mut Search<'_, '_>, request: usize, at: usize) -> bool {
        search.picked.push((request, at));
        let found = self.search(search, request);
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
                let value = |at: usize| search.free[at].attributes.get(&one.attribute);
                let mut others = search.picked.iter().filter(|(request, _)| bound(*request));
                !bound(request)
                    || (value(at).is_some() && others.all(|(_, other)| value(*other) == value(at)))
            })
    }
}

/// The way to a set: by request, which of the free devices are picked.
struct Search<'s, 'd> {
    free: &'s [&'d Device],
    /// How many each request gets.
    counts: Vec<usize>,
    picked: Vec<(usize, usize)>,
    tries: u32,
}

impl Wanted {
    /// How many that is on a node with these devices; `None`: more than any node has.
    fn among(&self, of_node: &[Device]) -> Option<usize> {
        match self.count {
            Count::Exactly(count) => usize::try_from(count).ok(),
            Count::All => Some(self.selection.count(of_node).max(1)),
        }
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
        Wanted { request: request.into(), selection, count: Count::Exactly(count) }
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
            let devices = picked.iter().map(|(request, id)| format!("{request}:{}", id.device));
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
