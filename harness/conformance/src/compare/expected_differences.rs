//! Expected differences: scenarios that may differ, listed with reasons in a text file, one line
//! each: ``- `features/area/file.feature: name of the scenario` ``.

use std::collections::BTreeSet;

/// Ids of scenarios that may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedDifferences(BTreeSet<String>);

impl ExpectedDifferences {
    /// Parses a file of expected differences: lines such as ``- `ID` `` name a scenario, other
    /// lines are prose.
    pub fn parse(text: &str) -> Self {
        let id = |line: &str| Some(line.strip_prefix("- `")?.strip_suffix('`')?.to_owned());
        Self(text.lines().filter_map(id).collect())
    }

    /// Whether this scenario may differ.
    pub(crate) fn includes(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// The ids of all scenarios that may differ.
    pub fn case_ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}
