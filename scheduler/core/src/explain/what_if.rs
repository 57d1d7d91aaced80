//! The cluster as it would be after a remedy.

mod levels;

use std::{collections::BTreeMap, slice};

use super::new_node::{self, Site, Size};
use crate::{
    Snapshot,
    decision::{
        Added, Batch, Bound, DeviceMisfit, KeptFrom, Misfit, PlaceMisfit, PlaceNeed, Places,
        Quantity, Remedy, Room,
    },
    model::{
        CORDONED_TAINT, CPU_WORKER, GPU_WORKER, NOT_READY_TAINTS, Name, Node, NodeId,
        NodeSelectorTerm, Pod, PodGroup, PodGroupId, PodShape, PodStatus, Queue, QueueId,
        QueueProblem, ShapeId, Time, Toleration,
    },
    resources::{Amount, PerResource, ResourceName, Resources},
};

/// The pods to place next for which there is no node.
#[derive(Clone, Debug)]
pub(super) struct Missing {
    /// What they ask for, the first one first.
    pub(super) shapes: Vec<ShapeId>,
    /// For each the narrowest part of the gang that has to be in one place.
    pub(super) parts: Vec<Option<usize>>,
    /// Nodes that are too full for the first of them, and would take it otherwise.
    pub(super) only_full: Vec<NodeId>,
    /// What stands most in its way on nodes that refuse it, those first on which the least does.
    pub(super) worst: Vec<(NodeId, Misfit)>,
    /// What its queue and those above it use.
    pub(super) used: BTreeMap<Name, PerResource<i64>>,
    /// What those ask for that all nodes would not hold beside the others, were they empty.
    pub(super) beyond_fleet: Vec<ShapeId>,
}

/// A copy of the cluster in which somebody has done what `remedy` says for `group`, of which pods
/// have no node, with nodes of this size. `None`: what it depends on stands in no snapshot.
pub(super) fn with_remedy(
    snapshot: &Snapshot,
    (group, missing): (PodGroupId, &Missing),
    remedy: &Remedy,
    size: Size,
) -> Option<Snapshot> {
    let mut cluster = WhatIf { after: snapshot.clone(), group, missing, size };
    match remedy {
        Remedy::CreateQueue { .. } => cluster.create_queue(),
        Remedy::UseLeaf { leaf, .. } => cluster.use_leaf(leaf)?,
        Remedy::AddMembers { pods, sub_group } => cluster.add_members(*pods, sub_group.as_ref())?,
        Remedy::OpenGates { .. } => cluster.open_gates(),
        Remedy::TryAgain => {
            cluster.after.pod_groups[cluster.group.0 as usize].left_alone = false;
        }
        Remedy::Raise { queue, bound, to, .. } => cluster.raise(queue, *bound, to)?,
        Remedy::GoFirst { before } => cluster.go_before(before)?,
        Remedy::Deserve { queue, more } => cluster.deserve(queue, more)?,
        Remedy::MakeRoom { pods, room, places, .. } => match room {
            Room::Anywhere | Room::Added(_) | Room::OrAdded { .. } => {
                let fresh = places.as_ref().and_then(Places::apart_over).map(slice::from_ref);
                cluster.make_room_by_part(*pods as usize, fresh.unwrap_or_default())?;
            }
            Room::OnlyFull { .. } => cluster.widen_what_is_full(*pods as usize)?,
        },
        Remedy::LargerNodes { .. } | Remedy::LargerDevices { .. } => {
            cluster.make_room_for_missing(1)?;
        }
        Remedy::LargerFleet { .. } => {
            cluster.make_room(missing.beyond_fleet.iter().copied(), &[])?;
        }
        Remedy::MakePlace { topology, level, pods, kept_to, .. } => {
            cluster.make_place((topology, level, kept_to), *pods as usize)?;
        }
        Remedy::Admit { misfit, nodes, pods, added, .. } => match misfit.place_need() {
            Some(need) => cluster.find_place(need, (*pods, added))?,
            None => cluster.admit_first(misfit, (*nodes, *pods))?,
        },
        Remedy::Open { misfit, nodes } => {
            cluster.admit(misfit, (nodes.len(), &cluster.named(nodes)))?;
        }
        Remedy::OtherPlaces { label, from, .. } => cluster.leave_places(label, *from)?,
        Remedy::OnlyPrefer { topology, level, .. } => cluster.only_prefer(topology, level),
        Remedy::Tolerate { key, value } => cluster.tolerate(key, value),
        Remedy::Wait { .. } => cluster.after.let_leave(),
        Remedy::WaitLonger { delay_millis: millis, .. }
        | Remedy::Outlast { minimum_millis: millis, .. } => {
            let delay = i64::try_from(*millis).unwrap_or(i64::MAX);
            cluster.after.now = Time(cluster.after.now.0.saturating_add(delay));
        }
        Remedy::NameQueue
        | Remedy::MendMembers { .. }
        | Remedy::LetIn { .. }
        | Remedy::OtherNodes { .. }
        | Remedy::PreemptMore { .. }
        | Remedy::CreateParent { .. }
        | Remedy::MendQueue { .. }
        | Remedy::DeeperQueue { .. }
        | Remedy::CreateTopology { .. }
        | Remedy::PreferInside { .. } => return None,
    }
    Some(cluster.after)
}

struct WhatIf<'a> {
    after: Snapshot,
    group: PodGroupId,
    missing: &'a Missing,
    size: Size,
}

impl WhatIf<'_> {
    /// A queue without bounds, for all groups that miss it.
    fn create_queue(&mut self) {
        let problem = self.after.pod_groups[self.group.0 as usize].queue.clone();
        let Err(QueueProblem::Missing { queue: name }) = &problem else { return };
        let unlimited = Amount::Unlimited;
        let all = PerResource { gpu: unlimited, cpu: unlimited, memory: unlimited };
        let id = QueueId(position(self.after.queues.len()));
        self.after.queues.push(Queue {
            name: Name::clone(name),
            parent: None,
            priority: 100,
            quota: all,
            limit: all,
            over_quota_weight_milli: PerResource::default(),
            created: self.after.now,
            preempt_min_runtime: None,
            reclaim_min_runtime: None,
            historical_usage_micro: PerResource::default(),
        });
        for group in &mut self.after.pod_groups {
            if group.queue == problem {
                group.queue = Ok(Some(id));
            }
        }
    }

    fn use_leaf(&mut self, leaf: &Name) -> Option<()> {
        let queues = &self.after.queues;
        let child = |at: usize| {
            let parent = Some(QueueId(position(at)));
            queues.iter().position(|queue| queue.parent == parent)
        };
        let leaf = queues.iter().position(|queue| queue.name == *leaf)?;
        let lowest = std::iter::successors(Some(leaf), |at| child(*at)).last()?;
        self.after.pod_groups[self.group.0 as usize].queue = Ok(Some(QueueId(position(lowest))));
        Some(())
    }

    /// Pods like those that are there.
    fn add_members(&mut self, pods: u32, sub_group: Option<&Name>) -> Option<()> {
        let parts = &self.after.pod_groups[self.group.0 as usize].sub_groups;
        let wanted = sub_group.and_then(|name| parts.iter().position(|part| part.name == *name));
        let group = Some(self.group);
        let members = self.after.pods.iter().filter(|pod| pod.group == group);
        let like = members.min_by_key(|pod| wanted.is_some_and(|part| pod.sub_group != part))?;
        let like = like.clone();
        for at in 0..pods {
            let name: Name = format!("{}+{at}", like.name).into();
            self.after.pods.push(Pod {
                uid: Name::clone(&name),
                name,
                sub_group: wanted.unwrap_or(like.sub_group),
                status: PodStatus::Pending,
                node: None,
                gpu_groups: Vec::new(),
                zones: Vec::new(),
                started: None,
                released_since: None,
                unbindable: false,
                ..like.clone()
            });
        }
        Some(())
    }

    fn open_gates(&mut self) {
        let group = Some(self.group);
        for pod in self.after.pods.iter_mut().filter(|pod| pod.group == group) {
            if pod.status == PodStatus::Gated {
                pod.status = PodStatus::Pending;
            }
        }
    }

    /// It has a higher priority than another one.
    fn go_before(&mut self, other: &str) -> Option<()> {
        let groups = &mut self.after.pod_groups;
        let is_other = |group: &&PodGroup| *format!("{}/{}", group.namespace, group.name) == *other;
        let above = groups.iter().find(is_other)?.priority.saturating_add(1);
        groups[self.group.0 as usize].priority = above;
        Some(())
    }

    /// Quotas of so much more than is used, where they are lower.
    fn deserve(&mut self, queue: &Name, more: &[Quantity]) -> Option<()> {
        let used = self.missing.used.get(queue)?;
        let quota = self.after.queues.iter().find(|known| known.name == *queue)?.quota;
        let names = ResourceName::ACCOUNTED;
        for (resource, (used, quota)) in
            names.iter().zip(used.values().into_iter().zip(quota.values()))
        {
            let Some(more) = more.iter().find(|more| more.resource == *resource) else { continue };
            let amount = used.saturating_add(more.amount);
            if !quota.holds(amount) {
                let to = Quantity { resource: resource.clone(), amount };
                self.raise(queue, Bound::Quota, &to)?;
            }
        }
        Some(())
    }

    fn raise(&mut self, queue: &Name, bound: Bound, to: &Quantity) -> Option<()> {
        let queue = self.after.queues.iter_mut().find(|known| known.name == *queue)?;
        let bounds = match bound {
            Bound::Quota => &mut queue.quota,
            Bound::Limit => &mut queue.limit,
        };
        let bound = match to.resource {
            ResourceName::Gpu => &mut bounds.gpu,
            ResourceName::Cpu => &mut bounds.cpu,
            ResourceName::Memory => &mut bounds.memory,
            ResourceName::Pods | ResourceName::Extended(_) => return None,
        };
        *bound = Amount::Exactly(to.amount);
        Some(())
    }

    /// For the next `pods` pods for which there is no node, and for others like them if it has
    /// fewer.
    fn make_room_for_missing(&mut self, pods: usize) -> Option<()> {
        self.make_room(self.missing.shapes.iter().copied().cycle().take(pods), &[])
    }

    /// For the same, in turns on the nodes that are only too full.
    fn widen_what_is_full(&mut self, pods: usize) -> Option<()> {
        let Missing { shapes, only_full, .. } = self.missing;
        for (shape, node) in shapes.iter().cycle().zip(only_full.iter().cycle()).take(pods) {
            let asked = self.after.shapes[shape.0 as usize].room_for(1);
            self.after.nodes[node.0 as usize].allocatable.add(&asked);
        }
        (!only_full.is_empty()).then_some(())
    }

    /// For each shape nodes that hold all pods of it, alone in places of these labels.
    fn make_room(&mut self, pods: impl Iterator<Item = ShapeId>, fresh: &[Name]) -> Option<()> {
        let (like, size) = (self.like().cloned(), self.size);
        self.add_nodes(pods, like.as_ref(), Site { size, fresh, ..Site::default() })
    }

    /// The same, there.
    fn add_nodes(
        &mut self,
        pods: impl Iterator<Item = ShapeId>,
        like: Option<&Node>,
        site: Site<'_>,
    ) -> Option<()> {
        let mut counts: BTreeMap<ShapeId, i64> = BTreeMap::new();
        for shape in pods {
            *counts.entry(shape).or_default() += 1;
        }
        let Snapshot { nodes, shapes, .. } = &mut self.after;
        let mut pods = counts.iter().map(|(of, pods)| (&shapes[of.0 as usize], *pods));
        if site.is_one {
            let each = pods.clone().map(|(shape, pods)| shape.room_for(pods));
            let room = each.fold(Resources::default(), |sum, room| sum.plus(&room));
            return new_node::add(nodes, like, (pods.next()?.0, room), site);
        }
        pods.len().checked_sub(1)?;
        pods.try_for_each(|pods| new_node::add_for_pods(nodes, like, pods, site))
    }

    /// Nodes are added where the next pods without one may be, or they may be elsewhere.
    fn find_place(&mut self, need: PlaceNeed<'_>, (pods, added): (u32, &Added)) -> Option<()> {
        let Some(Batch { pods_each, at, fresh }) = added.batch(need, pods) else {
            let PlaceNeed::Domains { key, domains, .. } = need else { return None };
            let least = i32::try_from(domains).ok();
            self.change_shapes(|shape| {
                let spreads = shape.topology_spread.iter_mut();
                let mine = spreads.filter(|spread| spread.topology_key == *key);
                mine.for_each(|spread| spread.min_domains = least);
            });
            return Some(());
        };
        let like = self.like().cloned();
        let room = added.asks.times(i64::from(pods_each));
        let next = self.missing.shapes.iter().cycle().step_by(pods_each as usize);
        let anywhere = Site { size: self.size, fresh: &fresh, ..Site::default() };
        let Snapshot { nodes, shapes, .. } = &mut self.after;
        at.iter().zip(next).try_for_each(|(at, shape)| {
            let shape = &shapes[shape.0 as usize];
            new_node::add(nodes, like.as_ref(), (shape, room.clone()), Site { at, ..anywhere })
        })
    }

    /// Fewer pods suffice, or they select places of this label no more.
    fn leave_places(&mut self, label: &Name, from: KeptFrom) -> Option<()> {
        if let KeptFrom::Mates { fewer: Some(fewer) } = from {
            let group = &mut self.after.pod_groups[self.group.0 as usize];
            group.sub_groups.first_mut()?.min_member = fewer;
            return Some(());
        }
        self.change_shapes(|shape| {
            shape.node_selector.remove(label);
            for term in shape.node_affinity.iter_mut().flatten() {
                term.labels.retain(|wanted| wanted.key != *label);
            }
            // A term that asks for nothing selects nothing.
            let asks =
                |term: &NodeSelectorTerm| !(term.labels.is_empty() && term.fields.is_empty());
            shape.node_affinity = shape.node_affinity.take().filter(|terms| terms.iter().all(asks));
        });
        Some(())
    }

    /// The node like which a new one is labelled: where the group has to keep to places, one
    /// where pods like those that miss a node run, else one in its topology.
    fn like(&self) -> Option<&Node> {
        let Snapshot { nodes, pods, topologies, .. } = &self.after;
        let group = &self.after.pod_groups[self.group.0 as usize];
        let parts = group.sub_groups.iter().map(|part| &part.topology).chain([&group.topology]);
        let kept_to: Vec<&Name> = parts.flatten().map(|all| &all.topology).collect();
        if kept_to.is_empty() {
            return nodes.first();
        }
        let running = pods.iter().filter(|pod| pod.group == Some(self.group) && pod.node.is_some());
        let beside = running.max_by_key(|pod| self.missing.shapes.contains(&pod.shape));
        let beside = beside.and_then(|pod| nodes.get(pod.node?.0 as usize));
        let is_inside = |node: &&Node| {
            let mut all = topologies.iter().filter(|topology| kept_to.contains(&&topology.name));
            all.all(|topology| topology.path(&node.labels).is_some())
        };
        beside.or_else(|| nodes.iter().find(is_inside)).or_else(|| nodes.first())
    }

    /// Every node is where the first one is, on the levels of which it has no label.
    fn label_all(&mut self, topology: &Name) -> Option<()> {
        let Snapshot { nodes, topologies, .. } = &mut self.after;
        let topology = topologies.iter().find(|known| known.name == *topology)?;
        for level in &topology.levels {
            let first = nodes.iter().find_map(|node| node.labels.get(&level.label)).cloned();
            let value = first.unwrap_or_else(|| "any".into());
            for node in nodes.iter_mut() {
                node.labels.entry(Name::clone(&level.label)).or_insert_with(|| value.clone());
            }
        }
        Some(())
    }

    /// For each of so many pods a node of those that keep it away so.
    fn closed_by(&self, misfit: &Misfit, pods: u32) -> Vec<NodeId> {
        let closed = self.missing.worst.iter().filter(|(_, worst)| worst == misfit);
        closed.map(|(node, _)| *node).take(pods.max(1) as usize).collect()
    }

    /// Nodes of these names.
    fn named(&self, names: &[Name]) -> Vec<NodeId> {
        let nodes = self.after.nodes.iter().zip(0..);
        nodes.filter(|(node, _)| names.contains(&node.name)).map(|(_, at)| NodeId(at)).collect()
    }

    /// They are as one would make them.
    fn open(&mut self, nodes: &[NodeId], open: impl Fn(&mut Node)) {
        for node in nodes {
            open(&mut self.after.nodes[node.0 as usize]);
        }
    }

    /// The node on which least else speaks against the first pod is labelled as that selects; a new
    /// one, where it selects a node by its name, or none could be labelled so.
    fn label_selected(&mut self, misfit: &Misfit) -> Option<()> {
        let shape =
            self.missing.shapes.first().map(|shape| &self.after.shapes[shape.0 as usize])?;
        let mut worst = self.missing.worst.iter().filter(|(_, worst)| worst == misfit);
        let labelled = worst.find_map(|(node, _)| {
            let at = node.0 as usize;
            Some((at, new_node::labelled_for(shape, &self.after.nodes[at])?))
        });
        let Some((at, labelled)) = labelled else { return self.make_room_for_missing(1) };
        self.after.nodes[at] = labelled;
        Some(())
    }

    /// Nodes let so many pods in, so many that are closed among them.
    fn admit_first(&mut self, misfit: &Misfit, (nodes, pods): (u32, u32)) -> Option<()> {
        let closed = self.closed_by(misfit, pods.min(nodes));
        self.admit(misfit, (pods as usize, &closed))
    }

    /// Nodes let so many pods in, these that are closed among them.
    fn admit(&mut self, misfit: &Misfit, (pods, closed): (usize, &[NodeId])) -> Option<()> {
        match misfit {
            Misfit::Taint { key, value, .. } => self.open(closed, |node| {
                node.taints.retain(|taint| taint.key != *key || taint.value != *value);
            }),
            Misfit::Unschedulable => self.open(closed, |node| {
                node.unschedulable = false;
                take_off(node, &[CORDONED_TAINT]);
            }),
            Misfit::NotReady => self.open(closed, |node| {
                node.ready = true;
                take_off(node, &NOT_READY_TAINTS);
            }),
            Misfit::NoGpuWorker => self.open(closed, |node| node.label(GPU_WORKER)),
            Misfit::NoCpuWorker => self.open(closed, |node| node.label(CPU_WORKER)),
            Misfit::NodeAffinity { .. } => self.label_selected(misfit)?,
            Misfit::NotAligned { .. } | Misfit::Devices(DeviceMisfit::TooFew { .. }) => {
                self.make_room_for_missing(1)?;
            }
            Misfit::GpusByClaim | Misfit::GpusWithoutClaim => {
                self.make_room_for_missing(pods.max(1))?;
            }
            Misfit::Place(PlaceMisfit::TooFull { topology, level, pods }) => {
                self.make_place((topology, level, &[]), *pods as usize)?;
            }
            Misfit::Place(PlaceMisfit::Unlabelled { topology }) => self.label_all(topology)?,
            Misfit::TooLittle { .. }
            | Misfit::DeviceMemory { .. }
            | Misfit::PodAffinity
            | Misfit::AffinityToMates
            | Misfit::PodAntiAffinity
            | Misfit::OthersAntiAffinity
            | Misfit::HostPort { .. }
            | Misfit::TopologySpread(_)
            | Misfit::TooFewDomains { .. }
            | Misfit::TopologySpreadLabel(_)
            | Misfit::WholeGpusOnly
            | Misfit::MigInstancesOnly
            | Misfit::NotSplit
            | Misfit::LegacyMig
            | Misfit::LegacyMigThere
            | Misfit::ClaimElsewhere(_)
            | Misfit::ClaimFull(_)
            | Misfit::ClaimOfQueue { .. }
            | Misfit::Place(PlaceMisfit::Elsewhere { .. })
            | Misfit::Volume(_)
            | Misfit::Devices(
                DeviceMisfit::NoneFree | DeviceMisfit::Elsewhere(_) | DeviceMisfit::InUse(_),
            )
            | Misfit::QueueBound(_) => return None,
        }
        Some(())
    }

    /// Pods of the group that wait tolerate the taint.
    fn tolerate(&mut self, key: &Name, value: &Name) {
        self.change_shapes(|shape| {
            let (key, value) = (Some(Name::clone(key)), Some(Name::clone(value)));
            shape.tolerations.push(Toleration { key, value, effect: None });
        });
    }

    /// Pods of the group that wait ask for something else.
    fn change_shapes(&mut self, change: impl Fn(&mut PodShape)) {
        let Snapshot { pods, shapes, .. } = &mut self.after;
        let mut changed: BTreeMap<ShapeId, ShapeId> = BTreeMap::new();
        let group = Some(self.group);
        let waits = |pod: &&mut Pod| pod.group == group && pod.status == PodStatus::Pending;
        for pod in pods.iter_mut().filter(waits) {
            let of = pod.shape;
            pod.shape = *changed.entry(of).or_insert_with(|| {
                let mut shape = shapes[of.0 as usize].clone();
                change(&mut shape);
                shapes.push(shape);
                ShapeId(position(shapes.len() - 1))
            });
        }
    }
}

impl Snapshot {
    /// Pods that are leaving have left.
    pub(super) fn let_leave(&mut self) {
        for pod in &mut self.pods {
            if pod.status == PodStatus::Releasing {
                (pod.status, pod.node) = (PodStatus::Failed, None);
            }
        }
    }
}

fn take_off(node: &mut Node, keys: &[&str]) {
    node.taints.retain(|taint| !keys.contains(&&*taint.key));
}

fn position(length: usize) -> u32 {
    u32::try_from(length).expect("ids are 32 bits")
}
