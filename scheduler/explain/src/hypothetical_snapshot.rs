//! The snapshot after a suggestion was applied.

mod topology_levels;

use std::{collections::BTreeMap, slice};

use super::hypothetical_node::{self, NewNodePlacement, NodeSize};
use schedlab_scheduler_core::{
    Snapshot,
    model::{
        CORDONED_TAINT, CPU_WORKER, GPU_WORKER, NOT_READY_TAINTS, Name, Node, NodeId,
        NodeSelectorTerm, Pod, PodGroup, PodGroupId, PodShape, PodStatus, Queue, QueueId,
        QueueProblem, ShapeId, Time, Toleration,
    },
    reason::{
        AddedNodes, CapacityLocation, DeviceFitError, DomainHint, ExclusionSource, FitError,
        NodeBatch, PlacementNeed, Quantity, QueueBound, Suggestion, TopologyFitError,
    },
    resources::{Amount, PerResource, ResourceName, Resources},
};

/// The pods to place next that do not fit.
#[derive(Clone, Debug)]
pub(super) struct MissingPods {
    /// Shapes of the pods, in the order of the pods.
    pub(super) shapes: Vec<ShapeId>,
    /// For each of the pods, the innermost sub-group that requires one topology domain.
    pub(super) constrained_sub_groups: Vec<Option<usize>>,
    /// Nodes that reject the first pod only for lack of free capacity.
    pub(super) full_nodes: Vec<NodeId>,
    /// The worst fit error of the first pod on each rejecting node, in ascending severity.
    pub(super) worst_fit_errors: Vec<(NodeId, FitError)>,
    /// Usage of the pods' queue and of its ancestors, by queue name.
    pub(super) used: BTreeMap<Name, PerResource<i64>>,
    /// Shapes of the pods that would not fit even if all nodes were empty.
    pub(super) beyond_capacity: Vec<ShapeId>,
}

/// Returns a copy of the snapshot with `suggestion` applied for `group`; added nodes have the given
/// size. `None`: the suggestion depends on something that no snapshot contains.
pub(super) fn apply_suggestion(
    snapshot: &Snapshot,
    group: PodGroupId,
    missing: &MissingPods,
    suggestion: &Suggestion,
    size: NodeSize,
) -> Option<Snapshot> {
    let mut cluster = HypotheticalSnapshot { snapshot: snapshot.clone(), group, missing, size };
    match suggestion {
        Suggestion::CreateQueue { .. } => cluster.create_queue(),
        Suggestion::UseLeafQueue { leaf, .. } => cluster.use_leaf_queue(leaf)?,
        Suggestion::AddMembers { pods, sub_group } => {
            cluster.add_members(*pods, sub_group.as_ref())?;
        }
        Suggestion::RemoveSchedulingGates { .. } => cluster.remove_scheduling_gates(),
        Suggestion::ResetBackoff => {
            cluster.snapshot.pod_groups[cluster.group.0 as usize].is_skipped = false;
        }
        Suggestion::RaiseBound { queue, bound, to, .. } => {
            cluster.raise_bound(queue, *bound, to)?;
        }
        Suggestion::RaisePriority { above } => cluster.raise_priority_above(above)?,
        Suggestion::RaiseQuotaToReclaim { queue, more } => cluster.raise_quotas(queue, more)?,
        Suggestion::FreeCapacity { pods, location, domains, .. } => match location {
            CapacityLocation::AnyNode
            | CapacityLocation::NewNodes(_)
            | CapacityLocation::FullOrNewNodes { .. } => {
                let unique_labels =
                    domains.as_ref().and_then(DomainHint::separating_label).map(slice::from_ref);
                cluster
                    .add_nodes_by_sub_group(*pods as usize, unique_labels.unwrap_or_default())?;
            }
            CapacityLocation::FullNodes { .. } => cluster.enlarge_full_nodes(*pods as usize)?,
        },
        Suggestion::AddLargerNodes { .. } | Suggestion::UseLargerDevices { .. } => {
            cluster.add_nodes_for_missing(1)?;
        }
        Suggestion::AddNodes { .. } => {
            cluster.add_nodes_for(missing.beyond_capacity.iter().copied(), &[])?;
        }
        Suggestion::FreeDomain { topology, level, pods, domains, .. } => {
            cluster.add_nodes_in_domain(topology, level, domains, *pods as usize)?;
        }
        Suggestion::AdmitToNodes { fit_error, nodes, pods, added, .. } => {
            match fit_error.placement_need() {
                Some(need) => cluster.add_nodes_in_domains(need, *pods, added)?,
                None => cluster.admit_missing_pods(fit_error, *nodes, *pods)?,
            }
        }
        Suggestion::OpenNodes { closed_by: fit_error, nodes } => {
            cluster.admit_pods(fit_error, nodes.len(), &cluster.nodes_named(nodes))?;
        }
        Suggestion::UseOtherDomains { label, kept_from, .. } => {
            cluster.drop_domain_constraint(label, *kept_from)?;
        }
        Suggestion::OnlyPreferLevel { topology, level, .. } => {
            cluster.prefer_instead_of_require(topology, level);
        }
        Suggestion::TolerateTaint { key, value } => cluster.add_toleration(key, value),
        Suggestion::WaitForRelease { .. } => cluster.snapshot.remove_terminating_pods(),
        Suggestion::WaitForPreemptionDelay { delay_millis: millis, .. }
        | Suggestion::WaitForMinRuntime { minimum_millis: millis, .. } => {
            let delay = i64::try_from(*millis).unwrap_or(i64::MAX);
            cluster.snapshot.now = Time(cluster.snapshot.now.0.saturating_add(delay));
        }
        Suggestion::NameQueue
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
    Some(cluster.snapshot)
}

struct HypotheticalSnapshot<'a> {
    snapshot: Snapshot,
    group: PodGroupId,
    missing: &'a MissingPods,
    size: NodeSize,
}

impl HypotheticalSnapshot<'_> {
    /// Creates the missing queue without bounds, for all groups that name it.
    fn create_queue(&mut self) {
        let problem = self.snapshot.pod_groups[self.group.0 as usize].queue.clone();
        let Err(QueueProblem::Missing { queue: name }) = &problem else { return };
        let unlimited = Amount::Unlimited;
        let all = PerResource { gpu: unlimited, cpu: unlimited, memory: unlimited };
        let id = QueueId(to_index(self.snapshot.queues.len()));
        self.snapshot.queues.push(Queue {
            name: Name::clone(name),
            parent: None,
            priority: 100,
            quota: all,
            limit: all,
            over_quota_weight_milli: PerResource::default(),
            created: self.snapshot.now,
            preempt_min_runtime: None,
            reclaim_min_runtime: None,
            historical_usage_micro: PerResource::default(),
        });
        for group in &mut self.snapshot.pod_groups {
            if group.queue == problem {
                group.queue = Ok(Some(id));
            }
        }
    }

    fn use_leaf_queue(&mut self, leaf: &Name) -> Option<()> {
        let queues = &self.snapshot.queues;
        let child = |at: usize| {
            let parent = Some(QueueId(to_index(at)));
            queues.iter().position(|queue| queue.parent == parent)
        };
        let leaf = queues.iter().position(|queue| queue.name == *leaf)?;
        let lowest = std::iter::successors(Some(leaf), |at| child(*at)).last()?;
        self.snapshot.pod_groups[self.group.0 as usize].queue = Ok(Some(QueueId(to_index(lowest))));
        Some(())
    }

    /// Adds pending pods to the group by copying existing ones.
    fn add_members(&mut self, pods: u32, sub_group: Option<&Name>) -> Option<()> {
        let sub_groups = &self.snapshot.pod_groups[self.group.0 as usize].sub_groups;
        let index = sub_group.and_then(|name| sub_groups.iter().position(|one| one.name == *name));
        let group = Some(self.group);
        let members = self.snapshot.pods.iter().filter(|pod| pod.group == group);
        let template =
            members.min_by_key(|pod| index.is_some_and(|index| pod.sub_group != index))?;
        let template = template.clone();
        for at in 0..pods {
            let name: Name = format!("{}+{at}", template.name).into();
            self.snapshot.pods.push(Pod {
                uid: Name::clone(&name),
                name,
                sub_group: index.unwrap_or(template.sub_group),
                status: PodStatus::Pending,
                node: None,
                gpu_groups: Vec::new(),
                own_claims: Vec::new(),
                numa_allocations: Vec::new(),
                started: None,
                releasing_since: None,
                binding_failed: false,
                ..template.clone()
            });
        }
        Some(())
    }

    fn remove_scheduling_gates(&mut self) {
        let group = Some(self.group);
        for pod in self.snapshot.pods.iter_mut().filter(|pod| pod.group == group) {
            if pod.status == PodStatus::Gated {
                pod.status = PodStatus::Pending;
            }
        }
    }

    /// Raises the priority of the group above that of another group.
    fn raise_priority_above(&mut self, other: &str) -> Option<()> {
        let groups = &mut self.snapshot.pod_groups;
        let is_other = |group: &&PodGroup| *format!("{}/{}", group.namespace, group.name) == *other;
        let above = groups.iter().find(is_other)?.priority.saturating_add(1);
        groups[self.group.0 as usize].priority = above;
        Some(())
    }

    /// Raises the quotas of the queue and its ancestors to their usage plus these amounts, where
    /// they are lower.
    fn raise_quotas(&mut self, queue: &Name, more: &[Quantity]) -> Option<()> {
        let used = self.missing.used.get(queue)?;
        let quota = self.snapshot.queues.iter().find(|known| known.name == *queue)?.quota;
        let names = ResourceName::ACCOUNTED;
        for (resource, (used, quota)) in
            names.iter().zip(used.values().into_iter().zip(quota.values()))
        {
            let Some(more) = more.iter().find(|more| more.resource == *resource) else { continue };
            let amount = used.saturating_add(more.amount);
            if !quota.allows(amount) {
                let to = Quantity { resource: resource.clone(), amount };
                self.raise_bound(queue, QueueBound::Quota, &to)?;
            }
        }
        Some(())
    }

    fn raise_bound(&mut self, queue: &Name, bound: QueueBound, quantity: &Quantity) -> Option<()> {
        let queue = self.snapshot.queues.iter_mut().find(|known| known.name == *queue)?;
        let bounds = match bound {
            QueueBound::Quota => &mut queue.quota,
            QueueBound::Limit => &mut queue.limit,
        };
        let bound = match quantity.resource {
            ResourceName::Gpu => &mut bounds.gpu,
            ResourceName::Cpu => &mut bounds.cpu,
            ResourceName::Memory => &mut bounds.memory,
            ResourceName::Pods | ResourceName::Extended(_) => return None,
        };
        *bound = Amount::Exactly(quantity.amount);
        Some(())
    }

    /// Adds nodes for the next `pods` missing pods, and for further equal pods if fewer are
    /// missing.
    fn add_nodes_for_missing(&mut self, pods: usize) -> Option<()> {
        self.add_nodes_for(self.missing.shapes.iter().copied().cycle().take(pods), &[])
    }

    /// Adds the capacity that the next `pods` missing pods request to the full nodes, in turn.
    fn enlarge_full_nodes(&mut self, pods: usize) -> Option<()> {
        let MissingPods { shapes, full_nodes, .. } = self.missing;
        for (shape, node) in shapes.iter().cycle().zip(full_nodes.iter().cycle()).take(pods) {
            let request = self.snapshot.shapes[shape.0 as usize].requests_on_new_node(1);
            self.snapshot.nodes[node.0 as usize].allocatable.add(&request);
        }
        (!full_nodes.is_empty()).then_some(())
    }

    /// Adds nodes for the pods of each shape; the nodes get unused values of these labels.
    fn add_nodes_for(
        &mut self,
        pods: impl Iterator<Item = ShapeId>,
        unique_labels: &[Name],
    ) -> Option<()> {
        let (template, size) = (self.template_node().cloned(), self.size);
        self.add_nodes(
            pods,
            template.as_ref(),
            NewNodePlacement { size, unique_labels, ..NewNodePlacement::default() },
        )
    }

    /// Adds nodes with this placement for the pods of each shape.
    fn add_nodes(
        &mut self,
        pods: impl Iterator<Item = ShapeId>,
        template: Option<&Node>,
        placement: NewNodePlacement<'_>,
    ) -> Option<()> {
        let mut counts: BTreeMap<ShapeId, i64> = BTreeMap::new();
        for shape in pods {
            *counts.entry(shape).or_default() += 1;
        }
        let Snapshot { nodes, shapes, .. } = &mut self.snapshot;
        let mut pods = counts.iter().map(|(of, pods)| (&shapes[of.0 as usize], *pods));
        if placement.is_single_node {
            let each = pods.clone().map(|(shape, pods)| shape.requests_on_new_node(pods));
            let capacity = each.fold(Resources::default(), |sum, capacity| sum.plus(&capacity));
            return hypothetical_node::add_node(
                nodes,
                template,
                pods.next()?.0,
                capacity,
                placement,
            );
        }
        pods.len().checked_sub(1)?;
        pods.try_for_each(|(shape, pods)| {
            hypothetical_node::add_nodes_for_pods(nodes, template, shape, pods, placement)
        })
    }

    /// Adds nodes in the domains in which the next pods may be placed, or relaxes the constraint if
    /// that is suggested.
    fn add_nodes_in_domains(
        &mut self,
        need: PlacementNeed<'_>,
        pods: u32,
        added: &AddedNodes,
    ) -> Option<()> {
        let Some(NodeBatch { pods_per_node, node_labels, fresh_labels }) =
            added.node_batch(need, pods)
        else {
            let PlacementNeed::MoreDomains { key, domains, .. } = need else { return None };
            let min_domains = i32::try_from(domains).ok();
            self.change_shapes(|shape| {
                let spreads = shape.topology_spread.iter_mut();
                let matching = spreads.filter(|spread| spread.topology_key == *key);
                matching.for_each(|spread| spread.min_domains = min_domains);
            });
            return Some(());
        };
        let template = self.template_node().cloned();
        let capacity = added.requests.times(i64::from(pods_per_node));
        let next = self.missing.shapes.iter().cycle().step_by(pods_per_node as usize);
        let anywhere = NewNodePlacement {
            size: self.size,
            unique_labels: &fresh_labels,
            ..NewNodePlacement::default()
        };
        let Snapshot { nodes, shapes, .. } = &mut self.snapshot;
        node_labels.iter().zip(next).try_for_each(|(labels, shape)| {
            let shape = &shapes[shape.0 as usize];
            let placement = NewNodePlacement { labels, ..anywhere };
            hypothetical_node::add_node(
                nodes,
                template.as_ref(),
                shape,
                capacity.clone(),
                placement,
            )
        })
    }

    /// Lowers the gang's minimum, or removes the pods' selection of this label.
    fn drop_domain_constraint(&mut self, label: &Name, source: ExclusionSource) -> Option<()> {
        if let ExclusionSource::OwnGang { fewer: Some(fewer) } = source {
            let group = &mut self.snapshot.pod_groups[self.group.0 as usize];
            group.sub_groups.first_mut()?.min_member = fewer;
            return Some(());
        }
        self.change_shapes(|shape| {
            shape.node_selector.remove(label);
            for term in shape.node_affinity.iter_mut().flatten() {
                term.labels.retain(|requirement| requirement.key != *label);
            }
            // A term without requirements selects nothing.
            let has_requirements =
                |term: &NodeSelectorTerm| !(term.labels.is_empty() && term.fields.is_empty());
            shape.node_affinity =
                shape.node_affinity.take().filter(|terms| terms.iter().all(has_requirements));
        });
        Some(())
    }

    /// The node whose labels an added node copies: with a topology constraint, a node on which pods
    /// of the group run, else one in the topology.
    fn template_node(&self) -> Option<&Node> {
        let Snapshot { nodes, pods, topologies, .. } = &self.snapshot;
        let group = &self.snapshot.pod_groups[self.group.0 as usize];
        let constraints =
            group.sub_groups.iter().map(|sub_group| &sub_group.topology).chain([&group.topology]);
        let topology_names: Vec<&Name> =
            constraints.flatten().map(|constraint| &constraint.topology).collect();
        if topology_names.is_empty() {
            return nodes.first();
        }
        let running = pods.iter().filter(|pod| pod.group == Some(self.group) && pod.node.is_some());
        let beside = running.max_by_key(|pod| self.missing.shapes.contains(&pod.shape));
        let beside = beside.and_then(|pod| nodes.get(pod.node?.0 as usize));
        let is_inside = |node: &&Node| {
            let mut constraint =
                topologies.iter().filter(|topology| topology_names.contains(&&topology.name));
            constraint.all(|topology| topology.domain_path(&node.labels).is_some())
        };
        beside.or_else(|| nodes.iter().find(is_inside)).or_else(|| nodes.first())
    }

    /// Gives every node the topology labels that it lacks, with the values of the first node.
    fn label_all_nodes(&mut self, topology: &Name) -> Option<()> {
        let Snapshot { nodes, topologies, .. } = &mut self.snapshot;
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

    /// The nodes that reject the pod with this error, at most one per pod.
    fn nodes_rejecting_with(&self, fit_error: &FitError, pods: u32) -> Vec<NodeId> {
        let closed = self.missing.worst_fit_errors.iter().filter(|(_, worst)| worst == fit_error);
        closed.map(|(node, _)| *node).take(pods.max(1) as usize).collect()
    }

    /// The nodes with these names.
    fn nodes_named(&self, names: &[Name]) -> Vec<NodeId> {
        let nodes = self.snapshot.nodes.iter().zip(0..);
        nodes.filter(|(node, _)| names.contains(&node.name)).map(|(_, at)| NodeId(at)).collect()
    }

    /// Applies a change to each of these nodes.
    fn change_nodes(&mut self, nodes: &[NodeId], open: impl Fn(&mut Node)) {
        for node in nodes {
            open(&mut self.snapshot.nodes[node.0 as usize]);
        }
    }

    /// Gives the labels that the first pod selects to the node with the fewest other errors. Adds a
    /// node instead if the pod selects nodes by name, or no node can be labelled so.
    fn label_matching_node(&mut self, fit_error: &FitError) -> Option<()> {
        let shape =
            self.missing.shapes.first().map(|shape| &self.snapshot.shapes[shape.0 as usize])?;
        let mut worst =
            self.missing.worst_fit_errors.iter().filter(|(_, worst)| worst == fit_error);
        let labelled = worst.find_map(|(node, _)| {
            let at = node.0 as usize;
            Some((at, hypothetical_node::with_labels_selected_by(shape, &self.snapshot.nodes[at])?))
        });
        let Some((at, labelled)) = labelled else { return self.add_nodes_for_missing(1) };
        self.snapshot.nodes[at] = labelled;
        Some(())
    }

    /// Opens nodes for `pods` of the missing pods; `nodes` is the number of nodes that are closed
    /// so far.
    fn admit_missing_pods(&mut self, fit_error: &FitError, nodes: u32, pods: u32) -> Option<()> {
        let closed = self.nodes_rejecting_with(fit_error, pods.min(nodes));
        self.admit_pods(fit_error, pods as usize, &closed)
    }

    /// Changes nodes or pods so that nodes accept `pods` pods; `closed_nodes` are opened as well.
    fn admit_pods(
        &mut self,
        fit_error: &FitError,
        pods: usize,
        closed_nodes: &[NodeId],
    ) -> Option<()> {
        match fit_error {
            FitError::Taint { key, value, .. } => self.change_nodes(closed_nodes, |node| {
                node.taints.retain(|taint| taint.key != *key || taint.value != *value);
            }),
            FitError::Unschedulable => self.change_nodes(closed_nodes, |node| {
                node.unschedulable = false;
                remove_taints(node, &[CORDONED_TAINT]);
            }),
            FitError::NotReady => self.change_nodes(closed_nodes, |node| {
                node.ready = true;
                remove_taints(node, &NOT_READY_TAINTS);
            }),
            FitError::NotGpuWorker => {
                self.change_nodes(closed_nodes, |node| node.add_label(GPU_WORKER));
            }
            FitError::NotCpuWorker => {
                self.change_nodes(closed_nodes, |node| node.add_label(CPU_WORKER));
            }
            FitError::NodeAffinity { .. } => self.label_matching_node(fit_error)?,
            FitError::NumaMisaligned { .. }
            | FitError::Devices(DeviceFitError::InsufficientDevices { .. }) => {
                self.add_nodes_for_missing(1)?;
            }
            FitError::GpusOnlyViaDra | FitError::GpusNotViaDra => {
                self.add_nodes_for_missing(pods.max(1))?;
            }
            FitError::Topology(TopologyFitError::DomainTooFull { topology, level, pods }) => {
                self.add_nodes_in_domain(topology, level, &[], *pods as usize)?;
            }
            FitError::Topology(TopologyFitError::MissingLabels { topology }) => {
                self.label_all_nodes(topology)?;
            }
            FitError::InsufficientResources { .. }
            | FitError::InsufficientGpuMemory { .. }
            | FitError::PodAffinity
            | FitError::PodAffinityToOwnGang
            | FitError::PodAntiAffinity
            | FitError::ExistingPodsAntiAffinity
            | FitError::HostPort { .. }
            | FitError::TopologySpread(_)
            | FitError::TooFewDomains { .. }
            | FitError::TopologySpreadLabelMissing(_)
            | FitError::WholeGpusOnly
            | FitError::MigInstancesOnly
            | FitError::MigDisabled
            | FitError::LegacyMig
            | FitError::LegacyMigPodOnNode
            | FitError::ClaimOnOtherNode(_)
            | FitError::ClaimUsersExhausted(_)
            | FitError::ClaimQueueMismatch { .. }
            | FitError::Topology(TopologyFitError::OtherDomain { .. })
            | FitError::Volume(_)
            | FitError::Devices(
                DeviceFitError::NoReachableDevice
                | DeviceFitError::NoAllocation { .. }
                | DeviceFitError::ClaimOnOtherNode(_)
                | DeviceFitError::ClaimUsersExhausted(_),
            )
            | FitError::QueueBoundExceeded(_) => return None,
        }
        Some(())
    }

    /// Adds a toleration to the pending pods of the group.
    fn add_toleration(&mut self, key: &Name, value: &Name) {
        self.change_shapes(|shape| {
            let (key, value) = (Some(Name::clone(key)), Some(Name::clone(value)));
            shape.tolerations.push(Toleration { key, value, effect: None });
        });
    }

    /// Changes the shapes of the pending pods of the group.
    fn change_shapes(&mut self, change: impl Fn(&mut PodShape)) {
        let Snapshot { pods, shapes, .. } = &mut self.snapshot;
        let mut changed: BTreeMap<ShapeId, ShapeId> = BTreeMap::new();
        let group = Some(self.group);
        let waits = |pod: &&mut Pod| pod.group == group && pod.status == PodStatus::Pending;
        for pod in pods.iter_mut().filter(waits) {
            let of = pod.shape;
            pod.shape = *changed.entry(of).or_insert_with(|| {
                let mut shape = shapes[of.0 as usize].clone();
                change(&mut shape);
                shapes.push(shape);
                ShapeId(to_index(shapes.len() - 1))
            });
        }
    }
}

fn remove_taints(node: &mut Node, keys: &[&str]) {
    node.taints.retain(|taint| !keys.contains(&&*taint.key));
}

fn to_index(length: usize) -> u32 {
    u32::try_from(length).expect("ids are 32 bits")
}
