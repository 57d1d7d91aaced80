//! What a redacted case keeps: the fields that decisions depend on, by kind. A field that is not in
//! the list is dropped; a field in the list has a rule for its value.

use std::collections::BTreeMap;

/// What happens to the value of a kept field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// A number, truth value, quantity, time or duration: kept.
    Plain,
    /// A word of an API, such as `Running`: kept if it is one.
    Word,
    /// A name of this class: replaced.
    Name(NameClass),
    /// The key of a label.
    LabelKey,
    /// A map from label keys to label values.
    Labels,
    /// A map of annotations, of which those that decisions depend on are kept.
    Annotations,
    /// A map from resource names to quantities.
    Resources,
    /// An object with `key` and `value` or `values`: a requirement, taint or toleration.
    KeyValue,
    /// A reference to an object with `kind`, `name` and `uid`.
    Reference,
    /// An image.
    Image,
    /// A map from qualified names of devices to objects with a value.
    Attributes,
    /// An expression in CEL over devices.
    Expression,
}

/// Classes of names. Each has replacements of its own, in the order of the originals, so that a
/// decision that falls back to the order of names stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NameClass {
    Namespace,
    Node,
    Queue,
    Workload,
    Pod,
    Priority,
    Topology,
    SubGroup,
    Container,
    Volume,
    ConfigMap,
    Claim,
    Device,
    DeviceClass,
    Scheduler,
    GpuGroup,
    Zone,
    Uid,
    Label,
    Value,
    Resource,
    Image,
    Object,
}

impl NameClass {
    /// The first part of a replacement.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Namespace => "namespace-",
            Self::Node => "node-",
            Self::Queue => "queue-",
            Self::Workload => "workload-",
            Self::Pod => "pod-",
            Self::Priority => "priority-",
            Self::Topology => "topology-",
            Self::SubGroup => "subgroup-",
            Self::Container => "container-",
            Self::Volume => "volume-",
            Self::ConfigMap => "configmap-",
            Self::Claim => "claim-",
            // Also an identifier in an expression.
            Self::Device => "device",
            Self::DeviceClass => "deviceclass-",
            Self::Scheduler => "scheduler-",
            Self::GpuGroup => "gpugroup-",
            Self::Zone => "zone-",
            Self::Uid => "uid-",
            Self::Label => "label-",
            Self::Value => "value-",
            // The API requires a domain.
            Self::Resource => "schedlab.dev/resource-",
            Self::Image => "image-",
            Self::Object => "object-",
        }
    }
}

/// The fields of an object that are kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fields {
    Leaf(Rule),
    Object(BTreeMap<&'static str, Fields>),
    List(Box<Fields>),
}

/// Fields that all kinds keep.
const METADATA: &str = "
apiVersion word
kind word
metadata.namespace namespace
metadata.uid uid
metadata.generation plain
metadata.creationTimestamp plain
metadata.deletionTimestamp plain
metadata.deletionGracePeriodSeconds plain
metadata.labels labels
metadata.annotations annotations
metadata.ownerReferences[] reference
";

/// Fields of each kind, below the name of its array with the class of its own name.
const FIELDS: &[(&str, &str)] = &[
    (
        "pods pod",
        "
spec.schedulerName scheduler
spec.nodeName node
spec.priority plain
spec.priorityClassName priority
spec.preemptionPolicy word
spec.terminationGracePeriodSeconds plain
spec.schedulingGates[].name object
spec.schedulingGroup.podGroupName workload
spec.nodeSelector labels
spec.restartPolicy word
spec.overhead resources
spec.resources.requests resources
spec.resources.limits resources
spec.tolerations[] keyvalue
spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchExpressions[] keyvalue
spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[].matchFields[] keyvalue
spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight plain
spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].preference.matchExpressions[] keyvalue
spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].preference.matchFields[] keyvalue
spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[] @podterm
spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight plain
spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm @podterm
spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[] @podterm
spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].weight plain
spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm @podterm
spec.topologySpreadConstraints[].maxSkew plain
spec.topologySpreadConstraints[].minDomains plain
spec.topologySpreadConstraints[].topologyKey labelkey
spec.topologySpreadConstraints[].whenUnsatisfiable word
spec.topologySpreadConstraints[].nodeAffinityPolicy word
spec.topologySpreadConstraints[].nodeTaintsPolicy word
spec.topologySpreadConstraints[].matchLabelKeys[] labelkey
spec.topologySpreadConstraints[].labelSelector @selector
spec.resourceClaims[].name claim
spec.resourceClaims[].resourceClaimName claim
spec.resourceClaims[].resourceClaimTemplateName claim
spec.volumes[].name volume
spec.volumes[].persistentVolumeClaim.claimName volume
spec.containers[] @container
spec.initContainers[] @container
status.phase word
status.qosClass word
status.startTime plain
status.nominatedNodeName node
status.conditions[].type word
status.conditions[].status word
status.conditions[].reason word
status.conditions[].lastTransitionTime plain
status.resourceClaimStatuses[].name claim
status.resourceClaimStatuses[].resourceClaimName claim
status.extendedResourceClaimStatus.resourceClaimName claim
status.extendedResourceClaimStatus.requestMappings[].resourceName resource
",
    ),
    (
        "podGroups workload",
        "
spec.queue queue
spec.minMember plain
spec.minSubGroup plain
spec.priorityClassName priority
spec.preemptibility word
spec.preemptionDelay plain
spec.stalenessGracePeriod plain
spec.schedulingBackoff plain
spec.markUnschedulable plain
spec.topologyConstraint @topology
spec.subGroups[].name subgroup
spec.subGroups[].parent subgroup
spec.subGroups[].minMember plain
spec.subGroups[].minSubGroup plain
spec.subGroups[].topologyConstraint @topology
status.schedulingConditions[].type word
status.schedulingConditions[].status word
status.schedulingConditions[].reason word
status.schedulingConditions[].nodePool value
status.schedulingConditions[].transitionID plain
status.schedulingConditions[].lastTransitionTime plain
",
    ),
    (
        "queues queue",
        "
spec.parentQueue queue
spec.displayName queue
spec.priority plain
spec.preemptMinRuntime plain
spec.reclaimMinRuntime plain
spec.resources.gpu.quota plain
spec.resources.gpu.limit plain
spec.resources.gpu.overQuotaWeight plain
spec.resources.cpu.quota plain
spec.resources.cpu.limit plain
spec.resources.cpu.overQuotaWeight plain
spec.resources.memory.quota plain
spec.resources.memory.limit plain
spec.resources.memory.overQuotaWeight plain
",
    ),
    (
        "nodes node",
        "
spec.unschedulable plain
spec.taints[] keyvalue
status.allocatable resources
status.conditions[].type word
status.conditions[].status word
status.images[].names[] image
status.images[].sizeBytes plain
",
    ),
    ("priorityClasses priority", "value plain\nglobalDefault plain\npreemptionPolicy word"),
    ("topologies topology", "spec.levels[].nodeLabel labelkey"),
    (
        "bindRequests pod",
        "
spec.podName pod
spec.selectedNode node
spec.backoffLimit plain
spec.receivedResourceType word
spec.receivedGPU.count plain
spec.receivedGPU.portion plain
spec.selectedFractionalGpuGroups[] gpugroup
spec.selectedGPUGroups[] gpugroup
status.phase word
status.reason word
status.failedAttempts plain
",
    ),
    ("configMaps configmap", ""),
    (
        "nodeResourceTopologies node",
        "
topologyPolicies[] word
attributes[].name word
attributes[].value word
zones[].name zone
zones[].type word
zones[].resources[].name resource
zones[].resources[].capacity plain
zones[].resources[].allocatable plain
zones[].resources[].available plain
",
    ),
    (
        "deviceClasses deviceclass",
        "
spec.selectors[].cel.expression expression
spec.extendedResourceName resource
",
    ),
    (
        "resourceSlices claim",
        "
spec.driver device
spec.nodeName node
spec.allNodes plain
spec.perDeviceNodeSelection plain
spec.nodeSelector @nodeselector
spec.pool.name device
spec.pool.generation plain
spec.pool.resourceSliceCount plain
spec.sharedCounters[].name device
spec.sharedCounters[].counters attributes
spec.devices[].name device
spec.devices[].attributes attributes
spec.devices[].capacity attributes
spec.devices[].allNodes plain
spec.devices[].nodeName node
spec.devices[].nodeSelector @nodeselector
spec.devices[].allowMultipleAllocations plain
spec.devices[].bindsToNode plain
spec.devices[].bindingConditions[] word
spec.devices[].bindingFailureConditions[] word
spec.devices[].consumesCounters[].counterSet device
spec.devices[].consumesCounters[].counters attributes
spec.devices[].taints[] keyvalue
",
    ),
    (
        "deviceTaintRules claim",
        "
spec.deviceSelector.driver device
spec.deviceSelector.pool device
spec.deviceSelector.device device
spec.taint keyvalue
",
    ),
    (
        "resourceClaims claim",
        "
spec.devices.requests[].name device
spec.devices.requests[].exactly @request
spec.devices.requests[].firstAvailable[] @request
spec.devices.constraints[].requests[] device
spec.devices.constraints[].matchAttribute device
spec.devices.constraints[].distinctAttribute device
status.allocation.allocationTimestamp plain
status.allocation.nodeSelector @nodeselector
status.allocation.devices.results[].request device
status.allocation.devices.results[].driver device
status.allocation.devices.results[].pool device
status.allocation.devices.results[].device device
status.allocation.devices.results[].adminAccess plain
status.allocation.devices.results[].consumedCapacity attributes
status.allocation.devices.results[].shareID uid
status.reservedFor[].apiGroup word
status.reservedFor[].resource word
status.reservedFor[].name pod
status.reservedFor[].uid uid
",
    ),
    (
        "storageClasses volume",
        "
provisioner object
volumeBindingMode word
allowedTopologies[].matchLabelExpressions[] keyvalue
",
    ),
    (
        "persistentVolumes volume",
        "
spec.capacity.storage plain
spec.storageClassName volume
spec.accessModes[] word
spec.volumeMode word
spec.claimRef.namespace namespace
spec.claimRef.name volume
spec.claimRef.uid uid
spec.csi.driver object
spec.csi.volumeHandle object
spec.nodeAffinity.required @nodeselector
status.phase word
",
    ),
    (
        "persistentVolumeClaims volume",
        "
spec.storageClassName volume
spec.volumeName volume
spec.accessModes[] word
spec.volumeMode word
spec.resources.requests.storage plain
spec.selector @selector
status.phase word
",
    ),
    ("csiDrivers object", "spec.storageCapacity plain"),
    (
        "csiStorageCapacities object",
        "
storageClassName volume
capacity plain
maximumVolumeSize plain
nodeTopology @selector
",
    ),
    (
        "csiNodes node",
        "
spec.drivers[].name object
spec.drivers[].nodeID node
spec.drivers[].allocatable.count plain
spec.drivers[].topologyKeys[] labelkey
",
    ),
    (
        "volumeAttachments object",
        "
spec.attacher object
spec.nodeName node
spec.source.persistentVolumeName volume
",
    ),
    (
        "events object",
        "
involvedObject reference
regarding reference
type word
reason word
count plain
firstTimestamp plain
lastTimestamp plain
eventTime plain
",
    ),
];

/// Groups of fields that occur in several places.
const GROUPS: &[(&str, &str)] = &[
    ("@selector", "matchLabels labels\nmatchExpressions[] keyvalue"),
    (
        "@nodeselector",
        "nodeSelectorTerms[].matchExpressions[] keyvalue\nnodeSelectorTerms[].matchFields[] keyvalue",
    ),
    (
        "@podterm",
        "
topologyKey labelkey
namespaces[] namespace
matchLabelKeys[] labelkey
mismatchLabelKeys[] labelkey
labelSelector @selector
namespaceSelector @selector
",
    ),
    (
        "@container",
        "
name container
image image
restartPolicy word
resources.requests resources
resources.limits resources
resources.claims[].name claim
resources.claims[].request device
ports[].containerPort plain
ports[].hostPort plain
ports[].hostIP plain
ports[].protocol word
envFrom[].configMapRef.name configmap
",
    ),
    (
        "@topology",
        "
topology topology
requiredTopologyLevel labelkey
preferredTopologyLevel labelkey
",
    ),
    (
        "@request",
        "
name device
deviceClassName deviceclass
selectors[].cel.expression expression
allocationMode word
count plain
adminAccess plain
capacity.requests attributes
tolerations[] keyvalue
",
    ),
];

/// The kept fields of all kinds, by the name of their array.
pub(super) fn all_fields() -> BTreeMap<&'static str, Fields> {
    let kinds = FIELDS.iter().map(|(header, lines)| {
        let (array, own) = header.split_once(' ').expect("the table has a class for each kind");
        let mut fields = Fields::Object(BTreeMap::new());
        for line in METADATA.lines().chain(lines.lines()) {
            add_line(&mut fields, line);
        }
        insert(&mut fields, "metadata.name", rule_of(own));
        (array, fields)
    });
    kinds.collect()
}

/// All texts of the list: its words are public.
pub(super) fn texts() -> impl Iterator<Item = &'static str> {
    let tables = FIELDS.iter().chain(GROUPS);
    tables.flat_map(|(header, lines)| [*header, *lines]).chain([METADATA, "metadata.name"])
}

fn add_line(fields: &mut Fields, line: &'static str) {
    if let Some((path, rule)) = line.split_once(' ') {
        match GROUPS.iter().find(|(name, _)| *name == rule) {
            Some((_, lines)) => {
                for line in lines.lines() {
                    add_line(descend(fields, path), line);
                }
            }
            None => insert(fields, path, rule_of(rule)),
        }
    }
}

fn insert(fields: &mut Fields, path: &'static str, rule: Rule) {
    *descend(fields, path) = Fields::Leaf(rule);
}

/// The fields below a path, which is created.
fn descend<'f>(mut fields: &'f mut Fields, path: &'static str) -> &'f mut Fields {
    for segment in path.split('.') {
        let (name, is_list) = match segment.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (segment, false),
        };
        let Fields::Object(children) = fields else { panic!("{path}: a part of it is a value") };
        fields = children.entry(name).or_insert_with(|| Fields::Object(BTreeMap::new()));
        if is_list {
            if *fields == Fields::Object(BTreeMap::new()) {
                *fields = Fields::List(Box::new(Fields::Object(BTreeMap::new())));
            }
            let Fields::List(item) = fields else { panic!("{path}: {name} is no list") };
            fields = item;
        }
    }
    fields
}

fn rule_of(word: &str) -> Rule {
    match word {
        "plain" => Rule::Plain,
        "word" => Rule::Word,
        "labelkey" => Rule::LabelKey,
        "labels" => Rule::Labels,
        "annotations" => Rule::Annotations,
        "resources" => Rule::Resources,
        "keyvalue" => Rule::KeyValue,
        "reference" => Rule::Reference,
        "image" => Rule::Image,
        "attributes" => Rule::Attributes,
        "expression" => Rule::Expression,
        class => Rule::Name(class_of(class)),
    }
}

fn class_of(word: &str) -> NameClass {
    match word {
        "namespace" => NameClass::Namespace,
        "node" => NameClass::Node,
        "queue" => NameClass::Queue,
        "workload" => NameClass::Workload,
        "pod" => NameClass::Pod,
        "priority" => NameClass::Priority,
        "topology" => NameClass::Topology,
        "subgroup" => NameClass::SubGroup,
        "container" => NameClass::Container,
        "volume" => NameClass::Volume,
        "configmap" => NameClass::ConfigMap,
        "claim" => NameClass::Claim,
        "device" => NameClass::Device,
        "deviceclass" => NameClass::DeviceClass,
        "scheduler" => NameClass::Scheduler,
        "gpugroup" => NameClass::GpuGroup,
        "zone" => NameClass::Zone,
        "uid" => NameClass::Uid,
        "value" => NameClass::Value,
        "resource" => NameClass::Resource,
        "object" => NameClass::Object,
        other => panic!("{other} is no rule"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_a_case_has_its_fields() {
        let fields = all_fields();
        let missing: Vec<&str> = crate::KINDS
            .iter()
            .map(|kind| kind.array)
            .filter(|it| !fields.contains_key(it))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
