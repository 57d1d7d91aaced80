//! Suggestions for pods that fit on no node, or on too few.

use super::{AddedNodes, CapacityLocation, DomainHint, ExclusionSource, Suggestion, free_capacity};
use crate::{
    reason::{
        EvenWhenEmpty, FitError, FitErrors, MutualExclusion, NodesToOpen, PinnedLabel, Reason,
        fit_error_rank::NodeCounts,
    },
    resources::{ResourceName, Shortage},
};

/// The suggestion for pods that fit on no node: if a nearest node is only too full, to free
/// capacity; otherwise to resolve the most frequent error of the nearest nodes.
pub(super) fn suggestion_for_errors(fit_errors: &FitErrors, pods: u32) -> Suggestion {
    if let Some(elsewhere) = fit_errors
        .mutual_exclusion
        .as_ref()
        .and_then(|exclusion| suggest_other_domains_for_gang(exclusion))
    {
        return elsewhere;
    }
    let nearest = fit_errors.worst_errors_of_nearest_nodes();
    let (mut shortages, mut is_too_small, mut largest_gpu_mib) = (Vec::new(), None, None);
    for fit_error in nearest.keys() {
        if let FitError::InsufficientResources { shortage, even_when_empty } = fit_error {
            shortages.push(shortage);
            is_too_small = Some(*even_when_empty);
        }
        if let FitError::InsufficientGpuMemory { mib } = fit_error {
            largest_gpu_mib = largest_gpu_mib.max(Some(*mib));
        }
    }
    let short = resources_of_smallest_shortage(&shortages);
    let location = free_capacity::location_of_needed_capacity(
        fit_errors,
        nearest.values().map(|nodes| nodes.all).sum(),
    );
    // Opening a node is easier than adding one. Among equally common errors prefer the first, and
    // those that are a node's only error.
    let commonest = nearest.into_iter().max_by_key(|(fit_error, nodes)| {
        let alone = nodes.all - nodes.with_other_errors;
        let opens = alone > 0 && fit_error.is_node_closed();
        (opens, alone, nodes.all, std::cmp::Reverse(*fit_error))
    });
    let let_in =
        fit_errors.excluded_nodes.as_ref().and_then(|others| others.relabel_suggestion(pods));
    match (is_too_small, largest_gpu_mib, commonest) {
        _ if fit_errors.named_nodes_too_small == Some(true) => {
            Suggestion::UseOtherNodes { or_fewer: false }
        }
        (Some(EvenWhenEmpty::Yes), ..) | (None, None, None) if let Some(let_in) = let_in => let_in,
        (Some(EvenWhenEmpty::Yes), ..) => {
            suggest_adding_nodes(fit_errors, pods).unwrap_or_else(|| {
                let requirements = fit_errors.node_requirements.as_ref();
                let gpu_classes = requirements
                    .map_or_else(Vec::new, |requirements| requirements.gpu_classes.clone());
                Suggestion::AddLargerNodes { short, gpu_classes }
            })
        }
        (Some(EvenWhenEmpty::No), ..) | (None, None, None) => match &fit_errors.mutual_exclusion {
            Some(exclusion) if location.allows_new_nodes() => {
                suggest_admission(fit_errors, &exclusion.fit_error, NodeCounts::default(), pods)
            }
            Some(_) | None => suggest_replacing_full_nodes(fit_errors, &location, pods)
                .unwrap_or_else(|| Suggestion::FreeCapacity {
                    pods,
                    short,
                    location,
                    domains: DomainHint::from_fit_errors(fit_errors),
                }),
        },
        (None, Some(mib), _) => Suggestion::UseLargerDevices { mib },
        (None, None, Some((fit_error, nodes))) => {
            match (&fit_errors.mutual_exclusion, suggest_opening_nodes(fit_errors)) {
                // Opening nodes would not suffice.
                (Some(exclusion), _) if fit_error.is_node_closed() => {
                    suggest_admission(fit_errors, &exclusion.fit_error, NodeCounts::default(), pods)
                }
                (None, Some(nodes_to_open)) if fit_error.is_node_closed() => nodes_to_open,
                _ => suggest_admission(fit_errors, fit_error, nodes, pods),
            }
        }
    }
}

/// Suggests to open nodes of one topology domain, for pods that must be in one domain.
fn suggest_opening_nodes(fit_errors: &FitErrors) -> Option<Suggestion> {
    let NodesToOpen { closed_by, nodes } =
        fit_errors.domain_requirements.as_ref()?.nodes_to_open.clone()?;
    Some(Suggestion::OpenNodes { closed_by, nodes })
}

/// Suggests what to do when the pods need a node each and fewer nodes than pods are only too full.
fn suggest_replacing_full_nodes(
    fit_errors: &FitErrors,
    location: &CapacityLocation,
    pods: u32,
) -> Option<Suggestion> {
    let is_alone = fit_errors
        .node_requirements
        .as_ref()
        .is_some_and(|requirements| requirements.needs_own_node);
    let has_too_few = matches!(location, CapacityLocation::FullNodes { nodes } if *nodes < pods);
    (is_alone && has_too_few).then(|| suggest_adding_nodes(fit_errors, pods)).flatten()
}

/// The suggestion for a gang that is larger than the cluster, when the placement of other pods
/// matters: nodes for all of the gang's pods that have none at present.
pub(super) fn suggestion_beyond_capacity(underlying: &Reason) -> Option<Suggestion> {
    let Reason::GangDoesNotFit { missing, fit_errors, .. } = underlying else { return None };
    let exclusion = fit_errors.mutual_exclusion.as_ref();
    let apart = || {
        let fit_error = &exclusion?.fit_error;
        Some(suggest_admission(fit_errors, fit_error, NodeCounts::default(), *missing))
    };
    exclusion
        .and_then(|exclusion| suggest_other_domains_for_gang(exclusion))
        .or_else(apart)
        .or_else(|| suggest_adding_nodes(fit_errors, *missing))
}

/// Suggests to add nodes that satisfy the pods' placement needs, when no existing node is large
/// enough.
fn suggest_adding_nodes(fit_errors: &FitErrors, pods: u32) -> Option<Suggestion> {
    let kept_by = fit_errors.node_requirements.as_ref()?.placement_error.as_ref()?;
    let suggestion = suggest_admission(fit_errors, kept_by, NodeCounts::default(), pods);
    if let Suggestion::AdmitToNodes { fit_error, added, .. } = &suggestion {
        added.node_batch(fit_error.placement_need()?, pods)?;
    }
    Some(suggestion)
}

fn suggest_other_domains_for_gang(
    MutualExclusion { pin: pinned, fewer, .. }: &MutualExclusion,
) -> Option<Suggestion> {
    pinned
        .as_ref()
        .map(|pinned| suggest_other_domains(pinned, ExclusionSource::OwnGang { fewer: *fewer }))
}

fn suggest_other_domains(
    PinnedLabel { label, values }: &PinnedLabel,
    kept_from: ExclusionSource,
) -> Suggestion {
    Suggestion::UseOtherDomains {
        label: label.clone(),
        values: values.iter().cloned().collect(),
        kept_from,
    }
}

fn suggest_admission(
    fit_errors: &FitErrors,
    fit_error: &FitError,
    counts: NodeCounts,
    pods: u32,
) -> Suggestion {
    let shut = fit_errors
        .node_requirements
        .as_ref()
        .and_then(|requirements| requirements.exhausted_label.as_ref());
    if let Some(pinned) = shut.filter(|_| fit_error.is_anti_affinity()) {
        return suggest_other_domains(pinned, ExclusionSource::OtherPods);
    }
    let added = AddedNodes::new(fit_errors, fit_error, pods);
    let NodeCounts { all: nodes, with_other_errors } = counts;
    Suggestion::AdmitToNodes { fit_error: fit_error.clone(), nodes, pods, added, with_other_errors }
}

/// The resources that are short on the nodes that lack the fewest resources.
fn resources_of_smallest_shortage(shortages: &[&Shortage]) -> Vec<ResourceName> {
    let fewest = shortages.iter().map(|shortage| shortage.short_resources().count()).min();
    let least =
        shortages.iter().filter(|shortage| Some(shortage.short_resources().count()) == fewest);
    let mut short: Vec<ResourceName> =
        least.flat_map(|shortage| shortage.short_resources()).collect();
    short.sort();
    short.dedup();
    short
}
