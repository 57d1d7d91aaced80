//! Nodes that a scheduler leaves out for their labels: who waits for them is told so, and runs when
//! one is labelled as told.

use std::io::Cursor;

use insta::assert_snapshot;
use schedlab_json::json;
use schedlab_scheduler::{
    NodePool,
    explain::OutputFormat,
    replay::replay,
    snapshot_file::{Overrides, SnapshotSource},
};

use super::lab::{Lab, without_endings};

#[test]
fn a_job_waits_for_the_first_node_that_is_labelled_for_work_with_gpus() {
    Lab::tell(async |mut lab| {
        lab.config.restrict_nodes(true);
        lab.nodes(2, 4);
        lab.queue("team", 4, -1);
        lab.start();
        lab.job("train", "team", (2, 2));
        lab.pass(5).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-train {"minMember":2,"priorityClassName":"train","queue":"team"} "PodSchedulingErrors": "Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are excluded. Remedy: add label node-role.kubernetes.io/gpu-worker to as many of 2 excluded nodes as its pods need, such as n-0""#);
        assert_snapshot!(lab.explain("train").await, @r"
        pod group default/pg-train waits
          0 of its pods have a node, 2 wait, 2 must run together
          priority 50, preemptible

        reason: PodSchedulingErrors
          Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are excluded.

        remedy: add label node-role.kubernetes.io/gpu-worker to as many of 2 excluded nodes as its pods need, such as n-0
          not tried: a copy of the cluster cannot show it

        queues, from the workload's up
          team: GPUs: quota 4, limit unlimited, fair share 2, allocated 0 (of that 0 non-preemptible), requested 2

        plugins, whatever the node
          UsableQueue: passes
          Gang: passes
          QueueLimits: passes

        nodes for pod default/train-0-rbxwg, which asks for 1 GPU
          2 nodes (n-0, n-1): left out for lack of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker
        ");
        let told = lab.explain_as("train", OutputFormat::Json).await;
        let told: schedlab_json::Value = serde_json::from_str(&told).unwrap();
        assert_snapshot!(told["explained"]["nodes"]["leftOut"], @r#"[{"nodes":["n-0","n-1"],"why":"for lack of label node-role.kubernetes.io/gpu-worker or node-role.kubernetes.io/cpu-worker"}]"#);
        let source = SnapshotSource { client: lab.emulator.client(), config: lab.config.clone() };
        let zip = source.capture().await.unwrap();
        let told = replay(Cursor::new(zip), &Overrides::default(), 1).unwrap();
        assert_snapshot!(without_endings(&told), @r"
        0 nodes, 1 queues, 1 pod groups, 2 pods, scheduler kai-scheduler

        cycle 1
          no decisions

        waiting
          default/pg-train (2 pods): PodSchedulingErrors: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled node-role.kubernetes.io/gpu-worker; 2 others are excluded.
            remedy: add label node-role.kubernetes.io/gpu-worker to as many of 2 excluded nodes as its pods need, such as n-0
        ");
        let label =
            json!({ "metadata": { "labels": { "node-role.kubernetes.io/gpu-worker": "" } } });
        lab.patch("/api/v1/nodes/n-1", &label).await;
        lab.pass(5).await;
        assert_eq!(lab.pods().matches(" Running ").count(), 2);
    });
}

#[test]
fn a_job_waits_for_the_first_node_of_its_pool() {
    Lab::tell(async |mut lab| {
        let (label, value) = ("pool".to_owned(), "a".to_owned());
        lab.config.node_pool = Some(NodePool { label, value });
        lab.nodes(2, 4);
        lab.queue("team", 4, -1);
        let labels = json!({ "metadata": { "labels": { "pool": "a" } } });
        lab.patch("/apis/scheduling.run.ai/v2/queues/team", &labels).await;
        lab.job("train", "team", (2, 2));
        lab.patch("/apis/batch/v1/namespaces/default/jobs/train", &labels).await;
        lab.start();
        lab.pass(5).await;
        assert_snapshot!(lab.pod_groups(), @r#"pg-train {"minMember":2,"priorityClassName":"train","queue":"team"} "PodSchedulingErrors": "Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled pool=a; 2 others are excluded. Remedy: add label pool=a to as many of 2 excluded nodes as its pods need, such as n-0""#);
        let source = SnapshotSource { client: lab.emulator.client(), config: lab.config.clone() };
        let zip = source.capture().await.unwrap();
        let told = replay(Cursor::new(zip), &Overrides::default(), 1).unwrap();
        assert_snapshot!(without_endings(&told), @r"
        0 nodes, 1 queues, 1 pod groups, 2 pods, scheduler kai-scheduler

        cycle 1
          no decisions

        waiting
          default/pg-train (2 pods): PodSchedulingErrors: Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be scheduled due to: no nodes with enough resources were found: there are no nodes labelled pool=a; 2 others are excluded.
            remedy: add label pool=a to as many of 2 excluded nodes as its pods need, such as n-0
        ");
        lab.patch("/api/v1/nodes/n-1", &labels).await;
        lab.pass(5).await;
        assert_eq!(lab.pods().matches(" Running ").count(), 2);
    });
}
