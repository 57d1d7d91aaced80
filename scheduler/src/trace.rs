//! A trace of the verdicts of plugins at each extension point, cycle by cycle, to follow a decision
//! in detail. Off unless the plugins are wrapped by [`Trace::wrap`]. Keeps a bounded number of the
//! last lines.

mod log;
mod traced_plugin;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schedlab_scheduler_core::{
    CycleObserver,
    framework::{Plugins, Scoring, Session},
    model::{NodeId, PodGroupId, PodId, Time},
    profile::Action,
};

use log::TraceLog;
use traced_plugin::TracedPlugin;

/// The trace of a scheduler's decisions. Clones share their lines.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Mutex<TraceLog>>);

impl Trace {
    /// Creates a trace that keeps at most `capacity` lines.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Arc::new(Mutex::new(TraceLog::with_capacity(capacity))))
    }

    /// The kept lines, oldest first.
    pub fn text(&self) -> String {
        self.lock_log().text()
    }

    /// Wraps plugins so that the trace records their verdicts.
    #[must_use]
    pub fn wrap(&self, plugins: &Plugins) -> Plugins {
        Plugins {
            pre_enqueue: plugins
                .pre_enqueue
                .iter()
                .map(|it| TracedPlugin::wrap(it, self) as _)
                .collect(),
            queue_sort: TracedPlugin::wrap(&plugins.queue_sort, self),
            pre_filter: plugins
                .pre_filter
                .iter()
                .map(|it| TracedPlugin::wrap(it, self) as _)
                .collect(),
            filter: plugins.filter.iter().map(|it| TracedPlugin::wrap(it, self) as _).collect(),
            post_filter: plugins
                .post_filter
                .iter()
                .map(|it| TracedPlugin::wrap(it, self) as _)
                .collect(),
            score: plugins
                .score
                .iter()
                .map(|it| Scoring {
                    plugin: TracedPlugin::wrap(&it.plugin, self),
                    weight: it.weight,
                })
                .collect(),
            ranking: plugins.ranking,
            reserve: plugins.reserve.iter().map(|it| TracedPlugin::wrap(it, self) as _).collect(),
            permit: plugins.permit.iter().map(|it| TracedPlugin::wrap(it, self) as _).collect(),
            pipeline_policy: plugins.pipeline_policy,
            group_scheduling: plugins.group_scheduling.clone(),
        }
    }

    /// Records the start of a cycle.
    pub(crate) fn begin_cycle(&self, now: Time) {
        let moment = jiff::Timestamp::from_millisecond(now.0).unwrap_or_default();
        self.lock_log().add_line(format!("cycle at {moment}"));
    }

    fn lock_log(&self) -> MutexGuard<'_, TraceLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a verdict about a pod group, or about a pod as a whole.
    fn record(&self, point: &str, plugin: &str, subject: &str, verdict: &str) {
        self.lock_log().add_line(format!("  {point} {plugin}: {subject}: {verdict}"));
    }

    /// Records a verdict about a pod on a node; equal verdicts about several nodes are merged into
    /// one line.
    fn record_node(
        &self,
        point: &'static str,
        plugin: &str,
        subject: &str,
        node: &str,
        verdict: &str,
    ) {
        self.lock_log().record_node(point, plugin, subject, node, verdict);
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

/// Records start and end of actions in the trace, and forwards to another observer.
pub(crate) struct TracedObserver<'a, O> {
    pub(crate) inner: &'a mut O,
    pub(crate) trace: &'a Trace,
}

impl<O: CycleObserver> CycleObserver for TracedObserver<'_, O> {
    fn on_action_start(&mut self, action: Action, session: &Session<'_>) {
        self.trace.lock_log().add_line(format!(" {} begins", action.as_str()));
        self.inner.on_action_start(action, session);
    }

    fn on_action_end(&mut self, action: Action, session: &Session<'_>) {
        self.inner.on_action_end(action, session);
        let decided = session.decisions().len();
        self.trace
            .lock_log()
            .add_line(format!(" {} ended: {decided} decisions so far", action.as_str()));
    }
}

#[cfg(test)]
mod tests;
