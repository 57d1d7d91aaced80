//! Replaying a snapshot file of a cluster gives the decisions that the scheduler would make there.

use std::io::Cursor;

use insta::assert_snapshot;
use schedlab_scheduler::{
    Config,
    replay::replay,
    snapshot_file::{Overrides, SnapshotSource},
};

use super::lab::Lab;

/// Two pods in a pod group.
const OWNED: &str = "
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: { name: owned }
spec: { queue: owner, minMember: 2, priorityClassName: train }
---
apiVersion: v1
kind: Pod
metadata: { name: owned-0, annotations: { pod-group-name: owned } }
spec:
  schedulerName: kai-scheduler
  containers: [{ name: main, image: train, resources: { limits: { nvidia.com/gpu: 1 } } }]
---
apiVersion: v1
kind: Pod
metadata: { name: owned-1, annotations: { pod-group-name: owned } }
spec:
  schedulerName: kai-scheduler
  containers: [{ name: main, image: train, resources: { limits: { nvidia.com/gpu: 1 } } }]
";

#[test]
fn a_replayed_snapshot_gives_the_decisions_of_the_scheduler() {
    Lab::run(async |mut lab| {
        lab.nodes(1, 4);
        lab.queue("borrower", 0, -1);
        lab.queue("owner", 2, -1);
        lab.start();
        lab.job("borrowed", "borrower", 4, 1);
        lab.advance(5).await;
        lab.stop().await;
        lab.apply(OWNED);
        let source = SnapshotSource { client: lab.emulator.client(), config: Config::kai() };
        let zip = source.capture().await.unwrap();
        let output = replay(Cursor::new(zip), &Overrides::default(), 5).unwrap();
        assert_snapshot!(super::lab::without_random_suffixes(&output), @r"
        1 node, 2 queues, 2 pod groups, 6 pods, scheduler kai-scheduler

        cycle 1
          evict default/borrowed-3 for default/owned (reclaim)
          evict default/borrowed-0 for default/owned (reclaim)
          pipeline default/owned-0 to n-0
          pipeline default/owned-1 to n-0

        cycle 2
          bind default/owned-0 to n-0
          bind default/owned-1 to n-0

        cycle 3
          no decisions

        waiting
          default/pg-borrowed (2 pods): PodSchedulingErrors: Resources were not found for pod default/borrowed-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
            remedy: free capacity for 1 more pod of its size, or add nodes that have it: short of GPUs
        ");
    });
}

/// `schedlab replay` prints the same, and names a file that is not a snapshot.
#[test]
fn schedlab_replay_prints_the_same_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.zip");
    let zip = Lab::run(async |mut lab| {
        lab.nodes(1, 4);
        lab.queue("owner", 2, -1);
        lab.start();
        lab.stop().await;
        lab.apply(OWNED);
        SnapshotSource { client: lab.emulator.client(), config: Config::kai() }
            .capture()
            .await
            .unwrap()
    });
    std::fs::write(&path, &zip).unwrap();
    let run = |args: &[&str]| {
        let schedlab = env!("CARGO_BIN_EXE_schedlab");
        std::process::Command::new(schedlab).arg("replay").args(args).output().unwrap()
    };
    let file = path.to_str().unwrap();
    let output = run(&[file, "--cycles", "2"]);
    let expected = replay(Cursor::new(zip), &Overrides::default(), 2).unwrap();
    assert!(expected.contains("bind default/owned-0 to n-0"), "{expected}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    std::fs::write(&path, "no zip").unwrap();
    let refused = run(&[file]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(
        error.starts_with(&format!("schedlab: {file}: got \"no zip\", expected a snapshot")),
        "{error}"
    );
}
