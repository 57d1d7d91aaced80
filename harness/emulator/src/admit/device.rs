//! Devices: classes of them, what nodes offer in slices, and claims on them. Here is what these
//! have in common.

mod claim;
mod class;
mod slice;
mod status;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::Admission;
use crate::error::FieldErrors;
use crate::expression::{self, Kind, Scope};
use crate::names;
use crate::object::{list, text};
use schedlab_json::Value;

pub(super) use status::check as check_status;

const DRIVER_MAX: usize = 63;
const IDENTIFIER_MAX: usize = 32;
const POOL_MAX: usize = 253;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const PARAMETER_BYTES_MAX: usize = 10 * 1024;
/// How many selectors, requests, constraints or configurations one list may have.
const ITEMS_MAX: usize = 32;

pub(super) fn check(
    admission: &Admission<'_>,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    match &*admission.kind.kind {
        "DeviceClass" => class::check(new, errors),
        "ResourceClaim" => claim::check(admission, (old, new), errors),
        "ResourceClaimTemplate" => claim::check_template(admission, (old, new), errors),
        "ResourceSlice" => slice::check(old, new, errors),
        _ => {}
    }
}

/// The list at `field` of `owner`, which stands at `place`; one that is too long is refused whole.
fn bounded<'v>(
    owner: &'v Value,
    (place, field): (&str, &str),
    most: usize,
    errors: &mut FieldErrors,
) -> impl Iterator<Item = (String, &'v Value)> + use<'v> {
    let all = list(owner, &[field]);
    let place = format!("{place}.{field}");
    if all.len() > most {
        errors.too_many(&*place, all.len(), most);
    }
    let looked_at = if all.len() > most { &[] } else { all };
    looked_at.iter().enumerate().map(move |(index, item)| (format!("{place}[{index}]"), item))
}

/// Something that is looked at again where it stands in a list: its name is there once.
fn check_once<'v>(
    name: &'v str,
    (field, seen): (&str, &mut BTreeSet<&'v str>),
    errors: &mut FieldErrors,
) {
    if !seen.insert(name) {
        errors.duplicate(field, &name.into());
    }
}

fn check_label(name: &str, field: &str, errors: &mut FieldErrors) {
    if let Some(rule) = names::dns_label(name) {
        errors.invalid(field, &name.into(), &rule);
    }
}

/// A driver's name is a domain, in letters of any size.
fn check_driver(driver: &str, field: &str, errors: &mut FieldErrors) {
    if driver.is_empty() {
        return errors.required(field, "");
    }
    check_domain(driver, field, errors);
}

fn check_domain(domain: &str, field: &str, errors: &mut FieldErrors) {
    if domain.len() > DRIVER_MAX {
        errors.too_long(field, DRIVER_MAX);
    }
    if let Some(rule) = names::dns_subdomain(&domain.to_lowercase()) {
        errors.invalid(field, &domain.into(), &rule);
    }
}

/// A pool's name is domains with slashes between them.
fn check_pool(pool: &str, field: &str, errors: &mut FieldErrors) {
    if pool.is_empty() {
        return errors.required(field, "");
    }
    if pool.len() > POOL_MAX {
        errors.too_long(field, POOL_MAX);
    }
    for part in pool.split('/') {
        if let Some(rule) = names::dns_subdomain(part) {
            errors.invalid(field, &part.into(), &rule);
        }
    }
}

/// The name of an attribute or a capacity, with its domain or without.
fn check_qualified(name: &str, field: &str, errors: &mut FieldErrors) {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [name] => check_identifier(name, field, errors),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid(field, &"".into(), "the domain must not be empty");
            } else {
                check_domain(domain, field, errors);
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
    if name.len() > IDENTIFIER_MAX {
        errors.too_long(field, IDENTIFIER_MAX);
    }
    if let Some(rule) = names::c_identifier(name) {
        errors.invalid(field, &name.into(), rule);
    }
}

/// What the devices must be like that a class or a request is about.
fn check_selectors(owner: &Value, place: &str, errors: &mut FieldErrors) {
    for (place, selector) in bounded(owner, (place, "selectors"), ITEMS_MAX, errors) {
        if selector["cel"].is_null() {
            errors.required(format!("{place}.cel"), "");
            continue;
        }
        check_expression(
            text(selector, &["cel", "expression"]),
            &format!("{place}.cel.expression"),
            errors,
        );
    }
}

/// What is said of a device holds for it, or does not.
fn check_expression(expression: &str, place: &str, errors: &mut FieldErrors) {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return errors.too_long(place, EXPRESSION_BYTES_MAX);
    }
    match expression::check(expression, &DEVICE) {
        Err(why) => {
            errors.invalid(place, &expression.into(), &format!("compilation failed: {why}"));
        }
        Ok(kind) if !kind.fits(&Kind::Bool) => {
            let name = if kind == Kind::Null { "null_type".to_owned() } else { kind.to_string() };
            let rule = format!("must evaluate to bool or the unknown type, not {name}");
            errors.invalid(place, &expression.into(), &rule);
        }
        Ok(_) => {}
    }
}

/// What selectors speak of.
static DEVICE: LazyLock<Scope> = LazyLock::new(|| {
    let quantity = Kind::Named("kubernetes.Quantity");
    let fields = [
        ("driver".to_owned(), Kind::Text),
        ("attributes".to_owned(), Kind::map(Kind::map(Kind::Any))),
        ("capacity".to_owned(), Kind::map(Kind::map(quantity))),
    ];
    let device = Kind::object("kubernetes.DRADevice", fields);
    Scope { variables: vec![("device".to_owned(), device)], binds: true }
});

/// What a driver is told, in its own words.
fn check_opaque(configuration: &Value, place: &str, errors: &mut FieldErrors) {
    let opaque = &configuration["opaque"];
    let place = format!("{place}.opaque");
    if opaque.is_null() {
        return errors.required(place, "");
    }
    check_driver(text(opaque, &["driver"]), &format!("{place}.driver"), errors);
    let parameters = &opaque["parameters"];
    let place = format!("{place}.parameters");
    if parameters.is_null() {
        errors.required(place, "");
    } else if parameters.to_string().len() > PARAMETER_BYTES_MAX {
        errors.too_long(place, PARAMETER_BYTES_MAX);
    } else if !parameters.is_object() {
        errors.invalid(place, &"<value omitted>".into(), "must be a valid JSON object");
    }
}
