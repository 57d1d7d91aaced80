//! Are the rules kept? Judges a history of facts about a cluster, written independently of how
//! plans are made: it shares no arithmetic, no accounts and no order with the scheduler, or it
//! would share its errors. Facts are told one at a time, each costs what it changes, and what
//! is broken is a [`Breach`] with the rule, the moment, the object and the numbers.
//!
//! Two ways in: [`Auditor`] for whoever watches a cluster, [`breaches_of`] for one snapshot and
//! the plan made of it. Judged are decisions at their moment, not later states: a quota may be
//! edited below its use. What else changed within the same moment may not have been seen by
//! the scheduler yet, so a decision is right if it was right before or after that change.

mod accounts;
mod binding;
mod breach;
mod eviction;
mod gang;
mod plan;
mod sharing;
mod view;
mod zones;

use std::{collections::BTreeSet, time::Duration};

use crate::model::{Name, Time};
use accounts::Accounts;
pub use breach::{Breach, Concern, Rule};
pub use eviction::{Eviction, Why};
use gang::Open;
pub use plan::breaches_of;
pub use view::{
    Amounts, ClaimView, GroupView, NodeView, Part, Phase, PodView, QueueView, SubGroupView, Writer,
};
use view::{Recent, Span, View};

/// Which rules apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// By whose lights.
    pub conduct: Conduct,
    /// Which queues' limits and quotas hold.
    pub bounds: Bounds,
    /// How long a moment is: no two writes of one decision lie further apart, and what changed
    /// before it was seen by the scheduler. Zero under virtual time, where a scheduler's cycle
    /// takes none.
    pub moment: Duration,
}

/// By whose lights a scheduler is judged: the exceptions of each profile, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Profile `kai`: queues, gangs, preemptible victims. Whole gangs may fall below quota when
    /// reclaimed (rule 7 looks before it subtracts), priority protects inside one queue only
    /// (9), victim sets need not be minimal and promises are forgotten each cycle (10, 11, 20).
    Kai,
    /// Profile `kube`: no queues, no gangs, no zones of nodes; every pod of lower priority is a
    /// victim, and a node that is not ready is judged by its taints alone.
    Kube,
}

/// Whose limits and quotas hold for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// Those of its queue and of all above it.
    OfAll,
    /// Those of its queue: queues stand side by side.
    OfItsQueue,
    /// Nobody's: the scheduler goes without them.
    OfNone,
}

impl Rules {
    /// Profile `kai`.
    pub fn kai() -> Self {
        Self { conduct: Conduct::Kai, bounds: Bounds::OfAll, moment: Duration::ZERO }
    }

    /// Profile `kube`.
    pub fn kube() -> Self {
        Self { conduct: Conduct::Kube, bounds: Bounds::OfAll, moment: Duration::ZERO }
    }
}

/// Follows a cluster and judges what its scheduler does.
#[derive(Clone, Debug)]
pub struct Auditor {
    rules: Rules,
    view: View,
    accounts: Accounts,
    /// The time of what was told last.
    now: Time,
    /// Gangs that the scheduler is in the middle of.
    open: Open,
    /// Groups that have been whole since they last were absent: a member that fails later is
    /// no breach.
    started: BTreeSet<Name>,
    breaches: Vec<Breach>,
}

impl Auditor {
    /// An auditor that knows nothing yet. Pods that are first seen bound were bound by others.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            view: View::default(),
            accounts: Accounts::default(),
            now: Time(i64::MIN),
            open: Open::default(),
            started: BTreeSet::new(),
            breaches: Vec::new(),
        }
    }

    /// What is broken so far, in the order in which it was noticed.
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// A node came, changed, or (`None`) went.
    pub fn node(&mut self, at: Time, name: &Name, node: Option<NodeView>) {
        self.advance(at);
        let span = self.span();
        set(&mut self.view.nodes, name, node, span);
    }

    /// A queue came, changed, or (`None`) went.
    pub fn queue(&mut self, at: Time, name: &Name, queue: Option<QueueView>) {
        self.advance(at);
        if self.view.queues.get(name).and_then(|queue| queue.now.as_ref()) == queue.as_ref() {
            return;
        }
        let span = self.span();
        set(&mut self.view.queues, name, queue, span);
        self.accounts.rebuild_queues(&self.view);
    }

    /// A pod group came, changed, or (`None`) went.
    pub fn group(&mut self, at: Time, name: &Name, group: Option<GroupView>) {
        self.advance(at);
        if self.view.groups.get(name).and_then(|group| group.now.as_ref()) == group.as_ref() {
            return;
        }
        self.accounts.charge_group(&self.view, name, accounts::Sign::Minus);
        let span = self.span();
        set(&mut self.view.groups, name, group, span);
        self.accounts.charge_group(&self.view, name, accounts::Sign::Plus);
    }

    /// A pod came, changed, or (`None`) went; `writer` did it.
    pub fn pod(&mut self, at: Time, name: &Name, pod: Option<&PodView>, writer: Writer) {
        self.advance(at);
        let before = match pod {
            Some(pod) => self.view.pods.insert(name.clone(), pod.clone()),
            None => self.view.pods.remove(name),
        };
        self.accounts.pod_changed(&self.view, name, before.as_ref(), pod);
        let before = before.filter(|old| pod.is_none_or(|new| new.uid == old.uid));
        self.judge_pod(name, before.as_ref(), pod, writer);
    }

    /// A claim on devices came, changed, or (`None`) went. Claims that are told of must be
    /// allocated to, and reserved for, whoever is bound with them.
    pub fn claim(&mut self, at: Time, name: &Name, claim: Option<ClaimView>) {
        self.advance(at);
        let before = match &claim {
            Some(claim) => self.view.claims.insert(name.clone(), claim.clone()),
            None => self.view.claims.remove(name),
        };
        sharing::judge_claim(self, name, &before.unwrap_or_default(), &claim.unwrap_or_default());
    }

    /// The scheduler gave its cause for an eviction.
    pub fn evicted_for(&mut self, at: Time, eviction: &Eviction) {
        self.advance(at);
        eviction::judge_cause(self, eviction);
        if eviction.why == Why::Consolidate {
            gang::note_moved(self, &eviction.pod);
        }
    }

    /// A queue's status says that so much of it is used, in all and by work that cannot be
    /// evicted. Told when nothing has been moving for a while; it must be what pods add up to.
    pub fn queue_status(&mut self, at: Time, name: &Name, allocated: &Amounts) {
        self.advance(at);
        accounts::judge_status(self, name, allocated);
    }

    /// Time has come to `at`, whatever else happened.
    pub fn passed(&mut self, at: Time) {
        self.advance(at);
    }

    /// The scheduler tells how many cycles it has ended: what it has written until now belongs to
    /// them or to the next one.
    pub fn cycles_ended(&mut self, cycles: u64) {
        self.open.cycles = Some(cycles);
    }

    /// The scheduler was killed just now, perhaps in the middle of a transaction.
    pub fn scheduler_killed(&mut self, at: Time) {
        self.advance(at);
        self.open.cut_short(self.now);
    }

    /// Nothing has been moving for a while, with a scheduler that has had its say: no gang may
    /// be half there now.
    pub fn at_rest(&mut self, at: Time) {
        self.advance(at);
        self.close_moments();
        gang::judge_rest(self);
    }

    fn judge_pod(
        &mut self,
        name: &Name,
        before: Option<&PodView>,
        after: Option<&PodView>,
        writer: Writer,
    ) {
        if let (Some(before), Some(after)) = (before, after) {
            binding::judge(self, name, before, after);
        }
        eviction::judge(self, name, before, after, writer);
        gang::note(self, before, after, writer);
    }

    /// Time has come to `at`: what the scheduler has not touched for a moment is judged.
    fn advance(&mut self, at: Time) {
        if at <= self.now {
            return;
        }
        let due = self.open.due(at, self.rules.moment);
        self.judge_gangs(&due);
        self.now = at;
    }

    /// Nothing more comes of what was begun.
    fn close_moments(&mut self) {
        let due = self.open.all();
        self.judge_gangs(&due);
    }

    fn judge_gangs(&mut self, due: &Open) {
        match self.rules.conduct {
            Conduct::Kai => gang::judge(self, due),
            Conduct::Kube => {}
        }
    }

    /// From now to where the scheduler has seen what changes now.
    fn span(&self) -> Span {
        Span { from: self.now, until: self.now.after(self.rules.moment) }
    }

    fn breach(&mut self, rule: Rule, concerns: Vec<Concern>, detail: String) {
        self.breaches.push(Breach { rule, at: self.now, concerns, detail });
    }
}

fn set<T>(
    map: &mut std::collections::BTreeMap<Name, Recent<T>>,
    name: &Name,
    value: Option<T>,
    span: Span,
) {
    map.entry(name.clone()).or_default().set(value, span);
}
