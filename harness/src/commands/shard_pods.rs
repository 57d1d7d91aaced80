//! `schedlab run --on kubernetes`: the shards of a run as pods. `schedlab shard-pod` is what such a
//! pod runs; it prints its results to its log, which every cluster lets its user read.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::ValueEnum as _;
use schedlab_api::quantity;
use schedlab_clusters::interrupt::{Interrupt, Interrupted};
use schedlab_clusters::shard_job::{
    POD_RESULTS_FOLDER, PodFile, PodPlace, ShardJob, run_shard_job,
};
use schedlab_conformance::features::FeatureSuite;
use schedlab_conformance::report::{
    self, FailureLength, RUN_FILES, Reporter, RunRecord, RunResults, Shard,
};
use schedlab_emulator::clock::Clock;

use schedlab_view::report::EncodedTimelines;

use super::shards::{self, ReportPlaces};
use super::{CommandOutput, UsageError, reproduce};
use crate::cli::{ClusterChoice, ExpectedVerdict, Run, ShardPod, ShardPods};
use crate::exit::ExitStatus;

/// The names of the files that options name, in a pod.
const POD_TIMES: &str = "schedlab-times.json";
const POD_QUARANTINE: &str = "schedlab-quarantine.yaml";

/// Runs the shards of a run in pods, and reports the merged results.
pub(super) fn run_in_pods(
    args: &Run,
    suite: &FeatureSuite,
    record: &RunRecord,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    if let Some(message) = inapplicable_option(args) {
        return Err(UsageError(message).into());
    }
    if let Some(message) = report::first_unwritable_path(&args.results, &args.reporter) {
        return Err(UsageError(message).into());
    }
    let job = shard_job(args, suite)?;
    let interrupt = Interrupt::listen()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stamp = Clock::real().now().strftime("%Y%m%d-%H%M%S");
    let name = format!("schedlab-run-{stamp}-{}", std::process::id());
    let ran = runtime.block_on(async {
        let client = pod_place(&args.shard_pods).connect().await?;
        let mut report = |line: &str| output.print_progress(line);
        Box::pin(run_shard_job(&client, &name, &job, &interrupt, &mut report)).await
    });
    let logs = match ran {
        Err(error) if error.is::<Interrupted>() => return Ok(ExitStatus::Interrupted),
        ran => ran?,
    };
    let results = |(index, log): (usize, &String)| {
        let shard = format!("shard {} of {}", index + 1, job.shards);
        let files = report::read_archive(log).map_err(|error| anyhow::anyhow!("{shard}: {error}"));
        let parsed = report::parse_run_files(&shard, &files?);
        check_suite(parsed.map_err(anyhow::Error::msg)?, record)
    };
    let runs = logs.iter().enumerate().map(results).collect::<anyhow::Result<Vec<_>>>()?;
    let length = if args.verbose { FailureLength::Full } else { FailureLength::Short };
    let timelines = EncodedTimelines::default();
    let places =
        ReportPlaces { reporters: &args.reporter, results: &args.results, length, timelines };
    shards::merge_and_report(runs, &places, output)
}

/// Checks that a shard ran the suite that this program selected the scenarios from: the image may
/// have another version.
fn check_suite(results: RunResults, record: &RunRecord) -> anyhow::Result<RunResults> {
    let (pod, here) = (&results.record.identity, &record.identity);
    if pod.suite_digest == here.suite_digest {
        return Ok(results);
    }
    bail!(
        "{}: the image has schedlab {} with the suite {}, expected schedlab {} with {}: build the \
         image anew, or name another one with --pod-image",
        results.name,
        pod.schedlab,
        pod.suite_digest,
        here.schedlab,
        here.suite_digest
    )
}

pub(super) fn pod_place(pods: &ShardPods) -> PodPlace {
    PodPlace {
        kubeconfig: pods.pod_kubeconfig.clone(),
        context: pods.pod_context.clone(),
        namespace: pods.pod_namespace.clone(),
    }
}

/// The message about an option that pods cannot have; `None` if there is none.
fn inapplicable_option(args: &Run) -> Option<String> {
    let expected = |option: &str, why: &str| Some(format!("{option}: {why} (--on kubernetes)"));
    if args.selection.shard.is_some() {
        return expected("--shard", "got one shard, expected all: --shards says how many");
    }
    if args.selection.last_failed {
        return expected("--last-failed", "pods have no last run");
    }
    if args.environment.cluster != ClusterChoice::Emulator {
        let cluster = args.environment.cluster.option_value();
        let why = format!("got {cluster}, expected emulator, which is what pods can run");
        return expected("--cluster", &why);
    }
    args.baseline.as_ref().and_then(|_| expected("--baseline", "pods have no earlier run"))
}

/// The pods of a run.
fn shard_job(args: &Run, suite: &FeatureSuite) -> anyhow::Result<ShardJob> {
    let pods = &args.shard_pods;
    let cores = cores_of_pod(pods)?;
    let jobs = args.execution.jobs.unwrap_or(cores);
    let (files, words) = (pod_files(args, suite)?, pod_words(args, jobs));
    Ok(ShardJob {
        shards: pods.shards.get(),
        image: pods.pod_image.clone(),
        pull_policy: pods.pod_pull_policy.clone(),
        cpu: pods.pod_cpu.clone(),
        memory: pods.pod_memory.clone(),
        words,
        files,
    })
}

/// The cores that a pod requests, rounded up. The request for memory is checked, too.
pub(super) fn cores_of_pod(pods: &ShardPods) -> Result<NonZeroUsize, UsageError> {
    let cpu = quantity_option("--pod-cpu", &pods.pod_cpu)?;
    quantity_option("--pod-memory", &pods.pod_memory)?;
    Ok(whole_cores(cpu))
}

/// A quantity in thousandths.
fn quantity_option(option: &str, text: &str) -> Result<quantity::Milli, UsageError> {
    let parsed = quantity::parse(text).ok().filter(|amount| *amount > 0);
    let message =
        || format!("{option}: got `{text}`, expected a quantity above 0, such as 1 or 500m");
    parsed.ok_or_else(|| UsageError(message()))
}

/// The number of cores, rounded up.
fn whole_cores(cpu: quantity::Milli) -> NonZeroUsize {
    let cores = usize::try_from((cpu + 999).div_euclid(1000));
    cores.ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
}

/// The files that the pods need: the suite if it is not in the program, and those that options name.
fn pod_files(args: &Run, suite: &FeatureSuite) -> anyhow::Result<Vec<PodFile>> {
    let mut files = Vec::new();
    for file in shards::suite_files(suite).into_iter().filter(|file| file.files.is_on_disk()) {
        if Path::new(&file.inner) != file.path {
            let path = file.path.display();
            let why = "expected features below the current folder (--on kubernetes)";
            return Err(UsageError(format!("{path}: {why}")).into());
        }
        let text = file.files.read_text(&file.path).map_err(|error| {
            UsageError(error.message_with_file(&file.path.display().to_string()))
        })?;
        files.push(PodFile { path: file.inner, text });
    }
    if let Some(times) = shards::load_times(args.selection.timings.as_deref(), &args.results)? {
        files.push(PodFile { path: POD_TIMES.to_owned(), text: times.to_json()? });
    }
    if let Some(quarantine) = &args.quarantine {
        let text = std::fs::read_to_string(quarantine)
            .with_context(|| format!("--quarantine {}", quarantine.display()))?;
        files.push(PodFile { path: POD_QUARANTINE.to_owned(), text });
    }
    Ok(files)
}

/// The words of a pod's command. Every option of a run is named here, so that a new one is not
/// forgotten.
fn pod_words(args: &Run, jobs: NonZeroUsize) -> Vec<String> {
    let Run { selection, execution, environment, shard_pods, quarantine, .. } = args;
    let mut words: Vec<String> =
        ["shard-pod", "--index", "$(JOB_COMPLETION_INDEX)", "--of"].map(str::to_owned).to_vec();
    words.push(shard_pods.shards.to_string());
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name}={value}")));
    };
    option("tags", selection.tags.as_ref().map(ToString::to_string));
    for name in &selection.name {
        option("name", Some(name.clone()));
    }
    option("timings", selection.timings.as_ref().map(|_| POD_TIMES.to_owned()));
    option("quarantine", quarantine.as_ref().map(|_| POD_QUARANTINE.to_owned()));
    option("jobs", Some(jobs.to_string()));
    option("retries", Some(execution.retries.to_string()));
    option(
        "flaky-result",
        execution.flaky_result.to_possible_value().map(|it| it.get_name().to_owned()),
    );
    option("max-fail", execution.max_fail.map(|most| most.to_string()));
    option("repeat", Some(execution.repeat.to_string()));
    option("crash-before", execution.crash_before.map(|writes| writes.to_string()));
    option("seed", Some(execution.seed.to_string()));
    option("timeout", Some(reproduce::duration_text(execution.timeout)));
    option("kubernetes", environment.kubernetes.map(|version| version.to_string()));
    let gates = Some(environment.feature_gates.clone()).filter(|gates| !gates.is_empty());
    option("feature-gates", gates);
    option("scheduler", Some(reproduce::scheduler_option(&environment.scheduler)));
    option("target", environment.target.as_ref().map(|target| target.display().to_string()));
    option("results", Some(POD_RESULTS_FOLDER.to_owned()));
    let flags = [
        ("--exact", selection.exact),
        ("--fail-fast", execution.fail_fast),
        ("--shuffle", execution.shuffle),
        ("--force", environment.force),
    ];
    words.extend(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| (*flag).to_owned()));
    words.push("--".to_owned());
    words.extend(selection.paths.iter().cloned());
    words
}

/// Runs `schedlab shard-pod`: runs one shard, and prints its results as lines of the log. The
/// verdict is in the results; the command fails only if there are none.
pub(super) fn run_shard_pod_command(args: ShardPod) -> anyhow::Result<ExitStatus> {
    let ShardPod { index, of, mut run } = args;
    let Some(shard) = Shard::new(index + 1, of.get()) else {
        let message = format!("--index: got {index}, expected less than {of}, as --of says");
        return Err(UsageError(message).into());
    };
    run.selection.shard = Some(shard);
    run.expect = ExpectedVerdict::Pass;
    run.reporter = vec![Reporter::Pretty];
    let exit = super::run::run(&run)?;
    let latest = run.results.join("latest");
    let Some(files) = read_files(&latest, exit)? else { return Ok(exit) };
    let mut output = CommandOutput::for_this_process();
    output.print_result(&report::archive_lines(&files)?);
    Ok(ExitStatus::Passed)
}

/// The files of the run that has just ended; `None` if it wrote no results.
fn read_files(folder: &Path, exit: ExitStatus) -> anyhow::Result<Option<BTreeMap<String, String>>> {
    if matches!(exit, ExitStatus::Usage | ExitStatus::Interrupted) {
        return Ok(None);
    }
    let read = |file: &str| -> anyhow::Result<(String, String)> {
        let path: PathBuf = folder.join(file);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok((file.to_owned(), text))
    };
    RUN_FILES.into_iter().map(read).collect::<anyhow::Result<_>>().map(Some)
}
