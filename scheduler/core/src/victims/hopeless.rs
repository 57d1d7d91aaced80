//! Jobs for which no search found anything: one of the same queue that asks for no less is not
//! searched for again.

use std::collections::BTreeMap;

use super::{Likeness, Wanted};
use crate::{
    model::QueueId,
    session::{Protection, Session},
};

/// Jobs for which nothing was found in this action.
#[derive(Default)]
pub(super) struct Hopeless(BTreeMap<(QueueId, bool, Likeness), Vec<Failed>>);

/// What a job asks for, as far as others ask for the like.
#[derive(PartialEq, Eq)]
pub(super) struct Demand {
    /// Its queue, whether it is preemptible, and its pods.
    alike: (QueueId, bool, Likeness),
    how_much: Failed,
}

#[derive(PartialEq, Eq)]
pub(super) struct Failed {
    priority: i32,
    /// Of each shape.
    pods: Vec<u64>,
    /// Of whom, for a time, so that nothing was found.
    pub(super) protection: Option<Protection>,
}

impl Demand {
    /// `None`: it is like no other.
    pub(super) fn of(session: &Session<'_>, wanted: &Wanted) -> Option<Self> {
        let likeness = Likeness::of(session, wanted.group, &wanted.pods)?;
        let priority = session.group(wanted.group).priority;
        let pods = wanted.pods_by_shape(session).into_values().collect();
        let alike = (wanted.queue, wanted.preemptible, likeness);
        Some(Self { alike, how_much: Failed { priority, pods, protection: None } })
    }
}

impl Hopeless {
    /// One that asked for no more, if there was one.
    pub(super) fn before(&self, Demand { alike, how_much }: &Demand) -> Option<&Failed> {
        let mut failed = self.0.get(alike).into_iter().flatten();
        let covers = |failed: &&Failed| {
            how_much.priority <= failed.priority
                && failed.pods.iter().zip(&how_much.pods).all(|(then, now)| then <= now)
        };
        failed.find(covers)
    }

    pub(super) fn remember(
        &mut self,
        Demand { alike, how_much }: Demand,
        protection: Option<Protection>,
    ) {
        self.0.entry(alike).or_default().push(Failed { protection, ..how_much });
    }
}
