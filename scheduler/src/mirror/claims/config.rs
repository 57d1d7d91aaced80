//! What drivers are told of the devices that a claim gets: by the classes of its requests, then by
//! the claim itself. The allocation carries both, so that drivers need not look anything up.

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::Name;

use super::{ClaimRecord, Claims, set::is_of};
use crate::parse::list;

impl Claims {
    /// For a claim of which these requests, or alternatives of requests, get devices.
    pub(crate) fn config(&self, claim: &ClaimRecord, served: &[&Name]) -> Vec<Value> {
        let mut classes: Vec<(&Name, Vec<&Name>)> = Vec::new();
        let wanted = claim.wanted.iter().flat_map(super::Choices::wanted);
        for wanted in wanted.filter(|wanted| served.contains(&&wanted.request)) {
            let (class, request) = (&wanted.selection.class, &wanted.request);
            match classes.iter_mut().find(|(known, _)| *known == class) {
                Some((_, requests)) if requests.contains(&request) => {}
                Some((_, requests)) => requests.push(request),
                None => classes.push((class, vec![request])),
            }
        }
        let of_class = classes.into_iter().flat_map(|(class, requests)| {
            let config = self.classes.get(class).map_or(&[][..], |class| &class.config);
            config.iter().map(move |one| entry("FromClass", one, &requests))
        });
        let of_claim = claim.config.iter().filter(|one| {
            let requests = list(one, "/requests");
            let mut named = requests.iter().filter_map(Value::as_str);
            requests.is_empty() || named.any(|name| served.iter().any(|one| is_of(one, name)))
        });
        let of_claim = of_claim.map(|one| {
            let requests = list(one, "/requests").iter().filter_map(Value::as_str);
            let requests: Vec<Name> = requests.map(Name::from).collect();
            entry("FromClaim", one, &requests.iter().collect::<Vec<_>>())
        });
        of_class.chain(of_claim).collect()
    }
}

fn entry(source: &str, config: &Value, requests: &[&Name]) -> Value {
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
    use crate::mirror::claims::device::ClassRecord;

    fn tells(driver: &str, requests: &[&str]) -> Value {
        json!({ "requests": requests, "opaque": { "driver": driver, "parameters": { "a": 1 } } })
    }

    #[test]
    fn classes_and_the_claim_tell_what_is_for_the_requests_that_are_served() {
        let mut claims = Claims::default();
        let class = json!({ "spec": { "config": [tells("of-class", &[])] } });
        claims.classes.insert("x".into(), ClassRecord::read(&class));
        claims.classes.insert("y".into(), ClassRecord::read(&json!({})));
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
        let claim = ClaimRecord::read(&json!({ "spec": { "devices": devices } }));
        let told = |served: &[&str]| {
            let served: Vec<Name> = served.iter().map(|one| Name::from(*one)).collect();
            let config = claims.config(&claim, &served.iter().collect::<Vec<_>>());
            let lines = config.iter().map(|one| {
                format!("{} {} {}", one["source"], one["requests"], one["opaque"]["driver"])
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_snapshot!(told(&["a", "b", "c/small"]), @r#"
        "FromClass" ["a","b"] "of-class"
        "FromClaim" null "of-all"
        "FromClaim" ["b"] "of-b"
        "FromClaim" ["c"] "of-c"
        "#);
        assert_snapshot!(told(&["a", "c/large"]), @r#"
        "FromClass" ["a","c/large"] "of-class"
        "FromClaim" null "of-all"
        "FromClaim" ["c"] "of-c"
        "FromClaim" ["c/large"] "of-large"
        "#);
    }
}
