//! Zones of nodes, and what running tasks have of them.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    model::{NumaPolicy, NumaScope, NumaTopology, NumaZone, ZoneShare},
    resources::{ResourceName, Resources},
};
use serde::Deserialize;

use super::{
    super::format::{NumaPolicyName, NumaScopeName, NumaSpec, Task},
    name,
};

/// Where a task is known to be: what was seen outweighs what was foretold.
const PLACEMENTS: [&str; 2] =
    ["kai.scheduler/numa-placement-observed", "kai.scheduler/numa-placement-predicted"];

pub(super) fn topology(spec: &NumaSpec) -> NumaTopology {
    let zones = spec.zones.iter().map(|zone| NumaZone {
        name: name(&zone.id),
        allocatable: resources(&zone.allocatable),
        available: resources(&zone.available),
    });
    NumaTopology {
        policy: match spec.policy {
            NumaPolicyName::None => NumaPolicy::None,
            NumaPolicyName::BestEffort => NumaPolicy::BestEffort,
            NumaPolicyName::Restricted => NumaPolicy::Restricted,
            NumaPolicyName::SingleNumaNode => NumaPolicy::SingleNumaNode,
        },
        scope: match spec.scope {
            NumaScopeName::Container => NumaScope::Container,
            NumaScopeName::Pod => NumaScope::Pod,
        },
        zones: zones.collect(),
    }
}

#[derive(Deserialize)]
struct Placement {
    zone: String,
    amount: BTreeMap<String, String>,
}

/// As the task's annotations tell.
pub(in super::super) fn shares(task: &Task) -> Vec<ZoneShare> {
    let told = PLACEMENTS.iter().find_map(|key| task.annotations.get(*key));
    let placements: Vec<Placement> =
        told.and_then(|told| serde_json::from_str(told).ok()).unwrap_or_default();
    let share = |Placement { zone, amount }| {
        let amounts = amount.iter();
        let amounts = amounts.filter_map(|(of, text)| Some((of.clone(), quantity(of, text)?)));
        ZoneShare { zone: name(&zone), amount: resources(&amounts.collect()) }
    };
    placements.into_iter().map(share).collect()
}

/// Amounts of a zone by resource, as cases write them.
pub(in super::super) struct ZoneAmounts<'a>(pub(in super::super) &'a BTreeMap<String, f64>);

impl ZoneAmounts<'_> {
    /// As the scheduler counts them.
    pub(in super::super) fn resources(&self) -> Resources {
        resources(self.0)
    }

    /// A quantity of one resource in the unit of the others, and how much of it is in `found`.
    pub(in super::super) fn both(of: &str, text: &str, found: &Resources) -> Option<[i64; 2]> {
        let wanted = resources(&BTreeMap::from([(of.to_owned(), quantity(of, text)?)]));
        let name = match of {
            "cpu" => ResourceName::Cpu,
            "memory" => ResourceName::Memory,
            "nvidia.com/gpu" => ResourceName::Gpu,
            other => ResourceName::Extended(name(other)),
        };
        Some([wanted.amount(&name), found.amount(&name)])
    }
}

/// Millicores, bytes or devices.
fn quantity(of: &str, text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let factor = match suffix {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        _ => return None,
    };
    let unit = if of == "cpu" { 1000.0 } else { 1.0 };
    number.parse::<f64>().ok().map(|number| number * factor * unit)
}

/// From Kubernetes' names, or the cases' own.
fn resources(amounts: &BTreeMap<String, f64>) -> Resources {
    let named = amounts.iter().map(|(key, value)| {
        let key = match key.as_str() {
            "cpu" => "cpu_millis",
            "memory" => "memory_bytes",
            "nvidia.com/gpu" => "gpus",
            other => other,
        };
        (key.to_owned(), *value)
    });
    super::resources(&named.collect())
}
