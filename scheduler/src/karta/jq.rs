//! jq expressions as Kartas have them. Who writes one must not be able to hold up or fill the
//! scheduler, and the interpreter cannot be stopped from outside: an expression is made of what
//! ends by itself, and what its parts yield is paid for from a budget.

mod metered;

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
use schedlab_json::Value;

/// How many bytes an expression may have.
const LENGTH_MAX: usize = 4 * 1024;
/// Enough for the deepest expression in a debug build. It is reserved, and taken as it is used.
const STACK: usize = 256 << 20;
/// What all expressions that group one pod may cost: some times what the largest object costs as a
/// whole, and some ten milliseconds.
const BUDGET: usize = 1 << 20;
/// One more is too many, as in KAI.
const RESULTS_MAX: usize = 999;
/// The name of an expression among the definitions; none can call it.
const PROGRAM: &str = "__program";

/// Why a text is no expression that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    NoExpression,
    /// It uses something of this name.
    Unknown(String),
}

/// One thing that an expression finds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    Null,
    Bool(bool),
    Whole(i64),
    /// A number that is not whole, or beyond all bounds.
    Number(f64),
    Text(String),
    List,
    Map,
}

impl Found {
    fn of(value: &Val) -> Self {
        match value {
            Val::Null => Self::Null,
            Val::Bool(is) => Self::Bool(*is),
            Val::Num(number) => match number.as_isize() {
                Some(whole) => Self::Whole(whole.try_into().unwrap_or(i64::MAX)),
                None => Self::number(value),
            },
            Val::BStr(text) | Val::TStr(text) => {
                Self::Text(String::from_utf8_lossy(text).into_owned())
            }
            Val::Arr(_) => Self::List,
            Val::Obj(_) => Self::Map,
        }
    }

    fn number(value: &Val) -> Self {
        let number = value.as_f64().unwrap_or(f64::NAN);
        // 3.0 is whole, as it is where KAI reads it.
        number.to_string().parse().map_or(Self::Number(number), Self::Whole)
    }
}

impl fmt::Display for Found {
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

/// Something that can be asked of an object.
pub(crate) struct Program {
    text: String,
    filter: Filter<Metered>,
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
    pub(super) fn read(text: &str) -> Result<Self, Unreadable> {
        if text.len() > LENGTH_MAX {
            return Err(Unreadable::NoExpression);
        }
        let filter = with_room(|| compiled(text)).unwrap_or(Err(Unreadable::NoExpression))?;
        Ok(Self { text: text.to_owned(), filter })
    }

    /// Everything that it finds in an object, or why nothing comes of it.
    pub(super) fn run(&self, object: &Object, purse: &Purse) -> Result<Vec<Found>, String> {
        let beyond = || Err("it is beyond this scheduler's jq".to_owned());
        with_room(|| self.results(object, purse)).unwrap_or_else(beyond)
    }

    fn results(&self, object: &Object, purse: &Purse) -> Result<Vec<Found>, String> {
        // What a part of it yields may go through all others.
        let paying = Paying { lut: &self.filter.lut, purse, step: self.text.len() / 32 };
        let ctx = Ctx::<Metered>::new(paying, Vars::new([]));
        let mut found = Vec::new();
        for result in self.filter.id.run((ctx, object.0.clone())) {
            if purse.is_overdrawn() {
                break;
            }
            // The error shows the value that it is about.
            let cut = |error: jaq_json::Error| error.to_string().chars().take(200).collect();
            found.push(Found::of(&unwrap_valr(result).map_err::<String, _>(cut)?));
            if found.len() > RESULTS_MAX {
                return Err(format!("it finds more than {RESULTS_MAX} values"));
            }
        }
        // The expression may have caught the error.
        if purse.is_overdrawn() { Err(OVERDRAWN.to_owned()) } else { Ok(found) }
    }
}

/// What expressions are asked of, as the interpreter has it.
pub(super) struct Object(Val);

impl Object {
    pub(super) fn of(object: &Value) -> Self {
        Self(value(object))
    }
}

/// The interpreter goes as deep as expressions and values do; `None`: it panics.
fn with_room<R>(of: impl FnOnce() -> R) -> Option<R> {
    stacker::grow(STACK, || catch_unwind(AssertUnwindSafe(of)).ok())
}

/// Functions that are not built in.
static DEFINITIONS: LazyLock<Vec<Def>> = LazyLock::new(|| {
    let beside = jaq_std::defs().chain(jaq_json::defs()).filter(metered::is_needed);
    jaq_core::defs().chain(beside).collect()
});

fn compiled(text: &str) -> Result<Filter<Metered>, Unreadable> {
    let term = load::parse(text, |parser| parser.term()).ok_or(Unreadable::NoExpression)?;
    let body = metered::term(term).map_err(|name| Unreadable::Unknown(name.to_owned()))?;
    let mut known: Vec<Def<&str>> = DEFINITIONS.clone();
    known.push(Def { name: PROGRAM, args: Vec::new(), body });
    let arena = Arena::default();
    let loader = Loader::new(known);
    let modules = loader.load(&arena, File { code: PROGRAM, path: () });
    let modules = modules.map_err(|_| Unreadable::NoExpression)?;
    let functions = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
    let compiler = Compiler::default().with_funs(functions.chain(metered::functions()));
    compiler.compile(modules).map_err(|_| Unreadable::NoExpression)
}

/// What an expression that costs too much is told.
const OVERDRAWN: &str = "it makes too many values, or too large ones";

/// What all pods that are grouped in one cycle may cost: who comes when it is spent comes in the
/// next one, so that what waits for nothing else is not held up.
const BUDGET_OF_ALL: usize = 16 * BUDGET;

/// What is left for a cycle.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: Cell<usize>,
    was_exceeded: Cell<bool>,
}

impl Allowance {
    pub(crate) const fn new() -> Self {
        Self { left: Cell::new(BUDGET_OF_ALL), was_exceeded: Cell::new(false) }
    }

    pub(crate) const fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// The last pod cost more than one may.
    pub(crate) const fn was_exceeded(&self) -> bool {
        self.was_exceeded.get()
    }

    /// A pod was grouped, or could not be.
    pub(super) fn pay(&self, purse: &Purse) {
        let spent = purse.0.get().map_or(BUDGET, |left| BUDGET - left);
        self.left.set(self.left.get().saturating_sub(spent));
        self.was_exceeded.set(purse.is_overdrawn());
    }
}

/// What is left of a budget.
pub(super) struct Purse(Cell<Option<usize>>);

impl Purse {
    pub(super) const fn new() -> Self {
        Self(Cell::new(Some(BUDGET)))
    }

    const fn is_overdrawn(&self) -> bool {
        self.0.get().is_none()
    }

    fn take(&self, price: usize) {
        self.0.set(self.0.get().and_then(|left| left.checked_sub(price)));
    }

    /// Pays for a value and what is in it: that may be there many times, and takes the time of all
    /// of them.
    fn pay(&self, value: &Val) {
        match value {
            Val::Null | Val::Bool(_) | Val::Num(_) => self.take(1),
            Val::BStr(text) | Val::TStr(text) => self.take(1 + text.len() / 16),
            Val::Arr(items) => {
                self.take(1);
                items.iter().take_while(|_| !self.is_overdrawn()).for_each(|item| self.pay(item));
            }
            Val::Obj(fields) => {
                self.take(1);
                for (key, field) in fields.iter().take_while(|_| !self.is_overdrawn()) {
                    self.pay(key);
                    self.pay(field);
                }
            }
        }
    }
}

/// Runs of expressions that pay.
struct Metered;

impl DataT for Metered {
    type V<'a> = Val;
    type Data<'a> = Paying<'a>;
}

#[derive(Clone)]
struct Paying<'a> {
    lut: &'a Lut<Metered>,
    purse: &'a Purse,
    /// What it costs that anything is yielded.
    step: usize,
}

impl Paying<'_> {
    /// Answers whether it could be paid.
    fn pay(&self, value: &Val) -> bool {
        self.purse.take(self.step);
        self.purse.pay(value);
        !self.purse.is_overdrawn()
    }
}

impl<'a> HasLut<'a, Metered> for Paying<'a> {
    fn lut(&self) -> &'a Lut<Metered> {
        self.lut
    }
}

/// An object as the interpreter has it.
fn value(of: &Value) -> Val {
    match of {
        Value::Null => Val::Null,
        Value::Bool(is) => Val::Bool(*is),
        Value::Number(number) => Val::Num(match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Num::from_integral(whole),
            (None, Some(whole)) => Num::from_integral(whole),
            (None, None) => Num::Float(number.as_f64().unwrap_or(f64::NAN)),
        }),
        Value::String(text) => Val::utf8_str(text.as_bytes().to_vec()),
        Value::Array(items) => items.iter().map(value).collect(),
        Value::Object(fields) => {
            let field = |(key, of): (&schedlab_json::Text, &Value)| {
                (Val::utf8_str(key.as_bytes().to_vec()), value(of))
            };
            Val::obj(fields.iter().map(field).collect())
        }
    }
}

#[cfg(test)]
mod tests;
