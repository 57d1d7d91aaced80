use std::sync::Arc;

use schedlab_api::{Value, json};
use schedlab_audit::Rule;
use schedlab_scheduler::{ConfigSource, snapshot_file::Overrides};

use super::AuditClaim;
use crate::{
    Case,
    minimise::{Minimiser, tests::noisy_case},
};

/// The settings of this configuration file.
fn settings(file: &str) -> Overrides {
    let file = ConfigSource::parse("config".to_owned(), file.to_owned()).unwrap();
    Overrides { file, ..Overrides::default() }
}

/// A scheduler that does not look at the state of nodes.
const WITHOUT_NODE_STATE: &str = "plugins: {nodeavailability: {enabled: false}}";

/// The rules that the audit of three cycles reports.
fn rules(case: &Case, file: &str) -> Vec<Rule> {
    let (_, violations) = case.audited_replay(&settings(file), 3).unwrap();
    let mut rules: Vec<Rule> = violations.iter().map(|violation| violation.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn change(case: &mut Case, array: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let objects = case.cluster.objects.get_mut(array).unwrap();
    let object = objects.iter_mut().find(|it| it["metadata"]["name"] == name).unwrap();
    change(Arc::make_mut(object));
}

/// A case with a pending pod that fits onto a node.
fn pending_case() -> Case {
    let mut case = noisy_case();
    change(&mut case, "pods", "noise-0-0", |pod| {
        pod["spec"]["nodeName"] = Value::Null;
        pod["status"]["phase"] = json!("Pending");
    });
    case
}

/// Makes all nodes not ready.
fn fail_nodes(case: &mut Case) {
    for number in 0..12 {
        change(case, "nodes", &format!("n{number}"), |node| {
            node["status"]["conditions"][0]["status"] = json!("False");
        });
    }
}

#[test]
fn a_rule_is_named_by_its_number_or_name() {
    let read = |text: &str| text.parse::<AuditClaim>().map_or_else(|e| e, |it| it.to_string());
    insta::assert_snapshot!(read("audit 5"), @"audit quota and limit");
    insta::assert_snapshot!(read("audit quota and limit"), @"audit quota and limit");
    insta::assert_snapshot!(read("audit devices"), @"got audit devices, expected audit and the number or name of a rule that a replay shows: 1 (capacity), 3 (valid binding), 4 (gang atomicity), 5 (quota and limit), 9 (valid victim), 12 (whole-gang eviction), 22 (no bind to a deleted node), 29 (no negative amounts)");
}

#[test]
fn decisions_of_a_replay_are_judged() {
    let mut case = pending_case();
    assert_eq!(rules(&case, ""), []);
    fail_nodes(&mut case);
    assert_eq!(rules(&case, ""), []);
    assert_eq!(rules(&case, WITHOUT_NODE_STATE), [Rule::Binding]);
}

#[test]
fn a_case_shrinks_to_what_breaks_a_rule() {
    let mut case = pending_case();
    fail_nodes(&mut case);
    let holds = |case: &Case| rules(case, WITHOUT_NODE_STATE).contains(&Rule::Binding);
    assert!(holds(&case));
    let minimiser =
        Minimiser { holds: &holds, on_progress: &|_, _| {}, threads: 2, is_time_over: &|| false };
    let result = minimiser.minimise(&case);
    let counts =
        result.case.cluster.objects.iter().map(|(array, it)| format!("{array} {}", it.len()));
    insta::assert_snapshot!(counts.collect::<Vec<_>>().join(", "), @"nodes 1, podGroups 1, pods 1, queues 1");
    assert!(result.is_minimal);
}
