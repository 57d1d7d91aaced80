//! How long a pod takes to start, run and stop: its annotations say it, else its node's (where
//! fleets put their pools' defaults), else the defaults of the run.

use std::time::Duration;

use serde_json::Value;

use super::super::fields::parse_duration;
use super::super::step::Notice;
use super::super::{Context, KubeletDefaults, Request};
use crate::object::annotation;

/// From binding to running.
pub(crate) const STARTUP: &str = "schedlab.dev/startup";
/// From running to exit.
pub(crate) const RUN_TIME: &str = "schedlab.dev/run-time";
/// What the containers exit with.
pub(crate) const EXIT_CODE: &str = "schedlab.dev/exit-code";
/// From the request to stop to the end.
pub(crate) const TERMINATION: &str = "schedlab.dev/termination";

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
        let exit_code = annotation(pod, EXIT_CODE).and_then(|text| text.parse().ok());
        Self {
            startup: duration(STARTUP).unwrap_or(defaults.startup),
            run_time: duration(RUN_TIME).or(defaults.run_time),
            termination: duration(TERMINATION).unwrap_or(defaults.termination),
            exit_code: exit_code.unwrap_or(0),
        }
    }
}

/// Says which of a pod's annotations cannot be read.
pub(crate) fn check_annotations(pod: &Value, ctx: &Context) -> Vec<Request> {
    let mut wrong = Vec::new();
    for key in [STARTUP, RUN_TIME, TERMINATION] {
        if let Some(text) = annotation(pod, key).filter(|text| parse_duration(text).is_none()) {
            wrong.push(format!(
                "annotation {key}: \"{text}\" is not a duration such as 90s or 1h30m"
            ));
        }
    }
    if let Some(text) = annotation(pod, EXIT_CODE).filter(|text| text.parse::<i32>().is_err()) {
        wrong.push(format!("annotation {EXIT_CODE}: \"{text}\" is not a whole number"));
    }
    let events = wrong.into_iter().map(|message| Notice {
        component: "kubelet",
        kind: "Warning",
        reason: "InvalidAnnotation",
        message,
    });
    events.filter_map(|notice| notice.about(pod, ctx)).collect()
}
