//! Why a pod does not fit on a node for the places of a topology.

use std::fmt;

use super::{Remedy, remedy::counted};
use crate::{
    model::{Name, Selection},
    session::{NoPlace, WrongLevel},
};

/// Why a pod does not fit on a node for where it is in a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlaceMisfit {
    /// It is in no place that holds those that are to run together.
    TooFull {
        /// Which topology.
        topology: Name,
        /// On which level they need one place.
        level: Name,
        /// How many there are.
        pods: u32,
    },
    /// It is in another place than those that run, to which the others keep.
    Elsewhere {
        /// Which topology.
        topology: Name,
        /// On which level they need one place.
        level: Name,
    },
    /// It is nowhere, as it has not every label of the topology.
    Unlabelled {
        /// Which topology.
        topology: Name,
    },
}

impl PlaceMisfit {
    /// Could it be cured by evicting somebody?
    pub(super) const fn is_curable(&self) -> bool {
        match self {
            Self::TooFull { .. } => true,
            Self::Elsewhere { .. } | Self::Unlabelled { .. } => false,
        }
    }

    /// What is to be done.
    pub(super) fn remedy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFull { topology, level, pods } => make_place(f, *pods, (level, &[], topology)),
            Self::Elsewhere { topology, level } => write!(
                f,
                "make room in the {level} of topology {topology} in which others of it run, or \
                 only prefer that level"
            ),
            Self::Unlabelled { topology } => {
                write!(f, "label nodes with all levels of topology {topology}")
            }
        }
    }
}

/// What cures that there is no place.
pub(super) fn of_no_place(no_place: &NoPlace) -> Remedy {
    let NoPlace { topology, level, pods, places, are_in_use, wrong, .. } = no_place;
    let topology = Name::clone(topology);
    match wrong.as_deref().cloned() {
        Some(WrongLevel::Unknown { level }) => return Remedy::CreateTopology { topology, level },
        Some(WrongLevel::PrefersWider { required, preferred }) => {
            return Remedy::PreferInside { required, preferred };
        }
        Some(WrongLevel::KeptApart { wider, .. }) => {
            return Remedy::OnlyPrefer { topology, level: Name::clone(level), wider };
        }
        None => {}
    }
    let in_use = places.iter().map(|(place, _)| Name::clone(place));
    let kept_to = if *are_in_use { in_use.collect() } else { no_place.selected.clone() };
    let is_told =
        |selected: &Name| kept_to.iter().any(|place| **selected == *format!("{level}={place}"));
    let selection = no_place.selection.clone();
    let is_told = matches!(&selection, Selection::Label(selected) if is_told(selected));
    let selection = if is_told { Selection::All } else { selection };
    let (level, pods, or_prefer) = (Name::clone(level), *pods, no_place.would_spread);
    Remedy::MakePlace { topology, level, pods, kept_to, selection, or_prefer }
}

/// To prefer a level that is not wider than the required one.
pub(super) fn prefer_inside(
    f: &mut fmt::Formatter<'_>,
    required: &str,
    wider: &str,
) -> fmt::Result {
    write!(f, "prefer {required} or a level inside of it, or require {wider} or none")
}

/// Not to require a level no place of which holds all of its pods.
pub(super) fn only_prefer(
    f: &mut fmt::Formatter<'_>,
    (level, topology): (&str, &str),
    wider: Option<&Name>,
) -> fmt::Result {
    write!(f, "only prefer {level} of topology {topology}")?;
    wider.map_or(Ok(()), |wider| write!(f, ", or require {wider} instead"))
}

/// In one place of the level, or in one of those that are named.
pub(super) fn make_place(
    f: &mut fmt::Formatter<'_>,
    pods: u32,
    (level, kept_to, topology): (&str, &[Name], &str),
) -> fmt::Result {
    let place = match kept_to {
        [] => format!("one {level}"),
        places => format!("{level} {}", places.join(" or ")),
    };
    write!(f, "make room for {} in {place} of topology {topology}", counted(pods, "pod"))
}

/// On such nodes of that place, or in no one place.
pub(super) fn on_selected(
    f: &mut fmt::Formatter<'_>,
    (selection, or_prefer): (&Selection, bool),
) -> fmt::Result {
    match selection {
        Selection::All | Selection::Names => {}
        Selection::Label(label) => {
            write!(f, " on nodes labelled {label}, as its node selector asks")?;
        }
        Selection::Labels => {
            f.write_str(" on nodes that its node selector and affinity ask for")?;
        }
    }
    f.write_str(if or_prefer { ", or only prefer that level" } else { "" })
}

impl fmt::Display for PlaceMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFull { topology, level, pods } => write!(
                f,
                "node(s) are in no {level} of topology {topology} that holds {}",
                counted(*pods, "required pod")
            ),
            Self::Elsewhere { topology, level } => write!(
                f,
                "node(s) are in another {level} of topology {topology} than pods that it keeps to"
            ),
            Self::Unlabelled { topology } => {
                write!(f, "node(s) didn't have all labels of topology {topology}")
            }
        }
    }
}
