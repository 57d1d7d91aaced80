//! CEL expressions as users write them. The library reads and judges them by recursion with large
//! frames, and panics on some: all of it happens on a stack of its own, and what makes the library
//! panic is no expression.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::{self, Context, Program};

/// How many bytes an expression may have, by the API.
const LENGTH_MAX: usize = 10 * 1024;
/// Enough for the longest expression in a debug build. It is reserved, and taken as it is used.
const STACK: usize = 1 << 30;

/// Where expressions may be compiled and judged.
pub(super) fn with_room<R>(of: impl FnOnce() -> R) -> R {
    stacker::grow(STACK, of)
}

/// `None`: it cannot be read.
pub(super) fn compiled(text: &str) -> Option<Program> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    catch_unwind(|| Program::compile(text).ok()).ok().flatten()
}

/// Whether it holds; one that cannot be judged does not.
pub(super) fn holds(program: &Program, context: &Context<'_>) -> bool {
    let judged = catch_unwind(AssertUnwindSafe(|| program.execute(context)));
    matches!(judged, Ok(Ok(cel::Value::Bool(true))))
}
