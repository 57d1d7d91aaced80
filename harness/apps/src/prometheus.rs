//! Reads the pods of a cluster's past from Prometheus: range queries in bounded steps.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use schedlab_traces::prometheus::{Answer, PrometheusPods, PrometheusRecord, Series};

/// Where Prometheus is, and what is read of it.
#[derive(Clone, Debug)]
pub struct PrometheusSource {
    /// The URL of Prometheus.
    pub url: String,
    /// A file with a bearer token.
    pub token_file: Option<PathBuf>,
    /// Whether an invalid certificate is accepted.
    pub accept_invalid_certificate: bool,
    /// The end of the time that is read.
    pub until: Timestamp,
    /// The length of the time that is read.
    pub since: Duration,
    /// The distance of the points of a series.
    pub step: Duration,
    /// Label matchers of all series, such as `cluster="a"`; may be empty.
    pub matchers: String,
}

/// Points of a series in one query.
const POINTS_MAX: u64 = 24;
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// How far the reading is.
#[derive(Clone, Copy, Debug)]
pub struct ReadProgress {
    /// Queries that were answered.
    pub answered: u64,
    /// All queries.
    pub queries: u64,
    /// Pods so far.
    pub pods: usize,
}

/// A time that one query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    first: i64,
    last: i64,
}

/// Reads the pods and the queues of the time.
///
/// # Errors
/// Prometheus cannot be reached, or rejects a query.
pub async fn read_prometheus(
    source: &PrometheusSource,
    mut on_progress: impl FnMut(ReadProgress),
) -> anyhow::Result<PrometheusRecord> {
    let client = client(source)?;
    let step = source.step.as_secs().max(1);
    let windows = windows(source.until.as_second(), source.since.as_secs(), step);
    let queries = u64::try_from(windows.len() * Series::ALL.len()).unwrap_or(u64::MAX);
    let mut pods = PrometheusPods::default();
    let mut answered = 0;
    for window in windows {
        for series in Series::ALL {
            let answer = ask(&client, source, series, window).await?;
            pods.add(series, &answer.data);
            answered += 1;
            on_progress(ReadProgress { answered, queries, pods: pods.pod_count() });
        }
    }
    let until = source.until.as_second();
    let until = Duration::from_secs(u64::try_from(until).unwrap_or_default()).as_secs_f64();
    Ok(pods.finish(until, GONE_AFTER.as_secs_f64()))
}

/// A pod that was not scraped for this long before the end is gone.
const GONE_AFTER: Duration = Duration::from_mins(10);

fn client(source: &PrometheusSource) -> anyhow::Result<kube::Client> {
    let url = source.url.trim_end_matches('/');
    let allowed = "a URL such as http://127.0.0.1:9090";
    let address: http::Uri = url
        .parse()
        .map_err(|_| anyhow::anyhow!("--prometheus: got {url:?}, expected {allowed}"))?;
    anyhow::ensure!(address.scheme().is_some(), "--prometheus: got {url:?}, expected {allowed}");
    let mut config = kube::Config::new(address);
    config.read_timeout = Some(ANSWER_TIMEOUT);
    config.accept_invalid_certs = source.accept_invalid_certificate;
    config.auth_info.token_file = source.token_file.as_ref().map(|file| file.display().to_string());
    kube::Client::try_from(config).with_context(|| format!("cannot connect to {url}"))
}

/// The times of the queries: steps that end at `until`, at most [`POINTS_MAX`] in a query.
fn windows(until: i64, since_secs: u64, step: u64) -> Vec<Window> {
    let steps = since_secs.div_ceil(step).max(1);
    let at = |number: u64| until.saturating_sub_unsigned((steps - number) * step);
    let firsts = (1..=steps).step_by(usize::try_from(POINTS_MAX).unwrap_or(1));
    firsts
        .map(|first| Window { first: at(first), last: at((first + POINTS_MAX - 1).min(steps)) })
        .collect()
}

async fn ask(
    client: &kube::Client,
    source: &PrometheusSource,
    series: Series,
    window: Window,
) -> anyhow::Result<Answer> {
    let step = source.step.as_secs().max(1);
    let expression = series.expression(&source.matchers, step);
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("query", &expression)
        .append_pair("start", &window.first.to_string())
        .append_pair("end", &window.last.to_string())
        .append_pair("step", &step.to_string())
        .finish();
    let request = http::Request::get(format!("/api/v1/query_range?{query}")).body(Vec::new())?;
    let failed = || format!("{}: query {expression}", source.url);
    let text = client.request_text(request).await.with_context(failed)?;
    let answer: Answer = serde_json::from_str(&text)
        .with_context(|| format!("{}: got no answer of Prometheus to {expression}", source.url))?;
    anyhow::ensure!(
        answer.status == "success",
        "{}: query {expression}: got {}, expected series",
        source.url,
        answer.error
    );
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_cover_the_time_in_bounded_steps() {
        let covered = windows(1_000_000, 7 * 86_400, 3600);
        assert_eq!(covered.len(), 7);
        assert_eq!(covered[6].last, 1_000_000);
        // A point stands for the step before it.
        assert_eq!(covered[0].first, 1_000_000 - 7 * 86_400 + 3600);
        assert!(covered.windows(2).all(|two| two[1].first == two[0].last + 3600));
        assert_eq!(windows(100, 30, 3600), [Window { first: 100, last: 100 }]);
    }
}
