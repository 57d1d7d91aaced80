//! Random clusters with all kinds of requests: affinity, taints, ports, claims and NUMA zones.

use std::fmt::Write;

use proptest::prelude::*;

/// A job of a random cluster, which becomes one line of the text cluster.
#[derive(Clone, Debug)]
struct JobLine {
    pods: u32,
    minimum: u32,
    gpus: u32,
    cpu: u32,
    queue: u32,
    priority: u32,
    running: u32,
    extra: &'static str,
}

fn random_job() -> impl Strategy<Value = JobLine> {
    let extras = prop_oneof![
        12 => Just(""),
        1 => Just("label app=x far app=x/host"),
        1 => Just("label app=x near app=x/zone"),
        1 => Just("near app=x/host"),
        1 => Just("label app=x spread app=x/zone/1"),
        1 => Just("label app=x likes app=x/zone"),
        1 => Just("needs zone=a"),
        1 => Just("tolerates dedicated"),
        1 => Just("port=80"),
        1 => Just("releasing"),
        1 => Just("nominated=n0"),
        3 => Just("guaranteed"),
        1 => Just("claim x:nic*1"),
        1 => Just("claim y:nic*2"),
    ];
    (1..5_u32, 1..5_u32, 0..5_u32, 0..5_u32, 0..3_u32, 0..4_u32, 0..6_u32, extras).prop_map(
        |(pods, minimum, gpus, cpu, queue, priority, running, extra)| JobLine {
            pods,
            minimum: minimum.min(pods),
            gpus,
            cpu,
            queue,
            priority: [40, 50, 60, 100][priority as usize],
            running: if running > pods || extra.starts_with("claim") { 0 } else { running },
            extra,
        },
    )
}

/// Random clusters with nodes in zones, whose pods have selectors and other constraints; running
/// pods fit on their nodes.
pub fn random_cluster_with_selectors() -> impl Strategy<Value = String> {
    let nodes = prop::collection::vec((0..9_u32, 4..20_u32, 0..11_u32), 1..6);
    let queues = prop::collection::vec((0..9_i32, -1..9_i32), 3..4);
    (nodes, queues, prop::collection::vec(random_job(), 0..14)).prop_map(|(nodes, queues, jobs)| {
        let mut text = String::new();
        for (at, (gpus, cpu, kind)) in nodes.iter().enumerate() {
            let zone = if at % 2 == 0 { "a" } else { "b" };
            let zones = |policy| {
                let half = format!("gpus={},cpu={}", gpus / 2, cpu / 2);
                format!("numa={policy}/pod zone z0:{half} zone z1:{half}")
            };
            let kind = match kind {
                0 => "taint dedicated=x:NoSchedule".to_owned(),
                1 => "cordoned".to_owned(),
                2 => "not-ready".to_owned(),
                3 => zones("single"),
                4 => zones("restricted"),
                5 => zones("best-effort"),
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "node n{at} gpus={gpus} cpu={cpu} label zone={zone} extended nic={} {kind}",
                at % 3
            );
        }
        text.push_str("queue lab quota=8 limit=20\n");
        for (at, (quota, limit)) in queues.iter().enumerate() {
            let parent = if at < 2 { "parent=lab" } else { "" };
            let _ = writeln!(text, "queue q{at} {parent} quota={quota} limit={limit}");
        }
        let mut free: Vec<(u32, u32)> = nodes.iter().map(|(gpus, cpu, _)| (*gpus, *cpu)).collect();
        for (at, job) in jobs.iter().enumerate() {
            job.write_line(&mut text, at, &mut free);
        }
        text
    })
}

impl JobLine {
    fn write_line(&self, text: &mut String, at: usize, free: &mut [(u32, u32)]) {
        let Self { pods, minimum, gpus, cpu, queue, priority, extra, .. } = self;
        let _ = write!(
            text,
            "job j{at:02} pods={pods} min={minimum} gpus={gpus} cpu={cpu} queue=q{queue} \
             priority={priority} {extra} on"
        );
        for _ in 0..self.running {
            let room = |(_, free): &(usize, &mut (u32, u32))| free.0 >= *gpus && free.1 >= *cpu;
            let Some((node, free)) = free.iter_mut().enumerate().find(room) else { break };
            *free = (free.0 - gpus, free.1 - cpu);
            let _ = write!(text, " n{node}");
        }
        text.push('\n');
    }
}
