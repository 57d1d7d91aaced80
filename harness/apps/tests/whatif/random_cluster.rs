//! Random clusters with work, and random changes of them.

use schedlab_api::{Value, annotations, json, labels, object, random::SplitMix64, resources};
use schedlab_apps::whatif::{
    Amount, Changes, NamedAmount, NewNodes, PriorityChange, QueueChange, QueueField,
};
use schedlab_casefiles::Case;

const TEAMS: [&str; 3] = ["team-a", "team-b", "team-c"];
const CLASSES: [&str; 4] = ["train", "train", "train", "build"];

pub(crate) struct RandomCluster {
    random: SplitMix64,
    nodes: usize,
    gpus: usize,
}

impl RandomCluster {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let (nodes, gpus) = (2 + random.below(4), [4, 8][random.below(2)]);
        Self { random, nodes, gpus }
    }

    /// Nodes, queues and work that fills about all of them.
    pub(crate) fn objects(&mut self) -> Vec<Value> {
        let mut objects: Vec<Value> = (0..self.nodes).map(|at| node(at, self.gpus)).collect();
        let total = self.nodes * self.gpus;
        objects.push(queue("all", None, total, 1));
        for team in TEAMS {
            let quota = self.random.below(total / 2 + 1);
            objects.push(queue(team, Some("all"), quota, 1 + self.random.below(3)));
        }
        let mut used = 0;
        let full = total * (70 + self.random.below(90)) / 100;
        for number in 0.. {
            let (work, gpus) = self.work(&format!("old-{number}"));
            objects.extend(work);
            used += gpus;
            if used >= full {
                break;
            }
        }
        objects
    }

    /// One or two changes.
    pub(crate) fn changes(&mut self, case: &Case) -> Changes {
        let mut changes = Changes::default();
        for _ in 0..=self.random.below(2) {
            self.add_change(case, &mut changes);
        }
        changes
    }

    fn add_change(&mut self, case: &Case, changes: &mut Changes) {
        let team = TEAMS[self.random.below(TEAMS.len())];
        let amount = |amount: usize| NamedAmount {
            name: team.to_owned(),
            amount: Amount::Set(f64::from(u32::try_from(amount).unwrap())),
        };
        match self.random.below(6) {
            0 | 1 => {
                let number = changes.submitted.len();
                changes.submitted.extend(self.work(&format!("new-{number}")).0);
            }
            2 => {
                let count = 1 + u32::try_from(self.random.below(2)).unwrap();
                changes.new_nodes = vec![NewNodes { count, gpus: None, model: None }];
            }
            3 => {
                let node = format!("node-{}", self.random.below(self.nodes));
                changes.removed_nodes = vec![node];
            }
            4 => {
                let quota = self.random.below(self.nodes * self.gpus + 1);
                let field = [QueueField::Quota, QueueField::Weight][self.random.below(2)];
                changes.queues.push(QueueChange { field, to: amount(quota) });
            }
            _ => {
                // The pod grouper sets the classes of its groups itself.
                let groups = case.objects("podGroups");
                let groups: Vec<&Value> =
                    groups.filter(|group| object::name(group).starts_with("old-")).collect();
                if groups.is_empty() {
                    return;
                }
                let group = groups[self.random.below(groups.len())];
                changes.priorities = vec![PriorityChange::Workload {
                    namespace: object::namespace(group).to_owned(),
                    name: object::name(group).to_owned(),
                    class: CLASSES[self.random.below(CLASSES.len())].to_owned(),
                }];
            }
        }
    }

    /// A pod, a gang or a job, and how many GPUs it requests.
    fn work(&mut self, name: &str) -> (Vec<Value>, usize) {
        let team = TEAMS[self.random.below(TEAMS.len())];
        let class = CLASSES[self.random.below(CLASSES.len())];
        let gpus = [1, 1, 2, 4][self.random.below(4)];
        match self.random.below(3) {
            0 => (vec![pod(name, team, class, gpus, None)], gpus),
            1 => {
                let members = 2 + self.random.below(3);
                let group = json!({ "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
                    "metadata": { "name": name, "namespace": "default" },
                    "spec": { "queue": team, "minMember": members, "priorityClassName": class } });
                let member = |at| pod(&format!("{name}-{at}"), team, class, gpus, Some(name));
                let objects = std::iter::once(group).chain((0..members).map(member));
                (objects.collect(), members * gpus)
            }
            _ => {
                let pods = 1 + self.random.below(3);
                let mut template = pod("", team, class, gpus, None);
                template["metadata"] = json!({ "labels": template["metadata"]["labels"] });
                object::remove(&mut template, &["kind"]);
                object::remove(&mut template, &["apiVersion"]);
                let labels = json!({ (labels::QUEUE): team, (labels::PRIORITY_CLASS): class });
                let job = json!({ "apiVersion": "batch/v1", "kind": "Job",
                    "metadata": { "name": format!("job-{name}"), "namespace": "default",
                                  "labels": labels },
                    "spec": { "parallelism": pods, "completions": pods, "backoffLimit": 100,
                              "template": template } });
                (vec![job], pods * gpus)
            }
        }
    }
}

fn node(at: usize, gpus: usize) -> Value {
    let name = format!("node-{at}");
    let amounts = json!({ "cpu": "64", "memory": "512Gi", "pods": "110", (resources::GPU): gpus.to_string() });
    json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { (labels::HOSTNAME): name } },
        "status": { "allocatable": amounts, "capacity": amounts } })
}

fn queue(name: &str, parent: Option<&str>, quota: usize, weight: usize) -> Value {
    let other = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    let gpu = json!({ "quota": quota, "limit": -1, "overQuotaWeight": weight });
    let mut spec = json!({ "resources": { "gpu": gpu, "cpu": other, "memory": other } });
    if let Some(parent) = parent {
        spec["parentQueue"] = json!(parent);
    }
    json!({ "apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
        "metadata": { "name": name }, "spec": spec })
}

fn pod(name: &str, team: &str, class: &str, gpus: usize, group: Option<&str>) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default",
            "labels": { (labels::QUEUE): team, (labels::PRIORITY_CLASS): class } },
        "spec": { "schedulerName": "kai-scheduler", "restartPolicy": "Never",
            "containers": [{ "name": "work", "image": "work", "resources": {
                "limits": { (resources::GPU): gpus.to_string() } } }] } });
    if let Some(group) = group {
        pod["metadata"]["annotations"] = json!({ (annotations::POD_GROUP_NAME): group,
            (annotations::SKIP_POD_GROUPER): "true" });
    }
    pod
}
