//! The devices that a claim gets together: as many as its requests say, equal in the attributes
//! that its constraints name. A node provides such sets as an internal resource, in the number that
//! its free devices make up. Sets with admin access only take no devices.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::Value;
use schedlab_scheduler_core::model::{
    AttributeConstraint, AttributeRule, ClaimAlternative, DeviceAccess, DeviceCount, Name,
    NodeDeviceRequest,
};

use super::{
    DEVICES_MAX, are_pools_complete,
    claim::DeviceRequestRecord,
    device::{Device, DeviceSelection},
};
use crate::parse::{Malformed, list, name, shown};

/// The requests of a claim, with its constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceSet {
    requests: Vec<DeviceRequestRecord>,
    constraints: BTreeSet<DeviceConstraint>,
}

/// A constraint: the devices of some requests have equal (`matchAttribute`) or different
/// (`distinctAttribute`) values of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DeviceConstraint {
    rule: AttributeRule,
    /// Name of the attribute, with its domain.
    attribute: Name,
    /// The requests that the constraint applies to; empty: all requests.
    requests: BTreeSet<Name>,
}

impl DeviceSet {
    /// Parses the constraints of a claim for the requests `wanted`; `names` are the names of all
    /// requests of the claim.
    pub(super) fn parse(
        claim: &Value,
        wanted: Vec<DeviceRequestRecord>,
        names: &[&Name],
    ) -> Result<Self, Malformed> {
        let constraints = list(claim, "/spec/devices/constraints").iter().zip(0..);
        let read = |(constraint, at)| DeviceConstraint::parse(constraint, at, &wanted, names);
        let constraints = constraints.map(read);
        Ok(Self { constraints: constraints.collect::<Result<_, _>>()?, requests: wanted })
    }

    /// Whether any request has admin access.
    pub(super) fn has_admin_requests(&self) -> bool {
        self.requests.iter().any(|one| one.access == DeviceAccess::Admin)
    }

    /// Whether all requests have admin access.
    pub(super) fn is_admin_only(&self) -> bool {
        self.has_admin_requests()
            && self.requests.iter().all(|one| one.access == DeviceAccess::Admin)
    }

    /// Whether the node has enough devices for admin access, whichever devices the other requests
    /// get.
    pub(super) fn leaves_enough_for_admin(&self, node_devices: &[Device]) -> bool {
        let Some(counts) = self.counts_on_node(node_devices) else { return false };
        let all = || self.requests.iter().zip(&counts);
        let suffice = |(one, _): (&DeviceRequestRecord, &usize)| {
            let rivals = all().filter(|(other, _)| one.may_share_device(other, node_devices));
            let rivals = rivals.fold(0_usize, |sum, (_, count)| sum.saturating_add(*count));
            one.access == DeviceAccess::Exclusive
                || one.selection.count_selected(node_devices) >= rivals
        };
        self.constraints.is_empty() && self.has_admin_requests() && all().all(suffice)
    }

    /// All requests, in the order of the claim.
    pub(super) fn requests(&self) -> &[DeviceRequestRecord] {
        &self.requests
    }

    /// The name that the set is counted as; `None` if any devices of the right kinds do, so that
    /// counting the kinds suffices.
    pub(super) fn name(&self) -> Option<Name> {
        if !self.constraints.is_empty() || self.is_admin_only() {
            return Some(self.description().into());
        }
        self.has_admin_requests()
            .then(|| format!("devices together: {}", self.description()).into())
    }

    /// A description of the set that is equal for equal sets.
    pub(super) fn description(&self) -> String {
        let names_requests = self.constraints.iter().any(|one| !one.requests.is_empty());
        let takes_none = self.is_admin_only();
        let part = |one: &DeviceRequestRecord| {
            let access = match one.access {
                DeviceAccess::Admin if !takes_none => " with adminAccess",
                DeviceAccess::Admin | DeviceAccess::Exclusive => "",
            };
            let request = names_requests.then(|| format!(" as {}", one.request));
            let count = match one.count {
                DeviceCount::Exactly(count) => count.to_string(),
                DeviceCount::All => "all".to_owned(),
            };
            let request = request.unwrap_or_default();
            format!("{count} of class {}{access}{request}", one.selection.name())
        };
        let alike: Vec<String> =
            self.constraints.iter().map(DeviceConstraint::description).collect();
        let parts: Vec<String> = self.requests.iter().map(part).collect();
        let parts = parts.join(" and ");
        match alike.as_slice() {
            [] if takes_none => format!("devices with adminAccess: {parts}"),
            [] => parts,
            alike => {
                let access = if takes_none { " with adminAccess," } else { "" };
                format!("devices{access} {}: {parts}", alike.join(" and "))
            }
        }
    }

    /// Number of exclusive devices by kind, without requests for all devices.
    pub(super) fn device_counts_by_kind(
        &self,
        of: &dyn Fn(&DeviceSelection) -> BTreeSet<Name>,
    ) -> BTreeMap<Name, i64> {
        let mut kinds: BTreeMap<Name, i64> = BTreeMap::new();
        for DeviceRequestRecord { selection, count, access, .. } in &self.requests {
            let (DeviceCount::Exactly(count), DeviceAccess::Exclusive) = (count, access) else {
                continue;
            };
            for kind in of(selection) {
                let entry = kinds.entry(kind).or_default();
                *entry = entry.saturating_add(*count);
            }
        }
        kinds
    }

    /// The set in the form in which the core allocates it.
    pub(super) fn to_alternative(&self) -> ClaimAlternative {
        let request = |one: &DeviceRequestRecord| NodeDeviceRequest {
            name: Name::clone(&one.request),
            selection: one.selection.name(),
            count: one.count,
            access: one.access,
        };
        let constraint = |one: &DeviceConstraint| {
            let requests = self.requests.iter().enumerate();
            let requests = requests.filter(|(_, request)| one.applies_to(&request.request));
            AttributeConstraint {
                rule: one.rule,
                attribute: Name::clone(&one.attribute),
                requests: requests.map(|(at, _)| at).collect(),
            }
        };
        ClaimAlternative {
            requests: self.requests.iter().map(request).collect(),
            constraints: self.constraints.iter().map(constraint).collect(),
        }
    }

    /// Number of devices of each request on the node; `None` if that is more than the node has or a
    /// claim may have.
    fn counts_on_node(&self, node_devices: &[Device]) -> Option<Vec<usize>> {
        let counts: Vec<usize> = self
            .requests
            .iter()
            .map(|wanted| wanted.count_on_node(node_devices))
            .collect::<Option<_>>()?;
        let sum = counts.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
        let are_too_many = i64::try_from(sum).map_or(true, |sum| sum > DEVICES_MAX);
        (!self.has_admin_requests() || !are_too_many).then_some(counts)
    }
}

/// Sum of the counts of all requests with an exact count.
pub(super) fn exact_count_sum(wanted: &[DeviceRequestRecord]) -> i64 {
    let counts = wanted.iter().map(|one| match one.count {
        DeviceCount::Exactly(count) => count,
        DeviceCount::All => 0,
    });
    counts.fold(0, i64::saturating_add)
}

impl DeviceRequestRecord {
    /// Number of devices on a node; `None` if it is unknown or more than any node has.
    fn count_on_node(&self, node_devices: &[Device]) -> Option<usize> {
        match self.count {
            DeviceCount::Exactly(count) => usize::try_from(count).ok(),
            // For exclusive requests the core checks that the pools are complete.
            DeviceCount::All
                if self.access == DeviceAccess::Admin && !are_pools_complete(node_devices) =>
            {
                None
            }
            DeviceCount::All => Some(self.selection.count_selected(node_devices).max(1)),
        }
    }

    /// Whether both are the same request, or a device of the node could satisfy both.
    fn may_share_device(&self, other: &Self, node_devices: &[Device]) -> bool {
        let (own, theirs) = (self.selection.name(), other.selection.name());
        let is_of_both = |one: &Device| one.kinds.contains(&own) && one.kinds.contains(&theirs);
        self.request == other.request || node_devices.iter().any(is_of_both)
    }
}

impl DeviceConstraint {
    fn parse(
        constraint: &Value,
        at: usize,
        wanted: &[DeviceRequestRecord],
        request_names: &[&Name],
    ) -> Result<Self, Malformed> {
        let field = |tail: &str| format!("spec.devices.constraints[{at}].{tail}");
        let matched = name(constraint, "/matchAttribute").map(|it| (AttributeRule::Match, it));
        let distinct = name(constraint, "/distinctAttribute");
        let distinct = distinct.map(|it| (AttributeRule::Distinct, it));
        let (rule, attribute) = matched.or(distinct).ok_or_else(|| {
            let allowed = "matchAttribute or distinctAttribute, an attribute with its domain";
            Malformed::new(field("matchAttribute"), shown(constraint), allowed)
        })?;
        let named = list(constraint, "/requests");
        let is_there = |one: &Value| {
            one.as_str()
                .is_some_and(|one| request_names.iter().any(|name| names_request(name, one)))
        };
        if let Some(unknown) = named.iter().find(|one| !is_there(one)) {
            let allowed = "names of the claim's requests";
            return Err(Malformed::new(field("requests"), shown(unknown), allowed));
        }
        let requests: BTreeSet<Name> =
            named.iter().filter_map(Value::as_str).map(Name::from).collect();
        let bound = |one: &DeviceRequestRecord| {
            requests.iter().any(|name| names_request(&one.request, name))
        };
        let binds_all = wanted.iter().all(bound);
        Ok(Self { rule, attribute, requests: if binds_all { BTreeSet::new() } else { requests } })
    }

    fn applies_to(&self, request: &Name) -> bool {
        self.requests.is_empty() || self.requests.iter().any(|name| names_request(request, name))
    }

    fn description(&self) -> String {
        let relation = match self.rule {
            AttributeRule::Match => "alike",
            AttributeRule::Distinct => "different",
        };
        let requests: Vec<&str> = self.requests.iter().map(|request| &**request).collect();
        match requests.as_slice() {
            [] => format!("{relation} in {}", self.attribute),
            requests => format!("{relation} in {} ({})", self.attribute, requests.join(", ")),
        }
    }
}

/// Whether `name` names the request, or the request that it is an alternative of.
pub(super) fn names_request(request: &str, name: &str) -> bool {
    request == name || request.split_once('/').is_some_and(|(whole, _)| whole == name)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::json;

    use schedlab_scheduler_core::{
        devices::{AvailableDevices, allocate_claims},
        model::{DeviceAmounts, DeviceProperties},
    };

    use super::*;
    use crate::dra::{DeviceAlternatives, DeviceId};

    fn wanted(request: &str, count: i64) -> DeviceRequestRecord {
        let exactly = json!({ "deviceClassName": "gpu.x" });
        let selection = DeviceSelection::parse(&exactly, "").unwrap();
        let count = DeviceCount::Exactly(count);
        DeviceRequestRecord {
            request: request.into(),
            selection,
            count,
            access: DeviceAccess::Exclusive,
            tolerations: Vec::new(),
        }
    }

    fn set(constraints: &Value, wanted: Vec<DeviceRequestRecord>) -> Result<DeviceSet, Malformed> {
        let claim = json!({ "spec": { "devices": { "constraints": constraints } } });
        let names: Vec<Name> = wanted.iter().map(|one| Name::clone(&one.request)).collect();
        DeviceSet::parse(&claim, wanted, &names.iter().collect::<Vec<_>>())
    }

    /// Devices from text such as `a=1 b=2`: names, with the zone of each.
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
                ..Device::default()
            }
        };
        text.split(' ').map(device).collect()
    }

    /// The number of sets, and the devices of the next one by request.
    fn rendered(set: &DeviceSet, text: &str) -> String {
        let devices = devices(text);
        let properties: Vec<DeviceProperties> = devices.iter().map(Device::properties).collect();
        let properties: Vec<&DeviceProperties> = properties.iter().collect();
        let choices = DeviceAlternatives::from_single_set(set.clone());
        let free = AvailableDevices::all_free(properties.iter().copied(), &DeviceAmounts::new());
        let count = choices.count_offered(&free, &devices);
        let requests = choices.claim_requests();
        let picked = allocate_claims(&[(&requests).into()], &free).map(|picked| {
            let devices = picked[0]
                .iter()
                .map(|one| format!("{}:{}", one.request.name, devices[one.device].id.device));
            devices.collect::<Vec<_>>().join(" ")
        });
        format!("{text}: {count} sets, {}", picked.as_deref().unwrap_or("none now"))
    }

    #[test]
    fn devices_of_a_set_share_the_matched_attribute() {
        let alike = json!([{ "matchAttribute": "gpu.x/zone" }]);
        let rendered = |wanted: Vec<DeviceRequestRecord>, text: &str| {
            rendered(&set(&alike, wanted).unwrap(), text)
        };
        let two = || vec![wanted("r", 2)];
        let one_and_one = || vec![wanted("r", 1), wanted("s", 1)];
        let rendered = [
            rendered(two(), "a=1 b=1 c=1 d=1"),
            rendered(two(), "a=1 b=2 c=1 d=2"),
            rendered(two(), "a=1 b=1 c=1 d=2 e=2"),
            rendered(two(), "a=1 b=2 c=3"),
            rendered(two(), "a=? b=? c=1 d=1"),
            rendered(one_and_one(), "a=1 b=2 c=1"),
            rendered(vec![wanted("r", 3)], "a=1 b=2 c=1 d=2"),
            rendered(vec![wanted("r", 3)], "a=1 b=1"),
        ];
        assert_snapshot!(rendered.join("\n"), @"
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
    fn a_constraint_applies_to_the_requests_that_it_names() {
        let alike = json!([
            { "matchAttribute": "gpu.x/zone", "requests": ["r"] },
            { "matchAttribute": "gpu.x/zone", "requests": ["s", "t"] },
        ]);
        let wanted = vec![wanted("r", 2), wanted("s", 1), wanted("t", 1)];
        let set = set(&alike, wanted).unwrap();
        let rendered = [
            rendered(&set, "a=1 b=1 c=2 d=2"),
            rendered(&set, "a=1 b=2 c=1 d=2 e=1"),
            rendered(&set, "a=1 b=2 c=1 d=3"),
        ];
        assert_snapshot!(rendered.join("\n"), @"
        a=1 b=1 c=2 d=2: 1 sets, r:a r:b s:c t:d
        a=1 b=2 c=1 d=2 e=1: 1 sets, r:b r:d s:a t:c
        a=1 b=2 c=1 d=3: 0 sets, none now
        ");
        assert_snapshot!(set.name().unwrap(), @"devices alike in gpu.x/zone (r) and alike in gpu.x/zone (s, t): 2 of class gpu.x as r and 1 of class gpu.x as s and 1 of class gpu.x as t");
    }

    #[test]
    fn devices_of_a_distinct_constraint_differ_in_its_attribute() {
        let different = json!([{ "distinctAttribute": "gpu.x/zone" }]);
        let set = set(&different, vec![wanted("r", 2)]).unwrap();
        let rendered = [
            rendered(&set, "a=1 b=1 c=2 d=3"),
            rendered(&set, "a=1 b=1"),
            rendered(&set, "a=? b=1"),
        ];
        assert_snapshot!(rendered.join("\n"), @"
        a=1 b=1 c=2 d=3: 2 sets, r:a r:c
        a=1 b=1: 0 sets, none now
        a=? b=1: 0 sets, none now
        ");
        assert_snapshot!(set.name().unwrap(), @"devices different in gpu.x/zone: 2 of class gpu.x");
    }

    #[test]
    fn equal_sets_have_equal_names() {
        let of = |constraints: Value| set(&constraints, vec![wanted("r", 2)]).unwrap().name();
        let alike = of(json!([{ "matchAttribute": "gpu.x/zone" }]));
        assert_snapshot!(alike.clone().unwrap(), @"devices alike in gpu.x/zone: 2 of class gpu.x");
        assert_eq!(of(json!([{ "matchAttribute": "gpu.x/zone", "requests": ["r"] }])), alike);
        assert_eq!(of(json!([])), None);
    }

    #[test]
    fn an_unsupported_constraint_is_reported_with_its_field() {
        let rendered = |constraint: Value| {
            set(&json!([constraint]), vec![wanted("r", 1), wanted("s", 1)]).unwrap_err()
        };
        let of_another = json!({ "matchAttribute": "gpu.x/zone", "requests": ["r", "x"] });
        assert_snapshot!(rendered(of_another), @r#"spec.devices.constraints[0].requests: got "x", expected names of the claim's requests"#);
        assert_snapshot!(rendered(json!({})), @"spec.devices.constraints[0].matchAttribute: got {}, expected matchAttribute or distinctAttribute, an attribute with its domain");
    }
}
