//! Statistics of traces; generated, cut, merged and scaled traces; jobs of recorded pods.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use insta::assert_snapshot;
use schedlab_api::random::SplitMix64;
use schedlab_api::{Value, json};
use schedlab_traces::edit::{self, Cut, Scale};
use schedlab_traces::generate::TraceModel;
use schedlab_traces::objects::RecordedPods;
use schedlab_traces::pods::{PodRecord, PodSelection, jobs_from_pods};
use schedlab_traces::prometheus::{Answer, PrometheusPods, Series};
use schedlab_traces::stats::{GroupStats, TraceStats};
use schedlab_traces::{
    JobEnd, JobTrace, TraceFormat, TraceJob, TraceNode, queues_of, write_jobs, write_queues,
};

const DAY: f64 = 86_400.0;

/// Two weeks from a Monday on: 12 jobs an hour on weekdays from 8 to 18 o'clock and 2 otherwise;
/// three of four are of queue `small` and run minutes, the others of queue `large` run hours.
fn two_weeks() -> JobTrace {
    let mut rng = SplitMix64::new(5);
    let mut jobs = Vec::new();
    for hour in 0..14 * 24_u32 {
        let is_busy = (hour / 24) % 7 < 5 && (8..18).contains(&(hour % 24));
        for _ in 0..if is_busy { 12 } else { 2 } {
            let minute = f64::from(u32::try_from(rng.remainder(3600)).unwrap());
            let draw = f64::from(u32::try_from(rng.remainder(1000)).unwrap());
            let is_large = rng.remainder(4) == 0;
            let (queue, gpus, run) = if is_large {
                ("large", 8, 3600.0 + 10.0 * draw)
            } else {
                ("small", 1, 60.0 + draw)
            };
            jobs.push(TraceJob {
                name: format!("j{}", jobs.len()).into(),
                pods: if is_large { 2 } else { 1 },
                gpus,
                gpu_milli: gpus * 1000,
                queue: queue.into(),
                models: if is_large { vec!["H100".into()] } else { vec![] },
                arrives_secs: f64::from(hour) * 3600.0 + minute,
                end: JobEnd::RunsSecs(run),
                ..TraceJob::default()
            });
        }
    }
    let start = Some("2026-11-02T00:00:00Z".parse().unwrap());
    let mut trace = JobTrace { format: TraceFormat::JsonLines, start, jobs, notes: vec![] };
    trace.sort_by_arrival();
    trace
}

fn text(trace: &JobTrace) -> String {
    let mut out = Vec::new();
    write_jobs(&mut out, trace).unwrap();
    String::from_utf8(out).unwrap()
}

fn is_near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * b.abs()
}

#[test]
fn statistics_name_sizes_queues_models_arrivals_and_load() {
    let node = |at| TraceNode { name: format!("n{at}"), gpus: 8, ..TraceNode::default() };
    let fleet: Vec<TraceNode> = (0..8).map(node).collect();
    assert_snapshot!(TraceStats::new(&two_weeks(), Some(&fleet)).to_table(), @"
    1672 jobs with 2096 pods in 13.98 days from 2026-11-02T00:00:00Z
    GPU hours           16491.5
    GPUs in use            49.2 on average, if no job waited
    load                   76.8 % of 64 GPUs
    arrivals                5.0 an hour, at most 12
      by hour      0 h ▂▂▂▂▂▂▂▂██████████▂▂▂▂▂▂ 23 h (UTC)
      by weekday   Mon █████▃▃ Sun

    size                          jobs    GPU hours   run p50       p90       p99       max
    1 GPU                         1248        194.4    565.0s     15.8m     17.5m     17.6m
    9-64 GPUs                      424      16297.1    143.3m    212.2m    225.5m    226.3m

    queue                         jobs    GPU hours   run p50       p90       p99       max
    large                          424      16297.1    143.3m    212.2m    225.5m    226.3m
    small                         1248        194.4    565.0s     15.8m     17.5m     17.6m

    GPU model                     jobs    GPU hours   run p50       p90       p99       max
    (none)                        1248        194.4    565.0s     15.8m     17.5m     17.6m
    H100                           424      16297.1    143.3m    212.2m    225.5m    226.3m
    ");
}

#[test]
fn a_generated_trace_is_like_the_original() {
    let original = two_weeks();
    let model = TraceModel::fit(&original).unwrap();
    let generated = model.generate(28, 1);
    assert_eq!(generated, model.generate(28, 1), "the same seed gives the same trace");
    assert_ne!(generated.jobs, model.generate(28, 2).jobs);
    let (old, new) = (TraceStats::new(&original, None), TraceStats::new(&generated, None));
    let count = |jobs: usize| f64::from(u32::try_from(jobs).unwrap());
    assert!(is_near(count(new.jobs), 2.0 * count(old.jobs), 0.05), "{} of {}", new.jobs, old.jobs);
    assert!(
        is_near(new.gpu_hours, 2.0 * old.gpu_hours, 0.15),
        "{} of {}",
        new.gpu_hours,
        old.gpu_hours
    );
    for (hour, (new, old)) in new.arrivals_by_hour.iter().zip(&old.arrivals_by_hour).enumerate() {
        let (new, old) =
            (count(usize::try_from(*new).unwrap()), count(usize::try_from(*old).unwrap()));
        assert!(is_near(new, 2.0 * old, 0.15), "hour {hour}: {new} of {old}");
    }
    for (day, (new, old)) in
        new.arrivals_by_weekday.iter().zip(&old.arrivals_by_weekday).enumerate()
    {
        let (new, old) =
            (count(usize::try_from(*new).unwrap()), count(usize::try_from(*old).unwrap()));
        assert!(is_near(new, 2.0 * old, 0.15), "day {day}: {new} of {old}");
    }
    let near = |new: &[GroupStats], old: &[GroupStats]| {
        assert_eq!(new.len(), old.len());
        for (new, old) in new.iter().zip(old) {
            assert_eq!(new.of, old.of);
            assert!(is_near(count(new.jobs), 2.0 * count(old.jobs), 0.15), "{new:?} {old:?}");
            let median = new.run_median_secs.zip(old.run_median_secs).unwrap();
            assert!(is_near(median.0, median.1, 0.15), "{new:?} {old:?}");
        }
    };
    near(&new.by_size, &old.by_size);
    near(&new.by_queue, &old.by_queue);
    near(&new.by_model, &old.by_model);
}

/// A trace of half a day is enough: hours that it does not have are like those of its hours.
#[test]
fn a_short_trace_has_a_pattern_too() {
    let mut short = two_weeks();
    Cut { to_secs: Some(DAY / 2.0), ..Cut::default() }.apply(&mut short);
    let generated = TraceModel::fit(&short).unwrap().generate(2, 3);
    assert!(generated.jobs.len() > short.jobs.len());
    let none = JobTrace { jobs: vec![], ..short.clone() };
    assert_eq!(
        TraceModel::fit(&none).unwrap_err().to_string(),
        "got a trace without jobs, expected at least one"
    );
}

#[test]
fn a_cut_keeps_a_time_and_queues() {
    let mut cut = two_weeks();
    Cut { from_secs: Some(DAY), to_secs: Some(2.0 * DAY), queues: vec!["large".to_owned()] }
        .apply(&mut cut);
    assert_eq!(cut.start.unwrap().to_string(), "2026-11-03T00:00:00Z");
    assert!(cut.jobs.iter().all(|job| (0.0..DAY).contains(&job.arrives_secs)));
    assert!(cut.jobs.iter().all(|job| job.queue == "large"));
    assert!((20..60).contains(&cut.jobs.len()), "{}", cut.jobs.len());
}

#[test]
fn merged_traces_keep_their_dates_and_get_unique_names() {
    let first = two_weeks();
    let mut later = two_weeks();
    later.start = Some("2026-11-03T00:00:00Z".parse().unwrap());
    let merged = edit::merge(vec![first.clone(), later.clone()]);
    assert_eq!(merged.start, first.start);
    assert_eq!(merged.jobs.len(), 2 * first.jobs.len());
    let moved = merged.jobs.iter().find(|job| job.name == "j0-2").unwrap();
    let own = later.jobs.iter().find(|job| job.name == "j0").unwrap();
    assert!((moved.arrives_secs - own.arrives_secs - DAY).abs() < 1e-6);
    later.start = None;
    let undated = edit::merge(vec![first, later]);
    assert_eq!((undated.start, undated.notes.len()), (None, 1));
}

#[test]
fn a_scaled_trace_has_the_wanted_load_or_number_of_jobs() {
    let hours = |trace: &JobTrace| TraceStats::new(trace, None).gpu_hours;
    let scaled = |scale| {
        let mut trace = two_weeks();
        edit::scale(&mut trace, scale, 9);
        trace
    };
    let original = two_weeks();
    for factor in [0.25, 1.0, 1.3, 2.75] {
        let trace = scaled(Scale::Load(factor));
        let now = hours(&trace);
        assert!(is_near(now, factor * hours(&original), 0.01), "{factor}: {now}");
        let mut names: Vec<_> = trace.jobs.iter().map(|job| &job.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), trace.jobs.len(), "{factor}: names are unique");
    }
    for jobs in [1, 100, original.jobs.len(), 5000] {
        assert_eq!(scaled(Scale::Jobs(jobs)).jobs.len(), jobs);
    }
    assert_eq!(scaled(Scale::Load(1.3)), scaled(Scale::Load(1.3)));
    // Services, which have no run time, are neither copied nor left out.
    for factor in [0.25, 2.75] {
        let mut trace = two_weeks();
        trace.jobs[3].end = JobEnd::Never;
        let service = trace.jobs[3].clone();
        edit::scale(&mut trace, Scale::Load(factor), 9);
        let services = trace.jobs.iter().filter(|job| job.end == JobEnd::Never);
        assert!(services.eq([&service]), "{factor}");
    }
    assert_eq!(scaled(Scale::Load(1.0)), original);
}

#[test]
fn queues_get_the_gpus_of_the_fleet_by_their_gpu_hours() {
    let node = TraceNode { gpus: 100, ..TraceNode::default() };
    let mut out = Vec::new();
    write_queues(&mut out, &queues_of(&two_weeks(), Some(&[node]))).unwrap();
    assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
    {"name":"large","quota":98.8,"weight":1.0,"limit":-1.0,"priority":100}
    {"name":"small","quota":1.1,"weight":1.0,"limit":-1.0,"priority":100}
    "#);
}

/// A pod as `kubectl get` prints it, which started when it was created.
fn pod(name: &str, owner: &str, created: &str, ended: Option<&str>, gpus: &str) -> Value {
    let running = json!({"running": {"startedAt": created}});
    let state = ended.map_or(
        running,
        |ended| json!({"terminated": {"startedAt": created, "finishedAt": ended}}),
    );
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "team-a", "uid": format!("uid-{name}"),
            "creationTimestamp": created, "labels": {"kai.scheduler/queue": "team-a"},
            "ownerReferences": [{"kind": "PyTorchJob", "name": owner, "controller": true}],
        },
        "spec": {
            "priorityClassName": "train",
            "nodeSelector": {"nvidia.com/gpu.product": "H100"},
            "containers": [{"name": "c", "resources": {
                "requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"nvidia.com/gpu": gpus},
            }}],
        },
        "status": {
            "phase": if ended.is_some() { "Succeeded" } else { "Running" },
            "containerStatuses": [{"state": state}],
        },
    })
}

/// Pods of one owner are a gang; those that come an hour later are its next run.
#[test]
fn pods_of_kubectl_become_jobs() {
    let mut pods = RecordedPods::default();
    let at = |time: &str| format!("2026-11-02T{time}Z");
    for (name, created) in [("w0", "10:00:00"), ("w1", "10:00:01"), ("w2", "10:00:02")] {
        pods.add_pod(&pod(name, "train", &at(created), Some(&at("12:00:02")), "8"));
    }
    pods.add_pod(&pod("master", "train", &at("10:00:00"), Some(&at("12:00:00")), "1"));
    pods.add_pod(&pod("again", "train", &at("13:00:00"), None, "8"));
    pods.add_pod(&json!({"metadata": {"name": "coredns", "namespace": "kube-system", "creationTimestamp": at("09:00:00")}}));
    let event = |reason: &str, name: &str| {
        json!({
            "involvedObject": {"kind": "Pod", "namespace": "team-a", "name": name},
            "reason": reason, "lastTimestamp": at("14:00:00"),
        })
    };
    pods.add_event(&event("Killing", "again"));
    pods.add_event(&event("Killing", "gone"));
    let finished = pods.finish();
    assert_eq!(finished.known_by_events_only, 1);
    let trace = jobs_from_pods(finished.pods, PodSelection::GpuOrQueue);
    let notes = trace.notes.join("\n");
    assert_snapshot!(format!("{notes}\n{}", text(&trace)), @r#"
    1 job more than groups: pods of a group with different requests were split
    pods skipped: 1, without GPU and queue (--all-pods takes them)
    {"format":"schedlab.dev/trace/v1","start":"2026-11-02T10:00:00Z"}
    {"name":"team-a-train","cpu_milli":8000,"memory_mib":65536,"gpus":1,"models":["H100"],"queue":"team-a","kind":"PyTorchJob","priority_class":"train","arrives_secs":0.0,"runs_secs":7200.0}
    {"name":"team-a-train-2","pods":3,"cpu_milli":8000,"memory_mib":65536,"gpus":8,"models":["H100"],"queue":"team-a","kind":"PyTorchJob","priority_class":"train","arrives_secs":0.0,"runs_secs":7200.0}
    {"name":"team-a-train-3","cpu_milli":8000,"memory_mib":65536,"gpus":8,"models":["H100"],"queue":"team-a","kind":"PyTorchJob","priority_class":"train","arrives_secs":10800.0,"runs_secs":3600.0}
    "#);
}

#[test]
fn shares_of_gpus_are_read_from_annotations() {
    let mut share = pod("s", "s", "2026-11-02T10:00:00Z", None, "0");
    share["metadata"]["annotations"] =
        json!({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"});
    let mut memory = pod("m", "m", "2026-11-02T10:00:00Z", None, "0");
    memory["metadata"]["annotations"] = json!({"gpu-memory": "20480"});
    let mut pods = RecordedPods::default();
    pods.add_pod(&share);
    pods.add_pod(&memory);
    let trace = jobs_from_pods(pods.finish().pods, PodSelection::GpuOrQueue);
    let requests: Vec<_> =
        trace.jobs.iter().map(|job| (job.gpus, job.gpu_milli, job.gpu_memory_mib)).collect();
    assert_eq!(requests, [(1, 1000, 20480), (2, 500, 0)]);
}

/// A pod that vanished between two scrapes ended when it was last seen.
#[test]
fn series_of_kube_state_metrics_become_pods() {
    let answer = |metric: Value, value: &str| -> Answer {
        let result = json!([{"metric": metric, "values": [[1000.0, value]]}]);
        let text = json!({"status": "success", "data": {"resultType": "matrix", "result": result}});
        serde_json::from_str(&text.to_string()).unwrap()
    };
    let labelled = |name: &str, more: Value| {
        let mut labels = json!({"namespace": "default", "pod": name, "uid": name});
        for (key, value) in more.as_object().unwrap() {
            labels[key.as_str()] = value.clone();
        }
        labels
    };
    let mut pods = PrometheusPods::default();
    for (name, completed) in [("done", Some("1500")), ("vanished", None)] {
        let mut add = |series, more: Value, value: &str| {
            pods.add(series, &answer(labelled(name, more), value).data);
        };
        add(Series::Created, json!({}), "1000");
        add(Series::Started, json!({}), "1010");
        if let Some(completed) = completed {
            add(Series::Completed, json!({}), completed);
        }
        add(Series::LastSeen, json!({}), "2000");
        add(Series::Requests, json!({"container": "a", "resource": "nvidia_com_gpu"}), "2");
        add(Series::Requests, json!({"container": "a", "resource": "cpu"}), "1.5");
        add(Series::Requests, json!({"container": "b", "resource": "memory"}), "1048576000");
        add(Series::Labels, json!({"label_kai_scheduler_queue": "team-a"}), "1");
        add(Series::Owner, json!({"owner_kind": "<none>", "owner_name": "<none>"}), "1");
    }
    let found = pods.finish(10_000.0, 600.0).pods;
    let expected = |name: &str, ended: f64| PodRecord {
        namespace: "default".into(),
        name: name.into(),
        created: Some(1000.0),
        started: Some(1010.0),
        ended: Some(ended),
        queue: "team-a".into(),
        cpu_milli: 1500,
        memory_mib: 1000,
        gpus: 2,
        gpu_milli: 2000,
        ..PodRecord::default()
    };
    assert_eq!(found, [expected("done", 1500.0), expected("vanished", 2000.0)]);
}
