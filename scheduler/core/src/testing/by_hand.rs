//! What a person makes of a remedy who reads it: the cluster with what it says, and no more. It is
//! written without a look at how remedies are tried where they are told.

use crate::{
    Profile, Snapshot,
    cycle::decide,
    decision::{Bound, Misfit, PlaceNeed, Places, Quantity, Remedy, Room},
    explain::next_snapshot,
    model::{
        HOSTNAME, Name, Node, NodeId, Pod, PodGroupId, PodShape, PodStatus, QueueId, ShapeId, Time,
        Toleration,
    },
    queues::Shortfall,
    resources::{Amount, PerResource, ResourceName, Resources},
    session::Session,
};

/// Which nodes somebody adds who reads of room for so many pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Each has room for one of them, and no more.
    OnePodEach,
    /// One has room for all of them, and no more.
    OneForAll,
}

/// So many cycles later it runs, and still does.
const CYCLES: usize = 4;

/// The group has more pods on nodes than before, its minimum among them, when cycles have passed.
pub(crate) fn comes_to_run(snapshot: &Snapshot, profile: &Profile, group: PodGroupId) -> bool {
    let before = active(snapshot, group);
    let mut then = snapshot.clone();
    for _ in 0..CYCLES {
        let (_, plan) = decide(&then, profile, &mut ());
        then = next_snapshot(&then, &plan);
        let_leave(&mut then);
    }
    let session = Session::new(&then, profile);
    let shortfall = session.members(group).shortfall(session.group(group));
    active(&then, group) > before && shortfall != Shortfall::BelowMinimum
}

fn active(snapshot: &Snapshot, group: PodGroupId) -> usize {
    let mine = snapshot.pods.iter().filter(|pod| pod.group == Some(group));
    mine.filter(|pod| pod.node.is_some() && pod.status != PodStatus::Releasing).count()
}

/// The cluster with what the remedy says for the group. `None`: such remedies are in no random
/// cluster.
pub(crate) fn by_hand(
    (snapshot, profile): (&Snapshot, &Profile),
    group: PodGroupId,
    remedy: &Remedy,
    way: Way,
) -> Option<Snapshot> {
    let mut hand = Hand { after: snapshot.clone(), group, way };
    match remedy {
        Remedy::Raise { queue, bound, to, .. } => hand.raise(queue, *bound, to),
        Remedy::Deserve { queue, more } => {
            let (session, _) = decide(snapshot, profile, &mut ());
            let at = snapshot.queues.iter().position(|known| known.name == *queue)?;
            let id = QueueId(u32::try_from(at).expect("few queues"));
            hand.deserve(queue, more, session.ledger().account(id).allocated);
        }
        Remedy::GoFirst { before } => hand.go_before(before),
        Remedy::MakeRoom { pods, room, places, .. } => {
            hand.make_room(*pods, room, places.as_ref())?;
        }
        Remedy::LargerNodes { .. } => hand.add_nodes(1, &[])?,
        Remedy::LargerFleet { pods, .. } => hand.add_nodes(*pods, &[])?,
        Remedy::MakePlace { topology, level, pods, kept_to, .. } => {
            hand.add_place(&MakePlace { topology, level, kept_to }, *pods)?;
        }
        Remedy::Admit { misfit, nodes, pods, added, .. } => match misfit.place_need() {
            Some(need) => {
                let batch = added.batch(need, *pods)?;
                let room = added.asks.times(i64::from(batch.pods_each));
                if let PlaceNeed::Domains { .. } = need {
                    return None;
                }
                for at in &batch.at {
                    hand.add_node(room.clone(), at, &batch.fresh)?;
                }
            }
            None => hand.admit(misfit, (*nodes, *pods))?,
        },
        Remedy::Open { misfit, nodes } => hand.open(misfit, nodes)?,
        Remedy::Tolerate { key, value } => hand.tolerate(key, value)?,
        Remedy::OnlyPrefer { level, .. } => hand.only_prefer(level),
        Remedy::Wait { .. } => let_leave(&mut hand.after),
        Remedy::WaitLonger { delay_millis: millis, .. }
        | Remedy::Outlast { minimum_millis: millis, .. } => {
            hand.after.now = Time(hand.after.now.0 + i64::try_from(*millis).ok()?);
        }
        Remedy::CreateQueue { .. }
        | Remedy::AddMembers { .. }
        | Remedy::OpenGates { .. }
        | Remedy::UseLeaf { .. }
        | Remedy::TryAgain
        | Remedy::LargerDevices { .. }
        | Remedy::OtherPlaces { .. }
        | Remedy::NameQueue
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
    Some(hand.after)
}

struct MakePlace<'a> {
    topology: &'a Name,
    level: &'a Name,
    kept_to: &'a [Name],
}

struct Hand {
    after: Snapshot,
    group: PodGroupId,
    way: Way,
}

impl Hand {
    fn raise(&mut self, queue: &Name, bound: Bound, to: &Quantity) {
        let queue = self.after.queues.iter_mut().find(|known| known.name == *queue);
        let queue = queue.expect("a queue that there is");
        let bounds = if bound == Bound::Quota { &mut queue.quota } else { &mut queue.limit };
        *of(bounds, &to.resource) = Amount::Exactly(to.amount);
    }

    /// Where `used` is what the queue uses.
    fn deserve(&mut self, queue: &Name, more: &[Quantity], mut used: PerResource<i64>) {
        for Quantity { resource, amount } in more {
            let amount = of(&mut used, resource).saturating_add(*amount);
            let known = self.after.queues.iter().find(|known| known.name == *queue);
            let mut quota = known.expect("a queue that there is").quota;
            if !of(&mut quota, resource).holds(amount) {
                let to = Quantity { resource: resource.clone(), amount };
                self.raise(queue, Bound::Quota, &to);
            }
        }
    }

    fn go_before(&mut self, before: &str) {
        let groups = &mut self.after.pod_groups;
        let other =
            groups.iter().find(|group| before == format!("{}/{}", group.namespace, group.name));
        let priority = other.expect("a group that there is").priority + 1;
        groups[self.group.0 as usize].priority = priority;
    }

    /// Those of the group that wait.
    fn waiting(&mut self) -> impl Iterator<Item = &mut Pod> {
        let group = Some(self.group);
        let all = self.after.pods.iter_mut();
        all.filter(move |pod| pod.group == group && pod.status == PodStatus::Pending)
    }

    /// One of its pods that wait. In random clusters those of a group are alike. `None`: it has claims,
    /// and what becomes of them is not told.
    fn pod_of_it(&mut self) -> Option<PodShape> {
        let shape = self.waiting().next()?.shape;
        let shape = &self.after.shapes[shape.0 as usize];
        shape.claims.is_empty().then(|| shape.clone())
    }

    /// `None`: nodes that are there are to be emptied, or those of parts of a gang.
    fn make_room(&mut self, pods: u32, room: &Room, places: Option<&Places>) -> Option<()> {
        let is_elsewhere = matches!(room, Room::OnlyFull { .. });
        let apart: Vec<Name> = places.and_then(Places::apart_over).into_iter().cloned().collect();
        if is_elsewhere || places.is_some() && apart.is_empty() {
            return None;
        }
        self.add_nodes(pods, &apart)
    }

    /// So many of its pods have room on nodes that are added, each in a new value of these labels.
    fn add_nodes(&mut self, pods: u32, fresh: &[Name]) -> Option<()> {
        let shape = self.pod_of_it()?;
        let are_apart = shape.minds_others() || !shape.topology_spread.is_empty();
        let are_beside = !shape.pod_affinity.is_empty();
        if are_apart || self.way == Way::OnePodEach && !are_beside {
            (0..pods).try_for_each(|_| self.add_node(shape.room_for(1), &[], fresh))
        } else {
            self.add_node(shape.room_for(i64::from(pods)), &[], fresh)
        }
    }

    /// So many of its pods have room in one place of the level, which is new if it may be.
    fn add_place(&mut self, place: &MakePlace<'_>, pods: u32) -> Option<()> {
        let MakePlace { topology, level, kept_to } = place;
        let shape = self.pod_of_it()?;
        let levels = &self.after.topologies.iter().find(|known| known.name == **topology)?.levels;
        let labels: Vec<Name> = levels.iter().map(|level| Name::clone(&level.label)).collect();
        let depth = labels.iter().position(|label| label == *level)?;
        let nodes = &self.after.nodes;
        let there = kept_to.iter().find_map(|value| {
            nodes.iter().find(|node| node.labels.get(&labels[depth]) == Some(value))
        });
        let inside = there.or(nodes.first()).into_iter().flat_map(|node| {
            let value = |label: &Name| Some((label.clone(), node.labels.get(label)?.clone()));
            labels[..depth].iter().filter_map(value)
        });
        let mut at: Vec<(Name, Name)> = inside.collect();
        let name: Name = format!("place-{}", nodes.len()).into();
        at.push((labels[depth].clone(), kept_to.first().cloned().unwrap_or(name.clone())));
        // All of it is in one place further in as well.
        at.extend(labels[depth + 1..].iter().map(|label| (label.clone(), name.clone())));
        at.retain(|(label, _)| **label != *HOSTNAME);
        if self.way == Way::OneForAll || *labels[depth] == *HOSTNAME {
            return self.add_node(shape.room_for(i64::from(pods)), &at, &[]);
        }
        (0..pods).try_for_each(|_| self.add_node(shape.room_for(1), &at, &[]))
    }

    /// Labelled like the first one but for this, and as its pods select it.
    fn add_node(&mut self, room: Resources, at: &[(Name, Name)], fresh: &[Name]) -> Option<()> {
        let shape = self.pod_of_it()?;
        let nodes = &mut self.after.nodes;
        let like = nodes.first().cloned().unwrap_or_default();
        let name: Name = format!("added-{}", nodes.len()).into();
        let mut labels = like.labels.clone();
        labels.extend(fresh.iter().map(|label| (label.clone(), name.clone())));
        labels.extend(at.iter().cloned());
        labels.extend(shape.node_selector.clone());
        labels.insert(HOSTNAME.into(), name.clone());
        // What it does not ask for is there.
        let or = |asked: i64, like: i64| if asked > 0 { asked } else { like };
        let allocatable = Resources {
            cpu_milli: or(room.cpu_milli, like.allocatable.cpu_milli),
            memory_bytes: or(room.memory_bytes, like.allocatable.memory_bytes),
            pods: 110,
            ..room
        };
        let gpus_by_claim = shape.asks_claimed_gpus();
        nodes.push(Node {
            name,
            labels,
            allocatable,
            gpus_by_claim,
            ready: true,
            ..Node::default()
        });
        shape.selects(nodes.last()?).then_some(())
    }

    /// Of nodes that keep it away so as many as its pods need, those first that have room.
    fn admit(&mut self, misfit: &Misfit, (nodes, pods): (u32, u32)) -> Option<()> {
        let shape = self.pod_of_it()?;
        if let Misfit::NodeAffinity { .. } = misfit {
            let node = self.after.nodes.iter_mut().max_by_key(|node| {
                let fits = shape.room_for(1).fits_in(&node.allocatable);
                (node.ready && !node.unschedulable && fits, node.name.clone())
            })?;
            node.labels.extend(shape.node_selector.clone());
            return shape.selects(node).then_some(());
        }
        if matches!(misfit, Misfit::NotAligned { .. }) {
            return self.add_nodes(1, &[]);
        }
        // How many nodes that takes is not told: as many as it has pods without one.
        if matches!(misfit, Misfit::GpusByClaim | Misfit::GpusWithoutClaim) {
            return self.add_nodes(pods, &[]);
        }
        let used = |at: usize| {
            let here = self
                .after
                .pods
                .iter()
                .filter(|pod| pod.node == Some(NodeId(u32::try_from(at).expect("few nodes"))));
            here.fold(Resources::default(), |sum, pod| {
                sum.plus(&self.after.shapes[pod.shape.0 as usize].room_for(1))
            })
        };
        let has_room = |(at, node): &(usize, &Node)| {
            shape.room_for(1).plus(&used(*at)).fits_in(&node.allocatable)
        };
        let mut closed: Vec<(usize, &Node)> = self
            .after
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| is_closed_by(node, misfit))
            .collect();
        let has_once = |node: &Node| shape.room_for(1).fits_in(&node.allocatable);
        closed.sort_by_key(|closed| (!has_room(closed), !has_once(closed.1)));
        let closed = closed.into_iter().take(pods.min(nodes).max(1) as usize);
        let names: Vec<Name> = closed.map(|(_, node)| node.name.clone()).collect();
        self.open(misfit, &names)
    }

    /// Nodes of these names are opened.
    fn open(&mut self, misfit: &Misfit, names: &[Name]) -> Option<()> {
        for node in self.after.nodes.iter_mut().filter(|node| names.contains(&node.name)) {
            if let Misfit::Taint { key, .. } = misfit {
                node.taints.retain(|taint| taint.key != *key);
            } else if *misfit == Misfit::Unschedulable {
                node.unschedulable = false;
            } else if *misfit == Misfit::NotReady {
                node.ready = true;
            } else {
                return None;
            }
        }
        Some(())
    }

    fn tolerate(&mut self, key: &Name, value: &Name) -> Option<()> {
        let mut shape = self.pod_of_it()?;
        let (key, value) = (Some(key.clone()), Some(value.clone()));
        shape.tolerations.push(Toleration { key, value, effect: None });
        let tolerant = ShapeId(u32::try_from(self.after.shapes.len()).expect("few shapes"));
        self.after.shapes.push(shape);
        self.waiting().for_each(|pod| pod.shape = tolerant);
        Some(())
    }

    fn only_prefer(&mut self, level: &Name) {
        let group = &mut self.after.pod_groups[self.group.0 as usize];
        let parts = group.sub_groups.iter_mut().map(|part| &mut part.topology);
        for kept in parts.chain([&mut group.topology]).flatten() {
            if kept.required.as_ref() == Some(level) {
                kept.preferred = kept.required.take();
            }
        }
    }
}

fn let_leave(snapshot: &mut Snapshot) {
    for pod in &mut snapshot.pods {
        if pod.status == PodStatus::Releasing {
            (pod.status, pod.node) = (PodStatus::Failed, None);
        }
    }
}

fn of<'a, T>(all: &'a mut PerResource<T>, resource: &ResourceName) -> &'a mut T {
    match resource {
        ResourceName::Gpu => &mut all.gpu,
        ResourceName::Cpu => &mut all.cpu,
        ResourceName::Memory => &mut all.memory,
        ResourceName::Pods | ResourceName::Extended(_) => panic!("queues bound no {resource:?}"),
    }
}

fn is_closed_by(node: &Node, misfit: &Misfit) -> bool {
    if let Misfit::Taint { key, value, .. } = misfit {
        return node.taints.iter().any(|taint| taint.key == *key && taint.value == *value);
    }
    *misfit == Misfit::Unschedulable && node.unschedulable
        || *misfit == Misfit::NotReady && !node.ready
}
