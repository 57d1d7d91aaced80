//! Baseline: an earlier run whose outcomes a new run must repeat.

use std::collections::BTreeMap;

use super::diff::{EventOrder, case_differences, cases_run, differences_text};
use super::expected_differences::ExpectedDifferences;
use crate::report::{CaseReport, Report};

/// An earlier run with which a run is compared.
#[derive(Clone, Debug)]
pub struct Baseline {
    title: String,
    cases: BTreeMap<String, CaseReport>,
    expected: ExpectedDifferences,
    order: EventOrder,
}

impl Baseline {
    /// A baseline with this title. Expected differences do not count, and if one of the runs is in
    /// real time, the order of events is ignored.
    pub fn new(
        title: &str,
        run: &Report,
        expected: ExpectedDifferences,
        order: EventOrder,
    ) -> Self {
        let order = if run.is_virtual_time() { order } else { EventOrder::Ignored };
        let cases = cases_run(run).map(|case| (case.id.clone(), case.clone())).collect();
        Self { title: title.to_owned(), cases, expected, order }
    }

    /// Title of the baseline run.
    pub fn run_title(&self) -> &str {
        &self.title
    }

    /// Whether the baseline ran this scenario.
    pub fn has_case(&self, id: &str) -> bool {
        self.cases.contains_key(id)
    }

    /// The differences of a scenario from the baseline as text; `None` if there are none. Lines
    /// with `-` are from the baseline.
    pub fn difference_from_baseline(&self, case: &CaseReport) -> Option<String> {
        let before = self.cases.get(&case.id).filter(|_| !self.expected.includes(&case.id))?;
        let found = case_differences(before, case, self.order);
        let message =
            || format!("differs from the baseline {}:\n{}", self.title, differences_text(&found));
        (!found.is_empty()).then(message)
    }
}
