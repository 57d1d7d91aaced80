//! `schedlab up --record`: writes what is done with kubectl as a feature.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use schedlab_api::{Value, json};
use schedlab_casefiles::session::{Session, SessionEnd, SessionWrite, nodes_step};
use schedlab_clusters::api::{Api, to_anyhow_error};
use schedlab_emulator::Emulator;
use schedlab_emulator::store::{EventKind, LogEntry, Subresource};

use super::{CommandOutput, UsageError};
use crate::cli::Up;

/// How the field managers of kubectl begin; a deletion has the name of the program.
const KUBECTL: &str = "kubectl";

/// The step for the nodes of the fleet that `schedlab up` has by default.
const DEFAULT_FLEET_STEP: &str = "    Given a fleet of 4 nodes with 8 GPUs each\n";

/// Records the writes of kubectl from now on.
pub(super) struct SessionRecorder {
    path: PathBuf,
    background: String,
    session: Arc<Mutex<Session>>,
}

impl SessionRecorder {
    /// Starts to record. The nodes that exist now, or the case, are the background of the feature.
    pub(super) async fn start(path: &Path, args: &Up, emulator: &Emulator) -> anyhow::Result<Self> {
        // What was done would be lost if the file could not be written at the end.
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let shown = path.display();
        opened
            .map_err(|error| UsageError(format!("--record {shown}: cannot write it: {error}")))?;
        let background = match args.case.first() {
            Some(case) => {
                let whole =
                    std::path::absolute(case).context("cannot resolve the path of the case")?;
                format!("    Given the case \"{}\"\n", whole.display())
            }
            None if args.fleet.is_none() && !args.empty => DEFAULT_FLEET_STEP.to_owned(),
            None => {
                let nodes =
                    list(&Api::new(emulator.client()), "/api/v1/nodes", "v1", "Node").await?;
                nodes_step(nodes.iter().map(AsRef::as_ref))
            }
        };
        let session: Arc<Mutex<Session>> = Arc::default();
        let observed = Arc::clone(&session);
        emulator.observe_writes(Box::new(move |entry| {
            if let Some(write) = write_of_kubectl(entry) {
                observed.lock().unwrap_or_else(PoisonError::into_inner).observe(&write);
            }
        }));
        Ok(Self { path: path.to_owned(), background, session })
    }

    /// Writes the feature.
    pub(super) async fn write(
        self,
        emulator: &Emulator,
        output: &mut CommandOutput,
    ) -> anyhow::Result<()> {
        let api = Api::new(emulator.client());
        let pods = list(&api, "/api/v1/pods", "v1", "Pod").await?;
        let mut owners = list(&api, "/apis/apps/v1/replicasets", "apps/v1", "ReplicaSet").await?;
        owners.extend(list(&api, "/apis/batch/v1/jobs", "batch/v1", "Job").await?);
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        if session.is_empty() {
            output.print_note("nothing was recorded: kubectl changed nothing");
            return Ok(());
        }
        let end = SessionEnd { pods: &pods, owners: &owners };
        let text = session.feature("A session with kubectl", &self.background, &end);
        let path = self.path.display();
        std::fs::write(&self.path, text).with_context(|| format!("cannot write {path}"))?;
        for note in session.notes() {
            output.print_note(note);
        }
        output.print_note(&format!("{path}: what kubectl did, as steps\ntry: schedlab run {path}"));
        Ok(())
    }
}

/// All objects of a kind, with their kind.
async fn list(
    api: &Api,
    path: &str,
    api_version: &str,
    kind: &str,
) -> anyhow::Result<Vec<Arc<Value>>> {
    let mut list = api.get(path).await.map_err(to_anyhow_error)?;
    let items = list.get_mut("items").and_then(Value::as_array_mut);
    let items = items.map(std::mem::take).unwrap_or_default();
    let complete = |mut item: Value| {
        item["apiVersion"] = json!(api_version);
        item["kind"] = json!(kind);
        Arc::new(item)
    };
    Ok(items.into_iter().map(complete).collect())
}

/// The write of a person; `None` if a program made it, or a status was written.
fn write_of_kubectl(entry: &LogEntry) -> Option<SessionWrite> {
    if !entry.manager.starts_with(KUBECTL) {
        return None;
    }
    match entry.subresource {
        Subresource::None | Subresource::Scale => {}
        Subresource::Status
        | Subresource::Finalize
        | Subresource::Resize
        | Subresource::EphemeralContainers => return None,
    }
    let after = (entry.kind != EventKind::Deleted).then(|| Arc::clone(&entry.object));
    let before = match entry.kind {
        EventKind::Added => None,
        EventKind::Modified => entry.previous.clone(),
        EventKind::Deleted => Some(Arc::clone(&entry.object)),
    };
    Some(SessionWrite { time: entry.time, before, after })
}
