//! Limits of the estimated cost of rules, for one rule and for all rules of a schema.

use crate::api_types::error::FieldErrors;
use crate::api_types::expression::{CelType, DeclaredSize, EstimateScope, estimate_cost};
use schedlab_api::{Value, object};

/// The maximum estimated cost of one rule.
const RULE_COST_MAX: u64 = 10_000_000;
/// The maximum estimated cost of all rules of a schema.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// The maximum number of rules that are named if the total cost exceeds its limit.
const NAMED_RULES_MAX: usize = 4;

/// The sum of the estimated costs of a schema's rules.
#[derive(Default)]
pub(super) struct TotalCost {
    total: u64,
    /// The most expensive rules, each with at least a hundredth of the limit.
    expensive: Vec<(String, u64)>,
}

/// How often a part of the schema occurs in an object at most; `None` if that is unlimited.
pub(super) type OccurrencesMax = Option<u64>;

/// How often the items of a list or the values of a map occur at most; `outer` is that of the list
/// or map.
pub(super) fn inner_cardinality(outer: OccurrencesMax, raw: &Value) -> OccurrencesMax {
    let limit = |field: &str| raw[field].as_i64().map(|limit| u64::try_from(limit).unwrap_or(0));
    let elements = match object::text(raw, &["type"]) {
        "object" if !raw["additionalProperties"].is_null() => limit("maxProperties"),
        "array" => limit("maxItems"),
        _ => Some(1),
    };
    Some(outer?.saturating_mul(elements?))
}

/// A rule and the part of the schema that it belongs to.
pub(super) struct RuleSite<'r> {
    pub(super) rule: &'r Value,
    pub(super) path: &'r str,
    pub(super) kind: &'r CelType,
    pub(super) size: &'r std::sync::Arc<DeclaredSize>,
    pub(super) cardinality: OccurrencesMax,
}

impl TotalCost {
    /// Adds the cost of a valid rule, and reports the rule if it is too expensive.
    pub(super) fn add_rule(&mut self, site: &RuleSite<'_>, errors: &mut FieldErrors) {
        let kind = site.kind.clone();
        let old = if site.rule["optionalOldSelf"] == true { CelType::Dyn } else { kind.clone() };
        let variables = vec![("self".to_owned(), kind), ("oldSelf".to_owned(), old)];
        let (size, size_of_others) = (site.size.clone(), Some(site.size.clone()));
        let scope = EstimateScope { variables, size, size_of_others };
        let times = site.cardinality.unwrap_or_else(|| site.size.cardinality_max());
        let rule = estimate_cost(object::text(site.rule, &["rule"]), &scope).saturating_mul(times);
        self.record_rule_cost(&format!("{}.rule", site.path), "estimated rule cost", rule, errors);
        let message = object::text(site.rule, &["messageExpression"]);
        if !message.is_empty() {
            let cost = estimate_cost(message, &scope);
            let path = format!("{}.messageExpression", site.path);
            self.record_rule_cost(&path, "estimated messageExpression cost", cost, errors);
        }
    }

    fn record_rule_cost(&mut self, path: &str, name: &str, cost: u64, errors: &mut FieldErrors) {
        if cost > RULE_COST_MAX {
            errors.forbidden(path, &excess_message(name, cost, RULE_COST_MAX));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_MAX / 100 {
            self.expensive.push((path.to_owned(), cost));
        }
    }

    /// Reports the total cost if it is too high. `field` is the path of the schema.
    pub(super) fn report_total(mut self, field: &str, errors: &mut FieldErrors) {
        if self.total <= SCHEMA_COST_MAX {
            return;
        }
        self.expensive.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        for (path, _) in self.expensive.iter().take(NAMED_RULES_MAX) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire \
                       OpenAPIv3 schema";
            errors.forbidden(path, why);
        }
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(field, &excess_message(name, self.total, SCHEMA_COST_MAX));
    }
}

#[allow(clippy::cast_precision_loss, reason = "the factor is only shown, with few digits")]
fn excess_message(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
