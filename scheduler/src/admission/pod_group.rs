//! Validates PodGroups. Stricter than decisions, as KAI's webhook is: decisions treat
//! `minSubGroup: 0` as unset and ignore `minSubGroup` of leaf sub-groups; both are rejected here.

use schedlab_api::Value;

use crate::{
    cache::PodGroupRecord,
    parse::{GoDuration, Malformed, at, list, parse_go_duration, shown, text},
};

const EXPECTED_NAME: &str = "a name, to which pods refer by label";
const EXPECTED_LEAF_MINIMUM: &str = "minMember, as the sub-group has no child sub-groups";
const EXPECTED_POSITIVE: &str = "an integer from 1 to 2147483647";
const EXPECTED_DELAY: &str = "a duration above 0 (a negative one counts as 0: victims are evicted for the \
                     group at once)";

/// The first fault of a PodGroup.
pub(super) fn pod_group_fault(object: &Value) -> Option<Malformed> {
    PodGroupRecord::from_object(object, "").malformed.or_else(|| missing_field(object))
}

/// A warning about a negative `spec.preemptionDelay`: it counts as 0, although a negative staleness
/// grace period means never.
pub(super) fn negative_delay_warning(object: &Value) -> Option<Malformed> {
    let found = at(object, "/spec/preemptionDelay")?;
    let is_negative =
        matches!(found.as_str().and_then(parse_go_duration), Some(GoDuration::Negative));
    is_negative.then(|| Malformed::new("spec.preemptionDelay", shown(found), EXPECTED_DELAY))
}

/// The first fault that the scheduler's decisions tolerate: a missing field, or a field without
/// effect.
fn missing_field(object: &Value) -> Option<Malformed> {
    if is_zero(object, "/spec/minSubGroup") {
        return Some(Malformed::new("spec.minSubGroup", "0", EXPECTED_POSITIVE));
    }
    let parts = list(object, "/spec/subGroups");
    parts.iter().zip(0..).find_map(|(part, at)| missing_field_of_sub_group(parts, part, at))
}

fn missing_field_of_sub_group(
    sub_groups: &[Value],
    sub_group: &Value,
    index: usize,
) -> Option<Malformed> {
    let name = text(sub_group, "/name").unwrap_or_default();
    let field = |of: &str| format!("spec.subGroups[{index}].{of}");
    if name.is_empty() {
        return Some(Malformed::new(field("name"), "nothing", EXPECTED_NAME));
    }
    if sub_groups.iter().any(|other| text(other, "/parent") == Some(name)) {
        let none = is_zero(sub_group, "/minSubGroup");
        return none.then(|| {
            Malformed::new(field("minSubGroup"), format!("0 of {name}"), EXPECTED_POSITIVE)
        });
    }
    let found = at(sub_group, "/minSubGroup").filter(|found| !found.is_null())?;
    Some(Malformed::new(field("minSubGroup"), format!("{found} of {name}"), EXPECTED_LEAF_MINIMUM))
}

fn is_zero(object: &Value, pointer: &str) -> bool {
    at(object, pointer).and_then(Value::as_i64) == Some(0)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use schedlab_api::json;

    use super::*;

    fn fault_text(spec: &Value) -> String {
        let wrong = pod_group_fault(&json!({ "spec": spec }));
        wrong.map_or_else(|| "nothing".to_owned(), |wrong| wrong.to_string())
    }

    fn fault_text_of_sub_groups(parts: &Value) -> String {
        fault_text(&json!({ "subGroups": parts }))
    }

    #[test]
    fn every_sub_group_needs_a_name_and_every_leaf_a_min_member() {
        assert_snapshot!(fault_text_of_sub_groups(&json!([{ "name": "a" }])), @"spec.subGroups[0].minMember: got nothing of a, expected minMember, as the sub-group has no child sub-groups");
        assert_snapshot!(fault_text_of_sub_groups(&json!([{ "name": "a", "minMember": 1 }, { "name": "b", "minSubGroup": 0 }])), @"spec.subGroups[1].minMember: got nothing of b, expected minMember, as the sub-group has no child sub-groups");
        assert_snapshot!(fault_text_of_sub_groups(&json!([{ "name": "", "minMember": 1 }])), @"spec.subGroups[0].name: got nothing, expected a name, to which pods refer by label");
        let both = json!({ "name": "a", "minMember": 1, "minSubGroup": 0 });
        assert_snapshot!(fault_text_of_sub_groups(&json!([both])), @"spec.subGroups[0].minSubGroup: got 0 of a, expected minMember, as the sub-group has no child sub-groups");
        let below = json!({ "name": "b", "parent": "a", "minMember": 0 });
        assert_eq!(fault_text_of_sub_groups(&json!([{ "name": "a" }, below])), "nothing");
        assert_eq!(
            fault_text_of_sub_groups(&json!([{ "name": "a", "minSubGroup": 1 }, below])),
            "nothing"
        );
        assert_snapshot!(fault_text_of_sub_groups(&json!([{ "name": "a", "minSubGroup": 0 }, below])), @"spec.subGroups[0].minSubGroup: got 0 of a, expected an integer from 1 to 2147483647");
        let one = json!([{ "name": "a", "minMember": 1 }]);
        assert_snapshot!(fault_text(&json!({ "minSubGroup": 0, "subGroups": one })), @"spec.minSubGroup: got 0, expected an integer from 1 to 2147483647");
    }

    #[test]
    fn a_topology_constraint_needs_both_a_topology_and_a_level() {
        let level = json!({ "requiredTopologyLevel": "rack" });
        assert_snapshot!(fault_text(&json!({ "topologyConstraint": level })), @"spec.topologyConstraint.topology: got nothing, expected the name of a Topology");
        let part = json!({ "name": "a", "minMember": 1, "topologyConstraint": level });
        assert_snapshot!(fault_text_of_sub_groups(&json!([part])), @"spec.subGroups: topologyConstraint.topology: got nothing in a, expected the name of a Topology");
        let whole = json!({ "topology": "dc", "requiredTopologyLevel": "rack" });
        assert_eq!(fault_text(&json!({ "topologyConstraint": whole })), "nothing");
        assert_eq!(fault_text(&json!({ "topologyConstraint": {} })), "nothing");
        let alone = json!({ "topology": "dc", "preferredTopologyLevel": "" });
        assert_snapshot!(fault_text(&json!({ "topologyConstraint": alone })), @"spec.topologyConstraint: got topology dc without a level, expected requiredTopologyLevel, preferredTopologyLevel or both beside it");
        let part = json!({ "name": "a", "minMember": 1, "topologyConstraint": alone });
        assert_snapshot!(fault_text_of_sub_groups(&json!([part])), @"spec.subGroups: topologyConstraint: got topology dc without a level in a, expected requiredTopologyLevel, preferredTopologyLevel or both beside it");
    }
}
