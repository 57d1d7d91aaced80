//! What Go writes of a field that nobody has set: a struct or a time that is no pointer, or a text
//! that is not left out when empty. Schemas do not say which these are, so those that clients meet
//! stand here.

use schedlab_json::{Value, json};

/// The fields of a struct that are always written, and as what.
pub(super) fn of(structure: &str) -> impl Iterator<Item = (&'static str, Value)> {
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
    let info: schedlab_json::Map = info.collect();
    json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": info})
}
