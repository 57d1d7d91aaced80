//! The objects of a run in shards: an Indexed Job, and ConfigMaps with the files of its pods.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::{POD_RESULTS_FOLDER, PodFile, ShardJob};

/// The name of the container of each pod.
pub(super) const CONTAINER: &str = "schedlab";

/// The label of all objects of a run; its value is the name of the Job.
pub(super) const RUN_LABEL: &str = "schedlab.dev/shard-job";

/// The folder of files in a pod.
const WORK_FOLDER: &str = "/work";

/// A finished Job that its client did not delete is deleted after this time, in seconds.
const TIME_TO_LIVE_SECS: u64 = 3600;

/// Maximum size of the texts in a `ConfigMap`, in bytes. The API allows 1 MiB.
const CONFIG_MAP_BYTES_MAX: usize = 800_000;

/// The files in one `ConfigMap`, with the key of each.
#[derive(Debug)]
pub(super) struct FileMap {
    /// The name of the `ConfigMap`.
    pub(super) name: String,
    files: BTreeMap<String, PodFile>,
}

/// Distributes the files over as few `ConfigMap`s as their order allows.
pub(super) fn config_maps(job: &str, files: &[PodFile]) -> anyhow::Result<Vec<FileMap>> {
    let mut maps: Vec<FileMap> = Vec::new();
    let mut bytes = 0;
    for (number, file) in files.iter().enumerate() {
        ensure!(
            file.text.len() <= CONFIG_MAP_BYTES_MAX,
            "{}: got a file of {} bytes, expected at most {CONFIG_MAP_BYTES_MAX}, which a ConfigMap \
             holds",
            file.path,
            file.text.len()
        );
        if maps.is_empty() || bytes + file.text.len() > CONFIG_MAP_BYTES_MAX {
            let name = format!("{job}-files-{}", maps.len() + 1);
            maps.push(FileMap { name, files: BTreeMap::new() });
            bytes = 0;
        }
        bytes += file.text.len();
        if let Some(map) = maps.last_mut() {
            map.files.insert(format!("file-{number}"), file.clone());
        }
    }
    Ok(maps)
}

impl FileMap {
    /// The object, owned by the Job with this name and uid.
    pub(super) fn object(&self, job: &str, uid: &str) -> anyhow::Result<ConfigMap> {
        let data: BTreeMap<&String, &String> =
            self.files.iter().map(|(key, file)| (key, &file.text)).collect();
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "labels": labels(job),
                "ownerReferences": [{
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": job,
                    "uid": uid,
                }],
            },
            "data": data,
        });
        serde_json::from_value(object).context("the ConfigMap is not valid")
    }

    /// The source of a projected volume that gives each file its path.
    fn volume_source(&self) -> Value {
        let items = self.files.iter().map(|(key, file)| json!({"key": key, "path": file.path}));
        json!({"configMap": {"name": self.name, "items": items.collect::<Vec<_>>()}})
    }
}

fn labels(job: &str) -> Value {
    json!({"app.kubernetes.io/name": "schedlab", RUN_LABEL: job})
}

/// The Job, suspended.
pub(super) fn job_manifest(name: &str, job: &ShardJob, maps: &[FileMap]) -> anyhow::Result<Job> {
    let object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels(name)},
        "spec": {
            "completionMode": "Indexed",
            "completions": job.shards,
            "parallelism": job.shards,
            "suspend": true,
            // A pod fails only if schedlab could not run: once more, for a node that went away.
            "backoffLimitPerIndex": 1,
            "ttlSecondsAfterFinished": TIME_TO_LIVE_SECS,
            "template": {
                "metadata": {"labels": labels(name)},
                "spec": pod_spec(job, maps),
            },
        },
    });
    serde_json::from_value(object).context("the Job is not valid")
}

fn pod_spec(job: &ShardJob, maps: &[FileMap]) -> Value {
    let mut volumes = vec![json!({"name": "results", "emptyDir": {}})];
    let mut mounts = vec![json!({"name": "results", "mountPath": POD_RESULTS_FOLDER})];
    // Without files of its own, schedlab runs its embedded suite.
    let mut folder = POD_RESULTS_FOLDER;
    if !maps.is_empty() {
        let sources: Vec<Value> = maps.iter().map(FileMap::volume_source).collect();
        volumes.push(json!({"name": "work", "projected": {"sources": sources}}));
        mounts.push(json!({"name": "work", "mountPath": WORK_FOLDER, "readOnly": true}));
        folder = WORK_FOLDER;
    }
    json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": CONTAINER,
            "image": job.image,
            "imagePullPolicy": job.pull_policy,
            "args": job.words,
            "workingDir": folder,
            // New snapshots are not written: the folder of the files is read-only.
            "env": [{"name": "CI", "value": "true"}, {"name": "NO_COLOR", "value": "1"}],
            "resources": {"requests": {"cpu": job.cpu, "memory": job.memory}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    })
}
