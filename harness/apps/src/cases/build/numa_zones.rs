//! NUMA zones of nodes, and the allocations of running tasks.

use std::collections::BTreeMap;

use schedlab_api::{annotations, resources};
use schedlab_scheduler_core::{
    model::{NumaAllocation, NumaPolicy, NumaScope, NumaTopology, NumaZone},
    resources::{ResourceName, Resources},
};
use serde::Deserialize;

use super::{
    super::format::{NumaPolicyName, NumaScopeName, NumaSpec, Task},
    to_name,
};

/// Annotations with a task's NUMA placement: the observed placement takes precedence over the
/// predicted one.
const PLACEMENT_ANNOTATIONS: [&str; 2] =
    [annotations::NUMA_PLACEMENT_OBSERVED, annotations::NUMA_PLACEMENT_PREDICTED];

pub(super) fn numa_topology(spec: &NumaSpec) -> NumaTopology {
    let zones = spec.zones.iter().map(|zone| NumaZone {
        name: to_name(&zone.id),
        allocatable: resources_from_amounts(&zone.allocatable),
        available: resources_from_amounts(&zone.available),
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
struct PlacementAnnotation {
    zone: String,
    amount: BTreeMap<String, String>,
}

/// NUMA allocations from the task's annotations.
pub(in super::super) fn numa_allocations_of_task(task: &Task) -> Vec<NumaAllocation> {
    let annotation = PLACEMENT_ANNOTATIONS.iter().find_map(|key| task.annotations.get(*key));
    let placements: Vec<PlacementAnnotation> =
        annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let share = |PlacementAnnotation { zone, amount }| {
        let amounts = amount.iter();
        let amounts =
            amounts.filter_map(|(of, text)| Some((of.clone(), parse_quantity(of, text)?)));
        NumaAllocation { zone: to_name(&zone), amount: resources_from_amounts(&amounts.collect()) }
    };
    placements.into_iter().map(share).collect()
}

/// Amounts of a NUMA zone by resource name, in the units of the case format: millicores, bytes and
/// devices.
pub(in super::super) struct NumaZoneAmounts<'a>(pub(in super::super) &'a BTreeMap<String, f64>);

impl NumaZoneAmounts<'_> {
    /// The amounts in the scheduler's units.
    pub(in super::super) fn to_resources(&self) -> Resources {
        resources_from_amounts(self.0)
    }

    /// The expected quantity of `resource`, parsed, and the amount of `resource` in `found`, both
    /// in the same unit.
    pub(in super::super) fn parse_expected_and_found(
        resource: &str,
        text: &str,
        found: &Resources,
    ) -> Option<[i64; 2]> {
        let expected = resources_from_amounts(&BTreeMap::from([(
            resource.to_owned(),
            parse_quantity(resource, text)?,
        )]));
        let name = match resource {
            "cpu" => ResourceName::Cpu,
            "memory" => ResourceName::Memory,
            resources::GPU => ResourceName::Gpu,
            other => ResourceName::Extended(to_name(other)),
        };
        Some([expected.amount_of(&name), found.amount_of(&name)])
    }
}

/// Parses a quantity of `resource` into millicores, bytes or devices.
fn parse_quantity(resource: &str, text: &str) -> Option<f64> {
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
    let unit = if resource == "cpu" { 1000.0 } else { 1.0 };
    number.parse::<f64>().ok().map(|number| number * factor * unit)
}

/// Converts amounts whose keys are the resource names of Kubernetes or of the case format.
fn resources_from_amounts(amounts: &BTreeMap<String, f64>) -> Resources {
    let named = amounts.iter().map(|(key, value)| {
        let key = match key.as_str() {
            "cpu" => "cpu_millis",
            "memory" => "memory_bytes",
            resources::GPU => "gpus",
            other => other,
        };
        (key.to_owned(), *value)
    });
    super::resources_from_amounts(&named.collect())
}
