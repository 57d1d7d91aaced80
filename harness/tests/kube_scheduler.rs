//! Profile `kube` beside the real kube-scheduler: on seeded clusters both find the same nodes fit
//! for the same pods, every plugin gives them the same scores, and where the real one goes is
//! among the best of ours.
//!
//! `SCHEDLAB_SEEDS=7..9` looks at other seeds than the 500. Without the programs it says so; with
//! `SCHEDLAB_REQUIRE=control-plane` that is a failure.
#![expect(clippy::print_stdout, reason = "says how many decisions were compared")]

#[path = "kube_scheduler/clusters.rs"]
mod clusters;
#[path = "kube_scheduler/dice.rs"]
mod dice;
#[path = "kube_scheduler/real.rs"]
mod real;
#[path = "kube_scheduler/verdict.rs"]
mod verdict;
#[path = "kube_scheduler/wipe.rs"]
mod wipe;
#[path = "kube_scheduler/wishes.rs"]
mod wishes;

use std::ops::Range;

use anyhow::Context as _;
use schedlab_control_plane::{TemporaryControlPlane, test_assets};
use schedlab_json::{Value, json};
use schedlab_scheduler::{Config, node_scores::score_nodes};

use clusters::{Cluster, LAST, NAMESPACES};
use real::{Fate, Real};
use verdict::{Tally, differences};
use wipe::wipe;

const SEEDS: Range<u64> = 0..500;

const PODS: &str = "/api/v1/namespaces/{namespace}/pods";
const NODES: &str = "/api/v1/nodes";

#[test]
fn the_real_scheduler_sees_the_same_nodes_and_scores_and_goes_where_ours_could() {
    let programs = ["etcd", "kube-apiserver", "kube-scheduler"];
    let Some(assets) = test_assets(&programs) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tally = runtime.block_on(async {
        let plane = TemporaryControlPlane::boot(&assets, wipe::NOBODY_ELSE).await?;
        let mut real = Real::start(&plane).await?;
        let spaces = NAMESPACES.map(|(name, place)| {
            let labels = json!({ "place": place });
            json!({ "apiVersion": "v1", "kind": "Namespace",
                    "metadata": { "name": name, "labels": labels } })
        });
        real.make("/api/v1/namespaces", spaces.to_vec()).await?;
        let mut tally = Tally::default();
        for seed in seeds()? {
            let mut found = compare(&mut real, seed).await?;
            if !found.wrong.is_empty() {
                // Of a node that did not change itself the real one keeps an old count of those
                // that have its images: what differs only once is that it looked meanwhile.
                found = compare(&mut real, seed).await?;
            }
            tally.add(found);
        }
        anyhow::Ok(tally)
    });
    let tally = tally.unwrap();
    println!("{tally}");
    assert!(tally.bound > 0 && tally.nowhere > 0, "both ends must have been seen: {tally}");
    assert!(tally.wrong.is_empty(), "{}", tally.first_wrong());
}

fn seeds() -> anyhow::Result<Range<u64>> {
    let Ok(told) = std::env::var("SCHEDLAB_SEEDS") else { return Ok(SEEDS) };
    let (from, to) = told.split_once("..").context("SCHEDLAB_SEEDS is FROM..TO")?;
    Ok(from.parse().context(told.clone())?..to.parse().context(told.clone())?)
}

/// Makes one cluster, lets its pods come one by one, and takes it away again.
async fn compare(real: &mut Real, seed: u64) -> anyhow::Result<Tally> {
    let cluster = Cluster::of(seed);
    let mut tally = Tally::default();
    let (last, others) = cluster.nodes.split_last().context("a cluster has nodes")?;
    real.make(NODES, others.to_vec()).await?;
    real.make(NODES, vec![last.clone()]).await?;
    real.make(PODS, cluster.standing).await?;
    for (namespace, name) in &cluster.leaving {
        let path = format!("{}/{name}", PODS.replace("{namespace}", namespace));
        real.api().delete(&path).await.context(path)?;
    }
    real.make(PODS, vec![clusters::last_pod()]).await?;
    real.decide(NAMESPACES[0].0, LAST).await?;
    for pod in cluster.waiting {
        let namespace = wishes::namespace_of(&pod);
        let name = pod["metadata"]["name"].as_str().context("a pod has a name")?.to_owned();
        let (nodes, mut pods) = (real.list(NODES).await?, real.list("/api/v1/pods").await?);
        real.make(PODS, vec![pod]).await?;
        let path = format!("{}/{name}", PODS.replace("{namespace}", namespace));
        let mut created: Value = real.api().get(&path).await?;
        let fate = real.decide(namespace, &name).await?;
        as_it_came(&mut created);
        pods.push(created);
        let told = [&nodes, &pods].map(Clone::clone);
        let ours = score_nodes(&Config::kube(), &told[0], &told[1], (namespace, &name));
        let ours = ours.map_err(anyhow::Error::msg)?;
        tally.count(&fate);
        let found = differences(&fate, &ours);
        if !found.is_empty() {
            let words = format!("seed {seed}, {name}: {}", found.join("; "));
            tally.differs(words, (&nodes, &pods));
        }
        if let Fate::Nowhere { .. } = fate {
            wipe(real.api(), &path).await?;
        }
    }
    for (namespace, _) in NAMESPACES {
        wipe(real.api(), &PODS.replace("{namespace}", namespace)).await?;
    }
    wipe(real.api(), NODES).await?;
    Ok(tally)
}

/// The pod as the scheduler found it, though it may have been decided upon since.
fn as_it_came(pod: &mut Value) {
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    pod["status"] = json!({ "phase": "Pending" });
}
