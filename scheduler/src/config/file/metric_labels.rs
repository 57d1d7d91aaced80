//! Queue labels that become metric labels, with the settings of KAI's queue controller.

use super::{ConfigFile, FileError};
use crate::config::QueueMetricLabel;

/// Labels that queue metrics always have.
const RESERVED_LABELS: [&str; 3] = ["queue_name", "queue_metadata_name", "queue_display_name"];

/// Checks that each metric label is valid in Prometheus and unique.
pub(super) fn check_metric_labels(file: &ConfigFile) -> Result<(), FileError> {
    let labels = file.queue_label_to_metric_label.values();
    let wrong = |field, found: &str, allowed| {
        Err(FileError::Value { field, found: found.to_owned(), allowed })
    };
    for (at, label) in labels.clone().enumerate() {
        let field = "queueLabelToMetricLabel";
        if !is_prometheus_label(label) {
            return wrong(field, label, "letters, digits and _, not starting with a digit or __");
        }
        if RESERVED_LABELS.contains(&&**label)
            || labels.clone().take(at).any(|other| other == label)
        {
            return wrong(field, label, "a name that no other metric label has");
        }
    }
    let mut defaults = file.queue_label_to_default_metric_value.keys();
    match defaults.find(|label| !file.queue_label_to_metric_label.contains_key(*label)) {
        Some(label) => {
            let allowed = "a queue label that queueLabelToMetricLabel contains";
            wrong("queueLabelToDefaultMetricValue", label, allowed)
        }
        None => Ok(()),
    }
}

fn is_prometheus_label(label: &str) -> bool {
    let is_first = |first: char| first.is_ascii_alphabetic() || first == '_';
    label.starts_with(is_first)
        && !label.starts_with("__")
        && label.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
}

/// The configured metric labels, ordered by queue label.
pub(super) fn queue_metric_labels(file: &ConfigFile) -> Vec<QueueMetricLabel> {
    let of = |(queue_label, metric_label): (&String, &String)| QueueMetricLabel {
        queue_label: queue_label.clone(),
        metric_label: metric_label.clone(),
        default: file
            .queue_label_to_default_metric_value
            .get(queue_label)
            .cloned()
            .unwrap_or_default(),
    };
    file.queue_label_to_metric_label.iter().map(of).collect()
}
