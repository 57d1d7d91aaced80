//! What a queue uses of what it deserves, in words: for those whose work is evicted.

use std::fmt::Write;

use super::{Ledger, reclaim::diverging};
use crate::{
    model::{Queue, QueueId},
    resources::{Amount, PerResource},
};

/// A line on the victim's queue and one on the reclaimer's, or on the queues above them where
/// those differ, of what `asked` asks for.
pub fn usage_lines(
    ledger: &Ledger,
    queues: &[Queue],
    (reclaimer, victim): (QueueId, QueueId),
    asked: PerResource<i64>,
) -> String {
    let (reclaimer, victim) = diverging(ledger, reclaimer, victim).unwrap_or((reclaimer, victim));
    let line = |queue| usage(ledger, queues, queue, asked);
    format!("{}; {}", line(victim), line(reclaimer))
}

/// `queue a uses 6 GPUs (quota 2, fair share 4)`.
fn usage(ledger: &Ledger, queues: &[Queue], queue: QueueId, asked: PerResource<i64>) -> String {
    let account = ledger.account(queue);
    let (used, quota, fair) =
        (account.allocated.values(), account.quota.values(), account.fair_share.values());
    let mut text = format!("queue {} uses", queues[queue.0 as usize].name);
    let mut separator = "";
    for (at, kind) in KINDS.iter().enumerate().filter(|(at, _)| asked.values()[*at] > 0) {
        let quota = match quota[at] {
            Amount::Exactly(quota) => (kind.number)(quota),
            Amount::Unlimited => "unlimited".to_owned(),
        };
        let (used, fair) = ((kind.number)(used[at]), (kind.number)(fair[at]));
        let _ = write!(text, "{separator} {used} {} (quota {quota}, fair share {fair})", kind.name);
        separator = ",";
    }
    text
}

/// How a resource is written.
struct Kind {
    name: &'static str,
    number: fn(i64) -> String,
}

const KINDS: [Kind; 3] = [
    Kind { name: "GPUs", number: thousandths },
    Kind { name: "CPUs", number: thousandths },
    Kind { name: "GiB memory", number: gibibytes },
];

fn thousandths(milli: i64) -> String {
    decimal(milli / 1000, milli % 1000)
}

fn gibibytes(bytes: i64) -> String {
    const GIB: i64 = 1 << 30;
    decimal(
        bytes / GIB,
        i64::try_from(i128::from(bytes % GIB) * 1000 / i128::from(GIB)).unwrap_or(0),
    )
}

fn decimal(whole: i64, thousandths: i64) -> String {
    if thousandths == 0 {
        return whole.to_string();
    }
    format!("{whole}.{:03}", thousandths.abs()).trim_end_matches('0').to_owned()
}
