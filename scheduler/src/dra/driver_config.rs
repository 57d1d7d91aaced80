//! Driver configuration of an allocation: from the classes of the requests, then from the claim.
//! The allocation holds both, so drivers need no other object.

use schedlab_api::{Value, json};
use schedlab_scheduler_core::model::Name;

use super::{ClaimRecord, ResourceClaims, device_set::names_request};
use crate::parse::list;

impl ResourceClaims {
    /// The driver configuration of a claim's allocation. `allocated`: the requests, or alternatives
    /// of requests, that get devices.
    pub(crate) fn driver_config(&self, claim: &ClaimRecord, allocated: &[&Name]) -> Vec<Value> {
        let mut classes: Vec<(&Name, Vec<&Name>)> = Vec::new();
        let requests = claim.requests.iter().flat_map(super::DeviceAlternatives::requests);
        for request in requests.filter(|request| allocated.contains(&&request.request)) {
            let (class, request) = (&request.selection.class, &request.request);
            match classes.iter_mut().find(|(known, _)| *known == class) {
                Some((_, requests)) if requests.contains(&request) => {}
                Some((_, requests)) => requests.push(request),
                None => classes.push((class, vec![request])),
            }
        }
        let of_class = classes.into_iter().flat_map(|(class, requests)| {
            let config = self.classes.get(class).map_or(&[][..], |class| &class.config);
            config.iter().map(move |one| config_entry("FromClass", one, &requests))
        });
        let of_claim = claim.config.iter().filter(|one| {
            let requests = list(one, "/requests");
            let mut named = requests.iter().filter_map(Value::as_str);
            requests.is_empty()
                || named.any(|name| allocated.iter().any(|one| names_request(one, name)))
        });
        let of_claim = of_claim.map(|one| {
            let requests = list(one, "/requests").iter().filter_map(Value::as_str);
            let requests: Vec<Name> = requests.map(Name::from).collect();
            config_entry("FromClaim", one, &requests.iter().collect::<Vec<_>>())
        });
        of_class.chain(of_claim).collect()
    }
}

fn config_entry(source: &str, config: &Value, requests: &[&Name]) -> Value {
    let mut entry = json!({ "source": source });
    if !requests.is_empty() {
        entry["requests"] = requests.iter().map(|request| json!(&***request)).collect();
    }
    if let Some(opaque) = config.get("opaque") {
        entry["opaque"] = opaque.clone();
    }
    entry
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::dra::device::DeviceClassRecord;

    fn tells(driver: &str, requests: &[&str]) -> Value {
        json!({ "requests": requests, "opaque": { "driver": driver, "parameters": { "a": 1 } } })
    }

    #[test]
    fn driver_config_comes_from_the_classes_and_the_claim_of_the_allocated_requests() {
        let mut claims = ResourceClaims::default();
        let class = json!({ "spec": { "config": [tells("of-class", &[])] } });
        claims.classes.insert("x".into(), DeviceClassRecord::from_object(&class));
        claims.classes.insert("y".into(), DeviceClassRecord::from_object(&json!({})));
        let exactly = json!({ "deviceClassName": "x" });
        let either = json!([
            { "name": "large", "deviceClassName": "x" }, { "name": "small", "deviceClassName": "y" },
        ]);
        let requests = json!([
            { "name": "a", "exactly": exactly }, { "name": "b", "exactly": exactly },
            { "name": "c", "firstAvailable": either },
        ]);
        let config = json!([
            tells("of-all", &[]),
            tells("of-b", &["b"]),
            tells("of-c", &["c"]),
            tells("of-large", &["c/large"]),
        ]);
        let devices = json!({ "requests": requests, "config": config });
        let claim = ClaimRecord::from_object(&json!({ "spec": { "devices": devices } }));
        let rendered = |served: &[&str]| {
            let served: Vec<Name> = served.iter().map(|one| Name::from(*one)).collect();
            let config = claims.driver_config(&claim, &served.iter().collect::<Vec<_>>());
            let lines = config.iter().map(|one| {
                format!("{} {} {}", one["source"], one["requests"], one["opaque"]["driver"])
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_snapshot!(rendered(&["a", "b", "c/small"]), @r#"
        "FromClass" ["a","b"] "of-class"
        "FromClaim" null "of-all"
        "FromClaim" ["b"] "of-b"
        "FromClaim" ["c"] "of-c"
        "#);
        assert_snapshot!(rendered(&["a", "c/large"]), @r#"
        "FromClass" ["a","c/large"] "of-class"
        "FromClaim" null "of-all"
        "FromClaim" ["c"] "of-c"
        "FromClaim" ["c/large"] "of-large"
        "#);
    }
}
