//! `schedlab upgrade`: one version of a scheduler is replaced by another, and back again.

mod scene;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use super::Output;
use crate::cli::{Format, Upgrade, UpgradeWay};
use crate::exit::Exit;
use crate::interrupt::Interrupt;
use crate::leftovers::Run;
use crate::progress::Progress;
use crate::upgrade::{self, Bench, Move, Verdict, Way};
use scene::Scene;

#[derive(Serialize)]
struct Told<'a> {
    from: String,
    to: String,
    passed: bool,
    ways: &'a [Verdict],
}

/// Ends with 0 when every check held, 1 when one did not, 3 when the old version does not run.
pub fn upgrade(args: &Upgrade) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let mut output = Output::detect();
    let ways: &[Way] = match args.way {
        UpgradeWay::Rolling => &[Way::Rolling],
        UpgradeWay::StopAndStart => &[Way::StopAndStart],
        UpgradeWay::Both => &[Way::Rolling, Way::StopAndStart],
    };
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::default();
    let mut verdicts = Vec::new();
    for way in ways {
        let scene = match Scene::new(args, &interrupt, &mut progress) {
            Err(_) if interrupt.is_raised() => return Ok(Exit::Interrupted),
            scene => scene?,
        };
        let run = Run::begin("upgrade")?;
        let judged = runtime.block_on(async {
            tokio::select! {
                verdict = judge(args, *way, (&scene, &run), &mut progress) => Some(verdict),
                () = interrupt.raised() => None,
            }
        });
        let left = runtime.block_on(run.end());
        let left = left.into_iter().map(|left| format!("{left:?}")).chain(scene.close());
        for left in left {
            output.note(&format!("could not be removed: {left}; try schedlab clean"));
        }
        match judged {
            Some(verdict) => verdicts.push(verdict?),
            None => return Ok(Exit::Interrupted),
        }
    }
    output.note(&progress.summary());
    let passed = verdicts.iter().all(Verdict::passed);
    let told =
        Told { from: args.from.to_string(), to: args.to.to_string(), passed, ways: &verdicts };
    output.data(&match args.format {
        Format::Json => serde_json::to_string_pretty(&told)? + "\n",
        Format::Text => text(&verdicts),
    });
    Ok(if passed { Exit::Passed } else { Exit::Failed })
}

/// Upgrades on a new cluster.
async fn judge(
    args: &Upgrade,
    way: Way,
    (scene, run): (&Scene, &Run),
    progress: &mut Progress,
) -> anyhow::Result<Verdict> {
    let step = progress.begin("4 nodes of 8 GPUs", Duration::from_secs(5));
    let set = scene.set(run).await?;
    progress.done(step);
    let mut bench = Bench {
        api: set.api.clone(),
        kubeconfig: set.kubeconfig.clone(),
        scheduler_name: args.scheduler_name.clone(),
        run: run.clone(),
        installation: scene.installation(),
    };
    let verdict = upgrade::upgrade(&mut bench, (&args.from, &args.to), way, progress).await;
    set.close().await;
    verdict
}

fn text(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for verdict in verdicts {
        for one in &verdict.moves {
            of_move(&mut out, one, verdict.way);
        }
    }
    let passed = verdicts.iter().all(Verdict::passed);
    let _ = writeln!(out, "{}", if passed { "the upgrade passed" } else { "THE UPGRADE FAILED" });
    out
}

fn of_move(out: &mut String, one: &Move, way: Way) {
    let _ = writeln!(out, "{} ({way})", one.title);
    for check in &one.checks {
        let mark = if check.held() { "✔" } else { "✘" };
        let line = format!("  {mark} {}  {}", check.claim, check.seen);
        let _ = writeln!(out, "{}", line.trim_end());
        for line in check.broken.iter().flat_map(|line| line.lines()) {
            let _ = writeln!(out, "      {line}");
        }
    }
    let _ = writeln!(out, "  before and after:");
    for line in &one.diff {
        let _ = writeln!(out, "    {line}");
    }
}
