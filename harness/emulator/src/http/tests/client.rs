//! Through `kube::Client`.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};

use super::server;
use schedlab_api::json;

fn config_map(name: &str, value: &str) -> ConfigMap {
    schedlab_api::from_value(json!({"metadata": {"name": name}, "data": {"k": value}})).unwrap()
}

fn pod(name: &str) -> Pod {
    schedlab_api::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_read_listed_and_deleted() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().await.client());
    let created = maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(created.metadata.uid.is_some());
    maps.create(&PostParams::default(), &config_map("b", "1")).await.unwrap();
    let names: Vec<_> = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|m| m.metadata.name)
        .collect();
    assert_eq!(names, [Some("a".to_owned()), Some("b".to_owned())]);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_of_one_moment() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().await.client());
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, "1")).await.unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((first.items.len(), first.metadata.remaining_item_count), (2, Some(1)));
    maps.delete("c", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let rest = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    assert_eq!(rest.items[0].metadata.name.as_deref(), Some("c"));
    assert_eq!(rest.metadata.continue_, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_sees_only_events_after_its_revision() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().await.client());
    let first = maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let revision = first.metadata.resource_version.unwrap();
    let mut events = maps.watch(&WatchParams::default(), &revision).await.unwrap().boxed();
    let merge = Patch::Merge(json!({"data": {"k": "2"}}));
    maps.patch("a", &PatchParams::default(), &merge).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let WatchEvent::Modified(changed) = events.try_next().await.unwrap().unwrap() else { panic!() };
    assert_eq!(changed.data.unwrap()["k"], "2");
    let WatchEvent::Deleted(_) = events.try_next().await.unwrap().unwrap() else { panic!() };
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_time_is_over() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().await.client());
    let began = tokio::time::Instant::now();
    let watch = maps.watch(&WatchParams::default().timeout(290), "0").await.unwrap();
    let events: Vec<_> = watch.collect().await;
    assert_eq!((events.len(), began.elapsed().as_secs()), (0, 290));
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_ends_with_a_marked_bookmark() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().await.client());
    maps.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let mut events =
        maps.watch(&WatchParams::default().initial_events(), "0").await.unwrap().boxed();
    let WatchEvent::Added(_) = events.try_next().await.unwrap().unwrap() else { panic!() };
    let WatchEvent::Bookmark(mark) = events.try_next().await.unwrap().unwrap() else { panic!() };
    assert_eq!(mark.metadata.annotations["k8s.io/initial-events-end"], "true");
}

#[tokio::test(start_paused = true)]
async fn a_status_is_patched_strategically() {
    let pods: Api<Pod> = Api::default_namespaced(server().await.client());
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    for (kind, status) in [("Ready", "False"), ("Other", "True"), ("Ready", "True")] {
        let conditions = json!([{"type": kind, "status": status}]);
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        pods.patch_status("p", &PatchParams::default(), &patch).await.unwrap();
    }
    let conditions = pods.get("p").await.unwrap().status.unwrap().conditions.unwrap();
    let mut pairs: Vec<_> = conditions.into_iter().map(|c| (c.type_, c.status)).collect();
    pairs.sort();
    assert_eq!(
        pairs,
        [("Other".to_owned(), "True".to_owned()), ("Ready".to_owned(), "True".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn appliers_conflict_over_a_field() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().await.client());
    let applied = |value: &str| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": value}}))
    };
    maps.patch("a", &PatchParams::apply("one"), &applied("1")).await.unwrap();
    let again = maps.patch("a", &PatchParams::apply("one"), &applied("1")).await.unwrap();
    let refused = maps.patch("a", &PatchParams::apply("two"), &applied("2")).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    let forced = maps.patch("a", &PatchParams::apply("two").force(), &applied("2")).await.unwrap();
    assert_eq!(forced.data.unwrap()["k"], "2");
    assert_ne!(forced.metadata.resource_version, again.metadata.resource_version);
}

#[tokio::test(start_paused = true)]
async fn a_pod_leaving_a_selector_is_deleted_from_its_watch() {
    let pods: Api<Pod> = Api::default_namespaced(server().await.client());
    pods.create(&PostParams::default(), &pod("p")).await.unwrap();
    let selected = WatchParams::default().fields("status.phase!=Failed");
    let mut events = pods.watch(&selected, "0").await.unwrap().boxed();
    let WatchEvent::Added(_) = events.try_next().await.unwrap().unwrap() else { panic!() };
    let patch = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let failed = pods.patch_status("p", &PatchParams::default(), &patch).await.unwrap();
    let WatchEvent::Deleted(gone) = events.try_next().await.unwrap().unwrap() else { panic!() };
    assert_eq!(gone.metadata.resource_version, failed.metadata.resource_version);
    assert_ne!(gone.status.and_then(|status| status.phase).as_deref(), Some("Failed"));
}

#[tokio::test(start_paused = true)]
async fn fields_set_before_the_first_apply_belong_to_their_managers() {
    let maps: Api<ConfigMap> = Api::default_namespaced(server().await.client());
    let by = |manager: &str| PostParams {
        field_manager: Some(manager.to_owned()),
        ..PostParams::default()
    };
    maps.create(&by("kubectl-create"), &config_map("a", "1")).await.unwrap();
    let params =
        PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    let merge = Patch::Merge(json!({"data": {"l": "1"}}));
    maps.patch("a", &params, &merge).await.unwrap();
    let applied = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2", "l": "2", "m": "2"},
    });
    let refused = maps.patch("a", &PatchParams::apply("ci"), &Patch::Apply(&applied)).await;
    let kube::Error::Api(status) = refused.unwrap_err() else { panic!() };
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"kubectl-create\" using v1:\n- .data.k\n\
         conflicts with \"kubectl-edit\" using v1:\n- .data.l"
    );
}

#[tokio::test(start_paused = true)]
async fn reapplying_a_quantity_in_another_form_changes_nothing() {
    let pods: Api<Pod> = Api::default_namespaced(server().await.client());
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"g.x/y": 1}}}]},
    });
    let first = pods.patch("p", &PatchParams::apply("a"), &Patch::Apply(&applied)).await.unwrap();
    let again = pods.patch("p", &PatchParams::apply("a"), &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(first.metadata.resource_version, again.metadata.resource_version);
    // As in kube-apiserver, another form is another value if another manager applies it.
    let other = pods.patch("p", &PatchParams::apply("b"), &Patch::Apply(&applied)).await;
    let kube::Error::Api(status) = other.unwrap_err() else { panic!() };
    assert_eq!(status.code, 409);
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_applied_too() {
    let sets: Api<ReplicaSet> = Api::default_namespaced(server().await.client());
    let set = schedlab_api::from_value(json!({"metadata": {"name": "r"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}}));
    sets.create(&PostParams::default(), &set.unwrap()).await.unwrap();
    let applied = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "r"},
        "spec": {"replicas": 4},
    });
    let params = PatchParams::apply("scaler").force();
    let scale = sets.patch_scale("r", &params, &Patch::Apply(&applied)).await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    assert_eq!(sets.get("r").await.unwrap().spec.replicas, Some(4));
}
