//! Reads a live cluster into a [`Case`]. Nothing is written.

use std::collections::BTreeMap;

use anyhow::Context as _;
use kube::Client;
use schedlab_api::{Value, json};
use schedlab_scheduler::{Config, snapshot_file::SnapshotSource};

use crate::{Case, KINDS, Manifest};

/// Largest number of events that a case keeps: the newest ones.
const EVENTS_MAX: usize = 20_000;

/// Reads the cluster as the scheduler with this configuration sees it, and its events.
///
/// # Errors
/// A kind of objects cannot be listed.
pub async fn capture(client: Client, config: Config, now: &str) -> anyhow::Result<Case> {
    let cluster = SnapshotSource { client: client.clone(), config }.read_cluster().await?;
    let mut events = list_events(&client).await?;
    events.sort_by(|a, b| event_time(b).cmp(event_time(a)));
    events.truncate(EVENTS_MAX);
    events.reverse();
    let version = cluster.discovery.pointer("/serverVersion/gitVersion");
    let manifest = Manifest {
        captured_at: now.to_owned(),
        source: "cluster".to_owned(),
        kubernetes: version.and_then(Value::as_str).unwrap_or_default().to_owned(),
        scheduler_images: scheduler_images(&cluster.objects),
        ..Manifest::default()
    };
    Ok(Case { manifest, cluster, events })
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

/// The `ClusterRole` that a capture needs: it lists the kinds of a case file, and events.
pub fn cluster_role() -> Value {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::from([("", vec!["events"])]);
    for kind in KINDS {
        groups.entry(kind.group()).or_default().push(kind.plural);
    }
    let rules = groups.into_iter().map(|(group, mut resources)| {
        resources.sort_unstable();
        json!({ "apiGroups": [group], "resources": resources, "verbs": ["list"] })
    });
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "schedlab-capture" },
        "rules": rules.collect::<Vec<_>>(),
    })
}
