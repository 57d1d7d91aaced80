//! Applies a suggestion to a snapshot as a person would who reads its text. Independent of the
//! trial that the scheduler itself makes.

use schedlab_scheduler_core::{
    Profile, Snapshot,
    framework::Session,
    inspect::{next_snapshot, run_cycle},
    model::{
        HOSTNAME, Name, Node, NodeId, Pod, PodGroupId, PodShape, PodStatus, QueueId, ShapeId, Time,
        Toleration,
    },
    queues::MinimumStatus,
    reason::{
        CapacityLocation, DomainHint, FitError, PlacementNeed, Quantity, QueueBound, Suggestion,
    },
    resources::{Amount, PerResource, ResourceName, Resources},
};

/// The size of nodes that a person adds for several pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddedNodeSize {
    /// Each node holds one of the pods.
    OnePodEach,
    /// One node holds all of the pods.
    OneForAll,
}

/// Number of cycles after which the group must run.
const CYCLES: usize = 4;

/// After several cycles the group has more pods on nodes than before, and at least its minimum.
pub(crate) fn runs_after_cycles(snapshot: &Snapshot, profile: &Profile, group: PodGroupId) -> bool {
    let before = active(snapshot, group);
    let mut then = snapshot.clone();
    for _ in 0..CYCLES {
        let (_, plan) = run_cycle(&then, profile, &mut ());
        then = next_snapshot(&then, &plan);
        finish_releases(&mut then);
    }
    let session = Session::new(&then, profile);
    let minimum_status = session.members(group).minimum_status(session.group(group));
    active(&then, group) > before && minimum_status != MinimumStatus::BelowMinimum
}

fn active(snapshot: &Snapshot, group: PodGroupId) -> usize {
    let mine = snapshot.pods.iter().filter(|pod| pod.group == Some(group));
    mine.filter(|pod| pod.node.is_some() && pod.status != PodStatus::Releasing).count()
}

/// The cluster with the suggestion applied for the group. `None` for suggestions that do not occur
/// in random clusters.
pub(crate) fn apply_suggestion(
    snapshot: &Snapshot,
    profile: &Profile,
    group: PodGroupId,
    suggestion: &Suggestion,
    size: AddedNodeSize,
) -> Option<Snapshot> {
    let mut applier = SuggestionApplier { after: snapshot.clone(), group, size };
    match suggestion {
        Suggestion::RaiseBound { queue, bound, to, .. } => applier.raise(queue, *bound, to),
        Suggestion::RaiseQuotaToReclaim { queue, more } => {
            let (session, _) = run_cycle(snapshot, profile, &mut ());
            let at = snapshot.queues.iter().position(|known| known.name == *queue)?;
            let id = QueueId(u32::try_from(at).expect("few queues"));
            applier.raise_quota(queue, more, session.accounts().account(id).allocated);
        }
        Suggestion::RaisePriority { above } => applier.raise_priority(above),
        Suggestion::FreeCapacity { pods, location, domains: hint, .. } => {
            applier.free_capacity(*pods, location, hint.as_ref())?;
        }
        Suggestion::AddLargerNodes { .. } => applier.add_nodes(1, &[])?,
        Suggestion::AddNodes { pods, .. } => applier.add_nodes(*pods, &[])?,
        Suggestion::FreeDomain { topology, level, pods, domains, .. } => {
            applier.add_domain(&FreeDomain { topology, level, domains }, *pods)?;
        }
        Suggestion::AdmitToNodes { fit_error, nodes, pods, added, .. } => {
            match fit_error.placement_need() {
                Some(need) => {
                    let batch = added.node_batch(need, *pods)?;
                    let location = added.requests.times(i64::from(batch.pods_per_node));
                    if let PlacementNeed::MoreDomains { .. } = need {
                        return None;
                    }
                    for at in &batch.node_labels {
                        applier.add_node(location.clone(), at, &batch.fresh_labels)?;
                    }
                }
                None => applier.admit_to_nodes(fit_error, *nodes, *pods)?,
            }
        }
        Suggestion::OpenNodes { closed_by: fit_error, nodes } => {
            applier.open_nodes(fit_error, nodes)?;
        }
        Suggestion::TolerateTaint { key, value } => applier.tolerate(key, value)?,
        Suggestion::OnlyPreferLevel { level, .. } => applier.only_prefer(level),
        Suggestion::WaitForRelease { .. } => finish_releases(&mut applier.after),
        Suggestion::WaitForPreemptionDelay { delay_millis: millis, .. }
        | Suggestion::WaitForMinRuntime { minimum_millis: millis, .. } => {
            applier.after.now = Time(applier.after.now.0 + i64::try_from(*millis).ok()?);
        }
        Suggestion::CreateQueue { .. }
        | Suggestion::AddMembers { .. }
        | Suggestion::RemoveSchedulingGates { .. }
        | Suggestion::UseLeafQueue { .. }
        | Suggestion::ResetBackoff
        | Suggestion::UseLargerDevices { .. }
        | Suggestion::UseOtherDomains { .. }
        | Suggestion::NameQueue
        | Suggestion::FixMembers { .. }
        | Suggestion::RelabelExcludedNode { .. }
        | Suggestion::UseOtherNodes { .. }
        | Suggestion::RaisePreemptionLimit { .. }
        | Suggestion::CreateParentQueue { .. }
        | Suggestion::FixQueue { .. }
        | Suggestion::RaiseQueueDepth { .. }
        | Suggestion::CreateTopology { .. }
        | Suggestion::PreferInnerLevel { .. } => return None,
    }
    Some(applier.after)
}

struct FreeDomain<'a> {
    topology: &'a Name,
    level: &'a Name,
    domains: &'a [Name],
}

struct SuggestionApplier {
    after: Snapshot,
    group: PodGroupId,
    size: AddedNodeSize,
}

impl SuggestionApplier {
    fn raise(&mut self, queue: &Name, bound: QueueBound, to: &Quantity) {
        let queue = self.after.queues.iter_mut().find(|known| known.name == *queue);
        let queue = queue.expect("an existing queue");
        let bounds = if bound == QueueBound::Quota { &mut queue.quota } else { &mut queue.limit };
        *bound_mut(bounds, &to.resource) = Amount::Exactly(to.amount);
    }

    /// `used` is what the queue has allocated.
    fn raise_quota(&mut self, queue: &Name, more: &[Quantity], mut used: PerResource<i64>) {
        for Quantity { resource, amount } in more {
            let amount = bound_mut(&mut used, resource).saturating_add(*amount);
            let known = self.after.queues.iter().find(|known| known.name == *queue);
            let mut quota = known.expect("an existing queue").quota;
            if !bound_mut(&mut quota, resource).allows(amount) {
                let to = Quantity { resource: resource.clone(), amount };
                self.raise(queue, QueueBound::Quota, &to);
            }
        }
    }

    fn raise_priority(&mut self, above: &str) {
        let groups = &mut self.after.pod_groups;
        let other =
            groups.iter().find(|group| above == format!("{}/{}", group.namespace, group.name));
        let priority = other.expect("an existing group").priority + 1;
        groups[self.group.0 as usize].priority = priority;
    }

    /// Pending pods of the group.
    fn waiting(&mut self) -> impl Iterator<Item = &mut Pod> {
        let group = Some(self.group);
        let all = self.after.pods.iter_mut();
        all.filter(move |pod| pod.group == group && pod.status == PodStatus::Pending)
    }

    /// The shape of its pending pods, which are alike in random clusters. `None` when it has
    /// claims, which the text does not cover.
    fn waiting_shape(&mut self) -> Option<PodShape> {
        let shape = self.waiting().next()?.shape;
        let shape = &self.after.shapes[shape.0 as usize];
        shape.claims.is_empty().then(|| shape.clone())
    }

    /// `None` when existing nodes, or domains of sub-groups, must be freed.
    fn free_capacity(
        &mut self,
        pods: u32,
        location: &CapacityLocation,
        hint: Option<&DomainHint>,
    ) -> Option<()> {
        let is_elsewhere = matches!(location, CapacityLocation::FullNodes { .. });
        let apart: Vec<Name> =
            hint.and_then(DomainHint::separating_label).into_iter().cloned().collect();
        if is_elsewhere || hint.is_some() && apart.is_empty() {
            return None;
        }
        self.add_nodes(pods, &apart)
    }

    /// Adds nodes for `pods` pods, each with a new value of the labels `fresh`.
    fn add_nodes(&mut self, pods: u32, fresh: &[Name]) -> Option<()> {
        let shape = self.waiting_shape()?;
        let are_apart = shape.may_exclude_neighbors() || !shape.topology_spread.is_empty();
        let are_beside = !shape.pod_affinity.is_empty();
        if are_apart || self.size == AddedNodeSize::OnePodEach && !are_beside {
            (0..pods).try_for_each(|_| self.add_node(shape.requests_on_new_node(1), &[], fresh))
        } else {
            self.add_node(shape.requests_on_new_node(i64::from(pods)), &[], fresh)
        }
    }

    /// Adds nodes for `pods` pods in one domain of the level, a new one if allowed.
    fn add_domain(&mut self, target: &FreeDomain<'_>, pods: u32) -> Option<()> {
        let FreeDomain { topology, level, domains } = target;
        let shape = self.waiting_shape()?;
        let levels = &self.after.topologies.iter().find(|known| known.name == **topology)?.levels;
        let labels: Vec<Name> = levels.iter().map(|level| Name::clone(&level.label)).collect();
        let depth = labels.iter().position(|label| label == *level)?;
        let nodes = &self.after.nodes;
        let there = domains.iter().find_map(|value| {
            nodes.iter().find(|node| node.labels.get(&labels[depth]) == Some(value))
        });
        let inside = there.or(nodes.first()).into_iter().flat_map(|node| {
            let value = |label: &Name| Some((label.clone(), node.labels.get(label)?.clone()));
            labels[..depth].iter().filter_map(value)
        });
        let mut at: Vec<(Name, Name)> = inside.collect();
        let name: Name = format!("domain-{}", nodes.len()).into();
        at.push((labels[depth].clone(), domains.first().cloned().unwrap_or(name.clone())));
        // All pods are in one domain of narrower levels as well.
        at.extend(labels[depth + 1..].iter().map(|label| (label.clone(), name.clone())));
        at.retain(|(label, _)| **label != *HOSTNAME);
        if self.size == AddedNodeSize::OneForAll || *labels[depth] == *HOSTNAME {
            return self.add_node(shape.requests_on_new_node(i64::from(pods)), &at, &[]);
        }
        (0..pods).try_for_each(|_| self.add_node(shape.requests_on_new_node(1), &at, &[]))
    }

    /// Adds a node that the pods select, otherwise labelled like the first node.
    fn add_node(&mut self, location: Resources, at: &[(Name, Name)], fresh: &[Name]) -> Option<()> {
        let shape = self.waiting_shape()?;
        let nodes = &mut self.after.nodes;
        let like = nodes.first().cloned().unwrap_or_default();
        let name: Name = format!("added-{}", nodes.len()).into();
        let mut labels = like.labels.clone();
        labels.extend(fresh.iter().map(|label| (label.clone(), name.clone())));
        labels.extend(at.iter().cloned());
        labels.extend(shape.node_selector.clone());
        labels.insert(HOSTNAME.into(), name.clone());
        // A node has resources that the pods do not request.
        let or = |requested: i64, like: i64| if requested > 0 { requested } else { like };
        let allocatable = Resources {
            cpu_milli: or(location.cpu_milli, like.allocatable.cpu_milli),
            memory_bytes: or(location.memory_bytes, like.allocatable.memory_bytes),
            pods: 110,
            ..location
        };
        let gpus_by_claim = shape.requests_dra_gpus();
        nodes.push(Node {
            name,
            labels,
            allocatable,
            gpus_via_dra: gpus_by_claim,
            ready: true,
            ..Node::default()
        });
        shape.selects_node(nodes.last()?).then_some(())
    }

    /// Opens as many of the nodes that reject the pods as these need, those with capacity first.
    fn admit_to_nodes(&mut self, fit_error: &FitError, nodes: u32, pods: u32) -> Option<()> {
        let shape = self.waiting_shape()?;
        if let FitError::NodeAffinity { .. } = fit_error {
            let node = self.after.nodes.iter_mut().max_by_key(|node| {
                let fits = shape.requests_on_new_node(1).fits_in(&node.allocatable);
                (node.ready && !node.unschedulable && fits, node.name.clone())
            })?;
            node.labels.extend(shape.node_selector.clone());
            return shape.selects_node(node).then_some(());
        }
        if matches!(fit_error, FitError::NumaMisaligned { .. }) {
            return self.add_nodes(1, &[]);
        }
        // The text gives no number of nodes: one for each pod.
        if matches!(fit_error, FitError::GpusOnlyViaDra | FitError::GpusNotViaDra) {
            return self.add_nodes(pods, &[]);
        }
        let used = |at: usize| {
            let here = self
                .after
                .pods
                .iter()
                .filter(|pod| pod.node == Some(NodeId(u32::try_from(at).expect("few nodes"))));
            here.fold(Resources::default(), |sum, pod| {
                sum.plus(&self.after.shapes[pod.shape.0 as usize].requests_on_new_node(1))
            })
        };
        let has_room = |(at, node): &(usize, &Node)| {
            shape.requests_on_new_node(1).plus(&used(*at)).fits_in(&node.allocatable)
        };
        let mut closed: Vec<(usize, &Node)> = self
            .after
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| is_closed_by(node, fit_error))
            .collect();
        let has_once = |node: &Node| shape.requests_on_new_node(1).fits_in(&node.allocatable);
        closed.sort_by_key(|closed| (!has_room(closed), !has_once(closed.1)));
        let closed = closed.into_iter().take(pods.min(nodes).max(1) as usize);
        let names: Vec<Name> = closed.map(|(_, node)| node.name.clone()).collect();
        self.open_nodes(fit_error, &names)
    }

    /// Opens the nodes of these names.
    fn open_nodes(&mut self, fit_error: &FitError, names: &[Name]) -> Option<()> {
        for node in self.after.nodes.iter_mut().filter(|node| names.contains(&node.name)) {
            if let FitError::Taint { key, .. } = fit_error {
                node.taints.retain(|taint| taint.key != *key);
            } else if *fit_error == FitError::Unschedulable {
                node.unschedulable = false;
            } else if *fit_error == FitError::NotReady {
                node.ready = true;
            } else {
                return None;
            }
        }
        Some(())
    }

    fn tolerate(&mut self, key: &Name, value: &Name) -> Option<()> {
        let mut shape = self.waiting_shape()?;
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
        for constraint in parts.chain([&mut group.topology]).flatten() {
            if constraint.required.as_ref() == Some(level) {
                constraint.preferred = constraint.required.take();
            }
        }
    }
}

fn finish_releases(snapshot: &mut Snapshot) {
    for pod in &mut snapshot.pods {
        if pod.status == PodStatus::Releasing {
            (pod.status, pod.node) = (PodStatus::Failed, None);
        }
    }
}

fn bound_mut<'a, T>(all: &'a mut PerResource<T>, resource: &ResourceName) -> &'a mut T {
    match resource {
        ResourceName::Gpu => &mut all.gpu,
        ResourceName::Cpu => &mut all.cpu,
        ResourceName::Memory => &mut all.memory,
        ResourceName::Pods | ResourceName::Extended(_) => {
            panic!("queues do not bound {resource:?}")
        }
    }
}

fn is_closed_by(node: &Node, fit_error: &FitError) -> bool {
    if let FitError::Taint { key, value, .. } = fit_error {
        return node.taints.iter().any(|taint| taint.key == *key && taint.value == *value);
    }
    *fit_error == FitError::Unschedulable && node.unschedulable
        || *fit_error == FitError::NotReady && !node.ready
}
