//! Estimates for the functions of Kubernetes' CEL libraries.

use super::cel_type::CelType;
use super::cost::{CHARACTER_COST, LIST_COST, PATTERN_COST};
use super::estimate::{Estimate, SizeRange, scaled_saturating};

/// An argument of a call.
pub(super) type Argument = Estimate;

/// The estimated cost of a call, and the size of its result if results of that type have a size.
pub(super) struct CallEstimate {
    pub(super) cost: u64,
    pub(super) size: Option<SizeRange>,
}

impl CallEstimate {
    pub(super) fn of_cost(cost: u64) -> Self {
        Self { cost, size: None }
    }

    fn sized(cost: u64, size: SizeRange) -> Self {
        Self { cost, size: Some(size) }
    }
}

/// The cost of an authorization check.
const AUTHORIZER_CHECK_COST: u64 = 350_000;
/// The maximum length of the regular expression of a named format.
const FORMAT_PATTERN_SIZE: f64 = 128.0;
/// The length of an IP address in bytes.
const IP_ADDRESS_BYTES: u64 = 16;

/// The estimate of a call of a Kubernetes function; `None` for a function of CEL's standard
/// library.
pub(super) fn call_estimate(
    function: &str,
    owner: Option<&Argument>,
    arguments: &[Argument],
) -> Option<CallEstimate> {
    let read = |size: SizeRange| scaled_saturating(size.max, CHARACTER_COST);
    let first = arguments.first().map(Estimate::size_or_unknown);
    let owner_size = owner.map(Estimate::size_or_unknown);
    let cost = |cost: u64| Some(CallEstimate::of_cost(cost));
    match function {
        "check" => cost(AUTHORIZER_CHECK_COST),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            cost(traversal_cost(owner?))
        }
        "url" | "jsonpatch.escapeKey" => Some(CallEstimate::sized(read(first?), first?)),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            Some(CallEstimate::sized(read(owner_size?), owner_size?))
        }
        "replace" => {
            let second = arguments.get(1)?.size_or_unknown();
            Some(replace_estimate(owner_size?, first?, second))
        }
        "split" => {
            let limit = arguments.get(1).and_then(|limit| limit.literal);
            let max = limit.map_or(owner_size?.max, i64::cast_unsigned);
            let size = SizeRange { min: 0, max };
            Some(CallEstimate::sized(cost_of_two_reads(owner_size?), size))
        }
        "join" => Some(join_estimate(owner?, first)),
        "find" | "findAll" => {
            let text = read(owner_size?.plus(SizeRange::exactly(1)));
            let pattern = scaled_saturating(first?.max, PATTERN_COST);
            let size = SizeRange { min: 0, max: owner_size?.max };
            Some(CallEstimate::sized(text.saturating_mul(pattern), size))
        }
        "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            cost(read(first?))
        }
        "ip" => cost(first.map_or(1, read)),
        "ip.isCanonical" => cost(cost_of_two_reads(first?)),
        "containsIP" | "containsCIDR" => {
            let compared = scaled_saturating(2 * IP_ADDRESS_BYTES, CHARACTER_COST);
            let masked = scaled_saturating(IP_ADDRESS_BYTES, CHARACTER_COST) + 1;
            let is_text = arguments.first()?.kind == CelType::Text;
            let parsed = if is_text { read(first?) } else { 0 };
            let masked = if function == "containsIP" { 0 } else { masked };
            cost(parsed.saturating_add(compared + masked))
        }
        "validate" => cost(scaled_saturating(read(first?), FORMAT_PATTERN_SIZE * PATTERN_COST)),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => {
            let other = arguments.get(1)?.size_or_unknown();
            cost(first?.times(other).max.saturating_add(1))
        }
        "distinct" | "sort" => {
            let squared = owner_size?.times(owner_size?).max;
            let made = squared.saturating_add(LIST_COST + 1);
            Some(CallEstimate::sized(made, owner_size?))
        }
        "reverse" | "slice" | "flatten" => {
            let made = owner_size?.max.saturating_add(LIST_COST + 1);
            Some(CallEstimate::sized(made, owner_size?))
        }
        "lists.range" => {
            let literal = arguments.first()?.literal;
            let max = literal.map_or(u64::MAX, i64::cast_unsigned);
            let size = SizeRange { min: 0, max };
            Some(CallEstimate::sized(max.saturating_add(LIST_COST + 1), size))
        }
        _ => None,
    }
}

fn cost_of_two_reads(size: SizeRange) -> u64 {
    scaled_saturating(size.max, 2.0 * CHARACTER_COST)
}

/// The cost of a comparison with every item of a list, or of reading a string.
fn traversal_cost(owner: &Argument) -> u64 {
    let size = owner.size_or_unknown();
    match owner.list_element() {
        None => scaled_saturating(size.max, CHARACTER_COST),
        Some((CelType::Text | CelType::Bytes, item)) => {
            size.max.saturating_mul(scaled_saturating(item.max, CHARACTER_COST).saturating_add(1))
        }
        Some(_) => size.max,
    }
}

/// The estimate of a `replace`. The longest result has the most replacements.
fn replace_estimate(text: SizeRange, replaced: SizeRange, with: SizeRange) -> CallEstimate {
    let longest = if replaced.min == 0 {
        let times = text.max.saturating_add(1);
        times.saturating_mul(with.max).saturating_add(text.max)
    } else if with.max <= replaced.min {
        text.max
    } else {
        text.max.div_ceil(replaced.min).saturating_mul(with.max)
    };
    let shortest = if replaced.max == 0 {
        text.min.saturating_add(1).saturating_mul(with.min).saturating_add(text.min)
    } else if replaced.max <= with.min {
        text.min
    } else {
        text.min.div_ceil(replaced.max).saturating_mul(with.min)
    };
    CallEstimate::sized(cost_of_two_reads(text), SizeRange { min: shortest, max: longest })
}

fn join_estimate(owner: &Argument, separator: Option<SizeRange>) -> CallEstimate {
    let count = owner.size_or_unknown();
    let items = owner.list_element().map(|(_, item)| count.times(item)).unwrap_or_default();
    let separators =
        SizeRange { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
    let size = separator.map_or(items, |separator| items.plus(separator.times(separators)));
    CallEstimate::sized(scaled_saturating(size.max, CHARACTER_COST), size)
}
