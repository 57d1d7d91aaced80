//! CEL expressions: parsing, type checks, and limits of depth. The CEL library recurses with large
//! stack frames and panics on some input, so an expression with more than a few operators gets a
//! large stack of its own, and one that makes the library panic counts as invalid.

mod cel_type;
mod check;
mod cost;
mod estimate;
mod evaluate;
mod function_estimate;
mod functions;
mod location;
mod size;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use cel_type::CelType;
pub(crate) use check::{TypeScope, check_type};
pub(crate) use estimate::{EstimateScope, estimate_cost};
pub(crate) use evaluate::{EXPRESSION_COST_MAX, EvaluationError, Program};
pub(crate) use size::{DeclaredSize, REQUEST_BYTES_MAX};
pub(crate) use values::{CelShape, map_key, optional_value, untyped_value};

/// The maximum length of a CEL expression in bytes: the limit of `resource.k8s.io`.
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
/// The maximum number of punctuation characters of an expression that any thread's stack can parse
/// and evaluate.
const SHALLOW_PUNCTUATION_MAX: usize = 24;
/// The stack size for expressions with more punctuation: enough for the longest expression in a
/// debug build. The memory is reserved, and used only as needed.
const LARGE_STACK_BYTES: usize = 1 << 30;

/// Whether a CEL expression is short enough to be parsed. The CEL library itself limits the nesting
/// of brackets.
pub(crate) fn is_within_length_limit(text: &str) -> bool {
    text.len() <= EXPRESSION_BYTES_MAX
}

/// Whether the stack of any thread suffices to parse and evaluate the expression.
pub(crate) fn fits_any_stack(text: &str) -> bool {
    text.bytes().filter(u8::is_ascii_punctuation).count() <= SHALLOW_PUNCTUATION_MAX
}

/// Runs `run`, which parses or evaluates expressions. The stack is enlarged unless `is_shallow`.
/// `None` if the CEL library panicked.
pub(crate) fn with_large_stack<R>(is_shallow: bool, run: impl FnOnce() -> R) -> Option<R> {
    let guarded = || catch_unwind(AssertUnwindSafe(run)).ok();
    if is_shallow { guarded() } else { stacker::grow(LARGE_STACK_BYTES, guarded) }
}
