//! Monitors the cluster change by change and records invariants that were violated even for a
//! moment.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use futures::FutureExt as _;
use tokio::time::timeout;

use super::QUIET_AFTER;
use super::capture::ClusterCapture;
use schedlab_clusters::api::Api;
use schedlab_conformance::world::observed::ObservedCluster;

/// Watches the cluster and records violations, even momentary ones.
#[derive(Debug)]
pub(super) struct InvariantMonitor {
    view: ObservedCluster,
    violations: Violations,
    /// Gangs that were completely bound at some moment.
    complete_gangs: BTreeSet<String>,
}

/// Violations that existed at some moment: the first of each kind and object, with its explanation.
#[derive(Clone, Debug, Default)]
pub(super) struct Violations {
    /// Queues that exceeded their limit.
    pub(super) over_limit: BTreeMap<String, String>,
    /// Nodes and GPUs that were overcommitted, and pods that were bound twice.
    pub(super) double_bindings: BTreeMap<String, String>,
    /// Gangs that were complete and then lost members.
    pub(super) broken_gangs: BTreeMap<String, String>,
}

impl InvariantMonitor {
    pub(super) async fn open(api: &Api) -> anyhow::Result<Self> {
        let (seen, whole) = (Violations::default(), BTreeSet::new());
        Ok(Self {
            view: ObservedCluster::start_watches(api).await?,
            violations: seen,
            complete_gangs: whole,
        })
    }

    pub(super) fn view(&self) -> &ObservedCluster {
        &self.view
    }

    pub(super) fn capture(&self) -> ClusterCapture {
        ClusterCapture::from_view(&self.view)
    }

    /// Clears the recorded violations: later ones are caused by another version.
    pub(super) fn clear_violations(&mut self) {
        self.violations = Violations::default();
        self.record_violations(&self.capture());
    }

    /// Violations since the last [`Self::clear_violations`].
    pub(super) fn violations(&self) -> &Violations {
        &self.violations
    }

    /// Waits for one watch event and processes it.
    pub(super) async fn next_capture(&mut self) -> anyhow::Result<ClusterCapture> {
        self.view.process_next_event().await.context("the cluster is gone")?;
        let state = self.capture();
        self.record_violations(&state);
        Ok(state)
    }

    fn record_violations(&mut self, state: &ClusterCapture) {
        for (queue, why) in state.queues_over_limit() {
            self.violations.over_limit.entry(queue).or_insert(why);
        }
        for (place, why) in state.double_bindings() {
            self.violations.double_bindings.entry(place).or_insert(why);
        }
        for (gang, least) in state.gangs_with_min_members() {
            let bound = state.bound_member_count(gang);
            if bound >= least {
                self.complete_gangs.insert(gang.clone());
            } else if self.complete_gangs.contains(gang) {
                let why = format!(
                    "gang {gang} needs {least} members, had them and kept only \
                    {bound}"
                );
                self.violations.broken_gangs.entry(gang.clone()).or_insert(why);
            }
        }
    }

    /// Processes all available watch events.
    pub(super) async fn drain_events(&mut self) -> anyhow::Result<()> {
        // The watch may have to be polled once more before it yields its events.
        for _ in 0..2 {
            while let Some(taken) = self.next_capture().now_or_never() {
                taken?;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Processes watch events until none comes for a while.
    pub(super) async fn wait_until_quiet(&mut self) -> anyhow::Result<()> {
        while let Ok(taken) = timeout(QUIET_AFTER, self.next_capture()).await {
            taken?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::{Value, json};
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::store::Resource;
    use schedlab_emulator::{Emulator, Options};

    use super::*;
    use schedlab_clusters::scheduler_objects::install_scheduler_objects;

    /// An emulated cluster with KAI's CRDs.
    async fn cluster() -> (Emulator, Api) {
        let emulator =
            Emulator::start(Options::with_clock(Clock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        let api = Api::new(emulator.client());
        install_scheduler_objects(&api).await.unwrap();
        (emulator, api)
    }

    fn create(emulator: &Emulator, group: &str, plural: &str, object: Value) {
        emulator.create(&Resource::new(group, plural), object).unwrap();
    }

    /// Creates a pod with one GPU on node `n`.
    fn bind(emulator: &Emulator, name: &str, labels: &Value, annotations: &Value) {
        let gpu = json!({"limits": {"nvidia.com/gpu": "1"}});
        let spec = json!({"nodeName": "n", "containers": [
            {"name": "c", "image": "i", "resources": gpu}]});
        let metadata = json!({
            "name": name, "namespace": "default", "labels": labels, "annotations": annotations,
        });
        create(emulator, "", "pods", json!({"metadata": metadata, "spec": spec}));
    }

    async fn leave(api: &Api, pod: &str) {
        api.delete_immediately(&format!("/api/v1/namespaces/default/pods/{pod}")).await.unwrap();
    }

    fn messages(seen: &BTreeMap<String, String>) -> Vec<&str> {
        seen.values().map(String::as_str).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_or_ancestor_briefly_over_its_limit_is_a_violation() {
        let (emulator, api) = cluster().await;
        let queue = |name: &str, parent: Value, limit: i32| {
            let resources = json!({"gpu": {"limit": limit}});
            let spec = json!({"parentQueue": parent, "resources": resources});
            let object = json!({"metadata": {"name": name}, "spec": spec});
            create(&emulator, "scheduling.run.ai", "queues", object);
        };
        queue("top", Value::Null, 2);
        queue("leaf", json!("top"), -1);
        queue("roomy", json!("top"), 3);
        let pod = |name: &str, queue: &str| {
            bind(&emulator, name, &json!({"kai.scheduler/queue": queue}), &Value::Null);
        };
        let mut watching = InvariantMonitor::open(&api).await.unwrap();
        pod("a", "leaf");
        pod("b", "roomy");
        watching.wait_until_quiet().await.unwrap();
        assert_eq!(messages(&watching.violations().over_limit), [""; 0]);
        pod("c", "leaf");
        leave(&api, "c").await;
        watching.wait_until_quiet().await.unwrap();
        assert!(watching.view().find_pod("c").is_none());
        let over = ["queue top has a limit of 2 GPUs and used 3"];
        assert_eq!(messages(&watching.violations().over_limit), over);
        watching.clear_violations();
        assert_eq!(messages(&watching.violations().over_limit), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_briefly_overcommitted_node_is_a_violation() {
        let (emulator, api) = cluster().await;
        let gpu = json!({"nvidia.com/gpu": "1", "pods": "9"});
        let status = json!({"capacity": gpu, "allocatable": gpu});
        create(&emulator, "", "nodes", json!({"metadata": {"name": "n"}, "status": status}));
        let mut watching = InvariantMonitor::open(&api).await.unwrap();
        let pod = |name: &str| bind(&emulator, name, &Value::Null, &Value::Null);
        pod("a");
        watching.wait_until_quiet().await.unwrap();
        assert_eq!(messages(&watching.violations().double_bindings), [""; 0]);
        pod("b");
        leave(&api, "a").await;
        watching.wait_until_quiet().await.unwrap();
        let twice = ["node n: got pods that need 2 GPUs, expected at most 1"];
        assert_eq!(messages(&watching.violations().double_bindings), twice);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gang_that_briefly_loses_a_member_is_a_violation_and_one_that_forms_is_not() {
        let (emulator, api) = cluster().await;
        let metadata = json!({"name": "g", "namespace": "default"});
        let group = json!({"metadata": metadata, "spec": {"minMember": 2, "queue": "q"}});
        create(&emulator, "scheduling.run.ai", "podgroups", group);
        let mut watching = InvariantMonitor::open(&api).await.unwrap();
        let member = |name: &str| {
            bind(&emulator, name, &Value::Null, &json!({"pod-group-name": "g"}));
        };
        member("a");
        member("b");
        watching.wait_until_quiet().await.unwrap();
        assert_eq!(messages(&watching.violations().broken_gangs), [""; 0]);
        watching.clear_violations();
        leave(&api, "a").await;
        member("a");
        watching.wait_until_quiet().await.unwrap();
        let broke = ["gang default/g needs 2 members, had them and kept only 1"];
        assert_eq!(messages(&watching.violations().broken_gangs), broke);
    }
}
