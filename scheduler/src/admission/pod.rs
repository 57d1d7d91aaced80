//! What is wrong with a pod: its spec, and what it asks of the group that is made for it.

use crate::{mirror::PodRecord, parse::Malformed, podgrouper};

/// The first thing.
pub(super) fn fault(pod: &PodRecord) -> Option<Malformed> {
    let of_spec = pod.malformed.clone();
    of_spec.or_else(|| podgrouper::fault(pod)).or_else(|| pod.task_priority_fault())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::{Value, json};

    use super::*;

    fn told(metadata: &Value) -> String {
        let pod = PodRecord::read(&json!({ "metadata": metadata }), "kai-scheduler");
        fault(&pod).map_or_else(|| "nothing".to_owned(), |wrong| wrong.to_string())
    }

    #[test]
    fn wishes_that_nobody_could_grant_are_faults_of_a_pod() {
        let label = |key: &str, value: &str| told(&json!({ "labels": { key: value } }));
        let annotation = |key: &str, value: &str| told(&json!({ "annotations": { key: value } }));
        assert_snapshot!(label("kai.scheduler/preemptibility", "maybe"), @"label kai.scheduler/preemptibility: found maybe, allowed: preemptible or non-preemptible");
        assert_snapshot!(label("kai.scheduler/task-priority", "high"), @"label kai.scheduler/task-priority: found high, allowed: an integer of 32 bits");
        assert_snapshot!(annotation("kai.scheduler/preemption-delay", "soon"), @"annotation kai.scheduler/preemption-delay: found soon, allowed: a duration such as 90s or 1h30m");
        assert_snapshot!(annotation("kai.scheduler/staleness-grace-period", "1"), @"annotation kai.scheduler/staleness-grace-period: found 1, allowed: a duration such as 90s or 1h30m");
        assert_snapshot!(annotation("mps", "true"), @r#"annotation mps: found "true", allowed: true only beside gpu-fraction or gpu-memory"#);
        assert_eq!(label("kai.scheduler/preemptibility", ""), "nothing");
        assert_eq!(label("kai.scheduler/task-priority", "-5"), "nothing");
        assert_eq!(annotation("kai.scheduler/preemption-delay", "10m"), "nothing");
    }
}
