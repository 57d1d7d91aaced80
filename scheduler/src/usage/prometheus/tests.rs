//! Tests of queries and of parsing valid and invalid responses.

use std::{convert::Infallible, net::Ipv4Addr, time::Duration};

use http::Response;
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use insta::assert_snapshot;
use tokio::net::TcpListener;

use super::*;
use crate::usage::external::{Endpoint, PollTiming, Window, query_usage};

const HOUR: Duration = Duration::from_hours(1);

fn database(window: Window, half_life: Option<Duration>) -> UsageDatabase {
    UsageDatabase {
        endpoint: Endpoint::Url("http://prometheus:9090".parse().unwrap()),
        window,
        half_life,
        resolution: Duration::from_mins(1),
        queries: UsageQueries::kai_defaults(),
        // Longer than any test runs.
        timing: PollTiming {
            fetch_interval: HOUR,
            staleness: HOUR,
            first_answer_timeout: HOUR,
            query_timeout: HOUR,
        },
    }
}

#[test]
fn queries_sum_values_over_the_window() {
    let ask = |window: &Window, half_life: Option<u64>, millis| {
        let database = database(window.clone(), half_life.map(Duration::from_secs));
        query_over_window(&database, "kai_queue_allocated_gpus", Time(millis)).unwrap_or_default()
    };
    let sliding = Window::Sliding(Duration::from_hours(24));
    assert_snapshot!(ask(&sliding, None, 0), @"sum_over_time((kai_queue_allocated_gpus)[86400000ms:60000ms])");
    assert_snapshot!(ask(&sliding, Some(600), 1_767_225_600_250), @"sum_over_time(((kai_queue_allocated_gpus) * 0.5 ^ ((1767225600.250 - time()) / 600))[86400000ms:60000ms])");
    let start: jiff::Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
    let tumbling = Window::Tumbling { start, size: Duration::from_hours(24) };
    let after = |seconds: i64| ask(&tumbling, None, start.as_millisecond() + seconds * 1000);
    assert_snapshot!(after(3 * 24 * 3600 + 90), @"sum_over_time((kai_queue_allocated_gpus)[90000ms:60000ms])");
    assert_snapshot!(after(-90), @"");
    assert_snapshot!(after(24 * 3600), @"");
    let cron = Window::Cron("0 0 * * 1".parse().unwrap());
    let monday_and_a_half = start.as_millisecond() + 36 * 3_600_000;
    assert_snapshot!(ask(&cron, None, monday_and_a_half), @"sum_over_time((kai_queue_allocated_gpus)[129600000ms:60000ms])");
}

/// Usage by queue from a response with this status and body, or the error.
fn parsed(status: u16, body: &str) -> String {
    let samples = parse_samples(StatusCode::from_u16(status).unwrap(), body.as_bytes());
    match samples.and_then(|samples| sum_by_queue(&samples)) {
        Ok(sums) => format!("{sums:?}"),
        Err(fault) => fault.to_string(),
    }
}

/// A response with these series, given as labels and value.
fn vector_of(series: &[(&str, &str)]) -> String {
    let sample = |(labels, value): &(&str, &str)| {
        format!(r#"{{"metric":{{{labels}}},"value":[1767225600.5,"{value}"]}}"#)
    };
    let result: Vec<_> = series.iter().map(sample).collect();
    let result = result.join(",");
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#)
}

#[test]
fn queues_are_identified_by_metadata_name_or_else_by_queue_name() {
    let [told, shown] =
        [r#""queue_name":"Team a","queue_metadata_name":"a""#, r#""queue_name":"b""#];
    let before = r#""queue_name":"a","queue_metadata_name":"""#;
    let answer = vector_of(&[(told, "1.5"), (shown, "2"), (before, "1e2")]);
    assert_snapshot!(parsed(200, &answer), @r#"{"a": 101.5, "b": 2.0}"#);
    assert_snapshot!(parsed(200, &vector_of(&[])), @"{}");
}

#[test]
fn unusable_responses_are_reported() {
    let of_a = |value| parsed(200, &vector_of(&[(r#""queue_name":"a""#, value)]));
    assert_snapshot!(of_a("NaN"), @"queue_name=a: got NaN, expected a number of at least 0");
    assert_snapshot!(of_a("+Inf"), @"queue_name=a: got +Inf, expected a number of at least 0");
    assert_snapshot!(of_a("-3"), @"queue_name=a: got -3, expected a number of at least 0");
    assert_snapshot!(of_a("many"), @"queue_name=a: got many, expected a number of at least 0");
    assert_snapshot!(parsed(200, &vector_of(&[("", "1")])), @"got a series without label queue_metadata_name or queue_name, expected one series per queue");
    assert_snapshot!(parsed(200, "<html>"), @"got expected value at line 1 column 1, expected a response of Prometheus to /api/v1/query");
    assert_snapshot!(parsed(200, r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#), @"got unknown variant `matrix`, expected `vector`, expected a response of Prometheus to /api/v1/query");
    assert_snapshot!(parsed(422, r#"{"status":"error","errorType":"execution","error":"too many samples"}"#), @"status 422 Unprocessable Entity: too many samples");
    assert_snapshot!(parsed(502, "upstream is away"), @"status 502 Bad Gateway: upstream is away");
}

/// Shares of queues a, b, c with this usage and capacity.
fn shares_text(used: &[f64], capacity: f64) -> String {
    let names = ["a", "b", "c"].map(Name::from);
    let used = names.into_iter().zip(used.iter().copied()).collect();
    match shares_of_capacity(used, capacity) {
        Ok(parts) => format!("{parts:?}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn usage_is_a_fraction_of_the_cluster_capacity() {
    assert_snapshot!(shares_text(&[24.0, 0.0, 100.0], 100.0), @r#"[("a", 240000), ("c", 1000000)]"#);
    assert_snapshot!(shares_text(&[0.0], 0.0), @"[]");
    assert_snapshot!(shares_text(&[1.0], 0.0), @"got no capacity, expected one, as queues have usage");
    assert_snapshot!(shares_text(&[1e300], 1e-300), @r#"[("a", 1000000000)]"#);
}

#[test]
fn a_capacity_query_returns_a_single_number() {
    let sample = |value: &str| Sample { metric: BTreeMap::new(), value: (0.0, value.to_owned()) };
    let result_text = |samples: &[Sample]| match single_value(samples) {
        Ok(capacity) => capacity.to_string(),
        Err(fault) => fault.to_string(),
    };
    assert_snapshot!(result_text(&[]), @"0");
    assert_snapshot!(result_text(&[sample("32")]), @"32");
    assert_snapshot!(result_text(&[sample("NaN")]), @": got NaN, expected a number of at least 0");
    assert_snapshot!(result_text(&[sample("8"), sample("8")]), @"got 2 values, expected one");
}

/// A Prometheus below `/prefix` with two queues that used 3 and 1 of 8 GPUs.
async fn serve(listener: TcpListener) {
    let service = service_fn(async |request: Request<Incoming>| {
        let query_contains =
            |words: &str| request.uri().query().is_some_and(|query| query.contains(words));
        let is_known =
            request.uri().path() == "/prefix/api/v1/query" && query_contains("&time=90.000");
        let series: &[(&str, &str)] = if query_contains(
            "=sum_over_time%28%28max+by+%28queue_name%2C+queue_metadata_name%29+%28kai_queue_allocated_gpus%29%29%5B3600000ms%3A60000ms%5D%29",
        ) {
            &[(r#""queue_metadata_name":"a""#, "180"), (r#""queue_metadata_name":"b""#, "60")]
        } else if query_contains("nvidia_com_gpu") {
            &[("", "480")]
        } else {
            &[]
        };
        let text =
            if is_known { vector_of(series) } else { format!("{} is not here", request.uri()) };
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
    });
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
    }
}

#[tokio::test]
async fn usage_is_queried_over_http() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve(listener));
    let at = |path: &str| UsageDatabase {
        endpoint: Endpoint::Url(format!("http://{address}{path}").parse().unwrap()),
        ..database(Window::Sliding(HOUR), None)
    };
    let told = async |path: &str| match query_usage(&at(path), Time(90_000)).await {
        Ok(shares) => {
            format!("{:?}", shares.iter().map(|(at, of)| (at, of.gpu)).collect::<Vec<_>>())
        }
        Err(fault) => fault.replace(&address.to_string(), "HOST"),
    };
    assert_snapshot!(told("/prefix").await, @r#"[("a", 375000), ("b", 125000)]"#);
    assert_snapshot!(told("").await, @"usage of queues from http://HOST: kai_queue_allocated_gpus: got expected value at line 1 column 1, expected a response of Prometheus to /api/v1/query");
    served.abort();
    let _ = served.await;
    let gone = told("/prefix").await;
    assert!(
        gone.starts_with(
            "usage of queues from http://HOST/prefix: kai_queue_allocated_gpus: unreachable: "
        ),
        "{gone}"
    );
}
