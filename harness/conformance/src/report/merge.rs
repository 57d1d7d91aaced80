//! Merges the results of shards into those of one run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{CaseReport, CaseTimes, Diagnostic, Report, RunRecord, Shard};
use crate::text::counted_noun;

/// The results of one shard, or of a whole run, as they are in its folder.
#[derive(Clone, Debug)]
pub struct RunResults {
    /// The folder, as messages show it.
    pub name: String,
    /// What the run was.
    pub record: RunRecord,
    /// Its report.
    pub report: Report,
}

impl RunResults {
    /// The results of the run in a folder, from the texts of its files.
    ///
    /// # Errors
    /// A file is not what `schedlab run` wrote; the text says which.
    pub fn parse(name: &str, record: &str, report: &str, times: &str) -> Result<Self, String> {
        let invalid = |file: &str, error: String| format!("{name}/{file}: {error}");
        let record = RunRecord::parse(record).map_err(|error| invalid("run.json", error))?;
        let mut report: Report = serde_json::from_str(report)
            .map_err(|error| invalid("report.json", error.to_string()))?;
        let times = CaseTimes::parse(times).map_err(|error| invalid("times.json", error))?;
        for case in &mut report.cases {
            case.wall = times.time_of(&case.id).unwrap_or_default();
        }
        Ok(Self { name: name.to_owned(), record, report })
    }
}

/// Why results cannot be merged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// No results are given.
    #[error("got no runs, expected the shards of one run")]
    NoRuns,
    /// A run is not a shard.
    #[error("{name}: got a whole run, expected a shard (`schedlab run --shard M/N`)")]
    NotAShard {
        /// The folder of the run.
        name: String,
    },
    /// Two runs tested different things.
    #[error("{name} and {other} are not of one run: {difference}")]
    Foreign {
        /// The folder of the first run.
        name: String,
        /// The folder of the other run.
        other: String,
        /// What differs.
        difference: String,
    },
    /// Two shards divide the scenarios differently.
    #[error(
        "{name} ({shard}) and {other} ({other_shard}) divide the scenarios differently: expected \
         the same selection, number of shards and --timings"
    )]
    OtherPlan {
        /// The folder of the first run.
        name: String,
        /// Its shard.
        shard: Shard,
        /// The folder of the other run.
        other: String,
        /// Its shard.
        other_shard: Shard,
    },
    /// A shard is given twice.
    #[error("shard {shard} is given twice: {name} and {other}")]
    Doubled {
        /// The shard.
        shard: Shard,
        /// The folder of the first run.
        name: String,
        /// The folder of the other run.
        other: String,
    },
    /// Shards are missing.
    #[error("{missing} missing; got {given}")]
    Missing {
        /// The missing shards.
        missing: String,
        /// The given shards, with their folders.
        given: String,
    },
    /// A shard's report does not have the scenarios of its plan.
    #[error("{name}/report.json: got {got}, expected {expected} as in its run.json")]
    Incomplete {
        /// The folder of the run.
        name: String,
        /// What the report has.
        got: String,
        /// What the plan has.
        expected: String,
    },
}

/// Merges the results of all shards of a run into the results of the whole run: cases in the order
/// of the selection, and each problem once.
///
/// # Errors
/// A shard is missing or given twice, or the runs are not the shards of one run.
pub fn merge_shards(runs: Vec<RunResults>) -> Result<RunResults, MergeError> {
    let shards = check_shards(runs)?;
    let Some(first) = shards.values().next() else { return Err(MergeError::NoRuns) };
    let mut record = RunRecord::new(first.record.identity.clone(), first.record.began);
    let records = || shards.values().map(|shard| &shard.record);
    record.began = records().map(|one| one.began).min().unwrap_or(record.began);
    record.wall_millis = records().map(|one| one.wall_millis).max().unwrap_or_default();
    record.exit_code = merged_exit_code(records().map(|one| one.exit_code));
    let report = Report {
        seed: first.report.seed,
        cluster: first.report.cluster.clone(),
        cases: merged_cases(&shards)?,
        problems: merged_problems(&shards),
    };
    Ok(RunResults { name: String::new(), record, report })
}

/// The shards of one run by their index.
type Shards = BTreeMap<usize, RunResults>;

fn check_shards(runs: Vec<RunResults>) -> Result<Shards, MergeError> {
    let mut shards = Shards::new();
    for run in runs {
        let Some(shard) = run.record.shard else {
            return Err(MergeError::NotAShard { name: run.name });
        };
        if let Some(first) = shards.values().next() {
            check_is_of_same_run(first, &run)?;
        }
        if let Some(other) = shards.get(&shard.index()) {
            let name = other.name.clone();
            return Err(MergeError::Doubled { shard, name, other: run.name });
        }
        shards.insert(shard.index(), run);
    }
    let Some(count) = shards.values().next().and_then(|run| run.record.shard).map(Shard::count)
    else {
        return Err(MergeError::NoRuns);
    };
    let missing: Vec<String> = (1..=count)
        .filter(|index| !shards.contains_key(index))
        .map(|index| format!("{index}/{count}"))
        .collect();
    let missing_text = match missing.as_slice() {
        [] => return Ok(shards),
        [one] => format!("shard {one} is"),
        [first @ .., last] => format!("shards {} and {last} are", first.join(", ")),
    };
    let given = shards.iter().map(|(index, run)| format!("{index}/{count} ({})", run.name));
    let given = given.collect::<Vec<_>>().join(", ");
    Err(MergeError::Missing { missing: missing_text, given })
}

fn check_is_of_same_run(first: &RunResults, run: &RunResults) -> Result<(), MergeError> {
    let (name, other) = (first.name.clone(), run.name.clone());
    if let Some(difference) = first.record.identity.difference(&run.record.identity) {
        return Err(MergeError::Foreign { name, other, difference });
    }
    let (Some(shard), Some(other_shard)) = (first.record.shard, run.record.shard) else {
        return Ok(());
    };
    if shard.count() != other_shard.count() || first.record.scenarios != run.record.scenarios {
        return Err(MergeError::OtherPlan { name, shard, other, other_shard });
    }
    Ok(())
}

/// The cases of all shards in the order of the selection.
fn merged_cases(shards: &Shards) -> Result<Vec<CaseReport>, MergeError> {
    let plan = shards.values().next().map(|run| run.record.scenarios.as_slice());
    let mut cases: BTreeMap<usize, std::slice::Iter<'_, CaseReport>> =
        shards.iter().map(|(index, run)| (*index, run.report.cases.iter())).collect();
    let incomplete = |index: usize, got: String, expected: String| {
        let name = shards.get(&index).map(|run| run.name.clone()).unwrap_or_default();
        MergeError::Incomplete { name, got, expected }
    };
    let mut merged = Vec::new();
    for planned in plan.unwrap_or_default() {
        let next = cases.get_mut(&planned.shard).and_then(Iterator::next);
        match next {
            Some(case) if case.id == planned.id => merged.push(case.clone()),
            found => {
                let got =
                    found.map_or("no more scenarios".to_owned(), |case| format!("`{}`", case.id));
                return Err(incomplete(planned.shard, got, format!("`{}`", planned.id)));
            }
        }
    }
    for (index, rest) in cases {
        if !rest.as_slice().is_empty() {
            let more = counted_noun(rest.as_slice().len(), "more scenario");
            return Err(incomplete(index, more, "none".to_owned()));
        }
    }
    Ok(merged)
}

/// The problems of all shards, each once: every shard finds those of the whole suite.
fn merged_problems(shards: &Shards) -> Vec<Diagnostic> {
    let mut problems: Vec<Diagnostic> = Vec::new();
    for problem in shards.values().flat_map(|run| &run.report.problems) {
        if !problems.contains(problem) {
            problems.push(problem.clone());
        }
    }
    problems
}

/// The exit code of the whole run from those of its shards. Like that of a whole run, it is 4 only
/// if every scenario was skipped.
fn merged_exit_code(codes: impl Iterator<Item = u8>) -> u8 {
    // Interrupted, not started, failed, pending; a shard in which nothing failed says nothing more.
    const GRAVEST_FIRST: [u8; 5] = [130, 3, 1, 5, 0];
    let codes: Vec<u8> = codes.collect();
    let gravest = GRAVEST_FIRST.into_iter().find(|code| codes.contains(code));
    gravest.or_else(|| codes.first().copied()).unwrap_or_default()
}

/// How long the fastest and the slowest shard took, as a line; `None` for fewer than two shards.
pub fn balance_text(runs: &[RunResults]) -> Option<String> {
    let walls = || runs.iter().map(|run| Duration::from_millis(run.record.wall_millis));
    let (fastest, slowest) = (walls().min()?, walls().max()?);
    (runs.len() > 1).then(|| {
        let (fastest, slowest) = (fastest.as_secs_f64(), slowest.as_secs_f64());
        let ratio =
            if fastest > 0.0 { format!(" ({:.2} ×)", slowest / fastest) } else { String::new() };
        let shards = counted_noun(runs.len(), "shard");
        format!("{shards}: the fastest took {fastest:.1} s, the slowest {slowest:.1} s{ratio}")
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::{
        CaseOutcome, PlannedScenario, RunIdentity, junit_xml, report_json, tests::case,
    };

    pub(in crate::report) fn identity() -> RunIdentity {
        RunIdentity {
            schedlab: "0.1.0".to_owned(),
            suite_digest: "sha256:a".to_owned(),
            seed: 1,
            cluster: "emulator".to_owned(),
            kubernetes: "1.37".to_owned(),
            feature_gates: String::new(),
            scheduler: "ours".to_owned(),
            target: "schedlab-scheduler".to_owned(),
        }
    }

    /// A run of five cases of which the third failed, with an orphan snapshot.
    fn whole_report() -> Report {
        let one = |number: usize| {
            let failed = number == 3;
            let outcome = if failed { CaseOutcome::Failed } else { CaseOutcome::Passed };
            let id = format!("f.feature: {number}");
            CaseReport {
                wall: Duration::from_millis(number as u64),
                name: number.to_string(),
                id,
                ..case(outcome, false, failed)
            }
        };
        Report {
            seed: 1,
            cases: (1..=5).map(one).collect(),
            problems: vec![Diagnostic::new("x.snap", 0, "orphan snapshot".to_owned())],
            ..Report::default()
        }
    }

    /// The shards of that run.
    fn shards() -> Vec<RunResults> {
        let whole = whole_report();
        let shard_of = [2, 1, 3, 3, 1];
        let planned = whole.cases.iter().zip(shard_of);
        let scenarios: Vec<PlannedScenario> =
            planned.map(|(case, shard)| PlannedScenario { id: case.id.clone(), shard }).collect();
        let shard = |index: usize| {
            let cases = whole.cases.iter().zip(shard_of).filter(|(_, shard)| *shard == index);
            let report =
                Report { cases: cases.map(|(case, _)| case.clone()).collect(), ..whole.clone() };
            let mut record = RunRecord::new(identity(), "2026-11-29T05:00:00Z".parse().unwrap());
            record.shard = Shard::new(index, 3);
            record.scenarios.clone_from(&scenarios);
            record.wall_millis = 1000 * index as u64;
            record.exit_code = u8::from(index == 3);
            RunResults { name: format!("shard-{index}"), record, report }
        };
        (1..=3).map(shard).collect()
    }

    fn error(runs: Vec<RunResults>) -> String {
        merge_shards(runs).unwrap_err().to_string()
    }

    #[test]
    fn merged_shards_give_the_reports_of_the_whole_run() {
        let mut runs = shards();
        runs.rotate_left(1);
        let balance = balance_text(&runs).unwrap();
        assert_eq!(balance, "3 shards: the fastest took 1.0 s, the slowest 3.0 s (3.00 ×)");
        let merged = merge_shards(runs).unwrap();
        let whole = whole_report();
        assert_eq!(report_json(&merged.report).unwrap(), report_json(&whole).unwrap());
        assert_eq!(junit_xml(&merged.report).unwrap(), junit_xml(&whole).unwrap());
        let record = merged.record;
        assert_eq!((record.exit_code, record.wall_millis, record.shard), (1, 3000, None));
    }

    #[test]
    fn missing_doubled_and_foreign_shards_are_one_message() {
        let without = |index: usize| {
            let mut runs = shards();
            runs.remove(index);
            runs
        };
        let mut doubled = shards();
        doubled[2] = RunResults { name: "again".to_owned(), ..doubled[1].clone() };
        let mut seed = shards();
        seed[1].record.identity.seed = 7;
        seed[1].record.identity.scheduler = "process:x".to_owned();
        let mut suite = shards();
        suite[2].record.identity.suite_digest = "sha256:b".to_owned();
        let mut split = shards();
        split[1].record.scenarios[0].shard = 1;
        let mut whole = shards();
        whole[0].record.shard = None;
        let mut short = shards();
        short[2].report.cases.pop();
        let messages = [
            error(without(1)),
            error(shards().into_iter().take(1).collect()),
            error(doubled),
            error(seed),
            error(suite),
            error(split),
            error(whole),
            error(short),
            error(Vec::new()),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        shard 2/3 is missing; got 1/3 (shard-1), 3/3 (shard-3)
        shards 2/3 and 3/3 are missing; got 1/3 (shard-1)
        shard 2/3 is given twice: shard-2 and again
        shard-1 and shard-2 are not of one run: scheduler `ours` and `process:x`, seed `1` and `7`
        shard-1 and shard-3 are not of one run: suite digest `sha256:a` and `sha256:b`
        shard-1 (1/3) and shard-2 (2/3) divide the scenarios differently: expected the same selection, number of shards and --timings
        shard-1: got a whole run, expected a shard (`schedlab run --shard M/N`)
        shard-3/report.json: got no more scenarios, expected `f.feature: 4` as in its run.json
        got no runs, expected the shards of one run
        ");
    }

    #[test]
    fn the_exit_code_of_a_run_is_the_gravest_of_its_shards() {
        let merged = |codes: &[u8]| merged_exit_code(codes.iter().copied());
        assert_eq!(merged(&[0, 4, 0]), 0);
        assert_eq!(merged(&[4, 4]), 4);
        assert_eq!(merged(&[0, 5, 1]), 1);
        assert_eq!(merged(&[1, 3, 130]), 130);
    }
}
