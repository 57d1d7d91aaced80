//! Pods of PodGroups of Kubernetes bound per second on a real API server, by kube-scheduler and by our
//! scheduler in turn: 1,500 gangs of 6 pods on 5,000 nodes, and 150 such gangs with a topology
//! constraint, for each of which profile `kube` scores all 250 racks, as kube-scheduler does. Every
//! scheduler is timed from its first binding.
//!
//! `cargo bench -p schedlab --bench gangs [divisor]`: a divisor makes gangs and nodes fewer.

#[path = "../tests/kube_scheduler/deletion.rs"]
mod deletion;
#[path = "binding/fleet.rs"]
mod fleet;
#[path = "binding/race.rs"]
mod race;
#[path = "binding/workload.rs"]
mod workload;

use anyhow::Context as _;
use race::Timings;
use schedlab_api::{Value, json};
use schedlab_control_plane::{Assets, TemporaryControlPlane, find_assets};
use schedlab_scheduler::{Config, FeatureGates};
use workload::Workload;

const NODES: usize = 5000;
const GANGS: usize = 1500;
const GANGS_IN_RACKS: usize = 150;
const PODS_PER_GANG: usize = 6;
const FEATURE_GATES: &str = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
const API_SERVER_ARGS: [&str; 3] = [
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,PodGroupProtection",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
    "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true",
];

#[expect(clippy::print_stderr, reason = "a skipped benchmark says why")]
fn main() -> anyhow::Result<()> {
    let assets = match find_assets(None, &["etcd", "kube-apiserver", "kube-scheduler"]) {
        Ok(assets) => assets,
        Err(error) => {
            eprintln!("skipped: pods of PodGroups bound per second: {error}");
            return Ok(());
        }
    };
    let divisor: Option<usize> = std::env::args().skip(1).find_map(|text| text.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(&assets, divisor.unwrap_or(1).max(1)))
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its results")]
async fn measure(assets: &Assets, divisor: usize) -> anyhow::Result<()> {
    let nodes = NODES / divisor;
    let plane = TemporaryControlPlane::boot(assets, &API_SERVER_ARGS).await?;
    fleet::install_fleet(&plane, nodes).await.context("cannot install the fleet")?;
    for (gangs, name, topology) in
        [(GANGS, "gangs", None), (GANGS_IN_RACKS, "gangs in one rack each", Some(fleet::RACK))]
    {
        let gangs = gangs / divisor;
        println!("{gangs} {name}, {} pods, {nodes} nodes, pods per second:", gangs * PODS_PER_GANG);
        let workload = |scheduler: &str| {
            let place = if topology.is_some() { "rack" } else { "any" };
            gang_pods(format!("{place}-{scheduler}"), gangs, topology)
        };
        let real = race::time_kube_scheduler(&plane, &workload("real"), FEATURE_GATES).await?;
        println!("  kube-scheduler      {}", real.describe());
        for (name, config) in [("kai", Config::kai()), ("kube", kube_config())] {
            let ours = race::time_our_scheduler(&plane, &workload(name), config).await?;
            println!(
                "  ours, profile {name:<4}  {}: x {:.2}",
                ours.describe(),
                rate(&ours) / rate(&real)
            );
        }
    }
    Ok(())
}

fn rate(timings: &Timings) -> f64 {
    timings.pods_per_second_after_first()
}

fn kube_config() -> Config {
    let feature_gates = FeatureGates { generic_workload: true, topology_aware: true };
    Config { feature_gates, scheduler_name: "schedlab".into(), ..Config::kube() }
}

/// PodGroups of which each needs all its pods, in one domain of the topology label.
fn gang_pods(namespace: String, gangs: usize, topology: Option<&str>) -> Workload {
    let pod_groups = (0..gangs).map(|at| pod_group(at, topology)).collect();
    let pods = (0..gangs * PODS_PER_GANG).map(|at| {
        let gang = at / PODS_PER_GANG;
        let mut pod = fleet::pod_object(&format!("pod-{at:05}"), &fleet::queue_of(gang));
        pod["spec"]["schedulingGroup"] = json!({ "podGroupName": group_name(gang) });
        pod
    });
    Workload { namespace, pod_groups, pods: pods.collect() }
}

fn pod_group(index: usize, topology: Option<&str>) -> Value {
    let mut spec = json!({ "schedulingPolicy": { "gang": { "minCount": PODS_PER_GANG } } });
    if let Some(label) = topology {
        spec["schedulingConstraints"] = json!({ "topology": [{ "key": label }] });
    }
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": group_name(index),
            "labels": { "kai.scheduler/queue": fleet::queue_of(index) },
        },
        "spec": spec,
    })
}

fn group_name(index: usize) -> String {
    format!("gang-{index:04}")
}
