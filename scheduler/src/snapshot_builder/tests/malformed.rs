//! Malformed pod groups, and pods without sub-group: waiting pods are reported, running pods are
//! charged.

use insta::assert_snapshot;
use schedlab_api::{Value, json};
use schedlab_scheduler_core::{
    Profile,
    model::{QueueId, StalenessGrace},
    schedule,
};

use super::{build, cache, group, in_phase, node, pod, queue, rendered};
use crate::config::Flavor;

fn running(name: &str, group: &str) -> Value {
    in_phase(pod(name, group, &json!({ "nodeName": "n1" })), "Running")
}

fn labelled(mut pod: Value, sub_group: &str) -> Value {
    pod["metadata"]["labels"] = json!({ "kai.scheduler/subgroup-name": sub_group });
    pod
}

#[test]
fn running_pods_of_a_malformed_group_are_charged_and_waiting_ones_reported() {
    let objects = [
        node("n1"),
        queue("q", ""),
        group("bad", &json!({ "queue": "q", "minMember": 3, "stalenessGracePeriod": "soon" })),
        running("a", "bad"),
        running("b", "bad"),
        pod("c", "bad", &json!({})),
    ];
    assert_snapshot!(rendered(&objects), @r#"
    a Running group=bad node=n1 gpu=1000
    b Running group=bad node=n1 gpu=1000
    bad priority=50 preemptible queue=q
    ns/c: PodGroup bad cannot be scheduled: spec.stalenessGracePeriod: got "soon", expected a duration such as 90s or 1h30m
    "#);
    let snapshot = build(cache(&objects), Flavor::Kai).snapshot;
    let plan = schedule(&snapshot, &Profile::kai());
    assert!(plan.decisions.is_empty() && plan.staleness_changes.is_empty(), "{plan:?}");
    assert_eq!(plan.queues[&QueueId(0)].allocated.gpu_milli, 2000);
    let bad = &snapshot.pod_groups[0];
    assert!(bad.is_skipped);
    assert_eq!(bad.sub_groups[0].min_member, 2, "what runs leaves together");
}

#[test]
fn running_pods_with_an_unknown_sub_group_are_charged() {
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
    let snapshot = build(cache(&objects), Flavor::Kai).snapshot;
    let groups: Vec<_> = snapshot.pods.iter().map(|pod| pod.group.is_some()).collect();
    assert_eq!(groups, [true; 3]);
    assert!(snapshot.pods.iter().all(|pod| pod.sub_group == 0), "the first that takes pods");
    assert_eq!(snapshot.pod_groups[0].staleness_grace, Some(StalenessGrace::Never));
}

#[test]
fn a_pod_whose_label_names_no_leaf_sub_group_is_unschedulable() {
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
    let built = build(cache(&objects), Flavor::Kai);
    let placed = built.snapshot.pods.iter();
    let placed: Vec<_> = placed.map(|pod| (&*pod.name, pod.sub_group)).collect();
    assert_eq!(placed, [("in-a", 1), ("in-default", 1)]);
    let rendered = built.unschedulable.iter();
    let rendered: Vec<_> = rendered
        .map(|(key, reason)| format!("{key}: {reason}\n  remedy: {}", reason.remedy()))
        .collect();
    assert_snapshot!(rendered.join("\n"), @r"
    ns/in-rack: Sub-group rack of PodGroup g, named in label kai.scheduler/subgroup-name, takes no pods, since it has child sub-groups such as a
      remedy: name a sub-group of PodGroup g that takes pods in label kai.scheduler/subgroup-name
    ns/in-tail: PodGroup g has no sub-group tail, named in label kai.scheduler/subgroup-name
      remedy: add sub-group tail to PodGroup g, or name one that it has
    ns/nowhere: PodGroup g has sub-groups, and label kai.scheduler/subgroup-name names none of them: a, b
      remedy: name a sub-group of PodGroup g that takes pods in label kai.scheduler/subgroup-name
    ");
}

#[test]
fn a_group_lists_its_unschedulable_members() {
    let missing =
        |reference: Value| json!([{ "name": "c", "envFrom": [{ "configMapRef": reference }] }]);
    let gate = json!([{ "name": "x" }]);
    let claim = json!([{ "name": "c", "resourceClaimName": "nobodys" }]);
    let mut odd = pod("g-3", "g", &json!({ "schedulingGates": gate }));
    odd["metadata"]["annotations"]["gpu-fraction"] = json!("1.5");
    let mut unread = pod("bad-0", "bad", &json!({}));
    unread["metadata"]["annotations"]["gpu-fraction"] = json!("1.5");
    let parts = json!([{ "name": "a", "minMember": 1 }, { "name": "b", "minMember": 2 }]);
    let objects = [
        queue("q", ""),
        group("g", &json!({ "queue": "q", "minMember": 4 })),
        pod("g-0", "g", &json!({})),
        pod("g-1", "g", &json!({ "containers": missing(json!({ "name": "m" })) })),
        pod("g-2", "g", &json!({ "resourceClaims": claim })),
        odd,
        group("bad", &json!({ "queue": "q", "minMember": -1 })),
        unread,
        group("h", &json!({ "queue": "q", "subGroups": parts })),
        labelled(pod("h-0", "h", &json!({})), "a"),
        labelled(pod("h-1", "h", &json!({})), "b"),
        labelled(pod("h-2", "h", &json!({})), "c"),
    ];
    let snapshot = build(cache(&objects), Flavor::Kai).snapshot;
    let plan = schedule(&snapshot, &Profile::kai());
    let rendered =
        plan.waiting.values().map(|reason| format!("{reason}\n  {}", reason.suggestion()));
    assert_snapshot!(rendered.collect::<Vec<_>>().join("\n"), @r"
    Job is not ready for scheduling. Waiting for 4 pods, currently 4 exist, 1 are gated, 3 of them cannot be scheduled, such as ns/g-1: Missing required configmaps: [m]
      fix 3 pods, such as ns/g-1: create ConfigMap m
    Job is not ready for scheduling. Waiting for 2 pods for SubGroup b, currently 1 exist, 0 are gated. 1 more, of no SubGroup, cannot be scheduled: ns/h-2: PodGroup h has no sub-group c, named in label kai.scheduler/subgroup-name
      fix pod ns/h-2: add sub-group c to PodGroup h, or name one that it has
    ");
    let asks = snapshot.pod_groups[1].unschedulable_members.iter();
    let asks = asks.map(|member| snapshot.shapes[member.shape.0 as usize].requests.gpu_milli);
    assert_eq!(asks.collect::<Vec<_>>(), [0, 1000, 1000]);
    let bare = build(cache(&objects), Flavor::Kube).snapshot;
    assert!(bare.pod_groups.iter().all(|group| group.unschedulable_members.is_empty()));
}
