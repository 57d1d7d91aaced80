//! Pod groups that cannot be read, and pods that have no place in theirs: what waits is told, what
//! runs is charged.

use insta::assert_snapshot;
use schedlab_json::{Value, json};
use schedlab_scheduler_core::{
    Profile,
    model::{QueueId, StalenessGrace},
    schedule,
};

use super::{group, in_phase, mirror, node, pod, queue, told, translate};
use crate::config::Flavor;

fn running(name: &str, group: &str) -> Value {
    in_phase(pod(name, group, &json!({ "nodeName": "n1" })), "Running")
}

fn labelled(mut pod: Value, sub_group: &str) -> Value {
    pod["metadata"]["labels"] = json!({ "kai.scheduler/subgroup-name": sub_group });
    pod
}

#[test]
fn what_runs_of_a_group_that_cannot_be_read_is_charged_and_what_waits_is_told() {
    let objects = [
        node("n1"),
        queue("q", ""),
        group("bad", &json!({ "queue": "q", "minMember": 3, "stalenessGracePeriod": "soon" })),
        running("a", "bad"),
        running("b", "bad"),
        pod("c", "bad", &json!({})),
    ];
    assert_snapshot!(told(&objects), @r#"
    a Running group=bad node=n1 gpu=1000
    b Running group=bad node=n1 gpu=1000
    bad priority=50 preemptible queue=q
    ns/c: PodGroup bad cannot be scheduled: spec.stalenessGracePeriod: found "soon", allowed: a duration such as 90s or 1h30m
    "#);
    let snapshot = translate(mirror(&objects), Flavor::Kai).snapshot;
    let plan = schedule(&snapshot, &Profile::kai());
    assert!(plan.decisions.is_empty() && plan.stale.is_empty(), "{plan:?}");
    assert_eq!(plan.queues[&QueueId(0)].allocated.gpu_milli, 2000);
    let bad = &snapshot.pod_groups[0];
    assert!(bad.left_alone);
    assert_eq!(bad.sub_groups[0].min_member, 2, "what runs leaves together");
}

#[test]
fn what_runs_under_a_label_that_its_group_does_not_know_is_charged() {
    let parts = json!([{ "name": "a", "minMember": 1 }, { "name": "b", "minMember": 1, "parent": "rack" },
                       { "name": "rack" }]);
    let objects = [
        node("n1"),
        queue("q", ""),
        group("g", &json!({ "queue": "q", "subGroups": parts })),
        labelled(running("stray", "g"), "tail"),
        labelled(running("inner", "g"), "rack"),
        running("unlabelled", "g"),
    ];
    let snapshot = translate(mirror(&objects), Flavor::Kai).snapshot;
    let groups: Vec<_> = snapshot.pods.iter().map(|pod| pod.group.is_some()).collect();
    assert_eq!(groups, [true; 3]);
    assert!(snapshot.pods.iter().all(|pod| pod.sub_group == 0), "the first that takes pods");
    assert_eq!(snapshot.pod_groups[0].staleness_grace, Some(StalenessGrace::Never));
}

#[test]
fn a_pod_waits_whose_label_names_no_part_that_takes_pods() {
    let parts = json!([{ "name": "rack" }, { "name": "a", "minMember": 1, "parent": "rack" },
                       { "name": "b", "minMember": 1, "parent": "rack" }]);
    let default = json!([{ "name": "a", "minMember": 1 }, { "name": "default", "minMember": 1 }]);
    let objects = [
        group("g", &json!({ "subGroups": parts })),
        group("h", &json!({ "subGroups": default })),
        labelled(pod("in-a", "g", &json!({})), "a"),
        labelled(pod("in-rack", "g", &json!({})), "rack"),
        labelled(pod("in-tail", "g", &json!({})), "tail"),
        pod("nowhere", "g", &json!({})),
        pod("in-default", "h", &json!({})),
    ];
    let translation = translate(mirror(&objects), Flavor::Kai);
    let placed = translation.snapshot.pods.iter();
    let placed: Vec<_> = placed.map(|pod| (&*pod.name, pod.sub_group)).collect();
    assert_eq!(placed, [("in-a", 1), ("in-default", 1)]);
    let told = translation.troubles.iter();
    let told: Vec<_> = told
        .map(|(key, trouble)| format!("{key}: {trouble}\n  remedy: {}", trouble.remedy()))
        .collect();
    assert_snapshot!(told.join("\n"), @r"
    ns/in-rack: Sub-group rack of PodGroup g, named in label kai.scheduler/subgroup-name, takes no pods: others are below it, such as a
      remedy: name a sub-group of PodGroup g that takes pods in label kai.scheduler/subgroup-name
    ns/in-tail: PodGroup g has no sub-group tail, named in label kai.scheduler/subgroup-name
      remedy: add sub-group tail to PodGroup g, or name one that it has
    ns/nowhere: PodGroup g has sub-groups, and label kai.scheduler/subgroup-name names none of them: a, b
      remedy: name a sub-group of PodGroup g that takes pods in label kai.scheduler/subgroup-name
    ");
}
