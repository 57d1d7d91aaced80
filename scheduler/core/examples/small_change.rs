//! Times cycles after one pod came to a settled fleet, with and without what the last cycle
//! derived: `small_change [NODES]`. The wall times are for people to read; tests assert that both
//! decide the same.
#![expect(clippy::print_stdout, reason = "prints its measurements")]
#![expect(clippy::disallowed_methods, reason = "measures from outside the core")]

use std::time::{Duration, Instant};

use schedlab_scheduler_core::{
    Decision, Plan, Profile, SearchMemory, Snapshot,
    framework::KeptSession,
    model::{ListEdit, Pod, PodGroup, PodGroupId, PodId, PodStatus, SnapshotChanges},
    schedule, schedule_kept,
};
use schedlab_testkit::synthetic;

fn main() {
    let nodes = std::env::args().nth(1).and_then(|nodes| nodes.parse().ok()).unwrap_or(4000);
    let (mut snapshot, profile) = (synthetic::settled_fleet(nodes), Profile::kai());
    let (mut kept, mut memory) = (KeptSession::default(), SearchMemory::default());
    let mut changes = SnapshotChanges::everything();
    println!("{:>5} {:>8} {:>8} {:>8}  decisions", "cycle", "edit", "kept", "anew");
    for cycle in 0..12 {
        let (edit, ()) = timed(|| {
            if cycle % 2 == 1 {
                changes = add_job(&mut snapshot, cycle * 7919 % 40_000);
            }
        });
        let (with, plan) =
            timed(|| schedule_kept(&mut kept, &mut memory, &changes, &snapshot, &profile, &mut ()));
        let (anew, same) = timed(|| schedule(&snapshot, &profile));
        assert_eq!(plan, same, "both decide the same");
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "{cycle:>5} {:>8.2} {:>8.2} {:>8.2}  {}",
            ms(edit),
            ms(with),
            ms(anew),
            plan.decisions.len()
        );
        changes = apply_bindings(&mut snapshot, &plan);
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Adds a job of one pod with one GPU before the job at this position.
fn add_job(snapshot: &mut Snapshot, at: u32) -> SnapshotChanges {
    let before = snapshot.pod_groups[at as usize].clone();
    let name = format!("{}-new", before.name);
    let group = PodGroup { name: name.as_str().into(), uid: name.as_str().into(), ..before };
    let group = PodGroup { last_start: None, ..group };
    let first = snapshot.pods[at as usize].clone();
    let pod = Pod { node: None, status: PodStatus::Pending, started: None, ..first };
    let pod = Pod { name: group.name.clone(), uid: group.uid.clone(), ..pod };
    let edit = ListEdit::new(Vec::new(), &[at + 1]);
    edit.apply(&mut snapshot.pod_groups, |_| group.clone());
    for pod in &mut snapshot.pods {
        pod.group = pod.group.map(|group| PodGroupId(group.0 + u32::from(group.0 > at)));
    }
    let pod = Pod { group: Some(PodGroupId(at + 1)), ..pod };
    edit.apply(&mut snapshot.pods, |_| pod.clone());
    SnapshotChanges {
        group_edit: edit.clone(),
        groups: [PodGroupId(at + 1)].into(),
        pod_edit: edit,
        pods: [PodId(at + 1)].into(),
        ..SnapshotChanges::default()
    }
}

fn apply_bindings(snapshot: &mut Snapshot, plan: &Plan) -> SnapshotChanges {
    let mut changes = SnapshotChanges::default();
    for decision in &plan.decisions {
        if let Decision::Bind { pod, node } = decision {
            let bound = &mut snapshot.pods[pod.0 as usize];
            (bound.status, bound.node) = (PodStatus::Running, Some(*node));
            changes.pods.insert(*pod);
        }
    }
    changes
}
