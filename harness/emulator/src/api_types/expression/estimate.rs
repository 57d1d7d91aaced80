//! The worst-case cost of an expression, from the sizes that a schema allows. kube-apiserver
//! refuses expressions by this estimate, so it follows cel-go's step by step: also where cel-go
//! knows less than it could.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kinds of values that are not named are treated alike"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue,
};
use kube_cel::cel::parser::Parser;

use super::cel_type::CelType;
use super::check::literal_type;
use super::cost::{LIST_COST, MAP_COST, PATTERN_COST, scaled_rounding_up};
use super::function_estimate::{self, Argument};
use super::functions::{function_result_type, is_function, operator_result_type};
use super::size::DeclaredSize;
use super::{fits_any_stack, with_large_stack};

/// The cost of a step of a loop, in addition to the cost of the loop's expressions.
const LOOP_STEP_COST: u64 = 3;

/// The estimated cost of an expression, and the type and size of its value.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    pub(super) cost: u64,
    pub(super) kind: CelType,
    place: ValueOrigin,
    /// The size of the value; `None` if it is unknown.
    pub(super) size: Option<SizeRange>,
    entry: Option<EntrySizes>,
    /// The value if the expression is a literal int.
    pub(super) literal: Option<i64>,
}

/// The minimum and maximum size of a value, as CEL's `size()` counts it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SizeRange {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
enum ValueOrigin {
    /// The value is computed.
    Computed,
    /// A part of a variable that the schema does not describe.
    Undeclared,
    Declared(Arc<DeclaredSize>),
}

/// The sizes of the keys and values of a map, or of the indexes and items of a list.
#[derive(Clone, Copy, Debug)]
struct EntrySizes {
    is_list: bool,
    key: SizeRange,
    value: SizeRange,
}

/// The variables of an expression, which all have the same declared size.
pub(crate) struct EstimateScope {
    pub(crate) variables: Vec<(String, CelType)>,
    pub(crate) size: Arc<DeclaredSize>,
    /// The size of names that are no variables, such as `int`; `None` if it is unknown.
    /// kube-apiserver's estimator for rules of custom resources takes every name for the variable.
    pub(crate) size_of_others: Option<Arc<DeclaredSize>>,
}

/// The worst-case cost of a valid expression, as kube-apiserver estimates it.
pub(crate) fn estimate_cost(text: &str, scope: &EstimateScope) -> u64 {
    with_large_stack(fits_any_stack(text), || parse_and_estimate(text, scope)).unwrap_or(0)
}

fn parse_and_estimate(text: &str, scope: &EstimateScope) -> u64 {
    let Ok(parsed) = Parser::new().enable_optional_syntax(true).parse(text) else { return 0 };
    let variables = scope.variables.iter().map(|(name, kind)| {
        (
            name.clone(),
            vec![LocalVariable { kind: kind.clone(), ..LocalVariable::declared(&scope.size) }],
        )
    });
    let mut estimator = Estimator {
        root: Arc::clone(&scope.size),
        others: scope.size_of_others.clone().map_or(ValueOrigin::Undeclared, ValueOrigin::Declared),
        variables: variables.collect(),
    };
    estimator.estimate(&parsed).cost
}

#[derive(Clone)]
struct LocalVariable {
    kind: CelType,
    place: ValueOrigin,
    size: Option<SizeRange>,
    entry: Option<EntrySizes>,
}

struct Estimator {
    root: Arc<DeclaredSize>,
    /// The origin of names that are no variables.
    others: ValueOrigin,
    variables: BTreeMap<String, Vec<LocalVariable>>,
}

impl SizeRange {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) fn exactly(size: usize) -> Self {
        Self { min: size as u64, max: size as u64 }
    }

    fn union(self, right: Self) -> Self {
        Self { min: self.min.min(right.min), max: self.max.max(right.max) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }
}

impl EntrySizes {
    fn union(left: Option<Self>, right: Option<Self>) -> Option<Self> {
        let (left, right) = (left?, right?);
        Some(Self {
            is_list: left.is_list,
            key: left.key.union(right.key),
            value: left.value.union(right.value),
        })
    }
}

impl LocalVariable {
    fn declared(size: &Arc<DeclaredSize>) -> Self {
        let place = ValueOrigin::Declared(Arc::clone(size));
        Self { kind: CelType::Dyn, place, size: None, entry: None }
    }
}

impl ValueOrigin {
    fn size(&self) -> Option<SizeRange> {
        let Self::Declared(declared) = self else { return None };
        Some(SizeRange { min: 0, max: declared.elements_max })
    }

    fn origin_of_part(&self, part: impl Fn(&DeclaredSize) -> Option<&Arc<DeclaredSize>>) -> Self {
        match self {
            Self::Computed => Self::Computed,
            Self::Undeclared => Self::Undeclared,
            Self::Declared(declared) => {
                part(declared).cloned().map_or(Self::Undeclared, Self::Declared)
            }
        }
    }
}

impl Estimate {
    fn computed(cost: u64, kind: CelType) -> Self {
        let size = is_scalar(&kind).then_some(SizeRange { min: 1, max: 1 });
        Self { cost, kind, place: ValueOrigin::Computed, size, entry: None, literal: None }
    }

    /// The estimate of a part of a variable.
    fn of_part(cost: u64, kind: CelType, place: ValueOrigin) -> Self {
        let size = place.size();
        let estimate = Self::computed(cost, kind);
        Self { size: size.or(estimate.size), place, ..estimate }
    }

    fn with_size(self, size: SizeRange) -> Self {
        Self { size: Some(size), ..self }
    }

    pub(super) fn size_or_unknown(&self) -> SizeRange {
        self.size.unwrap_or(SizeRange::UNKNOWN)
    }

    /// The type and size of the items if the value is a list; `None` if it is no list.
    pub(super) fn list_element(&self) -> Option<(CelType, SizeRange)> {
        let CelType::List(of) = &self.kind else { return None };
        let place = self.place.origin_of_part(|declared| declared.element.as_ref());
        Some((CelType::clone(of), place.size().unwrap_or(SizeRange::UNKNOWN)))
    }
}

fn is_scalar(kind: &CelType) -> bool {
    use CelType::{Bool, Double, Duration, Int, Timestamp, Uint};
    matches!(kind, Bool | Int | Uint | Double | Duration | Timestamp)
}

impl Estimator {
    fn estimate(&mut self, expr: &IdedExpr) -> Estimate {
        match &expr.expr {
            Expr::Literal(value) => literal_estimate(value),
            Expr::Ident(name) => self.estimate_identifier(name),
            Expr::Select(select) => {
                let of = self.estimate(&select.operand);
                if select.test {
                    return Estimate::computed(of.cost, CelType::Bool);
                }
                let step = u64::from(matches!(of.kind, CelType::Map(..) | CelType::Object(_)));
                let kind = field_type(&of.kind, &select.field);
                let place = of.place.origin_of_part(|declared| {
                    declared.fields.get(&select.field).or(declared.other_field.as_ref())
                });
                Estimate::of_part(of.cost.saturating_add(step), kind, place)
            }
            Expr::Call(call) => self.estimate_call(call),
            Expr::List(list) => {
                let items: Vec<Estimate> =
                    list.elements.iter().map(|item| self.estimate(item)).collect();
                let kind = items.first().map_or(CelType::Dyn, |item| item.kind.clone());
                let made = Estimate::computed(sum_of_costs(&items, LIST_COST), CelType::list(kind));
                let key = SizeRange::exactly(1);
                let entry = EntrySizes { is_list: true, key, value: union_of_sizes(&items) };
                Estimate { entry: Some(entry), ..made }.with_size(SizeRange::exactly(items.len()))
            }
            Expr::Map(map) => {
                let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => Some(entry),
                    EntryExpr::StructField(_) => None,
                });
                let (keys, values): (Vec<Estimate>, Vec<Estimate>) = entries
                    .map(|entry| (self.estimate(&entry.key), self.estimate(&entry.value)))
                    .unzip();
                let kind = values.first().map_or(CelType::Dyn, |value| value.kind.clone());
                let cost = sum_of_costs(&keys, MAP_COST).saturating_add(sum_of_costs(&values, 0));
                let (key, value) = (union_of_sizes(&keys), union_of_sizes(&values));
                let entry = EntrySizes { is_list: false, key, value };
                let made = Estimate::computed(cost, CelType::map(kind));
                Estimate { entry: Some(entry), ..made }.with_size(SizeRange::exactly(keys.len()))
            }
            Expr::Comprehension(comprehension) => self.estimate_comprehension(comprehension),
            Expr::Struct(_) | Expr::Unspecified => Estimate::computed(0, CelType::Dyn),
        }
    }

    fn estimate_identifier(&self, name: &str) -> Estimate {
        let Some(local) = self.variables.get(name).and_then(|all| all.last()) else {
            return Estimate::of_part(1, CelType::Dyn, self.others.clone());
        };
        let found = Estimate::of_part(1, local.kind.clone(), local.place.clone());
        Estimate { size: found.size.or(local.size), entry: local.entry, ..found }
    }

    fn push_local(&mut self, name: &str, local: LocalVariable) {
        self.variables.entry(name.to_owned()).or_default().push(local);
    }

    fn pop_local(&mut self, name: &str) {
        self.variables.get_mut(name).and_then(Vec::pop);
    }

    fn estimate_comprehension(&mut self, comprehension: &ComprehensionExpr) -> Estimate {
        let range = self.estimate(&comprehension.iter_range);
        let init = self.estimate(&comprehension.accu_init);
        let result = LocalVariable {
            kind: init.kind.clone(),
            place: ValueOrigin::Computed,
            size: init.size,
            entry: init.entry,
        };
        self.push_local(&comprehension.accu_var, result.clone());
        let item = self.loop_variable(&range);
        self.push_local(&comprehension.iter_var, item);
        let cond = self.estimate(&comprehension.loop_cond);
        let step = self.estimate(&comprehension.loop_step);
        self.pop_local(&comprehension.iter_var);
        self.pop_local(&comprehension.accu_var);
        self.push_local(
            &comprehension.accu_var,
            LocalVariable { kind: step.kind.clone(), ..result },
        );
        let found = self.estimate(&comprehension.result);
        self.pop_local(&comprehension.accu_var);
        let count = range.size_or_unknown();
        let each = step.cost.saturating_add(cond.cost);
        let cost = [range.cost, init.cost, found.cost, count.max.saturating_mul(each)]
            .into_iter()
            .fold(0, u64::saturating_add);
        let made = Estimate::computed(cost, found.kind);
        match &comprehension.accu_init.expr {
            Expr::Literal(_) => Estimate { size: init.size, ..made },
            Expr::List(_) | Expr::Map(_) => Estimate { entry: step.entry, ..made.with_size(count) },
            _ => made,
        }
    }

    /// The loop variable of a comprehension over `range`: an item of a list, or a key of a map.
    fn loop_variable(&self, range: &Estimate) -> LocalVariable {
        let is_list = range.entry.map_or(matches!(range.kind, CelType::List(_)), |it| it.is_list);
        let kind = match &range.kind {
            CelType::List(of) | CelType::Map(of, _) => CelType::clone(of),
            _ => CelType::Dyn,
        };
        let size = range.entry.map(|entry| if is_list { entry.value } else { entry.key });
        let place = match &range.place {
            // cel-go takes an item of a computed list for the variable itself.
            ValueOrigin::Computed => ValueOrigin::Declared(Arc::clone(&self.root)),
            place if is_list => place.origin_of_part(|declared| declared.element.as_ref()),
            place => place.origin_of_part(|declared| declared.key.as_ref()),
        };
        LocalVariable { kind, place, size, entry: None }
    }

    fn estimate_call(&mut self, call: &CallExpr) -> Estimate {
        let name = call.func_name.as_str();
        if let ("dyn", [of]) = (name, call.args.as_slice()) {
            let of = self.estimate(of);
            let cost = of.cost.saturating_add(1);
            return Estimate { kind: CelType::Dyn, place: ValueOrigin::Computed, cost, ..of };
        }
        if let ("bind", [variable, value, body]) = (name, call.args.as_slice()) {
            return self.estimate_bind(variable, value, body);
        }
        if let Some(estimate) = self.estimate_macro(call) {
            return estimate;
        }
        let owner = call.target.as_deref().filter(|target| !self.is_namespace_of(target, name));
        let full = match (&call.target, owner) {
            (Some(target), None) => format!("{}.{name}", identifier_name(target)),
            _ => name.to_owned(),
        };
        let arguments: Vec<Estimate> = call.args.iter().map(|part| self.estimate(part)).collect();
        let owner = owner.map(|owner| self.estimate(owner));
        match (name, arguments.as_slice()) {
            ("_?_:_", [test, one, other]) => return conditional_estimate(test, one, other),
            ("_&&_" | "_||_", [one, other]) => {
                let cost = one.cost.saturating_add(other.cost);
                return Estimate::computed(cost, CelType::Bool);
            }
            _ => {}
        }
        let taken: Vec<CelType> =
            owner.iter().chain(&arguments).map(|part| part.kind.clone()).collect();
        let is_operator = name.contains('_') || name == "@in";
        let kind = if is_operator {
            operator_result_type(name, &taken)
        } else {
            function_result_type(&full, &taken)
        };
        let kind = kind.unwrap_or(CelType::Dyn);
        let parts =
            owner.iter().fold(sum_of_costs(&arguments, 0), |all, it| all.saturating_add(it.cost));
        if let ("_[_]", [of, _]) = (name, arguments.as_slice()) {
            let place = of.place.origin_of_part(|declared| declared.element.as_ref());
            let found = Estimate::of_part(parts.saturating_add(1), kind, place);
            return Estimate { size: of.entry.map(|entry| entry.value).or(found.size), ..found };
        }
        let of_call = function_estimate::call_estimate(&full, owner.as_ref(), &arguments)
            .unwrap_or_else(|| default_call_estimate(name, owner.as_ref(), &arguments));
        let made = Estimate::computed(parts.saturating_add(of_call.cost), kind);
        let entry = match arguments.as_slice() {
            [one, other] if name == "_+_" => EntrySizes::union(one.entry, other.entry),
            _ => None,
        };
        Estimate { size: of_call.size.or(made.size), entry, ..made }
    }

    /// Estimates a macro that the parser does not expand: loops with two variables, and macros for
    /// optionals. `None` for any other call.
    fn estimate_macro(&mut self, call: &CallExpr) -> Option<Estimate> {
        let target = call.target.as_deref()?;
        let (names, parts) = match (call.func_name.as_str(), call.args.as_slice()) {
            ("optMap" | "optFlatMap", [name, part]) => (vec![name], vec![part]),
            (
                "all" | "exists" | "existsOne" | "exists_one" | "transformList" | "transformMap"
                | "transformMapEntry",
                [key, value, parts @ ..],
            ) => (vec![key, value], parts.iter().collect()),
            _ => return None,
        };
        let range = self.estimate(target);
        let item = self.loop_variable(&range);
        for name in &names {
            self.push_local(identifier_name(name), item.clone());
        }
        let parts: Vec<Estimate> = parts.into_iter().map(|part| self.estimate(part)).collect();
        for name in &names {
            self.pop_local(identifier_name(name));
        }
        let times = if names.len() == 1 { 1 } else { range.size_or_unknown().max };
        let steps = times.saturating_mul(sum_of_costs(&parts, LOOP_STEP_COST));
        let made = Estimate::computed(range.cost.saturating_add(steps), CelType::Dyn);
        Some(made.with_size(range.size_or_unknown()))
    }

    fn estimate_bind(
        &mut self,
        variable: &IdedExpr,
        value: &IdedExpr,
        body: &IdedExpr,
    ) -> Estimate {
        let value = self.estimate(value);
        let Estimate { kind, place, size, entry, .. } = value;
        self.push_local(identifier_name(variable), LocalVariable { kind, place, size, entry });
        let body = self.estimate(body);
        self.pop_local(identifier_name(variable));
        let cost = body.cost.saturating_add(value.cost).saturating_add(LIST_COST);
        Estimate { cost, ..body }
    }

    fn is_namespace_of(&self, target: &IdedExpr, name: &str) -> bool {
        let library = identifier_name(target);
        let is_variable = self.variables.get(library).is_some_and(|all| !all.is_empty());
        !library.is_empty() && !is_variable && is_function(&format!("{library}.{name}"))
    }
}

fn conditional_estimate(
    test: &Estimate,
    then_branch: &Estimate,
    else_branch: &Estimate,
) -> Estimate {
    let cost = test.cost.saturating_add(then_branch.cost.max(else_branch.cost));
    let kind = if then_branch.kind.is_dynamic() {
        else_branch.kind.clone()
    } else {
        then_branch.kind.clone()
    };
    let size = then_branch.size_or_unknown().union(else_branch.size_or_unknown());
    let made = Estimate::computed(cost, kind).with_size(size);
    Estimate { entry: EntrySizes::union(then_branch.entry, else_branch.entry), ..made }
}

/// The cost of a call for which Kubernetes has no estimate of its own.
fn default_call_estimate(
    name: &str,
    owner: Option<&Estimate>,
    arguments: &[Estimate],
) -> function_estimate::CallEstimate {
    let read = |size: SizeRange| scaled_saturating(size.max, super::cost::CHARACTER_COST);
    let size =
        |index: usize| arguments.get(index).map_or(SizeRange::UNKNOWN, Estimate::size_or_unknown);
    let cost = function_estimate::CallEstimate::of_cost;
    let owner_size = owner.map_or(SizeRange::UNKNOWN, Estimate::size_or_unknown);
    match (name, arguments.len()) {
        ("format", _) => cost(read(owner_size)),
        ("startsWith" | "endsWith", 1) => cost(read(size(0))),
        ("matches", 1) => {
            let text = read(owner_size.plus(SizeRange::exactly(1)));
            cost(text.saturating_mul(scaled_saturating(size(0).max, PATTERN_COST)))
        }
        ("contains", 1) => cost(read(owner_size).saturating_mul(read(size(0)))),
        ("@in", 2) if !matches!(arguments[1].kind, CelType::Map(..)) => cost(size(1).max),
        ("_==_", 2) if is_opaque(&arguments[0]) && arguments[0].kind == arguments[1].kind => {
            cost(1)
        }
        ("_==_" | "_!=_", 2) => {
            let smaller = size(0).max.min(size(1).max);
            cost(scaled_saturating(smaller, super::cost::CHARACTER_COST))
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", 2) if arguments.iter().all(may_be_text) => {
            let smaller = size(0).max.min(size(1).max);
            cost(scaled_saturating(smaller, super::cost::CHARACTER_COST).max(1))
        }
        ("_+_", 2) => {
            let both = size(0).plus(size(1));
            let is_sized = |it: &Estimate| may_be_text(it) || matches!(it.kind, CelType::List(_));
            let call = if arguments.iter().all(may_be_text) { read(both).max(1) } else { 1 };
            let sized = arguments.iter().all(is_sized).then_some(both);
            function_estimate::CallEstimate { cost: call, size: sized }
        }
        ("string" | "bytes", 1) if may_be_text(&arguments[0]) => {
            let of = size(0);
            let sized = SizeRange { min: of.min / 4, max: of.max.saturating_mul(4) };
            function_estimate::CallEstimate { cost: read(of).max(1), size: Some(sized) }
        }
        _ => cost(1),
    }
}

fn is_opaque(estimate: &Estimate) -> bool {
    matches!(estimate.kind, CelType::Opaque(_))
}

fn may_be_text(estimate: &Estimate) -> bool {
    estimate.kind.is_dynamic() || matches!(estimate.kind, CelType::Text | CelType::Bytes)
}

/// A size times a factor, rounded up. The maximum number (unknown size) stays the maximum.
pub(super) fn scaled_saturating(size: u64, factor: f64) -> u64 {
    scaled_rounding_up(size, factor)
}

fn sum_of_costs(parts: &[Estimate], base: u64) -> u64 {
    parts.iter().fold(base, |all, part| all.saturating_add(part.cost))
}

fn union_of_sizes(parts: &[Estimate]) -> SizeRange {
    let sizes = parts.iter().map(Argument::size_or_unknown);
    sizes.reduce(SizeRange::union).unwrap_or_default()
}

fn field_type(object_type: &CelType, field: &str) -> CelType {
    match object_type {
        CelType::Map(_, value) => CelType::clone(value),
        CelType::Object(object) => object.fields.get(field).cloned().unwrap_or(CelType::Dyn),
        _ => CelType::Dyn,
    }
}

fn identifier_name(expr: &IdedExpr) -> &str {
    if let Expr::Ident(name) = &expr.expr { name } else { "" }
}

fn literal_estimate(value: &LiteralValue) -> Estimate {
    let size = match value {
        LiteralValue::String(text) => text.inner().chars().count(),
        LiteralValue::Bytes(bytes) => bytes.inner().len(),
        _ => 1,
    };
    let literal = if let LiteralValue::Int(number) = value { Some(*number.inner()) } else { None };
    let made = Estimate::computed(0, literal_type(value)).with_size(SizeRange::exactly(size));
    Estimate { literal, ..made }
}
