//! Levels of topologies that are asked for otherwise.

use std::collections::BTreeMap;

use super::{Missing, Size, WhatIf};
use crate::model::{Name, ShapeId};

impl WhatIf<'_> {
    /// All of it that requires one place of the level prefers one.
    pub(super) fn only_prefer(&mut self, topology: &Name, level: &Name) {
        let group = &mut self.after.pod_groups[self.group.0 as usize];
        let parts = group.sub_groups.iter_mut().map(|part| &mut part.topology);
        for constraint in parts.chain([&mut group.topology]).flatten() {
            if constraint.topology == *topology && constraint.required.as_ref() == Some(level) {
                constraint.preferred = constraint.required.take();
            }
        }
    }

    /// Room for the next `pods` pods without a node, for each part of the gang that has to be in one
    /// place by itself.
    pub(super) fn make_room_by_part(&mut self, pods: usize, fresh: &[Name]) -> Option<()> {
        let Missing { shapes, parts, .. } = self.missing;
        let mut of_part: BTreeMap<Option<usize>, Vec<ShapeId>> = BTreeMap::new();
        for (shape, part) in shapes.iter().zip(parts).cycle().take(pods) {
            of_part.entry(*part).or_default().push(*shape);
        }
        if of_part.is_empty() {
            return None;
        }
        let size = self.size;
        of_part.into_iter().try_for_each(|(part, shapes)| {
            // One node is one place, at whatever level.
            self.size = if part.is_some() { Size::Ample } else { size };
            self.make_room(shapes.into_iter(), fresh)
        })
    }
}
