//! Assertions about the cluster, and the temporal operators that say when they must hold:
//!
//! * none: once everything has settled. In real time a settled cluster cannot be told from one that
//!   is about to act: there, as soon as the assertion holds, within `--min-wait`;
//! * `now`: immediately;
//! * `eventually within T`: at some moment within T;
//! * `for T`: once everything has settled, and then at every moment for T;
//! * `never within T`: at no moment within T;
//! * `after T`: when T has passed (in real time, as soon as it holds after that).
//!
//! `and stays so for N cycles` adds: and at every moment of the scheduler's next N cycles. After
//! `eventually within T`: at some moment within T, and at every moment of the N cycles that follow
//! it. A moment after which the assertion fails too early does not end the search.
//!
//! In real time `for` and `never` end somewhat early, because a busy machine may be late.

use std::time::Duration;

use schedlab_api::{Value, annotations};
use tokio::time::Instant;

use super::World;
use crate::world::manifests::ManifestDocument;

/// A pod that takes longer than this to terminate is not waited for.
const TERMINATION_WAIT_MAX: Duration = Duration::from_hours(24);

/// An assertion about the world. `Err` says what was found instead.
pub(crate) type Assertion<'c> = &'c dyn Fn(&World) -> Result<(), String>;

/// When an assertion must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Temporal {
    /// The assertion must hold once everything has settled.
    Settled,
    /// The assertion must hold immediately, without waiting.
    Now,
    /// The assertion must hold at some moment within this duration.
    EventuallyWithin(Duration),
    /// The assertion must hold once everything has settled, and from then on at every moment for
    /// this duration.
    For(Duration),
    /// The assertion must hold at no moment within this duration.
    NeverWithin(Duration),
    /// The assertion must hold when this duration has passed.
    After(Duration),
}

impl World {
    /// Checks that an assertion holds at the time that `Temporal` gives, and then for a number of
    /// scheduling cycles.
    pub(crate) async fn expect(
        &mut self,
        when: Temporal,
        cycles: u32,
        assertion: Assertion<'_>,
    ) -> anyhow::Result<()> {
        self.expect_and_hold(when, cycles, assertion, assertion).await
    }

    /// Like [`Self::expect`], except that `hold` is what must hold during the cycles.
    pub(crate) async fn expect_and_hold(
        &mut self,
        when: Temporal,
        cycles: u32,
        assertion: Assertion<'_>,
        hold: Assertion<'_>,
    ) -> anyhow::Result<()> {
        self.wait_until_scheduler_is_up().await?;
        let never = matches!(when, Temporal::NeverWithin(_));
        anyhow::ensure!(
            !never || cycles == 0,
            "got `never within` with `and stays so`, expected only one of them"
        );
        if !never {
            self.holds_now(assertion);
        }
        match when {
            Temporal::Settled => self.settle_until_holds(assertion).await?,
            Temporal::Now => self.catch_up_with_watches().await?,
            Temporal::After(time) => {
                self.run_for(time).await?;
                self.eventually_on_real_cluster(assertion).await?;
            }
            Temporal::EventuallyWithin(time) => {
                let (limit, duration) =
                    (self.time_scale.wait_limit(time), self.cycle_period() * cycles);
                return self.eventually_holds_for(limit, duration, assertion, hold).await;
            }
            Temporal::NeverWithin(time) => {
                self.never_within(self.time_scale.scaled_assertion_duration(time), assertion)
                    .await?;
            }
            Temporal::For(time) => {
                self.settle_until_holds(assertion).await?;
                self.holds_for(self.time_scale.scaled_assertion_duration(time), assertion).await?;
            }
        }
        if !never {
            assertion(self).map_err(|found| self.mismatch_error(&found))?;
        }
        self.holds_for(self.cycle_period() * cycles, hold).await
    }

    /// Waits for a moment within `limit` at which the assertion holds, and from which on `hold`
    /// holds for `duration`.
    async fn eventually_holds_for(
        &mut self,
        limit: Duration,
        duration: Duration,
        assertion: Assertion<'_>,
        hold: Assertion<'_>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            self.eventually(left, assertion).await?;
            let start = Instant::now();
            let Some(found) = self.first_mismatch(duration, hold).await? else { return Ok(()) };
            if Instant::now() >= end {
                let held = start.elapsed().as_secs_f64();
                let found = format!("the assertion held for {held} s only: {found}");
                return Err(self.mismatch_error(&found));
            }
        }
    }

    async fn settle_until_holds(&mut self, assertion: Assertion<'_>) -> anyhow::Result<()> {
        self.settle().await?;
        self.eventually_on_real_cluster(assertion).await
    }

    /// In real time: waits until those of the objects that are nodes are ready, so that the
    /// scheduler sees a complete fleet. In virtual time nodes become ready at once.
    pub(super) async fn wait_until_ready(
        &mut self,
        documents: &[ManifestDocument],
    ) -> anyhow::Result<()> {
        let nodes = documents.iter().map(|document| &document.object);
        let lives =
            |node: &Value| node["metadata"]["annotations"][annotations::NODE_DOWN] != "true";
        let nodes = nodes.filter(|object| object["kind"] == "Node" && lives(object));
        let names: Vec<&str> = nodes.filter_map(|node| node["metadata"]["name"].as_str()).collect();
        let up = |world: &Self| match names
            .iter()
            .find(|name| !world.view.is_node_schedulable(name))
        {
            None => Ok(()),
            Some(name) => Err(format!("node {name:?} is not ready, or has the not-ready taint")),
        };
        self.eventually_on_real_cluster(&up).await
    }

    /// Waits until no pod with the name of one of these objects is terminating: until then the name
    /// is in use.
    pub(super) async fn wait_until_deleted(&mut self, objects: &[Value]) -> anyhow::Result<()> {
        let names = objects.iter().filter(|object| object["kind"] == "Pod");
        let names: Vec<&str> = names.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
        let gone = |world: &Self| {
            let mut leaving = world.view.current_pods().filter(|pod| pod.is_terminating());
            match leaving.find(|pod| names.contains(&pod.pod_name())) {
                None => Ok(()),
                Some(pod) => Err(format!("pod {:?} is still terminating", pod.pod_name())),
            }
        };
        self.eventually(self.time_scale.wait_limit(TERMINATION_WAIT_MAX), &gone).await
    }

    /// In real time: waits until the assertion holds, but at most for the minimum wait.
    async fn eventually_on_real_cluster(&mut self, assertion: Assertion<'_>) -> anyhow::Result<()> {
        if self.is_on_real_cluster() {
            self.eventually(self.time_scale.wait_limit(Duration::ZERO), assertion).await?;
        }
        Ok(())
    }

    async fn eventually(&mut self, time: Duration, assertion: Assertion<'_>) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        self.catch_up_with_watches().await?;
        while !self.holds_now(assertion) {
            if !self.next_change_before(end).await? {
                return assertion(self).map_err(|found| self.mismatch_error(&found));
            }
        }
        Ok(())
    }

    /// Whether an assertion holds now. If not, what it found is kept for the timeout message.
    fn holds_now(&mut self, assertion: Assertion<'_>) -> bool {
        self.last_mismatch = assertion(self).err();
        self.last_mismatch.is_none()
    }

    /// What the assertion of the current step found when it last did not hold.
    pub(crate) fn last_mismatch(&self) -> Option<&str> {
        self.last_mismatch.as_deref()
    }

    async fn holds_for(&mut self, time: Duration, assertion: Assertion<'_>) -> anyhow::Result<()> {
        match self.first_mismatch(time, assertion).await? {
            None => Ok(()),
            Some(found) => Err(self.mismatch_error(&found)),
        }
    }

    /// What the assertion finds when it first fails within this duration; `None` if it never fails.
    async fn first_mismatch(
        &mut self,
        time: Duration,
        assertion: Assertion<'_>,
    ) -> anyhow::Result<Option<String>> {
        let end = Instant::now() + time;
        if time.is_zero() {
            return Ok(None);
        }
        loop {
            if let Err(found) = assertion(self) {
                return Ok(Some(found));
            }
            if !self.next_change_before(end).await? {
                return Ok(None);
            }
        }
    }

    async fn never_within(
        &mut self,
        time: Duration,
        assertion: Assertion<'_>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        self.catch_up_with_watches().await?;
        loop {
            if assertion(self).is_ok() {
                return Err(self.mismatch_error("it held, expected never"));
            }
            if !self.next_change_before(end).await? {
                return Ok(());
            }
        }
    }

    /// The error of an assertion: what was found and when, and the scheduler's reasons for pending
    /// pods.
    fn mismatch_error(&self, found: &str) -> anyhow::Error {
        anyhow::Error::msg(format!("{found}\n{}", self.state_summary()))
    }
}
