//! References of rows to queues and nodes. A name that does not exist is most likely misspelt, so it
//! is an error unless the cell says that it is meant: `nowhere (missing)`.

use std::collections::BTreeSet;

use super::table::{Row, RowError};
use crate::text::{did_you_mean, name_list};

/// The end of a cell that names an object which does not exist, on purpose.
const MISSING: &str = " (missing)";

/// A queue or node to which a cell refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Whether it must exist.
    presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Exists,
    Missing,
}

impl<'a> Row<'a> {
    /// The object that a cell names; `None` when the column is absent or the cell is empty.
    pub(crate) fn reference(&self, column: &str) -> Option<Reference<'a>> {
        let cell = self.cell(column)?;
        Some(match cell.strip_suffix(MISSING) {
            Some(name) => Reference { name, presence: Presence::Missing },
            None => Reference { name: cell, presence: Presence::Exists },
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
    /// Checks the queue and the node of a row.
    pub(crate) fn check(&self, row: &Row<'_>) -> Result<(), RowError> {
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
        (Presence::Exists, true) | (Presence::Missing, false) => Ok(()),
        (Presence::Missing, true) => {
            let found = format!("{name}{MISSING}");
            let allowed = format!("a {kind} that does not exist; did you mean `{name}`?");
            Err(row.error(kind, &found, &allowed))
        }
        (Presence::Exists, false) => {
            let near = did_you_mean(name, existing.iter().map(String::as_str));
            let names = if existing.is_empty() {
                "there is none".to_owned()
            } else {
                name_list(existing.iter().map(String::as_str))
            };
            let write = if near.is_empty() { "; write" } else { " Write" };
            let allowed = format!(
                "a {kind} that exists: {names}{near}{write} `{name}{MISSING}` if it must not exist"
            );
            Err(row.error(kind, name, &allowed))
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
        let row = Row::inline("f.feature:3".to_owned(), cells);
        existing.check(&row).map_or_else(|error| error.to_string(), |()| "good".to_owned())
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
        let row = Row::inline("f.feature:3".to_owned(), &[("queue", "a"), ("node", "b")]);
        assert!(ExistingNames::default().check(&row).is_ok());
    }
}
