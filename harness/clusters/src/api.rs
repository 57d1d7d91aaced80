//! JSON requests to the Kubernetes API. Kinds are looked up by discovery, so objects of any kind
//! that the cluster serves can be written.

mod schema;
mod version;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use schedlab_api::{Value, json, pointer as fields};
use schedlab_emulator::error::undecodable_field;
use serde::de::{DeserializeOwned, IgnoredAny};

pub use version::VersionError;

/// The name with which schedlab appears as field manager and as User-Agent.
const FIELD_MANAGER: &str = "schedlab";

/// How an API server's message about an unknown priority class begins; the name of the class
/// follows.
const MISSING_PRIORITY_CLASS_TEXT: &str = "no PriorityClass with name ";

/// The finalizer that Kueue adds to pods.
const KUEUE_FINALIZER: &str = "kueue.x-k8s.io/managed";

/// How long the admission of an API server may lag behind its storage, and how often a request that
/// is rejected meanwhile is retried.
const ADMISSION_LAG_MAX: Duration = Duration::from_secs(10);
const ADMISSION_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A client of the Kubernetes API that caches discovery: which kinds the server has.
#[derive(Clone)]
pub struct Api {
    client: kube::Client,
    /// Collections by `apiVersion` and `kind`.
    kinds: BTreeMap<(String, String), ApiCollection>,
}

/// The collection in which the objects of a kind are addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ApiCollection {
    plural: String,
    namespaced: bool,
}

/// Kind, namespace and name of an object, for messages.
pub fn object_title(object: &Value) -> String {
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
    /// A client that sends its requests through `client`.
    pub fn new(client: kube::Client) -> Self {
        Self { client, kinds: BTreeMap::new() }
    }

    /// The Kubernetes client that sends the requests.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Sends GET for an object or a list.
    ///
    /// # Errors
    /// The request fails or the server answers with an error status.
    pub async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        self.send_json(Request::get(path), None).await
    }

    /// The uid of the namespace `kube-system`, which identifies a cluster; `None` if the cluster
    /// has no such namespace.
    pub(crate) async fn cluster_uid(&self) -> Result<Option<String>, kube::Error> {
        match self.get("/api/v1/namespaces/kube-system").await {
            Ok(namespace) => Ok(namespace["metadata"]["uid"].as_str().map(str::to_owned)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends PATCH with a JSON merge patch.
    ///
    /// # Errors
    /// The request fails or the server rejects the change.
    pub async fn merge_patch(&self, path: &str, change: &Value) -> Result<Value, kube::Error> {
        let request = Request::patch(with_write_options(path))
            .header("content-type", "application/merge-patch+json");
        self.send_json(request, Some(change)).await
    }

    /// Sends POST, which creates an object.
    ///
    /// # Errors
    /// The request fails or the server rejects the object.
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        self.send_json(post_request(path), Some(object)).await
    }

    /// POST that changes nothing: the server only checks it.
    ///
    /// # Errors
    /// The server refuses the object.
    pub async fn post_dry_run(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request = Request::post(format!("{}&dryRun=All", with_write_options(path)));
        self.send_json(request.header("content-type", "application/json"), Some(object)).await
    }

    /// Sends PUT, which replaces an object.
    pub(crate) async fn put(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request =
            Request::put(with_write_options(path)).header("content-type", "application/json");
        self.send_json(request, Some(object)).await
    }

    /// Sends DELETE with background propagation.
    ///
    /// # Errors
    /// The request fails or the server answers with an error status.
    pub async fn delete(&self, path: &str) -> Result<Value, kube::Error> {
        self.delete_with_options(path, json!({})).await
    }

    /// Sends DELETE without a grace period, for pods whose containers no kubelet will terminate.
    /// Options are in the body: a server ignores the query of a DELETE that has a body.
    ///
    /// # Errors
    /// The request fails or the server answers with an error status.
    pub async fn delete_immediately(&self, path: &str) -> Result<Value, kube::Error> {
        self.delete_with_options(path, json!({ "gracePeriodSeconds": 0 })).await
    }

    /// Removes Kueue's finalizer from deleted pods of the collection at path `pods`. Kueue keeps a
    /// deleted pod of a pod group until a replacement exists, and in a namespace that is being
    /// deleted there will be none.
    ///
    /// # Errors
    /// The pods cannot be listed or changed.
    pub async fn remove_kueue_finalizers(&self, pods: &str) -> Result<(), kube::Error> {
        let list = self.get(pods).await?;
        for pod in list["items"].as_array().into_iter().flatten() {
            let kept = pod["metadata"]["finalizers"].as_array().into_iter().flatten();
            let by_others = kept.clone().any(|keeper| *keeper != KUEUE_FINALIZER);
            if kept.count() == 0 || by_others || pod["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let change = json!({ "metadata": { "finalizers": null } });
            match self.merge_patch(&format!("{pods}/{name}"), &change).await {
                Err(error) if !is_not_found(&error) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    async fn delete_with_options(
        &self,
        path: &str,
        mut options: Value,
    ) -> Result<Value, kube::Error> {
        options["apiVersion"] = json!("v1");
        options["kind"] = json!("DeleteOptions");
        options["propagationPolicy"] = json!("Background");
        let request = Request::delete(path).header("content-type", "application/json");
        self.send_json(request, Some(&options)).await
    }

    /// Whether the client is allowed to do everything, as a cluster administrator is.
    pub(crate) async fn has_full_access(&self) -> Result<bool, kube::Error> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        Ok(self.post(path, &review).await?["status"]["allowed"] == Value::Bool(true))
    }

    /// Creates an object. If a priority class of the same name and value exists already, that is no
    /// error, because several table rows may need it.
    ///
    /// # Errors
    /// The server rejects the object, or the object exists and is not such a priority class.
    pub async fn create(&mut self, object: &Value) -> anyhow::Result<CreateOutcome> {
        if object["kind"] == "PriorityClass" {
            let made = self.create_if_absent(object).await?;
            if made == CreateOutcome::AlreadyExists {
                self.check_priority_class(object).await?;
            }
            return Ok(made);
        }
        let (collection, _) = self.collection_and_name(object).await?;
        let created = self.create_when_admitted(&collection, object).await;
        created
            .map(|_| CreateOutcome::Created)
            .map_err(to_anyhow_error)
            .with_context(|| object_title(object))
    }

    /// Fails if the existing priority class has another value.
    async fn check_priority_class(&mut self, object: &Value) -> anyhow::Result<()> {
        let path = self.object_path(object).await?;
        let existing = self.get(&path).await.map_err(to_anyhow_error)?;
        let (supported, known) = (&object["value"], &existing["value"]);
        let problem =
            || format!("value: got {supported}, expected {known}, which the existing class has");
        anyhow::ensure!(supported == known, "{}: {}", object_title(object), problem());
        Ok(())
    }

    /// Creates an object unless it exists.
    ///
    /// # Errors
    /// The server does not serve the kind or rejects the object.
    pub async fn create_if_absent(&mut self, object: &Value) -> anyhow::Result<CreateOutcome> {
        let (collection, _) = self.collection_and_name(object).await?;
        match self.create_when_admitted(&collection, object).await {
            Ok(_) => Ok(CreateOutcome::Created),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                Ok(CreateOutcome::AlreadyExists)
            }
            Err(error) => Err(to_anyhow_error(error)).with_context(|| object_title(object)),
        }
    }

    /// Creates an object, or patches an existing one with the manifest's fields. Owner references
    /// need no uid: it is looked up by name.
    ///
    /// # Errors
    /// An owner does not exist, or the server does not serve the kind or rejects the object.
    pub async fn apply(&mut self, object: &Value) -> anyhow::Result<ApplyOutcome> {
        let object = &self.with_owner_uids(object).await.with_context(|| object_title(object))?;
        let (collection, name) = self.collection_and_name(object).await?;
        let applied = match self.create_when_admitted(&collection, object).await {
            Ok(_) => Ok(ApplyOutcome::Created),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                self.patch_existing_object(&format!("{collection}/{name}"), object).await
            }
            Err(error) => Err(error),
        };
        let applied = applied.map_err(to_anyhow_error).with_context(|| object_title(object))?;
        if object["kind"] == "CustomResourceDefinition" {
            self.wait_until_served(object).await.with_context(|| object_title(object))?;
        }
        Ok(applied)
    }

    /// Waits until the kind of a new CRD is served, because the next object of the manifest may be
    /// of this kind. A real API server takes a moment.
    async fn wait_until_served(&self, definition: &Value) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + ADMISSION_LAG_MAX;
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let versions = spec["versions"].as_array().into_iter().flatten();
        for version in versions.filter(|version| version["served"] == true) {
            let version = api_root_path(&format!("{group}/{}", text(&version["name"])));
            while !self.is_served(&version, &plural).await.map_err(to_anyhow_error)? {
                anyhow::ensure!(
                    tokio::time::Instant::now() < end,
                    "{version}/{plural} is not served {} s after its definition",
                    ADMISSION_LAG_MAX.as_secs()
                );
                tokio::time::sleep(ADMISSION_POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Whether the API server serves a kind and lists its objects.
    async fn is_served(&self, version: &str, plural: &str) -> Result<bool, kube::Error> {
        let version_kinds = async {
            self.get(&format!("{version}/{plural}?limit=1")).await?;
            let kinds = self.get(version).await?;
            let mut kinds = kinds["resources"].as_array().into_iter().flatten();
            Ok(kinds.any(|kind| kind["name"] == plural))
        };
        match version_kinds.await {
            Err(error) if is_not_found(&error) => Ok(false),
            supported => supported,
        }
    }

    /// A copy of the object in which owner references without a uid have the uid of the existing
    /// owner.
    async fn with_owner_uids(&mut self, object: &Value) -> anyhow::Result<Value> {
        let mut object = object.clone();
        let namespace = object["metadata"]["namespace"].clone();
        let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten().filter(|owner| owner.get("uid").is_none()) {
            let named = json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"],
                "metadata": { "name": owner["name"], "namespace": namespace },
            });
            let path = self.object_path(&named).await?;
            let existing = self.get(&path).await.map_err(to_anyhow_error)?;
            owner["uid"] = existing["metadata"]["uid"].clone();
        }
        Ok(object)
    }

    /// Creates an object. Retries if admission does not know the object's priority class yet
    /// although the class exists: a real API server's admission reads classes from a watch of its
    /// own.
    async fn create_when_admitted(
        &self,
        collection: &str,
        object: &Value,
    ) -> Result<IgnoredAny, kube::Error> {
        let end = tokio::time::Instant::now() + ADMISSION_LAG_MAX;
        loop {
            let created = self.send_json(post_request(collection), Some(object)).await;
            let Err(kube::Error::Api(status)) = &created else { return created };
            let class = status
                .message
                .split_once(MISSING_PRIORITY_CLASS_TEXT)
                .and_then(|(_, rest)| rest.split(' ').next());
            let Some(class) = class else { return created };
            let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{class}");
            if self.get(&path).await.is_err() || tokio::time::Instant::now() > end {
                return created;
            }
            tokio::time::sleep(ADMISSION_POLL_INTERVAL).await;
        }
    }

    async fn patch_existing_object(
        &self,
        path: &str,
        object: &Value,
    ) -> Result<ApplyOutcome, kube::Error> {
        let before = self.get(path).await?;
        self.merge_patch(path, object).await?;
        Ok(ApplyOutcome::Changed(Box::new(before)))
    }

    /// Writes the status of an existing object.
    ///
    /// # Errors
    /// The object has no status, does not exist, or is rejected by the server.
    pub async fn write_status(&mut self, object: &Value) -> anyhow::Result<()> {
        let has_one = object.get("status").is_some();
        anyhow::ensure!(
            has_one,
            "{}: status: got nothing, expected a status",
            object_title(object)
        );
        let path = format!("{}/status", self.object_path(object).await?);
        let change = json!({ "status": object["status"] });
        let written = self.merge_patch(&path, &change).await;
        written.map(drop).map_err(to_anyhow_error).with_context(|| object_title(object))
    }

    /// Restores an object to an earlier state.
    ///
    /// # Errors
    /// The object no longer exists, or the server rejects the earlier state.
    pub async fn restore(&mut self, mut before: Value) -> anyhow::Result<()> {
        let path = self.object_path(&before).await?;
        let now = self.get(&path).await.map_err(to_anyhow_error)?;
        // Overwrites whatever was written since.
        before["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
        self.put(&path, &before).await.map(drop).map_err(to_anyhow_error).context(path)
    }

    /// The API path of an object, derived from its kind, namespace and name.
    ///
    /// # Errors
    /// The server does not serve the kind.
    pub async fn object_path(&mut self, object: &Value) -> anyhow::Result<String> {
        let (collection, name) = self.collection_and_name(object).await?;
        Ok(format!("{collection}/{name}"))
    }

    /// The API path of the collection that contains an object, and the object's name.
    async fn collection_and_name(&mut self, object: &Value) -> anyhow::Result<(String, String)> {
        let field = |at: &str| fields::text(object, at).unwrap_or_default();
        let (version, kind) = (field("/apiVersion").to_owned(), field("/kind").to_owned());
        let root = api_root_path(&version);
        let collection = self.find_collection(&version, &kind).await?;
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

    async fn find_collection(
        &mut self,
        version: &str,
        kind: &str,
    ) -> anyhow::Result<ApiCollection> {
        let key = (version.to_owned(), kind.to_owned());
        if let Some(cached) = self.kinds.get(&key) {
            return Ok(cached.clone());
        }
        let list = match self.get(&api_root_path(version)).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => {
                let versions = self.served_group_versions().await?.join(", ");
                anyhow::bail!("apiVersion: got {version}, expected {versions}");
            }
            Err(error) => return Err(to_anyhow_error(error)),
        };
        for resource in list["resources"].as_array().into_iter().flatten() {
            let plural = resource["name"].as_str().unwrap_or_default();
            if plural.contains('/') {
                continue;
            }
            let kind = resource["kind"].as_str().unwrap_or_default().to_owned();
            let namespaced = resource["namespaced"].as_bool().unwrap_or(false);
            let collection = ApiCollection { plural: plural.to_owned(), namespaced };
            self.kinds.insert((version.to_owned(), kind), collection);
        }
        let supported = self.kinds.get(&key).cloned();
        supported.with_context(|| {
            let cached = self.kinds.keys().filter(|(of, _)| of == version).map(|(_, kind)| &**kind);
            let cached: Vec<&str> = cached.collect();
            format!("kind: got {kind}, expected {}", cached.join(", "))
        })
    }

    /// Every `apiVersion` that the cluster serves.
    async fn served_group_versions(&self) -> anyhow::Result<Vec<String>> {
        let groups = self.get("/apis").await.map_err(to_anyhow_error)?;
        let groups = groups["groups"].as_array().into_iter().flatten();
        let served = groups.flat_map(|group| group["versions"].as_array().into_iter().flatten());
        let named = served.filter_map(|version| version["groupVersion"].as_str());
        Ok(std::iter::once("v1").chain(named).map(str::to_owned).collect())
    }

    /// Sends a request and parses the response. Callers that ignore the response use `IgnoredAny`.
    async fn send_json<T: DeserializeOwned>(
        &self,
        request: http::request::Builder,
        body: Option<&Value>,
    ) -> Result<T, kube::Error> {
        let body = body.map_or(Ok(Vec::new()), serde_json::to_vec);
        let body = body.map_err(kube::Error::SerdeError)?;
        let request = request.header("user-agent", FIELD_MANAGER).body(body);
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

fn post_request(path: &str) -> http::request::Builder {
    Request::post(with_write_options(path)).header("content-type", "application/json")
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// The result of creating an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The object was created.
    Created,
    /// The object existed already and is unchanged.
    AlreadyExists,
}

/// The result of applying an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The object was created.
    Created,
    /// The object existed and was patched; this is its earlier state.
    Changed(Box<Value>),
}

/// An error response of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", reason_in_parentheses(reason))]
pub struct ApiError {
    /// `message` of the server's `Status` response.
    pub message: String,
    /// `reason` of the server's `Status` response.
    pub reason: String,
    /// The path of the invalid field, for example `spec.containers[0].name`, if the server reports
    /// it.
    pub field: Option<String>,
    /// Whether the error is that the kind has no field of the name in `field`.
    pub is_unknown_field: bool,
}

/// The reason of an error response in parentheses; empty if the response has no reason.
fn reason_in_parentheses(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

/// Converts an error response of the server to [`ApiError`]; other errors are kept.
pub fn to_anyhow_error(error: kube::Error) -> anyhow::Error {
    let kube::Error::Api(status) = error else { return error.into() };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    // For an invalid patch, servers report the field `patch`, and the real one in the message.
    let is_field = |field: &String| !field.is_empty() && field != "patch";
    let cause = causes.map(|cause| cause.field.clone()).find(is_field);
    let undecodable = || undecodable_field(&status.message).map(str::to_owned);
    ApiError {
        is_unknown_field: status.message.contains("unknown field \""),
        field: cause.or_else(undecodable),
        message: status.message.clone(),
        reason: status.reason.clone(),
    }
    .into()
}

/// The message of an error and those of its causes, each once. Of an error response of the server
/// only its message.
pub(crate) fn error_chain_text(error: &(dyn std::error::Error + 'static)) -> String {
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

/// A path for write requests: with our field manager, and with rejection of unknown fields, as
/// kubectl does.
fn with_write_options(path: &str) -> String {
    format!("{path}?fieldManager={FIELD_MANAGER}&fieldValidation=Strict")
}

/// Whether the server answered with status 401.
pub(crate) fn is_unauthorized(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401)
}

/// Whether the server answered with status 404.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the server answered with status 429: the request may be repeated later.
pub fn is_too_many_requests(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429)
}

fn api_root_path(version: &str) -> String {
    if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") }
}
