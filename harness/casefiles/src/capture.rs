//! Reads a live cluster into a [`Case`], and records what changes for a while. Nothing is written.

mod recording;

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use kube::Client;
use schedlab_api::{Value, json};
use schedlab_scheduler::{Config, snapshot_file::SnapshotSource};

use crate::{Case, KINDS, Manifest};
use recording::Recording;

/// Largest number of events that a case keeps: the newest ones.
const EVENTS_MAX: usize = 20_000;

/// Reads the cluster as the scheduler with this configuration sees it, and its events.
///
/// # Errors
/// A kind of objects cannot be listed.
pub async fn capture(client: Client, config: Config, now: &str) -> anyhow::Result<Case> {
    capture_for(client, config, Duration::ZERO, &|| now.to_owned()).await
}

/// Like [`capture`], and records what changes within `duration`. The objects are those at its end.
/// `now` returns the time in RFC 3339 format.
///
/// # Errors
/// A kind of objects cannot be listed.
pub async fn capture_for(
    client: Client,
    config: Config,
    duration: Duration,
    now: &(dyn Fn() -> String + Sync),
) -> anyhow::Result<Case> {
    let recording = if duration.is_zero() { None } else { Some(Recording::start(&client).await?) };
    let cluster = SnapshotSource { client: client.clone(), config }.read_cluster().await?;
    let mut case = Case { cluster, ..Case::default() };
    if let Some(recording) = recording {
        case.manifest.recorded_from = now();
        recording.record(&mut case, duration, now).await;
    }
    let mut events = list_events(&client).await?;
    events.sort_by(|a, b| event_time(b).cmp(event_time(a)));
    events.truncate(EVENTS_MAX);
    events.reverse();
    case.events = events;
    let version = case.cluster.discovery.pointer("/serverVersion/gitVersion");
    case.manifest = Manifest {
        captured_at: now(),
        recorded_from: case.manifest.recorded_from,
        source: "cluster".to_owned(),
        kubernetes: version.and_then(Value::as_str).unwrap_or_default().to_owned(),
        scheduler_images: scheduler_images(&case.cluster.objects),
        ..Manifest::default()
    };
    Ok(case)
}

async fn list_events(client: &Client) -> anyhow::Result<Vec<Value>> {
    let request = http::Request::get("/api/v1/events").body(Vec::new())?;
    let text = client.request_text(request).await.context("cannot list /api/v1/events")?;
    let mut list: Value = serde_json::from_str(&text).context("cannot read /api/v1/events")?;
    let items = list.get_mut("items").and_then(Value::as_array_mut);
    Ok(items.map(std::mem::take).unwrap_or_default())
}

fn event_time(event: &Value) -> &str {
    let mut fields = ["lastTimestamp", "eventTime", "firstTimestamp"].iter();
    fields.find_map(|field| event.get(field)?.as_str()).unwrap_or_default()
}

/// Images of pods that look like a scheduler.
fn scheduler_images(objects: &BTreeMap<String, Vec<std::sync::Arc<Value>>>) -> Vec<String> {
    let pods = objects.get("pods").into_iter().flatten();
    let containers = pods.flat_map(|pod| {
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
        containers.into_iter().flatten()
    });
    let images = containers.filter_map(|container| container.get("image")?.as_str());
    let mut images: Vec<String> =
        images.filter(|image| image.contains("scheduler")).map(str::to_owned).collect();
    images.sort();
    images.dedup();
    images
}

/// The `ClusterRole` that a capture needs: it lists the kinds of a case file, and events. One that
/// records changes watches them, too.
pub fn cluster_role(is_recording: bool) -> Value {
    let verbs = if is_recording { json!(["list", "watch"]) } else { json!(["list"]) };
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::from([("", vec!["events"])]);
    for kind in KINDS {
        groups.entry(kind.group()).or_default().push(kind.plural);
    }
    let rules = groups.into_iter().map(|(group, mut resources)| {
        resources.sort_unstable();
        json!({ "apiGroups": [group], "resources": resources, "verbs": verbs.clone() })
    });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "schedlab-capture" },
        "rules": rules.collect::<Vec<_>>(),
    })
}
