//! `schedlab upgrade`: replaces one version of a scheduler by another, and back again.

mod fixture;
mod work;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::CommandOutput;
use crate::cli::{Format, Upgrade, UpgradeStrategy};
use crate::exit::ExitStatus;
use fixture::{PreparedCluster, UpgradeFixture};
use schedlab_apps::upgrade::{
    self, DecisionComparison, Decisions, SchedulerSpec, Strategy, Transition, UpgradeCluster,
    UpgradeVerdict,
};
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::interrupt::Interrupt;
use schedlab_conformance::report::progress::Progress;
use schedlab_conformance::text::counted_noun;
use work::UpgradeWork;

#[derive(Serialize)]
struct UpgradeOutput<'a> {
    from: String,
    to: String,
    passed: bool,
    ways: &'a [UpgradeVerdict],
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<&'a DecisionComparison>,
}

/// Runs `schedlab upgrade`. The exit status is 0 if every check passed, 1 if one failed, and 3 if
/// the old version does not run.
pub fn run_upgrade_command(args: &Upgrade) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let mut output = CommandOutput::for_this_process();
    let strategies: &[Strategy] = match args.way {
        UpgradeStrategy::Rolling => &[Strategy::Rolling],
        UpgradeStrategy::StopAndStart => &[Strategy::StopAndStart],
        UpgradeStrategy::Both => &[Strategy::Rolling, Strategy::StopAndStart],
    };
    let work = UpgradeWork::read(args, &mut output)?;
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::default();
    let mut verdicts = Vec::new();
    for strategy in strategies {
        let fixture = match UpgradeFixture::new(args, &interrupt, &mut progress) {
            Err(_) if interrupt.is_raised() => return Ok(ExitStatus::Interrupted),
            fixture => fixture?,
        };
        let run = Run::begin("upgrade")?;
        let judged = runtime.block_on(async {
            tokio::select! {
                verdict = upgrade_on_new_cluster(args, *strategy, &work, &fixture, &run, &mut progress) => Some(verdict),
                () = interrupt.wait_until_raised() => None,
            }
        });
        let left = runtime.block_on(run.end());
        let left = left
            .into_iter()
            .map(|left| format!("{left:?}"))
            .chain(fixture.close_and_list_failures());
        for left in left {
            output.print_note(&format!("could not be removed: {left}; try schedlab clean"));
        }
        match judged {
            Some(verdict) => verdicts.push(verdict?),
            None => return Ok(ExitStatus::Interrupted),
        }
    }
    let mut decisions = Vec::new();
    let versions = if work.own.is_some() { vec![&args.from, &args.to] } else { Vec::new() };
    for version in versions {
        let fixture = UpgradeFixture::new(args, &interrupt, &mut progress)?;
        let run = Run::begin("upgrade")?;
        let decided = runtime.block_on(async {
            tokio::select! {
                decided = decide_on_new_cluster(args, version, &work, &fixture, &run, &mut progress) => Some(decided),
                () = interrupt.wait_until_raised() => None,
            }
        });
        runtime.block_on(run.end());
        fixture.close_and_list_failures();
        match decided {
            Some(decided) => decisions.push(decided?),
            None => return Ok(ExitStatus::Interrupted),
        }
    }
    let decisions = match decisions.as_slice() {
        [from, to] => Some(DecisionComparison::new(from, to)),
        _ => None,
    };
    output.print_note(&progress.summary_of_steps());
    let passed = verdicts.iter().all(UpgradeVerdict::passed);
    let result = UpgradeOutput {
        from: args.from.to_string(),
        to: args.to.to_string(),
        passed,
        ways: &verdicts,
        decisions: decisions.as_ref(),
    };
    output.print_result(&match args.format {
        Format::Json => serde_json::to_string_pretty(&result)? + "\n",
        Format::Text => {
            let decisions = decisions.as_ref().map(decisions_text).unwrap_or_default();
            decisions + &verdicts_text(&verdicts)
        }
    });
    Ok(if passed { ExitStatus::Passed } else { ExitStatus::Failed })
}

/// Runs the upgrade on a cluster that is created for it.
async fn upgrade_on_new_cluster(
    args: &Upgrade,
    strategy: Strategy,
    work: &UpgradeWork,
    fixture: &UpgradeFixture,
    run: &Run,
    progress: &mut Progress,
) -> anyhow::Result<UpgradeVerdict> {
    let step = progress.begin_step(&work.fleet_text, Duration::from_secs(5));
    let cluster = fixture.prepare_cluster(run, &work.fleet).await?;
    progress.finish_step(step);
    let mut environment = environment_on(&cluster, args, fixture, run);
    let (from, to) = (&args.from, &args.to);
    let verdict = match &work.own {
        None => upgrade::run_upgrade(&mut environment, from, to, strategy, progress).await,
        Some(own) => {
            upgrade::run_upgrade_on_own_work(&mut environment, from, to, strategy, own, progress)
                .await
        }
    };
    cluster.shut_down().await;
    verdict
}

/// Lets a version decide about the user's work on a cluster that is created for it.
async fn decide_on_new_cluster(
    args: &Upgrade,
    version: &SchedulerSpec,
    work: &UpgradeWork,
    fixture: &UpgradeFixture,
    run: &Run,
    progress: &mut Progress,
) -> anyhow::Result<Decisions> {
    let cluster = fixture.prepare_cluster(run, &work.fleet).await?;
    let mut environment = environment_on(&cluster, args, fixture, run);
    let own = work.own.as_ref().context("decisions are about the user's work")?;
    let decisions = upgrade::decide(&mut environment, version, own, progress).await;
    cluster.shut_down().await;
    decisions
}

fn environment_on(
    cluster: &PreparedCluster,
    args: &Upgrade,
    fixture: &UpgradeFixture,
    run: &Run,
) -> UpgradeCluster {
    UpgradeCluster {
        api: cluster.api.clone(),
        kubeconfig: cluster.kubeconfig.clone(),
        scheduler_name: args.scheduler_name.clone(),
        run: run.clone(),
        installation: fixture.scheduler_installer(),
    }
}

/// Maximum number of differences of decisions that the text lists; JSON has all.
const DIFFERENCES_MAX: usize = 30;

fn decisions_text(decisions: &DecisionComparison) -> String {
    let DecisionComparison { groups, outcomes, other_nodes } = decisions;
    let same = groups - outcomes.len() - other_nodes.len();
    let mut out = format!(
        "decisions about {}: {same} equal, {} on other nodes, {} with another outcome\n",
        counted_noun(*groups, "pod group"),
        other_nodes.len(),
        outcomes.len()
    );
    for difference in outcomes.iter().chain(other_nodes).take(DIFFERENCES_MAX) {
        let _ = writeln!(out, "  {}", difference.group);
        let _ = writeln!(out, "    - {}\n    + {}", difference.from, difference.to);
    }
    let more = (outcomes.len() + other_nodes.len()).saturating_sub(DIFFERENCES_MAX);
    if more > 0 {
        let _ = writeln!(out, "  … and {more} more; --format json has all");
    }
    out
}

fn verdicts_text(verdicts: &[UpgradeVerdict]) -> String {
    let mut out = String::new();
    for verdict in verdicts {
        for one in &verdict.transitions {
            write_transition(&mut out, one, verdict.strategy);
        }
    }
    let passed = verdicts.iter().all(UpgradeVerdict::passed);
    let _ = writeln!(out, "{}", if passed { "the upgrade passed" } else { "THE UPGRADE FAILED" });
    out
}

fn write_transition(out: &mut String, transition: &Transition, strategy: Strategy) {
    let _ = writeln!(out, "{} ({strategy})", transition.title);
    for check in &transition.checks {
        let mark = if check.passed() { "✔" } else { "✘" };
        let line = format!("  {mark} {}  {}", check.claim, check.evidence);
        let _ = writeln!(out, "{}", line.trim_end());
        for line in check.violations.iter().flat_map(|line| line.lines()) {
            let _ = writeln!(out, "      {line}");
        }
    }
    let _ = writeln!(out, "  before and after:");
    for line in &transition.diff {
        let _ = writeln!(out, "    {line}");
    }
}
