//! Parses a case, fills in defaults and validates it.

mod fields;

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::Value;
use serde::de::DeserializeOwned;

use super::{
    build,
    format::{Case, CaseMode, Gang, Job, PodSet},
};

/// Parses a case. Parts that are ignored are listed in the case's notes. The error is a list of all
/// errors, one per line.
pub(super) fn parse_case(value: Value) -> Result<Case, Vec<String>> {
    let unknown_fields = fields::unknown_fields(&value);
    let case = deserialize::<Case>(value);
    let mut case = match case {
        Ok(case) => with_defaults(case),
        Err(error) => return Err([vec![error], unknown_fields].concat()),
    };
    let wrong = case_problems(&case);
    if !wrong.is_empty() {
        return Err([wrong, unknown_fields].concat());
    }
    case.notes =
        [unknown_fields, unknown_pod_set_problems(&case), build::ignored_settings(&case)].concat();
    Ok(case)
}

/// Deserializes a value. The error message names the field.
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
        Some(CaseMode::SinglePass) => None,
        Some(CaseMode::Rounds) => Some(case.rounds.take().unwrap_or_default()),
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

/// Errors in a parsed case; each names the object and the field.
fn case_problems(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let parents = case.queues.iter().map(|queue| (queue.name.as_str(), queue.parent.as_deref()));
    wrong.extend(parent_cycle_message(&parents.collect()));
    wrong.extend(unknown_expected_name_problems(case));
    wrong
}

/// The message about a cycle of parents; `None` if there is none.
pub(super) fn parent_cycle_message(parents: &BTreeMap<&str, Option<&str>>) -> Option<String> {
    parents.keys().find_map(|&start| {
        let above = |queue: &&str| parents.get(queue).copied().flatten();
        let mut way = vec![start];
        while let Some(parent) = above(way.last().expect("it has a start")) {
            if parent == start {
                way.push(start);
                let circle = way.join(" -> ");
                return Some(format!(
                    "queue {start}: parent: got the cycle {circle}, expected a tree"
                ));
            }
            if way.contains(&parent) {
                return None;
            }
            way.push(parent);
        }
        None
    })
}

/// Messages about tasks whose pod set does not exist in their job. Such tasks count towards the
/// job's first pod set.
fn unknown_pod_set_problems(case: &Case) -> Vec<String> {
    case.jobs.iter().flat_map(unknown_pod_set_problems_of_job).collect()
}

fn unknown_pod_set_problems_of_job(job: &Job) -> Vec<String> {
    let mut sets = BTreeSet::new();
    collect_pod_set_names(&job.gang, &mut sets);
    let allowed = sets.iter().copied().collect::<Vec<_>>().join(", ");
    let named = job.tasks.iter().filter_map(|task| Some((&task.id, task.subgroup.as_deref()?)));
    let strays = named.filter(|(_, set)| !sets.contains(set));
    let messages = strays.map(|(task, set)| {
        format!("task {task}: subgroup: got {set}, expected a pod set of its job ({allowed})")
    });
    messages.collect()
}

fn collect_pod_set_names<'a>(gang: &'a Gang, sets: &mut BTreeSet<&'a str>) {
    sets.extend(gang.pod_sets.iter().map(|set| set.name.as_str()));
    gang.sub_groups.iter().for_each(|inner| collect_pod_set_names(inner, sets));
}

/// Messages about expectations for objects that do not exist; such an expectation would never fail.
fn unknown_expected_name_problems(case: &Case) -> Vec<String> {
    let expected = &case.expected;
    let jobs: BTreeSet<&String> = case.jobs.iter().map(|job| &job.name).collect();
    let tasks: BTreeSet<&String> =
        case.jobs.iter().flat_map(|job| &job.tasks).map(|task| &task.id).collect();
    let nodes: BTreeSet<&String> = case.cluster.nodes.iter().map(|node| &node.name).collect();
    let dead = &expected.dead_task_ids;
    let of = |kind: &str, name: &String| {
        format!("expected.{kind}s: got {name}, expected a {kind} of the case")
    };
    let no_jobs = expected.jobs.keys().filter(|name| !jobs.contains(name) && !dead.contains(name));
    let no_tasks =
        expected.tasks.keys().filter(|name| !tasks.contains(name) && !dead.contains(name));
    let no_nodes = expected.nodes.keys().filter(|name| !nodes.contains(name));
    let mut wrong: Vec<String> = no_jobs.map(|name| of("job", name)).collect();
    wrong.extend(no_tasks.map(|name| of("task", name)));
    wrong.extend(no_nodes.map(|name| of("node", name)));
    wrong
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::{super::test_case::case_with, *};

    fn messages_for(pointer: &str, change: Value) -> String {
        match parse_case(case_with(&[(pointer, change)])) {
            Ok(case) => case.notes.join("\n"),
            Err(wrong) => wrong.join("\n"),
        }
    }

    #[test]
    fn an_invalid_case_names_object_field_and_expected_values() {
        let outcome = || json!({ "x": { "status": "Pending", "gpus_requested_sum": 0 } });
        let table = [
            ("/queues/0/parent", json!("q"), "queue a: parent: got the cycle a -> q -> a"),
            ("/queues/0/parent", json!("a"), "queue a: parent: got the cycle a -> a"),
            (
                "/jobs/0/tasks/0/subgroup",
                json!("z"),
                "task j-0: subgroup: got z, expected a pod set",
            ),
            (
                "/jobs/0/tasks/0/gpu_fracton",
                json!(0.5),
                "jobs[0].tasks[0].gpu_fracton: unknown field",
            ),
            (
                "/jobs/0/tasks/0/state",
                json!("Odd"),
                "jobs[0].tasks[0].state: unknown variant `Odd`",
            ),
            (
                "/jobs/0/preemptibility",
                json!("sometimes"),
                "jobs[0].preemptibility: unknown variant",
            ),
            ("/actions", json!(["odd"]), "actions[0]: unknown variant `odd`, expected one of"),
            ("/expected/jobs", outcome(), "expected.jobs: got x, expected a job of the case"),
            ("/expected/tasks", outcome(), "expected.tasks: got x, expected a task of the case"),
        ];
        for (pointer, change, text) in table {
            let messages = messages_for(pointer, change);
            assert!(messages.starts_with(text), "{pointer}: {messages}");
        }
    }

    #[test]
    fn fields_with_defaults_and_named_states_are_accepted() {
        let dead = json!({ "tasks": { "x": { "status": "Pending", "gpus_requested_sum": 0 } }, "dead_task_ids": ["x"] });
        let table = [
            ("/queues/1/parent", json!("nobody")),
            ("/jobs/0/tasks/0/state", json!("Pipelined")),
            ("/jobs/0/tasks/0/state", json!("Deleted")),
            ("/rounds", json!({})),
            ("/expected", dead),
        ];
        for (pointer, change) in table {
            assert_eq!(messages_for(pointer, change), "", "{pointer}");
        }
    }
}
