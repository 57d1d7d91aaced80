//! What the cluster shows, one change after the other: what may not be even for a moment is
//! looked for after each.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use futures::FutureExt as _;
use tokio::time::timeout;

use super::QUIET;
use super::state::State;
use crate::api::Api;
use crate::view::View;

/// A view that remembers what was not right, if only for a moment.
#[derive(Debug)]
pub(super) struct Watching {
    view: View,
    seen: Seen,
    /// Gangs that were bound as a whole at some moment.
    whole: BTreeSet<String>,
}

/// What may not be even for a moment: the first time of each, in words.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// By queues that used more than their limits.
    pub(super) over: BTreeMap<String, String>,
    /// By what was given to more pods than it is enough for.
    pub(super) twice: BTreeMap<String, String>,
    /// By gangs that were whole and lost members.
    pub(super) broke: BTreeMap<String, String>,
}

impl Watching {
    pub(super) async fn open(api: &Api) -> anyhow::Result<Self> {
        let (seen, whole) = (Seen::default(), BTreeSet::new());
        Ok(Self { view: View::open(api).await?, seen, whole })
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn state(&self) -> State {
        State::of(&self.view)
    }

    /// What is seen from now on is another version's.
    pub(super) fn forget(&mut self) {
        self.seen = Seen::default();
        self.look(&self.state());
    }

    /// What was not right at some moment since the last [`Self::forget`].
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Waits for one change and takes it in.
    pub(super) async fn next(&mut self) -> anyhow::Result<State> {
        self.view.next().await.context("the cluster is gone")?;
        let state = self.state();
        self.look(&state);
        Ok(state)
    }

    fn look(&mut self, state: &State) {
        for (queue, why) in state.over_limit() {
            self.seen.over.entry(queue).or_insert(why);
        }
        for (place, why) in state.bound_twice() {
            self.seen.twice.entry(place).or_insert(why);
        }
        for (gang, least) in state.gangs() {
            let bound = state.bound(gang);
            if bound >= least {
                self.whole.insert(gang.clone());
            } else if self.whole.contains(gang) {
                let why = format!("gang {gang} needs {least}, had them and was left with {bound}");
                self.seen.broke.entry(gang.clone()).or_insert(why);
            }
        }
    }

    /// Takes in everything that is there to be taken.
    pub(super) async fn drain(&mut self) -> anyhow::Result<()> {
        // The API may have to be polled once more before it hands on what it has.
        for _ in 0..2 {
            while let Some(taken) = self.next().now_or_never() {
                taken?;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Takes in what was written, until nothing is for a while.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        while let Ok(taken) = timeout(QUIET, self.next()).await {
            taken?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::store::Resource;
    use schedlab_emulator::{Emulator, Options};
    use schedlab_json::{Value, json};

    use super::*;
    use crate::cluster::install;

    /// A cluster with queues, and a view of it.
    async fn cluster() -> (Emulator, Api) {
        let emulator =
            Emulator::start(Options::at(Clock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        let api = Api::new(emulator.client());
        install(&api).await.unwrap();
        (emulator, api)
    }

    fn create(emulator: &Emulator, (group, plural): (&str, &str), object: Value) {
        emulator.create(&Resource::new(group, plural), object).unwrap();
    }

    /// A pod with a GPU of node `n`.
    fn bind(emulator: &Emulator, name: &str, labels: &Value, annotations: &Value) {
        let gpu = json!({"limits": {"nvidia.com/gpu": "1"}});
        let spec = json!({"nodeName": "n", "containers": [
            {"name": "c", "image": "i", "resources": gpu}]});
        let metadata = json!({
            "name": name, "namespace": "default", "labels": labels, "annotations": annotations,
        });
        create(emulator, ("", "pods"), json!({"metadata": metadata, "spec": spec}));
    }

    async fn leave(api: &Api, pod: &str) {
        api.delete_at_once(&format!("/api/v1/namespaces/default/pods/{pod}")).await.unwrap();
    }

    fn told(seen: &BTreeMap<String, String>) -> Vec<&str> {
        seen.values().map(String::as_str).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_used_too_much_for_a_moment_is_remembered_and_so_are_those_above() {
        let (emulator, api) = cluster().await;
        let queue = |name: &str, parent: Value, limit: i32| {
            let resources = json!({"gpu": {"limit": limit}});
            let spec = json!({"parentQueue": parent, "resources": resources});
            let object = json!({"metadata": {"name": name}, "spec": spec});
            create(&emulator, ("scheduling.run.ai", "queues"), object);
        };
        queue("top", Value::Null, 2);
        queue("leaf", json!("top"), -1);
        queue("roomy", json!("top"), 3);
        let pod = |name: &str, queue: &str| {
            bind(&emulator, name, &json!({"kai.scheduler/queue": queue}), &Value::Null);
        };
        let mut watching = Watching::open(&api).await.unwrap();
        pod("a", "leaf");
        pod("b", "roomy");
        watching.settle().await.unwrap();
        assert_eq!(told(&watching.seen().over), [""; 0]);
        pod("c", "leaf");
        leave(&api, "c").await;
        watching.settle().await.unwrap();
        assert!(watching.view().pod("c").is_none());
        let over = ["queue top has a limit of 2 GPUs and used 3"];
        assert_eq!(told(&watching.seen().over), over);
        watching.forget();
        assert_eq!(told(&watching.seen().over), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_with_too_many_pods_for_a_moment_is_remembered() {
        let (emulator, api) = cluster().await;
        let gpu = json!({"nvidia.com/gpu": "1", "pods": "9"});
        let status = json!({"capacity": gpu, "allocatable": gpu});
        create(&emulator, ("", "nodes"), json!({"metadata": {"name": "n"}, "status": status}));
        let mut watching = Watching::open(&api).await.unwrap();
        let pod = |name: &str| bind(&emulator, name, &Value::Null, &Value::Null);
        pod("a");
        watching.settle().await.unwrap();
        assert_eq!(told(&watching.seen().twice), [""; 0]);
        pod("b");
        leave(&api, "a").await;
        watching.settle().await.unwrap();
        let twice = ["n has 1 GPUs and pods that need 2 are bound to it"];
        assert_eq!(told(&watching.seen().twice), twice);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gang_that_loses_a_member_for_a_moment_is_remembered_and_one_that_comes_is_not() {
        let (emulator, api) = cluster().await;
        let metadata = json!({"name": "g", "namespace": "default"});
        let group = json!({"metadata": metadata, "spec": {"minMember": 2, "queue": "q"}});
        create(&emulator, ("scheduling.run.ai", "podgroups"), group);
        let mut watching = Watching::open(&api).await.unwrap();
        let member = |name: &str| {
            bind(&emulator, name, &Value::Null, &json!({"pod-group-name": "g"}));
        };
        member("a");
        member("b");
        watching.settle().await.unwrap();
        assert_eq!(told(&watching.seen().broke), [""; 0]);
        watching.forget();
        leave(&api, "a").await;
        member("a");
        watching.settle().await.unwrap();
        let broke = ["gang default/g needs 2, had them and was left with 1"];
        assert_eq!(told(&watching.seen().broke), broke);
    }
}
