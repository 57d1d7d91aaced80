//! Levels of topologies that are asked for otherwise.

use super::WhatIf;
use crate::model::Name;

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
}
