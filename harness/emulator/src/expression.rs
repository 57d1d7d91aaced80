//! CEL expressions: whether they can be compiled, and how deep they may go. The library reads and judges them by recursion with large
//! frames, and panics on some: what has more than a few steps is looked at on a stack of its own,
//! and what makes the library panic is no expression.

mod check;
mod functions;
mod kind;
mod place;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use check::{Scope, check};
pub(crate) use kind::Kind;

/// How many bytes an expression may have; `resource.k8s.io` allows no more.
const LENGTH_MAX: usize = 10 * 1024;
/// Expressions of so few steps leave room on any stack.
const FEW: usize = 24;
/// Enough for the longest expression in a debug build. It is reserved, and taken as it is used.
const STACK: usize = 1 << 30;

/// Whether an expression is short enough to be read at all. The library itself says no where
/// brackets are nested too deep.
pub(crate) fn is_bounded(text: &str) -> bool {
    text.len() <= LENGTH_MAX
}

/// Whether it needs no stack of its own.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().filter(u8::is_ascii_punctuation).count() <= FEW
}

/// Reads or judges expressions; `None`: the library panicked.
pub(crate) fn with_room<R>(plain: bool, of: impl FnOnce() -> R) -> Option<R> {
    let guarded = || catch_unwind(AssertUnwindSafe(of)).ok();
    if plain { guarded() } else { stacker::grow(STACK, guarded) }
}
