//! Unions of overlapping selections. If every selection were counted alone, one device could
//! satisfy several of them. So a request counts for every broader selection, too, and for unions of
//! overlapping selections. Then there are enough devices for all requests exactly if no count is
//! exceeded (Hall's theorem). Disjoint and nested selections need no union.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use schedlab_scheduler_core::model::Name;

use super::device::Device;

/// Maximum number of unions. Overlaps of very many selections are ignored beyond it.
const UNIONS_MAX: usize = 64;

/// The sorts of devices that a selection selects. Two devices are of one sort if the same
/// selections select them.
type DeviceSorts = BTreeSet<usize>;

/// Adds to each device the unions that it belongs to. Returns the broader kinds of each selection.
pub(super) fn add_unions(
    devices: &mut BTreeMap<Name, Vec<Device>>,
) -> BTreeMap<Name, BTreeSet<Name>> {
    let sorts: BTreeSet<BTreeSet<Name>> =
        devices.values().flatten().map(|device| device.kinds.clone()).collect();
    let mut single: BTreeMap<Name, DeviceSorts> = BTreeMap::new();
    for (kinds, at) in sorts.iter().zip(0..) {
        for kind in kinds {
            single.entry(Name::clone(kind)).or_default().insert(at);
        }
    }
    let together = find_unions(&single);
    if !together.is_empty() {
        let named: BTreeMap<&BTreeSet<Name>, usize> = sorts.iter().zip(0..).collect();
        for device in devices.values_mut().flatten() {
            let at = named[&device.kinds];
            let its = together.iter().filter(|(_, sorts)| sorts.contains(&at));
            device.kinds.extend(its.map(|(name, _)| Name::clone(name)));
        }
    }
    let all: Vec<(&Name, &DeviceSorts)> = single.iter().chain(&together).collect();
    let wider = |(name, sorts): (&Name, &DeviceSorts)| {
        let of = all.iter().filter(|(other, wider)| *other != name && sorts.is_subset(wider));
        (Name::clone(name), of.map(|(other, _)| Name::clone(other)).collect())
    };
    single.iter().map(wider).collect()
}

/// The unions of overlapping selections that no single selection equals.
fn find_unions(single: &BTreeMap<Name, DeviceSorts>) -> BTreeMap<Name, DeviceSorts> {
    let mut known: BTreeSet<DeviceSorts> = single.values().cloned().collect();
    let mut found: BTreeMap<Name, DeviceSorts> = BTreeMap::new();
    let alone =
        |(name, sorts): (&Name, &DeviceSorts)| (BTreeSet::from([Name::clone(name)]), sorts.clone());
    let mut open: VecDeque<(BTreeSet<Name>, DeviceSorts)> = single.iter().map(alone).collect();
    while let Some((of, sorts)) = open.pop_front() {
        for (other, theirs) in
            single.iter().filter(|(_, theirs)| is_partial_overlap(&sorts, theirs))
        {
            let both: DeviceSorts = sorts.union(theirs).copied().collect();
            if found.len() >= UNIONS_MAX || !known.insert(both.clone()) {
                continue;
            }
            let mut of = of.clone();
            of.insert(Name::clone(other));
            let names: Vec<&str> = of.iter().map(|name| &**name).collect();
            found.insert(names.join(" or of class ").into(), both.clone());
            open.push_back((of, both));
        }
    }
    found
}

/// Whether two sets have common members, and each has some that the other lacks.
fn is_partial_overlap(one: &DeviceSorts, other: &DeviceSorts) -> bool {
    !one.is_disjoint(other) && !one.is_subset(other) && !other.is_subset(one)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::{
        collection::{btree_set, vec},
        prelude::*,
    };

    use super::{super::device::DeviceId, *};

    fn device(kinds: BTreeSet<Name>) -> Device {
        Device {
            id: DeviceId { driver: "d".into(), pool: "p".into(), device: "x".into() },
            pool_is_whole: true,
            is_gpu: true,
            kinds,
            ..Device::default()
        }
    }

    /// Kinds of each device, and broader kinds of each selection.
    fn rendered(all: &[&str]) -> String {
        let of = |kinds: &&str| device(kinds.split(' ').map(Name::from).collect());
        let of_node: Vec<Device> = all.iter().map(of).collect();
        let mut devices = BTreeMap::from([("n".into(), of_node)]);
        let wider = add_unions(&mut devices);
        let listed = |names: &BTreeSet<Name>| {
            names.iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
        };
        let device =
            |(device, kinds): (&Device, &&str)| format!("{kinds}: {}", listed(&device.kinds));
        let kind = |(name, wider): (&Name, &BTreeSet<Name>)| {
            format!("{name} < {}", listed(wider)).trim_end().to_owned()
        };
        let devices = devices["n"].iter().zip(all).map(device);
        devices.chain(wider.iter().map(kind)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn disjoint_and_nested_selections_need_no_union() {
        assert_snapshot!(rendered(&["a", "b"]), @"
        a: a
        b: b
        a <
        b <
        ");
        assert_snapshot!(rendered(&["all", "all big", "all also-big big"]), @"
        all: all
        all big: all, big
        all also-big big: all, also-big, big
        all <
        also-big < all, big
        big < all
        ");
    }

    #[test]
    fn overlapping_selections_get_a_union() {
        assert_snapshot!(rendered(&["a", "a b", "b"]), @"
        a: a, a or of class b
        a b: a, a or of class b, b
        b: a or of class b, b
        a < a or of class b
        b < a or of class b
        ");
        assert_snapshot!(rendered(&["a", "a b", "b c", "c"]), @"
        a: a, a or of class b, a or of class b or of class c
        a b: a, a or of class b, a or of class b or of class c, b, b or of class c
        b c: a or of class b, a or of class b or of class c, b, b or of class c, c
        c: a or of class b or of class c, b or of class c, c
        a < a or of class b, a or of class b or of class c
        b < a or of class b, a or of class b or of class c, b or of class c
        c < a or of class b or of class c, b or of class c
        ");
        assert_snapshot!(rendered(&["all a", "all a b", "all b"]), @"
        all a: a, all
        all a b: a, all, b
        all b: all, b
        a < all
        all <
        b < all
        ");
    }

    /// Whether each request for one device of a selection can get a device of its own.
    fn all_served(devices: &[Vec<usize>], asked: &[usize]) -> bool {
        let Some((first, rest)) = asked.split_first() else { return true };
        (0..devices.len()).filter(|at| devices[*at].contains(first)).any(|at| {
            let others = devices.iter().enumerate().filter(|(other, _)| *other != at);
            let others: Vec<Vec<usize>> = others.map(|(_, kinds)| kinds.clone()).collect();
            all_served(&others, rest)
        })
    }

    /// Whether no count is exceeded.
    fn counts_suffice(devices: &[Vec<usize>], asked: &[usize]) -> bool {
        let name = |kind: &usize| Name::from(format!("k{kind}"));
        let device = |kinds: &Vec<usize>| device(kinds.iter().map(name).collect());
        let mut all = BTreeMap::from([("n".into(), devices.iter().map(device).collect())]);
        let wider = add_unions(&mut all);
        let mut counts: BTreeMap<Name, i64> = BTreeMap::new();
        for kind in asked.iter().map(name) {
            let wider = wider.get(&kind).into_iter().flatten().cloned();
            for name in wider.chain([kind.clone()]) {
                *counts.entry(name).or_default() -= 1;
            }
        }
        for kind in all["n"].iter().flat_map(|device| &device.kinds) {
            *counts.entry(kind.clone()).or_default() += 1;
        }
        counts.values().all(|count| *count >= 0)
    }

    proptest! {
        #[test]
        fn counts_suffice_exactly_when_every_request_can_be_satisfied(
            devices in vec(btree_set(0..4_usize, 0..4), 1..6),
            asked in vec(0..4_usize, 0..6),
        ) {
            let devices: Vec<Vec<usize>> =
                devices.into_iter().map(|kinds| kinds.into_iter().collect()).collect();
            prop_assert_eq!(counts_suffice(&devices, &asked), all_served(&devices, &asked));
        }
    }

    #[test]
    fn the_number_of_unions_is_bounded() {
        let kinds: Vec<String> =
            (0..20).map(|at| format!("k{at} k{} all", (at + 1) % 20)).collect();
        let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
        assert_eq!(rendered(&kinds).matches("k0 < ").count(), 1);
    }
}
