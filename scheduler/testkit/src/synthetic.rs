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

const TOPOLOGY_NAME: &str = "racks";
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
const RACK_LABEL: &str = "example.com/rack";

const START_TIME: Time = Time(1_767_225_600_000);

/// One pending one-GPU job for every GPU of an empty cluster, spread over `queues` leaf queues in
/// two departments.
pub fn pending_singles(nodes: u32, queues: u32) -> Snapshot {
    let gpus = nodes * GPUS_PER_NODE;
    let mut cluster = SnapshotBuilder::new(nodes);
    let leaves = cluster.add_two_departments(queues, gpus);
    for job in 0..gpus {
        let queue = leaves[(job % queues) as usize];
        cluster
            .add_job(&format!("job-{job:06}"), SyntheticJob { queue, ..SyntheticJob::default() });
    }
    cluster.into_snapshot()
}

/// `jobs` pending one-GPU jobs in four queues, each with a quota of a quarter of the empty cluster.
pub fn pending_jobs(nodes: u32, jobs: u32) -> Snapshot {
    SnapshotBuilder::jobs_in_four_queues(nodes, jobs, |_| None)
}

/// Like [`pending_jobs`], but every second job runs, on one node after the other.
pub fn half_running_jobs(nodes: u32, jobs: u32) -> Snapshot {
    SnapshotBuilder::jobs_in_four_queues(nodes, jobs, |job| {
        (job % 2 == 0).then_some(NodeId(job % nodes))
    })
}

/// A busy cluster: one-GPU jobs of a hundred queues run on fifteen of sixteen GPUs. A third as many
/// pods are pending, in jobs of one, two, four and eight GPUs.
pub fn full_fleet(nodes: u32) -> Snapshot {
    let gpus = nodes * GPUS_PER_NODE;
    let (running, pending) = (gpus / 16 * 15, gpus / 16 * 5);
    let mut cluster = SnapshotBuilder::new(nodes);
    let leaves = cluster.add_two_departments(100, gpus);
    let queue = |job: u32| leaves[job as usize % leaves.len()];
    for job in 0..pending {
        let gpus = [1, 2, 4, 8][(job / 100 % 4) as usize];
        let job_of = SyntheticJob { queue: queue(job), gpus, ..SyntheticJob::default() };
        cluster.add_job(&format!("pending-{job:06}"), job_of);
    }
    for job in 0..running {
        // The last GPU of every second node is free.
        let node = Some(NodeId(job / 15 * 2 + job % 15 / 8));
        let job_of = SyntheticJob { queue: queue(job), node, ..SyntheticJob::default() };
        cluster.add_job(&format!("running-{job:06}"), job_of);
    }
    cluster.into_snapshot()
}

/// A settled fleet: every pod has a node, ten pods on each, of which seven request a GPU; jobs of
/// fifty queues.
pub fn settled_fleet(nodes: u32) -> Snapshot {
    let mut cluster = SnapshotBuilder::new(nodes);
    let leaves = cluster.add_two_departments(50, nodes * GPUS_PER_NODE);
    for job in 0..nodes * 10 {
        let gpus = u32::from(job / nodes < 7);
        let (queue, node) = (leaves[job as usize % leaves.len()], Some(NodeId(job % nodes)));
        let job_of = SyntheticJob { queue, gpus, node, ..SyntheticJob::default() };
        cluster.add_job(&format!("running-{job:06}"), job_of);
    }
    cluster.into_snapshot()
}

/// Every GPU runs a one-GPU job of a borrowing queue; one gang of half the nodes, with eight GPUs
/// per pod, reclaims them.
pub fn large_gang_against_singles(nodes: u32) -> Snapshot {
    let gang = SyntheticJob { pods: nodes / 2, gpus: GPUS_PER_NODE, ..SyntheticJob::default() };
    SnapshotBuilder::gangs_against_singles(
        nodes,
        RunningJobs::Preemptible,
        &[("gang".into(), gang)],
    )
}

/// Every GPU runs a one-GPU job of a borrowing queue; as many one-GPU jobs reclaim all of them.
pub fn singles_against_singles(nodes: u32) -> Snapshot {
    let jobs: Vec<_> = (0..nodes * GPUS_PER_NODE)
        .map(|job| (format!("pending-{job:06}"), SyntheticJob::default()))
        .collect();
    SnapshotBuilder::gangs_against_singles(nodes, RunningJobs::Preemptible, &jobs)
}

/// Every GPU is in use, one on each node by a non-preemptible job: a gang of ten pods with eight
/// GPUs never fits.
pub fn infeasible_gang_against_singles(nodes: u32) -> Snapshot {
    let gang = SyntheticJob { pods: 10, gpus: GPUS_PER_NODE, ..SyntheticJob::default() };
    SnapshotBuilder::gangs_against_singles(
        nodes,
        RunningJobs::OnePinnedOnEachNode,
        &[("gang".into(), gang)],
    )
}

/// Every GPU runs a one-GPU job of a borrowing department, in racks of eight nodes and zones of
/// eight racks; sixty gangs of the other four departments each require one rack or zone.
pub fn gangs_in_one_domain_against_singles(nodes: u32) -> Snapshot {
    SnapshotBuilder::lent_to_one_department(nodes, GangPlacement::SameDomain)
}

/// Like [`gangs_in_one_domain_against_singles`], but no two pods of a gang may share a rack, or a
/// node.
pub fn gangs_in_separate_domains_against_singles(nodes: u32) -> Snapshot {
    SnapshotBuilder::lent_to_one_department(nodes, GangPlacement::SeparateDomains)
}

/// Which domains of a topology level the pods of a gang may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GangPlacement {
    SameDomain,
    SeparateDomains,
}

/// The jobs that run on the nodes at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunningJobs {
    Preemptible,
    OnePinnedOnEachNode,
}

/// A job of equal pods that must all run together.
#[derive(Clone, Copy, Debug)]
struct SyntheticJob {
    queue: QueueId,
    pods: u32,
    gpus: u32,
    preemptible: bool,
    node: Option<NodeId>,
}

impl Default for SyntheticJob {
    fn default() -> Self {
        Self { queue: QueueId(0), pods: 1, gpus: 1, preemptible: true, node: None }
    }
}

/// A builder of synthetic snapshots. Names are zero-padded, so that lists stay sorted by name.
struct SnapshotBuilder {
    snapshot: Snapshot,
}

impl SnapshotBuilder {
    fn new(nodes: u32) -> Self {
        let nodes = (0..nodes).map(|at| new_node(&format!("node-{at:05}"))).collect();
        Self { snapshot: Snapshot { now: START_TIME, nodes, ..Snapshot::default() } }
    }

    fn gangs_against_singles(
        nodes: u32,
        occupants: RunningJobs,
        waiting: &[(String, SyntheticJob)],
    ) -> Snapshot {
        let mut cluster = Self::new(nodes);
        let gpus = nodes * GPUS_PER_NODE;
        let department = cluster.add_queue("department", None, gpus);
        let borrower = cluster.add_queue("queue-borrower", Some(department), 0);
        let owner = cluster.add_queue("queue-owner", Some(department), gpus);
        for (name, job) in waiting {
            cluster.add_job(name, SyntheticJob { queue: owner, ..*job });
        }
        for at in 0..gpus {
            let node = at / GPUS_PER_NODE;
            let pinned = occupants == RunningJobs::OnePinnedOnEachNode && at % GPUS_PER_NODE == 0;
            let job = SyntheticJob {
                queue: borrower,
                preemptible: !pinned,
                node: Some(NodeId(node)),
                ..SyntheticJob::default()
            };
            cluster.add_job(&format!("running-{at:06}"), job);
        }
        cluster.into_snapshot()
    }

    fn lent_to_one_department(nodes: u32, kept: GangPlacement) -> Snapshot {
        let mut cluster = Self::new(nodes);
        cluster.label_racks();
        let gpus = nodes * GPUS_PER_NODE;
        let leaves = cluster.add_five_departments(gpus);
        for at in 0..60_usize {
            let job = SyntheticJob {
                queue: leaves[10 + at % 4 * 10 + at % 10],
                pods: [4, 8, 16][at % 3],
                gpus: [1, 2, 8][at / 3 % 3],
                ..SyntheticJob::default()
            };
            let level = match (kept, at / 9 % 2) {
                (_, 0) => RACK_LABEL,
                (GangPlacement::SameDomain, _) => ZONE_LABEL,
                (GangPlacement::SeparateDomains, _) => labels::HOSTNAME,
            };
            let name = format!("gang-{at:02}");
            match kept {
                GangPlacement::SameDomain => cluster.add_job_in_one_domain(level, &name, job),
                GangPlacement::SeparateDomains => {
                    cluster.add_job_in_separate_domains(level, &name, job);
                }
            }
        }
        for at in 0..gpus {
            let (node, gpu) = (at / GPUS_PER_NODE, at % GPUS_PER_NODE);
            let queue = leaves[((node + gpu) % 10) as usize];
            let job = SyntheticJob { queue, node: Some(NodeId(node)), ..SyntheticJob::default() };
            cluster.add_job(&format!("running-{at:06}"), job);
        }
        cluster.into_snapshot()
    }

    fn jobs_in_four_queues(
        nodes: u32,
        jobs: u32,
        node_of_job: impl Fn(u32) -> Option<NodeId>,
    ) -> Snapshot {
        let mut cluster = Self::new(nodes);
        let leaves = cluster.add_two_departments(4, nodes * GPUS_PER_NODE);
        for job in 0..jobs {
            let queue = leaves[(job % 4) as usize];
            cluster.add_job(
                &format!("job-{job:06}"),
                SyntheticJob { queue, node: node_of_job(job), ..SyntheticJob::default() },
            );
        }
        cluster.into_snapshot()
    }

    /// Adds two departments with `queues` leaf queues of equal quota, alternating between the
    /// departments.
    fn add_two_departments(&mut self, queues: u32, gpus: u32) -> Vec<QueueId> {
        let departments =
            ["department-a", "department-b"].map(|name| self.add_queue(name, None, gpus / 2));
        let each = gpus / queues;
        (0..queues)
            .map(|at| {
                let parent = departments[(at % 2) as usize];
                self.add_queue(&format!("queue-{at:04}"), Some(parent), each)
            })
            .collect()
    }

    /// Adds five departments of equal quota with ten leaf queues each.
    fn add_five_departments(&mut self, gpus: u32) -> Vec<QueueId> {
        let mut leaves = Vec::new();
        for department in 0..5 {
            let parent = self.add_queue(&format!("department-{department}"), None, gpus / 5);
            let leaf =
                |at| self.add_queue(&format!("queue-{department}-{at}"), Some(parent), gpus / 50);
            leaves.extend((0..10).map(leaf));
        }
        leaves
    }

    /// Labels the nodes with racks of eight nodes and zones of eight racks.
    fn label_racks(&mut self) {
        for (node, at) in self.snapshot.nodes.iter_mut().zip(0..) {
            let labels = [
                (ZONE_LABEL.into(), format!("zone-{:03}", at / 64).as_str().into()),
                (RACK_LABEL.into(), format!("rack-{:04}", at / 8).as_str().into()),
                (labels::HOSTNAME.into(), node.name.clone()),
            ];
            node.labels = labels.into_iter().collect();
        }
        let levels = [ZONE_LABEL, RACK_LABEL]
            .map(|label| TopologyLevel { label: label.into(), alias: None });
        let topology = Topology { name: TOPOLOGY_NAME.into(), levels: levels.to_vec() };
        self.snapshot.topologies.push(topology);
    }

    fn add_queue(&mut self, name: &str, parent: Option<QueueId>, gpus: u32) -> QueueId {
        let quota = Amount::Exactly(i64::from(gpus) * 1000);
        let every = Amount::Unlimited;
        self.snapshot.queues.push(Queue {
            name: name.into(),
            parent,
            priority: 100,
            quota: PerResource { gpu: quota, cpu: every, memory: every },
            limit: PerResource { gpu: every, cpu: every, memory: every },
            over_quota_weight_milli: PerResource { gpu: 1000, cpu: 1000, memory: 1000 },
            created: START_TIME,
            preempt_min_runtime: None,
            reclaim_min_runtime: None,
            historical_usage_micro: PerResource::default(),
        });
        QueueId(last_index(self.snapshot.queues.len()))
    }

    fn add_job(&mut self, name: &str, job: SyntheticJob) {
        let shape = self.shape_with_gpus(job.gpus);
        self.snapshot.pod_groups.push(new_pod_group(name, job));
        let group = PodGroupId(last_index(self.snapshot.pod_groups.len()));
        for at in 0..job.pods {
            let pod_name = format!("{name}-{at:05}");
            self.snapshot.pods.push(new_pod(pod_name.as_str().into(), group, shape, job.node));
        }
    }

    /// Adds a job whose pods require one domain of the level.
    fn add_job_in_one_domain(&mut self, level: &str, name: &str, job: SyntheticJob) {
        self.add_job(name, job);
        let constraint = TopologyConstraint {
            topology: TOPOLOGY_NAME.into(),
            required: Some(level.into()),
            preferred: None,
        };
        let group = self.snapshot.pod_groups.last_mut().expect("the job's group was just added");
        group.topology = Some(constraint);
    }

    /// Adds a job whose pods may not share a domain of the level with each other.
    fn add_job_in_separate_domains(&mut self, level: &str, name: &str, job: SyntheticJob) {
        let first = self.snapshot.pods.len();
        self.add_job(name, job);
        let its_own =
            Requirement { key: "app".into(), operator: Operator::In, values: vec![name.into()] };
        let term = PodAffinityTerm {
            selector: Some(LabelSelector { requirements: vec![its_own] }),
            namespaces: None,
            topology_key: level.into(),
        };
        let together = self.shape_with_gpus(job.gpus).0 as usize;
        let requests = self.snapshot.shapes[together].requests.clone();
        let pod_anti_affinity = vec![term];
        self.snapshot.shapes.push(PodShape { requests, pod_anti_affinity, ..PodShape::default() });
        let shape = ShapeId(last_index(self.snapshot.shapes.len()));
        for pod in &mut self.snapshot.pods[first..] {
            pod.labels.insert("app".into(), name.into());
            pod.shape = shape;
        }
    }

    fn shape_with_gpus(&mut self, gpus: u32) -> ShapeId {
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
        ShapeId(last_index(at + 1))
    }

    fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }
}

/// Index of the last element of a list with `len` elements.
fn last_index(len: usize) -> u32 {
    u32::try_from(len - 1).expect("a cluster has fewer than 2^32 of anything")
}

fn new_node(name: &str) -> Node {
    let allocatable = Resources {
        gpu_milli: i64::from(GPUS_PER_NODE) * 1000,
        cpu_milli: 128_000,
        memory_bytes: 1 << 40,
        pods: 110,
        ..Resources::default()
    };
    Node { name: name.into(), allocatable, ready: true, ..Node::default() }
}

fn new_pod_group(name: &str, job: SyntheticJob) -> PodGroup {
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
        created: START_TIME,
        last_start: job.node.map(|_| START_TIME),
        last_eviction: None,
        stale_since: None,
        staleness_grace: None,
        preemption_delay: Duration::ZERO,
        is_skipped: false,
        evicted_together: false,
        unschedulable_members: Vec::new(),
    }
}

fn new_pod(name: Name, group: PodGroupId, shape: ShapeId, node: Option<NodeId>) -> Pod {
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
        created: START_TIME,
        started: node.map(|_| START_TIME),
        releasing_since: None,
        binding_failed: false,
    }
}

#[cfg(test)]
mod tests;
