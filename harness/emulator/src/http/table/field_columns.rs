//! Columns of kinds whose cells mostly show single fields: storage, RBAC, devices, networking.

use jiff::Timestamp;

use super::{NONE, networking, or_none};
use crate::admission;
use crate::api_types::label_selector::LabelSelector;
use schedlab_api::{
    Value,
    duration::age::since,
    json,
    object::{at, list, map, number, text},
};

/// A column after the name column.
pub(super) struct FieldColumn {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) priority: i64,
    cell: Cell,
}

/// The content of a cell.
#[derive(Clone, Copy)]
enum Cell {
    Age,
    /// The time since the time of a field.
    Since(&'static [&'static str]),
    Text(&'static [&'static str]),
    TextOr(&'static [&'static str], &'static str),
    Count(&'static [&'static str]),
    Number(&'static [&'static str]),
    Flag(&'static [&'static str]),
    Computed(fn(&Value) -> String),
}
use Cell::{Age, Computed, Count, Flag, Number, Since, Text, TextOr};

const fn column(name: &'static str, cell: Cell) -> FieldColumn {
    let kind = match cell {
        Count(_) => "integer",
        Flag(_) => "boolean",
        // As in kube-apiserver, some string columns contain numbers.
        Age | Since(_) | Text(_) | TextOr(..) | Computed(_) | Number(_) => "string",
    };
    FieldColumn { name, kind, priority: 0, cell }
}

const fn wide_column(name: &'static str, cell: Cell) -> FieldColumn {
    FieldColumn { priority: 1, ..column(name, cell) }
}

const AGE: FieldColumn = column("Age", Age);

/// The columns of a kind; `None` if they are defined elsewhere.
pub(super) fn columns(group: &str, kind: &str) -> Option<&'static [FieldColumn]> {
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
        ("scheduling", "Workload") => BARE,
        ("scheduling", "PodGroup") => POD_GROUP,
        ("scheduling", "CompositePodGroup") => COMPOSITE_POD_GROUP,
        ("resource", "DeviceTaintRule") => TAINT_RULE,
        (
            "admissionregistration",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => WEBHOOKS,
        ("admissionregistration", "ValidatingAdmissionPolicy") => POLICY,
        ("admissionregistration", "ValidatingAdmissionPolicyBinding") => POLICY_BINDING,
        _ => return None,
    })
}

const UNKNOWN: &str = "<unknown>";
const BARE: &[FieldColumn] = &[AGE];
const ENDPOINTS: &[FieldColumn] = &[column("Endpoints", Computed(networking::endpoints)), AGE];
const NETWORK_POLICY: &[FieldColumn] = &[column("Pod-Selector", Computed(pod_selector)), AGE];
const STORAGE_NODE: &[FieldColumn] = &[column("Drivers", Count(&["spec", "drivers"])), AGE];
const WEBHOOKS: &[FieldColumn] = &[column("Webhooks", Count(&["webhooks"])), AGE];
const CLAIM: &[FieldColumn] = &[
    column("Status", Computed(phase)),
    column("Volume", Text(&["spec", "volumeName"])),
    column("Capacity", Text(&["status", "capacity", "storage"])),
    column("Access Modes", Computed(|claim| access_modes(list(claim, &["status", "accessModes"])))),
    column("StorageClass", Text(&["spec", "storageClassName"])),
    column("VolumeAttributesClass", TextOr(&["spec", "volumeAttributesClassName"], "<unset>")),
    AGE,
    wide_column("VolumeMode", TextOr(&["spec", "volumeMode"], "<unset>")),
];
const VOLUME: &[FieldColumn] = &[
    column("Capacity", Text(&["spec", "capacity", "storage"])),
    column("Access Modes", Computed(|volume| access_modes(list(volume, &["spec", "accessModes"])))),
    column("Reclaim Policy", Text(&["spec", "persistentVolumeReclaimPolicy"])),
    column("Status", Computed(phase)),
    column("Claim", Computed(claim_of)),
    column("StorageClass", Text(&["spec", "storageClassName"])),
    column("VolumeAttributesClass", TextOr(&["spec", "volumeAttributesClassName"], "<unset>")),
    column("Reason", Text(&["status", "reason"])),
    AGE,
    wide_column("VolumeMode", TextOr(&["spec", "volumeMode"], "<unset>")),
];
const QUOTA: &[FieldColumn] = &[
    column("Request", Computed(|quota| quota_of(quota, false))),
    column("Limit", Computed(|quota| quota_of(quota, true))),
    AGE,
];
const TEMPLATE: &[FieldColumn] = &[
    column("Containers", Computed(|template| container_fields(template, "name"))),
    column("Images", Computed(|template| container_fields(template, "image"))),
    column("Pod Labels", Computed(pod_labels)),
];
const REVISION: &[FieldColumn] = &[
    column("Controller", Computed(controller)),
    column(
        "Revision",
        Computed(|revision| number(revision, &["revision"]).unwrap_or(0).to_string()),
    ),
    AGE,
];
const AUTOSCALER: &[FieldColumn] = &[
    column("Reference", Computed(|scaler| reference(scaler, &["spec", "scaleTargetRef"]))),
    column("Targets", Computed(targets)),
    column("MinPods", Computed(|scaler| count_or(scaler, "minReplicas", "<unset>"))),
    column("MaxPods", Number(&["spec", "maxReplicas"])),
    column("Replicas", Number(&["status", "currentReplicas"])),
    AGE,
];
const SLICE: &[FieldColumn] = &[
    column("AddressType", Text(&["addressType"])),
    column("Ports", Computed(networking::slice_ports)),
    column("Endpoints", Computed(networking::slice_addresses)),
    AGE,
];
const INGRESS: &[FieldColumn] = &[
    column("Class", TextOr(&["spec", "ingressClassName"], NONE)),
    column("Hosts", Computed(networking::hosts)),
    column("Address", Computed(networking::ingress_address)),
    column("Ports", Computed(ingress_ports)),
    AGE,
];
const INGRESS_CLASS: &[FieldColumn] = &[
    column("Controller", Text(&["spec", "controller"])),
    column("Parameters", Computed(networking::class_parameters)),
    AGE,
];
const BINDING: &[FieldColumn] = &[
    column("Role", Computed(|binding| reference(binding, &["roleRef"]))),
    AGE,
    wide_column("Users", Computed(|binding| subjects(binding, "User"))),
    wide_column("Groups", Computed(|binding| subjects(binding, "Group"))),
    wide_column("ServiceAccounts", Computed(|binding| subjects(binding, "ServiceAccount"))),
];
const STORAGE_CLASS: &[FieldColumn] = &[
    column("Provisioner", Text(&["provisioner"])),
    column("ReclaimPolicy", Text(&["reclaimPolicy"])),
    column("VolumeBindingMode", Text(&["volumeBindingMode"])),
    FieldColumn {
        kind: "string",
        ..column("AllowVolumeExpansion", Flag(&["allowVolumeExpansion"]))
    },
    AGE,
];
const DRIVER: &[FieldColumn] = &[
    column("AttachRequired", Flag(&["spec", "attachRequired"])),
    column("PodInfoOnMount", Flag(&["spec", "podInfoOnMount"])),
    column("StorageCapacity", Flag(&["spec", "storageCapacity"])),
    column("TokenRequests", Computed(token_audiences)),
    column("RequiresRepublish", Flag(&["spec", "requiresRepublish"])),
    column("Modes", Computed(lifecycle_modes)),
    AGE,
];
const ATTACHMENT: &[FieldColumn] = &[
    column("Attacher", Text(&["spec", "attacher"])),
    column("PV", Text(&["spec", "source", "persistentVolumeName"])),
    column("Node", Text(&["spec", "nodeName"])),
    column("Attached", Flag(&["status", "attached"])),
    AGE,
];
const TAINT_RULE: &[FieldColumn] = &[
    column("Key", Text(&["spec", "taint", "key"])),
    column("Value", Text(&["spec", "taint", "value"])),
    column("Effect", Text(&["spec", "taint", "effect"])),
    column("TimeAdded", Since(&["spec", "taint", "timeAdded"])),
    AGE,
];
const DEVICES: &[FieldColumn] = &[
    column("Node", Text(&["spec", "nodeName"])),
    column("Driver", Text(&["spec", "driver"])),
    column("Pool", Text(&["spec", "pool", "name"])),
    AGE,
];
const POD_GROUP: &[FieldColumn] = &[
    column("Policy", Computed(group_policy)),
    column("Workload", TextOr(&["spec", "workloadRef", "workloadName"], NONE)),
    column("Status", Computed(group_status)),
    AGE,
];
const COMPOSITE_POD_GROUP: &[FieldColumn] = &[
    column("Policy", Computed(group_policy)),
    column("Workload", TextOr(&["spec", "workloadRef", "workloadName"], NONE)),
    AGE,
];
const POLICY: &[FieldColumn] = &[
    column("Validations", Count(&["spec", "validations"])),
    column("ParamKind", Computed(parameter_kind)),
    AGE,
];
const POLICY_BINDING: &[FieldColumn] = &[
    column("PolicyName", Text(&["spec", "policyName"])),
    column("ParamRef", Computed(parameter_reference)),
    AGE,
];

/// The default class in a list: of several marked as default, the newest.
pub(super) fn default_storage_class<'o>(
    objects: impl Iterator<Item = &'o Value>,
) -> Option<&'o Value> {
    let is_default = |object: &&Value| {
        text(object, &["kind"]) == "StorageClass" && admission::is_default_storage_class(object)
    };
    let field = |object: &'o Value, field: &str| text(object, &["metadata", field]);
    objects.filter(is_default).max_by(|one, other| {
        let age = |object| field(object, "creationTimestamp");
        age(one).cmp(age(other)).then(field(other, "name").cmp(field(one, "name")))
    })
}

/// The row of an object.
pub(super) fn cells(columns: &[FieldColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = json!(text(object, &["metadata", "name"]));
    let cell = |column: &FieldColumn| match column.cell {
        Age => json!(since(at(object, &["metadata", "creationTimestamp"]), now)),
        Since(path) => {
            json!(at(object, path).map(|time| since(Some(time), now)).unwrap_or_default())
        }
        Text(path) => json!(text(object, path)),
        TextOr(path, absent) => match text(object, path) {
            "" => json!(absent),
            found => json!(found),
        },
        Count(path) => json!(list(object, path).len()),
        Number(path) => json!(number(object, path).unwrap_or(0)),
        Flag(path) => json!(at(object, path) == Some(&Value::Bool(true))),
        Computed(make) => json!(make(object)),
    };
    std::iter::once(name).chain(columns.iter().map(cell)).collect()
}

fn group_policy(group: &Value) -> String {
    let is_gang = group["spec"]["schedulingPolicy"]["gang"].is_object();
    if is_gang { "Gang" } else { "Basic" }.to_owned()
}

fn group_status(group: &Value) -> String {
    let conditions = list(group, &["status", "conditions"]);
    let find = |kind: &str| conditions.iter().rfind(|condition| condition["type"] == kind);
    if let Some(disruption) = find("DisruptionTarget") {
        return text(disruption, &["reason"]).to_owned();
    }
    match find("PodGroupInitiallyScheduled") {
        None => "Pending",
        Some(scheduled) if scheduled["status"] == "True" => "Scheduled",
        Some(_) => "Unschedulable",
    }
    .to_owned()
}

fn phase(object: &Value) -> String {
    let is_deleting = schedlab_api::object::is_deleting(object);
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

/// The current values and targets of an autoscaler, of either API version.
fn targets(scaler: &Value) -> String {
    let cpu = number(scaler, &["spec", "targetCPUUtilizationPercentage"]);
    let used = number(scaler, &["status", "currentCPUUtilizationPercentage"]);
    let used = used.map_or_else(|| UNKNOWN.to_owned(), |percent| format!("{percent}%"));
    let cpu = cpu.map(|percent| format!("cpu: {used}/{percent}%"));
    let current = list(scaler, &["status", "currentMetrics"]).iter();
    let current = current.chain(std::iter::repeat(&Value::Null));
    let metrics = list(scaler, &["spec", "metrics"]).iter().zip(current);
    let others = metrics.map(|(metric, current)| target_of(metric, current));
    let aims: Vec<String> = cpu.into_iter().chain(others).collect();
    match aims.as_slice() {
        [] => NONE.to_owned(),
        [_] | [_, _] => aims.join(", "),
        [one, two, more @ ..] => format!("{one}, {two} + {} more...", more.len()),
    }
}

fn target_of(metric: &Value, current: &Value) -> String {
    let (field, is_resource) = match text(metric, &["type"]) {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        _ => ("external", false),
    };
    let part = |name: &str| at(metric, &[field, "target", name]);
    let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let percent = |value: &Value| format!("{value}%");
    let held = |name: &str, shown: &dyn Fn(&Value) -> String| {
        at(current, &[field, "current", name]).map_or_else(|| UNKNOWN.to_owned(), shown)
    };
    let shown = match (part("averageValue"), part("averageUtilization"), part("value")) {
        (Some(average), ..) => {
            let is_average = matches!(field, "object" | "external");
            let mark = if is_average { " (avg)" } else { "" };
            format!("{}/{}{mark}", held("averageValue", &words), words(average))
        }
        (None, Some(aim), _) => {
            format!("{}/{}", held("averageUtilization", &percent), percent(aim))
        }
        (None, None, Some(value)) => format!("{}/{}", held("value", &words), words(value)),
        (None, None, None) => format!("{UNKNOWN}/<auto>"),
    };
    let name = text(metric, &[field, "name"]);
    if is_resource { format!("{name}: {shown}") } else { shown }
}

/// `cpu: 1/2, pods: 0/4`: usage of the limits, or of everything else.
fn quota_of(quota: &Value, of_limits: bool) -> String {
    let amount = |part: &str, name: &str| match text(quota, &["status", part, name]) {
        "" => "0".to_owned(),
        found => found.to_owned(),
    };
    let hard = map(quota, &["status", "hard"]).into_iter().flatten();
    hard.filter(|(name, _)| name.starts_with("limits.") == of_limits)
        .map(|(name, _)| format!("{name}: {}/{}", amount("used", name), amount("hard", name)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn container_fields(template: &Value, field: &str) -> String {
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

fn lifecycle_modes(driver: &Value) -> String {
    let modes = list(driver, &["spec", "volumeLifecycleModes"]).iter();
    or_none(&modes.filter_map(Value::as_str).collect::<Vec<_>>().join(",")).to_owned()
}

fn token_audiences(driver: &Value) -> String {
    let requests = list(driver, &["spec", "tokenRequests"]).iter();
    let audiences: Vec<&str> = requests.map(|request| text(request, &["audience"])).collect();
    if audiences.is_empty() { "<unset>".to_owned() } else { audiences.join(",") }
}

fn parameter_kind(policy: &Value) -> String {
    let kind = &policy["spec"]["paramKind"];
    if kind.is_null() {
        return "<unset>".to_owned();
    }
    format!("{}/{}", text(kind, &["apiVersion"]), text(kind, &["kind"]))
}

fn parameter_reference(binding: &Value) -> String {
    let reference = &binding["spec"]["paramRef"];
    match (text(reference, &["namespace"]), text(reference, &["name"])) {
        (_, "") => "<unset>".to_owned(),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
