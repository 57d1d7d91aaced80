//! NUMA zones: those that nodes publish, and the placement that the scheduler writes to pods.

use std::collections::BTreeMap;

use schedlab_api::{
    Value, annotations,
    object::annotation,
    pointer::{list, text},
};

use crate::rules::{Amounts, Name, NodeView};

/// Adds the zones of a `NodeResourceTopology` object to the view of its node.
pub(crate) fn add_numa_zones(mut view: NodeView, topology: Option<&Value>) -> NodeView {
    let Some(topology) = topology else { return view };
    let attribute = |name: &str| {
        let mut all = list(topology, "/attributes").iter();
        all.find(|one| text(one, "/name") == Some(name)).and_then(|one| text(one, "/value"))
    };
    let zones = list(topology, "/zones").iter().filter_map(|zone| {
        let resources = list(zone, "/resources").iter();
        let offers = resources.filter_map(|one| {
            let offer = schedlab_api::quantity::thousandths(one.get("allocatable")?)?;
            Some((Name::from(text(one, "/name")?), offer))
        });
        Some((Name::from(text(zone, "/name")?), offers.collect()))
    });
    view.numa_zones = zones.collect();
    view.is_single_numa_node = attribute("topologyManagerPolicy") == Some("single-numa-node")
        && attribute("topologyManagerScope") == Some("pod");
    view
}

/// The amounts by NUMA zone in the pod's annotation.
pub(super) fn numa_placement(pod: &Value) -> BTreeMap<Name, Amounts> {
    let annotation = annotation(pod, annotations::NUMA_PLACEMENT_PREDICTED);
    let shares: Vec<Value> =
        annotation.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let share = |one: &Value| {
        let zone = text(one, "/zone")?;
        Some((Name::from(zone), super::parse_amounts(one.get("amount"))))
    };
    shares.iter().filter_map(share).collect()
}
