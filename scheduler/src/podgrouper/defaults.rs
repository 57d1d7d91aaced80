//! Which priority class and preemptibility a kind of owner has where nobody says otherwise: a JSON
//! list in a `ConfigMap`, as KAI's pod grouper reads it. What cannot be used of it is told at the
//! `ConfigMap`, once, and counts as not there.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, Time};

use crate::{
    api::{Api, ApiError, path},
    apply::{About, Event, Level},
    config::DefaultPriorities,
    mirror::{ClassRecord, Key, Owner},
    parse::{Malformed, name, text, uid},
    translate::is_known_class,
};

/// Where the list stands in the object.
const LIST: &str = "data.types";
const ALLOWED: &str = "a JSON list of objects with typeName, group, priorityName, preemptibility";
const KIND: &str = "the name of a kind, as Deployment or Deployment.apps";
const CLASS: &str = "the name of a PriorityClass that exists";
const PREEMPTIBILITY: &str = "preemptible or non-preemptible";
const PREEMPTIBILITIES: [&str; 2] = ["preemptible", "non-preemptible"];
const EITHER: &str = "priorityName, preemptibility or both";

/// What a kind of owner has by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KindDefaults {
    pub(super) priority_class: Option<Name>,
    pub(super) preemptibility: Option<Name>,
}

/// By `Kind.group`, or by `Kind` whatever its group.
#[derive(Debug, Default)]
pub(crate) struct Defaults(BTreeMap<String, KindDefaults>);

impl Defaults {
    /// What is said of an owner's kind in its group, else of the kind.
    pub(super) fn of(&self, owner: &Owner) -> Option<&KindDefaults> {
        let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.0.get(&full_name(&owner.kind, group)).or_else(|| self.0.get(&*owner.kind))
    }

    /// What stands in an object, and what is wrong with it.
    pub(super) fn read(
        object: &Value,
        classes: &BTreeMap<Name, ClassRecord>,
    ) -> (Self, Vec<Malformed>) {
        let Some(found) = text(object, "/data/types") else {
            return (Self::default(), vec![Malformed::new(LIST, "nothing", ALLOWED)]);
        };
        let entries: Vec<Value> = match serde_json::from_str(found) {
            Ok(entries) => entries,
            Err(error) => {
                return (Self::default(), vec![Malformed::new(LIST, error, ALLOWED)]);
            }
        };
        let (mut defaults, mut wrong) = (BTreeMap::new(), Vec::new());
        for (index, entry) in entries.iter().enumerate() {
            match one(entry, classes) {
                Ok((kind, said)) => {
                    defaults.insert(kind, said);
                }
                Err(malformed) => {
                    let field = format!("{LIST}[{index}]{}", malformed.field);
                    wrong.push(Malformed { field, ..malformed });
                }
            }
        }
        (Self(defaults), wrong)
    }
}

fn full_name(kind: &str, group: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

fn one(
    entry: &Value,
    classes: &BTreeMap<Name, ClassRecord>,
) -> Result<(String, KindDefaults), Malformed> {
    let Some(kind) = name(entry, "/typeName") else {
        return Err(Malformed::new(".typeName", shown(entry, "typeName"), KIND));
    };
    let said = KindDefaults {
        priority_class: name(entry, "/priorityName"),
        preemptibility: name(entry, "/preemptibility").map(|said| said.to_lowercase().into()),
    };
    if said == KindDefaults::default() {
        return Err(Malformed::new("", entry, EITHER));
    }
    if said.priority_class.as_ref().is_some_and(|class| !is_known_class(classes, class)) {
        return Err(Malformed::new(".priorityName", shown(entry, "priorityName"), CLASS));
    }
    if said.preemptibility.as_deref().is_some_and(|said| !PREEMPTIBILITIES.contains(&said)) {
        let found = shown(entry, "preemptibility");
        return Err(Malformed::new(".preemptibility", found, PREEMPTIBILITY));
    }
    Ok((full_name(&kind, text(entry, "/group").unwrap_or_default()), said))
}

fn shown(entry: &Value, field: &str) -> String {
    entry.get(field).map_or_else(|| "nothing".to_owned(), Value::to_string)
}

/// Reads the object anew whenever there are pods to group.
#[derive(Debug)]
pub(super) struct Source {
    place: Option<DefaultPriorities>,
    /// Names of the events that were written.
    told: BTreeSet<String>,
}

impl Source {
    pub(super) const fn new(place: Option<DefaultPriorities>) -> Self {
        Self { place, told: BTreeSet::new() }
    }

    pub(super) async fn look(
        &mut self,
        api: &Api,
        classes: &BTreeMap<Name, ClassRecord>,
        now: Time,
    ) -> Result<Defaults, ApiError> {
        let Some(place) = &self.place else { return Ok(Defaults::default()) };
        let namespace = place.namespace.as_deref().unwrap_or(api.client.default_namespace());
        let key = Key { namespace: namespace.into(), name: place.name.as_str().into() };
        let (object, defaults, wrong) =
            match api.get(&path("v1", &key.namespace, "configmaps", &key.name)).await {
                Ok(object) => {
                    let (defaults, wrong) = Defaults::read(&object, classes);
                    (object, defaults, wrong.iter().map(Malformed::to_string).collect())
                }
                Err(ApiError::NotFound(why) | ApiError::Refused(why)) => {
                    (Value::Null, Defaults::default(), vec![why])
                }
                Err(error) => return Err(error),
            };
        self.tell(api, (&key, &object), wrong, now).await?;
        Ok(defaults)
    }

    async fn tell(
        &mut self,
        api: &Api,
        (key, object): (&Key, &Value),
        wrong: Vec<String>,
        now: Time,
    ) -> Result<(), ApiError> {
        let uid = uid(object);
        let about = About { api_version: "v1", kind: "ConfigMap", key: key.clone(), uid };
        for found in wrong {
            let message = format!("{found}; until then it gives no kind of owner a default");
            let event = Event {
                about: &about,
                level: Level::Warning,
                reason: "Malformed",
                message: &message,
                gist: None,
                occasion: "",
            };
            if !self.told.insert(event.name()) {
                continue;
            }
            let (path, body) = event.request(&api.name, now);
            match api.tell(&path, body).await {
                // An earlier scheduler said it, or nobody may.
                Ok(()) | Err(ApiError::Conflict(_) | ApiError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    fn told(types: &str, owner: (&str, &str)) -> String {
        let classes = ["train", "build"]
            .map(|name| (Name::from(name), ClassRecord { value: 1, global_default: false }));
        let object = json!({ "data": { "types": types } });
        let (defaults, wrong) = Defaults::read(&object, &classes.into());
        let owner = Owner {
            api_version: owner.0.into(),
            kind: owner.1.into(),
            name: "o".into(),
            uid: "u".into(),
        };
        let said = defaults.of(&owner).cloned().unwrap_or_default();
        let part = |part: Option<Name>| part.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let said = [part(said.priority_class), part(said.preemptibility)].join(" ");
        let wrong = wrong.iter().map(|wrong| format!("\n{wrong}"));
        format!("{said}{}", wrong.collect::<String>())
    }

    #[test]
    fn a_kind_in_its_group_comes_before_the_kind_alone() {
        let types = r#"[
            {"typeName": "Deployment", "priorityName": "train"},
            {"typeName": "Deployment", "group": "apps", "preemptibility": "Non-Preemptible"},
            {"typeName": "Job.batch", "priorityName": "build"}
        ]"#;
        assert_eq!(told(types, ("apps/v1", "Deployment")), "- non-preemptible");
        assert_eq!(told(types, ("mine.io/v1", "Deployment")), "train -");
        assert_eq!(told(types, ("batch/v1", "Job")), "build -");
        assert_eq!(told(types, ("v1", "Pod")), "- -");
    }

    #[test]
    fn what_is_wrong_is_told_and_the_rest_holds() {
        insta::assert_snapshot!(told("{}", ("v1", "Pod")), @r"
        - -
        data.types: found invalid type: map, expected a sequence at line 1 column 0, allowed: a JSON list of objects with typeName, group, priorityName, preemptibility
        ");
        let types = r#"[
            {"typeName": "Pod", "priorityName": "build"},
            {"typeName": "Pod", "priorityName": "urgent"},
            {"typeName": "Pod", "preemptibility": "maybe"},
            {"typeName": "Pod", "priorityClassName": "build"},
            {"priorityName": "build"},
            7
        ]"#;
        insta::assert_snapshot!(told(types, ("v1", "Pod")), @r#"
        build -
        data.types[1].priorityName: found "urgent", allowed: the name of a PriorityClass that exists
        data.types[2].preemptibility: found "maybe", allowed: preemptible or non-preemptible
        data.types[3]: found {"priorityClassName":"build","typeName":"Pod"}, allowed: priorityName, preemptibility or both
        data.types[4].typeName: found nothing, allowed: the name of a kind, as Deployment or Deployment.apps
        data.types[5].typeName: found nothing, allowed: the name of a kind, as Deployment or Deployment.apps
        "#);
    }
}
