//! A comparison as one page: the figures, and plots over time with A beside B.

mod plot;
mod side_series;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::comparison::{self, ComparedFigure, Comparison};
use super::figure::Scope;
use super::results::Results;
use super::table::TableContext;
use plot::{Curve, lines, stacked};
use side_series::SideSeries;

/// Number of queues with a colour of their own in a plot.
const QUEUES_SHOWN: usize = 8;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
table { border-collapse: collapse; }
td, th { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; }
tr.better td { color: var(--good); } tr.worse td { color: var(--bad); }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; }
svg text { fill: currentColor; font: 11px system-ui, sans-serif; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; }
.kept { color: var(--good); } .broken { color: var(--bad); }
";

/// The page.
pub(super) fn page(
    comparison: &Comparison,
    context: &TableContext<'_>,
    results: &Results,
) -> String {
    let pairs = comparison::pairs(results);
    let a = SideSeries::mean_of(pairs.iter().filter_map(|pair| pair.a.series.as_ref()));
    let b = SideSeries::mean_of(pairs.iter().filter_map(|pair| pair.b.series.as_ref()));
    let header = context.header;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "schedlab compare" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Comparison of " code { (header.a) } " and " code { (header.b) } }
                p {
                    "A: " code { (header.a) } ", B: " code { (header.b) } "; "
                    (comparison.pairs) " seeds; differences beyond chance are marked, with "
                    (context.confidence_percent) " % confidence for all figures together."
                }
                @for verdict in context.verdicts {
                    p class=(if verdict.is_kept { "kept" } else { "broken" }) { (verdict) }
                }
                (plots(comparison, &a, &b))
                h2 { "Figures" }
                (figures(comparison))
            }
        }
    };
    page.into_string()
}

fn plots(comparison: &Comparison, a: &SideSeries, b: &SideSeries) -> Markup {
    let queues = SideSeries::largest_queues(&[a, b], QUEUES_SHOWN);
    let top = |series: fn(&SideSeries) -> &Vec<f64>| {
        let values = [a, b].map(series).into_iter().flatten();
        values.copied().fold(1.0, f64::max)
    };
    let used = top(|side| &side.used_gpus);
    let pending = top(|side| &side.pending_gpus);
    let pair = |plot: &dyn Fn(&SideSeries, &str) -> Markup| {
        html! { div.sides { (plot(a, "A")) (plot(b, "B")) } }
    };
    html! {
        h2 { "Over time" }
        p { "Means over the seeds." }
        h3 { "Used GPUs by queue" }
        p.key {
            @for (at, queue) in queues.iter().enumerate() {
                span style=(format!("background:{}", plot::colour(at))) {} (queue)
            }
            span style=(format!("background:{}", plot::OTHER)) {} "other queues"
        }
        (pair(&|side, name| stacked(name, side, &queues, used)))
        h3 { "GPUs that pending pods request" }
        (pair(&|side, name| {
            lines(name, &side.hours, &[Curve::of(0, &side.pending_gpus)], pending)
        }))
        h3 { "Fragmentation: free GPUs on nodes in use, in percent of free GPUs" }
        (pair(&|side, name| {
            lines(name, &side.hours, &[Curve::of(0, &side.fragmentation_percent)], 100.0)
        }))
        (marked_queues(comparison, a, b))
    }
}

/// The use of each queue that differs beyond chance, A and B in one plot.
fn marked_queues(comparison: &Comparison, a: &SideSeries, b: &SideSeries) -> Markup {
    let is_marked = |row: &&ComparedFigure| row.is_beyond_chance && row.key.scope == Scope::Queue;
    let mut marked: Vec<&str> =
        comparison.rows.iter().filter(is_marked).map(|row| row.key.of.as_str()).collect();
    marked.dedup();
    let plot = |queue: &str| {
        let (a_used, b_used) = (a.queue_used(queue), b.queue_used(queue));
        let top = a_used.iter().chain(&b_used).copied().fold(1.0, f64::max);
        lines(queue, &a.hours, &[Curve::of(0, &a_used), Curve::of(1, &b_used)], top)
    };
    html! {
        @if !marked.is_empty() {
            h3 { "Used GPUs of queues that differ beyond chance" }
            p.key {
                span style=(format!("background:{}", plot::colour(0))) {} "A"
                span style=(format!("background:{}", plot::colour(1))) {} "B"
            }
            div.sides { @for queue in marked { (plot(queue)) } }
        }
    }
}

fn figures(comparison: &Comparison) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th { "figure" } th { "A" } th { "B" } th { "B − A" } th { "95 % interval" }
                    th { "beyond chance" }
                }
            }
            tbody { @for row in &comparison.rows { (figure(row)) } }
        }
    }
}

fn figure(row: &ComparedFigure) -> Markup {
    let unit = row.key.figure.unit();
    let value = |value: Option<f64>| value.map_or("–".to_owned(), |value| unit.text(value));
    let class = match (row.is_beyond_chance, row.is_better()) {
        (true, true) => "better",
        (true, false) => "worse",
        (false, _) => "",
    };
    html! {
        tr class=(class) {
            td { (row.key.of) " " (row.key.figure.name()) }
            td { (value(row.mean_a())) }
            td { (value(row.mean_b())) }
            @if row.differences.is_empty() { td {} } @else {
                td { (unit.signed_text(row.difference())) }
            }
            @if row.differences.len() < 2 { td {} } @else {
                td {
                    (unit.signed_text(row.interval.low)) " … "
                    (unit.signed_text(row.interval.high))
                }
            }
            td { (class) }
        }
    }
}
