//! Cases that end otherwise here, with reason: each is argued for in docs/reference/kai-differences.md.

/// Id of the case, and why.
const CASES: [(&str, &str); 2] = [
    ("extra/min_sub_group#TestStale", "decided otherwise: optional sub-groups make no gang stale"),
    ("allocate/allocate#TestHandleElasticJobCommitFailure/000", "calls to the cluster that fail"),
];

/// Why the case is not judged by what was recorded; `None`: it is.
pub(super) fn reason(id: &str) -> Option<&'static str> {
    CASES.iter().find(|(case, _)| *case == id).map(|(_, why)| *why)
}
