//! The table, printed row by row as figures come in.

use std::time::Duration;

/// Rows whose names contain the filter.
pub(crate) struct Table {
    filter: Option<String>,
}

/// What was measured, and what it may be.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) figure: String,
    /// What it should be at most.
    pub(crate) bound: String,
    /// What others need for the same, and how many times as long that is.
    pub(crate) others: String,
}

impl Table {
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    pub(crate) fn new(filter: Option<String>) -> Self {
        println!("{:<66} {:>16}  {:<10} others", "what", "measured", "at most");
        Self { filter }
    }

    /// Is this row asked for?
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.as_deref().is_none_or(|part| name.contains(part))
    }

    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    #[expect(clippy::unused_self, reason = "rows belong to a table")]
    pub(crate) fn row(&self, row: &Row) {
        let Row { name, figure, bound, others } = row;
        println!("{name:<66} {figure:>16}  {bound:<10} {others}");
    }
}

/// The middle of several measurements.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn time(time: Duration) -> String {
    let secs = time.as_secs_f64();
    if secs < 1.0 { format!("{:.1} ms", secs * 1000.0) } else { format!("{secs:.2} s") }
}
