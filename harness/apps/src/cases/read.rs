//! Parses a case, fills in defaults and validates it.

mod check;
mod fields;

use schedlab_api::Value;
use serde::de::DeserializeOwned;

use super::{
    build,
    format::{Case, Gang, Mode, PodSet},
};

pub(super) use check::parent_cycle;

/// Parses a case, or returns all errors, one per line. Ignored parts are listed in its notes.
pub(super) fn parse_case(value: Value) -> Result<Case, Vec<String>> {
    let unknown_fields = fields::unknown_fields(&value);
    let case = deserialize::<Case>(value);
    let mut case = match case {
        Ok(case) => with_defaults(case),
        Err(error) => return Err([vec![error], unknown_fields].concat()),
    };
    let wrong = check::problems(&case);
    if !wrong.is_empty() {
        return Err([wrong, unknown_fields].concat());
    }
    case.notes =
        [unknown_fields, check::unknown_sub_groups(&case), build::ignored_settings(&case)].concat();
    Ok(case)
}

/// Deserializes a value; errors name the field.
pub(super) fn deserialize<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    let value = serde_json::Value::from(value);
    serde_path_to_error::deserialize(&value).map_err(|error| {
        let path = error.path().to_string();
        let prefix = if path == "." { String::new() } else { format!("{path}: ") };
        format!("{prefix}{}", error.inner())
    })
}

fn with_defaults(mut case: Case) -> Case {
    case.rounds = match case.mode {
        Some(Mode::SinglePass) => None,
        Some(Mode::Rounds) => Some(case.rounds.take().unwrap_or_default()),
        None => case.rounds.take(),
    };
    case.expect_what_was_recorded();
    for job in &mut case.jobs {
        let Gang { pod_sets, sub_groups, .. } = &mut job.gang;
        if pod_sets.is_empty() && sub_groups.is_empty() {
            let tasks = u32::try_from(job.tasks.len()).unwrap_or(u32::MAX);
            pod_sets.push(PodSet {
                name: "default".to_owned(),
                min_available: tasks,
                topology_constraint: None,
            });
        }
    }
    case
}

#[cfg(test)]
mod tests;
