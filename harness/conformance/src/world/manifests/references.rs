//! References of rows to queues and nodes. A name that does not exist is most likely misspelt, so
//! it is an error unless the cell says that it is meant: `nowhere (missing)`.

use std::collections::BTreeSet;

use super::table::{Row, RowError};
use crate::text::{did_you_mean_suffix, shortened_name_list};

/// The end of a cell that refers, on purpose, to an object that does not exist.
const MISSING_SUFFIX: &str = " (missing)";

/// A queue or node to which a cell refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueOrNodeReference<'a> {
    /// The name of the queue or node.
    pub(crate) name: &'a str,
    /// Whether the queue or node must exist.
    presence: ReferencePresence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReferencePresence {
    Exists,
    Missing,
}

impl<'a> Row<'a> {
    /// The queue or node to which a cell refers; `None` if the column is absent or the cell is
    /// empty.
    pub(crate) fn reference(&self, column: &str) -> Option<QueueOrNodeReference<'a>> {
        let cell = self.cell(column)?;
        Some(match cell.strip_suffix(MISSING_SUFFIX) {
            Some(name) => QueueOrNodeReference { name, presence: ReferencePresence::Missing },
            None => QueueOrNodeReference { name: cell, presence: ReferencePresence::Exists },
        })
    }
}

/// Names of the queues and nodes of a cluster. `None` means that they are not known; then no
/// reference is rejected.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExistingNames {
    /// Names of the queues of the cluster.
    pub(crate) queues: Option<BTreeSet<String>>,
    /// Names of the nodes of the cluster.
    pub(crate) nodes: Option<BTreeSet<String>>,
}

impl ExistingNames {
    /// Checks that the queue and the node to which a row refers exist.
    pub(crate) fn check_row(&self, row: &Row<'_>) -> Result<(), RowError> {
        check_reference(row, "queue", self.queues.as_ref())?;
        check_reference(row, "node", self.nodes.as_ref())
    }
}

/// Checks the reference in a column, which has the name of the referenced kind.
fn check_reference(
    row: &Row<'_>,
    kind: &str,
    existing: Option<&BTreeSet<String>>,
) -> Result<(), RowError> {
    let (Some(reference), Some(existing)) = (row.reference(kind), existing) else { return Ok(()) };
    let name = reference.name;
    match (reference.presence, existing.contains(name)) {
        (ReferencePresence::Exists, true) | (ReferencePresence::Missing, false) => Ok(()),
        (ReferencePresence::Missing, true) => {
            let found = format!("{name}{MISSING_SUFFIX}");
            let allowed = format!("a {kind} that does not exist; did you mean `{name}`?");
            Err(row.cell_error(kind, &found, &allowed))
        }
        (ReferencePresence::Exists, false) => {
            let near = did_you_mean_suffix(name, existing.iter().map(String::as_str));
            let names = if existing.is_empty() {
                "there is none".to_owned()
            } else {
                shortened_name_list(existing.iter().map(String::as_str))
            };
            let write = if near.is_empty() { "; write" } else { " Write" };
            let allowed = format!(
                "a {kind} that exists: {names}{near}{write} `{name}{MISSING_SUFFIX}` if it must not exist"
            );
            Err(row.cell_error(kind, name, &allowed))
        }
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn check(cells: &[(&str, &str)]) -> String {
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let existing = ExistingNames { queues: names(&["team-a", "team-b"]), nodes: names(&[]) };
        let row = Row::from_cells("f.feature:3".to_owned(), cells);
        existing.check_row(&row).map_or_else(|error| error.to_string(), |()| "good".to_owned())
    }

    #[test]
    fn a_reference_must_exist_unless_its_cell_says_missing() {
        let messages = [
            check(&[("queue", "team-a"), ("node", "")]),
            check(&[("queue", "nowhere (missing)"), ("node", "n1 (missing)")]),
            check(&[("queue", "taem-a")]),
            check(&[("queue", "team-b (missing)")]),
            check(&[("node", "n1")]),
        ];
        assert_snapshot!(messages.join("\n"), @r"
        good
        good
        f.feature:3: column `queue`: got taem-a, expected a queue that exists: team-a, team-b; did you mean `team-a`? Write `taem-a (missing)` if it must not exist
        f.feature:3: column `queue`: got team-b (missing), expected a queue that does not exist; did you mean `team-b`?
        f.feature:3: column `node`: got n1, expected a node that exists: there is none; write `n1 (missing)` if it must not exist
        ");
    }

    #[test]
    fn unknown_names_are_not_checked() {
        let row = Row::from_cells("f.feature:3".to_owned(), &[("queue", "a"), ("node", "b")]);
        assert!(ExistingNames::default().check_row(&row).is_ok());
    }
}
