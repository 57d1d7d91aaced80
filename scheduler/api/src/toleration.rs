//! Whether tolerations cover taints. The scheduler and the audit each have a rule of their own: the
//! scheduler's works on parsed pods, and the audit shares no code with what it checks.

use super::{Value, object::text};

/// Whether a toleration covers a taint, as in Kubernetes.
pub fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let effect = text(toleration, &["effect"]);
    let key = text(toleration, &["key"]);
    let exists = text(toleration, &["operator"]) == "Exists";
    (effect.is_empty() || effect == text(taint, &["effect"]))
        && (key == text(taint, &["key"]) || (key.is_empty() && exists))
        && (exists || text(toleration, &["value"]) == text(taint, &["value"]))
}
