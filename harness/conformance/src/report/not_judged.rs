//! Claims of steps that a run left out of its verdict, because they are not about behaviour: the
//! words of a message, or a placement that is one of several valid ones.

use serde::{Deserialize, Serialize};

use super::{CaseReport, Report};
use crate::text::counted_noun;

/// A claim of a step that was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnjudgedClaim {
    /// Line of the step.
    pub line: usize,
    /// The claim: the quoted words, or the sentence of the step.
    pub claim: String,
}

/// What kind of claim a step makes besides those about behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimKind {
    /// The words of a reason, a message or an event.
    Wording,
    /// A snapshot of a placement or of events.
    Snapshot,
}

impl CaseReport {
    /// Notes a claim that was not judged; once, if a step is repeated.
    pub fn add_unjudged_claim(&mut self, kind: ClaimKind, claim: UnjudgedClaim) {
        let claims = match kind {
            ClaimKind::Wording => &mut self.wording_not_judged,
            ClaimKind::Snapshot => &mut self.snapshots_not_judged,
        };
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    }

    /// The words after the verdict of a case some claims of which were not judged; empty if all
    /// were.
    pub(super) fn not_judged_text(&self) -> String {
        let claims = [
            ("wording", self.wording_not_judged.len()),
            ("snapshots", self.snapshots_not_judged.len()),
        ];
        let some = claims.into_iter().filter(|(_, count)| *count > 0);
        let text = |(kind, count): (&str, usize)| {
            format!(", {kind}: not judged ({})", counted_noun(count, "claim"))
        };
        some.map(text).collect::<Vec<_>>().concat()
    }
}

/// The lines of the summary about claims that were not judged; empty if all were.
pub(super) fn summary_lines(report: &Report) -> String {
    let line = |kind: &str, claims: &dyn Fn(&CaseReport) -> usize| {
        let counts: Vec<usize> =
            report.cases.iter().map(claims).filter(|count| *count > 0).collect();
        if counts.is_empty() {
            return String::new();
        }
        let claims = counted_noun(counts.iter().sum(), "claim");
        format!("{kind}: not judged, {claims} of {}\n", counted_noun(counts.len(), "scenario"))
    };
    line("wording", &|case| case.wording_not_judged.len())
        + &line("snapshots", &|case| case.snapshots_not_judged.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CaseOutcome, tests::case};

    fn claim(line: usize) -> UnjudgedClaim {
        UnjudgedClaim { line, claim: "over quota".to_owned() }
    }

    #[test]
    fn unjudged_claims_are_counted_once_by_case_and_in_the_summary() {
        let mut judged = case(CaseOutcome::Passed, false, false);
        for line in [3, 4, 4] {
            judged.add_unjudged_claim(ClaimKind::Wording, claim(line));
        }
        assert_eq!(judged.not_judged_text(), ", wording: not judged (2 claims)");
        let mut other = case(CaseOutcome::Passed, false, false);
        assert_eq!(other.not_judged_text(), "");
        other.add_unjudged_claim(ClaimKind::Snapshot, claim(9));
        let report = Report { cases: vec![judged, other], ..Report::default() };
        insta::assert_snapshot!(summary_lines(&report), @r"
        wording: not judged, 2 claims of 1 scenario
        snapshots: not judged, 1 claim of 1 scenario
        ");
    }
}
