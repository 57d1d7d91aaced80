//! Parts of Kubernetes objects that the rules read. The audit has types of its own: it shares no
//! code with the scheduler.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// A name or label value; clones share the text.
pub type Name = Arc<str>;

/// Labels or node-selector pairs, sorted.
pub type Labels = BTreeMap<Name, Name>;

/// A time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl Time {
    /// The time `span` later.
    #[must_use]
    pub fn plus_span(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Time since `earlier`; zero when that lies in the future.
    pub fn elapsed_since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

/// A taint: repels pods that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// `key` of the taint.
    pub key: Name,
    /// `value` of the taint; empty when absent.
    pub value: Name,
    /// `effect` of the taint.
    pub effect: TaintEffect,
}

/// Effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintEffect {
    /// New pods without a toleration are rejected.
    NoSchedule,
    /// Nodes with this taint are chosen last.
    PreferNoSchedule,
    /// New pods are rejected and running ones evicted.
    NoExecute,
}

/// A toleration of taints by a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// Key of the tolerated taints; `None`: every key (operator `Exists` only).
    pub key: Option<Name>,
    /// Value of the tolerated taints (operator `Equal`); `None`: any value (operator `Exists`).
    pub value: Option<Name>,
    /// Effect of the tolerated taints; `None`: every effect.
    pub effect: Option<TaintEffect>,
}

/// A node selector term: all requirements must match. A term without requirements matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSelectorTerm {
    /// Requirements on node labels.
    pub labels: Vec<Requirement>,
    /// Requirements on node fields (`metadata.name` only).
    pub fields: Vec<Requirement>,
}

/// A requirement `key operator values` of a node selector term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key or field path.
    pub key: Name,
    /// How the value is compared.
    pub operator: Operator,
    /// Values that the label or field is compared with.
    pub values: Vec<Name>,
}

/// Operators of node selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label's value is listed.
    In,
    /// The label is absent, or its value is not listed.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label's value is an integer greater than the operand.
    Gt,
    /// The label's value is an integer less than the operand.
    Lt,
}
