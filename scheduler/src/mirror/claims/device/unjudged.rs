//! Expressions that cannot be judged of the devices there are, as one that asks for an attribute
//! which they do not have: nobody gets a device by them, and it is not for want of devices.

use std::collections::BTreeMap;

use kube_cel::cel::Context;
use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

use super::{
    Place, Selection, SliceRecord, context,
    expression::{self, with_room},
};
use crate::{
    mirror::{Claims, Key, PodRecord, claims::Choices},
    parse::text,
};

impl Claims {
    /// Pods that wait with a claim by which they get no device, and what is wrong with it.
    pub(crate) fn unjudged(&self, pods: &BTreeMap<Key, PodRecord>) -> Vec<(Key, String)> {
        let mut known: BTreeMap<&Selection, Option<String>> = BTreeMap::new();
        let mut wrong = Vec::new();
        let ours = self.pods.iter().filter_map(|key| Some((key, pods.get(key)?)));
        let waiting = ours.filter(|(_, pod)| pod.ours && pod.waits());
        let open =
            waiting.flat_map(|(key, pod)| self.open(key, pod).map(move |(of, one)| (key, of, one)));
        for (key, claim, selection) in open {
            let fault = || with_room(|| self.fault(selection));
            if let Some(fault) = known.entry(selection).or_insert_with(fault) {
                wrong.push((key.clone(), format!("ResourceClaim {claim}: {fault}")));
            }
        }
        wrong
    }

    /// What a pod's claims ask for that are not allocated, with their names.
    fn open<'a>(
        &'a self,
        key: &Key,
        pod: &'a PodRecord,
    ) -> impl Iterator<Item = (&'a Name, &'a Selection)> {
        let namespace = Name::clone(&key.namespace);
        let named = pod.claims.iter().filter_map(|one| one.claim.as_ref());
        let known = named.filter_map(move |name| {
            let key = Key { namespace: Name::clone(&namespace), name: Name::clone(name) };
            Some((name, self.known.get(&key)?))
        });
        known.filter(|(_, claim)| claim.allocation.is_none()).flat_map(|(name, claim)| {
            let wanted = claim.wanted.iter().flat_map(Choices::wanted);
            wanted.map(move |wanted| (name, &wanted.selection))
        })
    }

    /// What is wrong with a selection of which no device is. Devices of a driver are alike: one of
    /// each is looked at.
    fn fault(&self, selection: &Selection) -> Option<String> {
        let name = selection.name();
        let all = self.devices.values().flatten().chain(self.wide.all());
        if all.into_iter().any(|device| device.kinds.contains(&name)) {
            return None;
        }
        let mut drivers: BTreeMap<&Name, (&SliceRecord, &(Place, Value))> = BTreeMap::new();
        for slice in self.slices.values() {
            if let Some(first) = slice.devices.first() {
                drivers.entry(&slice.driver).or_insert((slice, first));
            }
        }
        let functions = expression::functions();
        let of_class = &self.classes.get(&selection.class)?.selectors;
        let of_class = of_class.iter().map(|one| (one, Some(&selection.class)));
        let own = selection.expressions.iter().map(|one| (one, None));
        let all: Vec<Said<'_>> = of_class.chain(own).collect();
        drivers.values().find_map(|device| fault_of(&all, *device, &functions))
    }
}

/// An expression, and the class that has it where it is not the claim's own.
type Said<'a> = (&'a String, Option<&'a Name>);

/// The first expression that cannot be judged of a device for which those before it hold.
fn fault_of(
    expressions: &[Said<'_>],
    (slice, (place, device)): (&SliceRecord, &(Place, Value)),
    functions: &Context<'_>,
) -> Option<String> {
    let context = context(&slice.driver, device, functions);
    for (expression, class) in expressions {
        let judged = expression::compiled(expression, functions)
            .map_err(|why| why.to_string())
            .and_then(|compiled| expression::judged(&compiled, &context));
        match judged {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => {
                let place = match place {
                    Place::Node(node) => format!("node {node}"),
                    Place::Nodes(_) => format!("pool {}", slice.pool),
                };
                let device = text(device, "/name").unwrap_or_default();
                let of = class.map(|class| format!(" (DeviceClass {class})")).unwrap_or_default();
                return Some(format!(
                    "no device is selected by {expression}{of}, which cannot be judged of device \
                     {device} of {place}: {why}"
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use crate::mirror::Mirror;

    /// What is told of a pod whose claim selects by this expression, beside its class.
    fn told(expression: &str) -> Vec<String> {
        told_with(expression, "device.driver == 'gpu.example.com'")
    }

    fn told_with(expression: &str, of_class: &str) -> Vec<String> {
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
        let mut mirror = Mirror::of(&objects);
        mirror.claims.refresh();
        let told = mirror.claims.unjudged(&mirror.pods);
        told.into_iter().map(|(pod, fault)| format!("{pod}: {fault}")).collect()
    }

    #[test]
    fn an_expression_that_cannot_be_judged_is_told_with_the_device_and_why() {
        let own = "device.attributes['gpu.example.com']";
        let expression = format!("{own}.maker == 'x'");
        assert_eq!(
            told(&expression),
            [format!(
                "ns/p: ResourceClaim c: no device is selected by {expression}, which cannot be \
                 judged of device gpu-0 of node n: No such key: maker"
            )]
        );
        assert_eq!(told(&format!("{own}.model == 'z'")), [""; 0], "that is a want of devices");
        assert_eq!(told(&format!("{own}.model == 'x'")), [""; 0], "it holds");
        let class = told_with("true", "frob(device)").concat();
        assert!(
            class.contains("selected by frob(device) (DeviceClass gpu.example.com), which"),
            "{class}"
        );
        assert!(class.ends_with("frob is unknown"), "{class}");
        let expression = format!("{own}.model");
        let no_answer = told(&expression).concat();
        assert!(no_answer.ends_with("of node n: it is neither true nor false"), "{no_answer}");
    }
}
