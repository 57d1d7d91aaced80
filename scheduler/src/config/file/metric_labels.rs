//! Labels of queues that metrics tell, as KAI's queue controller is told them.

use super::{ConfigFile, FileError};
use crate::config::QueueMetricLabel;

/// What metrics about queues are labelled with in any case.
const TAKEN: [&str; 3] = ["queue_name", "queue_metadata_name", "queue_display_name"];

/// Prometheus takes each name, and takes it once.
pub(super) fn check(file: &ConfigFile) -> Result<(), FileError> {
    let labels = file.queue_label_to_metric_label.values();
    let wrong = |field, found: &str, allowed| {
        Err(FileError::Value { field, found: found.to_owned(), allowed })
    };
    for (at, label) in labels.clone().enumerate() {
        let field = "queueLabelToMetricLabel";
        if !is_name(label) {
            return wrong(field, label, "letters, digits and _, no digit first, no __ in front");
        }
        if TAKEN.contains(&&**label) || labels.clone().take(at).any(|other| other == label) {
            return wrong(field, label, "a name that no other label of the metrics has");
        }
    }
    let mut defaults = file.queue_label_to_default_metric_value.keys();
    match defaults.find(|label| !file.queue_label_to_metric_label.contains_key(*label)) {
        Some(label) => {
            let allowed = "a label that queueLabelToMetricLabel names";
            wrong("queueLabelToDefaultMetricValue", label, allowed)
        }
        None => Ok(()),
    }
}

fn is_name(label: &str) -> bool {
    let is_first = |first: char| first.is_ascii_alphabetic() || first == '_';
    label.starts_with(is_first)
        && !label.starts_with("__")
        && label.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
}

/// In the order of the queues' labels.
pub(super) fn of(file: &ConfigFile) -> Vec<QueueMetricLabel> {
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
