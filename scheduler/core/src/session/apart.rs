//! Pods that cannot be near each other: in which places at most one of them is.

use std::collections::{BTreeMap, BTreeSet};

use super::Session;
use crate::{
    framework::Apart,
    model::{Name, PodId},
};

impl Session<'_> {
    /// By node the number of the place that it is in, where two pods that come cannot be in one
    /// place; the widest such places, if there are several kinds. `None`: nothing keeps them apart
    /// on every node.
    pub(crate) fn places_apart(&self, pods: (PodId, PodId)) -> Option<Vec<usize>> {
        let filters = self.profile.plugins.filter.iter();
        let parts: Vec<Apart<'_>> = filters.flat_map(|filter| filter.parts(self, pods)).collect();
        let numbered = parts.into_iter().filter_map(|apart| self.numbered(apart));
        let count = |places: &Vec<usize>| places.iter().copied().collect::<BTreeSet<_>>().len();
        numbered.min_by_key(count)
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
