//! Selectors whose expressions fail for the published devices, for instance since an attribute is
//! missing. No device is selected by them, and more devices would not help.

use std::collections::BTreeMap;

use kube_cel::cel::Context;
use schedlab_api::Value;
use schedlab_scheduler_core::model::Name;

use super::{
    DeviceSelection, NodeScope, SliceRecord, cel_context,
    expression::{self, with_large_stack},
};
use crate::{
    dra::{DeviceAlternatives, ResourceClaims},
    parse::text,
    records::{ObjectKey, PodRecord},
};

impl ResourceClaims {
    /// Waiting pods with a claim whose selector fails, and the error.
    pub(crate) fn unevaluable_selectors(
        &self,
        pods: &BTreeMap<ObjectKey, PodRecord>,
    ) -> Vec<(ObjectKey, String)> {
        let mut known: BTreeMap<&DeviceSelection, Option<String>> = BTreeMap::new();
        let mut wrong = Vec::new();
        let ours = self.pods.iter().filter_map(|key| Some((key, pods.get(key)?)));
        let waiting = ours.filter(|(_, pod)| pod.is_ours && pod.is_waiting());
        let open = waiting.flat_map(|(key, pod)| {
            self.unallocated_selections(key, pod).map(move |(of, one)| (key, of, one))
        });
        for (key, claim, selection) in open {
            let fault = || with_large_stack(|| self.selector_error(selection));
            if let Some(fault) = known.entry(selection).or_insert_with(fault) {
                wrong.push((key.clone(), format!("ResourceClaim {claim}: {fault}")));
            }
        }
        wrong
    }

    /// Claims of a pod that are not allocated, with their selections.
    fn unallocated_selections<'a>(
        &'a self,
        key: &ObjectKey,
        pod: &'a PodRecord,
    ) -> impl Iterator<Item = (&'a Name, &'a DeviceSelection)> {
        let namespace = Name::clone(&key.namespace);
        let named = pod.claims.iter().filter_map(|one| one.claim.as_ref());
        let known = named.filter_map(move |name| {
            let key = ObjectKey { namespace: Name::clone(&namespace), name: Name::clone(name) };
            Some((name, self.claims.get(&key)?))
        });
        known.filter(|(_, claim)| claim.allocation.is_none()).flat_map(|(name, claim)| {
            let wanted = claim.requests.iter().flat_map(DeviceAlternatives::requests);
            wanted.map(move |wanted| (name, &wanted.selection))
        })
    }

    /// The error of a selection without devices. Devices of a driver are similar, so only the first
    /// of each is tried.
    fn selector_error(&self, selection: &DeviceSelection) -> Option<String> {
        let name = selection.name();
        let all = self.devices.values().flatten().chain(self.multi_node.all_devices());
        if all.into_iter().any(|device| device.kinds.contains(&name)) {
            return None;
        }
        let mut drivers: BTreeMap<&Name, (&SliceRecord, &(NodeScope, Value))> = BTreeMap::new();
        for slice in self.slices.values() {
            if let Some(first) = slice.devices.first() {
                drivers.entry(&slice.driver).or_insert((slice, first));
            }
        }
        let functions = expression::cel_functions();
        let of_class = &self.classes.get(&selection.class)?.selectors;
        let of_class = of_class.iter().map(|one| (one, Some(&selection.class)));
        let own = selection.expressions.iter().map(|one| (one, None));
        let all: Vec<SourcedExpression<'_>> = of_class.chain(own).collect();
        drivers.values().find_map(|(slice, (scope, device))| {
            first_error(&all, slice, scope, device, &functions)
        })
    }
}

/// An expression, with the class it comes from; `None` if it is from the claim.
type SourcedExpression<'a> = (&'a String, Option<&'a Name>);

/// The first expression that fails for the device after all earlier ones hold.
fn first_error(
    expressions: &[SourcedExpression<'_>],
    slice: &SliceRecord,
    scope: &NodeScope,
    device: &Value,
    functions: &Context<'_>,
) -> Option<String> {
    let context = cel_context(&slice.driver, device, functions);
    for (expression, class) in expressions {
        let judged = expression::compile(expression, functions)
            .map_err(|why| why.to_string())
            .and_then(|compiled| expression::evaluate(&compiled, &context));
        match judged {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                let place = match scope {
                    NodeScope::Node(node) => format!("node {node}"),
                    NodeScope::Nodes(_) => format!("pool {}", slice.pool),
                };
                let device = text(device, "/name").unwrap_or_default();
                let of = class.map(|class| format!(" (DeviceClass {class})")).unwrap_or_default();
                return Some(format!(
                    "expression {expression}{of} selects no device: it cannot be evaluated for device \
                     {device} of {place}: {why}"
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use crate::cache::ClusterCache;

    /// The errors of a pod whose claim has this expression, besides that of its class.
    fn rendered(expression: &str) -> Vec<String> {
        rendered_with(expression, "device.driver == 'gpu.example.com'")
    }

    fn rendered_with(expression: &str, of_class: &str) -> Vec<String> {
        let claim = json!({ "kind": "ResourceClaim",
            "metadata": { "namespace": "ns", "name": "c" },
            "spec": { "devices": { "requests": [{ "name": "r", "exactly": {
                "deviceClassName": "gpu.example.com",
                "selectors": [{ "cel": { "expression": expression } }] } }] } } });
        let device = |name: &str, model: &str| json!({ "name": name, "attributes": { "model": { "string": model } } });
        let slice = |driver: &str, device| {
            json!({ "kind": "ResourceSlice", "metadata": { "name": driver }, "spec": {
                "nodeName": "n", "driver": driver, "pool": { "name": "n", "generation": 1 },
                "devices": [device] } })
        };
        let objects = [
            json!({ "kind": "DeviceClass", "metadata": { "name": "gpu.example.com" }, "spec": {
                "selectors": [{ "cel": { "expression": of_class } }] } }),
            slice("gpu.example.com", device("gpu-0", "x")),
            slice("net.example.com", device("net-0", "y")),
            claim,
            json!({ "metadata": { "namespace": "ns", "name": "p", "uid": "p" },
                "spec": { "schedulerName": "kai-scheduler",
                          "resourceClaims": [{ "name": "own", "resourceClaimName": "c" }] } }),
        ];
        let mut cache = ClusterCache::from_objects(&objects);
        cache.resource_claims.refresh();
        let rendered = cache.resource_claims.unevaluable_selectors(&cache.pods);
        rendered.into_iter().map(|(pod, fault)| format!("{pod}: {fault}")).collect()
    }

    #[test]
    fn an_expression_that_fails_is_reported_with_the_device_and_the_error() {
        let own = "device.attributes['gpu.example.com']";
        let expression = format!("{own}.maker == 'x'");
        assert_eq!(
            rendered(&expression),
            [format!(
                "ns/p: ResourceClaim c: expression {expression} selects no device: it cannot be \
                 evaluated for device gpu-0 of node n: No such key: maker"
            )]
        );
        assert_eq!(rendered(&format!("{own}.model == 'z'")), [""; 0], "no device matches");
        assert_eq!(rendered(&format!("{own}.model == 'x'")), [""; 0], "it holds");
        let class = rendered_with("true", "frob(device)").concat();
        assert!(
            class.contains(
                "expression frob(device) (DeviceClass gpu.example.com) selects no device:"
            ),
            "{class}"
        );
        assert!(class.ends_with("frob is unknown"), "{class}");
        let expression = format!("{own}.model");
        let no_answer = rendered(&expression).concat();
        assert!(
            no_answer.ends_with("of node n: its result is neither true nor false"),
            "{no_answer}"
        );
    }
}
