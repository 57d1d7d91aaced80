//! Objects, one revision for all of them, and the log of what happened. No `async` here.

mod op;

pub use op::{
    DeleteOptions, EventKind, FieldValidation, Key, LogEntry, Object, Op, PatchBody, Preconditions,
    Propagation, Resource, Subresource, Write, Written,
};
