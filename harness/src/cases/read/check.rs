//! What a case names has to be there, and its queues have to form a tree.

use std::collections::{BTreeMap, BTreeSet};

use super::super::format::{Case, Gang, Job};

/// What is wrong, each with the object and the field.
pub(super) fn problems(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let parents = case.queues.iter().map(|queue| (queue.name.as_str(), queue.parent.as_deref()));
    wrong.extend(circle(&parents.collect()));
    wrong.extend(of_expected(case));
    wrong
}

/// A queue that is above itself.
pub(in super::super) fn circle(parents: &BTreeMap<&str, Option<&str>>) -> Option<String> {
    parents.keys().find_map(|&start| {
        let above = |queue: &&str| parents.get(queue).copied().flatten();
        let mut way = vec![start];
        while let Some(parent) = above(way.last().expect("it has a start")) {
            if parent == start {
                way.push(start);
                let circle = way.join(" -> ");
                return Some(format!(
                    "queue {start}: parent: found the circle {circle}, allowed: a tree"
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

/// Tasks of a pod set that their job does not have; they count for its first one.
pub(super) fn strays(case: &Case) -> Vec<String> {
    case.jobs.iter().flat_map(strays_of).collect()
}

fn strays_of(job: &Job) -> Vec<String> {
    let mut sets = BTreeSet::new();
    add_pod_sets(&job.gang, &mut sets);
    let allowed = sets.iter().copied().collect::<Vec<_>>().join(", ");
    let named = job.tasks.iter().filter_map(|task| Some((&task.id, task.subgroup.as_deref()?)));
    let strays = named.filter(|(_, set)| !sets.contains(set));
    let told = strays.map(|(task, set)| {
        format!("task {task}: subgroup: found {set}, allowed: a pod set of its job ({allowed})")
    });
    told.collect()
}

fn add_pod_sets<'a>(gang: &'a Gang, sets: &mut BTreeSet<&'a str>) {
    sets.extend(gang.pod_sets.iter().map(|set| set.name.as_str()));
    gang.sub_groups.iter().for_each(|inner| add_pod_sets(inner, sets));
}

/// What is expected of somebody who is not there would never fail.
fn of_expected(case: &Case) -> Vec<String> {
    let expected = &case.expected;
    let jobs: BTreeSet<&String> = case.jobs.iter().map(|job| &job.name).collect();
    let tasks: BTreeSet<&String> =
        case.jobs.iter().flat_map(|job| &job.tasks).map(|task| &task.id).collect();
    let nodes: BTreeSet<&String> = case.cluster.nodes.iter().map(|node| &node.name).collect();
    let dead = &expected.dead_task_ids;
    let of = |kind: &str, name: &String| {
        format!("expected.{kind}s: found {name}, allowed: a {kind} of the case")
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
