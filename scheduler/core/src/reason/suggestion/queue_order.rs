//! Texts of suggestions that earlier jobs of the queue profit from first.

use super::Suggestion;

impl Suggestion {
    /// The text; for a job behind others of its queue it says that these are served first.
    #[must_use]
    pub fn message(&self, is_blocked: bool) -> String {
        let is_taken = matches!(
            self,
            Self::RaiseBound { .. }
                | Self::RaiseQuotaToReclaim { .. }
                | Self::FreeCapacity { .. }
                | Self::FreeDomain { .. }
        );
        let before = "; other jobs of its queue come first";
        format!("{self}{}", if is_blocked && is_taken { before } else { "" })
    }
}
