//! What is asked, and what becomes of answers, good ones and others.

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
use crate::usage::database::{Reached, Timing, Window, answer};

const HOUR: Duration = Duration::from_hours(1);

fn database(window: Window, half_life: Option<Duration>) -> UsageDatabase {
    UsageDatabase {
        reached: Reached::At("http://prometheus:9090".parse().unwrap()),
        window,
        half_life,
        resolution: Duration::from_mins(1),
        asked: Asked::of_kai(),
        // Longer than any test: time passes as it likes.
        timing: Timing { fetch_interval: HOUR, staleness: HOUR, wait: HOUR, query: HOUR },
    }
}

#[test]
fn values_are_added_up_over_the_window() {
    let ask = |window: &Window, half_life: Option<u64>, millis| {
        let database = database(window.clone(), half_life.map(Duration::from_secs));
        over_window(&database, "kai_queue_allocated_gpus", Time(millis)).unwrap_or_default()
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

/// What an answer with this status and text says of queues.
fn read(status: u16, body: &str) -> String {
    let samples = samples(StatusCode::from_u16(status).unwrap(), body.as_bytes());
    match samples.and_then(|samples| by_name(&samples)) {
        Ok(sums) => format!("{sums:?}"),
        Err(fault) => fault.to_string(),
    }
}

/// Series as labels and a value.
fn vector_of(series: &[(&str, &str)]) -> String {
    let sample = |(labels, value): &(&str, &str)| {
        format!(r#"{{"metric":{{{labels}}},"value":[1767225600.5,"{value}"]}}"#)
    };
    let result: Vec<_> = series.iter().map(sample).collect();
    let result = result.join(",");
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#)
}

#[test]
fn a_queue_is_known_by_its_name_and_by_what_old_controllers_call_it() {
    let [told, shown] =
        [r#""queue_name":"Team a","queue_metadata_name":"a""#, r#""queue_name":"b""#];
    let before = r#""queue_name":"a","queue_metadata_name":"""#;
    let answer = vector_of(&[(told, "1.5"), (shown, "2"), (before, "1e2")]);
    assert_snapshot!(read(200, &answer), @r#"{"a": 101.5, "b": 2.0}"#);
    assert_snapshot!(read(200, &vector_of(&[])), @"{}");
}

#[test]
fn an_answer_that_says_nothing_of_use_is_told_as_it_is() {
    let of_a = |value| read(200, &vector_of(&[(r#""queue_name":"a""#, value)]));
    assert_snapshot!(of_a("NaN"), @"queue_name=a: found NaN, allowed: a number from 0");
    assert_snapshot!(of_a("+Inf"), @"queue_name=a: found +Inf, allowed: a number from 0");
    assert_snapshot!(of_a("-3"), @"queue_name=a: found -3, allowed: a number from 0");
    assert_snapshot!(of_a("many"), @"queue_name=a: found many, allowed: a number from 0");
    assert_snapshot!(read(200, &vector_of(&[("", "1")])), @"found a series without label queue_metadata_name or queue_name, allowed: one a queue");
    assert_snapshot!(read(200, "<html>"), @"found expected value at line 1 column 1, allowed: what Prometheus answers at /api/v1/query");
    assert_snapshot!(read(200, r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#), @"found unknown variant `matrix`, expected `vector`, allowed: what Prometheus answers at /api/v1/query");
    assert_snapshot!(read(422, r#"{"status":"error","errorType":"execution","error":"too many samples"}"#), @"answered 422 Unprocessable Entity: too many samples");
    assert_snapshot!(read(502, "upstream is away"), @"answered 502 Bad Gateway: upstream is away");
}

/// Of what queues a, b … used in a cluster with this capacity.
fn millionths(used: &[f64], capacity: f64) -> String {
    let names = ["a", "b", "c"].map(Name::from);
    let used = names.into_iter().zip(used.iter().copied()).collect();
    match parts(used, capacity) {
        Ok(parts) => format!("{parts:?}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn usage_is_the_part_of_what_the_cluster_could_have_given() {
    assert_snapshot!(millionths(&[24.0, 0.0, 100.0], 100.0), @r#"[("a", 240000), ("c", 1000000)]"#);
    assert_snapshot!(millionths(&[0.0], 0.0), @"[]");
    assert_snapshot!(millionths(&[1.0], 0.0), @"found none, allowed: the capacity of which queues used a part");
    assert_snapshot!(millionths(&[1e300], 1e-300), @r#"[("a", 1000000000)]"#);
}

#[test]
fn a_capacity_is_one_number() {
    let sample = |value: &str| Sample { metric: BTreeMap::new(), value: (0.0, value.to_owned()) };
    let told = |samples: &[Sample]| match single(samples) {
        Ok(capacity) => capacity.to_string(),
        Err(fault) => fault.to_string(),
    };
    assert_snapshot!(told(&[]), @"0");
    assert_snapshot!(told(&[sample("32")]), @"32");
    assert_snapshot!(told(&[sample("NaN")]), @": found NaN, allowed: a number from 0");
    assert_snapshot!(told(&[sample("8"), sample("8")]), @"found 2 values, allowed: one");
}

/// A Prometheus of two queues that used 3 and 1 of 8 GPUs, and of nothing else. Below `/prefix`.
async fn serve(listener: TcpListener) {
    let service = service_fn(async |request: Request<Incoming>| {
        let asked = |words: &str| request.uri().query().is_some_and(|query| query.contains(words));
        let is_known = request.uri().path() == "/prefix/api/v1/query" && asked("&time=90.000");
        let series: &[(&str, &str)] = if asked(
            "=sum_over_time%28%28max+by+%28queue_name%2C+queue_metadata_name%29+%28kai_queue_allocated_gpus%29%29%5B3600000ms%3A60000ms%5D%29",
        ) {
            &[(r#""queue_metadata_name":"a""#, "180"), (r#""queue_metadata_name":"b""#, "60")]
        } else if asked("nvidia_com_gpu") {
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
async fn a_prometheus_is_asked_by_http() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve(listener));
    let at = |path: &str| UsageDatabase {
        reached: Reached::At(format!("http://{address}{path}").parse().unwrap()),
        ..database(Window::Sliding(HOUR), None)
    };
    let told = async |path: &str| match answer(&at(path), Time(90_000)).await {
        Ok(shares) => {
            format!("{:?}", shares.iter().map(|(at, of)| (at, of.gpu)).collect::<Vec<_>>())
        }
        Err(fault) => fault.replace(&address.to_string(), "HOST"),
    };
    assert_snapshot!(told("/prefix").await, @r#"[("a", 375000), ("b", 125000)]"#);
    assert_snapshot!(told("").await, @"usage of queues from http://HOST: kai_queue_allocated_gpus: found expected value at line 1 column 1, allowed: what Prometheus answers at /api/v1/query");
    served.abort();
    let _ = served.await;
    let gone = told("/prefix").await;
    assert!(
        gone.starts_with(
            "usage of queues from http://HOST/prefix: kai_queue_allocated_gpus: not reached: "
        ),
        "{gone}"
    );
}
