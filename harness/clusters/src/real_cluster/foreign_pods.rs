//! Foreign pods on simulated nodes of an existing cluster. The cluster's own scheduler may place a
//! pod there that tolerates every taint. Such a pod never runs, and is deleted with the node.
//!
//! DaemonSet pods are left out: the cluster creates one for each node, and a missing one does no
//! harm.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use schedlab_api::{
    Value, json,
    pointer::{list, text},
    toleration::tolerates,
};

use super::{ClusterProvider, RealCluster};
use crate::api::{Api, to_anyhow_error};
use schedlab_tenancy::SIMULATED_TAINT;

/// Maximum number of pods that are named in a message.
const NAMES_MAX: usize = 3;

/// Foreign pods that were seen on nodes of the run, as `namespace/name`.
#[derive(Debug, Default)]
pub(super) struct ForeignPods(Mutex<BTreeSet<String>>);

impl RealCluster {
    /// A warning about pending pods of the cluster that may land on the run's nodes. `None` if
    /// there are none, or if the cluster is our own.
    ///
    /// # Errors
    /// The pods of the cluster cannot be listed.
    pub fn pods_that_may_land(&self) -> anyhow::Result<Option<String>> {
        let ClusterProvider::Existing = self.provider else { return Ok(None) };
        let run = self.run.id();
        let pending = super::block_on(async {
            pending_pods_that_tolerate(&super::admin_api(&self.config)?, run).await
        })?;
        Ok((!pending.is_empty()).then(|| {
            format!(
                "the cluster's scheduler may place {} on simulated nodes, whose taint these pods \
                 tolerate: {}; there they never run and are deleted with the nodes (a Job counts \
                 that as a failure)",
                pod_count_text(pending.len(), "pending"),
                first_names_text(&pending)
            )
        }))
    }

    /// A message about pods of others on a scenario's nodes. These pods are also added to those of
    /// [`Self::pods_that_landed`].
    pub async fn foreign_pods_on(&self, prefix: &str) -> Option<String> {
        let ClusterProvider::Existing = self.provider else { return None };
        // Ignored here: if the cluster is unreachable, cleaning up reports it.
        let api = super::admin_api(&self.config).ok()?;
        let foreign =
            foreign_pods_on_nodes(&api, prefix).await.ok().filter(|there| !there.is_empty())?;
        let description = format!(
            "nodes of this scenario had {}: {}",
            pod_count_text(foreign.len(), "foreign"),
            first_names_text(&foreign)
        );
        self.foreign_pods.0.lock().unwrap_or_else(PoisonError::into_inner).extend(foreign);
        Some(description)
    }

    /// A message about the pods of others that were seen on nodes of the run.
    pub fn pods_that_landed(&self) -> Option<String> {
        let landed = self.foreign_pods.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!landed.is_empty()).then(|| {
            format!(
                "simulated nodes had {}, which never ran and were deleted with the nodes: {}",
                pod_count_text(landed.len(), "foreign"),
                first_names_text(&landed)
            )
        })
    }
}

/// Pending pods that tolerate the taint of the run's nodes.
async fn pending_pods_that_tolerate(api: &Api, run: &str) -> anyhow::Result<BTreeSet<String>> {
    find_pods_not_of_daemon_sets(api, |pod| {
        text(pod, "/status/phase") == Some("Pending")
            && text(pod, "/spec/nodeName").is_none_or(str::is_empty)
            && tolerates_simulated_taint(pod, run)
    })
    .await
}

/// Pods on a scenario's nodes that do not belong to the scenario.
async fn foreign_pods_on_nodes(api: &Api, prefix: &str) -> anyhow::Result<BTreeSet<String>> {
    let is_ours = |pod: &Value, at| text(pod, at).is_some_and(|name| name.starts_with(prefix));
    find_pods_not_of_daemon_sets(api, |pod| {
        is_ours(pod, "/spec/nodeName") && !is_ours(pod, "/metadata/namespace")
    })
    .await
}

/// Pods that match `predicate` and belong to no DaemonSet, as `namespace/name`.
async fn find_pods_not_of_daemon_sets(
    api: &Api,
    predicate: impl Fn(&Value) -> bool,
) -> anyhow::Result<BTreeSet<String>> {
    let all = api.get("/api/v1/pods").await.map_err(to_anyhow_error)?;
    let is_daemons = |pod: &Value| {
        list(pod, "/metadata/ownerReferences").iter().any(|owner| owner["kind"] == "DaemonSet")
    };
    let those = list(&all, "/items").iter().filter(|pod| predicate(pod) && !is_daemons(pod));
    let name = |pod: &Value| {
        let field = |at| text(pod, at).unwrap_or_default();
        format!("{}/{}", field("/metadata/namespace"), field("/metadata/name"))
    };
    Ok(those.map(name).collect())
}

/// Whether a pod tolerates the taint of the run's nodes.
fn tolerates_simulated_taint(pod: &Value, run: &str) -> bool {
    let taint = json!({ "key": SIMULATED_TAINT, "value": run, "effect": "NoSchedule" });
    list(pod, "/spec/tolerations").iter().any(|one| tolerates(one, &taint))
}

fn pod_count_text(count: usize, adjective: &str) -> String {
    let noun = if count == 1 { "pod" } else { "pods" };
    format!("{count} {adjective} {noun}")
}

/// The first few names, and the number of the others.
fn first_names_text(names: &BTreeSet<String>) -> String {
    let first: Vec<&str> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::store::Resource;
    use schedlab_emulator::{Emulator, Options};

    use super::*;

    /// A cluster with one node of a scenario and these pods, each with its name, the kind of its
    /// owner and its `spec`.
    fn cluster(pods: &[(&str, &str, Value)]) -> (Emulator, Api) {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let emulator = Emulator::start(Options::with_clock(clock));
        let create = |group: &str, plural: &str, object: Value| {
            emulator.create(&Resource::new(group, plural), object).unwrap();
        };
        create("", "namespaces", json!({"metadata": {"name": "qx1-default"}}));
        create("", "nodes", json!({"metadata": {"name": "qx1-node-1"}}));
        for (name, owner, spec) in pods {
            let (namespace, name) = name.split_once('/').unwrap();
            let owner = json!([{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "1"}]);
            let mut spec = spec.clone();
            spec["containers"] = json!([{"name": "c", "image": "i"}]);
            let metadata = json!({"name": name, "namespace": namespace, "ownerReferences": owner});
            create("", "pods", json!({"metadata": metadata, "spec": spec}));
        }
        let api = Api::new(emulator.client());
        (emulator, api)
    }

    #[tokio::test(start_paused = true)]
    async fn pending_pods_that_tolerate_the_taint_may_land() {
        let with = |toleration: Value| json!({"tolerations": [toleration]});
        let all = || with(json!({"operator": "Exists"}));
        let (_emulator, api) = cluster(&[
            ("default/all", "Job", all()),
            ("default/daemon", "DaemonSet", all()),
            ("default/none", "Job", json!({})),
            ("default/other", "Job", with(json!({"key": "gpu", "operator": "Exists"}))),
            ("default/evicts", "Job", with(json!({"operator": "Exists", "effect": "NoExecute"}))),
            ("default/ours", "Job", with(json!({"key": SIMULATED_TAINT, "operator": "Exists"}))),
            ("default/run", "Job", with(json!({"key": SIMULATED_TAINT, "value": "another"}))),
            ("default/there", "Job", {
                let mut spec = all();
                spec["nodeName"] = json!("qx1-node-1");
                spec
            }),
        ]);
        let waiting = pending_pods_that_tolerate(&api, "r").await.unwrap();
        assert_eq!(first_names_text(&waiting), "default/all, default/ours");
    }

    #[tokio::test(start_paused = true)]
    async fn pods_of_other_namespaces_on_a_scenarios_nodes_are_foreign() {
        let there = || json!({"nodeName": "qx1-node-1"});
        let (_emulator, api) = cluster(&[
            ("default/a", "Job", there()),
            ("default/b", "Job", there()),
            ("default/c", "Job", there()),
            ("default/d", "Job", there()),
            ("default/daemon", "DaemonSet", there()),
            ("default/waits", "Job", json!({})),
            ("qx1-default/own", "Job", there()),
        ]);
        let standing = foreign_pods_on_nodes(&api, "qx1-").await.unwrap();
        assert_eq!(first_names_text(&standing), "default/a, default/b, default/c and 1 more");
    }
}
