//! What submitted manifests become: controllers create the pods, and the pod grouper their pod
//! groups, on an emulated cluster without nodes.

use std::collections::BTreeSet;

use anyhow::Context as _;
use jiff::Timestamp;
use schedlab_api::{Value, json, object};
use schedlab_casefiles::{Case, KINDS};
use schedlab_clusters::api::Api;
use schedlab_emulator::{Emulator, Options, clock::Clock};
use schedlab_scheduler::{Config, Flavor, IdlePolicy};
use std::time::Duration;

use super::change::ChangeError;

/// Seed of uids and generated names, other than those of simulated clusters that were captured.
const SEED: u64 = 0x7768_6174_6966;

/// Kinds that manifests become, which decisions depend on.
const KEPT: [&str; 5] =
    ["configMaps", "persistentVolumeClaims", "resourceClaims", "podGroups", "pods"];

/// Kinds of the case that manifests refer to.
const REFERRED: [&str; 4] = ["priorityClasses", "deviceClasses", "storageClasses", "queues"];

/// The pods, pod groups and claims that manifests become, by the name of their array.
///
/// # Errors
/// [`ChangeError`] if a manifest is refused, makes no pod, or names another scheduler. Otherwise
/// the emulated cluster did not come to rest.
pub(super) fn expand(
    case: &Case,
    manifests: &[Value],
    config: &Config,
    now: Timestamp,
) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("cannot create a runtime for the submitted objects")?;
    runtime.block_on(expand_on_emulator(case, manifests, config, now))
}

async fn expand_on_emulator(
    case: &Case,
    manifests: &[Value],
    config: &Config,
    now: Timestamp,
) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let clock = Clock::starting_at(now);
    let options = Options { seed: SEED, ..Options::with_clock(clock.clone()) };
    let emulator = Emulator::start(options);
    let mut api = Api::new(emulator.client());
    create_references(&mut api, case, manifests, config).await?;
    let kept = KINDS.iter().filter(|kind| KEPT.contains(&kind.array));
    let mut before = BTreeSet::new();
    for kind in kept.clone() {
        before.extend(list(&api, kind).await?.iter().map(|object| (kind.array, uid(object))));
    }
    for manifest in manifests {
        api.create(manifest)
            .await
            .map_err(|error| ChangeError { option: "--submit", message: format!("{error:#}") })?;
    }
    let config = Config { idle_policy: IdlePolicy::UntilEvent, ..config.clone() };
    let name = config.scheduler_name.clone();
    let now: schedlab_scheduler::Clock = std::sync::Arc::new(move || clock.now());
    let scheduler = tokio::spawn(schedlab_scheduler::run(emulator.client(), config, now));
    let settled = emulator.settle(Duration::from_secs(5), Duration::from_mins(5)).await;
    scheduler.abort();
    settled.context("the submitted objects do not come to rest")?;
    let mut created = Vec::new();
    for kind in kept {
        let objects = list(&api, kind).await?.into_iter();
        let new = objects.filter(|object| !before.contains(&(kind.array, uid(object))));
        created.extend(new.map(|object| (kind.array, object)));
    }
    check_pods(&created, &name)?;
    Ok(created)
}

fn uid(object: &Value) -> String {
    object::uid(object).to_owned()
}

/// Creates what manifests may refer to. What exists already stays.
async fn create_references(
    api: &mut Api,
    case: &Case,
    manifests: &[Value],
    config: &Config,
) -> anyhow::Result<()> {
    let mut objects = schedlab_api::crds::priority_classes();
    if config.flavor == Flavor::Kai {
        for kind in schedlab_api::crds::all_crds() {
            api.create(&kind).await?;
        }
    }
    let namespaces: BTreeSet<&str> = manifests.iter().map(object::namespace).collect();
    objects.extend(namespaces.into_iter().filter(|name| !["", "default"].contains(name)).map(
        |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
    ));
    let kinds = KINDS.iter().filter(|kind| REFERRED.contains(&kind.array));
    for kind in kinds.filter(|kind| config.flavor == Flavor::Kai || kind.kind != "Queue") {
        objects.extend(case.objects(kind.array).map(|object| {
            let mut plain = object.clone();
            plain["apiVersion"] = json!(kind.api_version);
            plain["kind"] = json!(kind.kind);
            plain["metadata"] = json!({ "name": object::name(object),
                "labels": object.pointer("/metadata/labels").cloned().unwrap_or_default() });
            object::remove(&mut plain, &["status"]);
            plain
        }));
    }
    for object in objects {
        // An object of the case that a newer API refuses does not matter to most manifests.
        let _ = api.create(&object).await;
    }
    Ok(())
}

async fn list(api: &Api, kind: &schedlab_casefiles::CaseKind) -> anyhow::Result<Vec<Value>> {
    let path = match kind.group() {
        "" => format!("/api/{}/{}", kind.api_version, kind.plural),
        _ => format!("/apis/{}/{}", kind.api_version, kind.plural),
    };
    match api.get(&path).await {
        Ok(mut list) => {
            let items = list.get_mut("items").and_then(Value::as_array_mut);
            Ok(items.map(std::mem::take).unwrap_or_default())
        }
        Err(error) if schedlab_clusters::api::is_not_found(&error) => Ok(Vec::new()),
        Err(error) => Err(schedlab_clusters::api::to_anyhow_error(error)),
    }
}

fn check_pods(created: &[(&str, Value)], scheduler: &str) -> Result<(), ChangeError> {
    let refuse = |message: String| Err(ChangeError { option: "--submit", message });
    let mut pods = created.iter().filter(|(list, _)| *list == "pods").map(|(_, pod)| pod);
    let Some(first) = pods.next() else {
        return refuse("got objects that make no pod, expected a pod or workload".to_owned());
    };
    let named = |pod: &Value| object::text(pod, &["spec", "schedulerName"]).to_owned();
    match std::iter::once(first).chain(pods).find(|pod| named(pod) != scheduler) {
        None => Ok(()),
        Some(pod) => refuse(format!(
            "pod {}: spec.schedulerName: got {}, expected {scheduler}",
            object::name(pod),
            named(pod)
        )),
    }
}
