//! Watches over a store, without HTTP.

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};

use super::{Cursor, LiveWatch, WatchEvent, WatchQuery};
use crate::api_types::error::ApiError;
use crate::api_types::field_selector::FieldSelector;
use crate::api_types::label_selector::LabelSelector;
use crate::clock::Clock;
use crate::store::shared::SharedStore;
use crate::store::{DeleteOptions, Key, Op, PatchBody, Resource, Store, Subresource, Write};
use schedlab_api::{json, object};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn maps() -> Resource {
    Resource::new("", "configmaps")
}

fn write(store: &mut Store, name: &str, op: Op) {
    let key = Key::new(maps(), "default", name);
    store.write(Write::new(key, op, "test"), now()).unwrap();
}

fn create(store: &mut Store, name: &str) {
    let body = json!({"metadata": {"name": name, "labels": {"app": name}}});
    write(store, name, Op::Create(body));
}

fn relabel(store: &mut Store, name: &str, label: &str) {
    let patch = json!({"metadata": {"labels": {"app": label}}});
    write(store, name, Op::Patch(Subresource::None, PatchBody::Merge(patch)));
}

fn store() -> Store {
    let mut store = Store::new(1);
    let key = Key::new(Resource::new("", "namespaces"), "", "default");
    let body = json!({"metadata": {"name": "default"}});
    store.write(Write::new(key, Op::Create(body), "test"), now()).unwrap();
    store
}

fn query(labels: &str, resource_version: &str) -> WatchQuery {
    WatchQuery {
        resource: maps(),
        namespace: None,
        labels: LabelSelector::parse(labels).unwrap(),
        fields: FieldSelector::default(),
        resource_version: resource_version.to_owned(),
        version_match: String::new(),
        initial_events: None,
        bookmarks: false,
    }
}

/// `+a ~a -a mark@7`.
fn text(events: &[WatchEvent]) -> String {
    let words: Vec<String> = events
        .iter()
        .map(|event| match event {
            WatchEvent::Added(object) => format!("+{}", object::name(object)),
            WatchEvent::Modified(object) => format!("~{}", object::name(object)),
            WatchEvent::Deleted(object) => format!("-{}", object::name(object)),
            WatchEvent::Bookmark { revision, ends_initial_events: false } => {
                format!("mark@{revision}")
            }
            WatchEvent::Bookmark { revision, ends_initial_events: true } => {
                format!("end@{revision}")
            }
        })
        .collect();
    words.join(" ")
}

#[test]
fn a_watch_continues_strictly_after_its_revision() {
    let mut store = store();
    create(&mut store, "a");
    create(&mut store, "b");
    let (mut cursor, initial) = Cursor::start(&store, query("", "3"), now()).unwrap();
    assert_eq!(text(&initial), "");
    assert_eq!(text(&cursor.advance(&store, now(), 10).unwrap()), "+b");
    assert_eq!(text(&cursor.advance(&store, now(), 10).unwrap()), "");
}

#[test]
fn a_watch_without_a_revision_begins_with_existing_objects() {
    let mut store = store();
    create(&mut store, "a");
    for revision in ["", "0"] {
        let (_, initial) = Cursor::start(&store, query("", revision), now()).unwrap();
        assert_eq!(text(&initial), "+a");
    }
}

#[test]
fn an_object_that_starts_or_stops_matching_is_added_or_deleted() {
    let mut store = store();
    create(&mut store, "a");
    let (mut cursor, _) = Cursor::start(&store, query("app=x", "3"), now()).unwrap();
    relabel(&mut store, "a", "x");
    relabel(&mut store, "a", "y");
    let events = cursor.advance(&store, now(), 10).unwrap();
    assert_eq!(text(&events), "+a -a");
    let WatchEvent::Deleted(gone) = &events[1] else { panic!() };
    assert_eq!(object::label(gone, "app"), Some("x"));
    assert_eq!(object::resource_version(gone), store.revision().to_string());
}

#[test]
fn a_deletion_carries_the_last_state_with_a_revision_of_its_own() {
    let mut store = store();
    create(&mut store, "a");
    let (mut cursor, _) = Cursor::start(&store, query("", "3"), now()).unwrap();
    write(&mut store, "a", Op::Delete(DeleteOptions::default()));
    let events = cursor.advance(&store, now(), 10).unwrap();
    let [WatchEvent::Deleted(gone)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(object::resource_version(gone), store.revision().to_string());
}

#[test]
fn a_slow_watcher_gets_every_event_in_portions() {
    let mut store = store();
    let (mut cursor, _) = Cursor::start(&store, query("", "2"), now()).unwrap();
    for index in 0..300 {
        create(&mut store, &format!("m{index:03}"));
    }
    let mut seen = 0;
    while cursor.is_behind(store.revision()) {
        let portion = cursor.advance(&store, now(), 7).unwrap();
        assert!(portion.len() <= 7);
        seen += portion.len();
    }
    assert_eq!(seen, 300);
}

#[test]
fn a_watch_behind_the_log_gets_compacted() {
    let mut store = store();
    create(&mut store, "a");
    let (mut cursor, _) = Cursor::start(&store, query("", "2"), now()).unwrap();
    store.compact_to(3);
    assert_eq!(cursor.advance(&store, now(), 10).unwrap_err().requested, 2);
}

#[test]
fn bookmarks_are_sent_with_activity_of_other_objects() {
    let mut store = store();
    let marked = WatchQuery { bookmarks: true, ..query("app=none", "2") };
    let (mut cursor, _) = Cursor::start(&store, marked, now()).unwrap();
    create(&mut store, "a");
    let later = |secs| now() + SignedDuration::from_secs(secs);
    assert_eq!(text(&cursor.advance(&store, later(59), 10).unwrap()), "");
    create(&mut store, "b");
    assert_eq!(text(&cursor.advance(&store, later(61), 10).unwrap()), "mark@4");
}

#[test]
fn a_watch_ignores_other_kinds_even_after_compaction() {
    let shared = SharedStore::new(store(), Clock::real());
    let mut tail = LiveWatch::start(&shared, query("", "1")).unwrap();
    let secret = Key::new(Resource::new("", "secrets"), "default", "s");
    let body = json!({"metadata": {"name": "s"}});
    shared.write(Write::new(secret, Op::Create(body), "test")).unwrap();
    assert!(tail.changed().now_or_never().is_none());
    assert_eq!(text(&tail.next_events().unwrap()), "");
    shared.change(|store, _| store.compact_to(store.revision()));
    let map = |name| {
        let body = json!({"metadata": {"name": name}});
        Write::new(Key::new(maps(), "default", name), Op::Create(body), "test")
    };
    shared.write(map("a")).unwrap();
    shared.write(map("b")).unwrap();
    assert!(tail.changed().now_or_never().is_some());
    assert_eq!(text(&tail.next_events().unwrap()), "+a +b");
    assert!(tail.changed().now_or_never().is_none());
    assert_eq!(text(&tail.next_events().unwrap()), "");
}

#[test]
fn a_watch_begun_in_the_past_has_something_to_read_at_once() {
    let mut past = store();
    create(&mut past, "a");
    let shared = SharedStore::new(past, Clock::real());
    let mut tail = LiveWatch::start(&shared, query("", "2")).unwrap();
    assert_eq!(text(&tail.next_events().unwrap()), "+a");
}

#[test]
fn a_streamed_list_ends_with_a_bookmark() {
    let mut store = store();
    create(&mut store, "a");
    let streamed = WatchQuery {
        initial_events: Some(true),
        version_match: "NotOlderThan".to_owned(),
        bookmarks: true,
        ..query("", "")
    };
    let (_, initial) = Cursor::start(&store, streamed.clone(), now()).unwrap();
    assert_eq!(text(&initial), "+a end@3");
    let none = WatchQuery { initial_events: Some(false), ..streamed };
    let (_, initial) = Cursor::start(&store, none, now()).unwrap();
    assert_eq!(text(&initial), "");
}

#[test]
fn inconsistent_watch_queries_are_refused() {
    let store = store();
    let refused = |query: WatchQuery| -> ApiError {
        Cursor::start(&store, query, now()).map(|_| ()).unwrap_err()
    };
    let initial = WatchQuery { initial_events: Some(true), ..query("", "") };
    assert_eq!(
        refused(initial).message,
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
         sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    );
    let matched = WatchQuery { version_match: "NotOlderThan".to_owned(), ..query("", "3") };
    assert_eq!(refused(matched).code, 422);
    assert_eq!(refused(query("", "x")).code, 500);
    let future = WatchQuery {
        initial_events: Some(true),
        version_match: "NotOlderThan".to_owned(),
        ..query("", "99")
    };
    assert_eq!(refused(future).code, 504);
}

#[test]
fn the_last_bookmark_of_a_list_is_annotated() {
    let mark = super::Bookmark::new("ConfigMap", "v1", 7, true);
    let mark = schedlab_api::to_value(&mark).unwrap();
    assert_eq!(mark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(mark["metadata"]["resourceVersion"], "7");
}
