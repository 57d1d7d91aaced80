//! The wire format.

use ::http::{Method, Request};

use super::{Router, get, get_as, send, send_with, server};
use schedlab_api::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn create_pod(router: &Router, name: &str) -> Value {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let path = "/api/v1/namespaces/default/pods";
    let (code, body) = send(router, Method::POST, path, Some(pod)).await;
    assert_eq!(code, 201, "{body}");
    body
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_are_not_found() {
    let router = server().await;
    for path in ["/api/v1/nothings", "/api/v2/pods", "/apis/none.x/v1"] {
        let (code, body) = get(&router, path).await;
        assert_eq!(
            (code, &body["message"], &body["kind"]),
            (404, &json!("the server could not find the requested resource"), &json!("Status")),
            "{path}"
        );
    }
    for path in ["/nothing", "/apis/none.x/v1/things", "/openapi/v4"] {
        let (code, body) = get(&router, path).await;
        assert_eq!((code, body), (404, json!("404 page not found\n")), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn methods_that_a_path_lacks_are_not_allowed() {
    let router = server().await;
    for (method, path) in [
        (Method::POST, "/version"),
        (Method::POST, "/api/v1/pods"),
        (Method::DELETE, "/api/v1/namespaces"),
    ] {
        assert_eq!(send(&router, method.clone(), path, None).await.0, 405, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_named() {
    let (code, body) = get(&server().await, "/apis/apps/v1/namespaces/default/deployments/d").await;
    assert_eq!(code, 404);
    assert_eq!(
        body,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "deployments.apps \"d\" not found", "reason": "NotFound", "code": 404,
            "details": {"name": "d", "group": "apps", "kind": "deployments"},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn pods_are_shown_as_a_table() {
    let router = server().await;
    create_pod(&router, "p").await;
    tokio::time::advance(std::time::Duration::from_secs(130)).await;
    let (code, table) = get_as(&router, "/api/v1/namespaces/default/pods", TABLE).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names.join(","),
        "Name,Ready,Status,Restarts,Age,IP,Node,Nominated Node,Readiness Gates"
    );
    let row = &table["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][4]), (&json!("p"), &json!("2m10s")));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_row_of_a_watched_table_has_headings() {
    let router = server().await;
    create_pod(&router, "p").await;
    create_pod(&router, "q").await;
    let path = "/api/v1/pods?watch=true&timeoutSeconds=1";
    let (_, text) = get_as(&router, path, TABLE).await;
    let events: Vec<Value> =
        text.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let headings: Vec<usize> = events
        .iter()
        .map(|event| event["object"]["columnDefinitions"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(headings, [9, 0]);
    assert_eq!(events[1]["object"]["rows"][0]["cells"][0], "q");
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_can_be_requested() {
    let router = server().await;
    create_pod(&router, "p").await;
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, list) = get_as(&router, "/api/v1/pods", accept).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0].get("spec"), None);
    assert_eq!(list["items"][0]["metadata"]["name"], "p");
}

#[tokio::test(start_paused = true)]
async fn version_2_of_openapi_describes_nothing() {
    let router = server().await;
    let (_, json) = get(&router, "/openapi/v2").await;
    assert_eq!((&json["swagger"], &json["definitions"]), (&json!("2.0"), &json!({})));
    for mark in ["@", "."] {
        let accept = format!("application/com.github.proto-openapi.spec.v2{mark}v1.0+protobuf");
        let (code, document) = get_as(&router, "/openapi/v2", &accept).await;
        assert_eq!((code, document), (200, json!("\n\u{3}2.0")));
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_may_be_yaml_or_protobuf() {
    let router = server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\ndata:\n  k: v\n";
    let request = Request::post(path).header("content-type", "application/yaml");
    let (code, made) = send_with(&router, request, yaml).await;
    assert_eq!((code, &made["data"]["k"]), (201, &json!("v")));
    let protobuf =
        || Request::post(path).header("content-type", "application/vnd.kubernetes.protobuf");
    let body = "k8s\0\n\u{f}\n\u{2}v1\u{12}\tConfigMap\u{12}\u{5}\n\u{3}\n\u{1}p";
    let (code, made) = send_with(&router, protobuf(), body).await;
    assert_eq!((code, &made["metadata"]["name"]), (201, &json!("p")), "{made}");
    let (code, refused) = send_with(&router, protobuf(), "{}").await;
    assert_eq!((code, &refused["reason"]), (400, &json!("BadRequest")));
    let request = Request::post(path).header("content-type", "text/plain");
    assert_eq!(send_with(&router, request, "x").await.0, 415);
    let (code, body) = send_with(&router, Request::post(path), "{").await;
    assert_eq!((code, &body["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test(start_paused = true)]
async fn an_apply_needs_a_manager_and_other_patches_no_force() {
    let router = server().await;
    let path = "/api/v1/namespaces/default/configmaps/c";
    let patch_of = |url: String, kind: &str| {
        Request::patch(url).header("content-type", format!("application/{kind}"))
    };
    let request = patch_of(path.to_owned(), "apply-patch+yaml");
    let (code, body) = send_with(&router, request, "{}").await;
    assert_eq!(
        (code, body["message"].as_str().unwrap()),
        (
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required \
             for apply patch"
        )
    );
    let request = patch_of(format!("{path}?force=true"), "merge-patch+json");
    assert_eq!(send_with(&router, request, "{}").await.0, 422);
    let (code, body) = send_with(&router, patch_of(path.to_owned(), "xml"), "").await;
    assert_eq!((code, body["message"].as_str().unwrap()), (415, "415: Unsupported Media Type"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leaves_nothing() {
    let router = server().await;
    let body = json!({"metadata": {"name": "c"}});
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    assert_eq!(send(&router, Method::POST, path, Some(body)).await.0, 201);
    assert_eq!(get(&router, "/api/v1/namespaces/default/configmaps/c").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn the_response_to_a_deletion_is_the_deleted_object() {
    let router = server().await;
    let path = "/api/v1/namespaces/default/configmaps";
    send(&router, Method::POST, path, Some(json!({"metadata": {"name": "c"}}))).await;
    let (code, body) = send(&router, Method::DELETE, &format!("{path}/c"), None).await;
    assert_eq!((code, &body["status"]), (200, &json!("Success")));
    assert_eq!(body["details"]["kind"], "configmaps");
    send(&router, Method::POST, path, Some(json!({"metadata": {"name": "d"}}))).await;
    let (code, body) = send(&router, Method::DELETE, path, None).await;
    assert_eq!((code, &body["kind"]), (200, &json!("ConfigMapList")));
    assert_eq!(body["items"][0]["metadata"]["name"], "d");
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_compacted_revision_gets_an_error_event() {
    let router = server().await;
    create_pod(&router, "p").await;
    router.store.change(|store, _| store.compact_to(3));
    let (code, event) = get(&router, "/api/v1/pods?watch=1&resourceVersion=1").await;
    assert_eq!((code, &event["type"]), (200, &json!("ERROR")));
    assert_eq!(
        (&event["object"]["code"], &event["object"]["reason"]),
        (&json!(410), &json!("Expired"))
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_names_groups_resources_and_parts() {
    let router = server().await;
    let (_, groups) = get(&router, "/apis").await;
    assert_eq!(groups["groups"][0]["name"], "apps");
    let (_, list) = get(&router, "/api/v1").await;
    let names: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    for name in ["pods", "pods/binding", "pods/eviction", "pods/status", "namespaces/finalize"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let (_, all) = get_as(&router, "/apis", accept).await;
    assert_eq!(all["kind"], "APIGroupDiscoveryList");
    let apps = &all["items"][0]["versions"][0];
    assert_eq!((&apps["version"], &apps["freshness"]), (&json!("v1"), &json!("Current")));
    let (_, version) = get(&router, "/version").await;
    assert_eq!(version["minor"], "37");
}

#[tokio::test(start_paused = true)]
async fn open_api_has_schemas_with_merge_keys() {
    let router = server().await;
    let (_, index) = get(&router, "/openapi/v3").await;
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let (code, document) = get(&router, url).await;
    assert_eq!(code, 200);
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Pod");
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"];
    assert_eq!(spec["containers"]["x-kubernetes-patch-merge-key"], "name");
    let pod = &document["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn access_reviews_allow_every_user_every_action() {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"verb": "delete"}}});
    let (code, body) = send(&server().await, Method::POST, path, Some(review)).await;
    assert_eq!((code, &body["status"]["allowed"]), (201, &json!(true)));
}

#[tokio::test(start_paused = true)]
async fn a_stored_object_is_read_with_the_current_schema_of_its_definition() {
    let router = server().await;
    let definition = |properties: Value| {
        let spec = json!({"type": "object", "properties": properties});
        json!({"metadata": {"name": "gangs.lab.dev"}, "spec": {"group": "lab.dev",
            "scope": "Namespaced", "names": {"plural": "gangs", "kind": "Gang"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}})
    };
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let before = definition(json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    assert_eq!(send(&router, Method::POST, crds, Some(before)).await.0, 201);
    let gangs = "/apis/lab.dev/v1/namespaces/default/gangs";
    let gang = json!({"apiVersion": "lab.dev/v1", "kind": "Gang", "metadata": {"name": "a"},
        "spec": {"a": "x", "b": "y"}});
    let (code, created) = send(&router, Method::POST, gangs, Some(gang)).await;
    assert_eq!(code, 201, "{created}");
    let crd = format!("{crds}/gangs.lab.dev");
    let (_, mut changed) = get(&router, &crd).await;
    let properties = json!({"a": {"type": "string"}, "c": {"type": "integer", "default": 5}});
    changed["spec"] = definition(properties)["spec"].take();
    assert_eq!(send(&router, Method::PUT, &crd, Some(changed)).await.0, 200);
    let expected = json!({"a": "x", "c": 5});
    let (_, read) = get(&router, &format!("{gangs}/a")).await;
    assert_eq!((&read["spec"], &read["metadata"]), (&expected, &created["metadata"]));
    let (_, listed) = get(&router, gangs).await;
    assert_eq!(listed["items"][0]["spec"], expected);
    // A write stores the defaults; they do not count as a change of the spec.
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let merge = Request::patch(format!("{gangs}/a"));
    let merge = merge.header("content-type", "application/merge-patch+json");
    let (code, patched) = send_with(&router, merge, &labelled.to_string()).await;
    assert_eq!((code, &patched["spec"]), (200, &expected));
    assert_eq!(patched["metadata"]["generation"], 1);
}
