//! Lists, pages, revisions, and the log.

use insta::assert_snapshot;
use schedlab_emulator::select::{FieldSelector, LabelSelector};
use schedlab_emulator::store::{Key, ListQuery, Listed, Resource};
use schedlab_json::json;

use crate::lab::{Lab, pod, said};

fn pods() -> Resource {
    Resource::new("", "pods")
}

/// With the pods `p0` … in `default`.
fn lab(count: usize) -> Lab {
    let mut lab = Lab::new();
    for number in 0..count {
        lab.create(pod(&format!("p{number}"))).expect("a valid pod");
    }
    lab
}

fn names(listed: &Listed) -> Vec<&str> {
    listed.items.iter().map(|pod| pod["metadata"]["name"].as_str().expect("a name")).collect()
}

fn page(limit: usize, token: Option<String>) -> ListQuery {
    ListQuery { limit, token: token.unwrap_or_default(), ..ListQuery::default() }
}

#[test]
fn pages_show_one_moment_whatever_is_written_meanwhile() {
    let mut lab = lab(5);
    let first = lab.store.list_page(&pods(), &page(2, None)).unwrap();
    assert_eq!(names(&first), ["p0", "p1"]);
    assert_eq!(first.remaining, Some(3));
    lab.delete(lab.key("", "Pod", "p3")).unwrap();
    lab.create(pod("p2a")).unwrap();
    lab.bind("p4", "n1").unwrap();
    let second = lab.store.list_page(&pods(), &page(2, first.token)).unwrap();
    assert_eq!(names(&second), ["p2", "p3"]);
    assert_eq!(second.revision, first.revision);
    let third = lab.store.list_page(&pods(), &page(2, second.token)).unwrap();
    assert_eq!(names(&third), ["p4"]);
    assert_eq!(third.items[0]["spec"].get("nodeName"), None);
    assert_eq!(third.token, None);
}

#[test]
fn a_page_after_compaction_says_how_to_go_on() {
    let mut lab = lab(3);
    let first = lab.store.list_page(&pods(), &page(1, None)).unwrap();
    lab.create(pod("p9")).unwrap();
    lab.store.compact_to(lab.store.revision());
    let error = lab.store.list_page(&pods(), &page(1, first.token)).unwrap_err();
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"));
    let rest = lab.store.list_page(&pods(), &page(0, error.continue_token)).unwrap();
    assert_eq!(names(&rest), ["p1", "p2", "p9"]);
}

#[test]
fn selectors_choose_and_pages_count_what_they_chose() {
    let mut lab = lab(4);
    let key = lab.key("", "Pod", "p1");
    lab.merge(key, json!({"metadata": {"labels": {"app": "db"}}})).unwrap();
    let query = ListQuery { labels: LabelSelector::parse("app=web").unwrap(), ..page(2, None) };
    let listed = lab.store.list_page(&pods(), &query).unwrap();
    assert_eq!(names(&listed), ["p0", "p2"]);
    assert_eq!(listed.remaining, None);
    let kind = lab.store.kinds().get(&pods()).unwrap();
    let fields = FieldSelector::parse("metadata.name=p3,spec.nodeName=", kind).unwrap();
    let query = ListQuery { fields, ..ListQuery::default() };
    assert_eq!(names(&lab.store.list_page(&pods(), &query).unwrap()), ["p3"]);
}

#[test]
fn a_list_stays_in_its_namespace() {
    let mut lab = lab(1);
    lab.create(json!({"kind": "Namespace", "metadata": {"name": "other"}})).unwrap();
    let mut elsewhere = pod("q");
    elsewhere["metadata"]["namespace"] = "other".into();
    lab.create(elsewhere).unwrap();
    let query = ListQuery { namespace: Some("other".to_owned()), ..ListQuery::default() };
    assert_eq!(names(&lab.store.list_page(&pods(), &query).unwrap()), ["q"]);
    assert_eq!(names(&lab.store.list_page(&pods(), &ListQuery::default()).unwrap()), ["p0", "q"]);
}

#[test]
fn an_exact_revision_shows_the_past() {
    let mut lab = lab(2);
    let then = lab.store.revision();
    lab.delete(lab.key("", "Pod", "p0")).unwrap();
    let at = |version_match: &str| ListQuery {
        resource_version: then.to_string(),
        version_match: version_match.to_owned(),
        ..ListQuery::default()
    };
    let exact = lab.store.list_page(&pods(), &at("Exact")).unwrap();
    assert_eq!((names(&exact), exact.revision), (vec!["p0", "p1"], then));
    let newer = lab.store.list_page(&pods(), &at("NotOlderThan")).unwrap();
    assert_eq!((names(&newer), newer.revision), (vec!["p1"], lab.store.revision()));
    lab.store.compact_to(lab.store.revision());
    assert_snapshot!(said(lab.store.list_page(&pods(), &at("Exact"))), @"410 Expired: The resourceVersion for the provided list is too old.");
}

#[test]
fn revision_parameters_that_exclude_each_other_are_refused() {
    let lab = lab(2);
    let token = lab.store.list_page(&pods(), &page(1, None)).unwrap().token.unwrap();
    let refusal = |resource_version: &str, version_match: &str, token: &str| {
        said(lab.store.list_page(
            &pods(),
            &ListQuery {
                resource_version: resource_version.to_owned(),
                version_match: version_match.to_owned(),
                token: token.to_owned(),
                ..ListQuery::default()
            },
        ))
    };
    assert_snapshot!(refusal("999", "", ""), @"504 Timeout: Timeout: Too large resource version: 999, current: 4");
    assert_snapshot!(refusal("x", "", ""), @r#"400 BadRequest: invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax"#);
    assert_snapshot!(refusal("", "Exact", ""), @r#"422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"#);
    assert_snapshot!(refusal("0", "Exact", ""), @r#"422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#);
    assert_snapshot!(refusal("1", "Sometimes", ""), @r#"422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Sometimes": supported values: "Exact", "NotOlderThan", """#);
    assert_snapshot!(refusal("1", "", &token), @"400 BadRequest: specifying resource version is not allowed when using continue");
    assert_snapshot!(refusal("0", "NotOlderThan", &token), @r#"422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"#);
    assert_eq!(refusal("0", "", ""), "accepted");
}

#[test]
fn the_log_has_every_change_once_and_in_order() {
    let lab = lab(3);
    let entries = lab.store.log_since(1).unwrap();
    let revisions: Vec<u64> = entries.iter().map(|entry| entry.revision).collect();
    assert_eq!(revisions, (2..=lab.store.revision()).collect::<Vec<u64>>());
}

#[test]
fn the_log_does_not_reach_back_behind_compaction() {
    let mut lab = lab(3);
    let last = lab.store.revision();
    lab.store.compact_to(last - 1);
    assert_eq!(lab.store.log_since(last - 1).unwrap().len(), 1);
    let compacted = lab.store.log_since(last - 2).unwrap_err();
    assert_eq!(
        compacted.to_string(),
        format!("too old resource version: {} ({})", last - 2, last - 1)
    );
    assert_eq!(lab.store.revision(), last, "compaction changes no revision");
}

#[test]
fn equal_seeds_and_writes_give_equal_logs() {
    let text = |lab: &Lab| {
        let entries = lab.store.log_since(1).expect("nothing was compacted");
        entries.iter().map(|entry| entry.object.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(text(&lab(4)), text(&lab(4)));
}

#[test]
fn dependents_follow_owner_references() {
    let mut lab = lab(1);
    let mut owned = pod("owned");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "u-1"}]);
    lab.create(owned).unwrap();
    let keys = |lab: &Lab| lab.store.dependents("u-1").cloned().collect::<Vec<Key>>();
    let key = lab.key("", "Pod", "owned");
    assert_eq!(keys(&lab).len(), 1);
    assert!(keys(&lab).contains(&key));
    lab.edit(key, &["metadata", "ownerReferences"], json!([])).unwrap();
    assert_eq!(keys(&lab), []);
}
