//! Claims on volumes: `missing-volume=data`, `volume data@zone=a` (bound to a volume of zone a),
//! `volume data@` (bound to one that all nodes can access), `volume once:data@`
//! (`ReadWriteOncePod`), `volume in-zone:data@a` (by its volume's labels), `volume
//! data?v1@zone=a,v2@zone=b` (these match, `made@zone=c` can be provisioned, `made@zone=c@shelf=x`
//! where its driver has capacity for shelf x). With the prefix `csi:`, the driver `csi` attaches
//! it.

use std::sync::Arc;

use super::super::tokens::{LineTokens, split_key_value};
use schedlab_scheduler_core::model::{
    AttachedVolume, LabelSelector, Name, NodeSelectorTerm, Operator, ProvisionableVolume,
    Requirement, Volume, VolumeAccess, VolumeClaim, VolumeProblem, VolumeReach,
};

pub(super) fn parse_volume_claims(tokens: &mut LineTokens<'_>) -> Vec<VolumeClaim> {
    let missing = tokens.take_value("missing-volume").map(|name| VolumeClaim {
        name: name.into(),
        is_exclusive: false,
        attached_volume: None,
        access: VolumeAccess::Unavailable(VolumeProblem::Missing),
    });
    missing
        .into_iter()
        .chain(tokens.take_each("volume").into_iter().map(parse_volume_claim))
        .collect()
}

fn parse_volume_claim(word: &str) -> VolumeClaim {
    let Some(word) = word.strip_prefix("csi:") else { return parse_unattached_claim(word) };
    let claim = parse_unattached_claim(word);
    VolumeClaim { attached_volume: Some(attached_csi_volume(&claim.name)), ..claim }
}

/// A volume of the CSI driver `csi` that is attached for a claim.
pub(super) fn attached_csi_volume(volume: &str) -> AttachedVolume {
    AttachedVolume { driver: "csi".into(), volume: volume.into() }
}

pub(super) fn parse_unattached_claim(word: &str) -> VolumeClaim {
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
            (name, VolumeAccess::Bound(parse_volume_reach(place)))
        }
        Some((name, volumes)) => {
            let volumes = volumes.split(',').filter(|word| !word.is_empty());
            let volumes = volumes.map(|word| word.split_once('@').expect("volume@label=value"));
            let (provisionable, volumes): (Vec<_>, Vec<_>) =
                volumes.partition(|(name, _)| *name == "made");
            let volume = |(name, place): (&str, &str)| {
                Arc::new(Volume { name: name.into(), reach: parse_volume_reach(place) })
            };
            let provisionable =
                provisionable.first().map(|(_, place)| provisionable_volume_in(place));
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

fn provisionable_volume_in(place: &str) -> ProvisionableVolume {
    let (place, room) = match place.split_once('@') {
        None => (place, None),
        Some((place, "")) => (place, Some(Vec::new())),
        Some((place, shelf)) => (
            place,
            Some(vec![LabelSelector { requirements: vec![parse_label_requirement(shelf)] }]),
        ),
    };
    ProvisionableVolume { reach: parse_volume_reach(place), nodes_with_capacity: room }
}

fn parse_label_requirement(place: &str) -> Requirement {
    let (key, value) = split_key_value(place);
    Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
}

pub(super) fn parse_volume_reach(place: &str) -> VolumeReach {
    if place.is_empty() {
        return VolumeReach::default();
    }
    let term =
        NodeSelectorTerm { labels: vec![parse_label_requirement(place)], fields: Vec::new() };
    VolumeReach { affinity: Some(vec![term]), zones: Vec::new() }
}
