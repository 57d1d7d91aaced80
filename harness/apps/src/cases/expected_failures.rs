//! Cases that differ on purpose; docs/reference/kai-differences.md explains each.

const FILTER_OF_TEST: &str =
    "a filter that the test adds: the case does not say which pods it rejects";

/// Case id and reason.
const CASES: [(&str, &str); 4] = [
    (
        "preempt/preempt_victim_invariant_prefilter\
         #TestPreemptSkipsSolverForVictimInvariantPrePredicateFailure/000",
        FILTER_OF_TEST,
    ),
    (
        "consolidation/consolidation_victim_invariant_prefilter\
         #TestConsolidationSkipsSolverForVictimInvariantPrePredicateFailure/000",
        FILTER_OF_TEST,
    ),
    ("extra/min_sub_group#TestStale", "decided otherwise: optional sub-groups make no gang stale"),
    ("allocate/allocate#TestHandleElasticJobCommitFailure/000", "calls to the cluster that fail"),
];

/// Why the case is not compared with its recording; `None` when it is.
pub(super) fn expected_failure(id: &str) -> Option<&'static str> {
    CASES.iter().find(|(case, _)| *case == id).map(|(_, why)| *why)
}
