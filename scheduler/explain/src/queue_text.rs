//! The text form of queue explanations.

use std::{collections::BTreeMap, fmt};

use super::{QueueBalance, QueueExplanation, VictimCandidate, text::account_lines};
use schedlab_scheduler_core::{
    Decision, Snapshot,
    model::{Name, PodGroupId, QueueId},
    queues::fairshare::{DivisionStep, LevelDivision, QueueDemand},
    reason::Quantity,
    resources::{Amount, ResourceName},
};

/// Maximum number of printed candidates for eviction.
const PRINTED_CANDIDATES_MAX: usize = 10;

/// Prints the explanation of a queue, with names from the snapshot.
#[derive(Clone, Copy, Debug)]
pub struct QueueExplanationText<'a> {
    /// The snapshot that the explanation is about.
    pub snapshot: &'a Snapshot,
    /// The explanation that is printed.
    pub explanation: &'a QueueExplanation,
}

impl fmt::Display for QueueExplanationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let QueueExplanation { queue, accounts, reclaimable, eviction_order, .. } =
            self.explanation;
        let parent = accounts[queue.0 as usize].parent;
        let above = parent
            .map_or_else(String::new, |parent| format!(", child of {}", self.queue_name(parent)));
        writeln!(f, "queue {}{above}", self.queue_name(*queue))?;
        for line in account_lines(&accounts[queue.0 as usize]) {
            writeln!(f, "  {line}")?;
        }
        for (at, resource) in ResourceName::ACCOUNTED.iter().enumerate() {
            if at == 0 || self.is_bounded_by_any_queue(at) {
                self.fmt_derivation(f, resource, &self.explanation.derivations[at])?;
            }
        }
        self.fmt_all_queue_balances(f)?;
        let extra = self.explanation.extra_request.with_unit();
        let title =
            format!("with {extra} more requested, these pods could be reclaimed, in this order");
        self.fmt_candidates(f, &title, reclaimable)?;
        self.fmt_candidates(f, "if others reclaim, these pods are evicted first", eviction_order)?;
        self.fmt_evictions(f)
    }
}

impl QueueExplanationText<'_> {
    /// Whether any queue has a quota or limit for the resource; otherwise shares of it are
    /// meaningless.
    fn is_bounded_by_any_queue(&self, resource_index: usize) -> bool {
        self.explanation.accounts.iter().any(|account| {
            account.quota.values()[resource_index] != Amount::Unlimited
                || account.limit.values()[resource_index] != Amount::Unlimited
        })
    }

    fn fmt_derivation(
        &self,
        f: &mut fmt::Formatter<'_>,
        resource: &ResourceName,
        levels: &[LevelDivision],
    ) -> fmt::Result {
        let unit = Quantity { resource: resource.clone(), amount: 0 };
        writeln!(f, "\nfair share of {}, step by step", unit.unit_name())?;
        let path: Vec<QueueId> = std::iter::successors(Some(self.explanation.queue), |at| {
            self.explanation.accounts[at.0 as usize].parent
        })
        .collect();
        let mut above = path.iter().rev();
        let mut divided: Name = "the cluster".into();
        for level in levels {
            level_lines(f, resource, &divided, level)?;
            if let Some(queue) = above.next() {
                divided = Name::clone(self.queue_name(*queue));
            }
        }
        Ok(())
    }

    /// Writes which queues of the whole tree borrow capacity and which are starved.
    fn fmt_all_queue_balances(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nall queues")?;
        let accounts = self.explanation.accounts.iter().zip(0..);
        let lines: Vec<String> = accounts
            .flat_map(|(account, at)| {
                let name = self.queue_name(QueueId(at));
                let balances = QueueBalance::new(account).into_iter().zip(&ResourceName::ACCOUNTED);
                balances.flat_map(|(balance, resource)| balance_lines(name, balance, resource))
            })
            .flatten()
            .collect();
        if lines.is_empty() {
            writeln!(f, "  no queue borrows or is starved")?;
        }
        lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }

    fn fmt_candidates(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        candidates: &[VictimCandidate],
    ) -> fmt::Result {
        writeln!(f, "\n{title}")?;
        if candidates.is_empty() {
            writeln!(f, "  none")?;
        }
        let is_equal = |a: &VictimCandidate, b: &VictimCandidate| {
            (a.group, a.is_elastic, a.pods.len()) == (b.group, b.is_elastic, b.pods.len())
        };
        let mut shown = 0;
        for same in candidates.chunk_by(is_equal).take(PRINTED_CANDIDATES_MAX) {
            let VictimCandidate { queue, group, pods, is_elastic } = &same[0];
            let kind = match (is_elastic, same.len()) {
                (true, 1) => "above the minimum of an elastic job".to_owned(),
                (true, times) => {
                    format!("above the minimum of an elastic job, {times} such entries in a row")
                }
                (false, _) => "the job's minimum".to_owned(),
            };
            let (group, queue) = (self.group_name(*group), self.queue_name(*queue));
            writeln!(f, "  {group} of queue {queue}: {}, {kind}", pod_count_text(pods.len()))?;
            shown += same.len();
        }
        match candidates.len() - shown {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }

    fn fmt_evictions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts: BTreeMap<(String, String, &str), u32> = BTreeMap::new();
        for decision in &self.explanation.evictions {
            if let Decision::Evict { pod, cause } = decision {
                let of = |group: PodGroupId| self.group_name(group);
                let group = self.snapshot.pods[pod.0 as usize].group.map(of);
                let preemptor =
                    cause.preemptor().map_or_else(String::new, |it| format!(" for {}", of(it)));
                *counts
                    .entry((group.unwrap_or_default(), preemptor, cause.kai_action_name()))
                    .or_default() += 1;
            }
        }
        if !counts.is_empty() {
            writeln!(f, "\nthe next cycle evicts")?;
        }
        for ((group, preemptor, action), pods) in counts {
            writeln!(f, "  {} of {group}{preemptor} ({action})", pod_count_text(pods as usize))?;
        }
        Ok(())
    }

    fn queue_name(&self, queue: QueueId) -> &Name {
        &self.snapshot.queues[queue.0 as usize].name
    }

    fn group_name(&self, group: PodGroupId) -> String {
        let group = &self.snapshot.pod_groups[group.0 as usize];
        format!("{}/{}", group.namespace, group.name)
    }
}

fn balance_lines(
    name: &Name,
    balance: QueueBalance,
    resource: &ResourceName,
) -> [Option<String>; 2] {
    let line = |amount: i64, what: &str, why: &str| {
        let of = Quantity { resource: resource.clone(), amount };
        (amount > 0).then(|| format!("{name} {what} {} ({why})", of.with_unit()))
    };
    [
        line(balance.borrows, "borrows", "use over quota"),
        line(balance.starved_of, "is starved of", "requested within its fair share"),
    ]
}

fn level_lines(
    f: &mut fmt::Formatter<'_>,
    resource: &ResourceName,
    divided: &Name,
    level: &LevelDivision,
) -> fmt::Result {
    let of = |amount| Quantity { resource: resource.clone(), amount };
    let names: Vec<&str> = level.demands.iter().map(|demand| &*demand.name).collect();
    writeln!(f, "  {divided} has {} for {}", of(level.input.total).with_unit(), names.join(", "))?;
    let is_relevant =
        |step: &&DivisionStep| !matches!(step, DivisionStep::Remainder { granted: 0, .. });
    for step in level.steps.iter().filter(is_relevant) {
        writeln!(f, "    {}", step_line(step, &level.demands, of))?;
    }
    let shares = level.demands.iter().zip(&level.shares);
    let shares =
        shares.map(|(demand, share)| format!("{} {}", demand.name, of(*share).amount_in_unit()));
    writeln!(f, "    fair shares: {}", shares.collect::<Vec<_>>().join(", "))
}

fn pod_count_text(pods: usize) -> String {
    if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") }
}

fn step_line(
    step: &DivisionStep,
    demands: &[QueueDemand],
    to_quantity: impl Fn(i64) -> Quantity,
) -> String {
    let bound = |amount: Amount| match amount {
        Amount::Exactly(amount) => to_quantity(amount).amount_in_unit(),
        Amount::Unlimited => "unlimited".to_owned(),
    };
    match step {
        DivisionStep::Quota { queue, granted } => {
            let demand = &demands[*queue];
            format!(
                "{} requests {} (quota {}, limit {}) and gets {} of its quota",
                demand.name,
                to_quantity(demand.request).amount_in_unit(),
                bound(demand.quota),
                bound(demand.limit),
                to_quantity(*granted).amount_in_unit()
            )
        }
        DivisionStep::Surplus { amount } if *amount < 0 => {
            "the quotas exceed the total: nothing is left over".to_owned()
        }
        DivisionStep::Surplus { amount } => {
            format!(
                "{} left over",
                to_quantity(i64::try_from(*amount).unwrap_or(i64::MAX)).with_unit()
            )
        }
        DivisionStep::SurplusShare { queue, round, surplus, want, granted } => {
            let demand = &demands[*queue];
            let weight = Quantity { resource: ResourceName::Gpu, amount: demand.weight_milli };
            let usage = match demand.usage_micro {
                0 => String::new(),
                micro => format!(", past usage {} % of the cluster", micro / 10_000),
            };
            format!(
                "priority {}, round {round}: of {}, {} (weight {}{usage}) wants {} and gets {}",
                demand.priority,
                to_quantity(*surplus).amount_in_unit(),
                demand.name,
                weight.amount_in_unit(),
                to_quantity(*want).amount_in_unit(),
                to_quantity(*granted).amount_in_unit()
            )
        }
        DivisionStep::Remainder { queue, granted } => {
            format!(
                "rounding gives {} more to {}",
                to_quantity(*granted).amount_in_unit(),
                demands[*queue].name
            )
        }
    }
}
