//! What the cluster shows, one change after the other: what may not be even for a moment is
//! looked for after each.

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures::FutureExt as _;
use tokio::time::timeout;

use super::QUIET;
use super::state::State;
use crate::api::Api;
use crate::view::View;

/// A view that remembers which queues used more than their limits.
#[derive(Debug)]
pub(super) struct Watching {
    view: View,
    /// The first time of each queue, in words.
    over: BTreeMap<String, String>,
}

impl Watching {
    pub(super) async fn open(api: &Api) -> anyhow::Result<Self> {
        Ok(Self { view: View::open(api).await?, over: BTreeMap::new() })
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn state(&self) -> State {
        State::of(&self.view)
    }

    /// What is seen from now on is another version's.
    pub(super) fn forget(&mut self) {
        self.over.clear();
    }

    /// Which queues used more than their limits since the last [`Self::forget`].
    pub(super) fn over(&self) -> Vec<String> {
        self.over.values().cloned().collect()
    }

    /// Waits for one change and takes it in.
    pub(super) async fn next(&mut self) -> anyhow::Result<State> {
        self.view.next().await.context("the cluster is gone")?;
        let state = self.state();
        for (queue, why) in state.over_limit() {
            self.over.entry(queue).or_insert(why);
        }
        Ok(state)
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

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_used_too_much_for_a_moment_is_remembered_and_so_are_those_above() {
        let emulator =
            Emulator::start(Options::at(Clock::starting_at(jiff::Timestamp::UNIX_EPOCH)));
        let api = Api::new(emulator.client());
        install(&api).await.unwrap();
        let queue = |name: &str, parent: Value, limit: i32| {
            let resources = json!({"gpu": {"limit": limit}});
            let spec = json!({"parentQueue": parent, "resources": resources});
            let queues = Resource::new("scheduling.run.ai", "queues");
            emulator.create(&queues, json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        };
        queue("top", Value::Null, 2);
        queue("leaf", json!("top"), -1);
        queue("roomy", json!("top"), 3);
        let pods = Resource::new("", "pods");
        let pod = |name: &str, queue: &str| {
            let labels = json!({"kai.scheduler/queue": queue});
            let gpu = json!({"limits": {"nvidia.com/gpu": "1"}});
            let spec = json!({"nodeName": "n", "containers": [
                {"name": "c", "image": "i", "resources": gpu}]});
            let metadata = json!({"name": name, "namespace": "default", "labels": labels});
            emulator.create(&pods, json!({"metadata": metadata, "spec": spec})).unwrap();
        };
        let mut watching = Watching::open(&api).await.unwrap();
        pod("a", "leaf");
        pod("b", "roomy");
        watching.settle().await.unwrap();
        assert_eq!(watching.over(), [""; 0]);
        pod("c", "leaf");
        api.delete_at_once("/api/v1/namespaces/default/pods/c").await.unwrap();
        watching.settle().await.unwrap();
        assert!(watching.view().pod("c").is_none());
        assert_eq!(watching.over(), ["queue top has a limit of 2 GPUs and used 3"]);
        watching.forget();
        assert_eq!(watching.over(), [""; 0]);
    }
}
