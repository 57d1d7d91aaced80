//! Queries Prometheus for usage shares. The default metrics are KAI's: the scheduler and KAI's
//! queue controller export those of queues (`docs/reference/metrics.md`), kube-state-metrics those
//! of nodes.

use std::collections::BTreeMap;

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body};
use schedlab_scheduler_core::{
    model::{Name, Time},
    resources::PerResource,
};
use serde::Deserialize;
use thiserror::Error;

use super::external::{UsageDatabase, UsageQueries};

/// Labels that identify a queue. Older queue controllers of KAI export only the first one, with the
/// display name if the queue has one.
const QUEUE_LABELS: [&str; 2] = ["queue_name", "queue_metadata_name"];
/// Maximum size of a response in bytes; enough for 50,000 queues.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Maximum ratio of usage to capacity; larger values are clamped.
const RATIO_MAX: f64 = 1000.0;

/// Usage by queue name, in millionths of the cluster's capacity over the window.
pub(super) type Shares = BTreeMap<Name, PerResource<i64>>;

/// Why a query failed, with the metric.
#[derive(Debug, Error)]
#[error("{metric}: {fault}")]
pub(super) struct QueryError {
    metric: String,
    fault: QueryFault,
}

#[derive(Debug, Error)]
enum QueryFault {
    #[error("unreachable: {0}")]
    Unreachable(String),
    #[error("status {status}: {message}")]
    ErrorResponse { status: StatusCode, message: String },
    #[error("got {0}, expected a response of Prometheus to /api/v1/query")]
    MalformedResponse(String),
    #[error("{series}: got {found}, expected a number of at least 0")]
    InvalidSample { series: String, found: String },
    #[error(
        "got a series without label queue_metadata_name or queue_name, expected one series per queue"
    )]
    MissingQueueLabel,
    #[error("got {0} values, expected one")]
    MultipleCapacities(usize),
    #[error("got no capacity, expected one, as queues have usage")]
    NoCapacity,
}

/// Queries the usage shares of queues over the window that ends at `now`.
pub(super) async fn query_shares(
    database: &UsageDatabase,
    client: &Client,
    now: Time,
) -> Result<Shares, QueryError> {
    let mut shares = Shares::new();
    let UsageQueries { gpu, cpu, memory } = &database.queries;
    for (at, [allocated, capacity]) in [gpu, cpu, memory].into_iter().enumerate() {
        let by_queue = format!("max by ({}) ({allocated})", QUEUE_LABELS.join(", "));
        let Some(query) = query_over_window(database, &by_queue, now) else { return Ok(shares) };
        let to_error = |fault| QueryError { metric: allocated.clone(), fault };
        let used =
            query_vector(client, &query, now).await.and_then(|samples| sum_by_queue(&samples));
        let used = used.map_err(to_error)?;
        let to_error = |fault| QueryError { metric: capacity.clone(), fault };
        let query = query_over_window(database, capacity, now).unwrap_or_default();
        let total =
            query_vector(client, &query, now).await.and_then(|samples| single_value(&samples));
        for (queue, part) in shares_of_capacity(used, total.map_err(to_error)?).map_err(to_error)? {
            let share = shares.entry(queue).or_default();
            *[&mut share.gpu, &mut share.cpu, &mut share.memory][at] = part;
        }
    }
    Ok(shares)
}

/// The query for the sum of a metric over the window, with decay. `None`: the window has just
/// begun.
fn query_over_window(database: &UsageDatabase, metric: &str, now: Time) -> Option<String> {
    let window = database.window.elapsed_millis(now);
    let weighted = match database.half_life {
        None => metric.to_owned(),
        Some(half_life) => {
            let (now, half_life) = (seconds_text(now.0), half_life.as_secs_f64());
            format!("({metric}) * 0.5 ^ (({now} - time()) / {half_life})")
        }
    };
    let step = database.resolution.as_millis();
    (window > 0).then(|| format!("sum_over_time(({weighted})[{window}ms:{step}ms])"))
}

fn seconds_text(millis: i64) -> String {
    format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
}

/// Queries the values of an expression at one time.
async fn query_vector(client: &Client, query: &str, now: Time) -> Result<Vec<Sample>, QueryFault> {
    let request = Request::get(query_path(query, now));
    let request =
        request.body(Body::from(Vec::new())).expect("URL-encoded parameters are valid in a URI");
    let unreachable = |error| QueryFault::Unreachable(format!("{:#}", anyhow::Error::from(error)));
    let response = client.send(request).await.map_err(unreachable)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
    let body = body.map_err(|error| QueryFault::Unreachable(error.to_string()))?.to_bytes();
    parse_samples(status, &body)
}

fn query_path(query: &str, now: Time) -> String {
    let mut form = form_urlencoded::Serializer::new("/api/v1/query?".to_owned());
    form.append_pair("query", query).append_pair("time", &seconds_text(now.0)).finish()
}

#[derive(Debug, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum QueryResponse {
    Success { data: QueryData },
    Error { error: String },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum QueryData {
    Vector(Vec<Sample>),
}

/// One series of an instant vector, the result of a query.
#[derive(Debug, Deserialize)]
struct Sample {
    metric: BTreeMap<String, String>,
    /// Timestamp, and the number as text.
    value: (f64, String),
}

fn parse_samples(status: StatusCode, body: &[u8]) -> Result<Vec<Sample>, QueryFault> {
    match serde_json::from_slice(body) {
        Ok(QueryResponse::Success { data: QueryData::Vector(samples) }) => Ok(samples),
        Ok(QueryResponse::Error { error }) => {
            Err(QueryFault::ErrorResponse { status, message: error })
        }
        Err(error) if status.is_success() => Err(QueryFault::MalformedResponse(error.to_string())),
        Err(_) => {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            Err(QueryFault::ErrorResponse { status, message: text })
        }
    }
}

impl Sample {
    fn finite_value(&self) -> Result<f64, QueryFault> {
        let number: Option<f64> = self.value.1.parse().ok();
        number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| {
            let labels: Vec<_> = self.metric.iter().map(|(at, of)| format!("{at}={of}")).collect();
            QueryFault::InvalidSample { series: labels.join(","), found: self.value.1.clone() }
        })
    }

    fn queue_name(&self) -> Option<&str> {
        let named = QUEUE_LABELS.iter().rev().filter_map(|label| self.metric.get(*label));
        named.map(String::as_str).find(|name| !name.is_empty())
    }
}

/// Sums series by queue. A queue whose labels changed in the window has several series.
fn sum_by_queue(samples: &[Sample]) -> Result<BTreeMap<Name, f64>, QueryFault> {
    let mut sums = BTreeMap::new();
    for sample in samples {
        let queue = sample.queue_name().ok_or(QueryFault::MissingQueueLabel)?;
        *sums.entry(Name::from(queue)).or_default() += sample.finite_value()?;
    }
    Ok(sums)
}

/// The value of a single series; without any series 0, as the cluster lacks the resource.
fn single_value(samples: &[Sample]) -> Result<f64, QueryFault> {
    match samples {
        [] => Ok(0.0),
        [one] => one.finite_value(),
        more => Err(QueryFault::MultipleCapacities(more.len())),
    }
}

/// The usage of each queue in millionths of the capacity.
#[expect(clippy::cast_possible_truncation, reason = "between 0 and 10^9")]
fn shares_of_capacity(
    used: BTreeMap<Name, f64>,
    capacity: f64,
) -> Result<Vec<(Name, i64)>, QueryFault> {
    let used: Vec<_> = used.into_iter().filter(|(_, used)| *used > 0.0).collect();
    if capacity <= 0.0 && !used.is_empty() {
        return Err(QueryFault::NoCapacity);
    }
    let micro = |used: f64| ((used / capacity).min(RATIO_MAX) * 1e6).round() as i64;
    Ok(used.into_iter().map(|(queue, used)| (queue, micro(used))).collect())
}

#[cfg(test)]
mod tests;
