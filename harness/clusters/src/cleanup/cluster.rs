//! Removes what a run created on an existing cluster: objects with the run's label, and shared
//! objects (CRDs and priority classes) of which the run is the last user.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use schedlab_api::{
    Value, json, labels,
    pointer::{list, text},
};
use tokio::time::Instant;

use super::{USE_LABEL_PREFIX, events, objects};
use crate::api::{Api, is_not_found, to_anyhow_error};
use schedlab_tenancy::{CLUSTER_SCOPED_KINDS, ClusterScopedKind};

/// Collections in which runs create objects, in addition to those of [`CLUSTER_SCOPED_KINDS`].
const OTHER_OWNED_COLLECTIONS: [&str; 3] = [
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
];
const NODES_PATH: &str = "/api/v1/nodes";
/// The path of events about cluster-scoped objects. They are deleted, because they would only
/// expire after an hour.
const EVENTS_PATH: &str = "/api/v1/namespaces/default/events";
/// Collections of objects that several runs use at the same time.
const SHARED_COLLECTIONS: [&str; 2] = [
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];
/// Maximum time for the removal of all objects of a run.
const REMOVAL_TIMEOUT: Duration = Duration::from_mins(5);
/// Interval at which the cluster is polled during the removal.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Whether the cluster has any object of a run.
pub(super) async fn has_objects_of_run(api: &Api, run: &str) -> anyhow::Result<bool> {
    let has_own = !owned_object_paths(api, run).await?.is_empty()
        || !shared_object_paths(api, run).await?.is_empty();
    Ok(has_own || events::has_events_of_run(api, run).await?)
}

/// Deletes all objects of a run and waits until they are gone.
pub(super) async fn delete_objects_of_run(api: &Api, run: &str) -> anyhow::Result<()> {
    let end = Instant::now() + REMOVAL_TIMEOUT;
    let mut previous_count = usize::MAX;
    let mut nodes: BTreeSet<String> = BTreeSet::new();
    loop {
        let remaining = owned_object_paths(api, run).await?;
        if remaining.is_empty() {
            break;
        }
        anyhow::ensure!(
            Instant::now() < end,
            "not deleted after {} s: {}",
            REMOVAL_TIMEOUT.as_secs(),
            remaining.join(", ")
        );
        let of_nodes =
            remaining.iter().filter_map(|path| path.strip_prefix(NODES_PATH)?.strip_prefix('/'));
        nodes.extend(of_nodes.map(str::to_owned));
        let mut failure = None;
        for path in &remaining {
            failure = delete_with_namespaced_pods(api, path).await.err().or(failure);
        }
        // A webhook rejects the deletion of a queue that still has children.
        if let Some(why) = failure.filter(|_| remaining.len() >= previous_count) {
            return Err(why);
        }
        previous_count = remaining.len();
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    if !nodes.is_empty() {
        delete_foreign_pods(api, &|node| nodes.contains(node)).await?;
    }
    objects::delete_if_present(
        api,
        &format!("{EVENTS_PATH}?labelSelector={}%3D{run}", labels::RUN),
    )
    .await?;
    events::delete_events_of_run(api, run).await?;
    for path in shared_object_paths(api, run).await? {
        release_or_delete_shared(api, &path, run).await?;
    }
    Ok(())
}

/// Deletes pods of others that are bound to deleted nodes of ours, or can run only there. They are
/// usually DaemonSet pods, which tolerate every taint, and no kubelet terminates them on a
/// simulated node.
pub(crate) async fn delete_foreign_pods(
    api: &Api,
    was_our_node: &dyn Fn(&str) -> bool,
) -> anyhow::Result<()> {
    let pods = api.get("/api/v1/pods").await.map_err(to_anyhow_error)?;
    for pod in list(&pods, "/items") {
        let is_there = text(pod, "/spec/nodeName").is_some_and(was_our_node);
        if is_there || can_run_only_on(pod, was_our_node) {
            let field = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let path = format!("/api/v1/namespaces/{}/pods/{}", field("namespace"), field("name"));
            objects::ignore_not_found(&path, api.delete_immediately(&path).await)?;
        }
    }
    Ok(())
}

/// Whether a pod can run only on nodes for which `was_our_node` returns true. DaemonSet pods are
/// like that: each names its node.
fn can_run_only_on(pod: &Value, was_our_node: &dyn Fn(&str) -> bool) -> bool {
    const TERMS: &str = "/spec/affinity/nodeAffinity/\
                         requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let names_ours = |field: &Value| {
        let mut names = list(field, "/values").iter().filter_map(Value::as_str);
        field["key"] == "metadata.name" && field["operator"] == "In" && names.all(was_our_node)
    };
    let terms = list(pod, TERMS);
    let is_bound = text(pod, "/spec/nodeName").is_some_and(|node| !node.is_empty());
    !is_bound
        && !terms.is_empty()
        && terms.iter().all(|term| list(term, "/matchFields").iter().any(names_ours))
}

async fn delete_with_namespaced_pods(api: &Api, path: &str) -> anyhow::Result<()> {
    objects::delete_if_present(api, path).await?;
    if let Some(namespace) = path.strip_prefix("/api/v1/namespaces/") {
        // No actor terminates the containers of simulated nodes any more.
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        objects::ignore_not_found(&pods, api.delete_immediately(&pods).await)?;
        objects::ignore_not_found(
            &pods,
            api.remove_kueue_finalizers(&pods).await.map(|()| Value::Null),
        )?;
    }
    Ok(())
}

async fn owned_object_paths(api: &Api, run: &str) -> anyhow::Result<Vec<String>> {
    let collections = CLUSTER_SCOPED_KINDS.iter().map(ClusterScopedKind::collection_path);
    let collections = collections.chain(OTHER_OWNED_COLLECTIONS.map(str::to_owned));
    paths_of_labelled_objects(api, collections, &format!("{}%3D{run}", labels::RUN)).await
}

async fn shared_object_paths(api: &Api, run: &str) -> anyhow::Result<Vec<String>> {
    paths_of_labelled_objects(
        api,
        SHARED_COLLECTIONS.map(str::to_owned),
        &format!("{USE_LABEL_PREFIX}{run}"),
    )
    .await
}

async fn paths_of_labelled_objects(
    api: &Api,
    all: impl IntoIterator<Item = String>,
    selector: &str,
) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for collection in all {
        let list = match api.get(&format!("{collection}?labelSelector={selector}")).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => continue,
            Err(error) => return Err(to_anyhow_error(error)).context(collection),
        };
        let names = list["items"].as_array().into_iter().flatten();
        let names = names.filter_map(|item| item["metadata"]["name"].as_str());
        found.extend(names.map(|name| format!("{collection}/{name}")));
    }
    Ok(found)
}

/// Ends a run's use of a shared object, and deletes the object if no other run uses it. If another
/// run starts to use the object concurrently, its `resourceVersion` changes and the object stays.
async fn release_or_delete_shared(api: &Api, path: &str, run: &str) -> anyhow::Result<()> {
    let label = format!("{USE_LABEL_PREFIX}{run}");
    let change = json!({ "metadata": { "labels": { label: null } } });
    let object = match api.merge_patch(path, &change).await {
        Ok(left) => left,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(to_anyhow_error(error)).context(path.to_owned()),
    };
    let mut labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    if labels.any(|(label, _)| label.starts_with(USE_LABEL_PREFIX)) {
        return Ok(());
    }
    let revision = &object["metadata"]["resourceVersion"];
    let body = json!({ "preconditions": { "resourceVersion": revision } }).to_string();
    let request = Request::delete(path).header("content-type", "application/json");
    match api.client().request::<Value>(request.body(body.into_bytes())?).await {
        Ok(_) => wait_until_deleted(api, path).await,
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(to_anyhow_error(error)).context(path.to_owned()),
    }
}

/// Waits until a CRD and its objects are deleted. Returns early if the CRD is not being deleted:
/// then another run has created it anew.
async fn wait_until_deleted(api: &Api, path: &str) -> anyhow::Result<()> {
    let end = Instant::now() + REMOVAL_TIMEOUT;
    while Instant::now() < end {
        match api.get(path).await {
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) => return Err(to_anyhow_error(error)).context(path.to_owned()),
            Ok(found) if found["metadata"]["deletionTimestamp"].is_null() => return Ok(()),
            Ok(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
    anyhow::bail!("{path} is not deleted after {} s", REMOVAL_TIMEOUT.as_secs())
}

#[cfg(test)]
mod tests {
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::{Emulator, Options};

    use super::*;

    #[tokio::test]
    async fn foreign_pods_on_or_pinned_to_nodes_of_a_run_are_deleted() {
        let api = Api::new(Emulator::start(Options::with_clock(Clock::real())).client());
        let only = |nodes: &[&str]| {
            let field = json!({"key": "metadata.name", "operator": "In", "values": nodes});
            let terms = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": terms}}})
        };
        for (name, mut spec) in [
            ("on-ours", json!({"nodeName": "ours-1"})),
            ("for-ours", only(&["ours-1"])),
            ("on-theirs", json!({"nodeName": "theirs"})),
            ("for-theirs", only(&["theirs"])),
            ("anywhere", json!({})),
        ] {
            spec["containers"] = json!([{"name": "c", "image": "i"}]);
            let pod = json!({"metadata": {"name": name}, "spec": spec});
            api.post("/api/v1/namespaces/default/pods", &pod).await.unwrap();
        }
        delete_foreign_pods(&api, &|node| node.starts_with("ours-")).await.unwrap();
        let left = api.get("/api/v1/pods").await.unwrap();
        let left = list(&left, "/items").iter().filter_map(|pod| text(pod, "/metadata/name"));
        assert_eq!(left.collect::<Vec<_>>(), ["anywhere", "for-theirs", "on-theirs"]);
    }
}
