//! What each plugin said at each extension point, cycle after cycle, for whoever wants to follow a
//! decision step by step. Off unless plugins are wrapped by [`Trace::watch`]; the last lines are
//! kept, and no more than were asked for.

mod log;
mod watched;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schedlab_scheduler_core::{
    Onlooker,
    framework::{Plugins, Scoring},
    model::{NodeId, PodGroupId, PodId, Time},
    profile::Action,
    session::Session,
};

use log::Log;
use watched::Watched;

/// The trace of one scheduler. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<Log>>);

impl Trace {
    /// Keeps so many lines at most.
    pub fn of_lines(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Log::of_lines(most))))
    }

    /// All that is kept, oldest first.
    pub fn text(&self) -> String {
        self.log().text()
    }

    /// The same plugins, whose answers are noted here.
    #[must_use]
    pub fn watch(&self, plugins: &Plugins) -> Plugins {
        Plugins {
            pre_enqueue: plugins.pre_enqueue.iter().map(|it| Watched::arc(it, self) as _).collect(),
            queue_sort: Watched::arc(&plugins.queue_sort, self),
            pre_filter: plugins.pre_filter.iter().map(|it| Watched::arc(it, self) as _).collect(),
            filter: plugins.filter.iter().map(|it| Watched::arc(it, self) as _).collect(),
            post_filter: plugins.post_filter.iter().map(|it| Watched::arc(it, self) as _).collect(),
            score: plugins
                .score
                .iter()
                .map(|it| Scoring { plugin: Watched::arc(&it.plugin, self), weight: it.weight })
                .collect(),
            ranking: plugins.ranking,
            reserve: plugins.reserve.iter().map(|it| Watched::arc(it, self) as _).collect(),
            permit: plugins.permit.iter().map(|it| Watched::arc(it, self) as _).collect(),
            waiting: plugins.waiting,
        }
    }

    /// A cycle begins.
    pub(crate) fn cycle(&self, now: Time) {
        let moment = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
        self.log().line(format!("cycle at {moment}"));
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One answer about a pod group, or about something as a whole.
    fn says(&self, (point, plugin): (&str, &str), subject: &str, verdict: &str) {
        self.log().line(format!("  {point} {plugin}: {subject}: {verdict}"));
    }

    /// One answer about a pod on a node; equal ones are counted.
    fn says_of_node(&self, about: (&'static str, &str), subject: &str, answer: (&str, &str)) {
        self.log().count(about, subject, answer);
    }
}

fn group_name(session: &Session<'_>, group: PodGroupId) -> String {
    let group = session.group(group);
    format!("{}/{}", group.namespace, group.name)
}

fn pod_name(session: &Session<'_>, pod: PodId) -> String {
    let pod = session.pod(pod);
    format!("pod {}/{}", pod.namespace, pod.name)
}

fn node_name<'s>(session: &Session<'s>, node: NodeId) -> &'s str {
    &session.node(node).name
}

/// Notes when actions begin and end, beside another onlooker.
pub(crate) struct Beside<'a, O> {
    pub(crate) other: &'a mut O,
    pub(crate) trace: &'a Trace,
}

impl<O: Onlooker> Onlooker for Beside<'_, O> {
    fn begins(&mut self, action: Action, session: &Session<'_>) {
        self.trace.log().line(format!(" {} begins", action.as_str()));
        self.other.begins(action, session);
    }

    fn ended(&mut self, action: Action, session: &Session<'_>) {
        self.other.ended(action, session);
        let decided = session.decisions().len();
        self.trace.log().line(format!(" {} ended: {decided} decisions so far", action.as_str()));
    }
}

#[cfg(test)]
mod tests;
