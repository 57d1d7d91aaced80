//! Plain Kubernetes requests in JSON, through the cluster's client. Kinds are found by
//! discovery, so any kind that the cluster knows can be written.

mod schema;
mod version;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use schedlab_emulator::error::undecodable_field;
use schedlab_json::{Value, json};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::fields;
pub use version::NoVersion;

/// Our field manager and User-Agent.
const MANAGER: &str = "schedlab";

/// What a server says of a priority class that is not there, before its name.
const NO_CLASS: &str = "no PriorityClass with name ";

/// The finalizer with which Kueue keeps pods.
const KUEUE_KEEPS: &str = "kueue.x-k8s.io/managed";

/// How long its admission may not know one that is there, and how often it is asked again.
const HEARSAY_MAX: Duration = Duration::from_secs(10);
const ASK: Duration = Duration::from_millis(50);

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
    let field = |at: &str| fields::text(object, at).unwrap_or_default();
    let namespace = match field("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    match field("/metadata/name") {
        "" => format!("{} without a name", field("/kind")),
        name => format!("{} {namespace}{name}", field("/kind")),
    }
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

    /// What tells the cluster from all others: the uid of its namespace `kube-system`.
    pub async fn cluster_uid(&self) -> Result<Option<String>, kube::Error> {
        match self.get("/api/v1/namespaces/kube-system").await {
            Ok(namespace) => Ok(namespace["metadata"]["uid"].as_str().map(str::to_owned)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// PATCH by JSON merge.
    pub async fn merge(&self, path: &str, change: &Value) -> Result<Value, kube::Error> {
        let request =
            Request::patch(written(path)).header("content-type", "application/merge-patch+json");
        self.send(request, Some(change)).await
    }

    /// POST.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        self.send(posting(path), Some(object)).await
    }

    /// PUT.
    pub async fn put(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request = Request::put(written(path)).header("content-type", "application/json");
        self.send(request, Some(object)).await
    }

    /// DELETE, in the background.
    pub async fn delete(&self, path: &str) -> Result<Value, kube::Error> {
        self.delete_with(path, json!({})).await
    }

    /// DELETE of what nobody is left to end: without a grace period. A server reads the query
    /// of a DELETE only where it has no body, so the body says it.
    pub async fn delete_at_once(&self, path: &str) -> Result<Value, kube::Error> {
        self.delete_with(path, json!({ "gracePeriodSeconds": 0 })).await
    }

    /// Lets pods go that were deleted and that Kueue keeps: it waits for others in the place of those of
    /// a group, and where their namespace goes, none come.
    pub async fn let_go(&self, pods: &str) -> Result<(), kube::Error> {
        let list = self.get(pods).await?;
        for pod in list["items"].as_array().into_iter().flatten() {
            let kept = pod["metadata"]["finalizers"].as_array().into_iter().flatten();
            let by_others = kept.clone().any(|keeper| *keeper != KUEUE_KEEPS);
            if kept.count() == 0 || by_others || pod["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let change = json!({ "metadata": { "finalizers": null } });
            match self.merge(&format!("{pods}/{name}"), &change).await {
                Err(error) if !is_not_found(&error) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    async fn delete_with(&self, path: &str, mut options: Value) -> Result<Value, kube::Error> {
        options["apiVersion"] = json!("v1");
        options["kind"] = json!("DeleteOptions");
        options["propagationPolicy"] = json!("Background");
        let request = Request::delete(path).header("content-type", "application/json");
        self.send(request, Some(&options)).await
    }

    /// Whether whoever asks may do everything, as an administrator may.
    pub async fn allows_everything(&self) -> Result<bool, kube::Error> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        Ok(self.post(path, &review).await?["status"]["allowed"] == Value::Bool(true))
    }

    /// Creates an object. A priority class may be there already: rows call for them by value.
    pub async fn create(&mut self, object: &Value) -> anyhow::Result<Made> {
        if object["kind"] == "PriorityClass" {
            let made = self.ensure(object).await?;
            if made == Made::Known {
                self.known_priority_class(object).await?;
            }
            return Ok(made);
        }
        let (collection, _) = self.place(object).await?;
        let created = self.admitted(&collection, object).await;
        created.map(|_| Made::New).map_err(refusal).with_context(|| title(object))
    }

    /// A priority class that is there is no other than this one.
    async fn known_priority_class(&mut self, object: &Value) -> anyhow::Result<()> {
        let path = self.path(object).await?;
        let there = self.get(&path).await.map_err(refusal)?;
        let (found, known) = (&object["value"], &there["value"]);
        let told = || format!("value: found {found}, allowed is {known}: the class is there");
        anyhow::ensure!(found == known, "{}: {}", title(object), told());
        Ok(())
    }

    /// Creates an object, unless it is there.
    pub async fn ensure(&mut self, object: &Value) -> anyhow::Result<Made> {
        let (collection, _) = self.place(object).await?;
        match self.admitted(&collection, object).await {
            Ok(_) => Ok(Made::New),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(Made::Known),
            Err(error) => Err(refusal(error)).with_context(|| title(object)),
        }
    }

    /// Creates an object; one that is there already gets the manifest's fields. Owners are known by
    /// their names: nobody can write down the UID that a server will give them.
    pub async fn apply(&mut self, object: &Value) -> anyhow::Result<Applied> {
        let object = &self.with_owners(object).await.with_context(|| title(object))?;
        let (collection, name) = self.place(object).await?;
        let applied = match self.admitted(&collection, object).await {
            Ok(_) => Ok(Applied::Created),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                self.change(&format!("{collection}/{name}"), object).await
            }
            Err(error) => Err(error),
        };
        let applied = applied.map_err(refusal).with_context(|| title(object))?;
        if object["kind"] == "CustomResourceDefinition" {
            self.wait_until_served(object).await.with_context(|| title(object))?;
        }
        Ok(applied)
    }

    /// A real server takes a moment until it knows objects of a kind that was defined just now, and
    /// the next object of a manifest may be one.
    async fn wait_until_served(&self, definition: &Value) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + HEARSAY_MAX;
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let versions = spec["versions"].as_array().into_iter().flatten();
        for version in versions.filter(|version| version["served"] == true) {
            let version = root(&format!("{group}/{}", text(&version["name"])));
            while !self.serves(&version, &plural).await.map_err(refusal)? {
                anyhow::ensure!(
                    tokio::time::Instant::now() < end,
                    "{version}/{plural} is not served {} s after it was defined",
                    HEARSAY_MAX.as_secs()
                );
                tokio::time::sleep(ASK).await;
            }
        }
        Ok(())
    }

    /// The kind is found, and its objects are.
    async fn serves(&self, version: &str, plural: &str) -> Result<bool, kube::Error> {
        let found = async {
            self.get(&format!("{version}/{plural}?limit=1")).await?;
            let kinds = self.get(version).await?;
            let mut kinds = kinds["resources"].as_array().into_iter().flatten();
            Ok(kinds.any(|kind| kind["name"] == plural))
        };
        match found.await {
            Err(error) if is_not_found(&error) => Ok(false),
            found => found,
        }
    }

    /// The object, with the UIDs of the owners that it refers to without one.
    async fn with_owners(&mut self, object: &Value) -> anyhow::Result<Value> {
        let mut object = object.clone();
        let namespace = object["metadata"]["namespace"].clone();
        let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten().filter(|owner| owner.get("uid").is_none()) {
            let named = json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"],
                "metadata": { "name": owner["name"], "namespace": namespace },
            });
            let path = self.path(&named).await?;
            let there = self.get(&path).await.map_err(refusal)?;
            owner["uid"] = there["metadata"]["uid"].clone();
        }
        Ok(object)
    }

    /// Creates an object. A real server may not have heard yet of a priority class that it has:
    /// its admission reads from a watch of its own.
    async fn admitted(&self, collection: &str, object: &Value) -> Result<IgnoredAny, kube::Error> {
        let end = tokio::time::Instant::now() + HEARSAY_MAX;
        loop {
            let created = self.send(posting(collection), Some(object)).await;
            let Err(kube::Error::Api(status)) = &created else { return created };
            let class =
                status.message.split_once(NO_CLASS).and_then(|(_, rest)| rest.split(' ').next());
            let Some(class) = class else { return created };
            let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{class}");
            if self.get(&path).await.is_err() || tokio::time::Instant::now() > end {
                return created;
            }
            tokio::time::sleep(ASK).await;
        }
    }

    async fn change(&self, path: &str, object: &Value) -> Result<Applied, kube::Error> {
        let before = self.get(path).await?;
        self.merge(path, object).await?;
        Ok(Applied::Changed(Box::new(before)))
    }

    /// Writes the status of an object that is there.
    pub async fn write_status(&mut self, object: &Value) -> anyhow::Result<()> {
        let has_one = object.get("status").is_some();
        anyhow::ensure!(has_one, "{}: found no status, allowed is one", title(object));
        let path = format!("{}/status", self.path(object).await?);
        let change = json!({ "status": object["status"] });
        let written = self.merge(&path, &change).await;
        written.map(drop).map_err(refusal).with_context(|| title(object))
    }

    /// Brings an object back to what it was.
    pub async fn restore(&mut self, mut before: Value) -> anyhow::Result<()> {
        let path = self.path(&before).await?;
        let now = self.get(&path).await.map_err(refusal)?;
        // Whatever was written since.
        before["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
        self.put(&path, &before).await.map(drop).map_err(refusal).context(path)
    }

    /// The path of an object.
    pub async fn path(&mut self, object: &Value) -> anyhow::Result<String> {
        let (collection, name) = self.place(object).await?;
        Ok(format!("{collection}/{name}"))
    }

    /// The path of an object's collection, and its name.
    async fn place(&mut self, object: &Value) -> anyhow::Result<(String, String)> {
        let field = |at: &str| fields::text(object, at).unwrap_or_default();
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
        let list = match self.get(&root(version)).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => {
                let versions = self.versions().await?.join(", ");
                anyhow::bail!("apiVersion: found {version}, allowed are {versions}");
            }
            Err(error) => return Err(refusal(error)),
        };
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
        found.with_context(|| {
            let known = self.kinds.keys().filter(|(of, _)| of == version).map(|(_, kind)| &**kind);
            let known: Vec<&str> = known.collect();
            format!("kind: found {kind}, {version} has {}", known.join(", "))
        })
    }

    /// Every `apiVersion` that the cluster serves.
    async fn versions(&self) -> anyhow::Result<Vec<String>> {
        let groups = self.get("/apis").await.map_err(refusal)?;
        let groups = groups["groups"].as_array().into_iter().flatten();
        let served = groups.flat_map(|group| group["versions"].as_array().into_iter().flatten());
        let named = served.filter_map(|version| version["groupVersion"].as_str());
        Ok(std::iter::once("v1").chain(named).map(str::to_owned).collect())
    }

    /// Who does not look at the answer asks for it as `IgnoredAny`.
    async fn send<T: DeserializeOwned>(
        &self,
        request: http::request::Builder,
        body: Option<&Value>,
    ) -> Result<T, kube::Error> {
        let body = body.map_or(Ok(Vec::new()), serde_json::to_vec);
        let body = body.map_err(kube::Error::SerdeError)?;
        let request = request.header("user-agent", MANAGER).body(body);
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

fn posting(path: &str) -> http::request::Builder {
    Request::post(written(path)).header("content-type", "application/json")
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// What creating an object did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was not there.
    New,
    /// It was there and stays as it is.
    Known,
}

/// What applying an object did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It was not there.
    Created,
    /// It was there and got new fields; this is what it was before.
    Changed(Box<Value>),
}

/// The server said no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", in_parentheses(reason))]
pub struct Refusal {
    /// Its own words.
    pub message: String,
    /// `Status.reason`.
    pub reason: String,
    /// The field that is wrong, where it tells, as `spec.containers[0].name`.
    pub field: Option<String>,
    /// The field is one that the kind does not have.
    pub unknown: bool,
}

/// A server gives some answers no reason.
fn in_parentheses(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

/// The server's own words.
pub fn refusal(error: kube::Error) -> anyhow::Error {
    let kube::Error::Api(status) = error else { return error.into() };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    // Of a patch as a whole a server says `patch`, and the field in its words.
    let is_field = |field: &String| !field.is_empty() && field != "patch";
    let cause = causes.map(|cause| cause.field.clone()).find(is_field);
    let undecodable = || undecodable_field(&status.message).map(str::to_owned);
    Refusal {
        unknown: status.message.contains("unknown field \""),
        field: cause.or_else(undecodable),
        message: status.message.clone(),
        reason: status.reason.clone(),
    }
    .into()
}

/// An error with its causes, each told once; of an answer its message.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return status.message.clone();
    }
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = error.source();
    }
    words
}

/// A path for writing. Fields that a kind does not have are refused, as kubectl asks for it.
fn written(path: &str) -> String {
    format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict")
}

/// Whether the answer was 401.
pub fn is_unauthorized(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401)
}

/// Whether the answer was 404.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the answer was 429: what was asked may be asked again later.
pub fn is_too_early(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429)
}

fn root(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}
