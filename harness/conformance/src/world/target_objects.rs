//! Writes a scenario's queues and gangs in the API of a target that does not read KAI's objects.
//! KAI's objects stay what steps read and change; the target's objects are derived from them.

use anyhow::Context as _;
use schedlab_api::Value;

use super::World;
use crate::schedulers::{
    GangStatus, QueueResource, Queues, Translator, Unsupported, is_kai_pod_group, is_kai_queue,
    put_below_root, root_queue_object,
};
use crate::world::manifests::ManifestDocument;
use schedlab_clusters::api::{is_not_found, object_title, to_anyhow_error};

pub(super) const QUEUES_PATH: &str = "/apis/scheduling.run.ai/v2/queues";
pub(super) const NODES_PATH: &str = "/api/v1/nodes";

/// Objects that must exist before an object of a submission, with the index of that object.
pub(super) type Prerequisites = Vec<(usize, Value)>;

impl World {
    /// What the target's APIs cannot express and the scenario needs; `None` if nothing.
    pub(crate) fn unsupported(&self) -> Option<&Unsupported> {
        self.unsupported.as_ref()
    }

    /// The message that the target lacks a capability for the scenario.
    pub(crate) fn unsupported_message(&self) -> Option<String> {
        let Unsupported { capability, reason } = self.unsupported()?;
        Some(format!("{} lacks {capability}: {reason}", self.target.name))
    }

    /// Remembers that an API cannot express something, so that the scenario is skipped.
    fn record_unsupported<T>(&mut self, result: Result<T, Unsupported>) -> anyhow::Result<T> {
        result.map_err(|unsupported| {
            self.unsupported.get_or_insert_with(|| unsupported.clone());
            anyhow::Error::new(unsupported)
        })
    }

    /// Remembers what a background task could not express.
    pub(super) fn record_unsupported_in(&mut self, error: &anyhow::Error) {
        if let Some(unsupported) = error.downcast_ref::<Unsupported>() {
            self.unsupported.get_or_insert_with(|| unsupported.clone());
        }
    }

    /// Remembers that a CRD of the target lacks a field; nothing if the target brings no CRD for the
    /// object.
    pub(super) fn record_unknown_field(&mut self, object: &Value, field: &str) {
        let Some(kind) = self.target.own_kind_of(object) else { return };
        let reason = format!("{kind} has no field {field} in its CRDs");
        self.unsupported.get_or_insert(Unsupported { capability: "api-fields", reason });
    }

    /// Adds the target's labels and annotations to these documents, and the target's objects to the
    /// list. Returns what must exist before them.
    pub(super) async fn adapt_documents(
        &mut self,
        documents: &mut Vec<ManifestDocument>,
    ) -> anyhow::Result<Prerequisites> {
        if let Some(root) = self.target.root_queue().map(str::to_owned)
            && documents.iter().any(|document| is_kai_queue(&document.object))
        {
            self.api.create_if_absent(&root_queue_object(&root)).await?;
            put_below_root(documents.iter_mut().map(|document| &mut document.object), &root);
        }
        let written: Vec<Value> = documents
            .iter()
            .map(|document| &document.object)
            .filter(|object| is_kai_queue(object))
            .cloned()
            .collect();
        let Some(translator) = self.translator(&written).await? else { return Ok(Vec::new()) };
        let mut objects: Vec<&mut Value> =
            documents.iter_mut().map(|document| &mut document.object).collect();
        let translated = translator.translate(&mut objects);
        let translation = self.record_unsupported(translated)?;
        let additions = translation.additions;
        let moved =
            |index: usize| index + additions.iter().filter(|(before, _)| *before <= index).count();
        let prerequisites = translation.prerequisites.into_iter();
        let prerequisites = prerequisites.map(|(index, needed)| (moved(index), needed)).collect();
        for (index, object) in additions.into_iter().rev() {
            let location = documents[index].location.clone();
            documents.insert(index, ManifestDocument { location, object });
        }
        Ok(prerequisites)
    }

    /// The translator for workloads, with the existing queues and those in `written`; `None` if the
    /// target reads KAI's objects.
    pub(super) async fn translator(
        &mut self,
        written: &[Value],
    ) -> anyhow::Result<Option<Translator>> {
        let Some(mut translator) = self.target.translator(self.scheduler_name()) else {
            return Ok(None);
        };
        let existing = self.list_objects(QUEUES_PATH).await?;
        translator.queues = Queues::from_kai(existing.iter().chain(written));
        translator.known_groups = self
            .all_submitted_objects()
            .filter(|object| is_kai_pod_group(object))
            .cloned()
            .collect();
        Ok(Some(translator))
    }

    /// Creates the objects that the object with this index needs.
    pub(super) async fn ensure_prerequisites(
        &mut self,
        prerequisites: &Prerequisites,
        index: usize,
    ) -> anyhow::Result<()> {
        for (_, needed) in prerequisites.iter().filter(|(before, _)| *before == index) {
            self.api.create_if_absent(needed).await?;
        }
        Ok(())
    }

    /// Translates the queues for the target again if one of these objects is a queue or a node.
    pub(super) async fn sync_queues<'o>(
        &mut self,
        written: impl IntoIterator<Item = &'o Value>,
    ) -> anyhow::Result<()> {
        let mut written = written.into_iter();
        if written.any(|object| is_kai_queue(object) || object["kind"] == "Node") {
            self.sync_all_queues().await?;
        }
        Ok(())
    }

    /// Translates the queues for the target again if a queue or a node was deleted at this path.
    pub(super) async fn sync_queues_after_deletion(&mut self, path: &str) -> anyhow::Result<()> {
        match path.rsplit_once('/') {
            Some((QUEUES_PATH | NODES_PATH, _)) => self.sync_all_queues().await,
            _ => Ok(()),
        }
    }

    /// Writes the target's object for a gang again if this object is KAI's PodGroup.
    pub(super) async fn sync_gang(&mut self, changed: &Value) -> anyhow::Result<()> {
        if !is_kai_pod_group(changed) {
            return Ok(());
        }
        let Some(translator) = self.target.translator(self.scheduler_name()) else {
            return Ok(());
        };
        let group = translator.changed_group(changed);
        if let Some(group) = self.record_unsupported(group)? {
            self.api.apply(&group).await.context("cannot sync a gang to the target")?;
        }
        Ok(())
    }

    /// Deletes what the target itself created for those of these objects that are gangs.
    pub(super) async fn delete_generated_objects(
        &mut self,
        objects: &[Value],
    ) -> anyhow::Result<()> {
        let Some(adapter) = self.target.gangs.adapter() else { return Ok(()) };
        for group in objects.iter().filter(|object| is_kai_pod_group(object)) {
            let field = |name: &str| group["metadata"][name].as_str().unwrap_or_default();
            let Some(path) = adapter.path_to_delete(field("namespace"), field("name")) else {
                continue;
            };
            match self.api.delete(&path).await {
                Err(error) if !is_not_found(&error) => {
                    return Err(to_anyhow_error(error)).context(path);
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Writes new and changed objects to the target's own queue API, and deletes those that no
    /// queue needs any more.
    async fn sync_all_queues(&mut self) -> anyhow::Result<()> {
        let Some(adapter) = self.target.queues.adapter() else { return Ok(()) };
        let (queues, nodes) =
            (self.list_objects(QUEUES_PATH).await?, self.list_objects(NODES_PATH).await?);
        let desired = adapter.queue_objects(&Queues::from_kai(&queues), &nodes);
        let desired = self.record_unsupported(desired)?;
        let is_same = |a: &Value, b: &Value| object_title(a) == object_title(b);
        let before = std::mem::take(&mut self.last_synced);
        for object in before.iter().rev() {
            if !desired.iter().any(|one| is_same(one, object)) {
                let path = self.api.object_path(object).await?;
                self.api.delete(&path).await.map_err(to_anyhow_error).context(path)?;
            }
        }
        for object in &desired {
            if !before.contains(object) {
                self.api.apply(object).await.context("cannot sync a queue to the target")?;
            }
        }
        self.last_synced = desired;
        Ok(())
    }

    /// What the target's own APIs report about the scenario's gangs and queues, one line each, for
    /// the message of a failed step. Empty if the target reads KAI's objects or reports nothing.
    pub(crate) async fn target_report_lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let groups: Vec<Value> = self
            .all_submitted_objects()
            .filter(|object| is_kai_pod_group(object))
            .cloned()
            .collect();
        let gangs = self.target.gangs.adapter();
        for (adapter, group) in
            gangs.into_iter().flat_map(|gangs| groups.iter().map(move |group| (gangs, group)))
        {
            let field = |name: &str| group["metadata"][name].as_str().unwrap_or_default();
            let Some(path) = adapter.status_path(field("namespace"), field("name")) else {
                continue;
            };
            let Some(object) = self.get_existing(&path).await else { continue };
            let status = match adapter.gang_status(&object) {
                None => continue,
                Some(GangStatus::Admitted) => "admitted".to_owned(),
                Some(GangStatus::Pending(why)) if why.is_empty() => "pending".to_owned(),
                Some(GangStatus::Pending(why)) => format!("pending: {why}"),
            };
            lines.push(format!("{} reports gang {}: {status}", self.target.name, field("name")));
        }
        let Some(adapter) = self.target.queues.adapter() else { return lines };
        for queue in self.list_objects(QUEUES_PATH).await.unwrap_or_default() {
            let name = queue["metadata"]["name"].as_str().unwrap_or_default();
            let Some(path) = adapter.use_path(name) else { continue };
            let Some(object) = self.get_existing(&path).await else { continue };
            if let Some(used) = adapter.reported_use(&object, QueueResource::Gpu) {
                let used = used.as_str().map_or_else(|| used.to_string(), str::to_owned);
                lines
                    .push(format!("{} reports queue {name}: {used} GPUs in use", self.target.name));
            }
        }
        lines
    }

    /// The object at an API path; `None` if it does not exist or cannot be read.
    async fn get_existing(&self, path: &str) -> Option<Value> {
        self.api.get(path).await.ok()
    }

    async fn list_objects(&self, collection: &str) -> anyhow::Result<Vec<Value>> {
        let mut list = self.api.get(collection).await.map_err(to_anyhow_error)?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
