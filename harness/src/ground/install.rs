//! What a run brings to a cluster before its first scenario, and takes away after its last:
//! definitions of kinds and priority classes.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::crds::workload_kinds;
use schedlab_scheduler::crds;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, is_not_found, refusal};
use crate::veil::RUN;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// On definitions that we brought: a number for what they say.
const DIGEST: &str = "schedlab.dev/digest";
/// How often it is asked whether something has come or gone.
const ASK: Duration = Duration::from_millis(50);
/// How long the cluster may take to serve a new kind.
const SERVED_WITHIN: Duration = Duration::from_mins(1);

/// What to do with a definition of the same name that is there and not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strange {
    /// It belongs to the scheduler that was there: use it, if it serves our version.
    Use,
    /// Say so and touch nothing.
    Refuse,
}

/// Brings everything, or nothing. Answers the paths of what was not there before.
pub(super) async fn install(
    config: &kube::Config,
    strange: Strange,
) -> anyhow::Result<Vec<String>> {
    let api = super::api(config)?;
    let definitions: Vec<Value> =
        crds::all().into_iter().chain(workload_kinds()).map(signed).collect();
    let mut wanted = Vec::new();
    for definition in definitions {
        let path = format!("{DEFINITIONS}/{}", name(&definition));
        match api.get(&path).await {
            Ok(there) => fits(&there, &definition, strange)?,
            Err(error) if is_not_found(&error) => wanted.push((DEFINITIONS, path, definition)),
            Err(error) => return Err(refusal(error)).context("cannot read its definitions"),
        }
    }
    for class in crds::priority_classes() {
        let path = format!("{CLASSES}/{}", name(&class));
        if api.get(&path).await.is_err_and(|error| is_not_found(&error)) {
            wanted.push((CLASSES, path, class));
        }
    }
    let mut brought = Vec::new();
    for (collection, path, object) in wanted {
        if let Err(error) = api.post(collection, &object).await {
            take_away(&api, &brought).await;
            return Err(refusal(error)).context(format!("cannot create {path}"));
        }
        brought.push(path);
    }
    for path in brought.iter().filter(|path| path.starts_with(DEFINITIONS)) {
        served(&api, path).await?;
    }
    Ok(brought)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A definition with a number for what it says.
fn signed(mut definition: Value) -> Value {
    let text = definition["spec"].to_string();
    let number = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    definition["metadata"]["annotations"][DIGEST] = json!(format!("{number:016x}"));
    definition
}

/// Whether a definition that is there will do.
fn fits(there: &Value, wanted: &Value, strange: Strange) -> anyhow::Result<()> {
    let digest = |definition: &Value| definition["metadata"]["annotations"][DIGEST].clone();
    if digest(there) == digest(wanted) {
        return Ok(());
    }
    let versions = |definition: &Value| -> Vec<String> {
        let all = definition["spec"]["versions"].as_array().into_iter().flatten();
        let served = all.filter(|version| version["served"] != false);
        served.filter_map(|version| version["name"].as_str().map(str::to_owned)).collect()
    };
    let (has, needs) = (versions(there), versions(wanted));
    if strange == Strange::Use && needs.iter().all(|version| has.contains(version)) {
        return Ok(());
    }
    anyhow::bail!(
        "the cluster has a definition {} of somebody else (versions {}; needed is ours with {}): \
         nothing was changed; run against what is installed with --scheduler installed:NAME, or \
         use another cluster",
        name(wanted),
        has.join(", "),
        needs.join(", ")
    )
}

/// Waits until the objects of a definition can be listed.
async fn served(api: &Api, path: &str) -> anyhow::Result<()> {
    let end = Instant::now() + SERVED_WITHIN;
    loop {
        let definition = api.get(path).await.map_err(refusal)?;
        let text = |at: &str| definition.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        let version = text("/spec/versions/0/name");
        if api.get(&format!("/apis/{group}/{version}/{plural}")).await.is_ok() {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < end, "{path} is not served after {SERVED_WITHIN:?}");
        tokio::time::sleep(ASK).await;
    }
}

async fn take_away(api: &Api, paths: &[String]) {
    for path in paths.iter().rev() {
        // What cannot be removed now is found and told by whoever looks for leftovers.
        let _ = api.delete(path).await;
    }
}

/// Takes away everything of a run and waits until it is gone. Answers what is left.
pub(super) async fn withdraw(
    config: &kube::Config,
    run: &str,
    brought: &[String],
    limit: Duration,
) -> anyhow::Result<Vec<String>> {
    let api = super::api(config)?;
    let end = Instant::now() + limit;
    loop {
        let left = of_run(&api, run).await?;
        if left.is_empty() {
            break;
        }
        for path in &left {
            let _ = api.delete(path).await;
            if let Some(namespace) = path.strip_prefix("/api/v1/namespaces/") {
                let pods = format!("/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0");
                let _ = api.delete(&pods).await;
            }
        }
        if Instant::now() > end {
            return Ok(left);
        }
        tokio::time::sleep(4 * ASK).await;
    }
    leases(&api, run).await;
    take_away(&api, brought).await;
    let mut left = Vec::new();
    for path in brought {
        while api.get(path).await.is_ok() {
            if Instant::now() > end {
                left.push(path.clone());
                break;
            }
            tokio::time::sleep(ASK).await;
        }
    }
    Ok(left)
}

/// Everything that bears the run's label.
async fn of_run(api: &Api, run: &str) -> anyhow::Result<Vec<String>> {
    let collections = [
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/apis/scheduling.run.ai/v2/queues",
        CLASSES,
        "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes",
        "/apis/kai.scheduler/v1alpha1/topologies",
    ];
    let mut found = Vec::new();
    for collection in collections {
        let list = match api.get(&format!("{collection}?labelSelector={RUN}%3D{run}")).await {
            Ok(list) => list,
            Err(error) if is_not_found(&error) => continue,
            Err(error) => return Err(refusal(error)).context("cannot look for what is left"),
        };
        let items = list["items"].as_array().into_iter().flatten();
        found.extend(items.map(|item| format!("{collection}/{}", name(item))));
    }
    Ok(found)
}

/// Leases of our nodes go with them where a garbage collector runs; here they go at once.
async fn leases(api: &Api, run: &str) {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let Ok(list) = api.get(leases).await else { return };
    for lease in list["items"].as_array().into_iter().flatten() {
        if name(lease).starts_with(run) {
            let _ = api.delete(&format!("{leases}/{}", name(lease))).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(version: &str) -> Value {
        json!({"metadata": {"name": "queues.scheduling.run.ai"},
               "spec": {"versions": [{"name": version, "served": true}]}})
    }

    #[test]
    fn a_definition_of_somebody_else_is_refused_unless_it_is_what_shall_be_tested() {
        let ours = signed(definition("v2"));
        assert!(fits(&ours, &ours, Strange::Refuse).is_ok());
        let theirs = definition("v2");
        let error = fits(&theirs, &ours, Strange::Refuse).unwrap_err().to_string();
        assert!(error.contains("queues.scheduling.run.ai"), "{error}");
        assert!(fits(&theirs, &ours, Strange::Use).is_ok());
        assert!(fits(&definition("v1"), &ours, Strange::Use).is_err());
    }
}
