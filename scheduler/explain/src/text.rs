//! The text form of explanations.

use std::fmt;

use super::{Explanation, NewNodeSize, NodeGroup, NodeReport, SuggestedStep, TrialOutcome};
use schedlab_scheduler_core::{
    Decision, Snapshot,
    framework::Fit,
    model::{DeviceClaim, FractionalGpu, GpuFraction, Name, NodeId, PodId},
    queues::Account,
    reason::{Decimal, Quantity},
    resources::{Amount, PerResource, ResourceName, Resources},
};

/// Maximum number of printed node names per group.
const PRINTED_NODE_NAMES_MAX: usize = 8;

/// Prints the explanation of a pod group, with names from the snapshot.
#[derive(Clone, Copy, Debug)]
pub struct ExplanationText<'a> {
    /// The snapshot that the explanation is about.
    pub snapshot: &'a Snapshot,
    /// The explanation that is printed.
    pub explanation: &'a Explanation,
}

impl fmt::Display for ExplanationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_head(f)?;
        self.fmt_decisions(f)?;
        if let Some(reason) = &self.explanation.reason {
            writeln!(f, "\nreason: {}\n  {reason}", reason.code())?;
        }
        self.fmt_suggestions(f)?;
        self.fmt_queues(f)?;
        if self.explanation.reason.is_none() {
            return Ok(());
        }
        self.fmt_plugins(f)?;
        match &self.explanation.nodes {
            Some(nodes) => self.fmt_nodes(f, nodes),
            None => Ok(()),
        }
    }
}

impl ExplanationText<'_> {
    fn fmt_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { group, active, pending, minimum, reason, .. } = self.explanation;
        let group = &self.snapshot.pod_groups[group.0 as usize];
        let state = match (reason, pending) {
            (Some(_), _) => "is pending",
            (None, 0) => "is fully scheduled",
            (None, _) => "is growing",
        };
        writeln!(f, "pod group {}/{} {state}", group.namespace, group.name)?;
        let all: u64 =
            group.sub_groups.iter().map(|sub_group| u64::from(sub_group.min_member)).sum();
        let at_least = if *minimum < all { "at least " } else { "" };
        let kind = if group.preemptible { "preemptible" } else { "non-preemptible" };
        writeln!(
            f,
            "  pods: {active} with a node, {pending} pending, {at_least}{minimum} required to run"
        )?;
        writeln!(f, "  priority {}, {kind}", group.priority)
    }

    fn fmt_decisions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for decision in &self.explanation.decisions {
            match decision {
                Decision::Bind { pod, node } => {
                    writeln!(
                        f,
                        "  next cycle: {} is bound to {}",
                        self.pod_name(*pod),
                        self.node_name(*node)
                    )?;
                }
                Decision::Pipeline { pod, node } => writeln!(
                    f,
                    "  next cycle: {} is pipelined onto {}",
                    self.pod_name(*pod),
                    self.node_name(*node)
                )?,
                Decision::Evict { pod, cause } => {
                    writeln!(
                        f,
                        "  next cycle: {} is evicted ({})",
                        self.pod_name(*pod),
                        cause.kai_action_name()
                    )?;
                }
            }
        }
        Ok(())
    }

    fn fmt_suggestions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (SuggestedStep { suggestion, total, minimum, outcome }, number) in
            self.explanation.suggestions.iter().zip(1..)
        {
            let word = if number == 1 { "remedy" } else { "and then" };
            writeln!(f, "\n{word}: {suggestion}")?;
            if let Some(total) = total {
                writeln!(f, "  other jobs come first; for all of them and this one: {total}")?;
            }
            if let Some(minimum) = minimum {
                writeln!(
                    f,
                    "  a smaller amount suffices if other jobs are evicted or wait for this one: {minimum}"
                )?;
            }
            match outcome {
                TrialOutcome::Runs { node, fits, new_nodes } => {
                    writeln!(
                        f,
                        "  simulated: it runs on {node} {}",
                        start_text(*fits, *new_nodes)
                    )?;
                }
                TrialOutcome::EvictedAgain(reason) => writeln!(
                    f,
                    "  simulated: it starts, but is evicted for others within a few cycles and is \
                     pending again ({})\n  {reason}",
                    reason.code()
                )?,
                TrialOutcome::StillPending(reason) => {
                    writeln!(
                        f,
                        "  simulated: it is still pending ({})\n  {reason}",
                        reason.code()
                    )?;
                }
                TrialOutcome::NotSimulated => {
                    writeln!(f, "  not simulated: it depends on more than the snapshot")?;
                }
            }
        }
        match self.explanation.suggestions.last() {
            Some(SuggestedStep {
                outcome: TrialOutcome::StillPending(_) | TrialOutcome::EvictedAgain(_),
                ..
            }) => {
                writeln!(f, "\nno further suggestion is known")
            }
            Some(_) | None => Ok(()),
        }
    }

    fn fmt_queues(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.explanation.queues.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nqueues, from leaf to root")?;
        for (queue, account) in &self.explanation.queues {
            let name = &self.snapshot.queues[queue.0 as usize].name;
            for line in account_lines(account) {
                writeln!(f, "  {name}: {line}")?;
            }
        }
        Ok(())
    }

    fn fmt_plugins(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nplugins, independent of nodes")?;
        for (plugin, rejection) in &self.explanation.plugins {
            match rejection {
                None => writeln!(f, "  {plugin}: passes")?,
                Some(reason) => writeln!(f, "  {plugin}: rejects: {reason}")?,
            }
        }
        Ok(())
    }

    fn fmt_nodes(&self, f: &mut fmt::Formatter<'_>, nodes: &NodeReport) -> fmt::Result {
        writeln!(
            f,
            "\nnodes for pod {}, which requests {}",
            self.pod_name(nodes.pod),
            request_text(nodes)
        )?;
        if nodes.groups.is_empty() && self.snapshot.excluded_nodes.is_empty() {
            writeln!(f, "  there are no nodes")?;
        }
        for group in &nodes.groups {
            writeln!(f, "  {}: {}", node_names_text(&group.nodes), rejections_text(group))?;
            writeln!(f, "    free {}{}", free_text(nodes, group), gang_peers_text(group))?;
        }
        for excluded in &self.snapshot.excluded_nodes {
            writeln!(
                f,
                "  {}: excluded {}",
                node_names_text(&excluded.nodes),
                excluded.exclusion_reason()
            )?;
        }
        Ok(())
    }

    fn pod_name(&self, pod: PodId) -> String {
        let pod = &self.snapshot.pods[pod.0 as usize];
        format!("{}/{}", pod.namespace, pod.name)
    }

    fn node_name(&self, node: NodeId) -> &Name {
        &self.snapshot.nodes[node.0 as usize].name
    }
}

fn start_text(fits: Fit, new_nodes: NewNodeSize) -> String {
    let when = match fits {
        Fit::Now => "at once",
        Fit::Later => "once others have left",
    };
    let (only, unlike) = match new_nodes {
        NewNodeSize::Any => return when.to_owned(),
        NewNodeSize::OnePodEach => ("each added node has capacity for one of these pods", "larger"),
        NewNodeSize::AllPodsOfNode => {
            ("an added node has capacity for all pods that may share a node", "smaller")
        }
        NewNodeSize::Large => (
            "an added node has capacity for all pods that may share a node, and at least the CPU \
             and memory of existing nodes",
            "smaller",
        ),
    };
    format!("{when}, if {only}; other jobs would take {unlike} nodes first")
}

fn rejections_text(group: &NodeGroup) -> String {
    let rejections = group.rejections.iter().map(|(plugin, fit_error)| match fit_error {
        Some(fit_error) => format!("{plugin} rejects: {fit_error}"),
        None => format!("{plugin} requires other pods to leave first"),
    });
    let rejections: Vec<String> = rejections.collect();
    if rejections.is_empty() { "all plugins pass".to_owned() } else { rejections.join("; ") }
}

fn request_text(NodeReport { request, shared_gpu, claims, .. }: &NodeReport) -> String {
    let fraction = shared_gpu.map(|FractionalGpu { fraction, devices }| {
        let amount = match fraction {
            GpuFraction::Milli(milli) => Decimal { amount: milli, per_unit: 1000 }.to_string(),
            GpuFraction::MemoryMib(mib) => format!("{mib} MiB"),
        };
        if devices == 1 {
            format!("{amount} of a GPU")
        } else {
            format!("{amount} of each of {devices} GPUs")
        }
    });
    let amounts = requested_amounts(request).map(|it| it.with_unit());
    let all: Vec<String> =
        fraction.into_iter().chain(amounts).chain(claims.iter().map(claim_text)).collect();
    if all.is_empty() { "only a pod slot".to_owned() } else { all.join(", ") }
}

/// The devices of a claim as text, such as `2 GPUs of claim ns/pair`.
fn claim_text(DeviceClaim { name, devices, allocate_all, .. }: &DeviceClaim) -> String {
    let devices: Vec<String> = requested_amounts(devices).map(|it| it.with_unit()).collect();
    match (devices.is_empty(), allocate_all.is_empty()) {
        (true, true) => format!("claim {name}"),
        (true, false) => format!("every device that claim {name} selects"),
        (false, true) => format!("{} of claim {name}", devices.join(" and ")),
        (false, false) => {
            format!("{} of claim {name} and every device that it selects", devices.join(" and "))
        }
    }
}

/// Free amounts of the requested resources as text; free pod slots if no resource is requested.
fn free_text(
    NodeReport { request, shared_gpu, claims, .. }: &NodeReport,
    group: &NodeGroup,
) -> String {
    let devices = shared_gpu.map(|shared| {
        let of_one = match (shared.fraction, group.largest_free_fraction) {
            (_, None) => "their memory is unknown".to_owned(),
            (GpuFraction::Milli(_), Some(free)) => {
                format!("at most {} of one GPU", Decimal { amount: free, per_unit: 1000 })
            }
            (GpuFraction::MemoryMib(_), Some(free)) => format!("at most {free} MiB of one GPU"),
        };
        format!("{}, {of_one}", capacity_text(group, &ResourceName::Gpu))
    });
    let mut requested = request.clone();
    for claim in claims {
        requested.add(&claim.devices);
        claim.allocate_all.values().for_each(|one| requested.add(one));
    }
    let others = requested_amounts(&requested).map(|it| capacity_text(group, &it.resource));
    let all: Vec<String> = devices.into_iter().chain(others).collect();
    if all.is_empty() { capacity_text(group, &ResourceName::Pods) } else { all.join(", ") }
}

/// Mentions the pods of the same gang that the simulation already placed on each of the nodes.
fn gang_peers_text(group: &NodeGroup) -> String {
    match group.gang_peers {
        0 => String::new(),
        1 => ", with 1 other pod of its group placed there".to_owned(),
        peers => format!(", with {peers} other pods of its group placed there"),
    }
}

fn capacity_text(group: &NodeGroup, resource: &ResourceName) -> String {
    let of =
        |all: &Resources| Quantity { amount: all.amount_of(resource), resource: resource.clone() };
    let (free, all) = (of(&group.free), of(&group.allocatable));
    if all.amount == Resources::INEXHAUSTIBLE {
        return format!("any number of {}", all.unit_name());
    }
    format!("{} of {}", free.amount_in_unit(), all.with_unit())
}

/// The requested amounts, without the pod slot that every pod requests.
fn requested_amounts(request: &Resources) -> impl Iterator<Item = Quantity> + '_ {
    let fixed = ResourceName::ACCOUNTED;
    let others = request.extended.keys().cloned().map(ResourceName::Extended);
    let all = fixed.into_iter().chain(others);
    let amounts = all.map(|resource| Quantity { amount: request.amount_of(&resource), resource });
    amounts.filter(|quantity| quantity.amount > 0)
}

/// Number and names of nodes as text, such as `3 nodes (n1, n2, n3)`.
fn node_names_text(nodes: &[Name]) -> String {
    let shown = nodes
        .iter()
        .take(PRINTED_NODE_NAMES_MAX)
        .map(|name| &**name)
        .collect::<Vec<_>>()
        .join(", ");
    match nodes.len() {
        1 => shown,
        count if count > PRINTED_NODE_NAMES_MAX => format!("{count} nodes ({shown}, …)"),
        count => format!("{count} nodes ({shown})"),
    }
}

/// One line per resource: GPUs, and every other resource that the queue bounds.
pub(super) fn account_lines(account: &Account) -> Vec<String> {
    let names = ResourceName::ACCOUNTED;
    let all = names.into_iter().zip(account_amounts(account));
    let shown = all.filter(|(resource, [quota, limit, ..])| {
        let bounded = *quota != Amount::Unlimited || *limit != Amount::Unlimited;
        *resource == ResourceName::Gpu || bounded
    });
    shown.map(|(resource, amounts)| account_line(&resource, amounts)).collect()
}

fn account_amounts(account: &Account) -> [[Amount; 6]; 3] {
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
        Amount::Exactly(amount) => Quantity { resource: resource.clone(), amount }.amount_in_unit(),
        Amount::Unlimited => "unlimited".to_owned(),
    });
    format!(
        "{}: quota {quota}, limit {limit}, fair share {share}, allocated {allocated} (of that \
         {fixed} non-preemptible), requested {requested}",
        unit.unit_name()
    )
}
