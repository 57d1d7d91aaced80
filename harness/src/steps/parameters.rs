//! The values that steps take, as people write them.

use std::str::FromStr;
use std::time::Duration;

use cucumber::Parameter;

/// `90 seconds`, `10m`, `2 hours`.
#[derive(Clone, Copy, Debug, Parameter, PartialEq, Eq)]
#[param(
    name = "duration",
    regex = "[0-9]+(?:\\.[0-9]+)? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)"
)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        crate::cli::duration(text).map(Self)
    }
}
