//! Hypothetical nodes that are added for pods: they offer what the pods request, and have the
//! labels that the pods select.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_scheduler_core::{
    model::{
        CPU_WORKER, GPU_WORKER, GpuFraction, HOSTNAME, Labels, MIG_ENABLED, MIG_STRATEGY, Name,
        Node, NodeSelectorTerm, Operator, PodShape, Requirement,
    },
    resources::Resources,
};

/// The size of nodes that are added for pods. The size matters because jobs that come before those
/// pods may take the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeSize {
    /// One node holds all pods of a shape, unless they exclude each other, and has at least the CPU
    /// and memory of existing nodes.
    #[default]
    Ample,
    /// Each node holds one pod, or all pods if they have to share a node, and nothing more.
    OnePod,
    /// One node holds all pods of a shape, unless they exclude each other, and nothing more.
    AllPods,
}

/// Where an added node belongs, besides its capacity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewNodePlacement<'a> {
    /// Size of the added node.
    pub(super) size: NodeSize,
    /// Labels that place the node in the domains of other pods.
    pub(super) labels: &'a [(Name, Name)],
    /// Keys of labels for which the node gets a value that no other node has.
    pub(super) unique_labels: &'a [Name],
    /// Whether all pods must be on a single node.
    pub(super) is_single_node: bool,
}

/// Adds nodes on which `pods` pods of `shape` fit, labelled like `template`. Returns `None` if the
/// pods cannot select such a node.
pub(super) fn add_nodes_for_pods(
    nodes: &mut Vec<Node>,
    template: Option<&Node>,
    shape: &PodShape,
    pods: i64,
    placement: NewNodePlacement<'_>,
) -> Option<()> {
    let must_be_apart = !(shape.pod_anti_affinity.is_empty()
        && shape.topology_spread.is_empty()
        && shape.host_ports.is_empty());
    let may_be_apart =
        shape.pod_affinity.is_empty() && shape.claims.is_empty() && !placement.is_single_node;
    let is_for_each = must_be_apart || may_be_apart && placement.size == NodeSize::OnePod;
    let (count, pods_each) = if is_for_each { (pods, 1) } else { (1, pods) };
    (0..count).try_for_each(|_| {
        add_node(nodes, template, shape, shape.requests_on_new_node(pods_each), placement)
    })
}

/// Adds one node with this capacity, on which pods of `shape` may run.
pub(super) fn add_node(
    nodes: &mut Vec<Node>,
    template: Option<&Node>,
    shape: &PodShape,
    capacity: Resources,
    NewNodePlacement { size, labels: domain_labels, unique_labels, .. }: NewNodePlacement<'_>,
) -> Option<()> {
    let name = next_node_name(nodes);
    let template = template.cloned().unwrap_or_default();
    let mut labels = template.labels;
    let exclusive = shape.pod_anti_affinity.iter().map(|term| &*term.topology_key);
    for label in exclusive.chain([HOSTNAME]).chain(unique_labels.iter().map(|label| &**label)) {
        labels.insert(label.into(), unused_value(nodes, shape, label).unwrap_or(name.clone()));
    }
    labels.extend(domain_labels.iter().cloned());
    let roles = [GPU_WORKER, CPU_WORKER];
    if roles.iter().any(|role| labels.remove(*role).is_some()) {
        let role =
            if shape.requests_on_new_node(1).gpu_milli > 0 { GPU_WORKER } else { CPU_WORKER };
        labels.insert(role.into(), Name::default());
    }
    // Its labels are those of the template, so it can use the same multi-node devices.
    let devices = template.devices.into_iter();
    let devices = devices.filter(|device| device.properties.is_multi_node).collect();
    // Its GPUs are offered in the form in which they are requested.
    labels.remove(MIG_ENABLED);
    labels.remove(MIG_STRATEGY);
    let node = Node {
        name,
        labels,
        taints: Vec::new(),
        allocatable: allocatable_for(size, capacity, &template.allocatable),
        images: BTreeMap::new(),
        unschedulable: false,
        ready: true,
        gpus_via_dra: shape.requests_dra_gpus(),
        unused_claims: Vec::new(),
        published_devices: BTreeMap::new(),
        device_counters: template.device_counters,
        devices,
        volume_limits: template.volume_limits,
        attached_volumes: BTreeSet::new(),
        numa: None,
        gpu_memory_mib: largest_device_memory(nodes, shape),
    };
    nodes.push(with_name_and_labels_selected_by(shape, &node)?);
    Some(())
}

/// The name of the next added node, such as `(new node 2)`.
pub(super) fn next_node_name(nodes: &[Node]) -> Name {
    match nodes.iter().filter(|node| node.name.starts_with("(new node")).count() {
        0 => "(new node)".into(),
        others => format!("(new node {})", others + 1).into(),
    }
}

/// A value of the label that the shape selects and no node has.
fn unused_value(nodes: &[Node], shape: &PodShape, label: &str) -> Option<Name> {
    let is_new = |value: &Name| nodes.iter().all(|node| node.labels.get(label) != Some(value));
    shape.selected_values(label)?.into_iter().find(is_new)
}

/// The allocatable resources of a node that is added for `request`. CPU and memory that are not
/// requested are those of existing nodes, because a node without any is unrealistic.
fn allocatable_for(size: NodeSize, request: Resources, existing: &Resources) -> Resources {
    let at_least = |requested: i64, existing: i64| match size {
        NodeSize::OnePod | NodeSize::AllPods if requested > 0 => requested,
        NodeSize::OnePod | NodeSize::AllPods | NodeSize::Ample => requested.max(existing),
    };
    Resources {
        cpu_milli: at_least(request.cpu_milli, existing.cpu_milli),
        memory_bytes: at_least(request.memory_bytes, existing.memory_bytes),
        pods: request.pods.saturating_mul(2).max(110),
        ..request
    }
}

/// The largest GPU memory of all nodes in MiB, or the requested one if that is larger.
fn largest_device_memory(nodes: &[Node], shape: &PodShape) -> i64 {
    let requested = match shape.fractional_gpu.map(|shared| shared.fraction) {
        Some(GpuFraction::MemoryMib(mib)) => mib,
        Some(GpuFraction::Milli(_)) | None => 0,
    };
    nodes.iter().map(|node| node.gpu_memory_mib).fold(requested, i64::max)
}

/// A copy of the node with the labels that the shape selects; `None` if the node would need another
/// name.
pub(super) fn with_labels_selected_by(shape: &PodShape, node: &Node) -> Option<Node> {
    let labelled = with_name_and_labels_selected_by(shape, node)?;
    let is_same =
        labelled.name == node.name && labelled.labels.get(HOSTNAME) == node.labels.get(HOSTNAME);
    is_same.then_some(labelled)
}

/// A copy of the node with the name and labels that the node selector and one term of the required
/// affinity select.
fn with_name_and_labels_selected_by(shape: &PodShape, node: &Node) -> Option<Node> {
    if shape.selects_node(node) {
        return Some(node.clone());
    }
    let any = [NodeSelectorTerm::default()];
    let mut terms = shape.node_affinity.as_deref().unwrap_or(&any).iter();
    terms.find_map(|term| {
        Some(with_labels_of_term(shape, term, node)).filter(|node| shape.selects_node(node))
    })
}

fn with_labels_of_term(shape: &PodShape, term: &NodeSelectorTerm, node: &Node) -> Node {
    let selector = shape.node_selector.iter().map(|(key, value)| Requirement {
        key: Name::clone(key),
        operator: Operator::In,
        values: vec![Name::clone(value)],
    });
    let requirements: Vec<Requirement> = selector.chain(term.labels.iter().cloned()).collect();
    let name = matching_value(&term.fields, Some(&node.name));
    let mut adapted = Node { name: name.unwrap_or_else(|| node.name.clone()), ..node.clone() };
    for of_key in requirements_by_key(&requirements) {
        set_matching_label(&mut adapted.labels, &of_key);
    }
    adapted
}

fn requirements_by_key(requirements: &[Requirement]) -> impl Iterator<Item = Vec<Requirement>> {
    let mut by_key: BTreeMap<&Name, Vec<Requirement>> = BTreeMap::new();
    for one in requirements {
        by_key.entry(&one.key).or_default().push(one.clone());
    }
    by_key.into_values()
}

fn set_matching_label(labels: &mut Labels, requirements_of_key: &[Requirement]) {
    let key = &requirements_of_key[0].key;
    match matching_value(requirements_of_key, labels.get(key)) {
        Some(value) => labels.insert(Name::clone(key), value),
        None => labels.remove(key),
    };
}

/// A label value that satisfies all requirements, preferably the present one. `None`: no value is
/// needed, or none satisfies them.
fn matching_value(requirements: &[Requirement], present_value: Option<&Name>) -> Option<Name> {
    let named = requirements.iter().flat_map(|one| &one.values);
    let numbers = named.clone().filter_map(|value| value.parse::<i64>().ok());
    let beside = numbers.flat_map(|bound| [bound.saturating_sub(1), bound.saturating_add(1)]);
    let mut values = [present_value.cloned(), None]
        .into_iter()
        .chain(named.cloned().map(Some))
        .chain(beside.map(|number| Some(number.to_string().into())))
        .chain([Some("any".into())]);
    values.find(|value| requirements.iter().all(|one| one.matches_value(value.as_ref()))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(all: &[(&str, Operator, &[&str])]) -> Vec<Requirement> {
        let requirement = |(key, operator, values): &(&str, Operator, &[&str])| Requirement {
            key: (*key).into(),
            operator: *operator,
            values: values.iter().copied().map(Name::from).collect(),
        };
        all.iter().map(requirement).collect()
    }

    /// The label `k` of a node added next to one with `k=2`, for this affinity.
    fn label(terms: &[&[(&str, Operator, &[&str])]]) -> String {
        let terms = terms
            .iter()
            .map(|wishes| NodeSelectorTerm { labels: requirements(wishes), fields: Vec::new() });
        let shape = PodShape { node_affinity: Some(terms.collect()), ..PodShape::default() };
        let labels = BTreeMap::from([("k".into(), "2".into())]);
        let there = Node { labels, ..Node::default() };
        let mut nodes = vec![there.clone()];
        match add_nodes_for_pods(&mut nodes, Some(&there), &shape, 1, NewNodePlacement::default()) {
            None => "no node".to_owned(),
            Some(()) => nodes[1].labels.get("k").map_or("no label", |value| &**value).to_owned(),
        }
    }

    #[test]
    fn a_new_node_has_labels_that_satisfy_a_term() {
        assert_eq!(label(&[&[("k", Operator::In, &["1", "3"])]]), "1");
        assert_eq!(label(&[&[("k", Operator::In, &["1", "2"])]]), "2");
        assert_eq!(label(&[&[("k", Operator::NotIn, &["2"])]]), "no label");
        assert_eq!(label(&[&[("k", Operator::DoesNotExist, &[])]]), "no label");
        assert_eq!(label(&[&[("k", Operator::Exists, &[])]]), "2");
        assert_eq!(label(&[&[("k", Operator::Exists, &[]), ("k", Operator::NotIn, &["2"])]]), "1");
        assert_eq!(label(&[&[("k", Operator::Gt, &["5"])]]), "6");
        assert_eq!(label(&[&[("k", Operator::Lt, &["1"])]]), "0");
        let between = [("k", Operator::Gt, &["5"][..]), ("k", Operator::Lt, &["7"])];
        assert_eq!(label(&[&between]), "6");
    }

    #[test]
    fn a_new_node_satisfies_the_first_satisfiable_term() {
        let never = [("k", Operator::In, &["1"][..]), ("k", Operator::NotIn, &["1"])];
        assert_eq!(label(&[&never]), "no node");
        assert_eq!(label(&[&never, &[("k", Operator::In, &["3"])]]), "3");
        assert_eq!(label(&[]), "no node");
        assert_eq!(label(&[&[]]), "no node");
    }
}
