//! A case as its file has it: read, its defaults filled in, and looked over for what it cannot mean.

mod check;
mod fields;

use schedlab_json::Value;
use serde::de::DeserializeOwned;

use super::{
    build,
    format::{Case, Gang, Mode, PodSet},
};

pub(super) use check::circle;

/// The case, or all that is wrong with it, one line each. What is passed over stands in its notes.
pub(super) fn case(value: Value) -> Result<Case, Vec<String>> {
    let strange = fields::unknown(&value);
    let case = typed::<Case>(value);
    let mut case = match case {
        Ok(case) => with_defaults(case),
        Err(error) => return Err([vec![error], strange].concat()),
    };
    let wrong = check::problems(&case);
    if !wrong.is_empty() {
        return Err([wrong, strange].concat());
    }
    case.notes = [strange, check::strays(&case), build::passed_over(&case)].concat();
    Ok(case)
}

/// Told with the field, what was found there and what is allowed.
pub(super) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    let value = serde_json::Value::from(value);
    serde_path_to_error::deserialize(&value).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("{path}: ") };
        format!("{place}{}", error.inner())
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
