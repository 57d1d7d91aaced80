//! Failed searches are remembered across cycles: plans are the same as without the memory.
#![expect(clippy::print_stdout, reason = "prints the tried seeds")]

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use schedlab_scheduler_core::{
    Profile, SearchMemory, Snapshot,
    inspect::next_snapshot,
    model::{Pod, PodGroup, PodGroupId, PodStatus},
    schedule, schedule_with_memory,
};
use schedlab_testkit::{
    random::{failures_of_seeds, queues},
    snapshot_of,
};

/// Default number of clusters; `PROPTEST_CASES=20000` overrides it.
const CLUSTERS: u32 = 1000;
const CYCLES: u32 = 16;

#[test]
fn plans_are_the_same_with_and_without_memory() {
    let count = ProptestConfig::default().cases.max(CLUSTERS);
    let skipped = AtomicU64::new(0);
    let wrong = failures_of_seeds(count, queues::random_cluster_with_queues, |text, seed| {
        // The memory compares no claims and no NUMA zones, so most clusters have none.
        let text = if seed % 8 == 0 { text.to_owned() } else { with_whole_gpus(text) };
        let mut memory = SearchMemory::default();
        let difference = first_difference(&text, seed, &mut memory);
        skipped.fetch_add(memory.skipped_searches(), Ordering::Relaxed);
        difference
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let skipped = skipped.into_inner();
    assert!(skipped > u64::from(count) / 4, "only {skipped} searches were not repeated");
    println!("{count} clusters, {CYCLES} cycles each: {skipped} searches were not repeated");
}

#[test]
fn a_search_is_repeated_once_a_node_changes() {
    let mut snapshot = snapshot_of(
        "
        node n1 gpus=4
        node n2 gpus=4
        queue a quota=4
        queue b quota=4
        job low gpus=3 queue=a on n1
        job mid gpus=3 queue=b on n2
        job x gpus=2 queue=a
    ",
    );
    let (profile, mut memory) = (Profile::kai(), SearchMemory::default());
    let mut skipped_after_cycle = |snapshot: &Snapshot| {
        schedule_with_memory(snapshot, &profile, &mut memory, &mut ());
        memory.skipped_searches()
    };
    assert_eq!(skipped_after_cycle(&snapshot), 0);
    let again = skipped_after_cycle(&snapshot);
    assert!(again > 0, "nothing changed");
    snapshot.nodes[0].unschedulable = true;
    assert_eq!(skipped_after_cycle(&snapshot), again, "the search may have another result");
}

/// The cluster without claims and NUMA zones.
fn with_whole_gpus(text: &str) -> String {
    let line = |line: &str| {
        let words = line.split(' ').filter(|word| {
            let is_claim = ["by-claim", "zone", "claim"].contains(word);
            let is_zone = word.starts_with('z') && word.contains(":gpus=");
            !(is_claim || is_zone || word.starts_with("numa="))
        });
        let word = |word: &str| match word.split([':', '@']).collect::<Vec<_>>()[..] {
            [_, count, ..] => format!("gpus={count}"),
            _ => word.to_owned(),
        };
        words.map(word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Plays cycles with arrivals, ends and other changes between them. Returns the first plan that
/// differs.
fn first_difference(text: &str, seed: u32, memory: &mut SearchMemory) -> Option<String> {
    let (mut snapshot, profile) = (snapshot_of(text), Profile::kai());
    let mut choices = Choices(u64::from(seed));
    let has_claims = text.contains("claim");
    for cycle in 0..CYCLES {
        let plan = schedule(&snapshot, &profile);
        let remembering = schedule_with_memory(&snapshot, &profile, memory, &mut ());
        if plan != remembering {
            return Some(format!(
                "seed {seed}, cycle {cycle}:\n{text}\nwithout {plan:#?}\nwith {remembering:#?}"
            ));
        }
        snapshot = next_snapshot(&snapshot, &plan);
        match choices.next(8) {
            0 | 4 if !has_claims => add_copy_of_group(&mut snapshot, &mut choices, cycle),
            1 => end_group(&mut snapshot, &mut choices),
            2 => remove_group(&mut snapshot, &mut choices),
            3 => {
                let at = choices.next(snapshot.nodes.len());
                snapshot.nodes[at].unschedulable ^= true;
            }
            _ => {}
        }
    }
    None
}

/// Numbers that follow from a seed.
struct Choices(u64);

impl Choices {
    fn next(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % below.max(1)
    }
}

/// A job like one of those that exist arrives.
fn add_copy_of_group(snapshot: &mut Snapshot, choices: &mut Choices, cycle: u32) {
    let groups = snapshot.pod_groups.len();
    if groups == 0 {
        return;
    }
    let (of, new) = (choices.next(groups), PodGroupId(u32::try_from(groups).expect("few groups")));
    let name = format!("z{cycle:02}");
    let group = PodGroup {
        name: name.as_str().into(),
        uid: name.as_str().into(),
        created: snapshot.now,
        last_start: None,
        ..snapshot.pod_groups[of].clone()
    };
    let of = PodGroupId(u32::try_from(of).expect("few groups"));
    let pods: Vec<Pod> =
        snapshot.pods.iter().filter(|pod| pod.group == Some(of)).cloned().collect();
    for (pod, at) in pods.into_iter().zip(0..) {
        let name = format!("{name}-{at}");
        snapshot.pods.push(Pod {
            name: name.as_str().into(),
            uid: name.as_str().into(),
            group: Some(new),
            status: PodStatus::Pending,
            node: None,
            gpu_groups: Vec::new(),
            numa_allocations: Vec::new(),
            created: snapshot.now,
            ..pod
        });
    }
    snapshot.pod_groups.push(group);
}

/// All pods of a job succeed.
fn end_group(snapshot: &mut Snapshot, choices: &mut Choices) {
    let at = choices.next(snapshot.pod_groups.len());
    let group = Some(PodGroupId(u32::try_from(at).expect("few groups")));
    let running = |pod: &&mut Pod| pod.group == group && pod.status == PodStatus::Running;
    for pod in snapshot.pods.iter_mut().filter(running) {
        (pod.status, pod.node) = (PodStatus::Succeeded, None);
        pod.gpu_groups.clear();
        pod.numa_allocations.clear();
    }
}

/// A job is deleted with its pods.
fn remove_group(snapshot: &mut Snapshot, choices: &mut Choices) {
    if snapshot.pod_groups.len() < 2 {
        return;
    }
    let at = choices.next(snapshot.pod_groups.len());
    let gone = PodGroupId(u32::try_from(at).expect("few groups"));
    snapshot.pod_groups.remove(at);
    snapshot.pods.retain(|pod| pod.group != Some(gone));
    for pod in &mut snapshot.pods {
        pod.group = pod.group.map(|group| PodGroupId(group.0 - u32::from(group.0 > gone.0)));
    }
}
