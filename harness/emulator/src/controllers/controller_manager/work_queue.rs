//! The work queue of the controllers: due keys in arrival order, and requeued keys by time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::store::Key;

/// The maximum number of reconciliations of a key at one moment of virtual time. More means that
/// two controllers keep reverting each other's writes; then the key waits a second, so that virtual
/// time advances.
const ATTEMPTS_AT_ONE_TIME_MAX: u32 = 1000;

/// A controller and the key of an object that it must reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    /// The index of the controller.
    pub(crate) controller: usize,
    /// The key of the object.
    pub(crate) key: Key,
}

/// The queue of due tasks and the timers of requeued tasks.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    due: Vec<VecDeque<Key>>,
    queued: BTreeSet<Task>,
    timers: BTreeMap<Timestamp, BTreeSet<Task>>,
    timer_of: BTreeMap<Task, Timestamp>,
    attempts: BTreeMap<Task, u32>,
    attempts_at: Timestamp,
}

impl WorkQueue {
    pub(crate) fn new(controllers: usize) -> Self {
        Self {
            due: vec![VecDeque::new(); controllers],
            queued: BTreeSet::new(),
            timers: BTreeMap::new(),
            timer_of: BTreeMap::new(),
            attempts: BTreeMap::new(),
            attempts_at: Timestamp::MIN,
        }
    }

    /// Queues a task, unless it is queued already.
    pub(crate) fn push(&mut self, task: Task) {
        if self.queued.contains(&task) {
            return;
        }
        self.due[task.controller].push_back(task.key.clone());
        self.queued.insert(task);
    }

    /// Replaces the requeue time of a task; `None` removes it.
    pub(crate) fn set_requeue_time(&mut self, task: &Task, time: Option<Timestamp>) {
        if let Some(before) = self.timer_of.remove(task) {
            let tasks = self
                .timers
                .get_mut(&before)
                .expect("every requeue time of `timer_of` is in `timers`");
            tasks.remove(task);
            if tasks.is_empty() {
                self.timers.remove(&before);
            }
        }
        if let Some(time) = time {
            self.timers.entry(time).or_default().insert(task.clone());
            self.timer_of.insert(task.clone(), time);
        }
    }

    /// Queues the tasks whose requeue time has come.
    pub(crate) fn enqueue_due(&mut self, now: Timestamp) {
        while let Some(first) = self.timers.first_entry().filter(|first| *first.key() <= now) {
            for task in first.remove() {
                self.timer_of.remove(&task);
                self.push(task);
            }
        }
    }

    /// Takes the next due task.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Task> {
        if self.attempts_at != now {
            self.attempts.clear();
            self.attempts_at = now;
        }
        loop {
            let controller = self.due.iter().position(|keys| !keys.is_empty())?;
            let key = self.due[controller].pop_front()?;
            let task = Task { controller, key };
            self.queued.remove(&task);
            let looks = self.attempts.entry(task.clone()).or_default();
            *looks += 1;
            if *looks <= ATTEMPTS_AT_ONE_TIME_MAX {
                return Some(task);
            }
            let later = now.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
            self.set_requeue_time(&task, Some(later));
        }
    }

    /// The earliest requeue time.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.timers.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{ATTEMPTS_AT_ONE_TIME_MAX, Task, WorkQueue};
    use crate::store::{Key, Resource};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn task(controller: usize, name: &str) -> Task {
        let resource = Resource::new("", "pods");
        Task { controller, key: Key { resource, namespace: "ns".into(), name: name.into() } }
    }

    fn names(queue: &mut WorkQueue, now: Timestamp) -> Vec<String> {
        let tasks = std::iter::from_fn(|| queue.pop(now));
        tasks.map(|task| format!("{}{}", task.controller, task.key.name)).collect()
    }

    #[test]
    fn earlier_controllers_go_first_and_keys_in_arrival_order() {
        let mut queue = WorkQueue::new(2);
        for (controller, name) in [(1, "b"), (0, "z"), (0, "a"), (0, "z")] {
            queue.push(task(controller, name));
        }
        assert_eq!(names(&mut queue, NOW), ["0z", "0a", "1b"]);
    }

    #[test]
    fn a_timer_is_replaced_by_the_next_and_fires_once() {
        let mut queue = WorkQueue::new(1);
        let [soon, late] = [1, 2].map(|secs| NOW + SignedDuration::from_secs(secs));
        queue.set_requeue_time(&task(0, "a"), Some(soon));
        queue.set_requeue_time(&task(0, "a"), Some(late));
        queue.enqueue_due(soon);
        assert_eq!(names(&mut queue, soon), [""; 0]);
        assert_eq!(queue.next_due(), Some(late));
        queue.enqueue_due(late);
        assert_eq!(names(&mut queue, late), ["0a"]);
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn a_task_that_exceeds_its_attempts_waits_a_second() {
        let mut queue = WorkQueue::new(1);
        for _ in 0..ATTEMPTS_AT_ONE_TIME_MAX {
            queue.push(task(0, "a"));
            assert!(queue.pop(NOW).is_some());
        }
        queue.push(task(0, "a"));
        assert_eq!(queue.pop(NOW), None);
        assert_eq!(queue.next_due(), Some(NOW + SignedDuration::from_secs(1)));
    }
}
