//! Columns of kinds whose cells mostly show single fields: storage, RBAC, devices, networking.

use jiff::Timestamp;

use super::{NONE_TEXT, networking, or_none};
use crate::admission;
use crate::api_types::label_selector::LabelSelector;
use schedlab_api::{
    Value,
    duration::age::since,
    json,
    object::{at, list, map, number, text},
};

/// A table column after the name column: its heading and how its cells are computed.
pub(super) struct FieldColumn {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) priority: i64,
    cell: Cell,
}

/// How the content of a cell is computed.
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

const AGE_COLUMN: FieldColumn = column("Age", Age);

/// The columns of a built-in kind; `None` for kinds whose columns other modules define.
pub(super) fn columns_of_kind(group: &str, kind: &str) -> Option<&'static [FieldColumn]> {
    let group = group.split('.').next().unwrap_or_default();
    Some(match (group, kind) {
        ("", "PersistentVolumeClaim") => CLAIM_COLUMNS,
        ("", "PersistentVolume") => VOLUME_COLUMNS,
        ("", "ResourceQuota") => QUOTA_COLUMNS,
        ("", "ServiceAccount")
        | ("resource", "DeviceClass" | "ResourceClaimTemplate")
        | ("scheduling", "Workload") => AGE_ONLY_COLUMNS,
        ("", "Endpoints") => ENDPOINTS_COLUMNS,
        ("", "PodTemplate") => POD_TEMPLATE_COLUMNS,
        ("apps", "ControllerRevision") => REVISION_COLUMNS,
        ("autoscaling", "HorizontalPodAutoscaler") => AUTOSCALER_COLUMNS,
        ("discovery", "EndpointSlice") => SLICE_COLUMNS,
        ("networking", "Ingress") => INGRESS_COLUMNS,
        ("networking", "NetworkPolicy") => NETWORK_POLICY_COLUMNS,
        ("networking", "IngressClass") => INGRESS_CLASS_COLUMNS,
        ("rbac", "RoleBinding" | "ClusterRoleBinding") => BINDING_COLUMNS,
        ("storage", "StorageClass") => STORAGE_CLASS_COLUMNS,
        ("storage", "CSIDriver") => CSI_DRIVER_COLUMNS,
        ("storage", "CSINode") => CSI_NODE_COLUMNS,
        ("storage", "VolumeAttachment") => ATTACHMENT_COLUMNS,
        ("resource", "ResourceSlice") => DEVICE_COLUMNS,
        ("scheduling", "PodGroup") => POD_GROUP,
        ("scheduling", "CompositePodGroup") => COMPOSITE_POD_GROUP,
        ("resource", "DeviceTaintRule") => TAINT_RULE,
        (
            "admissionregistration",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => WEBHOOK_COLUMNS,
        ("admissionregistration", "ValidatingAdmissionPolicy") => POLICY_COLUMNS,
        ("admissionregistration", "ValidatingAdmissionPolicyBinding") => POLICY_BINDING_COLUMNS,
        _ => return None,
    })
}

const UNKNOWN_TEXT: &str = "<unknown>";
const AGE_ONLY_COLUMNS: &[FieldColumn] = &[AGE_COLUMN];
const ENDPOINTS_COLUMNS: &[FieldColumn] =
    &[column("Endpoints", Computed(networking::endpoint_addresses)), AGE_COLUMN];
const NETWORK_POLICY_COLUMNS: &[FieldColumn] =
    &[column("Pod-Selector", Computed(pod_selector)), AGE_COLUMN];
const CSI_NODE_COLUMNS: &[FieldColumn] =
    &[column("Drivers", Count(&["spec", "drivers"])), AGE_COLUMN];
const WEBHOOK_COLUMNS: &[FieldColumn] = &[column("Webhooks", Count(&["webhooks"])), AGE_COLUMN];
const CLAIM_COLUMNS: &[FieldColumn] = &[
    column("Status", Computed(phase_or_terminating)),
    column("Volume", Text(&["spec", "volumeName"])),
    column("Capacity", Text(&["status", "capacity", "storage"])),
    column("Access Modes", Computed(|claim| access_modes(list(claim, &["status", "accessModes"])))),
    column("StorageClass", Text(&["spec", "storageClassName"])),
    column("VolumeAttributesClass", TextOr(&["spec", "volumeAttributesClassName"], "<unset>")),
    AGE_COLUMN,
    wide_column("VolumeMode", TextOr(&["spec", "volumeMode"], "<unset>")),
];
const VOLUME_COLUMNS: &[FieldColumn] = &[
    column("Capacity", Text(&["spec", "capacity", "storage"])),
    column("Access Modes", Computed(|volume| access_modes(list(volume, &["spec", "accessModes"])))),
    column("Reclaim Policy", Text(&["spec", "persistentVolumeReclaimPolicy"])),
    column("Status", Computed(phase_or_terminating)),
    column("Claim", Computed(claim_of_volume)),
    column("StorageClass", Text(&["spec", "storageClassName"])),
    column("VolumeAttributesClass", TextOr(&["spec", "volumeAttributesClassName"], "<unset>")),
    column("Reason", Text(&["status", "reason"])),
    AGE_COLUMN,
    wide_column("VolumeMode", TextOr(&["spec", "volumeMode"], "<unset>")),
];
const QUOTA_COLUMNS: &[FieldColumn] = &[
    column("Request", Computed(|quota| quota_usage(quota, false))),
    column("Limit", Computed(|quota| quota_usage(quota, true))),
    AGE_COLUMN,
];
const POD_TEMPLATE_COLUMNS: &[FieldColumn] = &[
    column("Containers", Computed(|template| container_fields(template, "name"))),
    column("Images", Computed(|template| container_fields(template, "image"))),
    column("Pod Labels", Computed(pod_labels)),
];
const REVISION_COLUMNS: &[FieldColumn] = &[
    column("Controller", Computed(revision_controller)),
    column(
        "Revision",
        Computed(|revision| number(revision, &["revision"]).unwrap_or(0).to_string()),
    ),
    AGE_COLUMN,
];
const AUTOSCALER_COLUMNS: &[FieldColumn] = &[
    column("Reference", Computed(|scaler| object_reference(scaler, &["spec", "scaleTargetRef"]))),
    column("Targets", Computed(autoscaler_targets)),
    column("MinPods", Computed(|scaler| count_or(scaler, "minReplicas", "<unset>"))),
    column("MaxPods", Number(&["spec", "maxReplicas"])),
    column("Replicas", Number(&["status", "currentReplicas"])),
    AGE_COLUMN,
];
const SLICE_COLUMNS: &[FieldColumn] = &[
    column("AddressType", Text(&["addressType"])),
    column("Ports", Computed(networking::slice_ports)),
    column("Endpoints", Computed(networking::slice_addresses)),
    AGE_COLUMN,
];
const INGRESS_COLUMNS: &[FieldColumn] = &[
    column("Class", TextOr(&["spec", "ingressClassName"], NONE_TEXT)),
    column("Hosts", Computed(networking::ingress_hosts)),
    column("Address", Computed(networking::ingress_address)),
    column("Ports", Computed(ingress_ports)),
    AGE_COLUMN,
];
const INGRESS_CLASS_COLUMNS: &[FieldColumn] = &[
    column("Controller", Text(&["spec", "controller"])),
    column("Parameters", Computed(networking::class_parameters)),
    AGE_COLUMN,
];
const BINDING_COLUMNS: &[FieldColumn] = &[
    column("Role", Computed(|binding| object_reference(binding, &["roleRef"]))),
    AGE_COLUMN,
    wide_column("Users", Computed(|binding| binding_subjects(binding, "User"))),
    wide_column("Groups", Computed(|binding| binding_subjects(binding, "Group"))),
    wide_column("ServiceAccounts", Computed(|binding| binding_subjects(binding, "ServiceAccount"))),
];
const STORAGE_CLASS_COLUMNS: &[FieldColumn] = &[
    column("Provisioner", Text(&["provisioner"])),
    column("ReclaimPolicy", Text(&["reclaimPolicy"])),
    column("VolumeBindingMode", Text(&["volumeBindingMode"])),
    FieldColumn {
        kind: "string",
        ..column("AllowVolumeExpansion", Flag(&["allowVolumeExpansion"]))
    },
    AGE_COLUMN,
];
const CSI_DRIVER_COLUMNS: &[FieldColumn] = &[
    column("AttachRequired", Flag(&["spec", "attachRequired"])),
    column("PodInfoOnMount", Flag(&["spec", "podInfoOnMount"])),
    column("StorageCapacity", Flag(&["spec", "storageCapacity"])),
    column("TokenRequests", Computed(token_audiences)),
    column("RequiresRepublish", Flag(&["spec", "requiresRepublish"])),
    column("Modes", Computed(lifecycle_modes)),
    AGE_COLUMN,
];
const ATTACHMENT_COLUMNS: &[FieldColumn] = &[
    column("Attacher", Text(&["spec", "attacher"])),
    column("PV", Text(&["spec", "source", "persistentVolumeName"])),
    column("Node", Text(&["spec", "nodeName"])),
    column("Attached", Flag(&["status", "attached"])),
    AGE_COLUMN,
];
const TAINT_RULE: &[FieldColumn] = &[
    column("Key", Text(&["spec", "taint", "key"])),
    column("Value", Text(&["spec", "taint", "value"])),
    column("Effect", Text(&["spec", "taint", "effect"])),
    column("TimeAdded", Since(&["spec", "taint", "timeAdded"])),
    AGE_COLUMN,
];
const DEVICE_COLUMNS: &[FieldColumn] = &[
    column("Node", Text(&["spec", "nodeName"])),
    column("Driver", Text(&["spec", "driver"])),
    column("Pool", Text(&["spec", "pool", "name"])),
    AGE_COLUMN,
];
const POD_GROUP: &[FieldColumn] = &[
    column("Policy", Computed(group_policy)),
    column("Workload", TextOr(&["spec", "workloadRef", "workloadName"], NONE_TEXT)),
    column("Status", Computed(pod_group_status_text)),
    AGE_COLUMN,
];
const COMPOSITE_POD_GROUP: &[FieldColumn] = &[
    column("Policy", Computed(group_policy)),
    column("Workload", TextOr(&["spec", "workloadRef", "workloadName"], NONE_TEXT)),
    AGE_COLUMN,
];
const POLICY_COLUMNS: &[FieldColumn] = &[
    column("Validations", Count(&["spec", "validations"])),
    column("ParamKind", Computed(parameter_kind)),
    AGE_COLUMN,
];
const POLICY_BINDING_COLUMNS: &[FieldColumn] = &[
    column("PolicyName", Text(&["spec", "policyName"])),
    column("ParamRef", Computed(parameter_reference)),
    AGE_COLUMN,
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

/// The cells in the row of an object.
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

fn pod_group_status_text(group: &Value) -> String {
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

fn phase_or_terminating(object: &Value) -> String {
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

fn claim_of_volume(volume: &Value) -> String {
    let of = |field: &str| text(volume, &["spec", "claimRef", field]);
    if of("name").is_empty() {
        String::new()
    } else {
        format!("{}/{}", of("namespace"), of("name"))
    }
}

/// The current values and targets of a `HorizontalPodAutoscaler` of version 1 or 2.
fn autoscaler_targets(scaler: &Value) -> String {
    let cpu = number(scaler, &["spec", "targetCPUUtilizationPercentage"]);
    let used = number(scaler, &["status", "currentCPUUtilizationPercentage"]);
    let used = used.map_or_else(|| UNKNOWN_TEXT.to_owned(), |percent| format!("{percent}%"));
    let cpu = cpu.map(|percent| format!("cpu: {used}/{percent}%"));
    let current = list(scaler, &["status", "currentMetrics"]).iter();
    let current = current.chain(std::iter::repeat(&Value::Null));
    let metrics = list(scaler, &["spec", "metrics"]).iter().zip(current);
    let others = metrics.map(|(metric, current)| metric_target(metric, current));
    let aims: Vec<String> = cpu.into_iter().chain(others).collect();
    match aims.as_slice() {
        [] => NONE_TEXT.to_owned(),
        [_] | [_, _] => aims.join(", "),
        [one, two, more @ ..] => format!("{one}, {two} + {} more...", more.len()),
    }
}

fn metric_target(metric: &Value, current: &Value) -> String {
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
        at(current, &[field, "current", name]).map_or_else(|| UNKNOWN_TEXT.to_owned(), shown)
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
        (None, None, None) => format!("{UNKNOWN_TEXT}/<auto>"),
    };
    let name = text(metric, &[field, "name"]);
    if is_resource { format!("{name}: {shown}") } else { shown }
}

/// The usage of a quota as text, such as `cpu: 1/2, pods: 0/4`. `is_limits` selects the names
/// `limits.*`; otherwise all other names are shown.
fn quota_usage(quota: &Value, is_limits: bool) -> String {
    let amount = |part: &str, name: &str| match text(quota, &["status", part, name]) {
        "" => "0".to_owned(),
        found => found.to_owned(),
    };
    let hard = map(quota, &["status", "hard"]).into_iter().flatten();
    hard.filter(|(name, _)| name.starts_with("limits.") == is_limits)
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

fn revision_controller(revision: &Value) -> String {
    let owners = list(revision, &["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
        return NONE_TEXT.to_owned();
    };
    let group = text(owner, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}/{}", text(owner, &["kind"]).to_lowercase(), text(owner, &["name"]))
}

fn object_reference(object: &Value, path: &[&str]) -> String {
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

fn binding_subjects(binding: &Value, kind: &str) -> String {
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
