//! Probes the installed scheduler before the first scenario. If no scheduler has the given name,
//! every scenario would wait for its pods until it times out.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_api::{Value, api_versions, conditions, json, labels};

use super::poll::poll_until_ok;
use crate::api::{Api, to_anyhow_error};

/// Maximum wait for a scheduler's report about a pod. A scheduler that has just started first waits
/// for its lease.
const SCHEDULING_RESULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks that the scheduler is running: fails unless it reports about a pod that fits no node.
pub(super) async fn probe_scheduler(
    config: &kube::Config,
    scheduler: &str,
    run: &str,
) -> anyhow::Result<()> {
    let probe = SchedulerProbe {
        api: super::admin_api(config)?,
        run,
        name: format!("schedlab-{run}-trial"),
    };
    let result = probe.is_handled_by(scheduler).await;
    // Whatever cannot be deleted now is deleted at the run's end, by its label.
    probe.remove_probe_objects().await;
    let is_judged = result.with_context(|| format!("cannot probe the scheduler {scheduler}"))?;
    anyhow::ensure!(
        is_judged,
        "--scheduler installed:{scheduler}: no scheduler of that name responds: a pod with \
         schedulerName {scheduler:?} was neither bound nor reported as unschedulable within \
         {SCHEDULING_RESULT_TIMEOUT:?}\nto do: use the name of a running scheduler (kubectl get pods -A), or \
         start it"
    );
    Ok(())
}

/// A probe for a running scheduler: a pod with its queues, in a namespace of its own.
struct SchedulerProbe<'r> {
    api: Api,
    run: &'r str,
    name: String,
}

const NAMESPACES_PATH: &str = "/api/v1/namespaces";
const QUEUES_PATH: &str = "/apis/scheduling.run.ai/v2/queues";

impl SchedulerProbe<'_> {
    async fn is_handled_by(&self, scheduler: &str) -> anyhow::Result<bool> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace" });
        self.post_object(NAMESPACES_PATH, &self.name, namespace).await?;
        self.post_object(QUEUES_PATH, &self.parent_queue_path(), probe_queue()).await?;
        let mut leaf = probe_queue();
        leaf["spec"]["parentQueue"] = json!(self.parent_queue_path());
        self.post_object(QUEUES_PATH, &self.name, leaf).await?;
        // A new namespace has no service account yet, and rejects pods without one.
        let created = poll_until_ok(SCHEDULING_RESULT_TIMEOUT, async || {
            Ok(self.post_object(&self.pods_path(), &self.name, self.probe_pod(scheduler)).await)
        });
        created.await??;
        let path = format!("{}/{}", self.pods_path(), self.name);
        let scheduled = poll_until_ok(SCHEDULING_RESULT_TIMEOUT, async || {
            let pod = self.api.get(&path).await.map_err(to_anyhow_error)?;
            Ok(has_scheduling_result(&pod).then_some(()).ok_or(()))
        });
        Ok(scheduled.await?.is_ok())
    }

    async fn post_object(
        &self,
        collection: &str,
        name: &str,
        mut object: Value,
    ) -> anyhow::Result<()> {
        object["metadata"]["name"] = json!(name);
        object["metadata"]["labels"][labels::RUN] = json!(self.run);
        self.api.post(collection, &object).await.map_err(to_anyhow_error)?;
        Ok(())
    }

    fn parent_queue_path(&self) -> String {
        format!("{}-parent", self.name)
    }

    fn pods_path(&self) -> String {
        format!("{NAMESPACES_PATH}/{}/pods", self.name)
    }

    fn probe_pod(&self, scheduler: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "labels": { (labels::QUEUE): self.name } },
            "spec": {
                "schedulerName": scheduler,
                "nodeSelector": { "schedlab.dev/nowhere": "true" },
                "containers": [{ "name": "none", "image": "none" }],
            },
        })
    }

    async fn remove_probe_objects(&self) {
        drop(self.api.delete_immediately(&self.pods_path()).await);
        for queue in [&self.name, &self.parent_queue_path()] {
            drop(self.api.delete(&format!("{QUEUES_PATH}/{queue}")).await);
        }
        drop(self.api.delete(&format!("{NAMESPACES_PATH}/{}", self.name)).await);
    }
}

fn probe_queue() -> Value {
    let free = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    json!({
        "apiVersion": api_versions::QUEUE,
        "kind": "Queue",
        "spec": { "resources": { "gpu": free, "cpu": free, "memory": free } },
    })
}

/// Whether a scheduler bound the pod or set its condition `PodScheduled`.
fn has_scheduling_result(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    pod["spec"]["nodeName"].is_string()
        || conditions.any(|one| one["type"] == conditions::POD_SCHEDULED)
}
