//! Inputs of the main loop: watch events update the cache, and schedule a cycle if they change it.

use std::time::Duration;

use futures::StreamExt as _;
use schedlab_scheduler_core::model::Time;
use tokio::time::{Instant, sleep_until};

use super::{Scheduler, watched_kinds};
use crate::{
    podgrouper::OwnerEvent,
    records::ObjectKey,
    watch::{OptionalKinds, WatchEvent},
};

/// Delay after the first event of a burst, so that one cycle sees all of it.
const BURST_DELAY: Duration = Duration::from_millis(10);

/// An input of the main loop.
pub(super) enum Input {
    /// An object changed.
    Watch(WatchEvent),
    /// An owner of pods changed.
    Owner(OwnerEvent),
    /// The usage database responded.
    Usage,
    /// A cycle is due.
    CycleDue,
}

impl Scheduler {
    /// Waits for the next input. Watch events come first, but a cycle that is late by a whole
    /// period is not delayed any longer.
    pub(super) async fn next_input(&mut self) -> Input {
        loop {
            self.watch_needed_kinds();
            let due = self.cycle_due.filter(|_| self.is_listed());
            let next = due.into_iter().chain(self.decode_at).min();
            if next.is_none_or(|next| Instant::now() <= next + self.config.period) {
                tokio::select! {
                    biased;
                    Some(event) = self.watches.next() => return Input::Watch(event),
                    Some(event) = self.grouper.next_owner_event() => return Input::Owner(event),
                    () = self.past.wait_for_database() => return Input::Usage,
                    () = sleep_until_or_forever(next) => {}
                }
            }
            self.decode_pods();
            self.watch_needed_kinds();
            if self.is_listed() && self.cycle_due.is_some_and(|due| due <= Instant::now()) {
                return Input::CycleDue;
            }
        }
    }

    /// Starts the watches of optional kinds once a pod uses them; few clusters have such pods.
    fn watch_needed_kinds(&mut self) {
        for need in OptionalKinds::ALL {
            if !self.cache.has_pods_that_need(need) || self.active_needs.contains(&need) {
                continue;
            }
            self.active_needs.push(need);
            for kind in watched_kinds(self.config.flavor, Some(need)) {
                self.watches.start_or_restart_kind(&self.api.client, kind);
            }
        }
    }

    /// Whether all watched kinds have been listed.
    fn is_listed(&self) -> bool {
        self.listed.len() == self.watches.kind_count()
    }

    pub(super) fn handle_watch_event(&mut self, event: WatchEvent) {
        self.idle = None;
        let previous = self.cache.revision;
        match event {
            WatchEvent::Listed(kind, objects) => {
                self.cache.relist(kind, &objects);
                self.listed.insert(kind);
            }
            WatchEvent::Changed(kind, object) => self.cache.on_event(kind, object),
            WatchEvent::Deleted(kind, gone) => {
                self.cache.remove(kind, ObjectKey::from_raw(&gone), gone.version);
            }
        }
        let soon = Instant::now() + BURST_DELAY;
        if self.cache.has_undecoded_pods() {
            self.decode_at.get_or_insert(soon);
        }
        self.schedule_cycle_if_changed(previous, soon);
    }

    /// Handles a change of an owner of pods: the groups of the owner are derived again.
    pub(super) fn handle_owner_event(&mut self, event: OwnerEvent) {
        if self.grouper.on_owner_event(event) {
            self.idle = None;
            self.schedule_cycle_if_listed(Instant::now() + BURST_DELAY);
        }
    }

    /// Decodes the pods of watch events, and schedules a cycle if they changed anything. Most
    /// changes of pods affect no decision, or are outdated before they are decoded.
    fn decode_pods(&mut self) {
        let previous = self.cache.revision;
        self.cache.decode_pods();
        self.decode_at = None;
        self.schedule_cycle_if_changed(previous, Instant::now());
    }

    fn schedule_cycle_if_changed(&mut self, previous: u64, at: Instant) {
        if self.cache.revision != previous {
            self.schedule_cycle_if_listed(at);
        }
    }

    /// Schedules a cycle if all kinds have been listed; no cycle runs before.
    fn schedule_cycle_if_listed(&mut self, at: Instant) {
        if self.is_listed() {
            self.schedule_cycle_at(at);
        }
    }

    /// Handles a response of the usage database: reports its errors and schedules a cycle.
    pub(super) fn handle_usage_response(&mut self) {
        let now = Time((self.now)().as_millisecond());
        let Some((error, took)) = self.past.last_database_problem(&self.cache.queues, now) else {
            return;
        };
        if let Some(metrics) = &self.metrics {
            metrics.observe_usage_query(took);
        }
        self.config.progress.send_if_modified(|status| {
            let is_new = status.usage_error != error;
            status.usage_error = error;
            is_new
        });
        self.idle = None;
        self.schedule_cycle_if_listed(Instant::now() + BURST_DELAY);
    }

    /// Schedules a cycle at this time, or earlier if one is due already, but not within a period of
    /// the last cycle.
    pub(super) fn schedule_cycle_at(&mut self, at: Instant) {
        let at = match self.last_cycle {
            Some(last) => at.max(last + self.config.period),
            None => at,
        };
        self.cycle_due = Some(self.cycle_due.map_or(at, |due| due.min(at)));
    }
}

/// Waits until this moment; forever without one.
async fn sleep_until_or_forever(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
