//! What a run made on a cluster that was there before, found by its label; and what runs share
//! there, definitions of kinds and priority classes, of which the last one to use it takes leave.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use schedlab_json::{Value, json};
use tokio::time::Instant;

use super::{OBJECT_LABEL, USE_LABEL, news, objects};
use crate::api::{Api, is_not_found, refusal};
use crate::fenced::{FENCED, Fenced};
use crate::fields::{list, text};

/// Where runs make things besides what scenarios have of their own.
const BESIDES: [&str; 3] = [
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
];
const NODES: &str = "/api/v1/nodes";
/// Where they leave news, which goes by itself after an hour and should not stay so long.
const NEWS: &str = "/api/v1/namespaces/default/events";
/// What they share.
const SHARED: [&str; 2] = [
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];
/// How long everything may take to go.
const GOODBYE: Duration = Duration::from_mins(5);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(200);

/// Whether anything of a run is there.
pub(super) async fn has_any(api: &Api, run: &str) -> anyhow::Result<bool> {
    let has_own = !own(api, run).await?.is_empty() || !shared(api, run).await?.is_empty();
    Ok(has_own || news::has_any(api, run).await?)
}

/// Takes everything of a run away and waits until it is gone.
pub(super) async fn remove_all(api: &Api, run: &str) -> anyhow::Result<()> {
    let end = Instant::now() + GOODBYE;
    let mut before = usize::MAX;
    let mut nodes: BTreeSet<String> = BTreeSet::new();
    loop {
        let left = own(api, run).await?;
        if left.is_empty() {
            break;
        }
        anyhow::ensure!(
            Instant::now() < end,
            "still there after {} s: {}",
            GOODBYE.as_secs(),
            left.join(", ")
        );
        let of_nodes = left.iter().filter_map(|path| path.strip_prefix(NODES)?.strip_prefix('/'));
        nodes.extend(of_nodes.map(str::to_owned));
        let mut refused = None;
        for path in &left {
            refused = remove(api, path).await.err().or(refused);
        }
        // A webhook keeps a queue for as long as there are queues below it.
        if let Some(why) = refused.filter(|_| left.len() >= before) {
            return Err(why);
        }
        before = left.len();
        tokio::time::sleep(ASK).await;
    }
    if !nodes.is_empty() {
        end_guests(api, &|node| nodes.contains(node)).await?;
    }
    objects::end(api, &format!("{NEWS}?labelSelector={OBJECT_LABEL}%3D{run}")).await?;
    news::remove_all(api, run).await?;
    for path in shared(api, run).await? {
        take_leave(api, &path, run).await?;
    }
    Ok(())
}

/// Deletes what stands on nodes that are gone, or waits for them: daemons of the cluster tolerate
/// every taint, and on a simulated node nobody ends them.
pub(crate) async fn end_guests(api: &Api, was_ours: &dyn Fn(&str) -> bool) -> anyhow::Result<()> {
    let pods = api.get("/api/v1/pods").await.map_err(refusal)?;
    for pod in list(&pods, "/items") {
        let is_there = text(pod, "/spec/nodeName").is_some_and(was_ours);
        if is_there || waits_for(pod, was_ours) {
            let field = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let path = format!("/api/v1/namespaces/{}/pods/{}", field("namespace"), field("name"));
            objects::gone(&path, api.delete_at_once(&path).await)?;
        }
    }
    Ok(())
}

/// Whether a pod can go to these nodes only: each of a daemon names its node.
fn waits_for(pod: &Value, was_ours: &dyn Fn(&str) -> bool) -> bool {
    const TERMS: &str = "/spec/affinity/nodeAffinity/\
                         requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let names_ours = |field: &Value| {
        let mut names = list(field, "/values").iter().filter_map(Value::as_str);
        field["key"] == "metadata.name" && field["operator"] == "In" && names.all(was_ours)
    };
    let terms = list(pod, TERMS);
    let is_bound = text(pod, "/spec/nodeName").is_some_and(|node| !node.is_empty());
    !is_bound
        && !terms.is_empty()
        && terms.iter().all(|term| list(term, "/matchFields").iter().any(names_ours))
}

async fn remove(api: &Api, path: &str) -> anyhow::Result<()> {
    objects::end(api, path).await?;
    if let Some(namespace) = path.strip_prefix("/api/v1/namespaces/") {
        // Nobody ends the containers of simulated nodes any more.
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        objects::gone(&pods, api.delete_at_once(&pods).await)?;
        objects::gone(&pods, api.let_go(&pods).await.map(|()| Value::Null))?;
    }
    Ok(())
}

async fn own(api: &Api, run: &str) -> anyhow::Result<Vec<String>> {
    let collections = FENCED.iter().map(Fenced::collection);
    let collections = collections.chain(BESIDES.map(str::to_owned));
    labelled(api, collections, &format!("{OBJECT_LABEL}%3D{run}")).await
}

async fn shared(api: &Api, run: &str) -> anyhow::Result<Vec<String>> {
    labelled(api, SHARED.map(str::to_owned), &format!("{USE_LABEL}{run}")).await
}

async fn labelled(
    api: &Api,
    all: impl IntoIterator<Item = String>,
    selector: &str,
) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for collection in all {
        let list = match api.get(&format!("{collection}?labelSelector={selector}")).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => continue,
            Err(error) => return Err(refusal(error)).context(collection),
        };
        let names = list["items"].as_array().into_iter().flatten();
        let names = names.filter_map(|item| item["metadata"]["name"].as_str());
        found.extend(names.map(|name| format!("{collection}/{name}")));
    }
    Ok(found)
}

/// A run uses it no more; if nobody else does, it goes. Should another run begin to use it right
/// now, its revision is another one, and it stays.
async fn take_leave(api: &Api, path: &str, run: &str) -> anyhow::Result<()> {
    let label = format!("{USE_LABEL}{run}");
    let change = json!({ "metadata": { "labels": { label: null } } });
    let left = match api.merge(path, &change).await {
        Ok(left) => left,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(refusal(error)).context(path.to_owned()),
    };
    let mut labels = left["metadata"]["labels"].as_object().into_iter().flatten();
    if labels.any(|(label, _)| label.starts_with(USE_LABEL)) {
        return Ok(());
    }
    let revision = &left["metadata"]["resourceVersion"];
    let body = json!({ "preconditions": { "resourceVersion": revision } }).to_string();
    let request = Request::delete(path).header("content-type", "application/json");
    match api.client().request::<Value>(request.body(body.into_bytes())?).await {
        Ok(_) => until_gone(api, path).await,
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(refusal(error)).context(path.to_owned()),
    }
}

/// A definition goes after its objects; one that is not going any more is somebody else's.
async fn until_gone(api: &Api, path: &str) -> anyhow::Result<()> {
    let end = Instant::now() + GOODBYE;
    while Instant::now() < end {
        match api.get(path).await {
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) => return Err(refusal(error)).context(path.to_owned()),
            Ok(found) if found["metadata"]["deletionTimestamp"].is_null() => return Ok(()),
            Ok(_) => tokio::time::sleep(ASK).await,
        }
    }
    anyhow::bail!("{path} is still there after {} s", GOODBYE.as_secs())
}

#[cfg(test)]
mod tests {
    use schedlab_emulator::clock::Clock;
    use schedlab_emulator::{Emulator, Options};

    use super::*;

    #[tokio::test]
    async fn pods_that_stand_on_nodes_of_a_run_or_wait_for_them_go_with_these() {
        let api = Api::new(Emulator::start(Options::at(Clock::real())).client());
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
        end_guests(&api, &|node| node.starts_with("ours-")).await.unwrap();
        let left = api.get("/api/v1/pods").await.unwrap();
        let left = list(&left, "/items").iter().filter_map(|pod| text(pod, "/metadata/name"));
        assert_eq!(left.collect::<Vec<_>>(), ["anywhere", "for-theirs", "on-theirs"]);
    }
}
