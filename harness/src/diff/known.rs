//! Scenarios that may differ, by a file that says why: in any text, a line for each,
//! ``- `features/area/file.feature: name of the scenario` ``.

use std::collections::BTreeSet;

/// The ids of scenarios that may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known(BTreeSet<String>);

impl Known {
    /// Reads the lines that name a scenario; the others are for people.
    pub fn read(text: &str) -> Self {
        let id = |line: &str| Some(line.strip_prefix("- `")?.strip_suffix('`')?.to_owned());
        Self(text.lines().filter_map(id).collect())
    }

    /// Whether this scenario may.
    pub fn names(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// All of them.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}
