//! A wrapper that records the verdicts of a plugin and behaves like it.

use std::{fmt, sync::Arc};

use schedlab_scheduler_core::{
    Reason,
    framework::{
        Filter, Fit, JobQueue, NodeFilter, NodeScore, Permit, PermitStatus, PostFilter, PreEnqueue,
        PreFilter, QueueSort, Reserve, ResultInputs, Score, Session, Statement,
    },
    model::{NodeId, PodGroupId, PodId},
};

use super::{Trace, group_name, node_name, pod_name};

pub(super) struct TracedPlugin<P: ?Sized> {
    plugin: Arc<P>,
    trace: Trace,
    name: String,
}

impl<P: ?Sized + fmt::Debug> TracedPlugin<P> {
    pub(super) fn wrap(plugin: &Arc<P>, trace: &Trace) -> Arc<Self> {
        let name = format!("{plugin:?}");
        Arc::new(Self { plugin: Arc::clone(plugin), trace: trace.clone(), name })
    }

    fn record(&self, point: &'static str, subject: &str, verdict: &str) {
        self.trace.record(point, &self.name, subject, verdict);
    }
}

impl<P: ?Sized + fmt::Debug> fmt::Debug for TracedPlugin<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plugin.fmt(f)
    }
}

/// The text of a verdict: `passes`, or the error.
fn verdict_text<E: fmt::Display>(answer: &Result<(), E>) -> String {
    answer.as_ref().map_or_else(ToString::to_string, |()| "passes".to_owned())
}

impl PreEnqueue for TracedPlugin<dyn PreEnqueue> {
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason> {
        let answer = self.plugin.pre_enqueue(session, group);
        self.record("PreEnqueue", &group_name(session, group), &verdict_text(&answer));
        answer
    }
}

impl QueueSort for TracedPlugin<dyn QueueSort> {
    fn new_queue(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn JobQueue> {
        let (trace, name) = (self.trace.clone(), self.name.clone());
        Box::new(TracedJobQueue { line: self.plugin.new_queue(session, groups), trace, name })
    }
}

struct TracedJobQueue {
    line: Box<dyn JobQueue>,
    trace: Trace,
    name: String,
}

impl TracedJobQueue {
    fn record(&self, session: &Session<'_>, group: PodGroupId, verdict: &str) {
        self.trace.record("QueueSort", &self.name, &group_name(session, group), verdict);
    }
}

impl JobQueue for TracedJobQueue {
    fn next_over_share(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        self.line.next_over_share(session)
    }

    fn remove_group(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.line.remove_group(session, group);
        self.record(session, group, "is removed");
    }

    fn pop_next_group(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        let next = self.line.pop_next_group(session);
        if let Some(group) = next {
            self.record(session, group, "is next");
        }
        next
    }

    fn push_group(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.line.push_group(session, group);
    }

    fn on_allocated(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.line.on_allocated(session, group);
    }
}

impl PreFilter for TracedPlugin<dyn PreFilter> {
    fn pre_filter(
        &self,
        session: &Session<'_>,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Result<(), Reason> {
        let answer = self.plugin.pre_filter(session, group, pods);
        let subject = format!("{} of {}", pods.len(), group_name(session, group));
        self.record("PreFilter", &subject, &verdict_text(&answer));
        answer
    }
}

impl Filter for TracedPlugin<dyn Filter> {
    fn result_depends_on(&self) -> ResultInputs {
        self.plugin.result_depends_on()
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let filter = self.plugin.pre_filter(session, pod)?;
        let (trace, name, subject) =
            (self.trace.clone(), self.name.clone(), pod_name(session, pod));
        Some(Box::new(move |node| {
            let answer = filter(node);
            let verdict = match &answer {
                Ok(Fit::Now) => "passes".to_owned(),
                Ok(Fit::Later) => "passes once other pods have left".to_owned(),
                Err(misfit) => misfit.to_string(),
            };
            trace.record_node("Filter", &name, &subject, node_name(session, node), &verdict);
            answer
        }))
    }
}

impl PostFilter for TracedPlugin<dyn PostFilter> {
    fn post_filter(&self, statement: &mut Statement<'_>, pod: PodId, reason: Reason) -> Reason {
        let subject = pod_name(statement, pod);
        let answer = self.plugin.post_filter(statement, pod, reason);
        self.record("PostFilter", &subject, &answer.to_string());
        answer
    }
}

impl Score for TracedPlugin<dyn Score> {
    fn result_depends_on(&self) -> ResultInputs {
        self.plugin.result_depends_on()
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        self.plugin.applies_to_pod(session, pod)
    }

    fn pre_score<'a>(
        &self,
        session: &'a Session<'_>,
        pod: PodId,
        feasible: &[NodeId],
    ) -> NodeScore<'a> {
        let score = self.plugin.pre_score(session, pod, feasible);
        let (trace, name, subject) =
            (self.trace.clone(), self.name.clone(), pod_name(session, pod));
        Box::new(move |node| {
            let points = score(node);
            let node = node_name(session, node);
            trace.record_node("Score", &name, &subject, node, &points.to_string());
            points
        })
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        self.plugin.normalize_score(scores);
    }
}

impl Reserve for TracedPlugin<dyn Reserve> {
    fn reserve(&self, statement: &mut Statement<'_>, pod: PodId, node: NodeId, fits: Fit) {
        let subject = pod_name(statement, pod);
        let verdict = match fits {
            Fit::Now => format!("is allocated to {}", node_name(statement, node)),
            Fit::Later => format!("is pipelined to {}", node_name(statement, node)),
        };
        self.plugin.reserve(statement, pod, node, fits);
        self.record("Reserve", &subject, &verdict);
    }
}

impl Permit for TracedPlugin<dyn Permit> {
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> PermitStatus {
        let answer = self.plugin.permit(session, pods);
        let verdict = match answer {
            PermitStatus::Allow => "allow",
            PermitStatus::Wait => "waits until all pods of the group are allowed",
        };
        let first = pods.first().map(|pod| pod_name(session, *pod)).unwrap_or_default();
        let subject = match pods.len() {
            0 | 1 => first,
            several => format!("{first} and {} more", several - 1),
        };
        self.record("Permit", &subject, verdict);
        answer
    }
}
