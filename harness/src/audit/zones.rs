//! Zones of nodes, and what pods have of them: as published, and as the scheduler writes it.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::{
    audit::{Amounts, NodeView},
    model::Name,
};

use super::read;
use crate::fields::{list, text};

/// The node with the zones of its `NodeResourceTopology`.
pub(super) fn add_to(mut view: NodeView, topology: Option<&Value>) -> NodeView {
    let Some(topology) = topology else { return view };
    let attribute = |name: &str| {
        let mut all = list(topology, "/attributes").iter();
        all.find(|one| text(one, "/name") == Some(name)).and_then(|one| text(one, "/value"))
    };
    let zones = list(topology, "/zones").iter().filter_map(|zone| {
        let resources = list(zone, "/resources").iter();
        let offers = resources.filter_map(|one| {
            let offer = schedlab_emulator::quantity::thousandths(one.get("allocatable")?)?;
            Some((Name::from(text(one, "/name")?), offer))
        });
        Some((Name::from(text(zone, "/name")?), offers.collect()))
    });
    view.zones = zones.collect();
    view.one_zone = attribute("topologyManagerPolicy") == Some("single-numa-node")
        && attribute("topologyManagerScope") == Some("pod");
    view
}

/// What the pod's annotation says that it has.
pub(super) fn of_pod(pod: &Value) -> BTreeMap<Name, Amounts> {
    let told = text(pod, "/metadata/annotations/kai.scheduler~1numa-placement-predicted");
    let told: Vec<Value> = told.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let share = |one: &Value| {
        let zone = text(one, "/zone")?;
        Some((Name::from(zone), read::amounts(one.get("amount"))))
    };
    told.iter().filter_map(share).collect()
}
