//! `ResourceSlice`s: what a driver offers, and from which nodes it can be used. An API server
//! refuses most of what cannot be used; a snapshot may have it, and of what is left nothing is
//! given to anybody.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, NodeSelectorTerm};

use super::Claims;
use crate::{
    mirror::selectors::node_term,
    parse::{Malformed, at, list, name, shown, text, uid},
};

const OF_SLICE: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", PER_DEVICE];
const OF_DEVICE: [&str; 3] = ["nodeName", "nodeSelector", "allNodes"];
const PER_DEVICE: &str = "perDeviceNodeSelection";
const ONE_OF_SLICE: &str =
    "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection";
const ONE_OF_DEVICE: &str = "exactly one of nodeName, nodeSelector and allNodes";
const NO_DEVICE: &str = "none of its devices is used";
pub(super) const NOT_THIS: &str = "the device is not used";

/// A `ResourceSlice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceRecord {
    uid: Name,
    pub(super) driver: Name,
    pub(super) pool: Name,
    pub(super) generation: i64,
    /// How many slices the pool has, if it says so.
    pub(super) slices: Option<i64>,
    /// Those that can be used, as they stand there, and from where.
    pub(super) devices: Vec<(Place, Value)>,
    /// What is wrong with it, or with some of its devices.
    faults: Vec<SliceFault>,
}

/// Which nodes can use a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This one.
    Node(Name),
    /// Those that a term selects; without one, all.
    Nodes(Option<Term>),
}

/// A term that selects nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// As it stands there.
    pub(super) said: Value,
    pub(super) read: NodeSelectorTerm,
}

/// What is wrong with a slice or a device of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceFault {
    pub(crate) wrong: Malformed,
    /// What becomes of the slice, or of the device.
    pub(crate) instead: &'static str,
}

impl Claims {
    /// What is wrong with slices, with their names and uids.
    pub(crate) fn slice_faults(&self) -> impl Iterator<Item = (&Name, &Name, &SliceFault)> {
        let own = self.slices.iter().flat_map(|(name, slice)| {
            let SliceRecord { uid, faults, .. } = slice;
            faults.iter().map(move |fault| (name, uid, fault))
        });
        let of_slice = |(name, fault)| Some((name, &self.slices.get(name)?.uid, fault));
        own.chain(self.doubled.iter().map(|(name, fault)| (name, fault)).filter_map(of_slice))
    }
}

impl SliceRecord {
    pub(super) fn read(object: &Value) -> Self {
        let part = |pointer| Name::from(text(object, pointer).unwrap_or_default());
        let number = |pointer| at(object, pointer).and_then(Value::as_i64);
        let (devices, faults) = match own_place(object) {
            Ok(place) => usable(list(object, "/spec/devices"), place.as_ref()),
            Err(wrong) => (Vec::new(), vec![SliceFault { wrong, instead: NO_DEVICE }]),
        };
        Self {
            uid: uid(object),
            driver: part("/spec/driver"),
            pool: part("/spec/pool/name"),
            generation: number("/spec/pool/generation").unwrap_or(0),
            slices: number("/spec/pool/resourceSliceCount"),
            devices,
            faults,
        }
    }

    /// All that it offers can be used.
    pub(super) fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Which nodes can use all that a slice offers; `None`: each device says so.
fn own_place(object: &Value) -> Result<Option<Place>, Malformed> {
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
    match way(spec, "spec", (&OF_SLICE, ONE_OF_SLICE))? {
        PER_DEVICE => Ok(None),
        way => place(spec, "spec", way).map(Some),
    }
}

/// The devices that can be used, and what is wrong with the others; `of_all`: what the slice says
/// of their nodes.
fn usable(devices: &[Value], of_all: Option<&Place>) -> (Vec<(Place, Value)>, Vec<SliceFault>) {
    let (mut usable, mut faults) = (Vec::new(), Vec::new());
    let mut named: BTreeMap<Name, usize> = BTreeMap::new();
    for (index, device) in devices.iter().enumerate() {
        let field = format!("spec.devices[{index}]");
        let place = named_once(device, &mut named, (&field, index))
            .and_then(|()| is_understood(device, &field))
            .and_then(|()| place_of_device(device, &field, of_all));
        match place {
            Ok(place) => usable.push((place, device.clone())),
            Err(wrong) => faults.push(SliceFault { wrong, instead: NOT_THIS }),
        }
    }
    (usable, faults)
}

fn named_once(
    device: &Value,
    named: &mut BTreeMap<Name, usize>,
    (field, index): (&str, usize),
) -> Result<(), Malformed> {
    let field = format!("{field}.name");
    let Some(name) = name(device, "/name") else {
        return Err(Malformed::new(field, "nothing", "the name of a device"));
    };
    let first = *named.entry(Name::clone(&name)).or_insert(index);
    if first == index {
        return Ok(());
    }
    let found = format!("{name:?}, which spec.devices[{first}] is called");
    Err(Malformed::new(field, found, "a name that no other device of the slice has"))
}

/// Nothing keeps others from a device than that somebody has it. What a driver says of that besides
/// belongs to features of Kubernetes that are off unless somebody switches them on.
fn is_understood(device: &Value, field: &str) -> Result<(), Malformed> {
    let keeps_off = |taint: &&Value| {
        matches!(text(taint, "/effect").unwrap_or_default(), "NoSchedule" | "NoExecute")
    };
    if let Some(taint) = list(device, "/taints").iter().find(keeps_off) {
        let allowed = "no taint NoSchedule or NoExecute, as no claim is asked what it tolerates";
        return Err(Malformed::new(format!("{field}.taints"), shown(taint), allowed));
    }
    let unknown = [
        ("consumesCounters", "none, as what devices share of each other is not counted"),
        ("bindingConditions", "none, as pods are not kept waiting for them"),
    ];
    for (of, allowed) in unknown {
        if let [first, ..] = list(device, &format!("/{of}")) {
            return Err(Malformed::new(format!("{field}.{of}"), shown(first), allowed));
        }
    }
    Ok(())
}

fn place_of_device(
    device: &Value,
    field: &str,
    of_all: Option<&Place>,
) -> Result<Place, Malformed> {
    let Some(of_all) = of_all else {
        return place(device, field, way(device, field, (&OF_DEVICE, ONE_OF_DEVICE))?);
    };
    match OF_DEVICE.iter().find_map(|way| Some((way, said(device, way)?))) {
        None => Ok(of_all.clone()),
        Some((way, found)) => {
            let allowed = "nothing, where the slice has no perDeviceNodeSelection";
            Err(Malformed::new(format!("{field}.{way}"), shown(found), allowed))
        }
    }
}

/// In which one of these ways it is said which nodes can use something.
fn way(
    of: &Value,
    field: &str,
    (ways, exactly_one): (&[&'static str], &'static str),
) -> Result<&'static str, Malformed> {
    let all: Vec<(&str, &Value)> =
        ways.iter().filter_map(|way| Some((*way, said(of, way)?))).collect();
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

/// What is said of nodes in this way.
fn place(of: &Value, field: &str, way: &str) -> Result<Place, Malformed> {
    if let Some(node) = name(of, "/nodeName").filter(|_| way == "nodeName") {
        return Ok(Place::Node(node));
    }
    let selector = said(of, "nodeSelector").filter(|_| way == "nodeSelector");
    let term = selector.map(|selector| term(selector, &format!("{field}.nodeSelector")));
    term.transpose().map(Place::Nodes)
}

fn term(selector: &Value, field: &str) -> Result<Term, Malformed> {
    let field = format!("{field}.nodeSelectorTerms");
    let [said] = list(selector, "/nodeSelectorTerms") else {
        let found = match list(selector, "/nodeSelectorTerms").len() {
            0 => "none".to_owned(),
            terms => format!("{terms} terms"),
        };
        return Err(Malformed::new(field, found, "exactly one term"));
    };
    for (of, check) in [("matchExpressions", of_label as Check), ("matchFields", of_field)] {
        for (at, one) in list(said, &format!("/{of}")).iter().enumerate() {
            check(one, &format!("{field}[0].{of}[{at}]"))?;
        }
    }
    Ok(Term { said: said.clone(), read: node_term(said)? })
}

type Check = fn(&Value, &str) -> Result<(), Malformed>;

/// What a term requires of a label.
fn of_label(one: &Value, field: &str) -> Result<(), Malformed> {
    let key = name(one, "/key").is_some();
    let values = list(one, "/values");
    let found = || all(values);
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

/// What a term requires of the node's name.
fn of_field(one: &Value, field: &str) -> Result<(), Malformed> {
    let values = list(one, "/values");
    let (key, operator) = (text(one, "/key").unwrap_or_default(), text(one, "/operator"));
    let (field_of_it, found, allowed) = match operator.unwrap_or_default() {
        _ if key != "metadata.name" => ("key", format!("{key:?}"), "metadata.name"),
        "In" | "NotIn" if values.len() != 1 => ("values", all(values), "exactly one"),
        "In" | "NotIn" => return Ok(()),
        other => ("operator", format!("{other:?}"), "In or NotIn"),
    };
    Err(Malformed::new(format!("{field}.{field_of_it}"), found, allowed))
}

fn all(values: &[Value]) -> String {
    if values.is_empty() { "none".to_owned() } else { shown(&values.to_vec().into()) }
}

fn said<'a>(of: &'a Value, field: &str) -> Option<&'a Value> {
    of.get(field).filter(|found| !found.is_null())
}

#[cfg(test)]
mod tests;
