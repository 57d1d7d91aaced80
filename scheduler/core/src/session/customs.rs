//! Pods that care for where others are.

use crate::{
    Snapshot,
    model::{PodId, PodShape},
};

/// Pods that care for where others are, so that nobody else need be asked.
#[derive(Clone, Debug)]
pub(super) struct Customs {
    pub(super) shunning: Vec<PodId>,
    pub(super) preferring: Vec<PodId>,
    pub(super) claiming: Vec<PodId>,
    pub(super) volumes: Vec<PodId>,
}

impl Customs {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let with = |cares: fn(&PodShape) -> bool| {
            let shapes: Vec<bool> = snapshot.shapes.iter().map(cares).collect();
            if !shapes.contains(&true) {
                return Vec::new();
            }
            let pods = snapshot.pods.iter().zip(0..);
            let caring = pods.filter(|(pod, _)| shapes[pod.shape.0 as usize]);
            caring.map(|(_, at)| PodId(at)).collect()
        };
        Self {
            shunning: with(|shape| !shape.pod_anti_affinity.is_empty()),
            claiming: with(|shape| !shape.claims.is_empty()),
            volumes: with(|shape| !shape.volumes.is_empty()),
            preferring: with(|shape| {
                !shape.pod_preferences.is_empty() || !shape.pod_affinity.is_empty()
            }),
        }
    }
}
