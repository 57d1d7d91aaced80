//! A conformance report as text for people: a table of areas and levels, then each behaviour that
//! did not pass.

use std::fmt::Write as _;

use super::profile::{Area, Level};
use super::report::{
    AreaReport, AreaVerdict, ConformanceReport, Counts, LevelReport, ReportVerdict,
};
use crate::text::counted_noun;

/// Maximum number of lines of a failure message that are printed.
const MESSAGE_LINES_MAX: usize = 6;

/// The text of a report.
pub fn report_text(report: &ConformanceReport) -> String {
    let mut out = String::new();
    let version = report.implementation.version.as_deref().unwrap_or("(version not given)");
    let _ = writeln!(
        out,
        "{} {version}: {} ({})",
        report.implementation.name, report.profile.name, report.profile.title
    );
    let _ = writeln!(
        out,
        "Kubernetes {} on {}, suite {}\n",
        report.cluster.kubernetes_version, report.cluster.kind, report.suite.version
    );
    write_table(report, &mut out);
    for (area, results) in &report.areas {
        write_area(*area, results, &mut out);
    }
    let _ = writeln!(out, "\n{}", verdict_sentence(report));
    for command in &report.reproduce.commands {
        let _ = writeln!(out, "reproduce: {command}");
    }
    out
}

fn write_table(report: &ConformanceReport, out: &mut String) {
    let rows = report.areas.iter().map(|(area, results)| {
        [
            area.to_string(),
            counts_text(results.core.counts),
            counts_text(results.extended.counts),
            area_verdict_text(results.verdict).to_owned(),
        ]
    });
    let header = ["area", "core (MUST)", "extended (SHOULD, MAY)", "verdict"].map(str::to_owned);
    let rows: Vec<[String; 4]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..4).map(|column| width(column).unwrap_or(0)).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> =
            cells.map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    }
}

/// The counts of a level, such as `3 of 5, 1 failed, 1 unsupported`.
fn counts_text(counts: Counts) -> String {
    if counts.total == 0 {
        return "none".to_owned();
    }
    let mut text = format!("{} of {}", counts.passed, counts.total);
    let others = [
        (counts.failed, "failed"),
        (counts.skipped, "skipped"),
        (counts.unsupported, "unsupported"),
    ];
    for (count, word) in others.iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {word}");
    }
    text
}

fn area_verdict_text(verdict: AreaVerdict) -> &'static str {
    match verdict {
        AreaVerdict::Conformant => "conformant",
        AreaVerdict::Unsupported => "unsupported",
        AreaVerdict::NotConformant => "not conformant",
    }
}

fn write_area(area: Area, results: &AreaReport, out: &mut String) {
    for level in [Level::Core, Level::Extended] {
        let listed = results.level(level);
        let quiet = listed.counts.passed == listed.counts.total
            && (level == Level::Extended || listed.wording_not_judged.is_empty());
        if !quiet {
            let _ = writeln!(out, "\n{area} {level}");
            write_level(listed, out);
        }
    }
}

fn write_level(level: &LevelReport, out: &mut String) {
    for failed in &level.failed {
        let _ = writeln!(out, "  ✘ {}: {}", failed.id, failed.behaviour);
        for scenario in &failed.scenarios {
            let step = scenario.step.as_deref().unwrap_or(&scenario.name);
            let _ = writeln!(out, "      {step}  {}", scenario.location);
            for line in scenario.message.lines().take(MESSAGE_LINES_MAX) {
                let _ = writeln!(out, "        {line}");
            }
        }
        let _ = writeln!(out, "      reproduce: {}", failed.reproduce);
    }
    for skipped in &level.skipped {
        let _ = writeln!(out, "  - {}: skipped: {}", skipped.id, skipped.reason);
    }
    for unsupported in &level.unsupported {
        let capability = |one: &super::report::UnsupportedCapability| match &one.reason {
            Some(reason) => format!("{} ({reason})", one.name),
            None => one.name.clone(),
        };
        let lacks: Vec<String> = unsupported.capabilities.iter().map(capability).collect();
        let _ = writeln!(out, "  - {}: unsupported: {}", unsupported.id, lacks.join(", "));
    }
    let not_judged: usize = level.wording_not_judged.iter().map(|one| one.claims.len()).sum();
    if not_judged > 0 {
        let claims = counted_noun(not_judged, "claim");
        let _ = writeln!(out, "  wording not judged: {claims}");
    }
}

/// The numbers of core behaviours that did not pass, such as `2 core behaviours failed, 1 is
/// unsupported`.
fn core_results(report: &ConformanceReport) -> String {
    let sum = |of: fn(&Counts) -> usize| -> usize {
        report.areas.values().map(|area| of(&area.core.counts)).sum()
    };
    let (failed, skipped) = (sum(|one| one.failed), sum(|one| one.skipped));
    let unsupported = sum(|one| one.unsupported);
    let counts = [(failed, "failed"), (skipped, "skipped"), (unsupported, "unsupported")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    format!("of its core behaviours {}", counts.join(", "))
}

fn verdict_sentence(report: &ConformanceReport) -> String {
    let (name, profile) = (&report.implementation.name, &report.profile.name);
    if !report.profile.only.is_empty() {
        let behaviours = counted_noun(report.profile.only.len(), "behaviour");
        return format!("Only {behaviours} of {profile} ran: this is no verdict on {name}.");
    }
    match report.verdict.result {
        ReportVerdict::Conformant => format!("{name} is conformant to {profile}."),
        ReportVerdict::ConformantInAreas => {
            let areas: Vec<&str> =
                report.verdict.conformant_areas.iter().map(|area| area.name()).collect();
            format!(
                "{name} is conformant to {profile} in {}; it does not support the other areas.",
                areas.join(", ")
            )
        }
        ReportVerdict::NotConformant => {
            format!("{name} is not conformant to {profile}: {}.", core_results(report))
        }
    }
}
