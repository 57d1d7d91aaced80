//! Validates pods: spec, grouping labels and annotations, and task priority.

use crate::{parse::Malformed, podgrouper, records::PodRecord};

/// The first fault of a pod.
pub(super) fn pod_fault(pod: &PodRecord) -> Option<Malformed> {
    let of_spec = pod.malformed.clone();
    of_spec.or_else(|| podgrouper::annotation_fault(pod)).or_else(|| pod.task_priority_error())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::{Value, json};

    use super::*;

    fn fault_text(metadata: &Value) -> String {
        let pod = PodRecord::from_object(&json!({ "metadata": metadata }), "kai-scheduler");
        pod_fault(&pod).map_or_else(|| "nothing".to_owned(), |wrong| wrong.to_string())
    }

    #[test]
    fn invalid_labels_and_annotations_are_faults_of_a_pod() {
        let label = |key: &str, value: &str| fault_text(&json!({ "labels": { key: value } }));
        let annotation =
            |key: &str, value: &str| fault_text(&json!({ "annotations": { key: value } }));
        assert_snapshot!(label("kai.scheduler/preemptibility", "maybe"), @"label kai.scheduler/preemptibility: got maybe, expected preemptible or non-preemptible");
        assert_snapshot!(label("kai.scheduler/task-priority", "high"), @"label kai.scheduler/task-priority: got high, expected an integer of 32 bits");
        assert_snapshot!(annotation("kai.scheduler/preemption-delay", "soon"), @"annotation kai.scheduler/preemption-delay: got soon, expected a duration such as 90s or 1h30m");
        assert_snapshot!(annotation("kai.scheduler/staleness-grace-period", "1"), @"annotation kai.scheduler/staleness-grace-period: got 1, expected a duration such as 90s or 1h30m");
        assert_snapshot!(annotation("mps", "true"), @r#"annotation mps: got "true", expected true only beside gpu-fraction or gpu-memory"#);
        assert_eq!(label("kai.scheduler/preemptibility", ""), "nothing");
        assert_eq!(label("kai.scheduler/task-priority", "-5"), "nothing");
        assert_eq!(annotation("kai.scheduler/preemption-delay", "10m"), "nothing");
    }
}
