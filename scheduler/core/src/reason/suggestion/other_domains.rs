//! Texts for pods that cannot run in the domains that they select.

use std::fmt;

use crate::{model::Name, reason::format::join_list};

/// The pods from which others must be apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionSource {
    /// Other pods occupy all of the domains.
    OtherPods,
    /// The pods of the gang must be apart from each other, and there are fewer domains than pods.
    OwnGang {
        /// Number of pods that could run there, when the gang has no pods besides these.
        fewer: Option<u32>,
    },
}

pub(super) fn fmt_use_other_domains(
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
