//! Evaluates the jq expressions of Kartas safely. The author of an expression must not be able to
//! block the scheduler or exhaust its memory, and the interpreter cannot be interrupted. So
//! expressions may only use functions that terminate, and every value that a part of them yields is
//! charged to a budget.

mod budget;

use std::{
    cell::Cell,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::LazyLock,
};

use jaq_core::{
    Compiler, Ctx, DataT, Filter, Lut, Vars,
    data::HasLut,
    load::{self, Arena, File, Loader, parse::Def},
    unwrap_valr,
};
use jaq_json::{Num, Val};
use jaq_std::ValT as _;
use schedlab_api::Value;

/// Maximum length of an expression in bytes.
const EXPRESSION_BYTES_MAX: usize = 4 * 1024;
/// Stack size in bytes: enough for the deepest expression in a debug build. The memory is reserved,
/// and committed only as it is used.
const STACK_BYTES: usize = 256 << 20;
/// Budget of all expressions that group one pod: a multiple of the cost of the largest possible
/// object, and about ten milliseconds.
const POD_BUDGET: usize = 1 << 20;
/// Maximum number of results of an expression, as in KAI.
const RESULTS_MAX: usize = 999;
/// Name of the compiled definition that holds the expression; expressions cannot call it.
const PROGRAM_FUNCTION: &str = "__program";

/// Why a text is not a supported expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParseError {
    Syntax,
    /// The expression uses this unsupported function or operator.
    UnknownName(String),
}

/// A result of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JqValue {
    Null,
    Bool(bool),
    Whole(i64),
    /// A number that is not an integer of 64 bits.
    Number(f64),
    Text(String),
    List,
    Map,
}

impl JqValue {
    fn from_val(value: &Val) -> Self {
        match value {
            Val::Null => Self::Null,
            Val::Bool(is) => Self::Bool(*is),
            Val::Num(number) => match number.as_isize() {
                Some(whole) => Self::Whole(whole.try_into().unwrap_or(i64::MAX)),
                None => Self::from_number(value),
            },
            Val::BStr(text) | Val::TStr(text) => {
                Self::Text(String::from_utf8_lossy(text).into_owned())
            }
            Val::Arr(_) => Self::List,
            Val::Obj(_) => Self::Map,
        }
    }

    fn from_number(value: &Val) -> Self {
        let number = value.as_f64().unwrap_or(f64::NAN);
        // 3.0 counts as an integer, as in KAI.
        number.to_string().parse().map_or(Self::Number(number), Self::Whole)
    }
}

impl fmt::Display for JqValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(is) => is.fmt(f),
            Self::Whole(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List => f.write_str("a list"),
            Self::Map => f.write_str("a map"),
        }
    }
}

/// A compiled jq expression.
pub(crate) struct Program {
    text: String,
    filter: Filter<BudgetedData>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Program {
    pub(super) fn parse(text: &str) -> Result<Self, ParseError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(ParseError::Syntax);
        }
        let filter = on_large_stack(|| compile(text)).unwrap_or(Err(ParseError::Syntax))?;
        Ok(Self { text: text.to_owned(), filter })
    }

    /// Evaluates the expression on an object. Returns all results, or an error message.
    pub(super) fn run(&self, object: &JqInput, budget: &Budget) -> Result<Vec<JqValue>, String> {
        let beyond = || Err("the jq interpreter failed".to_owned());
        on_large_stack(|| self.results(object, budget)).unwrap_or_else(beyond)
    }

    fn results(&self, object: &JqInput, budget: &Budget) -> Result<Vec<JqValue>, String> {
        // A value that one part yields may pass through all other parts.
        let paying = RunContext { lut: &self.filter.lut, budget, step_cost: self.text.len() / 32 };
        let ctx = Ctx::<BudgetedData>::new(paying, Vars::new([]));
        let mut found = Vec::new();
        for result in self.filter.id.run((ctx, object.0.clone())) {
            if budget.is_exceeded() {
                break;
            }
            // The error contains the value, which may be large.
            let truncated = |error: jaq_json::Error| error.to_string().chars().take(200).collect();
            found.push(JqValue::from_val(&unwrap_valr(result).map_err::<String, _>(truncated)?));
            if found.len() > RESULTS_MAX {
                return Err(format!("more than {RESULTS_MAX} results"));
            }
        }
        // The expression may have caught the budget error.
        if budget.is_exceeded() { Err(BUDGET_EXCEEDED.to_owned()) } else { Ok(found) }
    }
}

/// An input object in the interpreter's representation.
pub(super) struct JqInput(Val);

impl JqInput {
    pub(super) fn from_object(object: &Value) -> Self {
        Self(to_val(object))
    }
}

/// Runs a jq evaluation on a large stack, as the interpreter recurses over expressions and values.
/// `None`: the evaluation panicked.
fn on_large_stack<R>(run: impl FnOnce() -> R) -> Option<R> {
    stacker::grow(STACK_BYTES, || catch_unwind(AssertUnwindSafe(run)).ok())
}

/// Definitions of functions that are written in jq.
static DEFINITIONS: LazyLock<Vec<Def>> = LazyLock::new(|| {
    let beside = jaq_std::defs().chain(jaq_json::defs()).filter(budget::is_needed_definition);
    jaq_core::defs().chain(beside).collect()
});

fn compile(text: &str) -> Result<Filter<BudgetedData>, ParseError> {
    let term = load::parse(text, |parser| parser.term()).ok_or(ParseError::Syntax)?;
    let body =
        budget::instrument_term(term).map_err(|name| ParseError::UnknownName(name.to_owned()))?;
    let mut known: Vec<Def<&str>> = DEFINITIONS.clone();
    known.push(Def { name: PROGRAM_FUNCTION, args: Vec::new(), body });
    let arena = Arena::default();
    let loader = Loader::new(known);
    let modules = loader.load(&arena, File { code: PROGRAM_FUNCTION, path: () });
    let modules = modules.map_err(|_| ParseError::Syntax)?;
    let functions = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
    let compiler = Compiler::default().with_funs(functions.chain(budget::helper_functions()));
    compiler.compile(modules).map_err(|_| ParseError::Syntax)
}

/// Error of an expression that exceeds its budget.
const BUDGET_EXCEEDED: &str = "the expression exceeds its budget: too many or too large values";

/// Budget of all pods grouped in one cycle. Pods beyond it are grouped in the next cycle, so that
/// scheduling is not delayed.
const CYCLE_BUDGET: usize = 16 * POD_BUDGET;

/// Remaining budget of a cycle.
#[derive(Debug)]
pub(crate) struct CycleBudget {
    remaining: Cell<usize>,
    was_exceeded: Cell<bool>,
}

impl CycleBudget {
    pub(crate) const fn new() -> Self {
        Self { remaining: Cell::new(CYCLE_BUDGET), was_exceeded: Cell::new(false) }
    }

    pub(crate) const fn is_spent(&self) -> bool {
        self.remaining.get() == 0
    }

    /// Whether the last pod exceeded its own budget.
    pub(crate) const fn was_exceeded(&self) -> bool {
        self.was_exceeded.get()
    }

    /// Charges the cost of one pod, whether or not it could be grouped.
    pub(super) fn charge_pod(&self, budget: &Budget) {
        let spent = budget.0.get().map_or(POD_BUDGET, |left| POD_BUDGET - left);
        self.remaining.set(self.remaining.get().saturating_sub(spent));
        self.was_exceeded.set(budget.is_exceeded());
    }
}

/// Remaining budget of a pod; `None` once it is exceeded.
pub(super) struct Budget(Cell<Option<usize>>);

impl Budget {
    pub(super) const fn new() -> Self {
        Self(Cell::new(Some(POD_BUDGET)))
    }

    const fn is_exceeded(&self) -> bool {
        self.0.get().is_none()
    }

    fn charge_amount(&self, price: usize) {
        self.0.set(self.0.get().and_then(|left| left.checked_sub(price)));
    }

    /// Charges a value with everything in it. A shared part is charged each time it occurs, as it
    /// takes time each time.
    fn charge_value(&self, value: &Val) {
        match value {
            Val::Null | Val::Bool(_) | Val::Num(_) => self.charge_amount(1),
            Val::BStr(text) | Val::TStr(text) => self.charge_amount(1 + text.len() / 16),
            Val::Arr(items) => {
                self.charge_amount(1);
                items
                    .iter()
                    .take_while(|_| !self.is_exceeded())
                    .for_each(|item| self.charge_value(item));
            }
            Val::Obj(fields) => {
                self.charge_amount(1);
                for (key, field) in fields.iter().take_while(|_| !self.is_exceeded()) {
                    self.charge_value(key);
                    self.charge_value(field);
                }
            }
        }
    }
}

/// Data type with which the interpreter charges evaluations to a budget.
struct BudgetedData;

impl DataT for BudgetedData {
    type V<'a> = Val;
    type Data<'a> = RunContext<'a>;
}

#[derive(Clone)]
struct RunContext<'a> {
    lut: &'a Lut<BudgetedData>,
    budget: &'a Budget,
    /// Cost of each value that a step yields, whatever its size.
    step_cost: usize,
}

impl RunContext<'_> {
    /// Charges a value; returns whether the budget suffices.
    fn charge_value(&self, value: &Val) -> bool {
        self.budget.charge_amount(self.step_cost);
        self.budget.charge_value(value);
        !self.budget.is_exceeded()
    }
}

impl<'a> HasLut<'a, BudgetedData> for RunContext<'a> {
    fn lut(&self) -> &'a Lut<BudgetedData> {
        self.lut
    }
}

/// Converts a JSON value to the interpreter's representation.
fn to_val(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(is) => Val::Bool(*is),
        Value::Number(number) => Val::Num(match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Num::from_integral(whole),
            (None, Some(whole)) => Num::from_integral(whole),
            (None, None) => Num::Float(number.as_f64().unwrap_or(f64::NAN)),
        }),
        Value::String(text) => Val::utf8_str(text.as_bytes().to_vec()),
        Value::Array(items) => items.iter().map(to_val).collect(),
        Value::Object(fields) => {
            let field = |(key, value): (&schedlab_api::Text, &Value)| {
                (Val::utf8_str(key.as_bytes().to_vec()), to_val(value))
            };
            Val::obj(fields.iter().map(field).collect())
        }
    }
}

#[cfg(test)]
mod tests;
