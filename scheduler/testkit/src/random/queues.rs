//! Random clusters with a tree of queues. GPUs are requested as devices, by claims, as fractions,
//! or within one NUMA zone.

use std::fmt::Write;

use proptest::{collection::vec, option, prelude::*};

#[derive(Clone, Debug)]
struct JobLine {
    queue: usize,
    priority: u32,
    pods: u32,
    surplus: u32,
    gpus: u32,
    fixed: bool,
    request: GpuRequest,
    /// Index of the node on which the job runs at the start, if the job fits there.
    starts_on: Option<usize>,
}

/// How a node offers its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuOffer {
    Plainly,
    ByClaim,
    /// Half of the GPUs in each of two NUMA zones, with policy `single-numa-node`.
    ByZone,
}

/// How a job requests GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuRequest {
    Whole,
    Part,
    /// One claim that all pods of the job share.
    Shared,
    /// A claim on two GPUs that other jobs of its queue share.
    Common,
    /// One claim per pod of the job.
    Claims,
}

/// Random clusters with up to four nodes, two departments of two teams each, and up to a dozen
/// jobs, some of them running.
pub fn random_cluster_with_queues() -> impl Strategy<Value = String> {
    let node = prop_oneof![Just(2_u32), Just(4), Just(8)];
    let quota = prop_oneof![Just(0_u32), 1..6_u32];
    let weight = 0..4_u32;
    let gives = prop_oneof![4 => Just(GpuOffer::Plainly), 1 => Just(GpuOffer::ByClaim), 1 => Just(GpuOffer::ByZone)];
    let node = (node, gives);
    (
        vec(node, 1..5),
        vec((quota, weight, option::weighted(0.2, 2..8_u32)), 6),
        vec(random_job(), 1..12),
    )
        .prop_map(|(nodes, queues, jobs)| cluster_table(&nodes, &queues, &jobs))
}

fn random_job() -> impl Strategy<Value = JobLine> {
    let shape = (1..5_u32, 0..3_u32, 1..5_u32);
    let priority = prop_oneof![Just(40_u32), Just(50), Just(75)];
    let fixed = prop::bool::weighted(0.1);
    let request = prop_oneof![
        8 => Just(GpuRequest::Whole),
        1 => Just(GpuRequest::Part),
        1 => Just(GpuRequest::Shared),
        1 => Just(GpuRequest::Common),
        1 => Just(GpuRequest::Claims),
    ];
    (0..4_usize, priority, shape, (fixed, request), option::of(0..4_usize)).prop_map(
        |(queue, priority, (pods, surplus, gpus), (fixed, request), starts_on)| JobLine {
            queue,
            priority,
            pods,
            surplus,
            gpus,
            fixed,
            request,
            starts_on,
        },
    )
}

fn cluster_table(
    nodes: &[(u32, GpuOffer)],
    queues: &[(u32, u32, Option<u32>)],
    jobs: &[JobLine],
) -> String {
    let mut text = String::new();
    for (at, (gpus, gives)) in nodes.iter().enumerate() {
        let half = gpus / 2;
        let gives = match gives {
            GpuOffer::Plainly => String::new(),
            GpuOffer::ByClaim => " by-claim".to_owned(),
            GpuOffer::ByZone => {
                format!(" numa=single/pod zone z0:gpus={half} zone z1:gpus={half}")
            }
        };
        let _ = writeln!(text, "node n{at} gpus={gpus}{gives}");
    }
    let names = ["left", "right", "left-a", "left-b", "right-a", "right-b"];
    for (name, (quota, weight, limit)) in names.iter().zip(queues) {
        let parent = name.split_once('-').map(|(parent, _)| format!(" parent={parent}"));
        let limit = limit.map(|limit| format!(" limit={limit}")).unwrap_or_default();
        let parent = parent.unwrap_or_default();
        let _ = writeln!(text, "queue {name}{parent} quota={quota} weight={weight}{limit}");
    }
    let whole =
        |(gpus, gives): &(u32, GpuOffer)| if *gives == GpuOffer::Plainly { *gpus } else { 0 };
    let mut free: Vec<u32> = nodes.iter().map(whole).collect();
    for (at, job) in jobs.iter().enumerate() {
        let queue = names[2 + job.queue];
        let fixed = if job.fixed { " non-preemptible" } else { "" };
        let (pods, min, gpus) = (job.pods + job.surplus, job.pods, job.gpus);
        let gpus = match job.request {
            GpuRequest::Whole => format!("gpus={gpus}"),
            GpuRequest::Part => format!("part=0.{gpus}"),
            GpuRequest::Shared => format!("claim c{at}:{gpus}@{queue}"),
            GpuRequest::Common => format!("claim {queue}:2@{queue}"),
            GpuRequest::Claims => format!("gpus={gpus} by-claim"),
        };
        let _ = write!(
            text,
            "job j{at:02} pods={pods} min={min} {gpus} queue={queue} priority={}{fixed}",
            job.priority
        );
        for node in start_node_words(job, &mut free) {
            let _ = write!(text, "{node}");
        }
        text.push('\n');
    }
    text
}

/// The words ` on n1 n1` for a job line, if the whole job fits on its start node; otherwise none.
fn start_node_words(job: &JobLine, free: &mut [u32]) -> Vec<String> {
    let (pods, nodes) = (job.pods + job.surplus, free.len());
    let starts_on = job.starts_on.filter(|_| job.request == GpuRequest::Whole);
    let Some(node) = starts_on.map(|node| node % nodes) else { return Vec::new() };
    if free[node] < pods * job.gpus {
        return Vec::new();
    }
    free[node] -= pods * job.gpus;
    let places = (0..pods).map(|_| format!(" n{node}"));
    std::iter::once(" on".to_owned()).chain(places).collect()
}
