//! A cluster that was captured and is replayed decides what the scheduler would decide there.

use std::io::Cursor;

use insta::assert_snapshot;
use schedlab_scheduler::{
    Config,
    captured::{Source, Wanted},
    replay::replay,
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
        let source = Source { client: lab.emulator.client(), config: Config::kai() };
        let zip = source.take().await.unwrap();
        let told = replay(Cursor::new(zip), &Wanted::default(), 5).unwrap();
        assert_snapshot!(super::lab::without_endings(&told), @r"
        1 nodes, 2 queues, 2 pod groups, 6 pods, scheduler kai-scheduler

        cycle 1
          evict default/borrowed-3 for default/owned (reclaim)
          evict default/borrowed-0 for default/owned (reclaim)
          promise default/owned-0 room on n-0
          promise default/owned-1 room on n-0

        cycle 2
          bind default/owned-0 to n-0
          bind default/owned-1 to n-0

        cycle 3
          nothing to decide

        waiting
          default/pg-borrowed (2 pods): PodSchedulingErrors: Resources were not found for pod default/borrowed-0 due to: no nodes with enough resources were found: 1 node(s) didn't have enough resources: GPUs.
            remedy: make room for 1 more pod of its size, or add nodes that have it: short of GPUs
        ");
    });
}
