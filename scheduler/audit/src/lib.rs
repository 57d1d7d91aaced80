//! Checks the rules that a scheduler must never break, after every write to the Kubernetes API and
//! in every scenario.
//!
//! The crate depends on no crate of the scheduler, so it cannot share the scheduler's errors.

mod audit;
mod background;
mod change;
mod eviction_causes;
mod history;
mod rules;
mod unexplained_deletions;
mod views;
mod write;

pub use audit::{Audit, CycleCounter, Violation};
pub use background::BackgroundAudit;
pub use change::{
    Change, changes_of_write, eviction_message, format_offset, requests_deletion,
    unschedulable_message,
};
pub use eviction_causes::{EvictionCause, EvictionCauses, UnknownCause};
pub use rules::{
    Amounts, AuditProfile, AuditedObject, Auditor, BoundLevels, Breach, ClaimView, DeviceShare,
    Eviction, EvictionKind, GroupView, Labels, Name, NodeSelectorTerm, NodeView, Operator, Phase,
    PodView, QueueView, Requirement, Rule, Rules, SubGroupView, Taint, TaintEffect, Time,
    Toleration, Writer,
};
pub use unexplained_deletions::PodDeletion;
pub use views::{
    charged_fraction_milli, claim_names, claimed_gpu_milli, gpu_memory_mib, is_reservation_pod,
    pod_requests, shared_device_names,
};
pub use write::{Object, ObjectKey, Write, WriteKind};
