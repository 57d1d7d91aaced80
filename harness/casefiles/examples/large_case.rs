//! Writes a case of a large, nearly full fleet, for measuring the commands that read cases.
//!
//! Usage: `cargo run -p schedlab-casefiles --example large_case -- 4000 case.zip`
//!
//! Each node has 8 GPUs. There are ten pods a node: seven to eight run on its GPUs, in single pods and
//! in gangs of 8; the others are pending in jobs of 1, 2, 4 and 8 GPUs. A hundred queues in ten
//! departments share the fleet; every second queue uses more than its quota.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;
use schedlab_api::{Value, annotations, json, labels, resources};
use schedlab_casefiles::{Case, Manifest};

const QUEUES: usize = 100;
const NAMESPACE: &str = "work";
/// Pods of a running gang.
const GANG: usize = 8;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let nodes = arguments.next().context("expected: NODES FILE")?.parse()?;
    let file = PathBuf::from(arguments.next().context("expected: NODES FILE")?);
    let case = large_case(nodes);
    case.write(&file)?;
    Ok(())
}

fn large_case(nodes: usize) -> Case {
    let mut case = Case {
        manifest: Manifest {
            captured_at: "2026-01-01T12:00:00Z".to_owned(),
            ..Manifest::default()
        },
        ..Case::default()
    };
    let mut add = |list: &str, object: Value| {
        case.cluster.objects.entry(list.to_owned()).or_default().push(Arc::new(object));
    };
    (0..nodes).for_each(|at| add("nodes", node(at)));
    let share = nodes * 8 / QUEUES;
    for department in 0..10 {
        add("queues", queue(&format!("department-{department}"), None, share * 10));
    }
    for at in 0..QUEUES {
        let parent = format!("department-{}", at / 10);
        let quota = if at % 2 == 0 { share * 3 / 2 } else { share / 2 };
        add("queues", queue(&queue_name(at), Some(&parent), quota));
    }
    // Seven and a half of eight GPUs are in use.
    let running = nodes * 15 / 2;
    for at in 0..running {
        let node = at / 15 * 2 + at % 15 / 8;
        let (name, job) = if at % 30 < GANG {
            (format!("gang-{:05}", at / 30), at / 30)
        } else {
            (format!("run-{at:06}"), at)
        };
        if at % 30 == 0 || at % 30 >= GANG {
            let members = if at % 30 == 0 { GANG } else { 1 };
            add("podGroups", pod_group(&name, queue_name(job % QUEUES), members));
        }
        add("pods", pod(&format!("{name}-{}", at % 30), &name, 1, Some(node)));
    }
    for at in 0..nodes * 10 - running {
        let name = format!("wait-{at:06}");
        add("podGroups", pod_group(&name, queue_name(at % QUEUES), 1));
        add("pods", pod(&name, &name, [1, 2, 4, 8][at / QUEUES % 4], None));
    }
    case
}

fn queue_name(at: usize) -> String {
    format!("team-{at:02}")
}

fn node(at: usize) -> Value {
    let model = if at % 4 == 0 { "NVIDIA-A100-SXM4-80GB" } else { "NVIDIA-H100-80GB-HBM3" };
    let name = format!("node-{at:04}");
    let amounts = json!({ "cpu": "128", "memory": "1024Gi", "pods": "110", (resources::GPU): "8" });
    let node_labels = json!({ (labels::HOSTNAME): name, (labels::GPU_PRODUCT): model,
        (labels::GPU_COUNT): "8", "example.com/rack": format!("rack-{}", at / 16) });
    json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": name, "labels": node_labels },
        "status": { "allocatable": amounts, "capacity": amounts,
                    "conditions": [{ "type": "Ready", "status": "True" }] } })
}

fn queue(name: &str, parent: Option<&str>, quota: usize) -> Value {
    let other = json!({ "quota": -1, "limit": -1, "overQuotaWeight": 1 });
    let gpu = json!({ "quota": quota, "limit": -1, "overQuotaWeight": quota });
    let mut spec = json!({ "resources": { "gpu": gpu, "cpu": other, "memory": other } });
    if let Some(parent) = parent {
        spec["parentQueue"] = json!(parent);
    }
    json!({ "apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
        "metadata": { "name": name }, "spec": spec })
}

fn pod_group(name: &str, queue: String, members: usize) -> Value {
    json!({ "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": NAMESPACE, "uid": name,
                      "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "queue": queue, "minMember": members, "priorityClassName": "train" } })
}

fn pod(name: &str, group: &str, gpus: usize, node: Option<usize>) -> Value {
    let requests = json!({ "cpu": "4", "memory": "16Gi", (resources::GPU): gpus.to_string() });
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE, "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { (annotations::POD_GROUP_NAME): group } },
        "spec": { "schedulerName": "kai-scheduler",
            "containers": [{ "name": "work",
                "resources": { "requests": requests, "limits": requests } }] },
        "status": { "phase": "Pending" } });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(format!("node-{node:04}"));
        pod["status"] = json!({ "phase": "Running", "startTime": "2026-01-01T00:00:00Z" });
    }
    pod
}
