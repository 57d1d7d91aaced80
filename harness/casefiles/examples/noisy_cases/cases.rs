//! Small cases of faults that were found, and the same in a cluster of noise: full nodes, queues whose
//! quotas are used up, and pending pods.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::ensure;
use schedlab_api::{Value, json};
use schedlab_casefiles::{
    Case,
    minimise::{Minimised, Minimiser},
    predicate::Predicate,
};
use schedlab_scheduler::{
    ConfigSource,
    snapshot_file::{CapturedCluster, Overrides},
};

/// Cycles of each replay, as in `schedlab minimise`.
const CYCLES: u32 = 3;
/// Number of departments of the noise.
const DEPARTMENTS: usize = 5;
/// GPUs of each of its nodes.
const GPUS: usize = 8;

/// How large the noise is.
#[derive(Clone, Copy)]
pub(crate) struct Noise {
    /// Teams of each department.
    pub(crate) teams: usize,
    /// Nodes, all of them full.
    pub(crate) nodes: usize,
    /// Pending pods.
    pub(crate) pending: usize,
}

/// 50 queues, 200 nodes and 2,000 pods.
pub(crate) const WHOLE_NOISE: Noise = Noise { teams: 9, nodes: 200, pending: 400 };

/// The label of the nodes of the small case, which its pods select.
const POOL: &str = "pool";

/// Objects by array.
#[derive(Default)]
struct Objects(BTreeMap<String, Vec<Arc<Value>>>);

impl Objects {
    fn add(&mut self, array: &str, object: Value) {
        self.0.entry(array.to_owned()).or_default().push(Arc::new(object));
    }

    fn node(&mut self, name: &str, gpus: i64, pool: &str) {
        let amounts = json!({ "nvidia.com/gpu": gpus.to_string(), "cpu": "63770m",
                              "memory": "527989636Ki", "pods": "110" });
        let names = json!({ "kubernetes.io/hostname": name, POOL: pool, "topology.kubernetes.io/zone": "z" });
        self.add(
            "nodes",
            json!({ "metadata": { "name": name, "labels": names },
                    "status": { "allocatable": amounts,
                                "conditions": [{ "type": "Ready", "status": "True" }] } }),
        );
    }

    fn queue(&mut self, name: &str, parent: Option<&str>, quota: i64, limit: i64) {
        let all = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
        let gpu = json!({ "quota": quota, "limit": limit, "overQuotaWeight": 1 });
        self.add(
            "queues",
            json!({ "metadata": { "name": name }, "spec": { "parentQueue": parent,
                    "resources": { "gpu": gpu, "cpu": all, "memory": all } } }),
        );
    }

    fn group(&mut self, name: &str, queue: &str, minimum: usize, second: usize) {
        let created =
            format!("2026-11-29T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
        self.add(
            "podGroups",
            json!({ "metadata": { "namespace": "ns", "name": name, "creationTimestamp": created },
                    "spec": { "queue": queue, "minMember": minimum } }),
        );
    }

    /// A pod of a group; running if `node` is not empty.
    fn pod(&mut self, name: &str, group: &str, gpus: i64, node: &str, pool: &str) -> &mut Value {
        let requests =
            json!({ "nvidia.com/gpu": gpus.to_string(), "cpu": "1900m", "memory": "1Gi" });
        let phase = if node.is_empty() { "Pending" } else { "Running" };
        self.add(
            "pods",
            json!({ "metadata": { "namespace": "ns", "name": name, "labels": { "app": group },
                                  "annotations": { "pod-group-name": group } },
                    "spec": { "schedulerName": "kai-scheduler", "nodeName": node,
                              "nodeSelector": { POOL: pool },
                              "containers": [{ "name": "main", "resources":
                                  { "requests": requests, "limits": { "nvidia.com/gpu": gpus.to_string() } } }] },
                    "status": { "phase": phase } }),
        );
        let pods = self.0.get_mut("pods").and_then(|pods| pods.last_mut());
        Arc::get_mut(pods.expect("it was added")).expect("it is not shared")
    }

    /// A group of pods with one GPU each.
    fn pods(&mut self, group: &str, queue: &str, nodes: &[&str], second: usize) {
        self.group(group, queue, nodes.len(), second);
        for (at, node) in nodes.iter().enumerate() {
            self.pod(&format!("{group}-{at}"), group, 1, node, "small");
        }
    }

    /// Running pods of a group, with one GPU each.
    fn members(&mut self, group: &str, nodes: impl Iterator<Item = usize>) {
        for (member, node) in nodes.enumerate() {
            self.pod(&format!("{group}-{member}"), group, 1, &format!("noise-{node:03}"), "noise");
        }
    }

    /// Full nodes, queues whose quotas are used up, and pending work beyond their limits.
    fn noise(&mut self, noise: Noise) {
        let mut teams = Vec::new();
        for department in 0..DEPARTMENTS {
            let (parent, share) =
                (format!("department-{department}"), noise.nodes * GPUS / DEPARTMENTS);
            self.queue(&parent, None, amount(share), amount(share));
            for team in 0..noise.teams {
                let name = format!("team-{department}-{team}");
                let quota = share / noise.teams + usize::from(team < share % noise.teams);
                self.queue(&name, Some(&parent), amount(quota), amount(quota));
                teams.push((name, quota));
            }
        }
        let mut free = (0..noise.nodes).flat_map(|node| (0..GPUS).map(move |_| node));
        for (at, (team, quota)) in teams.iter().enumerate() {
            let mut left = *quota;
            let mut number = 0;
            while left > 0 {
                let size = left.min([1, 4, 2, 8][number % 4]);
                let name = format!("noise-{at}-{number}");
                self.group(&name, team, size, at * 40 + number);
                let nodes = (&mut free).take(size);
                self.members(&name, nodes);
                (left, number) = (left - size, number + 1);
            }
        }
        for node in 0..noise.nodes {
            self.node(&format!("noise-{node:03}"), amount(GPUS), "noise");
        }
        for number in 0..noise.pending / 2 {
            let name = format!("late-{number}");
            self.group(&name, &teams[number % teams.len()].0, 2, 20_000 + number);
            for member in 0..2 {
                self.pod(&format!("{name}-{member}"), &name, 1, "", "noise");
            }
        }
    }

    fn into_case(self) -> Case {
        let cluster = CapturedCluster { objects: self.0, ..CapturedCluster::default() };
        Case { cluster, ..Case::default() }
    }
}

/// A number of GPUs as queues have it, where -1 is unlimited.
fn amount(gpus: usize) -> i64 {
    i64::try_from(gpus).expect("a case has few GPUs")
}

/// A small case: what a person wrote by hand to show a fault.
pub(crate) struct SmallCase {
    pub(crate) name: &'static str,
    build: fn(&mut Objects),
    pub(crate) claims: &'static [&'static str],
    /// A configuration with which the scheduler behaves as it did with the fault.
    pub(crate) configuration: &'static str,
}

/// The small cases of the faults that were found so far.
pub(crate) const SMALL_CASES: [SmallCase; 6] = [
    SmallCase {
        name: "failed-member-replaced",
        build: gang_with_a_succeeded_member,
        claims: &["gang train placed", "pod train-2 placed"],
        configuration: "",
    },
    SmallCase {
        name: "first-available-beside-picky-claim",
        build: two_claims_of_one_device,
        claims: &["gang p pending"],
        configuration: "",
    },
    SmallCase {
        name: "guarantee-behind-large-borrowers",
        build: owner_behind_large_borrowers,
        claims: &["gang wn evicted", "gang owned placed"],
        configuration: "",
    },
    SmallCase {
        name: "queue-behind-hopeless-gang",
        build: work_behind_a_gang_without_room,
        claims: &["gang llm pending", "gang eval-0 placed", "queue nb evicted"],
        configuration: "",
    },
    SmallCase {
        name: "smaller-gang-keeps-running",
        build: gang_below_its_minimum,
        claims: &["gang train evicted"],
        configuration: "stalenessGracePeriod: 0s",
    },
    SmallCase {
        name: "unbindable-pod-holds-gpu",
        build: pod_that_cannot_be_bound,
        claims: &["gang fine pending", "gang doomed placed"],
        configuration: "",
    },
];

fn gang_with_a_succeeded_member(objects: &mut Objects) {
    objects.node("node-1", 3, "small");
    objects.queue("team", None, 3, -1);
    objects.pods("train", "team", &["node-1", "node-1", ""], 30_000);
    let mut pods = objects.0.get_mut("pods").into_iter().flatten();
    let first = pods.find(|pod| pod["metadata"]["name"] == "train-0");
    let first = first.and_then(Arc::get_mut).expect("the pod was added above");
    first["status"]["phase"] = json!("Succeeded");
}

fn owner_behind_large_borrowers(objects: &mut Objects) {
    objects.node("node-1", 6, "small");
    for (name, parent, quota) in [
        ("a", None, 1),
        ("b", None, 1),
        ("c", None, 4),
        ("hero", Some("c"), 4),
        ("noisy", Some("c"), 0),
    ] {
        objects.queue(name, parent, quota, -1);
    }
    for (name, queue) in [("wa", "a"), ("wb", "b"), ("wn", "noisy")] {
        objects.group(name, queue, 1, 30_000);
        objects.pod(name, name, 2, "node-1", "small");
    }
    objects.pods("owned", "hero", &["", "", "", ""], 30_001);
}

fn gang_below_its_minimum(objects: &mut Objects) {
    objects.node("node-1", 8, "small");
    objects.queue("team", None, 8, -1);
    objects.group("train", "team", 6, 30_000);
    for member in 0..3 {
        objects.pod(&format!("train-{member}"), "train", 1, "node-1", "small");
    }
}

fn pod_that_cannot_be_bound(objects: &mut Objects) {
    objects.node("node-1", 1, "small");
    objects.queue("team", None, 4, -1);
    objects.group("doomed", "team", 1, 30_000);
    let doomed = objects.pod("doomed", "doomed", 0, "node-1", "small");
    doomed["metadata"]["annotations"]["gpu-fraction"] = json!("0.5");
    doomed["metadata"]["labels"]["runai-gpu-group"] = json!("shared-1");
    objects.pods("fine", "team", &[""], 30_001);
}

fn two_claims_of_one_device(objects: &mut Objects) {
    objects.node("node-1", 0, "small");
    objects.queue("team", None, 1, -1);
    let class = |name: &str, expression: &str| {
        json!({ "metadata": { "name": name },
                "spec": { "selectors": [{ "cel": { "expression": expression } }] } })
    };
    objects.add("deviceClasses", class("any.io", "device.driver == 'any.io'"));
    let big = "device.driver == 'any.io' && device.attributes['any.io'].big";
    objects.add("deviceClasses", class("big.io", big));
    let device =
        |name: &str, big: bool| json!({ "name": name, "attributes": { "big": { "bool": big } } });
    objects.add(
        "resourceSlices",
        json!({ "metadata": { "name": "s" }, "spec": { "driver": "any.io", "nodeName": "node-1",
                "pool": { "name": "s", "generation": 1, "resourceSliceCount": 1 },
                "devices": [device("d0", true), device("d1", false)] } }),
    );
    let first = json!([{ "name": "a", "deviceClassName": "big.io" }]);
    for (name, request) in [
        ("easy", json!({ "name": "d", "firstAvailable": first })),
        ("picky", json!({ "name": "d", "exactly": { "deviceClassName": "big.io" } })),
    ] {
        objects.add(
            "resourceClaims",
            json!({ "metadata": { "namespace": "ns", "name": name },
                    "spec": { "devices": { "requests": [request] } } }),
        );
    }
    objects.group("p", "team", 1, 30_000);
    let pod = objects.pod("p", "p", 0, "", "small");
    pod["spec"]["resourceClaims"] = json!([{ "name": "e", "resourceClaimName": "easy" },
                                           { "name": "k", "resourceClaimName": "picky" }]);
    pod["spec"]["containers"] = json!([{ "name": "c" }]);
}

fn work_behind_a_gang_without_room(objects: &mut Objects) {
    objects.node("node-1", 4, "small");
    objects.node("node-2", 4, "small");
    for (name, parent, quota) in [
        ("prod", None, 2),
        ("research", None, 4),
        ("platform", None, 2),
        ("search", Some("prod"), 2),
        ("nlp", Some("research"), 4),
        ("nb", Some("platform"), 2),
    ] {
        objects.queue(name, parent, quota, -1);
    }
    objects.pods("web1", "search", &["node-1"], 30_000);
    objects.pods("web2", "search", &["node-2"], 30_000);
    for number in 0..6 {
        let node = ["node-1", "node-2"][number % 2];
        objects.pods(&format!("note-{number}"), "nb", &[node], 30_001);
    }
    objects.group("llm", "nlp", 1, 30_002);
    objects.pod("llm", "llm", 4, "", "small");
    for number in 0..4 {
        objects.pods(&format!("eval-{number}"), "nlp", &[""], 30_003);
    }
}

/// Objects that a person counts: nodes, queues, pod groups and pods.
pub(crate) fn size(case: &Case) -> usize {
    ["nodes", "queues", "podGroups", "pods"].iter().map(|array| case.objects(array).count()).sum()
}

impl SmallCase {
    pub(crate) fn small(&self) -> Case {
        let mut objects = Objects::default();
        (self.build)(&mut objects);
        objects.into_case()
    }

    pub(crate) fn in_noise(&self, noise: Noise) -> Case {
        let mut objects = Objects::default();
        (self.build)(&mut objects);
        objects.noise(noise);
        objects.into_case()
    }

    /// The settings of the scheduler.
    pub(crate) fn settings(&self) -> anyhow::Result<Overrides> {
        let file = ConfigSource::parse("config".to_owned(), self.configuration.to_owned())?;
        Ok(Overrides { file, ..Overrides::default() })
    }

    /// The claims of the case.
    ///
    /// # Errors
    /// The case does not show one of them.
    pub(crate) fn claims_of(&self, case: &Case) -> anyhow::Result<Vec<Predicate>> {
        let replay = case.replay(&self.settings()?, CYCLES)?;
        let mut claims = Vec::new();
        for text in self.claims {
            let claim: Predicate = text.parse().map_err(anyhow::Error::msg)?;
            ensure!(claim.holds(&replay), "{}: {:?}", self.name, claim.judge(&replay));
            claims.push(claim);
        }
        Ok(claims)
    }

    /// Shrinks a case to what shows the claims, two cases at a time.
    ///
    /// # Errors
    /// The case does not show one of the claims.
    pub(crate) fn minimised(&self, case: &Case) -> anyhow::Result<Minimised> {
        let (settings, claims) = (self.settings()?, self.claims_of(case)?);
        let holds = |case: &Case| {
            let replay = case.replay(&settings, CYCLES);
            replay.is_ok_and(|replay| claims.iter().all(|claim| claim.holds(&replay)))
        };
        let minimiser = Minimiser {
            holds: &holds,
            on_progress: &|_, _| {},
            threads: 2,
            is_time_over: &|| false,
        };
        Ok(minimiser.minimise(case))
    }
}
