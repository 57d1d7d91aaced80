//! All published devices, by who reaches them. Those of which several nodes may be given one are
//! counted once for all nodes, as [`Stock`]s, together with those of single nodes that are asked
//! for in the same words.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::model::{Name, Reach, Stock, StockId};

use super::{Claims, Key, PodRecord, device::Device, device::DeviceId, of_kind};

/// All published devices, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Published {
    devices: Vec<Device>,
    by_id: BTreeMap<DeviceId, usize>,
    /// Those that only this node reaches.
    local: BTreeMap<Name, Vec<usize>>,
    /// All others.
    shared: Vec<usize>,
    /// What they, and whatever is asked for in the same words, are called, and by which names nodes
    /// offer that.
    shared_kinds: BTreeMap<Name, Name>,
    stocks: Vec<(Reach, Vec<usize>)>,
}

/// How many devices of each kind.
type Counts = BTreeMap<Name, i64>;

impl Published {
    pub(super) fn of(devices: Vec<Device>) -> Self {
        let by_id = devices.iter().map(|device| device.id.clone()).zip(0..).collect();
        let mut published = Self { by_id, ..Self::default() };
        for (device, at) in devices.iter().zip(0..) {
            match &device.reach {
                Reach::Node(node) => {
                    published.local.entry(Name::clone(node)).or_default().push(at);
                }
                Reach::Nodes(_) | Reach::All => {
                    published.shared.push(at);
                    let kinds = device.kinds.iter();
                    let kinds = kinds.map(|kind| (Name::clone(kind), of_kind(kind)));
                    published.shared_kinds.extend(kinds);
                }
            }
        }
        let mut stocks: BTreeMap<&Reach, Vec<usize>> = BTreeMap::new();
        let in_stock = |device: &Device| {
            device.kinds.iter().any(|kind| published.shared_kinds.contains_key(kind))
        };
        for (device, at) in devices.iter().zip(0..).filter(|(device, _)| in_stock(device)) {
            stocks.entry(&device.reach).or_default().push(at);
        }
        published.stocks = stocks.into_iter().map(|(reach, at)| (reach.clone(), at)).collect();
        Self { devices, ..published }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Device> + Clone {
        self.devices.iter()
    }

    pub(super) fn get(&self, id: &DeviceId) -> Option<&Device> {
        self.by_id.get(id).map(|at| &self.devices[*at])
    }

    /// Those that the node reaches.
    pub(super) fn of_node(&self, node: &Name) -> Vec<&Device> {
        let local = self.local.get(node).into_iter().flatten().map(|at| &self.devices[*at]);
        let shared = self.shared.iter().map(|at| &self.devices[*at]);
        local.chain(shared.filter(|device| device.reach.has(node))).collect()
    }

    /// Several nodes reach some.
    pub(super) const fn are_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Several nodes reach some of a kind that a node offers under this name.
    pub(super) fn offers_shared(&self, resource: &Name) -> bool {
        self.shared_kinds.values().any(|known| known == resource)
    }

    fn count(&self, devices: impl Iterator<Item = usize>) -> Counts {
        let mut counts = Counts::new();
        for kind in devices.flat_map(|at| &self.devices[at].kinds) {
            if let Some(resource) = self.shared_kinds.get(kind) {
                *counts.entry(Name::clone(resource)).or_default() += 1;
            }
        }
        counts
    }
}

impl Claims {
    /// Devices of the kinds of which several nodes reach some.
    pub(crate) fn stocks(&self, pods: &BTreeMap<Key, PodRecord>) -> Vec<Stock> {
        if !self.published.are_shared() {
            return Vec::new();
        }
        let used = self.used(pods);
        let (mut taken, mut returning) = (BTreeSet::new(), BTreeSet::new());
        for (key, claim) in self.known.iter().filter(|(key, claim)| !claim.is_left_over(key, pods))
        {
            let is_free_soon = !used.contains(key) && claim.is_given_back(key, pods);
            let devices = if is_free_soon { &mut returning } else { &mut taken };
            devices.extend(claim.held().map(|(device, _)| device));
        }
        let published = &self.published;
        let id = |at: usize| &published.devices[at].id;
        let stock = |(reach, devices): &(Reach, Vec<usize>)| {
            let of = |wanted: &dyn Fn(&DeviceId) -> bool| {
                published.count(devices.iter().copied().filter(|at| wanted(id(*at))))
            };
            Stock {
                reach: reach.clone(),
                all: of(&|_| true),
                free: of(&|id| !taken.contains(id) && !returning.contains(id)),
                returning: of(&|id| returning.contains(id)),
            }
        };
        published.stocks.iter().map(stock).collect()
    }

    /// What these devices are of which stock.
    pub(super) fn taken_from_stocks<'a>(
        &self,
        devices: impl Iterator<Item = &'a DeviceId>,
    ) -> BTreeMap<StockId, Counts> {
        let published = &self.published;
        let known: Vec<usize> = devices.filter_map(|id| published.by_id.get(id)).copied().collect();
        let of_stock = |((_, stock), id): (&(Reach, Vec<usize>), u32)| {
            let its = known.iter().copied().filter(|at| stock.binary_search(at).is_ok());
            let counts = published.count(its);
            (!counts.is_empty()).then_some((StockId(id), counts))
        };
        published.stocks.iter().zip(0..).filter_map(of_stock).collect()
    }
}
