//! Plots over time as inline SVG.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::side_series::SideSeries;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 48.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 8.0;

/// The colour of everything without a colour of its own.
pub(super) const OTHER: &str = "#9aa0a6";

/// Colours that people with colour blindness can tell apart (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#6f4e9c"];

/// A curve of a plot.
pub(super) struct Curve<'a> {
    colour: &'static str,
    values: &'a [f64],
}

/// The colour with this number.
pub(super) fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

impl<'a> Curve<'a> {
    /// A curve in the colour with this number.
    pub(super) fn of(colour_at: usize, values: &'a [f64]) -> Self {
        Self { colour: colour(colour_at), values }
    }
}

/// Maps hours and values to a plot.
struct Scale {
    hours: f64,
    top: f64,
}

impl Scale {
    fn x(&self, hours: f64) -> f64 {
        LEFT + (WIDTH - LEFT - 4.0) * hours / self.hours
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / self.top
    }

    fn of(hours: &[f64], top: f64) -> Self {
        Self { hours: hours.last().copied().unwrap_or(1.0).max(0.1), top: top.max(0.1) }
    }
}

/// Curves in one plot.
pub(super) fn lines(title: &str, hours: &[f64], curves: &[Curve<'_>], top: f64) -> Markup {
    let scale = Scale::of(hours, top);
    let path = |curve: &Curve<'_>| {
        let points = hours.iter().zip(curve.values);
        path_of(points.map(|(hours, value)| Point { x: scale.x(*hours), y: scale.y(*value) }))
    };
    frame(
        title,
        &scale,
        &html! {
            @for curve in curves {
                path d=(path(curve)) fill="none" stroke=(curve.colour) stroke-width="1.5" {}
            }
        },
    )
}

/// The GPUs that queues used, one on the other; those of other queues on top.
pub(super) fn stacked(title: &str, side: &SideSeries, queues: &[String], top: f64) -> Markup {
    let scale = Scale::of(&side.hours, top);
    let mut below = vec![0.0; side.hours.len()];
    let mut areas = Vec::new();
    for (at, queue) in queues.iter().enumerate() {
        let used = side.queue_used(queue);
        let above: Vec<f64> = below.iter().zip(&used).map(|(below, used)| below + used).collect();
        areas.push(Area { colour: colour(at), path: area(&scale, &side.hours, &below, &above) });
        below = above;
    }
    let all = area(&scale, &side.hours, &below, &side.used_gpus);
    areas.push(Area { colour: OTHER, path: all });
    frame(
        title,
        &scale,
        &html! {
            @for area in &areas { path d=(area.path) fill=(area.colour) {} }
        },
    )
}

struct Area {
    colour: &'static str,
    path: String,
}

#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

fn area(scale: &Scale, hours: &[f64], below: &[f64], above: &[f64]) -> String {
    let point = |at: usize, values: &[f64]| Point { x: scale.x(hours[at]), y: scale.y(values[at]) };
    let there = (0..hours.len()).map(|at| point(at, above));
    let back = (0..hours.len()).rev().map(|at| point(at, below));
    format!("{}Z", path_of(there.chain(back)))
}

fn path_of(points: impl Iterator<Item = Point>) -> String {
    let mut path = String::new();
    for (at, Point { x, y }) in points.enumerate() {
        let command = if at == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{x:.1} {y:.1}");
    }
    path
}

/// A plot with its axes: values at the left, days or hours below.
fn frame(title: &str, scale: &Scale, content: &Markup) -> Markup {
    let in_days = scale.hours >= 48.0;
    let unit = if in_days { 24.0 } else { 1.0 };
    let step = (scale.hours / unit / 8.0).ceil().max(1.0);
    let mut ticks = Vec::new();
    while f64::from(u32::try_from(ticks.len()).unwrap_or(u32::MAX)) * step * unit <= scale.hours {
        ticks.push(f64::from(u32::try_from(ticks.len()).unwrap_or(u32::MAX)) * step);
    }
    let letter = if in_days { "d" } else { "h" };
    html! {
        figure {
            figcaption { (title) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
                @for part in [0.0, 0.5, 1.0] {
                    @let y = scale.y(scale.top * part);
                    line x1=(LEFT) x2=(WIDTH) y1=(y) y2=(y) stroke="#8886" {}
                    text x=(LEFT - 6.0) y=(y + 4.0) text-anchor="end" {
                        (format!("{:.0}", scale.top * part))
                    }
                }
                @for tick in ticks {
                    text x=(scale.x(tick * unit)) y=(HEIGHT - 6.0) { (format!("{tick:.0}{letter}")) }
                }
                (content)
            }
        }
    }
}
