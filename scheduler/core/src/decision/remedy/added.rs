//! Nodes that are added where it matters to pods where others are: how many, how large and where.
//! What is told of them is what is tried.

use std::fmt;

use super::room::labelled;
use crate::{
    decision::{Misfit, Misfits, Quantity, site::PlaceNeed, words::listing},
    model::{HOSTNAME, Name, Selection},
    resources::{ResourceName, Resources},
};

/// What nodes have to be like that are added for pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// What the largest of the pods asks for.
    pub asks: Resources,
    /// Labels of a node that is near those that the pods' affinity asks for.
    pub near: Option<Vec<(Name, Name)>>,
    /// Labels of the place of a topology in which the pods have to be, from the widest.
    pub inside: Vec<(Name, Name)>,
    /// Over which labels, but that of the host, the pods have to be apart from others.
    pub apart_over: Vec<Name>,
    /// Values of the label over which they are to be spread, where that would have them.
    pub even: Vec<Name>,
    /// So many pods have to be in one place, which no other node is in; 0: that is not so.
    pub together: u32,
    /// The pods cannot share a node.
    pub are_alone: bool,
    /// The pods select no other value of that label than nodes have.
    pub is_pinned: bool,
    /// A spread that asks for less would not do: more than that speaks against other nodes.
    pub is_only_way: bool,
    /// How the pods select nodes.
    pub selection: Selection,
    /// Classes of the GPUs that their claims ask for.
    pub gpu_classes: Vec<Name>,
}

/// Nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    /// For how many pods one of them has room.
    pub(crate) pods_each: u32,
    /// Labels of each, where these have to be as they are elsewhere.
    pub(crate) at: Vec<Vec<(Name, Name)>>,
    /// Labels of which each has a value of its own.
    pub(crate) fresh: Vec<Name>,
}

impl Added {
    /// For so many pods that this keeps from the nodes that there are.
    pub(super) fn of(misfits: &Misfits, misfit: &Misfit, pods: u32) -> Self {
        let selection = misfits.selection.clone();
        let Some(site) = &misfits.site else { return Self { selection, ..Self::default() } };
        let need = misfit.place_need();
        let key = need.as_ref().and_then(PlaceNeed::spread_over);
        let is_uneven =
            pods > 1 || misfits.counts.keys().any(|refusal| refusal.worst.is_of_spread());
        let spread_over = site.even.keys().filter(|_| is_uneven && key.is_none());
        let mut apart_over = site.apart_over.clone();
        apart_over.extend(spread_over.cloned());
        let even = key.and_then(|key| site.even.get(key)).into_iter().flatten();
        Self {
            asks: site.asks.clone(),
            near: site.near.clone(),
            inside: site.inside.clone(),
            together: site.together,
            apart_over: apart_over.into_iter().collect(),
            even: even.cloned().collect(),
            are_alone: site.is_alone,
            is_pinned: key.is_some_and(|key| site.pinned.contains(key)),
            is_only_way: site.room_if_uneven < pods,
            selection,
            gpu_classes: site.gpu_classes.clone(),
        }
    }

    /// No node that is added has a name that they select.
    pub(crate) fn is_selected_by_name(&self) -> bool {
        self.selection == Selection::Names
    }

    /// The nodes that so many pods need. `None`: none would do.
    pub(crate) fn batch(&self, need: PlaceNeed<'_>, pods: u32) -> Option<Batch> {
        let pods = pods.max(1);
        let near = self.near.iter().flatten().chain(&self.inside);
        let near: Vec<(Name, Name)> = near.cloned().collect();
        let is_host = |label: &Name| **label == *HOSTNAME;
        if self.is_selected_by_name()
            || near.iter().any(|(label, _)| is_host(label))
            || need == PlaceNeed::Near && self.near.is_none()
            || self.is_pinned && self.even.is_empty()
        {
            return None;
        }
        let labels = self.apart_over.iter().chain(need.spread_over());
        let labels = labels.filter(|label| !is_host(label));
        let fresh = labels.filter(|label| near.iter().all(|(near, _)| near != *label));
        let mut fresh: Vec<Name> = fresh.cloned().collect();
        let alike = |nodes: u32| (0..nodes).map(|_| near.clone()).collect();
        let (pods_each, at) = match need {
            PlaceNeed::Even(key) if !self.even.is_empty() && (pods == 1 || !self.are_alone) => {
                fresh.retain(|label| label != key);
                let there = self.even.iter().map(|value| (Name::clone(key), Name::clone(value)));
                let there = there.map(|there| near.iter().cloned().chain([there]).collect());
                (pods, there.take(if pods == 1 { 1 } else { self.even.len() }).collect())
            }
            PlaceNeed::Apart | PlaceNeed::Port(_) if self.together > 0 => {
                (pods.max(self.together), alike(1))
            }
            _ if self.are_alone => (1, alike(pods)),
            PlaceNeed::Near => (pods, alike(1)),
            PlaceNeed::Domains { domains, least, .. } => {
                let nodes = pods.min(least.saturating_sub(domains)).max(1);
                (pods - nodes + 1, alike(nodes))
            }
            PlaceNeed::Apart | PlaceNeed::Port(_) | PlaceNeed::Even(_) => (1, alike(pods)),
        };
        Some(Batch { pods_each, at, fresh })
    }

    /// ` in zone a and rack r1`, where they have to be in such places.
    fn there(&self) -> String {
        let near = self.near.iter().flatten().chain(self.inside.last());
        let mut near: Vec<String> = near.map(|(label, value)| format!("{label} {value}")).collect();
        near.dedup();
        if near.is_empty() { String::new() } else { format!(" in {}", near.join(" and ")) }
    }

    /// Nodes that are added for pods apart, `2 nodes with 1 GPU each, each in a zone of its own`.
    fn nodes(
        &self,
        f: &mut fmt::Formatter<'_>,
        Batch { pods_each, at, fresh }: &Batch,
    ) -> fmt::Result {
        f.write_str(&sized(at.len(), &self.asks.times(i64::from(*pods_each))))?;
        f.write_str(&self.there())?;
        match (&fresh[..], at.len()) {
            ([], _) => Ok(()),
            (labels, 1) => write!(f, " in a {}", labels.join(" and ")),
            (labels, _) => write!(f, ", each in a {} of its own", labels.join(" and ")),
        }
    }
}

/// `8 GPUs and 4 CPU cores`, where it is something.
fn amounts(before: &str, room: &Resources) -> String {
    let amounts = room.amounts().filter(|(resource, _)| *resource != ResourceName::Pods);
    let amounts = amounts.map(|(resource, amount)| Quantity { resource, amount }.rounded_up());
    let amounts: Vec<String> = amounts.map(|amount| amount.counted()).collect();
    if amounts.is_empty() { String::new() } else { format!("{before}{}", listing(&amounts, "and")) }
}

/// `a node with 8 GPUs`, `2 nodes with 8 GPUs and 4 CPU cores each`.
fn sized(nodes: usize, room: &Resources) -> String {
    let with = amounts(" with ", room);
    match (nodes, with.is_empty()) {
        (0 | 1, _) => format!("a node{with}"),
        (_, true) => format!("{nodes} nodes"),
        (_, false) => format!("{nodes} nodes{with} each"),
    }
}

/// No other node has such a name.
const OTHER_NAMES: &str = "let its pods run on other nodes than those to whose names they are bound, or end the pods \
     there that they cannot be beside";

/// No other node has those near it.
const OTHERS_NEAR: &str = "end the pods that it cannot be beside where those are that its pod affinity asks for, or start \
     such on other nodes";

/// What lets in pods that other places would take.
pub(super) fn elsewhere(
    f: &mut fmt::Formatter<'_>,
    (need, added): (PlaceNeed<'_>, &Added),
    pods: u32,
) -> fmt::Result {
    let Some(batch) = added.batch(need, pods) else { return without_nodes(f, (need, added)) };
    f.write_str("add ")?;
    match need {
        PlaceNeed::Apart | PlaceNeed::Port(_) | PlaceNeed::Near => added.nodes(f, &batch)?,
        PlaceNeed::Even(key) => even(f, key, (added, &batch))?,
        PlaceNeed::Domains { key, .. } => in_others(f, key, (added, &batch))?,
    }
    match need {
        PlaceNeed::Apart => f.write_str(" without the pods that anti-affinity keeps it from")?,
        PlaceNeed::Port(Some(port)) => write!(f, " on which host port {port} is free")?,
        PlaceNeed::Port(None) => f.write_str(" on which its host ports are free")?,
        PlaceNeed::Near => f.write_str(", where the pods are that its pod affinity asks for")?,
        PlaceNeed::Even(key) => write!(f, ", as its topology spread over {key} asks")?,
        PlaceNeed::Domains { key, least, .. } => {
            write!(f, ", as minDomains {least} of its topology spread over {key} asks")?;
        }
    }
    labelled(f, &added.selection)?;
    match need {
        PlaceNeed::Even(_) if !added.is_only_way => f.write_str(", or allow a larger maxSkew"),
        PlaceNeed::Domains { domains, .. } if !added.is_only_way => {
            write!(f, ", or lower that to {domains}")
        }
        PlaceNeed::Apart
        | PlaceNeed::Port(_)
        | PlaceNeed::Near
        | PlaceNeed::Even(_)
        | PlaceNeed::Domains { .. } => Ok(()),
    }
}

/// Where its spread would have the pod.
fn even(f: &mut fmt::Formatter<'_>, key: &Name, (added, batch): (&Added, &Batch)) -> fmt::Result {
    let is_new = batch.fresh.contains(key);
    let room = added.asks.times(i64::from(batch.pods_each));
    let values: Vec<String> = added.even.iter().map(ToString::to_string).collect();
    match batch.at.len() {
        nodes if **key == *HOSTNAME => write!(f, "{}{}", sized(nodes, &room), added.there()),
        1 if is_new => write!(f, "{} in a new {key}", sized(1, &room)),
        nodes if is_new => write!(f, "{}, each in a new {key}", sized(nodes, &room)),
        1 => {
            write!(f, "{} in {key} {}", sized(1, &room), listing(&values, "or"))?;
            let is_one_more = batch.pods_each == 1 && !added.is_pinned;
            f.write_str(&if is_one_more { format!(" or in a new {key}") } else { String::new() })
        }
        _ => write!(f, "{} in each of {key} {}", sized(1, &room), listing(&values, "and")),
    }
}

/// In places in which no node is.
fn in_others(
    f: &mut fmt::Formatter<'_>,
    key: &Name,
    (added, batch): (&Added, &Batch),
) -> fmt::Result {
    let nodes = batch.at.len();
    f.write_str(&sized(nodes, &added.asks.times(i64::from(batch.pods_each))))?;
    if **key == *HOSTNAME {
        return f.write_str(&added.there());
    }
    write!(f, "{} in another {key}", if nodes > 1 { ", each" } else { "" })
}

/// What else helps.
fn without_nodes(
    f: &mut fmt::Formatter<'_>,
    (need, added): (PlaceNeed<'_>, &Added),
) -> fmt::Result {
    match need {
        PlaceNeed::Even(key) => write!(
            f,
            "make room where its topology spread over {key} wants it, or allow a larger maxSkew"
        ),
        PlaceNeed::Domains { key, domains, .. } => {
            let spread = format!("its topology spread over {key}");
            write!(f, "lower minDomains of {spread} to {domains}: it selects no other")
        }
        PlaceNeed::Near if added.near.is_none() => {
            f.write_str("start the pods that its pod affinity asks for")
        }
        PlaceNeed::Near => write!(
            f,
            "start pods that its pod affinity asks for where there is room for it, too{}",
            amounts(": ", &added.asks)
        ),
        PlaceNeed::Apart | PlaceNeed::Port(_) if added.is_selected_by_name() => {
            f.write_str(OTHER_NAMES)
        }
        PlaceNeed::Apart | PlaceNeed::Port(_) => f.write_str(OTHERS_NEAR),
    }
}
