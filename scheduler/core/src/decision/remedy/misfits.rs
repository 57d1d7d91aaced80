//! What helps pods that fit on no node, or on too few.

use super::{Added, KeptFrom, Places, Remedy, Room, room};
use crate::{
    decision::{EvenWhenEmpty, KeptApart, Misfit, Misfits, Opening, Pin, Reason, obstacle::Nodes},
    resources::{ResourceName, Shortage},
};

/// Of the nodes that are nearest: room helps wherever it is only short; else what most of them have
/// against the pod.
pub(super) fn of_misfits(misfits: &Misfits, pods: u32) -> Remedy {
    if let Some(elsewhere) = misfits.kept_apart.as_ref().and_then(|kept| other_places(kept)) {
        return elsewhere;
    }
    let nearest = misfits.on_nearest();
    let (mut shortages, mut is_too_small, mut devices) = (Vec::new(), None, None);
    for misfit in nearest.keys() {
        if let Misfit::TooLittle { of, even_when_empty } = misfit {
            shortages.push(of);
            is_too_small = Some(*even_when_empty);
        }
        if let Misfit::DeviceMemory { mib } = misfit {
            devices = devices.max(Some(*mib));
        }
    }
    let short = short_of(&shortages);
    let room = room::of(misfits, nearest.values().map(|nodes| nodes.all).sum());
    // A node that has only to be opened need not be added. The first of those that are equally common,
    // on nodes on which it stands alone above all.
    let commonest = nearest.into_iter().max_by_key(|(misfit, nodes)| {
        let alone = nodes.all - nodes.with_more;
        let opens = alone > 0 && misfit.is_of_closed_nodes();
        (opens, alone, nodes.all, std::cmp::Reverse(*misfit))
    });
    let let_in = misfits.left_out.as_ref().and_then(|others| others.let_in(pods));
    match (is_too_small, devices, commonest) {
        _ if misfits.named_are_small == Some(true) => Remedy::OtherNodes { or_fewer: false },
        (Some(EvenWhenEmpty::Yes), ..) | (None, None, None) if let Some(let_in) = let_in => let_in,
        (Some(EvenWhenEmpty::Yes), ..) => on_others(misfits, pods).unwrap_or_else(|| {
            let site = misfits.site.as_ref();
            let gpu_classes = site.map_or_else(Vec::new, |site| site.gpu_classes.clone());
            Remedy::LargerNodes { short, gpu_classes }
        }),
        (Some(EvenWhenEmpty::No), ..) | (None, None, None) => match &misfits.kept_apart {
            Some(kept) if room.is_on_new_nodes() => {
                admitted(misfits, &kept.misfit, (Nodes::default(), pods))
            }
            Some(_) | None => has_too_few(misfits, &room, pods).unwrap_or_else(|| {
                Remedy::MakeRoom { pods, short, room, places: Places::of(misfits) }
            }),
        },
        (None, Some(mib), _) => Remedy::LargerDevices { mib },
        (None, None, Some((misfit, nodes))) => match (&misfits.kept_apart, opening(misfits)) {
            // Opening nodes would not do.
            (Some(kept), _) if misfit.is_of_closed_nodes() => {
                admitted(misfits, &kept.misfit, (Nodes::default(), pods))
            }
            (None, Some(opening)) if misfit.is_of_closed_nodes() => opening,
            _ => admitted(misfits, misfit, (nodes, pods)),
        },
    }
}

/// Of nodes of one place, where they have to be in one.
fn opening(misfits: &Misfits) -> Option<Remedy> {
    let Opening { misfit, nodes } = misfits.places.as_ref()?.opening.clone()?;
    Some(Remedy::Open { misfit, nodes })
}

/// Pods need a node each, and of those that are only too full there are not so many.
fn has_too_few(misfits: &Misfits, room: &Room, pods: u32) -> Option<Remedy> {
    let is_alone = misfits.site.as_ref().is_some_and(|site| site.is_alone);
    let has_too_few = matches!(room, Room::OnlyFull { nodes } if *nodes < pods);
    (is_alone && has_too_few).then(|| on_others(misfits, pods)).flatten()
}

/// Of a gang that all nodes together are too small for, where it matters where others are: nodes for
/// all of it that have none as things are.
pub(super) fn of_larger(instead: &Reason) -> Option<Remedy> {
    let Reason::GangTooLarge { missing, misfits, .. } = instead else { return None };
    let kept = misfits.kept_apart.as_ref();
    let apart = || {
        let misfit = &kept?.misfit;
        Some(admitted(misfits, misfit, (Nodes::default(), *missing)))
    };
    kept.and_then(|kept| other_places(kept)).or_else(apart).or_else(|| on_others(misfits, *missing))
}

/// No node that is there is large enough: others are, where they have to be.
fn on_others(misfits: &Misfits, pods: u32) -> Option<Remedy> {
    let kept_by = misfits.site.as_ref()?.kept_by.as_ref()?;
    let remedy = admitted(misfits, kept_by, (Nodes::default(), pods));
    if let Remedy::Admit { misfit, added, .. } = &remedy {
        added.batch(misfit.place_need()?, pods)?;
    }
    Some(remedy)
}

fn other_places(KeptApart { pin, fewer, .. }: &KeptApart) -> Option<Remedy> {
    pin.as_ref().map(|pin| places_but(pin, KeptFrom::Mates { fewer: *fewer }))
}

fn places_but(Pin { label, values }: &Pin, from: KeptFrom) -> Remedy {
    Remedy::OtherPlaces { label: label.clone(), values: values.iter().cloned().collect(), from }
}

fn admitted(misfits: &Misfits, misfit: &Misfit, (of, pods): (Nodes, u32)) -> Remedy {
    let shut = misfits.site.as_ref().and_then(|site| site.shut.as_ref());
    if let Some(pin) = shut.filter(|_| misfit.is_of_apartness()) {
        return places_but(pin, KeptFrom::Others);
    }
    let added = Added::of(misfits, misfit, pods);
    let Nodes { all: nodes, with_more } = of;
    Remedy::Admit { misfit: misfit.clone(), nodes, pods, added, with_more }
}

/// Of nodes those count that are short of the fewest resources.
fn short_of(shortages: &[&Shortage]) -> Vec<ResourceName> {
    let fewest = shortages.iter().map(|of| of.resources().count()).min();
    let least = shortages.iter().filter(|of| Some(of.resources().count()) == fewest);
    let mut short: Vec<ResourceName> = least.flat_map(|of| of.resources()).collect();
    short.sort();
    short.dedup();
    short
}
