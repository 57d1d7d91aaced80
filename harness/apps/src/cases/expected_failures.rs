//! Cases that differ on purpose; docs/reference/kai-differences.md explains each.

const FILTER_OF_TEST_REASON: &str =
    "KAI's test adds a filter, and the case does not say which pods this filter rejects";

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
    (
        "extra/min_sub_group#TestStale",
        "decided otherwise than KAI: optional sub-groups make no gang stale",
    ),
    (
        "allocate/allocate#TestHandleElasticJobCommitFailure/000",
        "the case cannot express that calls to the cluster fail",
    ),
];

/// Why the case with this id is not compared with its recording; `None` if it is compared.
pub(super) fn expected_failure_reason(id: &str) -> Option<&'static str> {
    CASES_AND_REASONS.iter().find(|(case, _)| *case == id).map(|(_, why)| *why)
}
