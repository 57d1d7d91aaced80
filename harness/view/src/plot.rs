//! Plots of quantities over time, such as the utilisation of a simulated fleet, as inline SVG. Each
//! series has its own pattern besides its colour, and the values are also in a table. A plot needs
//! no script.

mod scale;

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::drawing;
use scale::{Scale, time_ticks, value_ticks};

pub use scale::time_text;

/// The styles of a page with plots.
pub const STYLES: &str = include_str!("assets/plot.css");

/// Number of colours and patterns in `plot.css`. Later series share them.
const STYLE_COUNT: usize = 8;

/// Maximum number of rows of the table with the values of a plot.
const TABLE_ROWS_MAX: usize = 24;

/// Size of a plot in units of its `viewBox`, and the space around the lines.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 28.0;

/// A plot of quantities over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What is shown, such as `GPUs in use by queue`.
    pub title: String,
    /// One sentence that says how the plot is to be read.
    pub description: String,
    /// Unit of the values, such as `GPUs`, `%` or `s`.
    pub unit: String,
    /// The top of the vertical axis; `None` is the largest value.
    pub max: Option<f64>,
    /// How the series are drawn.
    pub shape: PlotShape,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
}

/// How the series of a plot are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotShape {
    /// One line for each series.
    Lines,
    /// Areas on top of each other: the upper edge is the sum.
    StackedAreas,
}

/// A quantity over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Its values, ordered by time. A value holds until the next one.
    pub points: Vec<Point>,
}

/// A value from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds since the start.
    pub seconds: f64,
    /// The value.
    pub value: f64,
}

impl Plot {
    /// The largest value: of a series, or of the sum of all that are stacked.
    pub fn top(&self) -> f64 {
        largest(self, &times_of(self, end_of(self)))
    }
}

impl Series {
    /// The value at a time; `None` before the first point.
    pub fn value_at(&self, seconds: f64) -> Option<f64> {
        let end = self.points.partition_point(|point| point.seconds <= seconds);
        self.points.get(end.checked_sub(1)?).map(|point| point.value)
    }

    /// The mean over the time from the first point to `end`.
    pub fn mean_until(&self, end: f64) -> f64 {
        let Some(first) = self.points.first() else { return 0.0 };
        let next = self.points.iter().skip(1).map(|point| point.seconds).chain([end]);
        let sums = self.points.iter().zip(next).fold((0.0, 0.0), |(sum, time), (point, next)| {
            let held = (next.min(end) - point.seconds).max(0.0);
            (sum + point.value * held, time + held)
        });
        if sums.1 > 0.0 { sums.0 / sums.1 } else { first.value }
    }

    fn extreme(&self, choose: fn(f64, f64) -> f64) -> f64 {
        self.points.iter().map(|point| point.value).reduce(choose).unwrap_or(0.0)
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.extreme(f64::max)
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.extreme(f64::min)
    }
}

/// A page with plots that works offline. `text` stands above the plots as it is.
pub fn plots_page(title: &str, text: &str, plots: &[Plot]) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                  form-action 'none'";
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(drawing::STYLES)) (PreEscaped(STYLES)) }
            }
            body {
                header { h1 { (title) } }
                main {
                    @if !text.is_empty() { pre tabindex="0" { (text.trim_end()) } }
                    (plots_grid(plots))
                }
            }
        }
    };
    page.into_string()
}

/// Several plots beside each other, for a page that has [`STYLES`]. A page has one grid, because
/// the ids of the plots are numbered.
pub fn plots_grid(plots: &[Plot]) -> Markup {
    html! {
        div .plots {
            @for (index, plot) in plots.iter().enumerate() { (figure(plot, &format!("plot-{index}"))) }
        }
    }
}

/// A plot with its legend and its table. `id` must be unique in the page.
pub fn figure(plot: &Plot, id: &str) -> Markup {
    let plot = with_finite_points(plot);
    let end = end_of(&plot);
    html! {
        figure .plot aria-labelledby=(format!("{id}-caption")) {
            figcaption id=(format!("{id}-caption")) { strong { (plot.title) } " (" (plot.unit) ")" }
            p .note { (plot.description) }
            @if plot.series.iter().all(|series| series.points.is_empty()) {
                p { "There are no values." }
            } @else {
                (drawing_of(&plot, id, end))
                (legend(&plot, id))
                (table(&plot, end))
            }
        }
    }
}

fn with_finite_points(plot: &Plot) -> Plot {
    let mut plot = plot.clone();
    for series in &mut plot.series {
        series.points.retain(|point| point.seconds.is_finite() && point.value.is_finite());
        series.points.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    }
    plot
}

/// The time of the last point.
fn end_of(plot: &Plot) -> f64 {
    let last = plot.series.iter().filter_map(|series| series.points.last());
    last.map(|point| point.seconds).fold(0.0, f64::max)
}

/// All times at which a series changes, or as many as the plot has columns.
fn times_of(plot: &Plot, end: f64) -> Vec<f64> {
    let points = plot.series.iter().flat_map(|series| &series.points);
    let mut times: Vec<f64> = points.map(|point| point.seconds).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let columns = column_count();
    if times.len() <= columns {
        return times;
    }
    let begin = times.first().copied().unwrap_or(0.0);
    (0..=columns).map(|index| begin + (end - begin) * fraction(index, columns)).collect()
}

/// Twice the width of the plot, so that no column is wider than a point of a fine screen.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the width is a small positive constant"
)]
fn column_count() -> usize {
    (2.0 * WIDTH) as usize
}

#[expect(clippy::cast_precision_loss, reason = "numbers of columns and rows are small")]
fn fraction(index: usize, count: usize) -> f64 {
    if count == 0 { 0.0 } else { index as f64 / count as f64 }
}

/// The largest value of the plot at these times.
fn largest(plot: &Plot, times: &[f64]) -> f64 {
    match plot.shape {
        PlotShape::Lines => plot.series.iter().map(Series::max).fold(0.0, f64::max),
        PlotShape::StackedAreas => {
            let sum = |time: &f64| -> f64 {
                plot.series.iter().filter_map(|series| series.value_at(*time)).sum()
            };
            times.iter().map(sum).fold(0.0, f64::max)
        }
    }
}

fn drawing_of(plot: &Plot, id: &str, end: f64) -> Markup {
    let times = times_of(plot, end);
    let top = plot.max.unwrap_or_else(|| largest(plot, &times));
    let ticks = value_ticks(top);
    let top = ticks.last().copied().unwrap_or(1.0).max(top);
    let x = Scale { from: 0.0, to: end.max(1.0), low: LEFT, high: WIDTH - RIGHT };
    let y = Scale { from: 0.0, to: top, low: HEIGHT - BOTTOM, high: TOP };
    let paths = match plot.shape {
        PlotShape::Lines => lines(plot, x, y),
        PlotShape::StackedAreas => areas(plot, id, &times, x, y),
    };
    let (title_id, desc_id) = (format!("{id}-title"), format!("{id}-desc"));
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-labelledby=(format!("{title_id} {desc_id}")) {
            title id=(title_id) { (plot.title) }
            desc id=(desc_id) { (spoken(plot, end)) }
            @if plot.shape == PlotShape::StackedAreas { (patterns(plot, id)) }
            g .axis {
                @for tick in &ticks {
                    line x1=(LEFT) x2=(WIDTH - RIGHT) y1=(round(y.at(*tick))) y2=(round(y.at(*tick))) {}
                    text x=(LEFT - 6.0) y=(round(y.at(*tick) + 4.0)) text-anchor="end" { (value_text(*tick)) }
                }
                @for tick in time_ticks(end.max(1.0)) {
                    line x1=(round(x.at(tick))) x2=(round(x.at(tick))) y1=(HEIGHT - BOTTOM) y2=(HEIGHT - BOTTOM + 4.0) {}
                    text x=(round(x.at(tick))) y=(HEIGHT - BOTTOM + 18.0) text-anchor="middle" { (time_text(tick)) }
                }
            }
            (paths)
        }
    }
}

/// The plot in words: each series with its mean, range and last value.
fn spoken(plot: &Plot, end: f64) -> String {
    let mut text = format!("{} From 0 to {}.", plot.description, time_text(end));
    for series in plot.series.iter().filter(|series| !series.points.is_empty()) {
        let _ = write!(
            text,
            " {}: mean {}, from {} to {}, at the end {} {}.",
            series.name,
            value_text(series.mean_until(end)),
            value_text(series.min()),
            value_text(series.max()),
            value_text(series.points.last().map_or(0.0, |point| point.value)),
            plot.unit,
        );
    }
    text
}

fn lines(plot: &Plot, x: Scale, y: Scale) -> Markup {
    html! {
        @for (index, series) in plot.series.iter().enumerate() {
            path class=(format!("line s{}", index % STYLE_COUNT)) d=(line_path(series, x, y)) {}
        }
    }
}

/// A path that holds each value until the next. Of several points in a column of the plot, the
/// smallest and the largest are drawn, so that no peak is lost.
fn line_path(series: &Series, x: Scale, y: Scale) -> String {
    let mut path = String::new();
    let mut points = series.points.iter().peekable();
    while let Some(first) = points.next() {
        let at = half(x.at(first.seconds));
        let (mut low, mut high, mut last) = (first.value, first.value, first.value);
        while let Some(next) = points.next_if(|next| half(x.at(next.seconds)) <= at) {
            (low, high, last) = (low.min(next.value), high.max(next.value), next.value);
        }
        if path.is_empty() {
            let _ = write!(path, "M{at} {}", round(y.at(first.value)));
        } else {
            let _ = write!(path, "H{at}");
        }
        for value in [low, high, last] {
            let _ = write!(path, "V{}", round(y.at(value)));
        }
    }
    let _ = write!(path, "H{}", x.high);
    path
}

fn areas(plot: &Plot, id: &str, times: &[f64], x: Scale, y: Scale) -> Markup {
    let mut below = vec![0.0; times.len()];
    let mut paths = Vec::new();
    for series in &plot.series {
        let above: Vec<f64> = times
            .iter()
            .zip(&below)
            .map(|(time, base)| base + series.value_at(*time).unwrap_or(0.0).max(0.0))
            .collect();
        paths.push(area_path(times, &below, &above, &[x, y]));
        below = above;
    }
    html! {
        @for (index, path) in paths.iter().enumerate() {
            path .area fill=(format!("url(#{id}-p{})", index % STYLE_COUNT)) d=(path) {}
        }
    }
}

/// The area between two edges, each of which holds its value until the next time.
fn area_path(times: &[f64], below: &[f64], above: &[f64], [x, y]: &[Scale; 2]) -> String {
    let mut path = String::new();
    for (index, (time, value)) in times.iter().zip(above).enumerate() {
        let (at, to) = (half(x.at(*time)), round(y.at(*value)));
        let _ = if index == 0 { write!(path, "M{at} {to}") } else { write!(path, "H{at}V{to}") };
    }
    let _ = write!(path, "H{}", x.high);
    for (time, value) in times.iter().zip(below).rev() {
        let _ = write!(path, "V{}H{}", round(y.at(*value)), half(x.at(*time)));
    }
    path + "Z"
}

/// A pattern for each series, in its colour: stripes, dots or a grid.
fn patterns(plot: &Plot, id: &str) -> Markup {
    const SHAPES: [&str; STYLE_COUNT] = [
        "",
        "M-2 2L2-2M0 8L8 0M6 10L10 6",
        "M4 3A1 1 0 1 0 4 5A1 1 0 1 0 4 3",
        "M0 4H8",
        "M4 0V8",
        "M-2 6L2 10M0 0L8 8M6-2L10 2",
        "M0 4H8M4 0V8",
        "M0 0L8 8M8 0L0 8",
    ];
    html! {
        defs {
            @for index in 0..plot.series.len().min(STYLE_COUNT) {
                pattern id=(format!("{id}-p{index}")) width="8" height="8" patternUnits="userSpaceOnUse" {
                    rect class=(format!("fill s{index}")) width="8" height="8" {}
                    path .texture d=(SHAPES[index]) {}
                }
            }
        }
    }
}

fn legend(plot: &Plot, id: &str) -> Markup {
    html! {
        ul .legend {
            @for (index, series) in plot.series.iter().enumerate() {
                @let style = index % STYLE_COUNT;
                li {
                    svg width="28" height="14" viewBox="0 0 28 14" aria-hidden="true" {
                        @match plot.shape {
                            PlotShape::Lines => path class=(format!("line s{style}")) d="M0 7H28" {},
                            PlotShape::StackedAreas => rect .area width="28" height="14" fill=(format!("url(#{id}-p{style})")) {},
                        }
                    }
                    " " (series.name)
                }
            }
        }
    }
}

/// The values as a table, with at most [`TABLE_ROWS_MAX`] rows.
fn table(plot: &Plot, end: f64) -> Markup {
    let times = times_of(plot, end);
    let rows = times.len().min(TABLE_ROWS_MAX);
    let shown = (0..rows).map(|row| times[row * (times.len() - 1) / (rows - 1).max(1)]);
    let named = plot.series.iter().map(|series| format!("{} ({})", series.name, plot.unit));
    let columns = std::iter::once("Time".to_owned()).chain(named);
    let mean = row("mean", plot.series.iter().map(|series| value_text(series.mean_until(end))));
    let at = |time: f64| {
        let values = plot.series.iter().map(|series| series.value_at(time));
        row(&time_text(time), values.map(|value| value.map(value_text).unwrap_or_default()))
    };
    let rows = std::iter::once(mean).chain(shown.map(at));
    html! {
        details {
            summary { "Values as a table" }
            (drawing::table(&format!("Values of {}", plot.title), columns, rows))
        }
    }
}

/// A row of a table: what it is, and its values.
fn row(title: &str, values: impl Iterator<Item = String>) -> Markup {
    html! { tr { th scope="row" { (title) } @for value in values { td { (value) } } } }
}

/// A number with as many decimals as its size needs.
fn value_text(value: f64) -> String {
    let decimals = match value.abs() {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A coordinate with one decimal.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A coordinate on a grid of half units, which are the columns of the plot.
fn half(value: f64) -> f64 {
    (value * 2.0).round() / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, points: &[[f64; 2]]) -> Series {
        let point = |[seconds, value]: &[f64; 2]| Point { seconds: *seconds, value: *value };
        Series { name: name.to_owned(), points: points.iter().map(point).collect() }
    }

    fn plot(shape: PlotShape, series: Vec<Series>) -> Plot {
        Plot {
            title: "GPUs in use".to_owned(),
            description: "By queue.".to_owned(),
            unit: "GPUs".to_owned(),
            max: None,
            shape,
            series,
        }
    }

    #[test]
    fn a_value_holds_until_the_next() {
        let used = series("a", &[[0.0, 2.0], [10.0, 8.0], [30.0, 8.0]]);
        assert_eq!(used.value_at(9.9), Some(2.0));
        assert_eq!(used.value_at(10.0), Some(8.0));
        assert_eq!(used.value_at(-1.0), None);
        assert!((used.mean_until(30.0) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_peak_within_a_column_is_drawn() {
        let mut points: Vec<[f64; 2]> = (0..100_000).map(|at| [f64::from(at), 1.0]).collect();
        points[70_001][1] = 9.0;
        let used = series("a", &points);
        let x = Scale { from: 0.0, to: 100_000.0, low: LEFT, high: WIDTH - RIGHT };
        let y = Scale { from: 0.0, to: 10.0, low: 100.0, high: 0.0 };
        let path = line_path(&used, x, y);
        assert!(path.contains("V90V10V90"), "{path}");
        assert!(path.len() < 40_000, "{}", path.len());
    }

    #[test]
    fn stacked_areas_end_at_the_sum_and_differ_by_pattern() {
        let both =
            vec![series("a", &[[0.0, 4.0], [60.0, 2.0]]), series("b", &[[0.0, 4.0], [60.0, 6.0]])];
        let text = figure(&plot(PlotShape::StackedAreas, both), "p").into_string();
        for expected in [
            "url(#p-p0)",
            "url(#p-p1)",
            "<title id=\"p-title\">GPUs in use</title>",
            "a: mean 4, from 2 to 4, at the end 2 GPUs.",
            "M48 111H510V161.5H510V212",
            "<td>6</td>",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn names_are_escaped_and_wrong_numbers_are_left_out() {
        let odd = series("<script>", &[[0.0, f64::NAN], [1.0, f64::INFINITY], [2.0, 3.0]]);
        let text = figure(&plot(PlotShape::Lines, vec![odd]), "p").into_string();
        assert!(text.contains("&lt;script&gt;") && !text.contains("NaN") && !text.contains("inf"));
        let none = figure(&plot(PlotShape::Lines, Vec::new()), "p").into_string();
        assert!(none.contains("There are no values."), "{none}");
    }

    #[test]
    fn a_page_of_plots_loads_nothing() {
        let page =
            plots_page("T", "text & more", &[plot(PlotShape::Lines, vec![series("a", &[])])]);
        assert!(page.contains("default-src 'none'") && page.contains("text &amp; more"));
        assert!(!page.contains("<script") && !page.contains("http:"));
    }
}
