//! `schedlab compare --on kubernetes`: the shards of a comparison as pods of an Indexed Job.
//!
//! The inputs are packed, as a trace is larger than a `ConfigMap`; each pod unpacks them, runs its
//! shard and prints its results to its log.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use schedlab_apps::compare::{self, Args, Completion, NamedResults, Results, ResultsHeader};
use schedlab_clusters::interrupt::{Interrupt, Interrupted};
use schedlab_clusters::shard_job::{POD_RESULTS_FOLDER, PodFile, ShardJob, run_shard_job};
use schedlab_conformance::report::{self, Shard};
use schedlab_emulator::clock::Clock;

use super::compare::{simulate, usage_error_of_plan};
use super::{CommandOutput, UsageError, shard_pods};
use crate::cli::Compare;
use crate::exit::ExitStatus;

/// The files with the packed inputs begin with this name, in a pod.
const PACKED_INPUTS: &str = "compare-inputs";

/// Maximum size of one of these files, in bytes: less than a `ConfigMap` holds.
const PACKED_BYTES_MAX: usize = 700_000;

/// The file with the results in the archive that a pod prints.
const RESULTS: &str = "results.json";

/// Runs the shards of a comparison in pods, and returns the merged results; `None` after Ctrl-C.
pub(super) fn run_in_pods(
    command: &Compare,
    output: &mut CommandOutput,
) -> anyhow::Result<Option<Results>> {
    if command.comparison.only.is_some() {
        let message =
            "--only: got one shard, expected all: --shards says how many (--on kubernetes)";
        return Err(UsageError(message.to_owned()).into());
    }
    let plan = compare::plan(&command.comparison).map_err(usage_error_of_plan)?;
    if plan.is_in_real_time() {
        let message = "--a, --b: got process:…, expected another side: pods have no such program, and \
                       real time needs a machine of its own (--on kubernetes)";
        return Err(UsageError(message.to_owned()).into());
    }
    let job = shard_job(command)?;
    let interrupt = Interrupt::listen()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stamp = Clock::real().now().strftime("%Y%m%d-%H%M%S");
    let name = format!("schedlab-compare-{stamp}-{}", std::process::id());
    let ran = runtime.block_on(async {
        let client = shard_pods::pod_place(&command.shard_pods).connect().await?;
        let mut report = |line: &str| output.print_progress(line);
        Box::pin(run_shard_job(&client, &name, &job, &interrupt, &mut report)).await
    });
    let logs = match ran {
        Err(error) if error.is::<Interrupted>() => return Ok(None),
        ran => ran?,
    };
    merge_pod_logs(plan.header().clone(), &logs).map(Some)
}

/// The pods, with their files and words.
fn shard_job(command: &Compare) -> anyhow::Result<ShardJob> {
    let pods = &command.shard_pods;
    let cores = shard_pods::cores_of_pod(pods)?;
    let inputs = PackedInputs::of(command)?;
    let files = inputs.pod_files()?;
    Ok(ShardJob {
        shards: pods.shards.get(),
        image: pods.pod_image.clone(),
        pull_policy: pods.pod_pull_policy.clone(),
        cpu: pods.pod_cpu.clone(),
        memory: pods.pod_memory.clone(),
        words: pod_words(command, &inputs, cores),
        files,
    })
}

/// The input files of a comparison by their names in a pod.
#[derive(Debug, Default)]
struct PackedInputs {
    files: BTreeMap<String, String>,
    /// The name in a pod by the path here.
    names: BTreeMap<PathBuf, String>,
}

impl PackedInputs {
    fn of(command: &Compare) -> anyhow::Result<Self> {
        let args = &command.comparison;
        let mut packed = Self::default();
        for path in [&args.fleet, &args.trace, &args.queues].into_iter().flatten() {
            packed.add(path)?;
        }
        let sides = [&args.a, &args.b].into_iter().flatten().flat_map(|side| side.split(','));
        for path in sides.map(Path::new).filter(|path| path.exists()) {
            packed.add(path)?;
        }
        Ok(packed)
    }

    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let text = fs::read_to_string(path).map_err(|error| {
            UsageError(format!(
                "{}: {error}, expected a text file, which pods can have (--on kubernetes)",
                path.display()
            ))
        })?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{}-{file}", self.names.len());
        self.files.insert(name.clone(), text);
        self.names.insert(path.to_owned(), name);
        Ok(())
    }

    /// The path of a file in a pod.
    fn pod_path(&self, path: &Path) -> String {
        let name = self.names.get(path).map_or_else(|| path.display().to_string(), Clone::clone);
        format!("{}/{name}", inputs_folder().display())
    }

    fn pod_files(&self) -> anyhow::Result<Vec<PodFile>> {
        let mut files: Vec<PodFile> = Vec::new();
        for line in report::archive_lines(&self.files)?.lines() {
            let is_full = |file: &PodFile| file.text.len() + line.len() >= PACKED_BYTES_MAX;
            if files.last().is_none_or(is_full) {
                let path = format!("{PACKED_INPUTS}-{:04}", files.len());
                files.push(PodFile { path, text: String::new() });
            }
            if let Some(file) = files.last_mut() {
                file.text.push_str(line);
                file.text.push('\n');
            }
        }
        Ok(files)
    }
}

/// The folder in which a pod unpacks the inputs.
fn inputs_folder() -> PathBuf {
    Path::new(POD_RESULTS_FOLDER).join("inputs")
}

/// The words of a pod's command. Every option of a comparison that changes simulations is named
/// here, so that a new one is not forgotten.
fn pod_words(command: &Compare, inputs: &PackedInputs, parallel: NonZeroUsize) -> Vec<String> {
    let Args {
        fleet,
        trace,
        format,
        queues,
        a,
        b,
        seeds,
        seed,
        vary,
        unpaired,
        until,
        series,
        jobs,
        confidence: _,
        promise: _,
        only: _,
        merge: _,
        all: _,
        json: _,
        csv: _,
        html: _,
        progress: _,
        process: _,
        labels: _,
    } = &command.comparison;
    let mut words: Vec<String> =
        ["compare", "--pod-index", "$(JOB_COMPLETION_INDEX)"].map(str::to_owned).to_vec();
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name}={value}")));
    };
    let path = |path: &Option<PathBuf>| path.as_deref().map(|path| inputs.pod_path(path));
    let side = |side: &Option<String>| {
        let value = |value: &str| {
            let path = Path::new(value);
            if inputs.names.contains_key(path) { inputs.pod_path(path) } else { value.to_owned() }
        };
        side.as_ref().map(|side| side.split(',').map(value).collect::<Vec<_>>().join(","))
    };
    option("shards", Some(command.shard_pods.shards.to_string()));
    option("fleet", path(fleet));
    option("trace", path(trace));
    option("format", format.map(|format| format.to_string()));
    option("queues", path(queues));
    option("a", side(a));
    option("b", side(b));
    option("seeds", Some(seeds.to_string()));
    option("seed", Some(seed.to_string()));
    option("vary", Some(vary.name().to_owned()));
    option("until", until.map(|until| format!("{}s", until.as_secs())));
    option("series", Some(format!("{}s", series.as_secs())));
    option("jobs", Some(jobs.unwrap_or(parallel).to_string()));
    for (at, side) in [a, b].into_iter().enumerate() {
        let label = side.as_deref().map(|side| format!("{}={side}", ["a", "b"][at]));
        option("label", label);
    }
    words.extend(unpaired.then(|| "--unpaired".to_owned()));
    words
}

/// Runs one shard in a pod: unpacks the inputs, and prints the results as lines of the log.
pub(super) fn run_in_pod(
    command: &Compare,
    index: usize,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let shards = command.shard_pods.shards.get();
    let Some(shard) = Shard::new(index + 1, shards) else {
        let message = format!("--pod-index: got {index}, expected less than {shards}");
        return Err(UsageError(message).into());
    };
    unpack_inputs(Path::new("."), &inputs_folder())?;
    let mut command = command.clone();
    command.comparison.only = Some(shard);
    let (results, completion) = simulate(&command, output)?;
    if completion == Completion::Stopped {
        return Ok(ExitStatus::Interrupted);
    }
    output.print_result(&pod_log(&results)?);
    Ok(ExitStatus::Passed)
}

/// The results as lines of a pod's log.
fn pod_log(results: &Results) -> anyhow::Result<String> {
    let text = compare::results_text(results)?;
    let files = BTreeMap::from([(RESULTS.to_owned(), text)]);
    report::archive_lines(&files)
}

/// Merges the results in the logs of all pods. `header` is that of this process: an image of another
/// version, or with other inputs, differs from it.
fn merge_pod_logs(header: ResultsHeader, logs: &[String]) -> anyhow::Result<Results> {
    let here = NamedResults {
        file: "this schedlab".to_owned(),
        results: Results { header, units: Vec::new() },
    };
    let mut shards = vec![here];
    for (at, log) in logs.iter().enumerate() {
        let shard = format!("shard {} of {}", at + 1, logs.len());
        let files = report::read_archive(log).map_err(|error| anyhow!("{shard}: {error}"))?;
        let text = files.get(RESULTS).with_context(|| format!("{shard}: got no {RESULTS}"))?;
        shards.push(compare::parse_results(&shard, text)?);
    }
    Ok(compare::merge_results(shards)?)
}

/// Unpacks the inputs that `from` has, if any, into a folder.
fn unpack_inputs(from: &Path, into: &Path) -> anyhow::Result<()> {
    let mut packed: Vec<PathBuf> = fs::read_dir(from)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?
        .into_iter()
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PACKED_INPUTS))
        })
        .collect();
    packed.sort();
    let texts = packed.iter().map(fs::read_to_string).collect::<std::io::Result<Vec<_>>>()?;
    let files = report::read_archive(&texts.concat()).map_err(anyhow::Error::msg)?;
    fs::create_dir_all(into)?;
    for (name, text) in files {
        let path = into.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use schedlab_apps::compare::CompareProgress;

    use super::*;
    use crate::cli::{Cli, Command};

    fn compare_command(words: &[String]) -> Compare {
        let words = std::iter::once("schedlab".to_owned()).chain(words.iter().cloned());
        let Command::Compare(command) = Cli::try_parse_from(words).unwrap().command else {
            panic!("the words are those of compare")
        };
        *command
    }

    /// The log of the pod with this index, which runs in `folder` with its files.
    fn log_of_pod(job: &ShardJob, index: usize, folder: &Path) -> String {
        let inputs = folder.join("inputs");
        for file in &job.files {
            fs::write(folder.join(&file.path), &file.text).unwrap();
        }
        unpack_inputs(folder, &inputs).unwrap();
        let here = |word: &String| {
            word.replace("$(JOB_COMPLETION_INDEX)", &index.to_string())
                .replace(&inputs_folder().display().to_string(), &inputs.display().to_string())
        };
        let command = compare_command(&job.words.iter().map(here).collect::<Vec<_>>());
        let shard = Shard::new(command.pod_index.unwrap() + 1, command.shard_pods.shards.get());
        let plan = compare::plan(&command.comparison).unwrap();
        let (results, _) = plan.run(shard, &CompareProgress::default()).unwrap();
        pod_log(&results).unwrap()
    }

    #[test]
    fn logs_of_all_pods_merge_to_the_results_of_one_process() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let fleet = write("fleet.yaml", "pools:\n- {name: n, count: 1, gpus: 8}\n");
        let queues = write("queues.csv", "name,quota\na,4\nb,4\n");
        let planned = write("planned.csv", "name,quota\na,1\nb,7\n");
        let job =
            |at: usize| format!("j{at},{},{},{},3600", ["a", "b"][at % 2], 1 + at % 4, at * 900);
        let jobs = (0..30).map(job).collect::<Vec<_>>().join("\n");
        let header = "name,queue,gpus,arrives_secs,runs_secs\n";
        let trace = write("jobs.csv", &format!("{header}{jobs}"));
        let sides = format!("{planned},kai");
        let options = [
            "compare",
            "--fleet",
            &fleet,
            "--trace",
            &trace,
            "--queues",
            &queues,
            "--b",
            &sides,
            "--seeds",
            "2",
            "--seed",
            "7",
            "--vary",
            "arrivals",
            "--until",
            "5h",
            "--on",
            "kubernetes",
            "--shards",
            "3",
        ];
        let command = compare_command(&options.map(str::to_owned));
        let plan = compare::plan(&command.comparison).unwrap();
        let (whole, _) = plan.run(None, &CompareProgress::default()).unwrap();
        let job = shard_job(&command).unwrap();
        let logs: Vec<String> = (0..job.shards)
            .map(|index| log_of_pod(&job, index, tempfile::tempdir().unwrap().path()))
            .collect();
        let merged = merge_pod_logs(plan.header().clone(), &logs).unwrap();
        assert_eq!(compare::results_text(&merged).unwrap(), compare::results_text(&whole).unwrap());
        let error = merge_pod_logs(plan.header().clone(), &logs[1..]).unwrap_err();
        assert_eq!(error.to_string(), "got results of 2 of 4 simulations: a shard is missing");
    }

    #[test]
    fn packed_inputs_of_any_size_are_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        // Text that does not compress, so that there are several parts.
        let mut rng = schedlab_api::random::SplitMix64::new(1);
        let mut large = String::new();
        for _ in 0..200_000 {
            large += &rng.next_u64().to_string();
        }
        let files =
            BTreeMap::from([("0-nodes".to_owned(), "n".to_owned()), ("1".to_owned(), large)]);
        let inputs = PackedInputs { files: files.clone(), names: BTreeMap::new() };
        let parts = inputs.pod_files().unwrap();
        assert!(parts.len() > 1 && parts.iter().all(|part| part.text.len() <= 800_000));
        for part in &parts {
            fs::write(folder.path().join(&part.path), &part.text).unwrap();
        }
        unpack_inputs(folder.path(), &folder.path().join("into")).unwrap();
        for (name, text) in files {
            assert_eq!(fs::read_to_string(folder.path().join("into").join(name)).unwrap(), text);
        }
    }
}
