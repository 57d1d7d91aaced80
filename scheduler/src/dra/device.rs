//! Published devices and the kinds that they count as. Classes and requests select devices by CEL
//! expressions, as the API defines. A device is not selected if an expression fails.

mod cel_errors;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kube_cel::cel::{self, Context};
use schedlab_api::{Map, Value};
use schedlab_scheduler_core::model::{DeviceAmounts, DeviceProperties, Name, SharedDevice, Time};

use super::{
    capacity::{self, CapacityRequests, DeviceCapacities},
    expression::{self, Expression, with_large_stack},
    multi_node::MultiNodeDevice,
    slice::{DEVICE_NOT_USED, NodeScope, SliceFault, SliceRecord},
    taints::{self, DeviceTaint, DeviceToleration, TaintRule},
};
use crate::parse::{Malformed, at, list, name, text, time};

/// Identifies a device by driver, pool and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceId {
    pub(crate) driver: Name,
    pub(crate) pool: Name,
    pub(crate) device: Name,
}

/// A published device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) id: DeviceId,
    /// Whether all slices of the device's pool are published.
    pub(crate) pool_is_whole: bool,
    /// Whether the device counts as a GPU: by its driver, or by a class that selects the device.
    pub(crate) is_gpu: bool,
    /// Names of the classes and [selections](DeviceSelection) whose requests may get the device.
    pub(crate) kinds: BTreeSet<Name>,
    /// Names of the classes that select it, whatever its taints are.
    pub(crate) classes: BTreeSet<Name>,
    /// Attributes by fully qualified name, values as JSON with their type.
    pub(crate) attributes: BTreeMap<Name, String>,
    /// What it consumes of the counters of its pool while it is allocated.
    pub(crate) counters: DeviceAmounts,
    /// Its capacity, if it allows multiple allocations.
    pub(crate) shared: Option<SharedDevice>,
    /// It has a taint that keeps some requests off.
    pub(crate) is_tainted: bool,
    /// Names of the classes and selections that would have it, but do not tolerate its taints.
    pub(crate) repelled_kinds: BTreeSet<Name>,
    pub(crate) binding: BindingRules,
}

/// What a device requires before a pod that has it is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BindingRules {
    /// Its allocation is for one node (`bindsToNode`).
    pub(crate) binds_to_node: bool,
    /// Conditions of the device in the claim's status that must be true.
    pub(crate) conditions: Vec<Name>,
    /// Conditions of which none may be true.
    pub(crate) failure_conditions: Vec<Name>,
}

impl BindingRules {
    fn from_object(device: &Value) -> Self {
        let names = |pointer| {
            list(device, pointer).iter().filter_map(Value::as_str).map(Name::from).collect()
        };
        Self {
            binds_to_node: at(device, "/bindsToNode") == Some(&Value::Bool(true)),
            conditions: names("/bindingConditions"),
            failure_conditions: names("/bindingFailureConditions"),
        }
    }
}

impl Device {
    /// Whether counting devices by kind does not tell if it can be allocated.
    pub(super) fn needs_search(&self) -> bool {
        self.is_tainted || self.shared.is_some() || !self.counters.is_empty()
    }

    /// The properties of the device that the core knows.
    pub(super) fn properties(&self) -> DeviceProperties {
        DeviceProperties {
            kinds: self.kinds.clone(),
            attributes: self.attributes.clone(),
            pool_is_complete: self.pool_is_whole,
            counters: self.counters.clone(),
            shared: self.shared.clone(),
            is_tainted: self.is_tainted,
            repelled_kinds: self.repelled_kinds.clone(),
            is_multi_node: false,
        }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// The devices that a request may get: those of its class for which its own expressions hold, whose
/// taints it tolerates, and which have the capacity that it requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceSelection {
    pub(crate) class: Name,
    expressions: Vec<String>,
    tolerations: Vec<DeviceToleration>,
    capacity: CapacityRequests,
}

impl DeviceSelection {
    /// Parses a request (`exactly`, or an alternative), which is at `field`.
    pub(super) fn parse(exactly: &Value, field: &str) -> Result<Self, Malformed> {
        let class = text(exactly, "/deviceClassName").unwrap_or_default().into();
        let selectors = list(exactly, "/selectors").iter().zip(0..);
        let expression = |(selector, at): (&Value, usize)| {
            let found = text(selector, "/cel/expression").unwrap_or_default();
            let read = || expression::compile(found, &expression::cel_functions()).map(drop);
            let field = || format!("{field}.selectors[{at}].cel.expression");
            with_large_stack(read).map_err(|error| error.into_malformed(field(), found))?;
            Ok(found.to_owned())
        };
        let expressions = selectors.map(expression).collect::<Result<_, _>>()?;
        let tolerations = DeviceToleration::of_request(exactly);
        let capacity = capacity::parse_requests(exactly, field)?;
        Ok(Self { class, expressions, tolerations, capacity })
    }

    /// Whether the selection selects other devices than its class alone, besides those of its
    /// class.
    pub(super) fn has_own_criteria(&self) -> bool {
        let Self { class: _, expressions, tolerations, capacity } = self;
        !expressions.is_empty() || !tolerations.is_empty() || !capacity.is_empty()
    }

    /// Whether it tolerates taints.
    pub(super) fn has_tolerations(&self) -> bool {
        !self.tolerations.is_empty()
    }

    /// The name that devices of the selection are counted as; that of the class for a selection
    /// without expressions.
    pub(crate) fn name(&self) -> Name {
        let mut parts = vec![self.class.to_string()];
        if !self.expressions.is_empty() {
            parts.push(format!("where {}", self.expressions.join(" and ")));
        }
        if !self.capacity.is_empty() {
            parts.push(format!("with capacity {}", capacity::to_quantities(&self.capacity)));
        }
        if !self.tolerations.is_empty() {
            let all: Vec<String> = self.tolerations.iter().map(ToString::to_string).collect();
            parts.push(format!("tolerating {}", all.join(", ")));
        }
        parts.join(" ").into()
    }

    /// The number of these devices that the selection selects.
    pub(super) fn count_selected(&self, devices: &[Device]) -> usize {
        let name = self.name();
        devices.iter().filter(|device| device.kinds.contains(&name)).count()
    }
}

/// A `DeviceClass`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceClassRecord {
    /// Expressions that must all hold.
    selectors: Vec<String>,
    /// `spec.config`, unparsed.
    pub(super) config: Vec<Value>,
    /// Extended resource that its devices serve, besides the implicit one.
    pub(super) extended_resource: Option<Name>,
    pub(super) created: Option<Time>,
}

impl DeviceClassRecord {
    pub(super) fn from_object(object: &Value) -> Self {
        let selectors = list(object, "/spec/selectors").iter();
        let expression = |one| text(one, "/cel/expression").unwrap_or("false").to_owned();
        let config = list(object, "/spec/config").to_vec();
        Self {
            selectors: selectors.map(expression).collect(),
            config,
            extended_resource: name(object, "/spec/extendedResourceName"),
            created: time(object, "/metadata/creationTimestamp"),
        }
    }
}

/// Whether a driver or DeviceClass is one of GPUs. KAI's rule: its name contains `gpu`.
pub(super) fn is_gpu_name(name: &str) -> bool {
    name.to_ascii_lowercase().contains("gpu")
}

/// A class or selection, with compiled expressions.
struct CountedKind {
    name: Name,
    is_gpu: bool,
    /// The compiled expressions. `None` if one is invalid, so that no device is selected.
    expressions: Option<Vec<Expression>>,
    /// `None` for a class.
    selection: Option<DeviceSelection>,
}

impl CountedKind {
    fn for_class(name: &Name, class: &DeviceClassRecord, functions: &Context<'_>) -> Self {
        let expressions = compile_all(&class.selectors, functions);
        Self { name: Name::clone(name), is_gpu: is_gpu_name(name), expressions, selection: None }
    }

    /// The kind of a selection; `None` if its class does not exist.
    fn for_selection(
        selection: &DeviceSelection,
        classes: &BTreeMap<Name, DeviceClassRecord>,
        functions: &Context<'_>,
    ) -> Option<Self> {
        let of_class = &classes.get(&selection.class)?.selectors;
        let expressions = compile_all(of_class.iter().chain(&selection.expressions), functions);
        Some(Self {
            name: selection.name(),
            is_gpu: is_gpu_name(&selection.class),
            expressions,
            selection: Some(selection.clone()),
        })
    }

    /// What a request of this kind consumes of the device; `None` if it may not get it.
    fn consumed(
        &self,
        taints: &[DeviceTaint],
        capacities: &DeviceCapacities,
    ) -> Option<DeviceAmounts> {
        let none = CapacityRequests::new();
        let (tolerations, requests) = match &self.selection {
            Some(selection) => (selection.tolerations.as_slice(), &selection.capacity),
            None => (&[][..], &none),
        };
        taints::are_tolerated(taints, tolerations).then_some(())?;
        capacities.consumed(requests)
    }
}

/// All published devices.
#[derive(Debug, Default)]
pub(super) struct PublishedDevices {
    /// Devices of a single node, by node, in natural order of the devices' names.
    pub(super) by_node: BTreeMap<Name, Vec<Device>>,
    /// Devices that more than one node can use.
    pub(super) multi_node: Vec<MultiNodeDevice>,
    /// Slices that publish a device of an earlier slice.
    pub(super) faults: Vec<(Name, SliceFault)>,
    /// The shared counters of all pools.
    pub(super) counters: DeviceAmounts,
}

/// The objects that say which devices there are.
#[derive(Clone, Copy)]
pub(super) struct DeviceSources<'a> {
    pub(super) slices: &'a BTreeMap<Name, SliceRecord>,
    pub(super) classes: &'a BTreeMap<Name, DeviceClassRecord>,
    pub(super) taint_rules: &'a BTreeMap<Name, TaintRule>,
}

/// All devices of the newest generation of each pool.
pub(super) fn published_devices(
    sources: DeviceSources<'_>,
    selections: &BTreeSet<DeviceSelection>,
) -> PublishedDevices {
    with_large_stack(|| select_devices(sources, selections))
}

fn select_devices(
    DeviceSources { slices, classes, taint_rules }: DeviceSources<'_>,
    selections: &BTreeSet<DeviceSelection>,
) -> PublishedDevices {
    let functions = expression::cel_functions();
    let narrower = |one| CountedKind::for_selection(one, classes, &functions);
    let of_classes =
        classes.iter().map(|(name, class)| CountedKind::for_class(name, class, &functions));
    let kinds: Vec<CountedKind> =
        of_classes.chain(selections.iter().filter_map(narrower)).collect();
    let context = DeviceContext { kinds: &kinds, taint_rules, functions: &functions };
    let newest = newest_generations(slices);
    let mut published = PublishedDevices::default();
    for (name, slice) in slices {
        let PoolGeneration { generation, count, is_usable: is_sound, first_slices: first } =
            &newest[&(&slice.driver, &slice.pool)];
        if *generation != slice.generation {
            continue;
        }
        let is_whole = *is_sound && slice.slices.is_none_or(|slices| slices == *count);
        published.counters.extend(slice.qualified_counters());
        for (place, one) in &slice.devices {
            let device = context.slice_device(slice, is_whole, one);
            if let Some(first) = first.get(&*device.id.device).filter(|first| **first != name) {
                published.faults.push((Name::clone(name), duplicate_fault(&device.id, first)));
                continue;
            }
            match place {
                NodeScope::Node(node) => {
                    published.by_node.entry(Name::clone(node)).or_default().push(device);
                }
                NodeScope::Nodes(term) => {
                    published.multi_node.push(MultiNodeDevice::new(device, term.clone()));
                }
            }
        }
    }
    for devices in published.by_node.values_mut() {
        devices.sort_by_cached_key(|one| natural_order_key(&one.id.device));
    }
    published
}

/// The fault of a slice with a device that slice `first` has, too.
fn duplicate_fault(DeviceId { device, .. }: &DeviceId, first: &str) -> SliceFault {
    let found = format!("{:?}, which is also in ResourceSlice {first} of the same pool", &**device);
    let allowed = "names that no other device of the pool has";
    SliceFault {
        error: Malformed::new("spec.devices", found, allowed),
        consequence: DEVICE_NOT_USED,
    }
}

/// The newest generation of a pool.
struct PoolGeneration<'s> {
    generation: i64,
    /// Number of slices of the generation.
    count: i64,
    /// Whether all slices are free of faults, and each device is in only one of them.
    is_usable: bool,
    /// The first slice of each device of the generation.
    first_slices: BTreeMap<&'s str, &'s Name>,
}

/// The newest generation of each pool, by driver and pool.
fn newest_generations(
    slices: &BTreeMap<Name, SliceRecord>,
) -> BTreeMap<(&Name, &Name), PoolGeneration<'_>> {
    let mut all: BTreeMap<(&Name, &Name), PoolGeneration<'_>> = BTreeMap::new();
    for (name, slice) in slices {
        let generation = slice.generation;
        let none = || PoolGeneration {
            generation,
            count: 0,
            is_usable: true,
            first_slices: BTreeMap::new(),
        };
        let newest = all.entry((&slice.driver, &slice.pool)).or_insert_with(none);
        if generation > newest.generation {
            *newest = none();
        }
        if generation == newest.generation {
            newest.count += 1;
            newest.is_usable &= slice.has_no_faults();
            for device in slice.devices.iter().filter_map(|(_, device)| text(device, "/name")) {
                newest.is_usable &= *newest.first_slices.entry(device).or_insert(name) == name;
            }
        }
    }
    all
}

/// Sort key that puts `gpu-10` after `gpu-9`.
pub(super) fn natural_order_key(name: &str) -> (String, u64, String) {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.strip_prefix(head).and_then(|tail| tail.parse().ok()).unwrap_or(0);
    (head.to_owned(), number, name.to_owned())
}

fn compile_all<'e>(
    expressions: impl IntoIterator<Item = &'e String>,
    functions: &Context<'_>,
) -> Option<Vec<Expression>> {
    expressions.into_iter().map(|text| expression::compile(text, functions).ok()).collect()
}

/// What devices are matched with.
struct DeviceContext<'a> {
    kinds: &'a [CountedKind],
    taint_rules: &'a BTreeMap<Name, TaintRule>,
    functions: &'a Context<'a>,
}

impl DeviceContext<'_> {
    fn slice_device(&self, slice: &SliceRecord, pool_is_whole: bool, device: &Value) -> Device {
        let id = DeviceId {
            driver: Name::clone(&slice.driver),
            pool: Name::clone(&slice.pool),
            device: text(device, "/name").unwrap_or_default().into(),
        };
        let cel = cel_context(&slice.driver, device, self.functions);
        let holds = |one: &Expression| expression::evaluate(one, &cel) == Ok(true);
        let selects = |kind: &&CountedKind| {
            kind.expressions.as_ref().is_some_and(|all| all.iter().all(holds))
        };
        let selecting: Vec<&CountedKind> = self.kinds.iter().filter(selects).collect();
        let classes = selecting.iter().filter(|kind| kind.selection.is_none());
        let classes = classes.map(|kind| Name::clone(&kind.name)).collect();
        let mut taints = DeviceTaint::of_device(device);
        taints.extend(self.taint_rules.values().filter_map(|rule| rule.taint_of(&id)).cloned());
        let capacities = DeviceCapacities::from_object(device);
        let consumed: BTreeMap<Name, DeviceAmounts> = selecting
            .iter()
            .filter_map(|kind| {
                Some((Name::clone(&kind.name), kind.consumed(&taints, &capacities)?))
            })
            .collect();
        let kinds: BTreeSet<Name> = consumed.keys().cloned().collect();
        let unfit = selecting.iter().filter(|kind| !kinds.contains(&kind.name));
        let repelled = unfit.filter(|kind| kind.consumed(&[], &capacities).is_some());
        let repelled_kinds = repelled.map(|kind| Name::clone(&kind.name)).collect();
        let is_shared = at(device, "/allowMultipleAllocations") == Some(&Value::Bool(true));
        let shared = is_shared.then(|| SharedDevice { capacity: capacities.amounts(), consumed });
        let is_gpu = is_gpu_name(&slice.driver) || selecting.iter().any(|kind| kind.is_gpu);
        Device {
            // Shares of a device are not charged as GPUs.
            is_gpu: is_gpu && shared.is_none(),
            pool_is_whole,
            kinds,
            classes,
            attributes: qualified_attributes(&slice.driver, device),
            counters: slice.consumed_counters(device),
            shared,
            is_tainted: !taints.is_empty(),
            repelled_kinds,
            binding: BindingRules::from_object(device),
            id,
        }
    }
}

/// The attributes of a device by fully qualified name. A name without domain belongs to the domain
/// of the driver, unless the qualified name is set as well.
fn qualified_attributes(driver: &str, device: &Value) -> BTreeMap<Name, String> {
    let mut attributes = BTreeMap::new();
    for (name, value) in at(device, "/attributes").and_then(Value::as_object).into_iter().flatten()
    {
        if name.contains('/') {
            attributes.insert(name.as_str().into(), value.to_string());
        } else {
            let name = format!("{driver}/{name}").into();
            attributes.entry(name).or_insert_with(|| value.to_string());
        }
    }
    attributes
}

/// Variable `device`: driver, `allowMultipleAllocations`, `attributes[domain].name` and
/// `capacity[domain].name`.
fn cel_context<'c>(driver: &str, device: &Value, functions: &'c Context<'_>) -> Context<'c> {
    let mut context = functions.new_inner_scope();
    let attributes = values_by_domain(driver, device, "/attributes", |value| {
        let (kind, value) = value.as_object()?.iter().next()?;
        attribute_value(kind, value, functions)
    });
    let capacity = values_by_domain(driver, device, "/capacity", |value| {
        expression::call_on_text("quantity", text(value, "/value")?, functions)
    });
    let is_for_many = at(device, "/allowMultipleAllocations") == Some(&Value::Bool(true));
    let fields = [driver.to_owned().into(), is_for_many.into(), attributes, capacity];
    let device: std::collections::HashMap<String, cel::Value> =
        expression::DEVICE_FIELDS.map(str::to_owned).into_iter().zip(fields).collect();
    context.add_variable_from_value("device", device);
    context
}

fn attribute_value(kind: &str, value: &Value, functions: &Context<'_>) -> Option<cel::Value> {
    match value {
        Value::String(text) if kind == "version" => {
            expression::call_on_text("semver", text, functions)
        }
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(flag) => Some((*flag).into()),
        Value::Number(number) => number.as_i64().map(Into::into),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Attributes or capacity of a device by domain and name. Names without domain belong to the domain
/// of the driver.
fn values_by_domain(
    driver: &str,
    device: &Value,
    pointer: &str,
    read: impl Fn(&Value) -> Option<cel::Value>,
) -> cel::Value {
    let empty = Map::new();
    let entries = at(device, pointer).and_then(Value::as_object).unwrap_or(&empty);
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
    use schedlab_api::json;

    use super::*;

    fn selection(expressions: &[&str]) -> Result<DeviceSelection, Malformed> {
        let selectors: Vec<Value> =
            expressions.iter().map(|one| json!({ "cel": { "expression": one } })).collect();
        let exactly = json!({ "deviceClassName": "gpu.example.com", "selectors": selectors });
        DeviceSelection::parse(&exactly, "spec.devices.requests[0].exactly")
    }

    #[test]
    fn an_invalid_expression_is_reported_with_its_field() {
        let rendered = |expression: &str| {
            let wrong = selection(&["device.driver == 'a'", expression]).unwrap_err();
            wrong.to_string().replace("spec.devices.requests[0].exactly.selectors[1].", "")
        };
        let expected = "cel.expression: got device.(, expected a CEL expression";
        assert_eq!(rendered("device.("), expected);
        let (deep, odd) = ("(".repeat(10 * 1024), "true?1:".repeat(200));
        for odd in ["", "'", "a b", "device..x", "1 +", "\u{0}", &deep, &odd] {
            assert!(rendered(odd).ends_with("expected a CEL expression"), "{odd:?}");
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
            let rendered = rendered(expression);
            assert!(
                rendered.starts_with(&format!("cel.expression: got {name}, expected ")),
                "{rendered}"
            );
        }
    }

    static NO_RULES: BTreeMap<Name, TaintRule> = BTreeMap::new();

    fn sources<'a>(
        slices: &'a BTreeMap<Name, SliceRecord>,
        classes: &'a BTreeMap<Name, DeviceClassRecord>,
    ) -> DeviceSources<'a> {
        DeviceSources { slices, classes, taint_rules: &NO_RULES }
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
        let slices = BTreeMap::from([("s".into(), SliceRecord::from_object(&slice))]);
        let classes =
            BTreeMap::from([("gpu.example.com".into(), DeviceClassRecord::from_object(&class))]);
        let one = selection(&[expression]).unwrap();
        let found = published_devices(sources(&slices, &classes), &[one.clone()].into());
        let taken =
            found.by_node[&Name::from("n")].iter().filter(|is| is.kinds.contains(&one.name()));
        taken.map(|device| device.id.device.to_string()).collect()
    }

    #[test]
    fn versions_compare_as_semver_and_not_as_strings() {
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
    fn a_domain_that_a_device_lacks_is_an_empty_map() {
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
    fn cel_bind_names_a_value() {
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
    fn a_device_belongs_to_the_selections_whose_expressions_all_hold() {
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
        let slices = BTreeMap::from([("s".into(), SliceRecord::from_object(&slice))]);
        let classes =
            BTreeMap::from([("gpu.example.com".into(), DeviceClassRecord::from_object(&class))]);
        let own = "device.attributes['gpu.example.com'].model";
        let memory = "device.capacity['gpu.example.com'].memory";
        let selections: BTreeSet<DeviceSelection> = [
            selection(&[&format!("{own} in ['x', 'y']")]),
            selection(&[&format!("{own} == 'y'"), "device.attributes['other.example.com'].fast"]),
            selection(&[&format!("{memory}.isGreaterThan(quantity('100Gi'))")]),
        ]
        .map(Result::unwrap)
        .into();
        let found = published_devices(sources(&slices, &classes), &selections);
        let found: Vec<Vec<&str>> = found.by_node[&Name::from("n")]
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
