//! An emulated cluster with our scheduler, in virtual time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use schedlab_api::{Value, json, object};
use schedlab_apps::whatif::{Amount, Answer, Changes, PriorityChange, QueueField};
use schedlab_audit::Change;
use schedlab_casefiles::{Case, capture::capture};
use schedlab_conformance::history::changes_of_entry;
use schedlab_emulator::{
    Emulator, Options,
    clock::Clock,
    store::{DeleteOptions, EventKind, Key, LogEntry, Op, PatchBody, Resource, Subresource, Write},
};
use schedlab_scheduler::{Config, IdlePolicy};

/// Time without a write after which a cluster is at rest: longer than the grace period of stale
/// gangs.
const QUIET: Duration = Duration::from_mins(3);

/// Pods that start and pods that are evicted, each with its node. Names that controllers draw are
/// left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) started: Vec<String>,
    pub(crate) evicted: Vec<String>,
}

impl Outcome {
    pub(crate) fn of_answer(answer: &Answer) -> Self {
        let steps = |step: &'static str| {
            let steps = answer.plan.iter().filter(move |it| it.step == step);
            steps.map(|it| format!("{} on {}", plain_name(&it.pod), it.node))
        };
        Self { started: steps("start").collect(), evicted: steps("evict").collect() }.sorted()
    }

    fn sorted(mut self) -> Self {
        self.started.sort();
        self.evicted.sort();
        self
    }
}

/// The name without the suffix that the controller of jobs draws, or the number of a member of a
/// submitted gang: the scheduler places equal members in the order of their uids, which are random.
fn plain_name(pod: &str) -> &str {
    let name = pod.split('/').next_back().unwrap_or(pod);
    match pod.rsplit_once('-') {
        Some((workload, _)) if name.starts_with("job-") => workload,
        Some((gang, _)) if name.starts_with("new-") && name.matches('-').count() == 2 => gang,
        _ => pod,
    }
}

pub(crate) struct LiveCluster {
    emulator: Emulator,
    config: Config,
}

impl LiveCluster {
    /// Starts a cluster with these objects, and waits until it is at rest.
    pub(crate) async fn start(seed: u64, objects: Vec<Value>) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let emulator = Emulator::start(Options { seed, ..Options::with_clock(clock.clone()) });
        let common = schedlab_api::crds::all_crds().into_iter();
        for object in common.chain(schedlab_api::crds::priority_classes()).chain(objects) {
            create(&emulator, object);
        }
        let config = Config { idle_policy: IdlePolicy::UntilEvent, ..Config::kai() };
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        tokio::spawn(schedlab_scheduler::run(emulator.client(), config.clone(), now));
        emulator.settle(QUIET, Duration::from_hours(2)).await.unwrap();
        Self { emulator, config }
    }

    pub(crate) async fn capture(&self) -> Case {
        let now = self.emulator.clock().now().to_string();
        capture(self.emulator.client(), self.config.clone(), &now).await.unwrap()
    }

    /// Makes the changes, and waits until the cluster is at rest.
    pub(crate) async fn make(&self, changes: &Changes) -> Outcome {
        let before = self.emulator.revision();
        for change in &changes.queues {
            let mut patch = json!({});
            let (field, name) = (change.field, &change.to.name);
            let path: &[&str] = match field {
                QueueField::Quota => &["spec", "resources", "gpu", "quota"],
                QueueField::Weight => &["spec", "resources", "gpu", "overQuotaWeight"],
                QueueField::Limit => &["spec", "resources", "gpu", "limit"],
                QueueField::Priority => &["spec", "priority"],
            };
            let Amount::Set(amount) = change.to.amount else { panic!("tests set amounts") };
            object::set(&mut patch, path, json!(amount));
            self.patch("queues", "", name, patch);
        }
        for change in &changes.priorities {
            let PriorityChange::Workload { namespace, name, class } = change else {
                panic!("tests change workloads")
            };
            let patch = json!({ "spec": { "priorityClassName": class } });
            self.patch("podgroups", namespace, name, patch);
        }
        for node in &changes.removed_nodes {
            self.remove_node(node);
        }
        for nodes in &changes.new_nodes {
            let template = self.first_node();
            for number in 1..=nodes.count {
                let name = format!("new-node-{number}");
                let mut node = template.clone();
                node["metadata"] = json!({ "name": name, "labels": node["metadata"]["labels"] });
                node["metadata"]["labels"]["kubernetes.io/hostname"] = json!(name);
                create(&self.emulator, node);
            }
        }
        for object in &changes.submitted {
            create(&self.emulator, object.clone());
        }
        self.emulator.settle(QUIET, Duration::from_hours(2)).await.unwrap();
        let log = self.emulator.log_since(before).unwrap();
        let mut outcome = Outcome::default();
        let mut seen = BTreeSet::new();
        for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "pods") {
            outcome.record(entry, &mut seen);
        }
        outcome.sorted()
    }

    fn first_node(&self) -> Value {
        let objects = self.objects("", "nodes");
        let mut node = objects.into_iter().next().unwrap();
        node["spec"] = json!({});
        node
    }

    fn objects(&self, group: &str, plural: &str) -> Vec<Value> {
        let mut all = std::collections::BTreeMap::new();
        for entry in self.emulator.log_since(0).unwrap() {
            let resource = &entry.key.resource;
            if (&*resource.group, &*resource.plural) == (group, plural) {
                let key = (entry.key.namespace.to_string(), entry.key.name.to_string());
                let is_there = entry.kind != EventKind::Deleted;
                all.insert(key, is_there.then(|| Value::clone(&entry.object)));
            }
        }
        all.into_values().flatten().collect()
    }

    /// Deletes a node and its pods at once.
    fn remove_node(&self, node: &str) {
        self.delete("nodes", "", node);
        for pod in self.objects("", "pods") {
            if object::text(&pod, &["spec", "nodeName"]) == node {
                self.delete("pods", object::namespace(&pod), object::name(&pod));
            }
        }
    }

    fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let options = DeleteOptions { grace_secs: Some(0), ..DeleteOptions::default() };
        let key = Key {
            resource: Resource::new("", plural),
            namespace: namespace.into(),
            name: name.into(),
        };
        self.emulator.store().write(Write::new(key, Op::Delete(options), "test")).unwrap();
    }

    fn patch(&self, plural: &str, namespace: &str, name: &str, patch: Value) {
        let key = Key {
            resource: Resource::new("scheduling.run.ai", plural),
            namespace: namespace.into(),
            name: name.into(),
        };
        let op = Op::Patch(Subresource::None, PatchBody::Merge(patch));
        self.emulator.store().write(Write::new(key, op, "test")).unwrap();
    }
}

impl Outcome {
    fn record(&mut self, entry: &LogEntry, seen: &mut BTreeSet<String>) {
        let pod = format!("{}/{}", entry.key.namespace, entry.key.name);
        for change in changes_of_entry(entry) {
            let node = object::text(&entry.object, &["spec", "nodeName"]);
            if let Change::Bound(node) = &change {
                self.started.push(format!("{} on {node}", plain_name(&pod)));
            }
            let is_eviction = matches!(change, Change::DeletionRequested(_))
                && &*entry.manager != "test"
                && !node.is_empty();
            if is_eviction && seen.insert(object::uid(&entry.object).to_owned()) {
                self.evicted.push(format!("{} on {node}", plain_name(&pod)));
            }
        }
    }
}

fn create(emulator: &Emulator, object: Value) {
    let kind = object::text(&object, &["kind"]).to_lowercase();
    let version = object::text(&object, &["apiVersion"]);
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let plural = if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") };
    emulator.create(&Resource::new(group, &plural), object).unwrap();
}
