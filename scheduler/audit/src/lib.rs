//! Checks what must hold whatever a scenario claims: after every write to the Kubernetes API, the
//! rules that a scheduler must never break.
//!
//! The crate depends on no crate of the scheduler, so it cannot share the scheduler's errors.

mod rules;

pub use rules::{
    Amounts, AuditProfile, AuditedObject, Auditor, BoundLevels, Breach, ClaimView, DeviceShare,
    Eviction, EvictionKind, GroupView, Labels, Name, NodeSelectorTerm, NodeView, Operator, Phase,
    PodView, QueueView, Requirement, Rule, Rules, SubGroupView, Taint, TaintEffect, Time,
    Toleration, Writer,
};
