//! Default priority class and preemptibility per owner kind: a JSON list in a `ConfigMap`, in the
//! format of KAI's pod grouper. Invalid entries are ignored and reported once, as an event on the
//! `ConfigMap`.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, Time};

use crate::{
    api::{ApiClient, ApiError, object_path},
    apply::{Event, EventType, InvolvedObject},
    cache::PriorityClassRecord,
    config::DefaultPriorities,
    parse::{Malformed, name, text, uid},
    records::{ObjectKey, Owner},
    snapshot_builder::is_known_class,
};

/// Field of the `ConfigMap` that holds the list of defaults.
const TYPES_FIELD: &str = "data.types";
const EXPECTED_TYPES: &str =
    "a JSON list of objects with typeName, group, priorityName, preemptibility";
const EXPECTED_KIND: &str = "the name of a kind, for example Deployment or Deployment.apps";
const EXPECTED_CLASS: &str = "the name of a PriorityClass that exists";
const EXPECTED_PREEMPTIBILITY: &str = "preemptible or non-preemptible";
const PREEMPTIBILITIES: [&str; 2] = ["preemptible", "non-preemptible"];
const EXPECTED_SETTING: &str = "priorityName, preemptibility or both";

/// The configured defaults of one owner kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindDefaults {
    pub(super) priority_class: Option<Name>,
    pub(super) preemptibility: Option<Name>,
}

/// Defaults by `Kind.group`, or by `Kind` for any group.
#[derive(Debug, Default)]
pub(crate) struct Defaults(BTreeMap<String, KindDefaults>);

impl Defaults {
    /// Defaults of an owner: the entry for kind and group, or else for the kind.
    pub(super) fn for_owner(&self, owner: &Owner) -> Option<&KindDefaults> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.0.get(&kind_with_group(&owner.kind, group)).or_else(|| self.0.get(&*owner.kind))
    }

    /// Parses the list; returns the valid entries and the errors of the others.
    pub(super) fn from_config_map(
        object: &Value,
        classes: &BTreeMap<Name, PriorityClassRecord>,
    ) -> (Self, Vec<Malformed>) {
        let Some(found) = text(object, "/data/types") else {
            return (Self::default(), vec![Malformed::new(TYPES_FIELD, "nothing", EXPECTED_TYPES)]);
        };
        let entries: Vec<Value> = match serde_json::from_str(found) {
            Ok(entries) => entries,
            Err(error) => {
                return (Self::default(), vec![Malformed::new(TYPES_FIELD, error, EXPECTED_TYPES)]);
            }
        };
        let (mut defaults, mut wrong) = (BTreeMap::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            match parse_entry(entry, classes) {
                Ok((kind, said)) => {
                    defaults.insert(kind, said);
                }
                Err(malformed) => {
                    let field = format!("{TYPES_FIELD}[{index}]{}", malformed.field);
                    wrong.push(Malformed { field, ..malformed });
                }
            }
        }
        (Self(defaults), wrong)
    }
}

fn kind_with_group(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

fn parse_entry(
    entry: &Value,
    classes: &BTreeMap<Name, PriorityClassRecord>,
) -> Result<(String, KindDefaults), Malformed> {
    let Some(kind) = name(entry, "/typeName") else {
        return Err(Malformed::new(".typeName", format_field(entry, "typeName"), EXPECTED_KIND));
    };
    let defaults = KindDefaults {
        priority_class: name(entry, "/priorityName"),
        preemptibility: name(entry, "/preemptibility").map(|said| said.to_lowercase().into()),
    };
    if defaults == KindDefaults::default() {
        return Err(Malformed::new("", entry, EXPECTED_SETTING));
    }
    if defaults.priority_class.as_ref().is_some_and(|class| !is_known_class(classes, class)) {
        return Err(Malformed::new(
            ".priorityName",
            format_field(entry, "priorityName"),
            EXPECTED_CLASS,
        ));
    }
    if defaults.preemptibility.as_deref().is_some_and(|said| !PREEMPTIBILITIES.contains(&said)) {
        let found = format_field(entry, "preemptibility");
        return Err(Malformed::new(".preemptibility", found, EXPECTED_PREEMPTIBILITY));
    }
    Ok((kind_with_group(&kind, text(entry, "/group").unwrap_or_default()), defaults))
}

fn format_field(entry: &Value, field: &str) -> String {
    entry.get(field).map_or_else(|| "nothing".to_owned(), Value::to_string)
}

/// The `ConfigMap`, which is read whenever there are pods to group.
#[derive(Debug)]
pub(super) struct DefaultsSource {
    config_map: Option<DefaultPriorities>,
    /// Names of the events already written, so that each error is reported once.
    reported: BTreeSet<String>,
}

impl DefaultsSource {
    pub(super) const fn new(config_map: Option<DefaultPriorities>) -> Self {
        Self { config_map, reported: BTreeSet::new() }
    }

    pub(super) async fn load(
        &mut self,
        api: &ApiClient,
        classes: &BTreeMap<Name, PriorityClassRecord>,
        now: Time,
    ) -> Result<Defaults, ApiError> {
        let Some(config_map) = &self.config_map else { return Ok(Defaults::default()) };
        let namespace = config_map.namespace.as_deref().unwrap_or(api.client.default_namespace());
        let key = ObjectKey { namespace: namespace.into(), name: config_map.name.as_str().into() };
        let (object, defaults, wrong) =
            match api.get(&object_path("v1", &key.namespace, "configmaps", &key.name)).await {
                Ok(object) => {
                    let (defaults, wrong) = Defaults::from_config_map(&object, classes);
                    (object, defaults, wrong.iter().map(Malformed::to_string).collect())
                }
                Err(ApiError::NotFound(why) | ApiError::Refused(why)) => {
                    (Value::Null, Defaults::default(), vec![why])
                }
                Err(error) => return Err(error),
            };
        self.report_errors(api, &key, &object, wrong, now).await?;
        Ok(defaults)
    }

    async fn report_errors(
        &mut self,
        api: &ApiClient,
        key: &ObjectKey,
        object: &Value,
        wrong: Vec<String>,
        now: Time,
    ) -> Result<(), ApiError> {
        let uid = uid(object);
        let about = InvolvedObject { api_version: "v1", kind: "ConfigMap", key: key.clone(), uid };
        for found in wrong {
            let message = format!("{found}; until this is fixed it sets no defaults");
            let event = Event {
                involved: &about,
                event_type: EventType::Warning,
                reason: "Malformed",
                message: &message,
                dedup_key: None,
                dedup_scope: "",
            };
            if !self.reported.insert(event.object_name()) {
                continue;
            }
            let (path, body) = event.to_request(&api.name, now);
            match api.create_event(&path, body).await {
                // A previous process wrote it, or events may not be written.
                Ok(()) | Err(ApiError::Conflict(_) | ApiError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn defaults_text(types: &str, api_version: &str, kind: &str) -> String {
        let classes = ["train", "build"].map(|name| {
            (Name::from(name), PriorityClassRecord { value: 1, global_default: false })
        });
        let object = json!({ "data": { "types": types } });
        let (defaults, wrong) = Defaults::from_config_map(&object, &classes.into());
        let owner = Owner {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "o".into(),
            uid: "u".into(),
        };
        let defaults_of_owner = defaults.for_owner(&owner).cloned().unwrap_or_default();
        let part = |part: Option<Name>| part.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let parts =
            [part(defaults_of_owner.priority_class), part(defaults_of_owner.preemptibility)]
                .join(" ");
        let wrong = wrong.iter().map(|wrong| format!("\n{wrong}"));
        format!("{parts}{}", wrong.collect::<String>())
    }

    #[test]
    fn an_entry_with_an_api_group_takes_precedence_over_the_bare_kind() {
        let types = r#"[
            {"typeName": "Deployment", "priorityName": "train"},
            {"typeName": "Deployment", "group": "apps", "preemptibility": "Non-Preemptible"},
            {"typeName": "Job.batch", "priorityName": "build"}
        ]"#;
        assert_eq!(defaults_text(types, "apps/v1", "Deployment"), "- non-preemptible");
        assert_eq!(defaults_text(types, "mine.io/v1", "Deployment"), "train -");
        assert_eq!(defaults_text(types, "batch/v1", "Job"), "build -");
        assert_eq!(defaults_text(types, "v1", "Pod"), "- -");
    }

    #[test]
    fn invalid_entries_are_reported_and_valid_ones_apply() {
        insta::assert_snapshot!(defaults_text("{}", "v1", "Pod"), @r"
        - -
        data.types: got invalid type: map, expected a sequence at line 1 column 0, expected a JSON list of objects with typeName, group, priorityName, preemptibility
        ");
        let types = r#"[
            {"typeName": "Pod", "priorityName": "build"},
            {"typeName": "Pod", "priorityName": "urgent"},
            {"typeName": "Pod", "preemptibility": "maybe"},
            {"typeName": "Pod", "priorityClassName": "build"},
            {"priorityName": "build"},
            7
        ]"#;
        insta::assert_snapshot!(defaults_text(types, "v1", "Pod"), @r#"
        build -
        data.types[1].priorityName: got "urgent", expected the name of a PriorityClass that exists
        data.types[2].preemptibility: got "maybe", expected preemptible or non-preemptible
        data.types[3]: got {"priorityClassName":"build","typeName":"Pod"}, expected priorityName, preemptibility or both
        data.types[4].typeName: got nothing, expected the name of a kind, for example Deployment or Deployment.apps
        data.types[5].typeName: got nothing, expected the name of a kind, for example Deployment or Deployment.apps
        "#);
    }
}
