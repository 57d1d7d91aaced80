//! How long a pod takes to start, run and stop: its annotations say it, else its node's (where
//! fleets put their pools' defaults), else the defaults of the run.

use std::time::Duration;

use super::super::step::Notice;
use super::super::{Context, KubeletDefaults, Request};
use crate::object::annotation;
use crate::pace::{EXIT_CODE, RUN_TIME, STARTUP, TERMINATION, parse_duration, wrong};
use schedlab_json::Value;

/// A pod's pace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) startup: Duration,
    pub(super) run_time: Option<Duration>,
    pub(super) termination: Duration,
    pub(super) exit_code: i32,
}

impl Pace {
    pub(super) fn of(pod: &Value, node: &Value, defaults: &KubeletDefaults) -> Self {
        let duration =
            |key| [pod, node].into_iter().find_map(|from| parse_duration(annotation(from, key)?));
        let exit_code =
            [pod, node].into_iter().find_map(|from| annotation(from, EXIT_CODE)?.parse().ok());
        Self {
            startup: duration(STARTUP).unwrap_or(defaults.startup),
            run_time: duration(RUN_TIME).or(defaults.run_time),
            termination: duration(TERMINATION).unwrap_or(defaults.termination),
            exit_code: exit_code.unwrap_or(0),
        }
    }
}

/// Says which of a pod's annotations cannot be read: on a cluster whose server lets them in.
pub(crate) fn check_annotations(pod: &Value, ctx: &Context) -> Vec<Request> {
    let events = wrong(pod).into_iter().map(|(key, rule)| Notice {
        component: "kubelet",
        kind: "Warning",
        reason: "InvalidAnnotation",
        message: format!(
            "annotation {key}: \"{}\" {rule}",
            annotation(pod, key).unwrap_or_default()
        ),
    });
    events.filter_map(|notice| notice.once(pod, ctx)).collect()
}
