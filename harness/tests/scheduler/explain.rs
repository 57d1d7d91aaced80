//! The output of `schedlab-scheduler explain` for workloads and queues; applying its suggestions
//! lets workloads run.

use insta::assert_snapshot;
use schedlab_api::json;
use schedlab_scheduler::explain::OutputFormat;

use super::lab::Lab;

const BORROWER: &str = include_str!("../../../fixtures/lab/original/exercise-b-borrow.yaml");
const GANG: &str = include_str!("../../../fixtures/lab/original/exercise-d-gang.yaml");

const TEAM_PROD: &str = "/apis/scheduling.run.ai/v2/queues/team-prod";

#[test]
fn the_explanation_of_the_labs_deployment_says_why_it_does_not_borrow() {
    Lab::run(async |mut lab| {
        lab.nodes(4, 8);
        lab.queue("team-prod", 8, -1);
        lab.start();
        lab.apply(BORROWER);
        lab.advance(5).await;
        assert_snapshot!(lab.explain("prod-borrow").await, @"
        prod-borrow has 16 pod groups: 8 not pending, 8 pending (NonPreemptibleOverQuota); one of them:

        pod group default/pg-prod-borrow-v9szv9kd6h-sxgwm is pending
          pods: 0 with a node, 1 pending, 1 required to run
          priority 125, non-preemptible

        reason: NonPreemptibleOverQuota
          Non-preemptible workload is over quota. Workload requested 1 GPUs, but team-prod quota is 8 GPUs, while 8 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.

        remedy: raise the quota of queue team-prod by 1 GPU to 9 GPUs
          simulated: it runs on n-1 at once

        queues, from leaf to root
          team-prod: GPUs: quota 8, limit unlimited, fair share 16, allocated 8 (of that 8 non-preemptible), requested 16

        plugins, independent of nodes
          UsableQueue: passes
          Gang: passes
          QueueLimits: rejects: Non-preemptible workload is over quota. Workload requested 1 GPUs, but team-prod quota is 8 GPUs, while 8 GPUs are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.

        nodes for pod default/prod-borrow-v9szv9kd6h-sxgwm, which requests 1 GPU
          3 nodes (n-1, n-2, n-3): all plugins pass
            free 8 of 8 GPUs
          n-0: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
            free 0 of 8 GPUs

        notes
          It is non-preemptible, since its priority is 125, and priorities from 100 are non-preemptible (class inference, KAI's default for pods of a Deployment). Non-preemptible workloads must stay within the quota of their queue, as borrowed capacity could not be reclaimed. Label kai.scheduler/preemptibility: preemptible, or priorityClassName: train, lets new pods borrow; existing pods borrow when their PodGroup has spec.preemptibility: preemptible.
          Deployment prod-borrow is not a gang: as in KAI each of its pods (here 16) is a pod group of its own and starts alone. A Job with annotation kai.scheduler/batch-min-member starts as a whole or not at all.
        ");
        // The suggestion is for the next pending pod.
        let quota = json!({ "spec": { "resources": { "gpu": { "quota": 9 } } } });
        lab.patch(TEAM_PROD, &quota).await;
        lab.advance(5).await;
        assert_eq!(lab.pods().matches(" Running ").count(), 9);
        // The note explains how a pod may borrow: one more runs above the quota.
        let groups = lab.list("scheduling.run.ai", "podgroups");
        let pending =
            groups.iter().find(|group| group["status"]["schedulingConditions"][0].is_object());
        let group = pending.unwrap()["metadata"]["name"].as_str().unwrap();
        let path = format!("/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/{group}");
        let preemptible = json!({ "spec": { "preemptibility": "preemptible" } });
        lab.patch(&path, &preemptible).await;
        lab.advance(5).await;
        assert_eq!(lab.pods().matches(" Running ").count(), 10);
    });
}

#[test]
fn the_explanation_of_the_labs_deployment_says_why_it_is_no_gang() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("gang-demo", -1, -1);
        lab.start();
        lab.apply(GANG);
        lab.advance(5).await;
        assert_snapshot!(lab.explain("gang").await, @"
        gang has 10 pod groups: 8 not pending, 2 pending (PodSchedulingErrors); one of them:

        pod group default/pg-gang is pending
          pods: 0 with a node, 1 pending, 1 required to run
          priority 125, non-preemptible

        reason: PodSchedulingErrors
          Resources were not found for pod default/gang-wzcvvgw6np due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.

        remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
          simulated: it runs on (new node) at once

        queues, from leaf to root
          gang-demo: GPUs: quota unlimited, limit unlimited, fair share 8, allocated 8 (of that 8 non-preemptible), requested 10

        plugins, independent of nodes
          UsableQueue: passes
          Gang: passes
          QueueLimits: passes

        nodes for pod default/gang-wzcvvgw6np-hr9sr, which requests 1 GPU
          n-0: NodeResourcesFit rejects: node(s) didn't have enough resources: GPUs
            free 0 of 8 GPUs

        notes
          It is non-preemptible, since its priority is 125, and priorities from 100 are non-preemptible (class inference, KAI's default for pods of a Deployment). Non-preemptible workloads must stay within the quota of their queue, as borrowed capacity could not be reclaimed. Label kai.scheduler/preemptibility: preemptible, or priorityClassName: train, lets new pods borrow; existing pods borrow when their PodGroup has spec.preemptibility: preemptible.
          Deployment gang is not a gang: as in KAI each of its pods (here 10) is a pod group of its own and starts alone. Annotation kai.scheduler/batch-min-member=10 has an effect on Jobs only. A Job with annotation kai.scheduler/batch-min-member starts as a whole or not at all.
        ");
    });
}

#[test]
fn a_workload_at_a_limit_runs_after_the_suggested_raise() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("team-prod", 0, 2);
        lab.start();
        lab.job("train", "team-prod", 3, 3);
        lab.advance(5).await;
        let output = lab.explain("train").await;
        assert!(
            output.contains("raise the limit of queue team-prod by 1 GPU to 3 GPUs"),
            "{output}"
        );
        let limit = json!({ "spec": { "resources": { "gpu": { "limit": 3 } } } });
        lab.patch(TEAM_PROD, &limit).await;
        lab.advance(5).await;
        assert_eq!(lab.pods().matches(" Running ").count(), 3);
        assert!(
            lab.explain("train").await.starts_with("pod group default/pg-train is fully scheduled")
        );
    });
}

#[test]
fn an_invalid_annotation_is_explained_with_the_expected_value() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("q", 0, -1);
        lab.start();
        lab.apply(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: odd\n  annotations:\n    \
             gpu-fraction: lots\n  labels:\n    kai.scheduler/queue: q\nspec:\n  \
             schedulerName: kai-scheduler\n  containers:\n  - name: c\n    image: i\n",
        );
        lab.advance(5).await;
        assert_snapshot!(lab.explain("odd").await, @r#"
        pod default/odd waits

        reason: The pod cannot be scheduled: annotation gpu-fraction: got "lots", expected a number above 0 and below 1

        remedy: fix the pod: annotation gpu-fraction: expected a number above 0 and below 1
        "#);
        assert_snapshot!(lab.explain("nobody").await, @"default/nobody: scheduler kai-scheduler has no pod group and no pod of that name, and no pod with an owner of that name");
    });
}

#[test]
fn a_queue_is_explained() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 8);
        lab.queue("borrower", 0, -1);
        lab.queue("owner", 8, -1);
        lab.start();
        lab.job("borrowed", "borrower", 8, 1);
        lab.advance(5).await;
        assert_snapshot!(lab.explain_queue("owner").await, @r"
        queue owner
          GPUs: quota 8, limit unlimited, fair share 0, allocated 0 (of that 0 non-preemptible), requested 0

        fair share of GPUs, step by step
          the cluster has 8 GPUs for borrower, owner
            borrower requests 8 (quota 0, limit unlimited) and gets 0 of its quota
            owner requests 0 (quota 8, limit unlimited) and gets 0 of its quota
            8 GPUs left over
            priority 100, round 1: of 8, borrower (weight 1) wants 8 and gets 8
            fair shares: borrower 8, owner 0

        all queues
          borrower borrows 8 GPUs (use over quota)

        with 1 GPU more requested, these pods could be reclaimed, in this order
          default/pg-borrowed of queue borrower: 1 pod, above the minimum of an elastic job, 7 such entries in a row
          default/pg-borrowed of queue borrower: 1 pod, the job's minimum

        if others reclaim, these pods are evicted first
          none
        ");
        assert_snapshot!(lab.explain_queue("nobody").await, @"queue nobody does not exist; existing queues: borrower, owner");
    });
}

#[test]
fn the_json_output_has_the_same_content() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 2);
        lab.queue("q", 1, 1);
        lab.job("train", "q", 2, 2);
        lab.start();
        lab.advance(3).await;
        let output: schedlab_api::Value =
            serde_json::from_str(&lab.explain_as("train", OutputFormat::Json).await).unwrap();
        assert_eq!(output["workload"], "default/train");
        assert_eq!(output["podGroups"][0]["reason"]["code"], "OverLimit");
        let explained = &output["explained"];
        assert_eq!((&explained["podsWithNode"], &explained["podsWaiting"]), (&json!(0), &json!(2)));
        assert_eq!(explained["nodes"]["groups"][0]["nodes"], json!(["n-0"]));
        assert_eq!(explained["nodes"]["groups"][0]["free"]["gpu"], 2);
        assert_snapshot!(explained["remedies"], @r#"[{"inAll":null,"least":null,"outcome":{"node":"n-0","runs":true,"when":"at once"},"remedy":"raise the limit of queue q by 1 GPU to 2 GPUs"}]"#);
        let accounts = &explained["queues"][0]["accounts"];
        assert_eq!((&accounts["limit"]["gpu"], &accounts["limit"]["cpu"]), (&json!(1), &json!(-1)));
        assert_eq!(accounts["requested"]["gpu"], 2);
        let queue: schedlab_api::Value =
            serde_json::from_str(&lab.explain_queue_as("q", OutputFormat::Json).await).unwrap();
        assert_snapshot!(queue["derivation"]["gpu"], @r#"[{"divided":2,"fairShares":{"q":1}}]"#);
        assert_snapshot!(queue["queues"][0]["standing"], @r#"{"cpu":{"is":"served"},"gpu":{"by":1,"is":"starved"},"memory":{"is":"served"}}"#);
    });
}

#[test]
fn the_first_job_of_a_queue_is_no_longer_behind_other_jobs() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.queue("q", 1, -1);
        lab.start();
        for name in ["runs", "next", "last"] {
            lab.job(name, "q", 1, 1);
            lab.advance(2).await;
        }
        assert_snapshot!(lab.pod_groups(), @r#"
        pg-last {"minMember":1,"priorityClassName":"train","queue":"q"} "PodSchedulingErrors": "Resources were not found for pod default/last-0-drjvp due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. Remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs; other jobs of its queue come first"
        pg-next {"minMember":1,"priorityClassName":"train","queue":"q"} "PodSchedulingErrors": "Resources were not found for pod default/next-0-9rngj due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. Remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs"
        pg-runs {"minMember":1,"priorityClassName":"train","queue":"q"}
        "#);
        lab.delete_in("default", "jobs", "batch", "runs");
        lab.advance(40).await;
        assert_snapshot!(lab.pod_groups(), @r#"
        pg-last {"minMember":1,"priorityClassName":"train","queue":"q"} "PodSchedulingErrors": "Resources were not found for pod default/last-0-drjvp due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs. Remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs"
        pg-next {"minMember":1,"priorityClassName":"train","queue":"q"}
        "#);
    });
}

#[test]
fn a_preemption_policy_that_prevents_preemption_is_noted() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 1);
        lab.queue("q", 1, -1);
        lab.limit_preemption(1, 60);
        lab.start();
        lab.job("low", "q", 1, 1);
        lab.advance(2).await;
        lab.apply(
            "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\n\
             spec: {queue: q, minMember: 1, priorityClassName: build-preemptible}\n---\n\
             apiVersion: v1\nkind: Pod\n\
             metadata: {name: p, annotations: {pod-group-name: g}}\n\
             spec:\n  schedulerName: kai-scheduler\n  \
             containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]\n",
        );
        lab.advance(5).await;
        let output = lab.explain("g").await;
        let note = output.split("notes").last().unwrap().trim();
        assert_snapshot!(note, @"Jobs of its queue whose priority is lower by less than 60 are not preempted for it (preemptionPolicy.minPriorityDifference).");
        lab.stop().await;
        lab.limit_preemption(1, 25);
        lab.start();
        lab.advance(40).await;
        assert_snapshot!(lab.pods(), @r"
        low-0 Pending -: Resources were not found for pod default/low-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
        p Running n-0
        ");
    });
}
