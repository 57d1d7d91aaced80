//! A version of our scheduler as a process, for tests of `schedlab upgrade`: as it is, or wrong
//! in a way that an upgrade must not be.
//! usage: `one_version KUBECONFIG SCHEDULER_NAME [elects] [WRONG]`, where WRONG is one of
//! evicts, overbooks, forgets, idles, boundless, flat, mute

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use schedlab::api::Api;
use schedlab_emulator::clock::Clock;
use schedlab_json::json;
use schedlab_scheduler::Config;
use schedlab_scheduler::leader_election::{ElectionConfig, LeaderState, lead};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [kubeconfig, name, how @ ..] = words.as_slice() else {
        anyhow::bail!("usage: one_version KUBECONFIG SCHEDULER_NAME [elects] [WRONG]")
    };
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let client = kube::Client::try_from(config)?;
    let (elects, wrong) = match how {
        ["elects", wrong @ ..] => (true, wrong),
        wrong => (false, wrong),
    };
    let mut config = Config { scheduler_name: (*name).to_owned(), ..Config::kai() };
    let client = match wrong {
        ["boundless"] => {
            // Limits are this plugin's.
            config.disable_plugins(["proportion".to_owned()].into());
            client
        }
        ["flat"] => {
            // Queues above queues do not count.
            config.full_hierarchy_fairness = false;
            client
        }
        ["mute"] => mute(client),
        wrong => {
            do_wrong(&Api::new(client.clone()), wrong.first().copied()).await?;
            client
        }
    };
    if elects { elected(client, config).await } else { work(client, config).await }
}

async fn work(client: kube::Client, config: Config) -> anyhow::Result<()> {
    let clock = Clock::real();
    schedlab_scheduler::run(client, config, Arc::new(move || clock.now())).await
}

/// A client that says of no pod why it waits: what would be written of it is only read.
fn mute(client: kube::Client) -> kube::Client {
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

/// Works while it holds the lease, and gives it up when it is asked to end.
async fn elected(client: kube::Client, config: Config) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let secs = Duration::from_secs;
    let identity = format!("one-version-{}", std::process::id());
    let election = ElectionConfig::new("default", &config.scheduler_name, &identity);
    let election = election.with_timings(secs(3), secs(2), secs(1))?;
    let clock = Clock::real();
    let now = Arc::new(move || clock.now());
    let (told, _standing) = watch::channel(LeaderState::default());
    let stop = async move {
        terminated.recv().await;
    };
    lead(client.clone(), election, now, told, Box::pin(work(client, config)), stop).await
}

/// What a broken version does to a cluster that another one left to it.
async fn do_wrong(api: &Api, how: Option<&str>) -> anyhow::Result<()> {
    let groups = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups";
    match how {
        None => {}
        Some("evicts") => drop(api.delete("/api/v1/namespaces/default/pods/steady-3").await?),
        Some("forgets") => drop(api.delete(&format!("{groups}/giant")).await?),
        Some("rewrites") => {
            let marks = json!({"metadata": {"annotations": {"schedlab.dev/gpu-devices": "7"}}});
            api.merge_patch("/api/v1/namespaces/default/pods/steady-3", &marks).await?;
        }
        Some("recreates") => {
            let queue = "/apis/scheduling.run.ai/v2/queues/upgrade-steady";
            let there = api.get(queue).await?;
            api.delete(queue).await?;
            let mut anew = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"});
            anew["metadata"] =
                json!({"name": "upgrade-steady", "labels": there["metadata"]["labels"]});
            anew["spec"] = there["spec"].clone();
            api.post("/apis/scheduling.run.ai/v2/queues", &anew).await?;
        }
        Some("idles") => std::future::pending().await,
        Some("overbooks") => {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"name": "giant-0", "namespace": "default"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
            });
            let path = "/api/v1/namespaces/default/pods/giant-0/binding";
            api.post(path, &binding).await.context("the binding")?;
        }
        Some(other) => anyhow::bail!("there is no wrong {other}"),
    }
    Ok(())
}
