//! Compares profile `kube` with the real kube-scheduler on random clusters: both find the same
//! feasible nodes, all plugins give the same scores, and the node that kube-scheduler chooses has
//! our highest total score. Of five clusters, one has PodGroups, of which the same ones are placed in
//! the same topology domains, and one has devices and claims.
//!
//! `SCHEDLAB_SEEDS=7..9` selects other seeds than the default 500, and `4..500/5` each fifth: those
//! with devices and claims. Without the control plane
//! programs the test is skipped; with `SCHEDLAB_REQUIRE=control-plane` that is a failure.
#![expect(clippy::print_stdout, reason = "prints how many decisions were compared")]

#[path = "kube_scheduler/clusters.rs"]
mod clusters;
#[path = "kube_scheduler/comparison.rs"]
mod comparison;
#[path = "kube_scheduler/deletion.rs"]
mod deletion;
#[path = "kube_scheduler/devices.rs"]
mod devices;
#[path = "kube_scheduler/gangs.rs"]
mod gangs;
#[path = "kube_scheduler/log.rs"]
mod log;
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
use schedlab_scheduler::ClusterObjects;

use clusters::{Cluster, LAST, NAMESPACES, Pending};
use comparison::{Tally, differences, group_differences, our_fit_errors, our_scores};
use deletion::delete_now;
use gangs::Gang;
use reference::{FEATURE_GATES, KubeScheduler, Outcome};

const SEEDS: Range<u64> = 0..500;

/// How often a cluster with a difference is compared again. A difference that does not repeat comes
/// from the state of kube-scheduler: it updates in how many nodes an image is only when one of them
/// changes, and on a busy machine the first cycle of a PodGroup may try a part of its pods.
const REPETITIONS: usize = 4;

/// Arguments of the API server: without admission plugins that depend on controllers, and with
/// PodGroups.
const API_SERVER_ARGS: &[&str] = &[
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,PodGroupProtection",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
];

const PODS: &str = "/api/v1/namespaces/{namespace}/pods";
const NODES: &str = "/api/v1/nodes";
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";

#[test]
fn profile_kube_scores_and_chooses_nodes_like_kube_scheduler() {
    let programs = ["etcd", "kube-apiserver", "kube-scheduler"];
    let Some(assets) = test_assets(&programs) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tally = runtime.block_on(async {
        let gates = format!("--feature-gates={FEATURE_GATES}");
        let arguments = [API_SERVER_ARGS, &[&*gates]].concat();
        let plane = TemporaryControlPlane::boot(&assets, &arguments).await?;
        let mut real = KubeScheduler::start(&plane).await?;
        create_setting(&real).await?;
        let mut tally = Tally::default();
        for seed in seeds()? {
            tally.add(compare_repeatedly(&mut real, seed).await?);
        }
        anyhow::Ok(tally)
    });
    let tally = tally.unwrap();
    println!("{tally}");
    assert!(tally.differences.is_empty(), "{}", tally.describe_differences());
    assert!(
        tally.bound > 0 && tally.unschedulable > 0,
        "the seeds must give bound and unschedulable pods: {tally}"
    );
}

fn seeds() -> anyhow::Result<impl Iterator<Item = u64>> {
    let Ok(text) = std::env::var("SCHEDLAB_SEEDS") else { return Ok(SEEDS.step_by(1)) };
    let (range, step) = text.split_once('/').unwrap_or((&text, "1"));
    let (from, to) =
        range.split_once("..").context("SCHEDLAB_SEEDS: expected FROM..TO or FROM..TO/STEP")?;
    let number = |part: &str| part.parse().with_context(|| format!("SCHEDLAB_SEEDS: {text}"));
    let step = step.parse().with_context(|| format!("SCHEDLAB_SEEDS: {text}"))?;
    Ok((number(from)?..number(to)?).step_by(step))
}

/// Creates what all clusters share: namespaces and a priority class.
async fn create_setting(real: &KubeScheduler) -> anyhow::Result<()> {
    let namespaces = NAMESPACES.map(|(name, place)| {
        let is_admin = (name == NAMESPACES[1].0).to_string();
        let labels = json!({ "place": place, "resource.kubernetes.io/admin-access": is_admin });
        json!({ "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": name, "labels": labels } })
    });
    real.create("/api/v1/namespaces", namespaces.to_vec()).await?;
    let low = json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                      "metadata": { "name": gangs::LOW_CLASS }, "value": -5 });
    real.create("/apis/scheduling.k8s.io/v1/priorityclasses", vec![low]).await
}

/// Compares the cluster of a seed, and again as long as there is a difference.
async fn compare_repeatedly(real: &mut KubeScheduler, seed: u64) -> anyhow::Result<Tally> {
    let mut found = compare(real, seed).await?;
    for _ in 0..REPETITIONS {
        if found.differences.is_empty() {
            break;
        }
        found = compare(real, seed).await?;
    }
    Ok(found)
}

/// Creates the cluster of a seed, submits what is pending one by one, compares each decision, and
/// deletes the cluster.
async fn compare(real: &mut KubeScheduler, seed: u64) -> anyhow::Result<Tally> {
    let cluster = Cluster::from_seed(seed);
    let mut tally = Tally::default();
    let has_groups = cluster.pending.iter().any(|pending| matches!(pending, Pending::Gang(_)));
    let has_devices = !cluster.devices.classes.is_empty();
    create(real, cluster.clone()).await?;
    for pending in cluster.pending {
        match pending {
            Pending::Pod(pod) => compare_pod(real, &mut tally, seed, pod).await?,
            Pending::Gang(gang) => compare_group(real, &mut tally, seed, &gang).await?,
        }
    }
    let everywhere = CLAIMS.replace("/namespaces/{namespace}", "");
    let claims = if has_devices { real.list(&everywhere).await? } else { Vec::new() };
    tally.multi_node_claims =
        claims.iter().filter(|claim| devices::has_multi_node_device(claim)).count();
    for (namespace, _) in NAMESPACES {
        let of_groups = [GROUPS].into_iter().filter(|_| has_groups);
        let of_devices = [CLAIMS].into_iter().filter(|_| has_devices);
        for path in [PODS].into_iter().chain(of_groups).chain(of_devices) {
            delete_now(real.api(), &path.replace("{namespace}", namespace)).await?;
        }
    }
    // The scheduler protects allocated claims.
    let claims = if has_devices { real.list(&everywhere).await? } else { Vec::new() };
    for claim in claims {
        let name = claim["metadata"]["name"].as_str().context("a claim has a name")?;
        let collection = CLAIMS.replace("{namespace}", random_pods::namespace_of(&claim));
        let patch = json!({ "metadata": { "finalizers": null } });
        real.api().merge_patch(&format!("{collection}/{name}"), &patch).await?;
    }
    for path in [SLICES, CLASSES].into_iter().filter(|_| has_devices).chain([NODES]) {
        delete_now(real.api(), path).await?;
    }
    Ok(tally)
}

/// Creates the objects of a cluster but what is pending, and waits until the scheduler has seen
/// them.
async fn create(real: &mut KubeScheduler, cluster: Cluster) -> anyhow::Result<()> {
    let (last, others) = cluster.nodes.split_last().context("a cluster has nodes")?;
    real.create(CLASSES, cluster.devices.classes).await?;
    real.create(SLICES, cluster.devices.slices).await?;
    real.create(CLAIMS, cluster.devices.claims).await?;
    real.create(NODES, others.to_vec()).await?;
    real.create(NODES, vec![last.clone()]).await?;
    real.create(PODS, cluster.bound_pods).await?;
    for (namespace, name) in &cluster.terminating {
        let path = format!("{}/{name}", PODS.replace("{namespace}", namespace));
        real.api().delete(&path).await.context(path)?;
    }
    real.create(PODS, vec![clusters::last_pod()]).await?;
    real.wait_for_decision(NAMESPACES[0].0, LAST).await.map(drop)
}

/// All objects of the cluster.
async fn objects(real: &KubeScheduler) -> anyhow::Result<ClusterObjects> {
    let everywhere = |path: &str| path.replace("/namespaces/{namespace}", "");
    Ok(ClusterObjects {
        nodes: real.list(NODES).await?,
        pods: real.list(&everywhere(PODS)).await?,
        pod_groups: real.list(&everywhere(GROUPS)).await?,
        device_classes: real.list(CLASSES).await?,
        resource_slices: real.list(SLICES).await?,
        resource_claims: real.list(&everywhere(CLAIMS)).await?,
    })
}

/// Submits a pod and compares the decision about it.
async fn compare_pod(
    real: &mut KubeScheduler,
    tally: &mut Tally,
    seed: u64,
    pod: Value,
) -> anyhow::Result<()> {
    let namespace = random_pods::namespace_of(&pod);
    let name = pod["metadata"]["name"].as_str().context("a pod has a name")?.to_owned();
    let mut objects = objects(real).await?;
    real.create(PODS, vec![pod]).await?;
    let path = format!("{}/{name}", PODS.replace("{namespace}", namespace));
    let mut created: Value = real.api().get(&path).await?;
    let outcome = real.wait_for_decision(namespace, &name).await?;
    reset_to_pending(&mut created);
    objects.pods.push(created);
    let ours = our_scores(&objects, namespace, &name);
    tally.count(&outcome);
    let mut found = differences(&outcome, &ours);
    if !found.is_empty() {
        found.push(our_fit_errors(&objects, namespace, &name));
        tally.add_difference(format!("seed {seed}, {name}: {}", found.join("; ")), &objects);
    }
    if let Outcome::Unschedulable { .. } = outcome {
        delete_now(real.api(), &path).await?;
    }
    Ok(())
}

/// Submits a PodGroup and compares the decision about it. The PodGroup comes after its pods, so
/// that all of them are tried in its first cycle.
async fn compare_group(
    real: &mut KubeScheduler,
    tally: &mut Tally,
    seed: u64,
    gang: &Gang,
) -> anyhow::Result<()> {
    let (namespace, name) = (gang.namespace(), gang.name());
    for pod in &gang.pods {
        real.create(PODS, vec![pod.clone()]).await?;
    }
    let marker = format!("marker-{name}");
    real.create(PODS, vec![clusters::pod_on_last_node(&marker)]).await?;
    real.wait_for_decision(NAMESPACES[0].0, &marker).await?;
    let mut objects = objects(real).await?;
    real.create(GROUPS, vec![gang.group.clone()]).await?;
    let path = format!("{}/{name}", GROUPS.replace("{namespace}", namespace));
    objects.pod_groups.push(real.api().get(&path).await?);
    let outcome = real.wait_for_group(gang).await?;
    tally.count_group(&outcome);
    let found = group_differences(&objects, gang, &outcome)?;
    if !found.is_empty() {
        tally.add_difference(format!("seed {seed}, {name}: {}", found.join("; ")), &objects);
    }
    let pods = gang.pod_names().into_iter();
    for pod in pods.filter(|pod| !outcome.nodes.contains_key(pod)) {
        let path = format!("{}/{pod}", PODS.replace("{namespace}", namespace));
        delete_now(real.api(), &path).await?;
    }
    Ok(())
}

/// Resets a pod to its state before the scheduling decision.
fn reset_to_pending(pod: &mut Value) {
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    pod["status"] = json!({ "phase": "Pending" });
}
