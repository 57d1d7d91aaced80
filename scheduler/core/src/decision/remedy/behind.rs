//! Remedies of which others take their part first.

use super::Remedy;

impl Remedy {
    /// In words; for one of which those before it in its queue take their part first, with that.
    #[must_use]
    pub fn told(&self, is_behind: bool) -> String {
        let is_taken = matches!(
            self,
            Self::Raise { .. }
                | Self::Deserve { .. }
                | Self::MakeRoom { .. }
                | Self::MakePlace { .. }
        );
        let before = "; others of its queue are served before it";
        format!("{self}{}", if is_behind && is_taken { before } else { "" })
    }
}
