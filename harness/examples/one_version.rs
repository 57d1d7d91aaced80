//! A version of our scheduler as a process, for tests of `schedlab upgrade`: without changes, or
//! with a defect that the checks of an upgrade must find. usage: `one_version KUBECONFIG
//! SCHEDULER_NAME [elects] [DEFECT]`, where DEFECT is one of evicts, overbooks, forgets, rewrites,
//! recreates, idles, boundless, flat, mute

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab_api::json;
use schedlab_clusters::api::Api;
use schedlab_emulator::clock::Clock;
use schedlab_scheduler::Config;
use schedlab_scheduler::leader_election::{ElectionConfig, LeaderState, lead};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [kubeconfig, name, rest @ ..] = args.as_slice() else {
        anyhow::bail!("usage: one_version KUBECONFIG SCHEDULER_NAME [elects] [DEFECT]")
    };
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let client = kube::Client::try_from(config)?;
    let (elects, defect) = match rest {
        ["elects", defect @ ..] => (true, defect),
        defect => (false, defect),
    };
    let mut config = Config { scheduler_name: (*name).to_owned(), ..Config::kai() };
    let client = match defect {
        ["boundless"] => {
            // This plugin enforces the limits of queues.
            config.disable_plugins(["proportion".to_owned()].into());
            client
        }
        ["flat"] => {
            // Limits of parent queues are ignored.
            config.full_hierarchy_fairness = false;
            client
        }
        ["mute"] => client_that_drops_pod_status(client),
        defect => {
            apply_defect_if_named(&Api::new(client.clone()), defect.first().copied()).await?;
            client
        }
    };
    if elects { run_elected(client, config).await } else { run(client, config).await }
}

async fn run(client: kube::Client, config: Config) -> anyhow::Result<()> {
    let clock = Clock::real();
    schedlab_scheduler::run(client, config, Arc::new(move || clock.now())).await
}

/// A client that does not write the status of pods, so that pending pods get no reason. It turns
/// such requests into reads.
fn client_that_drops_pod_status(client: kube::Client) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let of_pod = request.uri().path().strip_suffix("/status");
        let of_pod = of_pod.filter(|path| path.contains("/pods/")).map(str::parse);
        if let (&http::Method::PATCH, Some(Ok(pod))) = (request.method(), of_pod) {
            *request.method_mut() = http::Method::GET;
            *request.uri_mut() = pod;
            *request.body_mut() = Body::empty();
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    kube::Client::new(service, namespace)
}

/// Runs the scheduler while this process holds the lease, and releases the lease on SIGTERM.
async fn run_elected(client: kube::Client, config: Config) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let secs = Duration::from_secs;
    let identity = format!("one-version-{}", std::process::id());
    let election = ElectionConfig::new("default", &config.scheduler_name, &identity);
    let election = election.with_timings(secs(3), secs(2), secs(1))?;
    let clock = Clock::real();
    let now = Arc::new(move || clock.now());
    let (sender, _state) = watch::channel(LeaderState::default());
    let stop = async move {
        terminated.recv().await;
    };
    lead(client.clone(), election, now, sender, Box::pin(run(client, config)), stop).await
}

/// Makes the change with which a defective version harms the cluster of its predecessor; none if
/// `defect` is `None`.
async fn apply_defect_if_named(api: &Api, defect: Option<&str>) -> anyhow::Result<()> {
    let groups = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups";
    match defect {
        None => {}
        Some("evicts") => drop(api.delete("/api/v1/namespaces/default/pods/steady-3").await?),
        Some("forgets") => drop(api.delete(&format!("{groups}/giant")).await?),
        Some("rewrites") => {
            let change = json!({"metadata": {"annotations": {"schedlab.dev/gpu-devices": "7"}}});
            api.merge_patch("/api/v1/namespaces/default/pods/steady-3", &change).await?;
        }
        Some("recreates") => {
            let queue = "/apis/scheduling.run.ai/v2/queues/upgrade-steady";
            let old = api.get(queue).await?;
            api.delete(queue).await?;
            let mut new = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"});
            new["metadata"] =
                json!({"name": "upgrade-steady", "labels": old["metadata"]["labels"]});
            new["spec"] = old["spec"].clone();
            api.post("/apis/scheduling.run.ai/v2/queues", &new).await?;
        }
        Some("idles") => std::future::pending().await,
        Some("overbooks") => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": "giant-0", "namespace": "default"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
            });
            let path = "/api/v1/namespaces/default/pods/giant-0/binding";
            api.post(path, &binding).await.context("cannot bind the pod")?;
        }
        Some(other) => anyhow::bail!("there is no defect {other}"),
    }
    Ok(())
}
