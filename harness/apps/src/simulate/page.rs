//! The report of a simulation as a page: the table, and plots over time.

use schedlab_conformance::report::Colors;
use schedlab_view::plot;

use super::Report;
use crate::experiment::{QueueAmount, SeriesMeans};
use crate::inputs::to_f64;
use crate::plots;

/// The page.
pub(super) fn page(report: &Report) -> String {
    let means = SeriesMeans::of(report.series.iter());
    let shown = plots::queues_shown(&[&means]);
    let queues = |amount| plots::queues(&means, &shown, amount);
    let plots = [
        plots::utilisation(&means, to_f64(report.gpus)),
        queues(QueueAmount::Used),
        queues(QueueAmount::Pending),
        plots::fragmentation(&means),
    ];
    plot::plots_page("schedlab simulate", &report.to_table(Colors::Off), &plots)
}
