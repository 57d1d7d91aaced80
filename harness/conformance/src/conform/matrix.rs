//! The matrix of behaviours by scheduler, as Markdown: from one report for each scheduler.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::profile::{Area, Level};
use super::report::{ConformanceReport, LevelReport};

/// The result of one behaviour with one scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    Passed,
    /// The text has the first failure and the command that repeats it.
    Failed(String),
    /// The text has the capability and the reason.
    Unsupported(String),
    /// The text has the reason.
    Skipped(String),
}

/// The matrix of the behaviours in these reports, which are on the same profile. `not_run` names
/// other schedulers, each with the reason why it has no report.
pub fn matrix_text(reports: &[ConformanceReport], not_run: &[(&str, &str)]) -> String {
    let mut text = "# Matrix of schedulers\n\n".to_owned();
    let _ = writeln!(
        text,
        "`schedlab conform --all-targets` wrote this page. `pass` means that every scenario of the \
         behaviour\npassed; each other cell is explained below the tables. \
         [What the failures are](failures.md) says\nfor each whose it is.\n"
    );
    text.push_str(
        "| scheduler | Kubernetes | cluster | passed | failed | skipped | unsupported |\n",
    );
    text.push_str("|---|---|---|--:|--:|--:|--:|\n");
    for report in reports {
        text.push_str(&summary_row(report));
    }
    for (scheduler, _) in not_run {
        let _ = writeln!(text, "| {scheduler} | – | not run | | | | |");
    }
    for (scheduler, reason) in not_run {
        let _ = writeln!(text, "\n{scheduler} was not run: {reason}.");
    }
    let mut notes = Vec::new();
    let areas: std::collections::BTreeSet<Area> =
        reports.iter().flat_map(|report| report.areas.keys().copied()).collect();
    for area in areas {
        for level in [Level::Core, Level::Extended] {
            text.push_str(&level_table(area, level, reports, &mut notes));
        }
    }
    for (number, note) in notes.iter().enumerate() {
        if number == 0 {
            text.push_str("\n## Why a behaviour did not pass\n\n");
        }
        let _ = writeln!(text, "{}. {note}", number + 1);
    }
    text
}

/// The name of a scheduler with its version.
fn scheduler_title(report: &ConformanceReport) -> String {
    let version = report.implementation.version.as_ref();
    let version = version.map_or(String::new(), |version| format!(" {version}"));
    format!("{}{version}", report.implementation.name)
}

fn summary_row(report: &ConformanceReport) -> String {
    let levels = || report.areas.values().flat_map(|area| [&area.core, &area.extended]);
    let sum = |count: fn(&LevelReport) -> usize| levels().map(count).sum::<usize>();
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        scheduler_title(report),
        report.cluster.kubernetes_version,
        report.cluster.kind,
        sum(|level| level.counts.passed),
        sum(|level| level.counts.failed),
        sum(|level| level.counts.skipped),
        sum(|level| level.counts.unsupported),
    )
}

/// The table of one level of an area; empty if no report has a behaviour there.
fn level_table(
    area: Area,
    level: Level,
    reports: &[ConformanceReport],
    notes: &mut Vec<String>,
) -> String {
    let mut rows: BTreeMap<&str, (&str, BTreeMap<usize, Cell>)> = BTreeMap::new();
    for (column, report) in reports.iter().enumerate() {
        let Some(results) = report.areas.get(&area).map(|area| area.level(level)) else { continue };
        for (id, behaviour, cell) in cells(results) {
            rows.entry(id).or_insert_with(|| (behaviour, BTreeMap::new())).1.insert(column, cell);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let titles: Vec<String> = reports.iter().map(scheduler_title).collect();
    let mut text = format!("\n## {area}: {level}\n\n| behaviour | {} |\n", titles.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(reports.len()));
    for (id, (behaviour, cells)) in rows {
        let _ = write!(text, "| {behaviour} (`{id}`) |");
        for (column, title) in titles.iter().enumerate() {
            let word = cells
                .get(&column)
                .map_or_else(String::new, |cell| cell_word(cell, notes, id, title));
            let _ = write!(text, " {word} |");
        }
        text.push('\n');
    }
    text
}

/// The word for a cell, with the number of the note that explains it. Cells that have the same
/// reason why a scheduler does not support them share a note.
fn cell_word(cell: &Cell, notes: &mut Vec<String>, id: &str, scheduler: &str) -> String {
    let (word, note) = match cell {
        Cell::Passed => return "pass".to_owned(),
        Cell::Failed(why) => ("**fail**", format!("`{id}`, {scheduler}: {why}")),
        Cell::Unsupported(why) => ("unsupported", format!("{scheduler}: {why}")),
        Cell::Skipped(why) => ("skipped", format!("{scheduler}: {why}")),
    };
    let known = notes.iter().position(|known| *known == note);
    let number = known.map_or_else(
        || {
            notes.push(note);
            notes.len()
        },
        |index| index + 1,
    );
    format!("{word} ({number})")
}

/// The behaviours of a level, each with its id, its sentence and its result.
fn cells(level: &LevelReport) -> impl Iterator<Item = (&str, &str, Cell)> {
    let passed = level.passed.iter().map(|one| (&*one.id, &*one.behaviour, Cell::Passed));
    let failed = level.failed.iter().map(|one| {
        let first = one.scenarios.first();
        let message =
            first.and_then(|scenario| scenario.message.lines().next()).unwrap_or_default();
        let why = format!("{message}; `{}`", one.reproduce);
        (&*one.id, &*one.behaviour, Cell::Failed(why))
    });
    let skipped = level
        .skipped
        .iter()
        .map(|one| (&*one.id, &*one.behaviour, Cell::Skipped(one.reason.clone())));
    let unsupported = level.unsupported.iter().map(|one| {
        let capabilities = one.capabilities.iter().map(|capability| match &capability.reason {
            Some(reason) => format!("no {}: {reason}", capability.name),
            None => format!("no {}", capability.name),
        });
        let why = capabilities.collect::<Vec<_>>().join("; ");
        (&*one.id, &*one.behaviour, Cell::Unsupported(why))
    });
    passed.chain(failed).chain(skipped).chain(unsupported)
}

#[cfg(test)]
mod tests {
    use super::super::report::{
        AreaReport, AreaVerdict, BehaviourName, ClusterIdentity, Counts, FailedBehaviour,
        FailedScenario, Implementation, ProfileIdentity, ReportVerdict, Reproduce, SuiteIdentity,
        Verdict,
    };
    use super::*;

    fn report(name: &str, core: LevelReport) -> ConformanceReport {
        let area = AreaReport {
            verdict: AreaVerdict::NotConformant,
            core,
            extended: LevelReport::default(),
        };
        ConformanceReport {
            schema_version: String::new(),
            implementation: Implementation {
                name: name.to_owned(),
                version: Some("v1".to_owned()),
                scheduler: name.to_owned(),
                capabilities: None,
            },
            profile: ProfileIdentity {
                name: "p".to_owned(),
                title: String::new(),
                only: Vec::new(),
            },
            suite: SuiteIdentity { version: String::new(), digest: String::new(), seed: 1 },
            cluster: ClusterIdentity {
                kind: "control-plane".to_owned(),
                kubernetes_version: "v1.37.2".to_owned(),
                feature_gates: String::new(),
            },
            date: String::new(),
            verdict: Verdict {
                result: ReportVerdict::NotConformant,
                conformant_areas: Vec::new(),
                reasons: Vec::new(),
            },
            areas: BTreeMap::from([(Area::Gang, area)]),
            reproduce: Reproduce { commands: Vec::new() },
        }
    }

    #[test]
    fn each_cell_that_is_no_pass_has_a_note() {
        let behaviour = "A gang waits whole".to_owned();
        let passed =
            vec![BehaviourName { id: "gang.waits".to_owned(), behaviour: behaviour.clone() }];
        let scenario = FailedScenario {
            name: "s".to_owned(),
            location: "f:1".to_owned(),
            step: None,
            message: "got 3, expected 0\nmore".to_owned(),
        };
        let failed = vec![FailedBehaviour {
            id: "gang.waits".to_owned(),
            behaviour,
            scenarios: vec![scenario],
            reproduce: "schedlab conform --only gang.waits".to_owned(),
        }];
        let counts = |passed, failed| Counts { total: 1, passed, failed, ..Counts::default() };
        let good = LevelReport { counts: counts(1, 0), passed, ..LevelReport::default() };
        let bad = LevelReport { counts: counts(0, 1), failed, ..LevelReport::default() };
        let text =
            matrix_text(&[report("good", good), report("bad", bad)], &[("late v2", "it is late")]);
        assert!(text.contains("| good v1 | v1.37.2 | control-plane | 1 | 0 | 0 | 0 |"), "{text}");
        assert!(text.contains("| late v2 | – | not run | | | | |"), "{text}");
        assert!(text.contains("\nlate v2 was not run: it is late.\n"), "{text}");
        let row = "| A gang waits whole (`gang.waits`) | pass | **fail** (1) |";
        assert!(text.contains(row), "{text}");
        let note =
            "1. `gang.waits`, bad v1: got 3, expected 0; `schedlab conform --only gang.waits`";
        assert!(text.contains(note), "{text}");
    }
}
