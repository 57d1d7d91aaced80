//! Writes of steps: applied completely or not at all, and remembered by workload name.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_api::Value;

use super::World;
use crate::schedulers::{Unsupported, is_kai_queue};
use crate::text::shortened_name_list;
use crate::world::manifests::ManifestDocument;
use crate::world::observed::WORKLOAD_LABEL;
use schedlab_clusters::api::{Api, ApplyOutcome, CreateOutcome};

impl World {
    /// Creates objects in their order. If one is rejected, those that were created before it are
    /// deleted again.
    pub(crate) async fn submit(
        &mut self,
        mut documents: Vec<ManifestDocument>,
    ) -> anyhow::Result<()> {
        self.last_settled = None;
        for document in &mut documents {
            self.time_scale.scale_object(&mut document.object);
        }
        let prerequisites = self.adapt_documents(&mut documents).await?;
        let _held = self.suspend_scheduler();
        let mut made: Vec<Value> = Vec::new();
        for (index, document) in documents.iter().enumerate() {
            self.sync_queues_before(&documents[..index], &document.object).await?;
            self.ensure_prerequisites(&prerequisites, index).await?;
            match self.api.create(&document.object).await {
                Ok(CreateOutcome::Created) => made.push(document.object.clone()),
                Ok(CreateOutcome::AlreadyExists) => {}
                Err(error) => {
                    self.delete_all(&made).await?;
                    return Err(self.locate_error(document, error).await);
                }
            }
        }
        self.sync_queues(documents.iter().map(|document| &document.object)).await?;
        self.wait_until_ready(&documents).await?;
        self.remember_submitted(documents);
        Ok(())
    }

    /// Applies a manifest: creates or updates each object. If one is rejected, all changes are
    /// rolled back.
    pub(crate) async fn apply_documents(
        &mut self,
        mut documents: Vec<ManifestDocument>,
    ) -> anyhow::Result<()> {
        self.last_settled = None;
        for document in &mut documents {
            self.time_scale.scale_object(&mut document.object);
            self.target.set_scheduler_name(&mut document.object);
        }
        let prerequisites = self.adapt_documents(&mut documents).await?;
        let _held = self.suspend_scheduler();
        let mut done: Vec<(Value, ApplyOutcome)> = Vec::new();
        for (index, document) in documents.iter().enumerate() {
            self.sync_queues_before(&documents[..index], &document.object).await?;
            self.ensure_prerequisites(&prerequisites, index).await?;
            match self.api.apply(&document.object).await {
                Ok(applied) => done.push((document.object.clone(), applied)),
                Err(error) => {
                    self.roll_back(done).await?;
                    return Err(self.locate_error(document, error).await);
                }
            }
        }
        self.sync_queues(documents.iter().map(|document| &document.object)).await?;
        self.wait_until_ready(&documents).await?;
        self.remember_submitted(documents);
        Ok(())
    }

    /// Translates queues that were written before the first object that is no queue: a target may
    /// reject a pod whose queue it does not know.
    async fn sync_queues_before(
        &mut self,
        written: &[ManifestDocument],
        next: &Value,
    ) -> anyhow::Result<()> {
        match written.last() {
            Some(last) if is_kai_queue(&last.object) && !is_kai_queue(next) => {
                self.sync_queues([&last.object]).await
            }
            _ => Ok(()),
        }
    }

    /// Writes the status of existing objects.
    pub(crate) async fn write_status(
        &mut self,
        documents: &[ManifestDocument],
    ) -> anyhow::Result<()> {
        self.last_settled = None;
        for document in documents {
            if let Err(error) = self.api.write_status(&document.object).await {
                return Err(self.locate_error(document, error).await);
            }
        }
        Ok(())
    }

    async fn roll_back(&mut self, done: Vec<(Value, ApplyOutcome)>) -> anyhow::Result<()> {
        for (object, applied) in done.into_iter().rev() {
            match applied {
                ApplyOutcome::Created => {
                    self.delete_all(&[object]).await?;
                }
                ApplyOutcome::Changed(before) => self.api.restore(*before).await?,
            }
        }
        Ok(())
    }

    /// Submits the objects of `make(0)`, `make(1)` … one after the other, with a fixed time between
    /// them.
    pub(crate) async fn start_workload_stream(
        &mut self,
        name: &str,
        every: Duration,
        make: impl Fn(usize) -> Vec<Value> + Send + 'static,
    ) -> anyhow::Result<()> {
        let arrives = self.streams.contains_key(name);
        anyhow::ensure!(
            !arrives,
            "periodic submission {name:?} exists already, expected a new name"
        );
        let (every, pace) = (self.time_scale.scaled_duration(every), self.time_scale);
        let translator = self.translator(&[]).await?;
        let make = move |number| {
            let mut objects = make(number);
            for object in &mut objects {
                pace.scale_object(object);
            }
            let Some(translator) = &translator else {
                return Ok((Vec::new(), objects));
            };
            let translation = translator.translate(&mut objects.iter_mut().collect::<Vec<_>>())?;
            for (index, object) in translation.additions.into_iter().rev() {
                objects.insert(index, object);
            }
            let needed = translation.prerequisites.into_iter().map(|(_, needed)| needed);
            Ok((needed.collect(), objects))
        };
        let task = tokio::spawn(submit_periodically(self.api.clone(), every, make));
        self.streams.insert(name.to_owned(), Some(task));
        Ok(())
    }

    /// Fails if a periodic submission of workloads has failed.
    pub(super) async fn check_streams(&mut self) -> anyhow::Result<()> {
        for (name, stream) in &mut self.streams {
            if let Some(task) = stream.take_if(|task| task.is_finished())
                && let Ok(why) = task.await
            {
                let name = name.clone();
                self.record_unsupported_in(&why);
                return Err(why.context(format!("periodic submission {name:?} failed")));
            }
        }
        Ok(())
    }

    /// Ends a periodic submission of workloads.
    pub(crate) fn end_workload_stream(&mut self, name: &str) -> anyhow::Result<()> {
        let stream = self.streams.get_mut(name).and_then(Option::take);
        stream.with_context(|| format!("there is no periodic submission {name:?}"))?.abort();
        Ok(())
    }

    fn remember_submitted(&mut self, documents: Vec<ManifestDocument>) {
        for ManifestDocument { object, .. } in documents {
            let label = object["metadata"]["labels"][WORKLOAD_LABEL].as_str();
            let name = label.or_else(|| object["metadata"]["name"].as_str()).unwrap_or_default();
            let known = self.submitted.entry(name.to_owned()).or_default();
            if !known.contains(&object) {
                known.push(object);
            }
        }
    }

    /// Creates a submitted workload again after it was deleted. Waits for pods of it that are still
    /// terminating.
    pub(crate) async fn resubmit_deleted(&mut self, kind: &str, name: &str) -> anyhow::Result<()> {
        self.last_settled = None;
        let objects = self.submitted_objects(kind, name)?;
        self.wait_until_deleted(&objects).await?;
        let mut there = Vec::new();
        // Rows with the same numeric priority share a class, which stays when a workload is
        // deleted.
        for object in objects.iter().filter(|object| object["kind"] != "PriorityClass") {
            let path = self.api.object_path(object).await?;
            match self.api.get(&path).await {
                Ok(_) => there.push(schedlab_clusters::api::object_title(object)),
                Err(error) if schedlab_clusters::api::is_not_found(&error) => {}
                Err(error) => return Err(schedlab_clusters::api::to_anyhow_error(error)),
            }
        }
        anyhow::ensure!(
            there.is_empty(),
            "cannot submit again what still exists: {}",
            there.join(", ")
        );
        for object in objects {
            self.api.create_if_absent(&object).await?;
        }
        Ok(())
    }

    /// The objects that were submitted as a workload of this kind and name. The kinds `workload`,
    /// `gang` and `pod` match any kind.
    pub(crate) fn submitted_objects(&self, kind: &str, name: &str) -> anyhow::Result<Vec<Value>> {
        let is_meant = |object: &&Value| {
            let found = object["kind"].as_str().unwrap_or_default();
            match kind {
                "workload" | "gang" | "pod" => is_workload(object),
                _ => found.eq_ignore_ascii_case(kind),
            }
        };
        let objects = self.submitted.get(name).into_iter().flatten();
        let meant: Vec<Value> = objects.filter(is_meant).cloned().collect();
        anyhow::ensure!(
            !meant.is_empty(),
            "no {kind} {name:?} was submitted; submitted: {}",
            shortened_name_list(self.submitted_names().iter().map(String::as_str))
        );
        Ok(meant)
    }

    /// The objects of all submitted workloads.
    pub(crate) fn all_submitted_objects(&self) -> impl Iterator<Item = &Value> {
        self.submitted.values().flatten()
    }

    /// Names of the submitted workloads and of the periodic submissions.
    pub(crate) fn submitted_names(&self) -> Vec<String> {
        let work = self.submitted.iter().filter(|(_, objects)| objects.iter().any(is_workload));
        work.map(|(name, _)| name).chain(self.streams.keys()).cloned().collect()
    }

    /// Kinds of the objects that were submitted under a workload's name.
    pub(crate) fn submitted_kinds(&self, name: &str) -> Vec<String> {
        let objects = self.submitted.get(name).into_iter().flatten();
        let work = objects.filter(|object| is_workload(object));
        let mut kinds: Vec<String> =
            work.filter_map(|object| object["kind"].as_str()).map(str::to_owned).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Deletes submitted objects, the last one first. Missing objects are skipped. Returns how many
    /// existed.
    pub(crate) async fn delete_all(&mut self, objects: &[Value]) -> anyhow::Result<usize> {
        self.last_settled = None;
        let mut there = 0;
        for object in objects.iter().rev() {
            let path = self.api.object_path(object).await?;
            self.record_deletion_by_step(&path);
            match self.api.delete(&path).await {
                Ok(_) => there += 1,
                Err(error) if schedlab_clusters::api::is_not_found(&error) => {}
                Err(error) => return Err(schedlab_clusters::api::to_anyhow_error(error)),
            }
        }
        self.delete_generated_objects(objects).await?;
        self.sync_queues(objects).await?;
        Ok(there)
    }

    /// Patches one object with a JSON merge patch. Fails if that changes nothing, because the step
    /// is then wrong.
    pub(crate) async fn patch_requiring_change(
        &mut self,
        at: &str,
        patch: &Value,
    ) -> anyhow::Result<()> {
        let changed = self.patch_object(at, patch).await?;
        anyhow::ensure!(changed, "{at}: the patch changes nothing");
        Ok(())
    }

    /// Patches one object with a JSON merge patch. Returns whether that changed the object.
    pub(crate) async fn patch_object(&mut self, path: &str, patch: &Value) -> anyhow::Result<bool> {
        self.last_settled = None;
        let mut patch = patch.clone();
        self.time_scale.scale_object(&mut patch);
        let before = self.api.get(path).await.ok();
        let patched = self.api.merge_patch(path, &patch).await;
        let patched = patched
            .map_err(schedlab_clusters::api::to_anyhow_error)
            .with_context(|| path.to_owned())?;
        self.sync_queues([&patched]).await?;
        self.sync_gang(&patched).await?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        Ok(before.is_none_or(|before| version(&before) != version(&patched)))
    }

    /// Deletes the object at an API path.
    pub(crate) async fn delete_object(&mut self, path: &str) -> anyhow::Result<()> {
        self.last_settled = None;
        self.record_deletion_by_step(path);
        let deleted = self.api.delete(path).await;
        deleted
            .map_err(schedlab_clusters::api::to_anyhow_error)
            .with_context(|| path.to_owned())?;
        self.sync_queues_after_deletion(path).await
    }
}

/// Whether an object is part of a workload; a queue or node of the same name is not.
fn is_workload(object: &Value) -> bool {
    object["kind"] != "Queue" && object["kind"] != "Node"
}

/// Submits objects periodically until a request fails. Returns the error of that request.
async fn submit_periodically(
    mut api: Api,
    every: Duration,
    make: impl Fn(usize) -> Result<(Vec<Value>, Vec<Value>), Unsupported>,
) -> anyhow::Error {
    for number in 0.. {
        tokio::time::sleep(every).await;
        let (prerequisites, objects) = match make(number) {
            Ok(made) => made,
            Err(unsupported) => return anyhow::Error::new(unsupported),
        };
        for needed in prerequisites {
            if let Err(why) = api.create_if_absent(&needed).await {
                return why;
            }
        }
        for object in objects {
            if let Err(why) = api.create(&object).await {
                return why;
            }
        }
    }
    anyhow::anyhow!("too many submissions to count")
}
