//! Generated clusters for benchmarks: uniform nodes with eight GPUs, two departments of queues, and
//! jobs that all fit, that need reclaim, or that never fit. Used by `make bench` and by tests that
//! count decisions; no decision depends on this module.

use std::time::Duration;

use schedlab_api::labels;
use schedlab_scheduler_core::{
    Snapshot,
    model::{
        LabelSelector, Name, Node, NodeId, Operator, Pod, PodAffinityTerm, PodGroup, PodGroupId,
        PodShape, PodStatus, PreemptionPolicy, Queue, QueueId, Requirement, ShapeId, SubGroup,
        Time, Topology, TopologyConstraint, TopologyLevel,
    },
    resources::{Amount, PerResource, Resources},
};

/// GPUs of every generated node.
pub const GPUS_PER_NODE: u32 = 8;

const TOPOLOGY: &str = "racks";
const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "example.com/rack";

const START: Time = Time(1_767_225_600_000);

/// One pending one-GPU job for every GPU of an empty cluster, spread over `queues` leaf queues in
/// two departments.
pub fn pending_singles(nodes: u32, queues: u32) -> Snapshot {
    let gpus = nodes * GPUS_PER_NODE;
    let mut cluster = Cluster::new(nodes);
    let leaves = cluster.departments(queues, gpus);
    for job in 0..gpus {
        let queue = leaves[(job % queues) as usize];
        cluster.job(&format!("job-{job:06}"), Job { queue, ..Job::default() });
    }
    cluster.finish()
}

/// `jobs` pending one-GPU jobs in four queues, each with a quota of a quarter of the empty cluster.
pub fn pending_jobs(nodes: u32, jobs: u32) -> Snapshot {
    Cluster::in_four_queues(nodes, jobs, |_| None)
}

/// Like [`pending_jobs`], but every second job runs, on one node after the other.
pub fn half_running_jobs(nodes: u32, jobs: u32) -> Snapshot {
    Cluster::in_four_queues(nodes, jobs, |job| (job % 2 == 0).then_some(NodeId(job % nodes)))
}

/// A busy cluster: one-GPU jobs of a hundred queues run on fifteen of sixteen GPUs, and a third as
/// many pods are pending, in jobs of one, two, four and eight GPUs.
pub fn full_fleet(nodes: u32) -> Snapshot {
    let gpus = nodes * GPUS_PER_NODE;
    let (running, pending) = (gpus / 16 * 15, gpus / 16 * 5);
    let mut cluster = Cluster::new(nodes);
    let leaves = cluster.departments(100, gpus);
    let queue = |job: u32| leaves[job as usize % leaves.len()];
    for job in 0..pending {
        let gpus = [1, 2, 4, 8][(job / 100 % 4) as usize];
        let job_of = Job { queue: queue(job), gpus, ..Job::default() };
        cluster.job(&format!("pending-{job:06}"), job_of);
    }
    for job in 0..running {
        // The last GPU of every second node is free.
        let node = Some(NodeId(job / 15 * 2 + job % 15 / 8));
        let job_of = Job { queue: queue(job), node, ..Job::default() };
        cluster.job(&format!("running-{job:06}"), job_of);
    }
    cluster.finish()
}

/// Every GPU runs a one-GPU job of a borrowing queue; one gang of half the nodes, with eight GPUs
/// per pod, reclaims them.
pub fn large_gang_against_singles(nodes: u32) -> Snapshot {
    let gang = Job { pods: nodes / 2, gpus: GPUS_PER_NODE, ..Job::default() };
    Cluster::against_singles(nodes, Occupants::Preemptible, &[("gang".into(), gang)])
}

/// Every GPU runs a one-GPU job of a borrowing queue; as many one-GPU jobs reclaim all of them.
pub fn singles_against_singles(nodes: u32) -> Snapshot {
    let jobs: Vec<_> = (0..nodes * GPUS_PER_NODE)
        .map(|job| (format!("pending-{job:06}"), Job::default()))
        .collect();
    Cluster::against_singles(nodes, Occupants::Preemptible, &jobs)
}

/// Every GPU is in use, one on each node by a non-preemptible job: a gang of ten pods with eight
/// GPUs never fits.
pub fn infeasible_gang_against_singles(nodes: u32) -> Snapshot {
    let gang = Job { pods: 10, gpus: GPUS_PER_NODE, ..Job::default() };
    Cluster::against_singles(nodes, Occupants::OnePinnedOnEachNode, &[("gang".into(), gang)])
}

/// Every GPU runs a one-GPU job of a borrowing department, in racks of eight nodes and zones of
/// eight racks; sixty gangs of the other four departments each require one rack or zone.
pub fn gangs_in_one_domain_against_singles(nodes: u32) -> Snapshot {
    Cluster::lent_to_one_department(nodes, GangPlacement::SameDomain)
}

/// Like [`gangs_in_one_domain_against_singles`], but no two pods of a gang may share a rack, or a
/// node.
pub fn gangs_in_separate_domains_against_singles(nodes: u32) -> Snapshot {
    Cluster::lent_to_one_department(nodes, GangPlacement::SeparateDomains)
}

/// How the pods of a gang are placed with respect to the domains of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GangPlacement {
    SameDomain,
    SeparateDomains,
}

/// The jobs that run on the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occupants {
    Preemptible,
    OnePinnedOnEachNode,
}

/// A job of equal pods that must all run together.
#[derive(Clone, Copy, Debug)]
struct Job {
    queue: QueueId,
    pods: u32,
    gpus: u32,
    preemptible: bool,
    node: Option<NodeId>,
}

impl Default for Job {
    fn default() -> Self {
        Self { queue: QueueId(0), pods: 1, gpus: 1, preemptible: true, node: None }
    }
}

/// A snapshot builder. Names are zero-padded, so that lists stay sorted by name.
struct Cluster {
    snapshot: Snapshot,
}

impl Cluster {
    fn new(nodes: u32) -> Self {
        let nodes = (0..nodes).map(|at| node(&format!("node-{at:05}"))).collect();
        Self { snapshot: Snapshot { now: START, nodes, ..Snapshot::default() } }
    }

    fn against_singles(nodes: u32, occupants: Occupants, waiting: &[(String, Job)]) -> Snapshot {
        let mut cluster = Self::new(nodes);
        let gpus = nodes * GPUS_PER_NODE;
        let department = cluster.queue("department", None, gpus);
        let borrower = cluster.queue("queue-borrower", Some(department), 0);
        let owner = cluster.queue("queue-owner", Some(department), gpus);
        for (name, job) in waiting {
            cluster.job(name, Job { queue: owner, ..*job });
        }
        for at in 0..gpus {
            let node = at / GPUS_PER_NODE;
            let pinned = occupants == Occupants::OnePinnedOnEachNode && at % GPUS_PER_NODE == 0;
            let job = Job {
                queue: borrower,
                preemptible: !pinned,
                node: Some(NodeId(node)),
                ..Job::default()
            };
            cluster.job(&format!("running-{at:06}"), job);
        }
        cluster.finish()
    }

    fn lent_to_one_department(nodes: u32, kept: GangPlacement) -> Snapshot {
        let mut cluster = Self::new(nodes);
        cluster.label_racks();
        let gpus = nodes * GPUS_PER_NODE;
        let leaves = cluster.five_departments(gpus);
        for at in 0..60_usize {
            let job = Job {
                queue: leaves[10 + at % 4 * 10 + at % 10],
                pods: [4, 8, 16][at % 3],
                gpus: [1, 2, 8][at / 3 % 3],
                ..Job::default()
            };
            let level = match (kept, at / 9 % 2) {
                (_, 0) => RACK,
                (GangPlacement::SameDomain, _) => ZONE,
                (GangPlacement::SeparateDomains, _) => labels::HOSTNAME,
            };
            let name = format!("gang-{at:02}");
            match kept {
                GangPlacement::SameDomain => cluster.job_in_one_domain(level, &name, job),
                GangPlacement::SeparateDomains => {
                    cluster.job_in_separate_domains(level, &name, job);
                }
            }
        }
        for at in 0..gpus {
            let (node, gpu) = (at / GPUS_PER_NODE, at % GPUS_PER_NODE);
            let queue = leaves[((node + gpu) % 10) as usize];
            let job = Job { queue, node: Some(NodeId(node)), ..Job::default() };
            cluster.job(&format!("running-{at:06}"), job);
        }
        cluster.finish()
    }

    fn in_four_queues(nodes: u32, jobs: u32, on: impl Fn(u32) -> Option<NodeId>) -> Snapshot {
        let mut cluster = Self::new(nodes);
        let leaves = cluster.departments(4, nodes * GPUS_PER_NODE);
        for job in 0..jobs {
            let queue = leaves[(job % 4) as usize];
            cluster.job(&format!("job-{job:06}"), Job { queue, node: on(job), ..Job::default() });
        }
        cluster.finish()
    }

    /// Two departments with alternating `queues` leaf queues of equal quota.
    fn departments(&mut self, queues: u32, gpus: u32) -> Vec<QueueId> {
        let departments =
            ["department-a", "department-b"].map(|name| self.queue(name, None, gpus / 2));
        let each = gpus / queues;
        (0..queues)
            .map(|at| {
                let parent = departments[(at % 2) as usize];
                self.queue(&format!("queue-{at:04}"), Some(parent), each)
            })
            .collect()
    }

    /// Five departments of equal quota with ten leaf queues each.
    fn five_departments(&mut self, gpus: u32) -> Vec<QueueId> {
        let mut leaves = Vec::new();
        for department in 0..5 {
            let parent = self.queue(&format!("department-{department}"), None, gpus / 5);
            let leaf =
                |at| self.queue(&format!("queue-{department}-{at}"), Some(parent), gpus / 50);
            leaves.extend((0..10).map(leaf));
        }
        leaves
    }

    /// Labels the nodes: eight nodes per rack, eight racks per zone.
    fn label_racks(&mut self) {
        for (node, at) in self.snapshot.nodes.iter_mut().zip(0..) {
            let labels = [
                (ZONE.into(), format!("zone-{:03}", at / 64).as_str().into()),
                (RACK.into(), format!("rack-{:04}", at / 8).as_str().into()),
                (labels::HOSTNAME.into(), node.name.clone()),
            ];
            node.labels = labels.into_iter().collect();
        }
        let levels = [ZONE, RACK].map(|label| TopologyLevel { label: label.into(), alias: None });
        let topology = Topology { name: TOPOLOGY.into(), levels: levels.to_vec() };
        self.snapshot.topologies.push(topology);
    }

    fn queue(&mut self, name: &str, parent: Option<QueueId>, gpus: u32) -> QueueId {
        let quota = Amount::Exactly(i64::from(gpus) * 1000);
        let every = Amount::Unlimited;
        self.snapshot.queues.push(Queue {
            name: name.into(),
            parent,
            priority: 100,
            quota: PerResource { gpu: quota, cpu: every, memory: every },
            limit: PerResource { gpu: every, cpu: every, memory: every },
            over_quota_weight_milli: PerResource { gpu: 1000, cpu: 1000, memory: 1000 },
            created: START,
            preempt_min_runtime: None,
            reclaim_min_runtime: None,
            historical_usage_micro: PerResource::default(),
        });
        QueueId(position(self.snapshot.queues.len()))
    }

    fn job(&mut self, name: &str, job: Job) {
        let shape = self.shape(job.gpus);
        self.snapshot.pod_groups.push(pod_group(name, job));
        let group = PodGroupId(position(self.snapshot.pod_groups.len()));
        for at in 0..job.pods {
            let pod_name = format!("{name}-{at:05}");
            self.snapshot.pods.push(pod(pod_name.as_str().into(), group, shape, job.node));
        }
    }

    /// Adds a job whose pods require one domain of the level.
    fn job_in_one_domain(&mut self, level: &str, name: &str, job: Job) {
        self.job(name, job);
        let constraint = TopologyConstraint {
            topology: TOPOLOGY.into(),
            required: Some(level.into()),
            preferred: None,
        };
        let group = self.snapshot.pod_groups.last_mut().expect("the job's group was just added");
        group.topology = Some(constraint);
    }

    /// Adds a job of which no two pods may share a domain of the level.
    fn job_in_separate_domains(&mut self, level: &str, name: &str, job: Job) {
        let first = self.snapshot.pods.len();
        self.job(name, job);
        let its_own =
            Requirement { key: "app".into(), operator: Operator::In, values: vec![name.into()] };
        let term = PodAffinityTerm {
            selector: Some(LabelSelector { requirements: vec![its_own] }),
            namespaces: None,
            topology_key: level.into(),
        };
        let together = self.shape(job.gpus).0 as usize;
        let requests = self.snapshot.shapes[together].requests.clone();
        let pod_anti_affinity = vec![term];
        self.snapshot.shapes.push(PodShape { requests, pod_anti_affinity, ..PodShape::default() });
        let shape = ShapeId(position(self.snapshot.shapes.len()));
        for pod in &mut self.snapshot.pods[first..] {
            pod.labels.insert("app".into(), name.into());
            pod.shape = shape;
        }
    }

    fn shape(&mut self, gpus: u32) -> ShapeId {
        let requests = Resources {
            gpu_milli: i64::from(gpus) * 1000,
            cpu_milli: i64::from(gpus) * 1000,
            memory_bytes: i64::from(gpus) << 30,
            pods: 1,
            ..Resources::default()
        };
        let shapes = &mut self.snapshot.shapes;
        let plain = PodShape { requests, ..PodShape::default() };
        let known = shapes.iter().position(|shape| *shape == plain);
        let at = known.unwrap_or_else(|| {
            shapes.push(plain);
            shapes.len() - 1
        });
        ShapeId(position(at + 1))
    }

    fn finish(self) -> Snapshot {
        self.snapshot
    }
}

/// Index of the last of `len` elements.
fn position(len: usize) -> u32 {
    u32::try_from(len - 1).expect("a cluster has fewer than 2^32 of anything")
}

fn node(name: &str) -> Node {
    let allocatable = Resources {
        gpu_milli: i64::from(GPUS_PER_NODE) * 1000,
        cpu_milli: 128_000,
        memory_bytes: 1 << 40,
        pods: 110,
        ..Resources::default()
    };
    Node { name: name.into(), allocatable, ready: true, ..Node::default() }
}

fn pod_group(name: &str, job: Job) -> PodGroup {
    PodGroup {
        namespace: "default".into(),
        name: name.into(),
        uid: name.into(),
        queue: Ok(Some(job.queue)),
        priority: if job.preemptible { 50 } else { 100 },
        preemptible: job.preemptible,
        sub_groups: vec![SubGroup {
            name: "default".into(),
            min_member: job.pods,
            parent: None,
            min_sub_group: None,
            topology: None,
        }],
        min_sub_group: None,
        topology: None,
        created: START,
        last_start: job.node.map(|_| START),
        last_eviction: None,
        stale_since: None,
        staleness_grace: None,
        preemption_delay: Duration::ZERO,
        is_skipped: false,
        evicted_together: false,
        unschedulable_members: Vec::new(),
    }
}

fn pod(name: Name, group: PodGroupId, shape: ShapeId, node: Option<NodeId>) -> Pod {
    Pod {
        namespace: "default".into(),
        uid: name.clone(),
        name,
        labels: schedlab_scheduler_core::model::Labels::new(),
        group: Some(group),
        sub_group: 0,
        shape,
        priority: 0,
        preemption_policy: PreemptionPolicy::default(),
        status: if node.is_some() { PodStatus::Running } else { PodStatus::Pending },
        node,
        gpu_groups: Vec::new(),
        own_claims: Vec::new(),
        numa_allocations: Vec::new(),
        nominated_node: None,
        task_priority: None,
        leader_role: None,
        created: START,
        started: node.map(|_| START),
        releasing_since: None,
        binding_failed: false,
    }
}

#[cfg(test)]
mod tests;
