//! `schedlab run`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;

use super::{Output, UsageError, again, check, stage};
use crate::cli::{ClusterName, Run};
use crate::diff::{Order, Reference};
use crate::exit::Exit;
use crate::features::{self, Asked, Case, Problems, Suite};
use crate::ground::{Access, Ground, KindCluster, OWN_IMAGE};
use crate::interrupt::Interrupt;
use crate::progress::Boot;
use crate::report::{self, CaseReport, Outcome, Painter, Problem, Report, Reporter};
use crate::reviewed::{self, Ci, Update};
use crate::runner::{self, Crashes, Progress, Settings};
use crate::target::Which;

/// Runs scenarios, compares snapshots, reports. What keeps them from running is in the reports, too.
pub fn run(args: &Run) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let ended = run_selected(args, &mut output);
    if let Err(error) = &ended {
        write_error(args, error, &mut output)?;
    }
    ended
}

fn run_selected(args: &Run, output: &mut Output) -> anyhow::Result<Exit> {
    let mut settings = settings(args, output.ci)?;
    let clock = Clock::real();
    let began = clock.now();
    let query = check::query(&args.selection, &args.results)?;
    let suite = check::load(&query.asked)?;
    let cases = features::select(&suite.cases, &query);
    if cases.is_empty() {
        return Err(check::nothing_selected(&suite, &query).into());
    }
    if args.flow.jobs.is_none() && shares_devices(&settings.target.which, &cases) {
        settings.jobs = NonZeroUsize::MIN;
    }
    if let Some(message) = report::unwritable(&args.results, &args.reporter) {
        return Err(UsageError(message).into());
    }
    stage::has_program(&args.stage, &settings.target)?;
    let interrupted = Interrupt::listen()?;
    settings.interrupted = interrupted.clone();
    settings.ground = match ground(args, &settings, &interrupted, output) {
        Err(_) if interrupted.is_raised() => return Ok(Exit::Interrupted),
        booted => booted?,
    };
    if let Some(like) = &settings.like {
        let new = cases.iter().filter(|case| !like.has(&case.id())).count();
        if new > 0 {
            output.note(&format!("{new} scenarios were not run there: compared with nothing"));
        }
    }
    let reports = run_cases(&cases, args, &settings, output);
    if let Some(ground) = settings.ground.take().and_then(Arc::into_inner) {
        let stamp = began.strftime("%Y%m%dT%H%M%SZ").to_string();
        leave(ground, &reports, &args.results.join("logs").join(stamp), output);
    }
    let mut left = leftovers(&suite, &query.asked, output.ci);
    left.extend(nobody_died(settings.crashes, &reports).map(|problem| (Exit::Failed, problem)));
    let report = Report {
        seed: settings.seed,
        cluster: args.stage.cluster.name().to_owned(),
        cases: reports,
        problems: left.iter().map(|(_, problem)| problem.clone()).collect(),
    };
    let wall = clock.now().duration_since(began).try_into().unwrap_or_default();
    if args.reporter.contains(&Reporter::Pretty) {
        output.data(&report::summary(&report, wall));
    }
    for problem in &report.problems {
        output.note(&problem.to_string());
    }
    write(args, &report, began, output)?;
    Ok(exit(&report, &left, &interrupted))
}

/// Whether schedulers of node pools would see each other's devices, which have no pools.
fn shares_devices(which: &Which, cases: &[&Case]) -> bool {
    let has_claims = |case: &&Case| case.tags.iter().any(|tag| tag == "claims");
    matches!(which, Which::Deployment(_)) && cases.iter().any(has_claims)
}

/// The run that this one shall be like.
fn like(args: &Run) -> anyhow::Result<Option<Reference>> {
    let order = match args.stage.cluster {
        ClusterName::Emulator => Order::Counts,
        ClusterName::ControlPlane
        | ClusterName::Kubeconfig
        | ClusterName::Container
        | ClusterName::Kind => Order::IsChance,
    };
    let read =
        |run: &String| super::diff::reference(run, args.known.as_deref(), &args.results, order);
    args.like.as_ref().map(read).transpose()
}

/// Takes leave of a real cluster; where a scenario failed, its logs are kept.
fn leave(ground: Ground, reports: &[CaseReport], logs: &Path, output: &mut Output) {
    if reports.iter().any(|case| case.outcome == Outcome::Failed) {
        match ground.export_logs(logs) {
            Ok(true) => output.note(&format!("logs of the cluster: {}", logs.display())),
            Ok(false) => {}
            Err(error) => output.note(&format!("no logs of the cluster: {error:#}")),
        }
    }
    if let Some(came) = ground.who_came() {
        output.note(&came);
    }
    for left in ground.close() {
        output.note(&format!("could not be removed: {left}"));
    }
}

/// Boots or reaches the real cluster that is asked for.
fn ground(
    args: &Run,
    settings: &Settings,
    interrupt: &Interrupt,
    output: &mut Output,
) -> anyhow::Result<Option<Arc<Ground>>> {
    let (stage, scheduler) = (&args.stage, &settings.target.which);
    let mut boot = Boot::new(usual(stage.cluster));
    let clock = Clock::real();
    let began = clock.now();
    let mut tell = |what: &str| {
        boot.end();
        output.note(what);
        boot.begin(what);
    };
    let ground = match stage.cluster {
        ClusterName::Emulator => return Ok(None),
        ClusterName::ControlPlane => {
            boot.begin("booting a control plane");
            Ground::control_plane(stage.assets.as_deref(), stage.kubelets, interrupt)?
        }
        ClusterName::Kubeconfig => {
            boot.begin("reaching the cluster");
            let access = Access {
                path: stage.kubeconfig.clone(),
                confirmed: stage.yes_this_cluster.clone(),
                scheduler: scheduler.installed(),
            };
            Ground::kubeconfig(&access, stage.kubelets, interrupt)?
        }
        ClusterName::Container => Ground::container(
            (stage.image.as_deref().unwrap_or(OWN_IMAGE), scheduler),
            stage.kubelets,
            interrupt,
            &mut tell,
        )?,
        ClusterName::Kind => {
            let wanted = KindCluster {
                keep: stage.kind_cluster.clone(),
                node_image: stage.node_image.clone(),
                config: stage.kind_config.clone(),
            };
            let wanted = (&wanted, scheduler, settings.jobs.get());
            Ground::kind(wanted, stage.kubelets, interrupt, &mut tell)?
        }
    };
    drop(boot);
    let took = clock.now().duration_since(began).as_secs_f64();
    output.note(&format!("{}, ready in {took:.1} s", ground.title()));
    match ground.who_may_come() {
        Ok(None) => {}
        Ok(Some(waiting)) => output.note(&waiting),
        Err(error) => output.note(&format!("cannot tell which pods of others wait: {error:#}")),
    }
    Ok(Some(Arc::new(ground)))
}

/// Schedulers in a cluster at a time, two replicas each.
const SHARDS_MOST: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not 0");

/// How long a part of its boot takes on a machine that is not busy.
fn usual(cluster: ClusterName) -> Duration {
    Duration::from_secs(match cluster {
        ClusterName::Emulator | ClusterName::ControlPlane | ClusterName::Kubeconfig => 5,
        ClusterName::Container => 10,
        ClusterName::Kind => 30,
    })
}

fn crashes(args: &Run) -> anyhow::Result<Option<Crashes>> {
    if args.flow.crash_before.is_some() && args.stage.cluster != ClusterName::Emulator {
        let message =
            "--crash-before: allowed on the emulator only, whose runs are equal but for it";
        return Err(UsageError(message.to_owned()).into());
    }
    Ok(args.flow.crash_before)
}

fn settings(args: &Run, ci: Ci) -> anyhow::Result<Settings> {
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let times = |more| cores.saturating_mul(NonZeroUsize::new(more).unwrap_or(cores));
    let like = like(args)?;
    let word = std::env::var("INSTA_UPDATE").ok();
    Ok(Settings {
        jobs: args.flow.jobs.unwrap_or(match (args.stage.cluster, &args.stage.scheduler) {
            (ClusterName::Emulator, _) => cores,
            // One scheduler for all would divide all nodes among all queues.
            (_, Which::Installed(_)) => NonZeroUsize::MIN,
            // One scheduler each, in the cluster, whose node takes a hundred pods.
            (_, Which::Deployment(_)) => times(2).min(SHARDS_MOST),
            // They wait more than they work, and all that works is here.
            (ClusterName::ControlPlane | ClusterName::Container, _) => times(12),
            // Somebody else may need that cluster, or a node has to do its part.
            (ClusterName::Kubeconfig | ClusterName::Kind, _) => times(5),
        }),
        seed: args.flow.seed,
        timeout: args.flow.timeout,
        retries: args.flow.retries,
        flaky_result: args.flow.flaky_result,
        repeat: args.flow.repeat,
        crashes: crashes(args)?,
        shuffle: args.flow.shuffle,
        fail_fast: args.flow.fail_fast,
        update: Update::from_words(word.as_deref(), ci).map_err(UsageError)?,
        interrupted: Interrupt::default(),
        ground: None,
        time_scale: args.stage.time_scale,
        patience: args.stage.patience,
        target: stage::target(&args.stage)?,
        force: args.stage.force,
        again: again::options(args, like.as_ref().map(Reference::title)),
        like: like.map(Arc::new),
    })
}

fn run_cases(
    cases: &[&Case],
    args: &Run,
    settings: &Settings,
    output: &mut Output,
) -> Vec<CaseReport> {
    let mut painter = Painter::new(output.colours);
    let pretty = args.reporter.contains(&Reporter::Pretty);
    output.expect(cases.len());
    let reports = runner::run(cases, settings, &mut |progress| match progress {
        Progress::Started(case) => output.doing(&case.name),
        Progress::Ended => output.done(),
        Progress::Reported(case) if pretty => output.data(&painter.case(case)),
        Progress::Reported(_) => {}
        Progress::Slow(case, time) => {
            let place = format!("{}:{}", case.place.file, case.place.line);
            output.note(&format!("SLOW {place} has been running for {} s", time.as_secs()));
        }
    });
    output.finish();
    reports
}

/// Nothing is shown by deaths of which there were none.
fn nobody_died(asked: Option<Crashes>, reports: &[CaseReport]) -> Option<Problem> {
    let held = [Outcome::Passed, Outcome::Skipped];
    let none = reports.iter().all(|case| held.contains(&case.outcome) && case.crashes == 0);
    let passed = reports.iter().filter(|case| case.outcome == Outcome::Passed).count();
    (asked.is_some() && none && passed > 0).then(|| {
        let why = "no scheduler wrote so often in the scenarios that passed, so that none died";
        Problem::new("", 0, format!("--crash-before: {why}: {passed} scenarios"))
    })
}

/// Snapshots that nobody shows, and under CI those that wait for review.
fn leftovers(suite: &Suite, asked: &[Asked], ci: Ci) -> Vec<(Exit, Problem)> {
    let steps = crate::vocabulary::collection();
    let shows = |case: &Case| case.steps.iter().any(|step| crate::steps::shows(step, &steps));
    let folders = asked.iter().filter(|asked| asked.line.is_none() && asked.path.is_dir());
    let folders: Vec<PathBuf> = folders.map(|asked| asked.path.clone()).collect();
    let orphans = reviewed::orphans(suite, &folders, &shows).into_iter().map(|path| {
        let message = "orphan snapshot: no scenario shows it any more; rename it or delete it";
        (Exit::Failed, Problem::new(&path.display().to_string(), 0, message.to_owned()))
    });
    let waiting = match ci {
        Ci::No => Vec::new(),
        Ci::Yes => {
            let bases = suite.cases.iter().map(|case| case.base().join("snapshots"));
            let bases: std::collections::BTreeSet<PathBuf> = bases.collect();
            reviewed::pending(&bases.into_iter().collect::<Vec<_>>())
        }
    };
    let waiting = waiting.into_iter().map(|path| {
        let message = format!("waits for review: {}", reviewed::review(&path));
        (Exit::Pending, Problem::new(&path.display().to_string(), 0, message))
    });
    orphans.chain(waiting).collect()
}

fn write(
    args: &Run,
    report: &Report,
    began: jiff::Timestamp,
    output: &mut Output,
) -> anyhow::Result<()> {
    write_asked(args, report, output)?;
    let run = format!("{}-seed{}", began.strftime("%Y%m%dT%H%M%SZ"), report.seed);
    let folder = report::write_results(&args.results, &run, report)?;
    output.note(&format!("results: {}", folder.display()));
    Ok(())
}

/// Writes what is asked for; the results folder is that of runs that took place.
fn write_asked(args: &Run, report: &Report, output: &mut Output) -> anyhow::Result<()> {
    for reporter in &args.reporter {
        let (path, text) = match reporter {
            Reporter::Pretty => continue,
            Reporter::Junit(path) => (path, report::junit(report)?),
            Reporter::Json(path) => (path, report::json(report)?),
        };
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if std::env::var_os("GITHUB_ACTIONS").is_some() {
        output.data(&report::annotations(report));
    }
    Ok(())
}

/// Who reads the reports alone must not take those of an earlier run for those of this one.
fn write_error(args: &Run, error: &anyhow::Error, output: &mut Output) -> anyhow::Result<()> {
    if report::unwritable(&args.results, &args.reporter).is_some() {
        return Ok(());
    }
    let problems = match error.downcast_ref::<Problems>() {
        Some(Problems(problems)) => problems.clone(),
        None => vec![Problem::new("", 0, format!("{error:#}"))],
    };
    let cluster = args.stage.cluster.name().to_owned();
    let report = Report { seed: args.flow.seed, cluster, cases: Vec::new(), problems };
    write_asked(args, &report, output)
}

fn exit(report: &Report, left: &[(Exit, Problem)], interrupt: &Interrupt) -> Exit {
    let has = |outcome| report.count(outcome) > 0;
    let all_skipped = report.count(Outcome::Skipped) == report.cases.len();
    // What failed for being flaky is told with what its first attempt failed of.
    let failed = |case: &&CaseReport| case.outcome == Outcome::Failed && !case.flaky;
    let not_started = |case: &CaseReport| {
        let kind = case.failure.as_ref().map(|failure| failure.kind);
        kind == Some(report::FailureKind::NotStarted)
    };
    if interrupt.is_raised() {
        Exit::Interrupted
    } else if all_skipped {
        Exit::NothingSelected
    } else if report.cases.iter().filter(failed).any(not_started) {
        Exit::NotStarted
    } else if report.cases.iter().any(|case| failed(&case))
        || left.iter().any(|(exit, _)| *exit == Exit::Failed)
    {
        Exit::Failed
    } else if has(Outcome::Pending) || has(Outcome::Failed) || !left.is_empty() {
        Exit::Pending
    } else {
        Exit::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::FailureKind;
    use crate::report::tests::case;

    #[test]
    fn who_failed_for_being_flaky_alone_ends_a_run_with_5() {
        let exit = |cases: Vec<CaseReport>| {
            exit(&Report { cases, ..Report::default() }, &[], &Interrupt::default())
        };
        let flaky = |outcome| {
            let mut flaky = case(outcome, true, true);
            flaky.failure.as_mut().unwrap().kind = FailureKind::NotStarted;
            flaky
        };
        assert_eq!(exit(vec![flaky(Outcome::Passed)]), Exit::Passed);
        assert_eq!(exit(vec![flaky(Outcome::Failed)]), Exit::Pending);
        let failed = case(Outcome::Failed, false, true);
        assert_eq!(exit(vec![flaky(Outcome::Failed), failed]), Exit::Failed);
    }
}
