//! Declarative validation: the checks that the API server generates from the tags of its Go types.
//! The checks of each type are in `declarative/rules.txt`.
//!
//! Left out: checks in state alpha, which the API server does not enforce.

mod format;
mod rules;

use std::borrow::Cow;

use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::go_field_name;
use format::{Format, Violation};
use rules::{ContentCheck, FieldRules, Guard, Keys, TypeCheck, TypeRules, Unset, type_rules};
use schedlab_api::{Value, object::list};

/// The context of a declarative validation.
pub(super) struct DeclarativeValidation<'v> {
    /// Whether a feature gate is enabled.
    pub(super) is_enabled: &'v dyn Fn(&str) -> bool,
    /// Whether the request updates an object; otherwise it creates one.
    pub(super) is_update: bool,
}

impl DeclarativeValidation<'_> {
    /// Checks the value of a type at `path`, against its previous value in an update.
    pub(super) fn check(
        &self,
        type_name: &str,
        path: &str,
        old: Option<&Value>,
        new: &Value,
        errors: &mut FieldErrors,
    ) {
        let rules = type_rules(type_name);
        for check in &rules.checks {
            match check {
                TypeCheck::Union(members) => self.check_union(members, path, old, new, errors),
                TypeCheck::Enum(allowed) => check_enum(allowed, path, new, errors),
            }
        }
        for field in &rules.fields {
            if field.name == "-" {
                self.check_field(field, path, old, new, errors);
                continue;
            }
            let path = if path.is_empty() {
                field.name.to_owned()
            } else {
                format!("{path}.{}", field.name)
            };
            let old = old.map(|old| &old[field.name]);
            self.check_field(field, &path, old, &new[field.name], errors);
        }
    }

    fn check_field(
        &self,
        rules: &FieldRules,
        path: &str,
        old: Option<&Value>,
        new: &Value,
        errors: &mut FieldErrors,
    ) {
        if self.is_update && old.is_some_and(|old| is_unchanged(old, new)) {
            return;
        }
        let mut is_stopped = false;
        for guard in &rules.guards {
            is_stopped |= self.check_guard(guard, path, old, new, errors);
        }
        if is_stopped {
            return;
        }
        for check in &rules.checks {
            self.check_content(check, path, old, new, errors);
        }
    }

    /// Returns whether the guard stops the other checks of its field.
    fn check_guard(
        &self,
        guard: &Guard,
        path: &str,
        old: Option<&Value>,
        new: &Value,
        errors: &mut FieldErrors,
    ) -> bool {
        let before = errors.causes().len();
        let was_set = old.is_some_and(|old| !old.is_null());
        let mut refuse_change = |is_refused: bool, rule: &str| {
            if is_refused && self.is_update {
                errors.invalid(path, &Value::Null, rule);
            }
        };
        match guard {
            Guard::Optional(unset) => return unset.matches(new),
            Guard::Required(unset) => {
                if unset.matches(new) {
                    errors.required(path, "");
                }
            }
            Guard::Gated(gate) => {
                if !Unset::NoItems.matches(new) && !(self.is_enabled)(gate) {
                    errors.forbidden(path, "");
                }
            }
            Guard::Immutable => refuse_change(true, "field is immutable"),
            Guard::ImmutableIf(gate) => {
                refuse_change((self.is_enabled)(gate), "field is immutable");
            }
            Guard::NoSet => {
                refuse_change(!was_set && !new.is_null(), "field cannot be set once created");
            }
            Guard::NoUnset => {
                refuse_change(was_set && new.is_null(), "field cannot be cleared once set");
            }
            Guard::NoModify => {
                refuse_change(was_set && !new.is_null(), "field cannot be modified once set");
            }
            Guard::NoAdd(keys) => {
                for index in unmatched_items(new, old, keys).filter(|_| self.is_update) {
                    errors.forbidden(format!("{path}[{index}]"), "item may not be added");
                }
            }
            Guard::NoRemove(keys) => {
                let before = old.unwrap_or(&Value::Null);
                for _ in unmatched_items(before, Some(new), keys).filter(|_| self.is_update) {
                    errors.forbidden(path, "item may not be removed");
                }
            }
            Guard::MaxItems(most) => {
                let found = list(new, &[]).len();
                if found > *most {
                    errors.too_many(path, found, *most);
                }
            }
        }
        errors.causes().len() > before
    }

    /// Runs a check of the content of a set field.
    fn check_content(
        &self,
        check: &ContentCheck,
        path: &str,
        old: Option<&Value>,
        new: &Value,
        errors: &mut FieldErrors,
    ) {
        match check {
            ContentCheck::Minimum(least) => {
                if new.as_i64().is_some_and(|number| number < *least) {
                    let rule = format!("must be greater than or equal to {least}");
                    errors.invalid(path, new, &rule);
                }
            }
            ContentCheck::Maximum(most) => {
                if new.as_i64().is_some_and(|number| number > *most) {
                    let rule = format!("must be less than or equal to {most}");
                    errors.invalid(path, new, &rule);
                }
            }
            ContentCheck::MaxCharacters(most) => {
                if new.as_str().is_some_and(|text| text.chars().count() > *most) {
                    errors.too_long_in_characters(path, *most);
                }
            }
            ContentCheck::MaxBytes(most) => {
                if new.as_str().is_some_and(|text| text.len() > *most) {
                    errors.too_long(path, *most);
                }
            }
            ContentCheck::Format(format) => {
                check_format(*format, new.as_str().unwrap_or_default(), path, errors);
            }
            ContentCheck::EachFormat(format) => {
                for (index, item) in list(new, &[]).iter().enumerate() {
                    let text = item.as_str().unwrap_or_default();
                    check_format(*format, text, &format!("{path}[{index}]"), errors);
                }
            }
            ContentCheck::EachKey(format) => {
                let is_new =
                    |key: &str| !self.is_update || old.is_none_or(|old| old[key].is_null());
                let keys = new.as_object().into_iter().flatten().map(|(key, _)| &**key);
                keys.filter(|key| is_new(key))
                    .for_each(|key| check_format(*format, key, path, errors));
            }
            ContentCheck::EachValue(type_name) => {
                for (key, value) in new.as_object().into_iter().flatten() {
                    let old = old.map(|old| &old[&**key]).filter(|old| !old.is_null());
                    self.check_if_changed(type_name, &format!("{path}[{key}]"), old, value, errors);
                }
            }
            ContentCheck::Unique(keys, type_name) => {
                check_unique(keys, type_name, path, new, errors);
            }
            ContentCheck::Each(keys, type_name) => {
                for (index, item) in list(new, &[]).iter().enumerate() {
                    let old = keys.as_ref().and_then(|keys| matching_item(old?, item, keys));
                    let path = format!("{path}[{index}]");
                    self.check_if_changed(type_name, &path, old, item, errors);
                }
            }
            ContentCheck::Nested(type_name) => {
                // The old value of an unset pointer is no old value.
                let old = old.filter(|old| !old.is_null());
                self.check(type_name, path, old, new, errors);
            }
        }
    }

    /// Checks a value of a map or an item of a list, unless an update leaves it as it is.
    fn check_if_changed(
        &self,
        type_name: &str,
        path: &str,
        old: Option<&Value>,
        new: &Value,
        errors: &mut FieldErrors,
    ) {
        if !self.is_update || !old.is_some_and(|old| is_unchanged(old, new)) {
            self.check(type_name, path, old, new, errors);
        }
    }

    /// Checks that exactly one member of a union is set.
    fn check_union(
        &self,
        members: &[&str],
        path: &str,
        old: Option<&Value>,
        new: &Value,
        errors: &mut FieldErrors,
    ) {
        let is_set = |value: &Value, member: &str| !Unset::NoItems.matches(&value[member]);
        if self.is_update
            && let Some(old) = old
            && members.iter().all(|member| is_set(old, member) == is_set(new, member))
        {
            return;
        }
        let set: Vec<&str> = members.iter().copied().filter(|name| is_set(new, name)).collect();
        let all: Vec<String> = members.iter().map(|name| format!("`{name}`")).collect();
        let all = all.join(", ");
        match set.as_slice() {
            [] => errors.invalid(path, &"".into(), &format!("must specify one of: {all}")),
            [_] => {}
            several => {
                let shown = format!("{{{}}}", several.join(", "));
                let rule = format!("must specify exactly one of: {all}");
                errors.invalid(path, &shown.into(), &rule);
            }
        }
    }
}

fn check_format(format: Format, text: &str, path: &str, errors: &mut FieldErrors) {
    for violation in format.violations(text) {
        match violation {
            Violation::Invalid(rule) => errors.invalid(path, &text.into(), &rule),
            Violation::InvalidPart(part, rule) => errors.invalid(path, &part.into(), &rule),
            Violation::TooLong(most) => errors.too_long(path, most),
        }
    }
}

fn check_enum(allowed: &[&str], path: &str, value: &Value, errors: &mut FieldErrors) {
    if !value.as_str().is_some_and(|text| allowed.contains(&text)) {
        errors.unsupported(path, value, allowed);
    }
}

/// Reports every item whose keys are those of an earlier item.
fn check_unique(keys: &Keys, type_name: &str, path: &str, items: &Value, errors: &mut FieldErrors) {
    let items = list(items, &[]);
    for (index, item) in items.iter().enumerate() {
        if items[..index].iter().any(|other| keys.are_equal(other, item)) {
            let rules = type_rules(type_name);
            let shown = if has_only_ruled_fields(item, rules) {
                go_json(item, rules)
            } else {
                super::device::json_in_declared_order(item)
            };
            errors.duplicate_as_shown(format!("{path}[{index}]"), &shown);
        }
    }
}

/// Whether the rules of a type name all fields of its value.
fn has_only_ruled_fields(value: &Value, rules: &TypeRules) -> bool {
    let is_ruled = |name: &str| rules.fields.iter().any(|field| field.name == name);
    value.as_object().is_none_or(|fields| fields.keys().all(|name| is_ruled(name)))
}

/// The indexes of the items of a list that have no item with the same keys in `others`.
fn unmatched_items<'v>(
    items: &'v Value,
    others: Option<&'v Value>,
    keys: &'v Keys,
) -> impl Iterator<Item = usize> {
    let others = others.unwrap_or(&Value::Null);
    let items = list(items, &[]).iter().enumerate();
    items
        .filter(move |(_, item)| matching_item(others, item, keys).is_none())
        .map(|(index, _)| index)
}

fn matching_item<'v>(items: &'v Value, wanted: &Value, keys: &Keys) -> Option<&'v Value> {
    list(items, &[]).iter().find(|item| keys.are_equal(item, wanted))
}

/// Whether two values are equal; an empty list or text equals an absent one.
fn is_unchanged(old: &Value, new: &Value) -> bool {
    let is_nothing = |value: &Value| {
        value.as_array().map_or_else(|| value.is_null() || *value == "", Vec::is_empty)
    };
    old == new || (is_nothing(old) && is_nothing(new))
}

/// The JSON of a Go struct: its fields in their order, without unset ones.
fn go_json(value: &Value, rules: &TypeRules) -> String {
    if !value.is_object() || rules.fields.is_empty() {
        return value.to_string();
    }
    let shown = rules.fields.iter().filter_map(|field| {
        let found = &value[field.name];
        if Unset::NoItems.matches(found) {
            return field.is_always_written.then(|| format!("\"{}\":null", field.name));
        }
        let text: Cow<'_, str> = match field.nested_type() {
            Some((type_name, true)) => {
                let items: Vec<String> = list(found, &[])
                    .iter()
                    .map(|item| go_json(item, type_rules(type_name)))
                    .collect();
                format!("[{}]", items.join(",")).into()
            }
            Some((type_name, false)) => go_json(found, type_rules(type_name)).into(),
            None => found.to_string().into(),
        };
        Some(format!("\"{}\":{text}", field.name))
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

/// The JSON of a value, or of the items of a list, as an internal Go type without JSON tags: all
/// fields, under their Go names.
pub(super) fn internal_json(value: &Value, type_name: &str) -> String {
    if let Some(items) = value.as_array() {
        let items: Vec<String> = items.iter().map(|item| internal_json(item, type_name)).collect();
        return format!("[{}]", items.join(","));
    }
    let rules = type_rules(type_name);
    let shown = rules.fields.iter().map(|field| {
        let found = &value[field.name];
        let is_text = field.guards.iter().any(|guard| {
            matches!(guard, Guard::Required(Unset::Zero) | Guard::Optional(Unset::Zero))
        });
        let text = match field.nested_type() {
            Some((nested, _)) if !found.is_null() || field.guards.is_empty() => {
                internal_json(found, nested)
            }
            _ if found.is_null() && is_text => "\"\"".to_owned(),
            _ => found.to_string(),
        };
        format!("\"{}\":{text}", go_field_name(field.name))
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}
