//! Which sub-group keeps pods of a gang from being placed, as it cannot reach its minimum.

use super::Tree;

/// A sub-group that cannot reach its minimum. Of several the least is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Short {
    /// No pod waits for it, not even one behind gates or one that cannot be scheduled.
    is_idle: bool,
    /// How many pods at least it takes until those that wait for it can be placed.
    missing: u32,
    leaf: usize,
}

impl Tree<'_> {
    /// The leaf that is told. Where all parts of something are needed, the first one that is short;
    /// where some may be missing, one for which pods wait, and of those the one that misses least.
    pub(super) fn short_leaf(&self) -> Option<usize> {
        self.short(None).map(|short| short.leaf)
    }

    fn short(&self, at: Option<usize>) -> Option<Short> {
        let is_short = !self.can_be_satisfied(at);
        let children = self.children(at);
        if children.is_empty() {
            let leaf = at.filter(|_| is_short)?;
            return Some(Short { is_idle: !self.waits(leaf), missing: self.missing(leaf), leaf });
        }
        let needs_all = self.needed(at, children.len()) >= children.len();
        let mut below = children
            .iter()
            .filter(|child| !is_short || !self.can_be_satisfied(Some(**child)))
            .filter_map(|child| self.short(Some(*child)));
        let found = if is_short && needs_all { below.next() } else { below.min() }?;
        Some(match at.filter(|_| is_short) {
            Some(at) => Short { is_idle: !self.waits(at), missing: self.missing(at), ..found },
            None => found,
        })
    }

    /// Pods wait in it, or are behind gates, or cannot be scheduled as they stand.
    fn waits(&self, at: usize) -> bool {
        let members = &self.members.sub_groups[at];
        let waits = !members.waiting.is_empty() || members.gated + members.unusable > 0;
        waits || self.children(Some(at)).iter().any(|child| self.waits(*child))
    }

    /// How many pods at least it takes until it can be satisfied.
    fn missing(&self, at: usize) -> u32 {
        let children = self.children(Some(at));
        if children.is_empty() {
            return self.minimum(at).saturating_sub(self.members.sub_groups[at].alive());
        }
        let mut missing: Vec<u32> = children.iter().map(|child| self.missing(*child)).collect();
        missing.sort_unstable();
        missing.into_iter().take(self.needed(Some(at), children.len())).fold(0, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Profile, model::PodGroupId, session::Session, testing::snapshot_of};

    /// The part of the first group of the table that is told to be short.
    fn told(parts: &str) -> String {
        let snapshot = snapshot_of(&format!("node n1\n{parts}"));
        let profile = Profile::kai();
        let session = Session::new(&snapshot, &profile);
        let short = session.members(PodGroupId(0)).not_ready(&snapshot.pod_groups[0]);
        short.sub_group.map_or_else(|| "none".to_owned(), |name| name.to_string())
    }

    #[test]
    fn where_all_parts_are_needed_the_first_that_is_short_is_told() {
        assert_eq!(told("gang a\npart l pods=0 min=2\npart r pods=1 min=2"), "l");
        assert_eq!(told("gang a\npart l pods=2\npart r pods=1 min=2"), "r");
    }

    #[test]
    fn where_parts_may_be_missing_the_one_whose_pods_wait_and_that_misses_least_is_told() {
        assert_eq!(told("gang a needs=1\npart l pods=0 min=2\npart r pods=1 min=4"), "r");
        assert_eq!(told("gang a needs=1\npart l pods=1 min=4\npart r pods=1 min=2"), "r");
        assert_eq!(told("gang a needs=1\npart l pods=0 min=2\npart r pods=1 min=2 gated=1"), "r");
        let nobody_waits = "gang a needs=1\npart l pods=0 min=2\npart m pods=0 min=1";
        assert_eq!(told(nobody_waits), "m");
    }

    #[test]
    fn a_part_for_which_pods_of_the_part_around_it_wait_is_told() {
        let rack = "
            gang a needs=1
              part free pods=0 min=1
              part rack needs=2
              part head parent=rack pods=0 min=1
              part work parent=rack pods=2
        ";
        assert_eq!(told(rack), "head");
        let grows = "
            gang a needs=1
              part free pods=0 min=1
              part rack needs=1
              part head parent=rack pods=1 on n1
              part work parent=rack pods=1 min=2
        ";
        assert_eq!(told(grows), "work", "its rack has what it needs");
    }
}
