//! Generates a trace of Acme's published size, reads it in the native format and in Acme's, and
//! prints how long each takes: `cargo run -p schedlab-traces --example size -- 880740`.
#![expect(clippy::print_stdout, reason = "an example prints")]
#![expect(clippy::disallowed_methods, reason = "the example measures time")]

use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
    time::Instant,
};

use schedlab_api::random::SplitMix64;
use schedlab_traces::{
    JobEnd, JobTrace, ReadOptions, TraceFormat, TraceJob, edit, generate::TraceModel, read_jobs,
    stats::TraceStats, write_jobs,
};

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(880_740), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("schedlab-size-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let done = measure(&folder, count);
    std::fs::remove_dir_all(&folder)?;
    done
}

fn measure(folder: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let like = week();
    let days = (count / like.jobs.len() + 1) * 7;
    let mut trace = TraceModel::fit(&like)?.generate(u64::try_from(days)?, 1);
    edit::scale(&mut trace, edit::Scale::Jobs(count), 1);
    report("generated", began, &trace);

    let began = Instant::now();
    let native = folder.join("trace.jsonl");
    write_jobs(&mut BufWriter::new(File::create(&native)?), &trace)?;
    report("written", began, &trace);
    let acme = folder.join("trace_seren.csv");
    write_acme(&acme, &trace)?;
    drop(trace);

    for path in [native, acme] {
        let began = Instant::now();
        let read = read_jobs(&path, &ReadOptions::default())?;
        report(&format!("read {}", read.format), began, &read);
        let began = Instant::now();
        let hours = TraceStats::new(&read, None).gpu_hours;
        report(&format!("stats ({hours:.0} GPU hours)"), began, &read);
    }
    Ok(())
}

fn report(what: &str, began: Instant, trace: &JobTrace) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("-").trim();
    let secs = began.elapsed().as_secs_f64();
    println!("{what:<32} {:>8} jobs {secs:7.2} s, at most {peak}", trace.jobs.len());
}

/// A week of 5,880 jobs of 40 users.
fn week() -> JobTrace {
    let mut rng = SplitMix64::new(1);
    let job = |at: u32| {
        let gpus = 1 << rng.remainder(4);
        TraceJob {
            name: format!("j{at}").into(),
            pods: 1 + rng.remainder(2) * rng.remainder(8),
            gpus,
            gpu_milli: gpus * 1000,
            cpu_milli: gpus * 16_000,
            user: format!("u{}", rng.remainder(40)).into(),
            kind: "Other".into(),
            arrives_secs: f64::from(at) * 604_800.0 / 5880.0,
            end: JobEnd::RunsSecs(f64::from(u32::try_from(rng.remainder(20_000)).unwrap_or(1))),
            ..TraceJob::default()
        }
    };
    let start = "2023-03-01T00:00:00Z".parse().ok();
    let jobs = (0..5880).map(job).collect();
    JobTrace { format: TraceFormat::JsonLines, start, jobs, notes: Vec::new() }
}

fn write_acme(path: &Path, trace: &JobTrace) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(
        out,
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time"
    )?;
    let start = trace.start.ok_or("the trace has dates")?;
    for job in &trace.jobs {
        let at = |secs: f64| -> Result<String, jiff::Error> {
            let at = start.checked_add(jiff::SignedDuration::from_secs_f64(secs.round()))?;
            Ok(at.strftime("%Y-%m-%d %H:%M:%S+00:00").to_string())
        };
        let run = job.run_secs().unwrap_or_default();
        let (submitted, ended) = (at(job.arrives_secs)?, at(job.arrives_secs.round() + run)?);
        let TraceJob { name, user, pods, gpus, kind, .. } = job;
        let (gpus, cpus) = (gpus * pods, job.cpu_milli / 1000 * pods);
        writeln!(
            out,
            "{name},{user},{pods},{gpus},{cpus},{kind},COMPLETED,{submitted},{submitted},{ended},{run},0,0"
        )?;
    }
    out.flush()?;
    Ok(())
}
