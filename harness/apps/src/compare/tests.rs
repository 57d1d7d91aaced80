//! Comparisons on a small saturated fleet: what is marked, and what shards give.

use std::fmt::Write as _;
use std::fs;

use clap::Parser as _;
use schedlab_api::random::SplitMix64;
use tempfile::TempDir;

use super::comparison::{Comparison, compare};
use super::figure::Scope;
use super::*;
use crate::experiment::Figures;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

/// Two nodes with 4 GPUs and three teams with quotas of 4, 2 and 2 GPUs, who request a little more
/// than all GPUs for a day.
struct SmallFleet {
    folder: TempDir,
}

impl SmallFleet {
    fn new() -> Self {
        let fleet = Self { folder: tempfile::tempdir().unwrap() };
        let nodes = "{\"name\": \"n0\", \"gpus\": 4}\n{\"name\": \"n1\", \"gpus\": 4}\n";
        let mut rng = SplitMix64::new(7);
        let mut jobs = String::new();
        for at in 0..80 {
            let (gpus, team) = ([1, 2, 4][rng.below(3)], rng.below(3));
            let (arrives, runs) = (rng.below(90_000), 900 + rng.below(7200));
            let _ = writeln!(
                jobs,
                "{{\"name\": \"j{at}\", \"gpus\": {gpus}, \"queue\": \"team-{team}\", \
                 \"arrives_secs\": {arrives}, \"runs_secs\": {runs}}}"
            );
        }
        fleet.write("nodes.jsonl", nodes);
        fleet.write("jobs.jsonl", &jobs);
        fleet.write("now.jsonl", &queues(4));
        fleet.write("planned.jsonl", &queues(0));
        fleet
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn args(&self, options: &[&str]) -> Args {
        let files =
            [("--fleet", "nodes.jsonl"), ("--trace", "jobs.jsonl"), ("--queues", "now.jsonl")];
        let files = files.iter().flat_map(|(option, file)| [(*option).to_owned(), self.path(file)]);
        let own = options.iter().map(|word| match word.strip_prefix('@') {
            Some(file) => self.path(file),
            None => (*word).to_owned(),
        });
        let words = std::iter::once("compare".to_owned()).chain(files).chain(own);
        Command::try_parse_from(words).unwrap().args
    }
}

/// The queues of the teams; the first team has this quota.
fn queues(first_quota: u32) -> String {
    let mut lines = String::new();
    for (at, quota) in [first_quota, 2, 2].into_iter().enumerate() {
        let _ = writeln!(lines, "{{\"name\": \"team-{at}\", \"quota\": {quota}}}");
    }
    lines
}

fn run(args: &Args) -> Results {
    let (results, completion) = plan(args).unwrap().run(None, &CompareProgress::default()).unwrap();
    assert_eq!(completion, Completion::Complete);
    results
}

fn marked_queues(comparison: &Comparison) -> Vec<String> {
    let marked = comparison.rows.iter().filter(|row| row.is_beyond_chance);
    let of_queue = marked.filter(|row| row.key.scope == Scope::Queue);
    of_queue
        .map(|row| format!("{} {}", row.key.of, if row.is_better() { "better" } else { "worse" }))
        .collect()
}

#[test]
fn a_policy_compared_with_itself_is_marked_in_at_most_one_of_twenty_tries() {
    let fleet = SmallFleet::new();
    let results = run(&fleet.args(&["--b", "kai", "--seeds", "12", "--unpaired"]));
    let figures: Vec<Figures> = results.units.iter().map(|result| result.figures.clone()).collect();
    let mut rng = SplitMix64::new(20);
    let mut tries_with_marks = 0;
    for _ in 0..20 {
        let mut left = figures.clone();
        let mut draw = |pair, side| {
            let figures = left.swap_remove(rng.below(left.len()));
            UnitResult { unit: Unit { pair, side }, seed: 0, figures }
        };
        let units = (0..10).flat_map(|pair| [draw(pair, Side::A), draw(pair, Side::B)]).collect();
        let comparison = compare(&Results { units, ..results.clone() }, 0.01);
        assert!(comparison.rows.len() > 50, "{} figures", comparison.rows.len());
        tries_with_marks += usize::from(comparison.rows.iter().any(|row| row.is_beyond_chance));
    }
    assert!(tries_with_marks <= 1, "{tries_with_marks} of 20 tries have marks");
}

#[test]
fn a_smaller_quota_is_marked_as_worse_for_its_team_and_better_for_others() {
    let fleet = SmallFleet::new();
    let results = run(&fleet.args(&["--b", "@planned.jsonl", "--seeds", "10"]));
    let marked = marked_queues(&compare(&results, 0.01 + 1e-9));
    assert!(marked.contains(&"team-0 worse".to_owned()), "{marked:?}");
    assert!(
        marked.iter().all(|mark| (mark.starts_with("team-0")) == mark.ends_with("worse")),
        "{marked:?}"
    );
}

#[test]
fn merged_shards_report_what_the_unsharded_comparison_reports() {
    let fleet = SmallFleet::new();
    let args = fleet.args(&["--b", "@planned.jsonl", "--seeds", "2", "--json"]);
    let whole = results_text(&run(&args)).unwrap();
    let shard = |index| {
        let plan = plan(&args).unwrap();
        let (results, _) = plan.run(Shard::new(index, 3), &CompareProgress::default()).unwrap();
        parse_results("shard", &results_text(&results).unwrap()).unwrap()
    };
    let merged = merge_results(vec![shard(2), shard(3), shard(1)]).unwrap();
    assert_eq!(results_text(&merged).unwrap(), whole);
    let text =
        |results: &Results| report(results, &args, &Promises::default(), Colors::Off).unwrap().text;
    let whole = parse_results("whole", &whole).unwrap().results;
    assert_eq!(text(&merged), text(&whole));
}

#[test]
fn a_stopped_comparison_leaves_out_what_did_not_end() {
    let fleet = SmallFleet::new();
    let progress = CompareProgress::default();
    progress.stop();
    let plan = plan(&fleet.args(&["--b", "kube", "--seeds", "2"])).unwrap();
    let (results, completion) = plan.run(None, &progress).unwrap();
    assert_eq!((results.units.len(), completion), (0, Completion::Stopped));
}

#[test]
fn a_scheduler_that_cannot_be_started_is_refused() {
    let fleet = SmallFleet::new();
    let error = |side: &str| {
        let error = plan(&fleet.args(&["--b", side])).unwrap_err();
        format!("{error:#}")
    };
    assert_eq!(
        error("@planned.jsonl,process:/no/kube-scheduler"),
        "--b: scheduler kube-scheduler: there is no program /no/kube-scheduler"
    );
    assert_eq!(
        error("installed:kai-scheduler"),
        "--b: expected process:COMMAND: simulations start their scheduler"
    );
    assert!(error("process:kueue").contains("expected one that reads KAI's queues"));
}

#[test]
fn a_promise_about_an_unknown_queue_is_refused_before_anything_is_simulated() {
    let fleet = SmallFleet::new();
    let error = |promises: &str| {
        fleet.write("promises.yaml", promises);
        let path = fleet.path("promises.yaml");
        let error = plan(&fleet.args(&["--b", "kai", "--promise", &path])).unwrap_err();
        format!("{error:#}").replace(&path, "promises.yaml")
    };
    assert_eq!(
        error("- fleet utilisation >= 50%\n- taem-1 wait-p90 < 7d\n"),
        "promises.yaml: promise 2: got wait-p90 of \"taem-1\", expected that of fleet, 1 GPU, \
         2 GPUs, 3-4 GPUs, team-0, team-1, team-2; did you mean `team-1`?"
    );
    assert!(error("").starts_with("promises.yaml: got no promise, expected a list of promises"));
}

/// A pod of a gang is a job of another size, which no figure may compare with the gang's.
#[test]
fn figures_of_sizes_are_left_out_if_only_one_side_has_gangs() {
    let fleet = SmallFleet::new();
    let gang =
        "{\"name\": \"g\", \"pods\": 2, \"gpus\": 2, \"queue\": \"team-0\", \"runs_secs\": 60}\n";
    fleet.write("jobs.jsonl", gang);
    let sizes = |options: &[&str]| {
        let results = run(&fleet.args(options));
        let sizes = results.units.iter().map(|unit| unit.figures.by_size.len()).sum::<usize>();
        (sizes, results.header.notes.iter().any(|note| note == run::SIZES_LEFT_OUT))
    };
    assert_eq!(sizes(&["--b", "kube", "--seeds", "1"]), (0, true));
    assert_eq!(sizes(&["--b", "@planned.jsonl", "--seeds", "1"]), (2, false));
    fleet.write("promises.yaml", "- 3-4 GPUs wait-p90 < 1h\n");
    let args = fleet.args(&["--b", "kube", "--promise", "@promises.yaml"]);
    let error = plan(&args).unwrap_err().to_string();
    assert!(
        error.contains("got wait-p90 of \"3-4 GPUs\", expected that of fleet, team-0"),
        "{error}"
    );
}
