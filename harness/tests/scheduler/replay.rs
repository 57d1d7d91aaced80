//! A cluster that was captured and is replayed decides what the scheduler would decide there.

use std::io::Cursor;

use insta::assert_snapshot;
use schedlab_scheduler::{
    Config,
    replay::replay,
    snapshot_file::{Overrides, SnapshotSource},
};

use super::lab::Lab;

/// Two pods that a pod grouper has put together.
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
fn a_captured_cluster_decides_what_its_scheduler_would_decide() {
    Lab::tell(async |mut lab| {
        lab.nodes(1, 4);
        lab.queue("borrower", 0, -1);
        lab.queue("owner", 2, -1);
        lab.start();
        lab.job("borrowed", "borrower", (4, 1));
        lab.pass(5).await;
        lab.stop().await;
        lab.apply(OWNED);
        let source = SnapshotSource { client: lab.emulator.client(), config: Config::kai() };
        let zip = source.capture().await.unwrap();
        let told = replay(Cursor::new(zip), &Overrides::default(), 5).unwrap();
        assert_snapshot!(super::lab::without_endings(&told), @r"
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

/// `schedlab replay` tells the same, and names the file that is none.
#[test]
fn the_harness_replays_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.zip");
    let zip = Lab::tell(async |mut lab| {
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
    let run = |words: &[&str]| {
        let schedlab = env!("CARGO_BIN_EXE_schedlab");
        std::process::Command::new(schedlab).arg("replay").args(words).output().unwrap()
    };
    let shown = path.to_str().unwrap();
    let told = run(&[shown, "--cycles", "2"]);
    let expected = replay(Cursor::new(zip), &Overrides::default(), 2).unwrap();
    assert!(expected.contains("bind default/owned-0 to n-0"), "{expected}");
    assert_eq!(String::from_utf8(told.stdout).unwrap(), expected);
    std::fs::write(&path, "no zip").unwrap();
    let refused = run(&[shown]);
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.starts_with(&format!("schedlab: {shown}: got no complete zip")), "{words}");
}
