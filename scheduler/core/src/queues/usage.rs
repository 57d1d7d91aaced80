//! The usage lines of eviction events. The text follows KAI's, since users and dashboards match it.

use super::{Account, QueueAccounts, reclaim::diverging_queues};
use crate::{
    model::{Queue, QueueId},
    reason::Decimal,
    resources::{Amount, PerResource},
};

/// The usage lines of an eviction event: one line on the victim's queue and one on the reclaimer's
/// queue, or on their ancestors just below the lowest common one.
pub fn queue_usage_lines(
    accounts: &QueueAccounts,
    queues: &[Queue],
    reclaimer: QueueId,
    victim: QueueId,
) -> String {
    let (reclaimer, victim) =
        diverging_queues(accounts, reclaimer, victim).unwrap_or((reclaimer, victim));
    let line =
        |queue: QueueId| queue_usage_line(&queues[queue.0 as usize], accounts.account(queue));
    format!("{}\n{}", line(victim), line(reclaimer))
}

fn queue_usage_line(queue: &Queue, account: &Account) -> String {
    format!(
        "{} uses {} with a quota of {}, fair-share of {} and queue priority of <{}>.",
        queue.name,
        format_amounts(account.allocated.map(Amount::Exactly)),
        format_amounts(account.quota),
        format_amounts(account.fair_share.map(Amount::Exactly)),
        queue.priority
    )
}

fn format_amounts(amounts: PerResource<Amount>) -> String {
    let written = |amount: Amount, per_unit: i64| match amount {
        Amount::Exactly(amount) => Decimal { amount, per_unit }.to_string(),
        Amount::Unlimited => "Unlimited".to_owned(),
    };
    format!(
        "<GPU: {}, CPU: {} (cores), memory: {} (GB)>",
        written(amounts.gpu, 1000),
        written(amounts.cpu, 1000),
        written(amounts.memory, 1_000_000_000)
    )
}
