//! Nodes that a scheduler excludes because of their labels: pending jobs report them, and run once
//! a node gets the suggested label.

use std::io::Cursor;

use insta::assert_snapshot;
use schedlab_api::json;
use schedlab_scheduler::{
    NodePool,
    explain::OutputFormat,
    replay::replay,
    snapshot_file::{Overrides, SnapshotSource},
};

use super::lab::{Lab, without_random_suffixes};

#[test]
fn a_gpu_job_is_pending_until_a_node_has_the_gpu_worker_label() {
    Lab::run(async |mut lab| {
        lab.config.restrict_nodes(true);
        lab.nodes(2, 4);
        lab.queue("team", 4, -1);
        lab.start();
        lab.job("train", "team", 2, 2);
        lab.advance(5).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-train {"minMember":2,"priorityClassName":"train","queue":"team"} "PodSchedulingErrors": "Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are excluded. Remedy: add label node-role.kubernetes.io/gpu-worker to as many of 2 excluded nodes as its pods need, such as n-0""#);
        assert_snapshot!(lab.explain("train").await, @"
        pod group default/pg-train is pending
          pods: 0 with a node, 2 pending, 2 required to run
          priority 50, preemptible

        reason: PodSchedulingErrors
          Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are excluded.

        remedy: add label node-role.kubernetes.io/gpu-worker to as many of 2 excluded nodes as its pods need, such as n-0
          not simulated: it depends on more than the snapshot

        queues, from leaf to root
          team: GPUs: quota 4, limit unlimited, fair share 2, allocated 0 (of that 0 non-preemptible), requested 2

        plugins, independent of nodes
          UsableQueue: passes
          Gang: passes
          QueueLimits: passes

        nodes for pod default/train-0-dw9xr, which requests 1 GPU
          2 nodes (n-0, n-1): excluded for lack of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker
        ");
        let output = lab.explain_as("train", OutputFormat::Json).await;
        let output: schedlab_api::Value = serde_json::from_str(&output).unwrap();
        assert_snapshot!(output["explained"]["nodes"]["leftOut"], @r#"[{"nodes":["n-0","n-1"],"why":"for lack of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker"}]"#);
        let source = SnapshotSource { client: lab.emulator.client(), config: lab.config.clone() };
        let zip = source.capture().await.unwrap();
        let output = replay(Cursor::new(zip), &Overrides::default(), 1).unwrap();
        assert_snapshot!(without_random_suffixes(&output), @r"
        0 nodes, 1 queue, 1 pod group, 2 pods, scheduler kai-scheduler

        cycle 1
          no decisions

        waiting
          default/pg-train (2 pods): PodSchedulingErrors: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are excluded.
            remedy: add label node-role.kubernetes.io/gpu-worker to as many of 2 excluded nodes as its pods need, such as n-0
        ");
        let label =
            json!({ "metadata": { "labels": { "node-role.kubernetes.io/gpu-worker": "" } } });
        lab.patch("/api/v1/nodes/n-1", &label).await;
        lab.advance(5).await;
        assert_eq!(lab.pods().matches(" Running ").count(), 2);
    });
}

#[test]
fn a_job_is_pending_until_a_node_has_the_label_of_its_pool() {
    Lab::run(async |mut lab| {
        let (label, value) = ("pool".to_owned(), "a".to_owned());
        lab.config.node_pool = Some(NodePool { label, value });
        lab.nodes(2, 4);
        lab.queue("team", 4, -1);
        let labels = json!({ "metadata": { "labels": { "pool": "a" } } });
        lab.patch("/apis/scheduling.run.ai/v2/queues/team", &labels).await;
        lab.job("train", "team", 2, 2);
        lab.patch("/apis/batch/v1/namespaces/default/jobs/train", &labels).await;
        lab.start();
        lab.advance(5).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-train {"minMember":2,"priorityClassName":"train","queue":"team"} "PodSchedulingErrors": "Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled pool=a; 2 others are excluded. Remedy: add label pool=a to as many of 2 excluded nodes as its pods need, such as n-0""#);
        let source = SnapshotSource { client: lab.emulator.client(), config: lab.config.clone() };
        let zip = source.capture().await.unwrap();
        let output = replay(Cursor::new(zip), &Overrides::default(), 1).unwrap();
        assert_snapshot!(without_random_suffixes(&output), @r"
        0 nodes, 1 queue, 1 pod group, 2 pods, scheduler kai-scheduler

        cycle 1
          no decisions

        waiting
          default/pg-train (2 pods): PodSchedulingErrors: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled pool=a; 2 others are excluded.
            remedy: add label pool=a to as many of 2 excluded nodes as its pods need, such as n-0
        ");
        lab.patch("/api/v1/nodes/n-1", &labels).await;
        lab.advance(5).await;
        assert_eq!(lab.pods().matches(" Running ").count(), 2);
    });
}
