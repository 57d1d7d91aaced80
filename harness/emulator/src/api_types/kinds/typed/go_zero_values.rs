//! Go zero values: fields that Go writes even if they are unset (structs, times and strings without
//! `omitempty`). The OpenAPI schemas do not mark them, so the table lists those that clients read.

use schedlab_api::{Value, json};

/// The always-written fields of a Go struct and their zero values.
pub(super) fn zero_values(structure: &str) -> impl Iterator<Item = (&'static str, Value)> {
    let fields = match structure {
        "Event" => vec![
            ("source", json!({})),
            ("reportingComponent", json!("")),
            ("reportingInstance", json!("")),
            ("eventTime", Value::Null),
            ("firstTimestamp", Value::Null),
            ("lastTimestamp", Value::Null),
        ],
        "Endpoint" => vec![("conditions", json!({}))],
        "EventSeries" => vec![("lastObservedTime", Value::Null)],
        "PodCondition" | "JobCondition" | "PersistentVolumeClaimCondition" => {
            vec![("lastProbeTime", Value::Null), ("lastTransitionTime", Value::Null)]
        }
        "NodeCondition" => {
            vec![("lastHeartbeatTime", Value::Null), ("lastTransitionTime", Value::Null)]
        }
        "DeploymentCondition" => {
            vec![("lastTransitionTime", Value::Null), ("lastUpdateTime", Value::Null)]
        }
        "NamespaceCondition" | "ReplicaSetCondition" | "StatefulSetCondition" => {
            vec![("lastTransitionTime", Value::Null)]
        }
        "Condition" => vec![("message", json!(""))],
        "Node" => vec![("status", node_status())],
        "NodeStatus" => vec![
            ("daemonEndpoints", node_status()["daemonEndpoints"].take()),
            ("nodeInfo", node_status()["nodeInfo"].take()),
        ],
        "NodeDaemonEndpoints" => vec![("kubeletEndpoint", json!({"Port": 0}))],
        "NodeSystemInfo" => NODE_INFO.iter().map(|field| (*field, json!(""))).collect(),
        "ContainerStatus" => vec![("lastState", json!({})), ("state", json!({}))],
        "PodGroupTemplate" => vec![("schedulingConstraints", Value::Null)],
        "WorkloadSpec" => vec![("podGroupTemplates", Value::Null)],
        "PodFailurePolicy" | "SuccessPolicy" => vec![("rules", Value::Null)],
        "ContainerStateRunning" => vec![("startedAt", Value::Null)],
        "ContainerStateTerminated" => {
            vec![("finishedAt", Value::Null), ("startedAt", Value::Null)]
        }
        _ => Vec::new(),
    };
    fields.into_iter()
}

const NODE_INFO: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

fn node_status() -> Value {
    let info = NODE_INFO.iter().map(|field| ((*field).to_owned(), json!("")));
    let info: schedlab_api::Map = info.collect();
    json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": info})
}
