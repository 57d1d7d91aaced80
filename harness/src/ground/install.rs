//! What a run brings to a cluster before its first scenario, and takes away after its last:
//! definitions of kinds and priority classes.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::try_join_all;
use schedlab_emulator::crds::workload_kinds;
use schedlab_json::{Value, json};
use schedlab_scheduler::crds;

use super::wait::answered;
use crate::api::{Api, is_not_found, refusal};
use crate::leftovers::USE_LABEL;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
/// On definitions that we brought: a number for what they say.
const DIGEST: &str = "schedlab.dev/digest";
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

/// Brings what is not there, for a run to use. What it cannot use it tells before it touches
/// anything.
pub(super) async fn install(
    config: &kube::Config,
    strange: Strange,
    run: &str,
) -> anyhow::Result<()> {
    let api = super::api(config)?;
    let own = crds::all().into_iter();
    let definitions: Vec<Value> = own.chain(workload_kinds()).map(signed).collect();
    let classes: Vec<Value> = crds::priority_classes().into_iter().map(signed).collect();
    for definition in &definitions {
        if let Some(there) = found(&api, DEFINITIONS, definition).await? {
            fits(&there, definition, strange)?;
        }
    }
    for class in &classes {
        if let Some(there) = found(&api, CLASSES, class).await? {
            is_worth_the_same(&there, class)?;
        }
    }
    for definition in &definitions {
        share(&api, DEFINITIONS, definition, run).await?;
    }
    for class in &classes {
        share(&api, CLASSES, class, run).await?;
    }
    all_served(&api, &definitions).await
}

/// What the cluster has under the name of an object of ours.
async fn found(api: &Api, collection: &str, ours: &Value) -> anyhow::Result<Option<Value>> {
    let path = format!("{collection}/{}", name(ours));
    match api.get(&path).await {
        Ok(there) => Ok(Some(there)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) => Err(refusal(error)).with_context(|| format!("cannot read {path}")),
    }
}

/// Waits until the objects of all definitions can be listed. An API server sends whoever asks first
/// away for a second, kind by kind: so all are asked at once.
async fn all_served(api: &Api, definitions: &[Value]) -> anyhow::Result<()> {
    let paths = definitions.iter().map(|one| format!("{DEFINITIONS}/{}", name(one)));
    try_join_all(paths.map(|path| served(api, path))).await.map(drop)
}

/// Has a run use what another run brought, or brings it; what somebody else brought is his.
async fn share(api: &Api, collection: &str, object: &Value, run: &str) -> anyhow::Result<()> {
    let path = format!("{collection}/{}", name(object));
    let uses = json!({ "metadata": { "labels": { (format!("{USE_LABEL}{run}")): "" } } });
    let shared = answered(SERVED_WITHIN, async || {
        let done = match api.get(&path).await {
            Ok(there) if there["metadata"]["annotations"][DIGEST].is_null() => return Ok(Ok(())),
            Ok(_) => api.merge(&path, &uses).await,
            Err(error) if is_not_found(&error) => {
                let mut object = object.clone();
                object["metadata"]["labels"][format!("{USE_LABEL}{run}")] = json!("");
                api.post(collection, &object).await
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(there) if there["metadata"]["deletionTimestamp"].is_null() => Ok(Ok(())),
            // Another run was the last to use it a moment ago, or brings it right now.
            Ok(_) => Ok(Err("it is going")),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Ok(Err("somebody else brings it or takes it away"))
            }
            Err(error) => Err(refusal(error)).with_context(|| format!("cannot use {path}")),
        }
    });
    shared.await?.map_err(|why| anyhow!("{path} cannot be used after {SERVED_WITHIN:?}: {why}"))
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
    let (needed, to_do) = match strange {
        Strange::Refuse => {
            ("ours with ", "run against what is installed with --scheduler installed:NAME")
        }
        Strange::Use => ("", "bring its scheduler to a version that serves what is needed"),
    };
    anyhow::bail!(
        "the cluster has a definition {} of somebody else (versions {}; needed is {needed}{}): \
         nothing was changed; {to_do}, or use another cluster",
        name(wanted),
        has.join(", "),
        needs.join(", ")
    )
}

/// Whether a priority class that is there ranks pods as ours does: features compare priorities.
fn is_worth_the_same(there: &Value, wanted: &Value) -> anyhow::Result<()> {
    let (has, needs) = (&there["value"], &wanted["value"]);
    anyhow::ensure!(
        has == needs,
        "the cluster has a PriorityClass {} of value {has}; needed is {needs}: nothing was changed; \
         use another cluster, or delete it there if nobody needs it",
        name(wanted)
    );
    Ok(())
}

/// Waits until the objects of a definition can be listed.
async fn served(api: &Api, path: String) -> anyhow::Result<()> {
    let served = answered(SERVED_WITHIN, async || {
        let definition = api.get(&path).await.map_err(refusal)?;
        let text = |at: &str| definition.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
        let version = text("/spec/versions/0/name");
        Ok(api.get(&format!("/apis/{group}/{version}/{plural}")).await)
    });
    let served = served.await?.map(drop).map_err(refusal);
    served.with_context(|| format!("{path} is not served after {SERVED_WITHIN:?}"))
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
        let error = fits(&definition("v1"), &ours, Strange::Use).unwrap_err().to_string();
        assert!(error.contains("versions v1; needed is v2"), "{error}");
        assert!(!error.contains("installed:NAME"), "that is how it was called: {error}");
    }

    #[test]
    fn a_priority_class_of_another_value_is_refused() {
        let class = |value| json!({"metadata": {"name": "train"}, "value": value});
        assert!(is_worth_the_same(&class(50), &class(50)).is_ok());
        let error = is_worth_the_same(&class(7), &class(50)).unwrap_err().to_string();
        assert!(error.contains("PriorityClass train of value 7; needed is 50"), "{error}");
    }

    /// Answers with definitions, and with lists only when two wait for one.
    async fn answer(
        path: String,
        two: std::sync::Arc<tokio::sync::Barrier>,
    ) -> Result<http::Response<kube::client::Body>, std::convert::Infallible> {
        let plural = path.strip_prefix(&format!("{DEFINITIONS}/"));
        let answer = if let Some(plural) = plural {
            let names = json!({"plural": plural});
            json!({"spec": {"group": "g", "names": names, "versions": [{"name": "v1"}]}})
        } else {
            two.wait().await;
            json!({"items": []})
        };
        Ok(http::Response::new(kube::client::Body::from(answer.to_string().into_bytes())))
    }

    #[tokio::test(start_paused = true)]
    async fn all_kinds_are_asked_for_at_once() {
        let two = std::sync::Arc::new(tokio::sync::Barrier::new(2));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            answer(request.uri().path().to_owned(), std::sync::Arc::clone(&two))
        });
        let api = Api::new(kube::Client::new(service, "default"));
        let both = ["queues", "podgroups"].map(|name| json!({"metadata": {"name": name}}));
        let served = tokio::time::timeout(SERVED_WITHIN, all_served(&api, &both)).await;
        served.expect("nobody waits for another").unwrap();
    }
}
