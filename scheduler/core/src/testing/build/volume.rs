//! Claims on volumes: `missing-volume=data`, `volume data@zone=a` (bound to a volume of zone a),
//! `volume data@` (bound to one that is everywhere), `volume once:data@` (`ReadWriteOncePod`),
//! `volume in-zone:data@a` (by its volume's labels), `volume data?v1@zone=a,v2@zone=b` (these fit,
//! and `made@zone=c` can be made).

use std::sync::Arc;

use super::super::words::{Words, pair};
use crate::model::{
    Name, NodeSelectorTerm, Operator, Requirement, Volume, VolumeAccess, VolumeClaim,
    VolumeProblem, VolumeReach,
};

pub(super) fn all(words: &mut Words<'_>) -> Vec<VolumeClaim> {
    let missing = words.value("missing-volume").map(|name| VolumeClaim {
        name: name.into(),
        is_exclusive: false,
        access: VolumeAccess::Nowhere(VolumeProblem::Missing),
    });
    missing.into_iter().chain(words.each("volume").into_iter().map(claim)).collect()
}

fn claim(word: &str) -> VolumeClaim {
    let (word, is_exclusive) = match word.strip_prefix("once:") {
        Some(word) => (word, true),
        None => (word, false),
    };
    if let Some((name, zone)) = word.strip_prefix("in-zone:").and_then(|word| word.split_once('@'))
    {
        let zones = vec![(VolumeClaim::ZONE_LABELS[0].into(), vec![Name::from(zone)])];
        let access = VolumeAccess::Bound(VolumeReach { affinity: None, zones });
        return VolumeClaim { name: name.into(), is_exclusive, access };
    }
    let (name, access) = match word.split_once('?') {
        None => {
            let (name, place) = word.split_once('@').expect("claim@label=value");
            (name, VolumeAccess::Bound(reach(place)))
        }
        Some((name, volumes)) => {
            let volumes = volumes.split(',').filter(|word| !word.is_empty());
            let volumes = volumes.map(|word| word.split_once('@').expect("volume@label=value"));
            let (made, volumes): (Vec<_>, Vec<_>) = volumes.partition(|(name, _)| *name == "made");
            let volume = |(name, place): (&str, &str)| {
                Arc::new(Volume { name: name.into(), reach: reach(place) })
            };
            let made = made.first().map(|(_, place)| reach(place));
            (name, VolumeAccess::Open { volumes: volumes.into_iter().map(volume).collect(), made })
        }
    };
    VolumeClaim { name: name.into(), is_exclusive, access }
}

fn reach(place: &str) -> VolumeReach {
    if place.is_empty() {
        return VolumeReach::default();
    }
    let (key, value) = pair(place);
    let wanted =
        Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] };
    let term = NodeSelectorTerm { labels: vec![wanted], fields: Vec::new() };
    VolumeReach { affinity: Some(vec![term]), zones: Vec::new() }
}
