//! Compares profile `kube` with the real kube-scheduler on random clusters: both find the same
//! feasible nodes, all plugins give the same scores, and the node that kube-scheduler chooses has
//! our highest total score.
//!
//! `SCHEDLAB_SEEDS=7..9` selects other seeds than the default 500. Without the control plane
//! programs the test is skipped; with `SCHEDLAB_REQUIRE=control-plane` that is a failure.
#![expect(clippy::print_stdout, reason = "prints how many decisions were compared")]

#[path = "kube_scheduler/clusters.rs"]
mod clusters;
#[path = "kube_scheduler/comparison.rs"]
mod comparison;
#[path = "kube_scheduler/deletion.rs"]
mod deletion;
#[path = "kube_scheduler/random_pods.rs"]
mod random_pods;
#[path = "kube_scheduler/reference.rs"]
mod reference;
#[path = "kube_scheduler/rng.rs"]
mod rng;

use std::ops::Range;

use anyhow::Context as _;
use schedlab_api::{Value, json};
use schedlab_control_plane::{TemporaryControlPlane, test_assets};

use clusters::{Cluster, LAST, NAMESPACES};
use comparison::{Tally, differences, our_scores};
use deletion::delete_now;
use reference::{KubeScheduler, Outcome};

const SEEDS: Range<u64> = 0..500;

const PODS: &str = "/api/v1/namespaces/{namespace}/pods";
const NODES: &str = "/api/v1/nodes";

#[test]
fn profile_kube_scores_and_chooses_nodes_like_kube_scheduler() {
    let programs = ["etcd", "kube-apiserver", "kube-scheduler"];
    let Some(assets) = test_assets(&programs) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tally = runtime.block_on(async {
        let plane = TemporaryControlPlane::boot(&assets, deletion::API_SERVER_ARGS).await?;
        let mut real = KubeScheduler::start(&plane).await?;
        let namespaces = NAMESPACES.map(|(name, place)| {
            let labels = json!({ "place": place });
            json!({ "apiVersion": "v1", "kind": "Namespace",
                    "metadata": { "name": name, "labels": labels } })
        });
        real.create("/api/v1/namespaces", namespaces.to_vec()).await?;
        let mut tally = Tally::default();
        for seed in seeds()? {
            let mut found = compare(&mut real, seed).await?;
            if !found.differences.is_empty() {
                // kube-scheduler caches how many nodes have an image, and updates the count of a
                // node only when that node changes. A difference that does not repeat comes from
                // this cache.
                found = compare(&mut real, seed).await?;
            }
            tally.add(found);
        }
        anyhow::Ok(tally)
    });
    let tally = tally.unwrap();
    println!("{tally}");
    assert!(
        tally.bound > 0 && tally.unschedulable > 0,
        "the seeds must give bound and unschedulable pods: {tally}"
    );
    assert!(tally.differences.is_empty(), "{}", tally.describe_differences());
}

fn seeds() -> anyhow::Result<Range<u64>> {
    let Ok(range) = std::env::var("SCHEDLAB_SEEDS") else { return Ok(SEEDS) };
    let (from, to) = range.split_once("..").context("SCHEDLAB_SEEDS: expected FROM..TO")?;
    Ok(from.parse().context(range.clone())?..to.parse().context(range.clone())?)
}

/// Creates the cluster of a seed, submits its pending pods one by one, compares each decision, and
/// deletes the cluster.
async fn compare(real: &mut KubeScheduler, seed: u64) -> anyhow::Result<Tally> {
    let cluster = Cluster::from_seed(seed);
    let mut tally = Tally::default();
    let (last, others) = cluster.nodes.split_last().context("a cluster has nodes")?;
    real.create(NODES, others.to_vec()).await?;
    real.create(NODES, vec![last.clone()]).await?;
    real.create(PODS, cluster.bound_pods).await?;
    for (namespace, name) in &cluster.terminating {
        let path = format!("{}/{name}", PODS.replace("{namespace}", namespace));
        real.api().delete(&path).await.context(path)?;
    }
    real.create(PODS, vec![clusters::last_pod()]).await?;
    real.wait_for_decision(NAMESPACES[0].0, LAST).await?;
    for pod in cluster.pending {
        let namespace = random_pods::namespace_of(&pod);
        let name = pod["metadata"]["name"].as_str().context("a pod has a name")?.to_owned();
        let (nodes, mut pods) = (real.list(NODES).await?, real.list("/api/v1/pods").await?);
        real.create(PODS, vec![pod]).await?;
        let path = format!("{}/{name}", PODS.replace("{namespace}", namespace));
        let mut created: Value = real.api().get(&path).await?;
        let outcome = real.wait_for_decision(namespace, &name).await?;
        reset_to_pending(&mut created);
        pods.push(created);
        let ours = our_scores(&nodes, &pods, namespace, &name)?;
        tally.count(&outcome);
        let found = differences(&outcome, &ours);
        if !found.is_empty() {
            let words = format!("seed {seed}, {name}: {}", found.join("; "));
            tally.add_difference(words, &nodes, &pods);
        }
        if let Outcome::Unschedulable { .. } = outcome {
            delete_now(real.api(), &path).await?;
        }
    }
    for (namespace, _) in NAMESPACES {
        delete_now(real.api(), &PODS.replace("{namespace}", namespace)).await?;
    }
    delete_now(real.api(), NODES).await?;
    Ok(tally)
}

/// Resets a pod to its state before the scheduling decision.
fn reset_to_pending(pod: &mut Value) {
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    pod["status"] = json!({ "phase": "Pending" });
}
