//! Cases that differ on purpose; docs/reference/kai-differences.md explains each.

const FILTER_OF_TEST_REASON: &str =
    "a filter that the test adds: the case does not say which pods it rejects";

/// Ids of the cases that differ from KAI on purpose, each with the reason.
const CASES_AND_REASONS: [(&str, &str); 4] = [
    (
        "preempt/preempt_victim_invariant_prefilter\
         #TestPreemptSkipsSolverForVictimInvariantPrePredicateFailure/000",
        FILTER_OF_TEST_REASON,
    ),
    (
        "consolidation/consolidation_victim_invariant_prefilter\
         #TestConsolidationSkipsSolverForVictimInvariantPrePredicateFailure/000",
        FILTER_OF_TEST_REASON,
    ),
    ("extra/min_sub_group#TestStale", "decided otherwise: optional sub-groups make no gang stale"),
    ("allocate/allocate#TestHandleElasticJobCommitFailure/000", "calls to the cluster that fail"),
];

/// Why the case with this id is not compared with its recording; `None` if it is compared.
pub(super) fn expected_failure_reason(id: &str) -> Option<&'static str> {
    CASES_AND_REASONS.iter().find(|(case, _)| *case == id).map(|(_, why)| *why)
}
