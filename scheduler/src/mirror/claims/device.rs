//! Published devices, and which classes take them. A class selects by CEL, as the API defines it;
//! a device of which an expression cannot be told is not selected.

use std::collections::{BTreeMap, BTreeSet};

use kube_cel::{
    KubeCelExt as _,
    cel::{self, Context, Program},
};
use schedlab_scheduler_core::model::Name;
use serde_json::{Map, Value, json};

use crate::parse::{at, list, name, text};

/// Tells a device from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceId {
    pub(crate) driver: Name,
    pub(crate) pool: Name,
    pub(crate) device: Name,
}

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    /// It counts as a GPU: its driver, or a class that takes it, is one of GPUs.
    pub(crate) is_gpu: bool,
    pub(crate) classes: BTreeSet<Name>,
}

/// A `ResourceSlice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceRecord {
    node: Option<Name>,
    driver: Name,
    pool: Name,
    generation: i64,
    devices: Vec<Value>,
}

/// A `DeviceClass`: the expressions that all must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassRecord {
    selectors: Vec<String>,
}

impl SliceRecord {
    pub(super) fn read(object: &Value) -> Self {
        let part = |pointer| Name::from(text(object, pointer).unwrap_or_default());
        Self {
            node: name(object, "/spec/nodeName"),
            driver: part("/spec/driver"),
            pool: part("/spec/pool/name"),
            generation: at(object, "/spec/pool/generation").and_then(Value::as_i64).unwrap_or(0),
            devices: list(object, "/spec/devices").to_vec(),
        }
    }
}

impl ClassRecord {
    pub(super) fn read(object: &Value) -> Self {
        let selectors = list(object, "/spec/selectors").iter();
        let expression = |one| text(one, "/cel/expression").unwrap_or("false").to_owned();
        Self { selectors: selectors.map(expression).collect() }
    }
}

/// KAI's rule: the name says that it is one.
pub(super) fn is_gpu(name: &str) -> bool {
    name.to_ascii_lowercase().contains("gpu")
}

/// All devices of nodes, of the newest generation of each pool, in the order of their names.
pub(super) fn devices(
    slices: &BTreeMap<Name, SliceRecord>,
    classes: &BTreeMap<Name, ClassRecord>,
) -> BTreeMap<Name, Vec<Device>> {
    let classes: Vec<(&Name, Option<Vec<Program>>)> =
        classes.iter().map(|(name, class)| (name, compiled(class))).collect();
    let mut newest: BTreeMap<(&Name, &Name), i64> = BTreeMap::new();
    for slice in slices.values() {
        let newest = newest.entry((&slice.driver, &slice.pool)).or_insert(slice.generation);
        *newest = slice.generation.max(*newest);
    }
    let mut by_node: BTreeMap<Name, Vec<Device>> = BTreeMap::new();
    for slice in slices.values() {
        let Some(node) = &slice.node else { continue };
        if newest.get(&(&slice.driver, &slice.pool)) != Some(&slice.generation) {
            continue;
        }
        let devices = slice.devices.iter().map(|one| device(slice, one, &classes));
        by_node.entry(Name::clone(node)).or_default().extend(devices);
    }
    for devices in by_node.values_mut() {
        devices.sort_by_cached_key(|one| natural(&one.id.device));
    }
    by_node
}

/// `gpu-10` comes after `gpu-9`.
fn natural(name: &str) -> (String, u64, String) {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.strip_prefix(head).and_then(|tail| tail.parse().ok()).unwrap_or(0);
    (head.to_owned(), number, name.to_owned())
}

/// `None`: an expression cannot be read, so the class takes no device.
fn compiled(class: &ClassRecord) -> Option<Vec<Program>> {
    class.selectors.iter().map(|text| Program::compile(text).ok()).collect()
}

fn device(slice: &SliceRecord, one: &Value, classes: &[(&Name, Option<Vec<Program>>)]) -> Device {
    let id = DeviceId {
        driver: Name::clone(&slice.driver),
        pool: Name::clone(&slice.pool),
        device: text(one, "/name").unwrap_or_default().into(),
    };
    let context = context(&slice.driver, one);
    let holds = |program: &Program| program.execute(&context) == Ok(cel::Value::Bool(true));
    let takes = classes.iter().filter(|(_, programs)| {
        programs.as_ref().is_some_and(|programs| programs.iter().all(holds))
    });
    let classes: BTreeSet<Name> = takes.map(|(name, _)| Name::clone(name)).collect();
    let is_gpu = is_gpu(&slice.driver) || classes.iter().any(|class| is_gpu(class));
    Device { id, is_gpu, classes }
}

/// `device.driver`, `device.attributes[domain].name` and `device.capacity[domain].name`.
fn context(driver: &str, one: &Value) -> Context<'static> {
    let mut context = Context::default().with_all();
    let attributes = by_domain(driver, one, "/attributes", |value| {
        value.as_object().and_then(|kinds| kinds.values().next()).and_then(plain)
    });
    let quantity = Context::default().with_all();
    let capacity = by_domain(driver, one, "/capacity", |value| {
        let amount = text(value, "/value")?;
        let program = Program::compile(&format!("quantity({})", json!(amount))).ok()?;
        program.execute(&quantity).ok()
    });
    let fields: [(&str, cel::Value); 3] =
        [("driver", driver.to_owned().into()), ("attributes", attributes), ("capacity", capacity)];
    let device: std::collections::HashMap<String, cel::Value> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    context.add_variable_from_value("device", device);
    context
}

fn plain(value: &Value) -> Option<cel::Value> {
    match value {
        Value::String(text) => Some(text.clone().into()),
        Value::Bool(flag) => Some((*flag).into()),
        Value::Number(number) => number.as_i64().map(Into::into),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Names without a domain are of the driver's.
fn by_domain(
    driver: &str,
    one: &Value,
    pointer: &str,
    read: impl Fn(&Value) -> Option<cel::Value>,
) -> cel::Value {
    let empty = Map::new();
    let entries = at(one, pointer).and_then(Value::as_object).unwrap_or(&empty);
    let mut domains: std::collections::HashMap<
        String,
        std::collections::HashMap<String, cel::Value>,
    > = std::collections::HashMap::new();
    for (key, value) in entries {
        let (domain, name) = key.split_once('/').unwrap_or((driver, key));
        if let Some(value) = read(value) {
            domains.entry(domain.to_owned()).or_default().insert(name.to_owned(), value);
        }
    }
    let domains: std::collections::HashMap<String, cel::Value> =
        domains.into_iter().map(|(domain, names)| (domain, names.into())).collect();
    domains.into()
}
