//! The startup, run and termination times of a pod: from its annotations, those of its node (which
//! carry the settings of its pool), or the defaults.

use std::time::Duration;

use crate::api_types::kubelet_timing::{invalid_annotations, parse_duration};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{ApiRequest, Context, KubeletDefaults};
use schedlab_api::{Value, annotations, object::annotation};

/// The timing of a pod: how long it starts, runs and terminates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodTiming {
    pub(super) startup: Duration,
    pub(super) run_time: Option<Duration>,
    pub(super) termination: Duration,
    pub(super) exit_code: i32,
}

impl PodTiming {
    pub(super) fn resolve(pod: &Value, node: &Value, defaults: &KubeletDefaults) -> Self {
        let duration =
            |key| [pod, node].into_iter().find_map(|from| parse_duration(annotation(from, key)?));
        let exit_code = [pod, node]
            .into_iter()
            .find_map(|from| annotation(from, annotations::EXIT_CODE)?.parse().ok());
        Self {
            startup: duration(annotations::STARTUP).unwrap_or(defaults.startup),
            run_time: duration(annotations::RUN_TIME).or(defaults.run_time),
            termination: duration(annotations::TERMINATION).unwrap_or(defaults.termination),
            exit_code: exit_code.unwrap_or(0),
        }
    }
}

/// The events about invalid timing annotations of a pod. The emulator refuses such annotations; a
/// real API server does not.
pub(crate) fn invalid_annotation_events(pod: &Value, ctx: &Context) -> Vec<ApiRequest> {
    let events = invalid_annotations(pod).into_iter().map(|(key, rule)| EventSpec {
        component: "kubelet",
        kind: "Warning",
        reason: "InvalidAnnotation",
        message: format!(
            "annotation {key}: \"{}\" {rule}",
            annotation(pod, key).unwrap_or_default()
        ),
    });
    events.filter_map(|notice| notice.record_once(pod, ctx)).collect()
}
