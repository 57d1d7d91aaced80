//! Pods that cannot be near each other: in which places at most one of them is.

use std::collections::{BTreeMap, BTreeSet};

use super::{Free, Session};
use crate::{
    decision::{KeptApart, Misfit, Pin},
    framework::Apart,
    model::{HOSTNAME, Name, NodeId, PodGroupId, PodId, ShapeId},
};

/// More pods are not compared, each with each other.
pub(super) const COMPARED_MAX: usize = 64;

impl Session<'_> {
    /// By node the number of the place that it is in, where no two of these pods can be in one place;
    /// the widest such places, if there are several kinds. `None`: some may be together on some node,
    /// or they are too many to compare.
    pub(crate) fn places_apart(&self, pods: &[PodId]) -> Option<Vec<usize>> {
        let common = self.parts_in_common(pods)?.into_iter();
        let numbered = common.filter_map(|apart| self.numbered(apart));
        let count = |places: &Vec<usize>| places.iter().copied().collect::<BTreeSet<_>>().len();
        numbered.min_by_key(count)
    }

    /// What no two of these pods can have in common. `None`: as above.
    fn parts_in_common(&self, pods: &[PodId]) -> Option<Vec<Apart<'_>>> {
        if pods.len() < 2 || pods.len() > COMPARED_MAX {
            return None;
        }
        let others = pods.iter().enumerate();
        let pairs = others.flat_map(|(at, a)| pods[..at].iter().map(move |b| (*a, *b)));
        let mut common: Option<Vec<Apart<'_>>> = None;
        for (a, b) in pairs {
            let mut parts = self.parts((a, b));
            parts.extend(self.parts((b, a)));
            let common = common.get_or_insert_with(|| parts.clone());
            common.retain(|apart| parts.contains(apart));
            if common.is_empty() {
                return None;
            }
        }
        common
    }

    /// What keeps these pods from each other, where nodes are in fewer places than they need for that,
    /// whoever leaves.
    pub(crate) fn kept_apart(&self, group: PodGroupId, pods: &[PodId]) -> Option<KeptApart> {
        let shape = self.shape_of(*pods.first()?);
        let misfit = match (shape.pod_anti_affinity.is_empty(), &shape.host_ports[..]) {
            (false, _) => Misfit::PodAntiAffinity,
            (true, []) => return None,
            (true, ports) => Misfit::HostPort { port: (ports.len() == 1).then_some(ports[0].port) },
        };
        if let Some(pin) = self.pinned_apart(pods) {
            let (of, members) = (self.group(group), self.members(group));
            let is_all = of.sub_groups.len() == 1 && members.active() == 0;
            let fewer = u32::try_from(pin.values.len()).ok().filter(|_| is_all);
            return Some(KeptApart { misfit, pin: Some(pin), fewer });
        }
        let places = self.places_apart(pods)?;
        let of_shape: BTreeMap<ShapeId, PodId> =
            pods.iter().map(|pod| (self.pod(*pod).shape, *pod)).collect();
        let open_to = |pod: &PodId| {
            let (pod, is_eligible) = (*pod, self.once_open(*pod));
            let holds = move |node: NodeId| {
                is_eligible(node) && self.takes_of(&mut Free::of_empty(self.node(node)), pod, node)
            };
            self.node_ids().zip(&places).filter(move |(node, _)| holds(*node))
        };
        let mut open = BTreeSet::new();
        let has_enough = of_shape.values().flat_map(open_to).any(|(_, place)| {
            open.insert(*place);
            open.len() == pods.len()
        });
        (!has_enough).then_some(KeptApart { misfit, pin: None, fewer: None })
    }

    /// They have to be apart over a label of which they select fewer values than they are.
    fn pinned_apart(&self, pods: &[PodId]) -> Option<Pin> {
        let common = self.parts_in_common(pods)?;
        let labels = common.into_iter().filter_map(|apart| match apart {
            Apart::Label(label) => Some(label),
            Apart::Node => None,
        });
        let mut labels = labels.filter(|label| ***label != *HOSTNAME);
        labels.find_map(|label| {
            let values = pods.iter().map(|pod| self.shape_of(*pod).values_of(label));
            let values: Option<Vec<BTreeSet<Name>>> = values.collect();
            let values: BTreeSet<Name> = values?.into_iter().flatten().collect();
            (values.len() < pods.len()).then(|| Pin { label: Name::clone(label), values })
        })
    }

    pub(super) fn parts(&self, pods: (PodId, PodId)) -> Vec<Apart<'_>> {
        let filters = self.profile.plugins.filter.iter();
        filters.flat_map(|filter| filter.parts(self, pods)).collect()
    }

    /// `None`: a node lacks the label, and whoever is there is far from everybody.
    fn numbered(&self, apart: Apart<'_>) -> Option<Vec<usize>> {
        let nodes = 0..self.snapshot.nodes.len();
        let Apart::Label(label) = apart else { return Some(nodes.collect()) };
        let mut numbers: BTreeMap<&Name, usize> = BTreeMap::new();
        let nodes = self.snapshot.nodes.iter();
        let values = nodes.map(|node| node.labels.get(label));
        values
            .map(|value| {
                let next = numbers.len();
                Some(*numbers.entry(value?).or_insert(next))
            })
            .collect()
    }
}
