//! The collections that actors know by name.

use std::sync::LazyLock;

use crate::store::Resource;

type Known = LazyLock<Resource>;

pub(super) static PODS: Known = LazyLock::new(|| Resource::new("", "pods"));
pub(super) static NODES: Known = LazyLock::new(|| Resource::new("", "nodes"));
pub(super) static NAMESPACES: Known = LazyLock::new(|| Resource::new("", "namespaces"));
pub(super) static EVENTS: Known = LazyLock::new(|| Resource::new("", "events"));
pub(super) static LEASES: Known = LazyLock::new(|| Resource::new("coordination.k8s.io", "leases"));
