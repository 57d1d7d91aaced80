//! What the loop waits for, and what it makes of it: news go to the mirror, and call a cycle when
//! they change it.

use std::time::Duration;

use futures::StreamExt as _;
use schedlab_scheduler_core::model::Time;
use tokio::time::{Instant, sleep_until};

use super::{Scheduler, kinds};
use crate::{
    mirror::Key,
    watch::{Need, News},
};

/// News that come in a burst are waited for this long, so that one cycle sees all of them.
const BURST: Duration = Duration::from_millis(10);

/// What the loop waits for.
pub(super) enum Event {
    /// The cluster changed.
    News(News),
    /// The usage database said something.
    Usage,
    /// It is time for a cycle.
    Due,
}

impl Scheduler {
    /// News first; but a cycle that is late by a whole period is not put off any longer.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            self.watch_what_pods_name();
            let due = self.due.filter(|_| self.is_listed());
            let next = due.into_iter().chain(self.reads_at).min();
            if next.is_none_or(|next| Instant::now() <= next + self.config.period) {
                tokio::select! {
                    biased;
                    Some(news) = self.watches.next() => return Event::News(news),
                    () = self.past.heard() => return Event::Usage,
                    () = reached(next) => {}
                }
            }
            self.read_pods();
            self.watch_what_pods_name();
            if self.is_listed() && self.due.is_some_and(|due| due <= Instant::now()) {
                return Event::Due;
            }
        }
    }

    /// Some kinds matter only once a pod names one of them: few clusters have such pods.
    fn watch_what_pods_name(&mut self) {
        for need in Need::ALL {
            if !self.mirror.needs(need) || self.needs.contains(&need) {
                continue;
            }
            self.needs.push(need);
            for kind in kinds(self.config.flavor, Some(need)) {
                self.watches.begin(&self.api.client, kind);
            }
        }
    }

    /// All that is watched has been listed.
    fn is_listed(&self) -> bool {
        self.listed.len() == self.watches.started()
    }

    pub(super) fn take(&mut self, news: News) {
        self.rest = None;
        let before = self.mirror.revision;
        match news {
            News::All(kind, objects) => {
                self.mirror.relist(kind, &objects);
                self.listed.insert(kind);
            }
            News::Changed(kind, object) => self.mirror.hear(kind, object),
            News::Gone(kind, gone) => {
                self.mirror.remove(kind, Key::of_unread(&gone), gone.version);
            }
        }
        let soon = Instant::now() + BURST;
        if self.mirror.has_unread() {
            self.reads_at.get_or_insert(soon);
        }
        self.call_cycle_if_changed(before, soon);
    }

    /// Most of what pods go through changes no decision, or is over before it is read.
    fn read_pods(&mut self) {
        let before = self.mirror.revision;
        self.mirror.read_pods();
        self.reads_at = None;
        self.call_cycle_if_changed(before, Instant::now());
    }

    fn call_cycle_if_changed(&mut self, before: u64, at: Instant) {
        if self.mirror.revision != before {
            self.call_cycle_if_listed(at);
        }
    }

    /// No cycle runs before every kind has been listed.
    fn call_cycle_if_listed(&mut self, at: Instant) {
        if self.is_listed() {
            self.call_cycle(at);
        }
    }

    /// Looks again with what the usage database said, and says what is wrong with it.
    pub(super) fn take_usage(&mut self) {
        let now = Time((self.now)().as_millisecond());
        let Some((trouble, took)) = self.past.trouble(&self.mirror.queues, now) else { return };
        if let Some(metrics) = &self.metrics {
            metrics.observe_usage_query(took);
        }
        self.config.status.send_if_modified(|status| {
            let is_new = status.usage_trouble != trouble;
            status.usage_trouble = trouble;
            is_new
        });
        self.rest = None;
        self.call_cycle_if_listed(Instant::now() + BURST);
    }

    /// A cycle at this moment, or earlier if one is due; never sooner than a period after the last.
    pub(super) fn call_cycle(&mut self, at: Instant) {
        let at = match self.last_cycle {
            Some(last) => at.max(last + self.config.period),
            None => at,
        };
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

/// Waits until then; for ever where there is no such moment.
async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
