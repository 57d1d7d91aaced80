//! Published devices, and who may get them: classes and requests select by CEL, as the API defines
//! it. A device of which an expression cannot be told is not selected.

mod unjudged;

use std::collections::{BTreeMap, BTreeSet};

use kube_cel::cel::{self, Context};
use schedlab_json::{Map, Value};
use schedlab_scheduler_core::model::Name;

use super::{
    expression::{self, Expression, with_room},
    slice::{NOT_THIS, Place, SliceFault, SliceRecord},
    wide::WideDevice,
};
use crate::parse::{Malformed, at, list, text};

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
    /// All slices of its pool are there.
    pub(crate) pool_is_whole: bool,
    /// It counts as a GPU: its driver, or a class that takes it, is one of GPUs.
    pub(crate) is_gpu: bool,
    /// Names of the classes and [selections](Selection) that take it.
    pub(crate) kinds: BTreeSet<Name>,
    /// Its attributes by name, with the domain; values with their types, as the API has them.
    pub(crate) attributes: BTreeMap<Name, String>,
}

/// The devices that a request may get: those of a class for which its own expressions hold, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selection {
    pub(crate) class: Name,
    expressions: Vec<String>,
}

impl Selection {
    /// Reads `exactly` of a request, which stands in this field.
    pub(super) fn read(exactly: &Value, field: &str) -> Result<Self, Malformed> {
        let class = text(exactly, "/deviceClassName").unwrap_or_default().into();
        let selectors = list(exactly, "/selectors").iter().zip(0..);
        let expression = |(selector, at): (&Value, usize)| {
            let found = text(selector, "/cel/expression").unwrap_or_default();
            let read = || expression::compiled(found, &expression::functions()).map(drop);
            let field = || format!("{field}.selectors[{at}].cel.expression");
            with_room(read).map_err(|why| why.told(field(), found))?;
            Ok(found.to_owned())
        };
        let expressions = selectors.map(expression).collect::<Result<_, _>>()?;
        Ok(Self { class, expressions })
    }

    /// Whether it is more choosy than its class.
    pub(super) fn narrows(&self) -> bool {
        !self.expressions.is_empty()
    }

    /// What its devices are called; those of a whole class by the name of the class.
    pub(crate) fn name(&self) -> Name {
        if !self.narrows() {
            return Name::clone(&self.class);
        }
        format!("{} where {}", self.class, self.expressions.join(" and ")).into()
    }

    /// How many of these devices are of it.
    pub(super) fn count(&self, devices: &[Device]) -> usize {
        let name = self.name();
        devices.iter().filter(|device| device.kinds.contains(&name)).count()
    }
}

/// A `DeviceClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClassRecord {
    /// The expressions that all must hold.
    selectors: Vec<String>,
    /// What it tells drivers of its devices, as it stands there.
    pub(super) config: Vec<Value>,
}

impl ClassRecord {
    pub(super) fn read(object: &Value) -> Self {
        let selectors = list(object, "/spec/selectors").iter();
        let expression = |one| text(one, "/cel/expression").unwrap_or("false").to_owned();
        let config = list(object, "/spec/config").to_vec();
        Self { selectors: selectors.map(expression).collect(), config }
    }
}

/// KAI's rule: the name says that it is one.
pub(super) fn is_gpu(name: &str) -> bool {
    name.to_ascii_lowercase().contains("gpu")
}

/// Devices of one name, and how to tell them.
struct Kind {
    name: Name,
    is_gpu: bool,
    /// `None`: an expression cannot be read, so no device is of it.
    expressions: Option<Vec<Expression>>,
}

impl Kind {
    fn of_class((name, class): (&Name, &ClassRecord), functions: &Context<'_>) -> Self {
        let expressions = compiled(&class.selectors, functions);
        Self { name: Name::clone(name), is_gpu: is_gpu(name), expressions }
    }

    /// `None`: its class does not exist.
    fn of_selection(
        selection: &Selection,
        classes: &BTreeMap<Name, ClassRecord>,
        functions: &Context<'_>,
    ) -> Option<Self> {
        let of_class = &classes.get(&selection.class)?.selectors;
        let expressions = compiled(of_class.iter().chain(&selection.expressions), functions);
        Some(Self { name: selection.name(), is_gpu: is_gpu(&selection.class), expressions })
    }
}

/// All devices.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// Those of one node, in the order of their names.
    pub(super) of_nodes: BTreeMap<Name, Vec<Device>>,
    /// Those of several.
    pub(super) wide: Vec<WideDevice>,
    /// Slices with a device that one before them has, too.
    pub(super) doubled: Vec<(Name, SliceFault)>,
}

/// All devices of the newest generation of each pool.
pub(super) fn devices(
    slices: &BTreeMap<Name, SliceRecord>,
    classes: &BTreeMap<Name, ClassRecord>,
    selections: &BTreeSet<Selection>,
) -> Published {
    with_room(|| selected(slices, classes, selections))
}

fn selected(
    slices: &BTreeMap<Name, SliceRecord>,
    classes: &BTreeMap<Name, ClassRecord>,
    selections: &BTreeSet<Selection>,
) -> Published {
    let functions = expression::functions();
    let narrower = |one| Kind::of_selection(one, classes, &functions);
    let of_classes = classes.iter().map(|class| Kind::of_class(class, &functions));
    let kinds: Vec<Kind> = of_classes.chain(selections.iter().filter_map(narrower)).collect();
    let kinds = (kinds.as_slice(), &functions);
    let newest = newest(slices);
    let mut published = Published::default();
    for (name, slice) in slices {
        let Newest { generation, count, is_sound, first } = &newest[&(&slice.driver, &slice.pool)];
        if *generation != slice.generation {
            continue;
        }
        let is_whole = *is_sound && slice.slices.is_none_or(|slices| slices == *count);
        for (place, one) in &slice.devices {
            let device = device((slice, is_whole), one, kinds);
            if let Some(first) = first.get(&*device.id.device).filter(|first| **first != name) {
                published.doubled.push((Name::clone(name), doubled(&device.id, first)));
                continue;
            }
            match place {
                Place::Node(node) => {
                    published.of_nodes.entry(Name::clone(node)).or_default().push(device);
                }
                Place::Nodes(term) => published.wide.push(WideDevice::of(device, term.clone())),
            }
        }
    }
    for devices in published.of_nodes.values_mut() {
        devices.sort_by_cached_key(|one| natural(&one.id.device));
    }
    published
}

/// What is wrong with a slice whose device is in that one, too.
fn doubled(DeviceId { device, .. }: &DeviceId, first: &str) -> SliceFault {
    let found = format!("{:?}, which ResourceSlice {first} of the same pool has", &**device);
    let allowed = "names that no other device of the pool has";
    SliceFault { wrong: Malformed::new("spec.devices", found, allowed), instead: NOT_THIS }
}

/// The newest generation of a pool.
struct Newest<'s> {
    generation: i64,
    /// How many slices are of it.
    count: i64,
    /// All that these offer can be used, and each device is in one of them.
    is_sound: bool,
    /// The first slice of each device.
    first: BTreeMap<&'s str, &'s Name>,
}

/// By driver and name of the pool.
fn newest(slices: &BTreeMap<Name, SliceRecord>) -> BTreeMap<(&Name, &Name), Newest<'_>> {
    let mut all: BTreeMap<(&Name, &Name), Newest<'_>> = BTreeMap::new();
    for (name, slice) in slices {
        let generation = slice.generation;
        let none = || Newest { generation, count: 0, is_sound: true, first: BTreeMap::new() };
        let newest = all.entry((&slice.driver, &slice.pool)).or_insert_with(none);
        if generation > newest.generation {
            *newest = none();
        }
        if generation == newest.generation {
            newest.count += 1;
            newest.is_sound &= slice.is_sound();
            for device in slice.devices.iter().filter_map(|(_, device)| text(device, "/name")) {
                newest.is_sound &= *newest.first.entry(device).or_insert(name) == name;
            }
        }
    }
    all
}

/// `gpu-10` comes after `gpu-9`.
pub(super) fn natural(name: &str) -> (String, u64, String) {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.strip_prefix(head).and_then(|tail| tail.parse().ok()).unwrap_or(0);
    (head.to_owned(), number, name.to_owned())
}

fn compiled<'e>(
    expressions: impl IntoIterator<Item = &'e String>,
    functions: &Context<'_>,
) -> Option<Vec<Expression>> {
    expressions.into_iter().map(|text| expression::compiled(text, functions).ok()).collect()
}

fn device(
    (slice, pool_is_whole): (&SliceRecord, bool),
    one: &Value,
    (kinds, functions): (&[Kind], &Context<'_>),
) -> Device {
    let id = DeviceId {
        driver: Name::clone(&slice.driver),
        pool: Name::clone(&slice.pool),
        device: text(one, "/name").unwrap_or_default().into(),
    };
    let context = context(&slice.driver, one, functions);
    let holds = |one: &Expression| expression::judged(one, &context) == Ok(true);
    let takes = |kind: &&Kind| kind.expressions.as_ref().is_some_and(|all| all.iter().all(holds));
    let kinds: Vec<&Kind> = kinds.iter().filter(takes).collect();
    let is_gpu = is_gpu(&slice.driver) || kinds.iter().any(|kind| kind.is_gpu);
    let kinds = kinds.iter().map(|kind| Name::clone(&kind.name)).collect();
    Device { id, pool_is_whole, is_gpu, kinds, attributes: attributes(&slice.driver, one) }
}

/// A name without a domain is of the driver's, unless it stands there with that domain, too.
fn attributes(driver: &str, one: &Value) -> BTreeMap<Name, String> {
    let mut attributes = BTreeMap::new();
    for (name, value) in at(one, "/attributes").and_then(Value::as_object).into_iter().flatten() {
        if name.contains('/') {
            attributes.insert(name.as_str().into(), value.to_string());
        } else {
            let name = format!("{driver}/{name}").into();
            attributes.entry(name).or_insert_with(|| value.to_string());
        }
    }
    attributes
}

/// `device`, with its driver, `attributes[domain].name`, `capacity[domain].name`, and whether
/// several may have it at once.
fn context<'c>(driver: &str, one: &Value, functions: &'c Context<'_>) -> Context<'c> {
    let mut context = functions.new_inner_scope();
    let attributes = by_domain(driver, one, "/attributes", |value| {
        let (kind, value) = value.as_object()?.iter().next()?;
        attribute(kind, value, functions)
    });
    let capacity = by_domain(driver, one, "/capacity", |value| {
        expression::made("quantity", text(value, "/value")?, functions)
    });
    let is_for_many = at(one, "/allowMultipleAllocations") == Some(&Value::Bool(true));
    let fields = [driver.to_owned().into(), is_for_many.into(), attributes, capacity];
    let device: std::collections::HashMap<String, cel::Value> =
        expression::FIELDS.map(str::to_owned).into_iter().zip(fields).collect();
    context.add_variable_from_value("device", device);
    context
}

fn attribute(kind: &str, value: &Value, functions: &Context<'_>) -> Option<cel::Value> {
    match value {
        Value::String(text) if kind == "version" => expression::made("semver", text, functions),
        Value::String(text) => Some(text.as_str().into()),
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

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    fn selection(expressions: &[&str]) -> Result<Selection, Malformed> {
        let selectors: Vec<Value> =
            expressions.iter().map(|one| json!({ "cel": { "expression": one } })).collect();
        let exactly = json!({ "deviceClassName": "gpu.example.com", "selectors": selectors });
        Selection::read(&exactly, "spec.devices.requests[0].exactly")
    }

    #[test]
    fn an_expression_that_cannot_be_read_is_named() {
        let told = |expression: &str| {
            let wrong = selection(&["device.driver == 'a'", expression]).unwrap_err();
            wrong.to_string().replace("spec.devices.requests[0].exactly.selectors[1].", "")
        };
        let expected = "cel.expression: found device.(, allowed: a CEL expression";
        assert_eq!(told("device.("), expected);
        let (deep, odd) = ("(".repeat(10 * 1024), "true?1:".repeat(200));
        for odd in ["", "'", "a b", "device..x", "1 +", "\u{0}", &deep, &odd] {
            assert!(told(odd).ends_with("allowed: a CEL expression"), "{odd:?}");
        }
        let unknown = [
            ("gpu.driver == 'a'", "gpu"),
            ("device.driver == 'a' || frob(1) == 2", "frob"),
            ("device.driver.frob()", "frob"),
            ("maths.least(1, 2) == 1", "maths.least"),
            ("device.name == 'a'", "device.name"),
            ("has(device.labels)", "device.labels"),
            ("cel.bind(device.driver, 1, true)", "cel.bind"),
            ("cel.bind(d, 1, true) && d == 1", "d"),
        ];
        for (expression, name) in unknown {
            let told = told(expression);
            assert!(
                told.starts_with(&format!("cel.expression: found {name}, allowed: ")),
                "{told}"
            );
        }
    }

    /// The devices for which an expression holds.
    fn taken_by(expression: &str) -> Vec<String> {
        let slice = json!({ "spec": {
            "nodeName": "n", "driver": "gpu.example.com", "pool": { "name": "n", "generation": 1 },
            "devices": [
                { "name": "a", "attributes": { "model": { "string": "x" },
                                               "runtime": { "version": "535.0.0" } } },
                { "name": "b", "attributes": { "model": { "string": "y" },
                                               "runtime": { "version": "550.1.2" },
                                               "other.example.com/fast": { "bool": true } },
                  "capacity": { "memory": { "value": "80Gi" } } },
            ],
        } });
        let class = json!({ "spec": {} });
        let slices = BTreeMap::from([("s".into(), SliceRecord::read(&slice))]);
        let classes = BTreeMap::from([("gpu.example.com".into(), ClassRecord::read(&class))]);
        let one = selection(&[expression]).unwrap();
        let found = devices(&slices, &classes, &[one.clone()].into());
        let taken =
            found.of_nodes[&Name::from("n")].iter().filter(|is| is.kinds.contains(&one.name()));
        taken.map(|device| device.id.device.to_string()).collect()
    }

    #[test]
    fn versions_are_compared_as_such_and_are_no_texts() {
        let runtime = "device.attributes['gpu.example.com'].runtime";
        let rows = [
            (format!("{runtime}.isGreaterThan(semver('535.0.0'))"), "b"),
            (format!("{runtime}.compareTo(semver('535.0.0')) >= 0"), "ab"),
            (format!("{runtime} == semver('535.0.0')"), "a"),
            (format!("{runtime}.major() == 550"), "b"),
            (format!("{runtime} == '535.0.0'"), ""),
            (format!("{runtime} != '535.0.0'"), "ab"),
            (format!("{runtime} in ['535.0.0', '550.1.2']"), ""),
        ];
        for (expression, expected) in rows {
            assert_eq!(taken_by(&expression).concat(), expected, "{expression}");
        }
    }

    #[test]
    fn a_domain_that_a_device_does_not_have_has_no_names() {
        let rows = [
            ("has(device.attributes['other.example.com'].fast)", "b"),
            ("!has(device.attributes['other.example.com'].fast)", "a"),
            ("!has(device.capacity['gpu.example.com'].memory)", "a"),
            ("!has(device.capacity['nobody.example.com'].memory)", "ab"),
            ("!has(device.attributes.nobody.fast)", "ab"),
            ("!('fast' in device.attributes['other.example.com'])", "a"),
            ("['other.example.com'].exists(d, !has(device.attributes[d].fast))", "a"),
            ("device.attributes['other.example.com'].?fast.orValue(false)", "b"),
            ("'other.example.com' in device.attributes", "b"),
            ("device.attributes['nobody.example.com'].fast", ""),
            ("!device.allowMultipleAllocations", "ab"),
            (
                "[{'attributes': {'x': {'y': 1}}}].exists(device, device.attributes['x'].y == 1)",
                "ab",
            ),
        ];
        for (expression, expected) in rows {
            assert_eq!(taken_by(expression).concat(), expected, "{expression}");
        }
    }

    #[test]
    fn a_value_can_be_given_a_name() {
        let own = "device.attributes['gpu.example.com']";
        let other = "device.attributes['other.example.com']";
        let rows = [
            (format!("cel.bind(d, {own}, d.model == 'x')"), "a"),
            (format!("cel.bind(d, {other}, !has(d.fast)) || 1 > 2"), "a"),
            (format!("cel.bind(d, {own}, cel.bind(m, d.model, m + m == 'yy'))"), "b"),
            (format!("cel.bind(m, {own}.model, ['x', 'z'].exists(one, one == m))"), "a"),
        ];
        for (expression, expected) in rows {
            assert_eq!(taken_by(&expression).concat(), expected, "{expression}");
        }
    }

    #[test]
    fn devices_are_of_the_selections_for_which_all_expressions_hold() {
        let slice = json!({ "spec": {
            "nodeName": "n", "driver": "gpu.example.com", "pool": { "name": "n", "generation": 1 },
            "devices": [
                { "name": "a", "attributes": { "model": { "string": "x" } } },
                { "name": "b", "attributes": { "model": { "string": "y" },
                                               "other.example.com/fast": { "bool": true } },
                  "capacity": { "memory": { "value": "80Gi" } } },
            ],
        } });
        let class = json!({ "spec": { "selectors": [
            { "cel": { "expression": "device.driver == 'gpu.example.com'" } },
        ] } });
        let slices = BTreeMap::from([("s".into(), SliceRecord::read(&slice))]);
        let classes = BTreeMap::from([("gpu.example.com".into(), ClassRecord::read(&class))]);
        let own = "device.attributes['gpu.example.com'].model";
        let memory = "device.capacity['gpu.example.com'].memory";
        let selections: BTreeSet<Selection> = [
            selection(&[&format!("{own} in ['x', 'y']")]),
            selection(&[&format!("{own} == 'y'"), "device.attributes['other.example.com'].fast"]),
            selection(&[&format!("{memory}.isGreaterThan(quantity('100Gi'))")]),
        ]
        .map(Result::unwrap)
        .into();
        let found = devices(&slices, &classes, &selections);
        let found: Vec<Vec<&str>> = found.of_nodes[&Name::from("n")]
            .iter()
            .map(|device| device.kinds.iter().map(|kind| &**kind).collect())
            .collect();
        let class = "gpu.example.com";
        let either = format!("{class} where {own} in ['x', 'y']");
        let second =
            format!("{class} where {own} == 'y' and device.attributes['other.example.com'].fast");
        assert_eq!(found, [vec![class, &either], vec![class, &second, &either]]);
    }
}
