//! Snapshots of the generated clusters.

use std::collections::BTreeMap;

use insta::assert_snapshot;

use super::*;

/// Nodes with their domains, queues with their quotas, and jobs by queue.
fn output(snapshot: &Snapshot) -> String {
    let nodes = snapshot.nodes.iter().map(|node| {
        let label = |key: &str| node.labels.get(key).map_or("", |value| &**value);
        let gpus = node.allocatable.gpu_milli / 1000;
        format!("{} {gpus} {} {}", node.name, label(ZONE_LABEL), label(RACK_LABEL))
            .trim()
            .to_owned()
    });
    let queues = snapshot.queues.iter().map(|queue| {
        let parent = queue.parent.map_or("", |parent| &*snapshot.queues[parent.0 as usize].name);
        let Amount::Exactly(quota) = queue.quota.gpu else { panic!("a quota of GPUs") };
        format!("{parent}/{} {}", queue.name, quota / 1000)
    });
    let mut jobs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (group, at) in snapshot.pod_groups.iter().zip(0..) {
        let queue = group.queue.clone().unwrap().unwrap();
        let of_queue = jobs.entry(&snapshot.queues[queue.0 as usize].name).or_default();
        of_queue.push(job(snapshot, group, PodGroupId(at)));
    }
    let jobs = jobs.into_iter().map(|(queue, jobs)| format!("{queue}: {}", in_runs(&jobs)));
    let parts = [nodes.collect::<Vec<_>>().join(", "), queues.collect::<Vec<_>>().join(", ")];
    parts.into_iter().chain(jobs).collect::<Vec<_>>().join("\n")
}

/// `4x2 pinned on 0 in zone`: four pods of two GPUs each.
fn job(snapshot: &Snapshot, group: &PodGroup, id: PodGroupId) -> String {
    let pods: Vec<&Pod> = snapshot.pods.iter().filter(|pod| pod.group == Some(id)).collect();
    let shape = |pod: &Pod| &snapshot.shapes[pod.shape.0 as usize];
    let gpus = shape(pods[0]).requests.gpu_milli / 1000;
    assert_eq!(group.sub_groups[0].min_member as usize, pods.len());
    let required = group.topology.as_ref().and_then(|topology| topology.required.as_ref());
    let last = |label: &Name| label.rsplit('/').next().unwrap_or_default().to_owned();
    let apart = pods.iter().flat_map(|pod| &shape(pod).pod_anti_affinity).next();
    assert!(apart.is_none_or(|term| pods.iter().all(|pod| labels_match_own(term, pod))));
    let words = [
        Some(format!("{}x{gpus}", pods.len())),
        (!group.preemptible).then(|| "pinned".to_owned()),
        pods[0].node.map(|node| format!("on {}", node.0)),
        required.map(|level| format!("in a {}", last(level))),
        apart.map(|term| format!("apart by {}", last(&term.topology_key))),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn labels_match_own(term: &PodAffinityTerm, pod: &Pod) -> bool {
    let requirements = &term.selector.as_ref().unwrap().requirements;
    requirements.iter().all(|it| pod.labels.get(&it.key) == it.values.first())
}

/// `a, 3 times b`.
fn in_runs(words: &[String]) -> String {
    let runs = words.chunk_by(|one, next| one == next).map(|run| match run.len() {
        1 => run[0].clone(),
        count => format!("{count} times {}", run[0]),
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[test]
fn pending_jobs_take_turns_between_queues() {
    assert_snapshot!(output(&pending_singles(2, 3)), @"
    node-00000 8, node-00001 8
    /department-a 8, /department-b 8, department-a/queue-0000 5, department-b/queue-0001 5, department-a/queue-0002 5
    queue-0000: 6 times 1x1
    queue-0001: 5 times 1x1
    queue-0002: 5 times 1x1
    ");
    assert_snapshot!(output(&pending_jobs(1, 6)), @"
    node-00000 8
    /department-a 4, /department-b 4, department-a/queue-0000 2, department-b/queue-0001 2, department-a/queue-0002 2, department-b/queue-0003 2
    queue-0000: 2 times 1x1
    queue-0001: 2 times 1x1
    queue-0002: 1x1
    queue-0003: 1x1
    ");
    assert_snapshot!(output(&half_running_jobs(2, 6)), @"
    node-00000 8, node-00001 8
    /department-a 8, /department-b 8, department-a/queue-0000 4, department-b/queue-0001 4, department-a/queue-0002 4, department-b/queue-0003 4
    queue-0000: 2 times 1x1 on 0
    queue-0001: 2 times 1x1
    queue-0002: 1x1 on 0
    queue-0003: 1x1
    ");
}

#[test]
fn a_fleet_at_work_has_a_free_gpu_on_every_second_node() {
    let snapshot = full_fleet(160);
    let mut taken = [0; 160];
    for node in snapshot.pods.iter().filter_map(|pod| pod.node) {
        taken[node.0 as usize] += 1;
    }
    assert!(taken.chunks(2).all(|pair| pair == [8, 7]), "{taken:?}");
    let waits = |gpus: i64| {
        let pods = snapshot.pods.iter().filter(|pod| pod.node.is_none());
        let requested = pods.map(|pod| snapshot.shapes[pod.shape.0 as usize].requests.gpu_milli);
        requested.filter(|milli| *milli == gpus * 1000).count()
    };
    assert_eq!([waits(1), waits(2), waits(4), waits(8)], [100, 100, 100, 100]);
    assert_eq!((snapshot.queues.len(), taken.len()), (102, 160));
}

#[test]
fn borrowed_gpus_are_reclaimable() {
    assert_snapshot!(output(&large_gang_against_singles(2)), @"
    node-00000 8, node-00001 8
    /department 16, department/queue-borrower 0, department/queue-owner 16
    queue-borrower: 8 times 1x1 on 0, 8 times 1x1 on 1
    queue-owner: 1x8
    ");
    assert_snapshot!(output(&singles_against_singles(1)), @"
    node-00000 8
    /department 8, department/queue-borrower 0, department/queue-owner 8
    queue-borrower: 8 times 1x1 on 0
    queue-owner: 8 times 1x1
    ");
    assert_snapshot!(output(&infeasible_gang_against_singles(2)), @"
    node-00000 8, node-00001 8
    /department 16, department/queue-borrower 0, department/queue-owner 16
    queue-borrower: 1x1 pinned on 0, 7 times 1x1 on 0, 1x1 pinned on 1, 7 times 1x1 on 1
    queue-owner: 10x8
    ");
}

#[test]
fn gangs_require_one_domain_each() {
    assert_snapshot!(output(&gangs_in_one_domain_against_singles(10)), @"
    node-00000 8 zone-000 rack-0000, node-00001 8 zone-000 rack-0000, node-00002 8 zone-000 rack-0000, node-00003 8 zone-000 rack-0000, node-00004 8 zone-000 rack-0000, node-00005 8 zone-000 rack-0000, node-00006 8 zone-000 rack-0000, node-00007 8 zone-000 rack-0000, node-00008 8 zone-000 rack-0001, node-00009 8 zone-000 rack-0001
    /department-0 16, department-0/queue-0-0 1, department-0/queue-0-1 1, department-0/queue-0-2 1, department-0/queue-0-3 1, department-0/queue-0-4 1, department-0/queue-0-5 1, department-0/queue-0-6 1, department-0/queue-0-7 1, department-0/queue-0-8 1, department-0/queue-0-9 1, /department-1 16, department-1/queue-1-0 1, department-1/queue-1-1 1, department-1/queue-1-2 1, department-1/queue-1-3 1, department-1/queue-1-4 1, department-1/queue-1-5 1, department-1/queue-1-6 1, department-1/queue-1-7 1, department-1/queue-1-8 1, department-1/queue-1-9 1, /department-2 16, department-2/queue-2-0 1, department-2/queue-2-1 1, department-2/queue-2-2 1, department-2/queue-2-3 1, department-2/queue-2-4 1, department-2/queue-2-5 1, department-2/queue-2-6 1, department-2/queue-2-7 1, department-2/queue-2-8 1, department-2/queue-2-9 1, /department-3 16, department-3/queue-3-0 1, department-3/queue-3-1 1, department-3/queue-3-2 1, department-3/queue-3-3 1, department-3/queue-3-4 1, department-3/queue-3-5 1, department-3/queue-3-6 1, department-3/queue-3-7 1, department-3/queue-3-8 1, department-3/queue-3-9 1, /department-4 16, department-4/queue-4-0 1, department-4/queue-4-1 1, department-4/queue-4-2 1, department-4/queue-4-3 1, department-4/queue-4-4 1, department-4/queue-4-5 1, department-4/queue-4-6 1, department-4/queue-4-7 1, department-4/queue-4-8 1, department-4/queue-4-9 1
    queue-0-0: 1x1 on 0, 1x1 on 3, 1x1 on 4, 1x1 on 5, 1x1 on 6, 1x1 on 7, 1x1 on 8, 1x1 on 9
    queue-0-1: 1x1 on 0, 1x1 on 1, 1x1 on 4, 1x1 on 5, 1x1 on 6, 1x1 on 7, 1x1 on 8, 1x1 on 9
    queue-0-2: 1x1 on 0, 1x1 on 1, 1x1 on 2, 1x1 on 5, 1x1 on 6, 1x1 on 7, 1x1 on 8, 1x1 on 9
    queue-0-3: 1x1 on 0, 1x1 on 1, 1x1 on 2, 1x1 on 3, 1x1 on 6, 1x1 on 7, 1x1 on 8, 1x1 on 9
    queue-0-4: 1x1 on 0, 1x1 on 1, 1x1 on 2, 1x1 on 3, 1x1 on 4, 1x1 on 7, 1x1 on 8, 1x1 on 9
    queue-0-5: 1x1 on 0, 1x1 on 1, 1x1 on 2, 1x1 on 3, 1x1 on 4, 1x1 on 5, 1x1 on 8, 1x1 on 9
    queue-0-6: 1x1 on 0, 1x1 on 1, 1x1 on 2, 1x1 on 3, 1x1 on 4, 1x1 on 5, 1x1 on 6, 1x1 on 9
    queue-0-7: 1x1 on 0, 1x1 on 1, 1x1 on 2, 1x1 on 3, 1x1 on 4, 1x1 on 5, 1x1 on 6, 1x1 on 7
    queue-0-8: 1x1 on 1, 1x1 on 2, 1x1 on 3, 1x1 on 4, 1x1 on 5, 1x1 on 6, 1x1 on 7, 1x1 on 8
    queue-0-9: 1x1 on 2, 1x1 on 3, 1x1 on 4, 1x1 on 5, 1x1 on 6, 1x1 on 7, 1x1 on 8, 1x1 on 9
    queue-1-0: 4x1 in a rack, 16x1 in a rack, 8x2 in a rack
    queue-1-2: 4x2 in a zone, 16x2 in a zone, 8x8 in a zone
    queue-1-4: 8x2 in a rack, 4x8 in a rack, 16x8 in a rack
    queue-1-6: 8x8 in a zone, 4x1 in a rack, 16x1 in a rack
    queue-1-8: 16x8 in a rack, 8x1 in a zone, 4x2 in a zone
    queue-2-1: 8x1 in a rack, 4x2 in a rack, 16x2 in a rack
    queue-2-3: 8x2 in a zone, 4x8 in a zone, 16x8 in a zone
    queue-2-5: 16x2 in a rack, 8x8 in a rack, 4x1 in a zone
    queue-2-7: 16x8 in a zone, 8x1 in a rack, 4x2 in a rack
    queue-2-9: 4x1 in a zone, 16x1 in a zone, 8x2 in a zone
    queue-3-0: 8x1 in a zone, 4x2 in a zone, 16x2 in a zone
    queue-3-2: 16x1 in a rack, 8x2 in a rack, 4x8 in a rack
    queue-3-4: 16x2 in a zone, 8x8 in a zone, 4x1 in a rack
    queue-3-6: 4x8 in a rack, 16x8 in a rack, 8x1 in a zone
    queue-3-8: 4x1 in a rack, 16x1 in a rack, 8x2 in a rack
    queue-4-1: 16x1 in a zone, 8x2 in a zone, 4x8 in a zone
    queue-4-3: 4x2 in a rack, 16x2 in a rack, 8x8 in a rack
    queue-4-5: 4x8 in a zone, 16x8 in a zone, 8x1 in a rack
    queue-4-7: 8x8 in a rack, 4x1 in a zone, 16x1 in a zone
    queue-4-9: 8x1 in a rack, 4x2 in a rack, 16x2 in a rack
    ");
}

#[test]
fn gangs_require_separate_domains() {
    assert_snapshot!(output(&gangs_in_separate_domains_against_singles(1)), @"
    node-00000 8 zone-000 rack-0000
    /department-0 1, department-0/queue-0-0 0, department-0/queue-0-1 0, department-0/queue-0-2 0, department-0/queue-0-3 0, department-0/queue-0-4 0, department-0/queue-0-5 0, department-0/queue-0-6 0, department-0/queue-0-7 0, department-0/queue-0-8 0, department-0/queue-0-9 0, /department-1 1, department-1/queue-1-0 0, department-1/queue-1-1 0, department-1/queue-1-2 0, department-1/queue-1-3 0, department-1/queue-1-4 0, department-1/queue-1-5 0, department-1/queue-1-6 0, department-1/queue-1-7 0, department-1/queue-1-8 0, department-1/queue-1-9 0, /department-2 1, department-2/queue-2-0 0, department-2/queue-2-1 0, department-2/queue-2-2 0, department-2/queue-2-3 0, department-2/queue-2-4 0, department-2/queue-2-5 0, department-2/queue-2-6 0, department-2/queue-2-7 0, department-2/queue-2-8 0, department-2/queue-2-9 0, /department-3 1, department-3/queue-3-0 0, department-3/queue-3-1 0, department-3/queue-3-2 0, department-3/queue-3-3 0, department-3/queue-3-4 0, department-3/queue-3-5 0, department-3/queue-3-6 0, department-3/queue-3-7 0, department-3/queue-3-8 0, department-3/queue-3-9 0, /department-4 1, department-4/queue-4-0 0, department-4/queue-4-1 0, department-4/queue-4-2 0, department-4/queue-4-3 0, department-4/queue-4-4 0, department-4/queue-4-5 0, department-4/queue-4-6 0, department-4/queue-4-7 0, department-4/queue-4-8 0, department-4/queue-4-9 0
    queue-0-0: 1x1 on 0
    queue-0-1: 1x1 on 0
    queue-0-2: 1x1 on 0
    queue-0-3: 1x1 on 0
    queue-0-4: 1x1 on 0
    queue-0-5: 1x1 on 0
    queue-0-6: 1x1 on 0
    queue-0-7: 1x1 on 0
    queue-1-0: 4x1 apart by rack, 16x1 apart by rack, 8x2 apart by rack
    queue-1-2: 4x2 apart by hostname, 16x2 apart by hostname, 8x8 apart by hostname
    queue-1-4: 8x2 apart by rack, 4x8 apart by rack, 16x8 apart by rack
    queue-1-6: 8x8 apart by hostname, 4x1 apart by rack, 16x1 apart by rack
    queue-1-8: 16x8 apart by rack, 8x1 apart by hostname, 4x2 apart by hostname
    queue-2-1: 8x1 apart by rack, 4x2 apart by rack, 16x2 apart by rack
    queue-2-3: 8x2 apart by hostname, 4x8 apart by hostname, 16x8 apart by hostname
    queue-2-5: 16x2 apart by rack, 8x8 apart by rack, 4x1 apart by hostname
    queue-2-7: 16x8 apart by hostname, 8x1 apart by rack, 4x2 apart by rack
    queue-2-9: 4x1 apart by hostname, 16x1 apart by hostname, 8x2 apart by hostname
    queue-3-0: 8x1 apart by hostname, 4x2 apart by hostname, 16x2 apart by hostname
    queue-3-2: 16x1 apart by rack, 8x2 apart by rack, 4x8 apart by rack
    queue-3-4: 16x2 apart by hostname, 8x8 apart by hostname, 4x1 apart by rack
    queue-3-6: 4x8 apart by rack, 16x8 apart by rack, 8x1 apart by hostname
    queue-3-8: 4x1 apart by rack, 16x1 apart by rack, 8x2 apart by rack
    queue-4-1: 16x1 apart by hostname, 8x2 apart by hostname, 4x8 apart by hostname
    queue-4-3: 4x2 apart by rack, 16x2 apart by rack, 8x8 apart by rack
    queue-4-5: 4x8 apart by hostname, 16x8 apart by hostname, 8x1 apart by rack
    queue-4-7: 8x8 apart by rack, 4x1 apart by hostname, 16x1 apart by hostname
    queue-4-9: 8x1 apart by rack, 4x2 apart by rack, 16x2 apart by rack
    ");
}
