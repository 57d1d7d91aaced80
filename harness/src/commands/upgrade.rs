//! `schedlab upgrade`: replaces one version of a scheduler by another, and back again.

mod fixture;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::Output;
use crate::cli::{Format, Upgrade, UpgradeStrategy};
use crate::exit::ExitStatus;
use fixture::Fixture;
use schedlab_apps::upgrade::{self, Strategy, Transition, UpgradeCluster, Verdict};
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::interrupt::Interrupt;
use schedlab_conformance::report::progress::Progress;

#[derive(Serialize)]
struct UpgradeOutput<'a> {
    from: String,
    to: String,
    passed: bool,
    ways: &'a [Verdict],
}

/// Exits with 0 when every check passed, with 1 when one failed, and with 3 when the old version
/// does not run.
pub fn upgrade(args: &Upgrade) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let mut output = Output::detect();
    let strategies: &[Strategy] = match args.way {
        UpgradeStrategy::Rolling => &[Strategy::Rolling],
        UpgradeStrategy::StopAndStart => &[Strategy::StopAndStart],
        UpgradeStrategy::Both => &[Strategy::Rolling, Strategy::StopAndStart],
    };
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::default();
    let mut verdicts = Vec::new();
    for strategy in strategies {
        let fixture = match Fixture::new(args, &interrupt, &mut progress) {
            Err(_) if interrupt.is_raised() => return Ok(ExitStatus::Interrupted),
            fixture => fixture?,
        };
        let run = Run::begin("upgrade")?;
        let judged = runtime.block_on(async {
            tokio::select! {
                verdict = upgrade_on_new_cluster(args, *strategy, &fixture, &run, &mut progress) => Some(verdict),
                () = interrupt.wait() => None,
            }
        });
        let left = runtime.block_on(run.end());
        let left = left.into_iter().map(|left| format!("{left:?}")).chain(fixture.close());
        for left in left {
            output.note(&format!("could not be removed: {left}; try schedlab clean"));
        }
        match judged {
            Some(verdict) => verdicts.push(verdict?),
            None => return Ok(ExitStatus::Interrupted),
        }
    }
    output.note(&progress.summary());
    let passed = verdicts.iter().all(Verdict::passed);
    let result = UpgradeOutput {
        from: args.from.to_string(),
        to: args.to.to_string(),
        passed,
        ways: &verdicts,
    };
    output.data(&match args.format {
        Format::Json => serde_json::to_string_pretty(&result)? + "\n",
        Format::Text => text(&verdicts),
    });
    Ok(if passed { ExitStatus::Passed } else { ExitStatus::Failed })
}

/// Runs the upgrade on a cluster that is created for it.
async fn upgrade_on_new_cluster(
    args: &Upgrade,
    strategy: Strategy,
    fixture: &Fixture,
    run: &Run,
    progress: &mut Progress,
) -> anyhow::Result<Verdict> {
    let step = progress.begin("4 nodes of 8 GPUs", Duration::from_secs(5));
    let cluster = fixture.prepare(run).await?;
    progress.done(step);
    let mut environment = UpgradeCluster {
        api: cluster.api.clone(),
        kubeconfig: cluster.kubeconfig.clone(),
        scheduler_name: args.scheduler_name.clone(),
        run: run.clone(),
        installation: fixture.installation(),
    };
    let verdict =
        upgrade::upgrade(&mut environment, &args.from, &args.to, strategy, progress).await;
    cluster.close().await;
    verdict
}

fn text(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for verdict in verdicts {
        for one in &verdict.transitions {
            transition_text(&mut out, one, verdict.strategy);
        }
    }
    let passed = verdicts.iter().all(Verdict::passed);
    let _ = writeln!(out, "{}", if passed { "the upgrade passed" } else { "THE UPGRADE FAILED" });
    out
}

fn transition_text(out: &mut String, one: &Transition, strategy: Strategy) {
    let _ = writeln!(out, "{} ({strategy})", one.title);
    for check in &one.checks {
        let mark = if check.passed() { "✔" } else { "✘" };
        let line = format!("  {mark} {}  {}", check.claim, check.evidence);
        let _ = writeln!(out, "{}", line.trim_end());
        for line in check.violations.iter().flat_map(|line| line.lines()) {
            let _ = writeln!(out, "      {line}");
        }
    }
    let _ = writeln!(out, "  before and after:");
    for line in &one.diff {
        let _ = writeln!(out, "    {line}");
    }
}
