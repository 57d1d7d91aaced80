//! `schedlab upgrade`: replaces one version of a scheduler by another, and back again.

mod fixture;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::CommandOutput;
use crate::cli::{Format, Upgrade, UpgradeStrategy};
use crate::exit::ExitStatus;
use fixture::UpgradeFixture;
use schedlab_apps::upgrade::{self, Strategy, Transition, UpgradeCluster, UpgradeVerdict};
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::interrupt::Interrupt;
use schedlab_conformance::report::progress::Progress;

#[derive(Serialize)]
struct UpgradeOutput<'a> {
    from: String,
    to: String,
    passed: bool,
    ways: &'a [UpgradeVerdict],
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
                verdict = upgrade_on_new_cluster(args, *strategy, &fixture, &run, &mut progress) => Some(verdict),
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
    output.print_note(&progress.summary_of_steps());
    let passed = verdicts.iter().all(UpgradeVerdict::passed);
    let result = UpgradeOutput {
        from: args.from.to_string(),
        to: args.to.to_string(),
        passed,
        ways: &verdicts,
    };
    output.print_result(&match args.format {
        Format::Json => serde_json::to_string_pretty(&result)? + "\n",
        Format::Text => verdicts_text(&verdicts),
    });
    Ok(if passed { ExitStatus::Passed } else { ExitStatus::Failed })
}

/// Runs the upgrade on a cluster that is created for it.
async fn upgrade_on_new_cluster(
    args: &Upgrade,
    strategy: Strategy,
    fixture: &UpgradeFixture,
    run: &Run,
    progress: &mut Progress,
) -> anyhow::Result<UpgradeVerdict> {
    let step = progress.begin_step("4 nodes of 8 GPUs", Duration::from_secs(5));
    let cluster = fixture.prepare_cluster(run).await?;
    progress.finish_step(step);
    let mut environment = UpgradeCluster {
        api: cluster.api.clone(),
        kubeconfig: cluster.kubeconfig.clone(),
        scheduler_name: args.scheduler_name.clone(),
        run: run.clone(),
        installation: fixture.scheduler_installer(),
    };
    let verdict =
        upgrade::run_upgrade(&mut environment, &args.from, &args.to, strategy, progress).await;
    cluster.shut_down().await;
    verdict
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
