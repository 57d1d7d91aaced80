//! Claims on volumes: `missing-volume=data`, `volume data@zone=a` (bound to a volume of zone a),
//! `volume data@` (bound to one that all nodes can access), `volume once:data@`
//! (`ReadWriteOncePod`), `volume in-zone:data@a` (by its volume's labels), `volume
//! data?v1@zone=a,v2@zone=b` (these match, `made@zone=c` can be provisioned, `made@zone=c@shelf=x`
//! where its driver has capacity for shelf x). With the prefix `csi:`, the driver `csi` attaches
//! it.

use std::sync::Arc;

use super::super::tokens::{Tokens, pair};
use schedlab_scheduler_core::model::{
    AttachedVolume, LabelSelector, Name, NodeSelectorTerm, Operator, ProvisionableVolume,
    Requirement, Volume, VolumeAccess, VolumeClaim, VolumeProblem, VolumeReach,
};

pub(super) fn volume_claims(tokens: &mut Tokens<'_>) -> Vec<VolumeClaim> {
    let missing = tokens.value("missing-volume").map(|name| VolumeClaim {
        name: name.into(),
        is_exclusive: false,
        attached_volume: None,
        access: VolumeAccess::Unavailable(VolumeProblem::Missing),
    });
    missing.into_iter().chain(tokens.each("volume").into_iter().map(claim)).collect()
}

fn claim(word: &str) -> VolumeClaim {
    let Some(word) = word.strip_prefix("csi:") else { return unattached(word) };
    let claim = unattached(word);
    VolumeClaim { attached_volume: Some(attached(&claim.name)), ..claim }
}

/// A volume of driver `csi`.
pub(super) fn attached(volume: &str) -> AttachedVolume {
    AttachedVolume { driver: "csi".into(), volume: volume.into() }
}

pub(super) fn unattached(word: &str) -> VolumeClaim {
    let (word, is_exclusive) = match word.strip_prefix("once:") {
        Some(word) => (word, true),
        None => (word, false),
    };
    if let Some((name, zone)) = word.strip_prefix("in-zone:").and_then(|word| word.split_once('@'))
    {
        let zones = vec![(VolumeClaim::ZONE_LABELS[0].into(), vec![Name::from(zone)])];
        let access = VolumeAccess::Bound(VolumeReach { affinity: None, zones });
        return VolumeClaim { name: name.into(), is_exclusive, attached_volume: None, access };
    }
    let (name, access) = match word.split_once('?') {
        None => {
            let (name, place) = word.split_once('@').expect("claim@label=value");
            (name, VolumeAccess::Bound(reach(place)))
        }
        Some((name, volumes)) => {
            let volumes = volumes.split(',').filter(|word| !word.is_empty());
            let volumes = volumes.map(|word| word.split_once('@').expect("volume@label=value"));
            let (provisionable, volumes): (Vec<_>, Vec<_>) =
                volumes.partition(|(name, _)| *name == "made");
            let volume = |(name, place): (&str, &str)| {
                Arc::new(Volume { name: name.into(), reach: reach(place) })
            };
            let provisionable = provisionable.first().map(|(_, place)| provisionable_in(place));
            (
                name,
                VolumeAccess::WaitForFirstConsumer {
                    volumes: volumes.into_iter().map(volume).collect(),
                    provisionable,
                },
            )
        }
    };
    VolumeClaim { name: name.into(), is_exclusive, attached_volume: None, access }
}

fn provisionable_in(place: &str) -> ProvisionableVolume {
    let (place, room) = match place.split_once('@') {
        None => (place, None),
        Some((place, "")) => (place, Some(Vec::new())),
        Some((place, shelf)) => {
            (place, Some(vec![LabelSelector { requirements: vec![label_requirement(shelf)] }]))
        }
    };
    ProvisionableVolume { reach: reach(place), nodes_with_capacity: room }
}

fn label_requirement(place: &str) -> Requirement {
    let (key, value) = pair(place);
    Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

fn reach(place: &str) -> VolumeReach {
    if place.is_empty() {
        return VolumeReach::default();
    }
    let term = NodeSelectorTerm { labels: vec![label_requirement(place)], fields: Vec::new() };
    VolumeReach { affinity: Some(vec![term]), zones: Vec::new() }
}
