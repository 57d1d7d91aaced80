//! Builds a snapshot from text.

mod device;
mod queue;
mod shape;
mod volume;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    name,
    tokens::{Tokens, pair},
};
use schedlab_api::labels;
use schedlab_scheduler_core::{
    Snapshot,
    model::{
        DisruptionBudget, ExcludedNodes, LabelMismatch, LabelSelector, Labels, LeaderRole, Name,
        Node, NodeId, Operator, Pod, PodGroup, PodGroupId, PodShape, PodStatus, PreemptionPolicy,
        Queue, Requirement, ShapeId, StalenessGrace, SubGroup, Taint, Time, Topology,
        TopologyLevel, UnschedulableMember,
    },
    resources::Resources,
};

/// Which pods form a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    ByLine,
    EachPod,
}

/// Clusters start a day after the epoch, so that everything can have an age.
const NOW: i64 = 86_400_000;

pub(super) fn snapshot(text: &str, grouping: Grouping) -> Snapshot {
    let mut builder = Builder::default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    for (line, age) in lines.iter().zip((1..=lines.len()).rev()) {
        builder.age = i64::try_from(age).expect("few lines") * 1000;
        builder.line(line);
    }
    builder.finish(grouping)
}

#[derive(Default)]
struct Builder {
    age: i64,
    nodes: BTreeMap<Name, Node>,
    excluded_nodes: BTreeMap<BTreeSet<LabelMismatch>, Vec<Name>>,
    topologies: Vec<Topology>,
    queues: BTreeMap<Name, (Queue, Option<Name>)>,
    shapes: Vec<PodShape>,
    jobs: Vec<Job>,
    foreign: Vec<Pod>,
    budgets: Vec<DisruptionBudget>,
    namespaces: BTreeMap<Name, Labels>,
}

/// A pod group and its pods, with names instead of ids.
struct Job {
    queue: Name,
    group: PodGroup,
    pods: Vec<(Pod, Option<Name>)>,
}

impl Builder {
    fn line(&mut self, line: &str) {
        let mut tokens = Tokens::new(line.split("--").next().unwrap_or(line));
        match tokens.first() {
            "node" => self.node(tokens),
            "queue" => self.queue(tokens),
            "job" => self.job(line, tokens, 1),
            "gang" => self.job(line, tokens, u32::MAX),
            "part" => self.part(tokens),
            "foreign" => self.foreign(tokens),
            "topology" => self.topology(tokens),
            "budget" => self.budget(tokens),
            "namespace" => self.namespace(tokens),
            other => panic!("unknown kind of line {other}: {line}"),
        }
    }

    fn node(&mut self, mut tokens: Tokens<'_>) {
        let name = name(tokens.first());
        let mut labels: Labels = tokens.each("label").into_iter().map(label).collect();
        labels.insert(labels::HOSTNAME.into(), name.clone());
        let gpu_milli = tokens.milli("gpus").unwrap_or(0);
        let node = Node {
            name: name.clone(),
            labels,
            taints: tokens.each("taint").into_iter().map(taint).collect(),
            allocatable: Resources {
                gpu_milli,
                cpu_milli: tokens.milli("cpu").unwrap_or(128_000),
                memory_bytes: tokens.bytes("memory").unwrap_or(1 << 40),
                pods: tokens.number("pods").unwrap_or(110),
                extended: shape::extended(&mut tokens),
            },
            gpus_via_dra: tokens.flag("by-claim"),
            published_devices: BTreeMap::from([("gpu".into(), gpu_milli / 1000)]),
            devices: tokens.each("device").into_iter().map(device::node_device).collect(),
            device_counters: (tokens.each("counters").into_iter())
                .flat_map(device::amounts)
                .collect(),
            unused_claims: shape::unused_claims(&mut tokens),
            gpu_memory_mib: tokens.number("gpu-memory").unwrap_or(0),
            volume_limits: tokens
                .number("volumes")
                .map(|limit| ("csi".into(), limit))
                .into_iter()
                .collect(),
            attached_volumes: tokens.each("attached").into_iter().map(volume::attached).collect(),
            numa: shape::numa(&mut tokens),
            images: tokens.each("image").into_iter().map(|image| (image.into(), 1 << 30)).collect(),
            unschedulable: tokens.flag("cordoned"),
            ready: !tokens.flag("not-ready"),
        };
        let mismatches: BTreeSet<LabelMismatch> =
            tokens.each("lacks").into_iter().map(label_mismatch).collect();
        tokens.expect_end();
        if mismatches.is_empty() {
            self.nodes.insert(name, node);
        } else {
            self.excluded_nodes.entry(mismatches).or_default().push(name);
        }
    }

    fn topology(&mut self, mut tokens: Tokens<'_>) {
        let name = name(tokens.first());
        let levels = tokens.rest("levels").into_iter();
        let levels = levels.map(|label| TopologyLevel { label: label.into(), alias: None });
        let levels = levels.collect();
        tokens.expect_end();
        self.topologies.push(Topology { name, levels });
    }

    fn budget(&mut self, mut tokens: Tokens<'_>) {
        let equal = |(key, value)| Requirement { key, operator: Operator::In, values: vec![value] };
        let labels = tokens.each("label").into_iter().map(label);
        let budget = DisruptionBudget {
            namespace: "default".into(),
            name: name(tokens.first()),
            selector: LabelSelector { requirements: labels.map(equal).collect() },
            allowed: tokens.number("allows").map_or(0, |it| i32::try_from(it).expect("32 bits")),
            disrupted: tokens.each("disrupted").into_iter().map(Name::from).collect(),
        };
        tokens.expect_end();
        self.budgets.push(budget);
    }

    fn namespace(&mut self, mut tokens: Tokens<'_>) {
        let (name, labels) = (name(tokens.first()), tokens.each("label"));
        tokens.expect_end();
        self.namespaces.insert(name, labels.into_iter().map(label).collect());
    }

    fn job(&mut self, line: &str, mut tokens: Tokens<'_>, least: u32) {
        let name = name(tokens.first());
        let asks = line.contains(" gpus=") || line.contains(" part");
        let parts_follow = !asks && least == u32::MAX;
        let priority =
            tokens.number("priority").map_or(50, |it| i32::try_from(it).expect("32 bits"));
        let created = Time(NOW - self.age);
        let ago = |ago: Duration| Time(NOW - i64::try_from(ago.as_millis()).expect("short"));
        let group = PodGroup {
            namespace: "default".into(),
            name: name.clone(),
            uid: name.clone(),
            queue: Ok(None),
            priority,
            preemptible: !tokens.flag("non-preemptible") && priority < 100
                || tokens.flag("preemptible"),
            sub_groups: Vec::new(),
            min_sub_group: tokens.count("needs"),
            topology: (!asks).then(|| shape::topology_constraint(&mut tokens)).flatten(),
            created: tokens.duration("age").map_or(created, ago),
            last_start: tokens.duration("started").map(ago),
            last_eviction: tokens.duration("evicted").map(ago),
            stale_since: tokens.duration("stale").map(ago),
            staleness_grace: match tokens.value("grace") {
                Some("never") => Some(StalenessGrace::Never),
                Some(other) => Tokens::new(&format!("grace={other}"))
                    .duration("grace")
                    .map(StalenessGrace::After),
                None => None,
            },
            preemption_delay: tokens.duration("delay").unwrap_or_default(),
            is_skipped: tokens.flag("left-alone"),
            unschedulable_members: Vec::new(),
        };
        let queue = tokens.value("queue").unwrap_or("default").into();
        self.jobs.push(Job { queue, group, pods: Vec::new() });
        if parts_follow {
            tokens.expect_end();
        } else {
            self.members(&name, "default", tokens, least);
        }
    }

    fn part(&mut self, mut tokens: Tokens<'_>) {
        let part = tokens.first().to_owned();
        let group = &self.jobs.last().expect("a part follows a gang").group;
        let prefix = format!("{}-{part}", group.name);
        self.members(&prefix.as_str().into(), &part, tokens, u32::MAX);
    }

    /// Adds a sub-group and its pods.
    fn members(&mut self, prefix: &Name, part: &str, mut tokens: Tokens<'_>, least: u32) {
        let (parent, needs) = (tokens.value("parent").map(str::to_owned), tokens.count("needs"));
        let count = tokens.count("pods").unwrap_or(u32::from(needs.is_none()));
        let minimum = tokens.count("min").unwrap_or(count.min(least));
        let topology = shape::topology_constraint(&mut tokens);
        let first = tokens.count("unusable").unwrap_or(0);
        let mut pods = self.parse_pods(prefix, count, tokens);
        let usable = pods.split_off(first as usize);
        let job = self.jobs.last_mut().expect("members follow their job");
        let position = job.group.sub_groups.len();
        let of_parent = |parent: String| {
            let mut all = job.group.sub_groups.iter();
            all.position(|sub| *sub.name == *parent).expect("a parent stands above its children")
        };
        let parent = parent.map(of_parent);
        job.group.sub_groups.push(SubGroup {
            name: part.into(),
            min_member: if needs.is_some() { 0 } else { minimum },
            parent,
            min_sub_group: needs,
            topology,
        });
        job.group
            .unschedulable_members
            .extend(pods.into_iter().map(|(pod, _)| unschedulable_member(pod, position)));
        let members = usable.into_iter();
        job.pods.extend(members.map(|(pod, node)| (Pod { sub_group: position, ..pod }, node)));
    }

    fn foreign(&mut self, mut tokens: Tokens<'_>) {
        let name = name(tokens.first());
        let priority =
            tokens.number("priority").map_or(0, |it| i32::try_from(it).expect("32 bits"));
        let pods = self.parse_pods(&name, 1, tokens);
        let nodes: Vec<Name> = self.nodes.keys().cloned().collect();
        self.foreign.extend(
            pods.into_iter().map(|(pod, node)| assign_node(Pod { priority, ..pod }, node, &nodes)),
        );
    }

    /// `count` pods; those listed after `on` have a node.
    fn parse_pods(
        &mut self,
        prefix: &Name,
        count: u32,
        mut tokens: Tokens<'_>,
    ) -> Vec<(Pod, Option<Name>)> {
        let on = tokens.rest("on");
        let ways = [
            ("releasing", PodStatus::Releasing),
            ("bound", PodStatus::Bound),
            ("away", PodStatus::OnExcludedNode),
        ];
        let state = ways.into_iter().find(|(word, _)| tokens.flag(word));
        let held = state.map_or(PodStatus::Running, |(_, status)| status);
        let (gated, succeeded) = (tokens.count("gated"), tokens.count("succeeded").unwrap_or(0));
        let template = self.template(prefix, held, &mut tokens);
        let shape = self.shape(&mut tokens);
        let requests = self.shapes[shape.0 as usize].requests.clone();
        tokens.expect_end();
        let numbered = |at: u32| match count {
            1 => prefix.clone(),
            _ => format!("{prefix}-{at}").as_str().into(),
        };
        (0..count)
            .map(|at| {
                let position = shape::node_position(on.get(at as usize).copied(), &requests);
                let (node, gpu_groups, zones) =
                    (position.node, position.gpu_groups, position.numa_allocations);
                let gated = gated.is_some_and(|gated| at >= count - gated);
                let status = match (&node, gated) {
                    (Some(_), _) => held,
                    (None, true) => PodStatus::Gated,
                    (None, false) if at >= count - succeeded => PodStatus::Succeeded,
                    (None, false) => PodStatus::Pending,
                };
                let (name, started) = (numbered(at), node.as_ref().map(|_| template.created));
                let uid = name.clone();
                let templates = self.shapes[shape.0 as usize].own_claims.len();
                let own_claims = (0..templates).map(|at| format!("{name}.{at}").into()).collect();
                (
                    Pod {
                        name,
                        uid,
                        shape,
                        status,
                        gpu_groups,
                        own_claims,
                        numa_allocations: zones,
                        started,
                        ..template.clone()
                    },
                    node,
                )
            })
            .collect()
    }

    /// What all of them have in common besides their shape.
    fn template(&self, prefix: &Name, held: PodStatus, tokens: &mut Tokens<'_>) -> Pod {
        let ago = |ago: Duration| Time(NOW - i64::try_from(ago.as_millis()).expect("short"));
        let released = tokens.duration("for").map_or(Time(NOW), ago);
        let nominated = tokens.value("nominated").map(Name::from);
        Pod {
            namespace: tokens.value("in").unwrap_or("default").into(),
            name: prefix.clone(),
            uid: prefix.clone(),
            labels: tokens.each("label").into_iter().map(label).collect(),
            group: None,
            sub_group: 0,
            priority: 0,
            preemption_policy: if tokens.flag("never-preempts") {
                PreemptionPolicy::Never
            } else {
                PreemptionPolicy::PreemptLowerPriority
            },
            status: PodStatus::Pending,
            node: None,
            gpu_groups: Vec::new(),
            own_claims: Vec::new(),
            numa_allocations: Vec::new(),
            nominated_node: nominated.map(|node| self.node_id(&node)),
            task_priority: task_priority(tokens),
            leader_role: leader_role(tokens),
            created: Time(NOW - self.age),
            started: None,
            binding_failed: tokens.flag("unbindable"),
            releasing_since: (held == PodStatus::Releasing).then_some(released),
            shape: ShapeId(0),
        }
    }

    fn shape(&mut self, tokens: &mut Tokens<'_>) -> ShapeId {
        let shape = shape::pod_shape(tokens);
        let known = self.shapes.iter().position(|known| *known == shape);
        let at = known.unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        });
        ShapeId(u32::try_from(at).expect("few shapes"))
    }

    fn node_id(&self, node: &Name) -> NodeId {
        let at = self.nodes.keys().position(|known| known == node).expect("a node above");
        NodeId(u32::try_from(at).expect("few nodes"))
    }

    fn finish(mut self, grouping: Grouping) -> Snapshot {
        if self.queues.is_empty() {
            self.queue(Tokens::new("default quota=-1"));
        }
        let nodes: Vec<Name> = self.nodes.keys().cloned().collect();
        let queues = queue::resolve(self.queues);
        self.jobs.sort_by(|a, b| a.group.name.cmp(&b.group.name));
        let excluded = self.excluded_nodes.into_iter();
        let mut snapshot = Snapshot {
            now: Time(NOW),
            nodes: self.nodes.into_values().collect(),
            excluded_nodes: excluded
                .map(|(mismatches, nodes)| ExcludedNodes { nodes, mismatches })
                .collect(),
            shapes: self.shapes,
            topologies: self.topologies,
            budgets: self.budgets,
            namespaces: self.namespaces,
            ..Snapshot::default()
        };
        for job in self.jobs {
            add_job(&mut snapshot, job, grouping, &queues, &nodes);
        }
        snapshot.queues = queues;
        snapshot.pods.extend(self.foreign);
        snapshot.pods.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot
    }
}

fn add_job(
    snapshot: &mut Snapshot,
    job: Job,
    grouping: Grouping,
    queues: &[Queue],
    nodes: &[Name],
) {
    let priority = job.group.priority;
    let pods =
        job.pods.into_iter().map(|(pod, node)| assign_node(Pod { priority, ..pod }, node, nodes));
    match grouping {
        Grouping::ByLine => {
            let id = PodGroupId(u32::try_from(snapshot.pod_groups.len()).expect("few groups"));
            let queue = queue::queue_id(queues, &job.queue).map(Some);
            snapshot.pod_groups.push(PodGroup { queue, ..job.group });
            snapshot.pods.extend(pods.map(|pod| Pod { group: Some(id), ..pod }));
        }
        Grouping::EachPod => {
            let alone = SubGroup {
                name: "default".into(),
                min_member: 1,
                parent: None,
                min_sub_group: None,
                topology: None,
            };
            for pod in pods {
                let id = PodGroupId(u32::try_from(snapshot.pod_groups.len()).expect("few groups"));
                snapshot.pod_groups.push(PodGroup {
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                    sub_groups: vec![alone.clone()],
                    ..job.group.clone()
                });
                snapshot.pods.push(Pod { group: Some(id), sub_group: 0, ..pod });
            }
        }
    }
}

fn unschedulable_member(pod: Pod, sub_group: usize) -> UnschedulableMember {
    UnschedulableMember {
        pod: pod.name,
        sub_group: Some(sub_group),
        gated: pod.status == PodStatus::Gated,
        shape: pod.shape,
        problem: "Missing required configmaps: [m]".into(),
        fix: "create ConfigMap m".into(),
    }
}

fn assign_node(pod: Pod, node: Option<Name>, nodes: &[Name]) -> Pod {
    let node = node.and_then(|node| nodes.iter().position(|known| *known == node));
    Pod { node: node.map(|at| NodeId(u32::try_from(at).expect("few nodes"))), ..pod }
}

fn label(word: &str) -> (Name, Name) {
    let (key, value) = pair(word);
    (key.into(), value.into())
}

fn label_mismatch(word: &str) -> LabelMismatch {
    match (word, word.split_once('=')) {
        ("gpu-worker", _) => LabelMismatch::NotGpuWorker,
        ("cpu-worker", _) => LabelMismatch::NotCpuWorker,
        (_, Some((key, ""))) => LabelMismatch::Unwanted { key: key.into() },
        (_, Some((key, value))) => LabelMismatch::Missing { key: key.into(), value: value.into() },
        (_, None) => panic!(
            "lacks: got {word}, expected gpu-worker, cpu-worker, key=value, or key= (no label)"
        ),
    }
}

fn taint(word: &str) -> Taint {
    let (taint, effect) = word.rsplit_once(':').expect("key=value:effect");
    let (key, value) = pair(taint);
    Taint { key: key.into(), value: value.into(), effect: shape::effect(effect) }
}

fn leader_role(tokens: &mut Tokens<'_>) -> Option<LeaderRole> {
    tokens.value("leads").map(|of| match of {
        "kubeflow" => LeaderRole::Kubeflow,
        "ray" => LeaderRole::Ray,
        other => panic!("leads: got {other}, expected kubeflow or ray"),
    })
}

fn task_priority(tokens: &mut Tokens<'_>) -> Option<i32> {
    tokens.number("task-priority").map(|it| i32::try_from(it).expect("small"))
}
