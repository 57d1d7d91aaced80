//! A comparison for people: `-` is the first run, `+` the second.

use std::fmt::Write as _;

use super::{Diff, Difference};

/// How many names of scenarios are listed.
const LISTED_MAX: usize = 10;

/// The text; `a` and `b` say which runs they are.
pub fn text(diff: &Diff, a: &str, b: &str) -> String {
    let mut out = format!("- {a}\n+ {b}\n");
    let known = diff.known.iter().map(|case| (case, "  (known)"));
    for (case, word) in diff.differ.iter().map(|case| (case, "")).chain(known) {
        let name = case.id.split_once(": ").map_or(&*case.id, |(_, name)| name);
        let _ = write!(out, "\n{}  {name}{word}\n", case.place);
        out.push_str(&told(&case.differences));
    }
    alone(&mut out, "- only here:", &diff.only_a);
    alone(&mut out, "+ only here:", &diff.only_b);
    alone(&mut out, "- skipped in the other:", &diff.skipped_b);
    alone(&mut out, "+ skipped in the other:", &diff.skipped_a);
    let known = match diff.known.len() {
        0 => String::new(),
        known => format!("{known} different for a known reason, "),
    };
    let skipped = match diff.skipped_a.len() + diff.skipped_b.len() {
        0 => String::new(),
        skipped => format!(", {skipped} skipped in one of them"),
    };
    let _ = writeln!(
        out,
        "\nscenarios: {} different, {known}{} equal, {} in the first run alone, {} in the second alone{skipped}",
        diff.differ.len(),
        diff.equal,
        diff.only_a.len(),
        diff.only_b.len()
    );
    out
}

/// What differs in one scenario.
pub(super) fn told(differences: &[Difference]) -> String {
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

fn alone(out: &mut String, words: &str, ids: &[String]) {
    if ids.is_empty() {
        return;
    }
    out.push('\n');
    for id in ids.iter().take(LISTED_MAX) {
        let _ = writeln!(out, "{words} {id}");
    }
    if ids.len() > LISTED_MAX {
        let _ = writeln!(out, "{words} {} more", ids.len() - LISTED_MAX);
    }
}
