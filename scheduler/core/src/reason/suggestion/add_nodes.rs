//! Nodes to add for pods to which the placement of other pods matters: how many, how large and
//! where. The text and the trial use the same data.

use std::fmt;

use super::free_capacity::fmt_selected_labels;
use crate::{
    model::{HOSTNAME, Name, NodeSelection},
    reason::{FitError, FitErrors, Quantity, format::join_list, node_requirements::PlacementNeed},
    resources::{ResourceName, Resources},
};

/// What added nodes must be like for pods that fit on no existing node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedNodes {
    /// Requests of the largest pod.
    pub requests: Resources,
    /// Labels of a node that satisfies the pods' affinity.
    pub affinity_labels: Option<Vec<(Name, Name)>>,
    /// Labels of the topology domain that the pods must be in, widest level first.
    pub domain_labels: Vec<(Name, Name)>,
    /// Keys of labels, other than the hostname, over which the pods must be apart from others.
    pub exclusion_labels: Vec<Name>,
    /// Values of the topology spread key that satisfy the constraint.
    pub spread_domains: Vec<Name>,
    /// Number of pods that must be in one new domain; 0 when the pods need no new domain.
    pub pods_in_one_domain: u32,
    /// Whether the pods cannot share a node.
    pub need_own_nodes: bool,
    /// Whether the pods select only values of the topology spread key that nodes already have.
    pub is_pinned: bool,
    /// Whether a weaker spread constraint would not help, because other errors exclude the nodes as
    /// well.
    pub must_add_nodes: bool,
    /// How the pods select nodes.
    pub node_selection: NodeSelection,
    /// Device classes of the GPUs that their claims request.
    pub gpu_classes: Vec<Name>,
}

/// Equal nodes to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBatch {
    /// Number of pods that one node holds.
    pub pods_per_node: u32,
    /// Labels that the nodes must share with existing nodes, one list per node.
    pub node_labels: Vec<Vec<(Name, Name)>>,
    /// Keys of labels for which each node needs a value of its own.
    pub fresh_labels: Vec<Name>,
}

impl AddedNodes {
    /// What nodes must be like that are added for `pods` pods which `fit_error` keeps from the
    /// existing nodes.
    pub(super) fn new(fit_errors: &FitErrors, fit_error: &FitError, pods: u32) -> Self {
        let node_selection = fit_errors.node_selection.clone();
        let Some(requirements) = &fit_errors.node_requirements else {
            return Self { node_selection, ..Self::default() };
        };
        let need = fit_error.placement_need();
        let key = need.as_ref().and_then(PlacementNeed::spread_label);
        let is_uneven = pods > 1
            || fit_errors.refusals.keys().any(|refusal| refusal.worst.is_topology_spread());
        let spread_over = requirements.spread_domains.keys().filter(|_| is_uneven && key.is_none());
        let mut apart_over = requirements.exclusion_labels.clone();
        apart_over.extend(spread_over.cloned());
        let even = key.and_then(|key| requirements.spread_domains.get(key)).into_iter().flatten();
        Self {
            requests: requirements.requests.clone(),
            affinity_labels: requirements.affinity_labels.clone(),
            domain_labels: requirements.domain_labels.clone(),
            pods_in_one_domain: requirements.pods_in_one_domain,
            exclusion_labels: apart_over.into_iter().collect(),
            spread_domains: even.cloned().collect(),
            need_own_nodes: requirements.needs_own_node,
            is_pinned: key.is_some_and(|key| requirements.pinned_labels.contains(key)),
            must_add_nodes: requirements.capacity_ignoring_spread < pods,
            node_selection,
            gpu_classes: requirements.gpu_classes.clone(),
        }
    }

    /// Whether the pods select nodes by name, so that no added node suits them.
    pub(crate) fn is_selected_by_name(&self) -> bool {
        self.node_selection == NodeSelection::Names
    }

    /// The nodes to add for `pods` pods with this placement need; `None` when no added node would
    /// help.
    pub fn node_batch(&self, need: PlacementNeed<'_>, pods: u32) -> Option<NodeBatch> {
        let pods = pods.max(1);
        let near = self.affinity_labels.iter().flatten().chain(&self.domain_labels);
        let near: Vec<(Name, Name)> = near.cloned().collect();
        let is_host = |label: &Name| **label == *HOSTNAME;
        if self.is_selected_by_name()
            || near.iter().any(|(label, _)| is_host(label))
            || need == PlacementNeed::NearPods && self.affinity_labels.is_none()
            || self.is_pinned && self.spread_domains.is_empty()
        {
            return None;
        }
        let labels = self.exclusion_labels.iter().chain(need.spread_label());
        let labels = labels.filter(|label| !is_host(label));
        let fresh_labels = labels.filter(|label| near.iter().all(|(near, _)| near != *label));
        let mut fresh_labels: Vec<Name> = fresh_labels.cloned().collect();
        let alike = |nodes: u32| (0..nodes).map(|_| near.clone()).collect();
        let (pods_per_node, node_labels) = match need {
            PlacementNeed::EvenSpread(key)
                if !self.spread_domains.is_empty() && (pods == 1 || !self.need_own_nodes) =>
            {
                fresh_labels.retain(|label| label != key);
                let there =
                    self.spread_domains.iter().map(|value| (Name::clone(key), Name::clone(value)));
                let there = there.map(|there| near.iter().cloned().chain([there]).collect());
                (pods, there.take(if pods == 1 { 1 } else { self.spread_domains.len() }).collect())
            }
            PlacementNeed::AwayFromPods | PlacementNeed::FreeHostPort(_)
                if self.pods_in_one_domain > 0 =>
            {
                (pods.max(self.pods_in_one_domain), alike(1))
            }
            _ if self.need_own_nodes => (1, alike(pods)),
            PlacementNeed::NearPods => (pods, alike(1)),
            PlacementNeed::MoreDomains { domains, min_domains, .. } => {
                let nodes = pods.min(min_domains.saturating_sub(domains)).max(1);
                (pods - nodes + 1, alike(nodes))
            }
            PlacementNeed::AwayFromPods
            | PlacementNeed::FreeHostPort(_)
            | PlacementNeed::EvenSpread(_) => (1, alike(pods)),
        };
        Some(NodeBatch { pods_per_node, node_labels, fresh_labels })
    }

    /// Where the nodes must be, such as ` in zone a and rack r1`; empty when any location will do.
    fn fmt_location(&self) -> String {
        let labels = self.affinity_labels.iter().flatten().chain(self.domain_labels.last());
        let mut labels: Vec<String> =
            labels.map(|(label, value)| format!("{label} {value}")).collect();
        labels.dedup();
        if labels.is_empty() { String::new() } else { format!(" in {}", labels.join(" and ")) }
    }

    /// Writes the nodes to add, such as `2 nodes with 1 GPU each, each in a zone of its own`.
    fn fmt_nodes(
        &self,
        f: &mut fmt::Formatter<'_>,
        NodeBatch { pods_per_node, node_labels, fresh_labels }: &NodeBatch,
    ) -> fmt::Result {
        f.write_str(&nodes_with_resources(
            node_labels.len(),
            &self.requests.times(i64::from(*pods_per_node)),
        ))?;
        f.write_str(&self.fmt_location())?;
        match (&fresh_labels[..], node_labels.len()) {
            ([], _) => Ok(()),
            (labels, 1) => write!(f, " in a {}", labels.join(" and ")),
            (labels, _) => write!(f, ", each in a {} of its own", labels.join(" and ")),
        }
    }
}

/// Lists amounts, such as `8 GPUs and 4 CPU cores`; empty when there are none.
fn list_amounts(prefix: &str, amounts: &Resources) -> String {
    let amounts =
        amounts.positive_amounts().filter(|(resource, _)| *resource != ResourceName::Pods);
    let amounts =
        amounts.map(|(resource, amount)| Quantity { resource, amount }.rounded_up_to_resolution());
    let amounts: Vec<String> = amounts.map(|amount| amount.with_unit()).collect();
    if amounts.is_empty() {
        String::new()
    } else {
        format!("{prefix}{}", join_list(&amounts, "and"))
    }
}

/// Nodes with the resources of each, such as `a node with 8 GPUs` or `2 nodes with 8 GPUs and 4 CPU
/// cores each`.
fn nodes_with_resources(count: usize, resources: &Resources) -> String {
    let with = list_amounts(" with ", resources);
    match (count, with.is_empty()) {
        (0 | 1, _) => format!("a node{with}"),
        (_, true) => format!("{count} nodes"),
        (_, false) => format!("{count} nodes{with} each"),
    }
}

/// Suggestion for pods that select nodes by name.
const USE_OTHER_NODES_TEXT: &str = "let its pods select other nodes than the ones they name, or delete \
     the pods there that they cannot run next to";

/// Suggestion for pods whose affinity ties them to nodes with pods that they cannot run next to.
const MOVE_AFFINITY_PODS_TEXT: &str = "delete the pods that it cannot run next to where the pods run \
     that its pod affinity selects, or start such pods on other nodes";

/// Writes which nodes to add for pods that would fit if there were nodes in other topology domains.
pub(super) fn fmt_add_nodes(
    f: &mut fmt::Formatter<'_>,
    need: PlacementNeed<'_>,
    added: &AddedNodes,
    pods: u32,
) -> fmt::Result {
    let Some(batch) = added.node_batch(need, pods) else {
        return fmt_alternative_to_adding_nodes(f, need, added);
    };
    f.write_str("add ")?;
    match need {
        PlacementNeed::AwayFromPods | PlacementNeed::FreeHostPort(_) | PlacementNeed::NearPods => {
            added.fmt_nodes(f, &batch)?;
        }
        PlacementNeed::EvenSpread(key) => fmt_spread_nodes(f, key, added, &batch)?,
        PlacementNeed::MoreDomains { key, .. } => fmt_new_domains(f, key, added, &batch)?,
    }
    match need {
        PlacementNeed::AwayFromPods => {
            f.write_str(" without the pods that anti-affinity keeps it apart from")?;
        }
        PlacementNeed::FreeHostPort(Some(port)) => write!(f, " on which host port {port} is free")?,
        PlacementNeed::FreeHostPort(None) => f.write_str(" on which its host ports are free")?,
        PlacementNeed::NearPods => {
            f.write_str(", where the pods run that its pod affinity selects")?;
        }
        PlacementNeed::EvenSpread(key) => {
            write!(f, ", as its topology spread over {key} requires")?;
        }
        PlacementNeed::MoreDomains { key, min_domains, .. } => {
            write!(f, ", as minDomains {min_domains} of its topology spread over {key} requires")?;
        }
    }
    fmt_selected_labels(f, &added.node_selection)?;
    match need {
        PlacementNeed::EvenSpread(_) if !added.must_add_nodes => {
            f.write_str(", or allow a larger maxSkew")
        }
        PlacementNeed::MoreDomains { domains, .. } if !added.must_add_nodes => {
            write!(f, ", or lower that to {domains}")
        }
        PlacementNeed::AwayFromPods
        | PlacementNeed::FreeHostPort(_)
        | PlacementNeed::NearPods
        | PlacementNeed::EvenSpread(_)
        | PlacementNeed::MoreDomains { .. } => Ok(()),
    }
}

/// Writes which nodes to add in the domains that the topology spread allows.
fn fmt_spread_nodes(
    f: &mut fmt::Formatter<'_>,
    key: &Name,
    added: &AddedNodes,
    batch: &NodeBatch,
) -> fmt::Result {
    let is_new = batch.fresh_labels.contains(key);
    let room = added.requests.times(i64::from(batch.pods_per_node));
    let values: Vec<String> = added.spread_domains.iter().map(ToString::to_string).collect();
    match batch.node_labels.len() {
        nodes if **key == *HOSTNAME => {
            write!(f, "{}{}", nodes_with_resources(nodes, &room), added.fmt_location())
        }
        1 if is_new => write!(f, "{} in a new {key}", nodes_with_resources(1, &room)),
        nodes if is_new => write!(f, "{}, each in a new {key}", nodes_with_resources(nodes, &room)),
        1 => {
            write!(f, "{} in {key} {}", nodes_with_resources(1, &room), join_list(&values, "or"))?;
            let is_one_more = batch.pods_per_node == 1 && !added.is_pinned;
            f.write_str(&if is_one_more { format!(" or in a new {key}") } else { String::new() })
        }
        _ => write!(
            f,
            "{} in each of {key} {}",
            nodes_with_resources(1, &room),
            join_list(&values, "and")
        ),
    }
}

/// Writes which nodes to add in domains that have no node yet.
fn fmt_new_domains(
    f: &mut fmt::Formatter<'_>,
    key: &Name,
    added: &AddedNodes,
    batch: &NodeBatch,
) -> fmt::Result {
    let nodes = batch.node_labels.len();
    f.write_str(&nodes_with_resources(
        nodes,
        &added.requests.times(i64::from(batch.pods_per_node)),
    ))?;
    if **key == *HOSTNAME {
        return f.write_str(&added.fmt_location());
    }
    write!(f, "{} in another {key}", if nodes > 1 { ", each" } else { "" })
}

/// Writes what to do when no added node would help.
fn fmt_alternative_to_adding_nodes(
    f: &mut fmt::Formatter<'_>,
    need: PlacementNeed<'_>,
    added: &AddedNodes,
) -> fmt::Result {
    match need {
        PlacementNeed::EvenSpread(key) => write!(
            f,
            "free capacity where its topology spread over {key} allows it, or allow a larger \
             maxSkew"
        ),
        PlacementNeed::MoreDomains { key, domains, .. } => {
            let spread = format!("its topology spread over {key}");
            write!(f, "lower minDomains of {spread} to {domains}: it selects no other values")
        }
        PlacementNeed::NearPods if added.affinity_labels.is_none() => {
            f.write_str("start the pods that its pod affinity selects")
        }
        PlacementNeed::NearPods => write!(
            f,
            "start pods that its pod affinity selects where it fits as well{}",
            list_amounts(": ", &added.requests)
        ),
        PlacementNeed::AwayFromPods | PlacementNeed::FreeHostPort(_)
            if added.is_selected_by_name() =>
        {
            f.write_str(USE_OTHER_NODES_TEXT)
        }
        PlacementNeed::AwayFromPods | PlacementNeed::FreeHostPort(_) => {
            f.write_str(MOVE_AFFINITY_PODS_TEXT)
        }
    }
}
