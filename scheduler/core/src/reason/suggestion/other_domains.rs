//! Texts for pods that cannot run in the domains that they select.

use std::fmt;

use crate::{model::Name, reason::format::join_list};

/// Pods that others must be apart from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionSource {
    /// Other pods, which occupy all of the domains.
    OtherPods,
    /// Each other: the gang has more pods than there are domains.
    OwnGang {
        /// Number of pods that could run there, when the gang has no others.
        fewer: Option<u32>,
    },
}

pub(super) fn fmt_other_domains(
    f: &mut fmt::Formatter<'_>,
    label: &Name,
    values: &[Name],
    from: ExclusionSource,
) -> fmt::Result {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let others = format!("select other values of {label} than {}", join_list(&values, "or"));
    let cause = format!("since anti-affinity requires a {label} of its own for each");
    match from {
        ExclusionSource::OtherPods => write!(
            f,
            "let its pods {others}, or delete the pods there that anti-affinity keeps \
             them apart from"
        ),
        ExclusionSource::OwnGang { fewer: None } => write!(f, "let its pods {others}, {cause}"),
        ExclusionSource::OwnGang { fewer: Some(fewer) } => {
            write!(f, "lower its minimum to {fewer}, or let its pods {others}, {cause}")
        }
    }
}
