//! What is to be looked at: now, in the order in which it came up, and later, by time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};

use crate::store::Key;

/// Looks at one object within one moment before it has to wait: more means that an actor quarrels
/// with somebody, and time must go on.
const LOOKS_MAX: u32 = 1000;

/// One actor's look at one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Task {
    /// Which actor, by its place in the order.
    pub(crate) actor: usize,
    /// Which object.
    pub(crate) key: Key,
}

/// The tasks.
#[derive(Debug)]
pub(crate) struct Agenda {
    due: Vec<VecDeque<Key>>,
    queued: BTreeSet<Task>,
    timers: BTreeMap<Timestamp, BTreeSet<Task>>,
    timer_of: BTreeMap<Task, Timestamp>,
    looks: BTreeMap<Task, u32>,
    looks_at: Timestamp,
}

impl Agenda {
    pub(crate) fn new(actors: usize) -> Self {
        Self {
            due: vec![VecDeque::new(); actors],
            queued: BTreeSet::new(),
            timers: BTreeMap::new(),
            timer_of: BTreeMap::new(),
            looks: BTreeMap::new(),
            looks_at: Timestamp::MIN,
        }
    }

    /// Has something looked at now.
    pub(crate) fn push(&mut self, task: Task) {
        if self.queued.contains(&task) {
            return;
        }
        self.due[task.actor].push_back(task.key.clone());
        self.queued.insert(task);
    }

    /// Has something looked at later, instead of when it was to be looked at before.
    pub(crate) fn set_timer(&mut self, task: &Task, at: Option<Timestamp>) {
        if let Some(before) = self.timer_of.remove(task) {
            let tasks = self.timers.get_mut(&before).expect("every timer has its place");
            tasks.remove(task);
            if tasks.is_empty() {
                self.timers.remove(&before);
            }
        }
        if let Some(at) = at {
            self.timers.entry(at).or_default().insert(task.clone());
            self.timer_of.insert(task.clone(), at);
        }
    }

    /// Makes due what was to be looked at by now.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while let Some(first) = self.timers.first_entry().filter(|first| *first.key() <= now) {
            for task in first.remove() {
                self.timer_of.remove(&task);
                self.push(task);
            }
        }
    }

    /// The next task.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Task> {
        if self.looks_at != now {
            self.looks.clear();
            self.looks_at = now;
        }
        loop {
            let actor = self.due.iter().position(|keys| !keys.is_empty())?;
            let key = self.due[actor].pop_front()?;
            let task = Task { actor, key };
            self.queued.remove(&task);
            let looks = self.looks.entry(task.clone()).or_default();
            *looks += 1;
            if *looks <= LOOKS_MAX {
                return Some(task);
            }
            let later = now.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
            self.set_timer(&task, Some(later));
        }
    }

    /// When something is to be looked at next.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.timers.keys().next().copied()
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::{Agenda, LOOKS_MAX, Task};
    use crate::store::{Key, Resource};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn task(actor: usize, name: &str) -> Task {
        let resource = Resource::new("", "pods");
        Task { actor, key: Key { resource, namespace: "ns".into(), name: name.into() } }
    }

    fn names(agenda: &mut Agenda, now: Timestamp) -> Vec<String> {
        let tasks = std::iter::from_fn(|| agenda.pop(now));
        tasks.map(|task| format!("{}{}", task.actor, task.key.name)).collect()
    }

    #[test]
    fn earlier_actors_go_first_and_keys_as_they_came() {
        let mut agenda = Agenda::new(2);
        for (actor, name) in [(1, "b"), (0, "z"), (0, "a"), (0, "z")] {
            agenda.push(task(actor, name));
        }
        assert_eq!(names(&mut agenda, NOW), ["0z", "0a", "1b"]);
    }

    #[test]
    fn a_timer_is_replaced_by_the_next_and_fires_once() {
        let mut agenda = Agenda::new(1);
        let [soon, late] = [1, 2].map(|secs| NOW + SignedDuration::from_secs(secs));
        agenda.set_timer(&task(0, "a"), Some(soon));
        agenda.set_timer(&task(0, "a"), Some(late));
        agenda.wake(soon);
        assert_eq!(names(&mut agenda, soon), [""; 0]);
        assert_eq!(agenda.next(), Some(late));
        agenda.wake(late);
        assert_eq!(names(&mut agenda, late), ["0a"]);
        assert_eq!(agenda.next(), None);
    }

    #[test]
    fn a_quarrel_waits_for_time_to_go_on() {
        let mut agenda = Agenda::new(1);
        for _ in 0..LOOKS_MAX {
            agenda.push(task(0, "a"));
            assert!(agenda.pop(NOW).is_some());
        }
        agenda.push(task(0, "a"));
        assert_eq!(agenda.pop(NOW), None);
        assert_eq!(agenda.next(), Some(NOW + SignedDuration::from_secs(1)));
    }
}
