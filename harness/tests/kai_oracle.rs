//! Decisions recorded from KAI-Scheduler v0.17.0, fed to the core: the division of capacity, the
//! order of queues, who may reclaim, and which victims are acceptable. The recordings lie beside
//! the repository; where they are absent the tests say `skipped` on standard output.
#![expect(clippy::unwrap_used, reason = "an entry of another shape should fail the test")]
#![expect(clippy::print_stdout, reason = "says what was skipped and how many entries agreed")]

use std::{cmp::Ordering, collections::BTreeMap, path::PathBuf};

use schedlab_scheduler_core::{
    fairshare::{Pot, QueueDemand, divide},
    model::{QueueId, Time},
    queues::{
        Account, Ledger,
        reclaim::{Reclaimer, Victims},
        standing::Standing,
    },
    resources::{Amount, PerResource},
};
use serde_json::Value;

const BESIDE_THE_REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/kai-cases");

#[test]
fn capacity_is_divided_as_recorded() {
    every_entry_agrees("oracle__fair_share_division.json", division_differs);
}

#[test]
fn the_queue_that_is_served_first_is_the_recorded_one() {
    every_entry_agrees("oracle__queue_order.json", order_differs);
}

#[test]
fn who_may_start_reclaiming_is_as_recorded() {
    every_entry_agrees("oracle__can_reclaim.json", |entry| {
        let tree = Tree::of(entry);
        differs(tree.reclaimer(entry).may_start(&tree.ledger), &entry["result"])
    });
}

#[test]
fn which_victims_are_acceptable_is_as_recorded() {
    every_entry_agrees("oracle__reclaimable.json", |entry| {
        let tree = Tree::of(entry);
        let saturation_milli = milli(&entry["saturation_multiplier"]);
        let victims = tree.victims(entry);
        let accepted = tree.reclaimer(entry).may_take(&tree.ledger, &victims, saturation_milli);
        differs(accepted, &entry["result"])
    });
}

/// Runs `difference` over all entries of a file and fails with those that answered something.
fn every_entry_agrees(file: &str, difference: impl Fn(&Value) -> Option<String>) {
    let folder = std::env::var_os("SCHEDLAB_KAI_CASES")
        .map_or_else(|| PathBuf::from(BESIDE_THE_REPOSITORY), PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
        println!("skipped: no recording {file} in {}", folder.display());
        return;
    };
    let recording: Value = serde_json::from_str(&text).unwrap();
    let entries = recording["entries"].as_array().unwrap();
    let differing: Vec<String> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| {
            difference(entry).map(|how| format!("entry {at}: {how}\n{entry}"))
        })
        .collect();
    println!("{file}: {} of {} agree", entries.len() - differing.len(), entries.len());
    assert!(!entries.is_empty(), "{file} holds no entries");
    let (count, all) = (differing.len(), entries.len());
    let shown = differing.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(differing.is_empty(), "{count} of {all} differ:\n{shown}");
}

fn division_differs(entry: &Value) -> Option<String> {
    let scale = Scale::of(&entry["resource"]);
    let queues = entry["queues"].as_object().unwrap();
    let demands: Vec<QueueDemand> = queues
        .iter()
        .map(|(name, queue)| QueueDemand {
            name: name.as_str().into(),
            priority: i32::try_from(queue["priority"].as_i64().unwrap()).unwrap(),
            created: Time(queue["creation"].as_i64().unwrap()),
            quota: scale.bound(&queue["deserved"]),
            limit: scale.bound(&queue["limit"]),
            weight_milli: milli(&queue["over_quota_weight"]),
            usage_micro: milli(&queue["usage"]) * 1000,
            request: scale.amount(&queue["request"]),
        })
        .collect();
    let total = scale.amount(&entry["total"]);
    let pot = Pot { total, unit: scale.unit(), k_value_milli: milli(&entry["k_value"]) };
    let division = divide(pot, &demands);
    let expected: Vec<i64> =
        queues.keys().map(|name| scale.amount(&entry["fair_share"][name])).collect();
    let rest = scale.amount(&entry["remaining"]);
    (division.shares != expected || division.rest != rest)
        .then(|| format!("shares {:?} and rest {}", division.shares, division.rest))
}

fn order_differs(entry: &Value) -> Option<String> {
    let sides = [&entry["left"], &entry["right"]];
    let accounts = sides.map(|side| account(side, None)).to_vec();
    let ledger = Ledger::of(accounts, amounts(&entry["total"]));
    let [left, right] = [0, 1].map(|at| {
        let job = amounts(&sides[at]["job_request"]);
        let victims = sides[at]["victims"].as_array().into_iter().flatten().map(amounts);
        let victims = victims.fold(PerResource::default(), PerResource::plus);
        Standing::of(&ledger, queue_id(at), job, victims)
    });
    let result = match left.cmp_siblings(&right) {
        Ordering::Less => -1,
        Ordering::Equal | Ordering::Greater => 1,
    };
    differs(result, &entry["result"])
}

fn differs<T: Into<Value> + Copy + std::fmt::Display>(
    decided: T,
    recorded: &Value,
) -> Option<String> {
    (decided.into() != *recorded).then(|| format!("decided {decided}, recorded {recorded}"))
}

/// The queues of an entry and their accounts.
struct Tree {
    ids: BTreeMap<String, QueueId>,
    ledger: Ledger,
}

impl Tree {
    fn of(entry: &Value) -> Self {
        let queues = entry["queues"].as_object().unwrap();
        let ids: BTreeMap<String, QueueId> =
            queues.keys().enumerate().map(|(at, name)| (name.clone(), queue_id(at))).collect();
        let accounts = queues
            .values()
            .map(|queue| account(queue, ids.get(queue["parent"].as_str().unwrap()).copied()))
            .collect();
        Self { ids, ledger: Ledger::of(accounts, PerResource::default()) }
    }

    fn reclaimer(&self, entry: &Value) -> Reclaimer {
        let reclaimer = &entry["reclaimer"];
        Reclaimer {
            queue: self.ids[reclaimer["queue"].as_str().unwrap()],
            preemptible: reclaimer["preemptible"].as_bool().unwrap(),
            request: amounts(&reclaimer["requested"]),
        }
    }

    fn victims(&self, entry: &Value) -> Victims {
        let victims = entry["victims"].as_object().unwrap();
        victims
            .iter()
            .map(|(queue, taken)| {
                (self.ids[queue], taken.as_array().unwrap().iter().map(amounts).collect())
            })
            .collect()
    }
}

fn queue_id(at: usize) -> QueueId {
    QueueId(u32::try_from(at).unwrap())
}

fn account(queue: &Value, parent: Option<QueueId>) -> Account {
    let of = |field: &str| per_resource(|name, scale| scale.amount(&queue[name][field]));
    let bound = |field: &str| per_resource(|name, scale| scale.bound(&queue[name][field]));
    Account {
        parent,
        priority: i32::try_from(queue["priority"].as_i64().unwrap()).unwrap(),
        created: Time(queue["creation"].as_i64().unwrap_or(0)),
        quota: bound("deserved"),
        limit: bound("limit"),
        fair_share: of("fair_share"),
        allocated: of("allocated"),
        allocated_non_preemptible: of("allocated_non_preemptible"),
        requested: PerResource::default(),
    }
}

fn amounts(values: &Value) -> PerResource<i64> {
    per_resource(|name, scale| scale.amount(&values[name]))
}

fn per_resource<T>(value: impl Fn(&str, Scale) -> T) -> PerResource<T> {
    PerResource {
        gpu: value("GPU", Scale::Devices),
        cpu: value("CPU", Scale::Plain),
        memory: value("Memory", Scale::Plain),
    }
}

/// How recorded numbers become the core's.
#[derive(Clone, Copy)]
enum Scale {
    /// GPUs, in thousandths.
    Devices,
    /// Millicores and bytes.
    Plain,
}

impl Scale {
    fn of(resource: &Value) -> Self {
        match resource.as_str().unwrap() {
            "GPU" => Self::Devices,
            _ => Self::Plain,
        }
    }

    fn amount(self, value: &Value) -> i64 {
        match self {
            Self::Devices => milli(value),
            Self::Plain => rounded(value.as_f64().unwrap_or(0.0)),
        }
    }

    /// -1 is no bound.
    fn bound(self, value: &Value) -> Amount {
        match value.as_f64() {
            Some(-1.0) => Amount::Unlimited,
            _ => Amount::Exactly(self.amount(value)),
        }
    }

    fn unit(self) -> i64 {
        match self {
            Self::Devices => 1000,
            Self::Plain => 1,
        }
    }
}

fn milli(value: &Value) -> i64 {
    rounded(value.as_f64().unwrap_or(0.0) * 1000.0)
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, as recorded maxima should")]
fn rounded(value: f64) -> i64 {
    value.round() as i64
}
