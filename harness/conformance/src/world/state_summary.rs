//! What a failure says of the cluster: the time, the pending pods by queue and reason, and the last
//! evictions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schedlab_audit::format_offset;

use super::World;
use crate::text::counted_noun;
use crate::world::observed::{ObservedCluster, Phase};

/// Maximum number of pod names in a line of the summary.
const NAMES_MAX: usize = 3;

/// Maximum number of evictions in the summary.
const EVICTIONS_MAX: usize = 3;

/// The reason shown for a pod about which the scheduler has reported nothing.
const NO_REASON_TEXT: &str = "the scheduler has not reported a reason";

impl World {
    /// A summary of the cluster for the message of a failed assertion: the time, pending pods with
    /// their reasons, and the last evictions.
    pub(crate) fn state_summary(&self) -> String {
        let at = i64::try_from(self.elapsed_millis()).unwrap_or(i64::MAX);
        let mut text = format!("(at {})", format_offset(at));
        if let Some(ended) = self.scheduler_exit_error() {
            let _ = write!(text, "\n{ended}");
        }
        for line in pending_pod_lines(pending_pods(&self.view)) {
            let _ = write!(text, "\n{line}");
        }
        let unannounced = self.unannounced_evictions();
        for eviction in self.view.all_evictions(&unannounced).iter().rev().take(EVICTIONS_MAX) {
            let _ = write!(text, "\nevicted {eviction}");
        }
        text
    }
}

/// A pending pod with its queue and reason, by which a summary groups pods.
#[derive(Clone, Copy, Debug)]
struct PendingPod<'v> {
    namespace: &'v str,
    name: &'v str,
    /// The name of the pod's queue; empty if it has none.
    queue: &'v str,
    reason: &'v str,
}

fn pending_pods(view: &ObservedCluster) -> impl Iterator<Item = PendingPod<'_>> {
    let pending = view.current_pods().filter(|pod| pod.current_phase() == Phase::Pending);
    pending.map(|pod| PendingPod {
        namespace: pod.pod_namespace(),
        name: pod.pod_name(),
        queue: pod.queue_name(view).unwrap_or_default(),
        reason: pod.unschedulable_message().unwrap_or(NO_REASON_TEXT),
    })
}

/// Stands for the namespace and name of the pod where reasons are compared.
const POD_PLACEHOLDER: &str = "<pod>";

/// One line for each queue and reason: `pending in queue team-a: 12 pods (a-0, a-1, a-2, …): why`.
/// Reasons that differ only in the name of the pod are the same; that of the first pod is shown.
/// Lines are in the order of queue names, and for each queue the most frequent reason comes first.
fn pending_pod_lines<'v>(pods: impl Iterator<Item = PendingPod<'v>>) -> Vec<String> {
    let mut groups: BTreeMap<(&str, String), Vec<PendingPod<'_>>> = BTreeMap::new();
    for pod in pods {
        let reason =
            pod.reason.replace(&format!("{}/{}", pod.namespace, pod.name), POD_PLACEHOLDER);
        groups.entry((pod.queue, reason)).or_default().push(pod);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((queue, _), pods)| (*queue, std::cmp::Reverse(pods.len())));
    let line = |((queue, _), pods): ((&str, String), Vec<PendingPod<'_>>)| {
        let reason = pods.first().map_or(NO_REASON_TEXT, |pod| pod.reason);
        let names: Vec<&str> = pods.iter().map(|pod| pod.name).collect();
        let place = if queue.is_empty() { String::new() } else { format!(" in queue {queue}") };
        format!(
            "pending{place}: {} ({}): {reason}",
            counted_noun(pods.len(), "pod"),
            first_names_text(&names)
        )
    };
    groups.into_iter().map(line).collect()
}

fn first_names_text(names: &[&str]) -> String {
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(NAMES_MAX)].join(", "))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn pending_pods_are_grouped_by_queue_and_reason() {
        let names: Vec<String> = (0..12).map(|index| format!("a-{index:02}")).collect();
        let many = names.iter().map(|name| PendingPod {
            namespace: "ns",
            name,
            queue: "team-a",
            reason: "over quota",
        });
        let others = [
            PendingPod {
                namespace: "ns",
                name: "a-big",
                queue: "team-a",
                reason: "no node has 16 GPUs",
            },
            PendingPod { namespace: "ns", name: "b-0", queue: "team-b", reason: "over quota" },
            PendingPod { namespace: "ns", name: "b-1", queue: "team-b", reason: "over quota" },
            PendingPod { namespace: "ns", name: "c-0", queue: "", reason: NO_REASON_TEXT },
            PendingPod {
                namespace: "ns",
                name: "d-0",
                queue: "team-d",
                reason: "no node for pod ns/d-0",
            },
            PendingPod {
                namespace: "ns",
                name: "d-1",
                queue: "team-d",
                reason: "no node for pod ns/d-1",
            },
            PendingPod {
                namespace: "ns",
                name: "e-0",
                queue: "team-e",
                reason: "no node for pod ns/e-0",
            },
        ];
        assert_snapshot!(pending_pod_lines(others.into_iter().chain(many)).join("\n"), @r"
        pending: 1 pod (c-0): the scheduler has not reported a reason
        pending in queue team-a: 12 pods (a-00, a-01, a-02, …): over quota
        pending in queue team-a: 1 pod (a-big): no node has 16 GPUs
        pending in queue team-b: 2 pods (b-0, b-1): over quota
        pending in queue team-d: 2 pods (d-0, d-1): no node for pod ns/d-0
        pending in queue team-e: 1 pod (e-0): no node for pod ns/e-0
        ");
    }
}
