//! The actors at work on a cluster that is not ours: their view is fed by watches and their
//! writes go through a client. The same steps as in [`crate::driver`] make the same writes; only
//! who is asked, and that answers take their time, differs.
//!
//! What an actor has just written is in its view at once, as the server answered it; the watch
//! tells it again later and is then no news. Which actors act is the caller's choice: a real
//! cluster has controllers of its own.

mod feed;
mod send;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;

use crate::actors::{
    self, ACTORS, Actor, BESIDE, Change, Context, KubeletDefaults, Refusal, View, key_of,
};
use crate::clock::Clock;
use crate::driver::agenda::{Agenda, Task};
use crate::object;
use crate::store::{EventKind, Key, LogEntry, Object, Resource, Subresource};
use schedlab_json::Value;

pub use feed::Collection;
use feed::{Feed, News};

/// The longest wait before a refused write is tried again.
const RETRY_SECS_MAX: u64 = 30;
/// How long a write that came too late waits for the news that it missed.
const CONFLICT_MILLIS: i64 = 50;

/// Who acts, and on what.
pub struct Cast {
    /// Reaches the cluster.
    pub client: kube::Client,
    /// The time.
    pub clock: Clock,
    /// Names of the actors (of [`ACTORS`], and [`BESIDE`]); all others stay away.
    pub actors: Vec<&'static str>,
    /// What is watched: what these actors read, and what `observe` wants to hear of. Of a kind that
    /// they read and that is not watched, they take for granted what others refer to.
    pub collections: Vec<Collection>,
    /// How pods behave that do not say it themselves.
    pub defaults: KubeletDefaults,
    /// Told of every change, in the order in which the watches tell it. The writer is not known.
    pub observe: Box<dyn FnMut(LogEntry) + Send>,
}

/// The actors' task. They stop when it is dropped.
#[derive(Debug)]
pub struct Troupe(JoinHandle<()>);

impl Drop for Troupe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Troupe {
    /// Lists everything, then acts on the current runtime for ever.
    ///
    /// # Errors
    /// A collection cannot be listed; one whose kind the cluster does not know counts as empty.
    pub async fn start(cast: Cast) -> Result<Self, kube::Error> {
        let (feed, listed) = Feed::open(&cast.client, &cast.collections).await?;
        let all = ACTORS.iter().chain([BESIDE]);
        let actors: Vec<&Actor> = all.filter(|one| cast.actors.contains(&one.name)).collect();
        let mut view = View::default();
        let is_watched = |kind: &Resource| cast.collections.iter().any(|of| of.resource == *kind);
        let read = actors.iter().flat_map(|actor| actor.watches.named());
        read.filter(|kind| !is_watched(kind)).for_each(|kind| view.overlook(kind));
        let mut stage = Stage {
            agenda: Agenda::new(actors.len()),
            actors,
            view,
            told: BTreeMap::new(),
            refusals: BTreeMap::new(),
            cast,
        };
        for (resource, object) in listed {
            stage.hear(News::Is(resource, object));
        }
        Ok(Self(tokio::spawn(stage.run(feed))))
    }
}

struct Stage {
    cast: Cast,
    /// Those who act.
    actors: Vec<&'static Actor>,
    /// What the actors see.
    view: View,
    /// What the observer was told last.
    told: BTreeMap<Key, Object>,
    agenda: Agenda,
    refusals: BTreeMap<Task, u32>,
}

impl Stage {
    async fn run(mut self, mut feed: Feed) {
        loop {
            while let Some(news) = feed.next().now_or_never() {
                self.hear(news);
            }
            let now = self.cast.clock.now();
            self.agenda.wake(now);
            if let Some(task) = self.agenda.pop(now) {
                self.step(&task, now).await;
                continue;
            }
            let next = self.agenda.next().map(|time| self.cast.clock.instant(time));
            let timer = async {
                match next {
                    Some(instant) => tokio::time::sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                news = feed.next() => self.hear(news),
                () = timer => {}
            }
        }
    }

    /// Takes in what a watch says.
    fn hear(&mut self, news: News) {
        match news {
            News::Is(resource, object) => {
                let key = key_of(&resource, &object);
                let object = Arc::new(object);
                self.tell(&key, &object, EventKind::Modified);
                self.see(key, object);
            }
            News::Gone(resource, object) => {
                let key = key_of(&resource, &object);
                let object = Arc::new(object);
                self.tell(&key, &object, EventKind::Deleted);
                self.lose(key, &object);
            }
            News::Only(resource, objects) => self.hear_all(&resource, objects),
        }
    }

    /// A collection was listed anew: what is not in the list is gone.
    fn hear_all(&mut self, resource: &Resource, objects: Vec<Value>) {
        let there: Vec<Key> = objects.iter().map(|object| key_of(resource, object)).collect();
        let known = self.view.all(resource).map(|(key, object)| (key.clone(), object.clone()));
        let gone: Vec<(Key, Object)> = known.filter(|(key, _)| !there.contains(key)).collect();
        for (key, object) in gone {
            self.tell(&key, &object, EventKind::Deleted);
            self.lose(key, &object);
        }
        for object in objects {
            self.hear(News::Is(resource.clone(), object));
        }
    }

    fn tell(&mut self, key: &Key, object: &Object, kind: EventKind) {
        let previous = match kind {
            EventKind::Deleted => self.told.remove(key),
            EventKind::Added | EventKind::Modified => {
                if self.told.get(key).is_some_and(|told| revision(told) >= revision(object)) {
                    return;
                }
                self.told.insert(key.clone(), Arc::clone(object))
            }
        };
        let kind = match (kind, &previous) {
            (EventKind::Deleted, None) => return,
            (EventKind::Deleted, Some(_)) => EventKind::Deleted,
            (EventKind::Added | EventKind::Modified, None) => EventKind::Added,
            (EventKind::Added | EventKind::Modified, Some(_)) => EventKind::Modified,
        };
        (self.cast.observe)(LogEntry {
            revision: revision(object),
            time: self.cast.clock.now(),
            kind,
            key: key.clone(),
            object: Arc::clone(object),
            previous,
            manager: "".into(),
            part: Subresource::None,
        });
    }

    /// An object as it is now, unless something newer is known of it.
    fn see(&mut self, key: Key, object: Object) {
        let before = self.view.get(&key).cloned();
        if before.as_ref().is_some_and(|before| revision(before) >= revision(&object)) {
            return;
        }
        self.notice(&Change { key, before, after: Some(object) });
    }

    /// An object is gone, unless it came again since.
    fn lose(&mut self, key: Key, last: &Object) {
        let Some(before) = self.view.get(&key).cloned() else { return };
        if revision(&before) <= revision(last) || object::uid(&before) == object::uid(last) {
            self.notice(&Change { key, before: Some(before), after: None });
        }
    }

    fn notice(&mut self, change: &Change) {
        self.view.apply(change, self.cast.clock.now());
        for (actor, who) in self.actors.iter().enumerate() {
            for key in (who.concerns)(change, &self.view) {
                self.agenda.push(Task { actor, key });
            }
        }
    }

    async fn step(&mut self, task: &Task, now: Timestamp) {
        let actor = self.actors[task.actor];
        let ctx = Context { view: &self.view, now, defaults: &self.cast.defaults };
        let step = (actor.step)(&task.key, &ctx);
        self.agenda.set_timer(task, step.again);
        if step.writes.is_empty() {
            self.refusals.remove(task);
            return;
        }
        match self.write_all(actor, step.writes).await {
            None => {
                self.refusals.remove(task);
            }
            Some(refusal) if refusal.error.reason == "Conflict" => {
                let soon = now.checked_add(SignedDuration::from_millis(CONFLICT_MILLIS));
                self.agenda.set_timer(task, soon.ok());
            }
            Some(refusal) => self.postpone(task, now, &refusal).await,
        }
    }

    /// Writes in order until one is refused. Later writes of one step to one object follow on
    /// its earlier ones.
    async fn write_all(
        &mut self,
        actor: &Actor,
        requests: Vec<actors::Request>,
    ) -> Option<Refusal> {
        let mut written: BTreeMap<Key, String> = BTreeMap::new();
        for mut request in requests {
            if let Some(version) = written.get(&request.key) {
                send::follow_on(&mut request, version);
            }
            let collections = &self.cast.collections;
            let at = collections.iter().find(|one| one.resource == request.key.resource);
            let Some(at) = at else { continue };
            let key = request.key.clone();
            match send::send(&self.cast.client, at, actor.manager, request).await {
                Ok(Some(object)) => {
                    written.insert(key.clone(), object::resource_version(&object).to_owned());
                    self.see(key, Arc::new(object));
                }
                Ok(None) => {}
                Err(refusal) => return Some(refusal),
            }
        }
        None
    }

    /// Tries a refused step again later, and says so on the object it was for.
    async fn postpone(&mut self, task: &Task, now: Timestamp, refusal: &Refusal) {
        let count = self.refusals.entry(task.clone()).or_default();
        let wait = 2_u64.saturating_pow(*count).min(RETRY_SECS_MAX);
        *count = count.saturating_add(1);
        let again = now.checked_add(Duration::from_secs(wait)).unwrap_or(Timestamp::MAX);
        self.agenda.set_timer(task, Some(again));
        let actor = self.actors[task.actor];
        let ctx = Context { view: &self.view, now, defaults: &self.cast.defaults };
        let said = actors::refused((actor, &task.key), refusal, &ctx);
        self.write_all(actor, said.into_iter().collect()).await;
    }
}

/// The revision of an object. Kubernetes promises from 1.35 on that they compare as numbers.
fn revision(object: &Value) -> u64 {
    object::resource_version(object).parse().unwrap_or(0)
}

#[cfg(test)]
mod tests;
