//! Text of a comparison: `-` is the first run, `+` the second.

use std::fmt::Write as _;

use super::{Difference, RunDiff};

/// Maximum number of scenario ids that are listed.
const LISTED_IDS_MAX: usize = 10;

/// The comparison as text; `title_a` and `title_b` are the titles of the runs.
pub fn diff_text(diff: &RunDiff, title_a: &str, title_b: &str) -> String {
    let mut out = format!("- {title_a}\n+ {title_b}\n");
    let known = diff.expected.iter().map(|case| (case, "  (expected)"));
    for (case, word) in diff.differ.iter().map(|case| (case, "")).chain(known) {
        let name = case.id.split_once(": ").map_or(&*case.id, |(_, name)| name);
        let _ = write!(out, "\n{}  {name}{word}\n", case.location);
        out.push_str(&differences_text(&case.differences));
    }
    list_case_ids(&mut out, "- only here:", &diff.only_a);
    list_case_ids(&mut out, "+ only here:", &diff.only_b);
    list_case_ids(&mut out, "- skipped in the other:", &diff.skipped_b);
    list_case_ids(&mut out, "+ skipped in the other:", &diff.skipped_a);
    let known = match diff.expected.len() {
        0 => String::new(),
        known => format!("{known} different as expected, "),
    };
    let skipped = match diff.skipped_a.len() + diff.skipped_b.len() {
        0 => String::new(),
        skipped => format!(", {skipped} skipped in one of them"),
    };
    let _ = writeln!(
        out,
        "\nscenarios: {} different, {known}{} equal, {} in the first run only, {} in the second \
         only{skipped}",
        diff.differ.len(),
        diff.equal,
        diff.only_a.len(),
        diff.only_b.len()
    );
    out
}

/// The differences of one scenario as text.
pub(in crate::compare) fn differences_text(differences: &[Difference]) -> String {
    let mut out = String::new();
    for difference in differences {
        let _ = writeln!(out, "  {}", difference.about);
        for line in &difference.a {
            let _ = writeln!(out, "    - {line}");
        }
        for line in &difference.b {
            let _ = writeln!(out, "    + {line}");
        }
    }
    out
}

fn list_case_ids(out: &mut String, heading: &str, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    out.push('\n');
    for id in ids.iter().take(LISTED_IDS_MAX) {
        let _ = writeln!(out, "{heading} {id}");
    }
    if ids.len() > LISTED_IDS_MAX {
        let _ = writeln!(out, "{heading} {} more", ids.len() - LISTED_IDS_MAX);
    }
}
