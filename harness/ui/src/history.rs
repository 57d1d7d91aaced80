//! Everything that happened in a cluster. The state at any write is found without reading the whole
//! log again: copies of the state are kept at intervals.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schedlab_emulator::store::LogEntry;
use schedlab_view::ObjectName;
use schedlab_view::events::{ClusterEvent, ClusterEventKind, events_of_entry};
use schedlab_view::state::{ClusterState, RecordChange, StateBuilder};

/// Minimum number of writes between two copies of the state. With more objects the interval is as
/// many writes, so that the copies take no more memory than the log.
const COPY_INTERVAL_MIN: usize = 500;

/// Everything that happened since the cluster started.
#[derive(Debug, Default)]
pub struct History {
    log: Vec<HistoryEntry>,
    events: Vec<ClusterEvent>,
    evictions: usize,
    latest: StateBuilder,
    copies: Vec<StateCopy>,
}

/// A write, without its objects: of them only what the page shows is kept.
#[derive(Debug)]
struct HistoryEntry {
    revision: u64,
    time: Timestamp,
    change: RecordChange,
}

/// The state after the first `entries` writes.
#[derive(Debug)]
struct StateCopy {
    entries: usize,
    state: StateBuilder,
}

impl History {
    /// Records the next write.
    pub fn apply_entry(&mut self, entry: &LogEntry) {
        let change = RecordChange::from_entry(entry);
        self.latest.apply_change(&change);
        let events = events_of_entry(entry);
        let is_eviction = |event: &&ClusterEvent| event.kind == ClusterEventKind::Eviction;
        self.evictions += events.iter().filter(is_eviction).count();
        self.events.extend(events);
        self.log.push(HistoryEntry { revision: entry.revision, time: entry.time, change });
        let since = self.log.len() - self.copies.last().map_or(0, |copy| copy.entries);
        if since >= COPY_INTERVAL_MIN.max(self.latest.object_count()) {
            self.copies.push(StateCopy { entries: self.log.len(), state: self.latest.clone() });
        }
    }

    /// The state after the last write whose revision is at most `revision`.
    pub fn state_at(&self, revision: u64) -> ClusterState {
        let end = self.log.partition_point(|entry| entry.revision <= revision);
        if end == self.log.len() {
            return self.latest.state();
        }
        let copy = self.copies.iter().rev().find(|copy| copy.entries <= end);
        let begin = copy.map_or(0, |copy| copy.entries);
        let mut state = copy.map(|copy| copy.state.clone()).unwrap_or_default();
        for entry in &self.log[begin..end] {
            state.apply_change(&entry.change);
        }
        state.state()
    }

    /// The time of the first write.
    pub fn start_time(&self) -> Option<Timestamp> {
        self.log.first().map(|entry| entry.time)
    }

    /// The time of the last write up to a revision.
    pub fn time_at(&self, revision: u64) -> Option<Timestamp> {
        let end = self.log.partition_point(|entry| entry.revision <= revision);
        self.log.get(end.checked_sub(1)?).map(|entry| entry.time)
    }

    /// The last `limit` events up to a revision that `keep` accepts, newest first.
    pub fn events_until(
        &self,
        revision: u64,
        limit: usize,
        keep: impl Fn(&ClusterEvent) -> bool,
    ) -> Vec<ClusterEvent> {
        let end = self.events.partition_point(|event| event.revision <= revision);
        let newest = self.events[..end].iter().rev();
        newest.filter(|event| keep(event)).take(limit).cloned().collect()
    }

    /// The pods of a workload, by namespace and name.
    pub fn pods_of_workload(&self, workload: &ObjectName) -> BTreeSet<ObjectName> {
        self.latest.pods_of_workload(workload).cloned().collect()
    }

    /// Number of evictions so far.
    pub fn evictions(&self) -> usize {
        self.evictions
    }
}
