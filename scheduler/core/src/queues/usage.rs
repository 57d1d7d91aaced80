//! What a queue uses of what it deserves, in words: for those whose work is evicted. The text
//! follows KAI's, since people and dashboards match it.

use super::{Account, Ledger, reclaim::diverging};
use crate::{
    decision::Decimal,
    model::{Queue, QueueId},
    resources::{Amount, PerResource},
};

/// A line on the victim's queue and one on the reclaimer's, or on the queues above them where
/// those differ.
pub fn usage_lines(
    ledger: &Ledger,
    queues: &[Queue],
    (reclaimer, victim): (QueueId, QueueId),
) -> String {
    let (reclaimer, victim) = diverging(ledger, reclaimer, victim).unwrap_or((reclaimer, victim));
    let line = |queue: QueueId| usage(&queues[queue.0 as usize], ledger.account(queue));
    format!("{}\n{}", line(victim), line(reclaimer))
}

fn usage(queue: &Queue, account: &Account) -> String {
    format!(
        "{} uses {} with a quota of {}, fair-share of {} and queue priority of <{}>.",
        queue.name,
        listed(account.allocated.map(Amount::Exactly)),
        listed(account.quota),
        listed(account.fair_share.map(Amount::Exactly)),
        queue.priority
    )
}

fn listed(amounts: PerResource<Amount>) -> String {
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
