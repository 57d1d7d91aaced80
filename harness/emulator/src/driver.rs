//! Lets the actors act: one task that feeds their view from the store's log, asks each what it
//! would write, writes it, and sleeps until something changes or somebody's next moment comes.
//!
//! Everything is ordered, so that equal runs are equal: actors in their fixed order, keys as they
//! became worth a look. A write that conflicts is computed anew; one that is refused is tried
//! again later, less and less often.

pub(crate) mod agenda;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::actors::{ACTORS, Actor, Change, Context, KubeletDefaults, Refusal, Request, View};
use crate::calls::Webhooks;
use crate::error::ApiError;
use crate::hooks;
use crate::object;
use crate::shared::SharedStore;
use crate::store::{
    Consultation, EventKind, FieldValidation, Key, LogEntry, Op, Resource, Store, Write, Written,
};
use schedlab_json::{Value, json};

use agenda::{Agenda, Task};

/// Steps between two chances for others to run.
const BURST: u32 = 64;
/// So often may others run without a write before the actors act.
const QUIET: u32 = 8;
/// So often may others run at most before the actors act.
const GATHER_MAX: u32 = 4096;
/// The longest wait before a refused write is tried again.
const RETRY_SECS_MAX: u64 = 1000;

/// The actors at work.
pub(crate) struct Driver {
    shared: SharedStore,
    webhooks: Webhooks,
    defaults: KubeletDefaults,
    /// For how long log entries are kept; for ever when `None`.
    log_keep: Option<Duration>,
    view: View,
    /// Which actors watch a kind.
    watching: BTreeMap<Resource, Vec<usize>>,
    revision: u64,
    /// Of which edition the kinds are that the view knows.
    edition: Option<u64>,
    agenda: Agenda,
    refusals: BTreeMap<Task, u32>,
}

impl Driver {
    pub(crate) fn new(
        shared: SharedStore,
        defaults: KubeletDefaults,
        log_keep: Option<Duration>,
    ) -> Self {
        Self {
            shared,
            webhooks: Webhooks::default(),
            defaults,
            log_keep,
            view: View::default(),
            watching: BTreeMap::new(),
            revision: 0,
            edition: None,
            agenda: Agenda::new(ACTORS.len()),
            refusals: BTreeMap::new(),
        }
    }

    /// Has its writes pass these webhooks where they are configured.
    pub(crate) fn with_webhooks(self, webhooks: Webhooks) -> Self {
        Self { webhooks, ..self }
    }

    /// Acts for ever.
    pub(crate) async fn run(mut self) {
        let mut revisions = self.shared.revisions();
        loop {
            revisions.mark_unchanged();
            self.act().await;
            self.compact();
            let clock = self.shared.clock().clone();
            let next = self.agenda.next().map(|time| clock.instant(time));
            let timer = async {
                match next {
                    Some(instant) => tokio::time::sleep_until(instant).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = revisions.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.gather().await;
                }
                () = timer => {}
            }
        }
    }

    /// Waits, without time going on, for somebody who is in the middle of several writes: who acts
    /// on all of them at once writes less. A real cluster's news take their time, too.
    async fn gather(&self) {
        let (mut seen, mut quiet) = (self.shared.revision(), 0);
        for _ in 0..GATHER_MAX {
            tokio::task::yield_now().await;
            let revision = self.shared.revision();
            quiet = if revision == seen { quiet + 1 } else { 0 };
            if quiet == QUIET {
                return;
            }
            seen = revision;
        }
    }

    /// Acts until nobody has anything to do now.
    async fn act(&mut self) {
        let mut steps = 0_u32;
        loop {
            self.take_in();
            let now = self.shared.clock().now();
            self.agenda.wake(now);
            let Some(task) = self.agenda.pop(now) else { return };
            self.step(&task, now).await;
            steps = steps.wrapping_add(1);
            if steps.is_multiple_of(BURST) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes in what happened since the last time.
    fn take_in(&mut self) {
        let since = self.revision;
        let Self { shared, view, edition, .. } = self;
        let (news, revision) = shared.read(|store| {
            let kinds = store.kinds();
            if edition.replace(kinds.edition()) != Some(kinds.edition()) {
                view.learn(kinds);
            }
            let news: Vec<Change> = match store.log_since(since) {
                Ok(entries) => entries.iter().map(|entry| change_of(entry)).collect(),
                Err(_) => everything(store, view),
            };
            (news, store.revision())
        });
        for change in news {
            self.notice(&change);
        }
        self.revision = revision;
    }

    fn notice(&mut self, change: &Change) {
        self.view.apply(change, self.shared.clock().now());
        let resource = &change.key.resource;
        if !self.watching.contains_key(resource) {
            self.watching.insert(resource.clone(), crate::actors::watching(resource));
        }
        for &actor in &self.watching[resource] {
            for key in (ACTORS[actor].concerns)(change, &self.view) {
                self.agenda.push(Task { actor, key });
            }
        }
    }

    async fn step(&mut self, task: &Task, now: Timestamp) {
        let actor = &ACTORS[task.actor];
        let ctx = Context { view: &self.view, now, defaults: &self.defaults };
        let step = (actor.step)(&task.key, &ctx);
        self.agenda.set_timer(task, step.again);
        if step.writes.is_empty() {
            self.refusals.remove(task);
            return;
        }
        let refused = self.write(actor, step.writes).await;
        match refused {
            None => {
                self.refusals.remove(task);
            }
            Some(refusal) if refusal.error.reason == "Conflict" => self.agenda.push(task.clone()),
            Some(refusal) => self.postpone(task, now, &refusal).await,
        }
    }

    /// Tries a refused step again later, and says so on the object it was for.
    async fn postpone(&mut self, task: &Task, now: Timestamp, refusal: &Refusal) {
        let count = self.refusals.entry(task.clone()).or_default();
        let wait = 2_u64.saturating_pow(*count).min(RETRY_SECS_MAX);
        *count = count.saturating_add(1);
        let again = now.checked_add(Duration::from_secs(wait)).unwrap_or(Timestamp::MAX);
        self.agenda.set_timer(task, Some(again));
        let ctx = Context { view: &self.view, now, defaults: &self.defaults };
        let actor = &ACTORS[task.actor];
        let said = crate::actors::refused((actor, &task.key), refusal, &ctx);
        let _ = self.write(actor, said).await;
    }

    /// Writes in order until one is refused; answers which and why. Where no webhook is to be
    /// asked, all is written in one go.
    async fn write(&self, actor: &Actor, requests: Vec<Request>) -> Option<Refusal> {
        let at_once = self.shared.change(|store, now| {
            if hooks::any(store) {
                Err(requests)
            } else {
                Ok(write_all(store, actor, requests, now))
            }
        });
        let requests = match at_once {
            Ok(refused) => return refused,
            Err(requests) => requests,
        };
        let mut writing = Writing::default();
        for request in requests {
            let (write, kept) = writing.next(actor, request);
            let user = || Consultation { user: user_of(actor), ..Consultation::default() };
            let done = self.webhooks.write(&self.shared, write, user).await;
            if let Some(refusal) = writing.ended(kept, done) {
                return Some(refusal);
            }
        }
        None
    }

    /// Forgets old history, where that is wanted: once half of what is kept is old.
    fn compact(&mut self) {
        let Some(keep) = self.log_keep else { return };
        let seen = self.revision;
        self.shared.change(|store, now| {
            let oldest = now.checked_sub(keep).unwrap_or(Timestamp::MIN);
            let old = store.revision_before(oldest).min(seen);
            let kept = store.revision() - old;
            if kept * 2 <= store.log_len() as u64 {
                store.compact_to(old);
            }
        });
    }
}

fn change_of(entry: &LogEntry) -> Change {
    Change {
        key: entry.key.clone(),
        before: entry.previous.clone(),
        after: (entry.kind != EventKind::Deleted).then(|| Arc::clone(&entry.object)),
    }
}

/// What changed between a view and a store whose log no longer tells.
fn everything(store: &Store, view: &View) -> Vec<Change> {
    let mut changes: Vec<Change> = view
        .keys()
        .filter(|key| store.find(key).is_none())
        .map(|key| Change { key: key.clone(), before: view.get(key).cloned(), after: None })
        .collect();
    for resource in store.resources() {
        for found in store.list(resource, None) {
            let key = crate::actors::key_of(resource, found);
            let before = view.get(&key).cloned();
            changes.push(Change { key, before, after: Some(Arc::clone(found)) });
        }
    }
    changes
}

fn write_all(
    store: &mut Store,
    actor: &Actor,
    requests: Vec<Request>,
    now: Timestamp,
) -> Option<Refusal> {
    let mut writing = Writing::default();
    requests.into_iter().find_map(|request| {
        let (write, kept) = writing.next(actor, request);
        let done = store.write(write, now);
        writing.ended(kept, done)
    })
}

/// As webhooks are told.
fn user_of(actor: &Actor) -> Value {
    json!({"username": format!("system:{}", actor.manager), "groups": ["system:authenticated"]})
}

/// The writes of one step. Later ones to one object follow on its earlier ones. Events are said at
/// best effort, and what is gone already need not be deleted.
#[derive(Default)]
struct Writing {
    written: BTreeMap<Key, String>,
}

/// What is to be known of a write when it is done.
struct Underway {
    key: Key,
    deletes: bool,
    creates: bool,
}

impl Writing {
    fn next(&self, actor: &Actor, request: Request) -> (Write, Underway) {
        let Request { key, mut op } = request;
        if let (Op::Update(_, body), Some(revision)) = (&mut op, self.written.get(&key)) {
            object::set(body, &["metadata", "resourceVersion"], revision.as_str().into());
        }
        let (deletes, creates) = (matches!(op, Op::Delete(_)), matches!(op, Op::Create(_)));
        let write = Write {
            field_validation: FieldValidation::Ignore,
            ..Write::new(key.clone(), op, actor.manager)
        };
        (write, Underway { key, deletes, creates })
    }

    fn ended(&mut self, of: Underway, done: Result<Written, ApiError>) -> Option<Refusal> {
        let Underway { key, deletes, creates } = of;
        let at_best = key.resource.is("", "events");
        match done {
            Ok(done) => {
                self.written.insert(key, object::resource_version(&done.object).to_owned());
                None
            }
            Err(_) if at_best => None,
            Err(error) if deletes && error.code == 404 => None,
            Err(error) => Some(Refusal { name: key.name, creates, error }),
        }
    }
}
