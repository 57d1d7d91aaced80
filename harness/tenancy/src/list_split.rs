//! Splits a LIST of all namespaces into LISTs of the scenario's own namespaces. Otherwise every
//! client that starts would read the objects of all scenarios.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Method, Request, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use schedlab_api::{Value, object_names};

use super::Error;
use super::names::DEFAULT_NAMESPACE;
use super::rewrite_request::RequestTarget;

/// Namespaced collections that have many objects on a busy cluster. Their LISTs are split by
/// namespace.
const COLLECTIONS_TO_SPLIT: [&str; 8] =
    ["pods", "events", "leases", "jobs", "jobsets", "podgroups", "replicasets", "resourceclaims"];

/// The namespaces that a scenario created, with their names in the cluster. Clones share their
/// state.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantNamespaces(Arc<Mutex<BTreeSet<String>>>);

impl TenantNamespaces {
    /// Records the namespace that was written, from the API server's response.
    pub(super) fn record_namespace(&self, target: &RequestTarget, response: &Value) {
        if target.plural == "namespaces"
            && let Some(name) = response["metadata"]["name"].as_str()
        {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
    }

    /// The namespaces in which the scenario can have objects of a collection, including namespaces
    /// that all scenarios share.
    fn namespaces_to_list(&self, plural: &str) -> BTreeSet<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match plural {
            "leases" => all.insert(object_names::NODE_LEASE_NAMESPACE.to_owned()),
            "events" => all.insert(DEFAULT_NAMESPACE.to_owned()),
            _ => false,
        };
        all
    }
}

/// Whether a request is a LIST of a large collection in all namespaces, with current data and
/// without a limit.
pub(super) fn should_split_by_namespace(
    target: &RequestTarget,
    method: &Method,
    uri: &Uri,
) -> bool {
    let all = target.namespace.is_none() && target.name.is_none() && !target.is_watch;
    *method == Method::GET
        && all
        && COLLECTIONS_TO_SPLIT.contains(&target.plural.as_str())
        && uri.query().is_none_or(|query| query == "resourceVersion=0")
}

/// Lists a collection in each of the scenario's namespaces, at one `resourceVersion`. `None` if a
/// response is not a list; the caller then sends the original request.
pub(super) async fn list_by_namespace(
    inner: &kube::Client,
    namespaces: &TenantNamespaces,
    target: &RequestTarget,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Value>, Error> {
    let path = uri.path();
    let Some(root) = path.strip_suffix(&target.plural) else { return Ok(None) };
    let Some(mut whole) = get(inner, &format!("{path}?limit=1"), headers).await? else {
        return Ok(None);
    };
    let Some(revision) = whole["metadata"]["resourceVersion"].as_str().map(str::to_owned) else {
        return Ok(None);
    };
    let mut items = Vec::new();
    for namespace in namespaces.namespaces_to_list(&target.plural) {
        let path = format!(
            "{root}namespaces/{namespace}/{}?resourceVersion={revision}&resourceVersionMatch=Exact",
            target.plural,
        );
        let Some(mut part) = get(inner, &path, headers).await? else { return Ok(None) };
        let Some(part) = part["items"].as_array_mut() else { return Ok(None) };
        items.append(part);
    }
    whole["items"] = Value::Array(items);
    if let Some(metadata) = whole["metadata"].as_object_mut() {
        metadata.retain(|field, _| field == "resourceVersion");
    }
    Ok(Some(whole))
}

async fn get(
    inner: &kube::Client,
    path: &str,
    headers: &HeaderMap,
) -> Result<Option<Value>, Error> {
    let mut request = Request::get(path).body(Body::empty())?;
    *request.headers_mut() = headers.clone();
    let (head, body) = inner.send(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    let list = serde_json::from_slice::<Value>(&body).ok();
    Ok(list.filter(|list| head.status.is_success() && list["items"].is_array()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Response;
    use http_body_util::Full;
    use hyper::body::Bytes;
    use schedlab_api::json;

    use super::*;

    /// A cluster that knows three lists only.
    fn cluster() -> (kube::Client, Arc<Mutex<Vec<String>>>) {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = Arc::clone(&requests);
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().to_string();
            recorded.lock().unwrap().push(path.clone());
            let items = match path.as_str() {
                "/api/v1/pods?limit=1" => json!([{"metadata": {"name": "somebody"}}]),
                path if path.starts_with("/api/v1/namespaces/") => json!([{"at": path}]),
                _ => json!(null),
            };
            let list = json!({
                "kind": "PodList", "items": items,
                "metadata": {"resourceVersion": "12", "continue": "x", "remainingItemCount": 3},
            });
            let body = Full::new(Bytes::from(list.to_string()));
            std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(body)))
        });
        (kube::Client::new(service, "default"), requests)
    }

    async fn listed(path: &str) -> (Option<Value>, Vec<String>) {
        let (client, requests) = cluster();
        let namespaces = TenantNamespaces::default();
        let plural = path.rsplit('/').next().unwrap();
        let namespaces_target =
            RequestTarget { plural: "namespaces".to_owned(), ..RequestTarget::default() };
        for name in ["qx1-b", "qx1-a"] {
            namespaces.record_namespace(&namespaces_target, &json!({"metadata": {"name": name}}));
        }
        let target = RequestTarget { plural: plural.to_owned(), ..RequestTarget::default() };
        let uri = path.parse().unwrap();
        let list = list_by_namespace(&client, &namespaces, &target, &uri, &HeaderMap::new())
            .await
            .unwrap();
        let requests = requests.lock().unwrap().clone();
        (list, requests)
    }

    #[tokio::test]
    async fn a_list_is_split_by_namespace_at_one_resource_version() {
        let (list, requests) = listed("/api/v1/pods").await;
        let exact = "resourceVersion=12&resourceVersionMatch=Exact";
        let own = ["a", "b"].map(|name| format!("/api/v1/namespaces/qx1-{name}/pods?{exact}"));
        assert_eq!(requests, ["/api/v1/pods?limit=1", &own[0], &own[1]]);
        let expected = json!({
            "kind": "PodList", "metadata": {"resourceVersion": "12"},
            "items": [{"at": own[0]}, {"at": own[1]}],
        });
        assert_eq!(list, Some(expected));
    }

    #[tokio::test]
    async fn a_failed_list_is_not_split() {
        let (list, requests) = listed("/apis/example.com/v1/podgroups").await;
        assert_eq!(list, None);
        assert_eq!(requests, ["/apis/example.com/v1/podgroups?limit=1"]);
    }

    #[test]
    fn only_complete_lists_of_large_collections_are_split() {
        let long = |plural: &str, query: &str| {
            let target = RequestTarget { plural: plural.to_owned(), ..RequestTarget::default() };
            should_split_by_namespace(
                &target,
                &Method::GET,
                &format!("/api/v1/{plural}{query}").parse().unwrap(),
            )
        };
        assert!(long("pods", "") && long("events", "?resourceVersion=0"));
        assert!(!long("nodes", "") && !long("pods", "?limit=5") && !long("pods", "?watch=1"));
    }
}
