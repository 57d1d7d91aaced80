//! Devices and claims on them where counts do not suffice: `device d0:any,big@zone=a!x` on a node is
//! of kinds `any` and `big`, has an attribute, and is allocated to claim x. `select x=big|any*2~zone`
//! on a job is a claim that its pods share: a device of kind `big`, else two of kind `any` that are
//! equal in `zone`; `big+any*all` are two requests. `template big|any` is a claim of each pod, with
//! the name of the pod and `.0`.

use std::sync::Arc;

use super::super::tokens::split_key_value;
use schedlab_scheduler_core::{
    model::{
        ClaimAlternative, ClaimRequests, DeviceAccess, DeviceClaim, DeviceCount, DeviceProperties,
        DeviceReach, MatchAttribute, Name, NodeDevice, NodeDeviceRequest,
    },
    resources::Resources,
};

pub(super) fn parse_node_device(word: &str) -> NodeDevice {
    let (word, claim) = word.split_once('!').map_or((word, None), |(word, it)| (word, Some(it)));
    let (word, attribute) =
        word.split_once('@').map_or((word, None), |(word, it)| (word, Some(split_key_value(it))));
    let (name, kinds) = word.split_once(':').expect("name:kinds");
    let attribute = attribute.map(|(key, value)| (Name::from(key), value.to_owned()));
    let properties = DeviceProperties {
        kinds: kinds.split(',').map(Name::from).collect(),
        attributes: attribute.into_iter().collect(),
        pool_is_complete: true,
    };
    NodeDevice {
        name: name.into(),
        properties: Arc::new(properties),
        allocated_to: claim.map(Name::from),
    }
}

pub(super) fn parse_shared_claim(word: &str) -> DeviceClaim {
    let (name, requests) = word.split_once('=').expect("name=requests");
    DeviceClaim {
        name: name.into(),
        devices: Resources::default(),
        requests: Some(parse_claim_requests(requests)),
        allocate_all: std::collections::BTreeMap::new(),
        is_pod_owned: false,
        queue: None,
        allocated_on: None,
        also_counts_as: None,
        reserved_for_others: 0,
        reach: DeviceReach::NodeLocal,
    }
}

pub(super) fn parse_claim_requests(word: &str) -> Arc<ClaimRequests> {
    Arc::new(ClaimRequests { alternatives: word.split('|').map(parse_alternative).collect() })
}

fn parse_alternative(word: &str) -> ClaimAlternative {
    let (word, attribute) =
        word.split_once('~').map_or((word, None), |(word, it)| (word, Some(it)));
    let requests: Vec<NodeDeviceRequest> = word.split('+').map(parse_device_request).collect();
    let constraint = |attribute: &str| MatchAttribute {
        attribute: attribute.into(),
        requests: (0..requests.len()).collect(),
    };
    let constraints = attribute.map(constraint).into_iter().collect();
    ClaimAlternative { requests, constraints }
}

fn parse_device_request(word: &str) -> NodeDeviceRequest {
    let (word, access) = match word.strip_suffix("^admin") {
        Some(word) => (word, DeviceAccess::Admin),
        None => (word, DeviceAccess::Exclusive),
    };
    let (kind, count) = word.split_once('*').unwrap_or((word, "1"));
    let count = match count {
        "all" => DeviceCount::All,
        count => DeviceCount::Exactly(count.parse().expect("a count")),
    };
    NodeDeviceRequest { name: word.into(), selection: kind.into(), count, access }
}
