//! The file format of profiles, such as `features/profiles/gpu-core-v1.yaml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// Built-in profiles by name.
const BUILT_IN_PROFILES: [(&str, &str); 1] =
    [("gpu-core-v1", include_str!("../../../../features/profiles/gpu-core-v1.yaml"))];

/// A set of behaviours of GPU schedulers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// The name with its version, such as `gpu-core-v1`. A behaviour is never added to or removed
    /// from the core level of a published version.
    pub name: String,
    /// What the profile is about, in one sentence.
    pub title: String,
    /// The behaviours by area.
    pub areas: BTreeMap<Area, AreaBehaviours>,
}

/// The behaviours of an area.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AreaBehaviours {
    /// What the area is about, in one sentence.
    pub about: String,
    /// Behaviours that a conformant scheduler has (MUST).
    pub core: Vec<Behaviour>,
    /// Behaviours that a scheduler may offer (SHOULD or MAY).
    #[serde(default)]
    pub extended: Vec<Behaviour>,
}

/// A behaviour that a scenario shows.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Behaviour {
    /// The stable id of the scenario: `AREA.SLUG`, its tag `@id:AREA.SLUG`.
    pub id: String,
    /// The behaviour in one sentence, in words of a user of any scheduler.
    pub behaviour: String,
}

/// An area of scheduling.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Area {
    /// Quotas and limits of queues.
    Quota,
    /// Pods that start together or not at all.
    Gang,
    /// Priorities inside a queue.
    Preemption,
    /// Borrowing between queues, and its end.
    Fairness,
    /// Nodes on which pods may run.
    Placement,
    /// GPUs of device plugins and of resource claims.
    Devices,
    /// Failures of nodes, pods and schedulers.
    Robustness,
}

/// How binding a behaviour is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// MUST: a conformant scheduler has the behaviour.
    Core,
    /// SHOULD or MAY: the behaviour is reported and does not change the verdict.
    Extended,
}

impl Area {
    /// All areas, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Quota,
        Self::Gang,
        Self::Preemption,
        Self::Fairness,
        Self::Placement,
        Self::Devices,
        Self::Robustness,
    ];

    /// The name in profiles, ids and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Gang => "gang",
            Self::Preemption => "preemption",
            Self::Fairness => "fairness",
            Self::Placement => "placement",
            Self::Devices => "devices",
            Self::Robustness => "robustness",
        }
    }
}

impl Level {
    /// The name in profiles and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Extended => "extended",
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Profile {
    /// Loads a profile: a built-in one by its name, or a file by its path.
    ///
    /// # Errors
    /// There is no such profile, or the file cannot be read or is invalid.
    pub fn load(name_or_path: &str) -> anyhow::Result<Self> {
        if let Some((name, text)) = BUILT_IN_PROFILES.iter().find(|(name, _)| *name == name_or_path)
        {
            return Self::parse(name, text);
        }
        let text = text::read_text_file(Path::new(name_or_path)).map_err(|unreadable| {
            let known: Vec<&str> = BUILT_IN_PROFILES.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            let message = unreadable.message_with_file(name_or_path);
            anyhow!("--profile: got {message}; expected a file or a built-in profile: {known}")
        })?;
        Self::parse(name_or_path, &text)
    }

    /// Parses a profile. `location` is the name of its file in messages.
    ///
    /// # Errors
    /// The text is not a profile, an id has another form or area than expected, or occurs twice.
    pub fn parse(location: &str, text: &str) -> anyhow::Result<Self> {
        let profile: Self = serde_saphyr::from_str(text)
            .map_err(|error| anyhow!("{location}: invalid profile: {error}"))?;
        let mut seen = BTreeSet::new();
        for (area, level, behaviour) in profile.behaviours() {
            let id = &behaviour.id;
            let line = || text.lines().position(|line| line.contains(id.as_str()));
            let at = || format!("{location}:{}: id", line().map_or(1, |line| line + 1));
            let slug = id.strip_prefix(area.name()).and_then(|rest| rest.strip_prefix('.'));
            let is_slug = |slug: &str| {
                !slug.is_empty()
                    && slug
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            };
            slug.filter(|slug| is_slug(slug)).with_context(|| {
                format!(
                    "{}: got {id}, expected {area}. and lower-case letters, digits and hyphens, \
                     because it is listed in {area}.{level}",
                    at()
                )
            })?;
            anyhow::ensure!(
                seen.insert(id),
                "{}: got {id} a second time, expected each id once",
                at()
            );
        }
        Ok(profile)
    }

    /// All behaviours with their area and level, in the order of reports.
    pub fn behaviours(&self) -> impl Iterator<Item = (Area, Level, &Behaviour)> {
        self.areas.iter().flat_map(|(area, listed)| {
            let core = listed.core.iter().map(|behaviour| (*area, Level::Core, behaviour));
            let extended = listed.extended.iter();
            core.chain(extended.map(|behaviour| (*area, Level::Extended, behaviour)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(areas: &str) -> String {
        let text = format!("name: p\ntitle: t\nareas:\n{areas}");
        Profile::parse("p.yaml", &text).unwrap_err().to_string()
    }

    #[test]
    fn an_id_begins_with_its_area_and_occurs_once() {
        let area = |ids: &[&str]| {
            let lines = ids.iter().map(|id| format!("    - {{id: {id}, behaviour: b}}\n"));
            format!("  gang:\n    about: a\n    core:\n{}", lines.collect::<String>())
        };
        assert_eq!(
            error_of(&area(&["quota.limit"])),
            "p.yaml:7: id: got quota.limit, expected gang. and lower-case letters, digits and \
             hyphens, because it is listed in gang.core"
        );
        assert!(error_of(&area(&["gang.Whole"])).contains("got gang.Whole, expected gang."));
        assert_eq!(
            error_of(&area(&["gang.whole", "gang.whole"])),
            "p.yaml:7: id: got gang.whole a second time, expected each id once"
        );
        assert!(error_of("  gangs: {about: a, core: []}").contains("gangs"));
    }

    #[test]
    fn an_unknown_profile_names_the_built_in_ones() {
        let error = Profile::load("gpu-core-v9").unwrap_err().to_string();
        assert!(error.contains("expected a file or a built-in profile: gpu-core-v1"), "{error}");
    }
}
