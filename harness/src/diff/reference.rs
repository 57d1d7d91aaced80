//! An earlier run as the measure of a new one: each scenario must show what it showed there.

use std::collections::BTreeMap;

use super::{CaseReport, Known, Order, Report, differences, ran, text};

/// An earlier run that new ones are held against.
#[derive(Clone, Debug)]
pub struct Reference {
    title: String,
    cases: BTreeMap<String, CaseReport>,
    known: Known,
    order: Order,
}

impl Reference {
    /// A run called so; what differs on a cluster whose `order` is chance, or for a known reason,
    /// does not count.
    pub fn new(title: &str, run: &Report, known: Known, order: Order) -> Self {
        let order = if run.is_virtual() { order } else { Order::IsChance };
        let cases = ran(run).map(|case| (case.id.clone(), case.clone())).collect();
        Self { title: title.to_owned(), cases, known, order }
    }

    /// What the run is called.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Whether a scenario was run there.
    pub fn has(&self, id: &str) -> bool {
        self.cases.contains_key(id)
    }

    /// What of a scenario is not as it was there, for people; `-` is the earlier run.
    pub fn unlike(&self, case: &CaseReport) -> Option<String> {
        let before = self.cases.get(&case.id).filter(|_| !self.known.names(&case.id))?;
        let found = differences(before, case, self.order);
        let told = || format!("not as in {}:\n{}", self.title, text::told(&found));
        (!found.is_empty()).then(told)
    }
}
