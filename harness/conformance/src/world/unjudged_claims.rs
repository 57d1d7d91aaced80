//! Claims that are not about behaviour: they are judged only if the target uses the words that a
//! feature quotes, or places pods as the snapshots show.

use super::World;
use super::assertions::Temporal;
use crate::report::{ClaimKind, UnjudgedClaim};
use crate::schedulers::{Dialect, dialect_of};

impl World {
    /// Whether these words are judged: the target uses the words of their dialect. If not, the
    /// claim is noted for the report.
    pub(crate) fn judges_words(&mut self, words: &str) -> bool {
        let dialect = dialect_of(words, self.case.uses_kube_profile());
        self.judges_words_of(dialect, words)
    }

    /// Like [`Self::judges_words`] for the output of `schedlab-scheduler explain`, which only our
    /// scheduler has.
    pub(crate) fn judges_explanation(&mut self, words: &str) -> bool {
        self.judges_words_of(Dialect::Schedlab, words)
    }

    fn judges_words_of(&mut self, dialect: Dialect, words: &str) -> bool {
        let is_judged = self.target.uses_words_of(dialect);
        if !is_judged {
            self.note_unjudged_claim(ClaimKind::Wording, words);
        }
        is_judged
    }

    /// Whether the number of the scheduler's writes is judged. Another scheduler may need fewer
    /// writes than ours, so that a step that kills it before a write has no effect.
    pub(crate) fn judges_write_count(&mut self) -> bool {
        let is_judged = self.target.matches_snapshots();
        if !is_judged {
            self.note_unjudged_claim(ClaimKind::Snapshot, "number of writes");
        }
        is_judged
    }

    fn note_unjudged_claim(&mut self, kind: ClaimKind, claim: &str) {
        let claim = UnjudgedClaim { line: self.step_line, claim: claim.to_owned() };
        self.unjudged_claims.push((kind, claim));
    }

    /// Lets the time pass in which a claim that is not judged would have been watched, so that the
    /// steps after it find the cluster as late as on other targets.
    pub(crate) async fn wait_unjudged(&mut self, when: Temporal) -> anyhow::Result<()> {
        match when {
            Temporal::NeverWithin(time) => self.run_for(time).await,
            Temporal::Settled
            | Temporal::Now
            | Temporal::EventuallyWithin(_)
            | Temporal::For(_)
            | Temporal::After(_) => self.expect(when, 0, &|_| Ok(())).await,
        }
    }

    /// The claims that were not judged so far.
    pub(crate) fn take_unjudged_claims(&mut self) -> Vec<(ClaimKind, UnjudgedClaim)> {
        std::mem::take(&mut self.unjudged_claims)
    }

    /// Adds a part with a title to the text that is compared with the case's snapshot; on a target
    /// that may place pods elsewhere, notes that it is not judged.
    pub(crate) fn add_snapshot_part(&mut self, title: &str, text: &str) {
        if self.target.matches_snapshots() {
            self.snapshot_parts.push(format!("## {title}\n\n{}\n", text.trim_end()));
        } else {
            self.note_unjudged_claim(ClaimKind::Snapshot, title);
        }
    }

    /// The texts that snapshot steps have added, in order.
    pub(crate) fn snapshot_parts(&self) -> &[String] {
        &self.snapshot_parts
    }
}
