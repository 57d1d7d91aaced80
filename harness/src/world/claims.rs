//! Claims about the cluster, and the words that say when they must hold. Each word has one
//! meaning:
//!
//! * none: once everything has settled (in real time nobody can tell rest from thought: there,
//!   as soon as it holds, but not later than a machine's patience);
//! * `now`: at this very moment;
//! * `eventually within T`: at some moment from now until T later;
//! * `for T`: once everything has settled and then at every moment for T;
//! * `never within T`: at no moment from now until T later;
//! * `after T`: when T has passed (in real time, as soon as it holds after that).
//!
//! `and stays so for N cycles` adds: and at every moment of the scheduler's next N cycles.
//!
//! In real time `for` and `never` end somewhat earlier: a machine may be late.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use schedlab_emulator::DOWN;
use schedlab_json::Value;
use tokio::time::Instant;

use super::World;
use crate::happenings::offset;
use crate::objects::Document;
use crate::view::Phase;

/// A pod that takes longer to leave is not waited for.
const LEAVING_MAX: Duration = Duration::from_hours(24);

/// A claim: `Err` says what was found instead.
pub(crate) type Claim<'c> = &'c dyn Fn(&World) -> Result<(), String>;

/// When a claim must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeWord {
    /// Once everything has settled.
    Settled,
    /// At this moment.
    Now,
    /// At some moment until then.
    EventuallyWithin(Duration),
    /// Once settled, and at every moment until then.
    For(Duration),
    /// At no moment until then.
    NeverWithin(Duration),
    /// When so much time has passed.
    After(Duration),
}

impl World {
    /// Judges a claim, and that it stays so for a number of cycles.
    pub(crate) async fn expect(
        &mut self,
        when: TimeWord,
        cycles: u32,
        claim: Claim<'_>,
    ) -> anyhow::Result<()> {
        self.begin();
        let never = matches!(when, TimeWord::NeverWithin(_));
        anyhow::ensure!(
            !never || cycles == 0,
            "found `never within` with `and stays so`, allowed is one of them: never says for how long"
        );
        if !never {
            self.judge(claim);
        }
        match when {
            TimeWord::Settled => self.settle_for(claim).await?,
            TimeWord::Now => self.catch_up().await?,
            TimeWord::After(time) => {
                self.pass(time).await?;
                self.in_patience(claim).await?;
            }
            TimeWord::EventuallyWithin(time) => {
                self.eventually(self.pace.patience(time), claim).await?;
            }
            TimeWord::NeverWithin(time) => self.never(self.pace.watch(time), claim).await?,
            TimeWord::For(time) => {
                self.settle_for(claim).await?;
                self.holds(self.pace.watch(time), claim).await?;
            }
        }
        if !never {
            claim(self).map_err(|found| self.mismatch(&found))?;
        }
        self.holds(self.period() * cycles, claim).await
    }

    async fn settle_for(&mut self, claim: Claim<'_>) -> anyhow::Result<()> {
        self.settle().await?;
        self.in_patience(claim).await
    }

    /// Waits in real time until those of these objects that are nodes take pods: a fleet stands
    /// before a scheduler sees it, as in virtual time, where nodes come up within a moment.
    pub(super) async fn until_up(&mut self, documents: &[Document]) -> anyhow::Result<()> {
        let nodes = documents.iter().map(|document| &document.object);
        let lives = |node: &Value| node["metadata"]["annotations"][DOWN] != "true";
        let nodes = nodes.filter(|object| object["kind"] == "Node" && lives(object));
        let names: Vec<&str> = nodes.filter_map(|node| node["metadata"]["name"].as_str()).collect();
        let up = |world: &Self| match names.iter().find(|name| !world.view.node_is_up(name)) {
            None => Ok(()),
            Some(name) => Err(format!("node {name:?} is not ready, or tainted as such")),
        };
        self.in_patience(&up).await
    }

    /// Waits until none of these objects is there any more that is about to go: its name is taken
    /// until then, for as long as a pod may take.
    pub(super) async fn until_gone(&mut self, objects: &[Value]) -> anyhow::Result<()> {
        let names = objects.iter().filter(|object| object["kind"] == "Pod");
        let names: Vec<&str> = names.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
        let gone = |world: &Self| {
            let mut leaving = world.view.pods().filter(|pod| pod.is_leaving());
            match leaving.find(|pod| names.contains(&pod.name())) {
                None => Ok(()),
                Some(pod) => Err(format!("pod {:?} is still terminating", pod.name())),
            }
        };
        self.eventually(self.pace.patience(LEAVING_MAX), &gone).await
    }

    /// Waits in real time, where things take a while, until it holds.
    async fn in_patience(&mut self, claim: Claim<'_>) -> anyhow::Result<()> {
        if self.is_real() {
            self.eventually(self.pace.patience(Duration::ZERO), claim).await?;
        }
        Ok(())
    }

    async fn eventually(&mut self, time: Duration, claim: Claim<'_>) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        self.catch_up().await?;
        while !self.judge(claim) {
            if !self.change_before(end).await? {
                return claim(self).map_err(|found| self.mismatch(&found));
            }
        }
        Ok(())
    }

    /// Whether a claim holds at this moment; what was found else is kept, for when time runs out.
    fn judge(&mut self, claim: Claim<'_>) -> bool {
        self.found = claim(self).err();
        self.found.is_none()
    }

    /// What the claim of this step found when it last did not hold.
    pub(crate) fn found(&self) -> Option<&str> {
        self.found.as_deref()
    }

    async fn holds(&mut self, time: Duration, claim: Claim<'_>) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        if time.is_zero() {
            return Ok(());
        }
        loop {
            claim(self).map_err(|found| self.mismatch(&found))?;
            if !self.change_before(end).await? {
                return Ok(());
            }
        }
    }

    async fn never(&mut self, time: Duration, claim: Claim<'_>) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        self.catch_up().await?;
        loop {
            if claim(self).is_ok() {
                return Err(self.mismatch("it came to be, and never should have"));
            }
            if !self.change_before(end).await? {
                return Ok(());
            }
        }
    }

    /// What was found, when, and what the scheduler itself says of pods that wait.
    fn mismatch(&self, found: &str) -> anyhow::Error {
        anyhow::Error::msg(format!("{found}\n{}", self.state_of_affairs()))
    }

    /// When it is, whom the scheduler keeps waiting and why, and whom it evicted last.
    pub(crate) fn state_of_affairs(&self) -> String {
        let at = i64::try_from(self.elapsed_millis()).unwrap_or(i64::MAX);
        let mut text = format!("(at {})", offset(at));
        if let Some(ended) = self.dead_scheduler() {
            let _ = write!(text, "\n{ended}");
        }
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for pod in self.view.pods().filter(|pod| pod.phase() == Phase::Pending) {
            let reason = pod.waiting_reason().unwrap_or("the scheduler has said nothing of it");
            reasons.entry(reason).or_default().push(pod.name());
        }
        for (reason, pods) in reasons {
            let some: Vec<&str> = pods.iter().take(3).copied().collect();
            let more = match pods.len() - some.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let _ = write!(text, "\npending {}{more}: {reason}", some.join(", "));
        }
        let unannounced = self.unannounced();
        for eviction in self.view.evictions(&unannounced).iter().rev().take(3) {
            let _ = write!(text, "\nevicted {eviction}");
        }
        text
    }
}
