//! Computation of resource quotas: the objects that a quota counts, their usage, and the error for
//! an object that exceeds the quota.
//!
//! Pure functions, used by write requests and by the quota controller. Left out: the scopes
//! `VolumeAttributesClass` and `CrossNamespacePodAffinity`.

mod scope;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::api_types::kinds::typed;
use crate::api_types::resource::Resource;
use schedlab_api::{
    Map, Value,
    object::{self, list, map},
    quantity::{Milli, thousandths},
};

pub(crate) use usage::{has_released_resources, release_time};
use usage::{is_counted_as, object_usage};

/// An amount in thousandths, and whether it is written in binary units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    milli: Milli,
    binary: bool,
}

/// Amounts by quota resource name.
type Amounts = BTreeMap<String, Amount>;

/// An object whose usage of a quota is computed, and the time of the computation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedObject<'o> {
    /// The resource of the object.
    pub(crate) resource: &'o Resource,
    /// The object as JSON.
    pub(crate) object: &'o Value,
    /// The time at which usage is computed; a pod that is being deleted may stop counting.
    pub(crate) now: Timestamp,
}

/// Whether any hard limit of the quota counts objects of the item's resource.
pub(crate) fn does_quota_count(quota: &Value, item: CountedObject<'_>) -> bool {
    hard_limits(quota).keys().any(|name| is_counted_as(item.resource, name))
        && scope::is_in_scope(quota, item)
}

/// The resources (such as `pods`) whose objects the quota counts.
pub(crate) fn counted_resources(quota: &Value) -> BTreeSet<Resource> {
    hard_limits(quota).keys().filter_map(|name| usage::counted_resource(name)).collect()
}

/// The status of a quota after counting `items` anew.
pub(crate) fn counted_quota_status<'o>(
    quota: &Value,
    items: impl Iterator<Item = CountedObject<'o>>,
) -> Value {
    let bounds = hard_limits(quota);
    let known = bounds.keys().filter(|name| usage::counted_resource(name).is_some());
    let mut used: Amounts = known.map(|name| (name.clone(), Amount::default())).collect();
    for item in items.filter(|item| does_quota_count(quota, *item)) {
        for (name, more) in object_usage(item) {
            if let Some(sum) = used.get_mut(&name) {
                *sum = add_amounts(*sum, more);
            }
        }
    }
    quota_status(&bounds, &used)
}

/// The status of a quota after it admitted an object, or the growth of an object since `before`.
///
/// # Errors
///
/// The API server's message if the object exceeds the quota.
pub(crate) fn charged_quota_status(
    quota: &Value,
    item: CountedObject<'_>,
    before: Option<CountedObject<'_>>,
) -> Result<Value, String> {
    let name = object::name(quota);
    let bounds = hard_limits(quota);
    let had = before.map(object_usage).unwrap_or_default();
    if let Some(missing) = usage::missing_container_amounts(item, &bounds) {
        return Err(format!("failed quota: {name}: must specify {missing}"));
    }
    let mut used = amounts_at(quota, &["status", "used"]);
    let counted = bounds.keys().filter(|name| is_counted_as(item.resource, name));
    let unknown: Vec<&str> =
        counted.filter(|name| !used.contains_key(*name)).map(String::as_str).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        return Err(format!("status unknown for quota: {name}, resources: {unknown}"));
    }
    let (mut requested, mut already, mut most) = (Amounts::new(), Amounts::new(), Amounts::new());
    for (name, all) in object_usage(item) {
        let Some(bound) = bounds.get(&name) else { continue };
        let more = all.milli - had.get(&name).map_or(0, |had| had.milli);
        // A decrease is left to the quota controller.
        if more <= 0 {
            continue;
        }
        let more = Amount { milli: more, ..all };
        let now = used.get(&name).copied().unwrap_or_default();
        let sum = add_amounts(now, more);
        used.insert(name.clone(), sum);
        if sum.milli > bound.milli {
            requested.insert(name.clone(), more);
            already.insert(name.clone(), now);
            most.insert(name, *bound);
        }
    }
    if requested.is_empty() {
        return Ok(quota_status(&bounds, &used));
    }
    let [requested, already, most] =
        [requested, already, most].map(|amounts| format_amounts(&amounts));
    Err(format!("exceeded quota: {name}, requested: {requested}, used: {already}, limited: {most}"))
}

/// The hard limits of a quota: from its status if the quota controller has set them, else from its
/// spec.
fn hard_limits(quota: &Value) -> Amounts {
    let taken_in = amounts_at(quota, &["status", "hard"]);
    if taken_in.is_empty() { amounts_at(quota, &["spec", "hard"]) } else { taken_in }
}

fn amounts_at(quota: &Value, path: &[&str]) -> Amounts {
    let written = map(quota, path).into_iter().flatten();
    written.map(|(name, amount)| (name.to_string(), Amount::from_value(amount))).collect()
}

fn quota_status(hard: &Amounts, used: &Amounts) -> Value {
    let shown = |amounts: &Amounts| -> Map {
        amounts.iter().map(|(name, amount)| (name.clone(), amount.canonical())).collect()
    };
    schedlab_api::json!({"hard": shown(hard), "used": shown(used)})
}

fn format_amounts(amounts: &Amounts) -> String {
    let each = amounts.iter().map(|(name, amount)| format!("{name}={}", amount.canonical()));
    each.collect::<Vec<_>>().join(",")
}

/// Adds two amounts. The sum has the units (binary or decimal) of the first nonzero amount.
fn add_amounts(sum: Amount, addend: Amount) -> Amount {
    let binary = if sum.milli == 0 { addend.binary } else { sum.binary };
    Amount { milli: sum.milli.saturating_add(addend.milli), binary }
}

impl Amount {
    const ONE: Self = Self { milli: 1000, binary: false };

    fn from_value(value: &Value) -> Self {
        let binary = value.as_str().is_some_and(|text| text.ends_with('i'));
        Self { milli: thousandths(value).unwrap_or(0), binary }
    }

    /// The canonical text of the amount, as in `status.used`.
    fn canonical(self) -> String {
        let whole = self.milli % 1000 == 0;
        let number = self.milli / 1000;
        if self.binary && whole && number.abs() >= 1024 && number % 1024 != 0 {
            return number.to_string();
        }
        let text = match (whole, self.binary && number % 1024 == 0) {
            (true, true) => format!("{}Ki", number / 1024),
            (true, false) => number.to_string(),
            (false, _) => format!("{}m", self.milli),
        };
        typed::canonical_quantity(&text).unwrap_or(text)
    }
}

/// The canonical text of an amount in thousandths, in binary or decimal units.
pub(crate) fn canonical_amount(milli: Milli, binary: bool) -> String {
    Amount { milli, binary }.canonical()
}

/// The containers and init containers of a pod.
fn containers_and_init_containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let of = |field: &'static str| list(pod, &["spec", field]).iter();
    of("containers").chain(of("initContainers"))
}

#[cfg(test)]
mod tests;
