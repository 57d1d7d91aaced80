//! Pods bound per second on a real API server: our scheduler with queues, and kube-scheduler, in
//! turn. kube-scheduler is timed from its first binding, ours from its start, so that our initial
//! lists and pod grouping count but the start-up of kube-scheduler does not.
//!
//! The API server is our bottleneck. On two cores, API server and etcd use nine tenths of the CPU
//! time from the first PodGroup to the last binding: 0.9 ms of wall time per PodGroup and 0.6 ms
//! per binding. This process uses at most one tenth, and the initial lists take half a second.
//!
//! `cargo bench -p schedlab --bench binding [rounds]`

#[path = "../tests/kube_scheduler/deletion.rs"]
mod deletion;
#[path = "binding/fleet.rs"]
mod fleet;
#[path = "binding/race.rs"]
mod race;
#[path = "binding/workload.rs"]
mod workload;

use anyhow::Context as _;
use schedlab_control_plane::{Assets, TemporaryControlPlane};

use race::Timings;
use schedlab_scheduler::Config;
use workload::Workload;

const NODES: usize = 500;
const PODS: usize = 3000;
const ROUNDS: usize = 3;

/// Arguments of the API server: without admission plugins that depend on controllers, which would
/// create service accounts and remove taints.
const API_SERVER_ARGS: &[&str] =
    &["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"];

#[expect(clippy::print_stderr, reason = "a skipped benchmark says why")]
fn main() -> anyhow::Result<()> {
    let assets = match schedlab_control_plane::find_assets(
        None,
        &["etcd", "kube-apiserver", "kube-scheduler"],
    ) {
        Ok(assets) => assets,
        Err(error) => {
            eprintln!("skipped: pods bound per second: {error}");
            return Ok(());
        }
    };
    let rounds = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(time_rounds(&assets, rounds.unwrap_or(ROUNDS)))
}

async fn time_rounds(assets: &Assets, rounds: usize) -> anyhow::Result<()> {
    let plane = TemporaryControlPlane::boot(assets, API_SERVER_ARGS).await?;
    fleet::install_fleet(&plane, NODES).await.context("cannot install the fleet")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let name = format!("round-{round}");
        let of_theirs = single_pods(format!("{name}-theirs"));
        theirs.push(race::time_kube_scheduler(&plane, &of_theirs, "").await?);
        let of_ours = single_pods(format!("{name}-ours"));
        ours.push(race::time_our_scheduler(&plane, &of_ours, Config::kai()).await?);
    }
    print_report(&mut ours, &mut theirs);
    Ok(())
}

fn single_pods(namespace: String) -> Workload {
    let pods = (0..PODS).map(|at| fleet::pod_object(&format!("pod-{at:04}"), &fleet::queue_of(at)));
    Workload { namespace, pod_groups: Vec::new(), pods: pods.collect() }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
fn print_report(our_timings: &mut [Timings], kube_scheduler_timings: &mut [Timings]) {
    println!("{PODS} pending one-GPU pods, {NODES} nodes x 8 GPUs, pods bound per second:");
    for (name, timings) in [("kube-scheduler", &*kube_scheduler_timings), ("ours", &*our_timings)] {
        let rounds = timings.iter().map(Timings::describe);
        println!("  {name:<16} {}", rounds.collect::<Vec<_>>().join(", "));
    }
    our_timings.sort_by_key(|timings| timings.all);
    kube_scheduler_timings.sort_by_key(Timings::duration_after_first);
    let (ours, theirs) = (
        &our_timings[our_timings.len() / 2],
        &kube_scheduler_timings[kube_scheduler_timings.len() / 2],
    );
    let (mine, other) = (ours.pods_per_second(), theirs.pods_per_second_after_first());
    println!(
        "  medians: ours {mine:.0} from its start, kube-scheduler {other:.0} from its first \
         binding: x {:.2}",
        mine / other
    );
}
