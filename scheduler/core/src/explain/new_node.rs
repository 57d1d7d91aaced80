//! Nodes that are added for pods: they have what the pods ask for, and the pods select them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{
        CPU_WORKER, GPU_WORKER, GpuPart, HOSTNAME, Labels, MIG_ENABLED, MIG_STRATEGY, Name, Node,
        NodeSelectorTerm, Operator, PodShape, Requirement,
    },
    resources::Resources,
};

/// How large nodes are that are added for pods: it matters to others who are served before those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Size {
    /// One holds all pods of a shape, if they need not be apart, and has no less CPU and memory than
    /// others have.
    #[default]
    Ample,
    /// Each holds one pod, or all of them where those have to be together, and no more of what they
    /// ask for.
    Exact,
    /// One holds all pods of a shape, if they need not be apart, and no more of what they ask for.
    Whole,
}

/// Where a node that is added is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Site<'a> {
    /// How large it is.
    pub(super) size: Size,
    /// In places in which others are.
    pub(super) at: &'a [(Name, Name)],
    /// Alone in places of these labels.
    pub(super) fresh: &'a [Name],
    /// Those for which nodes are added have to be on one.
    pub(super) is_one: bool,
}

/// More nodes, labelled `like` one that is there, on which `pods` pods of `shape` have room. `None`:
/// they could select none.
pub(super) fn add_for_pods(
    nodes: &mut Vec<Node>,
    like: Option<&Node>,
    (shape, pods): (&PodShape, i64),
    site: Site<'_>,
) -> Option<()> {
    let are_apart = !(shape.pod_anti_affinity.is_empty()
        && shape.topology_spread.is_empty()
        && shape.host_ports.is_empty());
    let may_be_apart = shape.pod_affinity.is_empty() && shape.claims.is_empty() && !site.is_one;
    let is_for_each = are_apart || may_be_apart && site.size == Size::Exact;
    let (count, pods_each) = if is_for_each { (pods, 1) } else { (1, pods) };
    (0..count).try_for_each(|_| add(nodes, like, (shape, shape.room_for(pods_each)), site))
}

/// One more node that has so much room.
pub(super) fn add(
    nodes: &mut Vec<Node>,
    like: Option<&Node>,
    (shape, room): (&PodShape, Resources),
    Site { size, at, fresh, .. }: Site<'_>,
) -> Option<()> {
    let name = name_of_next(nodes);
    let like = like.cloned().unwrap_or_default();
    let mut labels = like.labels;
    let apart = shape.pod_anti_affinity.iter().map(|term| &*term.topology_key);
    for label in apart.chain([HOSTNAME]).chain(fresh.iter().map(|label| &**label)) {
        labels.insert(label.into(), unused(nodes, (shape, label)).unwrap_or(name.clone()));
    }
    labels.extend(at.iter().cloned());
    let roles = [GPU_WORKER, CPU_WORKER];
    if roles.iter().any(|role| labels.remove(*role).is_some()) {
        let role = if shape.room_for(1).gpu_milli > 0 { GPU_WORKER } else { CPU_WORKER };
        labels.insert(role.into(), Name::default());
    }
    // Its GPUs are given as they are asked for.
    labels.remove(MIG_ENABLED);
    labels.remove(MIG_STRATEGY);
    let node = Node {
        name,
        labels,
        taints: Vec::new(),
        allocatable: sized(size, room, &like.allocatable),
        images: BTreeMap::new(),
        unschedulable: false,
        ready: true,
        gpus_by_claim: shape.asks_claimed_gpus(),
        held_claims: Vec::new(),
        published: BTreeMap::new(),
        volume_limits: like.volume_limits,
        attached: BTreeSet::new(),
        numa: None,
        gpu_memory_mib: device_memory(nodes, shape),
    };
    nodes.push(selected_by(shape, &node)?);
    Some(())
}

/// The name that a node has which is added next.
pub(super) fn name_of_next(nodes: &[Node]) -> Name {
    match nodes.iter().filter(|node| node.name.starts_with("(new node")).count() {
        0 => "(new node)".into(),
        others => format!("(new node {})", others + 1).into(),
    }
}

/// A value of the label that it selects, and no node has.
fn unused(nodes: &[Node], (shape, label): (&PodShape, &str)) -> Option<Name> {
    let is_new = |value: &Name| nodes.iter().all(|node| node.labels.get(label) != Some(value));
    shape.values_of(label)?.into_iter().find(is_new)
}

/// Where none is asked for, with no less CPU and memory than others of its kind have: nobody adds a
/// node without any.
fn sized(size: Size, room: Resources, like: &Resources) -> Resources {
    let at_least = |asked: i64, like: i64| match size {
        Size::Exact | Size::Whole if asked > 0 => asked,
        Size::Exact | Size::Whole | Size::Ample => asked.max(like),
    };
    Resources {
        cpu_milli: at_least(room.cpu_milli, like.cpu_milli),
        memory_bytes: at_least(room.memory_bytes, like.memory_bytes),
        pods: room.pods.saturating_mul(2).max(110),
        ..room
    }
}

/// As much as any device has, or more where that is asked for.
fn device_memory(nodes: &[Node], shape: &PodShape) -> i64 {
    let asked = match shape.shared_gpu.map(|shared| shared.part) {
        Some(GpuPart::MemoryMib(mib)) => mib,
        Some(GpuPart::Milli(_)) | None => 0,
    };
    nodes.iter().map(|node| node.gpu_memory_mib).fold(asked, i64::max)
}

/// This node, labelled as the shape selects. `None`: its name would have to be another one.
pub(super) fn labelled_for(shape: &PodShape, node: &Node) -> Option<Node> {
    let labelled = selected_by(shape, node)?;
    let is_same =
        labelled.name == node.name && labelled.labels.get(HOSTNAME) == node.labels.get(HOSTNAME);
    is_same.then_some(labelled)
}

/// The node with a name and labels that the node selector and a term of the required affinity
/// ask for.
fn selected_by(shape: &PodShape, node: &Node) -> Option<Node> {
    if shape.selects(node) {
        return Some(node.clone());
    }
    let any = [NodeSelectorTerm::default()];
    let mut terms = shape.node_affinity.as_deref().unwrap_or(&any).iter();
    terms.find_map(|term| Some(adapted(shape, term, node)).filter(|node| shape.selects(node)))
}

fn adapted(shape: &PodShape, term: &NodeSelectorTerm, node: &Node) -> Node {
    let selector = shape.node_selector.iter().map(|(key, value)| Requirement {
        key: Name::clone(key),
        operator: Operator::In,
        values: vec![Name::clone(value)],
    });
    let wanted: Vec<Requirement> = selector.chain(term.labels.iter().cloned()).collect();
    let name = value_with(&term.fields, Some(&node.name));
    let mut adapted = Node { name: name.unwrap_or_else(|| node.name.clone()), ..node.clone() };
    for of_key in by_key(&wanted) {
        change(&mut adapted.labels, &of_key);
    }
    adapted
}

fn by_key(wanted: &[Requirement]) -> impl Iterator<Item = Vec<Requirement>> {
    let mut by_key: BTreeMap<&Name, Vec<Requirement>> = BTreeMap::new();
    for one in wanted {
        by_key.entry(&one.key).or_default().push(one.clone());
    }
    by_key.into_values()
}

fn change(labels: &mut Labels, of_key: &[Requirement]) {
    let key = &of_key[0].key;
    match value_with(of_key, labels.get(key)) {
        Some(value) => labels.insert(Name::clone(key), value),
        None => labels.remove(key),
    };
}

/// A value with which all of them hold, preferably the present one; `None`: none is needed, or
/// none would do.
fn value_with(wanted: &[Requirement], now: Option<&Name>) -> Option<Name> {
    let named = wanted.iter().flat_map(|one| &one.values);
    let numbers = named.clone().filter_map(|value| value.parse::<i64>().ok());
    let beside = numbers.flat_map(|bound| [bound.saturating_sub(1), bound.saturating_add(1)]);
    let mut values = [now.cloned(), None]
        .into_iter()
        .chain(named.cloned().map(Some))
        .chain(beside.map(|number| Some(number.to_string().into())))
        .chain([Some("any".into())]);
    values.find(|value| wanted.iter().all(|one| one.holds(value.as_ref()))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish((key, operator, values): (&str, Operator, &[&str])) -> Requirement {
        let values = values.iter().copied().map(Name::from).collect();
        Requirement { key: key.into(), operator, values }
    }

    /// The label `k` of a new node beside one on which it is `2`, for such an affinity.
    fn label(terms: &[&[(&str, Operator, &[&str])]]) -> String {
        let terms = terms.iter().map(|wishes| NodeSelectorTerm {
            labels: wishes.iter().copied().map(wish).collect(),
            fields: Vec::new(),
        });
        let shape = PodShape { node_affinity: Some(terms.collect()), ..PodShape::default() };
        let labels = BTreeMap::from([("k".into(), "2".into())]);
        let there = Node { labels, ..Node::default() };
        let mut nodes = vec![there.clone()];
        match add_for_pods(&mut nodes, Some(&there), (&shape, 1), Site::default()) {
            None => "no node".to_owned(),
            Some(()) => nodes[1].labels.get("k").map_or("no label", |value| &**value).to_owned(),
        }
    }

    #[test]
    fn a_new_node_has_a_label_with_which_all_requirements_of_a_term_hold() {
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
    fn a_new_node_suits_the_first_term_that_any_could() {
        let never = [("k", Operator::In, &["1"][..]), ("k", Operator::NotIn, &["1"])];
        assert_eq!(label(&[&never]), "no node");
        assert_eq!(label(&[&never, &[("k", Operator::In, &["3"])]]), "3");
        assert_eq!(label(&[]), "no node");
        assert_eq!(label(&[&[]]), "no node");
    }
}
