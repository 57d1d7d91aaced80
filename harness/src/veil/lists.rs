//! A list of all namespaces as lists of the scenario's own: a cluster has the objects of many
//! scenarios, and whoever begins would read them all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Method, Request, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use schedlab_json::Value;

use super::Error;
use super::names::{LEASES, SHARED};
use super::requests::Place;

/// Collections with namespaces of which a busy cluster has many objects.
const MANY: [&str; 8] =
    ["pods", "events", "leases", "jobs", "jobsets", "podgroups", "replicasets", "resourceclaims"];

/// The namespaces that a scenario made, as the cluster has them. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespaces(Arc<Mutex<BTreeSet<String>>>);

impl Namespaces {
    /// The cluster's answer to a write of a namespace.
    pub(super) fn note(&self, place: &Place, answer: &Value) {
        if place.plural == "namespaces"
            && let Some(name) = answer["metadata"]["name"].as_str()
        {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
    }

    /// In which of them, and of those that all share, objects of a collection can be.
    fn of(&self, plural: &str) -> BTreeSet<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match plural {
            "leases" => all.insert(LEASES.to_owned()),
            "events" => all.insert(SHARED.to_owned()),
            _ => false,
        };
        all
    }
}

/// Whether it asks for a long list, whole and new.
pub(super) fn is_long(place: &Place, method: &Method, uri: &Uri) -> bool {
    let all = place.namespace.is_none() && place.name.is_none() && !place.is_watch;
    *method == Method::GET
        && all
        && MANY.contains(&place.plural.as_str())
        && uri.query().is_none_or(|query| query == "resourceVersion=0")
}

/// Lists the scenario's namespaces as they were at one moment. `None` where the cluster answers
/// anything but lists: then it is asked for the whole one.
pub(super) async fn list(
    inner: &kube::Client,
    namespaces: &Namespaces,
    (place, uri, headers): (&Place, &Uri, &HeaderMap),
) -> Result<Option<Value>, Error> {
    let path = uri.path();
    let Some(root) = path.strip_suffix(&place.plural) else { return Ok(None) };
    let Some(mut whole) = get(inner, &format!("{path}?limit=1"), headers).await? else {
        return Ok(None);
    };
    let Some(revision) = whole["metadata"]["resourceVersion"].as_str().map(str::to_owned) else {
        return Ok(None);
    };
    let mut items = Vec::new();
    for namespace in namespaces.of(&place.plural) {
        let path = format!(
            "{root}namespaces/{namespace}/{}?resourceVersion={revision}&resourceVersionMatch=Exact",
            place.plural,
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
    use schedlab_json::json;

    use super::*;

    /// A cluster of which only three lists are known.
    fn cluster() -> (kube::Client, Arc<Mutex<Vec<String>>>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().to_string();
            heard.lock().unwrap().push(path.clone());
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
        (kube::Client::new(service, "default"), asked)
    }

    async fn listed(path: &str) -> (Option<Value>, Vec<String>) {
        let (client, asked) = cluster();
        let namespaces = Namespaces::default();
        let plural = path.rsplit('/').next().unwrap();
        let made = Place { plural: "namespaces".to_owned(), ..Place::default() };
        for name in ["qx1-b", "qx1-a"] {
            namespaces.note(&made, &json!({"metadata": {"name": name}}));
        }
        let place = Place { plural: plural.to_owned(), ..Place::default() };
        let uri = path.parse().unwrap();
        let list = list(&client, &namespaces, (&place, &uri, &HeaderMap::new())).await.unwrap();
        let asked = asked.lock().unwrap().clone();
        (list, asked)
    }

    #[tokio::test]
    async fn a_long_list_is_that_of_the_own_namespaces_at_one_moment() {
        let (list, asked) = listed("/api/v1/pods").await;
        let exact = "resourceVersion=12&resourceVersionMatch=Exact";
        let own = ["a", "b"].map(|name| format!("/api/v1/namespaces/qx1-{name}/pods?{exact}"));
        assert_eq!(asked, ["/api/v1/pods?limit=1", &own[0], &own[1]]);
        let expected = json!({
            "kind": "PodList", "metadata": {"resourceVersion": "12"},
            "items": [{"at": own[0]}, {"at": own[1]}],
        });
        assert_eq!(list, Some(expected));
    }

    #[tokio::test]
    async fn where_there_is_no_list_the_cluster_says_so_itself() {
        let (list, asked) = listed("/apis/example.com/v1/podgroups").await;
        assert_eq!(list, None);
        assert_eq!(asked, ["/apis/example.com/v1/podgroups?limit=1"]);
    }

    #[test]
    fn only_whole_lists_of_what_is_many_are_long() {
        let long = |plural: &str, query: &str| {
            let place = Place { plural: plural.to_owned(), ..Place::default() };
            is_long(&place, &Method::GET, &format!("/api/v1/{plural}{query}").parse().unwrap())
        };
        assert!(long("pods", "") && long("events", "?resourceVersion=0"));
        assert!(!long("nodes", "") && !long("pods", "?limit=5") && !long("pods", "?watch=1"));
    }
}
