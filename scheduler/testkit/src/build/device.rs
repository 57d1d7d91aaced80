//! Devices and claims on them where counts do not suffice: `device d0:any,big@zone=a!x` on a node
//! is of kinds `any` and `big`, has an attribute, and is allocated to claim x. `select
//! x=big|any*2~zone` on a job is a claim that its pods share: a device of kind `big`, else two of
//! kind `any` that are equal in `zone` (`≠zone`: different); `big+any*all` are two requests.
//! `template big|any` is a claim of each pod, with the name of the pod and `.0`.
//!
//! `device d0:any#mem=4,core=1` consumes counters of the node, which has `counters mem=8,core=7`.
//! `device d0:small/20,big/60%80!x/20,y/60` can be shared: it has a capacity of 80, of which a
//! device of kind `small` consumes 20; claims x and y have shares.

use std::{collections::BTreeSet, sync::Arc};

use super::super::tokens::split_key_value;
use schedlab_scheduler_core::{
    model::{
        AllocatedShare, AttributeConstraint, AttributeRule, ClaimAlternative, ClaimRequests,
        DeviceAccess, DeviceAmounts, DeviceClaim, DeviceCount, DeviceProperties, DeviceReach, Name,
        NodeDevice, NodeDeviceRequest, SharedDevice,
    },
    resources::Resources,
};

pub(super) fn parse_node_device(word: &str) -> NodeDevice {
    let (word, claims) = split_option(word, '!');
    let (word, capacity) = split_option(word, '%');
    let (word, counters) = split_option(word, '#');
    let (word, attribute) = split_option(word, '@');
    let (name, kinds) = word.split_once(':').expect("name:kinds");
    let attribute = attribute
        .map(split_key_value)
        .map(|(key, value)| (Name::from(key), value.to_owned()))
        .into_iter();
    let (repelled, kinds): (Vec<&str>, Vec<&str>) =
        kinds.split(',').partition(|kind| kind.starts_with('-'));
    let repelled_kinds: BTreeSet<Name> =
        repelled.iter().map(|kind| kind.trim_start_matches('-').into()).collect();
    let kinds: Vec<(Name, Option<DeviceAmounts>)> = kinds.into_iter().map(named_share).collect();
    let shared = capacity.map(|capacity| SharedDevice {
        capacity: one_amount(capacity),
        consumed: kinds.iter().filter_map(|(kind, it)| Some((kind.clone(), it.clone()?))).collect(),
    });
    let is_shared = shared.is_some();
    let properties = DeviceProperties {
        kinds: kinds.into_iter().map(|(kind, _)| kind).collect(),
        attributes: attribute.collect(),
        pool_is_complete: true,
        counters: counters.map(amounts).unwrap_or_default(),
        shared,
        is_tainted: !repelled_kinds.is_empty(),
        repelled_kinds,
        is_multi_node: false,
    };
    let share = |word: &str| {
        let (claim, consumed) = named_share(word);
        AllocatedShare { claim, consumed: consumed.unwrap_or_default() }
    };
    let shares = claims.filter(|_| is_shared).map(|it| it.split(',').map(share).collect());
    NodeDevice {
        name: name.into(),
        properties: Arc::new(properties),
        allocated_to: claims.filter(|_| !is_shared).map(Name::from),
        shares: shares.unwrap_or_default(),
    }
}

fn split_option(word: &str, at: char) -> (&str, Option<&str>) {
    word.split_once(at).map_or((word, None), |(word, rest)| (word, Some(rest)))
}

/// `mem=4,core=1`.
pub(super) fn amounts(word: &str) -> DeviceAmounts {
    let amount = |word| {
        let (name, amount) = split_key_value(word);
        (Name::from(name), amount.parse().expect("an amount"))
    };
    word.split(',').map(amount).collect()
}

/// `name/20`: 20 of the only capacity.
fn named_share(word: &str) -> (Name, Option<DeviceAmounts>) {
    let (name, amount) = split_option(word, '/');
    (name.into(), amount.map(one_amount))
}

fn one_amount(amount: &str) -> DeviceAmounts {
    DeviceAmounts::from([("capacity".into(), amount.parse().expect("an amount"))])
}

pub(super) fn parse_shared_claim(word: &str) -> DeviceClaim {
    let (name, requests) = word.split_once('=').expect("name=requests");
    DeviceClaim {
        name: name.into(),
        devices: Resources::default(),
        requests: Some(parse_claim_requests(requests)),
        allocate_all: std::collections::BTreeMap::new(),
        plugin_resources: None,
        is_pod_owned: false,
        queue: None,
        allocated_on: None,
        also_counts_as: None,
        reserved_for_others: 0,
        reach: DeviceReach::NodeLocal,
    }
}

pub(super) fn parse_claim_requests(word: &str) -> Arc<ClaimRequests> {
    let mut alternatives: Vec<ClaimAlternative> = word.split('|').map(parse_alternative).collect();
    if alternatives.len() > 1 {
        // Alternatives of one request, each with a name of its own.
        let requests = alternatives.iter_mut().flat_map(|alternative| &mut alternative.requests);
        for request in requests {
            request.name = format!("any/{}", request.name).into();
        }
    }
    Arc::new(ClaimRequests { alternatives })
}

fn parse_alternative(word: &str) -> ClaimAlternative {
    let (word, matched) = split_option(word, '~');
    let (word, distinct) = split_option(word, '≠');
    let attribute = matched
        .map(|attribute| (AttributeRule::Match, attribute))
        .or(distinct.map(|attribute| (AttributeRule::Distinct, attribute)));
    let requests: Vec<NodeDeviceRequest> = word.split('+').map(parse_device_request).collect();
    let constraint = |(rule, attribute): (AttributeRule, &str)| AttributeConstraint {
        rule,
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
