//! Plots of an experiment's figures over time, for the pages of `simulate` and `compare`.

use schedlab_view::plot::{Plot, PlotShape, Point, Series};

use crate::experiment::{QueueAmount, SeriesMeans};

/// Number of queues that a plot shows apart; `plot.css` has one more pattern, for all others.
const QUEUES_SHOWN: usize = 7;

/// The GPUs that queues used or waited for, one queue on top of the other.
pub(crate) fn queues(of: &SeriesMeans, shown: &[String], amount: QueueAmount) -> Plot {
    let (title, description, all) = match amount {
        QueueAmount::Used => (
            "Used GPUs by queue",
            "GPUs of running pods, queues on top of each other.",
            &of.used_gpus,
        ),
        QueueAmount::Pending => (
            "Waiting GPUs by queue",
            "GPUs that pending pods request, queues on top of each other.",
            &of.pending_gpus,
        ),
    };
    let values: Vec<Vec<f64>> = shown.iter().map(|queue| of.queue(queue, amount)).collect();
    let mut series: Vec<Series> =
        shown.iter().zip(&values).map(|(queue, values)| curve(queue, of, values)).collect();
    let others: Vec<f64> = (0..all.len())
        .map(|at| (all[at] - values.iter().map(|values| values[at]).sum::<f64>()).max(0.0))
        .collect();
    if others.iter().any(|value| *value > 0.005) {
        series.push(curve("other queues", of, &others));
    }
    Plot {
        title: title.to_owned(),
        description: description.to_owned(),
        unit: "GPUs".to_owned(),
        max: None,
        shape: PlotShape::StackedAreas,
        series,
    }
}

/// The queues that [`queues`] shows apart: those with the largest amounts. They are the same in all
/// plots of a page, so that a queue has one colour.
pub(crate) fn queues_shown(sides: &[&SeriesMeans]) -> Vec<String> {
    SeriesMeans::largest_queues(sides, QUEUES_SHOWN)
}

/// The share of the fleet's GPUs that running pods used.
pub(crate) fn utilisation(of: &SeriesMeans, gpus: f64) -> Plot {
    let values: Vec<f64> = of.used_gpus.iter().map(|used| 100.0 * used / gpus.max(1.0)).collect();
    percentages(
        "Utilisation",
        "GPUs of running pods ÷ all GPUs of the fleet.",
        vec![curve("utilisation", of, &values)],
    )
}

/// The share of free GPUs that no job of whole nodes can use.
pub(crate) fn fragmentation(of: &SeriesMeans) -> Plot {
    percentages(
        "Fragmentation",
        "Free GPUs on nodes in use ÷ all free GPUs.",
        vec![curve("fragmentation", of, &of.fragmentation_percent)],
    )
}

fn percentages(title: &str, description: &str, series: Vec<Series>) -> Plot {
    Plot {
        title: title.to_owned(),
        description: description.to_owned(),
        unit: "%".to_owned(),
        max: Some(100.0),
        shape: PlotShape::Lines,
        series,
    }
}

/// Values of intervals as a series, in which a value holds until the next.
pub(crate) fn curve(name: &str, of: &SeriesMeans, values: &[f64]) -> Series {
    let starts = std::iter::once(0.0).chain(of.ends_secs.iter().copied());
    let mut points: Vec<Point> =
        starts.zip(values).map(|(seconds, value)| Point { seconds, value: *value }).collect();
    if let (Some(seconds), Some(value)) = (of.ends_secs.last(), values.last()) {
        points.push(Point { seconds: *seconds, value: *value });
    }
    Series { name: name.to_owned(), points }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{QueueSeries, Series as Figures, SeriesPoint};

    #[test]
    fn queues_beyond_the_largest_are_one_series() {
        let queue = |at: u32| QueueSeries {
            queue: format!("team-{at}"),
            used_gpus: vec![f64::from(at), 2.0 * f64::from(at)],
            pending_gpus: vec![0.0, if at == 2 { 9.0 } else { 0.0 }],
        };
        let point =
            |at_secs, used_gpus| SeriesPoint { at_secs, used_gpus, ..SeriesPoint::default() };
        let figures = Figures {
            every_secs: 60.0,
            points: vec![point(60.0, 45.0), point(90.0, 90.0)],
            queues: (1..=9).map(queue).collect(),
        };
        let means = SeriesMeans::of([&figures].into_iter());
        let shown = queues_shown(&[&means]);
        assert_eq!(shown, ["team-2", "team-9", "team-8", "team-7", "team-6", "team-5", "team-4"]);
        let plot = queues(&means, &shown, QueueAmount::Used);
        let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names[6..], ["team-4", "other queues"]);
        let points = |at: usize| {
            plot.series[at]
                .points
                .iter()
                .map(|point| (point.seconds, point.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(points(1), [(0.0, 9.0), (60.0, 18.0), (90.0, 18.0)]);
        assert_eq!(points(7), [(0.0, 4.0), (60.0, 8.0), (90.0, 8.0)]);
        let pending = queues(&means, &shown, QueueAmount::Pending);
        assert_eq!(pending.series[0].name, "team-2");
    }
}
