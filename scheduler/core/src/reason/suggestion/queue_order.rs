//! Texts of suggestions that earlier jobs of the queue profit from first.

use super::Suggestion;

impl Suggestion {
    /// The text of the suggestion. For a job behind others of its queue, it adds that those are
    /// served first.
    #[must_use]
    pub fn text_with_queue_order(&self, is_behind_other_jobs: bool) -> String {
        let is_taken = matches!(
            self,
            Self::RaiseBound { .. }
                | Self::RaiseQuotaToReclaim { .. }
                | Self::FreeCapacity { .. }
                | Self::FreeDomain { .. }
        );
        let before = "; other jobs of its queue come first";
        format!("{self}{}", if is_behind_other_jobs && is_taken { before } else { "" })
    }
}
