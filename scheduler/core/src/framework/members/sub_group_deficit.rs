//! Finds the sub-group that keeps a gang from being placed because it cannot reach its minimum.

use super::SubGroupTree;

/// A sub-group that cannot reach its minimum. The least of several is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Deficit {
    /// No pod waits for it, not even a gated or unschedulable one.
    is_idle: bool,
    /// Number of pods it needs until those that wait for it can be placed.
    missing: u32,
    leaf: usize,
}

impl SubGroupTree<'_> {
    /// The leaf to report: the first deficient one where all children are required; otherwise one
    /// with waiting pods, of those the one that misses fewest.
    pub(super) fn deficient_leaf(&self) -> Option<usize> {
        self.deficit(None).map(|short| short.leaf)
    }

    fn deficit(&self, at: Option<usize>) -> Option<Deficit> {
        let is_short = !self.can_be_satisfied(at);
        let children = self.children(at);
        if children.is_empty() {
            let leaf = at.filter(|_| is_short)?;
            return Some(Deficit { is_idle: !self.waits(leaf), missing: self.missing(leaf), leaf });
        }
        let needs_all = self.needed(at, children.len()) >= children.len();
        let mut below = children
            .iter()
            .filter(|child| !is_short || !self.can_be_satisfied(Some(**child)))
            .filter_map(|child| self.deficit(Some(*child)));
        let found = if is_short && needs_all { below.next() } else { below.min() }?;
        Some(match at.filter(|_| is_short) {
            Some(at) => Deficit { is_idle: !self.waits(at), missing: self.missing(at), ..found },
            None => found,
        })
    }

    /// It has pods that are pending, gated or unschedulable.
    fn waits(&self, at: usize) -> bool {
        let members = &self.members.sub_groups[at];
        let waits = !members.waiting.is_empty() || members.gated + members.unschedulable > 0;
        waits || self.children(Some(at)).iter().any(|child| self.waits(*child))
    }

    /// Number of pods it needs to be satisfiable.
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
    use crate::{Profile, framework::Session, model::PodGroupId};
    use schedlab_testkit::snapshot_of;

    /// The sub-group of the first group that is reported as deficient.
    fn reported(parts: &str) -> String {
        let snapshot = snapshot_of(&format!("node n1\n{parts}"));
        let profile = Profile::kai();
        let session = Session::new(&snapshot, &profile);
        let short = session.members(PodGroupId(0)).readiness(&snapshot.pod_groups[0]);
        short.sub_group.map_or_else(|| "none".to_owned(), |name| name.to_string())
    }

    #[test]
    fn the_first_deficient_sub_group_is_reported_when_all_are_required() {
        assert_eq!(reported("gang a\npart l pods=0 min=2\npart r pods=1 min=2"), "l");
        assert_eq!(reported("gang a\npart l pods=2\npart r pods=1 min=2"), "r");
    }

    #[test]
    fn the_waiting_sub_group_missing_least_is_reported_when_some_are_optional() {
        assert_eq!(reported("gang a needs=1\npart l pods=0 min=2\npart r pods=1 min=4"), "r");
        assert_eq!(reported("gang a needs=1\npart l pods=1 min=4\npart r pods=1 min=2"), "r");
        assert_eq!(
            reported("gang a needs=1\npart l pods=0 min=2\npart r pods=1 min=2 gated=1"),
            "r"
        );
        let nobody_waits = "gang a needs=1\npart l pods=0 min=2\npart m pods=0 min=1";
        assert_eq!(reported(nobody_waits), "m");
    }

    #[test]
    fn a_sub_group_is_reported_when_its_siblings_wait() {
        let rack = "
            gang a needs=1
              part free pods=0 min=1
              part rack needs=2
              part head parent=rack pods=0 min=1
              part work parent=rack pods=2
        ";
        assert_eq!(reported(rack), "head");
        let grows = "
            gang a needs=1
              part free pods=0 min=1
              part rack needs=1
              part head parent=rack pods=1 on n1
              part work parent=rack pods=1 min=2
        ";
        assert_eq!(reported(grows), "work", "its rack has what it needs");
    }
}
