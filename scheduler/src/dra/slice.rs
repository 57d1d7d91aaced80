//! `ResourceSlice`s: devices of a driver, and the nodes that can use them. An API server rejects
//! most invalid slices; a snapshot file may contain them. Invalid devices are not used.

use std::collections::BTreeMap;

use schedlab_api::{Value, quantity::thousandths};
use schedlab_scheduler_core::model::{DeviceAmounts, Name, NodeSelectorTerm};

use super::ResourceClaims;
use crate::{
    parse::{Malformed, at, list, name, shown, text, uid},
    records::selectors::parse_node_term,
};

const SLICE_NODE_FIELDS: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", PER_DEVICE_FIELD];
const DEVICE_NODE_FIELDS: [&str; 3] = ["nodeName", "nodeSelector", "allNodes"];
const PER_DEVICE_FIELD: &str = "perDeviceNodeSelection";
const EXPECTED_SLICE_FIELD: &str =
    "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection";
const EXPECTED_DEVICE_FIELD: &str = "exactly one of nodeName, nodeSelector and allNodes";
const SLICE_NOT_USED: &str = "none of its devices is used";
pub(super) const DEVICE_NOT_USED: &str = "the device is not used";

/// A `ResourceSlice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceRecord {
    uid: Name,
    pub(super) driver: Name,
    pub(super) pool: Name,
    pub(super) generation: i64,
    /// `spec.pool.resourceSliceCount`.
    pub(super) slices: Option<i64>,
    /// `spec.sharedCounters`: counters by counter set.
    counter_sets: BTreeMap<Name, DeviceAmounts>,
    /// Valid devices, unparsed, with the nodes that can use them.
    pub(super) devices: Vec<(NodeScope, Value)>,
    /// Faults of the slice or of its devices.
    faults: Vec<SliceFault>,
}

/// The nodes that can use a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeScope {
    /// A single node.
    Node(Name),
    /// The nodes that a term selects; all nodes without a term.
    Nodes(Option<NodeTerm>),
}

/// A node selector term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeTerm {
    /// The term as in the object.
    pub(super) raw: Value,
    pub(super) parsed: NodeSelectorTerm,
}

/// A fault of a slice or of one of its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceFault {
    pub(crate) error: Malformed,
    /// What happens to the slice or device.
    pub(crate) consequence: &'static str,
}

impl ResourceClaims {
    /// All faults, with name and UID of their slices.
    pub(crate) fn slice_faults(&self) -> impl Iterator<Item = (&Name, &Name, &SliceFault)> {
        let own = self.slices.iter().flat_map(|(name, slice)| {
            let SliceRecord { uid, faults, .. } = slice;
            faults.iter().map(move |fault| (name, uid, fault))
        });
        let of_slice = |(name, fault)| Some((name, &self.slices.get(name)?.uid, fault));
        own.chain(self.device_faults.iter().map(|(name, fault)| (name, fault)).filter_map(of_slice))
    }
}

impl SliceRecord {
    pub(super) fn from_object(object: &Value) -> Self {
        let part = |pointer| Name::from(text(object, pointer).unwrap_or_default());
        let number = |pointer| at(object, pointer).and_then(Value::as_i64);
        let (devices, faults) = match slice_scope(object) {
            Ok(place) => split_usable_devices(list(object, "/spec/devices"), place.as_ref()),
            Err(error) => (Vec::new(), vec![SliceFault { error, consequence: SLICE_NOT_USED }]),
        };
        Self {
            uid: uid(object),
            driver: part("/spec/driver"),
            pool: part("/spec/pool/name"),
            generation: number("/spec/pool/generation").unwrap_or(0),
            slices: number("/spec/pool/resourceSliceCount"),
            counter_sets: counter_sets(list(object, "/spec/sharedCounters"), "/name"),
            devices,
            faults,
        }
    }

    /// Its shared counters, by names that are unique in the cluster.
    pub(super) fn qualified_counters(&self) -> DeviceAmounts {
        self.qualified(&self.counter_sets)
    }

    /// What a device consumes of the counters of its pool.
    pub(super) fn consumed_counters(&self, device: &Value) -> DeviceAmounts {
        self.qualified(&counter_sets(list(device, "/consumesCounters"), "/counterSet"))
    }

    fn qualified(&self, sets: &BTreeMap<Name, DeviceAmounts>) -> DeviceAmounts {
        let Self { driver, pool, .. } = self;
        let counters = sets.iter().flat_map(|(set, counters)| {
            counters.iter().map(move |(name, amount)| {
                (format!("{driver}/{pool}/{set}/{name}").into(), *amount)
            })
        });
        counters.collect()
    }

    /// Whether all devices of the slice can be used.
    pub(super) fn has_no_faults(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Counters by counter set.
fn counter_sets(sets: &[Value], name_pointer: &str) -> BTreeMap<Name, DeviceAmounts> {
    let counters = |set: &Value| {
        let counters = at(set, "/counters").and_then(Value::as_object).into_iter().flatten();
        let counters = counters.filter_map(|(name, counter)| {
            Some((name.as_str().into(), thousandths(at(counter, "/value")?)?))
        });
        Some((name(set, name_pointer)?, counters.collect()))
    };
    sets.iter().filter_map(counters).collect()
}

/// The nodes that can use all devices of the slice; `None` if each device selects its nodes.
fn slice_scope(object: &Value) -> Result<Option<NodeScope>, Malformed> {
    for (field, allowed) in
        [("driver", "the name of a driver"), ("pool/name", "the name of a pool")]
    {
        if name(object, &format!("/spec/{field}")).is_none() {
            let field = format!("spec.{}", field.replace('/', "."));
            return Err(Malformed::new(field, "nothing", allowed));
        }
    }
    for (field, least, allowed) in
        [("resourceSliceCount", 1, "an integer from 1"), ("generation", 0, "an integer from 0")]
    {
        let said = at(object, &format!("/spec/pool/{field}")).and_then(Value::as_i64);
        if let Some(few) = said.filter(|said| *said < least) {
            return Err(Malformed::new(format!("spec.pool.{field}"), few, allowed));
        }
    }
    let spec = at(object, "/spec").unwrap_or(&Value::Null);
    match selection_field(spec, "spec", &SLICE_NODE_FIELDS, EXPECTED_SLICE_FIELD)? {
        PER_DEVICE_FIELD => Ok(None),
        way => parse_scope(spec, "spec", way).map(Some),
    }
}

/// Splits devices into usable ones and faults; `slice_scope`: the nodes of the slice.
fn split_usable_devices(
    devices: &[Value],
    slice_scope: Option<&NodeScope>,
) -> (Vec<(NodeScope, Value)>, Vec<SliceFault>) {
    let (mut usable, mut faults) = (Vec::new(), Vec::new());
    let mut named: BTreeMap<Name, usize> = BTreeMap::new();
    for (index, device) in devices.iter().enumerate() {
        let field = format!("spec.devices[{index}]");
        let place = check_unique_name(device, &mut named, &field, index)
            .and_then(|()| device_scope(device, &field, slice_scope));
        match place {
            Ok(place) => usable.push((place, device.clone())),
            Err(wrong) => faults.push(SliceFault { error: wrong, consequence: DEVICE_NOT_USED }),
        }
    }
    (usable, faults)
}

fn check_unique_name(
    device: &Value,
    named: &mut BTreeMap<Name, usize>,
    field: &str,
    index: usize,
) -> Result<(), Malformed> {
    let field = format!("{field}.name");
    let Some(name) = name(device, "/name") else {
        return Err(Malformed::new(field, "nothing", "the name of a device"));
    };
    let first = *named.entry(Name::clone(&name)).or_insert(index);
    if first == index {
        return Ok(());
    }
    let found = format!("{name:?}, the name of spec.devices[{first}]");
    Err(Malformed::new(field, found, "a name that no other device of the slice has"))
}

fn device_scope(
    device: &Value,
    field: &str,
    of_all: Option<&NodeScope>,
) -> Result<NodeScope, Malformed> {
    let Some(of_all) = of_all else {
        return parse_scope(
            device,
            field,
            selection_field(device, field, &DEVICE_NODE_FIELDS, EXPECTED_DEVICE_FIELD)?,
        );
    };
    match DEVICE_NODE_FIELDS.iter().find_map(|way| Some((way, non_null_field(device, way)?))) {
        None => Ok(of_all.clone()),
        Some((way, found)) => {
            let allowed = "nothing, unless the slice sets perDeviceNodeSelection";
            Err(Malformed::new(format!("{field}.{way}"), shown(found), allowed))
        }
    }
}

/// The one field of `alternatives` that is set, which selects nodes. `exactly_one`: the
/// expectation, for messages.
fn selection_field(
    of: &Value,
    field: &str,
    alternatives: &[&'static str],
    exactly_one: &'static str,
) -> Result<&'static str, Malformed> {
    let all: Vec<(&str, &Value)> =
        alternatives.iter().filter_map(|way| Some((*way, non_null_field(of, way)?))).collect();
    for (way, found) in &all {
        let (is_wrong, allowed) = match *way {
            "nodeName" => (found.as_str().is_none_or(str::is_empty), "the name of a node"),
            "nodeSelector" => (!found.is_object(), "an object"),
            _ => (**found != Value::Bool(true), "true"),
        };
        if is_wrong {
            return Err(Malformed::new(format!("{field}.{way}"), shown(found), allowed));
        }
    }
    match all.as_slice() {
        [] => Err(Malformed::new(field, "none", exactly_one)),
        [(one, _)] => Ok(one),
        several => {
            let names: Vec<&str> = several.iter().map(|(way, _)| *way).collect();
            Err(Malformed::new(field, names.join(" and "), exactly_one))
        }
    }
}

/// Parses the nodes that a field selects.
fn parse_scope(of: &Value, field: &str, way: &str) -> Result<NodeScope, Malformed> {
    if let Some(node) = name(of, "/nodeName").filter(|_| way == "nodeName") {
        return Ok(NodeScope::Node(node));
    }
    let selector = non_null_field(of, "nodeSelector").filter(|_| way == "nodeSelector");
    let term = selector.map(|selector| parse_term(selector, &format!("{field}.nodeSelector")));
    term.transpose().map(NodeScope::Nodes)
}

fn parse_term(selector: &Value, field: &str) -> Result<NodeTerm, Malformed> {
    let field = format!("{field}.nodeSelectorTerms");
    let [said] = list(selector, "/nodeSelectorTerms") else {
        let found = match list(selector, "/nodeSelectorTerms").len() {
            0 => "none".to_owned(),
            terms => format!("{terms} terms"),
        };
        return Err(Malformed::new(field, found, "exactly one term"));
    };
    for (of, check) in [
        ("matchExpressions", check_label_requirement as RequirementCheck),
        ("matchFields", check_field_requirement),
    ] {
        for (at, one) in list(said, &format!("/{of}")).iter().enumerate() {
            check(one, &format!("{field}[0].{of}[{at}]"))?;
        }
    }
    Ok(NodeTerm { raw: said.clone(), parsed: parse_node_term(said)? })
}

type RequirementCheck = fn(&Value, &str) -> Result<(), Malformed>;

/// Checks a requirement on a label.
fn check_label_requirement(one: &Value, field: &str) -> Result<(), Malformed> {
    let key = name(one, "/key").is_some();
    let values = list(one, "/values");
    let found = || values_text(values);
    let is_number = |value: &Value| value.as_str().is_some_and(|it| it.parse::<i64>().is_ok());
    let (field_of_it, found, allowed) = match text(one, "/operator").unwrap_or_default() {
        _ if !key => ("key", "nothing".to_owned(), "a label"),
        "In" | "NotIn" if values.is_empty() => ("values", found(), "one or more"),
        "Exists" | "DoesNotExist" if !values.is_empty() => ("values", found(), "none"),
        "Gt" | "Lt" if values.len() != 1 => ("values", found(), "exactly one"),
        "Gt" | "Lt" if !is_number(&values[0]) => ("values[0]", shown(&values[0]), "an integer"),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => return Ok(()),
        other => ("operator", format!("{other:?}"), "In, NotIn, Exists, DoesNotExist, Gt or Lt"),
    };
    Err(Malformed::new(format!("{field}.{field_of_it}"), found, allowed))
}

/// Checks a requirement on a field; only the name of the node is one.
fn check_field_requirement(one: &Value, field: &str) -> Result<(), Malformed> {
    let values = list(one, "/values");
    let (key, operator) = (text(one, "/key").unwrap_or_default(), text(one, "/operator"));
    let (field_of_it, found, allowed) = match operator.unwrap_or_default() {
        _ if key != "metadata.name" => ("key", format!("{key:?}"), "metadata.name"),
        "In" | "NotIn" if values.len() != 1 => ("values", values_text(values), "exactly one"),
        "In" | "NotIn" => return Ok(()),
        other => ("operator", format!("{other:?}"), "In or NotIn"),
    };
    Err(Malformed::new(format!("{field}.{field_of_it}"), found, allowed))
}

fn values_text(values: &[Value]) -> String {
    if values.is_empty() { "none".to_owned() } else { shown(&values.to_vec().into()) }
}

fn non_null_field<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get(field).filter(|found| !found.is_null())
}

#[cfg(test)]
mod tests;
