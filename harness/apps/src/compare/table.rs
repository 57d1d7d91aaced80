//! A comparison as a table, as CSV and as JSON.

use std::fmt::Write as _;

use schedlab_conformance::report::Colors;
use schedlab_conformance::text::counted_noun;
use serde::Serialize;

use super::comparison::{ComparedFigure, Comparison};
use super::figure::Scope;
use super::promises::Verdict;
use super::results::{Results, ResultsHeader};
use crate::experiment::duration_text;
use crate::palette::Palette;

/// Which figures a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowChoice {
    /// Those of the fleet, and those beyond chance.
    Marked,
    /// All.
    All,
}

/// What a table shows beside the figures.
pub(super) struct TableContext<'a> {
    pub(super) header: &'a ResultsHeader,
    pub(super) confidence_percent: f64,
    pub(super) verdicts: &'a [Verdict],
    pub(super) rows: RowChoice,
}

/// The comparison as a table.
pub(super) fn to_text(
    comparison: &Comparison,
    context: &TableContext<'_>,
    colors: Colors,
) -> String {
    let palette = Palette::new(colors);
    let header = context.header;
    let mut text = String::new();
    let pairing = if header.is_paired { "the same arrivals in both" } else { "other seeds in B" };
    let _ = writeln!(text, "A: {}\nB: {}", header.a, header.b);
    let _ = writeln!(
        text,
        "{}, {pairing}; a seed varies the {}",
        counted_noun(comparison.pairs, "seed"),
        header.vary.name()
    );
    if let Some(resolution) = header.resolution_secs {
        let _ = writeln!(
            text,
            "a side ran in scaled real time: waits of both are multiples of {}",
            duration_text(resolution)
        );
    }
    let heads = ["A", "B", "B - A", "95 % interval"];
    let [a, b, difference, interval] = heads;
    let head = format!("\n{:<34} {a:>10} {b:>10} {difference:>11}   {interval}", "");
    let _ = writeln!(text, "{}", palette.bold.apply_to(head.trim_end()));
    let mut group = String::new();
    let is_shown = |row: &&ComparedFigure| {
        context.rows == RowChoice::All || row.is_beyond_chance || row.key.scope == Scope::Fleet
    };
    for row in comparison.rows.iter().filter(is_shown) {
        let title = group_title(row);
        if title != group {
            let _ = writeln!(text, "{}", palette.bold.apply_to(&title));
            group = title;
        }
        let _ = writeln!(text, "{}", row_text(row, &palette));
    }
    let _ = writeln!(text, "\n{}", summary_text(comparison, context));
    for verdict in context.verdicts {
        let style = if verdict.is_kept { &palette.good } else { &palette.bad };
        let _ = writeln!(text, "{}", style.apply_to(verdict));
    }
    text
}

fn group_title(row: &ComparedFigure) -> String {
    match row.key.scope {
        Scope::Fleet => "fleet".to_owned(),
        Scope::Size => format!("jobs with {}", row.key.of),
        Scope::Queue => format!("queue {}", row.key.of),
    }
}

fn row_text(row: &ComparedFigure, palette: &Palette) -> String {
    let unit = row.key.figure.unit();
    let value = |value: Option<f64>| value.map_or("-".to_owned(), |value| unit.text(value));
    let (a, b) = (value(row.mean_a()), value(row.mean_b()));
    let name = row.key.figure.name();
    if row.differences.is_empty() {
        return format!("  {name:<32} {a:>10} {b:>10}").trim_end().to_owned();
    }
    let difference = unit.signed_text(row.difference());
    let interval = if row.differences.len() < 2 {
        String::new()
    } else {
        let (low, high) = (row.interval.low, row.interval.high);
        format!("{} … {}", unit.signed_text(low), unit.signed_text(high))
    };
    let mark = match (row.is_beyond_chance, row.is_better()) {
        (true, true) => "  better",
        (true, false) => "  worse",
        (false, _) => "",
    };
    let line = format!("  {name:<32} {a:>10} {b:>10} {difference:>11}   {interval:<20}{mark}");
    let style = match (row.is_beyond_chance, row.is_better()) {
        (true, true) => &palette.good,
        (true, false) => &palette.bad,
        (false, _) => &palette.plain,
    };
    style.apply_to(line.trim_end()).to_string()
}

fn summary_text(comparison: &Comparison, context: &TableContext<'_>) -> String {
    let marked = comparison.rows.iter().filter(|row| row.is_beyond_chance).count();
    let all = comparison.rows.len();
    let confidence = context.confidence_percent;
    let beyond = format!(
        "{marked} of {all} figures differ beyond chance (with {confidence} % confidence for all of \
         them together)"
    );
    let rest = match context.rows {
        RowChoice::Marked => "; --all shows the others",
        RowChoice::All => "",
    };
    format!("{beyond}{rest}")
}

/// The comparison as CSV: one line a figure.
pub(super) fn to_csv(comparison: &Comparison) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in &comparison.rows {
        writer.serialize(CsvLine::new(row))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

#[derive(Serialize)]
struct CsvLine<'a> {
    scope: &'static str,
    of: &'a str,
    figure: &'static str,
    unit: &'static str,
    a: Option<f64>,
    b: Option<f64>,
    difference: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    probability: f64,
    beyond_chance: bool,
}

impl<'a> CsvLine<'a> {
    fn new(row: &'a ComparedFigure) -> Self {
        let has_interval = row.differences.len() >= 2;
        Self {
            scope: row.key.scope.name(),
            of: &row.key.of,
            figure: row.key.figure.name(),
            unit: row.key.figure.unit().name(),
            a: row.mean_a(),
            b: row.mean_b(),
            difference: (!row.differences.is_empty()).then(|| row.difference()),
            low: has_interval.then_some(row.interval.low),
            high: has_interval.then_some(row.interval.high),
            probability: row.probability,
            beyond_chance: row.is_beyond_chance,
        }
    }
}

#[derive(Serialize)]
struct JsonReport<'a> {
    header: &'a ResultsHeader,
    confidence_percent: f64,
    pairs: usize,
    figures: Vec<JsonFigure<'a>>,
    promises: &'a [Verdict],
    simulations: &'a Results,
}

#[derive(Serialize)]
struct JsonFigure<'a> {
    #[serde(flatten)]
    line: CsvLine<'a>,
    a_by_seed: &'a [Option<f64>],
    b_by_seed: &'a [Option<f64>],
}

/// The comparison as JSON, with the figures of each simulation.
pub(super) fn to_json(
    comparison: &Comparison,
    context: &TableContext<'_>,
    results: &Results,
) -> anyhow::Result<String> {
    fn figure(row: &ComparedFigure) -> JsonFigure<'_> {
        JsonFigure { line: CsvLine::new(row), a_by_seed: &row.a, b_by_seed: &row.b }
    }
    let report = JsonReport {
        header: context.header,
        confidence_percent: context.confidence_percent,
        pairs: comparison.pairs,
        figures: comparison.rows.iter().map(figure).collect(),
        promises: context.verdicts,
        simulations: results,
    };
    Ok(format!("{}\n", serde_json::to_string_pretty(&report)?))
}
