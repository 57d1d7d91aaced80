//! A trial of the scheduler that is said to run on a cluster. Where nobody has its name, each
//! scenario would wait for its pods in vain.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_json::{Value, json};

use super::wait::answered;
use crate::api::{Api, refusal};
use crate::leftovers::OBJECT_LABEL;

/// How long a scheduler may take to say something about a pod: one that has just been started
/// waits for its lease.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Has the scheduler of that name judge a pod for which there is no node.
pub(super) async fn try_scheduler(
    config: &kube::Config,
    scheduler: &str,
    run: &str,
) -> anyhow::Result<()> {
    let trial = Trial { api: super::api(config)?, run, name: format!("schedlab-{run}-trial") };
    let judged = trial.is_judged_by(scheduler).await;
    // What cannot be taken away now goes at the run's end, by its label.
    trial.remove().await;
    let is_judged = judged.with_context(|| format!("cannot try the scheduler {scheduler}"))?;
    anyhow::ensure!(
        is_judged,
        "--scheduler installed:{scheduler}: nobody of that name runs there: a pod with \
         schedulerName {scheduler:?} was neither placed nor told why not within \
         {ANSWERS_WITHIN:?}\nto do: name the one that runs (kubectl get pods -A), or start it"
    );
    Ok(())
}

/// A pod, its queues, and a namespace of their own.
struct Trial<'r> {
    api: Api,
    run: &'r str,
    name: String,
}

const NAMESPACES: &str = "/api/v1/namespaces";
const QUEUES: &str = "/apis/scheduling.run.ai/v2/queues";

impl Trial<'_> {
    async fn is_judged_by(&self, scheduler: &str) -> anyhow::Result<bool> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace" });
        self.post(NAMESPACES, &self.name, namespace).await?;
        self.post(QUEUES, &self.parent(), queue()).await?;
        let mut leaf = queue();
        leaf["spec"]["parentQueue"] = json!(self.parent());
        self.post(QUEUES, &self.name, leaf).await?;
        // A namespace that is new has no service account yet, without which it takes no pods.
        let posted = answered(ANSWERS_WITHIN, async || {
            Ok(self.post(&self.pods(), &self.name, self.pod(scheduler)).await)
        });
        posted.await??;
        let path = format!("{}/{}", self.pods(), self.name);
        let judged = answered(ANSWERS_WITHIN, async || {
            let pod = self.api.get(&path).await.map_err(refusal)?;
            Ok(is_judged(&pod).then_some(()).ok_or(()))
        });
        Ok(judged.await?.is_ok())
    }

    async fn post(&self, collection: &str, name: &str, mut object: Value) -> anyhow::Result<()> {
        object["metadata"]["name"] = json!(name);
        object["metadata"]["labels"][OBJECT_LABEL] = json!(self.run);
        self.api.post(collection, &object).await.map_err(refusal)?;
        Ok(())
    }

    fn parent(&self) -> String {
        format!("{}-parent", self.name)
    }

    fn pods(&self) -> String {
        format!("{NAMESPACES}/{}/pods", self.name)
    }

    fn pod(&self, scheduler: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "labels": { "kai.scheduler/queue": self.name } },
            "spec": {
                "schedulerName": scheduler,
                "nodeSelector": { "schedlab.dev/nowhere": "true" },
                "containers": [{ "name": "none", "image": "none" }],
            },
        })
    }

    async fn remove(&self) {
        drop(self.api.delete_at_once(&self.pods()).await);
        for queue in [&self.name, &self.parent()] {
            drop(self.api.delete(&format!("{QUEUES}/{queue}")).await);
        }
        drop(self.api.delete(&format!("{NAMESPACES}/{}", self.name)).await);
    }
}

fn queue() -> Value {
    let free = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    json!({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "spec": { "resources": { "gpu": free, "cpu": free, "memory": free } },
    })
}

/// Whether somebody placed it, or said why not.
fn is_judged(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["spec"]["nodeName"].is_string() || conditions.any(|one| one["type"] == "PodScheduled")
}
