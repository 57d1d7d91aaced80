//! What is asked of Prometheus, and what its answers mean. Metrics are those that KAI asks for; the
//! scheduler and KAI's queue controller tell those of the queues (`docs/reference/metrics.md`), and
//! kube-state-metrics those of the nodes.

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

use super::database::{Asked, UsageDatabase};

/// The labels that name a queue. Older queue controllers of KAI know only the first one, which
/// says the display name where a queue has one.
const LABELS: [&str; 2] = ["queue_name", "queue_metadata_name"];
/// A line for each of 50,000 queues fits.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Of more use than a thousand clusters nothing is known.
const RATIO_MAX: f64 = 1000.0;

/// By queue, in millionths of what the cluster could have given.
pub(super) type Shares = BTreeMap<Name, PerResource<i64>>;

/// Why there is no usage.
#[derive(Debug, Error)]
#[error("{metric}: {fault}")]
pub(super) struct Trouble {
    metric: String,
    fault: Fault,
}

#[derive(Debug, Error)]
enum Fault {
    #[error("not reached: {0}")]
    Unreached(String),
    #[error("answered {status}: {said}")]
    Refused { status: StatusCode, said: String },
    #[error("found {0}, allowed: what Prometheus answers at /api/v1/query")]
    Nonsense(String),
    #[error("{series}: found {found}, allowed: a number from 0")]
    Sample { series: String, found: String },
    #[error("found a series without label queue_metadata_name or queue_name, allowed: one a queue")]
    Nameless,
    #[error("found {0} values, allowed: one")]
    ManyCapacities(usize),
    #[error("found none, allowed: the capacity of which queues used a part")]
    NoCapacity,
}

/// What queues used over the window that ends now.
pub(super) async fn shares(
    database: &UsageDatabase,
    client: &Client,
    now: Time,
) -> Result<Shares, Trouble> {
    let mut shares = Shares::new();
    let Asked { gpu, cpu, memory } = &database.asked;
    for (at, [allocated, capacity]) in [gpu, cpu, memory].into_iter().enumerate() {
        let by_queue = format!("max by ({}) ({allocated})", LABELS.join(", "));
        let Some(query) = over_window(database, &by_queue, now) else { return Ok(shares) };
        let told = |fault| Trouble { metric: allocated.clone(), fault };
        let used = vector(client, &query, now).await.and_then(|samples| by_name(&samples));
        let used = used.map_err(told)?;
        let told = |fault| Trouble { metric: capacity.clone(), fault };
        let query = over_window(database, capacity, now).unwrap_or_default();
        let whole = vector(client, &query, now).await.and_then(|samples| single(&samples));
        for (queue, part) in parts(used, whole.map_err(told)?).map_err(told)? {
            let share = shares.entry(queue).or_default();
            *[&mut share.gpu, &mut share.cpu, &mut share.memory][at] = part;
        }
    }
    Ok(shares)
}

/// A metric added up over the window, where old values may count for less. `None`: the window has
/// just begun.
fn over_window(database: &UsageDatabase, metric: &str, now: Time) -> Option<String> {
    let window = database.window.millis(now);
    let faded = match database.half_life {
        None => metric.to_owned(),
        Some(half_life) => {
            let (now, half_life) = (seconds(now.0), half_life.as_secs_f64());
            format!("({metric}) * 0.5 ^ (({now} - time()) / {half_life})")
        }
    };
    let step = database.resolution.as_millis();
    (window > 0).then(|| format!("sum_over_time(({faded})[{window}ms:{step}ms])"))
}

fn seconds(millis: i64) -> String {
    format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
}

/// Asks for the values at one moment.
async fn vector(client: &Client, query: &str, now: Time) -> Result<Vec<Sample>, Fault> {
    let request = Request::get(path(query, now));
    let request = request.body(Body::from(Vec::new())).expect("a form fits into a URI");
    let unreached = |error| Fault::Unreached(format!("{:#}", anyhow::Error::from(error)));
    let answer = client.send(request).await.map_err(unreached)?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| Fault::Unreached(error.to_string()))?.to_bytes();
    samples(status, &body)
}

fn path(query: &str, now: Time) -> String {
    let mut form = form_urlencoded::Serializer::new("/api/v1/query?".to_owned());
    form.append_pair("query", query).append_pair("time", &seconds(now.0)).finish()
}

#[derive(Debug, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Answer {
    Success { data: Data },
    Error { error: String },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Sample>),
}

/// A value of one series.
#[derive(Debug, Deserialize)]
struct Sample {
    metric: BTreeMap<String, String>,
    /// Of when, and the number as Prometheus writes it.
    value: (f64, String),
}

fn samples(status: StatusCode, body: &[u8]) -> Result<Vec<Sample>, Fault> {
    match serde_json::from_slice(body) {
        Ok(Answer::Success { data: Data::Vector(samples) }) => Ok(samples),
        Ok(Answer::Error { error }) => Err(Fault::Refused { status, said: error }),
        Err(error) if status.is_success() => Err(Fault::Nonsense(error.to_string())),
        Err(_) => {
            let said: String = String::from_utf8_lossy(body).chars().take(200).collect();
            Err(Fault::Refused { status, said })
        }
    }
}

impl Sample {
    fn number(&self) -> Result<f64, Fault> {
        let number: Option<f64> = self.value.1.parse().ok();
        number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| {
            let labels: Vec<_> = self.metric.iter().map(|(at, of)| format!("{at}={of}")).collect();
            Fault::Sample { series: labels.join(","), found: self.value.1.clone() }
        })
    }

    fn queue(&self) -> Option<&str> {
        let named = LABELS.iter().rev().filter_map(|label| self.metric.get(*label));
        named.map(String::as_str).find(|name| !name.is_empty())
    }
}

/// A queue whose labels changed in the window has several series, each of another time.
fn by_name(samples: &[Sample]) -> Result<BTreeMap<Name, f64>, Fault> {
    let mut sums = BTreeMap::new();
    for sample in samples {
        let queue = sample.queue().ok_or(Fault::Nameless)?;
        *sums.entry(Name::from(queue)).or_default() += sample.number()?;
    }
    Ok(sums)
}

/// No series at all: the cluster has nothing of it.
fn single(samples: &[Sample]) -> Result<f64, Fault> {
    match samples {
        [] => Ok(0.0),
        [one] => one.number(),
        more => Err(Fault::ManyCapacities(more.len())),
    }
}

/// In millionths of the capacity.
#[expect(clippy::cast_possible_truncation, reason = "between 0 and 10^9")]
fn parts(used: BTreeMap<Name, f64>, capacity: f64) -> Result<Vec<(Name, i64)>, Fault> {
    let used: Vec<_> = used.into_iter().filter(|(_, used)| *used > 0.0).collect();
    if capacity <= 0.0 && !used.is_empty() {
        return Err(Fault::NoCapacity);
    }
    let micro = |used: f64| ((used / capacity).min(RATIO_MAX) * 1e6).round() as i64;
    Ok(used.into_iter().map(|(queue, used)| (queue, micro(used))).collect())
}

#[cfg(test)]
mod tests;
