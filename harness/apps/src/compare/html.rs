//! A comparison as one page: the figures, and plots over time with A beside B.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use schedlab_view::drawing;
use schedlab_view::plot::{self, Plot, PlotShape};

use super::comparison::{self, ComparedFigure, Comparison};
use super::figure::Scope;
use super::results::Results;
use super::table::TableContext;
use crate::experiment::{QueueAmount, SeriesMeans};
use crate::plots;

/// The styles of this page alone.
const STYLES: &str = "
:root { --good: #1a7f37; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --bad: #ff7b72; } }
td, th { padding: .15rem .7rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
tr.better td, .kept { color: var(--good); } tr.worse td, .broken { color: var(--bad); }
";

/// The page.
pub(super) fn page(
    comparison: &Comparison,
    context: &TableContext<'_>,
    results: &Results,
) -> String {
    let pairs = comparison::pairs(results);
    let a = SeriesMeans::of(pairs.iter().filter_map(|pair| pair.a.series.as_ref()));
    let b = SeriesMeans::of(pairs.iter().filter_map(|pair| pair.b.series.as_ref()));
    let header = context.header;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "schedlab compare" }
                style { (PreEscaped(drawing::STYLES)) (PreEscaped(plot::STYLES)) (PreEscaped(STYLES)) }
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
                (over_time(comparison, &a, &b))
                h2 { "Figures" }
                (figures(comparison))
            }
        }
    };
    page.into_string()
}

fn over_time(comparison: &Comparison, a: &SeriesMeans, b: &SeriesMeans) -> Markup {
    let sides = |plot: &dyn Fn(&SeriesMeans) -> Plot| side_by_side([plot(a), plot(b)]);
    let shown = plots::queues_shown(&[a, b]);
    let queues = |amount| sides(&|side| plots::queues(side, &shown, amount));
    let mut all = Vec::new();
    all.extend(queues(QueueAmount::Used));
    all.extend(queues(QueueAmount::Pending));
    all.extend(sides(&plots::fragmentation));
    all.extend(marked_queues(comparison, a, b));
    html! {
        h2 { "Over time" }
        p { "Means over the seeds." }
        (plot::plots_grid(&all))
    }
}

/// The plots of A and B with one axis.
fn side_by_side([mut a, mut b]: [Plot; 2]) -> [Plot; 2] {
    let max = a.top().max(b.top());
    for (plot, side) in [(&mut a, "A"), (&mut b, "B")] {
        plot.title = format!("{side}: {}", plot.title);
        plot.max = Some(max);
    }
    [a, b]
}

/// The use of each queue that differs beyond chance, A and B in one plot.
fn marked_queues(comparison: &Comparison, a: &SeriesMeans, b: &SeriesMeans) -> Vec<Plot> {
    let is_marked = |row: &&ComparedFigure| row.is_beyond_chance && row.key.scope == Scope::Queue;
    let mut marked: Vec<&str> =
        comparison.rows.iter().filter(is_marked).map(|row| row.key.of.as_str()).collect();
    marked.dedup();
    let curve = |name: &str, side: &SeriesMeans, queue: &str| {
        plots::curve(name, side, &side.queue(queue, QueueAmount::Used))
    };
    let plot = |queue: &&str| Plot {
        title: format!("Used GPUs of {queue}"),
        description: "The queue differs beyond chance.".to_owned(),
        unit: "GPUs".to_owned(),
        max: None,
        shape: PlotShape::Lines,
        series: vec![curve("A", a, queue), curve("B", b, queue)],
    };
    marked.iter().map(plot).collect()
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
