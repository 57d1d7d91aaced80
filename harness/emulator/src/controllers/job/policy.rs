//! The pod failure policy of a job.

use schedlab_api::{
    Value,
    object::{list, name, namespace, number, text},
};

/// What a pod failure policy does about a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FailureAction {
    /// The failure counts; also if no rule matches.
    Count,
    /// The failure does not count; the pod is replaced.
    Ignore,
    /// The index of the pod fails.
    FailIndex,
    /// The job fails with this message.
    FailJob(String),
}

/// The action of the pod failure policy for a failed pod.
pub(super) fn failure_action(job: &Value, pod: &Value) -> FailureAction {
    let rules = list(job, &["spec", "podFailurePolicy", "rules"]).iter().enumerate();
    let matching = rules.filter_map(|(index, rule)| Some((index, rule, match_message(rule, pod)?)));
    let Some((index, rule, why)) = matching.into_iter().next() else { return FailureAction::Count };
    match text(rule, &["action"]) {
        "Ignore" => FailureAction::Ignore,
        "FailIndex" => FailureAction::FailIndex,
        "FailJob" => {
            FailureAction::FailJob(format!("{why} matching FailJob rule at index {index}"))
        }
        _ => FailureAction::Count,
    }
}

/// The message about a pod that matches a rule of the pod failure policy; `None` if the rule does
/// not match.
fn match_message(rule: &Value, pod: &Value) -> Option<String> {
    let (space, pod_name) = (namespace(pod), name(pod));
    if rule["onExitCodes"].is_object() {
        let (container, code) = matching_exit_code(&rule["onExitCodes"], pod)?;
        return Some(format!(
            "Container {container} for pod {space}/{pod_name} failed with exit code {code}"
        ));
    }
    let patterns = list(rule, &["onPodConditions"]);
    let is_match = |condition: &&Value| {
        let mut patterns = patterns.iter();
        patterns.any(|one| ["type", "status"].iter().all(|field| one[*field] == condition[*field]))
    };
    let found = list(pod, &["status", "conditions"]).iter().find(is_match)?;
    Some(format!("Pod {space}/{pod_name} has condition {}", text(found, &["type"])))
}

/// The first container that ended with a matching exit code.
fn matching_exit_code<'p>(rule: &Value, pod: &'p Value) -> Option<(&'p str, i64)> {
    let codes = list(rule, &["values"]);
    let is_in = text(rule, &["operator"]) == "In";
    let only = rule.get("containerName").and_then(Value::as_str);
    let containers = ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .flat_map(|kind| list(pod, &["status", kind]));
    let ended = containers.filter_map(|container| {
        let code = number(container, &["state", "terminated", "exitCode"])?;
        Some((text(container, &["name"]), code))
    });
    ended
        .filter(|(container, code)| *code != 0 && only.is_none_or(|only| only == *container))
        .find(|(_, code)| codes.iter().any(|one| one.as_i64() == Some(*code)) == is_in)
}

#[cfg(test)]
mod tests {
    use schedlab_api::{Value, json};

    use super::{FailureAction, failure_action};

    /// A pod whose containers `a` and `b` ended with two codes, with a condition.
    fn pod(codes: [i64; 2], condition: [&str; 2]) -> Value {
        let ended = |name, code| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
        json!({
            "metadata": {"namespace": "n", "name": "p"},
            "status": {
                "phase": "Failed",
                "containerStatuses": [ended("a", codes[0]), ended("b", codes[1])],
                "conditions": [{"type": condition[0], "status": condition[1]}],
            },
        })
    }

    fn action_for(rules: &str, pod: &Value) -> FailureAction {
        let rules: Value = serde_saphyr::from_str(rules).unwrap();
        failure_action(&json!({"spec": {"podFailurePolicy": {"rules": rules}}}), pod)
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let ignore_3 = "{action: Ignore, onExitCodes: {operator: In, values: [3]}}";
        let fail_4 = "{action: FailJob, onExitCodes: {operator: In, values: [4]}}";
        let count_4 = "{action: Count, onExitCodes: {operator: In, values: [4]}}";
        let fail = FailureAction::FailJob(
            "Container b for pod n/p failed with exit code 4 matching FailJob rule at index 1"
                .to_owned(),
        );
        for (rules, codes, expected) in [
            (format!("[{ignore_3}, {fail_4}]"), [3, 4], FailureAction::Ignore),
            (format!("[{ignore_3}, {fail_4}]"), [0, 4], fail),
            (format!("[{count_4}, {fail_4}]"), [0, 4], FailureAction::Count),
            (format!("[{ignore_3}, {fail_4}]"), [1, 5], FailureAction::Count),
            ("[]".to_owned(), [1, 1], FailureAction::Count),
        ] {
            assert_eq!(
                action_for(&rules, &pod(codes, ["x", "True"])),
                expected,
                "{rules} {codes:?}"
            );
        }
    }

    #[test]
    fn an_exit_code_rule_can_name_a_container_and_negate_its_codes() {
        for (rule, codes, expected) in [
            ("containerName: a, operator: In, values: [7]", [7, 0], FailureAction::Ignore),
            ("containerName: b, operator: In, values: [7]", [7, 1], FailureAction::Count),
            ("operator: NotIn, values: [7]", [8, 0], FailureAction::Ignore),
            ("operator: NotIn, values: [7]", [7, 0], FailureAction::Count),
            // Containers that exited with 0 do not match.
            ("operator: NotIn, values: [7]", [0, 0], FailureAction::Count),
        ] {
            let rules = format!("[{{action: Ignore, onExitCodes: {{{rule}}}}}]");
            assert_eq!(
                action_for(&rules, &pod(codes, ["x", "True"])),
                expected,
                "{rule} {codes:?}"
            );
        }
    }

    #[test]
    fn a_rule_about_conditions_matches_type_and_status() {
        let fail = FailureAction::FailJob(
            "Pod n/p has condition DisruptionTarget matching FailJob rule at index 0".to_owned(),
        );
        for (rule, status, expected) in [
            ("{type: DisruptionTarget, status: 'True'}", "True", fail.clone()),
            ("{type: DisruptionTarget, status: 'True'}", "False", FailureAction::Count),
            ("{type: DisruptionTarget, status: 'False'}", "False", fail),
            ("{type: Other, status: 'True'}", "True", FailureAction::Count),
        ] {
            let rules = format!("[{{action: FailJob, onPodConditions: [{rule}]}}]");
            let found = action_for(&rules, &pod([1, 1], ["DisruptionTarget", status]));
            assert_eq!(found, expected, "{rule} {status}");
        }
    }
}
