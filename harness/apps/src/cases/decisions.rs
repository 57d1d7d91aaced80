//! Single decisions with all their inputs: division of capacity, start of reclaim, victim
//! acceptance, queue order. Each is computed by the core directly.

use std::{cmp::Ordering, collections::BTreeMap};

use schedlab_api::Value;
use schedlab_scheduler_core::{
    model::{QueueId, Time},
    queues::fairshare::{DivisionInput, QueueDemand, divide_resource},
    queues::{
        Account, QueueAccounts,
        queue_key::QueueKey,
        reclaim::{Reclaimer, Victims},
    },
    resources::{Amount, PerResource},
};
use serde::Deserialize;

use super::read;

/// Represents an unlimited amount. It is small enough that the sum of several does not overflow.
const UNLIMITED: i64 = i64::MAX / 1024;

/// One decision that KAI made in a recording, with its inputs.
#[derive(Clone, Debug)]
pub(super) enum DecisionCase {
    /// How an amount is divided among sibling queues.
    Division(FairShareDivision),
    /// Which of two sibling queues is served first.
    Order(Box<QueueOrderDecision>),
    /// Whether this job may reclaim from these victims.
    Reclaimable(ReclaimVictimsDecision),
    /// Whether this job may start reclaiming.
    CanReclaim(StartReclaimDecision),
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct FairShareDivision {
    resource: ResourceName,
    total: f64,
    k_value: f64,
    queues: BTreeMap<String, DividedQueue>,
    fair_share: BTreeMap<String, f64>,
    remaining: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum ResourceName {
    #[serde(rename = "GPU")]
    Gpu,
    #[serde(rename = "CPU")]
    Cpu,
    Memory,
}

#[derive(Clone, Debug, Deserialize)]
struct DividedQueue {
    priority: i32,
    creation: i64,
    deserved: f64,
    limit: f64,
    over_quota_weight: f64,
    #[serde(default)]
    usage: f64,
    request: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct QueueOrderDecision {
    left: ComparedQueue,
    right: ComparedQueue,
    /// The total amounts of the cluster; absent or null means unlimited.
    #[serde(default)]
    total: Option<ResourceAmounts>,
    result: i8,
}

#[derive(Clone, Debug, Deserialize)]
struct ComparedQueue {
    #[serde(flatten)]
    account: QueueAccount,
    #[serde(default)]
    job_request: Option<ResourceAmounts>,
    #[serde(default)]
    victims: Option<Vec<ResourceAmounts>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ReclaimVictimsDecision {
    queues: BTreeMap<String, QueueAccount>,
    reclaimer: ReclaimRequest,
    victims: BTreeMap<String, Vec<ResourceAmounts>>,
    saturation_multiplier: f64,
    result: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StartReclaimDecision {
    queues: BTreeMap<String, QueueAccount>,
    reclaimer: ReclaimRequest,
    result: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct ReclaimRequest {
    queue: String,
    preemptible: bool,
    requested: ResourceAmounts,
}

#[derive(Clone, Debug, Deserialize)]
struct QueueAccount {
    #[serde(default)]
    parent: String,
    priority: i32,
    #[serde(default)]
    creation: i64,
    #[serde(rename = "GPU")]
    gpu: QueueResourceAccount,
    #[serde(rename = "CPU")]
    cpu: QueueResourceAccount,
    #[serde(rename = "Memory")]
    memory: QueueResourceAccount,
}

/// The amounts of a queue for one resource.
#[derive(Clone, Copy, Debug, Deserialize)]
struct QueueResourceAccount {
    allocated: f64,
    #[serde(default)]
    allocated_non_preemptible: f64,
    deserved: f64,
    fair_share: f64,
    limit: f64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct ResourceAmounts {
    #[serde(rename = "GPU", default)]
    gpu: f64,
    #[serde(rename = "CPU", default)]
    cpu: f64,
    #[serde(rename = "Memory", default)]
    memory: f64,
}

impl DecisionCase {
    /// Parses a decision. The fields that are present determine its kind.
    pub(super) fn parse(value: Value) -> Result<Self, String> {
        let has = |field: &str| value.get(field).is_some();
        if has("left") {
            return read::deserialize(value).map(Box::new).map(Self::Order);
        }
        if has("fair_share") {
            return read::deserialize(value).map(Self::Division);
        }
        let entry = if has("victims") {
            read::deserialize(value).map(Self::Reclaimable)
        } else {
            read::deserialize(value).map(Self::CanReclaim)
        }?;
        entry.parent_cycle().map_or(Ok(entry), Err)
    }

    /// The message about queues whose parents form a cycle; `None` if there is no cycle.
    fn parent_cycle(&self) -> Option<String> {
        let (Self::Reclaimable(ReclaimVictimsDecision { queues, .. })
        | Self::CanReclaim(StartReclaimDecision { queues, .. })) = self
        else {
            return None;
        };
        let above = queues.iter().map(|(name, queue)| (name.as_str(), Some(&*queue.parent)));
        read::parent_cycle_message(&above.collect())
    }

    /// How the core's decision differs from the recorded one; `None` when it does not.
    pub(super) fn difference_from_recording(&self) -> Option<String> {
        match self {
            Self::Division(division) => division.difference_from_recording(),
            Self::Order(order) => value_difference(&order.decided_order(), &order.result),
            Self::Reclaimable(entry) => entry.difference_from_recording(),
            Self::CanReclaim(entry) => entry.difference_from_recording(),
        }
    }
}

fn value_difference<T: PartialEq + std::fmt::Display>(decided: &T, recorded: &T) -> Option<String> {
    (decided != recorded).then(|| format!("got {decided}, expected {recorded}"))
}

impl FairShareDivision {
    fn difference_from_recording(&self) -> Option<String> {
        let unit = match self.resource {
            ResourceName::Gpu => 1000,
            ResourceName::Cpu | ResourceName::Memory => 1,
        };
        let of_unit = |value: f64| round_to_i64(value * f64::from(unit));
        let bound = |value: f64| limit_amount(value, f64::from(unit));
        let scale = self.weight_scale();
        let demands: Vec<QueueDemand> = self
            .queues
            .iter()
            .map(|(name, queue)| QueueDemand {
                name: name.as_str().into(),
                priority: queue.priority,
                created: Time(queue.creation),
                quota: bound(queue.deserved),
                limit: bound(queue.limit),
                weight_milli: round_to_i64(queue.over_quota_weight * scale),
                usage_micro: round_to_i64(queue.usage * 1e6),
                request: of_unit(queue.request),
            })
            .collect();
        let total = of_unit(self.total);
        let pot = DivisionInput {
            total,
            unit: i64::from(unit),
            k_value_milli: round_to_i64(self.k_value * 1000.0),
        };
        let division = divide_resource(pot, &demands);
        let share = |name: &String| of_unit(self.fair_share.get(name).copied().unwrap_or(0.0));
        let expected: Vec<i64> = self.queues.keys().map(share).collect();
        let rest = of_unit(self.remaining);
        let (shares, left) = (division.shares, division.rest);
        let mut pairs = shares.iter().zip(&expected).chain([(&left, &rest)]);
        let is_other =
            pairs.any(|(decided, recorded)| exceeds_rounding(total, *decided, *recorded));
        is_other.then(|| {
            format!("got shares {shares:?} and rest {left}, expected shares {expected:?} and rest {rest}")
        })
    }

    /// The factor that makes all weights whole numbers: 1000, or 1000000 if a weight has more than
    /// three decimals. Only the ratio of weights matters.
    fn weight_scale(&self) -> f64 {
        let in_thousandths = |weight: f64| (weight * 1e3 - (weight * 1e3).round()).abs() < 1e-9;
        let coarse = self.queues.values().all(|queue| in_thousandths(queue.over_quota_weight));
        if coarse { 1e3 } else { 1e6 }
    }
}

/// Whether two numbers differ by more than the rounding error of the floating-point sums in
/// recordings.
fn exceeds_rounding(total: i64, decided: i64, recorded: i64) -> bool {
    const EXACT_MAX: i64 = 1 << 53;
    let tolerated = if total > EXACT_MAX { i128::from(total) / 1_000_000_000 } else { 0 };
    (i128::from(decided) - i128::from(recorded)).abs() > tolerated
}

impl QueueOrderDecision {
    /// The core's decision: -1 when the left queue goes first, 1 when the right one does.
    fn decided_order(&self) -> i8 {
        let sides = [&self.left, &self.right];
        let accounts = sides.map(|side| side.account.core_account(None)).to_vec();
        let unlimited = PerResource { gpu: UNLIMITED, cpu: UNLIMITED, memory: UNLIMITED };
        let total = self.total.map_or(unlimited, ResourceAmounts::exact_amounts);
        let accounts = QueueAccounts::from_accounts(accounts, total);
        let standing = |side: &ComparedQueue, at: u32| {
            let job = side.job_request.unwrap_or_default().exact_amounts();
            let victims = side.victims.iter().flatten().map(|victim| victim.exact_amounts());
            let victims = victims.fold(PerResource::default(), PerResource::plus);
            QueueKey::new(&accounts, QueueId(at), job, victims)
        };
        match standing(&self.left, 0).cmp_siblings(&standing(&self.right, 1)) {
            Ordering::Less => -1,
            Ordering::Equal | Ordering::Greater => 1,
        }
    }
}

impl ReclaimVictimsDecision {
    fn difference_from_recording(&self) -> Option<String> {
        let queues = DecisionQueues::from_queues(&self.queues);
        let mut victims = Victims::new();
        for (queue, taken) in &self.victims {
            let Some(queue) = queues.ids.get(queue.as_str()) else {
                return Some(format!("victims: queue {queue} is not among queues"));
            };
            victims.insert(*queue, taken.iter().map(|amount| amount.exact_amounts()).collect());
        }
        let Some(reclaimer) = queues.find_reclaimer(&self.reclaimer) else {
            return Some(unknown_reclaimer_message(&self.reclaimer));
        };
        let saturation_milli = round_to_i64(self.saturation_multiplier * 1000.0);
        let decided = reclaimer.may_reclaim_all(&queues.accounts, &victims, saturation_milli);
        value_difference(&decided, &self.result)
    }
}

impl StartReclaimDecision {
    fn difference_from_recording(&self) -> Option<String> {
        let queues = DecisionQueues::from_queues(&self.queues);
        match queues.find_reclaimer(&self.reclaimer) {
            Some(reclaimer) => {
                value_difference(&reclaimer.may_reclaim(&queues.accounts), &self.result)
            }
            None => Some(unknown_reclaimer_message(&self.reclaimer)),
        }
    }
}

fn unknown_reclaimer_message(claim: &ReclaimRequest) -> String {
    format!("reclaimer: queue {} is not among queues", claim.queue)
}

/// The queues of a recorded decision, with their ids and accounts in the core.
struct DecisionQueues<'a> {
    ids: BTreeMap<&'a str, QueueId>,
    accounts: QueueAccounts,
}

impl<'a> DecisionQueues<'a> {
    fn from_queues(queues: &'a BTreeMap<String, QueueAccount>) -> Self {
        let names = queues.keys().map(String::as_str);
        let ids: BTreeMap<&str, QueueId> =
            names.zip(0..).map(|(name, at)| (name, QueueId(at))).collect();
        let parent = |queue: &QueueAccount| ids.get(queue.parent.as_str()).copied();
        let accounts = queues.values().map(|queue| queue.core_account(parent(queue))).collect();
        let accounts = QueueAccounts::from_accounts(accounts, PerResource::default());
        Self { ids, accounts }
    }

    fn find_reclaimer(&self, claim: &ReclaimRequest) -> Option<Reclaimer> {
        Some(Reclaimer {
            queue: *self.ids.get(claim.queue.as_str())?,
            preemptible: claim.preemptible,
            request: claim.requested.exact_amounts(),
        })
    }
}

impl QueueAccount {
    fn core_account(&self, parent: Option<QueueId>) -> Account {
        let of = |field: fn(&QueueResourceAccount) -> f64| {
            let [gpu, cpu, memory] = [&self.gpu, &self.cpu, &self.memory].map(field);
            ResourceAmounts { gpu, cpu, memory }
        };
        Account {
            parent,
            priority: self.priority,
            created: Time(self.creation),
            quota: of(|queue| queue.deserved).to_bounds(),
            limit: of(|queue| queue.limit).to_bounds(),
            fair_share: of(|queue| queue.fair_share).or_large_if_unlimited(),
            allocated: of(|queue| queue.allocated).exact_amounts(),
            allocated_non_preemptible: of(|queue| queue.allocated_non_preemptible).exact_amounts(),
            requested: PerResource::default(),
        }
    }
}

impl ResourceAmounts {
    fn exact_amounts(self) -> PerResource<i64> {
        PerResource {
            gpu: round_to_i64(self.gpu * 1000.0),
            cpu: round_to_i64(self.cpu),
            memory: round_to_i64(self.memory),
        }
    }

    /// The amounts, with a number larger than any request in place of unlimited ones.
    fn or_large_if_unlimited(self) -> PerResource<i64> {
        self.to_bounds().map(|bound| bound.limit_or(UNLIMITED))
    }

    fn to_bounds(self) -> PerResource<Amount> {
        PerResource {
            gpu: limit_amount(self.gpu, 1000.0),
            cpu: limit_amount(self.cpu, 1.0),
            memory: limit_amount(self.memory, 1.0),
        }
    }
}

/// `value` times `unit`; a `value` of -1 means unlimited.
fn limit_amount(value: f64, unit: f64) -> Amount {
    if (value + 1.0).abs() < f64::EPSILON {
        Amount::Unlimited
    } else {
        Amount::Exactly(round_to_i64(value * unit))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, as recorded maxima need")]
fn round_to_i64(value: f64) -> i64 {
    value.round() as i64
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_share_of_minus_one_is_unlimited() {
        let standing = |fair_share: f64| json!({ "allocated": 0, "deserved": 0, "fair_share": fair_share, "limit": -1 });
        let difference = |fair_share: f64| {
            let amounts = standing(fair_share);
            let entry = DecisionCase::parse(json!({
                "queues": { "q": { "priority": 100, "GPU": amounts, "CPU": amounts, "Memory": amounts } },
                "reclaimer": { "queue": "q", "preemptible": true, "requested": { "GPU": 1 } },
                "result": true,
            }));
            entry.unwrap().difference_from_recording()
        };
        assert_eq!(difference(-1.0), None);
        assert!(difference(0.5).is_some());
    }

    #[test]
    fn a_queue_order_without_total_is_compared_with_an_unlimited_one() {
        let side = |deserved: f64, allocated: f64| {
            let none = json!({ "allocated": 0, "deserved": 0, "fair_share": 0, "limit": 0 });
            let gpu = json!({
                "allocated": allocated, "deserved": deserved, "fair_share": 99, "limit": -1,
            });
            json!({ "priority": 0, "GPU": gpu, "CPU": none, "Memory": none })
        };
        let unlimited = [side(-1.0, 20.0), side(30.0, 1.0)];
        let bounded = [side(2.0, 1.0), side(2.0, 20.0)];
        let difference = |[left, right]: [Value; 2], total: Option<Value>| {
            let mut entry = json!({ "left": left, "right": right, "result": -1 });
            if let Some(total) = total {
                entry["total"] = total;
            }
            DecisionCase::parse(entry).unwrap().difference_from_recording()
        };
        for sides in [&unlimited, &bounded] {
            assert_eq!(difference(sides.clone(), None), None);
            assert_eq!(difference(sides.clone(), Some(Value::Null)), None);
        }
        assert!(difference(unlimited, Some(json!({ "GPU": 20 }))).is_some());
    }

    #[test]
    fn small_weights_and_usage_count_and_large_numbers_are_rounded() {
        let queue = |weight: f64, usage: f64, request: f64| {
            json!({
                "priority": 100, "creation": 0, "deserved": 0, "limit": -1,
                "over_quota_weight": weight, "usage": usage, "request": request,
            })
        };
        let difference = |total: f64, sides: [Value; 2], shares: [f64; 2]| {
            let [a, b] = sides;
            let entry = DecisionCase::parse(json!({
                "resource": "CPU", "total": total, "k_value": 1000.0, "queues": { "a": a, "b": b },
                "fair_share": { "a": shares[0], "b": shares[1] },
                "remaining": total - shares[0] - shares[1],
            }));
            entry.unwrap().difference_from_recording()
        };
        let weights = [queue(0.0001, 0.0, 100.0), queue(0.0003, 0.0, 100.0)];
        assert_eq!(difference(100.0, weights, [25.0, 75.0]), None);
        // (0.5 + 1000 (0.5 - usage)) of twice that less the usage of `a` alone.
        let usage = [queue(1.0, 0.0004, 1e6), queue(1.0, 0.0, 1e6)];
        assert_eq!(difference(1e6, usage, [499_800.0, 500_200.0]), None);
        let great = [queue(1.0, 0.0, 3.0), queue(1.0, 0.0, 0.0)];
        assert_eq!(difference(1e18, great, [3.0, 0.0]), None);
    }
}
