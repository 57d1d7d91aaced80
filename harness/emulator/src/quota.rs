//! Resource quotas: which objects a quota counts and for how much, what is left of it, and what
//! is said to whom it leaves out.
//!
//! Pure functions, for those who let objects in (`write`) and those who count anew (`actors`).
//! Left out: volume attribute classes, and pods whose affinity reaches other namespaces, as scopes.

mod scope;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::kinds::{Resource, typed};
use crate::object::{self, list, map};
use crate::quantity::{Milli, thousandths};
use schedlab_json::{Map, Value};

pub(crate) use usage::{free_again, is_over};
use usage::{is_counted_as, usage};

/// How much of something: thousandths, and whether it is written in powers of 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    milli: Milli,
    binary: bool,
}

/// Amounts under the names that quotas use.
type Amounts = BTreeMap<String, Amount>;

/// One thing that quotas may count, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'o> {
    /// The collection that it is in.
    pub(crate) resource: &'o Resource,
    /// The object.
    pub(crate) object: &'o Value,
    /// The time.
    pub(crate) now: Timestamp,
}

/// Does this quota count this object under any of its names?
pub(crate) fn counts(quota: &Value, item: Item<'_>) -> bool {
    bounds(quota).keys().any(|name| is_counted_as(item.resource, name)) && scope::holds(quota, item)
}

/// The collections of which a quota counts objects.
pub(crate) fn collections(quota: &Value) -> BTreeSet<Resource> {
    bounds(quota).keys().filter_map(|name| usage::collection(name)).collect()
}

/// The status of a quota that counts these things.
pub(crate) fn status<'o>(quota: &Value, items: impl Iterator<Item = Item<'o>>) -> Value {
    let bounds = bounds(quota);
    let known = bounds.keys().filter(|name| usage::collection(name).is_some());
    let mut used: Amounts = known.map(|name| (name.clone(), Amount::default())).collect();
    for item in items.filter(|item| counts(quota, *item)) {
        for (name, more) in usage(item) {
            if let Some(sum) = used.get_mut(&name) {
                *sum = plus(*sum, more);
            }
        }
    }
    told(&bounds, &used)
}

/// The status of a quota once it has let in an object that it counts, or what has grown of it
/// since it was `before`.
///
/// # Errors
/// Why it lets the object not in, in the words of the real server.
pub(crate) fn charged(
    quota: &Value,
    item: Item<'_>,
    before: Option<Item<'_>>,
) -> Result<Value, String> {
    let name = object::name(quota);
    let bounds = bounds(quota);
    let had = before.map(usage).unwrap_or_default();
    if let Some(missing) = usage::unsaid(item, &bounds) {
        return Err(format!("failed quota: {name}: must specify {missing}"));
    }
    let mut used = amounts(quota, &["status", "used"]);
    let counted = bounds.keys().filter(|name| is_counted_as(item.resource, name));
    let unknown: Vec<&str> =
        counted.filter(|name| !used.contains_key(*name)).map(String::as_str).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(",");
        return Err(format!("status unknown for quota: {name}, resources: {unknown}"));
    }
    let (mut asked, mut already, mut most) = (Amounts::new(), Amounts::new(), Amounts::new());
    for (name, all) in usage(item) {
        let Some(bound) = bounds.get(&name) else { continue };
        let more = all.milli - had.get(&name).map_or(0, |had| had.milli);
        // Who counts anew sees what has become less.
        if more <= 0 {
            continue;
        }
        let more = Amount { milli: more, ..all };
        let now = used.get(&name).copied().unwrap_or_default();
        let sum = plus(now, more);
        used.insert(name.clone(), sum);
        if sum.milli > bound.milli {
            asked.insert(name.clone(), more);
            already.insert(name.clone(), now);
            most.insert(name, *bound);
        }
    }
    if asked.is_empty() {
        return Ok(told(&bounds, &used));
    }
    let [asked, already, most] = [asked, already, most].map(|amounts| listed(&amounts));
    Err(format!("exceeded quota: {name}, requested: {asked}, used: {already}, limited: {most}"))
}

/// What the quota allows: as it was taken in by who counts, else as it is written.
fn bounds(quota: &Value) -> Amounts {
    let taken_in = amounts(quota, &["status", "hard"]);
    if taken_in.is_empty() { amounts(quota, &["spec", "hard"]) } else { taken_in }
}

fn amounts(quota: &Value, path: &[&str]) -> Amounts {
    let written = map(quota, path).into_iter().flatten();
    written.map(|(name, amount)| (name.to_string(), Amount::read(amount))).collect()
}

fn told(bounds: &Amounts, used: &Amounts) -> Value {
    let shown = |amounts: &Amounts| -> Map {
        amounts.iter().map(|(name, amount)| (name.clone(), amount.shown())).collect()
    };
    schedlab_json::json!({"hard": shown(bounds), "used": shown(used)})
}

fn listed(amounts: &Amounts) -> String {
    let each = amounts.iter().map(|(name, amount)| format!("{name}={}", amount.shown()));
    each.collect::<Vec<_>>().join(",")
}

/// A sum is written as its first part that is not zero.
fn plus(sum: Amount, more: Amount) -> Amount {
    let binary = if sum.milli == 0 { more.binary } else { sum.binary };
    Amount { milli: sum.milli.saturating_add(more.milli), binary }
}

impl Amount {
    const ONE: Self = Self { milli: 1000, binary: false };

    fn read(value: &Value) -> Self {
        let binary = value.as_str().is_some_and(|text| text.ends_with('i'));
        Self { milli: thousandths(value).unwrap_or(0), binary }
    }

    /// In canonical form.
    fn shown(self) -> String {
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
        typed::canonical(&text).unwrap_or(text)
    }
}

/// An amount in canonical form, in powers of 1024 or of ten.
pub(crate) fn shown(milli: Milli, binary: bool) -> String {
    Amount { milli, binary }.shown()
}

/// The names of an object's containers, of both kinds.
fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let of = |field: &'static str| list(pod, &["spec", field]).iter();
    of("containers").chain(of("initContainers"))
}

#[cfg(test)]
mod tests;
