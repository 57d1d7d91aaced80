//! Pods of others on simulated nodes of somebody's cluster. One that tolerates every taint may be
//! sent there by that cluster's own scheduler: nothing of it runs there, and it goes with the node.
//! Those of daemons are left out: the cluster makes one for each node, and none is missed.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use schedlab_json::Value;

use super::{Ground, Host};
use crate::api::{Api, refusal};
use crate::fields::{list, text};
use crate::veil::SIMULATED;

/// How many are told by name.
const NAMED_MOST: usize = 3;

/// Pods of others that were seen on nodes of the run, as `namespace/name`.
#[derive(Debug, Default)]
pub(super) struct Guests(Mutex<BTreeSet<String>>);

impl Ground {
    /// Which pods of others may come to the run's nodes, before there are any.
    ///
    /// # Errors
    /// The cluster does not tell its pods.
    pub fn who_may_come(&self) -> anyhow::Result<Option<String>> {
        let Host::Others = self.host else { return Ok(None) };
        let run = self.run.id();
        let waiting = super::on_runtime(async { waiting(&super::api(&self.config)?, run).await })?;
        Ok((!waiting.is_empty()).then(|| {
            format!(
                "{} the taint of simulated nodes: {}; the cluster's scheduler may place them \
                 there, where nothing of them runs and from where they go with the nodes (a Job \
                 counts that as a failure)",
                pods(waiting.len(), "of others waits and tolerates", "of others wait and tolerate"),
                named(&waiting)
            )
        }))
    }

    /// Which pods of others are on a scenario's nodes, in words; they are remembered.
    pub(crate) async fn guests_of(&self, prefix: &str) -> Option<String> {
        let Host::Others = self.host else { return None };
        // Who cannot be asked now will say so when it is cleaned up.
        let api = super::api(&self.config).ok()?;
        let there = standing(&api, prefix).await.ok().filter(|there| !there.is_empty())?;
        let told = format!(
            "{} on nodes of this scenario: {}",
            pods(there.len(), "of others was", "of others were"),
            named(&there)
        );
        self.guests.0.lock().unwrap_or_else(PoisonError::into_inner).extend(there);
        Some(told)
    }

    /// Which pods of others came to nodes of the run.
    pub fn who_came(&self) -> Option<String> {
        let came = self.guests.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!came.is_empty()).then(|| {
            format!(
                "{} on simulated nodes and went with them, without having run: {}",
                pods(came.len(), "of others was", "of others were"),
                named(&came)
            )
        })
    }
}

/// Pods that wait for a node and tolerate those of a run.
async fn waiting(api: &Api, run: &str) -> anyhow::Result<BTreeSet<String>> {
    found(api, |pod| {
        text(pod, "/status/phase") == Some("Pending")
            && text(pod, "/spec/nodeName").is_none_or(str::is_empty)
            && tolerates(pod, run)
    })
    .await
}

/// Pods on nodes of a scenario that are not its own.
async fn standing(api: &Api, prefix: &str) -> anyhow::Result<BTreeSet<String>> {
    let is_ours = |pod: &Value, at| text(pod, at).is_some_and(|name| name.starts_with(prefix));
    found(api, |pod| is_ours(pod, "/spec/nodeName") && !is_ours(pod, "/metadata/namespace")).await
}

/// Pods of no daemon of which something is so, as `namespace/name`.
async fn found(api: &Api, is_so: impl Fn(&Value) -> bool) -> anyhow::Result<BTreeSet<String>> {
    let all = api.get("/api/v1/pods").await.map_err(refusal)?;
    let is_daemons = |pod: &Value| {
        list(pod, "/metadata/ownerReferences").iter().any(|owner| owner["kind"] == "DaemonSet")
    };
    let those = list(&all, "/items").iter().filter(|pod| is_so(pod) && !is_daemons(pod));
    let name = |pod: &Value| {
        let field = |at| text(pod, at).unwrap_or_default();
        format!("{}/{}", field("/metadata/namespace"), field("/metadata/name"))
    };
    Ok(those.map(name).collect())
}

/// Whether a pod tolerates the taint of a run's nodes.
fn tolerates(pod: &Value, run: &str) -> bool {
    list(pod, "/spec/tolerations").iter().any(|one| {
        let field = |at| text(one, at).unwrap_or_default();
        let exists = field("/operator") == "Exists";
        let meant = match field("/key") {
            "" => exists,
            SIMULATED => exists || field("/value") == run,
            _ => false,
        };
        meant && matches!(field("/effect"), "" | "NoSchedule")
    })
}

fn pods(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 pod {one}") } else { format!("{count} pods {more}") }
}

/// The first few, and how many there are besides.
fn named(names: &BTreeSet<String>) -> String {
    let first: Vec<&str> = names.iter().take(NAMED_MOST).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMED_MOST);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::store::Resource;
    use schedlab_emulator::{Emulator, Options};
    use schedlab_json::json;

    use super::*;

    /// A cluster with a node of a scenario, and one pod of that owner with this `spec`.
    fn cluster(pods: &[(&str, &str, Value)]) -> (Emulator, Api) {
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let emulator = Emulator::start(Options::at(clock));
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
    async fn pods_that_wait_and_tolerate_the_taint_may_come() {
        let with = |toleration: Value| json!({"tolerations": [toleration]});
        let all = || with(json!({"operator": "Exists"}));
        let (_emulator, api) = cluster(&[
            ("default/all", "Job", all()),
            ("default/daemon", "DaemonSet", all()),
            ("default/none", "Job", json!({})),
            ("default/other", "Job", with(json!({"key": "gpu", "operator": "Exists"}))),
            ("default/evicts", "Job", with(json!({"operator": "Exists", "effect": "NoExecute"}))),
            ("default/ours", "Job", with(json!({"key": SIMULATED, "operator": "Exists"}))),
            ("default/run", "Job", with(json!({"key": SIMULATED, "value": "another"}))),
            ("default/there", "Job", {
                let mut spec = all();
                spec["nodeName"] = json!("qx1-node-1");
                spec
            }),
        ]);
        let waiting = waiting(&api, "r").await.unwrap();
        assert_eq!(named(&waiting), "default/all, default/ours");
    }

    #[tokio::test(start_paused = true)]
    async fn pods_of_others_on_a_scenarios_nodes_are_guests() {
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
        let standing = standing(&api, "qx1-").await.unwrap();
        assert_eq!(named(&standing), "default/a, default/b, default/c and 1 more");
    }
}
