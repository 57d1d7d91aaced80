//! Which fields differ between two states of an object, as sets of paths.

use std::collections::BTreeMap;

use super::fields::{FieldSet, add_child_set, drop_unowned_fields};
use super::shape::{ListShape, MergeShape, item_step};
use schedlab_api::Value;

/// The difference between two states of an object.
#[derive(Debug, Default)]
pub(super) struct FieldDiff {
    /// Fields that were added or changed.
    pub(super) changed: FieldSet,
    /// Fields that were removed.
    pub(super) removed: FieldSet,
}

impl FieldDiff {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }
}

/// Compares two states of an object. `before` is `None` for a new object.
pub(super) fn diff_states(before: Option<&Value>, after: &Value, shape: &MergeShape) -> FieldDiff {
    let mut found = FieldDiff::default();
    compare_below(before, Some(after), shape, &mut found);
    drop_unowned_fields(&mut found.changed);
    drop_unowned_fields(&mut found.removed);
    found
}

/// Two states of a field or item to compare, with the step from the parent to it.
struct Comparison<'v> {
    step: String,
    before: Option<&'v Value>,
    after: Option<&'v Value>,
    shape: &'v MergeShape,
}

fn compare_at_step(comparison: Comparison<'_>, found: &mut FieldDiff) {
    let Comparison { step, before, after, shape } = comparison;
    if before == after {
        return;
    }
    let mut inner = FieldDiff::default();
    let whole = !compare_below(before, after, shape, &mut inner);
    let came = before.is_none() && !is_inline_struct(&step);
    let went = after.is_none();
    add_child_set(
        &mut found.changed,
        step.clone(),
        inner.changed,
        after.is_some() && (whole || came),
    );
    add_child_set(&mut found.removed, step, inner.removed, went);
}

/// Whether a step leads to a struct that Go's API types embed by value. Such a struct exists even
/// if it is empty, and no manager owns it as such.
fn is_inline_struct(step: &str) -> bool {
    matches!(step, "f:metadata" | "f:spec" | "f:status" | "f:template" | "f:strategy")
}

/// Compares the children of two values. Returns `false` if the values can only change as a whole.
fn compare_below(
    before: Option<&Value>,
    after: Option<&Value>,
    shape: &MergeShape,
    found: &mut FieldDiff,
) -> bool {
    match (before, after) {
        (Some(Value::Object(_)) | None, Some(Value::Object(_)))
        | (Some(Value::Object(_)), None)
            if !shape.atomic =>
        {
            compare_fields(before, after, shape, found);
            true
        }
        (Some(Value::Array(_)) | None, Some(Value::Array(_))) | (Some(Value::Array(_)), None)
            if shape.list != ListShape::Atomic =>
        {
            compare_items(before, after, shape, found)
        }
        _ => false,
    }
}

fn compare_fields(
    before: Option<&Value>,
    after: Option<&Value>,
    shape: &MergeShape,
    found: &mut FieldDiff,
) {
    let before = before.and_then(Value::as_object);
    let after = after.and_then(Value::as_object);
    for (name, value) in after.into_iter().flatten() {
        let earlier = before.and_then(|before| before.get(name));
        let step = format!("f:{name}");
        compare_at_step(
            Comparison {
                step,
                before: earlier,
                after: Some(value),
                shape: shape.field_shape(name),
            },
            found,
        );
    }
    for (name, value) in before.into_iter().flatten() {
        if after.is_none_or(|after| !after.contains_key(name)) {
            let step = format!("f:{name}");
            compare_at_step(
                Comparison {
                    step,
                    before: Some(value),
                    after: None,
                    shape: shape.field_shape(name),
                },
                found,
            );
        }
    }
}

/// Compares the items of two lists by key. Returns `false` if an item of either list has no key, or
/// two items have the same key.
fn compare_items(
    before: Option<&Value>,
    after: Option<&Value>,
    shape: &MergeShape,
    found: &mut FieldDiff,
) -> bool {
    let (Some(mut earlier), Some(later)) =
        (items_by_step(before, shape), items_by_step(after, shape))
    else {
        return false;
    };
    for (step, item) in later {
        let before = earlier.remove(&step);
        compare_at_step(
            Comparison { step, before, after: Some(item), shape: shape.item_shape() },
            found,
        );
    }
    for (step, item) in earlier {
        compare_at_step(
            Comparison { step, before: Some(item), after: None, shape: shape.item_shape() },
            found,
        );
    }
    true
}

fn items_by_step<'v>(
    list: Option<&'v Value>,
    shape: &MergeShape,
) -> Option<BTreeMap<String, &'v Value>> {
    let mut items = BTreeMap::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if items.insert(item_step(&shape.list, item)?, item).is_some() {
            return None;
        }
    }
    Some(items)
}
