//! A saturated fleet, replayed cycle by cycle without a cluster: 400 nodes of three models, 25
//! queues in five departments, and jobs that arrive by day and night, run and end. Used to measure
//! how the cost of a cycle grows with the load, and by tests that count searches.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use schedlab_api::labels;
use schedlab_scheduler_core::{
    Decision, Plan, Snapshot,
    model::{
        ListEdit, Node, NodeSelectorTerm, Operator, Pod, PodGroup, PodGroupId, PodId, PodShape,
        PodStatus, Queue, QueueId, Requirement, ShapeId, SnapshotChanges, SubGroup, Time,
    },
    resources::{Amount, PerResource, Resources},
};

const START_TIME: Time = Time(1_767_225_600_000);
const QUEUES: u32 = 25;
const DEPARTMENTS: u32 = 5;

/// A generator of equal numbers for equal seeds (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        let count = u64::try_from(from.len()).expect("a short list");
        from[usize::try_from(self.next() % count).expect("an index of the list")]
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().max(f64::MIN_POSITIVE).ln()).sqrt()
            * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A job of the trace.
#[derive(Clone, Debug)]
struct Job {
    arrives: Time,
    runs: Duration,
    pods: u32,
    shape: ShapeId,
    queue: QueueId,
    priority: i32,
}

/// What one replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of cycles.
    pub cycles: u32,
    /// Number of pods bound.
    pub bound: u32,
    /// Number of pods evicted.
    pub evicted: u32,
    /// Sum over all cycles of the pod groups that stayed pending.
    pub pending: u64,
    /// A hash of all decisions in their order.
    pub digest: u64,
}

/// The fleet with its jobs, which is replayed by [`Self::replay`].
pub struct SaturatedFleet {
    snapshot: Snapshot,
    jobs: Vec<Job>,
    /// Pod groups that are in the cluster, by position in the snapshot: the job of each.
    present: Vec<usize>,
    ends: BinaryHeap<Reverse<(Time, usize)>>,
    /// When each running job started, so that an end scheduled before an eviction is ignored.
    starts: BTreeMap<usize, Time>,
    /// What changed in the snapshot since the last cycle.
    changes: SnapshotChanges,
}

impl SaturatedFleet {
    /// Creates the fleet and jobs for `days` days. `load_percent` scales how often jobs arrive: 100
    /// is about the rate at which the fleet completes them.
    pub fn new(seed: u64, days: u32, load_percent: u32) -> Self {
        let mut snapshot = Snapshot { now: START_TIME, ..Snapshot::default() };
        for (model, count, gpus) in [("a100", 200, 8), ("h100", 120, 8), ("l40s", 80, 4)] {
            snapshot.nodes.extend((0..count).map(|at| node(model, at, gpus)));
        }
        add_queues(&mut snapshot.queues);
        let mut numbers = Numbers(seed);
        let mut fleet = Self {
            snapshot,
            jobs: Vec::new(),
            present: Vec::new(),
            ends: BinaryHeap::new(),
            starts: BTreeMap::new(),
            changes: SnapshotChanges::everything(),
        };
        let (mut secs, end) = (0.0, f64::from(days) * 86_400.0);
        let pause = 70.0 * 100.0 / f64::from(load_percent);
        while secs < end {
            secs += -pause * (1.0 - numbers.unit()).ln();
            let by_day = (8.0..=20.0).contains(&(secs / 3600.0 % 24.0));
            if numbers.unit() <= if by_day { 1.0 } else { 0.4 } {
                let job = fleet.new_job(&mut numbers, secs);
                fleet.jobs.push(job);
            }
        }
        fleet
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive numbers: a queue, and milliseconds of a few days"
    )]
    fn new_job(&mut self, numbers: &mut Numbers, secs: f64) -> Job {
        let kind = numbers.unit();
        let (pods, gpus) = match kind {
            ..0.5 => (1, numbers.choose(&[1, 1, 1, 2])),
            ..0.8 => (1, numbers.choose(&[4, 8])),
            ..0.97 => (numbers.choose(&[2, 4]), 8),
            _ => (numbers.choose(&[8, 16]), 8),
        };
        let models: &[&str] = match (numbers.unit(), gpus) {
            (..0.8, 1 | 2) => &["a100", "l40s"],
            (..0.8, _) => &["a100", "h100"],
            _ => &["h100"],
        };
        let queue = (numbers.unit() * numbers.unit().sqrt() * f64::from(QUEUES)) as u32;
        let runs = (9.2 + 1.3 * numbers.normal()).exp().min(3.0 * 86_400.0) + 60.0;
        Job {
            arrives: START_TIME.plus_duration(Duration::from_millis((secs * 1000.0) as u64)),
            runs: Duration::from_millis((runs * 1000.0) as u64),
            pods,
            shape: self.shape(gpus, models),
            queue: QueueId(DEPARTMENTS + queue),
            priority: numbers.choose(&[50, 50, 50, 50, 50, 50, 50, 50, 100, 125]),
        }
    }

    fn shape(&mut self, gpus: i64, models: &[&str]) -> ShapeId {
        let requests = Resources {
            gpu_milli: gpus * 1000,
            cpu_milli: gpus * 4000,
            memory_bytes: gpus * (16_000 << 20),
            pods: 1,
            ..Resources::default()
        };
        let product = Requirement {
            key: labels::GPU_PRODUCT.into(),
            operator: Operator::In,
            values: models.iter().map(|model| (*model).into()).collect(),
        };
        let term = NodeSelectorTerm { labels: vec![product], fields: Vec::new() };
        let shape = PodShape { requests, node_affinity: Some(vec![term]), ..PodShape::default() };
        let shapes = &mut self.snapshot.shapes;
        let known = shapes.iter().position(|other| *other == shape).unwrap_or_else(|| {
            shapes.push(shape);
            shapes.len() - 1
        });
        ShapeId(u32::try_from(known).expect("few shapes"))
    }

    /// Number of jobs.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Plays the trace: `schedule` runs after each arrival and end of a job until it decides
    /// nothing more, and `on_cycle` is called after each cycle. `schedule` gets what changed in the
    /// snapshot since the last cycle, as a scheduler that keeps its session does.
    pub fn replay(
        mut self,
        mut schedule: impl FnMut(&Snapshot, &SnapshotChanges) -> Plan,
        mut on_cycle: impl FnMut(&Snapshot, &Plan),
    ) -> Totals {
        let (mut totals, mut next) = (Totals::default(), 0);
        while self.advance(&mut next) {
            let mut is_done = false;
            while !is_done {
                let plan = schedule(&self.snapshot, &std::mem::take(&mut self.changes));
                on_cycle(&self.snapshot, &plan);
                totals.cycles += 1;
                totals.pending += plan.waiting.len() as u64;
                is_done = self.apply(&plan, &mut totals);
                self.snapshot.now = self.snapshot.now.plus_duration(Duration::from_millis(1));
            }
        }
        totals
    }

    /// Moves to the next arrival or end of a job. Returns `false` if there is none.
    fn advance(&mut self, next: &mut usize) -> bool {
        let arrival = self.jobs.get(*next).map(|job| job.arrives);
        let end = self.next_end();
        let Some(now) = arrival.into_iter().chain(end).min() else { return false };
        self.snapshot.now = now;
        if end == Some(now) {
            let Reverse((_, job)) = self.ends.pop().expect("the end was just found");
            self.remove_job(job);
        } else {
            self.add_job(*next);
            *next += 1;
        }
        true
    }

    /// When the next job ends. Ends that an eviction made obsolete are dropped.
    fn next_end(&mut self) -> Option<Time> {
        while let Some(Reverse((at, job))) = self.ends.peek().copied() {
            let started = self.starts.get(&job);
            if started.is_some_and(|start| start.plus_duration(self.jobs[job].runs) == at) {
                return Some(at);
            }
            self.ends.pop();
        }
        None
    }

    /// Applies the plan. Evicted jobs start over. Returns whether nothing was bound or evicted.
    fn apply(&mut self, plan: &Plan, totals: &mut Totals) -> bool {
        let mut is_done = true;
        for decision in &plan.decisions {
            let (pod, node) = match decision {
                Decision::Bind { pod, node } => (*pod, Some(*node)),
                Decision::Evict { pod, .. } => (*pod, None),
                Decision::Pipeline { .. } => continue,
            };
            is_done = false;
            self.changes.pods.insert(pod);
            let of = &mut self.snapshot.pods[pod.0 as usize];
            let id = of.group.expect("every pod has a group");
            self.changes.groups.insert(id);
            let group = id.0 as usize;
            (of.status, of.node) = match node {
                Some(node) => (PodStatus::Running, Some(node)),
                None => (PodStatus::Pending, None),
            };
            let (job, now) = (self.present[group], self.snapshot.now);
            totals.record(decision, job);
            if node.is_some() {
                self.record_start(job, now);
                self.snapshot.pod_groups[group].last_start = Some(now);
            } else {
                self.starts.remove(&job);
                self.snapshot.pod_groups[group].last_eviction = Some(now);
            }
        }
        is_done
    }

    fn record_start(&mut self, job: usize, now: Time) {
        if self.starts.insert(job, now).is_none_or(|before| before != now) {
            self.ends.push(Reverse((now.plus_duration(self.jobs[job].runs), job)));
        }
    }

    fn add_job(&mut self, index: usize) {
        let job = &self.jobs[index];
        let (group, first) = (position(self.present.len()), position(self.snapshot.pods.len()));
        let name = format!("job-{index:06}");
        self.snapshot.pod_groups.push(pod_group(&name, job));
        for at in 0..job.pods {
            let name = format!("{name}-{at:03}");
            let pod = Pod::pending("default", &name, PodGroupId(group), job.shape);
            self.snapshot.pods.push(Pod { created: job.arrives, ..pod });
        }
        self.present.push(index);
        self.changes.groups.insert(PodGroupId(group));
        self.changes.group_edit = ListEdit::new(Vec::new(), &[group]);
        self.changes.pods.extend((first..first + job.pods).map(PodId));
        self.changes.pod_edit = ListEdit::new(Vec::new(), &vec![first; job.pods as usize]);
    }

    fn remove_job(&mut self, job: usize) {
        self.starts.remove(&job);
        let at = self.present.binary_search(&job).expect("the job is in the cluster");
        let gone = PodGroupId(position(at));
        self.present.remove(at);
        self.snapshot.pod_groups.remove(at);
        let pods = (0..).zip(&self.snapshot.pods);
        let of_job = pods.filter(|(_, pod)| pod.group == Some(gone)).map(|(at, _)| at);
        self.changes.pod_edit = ListEdit::new(of_job.collect(), &[]);
        self.changes.group_edit = ListEdit::new(vec![gone.0], &[]);
        self.snapshot.pods.retain(|pod| pod.group != Some(gone));
        for pod in &mut self.snapshot.pods {
            pod.group = pod.group.map(|group| PodGroupId(group.0 - u32::from(group.0 > gone.0)));
        }
    }
}

fn position(at: usize) -> u32 {
    u32::try_from(at).expect("positions are 32 bits")
}

impl Totals {
    fn record(&mut self, decision: &Decision, job: usize) {
        let (kind, node) = match decision {
            Decision::Bind { node, .. } => (1, node.0),
            Decision::Evict { .. } | Decision::Pipeline { .. } => (2, u32::MAX),
        };
        self.bound += u32::from(kind == 1);
        self.evicted += u32::from(kind == 2);
        for word in [kind, u64::from(node), job as u64] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(23);
        }
    }
}

fn node(model: &str, at: u32, gpus: i64) -> Node {
    let allocatable = Resources {
        gpu_milli: gpus * 1000,
        cpu_milli: gpus * 14_000,
        memory_bytes: gpus << 37,
        pods: 250,
        ..Resources::default()
    };
    let labels = [(labels::GPU_PRODUCT.into(), model.into())].into_iter().collect();
    let name = format!("{model}-{at:03}").as_str().into();
    Node { name, labels, allocatable, ready: true, ..Node::default() }
}

fn add_queues(queues: &mut Vec<Queue>) {
    let every = Amount::Unlimited;
    let mut add = |name: String, parent, gpus: i64, weight| {
        let gpu = Amount::Exactly(gpus * 1000);
        queues.push(Queue {
            parent,
            quota: PerResource { gpu, cpu: every, memory: every },
            over_quota_weight_milli: PerResource { gpu: weight, cpu: 1000, memory: 1000 },
            created: START_TIME,
            ..Queue::without_bounds(&name)
        });
    };
    for department in 0..DEPARTMENTS {
        add(format!("dept-{department}"), None, 676, 1000);
    }
    for team in 0..QUEUES {
        let quota = if team == 7 { 140 } else { 60 + i64::from(team % 4) * 40 };
        let weight = i64::from(1 + team % 3) * 1000;
        add(format!("team-{team:02}"), Some(QueueId(team % DEPARTMENTS)), quota, weight);
    }
}

fn pod_group(name: &str, job: &Job) -> PodGroup {
    let min_member = job.pods;
    PodGroup {
        priority: job.priority,
        preemptible: job.priority < 100,
        created: job.arrives,
        sub_groups: vec![SubGroup::top_level_leaf(PodGroup::DEFAULT_SUB_GROUP, min_member)],
        ..PodGroup::gang("default", name, job.queue, min_member)
    }
}
