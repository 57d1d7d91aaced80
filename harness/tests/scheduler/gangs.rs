//! Gangs that are not ready: the messages on the group and its pods say what is missing, and what
//! to do.

use std::fmt::Write as _;

use insta::assert_snapshot;
use schedlab_api::json;

use super::lab::{Lab, without_random_suffixes};

/// A gang whose three pods must run together; each pod has these additional annotations and
/// container fields.
fn gang(pods: [(&str, &str); 3]) -> String {
    let group = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\n\
                 spec: {queue: q, minMember: 3}\n";
    let pods = pods.iter().enumerate().map(|(at, (annotations, spec))| {
        format!(
            "---\napiVersion: v1\nkind: Pod\n\
             metadata: {{name: g-{at}, annotations: {{pod-group-name: g{annotations}}}}}\n\
             spec:\n  schedulerName: kai-scheduler\n  \
             containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 1}}}}{spec}}}]\n"
        )
    });
    pods.fold(group.to_owned(), |all, pod| all + &pod)
}

/// The messages on the pods, in the group's condition and in events, and the group's requests.
fn messages(lab: &Lab) -> String {
    let group = &lab.list("scheduling.run.ai", "podgroups")[0];
    let condition = &group["status"]["schedulingConditions"][0];
    let requested = &group["status"]["resourcesStatus"]["requested"];
    let mut text = lab.pods();
    write!(text, "\n{}: {}\n", condition["reason"], condition["message"])
        .expect("writing to a string succeeds");
    write!(text, "requested: {requested}\n{}", lab.events()).expect("writing to a string succeeds");
    text
}

const FINE: (&str, &str) = ("", "");
const LACKS_CONFIG_MAP: (&str, &str) = ("", ", envFrom: [{configMapRef: {name: settings}}]");
const SHARES_TOO_MUCH: (&str, &str) = (", gpu-fraction: \"1.5\"", "");

#[test]
fn a_gang_with_an_unschedulable_pod_names_the_pod_and_the_reason() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.start();
        lab.apply(&gang([FINE, FINE, LACKS_CONFIG_MAP]));
        lab.advance(5).await;
        assert_snapshot!(messages(&lab), @r#"
        g-0 Pending -: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/g-2: Missing required configmaps: [settings]
        g-1 Pending -: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/g-2: Missing required configmaps: [settings]
        g-2 Pending -: Missing required configmaps: [settings]

        "NotReady": "Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/g-2: Missing required configmaps: [settings]. Remedy: fix pod default/g-2: create ConfigMap settings"
        requested: {"nvidia.com/gpu":"3"}
        2 × Pod Unschedulable Job is not ready for scheduling
        Pod Unschedulable Missing required configmaps: [settings]
        PodGroup NotReady Job is not ready for scheduling
        "#);
        assert_snapshot!(lab.explain("g").await, @r"
        pod default/g-2 waits

        reason: Missing required configmaps: [settings]

        remedy: create ConfigMap settings

        pod group default/g is pending
          pods: 0 with a node, 3 pending, 3 required to run
          priority 50, preemptible

        reason: NotReady
          Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/g-2: Missing required configmaps: [settings]

        remedy: fix pod default/g-2: create ConfigMap settings
          not simulated: it depends on more than the snapshot

        queues, from leaf to root
          q: GPUs: quota 8, limit unlimited, fair share 2, allocated 0 (of that 0 non-preemptible), requested 2

        plugins, independent of nodes
          UsableQueue: passes
          Gang: rejects: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 1 of them cannot be scheduled: default/g-2: Missing required configmaps: [settings]
        ");
        lab.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}");
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        g-0 Running n-0
        g-1 Running n-0
        g-2 Running n-0
        ");
    });
}

#[test]
fn a_gang_of_unschedulable_pods_reports_its_requests() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.start();
        lab.apply(&gang([SHARES_TOO_MUCH, LACKS_CONFIG_MAP, LACKS_CONFIG_MAP]));
        lab.advance(5).await;
        assert_snapshot!(messages(&lab), @r#"
        g-0 Pending -: The pod cannot be scheduled: annotation gpu-fraction: got "1.5", expected a number above 0 and below 1
        g-1 Pending -: Missing required configmaps: [settings]
        g-2 Pending -: Missing required configmaps: [settings]

        "NotReady": "Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 3 of them cannot be scheduled, such as default/g-0: annotation gpu-fraction: got \"1.5\", expected a number above 0 and below 1. Remedy: fix 3 pods, such as default/g-0: annotation gpu-fraction: expected a number above 0 and below 1"
        requested: {"nvidia.com/gpu":"3"}
        2 × Pod Unschedulable Missing required configmaps: [settings]
        Pod Unschedulable The pod cannot be scheduled: annotation gpu-fraction: got "1.5", expected a number above 0 and below 1
        PodGroup NotReady Job is not ready for scheduling
        "#);
        assert_snapshot!(lab.queues(), @r#"q {"allocated":{},"allocatedNonPreemptible":{},"childQueues":[],"fairShare":{},"pending":{"nvidia.com/gpu":"3"},"requested":{"nvidia.com/gpu":"3"}}"#);
        assert_snapshot!(lab.explain("g").await, @r#"
        pod default/g-0 waits

        reason: The pod cannot be scheduled: annotation gpu-fraction: got "1.5", expected a number above 0 and below 1

        remedy: fix the pod: annotation gpu-fraction: expected a number above 0 and below 1

        pod group default/g is pending
          pods: 0 with a node, 3 pending, 3 required to run
          priority 50, preemptible

        reason: NotReady
          Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 3 of them cannot be scheduled, such as default/g-0: annotation gpu-fraction: got "1.5", expected a number above 0 and below 1

        remedy: fix 3 pods, such as default/g-0: annotation gpu-fraction: expected a number above 0 and below 1
          not simulated: it depends on more than the snapshot

        queues, from leaf to root
          q: GPUs: quota 8, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 0

        plugins, independent of nodes
          UsableQueue: passes
          Gang: rejects: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 0 are gated, 3 of them cannot be scheduled, such as default/g-0: annotation gpu-fraction: got "1.5", expected a number above 0 and below 1
        "#);
    });
}

/// A gated pod counts as existing, and an invalid `task-priority` label is ignored.
#[test]
fn a_gang_with_a_gated_pod_reports_only_the_gate() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.start();
        let odd = "labels: {kai.scheduler/task-priority: high}, annotations: {pod-group-name: g}";
        let gated = gang([FINE, FINE, FINE]).replacen("annotations: {pod-group-name: g}", odd, 1);
        let last = gated.rfind("  schedulerName").expect("the gang has three pods");
        let (before, pod) = gated.split_at(last);
        lab.apply(&format!("{before}  schedulingGates: [{{name: later}}]\n{pod}"));
        lab.advance(5).await;
        assert_snapshot!(messages(&lab), @r#"
        g-0 Pending -: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated
        g-1 Pending -: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated
        g-2 Pending -: Scheduling is blocked due to non-empty scheduling gates

        "NotReady": "Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated. Remedy: remove the scheduling gates of 1 pod"
        requested: {"nvidia.com/gpu":"3"}
        Pod Malformed label kai.scheduler/task-priority: got high, expected an integer of 32 bits; the label is ignored until it is fixed
        2 × Pod Unschedulable Job is not ready for scheduling
        PodGroup NotReady Job is not ready for scheduling
        "#);
        assert_snapshot!(lab.explain("g").await, @r"
        pod group default/g is pending
          pods: 0 with a node, 3 pending, 3 required to run
          priority 50, preemptible

        reason: NotReady
          Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated

        remedy: remove the scheduling gates of 1 pod
          simulated: it runs on n-0 at once

        queues, from leaf to root
          q: GPUs: quota 8, limit unlimited, fair share 2, allocated 0 (of that 0 non-preemptible), requested 2

        plugins, independent of nodes
          UsableQueue: passes
          Gang: rejects: Job is not ready for scheduling. Waiting for 3 pods, currently 3 exist, 1 are gated
        ");
        lab.patch(
            "/api/v1/namespaces/default/pods/g-2",
            &json!({ "spec": { "schedulingGates": [] } }),
        )
        .await;
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        g-0 Running n-0
        g-1 Running n-0
        g-2 Running n-0
        ");
    });
}

#[test]
fn a_job_with_an_unreachable_minimum_runs_when_it_needs_fewer() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 8, -1);
        lab.start();
        lab.job("train", "q", 3, 5);
        lab.advance(5).await;
        assert_snapshot!(messages(&lab), @r#"
        train-0 Pending -: Job is not ready for scheduling. Waiting for 5 pods, currently 3 exist, 0 are gated
        train-1 Pending -: Job is not ready for scheduling. Waiting for 5 pods, currently 3 exist, 0 are gated
        train-2 Pending -: Job is not ready for scheduling. Waiting for 5 pods, currently 3 exist, 0 are gated

        "NotReady": "Job is not ready for scheduling. Waiting for 5 pods, currently 3 exist, 0 are gated. Remedy: create 2 more pods, or lower the pod group's minMember by 2"
        requested: {"nvidia.com/gpu":"3"}
        3 × Pod Unschedulable Job is not ready for scheduling
        PodGroup NotReady Job is not ready for scheduling
        "#);
        let warned = lab.list("", "events").into_iter().filter(|event| {
            event["reason"] == "PodGrouperWarning" && event["involvedObject"]["kind"] == "Job"
        });
        let warned: Vec<String> = warned.map(|event| event["message"].to_string()).collect();
        assert_snapshot!(without_random_suffixes(&warned.join("\n")), @r#""annotation kai.scheduler/batch-min-member: got 5 (at most 3 of its pods run at once), expected at most spec.parallelism and spec.completions; PodGroup pg-train waits for pods that are never created""#);
        let annotations = json!({ "kai.scheduler/batch-min-member": "3" });
        let change = json!({ "metadata": { "annotations": annotations } });
        lab.patch("/apis/batch/v1/namespaces/default/jobs/train", &change).await;
        lab.advance(5).await;
        assert_snapshot!(lab.pods(), @r"
        train-0 Running n-0
        train-1 Running n-0
        train-2 Running n-0
        ");
    });
}
