//! What is wrong with a PodGroup. Decisions take a minimum of no sub-groups for none, and look at
//! none of a leaf; whoever writes it is asked to say what is meant, as by KAI's webhook.

use schedlab_json::Value;

use crate::{
    mirror::GroupRecord,
    parse::{GoDuration, Malformed, at, go_duration, list, shown, text},
};

const NAME: &str = "a name, by which pods say where they stand";
const LEAF: &str = "minMember, as no sub-group is below it";
const SOME: &str = "an integer from 1 to 2147483647";
const DELAY: &str = "a time above 0 (a negative one counts as none: others are asked to leave for the \
                     group at once)";

/// The first thing.
pub(super) fn fault(object: &Value) -> Option<Malformed> {
    GroupRecord::read(object, "").malformed.or_else(|| unsaid(object))
}

/// What is used, but hardly as it was meant: a negative grace lasts for ever, a negative delay is none.
pub(super) fn advice(object: &Value) -> Option<Malformed> {
    let found = at(object, "/spec/preemptionDelay")?;
    let is_negative = matches!(found.as_str().and_then(go_duration), Some(GoDuration::Negative));
    is_negative.then(|| Malformed::new("spec.preemptionDelay", shown(found), DELAY))
}

/// What cannot be used is known of already: this is about what is missing, or stands where it
/// means nothing.
fn unsaid(object: &Value) -> Option<Malformed> {
    if says_none(object, "/spec/minSubGroup") {
        return Some(Malformed::new("spec.minSubGroup", "0", SOME));
    }
    let parts = list(object, "/spec/subGroups");
    parts.iter().zip(0..).find_map(|(part, at)| unsaid_of_part(parts, (part, at)))
}

fn unsaid_of_part(parts: &[Value], (part, index): (&Value, usize)) -> Option<Malformed> {
    let name = text(part, "/name").unwrap_or_default();
    let field = |of: &str| format!("spec.subGroups[{index}].{of}");
    if name.is_empty() {
        return Some(Malformed::new(field("name"), "nothing", NAME));
    }
    if parts.iter().any(|other| text(other, "/parent") == Some(name)) {
        let none = says_none(part, "/minSubGroup");
        return none.then(|| Malformed::new(field("minSubGroup"), format!("0 of {name}"), SOME));
    }
    let found = at(part, "/minSubGroup").filter(|found| !found.is_null())?;
    Some(Malformed::new(field("minSubGroup"), format!("{found} of {name}"), LEAF))
}

fn says_none(of: &Value, pointer: &str) -> bool {
    at(of, pointer).and_then(Value::as_i64) == Some(0)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_json::json;

    use super::*;

    fn told(spec: &Value) -> String {
        let wrong = fault(&json!({ "spec": spec }));
        wrong.map_or_else(|| "nothing".to_owned(), |wrong| wrong.to_string())
    }

    fn parts(parts: &Value) -> String {
        told(&json!({ "subGroups": parts }))
    }

    #[test]
    fn every_sub_group_has_a_name_and_every_leaf_a_minimum_of_pods() {
        assert_snapshot!(parts(&json!([{ "name": "a" }])), @"spec.subGroups[0].minMember: found nothing of a, allowed: minMember, as no sub-group is below it");
        assert_snapshot!(parts(&json!([{ "name": "a", "minMember": 1 }, { "name": "b", "minSubGroup": 0 }])), @"spec.subGroups[1].minMember: found nothing of b, allowed: minMember, as no sub-group is below it");
        assert_snapshot!(parts(&json!([{ "name": "", "minMember": 1 }])), @"spec.subGroups[0].name: found nothing, allowed: a name, by which pods say where they stand");
        let both = json!({ "name": "a", "minMember": 1, "minSubGroup": 0 });
        assert_snapshot!(parts(&json!([both])), @"spec.subGroups[0].minSubGroup: found 0 of a, allowed: minMember, as no sub-group is below it");
        let below = json!({ "name": "b", "parent": "a", "minMember": 0 });
        assert_eq!(parts(&json!([{ "name": "a" }, below])), "nothing");
        assert_eq!(parts(&json!([{ "name": "a", "minSubGroup": 1 }, below])), "nothing");
        assert_snapshot!(parts(&json!([{ "name": "a", "minSubGroup": 0 }, below])), @"spec.subGroups[0].minSubGroup: found 0 of a, allowed: an integer from 1 to 2147483647");
        let one = json!([{ "name": "a", "minMember": 1 }]);
        assert_snapshot!(told(&json!({ "minSubGroup": 0, "subGroups": one })), @"spec.minSubGroup: found 0, allowed: an integer from 1 to 2147483647");
    }

    #[test]
    fn a_level_of_a_topology_stands_beside_its_name() {
        let level = json!({ "requiredTopologyLevel": "rack" });
        assert_snapshot!(told(&json!({ "topologyConstraint": level })), @"spec.topologyConstraint.topology: found nothing, allowed: the name of a Topology");
        let part = json!({ "name": "a", "minMember": 1, "topologyConstraint": level });
        assert_snapshot!(parts(&json!([part])), @"spec.subGroups: topologyConstraint.topology: found nothing in a, allowed: the name of a Topology");
        let whole = json!({ "topology": "dc", "requiredTopologyLevel": "rack" });
        assert_eq!(told(&json!({ "topologyConstraint": whole })), "nothing");
        assert_eq!(told(&json!({ "topologyConstraint": {} })), "nothing");
        let alone = json!({ "topology": "dc", "preferredTopologyLevel": "" });
        assert_snapshot!(told(&json!({ "topologyConstraint": alone })), @"spec.topologyConstraint: found topology dc without a level, allowed: requiredTopologyLevel, preferredTopologyLevel or both beside it");
        let part = json!({ "name": "a", "minMember": 1, "topologyConstraint": alone });
        assert_snapshot!(parts(&json!([part])), @"spec.subGroups: topologyConstraint: found topology dc without a level in a, allowed: requiredTopologyLevel, preferredTopologyLevel or both beside it");
    }
}
