//! Placing pods together: all of them get room, or none. Where a group or a part of it keeps to
//! places of a topology, its pods are tried in one place after the other, part within part.

use std::collections::BTreeSet;

use super::{
    Fits, NoPlace, PodState, Session,
    no_place::Sought,
    topology::{Place, Together},
};
use crate::{
    decision::{Misfits, Reason},
    framework::Permission,
    model::{NodeId, PodGroupId, PodId},
};

/// There was no node for one of several pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// For which.
    pub pod: PodId,
    /// For how many there was room before it.
    pub found: u32,
    /// Why not.
    pub misfits: Misfits,
    /// There was no place at all for it and those that it is put together with.
    pub no_place: Option<Box<NoPlace>>,
}

impl Unplaced {
    /// No pod of them gets room before there is a place for all.
    pub(super) fn in_no(no_place: NoPlace, together: Together<'_>) -> Self {
        let (pod, no_place) = (together.pods[0], Some(Box::new(no_place)));
        Self { pod, found: 0, misfits: Misfits::default(), no_place }
    }

    /// In neither of two places: the one with room for more pods counts for that.
    pub(super) fn and(self, other: Self) -> Self {
        let (mut most, other) =
            if other.found > self.found { (other, self) } else { (self, other) };
        most.misfits.add(other.misfits);
        if let (Some(most), Some(other)) = (&mut most.no_place, other.no_place) {
            most.add(*other);
        }
        most
    }
}

/// What a pod gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gets {
    /// Room, at once or when it is free.
    Room,
    /// The same, where nobody asks why there is none.
    RoomUntold,
    /// The promise of room; nobody asks either.
    Promise,
}

impl Gets {
    /// What speaks against each node costs more to tell than that something does.
    const fn is_told(self) -> bool {
        matches!(self, Self::Room)
    }
}

impl Session<'_> {
    /// What PreFilter plugins say about the next pods of a group, wherever they would be.
    pub fn pre_filter(&self, group: PodGroupId, pods: &[PodId]) -> Result<(), Reason> {
        let mut plugins = self.profile.plugins.pre_filter.iter();
        plugins.try_for_each(|plugin| plugin.pre_filter(self, group, pods))
    }

    /// The group has pods to place next, and no PreFilter plugin refuses them.
    pub fn may_be_placed(&self, group: PodGroupId) -> bool {
        let pods = self.next_chunk(group);
        !pods.is_empty() && self.pre_filter(group, &pods).is_ok()
    }

    /// All of `pods` get room, at once or when it is free; all or none of them. What permit
    /// plugins say decides whether some may go before others.
    pub fn place_all(&mut self, pods: &[PodId]) -> Result<(), Unplaced> {
        self.get_room(pods, Gets::Room)
    }

    /// The same, where nobody asks why there is no room for them.
    pub fn place_all_untold(&mut self, pods: &[PodId]) -> Result<(), Unplaced> {
        self.get_room(pods, Gets::RoomUntold)
    }

    fn get_room(&mut self, pods: &[PodId], gets: Gets) -> Result<(), Unplaced> {
        self.settle(pods, gets)?;
        let permits = &self.profile.plugins.permit;
        if permits.iter().any(|permit| permit.permit(self, pods) == Permission::WaitTogether) {
            for pod in pods {
                self.wait_instead(*pod);
            }
        }
        Ok(())
    }

    /// All of `pods` (waiting, or evicted since the last commit) are promised room, or none of
    /// them. Queue limits are the caller's to check. Of a group that is left alone nobody would
    /// start anew: its pods stay where they are, or go.
    pub fn promise_all(&mut self, pods: &[PodId]) -> bool {
        let group = pods.first().and_then(|pod| self.pod(*pod).group);
        if group.is_some_and(|group| self.group(group).left_alone) {
            return self.promise_what_they_have(pods);
        }
        self.settle(pods, Gets::Promise).is_ok()
    }

    fn promise_what_they_have(&mut self, pods: &[PodId]) -> bool {
        let start = self.checkpoint();
        for &pod in pods {
            let own: BTreeSet<NodeId> = self.pod(pod).node.into_iter().collect();
            let promised = self.settle_each(&[pod], Some(&own), Gets::Promise).is_ok();
            if !promised || !self.is_promised_what_it_has(pod) {
                self.undo_to(start);
                return false;
            }
        }
        true
    }

    /// Pods of one group.
    fn settle(&mut self, pods: &[PodId], gets: Gets) -> Result<(), Unplaced> {
        let group = pods.first().and_then(|pod| self.pod(*pod).group);
        match group.filter(|group| self.group(*group).is_placed()) {
            Some(group) => self.settle_part(Together { group, part: None, pods }, None, gets),
            None => self.settle_each(pods, None, gets),
        }
    }

    fn settle_each(
        &mut self,
        pods: &[PodId],
        within: Option<&BTreeSet<NodeId>>,
        gets: Gets,
    ) -> Result<(), Unplaced> {
        let start = self.checkpoint();
        for (&pod, found) in pods.iter().zip(0..) {
            let Some((node, fits)) = self.best_node(pod, within) else {
                let told = gets.is_told().then(|| self.misfits(pod, within));
                self.undo_to(start);
                let misfits = told.unwrap_or_default();
                return Err(Unplaced { pod, found, misfits, no_place: None });
            };
            match gets {
                Gets::Room | Gets::RoomUntold => self.reserve(pod, node, fits),
                Gets::Promise => self.promise(pod, node),
            }
        }
        Ok(())
    }

    fn settle_part(
        &mut self,
        together: Together<'_>,
        within: Option<&BTreeSet<NodeId>>,
        gets: Gets,
    ) -> Result<(), Unplaced> {
        let group = self.group(together.group);
        match group.topology_of(together.part) {
            Some(constraint) => self.settle_in_place(Sought { constraint, together, within }, gets),
            None => self.settle_inside(together, within, gets),
        }
    }

    /// In the first place in which all of them fit.
    fn settle_in_place(&mut self, sought: Sought<'_>, gets: Gets) -> Result<(), Unplaced> {
        let Sought { constraint, together, within } = sought;
        let places = match self.places(constraint, together, within) {
            Ok(places) => places,
            Err(no_place) if gets.is_told() => return Err(self.without_place(sought, no_place)),
            Err(no_place) => return Err(Unplaced::in_no(no_place, together)),
        };
        let mut tried = Vec::new();
        for Place { nodes, ranks, is_widest } in places {
            let wider = ranks.map(|ranks| self.preferred_nodes.replace(ranks));
            let settled = self.settle_inside(together, Some(&nodes), gets);
            if let Some(wider) = wider {
                self.preferred_nodes = wider;
            }
            match settled {
                Ok(()) => return Ok(()),
                Err(unplaced) if is_widest => tried.push((nodes, unplaced)),
                Err(_) => {}
            }
        }
        Err(if gets.is_told() { self.in_none_of(sought, tried) } else { tried.swap_remove(0).1 })
    }

    /// Whether there is a place for them in which all of them fit; nothing comes of it.
    pub(super) fn try_in_place(&mut self, sought: Sought<'_>) -> Result<(), Unplaced> {
        let start = self.checkpoint();
        let settled = self.settle_in_place(sought, Gets::Room);
        self.undo_to(start);
        settled
    }

    /// Part by part of what is put together.
    fn settle_inside(
        &mut self,
        together: Together<'_>,
        within: Option<&BTreeSet<NodeId>>,
        gets: Gets,
    ) -> Result<(), Unplaced> {
        let start = self.checkpoint();
        let mut found = 0;
        for (part, pods) in self.parts_of(together) {
            let settled = match part {
                Some(_) => {
                    let together = Together { part, pods: &pods, ..together };
                    self.settle_part(together, within, gets)
                }
                None => self.settle_each(&pods, within, gets),
            };
            if let Err(unplaced) = settled {
                self.undo_to(start);
                return Err(Unplaced { found: found + unplaced.found, ..unplaced });
            }
            found += u32::try_from(pods.len()).expect("pod ids are 32 bits");
        }
        Ok(())
    }

    /// The pods by the part just below, in order of their first pods; `None`: by no other part.
    fn parts_of(
        &self,
        Together { group, part, pods }: Together<'_>,
    ) -> Vec<(Option<usize>, Vec<PodId>)> {
        let group = self.group(group);
        let mut parts: Vec<(Option<usize>, Vec<PodId>)> = Vec::new();
        for &pod in pods {
            let lineage = group.lineage(self.pod(pod).sub_group);
            let below = lineage.take_while(|at| Some(*at) != part).last();
            match parts.iter_mut().find(|(known, _)| *known == below) {
                Some((_, pods)) => pods.push(pod),
                None => parts.push((below, vec![pod])),
            }
        }
        parts
    }

    fn reserve(&mut self, pod: PodId, node: NodeId, fits: Fits) {
        for reserve in &self.profile.plugins.reserve {
            reserve.reserve(self, pod, node, fits);
        }
    }

    /// A pod that got room at once is promised the same room.
    fn wait_instead(&mut self, pod: PodId) {
        if let PodState::Holding(node) = self.state(pod) {
            let parts = self.parts.of_pod(pod).promise_what_is_held();
            self.step(pod, PodState::Promised(node), parts);
        }
    }
}
