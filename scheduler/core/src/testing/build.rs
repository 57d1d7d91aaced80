//! From text to snapshot.

mod queue;
mod shape;
mod volume;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    name,
    words::{Words, pair},
};
use crate::{
    Snapshot,
    model::{
        DisruptionBudget, LabelSelector, Labels, Lack, Leader, LeftOut, Name, Node, NodeId,
        Operator, Pod, PodGroup, PodGroupId, PodShape, PodStatus, PreemptionPolicy, Queue,
        Requirement, ShapeId, StalenessGrace, SubGroup, Taint, Time, Topology, TopologyLevel,
        UnusableMember,
    },
    resources::Resources,
};

/// Which pods belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    ByLine,
    EachPod,
}

/// Clusters begin a day into time, so that everything can have an age.
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
    left_out: BTreeMap<BTreeSet<Lack>, Vec<Name>>,
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
        let mut words = Words::of(line.split("--").next().unwrap_or(line));
        match words.first() {
            "node" => self.node(words),
            "queue" => self.queue(words),
            "job" => self.job(line, words, 1),
            "gang" => self.job(line, words, u32::MAX),
            "part" => self.part(words),
            "foreign" => self.foreign(words),
            "topology" => self.topology(words),
            "budget" => self.budget(words),
            "namespace" => self.namespace(words),
            other => panic!("no line begins with {other}: {line}"),
        }
    }

    fn node(&mut self, mut words: Words<'_>) {
        let name = name(words.first());
        let mut labels: Labels = words.each("label").into_iter().map(label).collect();
        labels.insert("kubernetes.io/hostname".into(), name.clone());
        let gpu_milli = words.milli("gpus").unwrap_or(0);
        let node = Node {
            name: name.clone(),
            labels,
            taints: words.each("taint").into_iter().map(taint).collect(),
            allocatable: Resources {
                gpu_milli,
                cpu_milli: words.milli("cpu").unwrap_or(128_000),
                memory_bytes: words.bytes("memory").unwrap_or(1 << 40),
                pods: words.number("pods").unwrap_or(110),
                extended: shape::extended(&mut words),
            },
            gpus_by_claim: words.flag("by-claim"),
            published: BTreeMap::from([("gpu".into(), gpu_milli / 1000)]),
            held_claims: shape::held_claims(&mut words),
            gpu_memory_mib: words.number("gpu-memory").unwrap_or(0),
            volume_limits: words
                .number("volumes")
                .map(|limit| ("csi".into(), limit))
                .into_iter()
                .collect(),
            attached: words.each("attached").into_iter().map(volume::attached).collect(),
            numa: shape::numa(&mut words),
            images: words.each("image").into_iter().map(|image| (image.into(), 1 << 30)).collect(),
            unschedulable: words.flag("cordoned"),
            ready: !words.flag("not-ready"),
        };
        let lacks: BTreeSet<Lack> = words.each("lacks").into_iter().map(lack).collect();
        words.end();
        if lacks.is_empty() {
            self.nodes.insert(name, node);
        } else {
            self.left_out.entry(lacks).or_default().push(name);
        }
    }

    fn topology(&mut self, mut words: Words<'_>) {
        let name = name(words.first());
        let levels = words.rest("levels").into_iter();
        let levels = levels.map(|label| TopologyLevel { label: label.into(), alias: None });
        let levels = levels.collect();
        words.end();
        self.topologies.push(Topology { name, levels });
    }

    fn budget(&mut self, mut words: Words<'_>) {
        let equal = |(key, value)| Requirement { key, operator: Operator::In, values: vec![value] };
        let labels = words.each("label").into_iter().map(label);
        let budget = DisruptionBudget {
            namespace: "default".into(),
            name: name(words.first()),
            selector: LabelSelector { requirements: labels.map(equal).collect() },
            allowed: words.number("allows").map_or(0, |it| i32::try_from(it).expect("32 bits")),
            disrupted: words.each("disrupted").into_iter().map(Name::from).collect(),
        };
        words.end();
        self.budgets.push(budget);
    }

    fn namespace(&mut self, mut words: Words<'_>) {
        let (name, labels) = (name(words.first()), words.each("label"));
        words.end();
        self.namespaces.insert(name, labels.into_iter().map(label).collect());
    }

    fn job(&mut self, line: &str, mut words: Words<'_>, least: u32) {
        let name = name(words.first());
        let asks = line.contains(" gpus=") || line.contains(" part");
        let parts_follow = !asks && least == u32::MAX;
        let priority =
            words.number("priority").map_or(50, |it| i32::try_from(it).expect("32 bits"));
        let created = Time(NOW - self.age);
        let ago = |ago: Duration| Time(NOW - i64::try_from(ago.as_millis()).expect("short"));
        let group = PodGroup {
            namespace: "default".into(),
            name: name.clone(),
            uid: name.clone(),
            queue: Ok(None),
            priority,
            preemptible: !words.flag("non-preemptible") && priority < 100
                || words.flag("preemptible"),
            sub_groups: Vec::new(),
            min_sub_group: words.count("needs"),
            topology: (!asks).then(|| shape::places(&mut words)).flatten(),
            created: words.duration("age").map_or(created, ago),
            last_start: words.duration("started").map(ago),
            last_eviction: words.duration("evicted").map(ago),
            stale_since: words.duration("stale").map(ago),
            staleness_grace: match words.value("grace") {
                Some("never") => Some(StalenessGrace::Never),
                Some(other) => Words::of(&format!("grace={other}"))
                    .duration("grace")
                    .map(StalenessGrace::After),
                None => None,
            },
            preemption_delay: words.duration("delay").unwrap_or_default(),
            left_alone: words.flag("left-alone"),
            unusable: Vec::new(),
        };
        let queue = words.value("queue").unwrap_or("default").into();
        self.jobs.push(Job { queue, group, pods: Vec::new() });
        if parts_follow {
            words.end();
        } else {
            self.members(&name, "default", (words, least));
        }
    }

    fn part(&mut self, mut words: Words<'_>) {
        let part = words.first().to_owned();
        let group = &self.jobs.last().expect("a part follows a gang").group;
        let prefix = format!("{}-{part}", group.name);
        self.members(&prefix.as_str().into(), &part, (words, u32::MAX));
    }

    /// A sub-group and its pods.
    fn members(&mut self, prefix: &Name, part: &str, (mut words, least): (Words<'_>, u32)) {
        let (parent, needs) = (words.value("parent").map(str::to_owned), words.count("needs"));
        let count = words.count("pods").unwrap_or(u32::from(needs.is_none()));
        let minimum = words.count("min").unwrap_or(count.min(least));
        let topology = shape::places(&mut words);
        let first = words.count("unusable").unwrap_or(0);
        let mut pods = self.pods(prefix, count, words);
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
        job.group.unusable.extend(pods.into_iter().map(|(pod, _)| unusable(pod, position)));
        let members = usable.into_iter();
        job.pods.extend(members.map(|(pod, node)| (Pod { sub_group: position, ..pod }, node)));
    }

    fn foreign(&mut self, mut words: Words<'_>) {
        let name = name(words.first());
        let priority = words.number("priority").map_or(0, |it| i32::try_from(it).expect("32 bits"));
        let pods = self.pods(&name, 1, words);
        let nodes: Vec<Name> = self.nodes.keys().cloned().collect();
        self.foreign.extend(
            pods.into_iter().map(|(pod, node)| place(Pod { priority, ..pod }, node, &nodes)),
        );
    }

    /// `count` pods; those behind `on` have a node.
    fn pods(
        &mut self,
        prefix: &Name,
        count: u32,
        mut words: Words<'_>,
    ) -> Vec<(Pod, Option<Name>)> {
        let on = words.rest("on");
        let ways = [
            ("releasing", PodStatus::Releasing),
            ("bound", PodStatus::Bound),
            ("away", PodStatus::Away),
        ];
        let said = ways.into_iter().find(|(word, _)| words.flag(word));
        let held = said.map_or(PodStatus::Running, |(_, status)| status);
        let (gated, succeeded) = (words.count("gated"), words.count("succeeded").unwrap_or(0));
        let template = self.template(prefix, held, &mut words);
        let shape = self.shape(&mut words);
        let requests = self.shapes[shape.0 as usize].requests.clone();
        words.end();
        let numbered = |at: u32| match count {
            1 => prefix.clone(),
            _ => format!("{prefix}-{at}").as_str().into(),
        };
        (0..count)
            .map(|at| {
                let place = shape::place(on.get(at as usize).copied(), &requests);
                let (node, gpu_groups, zones) = (place.node, place.groups, place.zones);
                let gated = gated.is_some_and(|gated| at >= count - gated);
                let status = match (&node, gated) {
                    (Some(_), _) => held,
                    (None, true) => PodStatus::Gated,
                    (None, false) if at >= count - succeeded => PodStatus::Succeeded,
                    (None, false) => PodStatus::Pending,
                };
                let (name, started) = (numbered(at), node.as_ref().map(|_| template.created));
                let uid = name.clone();
                (
                    Pod {
                        name,
                        uid,
                        shape,
                        status,
                        gpu_groups,
                        zones,
                        started,
                        ..template.clone()
                    },
                    node,
                )
            })
            .collect()
    }

    /// What all of them have in common but their shape.
    fn template(&self, prefix: &Name, held: PodStatus, words: &mut Words<'_>) -> Pod {
        let ago = |ago: Duration| Time(NOW - i64::try_from(ago.as_millis()).expect("short"));
        let released = words.duration("for").map_or(Time(NOW), ago);
        let nominated = words.value("nominated").map(Name::from);
        Pod {
            namespace: words.value("in").unwrap_or("default").into(),
            name: prefix.clone(),
            uid: prefix.clone(),
            labels: words.each("label").into_iter().map(label).collect(),
            group: None,
            sub_group: 0,
            priority: 0,
            preemption_policy: if words.flag("never-preempts") {
                PreemptionPolicy::Never
            } else {
                PreemptionPolicy::PreemptLowerPriority
            },
            status: PodStatus::Pending,
            node: None,
            gpu_groups: Vec::new(),
            zones: Vec::new(),
            nominated: nominated.map(|node| self.node_id(&node)),
            task_priority: task_priority(words),
            leads: leads(words),
            created: Time(NOW - self.age),
            started: None,
            unbindable: words.flag("unbindable"),
            released_since: (held == PodStatus::Releasing).then_some(released),
            shape: ShapeId(0),
        }
    }

    fn shape(&mut self, words: &mut Words<'_>) -> ShapeId {
        let shape = shape::of(words);
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
            self.queue(Words::of("default quota=-1"));
        }
        let nodes: Vec<Name> = self.nodes.keys().cloned().collect();
        let queues = queue::resolve(self.queues);
        self.jobs.sort_by(|a, b| a.group.name.cmp(&b.group.name));
        let left_out = self.left_out.into_iter();
        let mut snapshot = Snapshot {
            now: Time(NOW),
            nodes: self.nodes.into_values().collect(),
            left_out: left_out.map(|(lacks, nodes)| LeftOut { nodes, lacks }).collect(),
            shapes: self.shapes,
            topologies: self.topologies,
            budgets: self.budgets,
            namespaces: self.namespaces,
            ..Snapshot::default()
        };
        for job in self.jobs {
            add_job(&mut snapshot, (job, grouping), &queues, &nodes);
        }
        snapshot.queues = queues;
        snapshot.pods.extend(self.foreign);
        snapshot.pods.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot
    }
}

fn add_job(
    snapshot: &mut Snapshot,
    (job, grouping): (Job, Grouping),
    queues: &[Queue],
    nodes: &[Name],
) {
    let priority = job.group.priority;
    let pods = job.pods.into_iter().map(|(pod, node)| place(Pod { priority, ..pod }, node, nodes));
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

fn unusable(pod: Pod, sub_group: usize) -> UnusableMember {
    UnusableMember {
        pod: pod.name,
        sub_group: Some(sub_group),
        gated: pod.status == PodStatus::Gated,
        shape: pod.shape,
        problem: "Missing required configmaps: [m]".into(),
        cure: "create ConfigMap m".into(),
    }
}

fn place(pod: Pod, node: Option<Name>, nodes: &[Name]) -> Pod {
    let node = node.and_then(|node| nodes.iter().position(|known| *known == node));
    Pod { node: node.map(|at| NodeId(u32::try_from(at).expect("few nodes"))), ..pod }
}

fn label(word: &str) -> (Name, Name) {
    let (key, value) = pair(word);
    (key.into(), value.into())
}

fn lack(word: &str) -> Lack {
    match (word, word.split_once('=')) {
        ("gpu-worker", _) => Lack::GpuWorker,
        ("cpu-worker", _) => Lack::CpuWorker,
        (_, Some((key, ""))) => Lack::NoLabel { key: key.into() },
        (_, Some((key, value))) => Lack::Label { key: key.into(), value: value.into() },
        (_, None) => panic!("lacks {word}: gpu-worker, cpu-worker, key=value, or key= (no label)"),
    }
}

fn taint(word: &str) -> Taint {
    let (taint, effect) = word.rsplit_once(':').expect("key=value:effect");
    let (key, value) = pair(taint);
    Taint { key: key.into(), value: value.into(), effect: shape::effect(effect) }
}

fn leads(words: &mut Words<'_>) -> Option<Leader> {
    words.value("leads").map(|of| match of {
        "kubeflow" => Leader::Kubeflow,
        "ray" => Leader::Ray,
        other => panic!("leads={other}: kubeflow or ray"),
    })
}

fn task_priority(words: &mut Words<'_>) -> Option<i32> {
    words.number("task-priority").map(|it| i32::try_from(it).expect("small"))
}
