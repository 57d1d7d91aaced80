//! Logs of `schedlab-scheduler` and `schedlab`: spans and events of `tracing` on standard error.
//! Level `info` reports cycles with decisions, bindings, evictions and failures; `debug` adds idle
//! cycles, actions and API requests. In virtual time, `duration_ms` is virtual, too.

use std::{env, io, time::Duration};

use clap::ValueEnum;
use thiserror::Error;
use tracing_subscriber::{EnvFilter, filter::ParseError};

/// The variable that selects what is logged, in the syntax of `tracing-subscriber`'s `EnvFilter`.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `RUST_LOG` is not a valid filter.
#[derive(Debug, Error)]
#[error(
    "RUST_LOG: got {filter}, expected a level such as debug, or a list such as info,schedlab_scheduler=debug"
)]
pub struct InvalidLogFilter {
    filter: String,
    #[source]
    source: ParseError,
}

/// Writes logs to standard error from now on. `RUST_LOG` selects which messages; if it is not set,
/// `default_filter` does. Has no effect if the process has a log subscriber already.
///
/// # Errors
/// `RUST_LOG` is no valid filter.
pub fn init(format: LogFormat, default_filter: &str) -> Result<(), InvalidLogFilter> {
    let filter = env::var(FILTER_VARIABLE).ok().filter(|filter| !filter.is_empty());
    let filter = filter.unwrap_or_else(|| default_filter.to_owned());
    let filter = match EnvFilter::builder().parse(&filter) {
        Ok(filter) => filter,
        Err(source) => return Err(InvalidLogFilter { filter, source }),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let _ = match format {
        LogFormat::Text => lines.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    Ok(())
}

/// Converts a duration to milliseconds, the unit of log field `duration_ms`.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
