//! Plain Kubernetes requests in JSON, through the cluster's client. Kinds are found by
//! discovery, so any kind that the cluster knows can be written.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, anyhow};
use http::Request;
use serde_json::{Value, json};

/// Our field manager and User-Agent.
const MANAGER: &str = "schedlab";

/// A Kubernetes API.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    /// Plural and scope by `apiVersion` and `kind`.
    kinds: BTreeMap<(String, String), Collection>,
}

/// How objects of a kind are addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Collection {
    plural: String,
    namespaced: bool,
}

/// What an object is called: kind, namespace and name.
pub fn title(object: &Value) -> String {
    let field = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let namespace = match field("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    format!("{} {namespace}{}", field("/kind"), field("/metadata/name"))
}

impl Api {
    /// Talks through this client.
    pub fn new(client: kube::Client) -> Self {
        Self { client, kinds: BTreeMap::new() }
    }

    /// The client itself.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// GET of one object or list.
    pub async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        self.send(Request::get(path), None).await
    }

    /// PATCH by JSON merge.
    pub async fn merge(&self, path: &str, change: &Value) -> Result<Value, kube::Error> {
        let request = Request::patch(format!("{path}?fieldManager={MANAGER}"))
            .header("content-type", "application/merge-patch+json");
        self.send(request, Some(change)).await
    }

    /// POST.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request = Request::post(format!("{path}?fieldManager={MANAGER}"))
            .header("content-type", "application/json");
        self.send(request, Some(object)).await
    }

    /// PUT.
    pub async fn put(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request = Request::put(format!("{path}?fieldManager={MANAGER}"))
            .header("content-type", "application/json");
        self.send(request, Some(object)).await
    }

    /// DELETE, in the background.
    pub async fn delete(&self, path: &str) -> Result<Value, kube::Error> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        });
        let request = Request::delete(path).header("content-type", "application/json");
        self.send(request, Some(&options)).await
    }

    /// Creates an object. A priority class may be there already: rows call for them by value.
    pub async fn create(&mut self, object: &Value) -> anyhow::Result<()> {
        if object["kind"] == "PriorityClass" {
            return self.ensure(object).await;
        }
        let (collection, _) = self.place(object).await?;
        let created = self.post(&collection, object).await;
        created.map(drop).map_err(refusal).with_context(|| title(object))
    }

    /// Creates an object, unless it is there.
    pub async fn ensure(&mut self, object: &Value) -> anyhow::Result<()> {
        let (collection, _) = self.place(object).await?;
        match self.post(&collection, object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            Err(error) => Err(refusal(error)).with_context(|| title(object)),
        }
    }

    /// Creates an object; one that is there already gets the manifest's fields.
    pub async fn apply(&mut self, object: &Value) -> anyhow::Result<Applied> {
        let (collection, name) = self.place(object).await?;
        match self.post(&collection, object).await {
            Ok(_) => Ok(Applied::Created),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                self.merge(&format!("{collection}/{name}"), object).await?;
                Ok(Applied::Changed)
            }
            Err(error) => Err(refusal(error)),
        }
        .with_context(|| title(object))
    }

    /// The path of an object.
    pub async fn path(&mut self, object: &Value) -> anyhow::Result<String> {
        let (collection, name) = self.place(object).await?;
        Ok(format!("{collection}/{name}"))
    }

    /// The path of an object's collection, and its name.
    async fn place(&mut self, object: &Value) -> anyhow::Result<(String, String)> {
        let field = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (field("/apiVersion").to_owned(), field("/kind").to_owned());
        let root = root(&version);
        let collection = self.collection(&version, &kind).await?;
        let namespace = match field("/metadata/namespace") {
            "" => "default",
            namespace => namespace,
        };
        let plural = &collection.plural;
        let path = if collection.namespaced {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        };
        Ok((path, field("/metadata/name").to_owned()))
    }

    async fn collection(&mut self, version: &str, kind: &str) -> anyhow::Result<Collection> {
        let key = (version.to_owned(), kind.to_owned());
        if let Some(known) = self.kinds.get(&key) {
            return Ok(known.clone());
        }
        let known = |error| anyhow!("the cluster does not know {version}: {error}");
        let list = self.get(&root(version)).await.map_err(known)?;
        for resource in list["resources"].as_array().into_iter().flatten() {
            let plural = resource["name"].as_str().unwrap_or_default();
            if plural.contains('/') {
                continue;
            }
            let kind = resource["kind"].as_str().unwrap_or_default().to_owned();
            let namespaced = resource["namespaced"].as_bool().unwrap_or(false);
            let collection = Collection { plural: plural.to_owned(), namespaced };
            self.kinds.insert((version.to_owned(), kind), collection);
        }
        let found = self.kinds.get(&key).cloned();
        found.with_context(|| format!("{version} has no kind {kind}"))
    }

    async fn send(
        &self,
        request: http::request::Builder,
        body: Option<&Value>,
    ) -> Result<Value, kube::Error> {
        let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
        let request = request.header("user-agent", MANAGER).body(body);
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// What applying an object did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was not there.
    Created,
    /// It was there and got new fields.
    Changed,
}

/// The server's own words.
pub fn refusal(error: kube::Error) -> anyhow::Error {
    if let kube::Error::Api(status) = &error {
        return anyhow!("{} ({})", status.message, status.reason);
    }
    error.into()
}

/// Whether the answer was 404.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

fn root(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}
