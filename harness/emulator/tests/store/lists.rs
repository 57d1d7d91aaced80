//! Lists, pages, revisions, and the log.

use insta::assert_snapshot;
use schedlab_api::json;
use schedlab_emulator::store::{Key, ListPage, ListQuery, Resource};
use schedlab_emulator::{FieldSelector, LabelSelector};

use crate::test_store::{TestStore, outcome, pod};

fn pods() -> Resource {
    Resource::new("", "pods")
}

/// A store with the pods `p0` … in `default`.
fn store_with_pods(count: usize) -> TestStore {
    let mut fixture = TestStore::new();
    for number in 0..count {
        fixture.create(pod(&format!("p{number}"))).expect("a valid pod");
    }
    fixture
}

fn names(listed: &ListPage) -> Vec<&str> {
    listed.items.iter().map(|pod| pod["metadata"]["name"].as_str().expect("a name")).collect()
}

fn page(limit: usize, token: Option<String>) -> ListQuery {
    ListQuery { limit, continue_token: token.unwrap_or_default(), ..ListQuery::default() }
}

#[test]
fn all_pages_of_a_list_show_the_same_revision_despite_writes() {
    let mut fixture = store_with_pods(5);
    let first = fixture.store.list_page(&pods(), &page(2, None)).unwrap();
    assert_eq!(names(&first), ["p0", "p1"]);
    assert_eq!(first.remaining_items, Some(3));
    fixture.delete(fixture.key("", "Pod", "p3")).unwrap();
    fixture.create(pod("p2a")).unwrap();
    fixture.bind("p4", "n1").unwrap();
    let second = fixture.store.list_page(&pods(), &page(2, first.continue_token)).unwrap();
    assert_eq!(names(&second), ["p2", "p3"]);
    assert_eq!(second.revision, first.revision);
    let third = fixture.store.list_page(&pods(), &page(2, second.continue_token)).unwrap();
    assert_eq!(names(&third), ["p4"]);
    assert_eq!(third.items[0]["spec"].get("nodeName"), None);
    assert_eq!(third.continue_token, None);
}

#[test]
fn a_page_after_compaction_has_a_new_continue_token() {
    let mut fixture = store_with_pods(3);
    let first = fixture.store.list_page(&pods(), &page(1, None)).unwrap();
    fixture.create(pod("p9")).unwrap();
    fixture.store.compact_to(fixture.store.revision());
    let error = fixture.store.list_page(&pods(), &page(1, first.continue_token)).unwrap_err();
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"));
    let rest = fixture.store.list_page(&pods(), &page(0, error.continue_token)).unwrap();
    assert_eq!(names(&rest), ["p1", "p2", "p9"]);
}

#[test]
fn selectors_filter_and_pages_count_only_matching_objects() {
    let mut fixture = store_with_pods(4);
    let key = fixture.key("", "Pod", "p1");
    fixture.merge(key, json!({"metadata": {"labels": {"app": "db"}}})).unwrap();
    let query = ListQuery { labels: LabelSelector::parse("app=web").unwrap(), ..page(2, None) };
    let listed = fixture.store.list_page(&pods(), &query).unwrap();
    assert_eq!(names(&listed), ["p0", "p2"]);
    assert_eq!(listed.remaining_items, None);
    let kind = fixture.store.kinds().get(&pods()).unwrap();
    let fields = FieldSelector::parse("metadata.name=p3,spec.nodeName=", kind).unwrap();
    let query = ListQuery { fields, ..ListQuery::default() };
    assert_eq!(names(&fixture.store.list_page(&pods(), &query).unwrap()), ["p3"]);
}

#[test]
fn a_list_stays_in_its_namespace() {
    let mut fixture = store_with_pods(1);
    fixture.create(json!({"kind": "Namespace", "metadata": {"name": "other"}})).unwrap();
    let mut elsewhere = pod("q");
    elsewhere["metadata"]["namespace"] = "other".into();
    fixture.create(elsewhere).unwrap();
    let query = ListQuery { namespace: Some("other".to_owned()), ..ListQuery::default() };
    assert_eq!(names(&fixture.store.list_page(&pods(), &query).unwrap()), ["q"]);
    assert_eq!(
        names(&fixture.store.list_page(&pods(), &ListQuery::default()).unwrap()),
        ["p0", "q"]
    );
}

#[test]
fn an_exact_revision_shows_the_past() {
    let mut fixture = store_with_pods(2);
    let then = fixture.store.revision();
    fixture.delete(fixture.key("", "Pod", "p0")).unwrap();
    let at = |version_match: &str| ListQuery {
        resource_version: then.to_string(),
        version_match: version_match.to_owned(),
        ..ListQuery::default()
    };
    let exact = fixture.store.list_page(&pods(), &at("Exact")).unwrap();
    assert_eq!((names(&exact), exact.revision), (vec!["p0", "p1"], then));
    let newer = fixture.store.list_page(&pods(), &at("NotOlderThan")).unwrap();
    assert_eq!((names(&newer), newer.revision), (vec!["p1"], fixture.store.revision()));
    fixture.store.compact_to(fixture.store.revision());
    assert_snapshot!(outcome(fixture.store.list_page(&pods(), &at("Exact"))), @"410 Expired: The resourceVersion for the provided list is too old.");
}

#[test]
fn revision_parameters_that_exclude_each_other_are_refused() {
    let fixture = store_with_pods(2);
    let token = fixture.store.list_page(&pods(), &page(1, None)).unwrap().continue_token.unwrap();
    let refusal = |resource_version: &str, version_match: &str, token: &str| {
        outcome(fixture.store.list_page(
            &pods(),
            &ListQuery {
                resource_version: resource_version.to_owned(),
                version_match: version_match.to_owned(),
                continue_token: token.to_owned(),
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
    let fixture = store_with_pods(3);
    let entries = fixture.store.log_since(1).unwrap();
    let revisions: Vec<u64> = entries.iter().map(|entry| entry.revision).collect();
    assert_eq!(revisions, (2..=fixture.store.revision()).collect::<Vec<u64>>());
}

#[test]
fn the_log_does_not_reach_back_behind_compaction() {
    let mut fixture = store_with_pods(3);
    let last = fixture.store.revision();
    fixture.store.compact_to(last - 1);
    assert_eq!(fixture.store.log_since(last - 1).unwrap().len(), 1);
    let compacted = fixture.store.log_since(last - 2).unwrap_err();
    assert_eq!(
        compacted.to_string(),
        format!("too old resource version: {} ({})", last - 2, last - 1)
    );
    assert_eq!(fixture.store.revision(), last, "compaction changes no revision");
}

#[test]
fn equal_seeds_and_writes_give_equal_logs() {
    let text = |fixture: &TestStore| {
        let entries = fixture.store.log_since(1).expect("nothing was compacted");
        entries.iter().map(|entry| entry.object.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(text(&store_with_pods(4)), text(&store_with_pods(4)));
}

#[test]
fn dependents_follow_owner_references() {
    let mut fixture = store_with_pods(1);
    let mut owned = pod("owned");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "u-1"}]);
    fixture.create(owned).unwrap();
    let keys = |fixture: &TestStore| fixture.store.dependents("u-1").cloned().collect::<Vec<Key>>();
    let key = fixture.key("", "Pod", "owned");
    assert_eq!(keys(&fixture).len(), 1);
    assert!(keys(&fixture).contains(&key));
    fixture.edit(key, &["metadata", "ownerReferences"], json!([])).unwrap();
    assert_eq!(keys(&fixture), []);
}
