//! Where room is made for pods.

use std::fmt;

use super::counted;
use crate::{
    decision::{Misfits, Refusal, words::listing},
    model::{Name, Selection},
};

/// Where room would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// On new nodes as well.
    Anywhere,
    /// On new nodes only, which the pod selects so: pods of its own gang have the others.
    Added(Selection),
    /// Where nothing else speaks against the pod, on so many nodes: others do not suit its pod
    /// affinity or topology spread, its claims or its volumes, or have other names than those that it
    /// or they select, and a new one might not suit it either.
    OnlyFull {
        /// How many there are.
        nodes: u32,
    },
    /// There, or on new nodes that have the labels that it selects.
    OrAdded {
        /// How many there are.
        nodes: u32,
        /// How it selects nodes.
        selection: Selection,
    },
}

/// Where room would help besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// Of a pod that has to be apart from others, where others are in some of the places.
    Apart {
        /// The label of which the places have a value each.
        label: Name,
        /// Those whose nodes are only too full.
        full: Vec<Name>,
    },
    /// Of a gang with parts that have to be in one place each.
    Together(Vec<InOne>),
}

/// Pods that have to be in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InOne {
    /// How many.
    pub pods: u32,
    /// The level of which one place is required.
    pub level: Name,
}

impl Places {
    pub(super) fn of(misfits: &Misfits) -> Option<Self> {
        let is_kept_away = |refusal: &Refusal| refusal.worst.is_of_apartness();
        let site = misfits.site.as_ref().filter(|site| !site.full.is_empty());
        let apart = site.filter(|_| misfits.counts.keys().any(is_kept_away)).map(|site| {
            let label = site.apart_over.first().expect("there are places").clone();
            Self::Apart { label, full: site.full.iter().cloned().collect() }
        });
        let in_one = misfits.places.as_ref().map(|places| places.in_one.clone());
        let in_one = in_one.filter(|in_one| !in_one.is_empty());
        apart.or_else(|| in_one.map(Self::Together))
    }

    /// The label of which each of the pods needs a value of its own.
    pub(crate) const fn apart_over(&self) -> Option<&Name> {
        match self {
            Self::Apart { label, .. } => Some(label),
            Self::Together(_) => None,
        }
    }
}

fn of_nodes(f: &mut fmt::Formatter<'_>, (label, full): (&Name, &[Name]), pods: u32) -> fmt::Result {
    let told: Vec<&str> = full.iter().take(TOLD_MAX).map(|place| &**place).collect();
    write!(f, " in {label} {}", told.join(" or "))?;
    if let Some(more) = full.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
        write!(f, " or {more} more")?;
    }
    f.write_str(if pods > 1 { ", each in one of its own" } else { "" })
}

fn together(f: &mut fmt::Formatter<'_>, all: &[InOne]) -> fmt::Result {
    let each = all.iter().map(|InOne { pods, level }| format!("{pods} in one {level}"));
    write!(f, ", of which {}", listing(&each.collect::<Vec<_>>(), "and"))
}

/// Places that are told one by one.
const TOLD_MAX: usize = 3;

impl Room {
    /// Nodes may be added for it.
    pub(super) const fn is_on_new_nodes(&self) -> bool {
        match self {
            Self::Anywhere | Self::Added(_) | Self::OrAdded { .. } => true,
            Self::OnlyFull { .. } => false,
        }
    }

    /// It is in the same places, on however many nodes.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        if let (Self::OrAdded { selection: one, .. }, Self::OrAdded { selection: two, .. }) =
            (self, other)
        {
            return one == two;
        }
        self == other
    }
}

/// So many nodes are nearest, and only too full.
pub(super) fn of(misfits: &Misfits, nodes: u32) -> Room {
    let selection = misfits.selection.clone();
    if misfits.mates_are_nearest() {
        return Room::Added(selection);
    }
    match selection {
        _ if misfits.is_bound() => Room::OnlyFull { nodes },
        _ if nodes == 0 => Room::Anywhere,
        Selection::All if !keeps_away(misfits) => Room::Anywhere,
        Selection::Names => Room::OnlyFull { nodes },
        Selection::All | Selection::Label(_) | Selection::Labels => {
            Room::OrAdded { nodes, selection }
        }
    }
}

/// On some nodes there are others that it cannot be beside: room there would not help.
fn keeps_away(misfits: &Misfits) -> bool {
    misfits.counts.keys().any(|refusal| refusal.worst.needs_a_node_each())
}

pub(super) fn make(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    (room, places): (&Room, Option<&Places>),
) -> fmt::Result {
    let begin = if matches!(room, Room::Added(_)) { "add nodes with" } else { "make" };
    write!(f, "{begin} room for {} of its size", counted(pods, "more pod"))?;
    let apart = match places {
        Some(Places::Apart { label, full }) => Some((label, &full[..])),
        Some(Places::Together(all)) => {
            together(f, all)?;
            None
        }
        None => None,
    };
    match (room, apart) {
        (Room::Added(selection), _) => labelled(f, selection),
        (Room::Anywhere, None) => f.write_str(OR_ADD),
        (Room::OnlyFull { nodes }, None) => on_full(f, *nodes, pods),
        (Room::OrAdded { nodes, selection }, None) => {
            on_full(f, *nodes, pods)?;
            f.write_str(OR_ADD)?;
            labelled(f, selection)
        }
        (Room::OnlyFull { .. }, Some(places)) => of_nodes(f, places, pods),
        (Room::Anywhere, Some(places)) => or_added(f, pods, places),
        (Room::OrAdded { selection, .. }, Some(places)) => {
            or_added(f, pods, places)?;
            labelled(f, selection)
        }
    }
}

const OR_ADD: &str = ", or add nodes that have it";

fn or_added(f: &mut fmt::Formatter<'_>, pods: u32, places: (&Name, &[Name])) -> fmt::Result {
    of_nodes(f, places, pods)?;
    write!(f, "{OR_ADD} there or in a new {}", places.0)
}

fn on_full(f: &mut fmt::Formatter<'_>, nodes: u32, pods: u32) -> fmt::Result {
    match (nodes, pods) {
        (1, _) => f.write_str(" on the node that is only too full"),
        (_, 1) => write!(f, " on one of {nodes} nodes that are only too full"),
        _ => f.write_str(" on nodes that are only too full"),
    }
}

pub(super) fn labelled(f: &mut fmt::Formatter<'_>, selection: &Selection) -> fmt::Result {
    match selection {
        Selection::All | Selection::Names => Ok(()),
        Selection::Label(label) => write!(f, ", labelled {label} as its node selector asks"),
        Selection::Labels => f.write_str(", labelled as its node selector and affinity ask"),
    }
}
