//! The text form of explanations.

use std::fmt;

use super::{Explanation, NewNodeSize, NodeGroup, NodeReport, SuggestedStep, TrialOutcome};
use crate::{
    Decision, Snapshot,
    decision::{Decimal, Quantity},
    model::{DeviceClaim, FractionalGpu, GpuFraction, Name, NodeId, PodId},
    queues::Account,
    resources::{Amount, PerResource, ResourceName, Resources},
    session::Fit,
};

/// Maximum number of printed node names per group.
const NAMES_MAX: usize = 8;

/// Displays an explanation with the names of the snapshot.
#[derive(Clone, Copy, Debug)]
pub struct ExplanationText<'a> {
    /// The explained snapshot.
    pub snapshot: &'a Snapshot,
    /// The explanation.
    pub explanation: &'a Explanation,
}

impl fmt::Display for ExplanationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.decisions(f)?;
        if let Some(reason) = &self.explanation.reason {
            writeln!(f, "\nreason: {}\n  {reason}", reason.code())?;
        }
        self.suggestions(f)?;
        self.queues(f)?;
        if self.explanation.reason.is_none() {
            return Ok(());
        }
        self.plugins(f)?;
        match &self.explanation.nodes {
            Some(nodes) => self.nodes(f, nodes),
            None => Ok(()),
        }
    }
}

impl ExplanationText<'_> {
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { group, active, pending: waiting, minimum, reason, .. } = self.explanation;
        let group = &self.snapshot.pod_groups[group.0 as usize];
        let state = match (reason, waiting) {
            (Some(_), _) => "waits",
            (None, 0) => "has all it asked for",
            (None, _) => "grows",
        };
        writeln!(f, "pod group {}/{} {state}", group.namespace, group.name)?;
        let all: u64 = group.sub_groups.iter().map(|part| u64::from(part.min_member)).sum();
        let at_least = if *minimum < all { "at least " } else { "" };
        let kind = if group.preemptible { "preemptible" } else { "non-preemptible" };
        writeln!(
            f,
            "  {active} of its pods have a node, {waiting} wait, {at_least}{minimum} must run \
             together\n  priority {}, {kind}",
            group.priority
        )
    }

    fn decisions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for decision in &self.explanation.decisions {
            match decision {
                Decision::Bind { pod, node } => {
                    writeln!(f, "  next cycle: {} goes to {}", self.pod(*pod), self.node(*node))?;
                }
                Decision::Pipeline { pod, node } => writeln!(
                    f,
                    "  next cycle: {} is promised room on {}",
                    self.pod(*pod),
                    self.node(*node)
                )?,
                Decision::Evict { pod, cause } => {
                    writeln!(
                        f,
                        "  next cycle: {} has to leave ({})",
                        self.pod(*pod),
                        cause.action()
                    )?;
                }
            }
        }
        Ok(())
    }

    fn suggestions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (
            SuggestedStep { suggestion: remedy, total: in_all, minimum: least, outcome },
            number,
        ) in self.explanation.suggestions.iter().zip(1..)
        {
            let word = if number == 1 { "remedy" } else { "and then" };
            writeln!(f, "\n{word}: {remedy}")?;
            if let Some(in_all) = in_all {
                writeln!(f, "  others are served before it; for all of them and it: {in_all}")?;
            }
            if let Some(least) = least {
                writeln!(f, "  if others leave or wait for it, less is enough: {least}")?;
            }
            match outcome {
                TrialOutcome::Runs { node, fits, new_nodes } => writeln!(
                    f,
                    "  tried on a copy of the cluster: it runs on {node} {}",
                    when_text(*fits, *new_nodes)
                )?,
                TrialOutcome::EvictedAgain(reason) => writeln!(
                    f,
                    "  tried on a copy of the cluster: it starts, but leaves for others within \
                     a few cycles, and waits ({})\n  {reason}",
                    reason.code()
                )?,
                TrialOutcome::StillPending(reason) => writeln!(
                    f,
                    "  tried on a copy of the cluster: it still waits ({})\n  {reason}",
                    reason.code()
                )?,
                TrialOutcome::NotSimulated => {
                    writeln!(f, "  not tried: a copy of the cluster cannot show it")?
                }
            }
        }
        match self.explanation.suggestions.last() {
            Some(SuggestedStep {
                outcome: TrialOutcome::StillPending(_) | TrialOutcome::EvictedAgain(_),
                ..
            }) => {
                writeln!(f, "\nno remedy is known that would let it run after these")
            }
            Some(_) | None => Ok(()),
        }
    }

    fn queues(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.explanation.queues.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nqueues, from the workload's up")?;
        for (queue, account) in &self.explanation.queues {
            let name = &self.snapshot.queues[queue.0 as usize].name;
            for line in account_lines(account) {
                writeln!(f, "  {name}: {line}")?;
            }
        }
        Ok(())
    }

    fn plugins(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nplugins, whatever the node")?;
        for (plugin, refusal) in &self.explanation.plugins {
            match refusal {
                None => writeln!(f, "  {plugin}: passes")?,
                Some(reason) => writeln!(f, "  {plugin}: refuses: {reason}")?,
            }
        }
        Ok(())
    }

    fn nodes(&self, f: &mut fmt::Formatter<'_>, nodes: &NodeReport) -> fmt::Result {
        writeln!(
            f,
            "\nnodes for pod {}, which asks for {}",
            self.pod(nodes.pod),
            request_text(nodes)
        )?;
        if nodes.groups.is_empty() && self.snapshot.excluded_nodes.is_empty() {
            writeln!(f, "  there are no nodes")?;
        }
        for group in &nodes.groups {
            writeln!(f, "  {}: {}", node_names(&group.nodes), rejections_text(group))?;
            writeln!(f, "    free {}{}", free_text(nodes, group), gang_peers_text(group))?;
        }
        for left_out in &self.snapshot.excluded_nodes {
            writeln!(f, "  {}: left out {}", node_names(&left_out.nodes), left_out.reason())?;
        }
        Ok(())
    }

    fn pod(&self, pod: PodId) -> String {
        let pod = &self.snapshot.pods[pod.0 as usize];
        format!("{}/{}", pod.namespace, pod.name)
    }

    fn node(&self, node: NodeId) -> &Name {
        &self.snapshot.nodes[node.0 as usize].name
    }
}

fn when_text(fits: Fit, new_nodes: NewNodeSize) -> String {
    let when = match fits {
        Fit::Now => "at once",
        Fit::Later => "when others have left",
    };
    let (only, unlike) = match new_nodes {
        NewNodeSize::Any => return when.to_owned(),
        NewNodeSize::OnePodEach => {
            ("each node that is added has room for one of these pods", "larger")
        }
        NewNodeSize::AllPodsOfNode => {
            ("what is added has room on one node for all that may be on one", "smaller")
        }
        NewNodeSize::Large => (
            "what is added has room on one node for all that may be on one, and CPU and memory as \
             others have",
            "smaller",
        ),
    };
    format!("{when}, if {only}; others would have the room of {unlike} ones before it")
}

fn rejections_text(group: &NodeGroup) -> String {
    let refusals = group.rejections.iter().map(|(plugin, misfit)| match misfit {
        Some(misfit) => format!("{plugin} refuses: {misfit}"),
        None => format!("{plugin} would have it wait until others have left"),
    });
    let refusals: Vec<String> = refusals.collect();
    if refusals.is_empty() { "all plugins pass".to_owned() } else { refusals.join("; ") }
}

fn request_text(NodeReport { request: asks, shared_gpu, claims, .. }: &NodeReport) -> String {
    let part = shared_gpu.map(|FractionalGpu { fraction: part, devices }| {
        let amount = match part {
            GpuFraction::Milli(milli) => Decimal { amount: milli, per_unit: 1000 }.to_string(),
            GpuFraction::MemoryMib(mib) => format!("{mib} MiB"),
        };
        if devices == 1 {
            format!("{amount} of a GPU")
        } else {
            format!("{amount} of each of {devices} GPUs")
        }
    });
    let amounts = amounts(asks).map(|it| it.with_unit());
    let all: Vec<String> =
        part.into_iter().chain(amounts).chain(claims.iter().map(claim_text)).collect();
    if all.is_empty() { "nothing but its place".to_owned() } else { all.join(", ") }
}

/// `2 GPUs of claim ns/pair`.
fn claim_text(DeviceClaim { name, devices, allocate_all: every, .. }: &DeviceClaim) -> String {
    let devices: Vec<String> = amounts(devices).map(|it| it.with_unit()).collect();
    match (devices.is_empty(), every.is_empty()) {
        (true, true) => format!("claim {name}"),
        (true, false) => format!("every device that claim {name} selects"),
        (false, true) => format!("{} of claim {name}", devices.join(" and ")),
        (false, false) => {
            format!("{} of claim {name} and every device that it selects", devices.join(" and "))
        }
    }
}

/// Free amounts of the requested resources; pod slots if nothing else is requested.
fn free_text(
    NodeReport { request: asks, shared_gpu, claims, .. }: &NodeReport,
    group: &NodeGroup,
) -> String {
    let devices = shared_gpu.map(|shared| {
        let of_one = match (shared.fraction, group.largest_free_fraction) {
            (_, None) => "their memory unknown".to_owned(),
            (GpuFraction::Milli(_), Some(free)) => {
                format!("at most {} of one", Decimal { amount: free, per_unit: 1000 })
            }
            (GpuFraction::MemoryMib(_), Some(free)) => format!("at most {free} MiB of one"),
        };
        format!("{}, {of_one}", capacity_text(group, &ResourceName::Gpu))
    });
    let mut asked = asks.clone();
    for claim in claims {
        asked.add(&claim.devices);
        claim.allocate_all.values().for_each(|one| asked.add(one));
    }
    let others = amounts(&asked).map(|it| capacity_text(group, &it.resource));
    let all: Vec<String> = devices.into_iter().chain(others).collect();
    if all.is_empty() { capacity_text(group, &ResourceName::Pods) } else { all.join(", ") }
}

/// Mentions the pods of the same gang that are already placed there in the simulation.
fn gang_peers_text(group: &NodeGroup) -> String {
    match group.gang_peers {
        0 => String::new(),
        1 => ", when 1 other pod of its group has its place there".to_owned(),
        mates => format!(", when {mates} other pods of its group have their places there"),
    }
}

fn capacity_text(group: &NodeGroup, resource: &ResourceName) -> String {
    let of =
        |all: &Resources| Quantity { amount: all.amount(resource), resource: resource.clone() };
    let (free, all) = (of(&group.free), of(&group.allocatable));
    if all.amount == Resources::INEXHAUSTIBLE {
        return format!("any number of {}", all.unit());
    }
    format!("{} of {}", free.number(), all.with_unit())
}

/// The requested amounts, without the pod slot.
fn amounts(asks: &Resources) -> impl Iterator<Item = Quantity> + '_ {
    let fixed = ResourceName::ACCOUNTED;
    let others = asks.extended.keys().cloned().map(ResourceName::Extended);
    let all = fixed.into_iter().chain(others);
    let amounts = all.map(|resource| Quantity { amount: asks.amount(&resource), resource });
    amounts.filter(|quantity| quantity.amount > 0)
}

/// `3 nodes (n1, n2, n3)`.
fn node_names(nodes: &[Name]) -> String {
    let shown = nodes.iter().take(NAMES_MAX).map(|name| &**name).collect::<Vec<_>>().join(", ");
    match nodes.len() {
        1 => shown,
        count if count > NAMES_MAX => format!("{count} nodes ({shown}, …)"),
        count => format!("{count} nodes ({shown})"),
    }
}

/// One line per resource: GPUs, and every other resource that the queue bounds.
pub(super) fn account_lines(account: &Account) -> Vec<String> {
    let names = ResourceName::ACCOUNTED;
    let all = names.into_iter().zip(bounds(account));
    let shown = all.filter(|(resource, [quota, limit, ..])| {
        let bounded = *quota != Amount::Unlimited || *limit != Amount::Unlimited;
        *resource == ResourceName::Gpu || bounded
    });
    shown.map(|(resource, amounts)| account_line(&resource, amounts)).collect()
}

fn bounds(account: &Account) -> [[Amount; 6]; 3] {
    let [quota, limit] = [account.quota, account.limit].map(PerResource::values);
    let used = [
        account.fair_share,
        account.allocated,
        account.allocated_non_preemptible,
        account.requested,
    ];
    let [share, allocated, fixed, requested] = used.map(PerResource::values);
    std::array::from_fn(|at| {
        let used = [share[at], allocated[at], fixed[at], requested[at]].map(Amount::Exactly);
        [quota[at], limit[at], used[0], used[1], used[2], used[3]]
    })
}

fn account_line(resource: &ResourceName, amounts: [Amount; 6]) -> String {
    let unit = Quantity { resource: resource.clone(), amount: 0 };
    let [quota, limit, share, allocated, fixed, requested] = amounts.map(|amount| match amount {
        Amount::Exactly(amount) => Quantity { resource: resource.clone(), amount }.number(),
        Amount::Unlimited => "unlimited".to_owned(),
    });
    format!(
        "{}: quota {quota}, limit {limit}, fair share {share}, allocated {allocated} (of that \
         {fixed} non-preemptible), requested {requested}",
        unit.unit()
    )
}
