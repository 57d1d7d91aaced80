//! The table of results, printed row by row.

use std::time::Duration;

/// Prints the rows whose name contains the filter.
pub(crate) struct Table {
    filter: Option<String>,
}

/// A row of the table: one measured figure.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) figure: String,
    /// The upper bound of the figure; empty without one.
    pub(crate) bound: String,
    /// Remarks: decisions, and the figures of other programs or sizes.
    pub(crate) others: String,
}

impl Table {
    #[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
    pub(crate) fn new(filter: Option<String>) -> Self {
        println!("{:<66} {:>16}  {:<10} others", "benchmark", "measured", "at most");
        Self { filter }
    }

    /// Whether the filter selects a row.
    pub(crate) fn is_selected(&self, name: &str) -> bool {
        self.filter.as_deref().is_none_or(|part| name.contains(part))
    }

    #[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
    #[expect(clippy::unused_self, reason = "rows belong to a table")]
    pub(crate) fn print_row(&self, row: &Row) {
        let Row { name, figure, bound, others } = row;
        println!("{name:<66} {figure:>16}  {bound:<10} {others}");
    }
}

/// The median of several times; zero if there are none.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Formats a time in ms or s.
pub(crate) fn duration_text(time: Duration) -> String {
    let secs = time.as_secs_f64();
    if secs < 1.0 { format!("{:.1} ms", secs * 1000.0) } else { format!("{secs:.2} s") }
}
