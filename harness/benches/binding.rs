//! Pods bound a second on a real API server: ours, with its queues on, and kube-scheduler in
//! turn. Theirs is timed from its first binding; ours from its start, so that its listing and
//! grouping count and their start-up does not.
//!
//! What limits ours is the API server. On two cores it and etcd take nine tenths of them from the
//! first PodGroup to the last binding, 0.9 ms of the clock for a PodGroup and 0.6 ms for a binding;
//! this process takes a tenth at most, and lists take half a second at the start.
//!
//! `cargo bench -p schedlab --bench binding [rounds]`

#[path = "binding/fleet.rs"]
mod fleet;
#[path = "binding/race.rs"]
mod race;
#[path = "../tests/kube_scheduler/wipe.rs"]
mod wipe;

use anyhow::Context as _;
use schedlab_control_plane::{Assets, TemporaryControlPlane};

use race::Took;

const NODES: usize = 500;
const PODS: usize = 3000;
const ROUNDS: usize = 3;

#[expect(clippy::print_stderr, reason = "a bench says what it leaves out")]
fn main() -> anyhow::Result<()> {
    let assets = match schedlab_control_plane::find_assets(
        None,
        &["etcd", "kube-apiserver", "kube-scheduler"],
    ) {
        Ok(assets) => assets,
        Err(why) => {
            eprintln!("skipped: pods bound a second: {why}");
            return Ok(());
        }
    };
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&assets, rounds.unwrap_or(ROUNDS)))
}

async fn measure(assets: &Assets, rounds: usize) -> anyhow::Result<()> {
    let plane = TemporaryControlPlane::boot(assets, wipe::NOBODY_ELSE).await?;
    fleet::install(&plane).await.context("cannot install the fleet")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let name = format!("round-{round}");
        theirs.push(race::theirs(&plane, &format!("{name}-theirs")).await?);
        ours.push(race::ours(&plane, &format!("{name}-ours")).await?);
    }
    report(&mut ours, &mut theirs);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "figures are what this program is for")]
fn report(ours: &mut [Took], theirs: &mut [Took]) {
    println!("{PODS} pending one-GPU pods, {NODES} nodes x 8 GPUs, pods bound a second:");
    for (name, took) in [("kube-scheduler", &*theirs), ("ours", &*ours)] {
        let rounds = took.iter().map(|took| {
            let (start, first) = (took.a_second(), took.after_first_a_second());
            let told = took.told.as_secs_f64();
            format!("{first:.0} ({start:.0} from its start; all told after {told:.1} s)")
        });
        println!("  {name:<16} {}", rounds.collect::<Vec<_>>().join(", "));
    }
    ours.sort_by_key(|took| took.all);
    theirs.sort_by_key(Took::after_first);
    let (ours, theirs) = (&ours[ours.len() / 2], &theirs[theirs.len() / 2]);
    let (mine, other) = (ours.a_second(), theirs.after_first_a_second());
    println!(
        "  medians: ours {mine:.0} from its start, kube-scheduler {other:.0} from its first \
         binding: x {:.2}",
        mine / other
    );
}
