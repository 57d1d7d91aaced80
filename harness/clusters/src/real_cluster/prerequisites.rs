//! What a run installs on a cluster before its first scenario and removes after its last: CRDs and
//! priority classes. They are shared by concurrent runs, each of which adds a label of its own.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::try_join_all;
use schedlab_api::{Value, crds, json};
use schedlab_emulator::workload_crds;

use super::poll::poll_until_ok;
use crate::api::{Api, is_not_found, to_anyhow_error};
use crate::cleanup::USE_LABEL_PREFIX;

const CRDS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PRIORITY_CLASSES_PATH: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// Annotation of CRDs and priority classes that schedlab created; its value is a hash of `spec`.
const DIGEST_ANNOTATION: &str = "schedlab.dev/digest";
/// Maximum wait for the cluster to serve a new kind.
const SERVED_TIMEOUT: Duration = Duration::from_mins(1);

/// What to do with a CRD that exists and was not created by schedlab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignCrds {
    /// The CRD belongs to the installed scheduler: accept it if it serves our version.
    Accept,
    /// Fail and leave the CRD unchanged.
    Reject,
}

/// What to do with a CRD of the cluster that a scheduler under test brings in another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExistingCrds {
    /// The cluster is ours: replace the CRD.
    Replace,
    /// Leave the CRD as it is.
    Keep,
}

/// Creates the CRDs and priority classes that are missing, and registers the run as a user of all
/// of them. Fails before changing anything if an existing one is incompatible.
pub(super) async fn install_prerequisites(
    config: &kube::Config,
    foreign_crds: ForeignCrds,
    run: &str,
) -> anyhow::Result<()> {
    let api = super::admin_api(config)?;
    let own = crds::all_crds().into_iter();
    let definitions: Vec<Value> = own.chain(workload_crds()).map(with_digest).collect();
    let classes: Vec<Value> = crds::priority_classes().into_iter().map(with_digest).collect();
    for definition in &definitions {
        if let Some(existing) = get_existing(&api, CRDS_PATH, definition).await? {
            check_existing_crd(&existing, definition, foreign_crds)?;
        }
    }
    for class in &classes {
        if let Some(existing) = get_existing(&api, PRIORITY_CLASSES_PATH, class).await? {
            check_existing_priority_class(&existing, class)?;
        }
    }
    for definition in &definitions {
        register_use(&api, CRDS_PATH, definition, run).await?;
    }
    for class in &classes {
        register_use(&api, PRIORITY_CLASSES_PATH, class, run).await?;
    }
    wait_until_all_served(&api, &definitions).await
}

/// Creates the CRDs and priority classes of a scheduler that schedlab starts. On a control plane of
/// our own, its CRDs replace ours of the same names.
pub(super) async fn install_target_objects(
    config: &kube::Config,
    definitions: &[Value],
    classes: &[Value],
    existing_crds: ExistingCrds,
    run: &str,
) -> anyhow::Result<()> {
    let api = super::admin_api(config)?;
    for definition in definitions {
        let existing = get_existing(&api, CRDS_PATH, definition).await?;
        match (existing, existing_crds) {
            (Some(existing), ExistingCrds::Replace) => {
                let mut ours = definition.clone();
                ours["metadata"]["resourceVersion"] =
                    existing["metadata"]["resourceVersion"].clone();
                let path = format!("{CRDS_PATH}/{}", object_name(definition));
                let replaced = api.put(&path, &ours).await.map_err(to_anyhow_error);
                replaced.with_context(|| format!("cannot replace {path}"))?;
            }
            (Some(_), ExistingCrds::Keep) => {}
            (None, _) => {
                register_use(&api, CRDS_PATH, &with_digest(definition.clone()), run).await?;
            }
        }
    }
    for class in classes {
        let class = with_digest(class.clone());
        if let Some(existing) = get_existing(&api, PRIORITY_CLASSES_PATH, &class).await? {
            check_existing_priority_class(&existing, &class)?;
        }
        register_use(&api, PRIORITY_CLASSES_PATH, &class, run).await?;
    }
    wait_until_all_served(&api, definitions).await
}

/// The existing object with the name of `ours`; `None` if there is none.
async fn get_existing(api: &Api, collection: &str, ours: &Value) -> anyhow::Result<Option<Value>> {
    let path = format!("{collection}/{}", object_name(ours));
    match api.get(&path).await {
        Ok(existing) => Ok(Some(existing)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(to_anyhow_error(error)).with_context(|| format!("cannot read {path}")),
    }
}

/// Waits until the objects of all CRDs can be listed. An API server delays the first request for
/// each new kind by a second, so all kinds are requested concurrently.
async fn wait_until_all_served(api: &Api, definitions: &[Value]) -> anyhow::Result<()> {
    let paths = definitions.iter().map(|one| format!("{CRDS_PATH}/{}", object_name(one)));
    try_join_all(paths.map(|path| wait_until_served(api, path))).await.map(drop)
}

/// Registers the run as a user of a CRD or priority class, which is created if it is missing. An
/// existing object that schedlab did not create is left unchanged.
async fn register_use(
    api: &Api,
    collection: &str,
    object: &Value,
    run: &str,
) -> anyhow::Result<()> {
    let path = format!("{collection}/{}", object_name(object));
    let uses = json!({ "metadata": { "labels": { (format!("{USE_LABEL_PREFIX}{run}")): "" } } });
    let shared = poll_until_ok(SERVED_TIMEOUT, async || {
        let result = match api.get(&path).await {
            Ok(there) if there["metadata"]["annotations"][DIGEST_ANNOTATION].is_null() => {
                return Ok(Ok(()));
            }
            Ok(_) => api.merge_patch(&path, &uses).await,
            Err(error) if is_not_found(&error) => {
                let mut object = object.clone();
                object["metadata"]["labels"][format!("{USE_LABEL_PREFIX}{run}")] = json!("");
                api.post(collection, &object).await
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(there) if there["metadata"]["deletionTimestamp"].is_null() => Ok(Ok(())),
            // Another run was its last user a moment ago, or is creating it right now.
            Ok(_) => Ok(Err("the object is being deleted")),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(Err("another run is creating or deleting the object"))
            }
            Err(error) => Err(to_anyhow_error(error)).with_context(|| format!("cannot use {path}")),
        }
    });
    shared.await?.map_err(|why| anyhow!("{path} cannot be used after {SERVED_TIMEOUT:?}: {why}"))
}

fn object_name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Adds the annotation with a hash of `spec`.
fn with_digest(mut definition: Value) -> Value {
    let text = definition["spec"].to_string();
    let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    definition["metadata"]["annotations"][DIGEST_ANNOTATION] = json!(format!("{number:016x}"));
    definition
}

/// Fails if an existing CRD cannot be used by scenarios.
fn check_existing_crd(
    existing: &Value,
    required: &Value,
    foreign_crds: ForeignCrds,
) -> anyhow::Result<()> {
    let digest =
        |definition: &Value| definition["metadata"]["annotations"][DIGEST_ANNOTATION].clone();
    if digest(existing) == digest(required) {
        return Ok(());
    }
    let versions = |definition: &Value| -> Vec<String> {
        let all = definition["spec"]["versions"].as_array().into_iter().flatten();
        let served = all.filter(|version| version["served"] != false);
        served.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect()
    };
    let (has, needs) = (versions(existing), versions(required));
    if foreign_crds == ForeignCrds::Accept && needs.iter().all(|version| has.contains(version)) {
        return Ok(());
    }
    let (needed, to_do) = match foreign_crds {
        ForeignCrds::Reject => {
            ("ours with ", "test the installed scheduler with --scheduler installed:NAME")
        }
        ForeignCrds::Accept => ("", "upgrade its scheduler to a version that serves them"),
    };
    anyhow::bail!(
        "the cluster has a CRD {} that schedlab did not create (versions: got {}, expected \
         {needed}{}): nothing was changed; {to_do}, or use another cluster",
        object_name(required),
        has.join(", "),
        needs.join(", ")
    )
}

/// Fails if an existing priority class has another value: scenarios compare priorities.
fn check_existing_priority_class(existing: &Value, required: &Value) -> anyhow::Result<()> {
    let (has, needs) = (&existing["value"], &required["value"]);
    anyhow::ensure!(
        has == needs,
        "PriorityClass {}: value: got {has}, expected {needs}; nothing was changed; use another \
         cluster, or delete the class if nobody needs it",
        object_name(required)
    );
    Ok(())
}

/// Waits until the objects of a CRD can be listed.
async fn wait_until_served(api: &Api, path: String) -> anyhow::Result<()> {
    let result = poll_until_ok(SERVED_TIMEOUT, async || {
        let definition = api.get(&path).await.map_err(to_anyhow_error)?;
        let text = |at: &str| definition.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        let version = text("/spec/versions/0/name");
        Ok(api.get(&format!("/apis/{group}/{version}/{plural}")).await)
    });
    let served = result.await?.map(drop).map_err(to_anyhow_error);
    served.with_context(|| format!("{path} is not served after {SERVED_TIMEOUT:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(version: &str) -> Value {
        json!({"metadata": {"name": "queues.scheduling.run.ai"},
               "spec": {"versions": [{"name": version, "served": true}]}})
    }

    #[test]
    fn a_foreign_crd_is_rejected_unless_the_scheduler_is_installed() {
        let ours = with_digest(definition("v2"));
        assert!(check_existing_crd(&ours, &ours, ForeignCrds::Reject).is_ok());
        let theirs = definition("v2");
        let error =
            check_existing_crd(&theirs, &ours, ForeignCrds::Reject).unwrap_err().to_string();
        assert!(error.contains("queues.scheduling.run.ai"), "{error}");
        assert!(check_existing_crd(&theirs, &ours, ForeignCrds::Accept).is_ok());
        let error = check_existing_crd(&definition("v1"), &ours, ForeignCrds::Accept)
            .unwrap_err()
            .to_string();
        assert!(error.contains("versions: got v1, expected v2"), "{error}");
        assert!(!error.contains("installed:NAME"), "the hint is already followed: {error}");
    }

    #[test]
    fn a_priority_class_with_another_value_is_rejected() {
        let class = |value| json!({"metadata": {"name": "train"}, "value": value});
        assert!(check_existing_priority_class(&class(50), &class(50)).is_ok());
        let error = check_existing_priority_class(&class(7), &class(50)).unwrap_err().to_string();
        assert!(error.contains("PriorityClass train: value: got 7, expected 50"), "{error}");
    }

    /// Serves CRDs, and lists only once two requests wait for one.
    async fn answer(
        path: String,
        two: std::sync::Arc<tokio::sync::Barrier>,
    ) -> Result<http::Response<kube::client::Body>, std::convert::Infallible> {
        let plural = path.strip_prefix(&format!("{CRDS_PATH}/"));
        let body = if let Some(plural) = plural {
            let names = json!({"plural": plural});
            json!({"spec": {"group": "g", "names": names, "versions": [{"name": "v1"}]}})
        } else {
            two.wait().await;
            json!({"items": []})
        };
        Ok(http::Response::new(kube::client::Body::from(body.to_string().into_bytes())))
    }

    #[tokio::test(start_paused = true)]
    async fn all_kinds_are_requested_concurrently() {
        let two = std::sync::Arc::new(tokio::sync::Barrier::new(2));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            answer(request.uri().path().to_owned(), std::sync::Arc::clone(&two))
        });
        let api = Api::new(kube::Client::new(service, "default"));
        let both = ["queues", "podgroups"].map(|name| json!({"metadata": {"name": name}}));
        let served = tokio::time::timeout(SERVED_TIMEOUT, wait_until_all_served(&api, &both)).await;
        served.expect("the requests are concurrent").unwrap();
    }
}
