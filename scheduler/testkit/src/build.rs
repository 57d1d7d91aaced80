//! Builds a snapshot from text.

mod device;
mod multi_node;
mod queue;
mod shape;
mod volume;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    to_name,
    tokens::{LineTokens, split_key_value},
};
use multi_node::MultiNodeDevice;
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

/// Which pods of a text cluster form a pod group: those of one line, or each pod for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    ByLine,
    EachPod,
}

/// The time of a text cluster: a day after the epoch, so that everything can have an age.
const NOW: i64 = 86_400_000;

pub(super) fn build_snapshot(text: &str, grouping: Grouping) -> Snapshot {
    let mut builder = SnapshotBuilder::default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    for (line, age) in lines.iter().zip((1..=lines.len()).rev()) {
        builder.age = i64::try_from(age).expect("few lines") * 1000;
        builder.add_line(line);
    }
    builder.into_snapshot(grouping)
}

#[derive(Default)]
struct SnapshotBuilder {
    age: i64,
    nodes: BTreeMap<Name, Node>,
    excluded_nodes: BTreeMap<BTreeSet<LabelMismatch>, Vec<Name>>,
    topologies: Vec<Topology>,
    queues: BTreeMap<Name, (Queue, Option<Name>)>,
    shapes: Vec<PodShape>,
    jobs: Vec<ParsedJob>,
    foreign: Vec<Pod>,
    budgets: Vec<DisruptionBudget>,
    multi_node_devices: Vec<MultiNodeDevice>,
    namespaces: BTreeMap<Name, Labels>,
}

/// A pod group and its pods, with names instead of ids.
struct ParsedJob {
    queue: Name,
    group: PodGroup,
    /// It is one group even where each pod is a group of its own.
    is_gang: bool,
    pods: Vec<(Pod, Option<Name>)>,
}

impl SnapshotBuilder {
    fn add_line(&mut self, line: &str) {
        let mut tokens = LineTokens::new(line.split("--").next().unwrap_or(line));
        match tokens.take_first() {
            "node" => self.add_node(tokens),
            "queue" => self.add_queue(tokens),
            "job" => self.add_job_line(line, tokens, 1),
            "gang" => self.add_job_line(line, tokens, u32::MAX),
            "part" => self.add_sub_group(tokens),
            "foreign" => self.add_foreign_pod(tokens),
            "topology" => self.add_topology(tokens),
            "budget" => self.add_budget(tokens),
            "device" => self.multi_node_devices.push(multi_node::parse_device(tokens)),
            "namespace" => self.add_namespace(tokens),
            other => panic!("unknown kind of line {other}: {line}"),
        }
    }

    fn add_node(&mut self, mut tokens: LineTokens<'_>) {
        let name = to_name(tokens.take_first());
        let mut labels: Labels = tokens.take_each("label").into_iter().map(parse_label).collect();
        labels.insert(labels::HOSTNAME.into(), name.clone());
        let gpu_milli = tokens.take_milli("gpus").unwrap_or(0);
        let node = Node {
            name: name.clone(),
            labels,
            taints: tokens.take_each("taint").into_iter().map(parse_taint).collect(),
            allocatable: Resources {
                gpu_milli,
                cpu_milli: tokens.take_milli("cpu").unwrap_or(128_000),
                memory_bytes: tokens.take_bytes("memory").unwrap_or(1 << 40),
                pods: tokens.take_number("pods").unwrap_or(110),
                extended: shape::parse_extended_resources(&mut tokens),
            },
            gpus_via_dra: tokens.take_flag("by-claim"),
            published_devices: BTreeMap::from([("gpu".into(), gpu_milli / 1000)]),
            devices: tokens
                .take_each("device")
                .into_iter()
                .map(device::parse_node_device)
                .collect(),
            device_counters: (tokens.take_each("counters").into_iter())
                .flat_map(device::amounts)
                .collect(),
            unused_claims: shape::parse_unused_claims(&mut tokens),
            gpu_memory_mib: tokens.take_number("gpu-memory").unwrap_or(0),
            volume_limits: tokens
                .take_number("volumes")
                .map(|limit| ("csi".into(), limit))
                .into_iter()
                .collect(),
            attached_volumes: tokens
                .take_each("attached")
                .into_iter()
                .map(volume::attached_csi_volume)
                .collect(),
            numa: shape::parse_numa_topology(&mut tokens),
            images: tokens
                .take_each("image")
                .into_iter()
                .map(|image| (image.into(), 1 << 30))
                .collect(),
            unschedulable: tokens.take_flag("cordoned"),
            ready: !tokens.take_flag("not-ready"),
        };
        let mismatches: BTreeSet<LabelMismatch> =
            tokens.take_each("lacks").into_iter().map(parse_label_mismatch).collect();
        tokens.expect_end();
        if mismatches.is_empty() {
            self.nodes.insert(name, node);
        } else {
            self.excluded_nodes.entry(mismatches).or_default().push(name);
        }
    }

    fn add_topology(&mut self, mut tokens: LineTokens<'_>) {
        let name = to_name(tokens.take_first());
        let levels = tokens.take_rest("levels").into_iter();
        let levels = levels.map(|label| TopologyLevel { label: label.into(), alias: None });
        let levels = levels.collect();
        tokens.expect_end();
        self.topologies.push(Topology { name, levels });
    }

    fn add_budget(&mut self, mut tokens: LineTokens<'_>) {
        let equal = |(key, value)| Requirement { key, operator: Operator::In, values: vec![value] };
        let labels = tokens.take_each("label").into_iter().map(parse_label);
        let budget = DisruptionBudget {
            namespace: "default".into(),
            name: to_name(tokens.take_first()),
            selector: LabelSelector { requirements: labels.map(equal).collect() },
            allowed: tokens
                .take_number("allows")
                .map_or(0, |it| i32::try_from(it).expect("32 bits")),
            disrupted: tokens.take_each("disrupted").into_iter().map(Name::from).collect(),
        };
        tokens.expect_end();
        self.budgets.push(budget);
    }

    fn add_namespace(&mut self, mut tokens: LineTokens<'_>) {
        let (name, labels) = (to_name(tokens.take_first()), tokens.take_each("label"));
        tokens.expect_end();
        self.namespaces.insert(name, labels.into_iter().map(parse_label).collect());
    }

    fn add_job_line(&mut self, line: &str, mut tokens: LineTokens<'_>, default_minimum_max: u32) {
        let name = to_name(tokens.take_first());
        let asks = line.contains(" gpus=") || line.contains(" part");
        let parts_follow = !asks && default_minimum_max == u32::MAX;
        let priority =
            tokens.take_number("priority").map_or(50, |it| i32::try_from(it).expect("32 bits"));
        let created = Time(NOW - self.age);
        let ago = |ago: Duration| Time(NOW - i64::try_from(ago.as_millis()).expect("short"));
        let group = PodGroup {
            namespace: "default".into(),
            name: name.clone(),
            uid: name.clone(),
            queue: Ok(None),
            priority,
            preemptible: !tokens.take_flag("non-preemptible") && priority < 100
                || tokens.take_flag("preemptible"),
            sub_groups: Vec::new(),
            min_sub_group: tokens.take_count("needs"),
            topology: (!asks).then(|| shape::parse_topology_constraint(&mut tokens)).flatten(),
            created: tokens.take_duration("age").map_or(created, ago),
            last_start: tokens.take_duration("started").map(ago),
            last_eviction: tokens.take_duration("evicted").map(ago),
            stale_since: tokens.take_duration("stale").map(ago),
            staleness_grace: match tokens.take_value("grace") {
                Some("never") => Some(StalenessGrace::Never),
                Some(other) => LineTokens::new(&format!("grace={other}"))
                    .take_duration("grace")
                    .map(StalenessGrace::After),
                None => None,
            },
            preemption_delay: tokens.take_duration("delay").unwrap_or_default(),
            is_skipped: tokens.take_flag("left-alone"),
            evicted_together: tokens.take_flag("whole"),
            unschedulable_members: Vec::new(),
        };
        let queue = tokens.take_value("queue").unwrap_or("default").into();
        let is_gang = default_minimum_max == u32::MAX;
        self.jobs.push(ParsedJob { queue, group, is_gang, pods: Vec::new() });
        if parts_follow {
            tokens.expect_end();
        } else {
            self.add_members(&name, "default", tokens, default_minimum_max);
        }
    }

    fn add_sub_group(&mut self, mut tokens: LineTokens<'_>) {
        let part = tokens.take_first().to_owned();
        let group = &self.jobs.last().expect("a `part` line follows the line of its gang").group;
        let prefix = format!("{}-{part}", group.name);
        self.add_members(&prefix.as_str().into(), &part, tokens, u32::MAX);
    }

    /// Adds a sub-group and its pods to the last job.
    fn add_members(
        &mut self,
        prefix: &Name,
        sub_group_name: &str,
        mut tokens: LineTokens<'_>,
        default_minimum_max: u32,
    ) {
        let (parent, needs) =
            (tokens.take_value("parent").map(str::to_owned), tokens.take_count("needs"));
        let count = tokens.take_count("pods").unwrap_or(u32::from(needs.is_none()));
        let minimum = tokens.take_count("min").unwrap_or(count.min(default_minimum_max));
        let topology = shape::parse_topology_constraint(&mut tokens);
        let first = tokens.take_count("unusable").unwrap_or(0);
        let mut pods = self.parse_pods(prefix, count, tokens);
        let usable = pods.split_off(first as usize);
        let job = self.jobs.last_mut().expect("members follow their job");
        let position = job.group.sub_groups.len();
        let of_parent = |parent: String| {
            let mut all = job.group.sub_groups.iter();
            all.position(|sub| *sub.name == *parent)
                .expect("the line of a parent comes before the lines of its children")
        };
        let parent = parent.map(of_parent);
        job.group.sub_groups.push(SubGroup {
            name: sub_group_name.into(),
            min_member: if needs.is_some() { 0 } else { minimum },
            parent,
            min_sub_group: needs,
            topology,
        });
        job.group
            .unschedulable_members
            .extend(pods.into_iter().map(|(pod, _)| to_unschedulable_member(pod, position)));
        let members = usable.into_iter();
        job.pods.extend(members.map(|(pod, node)| (Pod { sub_group: position, ..pod }, node)));
    }

    fn add_foreign_pod(&mut self, mut tokens: LineTokens<'_>) {
        let name = to_name(tokens.take_first());
        let priority =
            tokens.take_number("priority").map_or(0, |it| i32::try_from(it).expect("32 bits"));
        let pods = self.parse_pods(&name, 1, tokens);
        let nodes: Vec<Name> = self.nodes.keys().cloned().collect();
        self.foreign.extend(
            pods.into_iter().map(|(pod, node)| assign_node(Pod { priority, ..pod }, node, &nodes)),
        );
    }

    /// Parses `count` pods; the first ones run on the nodes that are listed after `on`.
    fn parse_pods(
        &mut self,
        prefix: &Name,
        count: u32,
        mut tokens: LineTokens<'_>,
    ) -> Vec<(Pod, Option<Name>)> {
        let on = tokens.take_rest("on");
        let ways = [
            ("releasing", PodStatus::Releasing),
            ("bound", PodStatus::Bound),
            ("away", PodStatus::OnExcludedNode),
        ];
        let state = ways.into_iter().find(|(word, _)| tokens.take_flag(word));
        let held = state.map_or(PodStatus::Running, |(_, status)| status);
        let (gated, succeeded) =
            (tokens.take_count("gated"), tokens.take_count("succeeded").unwrap_or(0));
        let template = self.parse_pod_template(prefix, held, &mut tokens);
        let shape = self.parse_shape(&mut tokens);
        let requests = self.shapes[shape.0 as usize].requests.clone();
        tokens.expect_end();
        let numbered = |at: u32| match count {
            1 => prefix.clone(),
            _ => format!("{prefix}-{at}").as_str().into(),
        };
        (0..count)
            .map(|at| {
                let position = shape::parse_node_position(on.get(at as usize).copied(), &requests);
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

    /// What all pods of a line have in common besides their shape.
    fn parse_pod_template(
        &self,
        prefix: &Name,
        held: PodStatus,
        tokens: &mut LineTokens<'_>,
    ) -> Pod {
        let ago = |ago: Duration| Time(NOW - i64::try_from(ago.as_millis()).expect("short"));
        let released = tokens.take_duration("for").map_or(Time(NOW), ago);
        let nominated = tokens.take_value("nominated").map(Name::from);
        Pod {
            namespace: tokens.take_value("in").unwrap_or("default").into(),
            name: prefix.clone(),
            uid: prefix.clone(),
            labels: tokens.take_each("label").into_iter().map(parse_label).collect(),
            group: None,
            sub_group: 0,
            priority: 0,
            preemption_policy: if tokens.take_flag("never-preempts") {
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
            task_priority: parse_task_priority(tokens),
            leader_role: parse_leader_role(tokens),
            created: Time(NOW - self.age),
            started: None,
            binding_failed: tokens.take_flag("unbindable"),
            releasing_since: (held == PodStatus::Releasing).then_some(released),
            shape: ShapeId(0),
        }
    }

    fn parse_shape(&mut self, tokens: &mut LineTokens<'_>) -> ShapeId {
        let shape = shape::parse_pod_shape(tokens);
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

    fn into_snapshot(mut self, grouping: Grouping) -> Snapshot {
        if self.queues.is_empty() {
            self.add_queue(LineTokens::new("default quota=-1"));
        }
        let nodes: Vec<Name> = self.nodes.keys().cloned().collect();
        let queues = queue::resolve_parents(self.queues);
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
        multi_node::add_devices(&mut snapshot, &self.multi_node_devices);
        snapshot.queues = queues;
        snapshot.pods.extend(self.foreign);
        snapshot.pods.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot
    }
}

fn add_job(
    snapshot: &mut Snapshot,
    job: ParsedJob,
    grouping: Grouping,
    queues: &[Queue],
    nodes: &[Name],
) {
    let priority = job.group.priority;
    let pods =
        job.pods.into_iter().map(|(pod, node)| assign_node(Pod { priority, ..pod }, node, nodes));
    if grouping == Grouping::ByLine || job.is_gang {
        let id = PodGroupId(u32::try_from(snapshot.pod_groups.len()).expect("few groups"));
        let queue = match grouping {
            Grouping::ByLine => queue::leaf_queue_id(queues, &job.queue).map(Some),
            Grouping::EachPod => Ok(None),
        };
        snapshot.pod_groups.push(PodGroup { queue, ..job.group });
        snapshot.pods.extend(pods.map(|pod| Pod { group: Some(id), ..pod }));
        return;
    }
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

fn to_unschedulable_member(pod: Pod, sub_group: usize) -> UnschedulableMember {
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

fn parse_label(word: &str) -> (Name, Name) {
    let (key, value) = split_key_value(word);
    (key.into(), value.into())
}

fn parse_label_mismatch(word: &str) -> LabelMismatch {
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

fn parse_taint(word: &str) -> Taint {
    let (taint, effect) = word.rsplit_once(':').expect("key=value:effect");
    let (key, value) = split_key_value(taint);
    Taint { key: key.into(), value: value.into(), effect: shape::parse_taint_effect(effect) }
}

fn parse_leader_role(tokens: &mut LineTokens<'_>) -> Option<LeaderRole> {
    tokens.take_value("leads").map(|of| match of {
        "kubeflow" => LeaderRole::Kubeflow,
        "ray" => LeaderRole::Ray,
        other => panic!("leads: got {other}, expected kubeflow or ray"),
    })
}

fn parse_task_priority(tokens: &mut LineTokens<'_>) -> Option<i32> {
    tokens.take_number("task-priority").map(|it| i32::try_from(it).expect("small"))
}
