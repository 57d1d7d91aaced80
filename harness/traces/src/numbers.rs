//! Conversions between counts and fractions.

/// A count as a fraction. Counts in traces are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "counts in traces are far below 2^52")]
pub(crate) fn to_f64(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// The nearest count; 0 for a negative number.
#[expect(clippy::cast_possible_truncation, reason = "a cast saturates, as it shall")]
#[expect(clippy::cast_sign_loss, reason = "a cast of a negative number gives 0, as it shall")]
pub(crate) fn to_count(number: f64) -> u64 {
    number.round() as u64
}

/// A number of jobs as text.
pub(crate) fn jobs_text(count: usize) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}
