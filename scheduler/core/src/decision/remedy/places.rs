//! Places that pods select, and in which they cannot be.

use std::fmt;

use crate::{decision::words::listing, model::Name};

/// From whom pods have to be apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptFrom {
    /// From others, which are in all of the places.
    Others,
    /// From each other, of which there are more than places.
    Mates {
        /// So many of them may run there, if there is nobody else in the gang.
        fewer: Option<u32>,
    },
}

pub(super) fn other(
    f: &mut fmt::Formatter<'_>,
    (label, values): (&Name, &[Name]),
    from: KeptFrom,
) -> fmt::Result {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let elsewhere = format!(
        "run elsewhere than in {label} {}, which is all that they select",
        listing(&values, "or")
    );
    let kept = format!("as anti-affinity keeps each in a {label} of its own");
    match from {
        KeptFrom::Others => write!(
            f,
            "let its pods {elsewhere}, or end the pods there that anti-affinity keeps them from"
        ),
        KeptFrom::Mates { fewer: None } => write!(f, "let its pods {elsewhere}, {kept}"),
        KeptFrom::Mates { fewer: Some(fewer) } => {
            write!(f, "let {fewer} of its pods suffice, or let them {elsewhere}, {kept}")
        }
    }
}
