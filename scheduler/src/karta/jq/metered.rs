//! What an expression may be made of, and where it pays for what it yields.

use jaq_core::{
    Cv, Error, ValXs,
    load::{
        lex::StrPart,
        parse::{BinaryOp, Def, Pattern, Term},
    },
    native::{self, Fun, bome, v},
    ops::Math,
    path::{Part, Path},
};
use jaq_json::{Num, Val};

use super::{Metered, OVERDRAWN};

/// Pays for its input, and yields it.
const PAID: &str = "__paid";
/// Yields its input if it is a number of a size that stays so.
const NUMBER: &str = "__number";
/// Yields its input if it is no list, no map and no long text.
const SHORT: &str = "__short";
/// As `tonumber` of numbers and of their texts, of which jaq's is a reader of any JSON.
const TO_NUMBER: &str = "__tonumber";
/// How long a text may be that others are looked through for, or joined with.
const SHORT_MAX: usize = 64;

/// Functions that end by themselves and make of their input no more than some times as much: name,
/// number of arguments.
const FUNCTIONS: [(&str, usize); 73] = [
    ("abs", 0),
    ("add", 0),
    ("add", 1),
    ("all", 0),
    ("all", 1),
    ("all", 2),
    ("any", 0),
    ("any", 1),
    ("any", 2),
    ("arrays", 0),
    ("ascii_downcase", 0),
    ("ascii_upcase", 0),
    ("booleans", 0),
    ("ceil", 0),
    ("empty", 0),
    ("endswith", 1),
    ("error", 0),
    ("error", 1),
    ("false", 0),
    ("first", 0),
    ("first", 1),
    ("flatten", 0),
    ("floor", 0),
    ("from_entries", 0),
    ("group_by", 1),
    ("has", 1),
    ("isempty", 1),
    ("iterables", 0),
    ("keys", 0),
    ("keys_unsorted", 0),
    ("last", 0),
    ("last", 1),
    ("length", 0),
    ("limit", 2),
    ("ltrimstr", 1),
    ("ltrim", 0),
    ("map", 1),
    ("map_values", 1),
    ("max", 0),
    ("max_by", 1),
    ("min", 0),
    ("min_by", 1),
    ("not", 0),
    ("nth", 1),
    ("nth", 2),
    ("null", 0),
    ("nulls", 0),
    ("numbers", 0),
    ("objects", 0),
    ("reverse", 0),
    ("round", 0),
    ("rtrim", 0),
    ("rtrimstr", 1),
    ("scalars", 0),
    ("select", 1),
    ("skip", 2),
    ("sort", 0),
    ("sort_by", 1),
    ("split", 1),
    ("startswith", 1),
    ("strings", 0),
    ("to_entries", 0),
    ("tojson", 0),
    ("tonumber", 0),
    ("tostring", 0),
    ("trim", 0),
    ("true", 0),
    ("type", 0),
    ("unique", 0),
    ("unique_by", 1),
    ("utf8bytelength", 0),
    ("values", 0),
    ("with_entries", 1),
];
/// Functions of one argument, which is short: else both together could cost more than either.
const OF_SHORT: [&str; 5] = ["contains", "index", "indices", "join", "rindex"];

/// Definitions that those of the functions are made of.
const PREDICATES: [&str; 5] = ["isarray", "isboolean", "isnumber", "isobject", "isstring"];

/// Functions can be called, or are made of it. Others are made of what is not there.
pub(super) fn is_needed(definition: &Def) -> bool {
    let (name, count) = (definition.name, definition.args.len());
    let is_called = FUNCTIONS.contains(&(name, count)) && name != "tonumber";
    is_called || PREDICATES.contains(&name) || OF_SHORT.contains(&name)
}

/// An expression that pays for each value that a part of it yields. An error is the name of what is
/// not known.
pub(super) fn term(of: Term<&str>) -> Result<Term<&str>, &str> {
    Ok(match of {
        Term::Id | Term::Num(_) | Term::Var(_) => paying(of),
        Term::Str(None, parts) => {
            let part = |part| {
                Ok(match part {
                    StrPart::Term(of) => StrPart::Term(term(of)?),
                    StrPart::Str(_) | StrPart::Char(_) => part,
                })
            };
            paying(Term::Str(None, each(parts, part)?))
        }
        Term::Arr(items) => Term::Arr(items.map(|items| boxed(*items)).transpose()?),
        Term::Obj(fields) => paying(Term::Obj(each(fields, field)?)),
        Term::Neg(of) => Term::Neg(Box::new(then(term(*of)?, NUMBER))),
        Term::BinOp(left, op, right) => binary(*left, op, *right)?,
        Term::Fold(name, of, pattern, parts) => {
            paying(Term::Fold(name, boxed(*of)?, bound(pattern)?, each(parts, term)?))
        }
        Term::TryCatch(of, caught) => {
            Term::TryCatch(boxed(*of)?, caught.map(|of| boxed(*of)).transpose()?)
        }
        Term::IfThenElse(cases, otherwise) => {
            let case = |(when, so)| Ok((term(when)?, term(so)?));
            let otherwise = otherwise.map(|of| boxed(*of)).transpose()?;
            Term::IfThenElse(each(cases, case)?, otherwise)
        }
        Term::Call(name, arguments) => paying(call(name, arguments)?),
        Term::Path(of, Path(parts)) => {
            // Only what is found there is new.
            let is_whole = matches!(*of, Term::Id | Term::Var(_));
            let of = if is_whole { of } else { boxed(*of)? };
            let part = |(part, opt)| Ok((step(part)?, opt));
            paying(Term::Path(of, Path(each(parts, part)?)))
        }
        Term::Recurse => return Err(".."),
        Term::Str(Some(name), _) | Term::Break(name) | Term::Label(name, _) => return Err(name),
        Term::Def(..) => return Err("def"),
    })
}

fn boxed(of: Term<&str>) -> Result<Box<Term<&str>>, &str> {
    Ok(Box::new(term(of)?))
}

fn each<'s, T>(of: Vec<T>, one: impl Fn(T) -> Result<T, &'s str>) -> Result<Vec<T>, &'s str> {
    of.into_iter().map(one).collect()
}

fn then<'s>(of: Term<&'s str>, function: &'static str) -> Term<&'s str> {
    let function = Term::Call(function, Vec::new());
    Term::BinOp(Box::new(of), BinaryOp::Pipe(None), Box::new(function))
}

fn paying(of: Term<&str>) -> Term<&str> {
    then(of, PAID)
}

type Field<'s> = (Term<&'s str>, Option<Term<&'s str>>);

fn field((key, value): Field<'_>) -> Result<Field<'_>, &str> {
    Ok(match (key, value) {
        (key @ Term::Var(_), None) => (key, None),
        (key, value) => (term(key)?, value.map(term).transpose()?),
    })
}

type Step<'s> = Part<Term<&'s str>>;

fn step(part: Step<'_>) -> Result<Step<'_>, &str> {
    Ok(match part {
        Part::Index(of) => Part::Index(term(of)?),
        Part::Range(from, to) => {
            Part::Range(from.map(term).transpose()?, to.map(term).transpose()?)
        }
    })
}

fn binary<'s>(
    left: Term<&'s str>,
    op: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Result<Term<&'s str>, &'s str> {
    let (left, right) = (term(left)?, term(right)?);
    let (left, op, right) = match op {
        BinaryOp::Pipe(Some(pattern)) => (left, BinaryOp::Pipe(Some(bound(pattern)?)), right),
        // Of texts, lists and maps these could make more than can be paid for.
        BinaryOp::Math(Math::Sub | Math::Mul | Math::Div | Math::Rem) => {
            (then(left, NUMBER), op, then(right, NUMBER))
        }
        BinaryOp::Pipe(None)
        | BinaryOp::Comma
        | BinaryOp::Alt
        | BinaryOp::Or
        | BinaryOp::And
        | BinaryOp::Math(Math::Add)
        | BinaryOp::Cmp(_) => (left, op, right),
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
            return Err("an assignment");
        }
    };
    Ok(Term::BinOp(Box::new(left), op, Box::new(right)))
}

fn bound(pattern: Pattern<&str>) -> Result<Pattern<&str>, &str> {
    Ok(match pattern {
        Pattern::Var(_) => pattern,
        Pattern::Arr(items) => Pattern::Arr(each(items, bound)?),
        Pattern::Obj(fields) => {
            let field = |(key, of)| {
                let key = if matches!(key, Term::Var(_)) { key } else { term(key)? };
                Ok((key, bound(of)?))
            };
            Pattern::Obj(each(fields, field)?)
        }
    })
}

fn call<'s>(name: &'s str, arguments: Vec<Term<&'s str>>) -> Result<Term<&'s str>, &'s str> {
    let count = arguments.len();
    let arguments = each(arguments, term)?;
    if count == 1 && OF_SHORT.contains(&name) {
        let arguments = arguments.into_iter().map(|of| then(of, SHORT)).collect();
        return Ok(Term::Call(name, arguments));
    }
    if !FUNCTIONS.contains(&(name, count)) {
        return Err(name);
    }
    Ok(Term::Call(if name == "tonumber" { TO_NUMBER } else { name }, arguments))
}

/// What expressions were made to call.
pub(super) fn functions() -> impl Iterator<Item = Fun<Metered>> {
    type Run = for<'a> fn(Cv<'a, Metered>) -> ValXs<'a, Val>;
    let paid: Run = |cv| {
        let is_paid = cv.0.data().pay(&cv.1);
        bome(if is_paid { Ok(cv.1) } else { Err(Error::str(OVERDRAWN)) })
    };
    let number: Run = |cv| {
        let is_small = matches!(cv.1, Val::Num(Num::Int(_) | Num::Float(_)));
        bome(if is_small { Ok(cv.1) } else { Err(Error::typ(cv.1, "number")) })
    };
    let short: Run = |cv| {
        let is_short = match &cv.1 {
            Val::Null | Val::Bool(_) | Val::Num(_) => true,
            Val::BStr(text) | Val::TStr(text) => text.len() <= SHORT_MAX,
            Val::Arr(_) | Val::Obj(_) => false,
        };
        bome(if is_short { Ok(cv.1) } else { Err(Error::typ(cv.1, "short text")) })
    };
    let to_number: Run = |cv| {
        let number = match &cv.1 {
            Val::Num(_) => Some(cv.1.clone()),
            Val::TStr(text) => read(text),
            Val::Null | Val::Bool(_) | Val::BStr(_) | Val::Arr(_) | Val::Obj(_) => None,
        };
        bome(number.ok_or_else(|| Error::typ(cv.1, "number")))
    };
    let all = [(PAID, paid), (NUMBER, number), (SHORT, short), (TO_NUMBER, to_number)];
    all.into_iter().map(|(name, run)| native::run::<Metered>((name, v(0), run)))
}

fn read(text: &[u8]) -> Option<Val> {
    let text = std::str::from_utf8(text).ok()?;
    let whole = text.parse().ok().map(Num::Int);
    let number =
        whole.or_else(|| text.parse().ok().filter(|it: &f64| it.is_finite()).map(Num::Float))?;
    Some(Val::Num(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::karta::jq::Program;

    #[test]
    fn every_function_that_may_be_called_is_there() {
        let called = FUNCTIONS.into_iter().chain(OF_SHORT.map(|name| (name, 1)));
        for (name, arguments) in called {
            let arguments = vec!["."; arguments].join("; ");
            let text =
                if arguments.is_empty() { name.to_owned() } else { format!("{name}({arguments})") };
            assert!(Program::read(&text).is_ok(), "{text}");
        }
    }
}
