//! Validation of the kinds of dynamic resource allocation (DRA): shared checks, and the choice of
//! the module for each kind.

mod capacity;
mod claim;
mod class;
mod device_features;
mod slice;
mod status;
mod taint_rule;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use super::Admission;
use super::declarative::DeclarativeValidation;
use super::defaults::pod_template::list_items_mut;
use crate::api_types::error::FieldErrors;
use crate::api_types::expression::{
    self, CelType, DeclaredSize, EXPRESSION_COST_MAX, EstimateScope, TypeScope, estimate_cost,
};
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{fill_text, list, text},
};

pub(super) use taint_rule::fill_times as fill_taint_times;

const DRIVER_NAME_LENGTH_MAX: usize = 63;
const IDENTIFIER_LENGTH_MAX: usize = 32;
const POOL_NAME_LENGTH_MAX: usize = 253;
const ATTRIBUTE_VALUE_LENGTH_MAX: usize = 64;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETER_BYTES_MAX: usize = 10 * 1024;
/// The maximum number of selectors, requests, constraints or configurations in a list.
const ITEMS_MAX: usize = 32;

pub(super) fn check_device_object(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    match &*admission.kind.kind {
        "DeviceClass" => class::check_device_class(new, errors),
        "ResourceClaim" => claim::check_claim(admission, old, new, errors),
        "ResourceClaimTemplate" => claim::check_claim_template(admission, old, new, errors),
        "ResourceSlice" => slice::check_slice(old, new, errors),
        "DeviceTaintRule" => taint_rule::check(new, errors),
        _ => {}
    }
    check_declaratively(admission, old, new, errors);
}

/// Sets the defaults of the new status of a resource claim.
pub(super) fn set_claim_status_defaults(admission: &Admission<'_>, claim: &mut Value) {
    if !admission.kind.is("resource.k8s.io", "ResourceClaim") {
        return;
    }
    let devices = claim.pointer_mut("/status/allocation/devices");
    for result in devices.into_iter().flat_map(|devices| list_items_mut(devices, "results")) {
        for toleration in list_items_mut(result, "tolerations") {
            fill_text(toleration, &["operator"], "Equal");
        }
    }
}

/// Checks the new status of a resource claim or a `DeviceTaintRule`.
pub(super) fn check_status(
    admission: &Admission<'_>,
    old: &Value,
    new: &Value,
    errors: &mut FieldErrors,
) {
    if &*admission.kind.kind == "DeviceTaintRule" {
        taint_rule::check_status(new, errors);
    } else {
        status::check_claim_status(admission, old, new, errors);
    }
    check_declaratively(admission, Some(old), new, errors);
}

/// Adds the errors of declarative validation, which replace those that the other checks find too.
fn check_declaratively(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    if !admission.store.is_enabled("DeclarativeValidationBeta") {
        return;
    }
    let is_enabled = |gate: &str| admission.store.is_enabled(gate);
    let validation = DeclarativeValidation { is_enabled: &is_enabled, is_update: old.is_some() };
    let mut found = FieldErrors::new();
    validation.check(&admission.kind.kind, "", old, new, &mut found);
    errors.replace_with(found);
}

/// The items of the list `field` of the object at `path`, with their paths. A list with more than
/// `most` items is reported as an error and yields no items.
fn items_up_to_limit<'v>(
    owner: &'v Value,
    path: &str,
    field: &str,
    most: usize,
    errors: &mut FieldErrors,
) -> impl Iterator<Item = (String, &'v Value)> + use<'v> {
    let all = list(owner, &[field]);
    let path = format!("{path}.{field}");
    if all.len() > most {
        errors.too_many(&*path, all.len(), most);
    }
    let looked_at = if all.len() > most { &[] } else { all };
    looked_at.iter().enumerate().map(move |(index, item)| (format!("{path}[{index}]"), item))
}

/// Checks that `name`, which identifies `item`, occurs only once.
fn check_unique_item<'v>(
    name: &'v str,
    item: &Value,
    field: &str,
    seen: &mut BTreeSet<&'v str>,
    errors: &mut FieldErrors,
) {
    if !seen.insert(name) {
        errors.duplicate_as_shown(field, &json_in_declared_order(item));
    }
}

/// The fields of the items that are reported whole, in the order of their types.
const DECLARED_ORDER: [&str; 15] = [
    "apiGroup",
    "resource",
    "name",
    "uid",
    "exactly",
    "firstAvailable",
    "counterSet",
    "counters",
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
];

/// The JSON of a value whose fields have the order of their type, as Go writes it.
pub(super) fn json_in_declared_order(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let place = |name: &str| {
                let place = DECLARED_ORDER.iter().position(|known| *known == name);
                place.unwrap_or(DECLARED_ORDER.len())
            };
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| place(name));
            let shown: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("\"{name}\":{}", json_in_declared_order(value)))
                .collect();
            format!("{{{}}}", shown.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(json_in_declared_order).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// Checks that `name` occurs only once.
fn check_unique<'v>(
    name: &'v str,
    field: &str,
    seen: &mut BTreeSet<&'v str>,
    errors: &mut FieldErrors,
) {
    if !seen.insert(name) {
        errors.duplicate(field, &name.into());
    }
}

fn check_dns_label(name: &str, field: &str, errors: &mut FieldErrors) {
    if let Some(rule) = names::dns_label_violation(name) {
        errors.invalid(field, &name.into(), &rule);
    }
}

/// Checks a driver name like [`check_driver`], with the texts for slices.
fn check_plain_driver(driver: &str, field: &str, errors: &mut FieldErrors) {
    if driver.is_empty() {
        return errors.required(field, "");
    }
    check_driver_domain(driver, field, errors);
}

/// Checks a driver name: a DNS subdomain, case-insensitive.
fn check_driver(driver: &str, field: &str, errors: &mut FieldErrors) {
    if driver.is_empty() {
        return errors.required(field, "");
    }
    if driver.len() > DRIVER_NAME_LENGTH_MAX {
        errors.too_long_in_characters(field, DRIVER_NAME_LENGTH_MAX);
    }
    if names::dns_subdomain_violation(&driver.to_lowercase()).is_some() {
        errors.invalid(field, &driver.into(), names::CASELESS_SUBDOMAIN_RULE);
    }
}

fn check_driver_domain(domain: &str, field: &str, errors: &mut FieldErrors) {
    if domain.len() > DRIVER_NAME_LENGTH_MAX {
        errors.too_long(field, DRIVER_NAME_LENGTH_MAX);
    }
    if let Some(rule) = names::dns_subdomain_violation(&domain.to_lowercase()) {
        errors.invalid(field, &domain.into(), &rule);
    }
}

/// Checks a pool name: DNS subdomains separated by slashes.
fn check_pool(pool: &str, field: &str, errors: &mut FieldErrors) {
    if pool.is_empty() {
        return errors.required(field, "");
    }
    if pool.len() > POOL_NAME_LENGTH_MAX {
        errors.too_long(field, POOL_NAME_LENGTH_MAX);
    }
    for part in pool.split('/') {
        if let Some(rule) = names::dns_subdomain_violation(part) {
            errors.invalid(field, &part.into(), &rule);
        }
    }
}

/// Checks an attribute name with a domain, as a constraint names it.
fn check_fully_qualified_name(name: &str, field: &str, errors: &mut FieldErrors) {
    if let [prefix, own] = name.split('/').collect::<Vec<_>>().as_slice() {
        if prefix.is_empty() {
            errors.invalid(field, &"".into(), "prefix must not be empty");
        } else {
            if prefix.len() > DRIVER_NAME_LENGTH_MAX {
                errors.too_long(field, DRIVER_NAME_LENGTH_MAX);
            }
            if let Some(rule) = names::dns_subdomain_violation(prefix) {
                errors.invalid(field, &(*prefix).into(), &format!("prefix: {rule}"));
            }
        }
        if own.is_empty() {
            errors.invalid(field, &"".into(), "name must not be empty");
        } else {
            check_identifier(own, field, errors);
        }
    } else if !name.contains('/') {
        check_identifier(name, field, errors);
        let rule = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(field, &name.into(), rule);
    }
}

/// Checks the name of a device attribute or capacity: `name` or `domain/name`.
fn check_qualified_name(name: &str, field: &str, errors: &mut FieldErrors) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [name] => check_identifier(name, field, errors),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid(field, &"".into(), "the domain must not be empty");
            } else {
                check_driver_domain(domain, field, errors);
            }
            if name.is_empty() {
                errors.invalid(field, &"".into(), "the name must not be empty");
            } else {
                check_identifier(name, field, errors);
            }
        }
        _ => {}
    }
}

fn check_identifier(name: &str, field: &str, errors: &mut FieldErrors) {
    if name.len() > IDENTIFIER_LENGTH_MAX {
        errors.too_long(field, IDENTIFIER_LENGTH_MAX);
    }
    if let Some(rule) = names::c_identifier_violation(name) {
        errors.invalid(field, &name.into(), rule);
    }
}

/// Checks the CEL selectors of a device class or a device request.
fn check_selectors(owner: &Value, path: &str, errors: &mut FieldErrors) {
    for (path, selector) in items_up_to_limit(owner, path, "selectors", ITEMS_MAX, errors) {
        if selector["cel"].is_null() {
            errors.required(format!("{path}.cel"), "");
            continue;
        }
        check_selector_expression(
            text(selector, &["cel", "expression"]),
            &format!("{path}.cel.expression"),
            errors,
        );
    }
}

/// Checks a device selector: it must compile and return a bool.
fn check_selector_expression(expression: &str, path: &str, errors: &mut FieldErrors) {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return errors.too_long(path, EXPRESSION_BYTES_MAX);
    }
    match expression::check_type(expression, &DEVICE_SCOPE) {
        Err(why) => {
            errors.invalid(path, &expression.into(), &format!("compilation failed: {why}"));
        }
        Ok(kind) if !kind.is_assignable_to(&CelType::Bool) => {
            let name =
                if kind == CelType::Null { "null_type".to_owned() } else { kind.to_string() };
            let rule = format!("must evaluate to bool or the unknown type, not {name}");
            errors.invalid(path, &expression.into(), &rule);
        }
        Ok(_) if estimate_cost(expression, &DEVICE_ESTIMATE_SCOPE) > EXPRESSION_COST_MAX => {
            errors.forbidden(path, "too complex, exceeds cost limit");
        }
        Ok(_) => {}
    }
}

/// The variables of a device selector and their maximum sizes, to estimate the cost of a selector.
static DEVICE_ESTIMATE_SCOPE: LazyLock<EstimateScope> = LazyLock::new(|| {
    let scalar = |size: usize| Arc::new(DeclaredSize::scalar(size as u64, 0));
    let map = |key: usize, element: Arc<DeclaredSize>| {
        let key = Some(scalar(key));
        let elements_max = ITEMS_MAX as u64;
        Arc::new(DeclaredSize {
            elements_max,
            key,
            element: Some(element),
            ..DeclaredSize::default()
        })
    };
    let attribute = scalar(ATTRIBUTE_VALUE_LENGTH_MAX);
    let attributes = map(IDENTIFIER_LENGTH_MAX, Arc::clone(&attribute));
    let attributes = DeclaredSize { other_field: Some(attribute), ..(*attributes).clone() };
    let fields = [
        ("driver".to_owned(), scalar(DRIVER_NAME_LENGTH_MAX)),
        ("attributes".to_owned(), map(DRIVER_NAME_LENGTH_MAX, Arc::new(attributes))),
        ("capacity".to_owned(), map(DRIVER_NAME_LENGTH_MAX, map(IDENTIFIER_LENGTH_MAX, scalar(0)))),
    ];
    let size = DeclaredSize { fields: fields.into(), ..DeclaredSize::default() };
    let (variables, size) = (DEVICE_SCOPE.variables.clone(), Arc::new(size));
    EstimateScope { variables, size, size_of_others: None }
});

/// The variables of a device selector and their types: `device` only.
static DEVICE_SCOPE: LazyLock<TypeScope> = LazyLock::new(|| {
    let quantity = CelType::Opaque("kubernetes.Quantity");
    let fields = [
        ("driver".to_owned(), CelType::Text),
        ("attributes".to_owned(), CelType::map(CelType::map(CelType::Any))),
        ("capacity".to_owned(), CelType::map(CelType::map(quantity))),
    ];
    let device = CelType::object("kubernetes.DRADevice", fields);
    TypeScope { variables: vec![("device".to_owned(), device)], allows_bind: true }
});

/// Checks `opaque` of a device configuration: the driver's name and the driver's parameters.
fn check_opaque_configuration(configuration: &Value, path: &str, errors: &mut FieldErrors) {
    let opaque = &configuration["opaque"];
    let path = format!("{path}.opaque");
    if opaque.is_null() {
        return errors.required(path, "");
    }
    check_driver(text(opaque, &["driver"]), &format!("{path}.driver"), errors);
    let parameters = &opaque["parameters"];
    let path = format!("{path}.parameters");
    if parameters.is_null() {
        errors.required(path, "");
    } else if parameters.to_string().len() > PARAMETER_BYTES_MAX {
        errors.too_long(path, PARAMETER_BYTES_MAX);
    } else if !parameters.is_object() {
        errors.invalid(path, &"<value omitted>".into(), "must be a valid JSON object");
    }
}
