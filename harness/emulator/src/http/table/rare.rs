//! Kinds whose cells are single fields, or nearly so: storage, access, devices, networks.
//!
//! Left out: what is only counted there on a real server (what autoscalers measure, addresses of
//! ingresses and endpoints) stays `<none>` or `<unknown>`.

use jiff::Timestamp;

use super::duration::since;
use super::{NONE, or_none};
use crate::admit;
use crate::object::{at, list, map, number, text};
use crate::select::LabelSelector;
use schedlab_json::{Value, json};

/// A column behind the name.
pub(super) struct Rare {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) priority: i64,
    cell: Cell,
}

/// What stands in a cell.
#[derive(Clone, Copy)]
enum Cell {
    Age,
    Text(&'static [&'static str]),
    Or(&'static [&'static str], &'static str),
    Count(&'static [&'static str]),
    Number(&'static [&'static str]),
    Flag(&'static [&'static str]),
    Made(fn(&Value) -> String),
}
use Cell::{Age, Count, Flag, Made, Number, Or, Text};

const fn column(name: &'static str, cell: Cell) -> Rare {
    let kind = match cell {
        Count(_) => "integer",
        Flag(_) => "boolean",
        // The real server, too, gives numbers under a column of texts.
        Age | Text(_) | Or(..) | Made(_) | Number(_) => "string",
    };
    Rare { name, kind, priority: 0, cell }
}

const fn wide(name: &'static str, cell: Cell) -> Rare {
    Rare { priority: 1, ..column(name, cell) }
}

const AGE: Rare = column("Age", Age);

/// The columns of a kind that stands here.
pub(super) fn columns(group: &str, kind: &str) -> Option<&'static [Rare]> {
    let group = group.split('.').next().unwrap_or_default();
    Some(match (group, kind) {
        ("", "PersistentVolumeClaim") => CLAIM,
        ("", "PersistentVolume") => VOLUME,
        ("", "ResourceQuota") => QUOTA,
        ("", "ServiceAccount") | ("resource", "DeviceClass" | "ResourceClaimTemplate") => BARE,
        ("", "Endpoints") => ENDPOINTS,
        ("", "PodTemplate") => TEMPLATE,
        ("apps", "ControllerRevision") => REVISION,
        ("autoscaling", "HorizontalPodAutoscaler") => AUTOSCALER,
        ("discovery", "EndpointSlice") => SLICE,
        ("networking", "Ingress") => INGRESS,
        ("networking", "NetworkPolicy") => NETWORK_POLICY,
        ("networking", "IngressClass") => INGRESS_CLASS,
        ("rbac", "RoleBinding" | "ClusterRoleBinding") => BINDING,
        ("storage", "StorageClass") => STORAGE_CLASS,
        ("storage", "CSIDriver") => DRIVER,
        ("storage", "CSINode") => STORAGE_NODE,
        ("storage", "VolumeAttachment") => ATTACHMENT,
        ("resource", "ResourceSlice") => DEVICES,
        (
            "admissionregistration",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => WEBHOOKS,
        ("admissionregistration", "ValidatingAdmissionPolicy") => POLICY,
        ("admissionregistration", "ValidatingAdmissionPolicyBinding") => POLICY_BINDING,
        _ => return None,
    })
}

const BARE: &[Rare] = &[AGE];
const ENDPOINTS: &[Rare] = &[column("Endpoints", Or(&[], NONE)), AGE];
const NETWORK_POLICY: &[Rare] = &[column("Pod-Selector", Made(pod_selector)), AGE];
const STORAGE_NODE: &[Rare] = &[column("Drivers", Count(&["spec", "drivers"])), AGE];
const WEBHOOKS: &[Rare] = &[column("Webhooks", Count(&["webhooks"])), AGE];
const CLAIM: &[Rare] = &[
    column("Status", Made(phase)),
    column("Volume", Text(&["spec", "volumeName"])),
    column("Capacity", Text(&["status", "capacity", "storage"])),
    column("Access Modes", Made(|claim| access_modes(list(claim, &["status", "accessModes"])))),
    column("StorageClass", Text(&["spec", "storageClassName"])),
    column("VolumeAttributesClass", Or(&["spec", "volumeAttributesClassName"], "<unset>")),
    AGE,
    wide("VolumeMode", Or(&["spec", "volumeMode"], "<unset>")),
];
const VOLUME: &[Rare] = &[
    column("Capacity", Text(&["spec", "capacity", "storage"])),
    column("Access Modes", Made(|volume| access_modes(list(volume, &["spec", "accessModes"])))),
    column("Reclaim Policy", Text(&["spec", "persistentVolumeReclaimPolicy"])),
    column("Status", Made(phase)),
    column("Claim", Made(claim_of)),
    column("StorageClass", Text(&["spec", "storageClassName"])),
    column("VolumeAttributesClass", Or(&["spec", "volumeAttributesClassName"], "<unset>")),
    column("Reason", Text(&["status", "reason"])),
    AGE,
    wide("VolumeMode", Or(&["spec", "volumeMode"], "<unset>")),
];
const QUOTA: &[Rare] = &[
    column("Request", Made(|quota| quota_of(quota, false))),
    column("Limit", Made(|quota| quota_of(quota, true))),
    AGE,
];
const TEMPLATE: &[Rare] = &[
    column("Containers", Made(|template| of_containers(template, "name"))),
    column("Images", Made(|template| of_containers(template, "image"))),
    column("Pod Labels", Made(pod_labels)),
];
const REVISION: &[Rare] = &[
    column("Controller", Made(controller)),
    column("Revision", Made(|revision| number(revision, &["revision"]).unwrap_or(0).to_string())),
    AGE,
];
const AUTOSCALER: &[Rare] = &[
    column("Reference", Made(|scaler| reference(scaler, &["spec", "scaleTargetRef"]))),
    column("Targets", Made(targets)),
    column("MinPods", Made(|scaler| count_or(scaler, "minReplicas", "<unset>"))),
    column("MaxPods", Number(&["spec", "maxReplicas"])),
    column("Replicas", Number(&["status", "currentReplicas"])),
    AGE,
];
const SLICE: &[Rare] = &[
    column("AddressType", Text(&["addressType"])),
    column("Ports", Or(&[], "<unset>")),
    column("Endpoints", Or(&[], "<unset>")),
    AGE,
];
const INGRESS: &[Rare] = &[
    column("Class", Or(&["spec", "ingressClassName"], NONE)),
    column("Hosts", Made(hosts)),
    column("Address", Or(&[], "")),
    column("Ports", Made(ingress_ports)),
    AGE,
];
const INGRESS_CLASS: &[Rare] = &[
    column("Controller", Text(&["spec", "controller"])),
    column("Parameters", Or(&["spec", "parameters", "name"], NONE)),
    AGE,
];
const BINDING: &[Rare] = &[
    column("Role", Made(|binding| reference(binding, &["roleRef"]))),
    AGE,
    wide("Users", Made(|binding| subjects(binding, "User"))),
    wide("Groups", Made(|binding| subjects(binding, "Group"))),
    wide("ServiceAccounts", Made(|binding| subjects(binding, "ServiceAccount"))),
];
const STORAGE_CLASS: &[Rare] = &[
    column("Provisioner", Text(&["provisioner"])),
    column("ReclaimPolicy", Text(&["reclaimPolicy"])),
    column("VolumeBindingMode", Text(&["volumeBindingMode"])),
    Rare { kind: "string", ..column("AllowVolumeExpansion", Flag(&["allowVolumeExpansion"])) },
    AGE,
];
const DRIVER: &[Rare] = &[
    column("AttachRequired", Flag(&["spec", "attachRequired"])),
    column("PodInfoOnMount", Flag(&["spec", "podInfoOnMount"])),
    column("StorageCapacity", Flag(&["spec", "storageCapacity"])),
    column("TokenRequests", Or(&[], "<unset>")),
    column("RequiresRepublish", Flag(&["spec", "requiresRepublish"])),
    column("Modes", Made(|driver| words(list(driver, &["spec", "volumeLifecycleModes"])))),
    AGE,
];
const ATTACHMENT: &[Rare] = &[
    column("Attacher", Text(&["spec", "attacher"])),
    column("PV", Text(&["spec", "source", "persistentVolumeName"])),
    column("Node", Text(&["spec", "nodeName"])),
    column("Attached", Flag(&["status", "attached"])),
    AGE,
];
const DEVICES: &[Rare] = &[
    column("Node", Text(&["spec", "nodeName"])),
    column("Driver", Text(&["spec", "driver"])),
    column("Pool", Text(&["spec", "pool", "name"])),
    AGE,
];
const POLICY: &[Rare] = &[
    column("Validations", Count(&["spec", "validations"])),
    column("ParamKind", Or(&["spec", "paramKind", "kind"], "<unset>")),
    AGE,
];
const POLICY_BINDING: &[Rare] = &[
    column("PolicyName", Text(&["spec", "policyName"])),
    column("ParamRef", Or(&["spec", "paramRef", "name"], "<unset>")),
    AGE,
];

/// The row of an object.
pub(super) fn cells(columns: &[Rare], object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = text(object, &["kind"]) == "StorageClass" && admit::is_default(object);
    let mark = if is_default { " (default)" } else { "" };
    let name = json!(format!("{}{mark}", text(object, &["metadata", "name"])));
    let cell = |column: &Rare| match column.cell {
        Age => json!(since(at(object, &["metadata", "creationTimestamp"]), now)),
        Text(path) => json!(text(object, path)),
        Or(path, absent) => match text(object, path) {
            "" => json!(absent),
            found => json!(found),
        },
        Count(path) => json!(list(object, path).len()),
        Number(path) => json!(number(object, path).unwrap_or(0)),
        Flag(path) => json!(at(object, path) == Some(&Value::Bool(true))),
        Made(make) => json!(make(object)),
    };
    std::iter::once(name).chain(columns.iter().map(cell)).collect()
}

fn phase(object: &Value) -> String {
    let is_deleting = crate::object::is_deleting(object);
    if is_deleting { "Terminating" } else { text(object, &["status", "phase"]) }.to_owned()
}

fn access_modes(modes: &[Value]) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO",
        Some("ReadOnlyMany") => "ROX",
        Some("ReadWriteMany") => "RWX",
        Some("ReadWriteOncePod") => "RWOP",
        Some(_) | None => "",
    };
    modes.iter().map(short).collect::<Vec<_>>().join(",")
}

fn claim_of(volume: &Value) -> String {
    let of = |field: &str| text(volume, &["spec", "claimRef", field]);
    if of("name").is_empty() {
        String::new()
    } else {
        format!("{}/{}", of("namespace"), of("name"))
    }
}

/// `cpu: 1/2, pods: 0/4`, of limits or of everything else.
/// What an autoscaler aims at, in either of its versions; nobody measures what there is.
fn targets(scaler: &Value) -> String {
    let cpu = number(scaler, &["spec", "targetCPUUtilizationPercentage"]);
    let cpu = cpu.map(|percent| format!("cpu: <unknown>/{percent}%"));
    let others = list(scaler, &["spec", "metrics"]).iter().map(target_of);
    let aims: Vec<String> = cpu.into_iter().chain(others).collect();
    match aims.as_slice() {
        [] => NONE.to_owned(),
        [_] | [_, _] => aims.join(", "),
        [one, two, more @ ..] => format!("{one}, {two} + {} more...", more.len()),
    }
}

fn target_of(metric: &Value) -> String {
    let (field, is_resource) = match text(metric, &["type"]) {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        _ => ("external", false),
    };
    let part = |name: &str| at(metric, &[field, "target", name]);
    let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let aim = match (part("averageValue"), part("averageUtilization"), part("value")) {
        (Some(average), ..) if matches!(field, "object" | "external") => {
            format!("{} (avg)", words(average))
        }
        (Some(average), ..) => words(average),
        (None, Some(percent), _) => format!("{percent}%"),
        (None, None, Some(value)) => words(value),
        (None, None, None) => "<auto>".to_owned(),
    };
    let name = text(metric, &[field, "name"]);
    if is_resource { format!("{name}: <unknown>/{aim}") } else { format!("<unknown>/{aim}") }
}

fn quota_of(quota: &Value, of_limits: bool) -> String {
    let amount = |part: &str, name: &str| match text(quota, &["status", part, name]) {
        "" => "0".to_owned(),
        found => found.to_owned(),
    };
    let hard = map(quota, &["status", "hard"]).into_iter().flatten();
    hard.filter(|(name, _)| name.starts_with("limits") == of_limits)
        .map(|(name, _)| format!("{name}: {}/{}", amount("used", name), amount("hard", name)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn of_containers(template: &Value, field: &str) -> String {
    let containers = list(template, &["template", "spec", "containers"]).iter();
    containers.map(|container| text(container, &[field])).collect::<Vec<_>>().join(",")
}

fn pod_labels(template: &Value) -> String {
    let labels = at(template, &["template", "metadata", "labels"]).unwrap_or(&Value::Null);
    or_none(&LabelSelector::from_map(labels).to_string()).to_owned()
}

fn pod_selector(policy: &Value) -> String {
    let selector = at(policy, &["spec", "podSelector"]).unwrap_or(&Value::Null);
    let shown = LabelSelector::from_object(selector).map(|selector| selector.to_string());
    or_none(&shown.unwrap_or_default()).to_owned()
}

fn controller(revision: &Value) -> String {
    let owners = list(revision, &["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return NONE.to_owned();
    };
    let group = text(owner, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}/{}", text(owner, &["kind"]).to_lowercase(), text(owner, &["name"]))
}

fn reference(object: &Value, path: &[&str]) -> String {
    let target = at(object, path).unwrap_or(&Value::Null);
    format!("{}/{}", text(target, &["kind"]), text(target, &["name"]))
}

fn count_or(scaler: &Value, field: &str, absent: &str) -> String {
    number(scaler, &["spec", field]).map_or_else(|| absent.to_owned(), |count| count.to_string())
}

fn hosts(ingress: &Value) -> String {
    let rules = list(ingress, &["spec", "rules"]).iter();
    let hosts: Vec<&str> =
        rules.map(|rule| text(rule, &["host"])).filter(|host| !host.is_empty()).collect();
    if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") }
}

fn ingress_ports(ingress: &Value) -> String {
    let is_secured = !list(ingress, &["spec", "tls"]).is_empty();
    if is_secured { "80, 443" } else { "80" }.to_owned()
}

fn subjects(binding: &Value, kind: &str) -> String {
    let of = |subject: &Value| match text(subject, &["namespace"]) {
        "" => text(subject, &["name"]).to_owned(),
        namespace => format!("{namespace}/{}", text(subject, &["name"])),
    };
    let found = list(binding, &["subjects"]).iter().filter(|subject| subject["kind"] == kind);
    found.map(of).collect::<Vec<_>>().join(", ")
}

fn words(values: &[Value]) -> String {
    values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}
