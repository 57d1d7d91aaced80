//! Objects that cannot be read as they stand, told on the objects themselves, once.

use schedlab_scheduler_core::model::{Name, Time};

use super::{About, Applier, Event, Level, pod_groups, writes::Write};
use crate::{
    config::Flavor,
    mirror::{Key, Mirror},
    translate::is_known_class,
};

impl Applier {
    pub(super) async fn warn(&mut self, mirror: &mut Mirror, now: Time) {
        let mut warnings = nodes(mirror);
        if self.flavor == Flavor::Kai {
            warnings.extend(zones(mirror));
            warnings.extend(groups(mirror));
            warnings.extend(pods(mirror));
        }
        let mut chains = Vec::new();
        for (about, reason, message) in &warnings {
            let level = Level::Warning;
            let event = Event { about, level, reason, message, gist: None, occasion: "" };
            if self.warned.insert(event.name()) {
                chains.push(vec![Write::event(&event, &self.api.name, now)]);
            }
        }
        self.write(mirror, chains).await;
    }
}

const TASK_PRIORITY: &str = "kai.scheduler/task-priority";

type Warning = (About, &'static str, String);

fn nodes(mirror: &Mirror) -> Vec<Warning> {
    let warning = |(name, record): (&Name, &crate::mirror::NodeRecord)| {
        let key = Key { namespace: "".into(), name: Name::clone(name) };
        let uid = Name::clone(&record.uid);
        let malformed = record.malformed.as_ref()?;
        let about = About { api_version: "v1", kind: "Node", key, uid };
        Some((about, "Malformed", format!("{malformed}; until then it counts as nothing")))
    };
    mirror.nodes.iter().filter_map(warning).collect()
}

fn zones(mirror: &Mirror) -> Vec<Warning> {
    let warning = |(name, record): (&Name, &crate::mirror::NumaRecord)| {
        let key = Key { namespace: "".into(), name: Name::clone(name) };
        let uid = Name::clone(&record.uid);
        let malformed = record.malformed.as_ref()?;
        let (api_version, kind) = ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology");
        let about = About { api_version, kind, key, uid };
        Some((about, "Malformed", format!("{malformed}; until then it binds nobody")))
    };
    mirror.topologies_of_nodes.iter().filter_map(warning).collect()
}

/// Pods whose order among the pods of their group is no number: KAI passes that over, too.
fn pods(mirror: &Mirror) -> Vec<Warning> {
    let warning = |(key, record): (&Key, &crate::mirror::PodRecord)| {
        if !(record.ours && record.waits()) {
            return None;
        }
        let label = record.labels.get(TASK_PRIORITY)?;
        if label.parse::<i32>().is_ok() {
            return None;
        }
        let message = format!(
            "label {TASK_PRIORITY}: found {label}, allowed: an integer of 32 bits; until then it \
             counts as none"
        );
        Some((About::pod(key, &record.uid), "Malformed", message))
    };
    mirror.pods.iter().filter_map(warning).collect()
}

fn groups(mirror: &Mirror) -> Vec<Warning> {
    let mut warnings = Vec::new();
    // Most groups have the class of the one before.
    let mut known: Option<&Name> = None;
    for (key, record) in &mirror.groups {
        let about = || pod_groups::about(key, &record.uid);
        if let Some(malformed) = &record.malformed {
            warnings.push((about(), "Malformed", malformed.to_string()));
        }
        let Some(class) = record.priority_class.as_ref().filter(|class| known != Some(*class))
        else {
            continue;
        };
        if is_known_class(&mirror.classes, class) {
            known = Some(class);
        } else {
            let message = format!("PriorityClass '{class}' does not exist: the default is used");
            warnings.push((about(), "PriorityClassNotFound", message));
        }
    }
    warnings
}
