//! Validates references of a case and the tree of its queues.

use std::collections::{BTreeMap, BTreeSet};

use super::super::format::{Case, Gang, Job};

/// Errors, each with object and field.
pub(super) fn problems(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let parents = case.queues.iter().map(|queue| (queue.name.as_str(), queue.parent.as_deref()));
    wrong.extend(parent_cycle(&parents.collect()));
    wrong.extend(unknown_expected_names(case));
    wrong
}

/// Describes a cycle of parents, if any.
pub(in super::super) fn parent_cycle(parents: &BTreeMap<&str, Option<&str>>) -> Option<String> {
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

/// Tasks that name a pod set that their job lacks; they count towards its first one.
pub(super) fn unknown_sub_groups(case: &Case) -> Vec<String> {
    case.jobs.iter().flat_map(unknown_sub_groups_of).collect()
}

fn unknown_sub_groups_of(job: &Job) -> Vec<String> {
    let mut sets = BTreeSet::new();
    add_pod_sets(&job.gang, &mut sets);
    let allowed = sets.iter().copied().collect::<Vec<_>>().join(", ");
    let named = job.tasks.iter().filter_map(|task| Some((&task.id, task.subgroup.as_deref()?)));
    let strays = named.filter(|(_, set)| !sets.contains(set));
    let messages = strays.map(|(task, set)| {
        format!("task {task}: subgroup: got {set}, expected a pod set of its job ({allowed})")
    });
    messages.collect()
}

fn add_pod_sets<'a>(gang: &'a Gang, sets: &mut BTreeSet<&'a str>) {
    sets.extend(gang.pod_sets.iter().map(|set| set.name.as_str()));
    gang.sub_groups.iter().for_each(|inner| add_pod_sets(inner, sets));
}

/// Expectations about unknown objects, which would never fail.
fn unknown_expected_names(case: &Case) -> Vec<String> {
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
