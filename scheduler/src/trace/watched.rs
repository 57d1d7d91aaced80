//! A plugin whose answers are noted. It answers as the plugin does, and is called as the plugin is.

use std::{fmt, sync::Arc};

use schedlab_scheduler_core::{
    Reason,
    framework::{
        DependsOn, Filter, Line, NodeFilter, NodeScore, Permission, Permit, PostFilter, PreEnqueue,
        PreFilter, QueueSort, Reserve, Score,
    },
    model::{NodeId, PodGroupId, PodId},
    session::{Fits, Session},
};

use super::{Trace, group_name, node_name, pod_name};

pub(super) struct Watched<P: ?Sized> {
    plugin: Arc<P>,
    trace: Trace,
    name: String,
}

impl<P: ?Sized + fmt::Debug> Watched<P> {
    pub(super) fn arc(plugin: &Arc<P>, trace: &Trace) -> Arc<Self> {
        let name = format!("{plugin:?}");
        Arc::new(Self { plugin: Arc::clone(plugin), trace: trace.clone(), name })
    }

    fn says(&self, point: &'static str, subject: &str, verdict: &str) {
        self.trace.says((point, &self.name), subject, verdict);
    }
}

impl<P: ?Sized + fmt::Debug> fmt::Debug for Watched<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plugin.fmt(f)
    }
}

/// `passes`, or why not.
fn shown<E: fmt::Display>(answer: &Result<(), E>) -> String {
    answer.as_ref().map_or_else(ToString::to_string, |()| "passes".to_owned())
}

impl PreEnqueue for Watched<dyn PreEnqueue> {
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason> {
        let answer = self.plugin.pre_enqueue(session, group);
        self.says("PreEnqueue", &group_name(session, group), &shown(&answer));
        answer
    }
}

impl QueueSort for Watched<dyn QueueSort> {
    fn line_up(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn Line> {
        let (trace, name) = (self.trace.clone(), self.name.clone());
        Box::new(WatchedLine { line: self.plugin.line_up(session, groups), trace, name })
    }
}

struct WatchedLine {
    line: Box<dyn Line>,
    trace: Trace,
    name: String,
}

impl WatchedLine {
    fn says(&self, session: &Session<'_>, group: PodGroupId, verdict: &str) {
        self.trace.says(("QueueSort", &self.name), &group_name(session, group), verdict);
    }
}

impl Line for WatchedLine {
    fn reaching(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        self.line.reaching(session)
    }

    fn remove(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.line.remove(session, group);
        self.says(session, group, "steps aside");
    }

    fn pop(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        let next = self.line.pop(session);
        if let Some(group) = next {
            self.says(session, group, "is next");
        }
        next
    }

    fn push(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.line.push(session, group);
    }

    fn served(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.line.served(session, group);
    }
}

impl PreFilter for Watched<dyn PreFilter> {
    fn pre_filter(
        &self,
        session: &Session<'_>,
        group: PodGroupId,
        pods: &[PodId],
    ) -> Result<(), Reason> {
        let answer = self.plugin.pre_filter(session, group, pods);
        let subject = format!("{} of {}", pods.len(), group_name(session, group));
        self.says("PreFilter", &subject, &shown(&answer));
        answer
    }
}

impl Filter for Watched<dyn Filter> {
    fn depends_on(&self) -> DependsOn {
        self.plugin.depends_on()
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let filter = self.plugin.pre_filter(session, pod)?;
        let (trace, name, subject) =
            (self.trace.clone(), self.name.clone(), pod_name(session, pod));
        Some(Box::new(move |node| {
            let answer = filter(node);
            let verdict = match &answer {
                Ok(Fits::Now) => "passes".to_owned(),
                Ok(Fits::Later) => "passes, once others have left".to_owned(),
                Err(misfit) => misfit.to_string(),
            };
            let answered = (node_name(session, node), &*verdict);
            trace.says_of_node(("Filter", &name), &subject, answered);
            answer
        }))
    }
}

impl PostFilter for Watched<dyn PostFilter> {
    fn post_filter(&self, session: &mut Session<'_>, pod: PodId, reason: Reason) -> Reason {
        let subject = pod_name(session, pod);
        let answer = self.plugin.post_filter(session, pod, reason);
        self.says("PostFilter", &subject, &answer.to_string());
        answer
    }
}

impl Score for Watched<dyn Score> {
    fn depends_on(&self) -> DependsOn {
        self.plugin.depends_on()
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        self.plugin.applies(session, pod)
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
            let answered = (node_name(session, node), &*points.to_string());
            trace.says_of_node(("Score", &name), &subject, answered);
            points
        })
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        self.plugin.normalize_score(scores);
    }
}

impl Reserve for Watched<dyn Reserve> {
    fn reserve(&self, session: &mut Session<'_>, pod: PodId, node: NodeId, fits: Fits) {
        let subject = pod_name(session, pod);
        let verdict = match fits {
            Fits::Now => format!("has room on {}", node_name(session, node)),
            Fits::Later => format!("is promised room on {}", node_name(session, node)),
        };
        self.plugin.reserve(session, pod, node, fits);
        self.says("Reserve", &subject, &verdict);
    }
}

impl Permit for Watched<dyn Permit> {
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> Permission {
        let answer = self.plugin.permit(session, pods);
        let verdict = match answer {
            Permission::Go => "may go",
            Permission::WaitTogether => "wait until all can go",
        };
        let first = pods.first().map(|pod| pod_name(session, *pod)).unwrap_or_default();
        let subject = match pods.len() {
            0 | 1 => first,
            several => format!("{first} and {} more", several - 1),
        };
        self.says("Permit", &subject, verdict);
        answer
    }
}
