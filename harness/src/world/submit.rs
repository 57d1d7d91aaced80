//! What steps write into the cluster: whole or not at all, and remembered by name.

use std::time::Duration;

use anyhow::Context as _;
use schedlab_json::Value;

use super::World;
use crate::api::{Api, Applied, Made};
use crate::objects::Document;
use crate::view::WORKLOAD;

impl World {
    /// Creates objects in their order. When one is refused, those made before it go again.
    pub(crate) async fn submit(&mut self, mut documents: Vec<Document>) -> anyhow::Result<()> {
        self.rest = None;
        for document in &mut documents {
            self.pace.object(&mut document.object);
        }
        self.enlist(&mut documents);
        let _held = self.hold_scheduler();
        let mut made: Vec<Value> = Vec::new();
        for document in &documents {
            self.open_entrance(&document.object).await?;
            match self.api.create(&document.object).await {
                Ok(Made::New) => made.push(document.object.clone()),
                Ok(Made::Known) => {}
                Err(error) => {
                    self.withdraw(&made).await?;
                    return Err(self.told(document, error).await);
                }
            }
        }
        self.retell_queues(documents.iter().map(|document| &document.object)).await?;
        self.until_up(&documents).await?;
        self.remember(documents);
        Ok(())
    }

    /// Applies a manifest: what is there already is changed. When one of its objects is refused,
    /// everything is as it was before.
    pub(crate) async fn apply(&mut self, mut documents: Vec<Document>) -> anyhow::Result<()> {
        self.rest = None;
        for document in &mut documents {
            self.pace.object(&mut document.object);
            self.target.claim_pods(&mut document.object);
        }
        self.enlist(&mut documents);
        let _held = self.hold_scheduler();
        let mut done: Vec<(Value, Applied)> = Vec::new();
        for document in &documents {
            self.open_entrance(&document.object).await?;
            match self.api.apply(&document.object).await {
                Ok(applied) => done.push((document.object.clone(), applied)),
                Err(error) => {
                    self.undo(done).await?;
                    return Err(self.told(document, error).await);
                }
            }
        }
        self.retell_queues(documents.iter().map(|document| &document.object)).await?;
        self.until_up(&documents).await?;
        self.remember(documents);
        Ok(())
    }

    /// Writes the status of objects that are there.
    pub(crate) async fn write_status(&mut self, documents: &[Document]) -> anyhow::Result<()> {
        self.rest = None;
        for document in documents {
            if let Err(error) = self.api.write_status(&document.object).await {
                return Err(self.told(document, error).await);
            }
        }
        Ok(())
    }

    async fn undo(&mut self, done: Vec<(Value, Applied)>) -> anyhow::Result<()> {
        for (object, applied) in done.into_iter().rev() {
            match applied {
                Applied::Created => {
                    self.withdraw(&[object]).await?;
                }
                Applied::Changed(before) => self.api.restore(*before).await?,
            }
        }
        Ok(())
    }

    /// Has work arrive by itself: what `make` gives for 0, 1, 2 …, one each time.
    pub(crate) fn stream(
        &mut self,
        name: &str,
        every: Duration,
        make: impl Fn(usize) -> Vec<Value> + Send + 'static,
    ) -> anyhow::Result<()> {
        let arrives = self.streams.contains_key(name);
        anyhow::ensure!(
            !arrives,
            "found {name:?} again, allowed is a name under which no work arrived yet"
        );
        let (every, pace) = (self.pace.of(every), self.pace);
        let (queues, scheduler) = (self.target.queues, self.scheduler_name());
        let make = move |number| {
            let mut objects = make(number);
            for object in &mut objects {
                pace.object(object);
            }
            queues.enlist(&mut objects, &scheduler);
            let entrances: Vec<Value> =
                objects.iter().filter_map(|object| queues.entrance(object)).collect();
            (entrances, objects)
        };
        let task = tokio::spawn(arrivals(self.api.clone(), every, make));
        self.streams.insert(name.to_owned(), Some(task));
        Ok(())
    }

    /// Work that is to arrive does, or was told not to any more.
    pub(super) async fn streams_flow(&mut self) -> anyhow::Result<()> {
        for (name, stream) in &mut self.streams {
            if let Some(task) = stream.take_if(|task| task.is_finished())
                && let Ok(why) = task.await
            {
                return Err(why.context(format!("no more work arrives as {name:?}")));
            }
        }
        Ok(())
    }

    /// Ends the arrival of work.
    pub(crate) fn end_stream(&mut self, name: &str) -> anyhow::Result<()> {
        let stream = self.streams.get_mut(name).and_then(Option::take);
        stream.with_context(|| format!("no work arrives as {name:?}"))?.abort();
        Ok(())
    }

    fn remember(&mut self, documents: Vec<Document>) {
        for Document { object, .. } in documents {
            let label = object["metadata"]["labels"][WORKLOAD].as_str();
            let name = label.or_else(|| object["metadata"]["name"].as_str()).unwrap_or_default();
            let known = self.submitted.entry(name.to_owned()).or_default();
            if !known.contains(&object) {
                known.push(object);
            }
        }
    }

    /// Creates again what was submitted as a workload and is gone; what leaves is waited for.
    pub(crate) async fn resubmit(&mut self, (kind, name): (&str, &str)) -> anyhow::Result<()> {
        self.rest = None;
        let objects = self.submitted((kind, name))?;
        self.until_gone(&objects).await?;
        let mut there = Vec::new();
        // Rows that call for a class by value share it; it stays when those who had it go.
        for object in objects.iter().filter(|object| object["kind"] != "PriorityClass") {
            let path = self.api.path(object).await?;
            match self.api.get(&path).await {
                Ok(_) => there.push(crate::api::title(object)),
                Err(error) if crate::api::is_not_found(&error) => {}
                Err(error) => return Err(crate::api::refusal(error)),
            }
        }
        anyhow::ensure!(
            there.is_empty(),
            "found {} there and not leaving, allowed is what is gone or was deleted",
            there.join(", ")
        );
        for object in objects {
            self.api.ensure(&object).await?;
        }
        Ok(())
    }

    /// The objects that were submitted as a workload of this kind (`workload`, `gang`, `pod`: of
    /// any) and name.
    pub(crate) fn submitted(&self, (kind, name): (&str, &str)) -> anyhow::Result<Vec<Value>> {
        let is_meant = |object: &&Value| {
            let found = object["kind"].as_str().unwrap_or_default();
            match kind {
                "workload" | "gang" | "pod" => is_work(object),
                _ => found.eq_ignore_ascii_case(kind),
            }
        };
        let objects = self.submitted.get(name).into_iter().flatten();
        let meant: Vec<Value> = objects.filter(is_meant).cloned().collect();
        anyhow::ensure!(
            !meant.is_empty(),
            "nothing was submitted as {kind} {name:?}; submitted were: {}",
            self.names_submitted().join(", ")
        );
        Ok(meant)
    }

    /// Everything that was submitted.
    pub(crate) fn all_submitted(&self) -> impl Iterator<Item = &Value> {
        self.submitted.values().flatten()
    }

    /// Names of the work that was submitted or arrives by itself.
    pub(crate) fn names_submitted(&self) -> Vec<String> {
        let work = self.submitted.iter().filter(|(_, objects)| objects.iter().any(is_work));
        work.map(|(name, _)| name).chain(self.streams.keys()).cloned().collect()
    }

    /// Kinds of the objects that were submitted under a name.
    pub(crate) fn kinds_submitted(&self, name: &str) -> Vec<String> {
        let objects = self.submitted.get(name).into_iter().flatten();
        let work = objects.filter(|object| is_work(object));
        let mut kinds: Vec<String> =
            work.filter_map(|object| object["kind"].as_str()).map(str::to_owned).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Deletes objects that were submitted, the last first; those that are gone stay so. Answers how
    /// many were there.
    pub(crate) async fn withdraw(&mut self, objects: &[Value]) -> anyhow::Result<usize> {
        self.rest = None;
        let mut there = 0;
        for object in objects.iter().rev() {
            let path = self.api.path(object).await?;
            self.note_deleted(&path);
            match self.api.delete(&path).await {
                Ok(_) => there += 1,
                Err(error) if crate::api::is_not_found(&error) => {}
                Err(error) => return Err(crate::api::refusal(error)),
            }
        }
        self.retell_queues(objects).await?;
        Ok(there)
    }

    /// Changes one object by JSON merge. A step that changes nothing is a slip of the pen.
    pub(crate) async fn change(&mut self, at: &str, patch: &Value) -> anyhow::Result<()> {
        let changed = self.patch(at, patch).await?;
        anyhow::ensure!(changed, "{at}: found all of this so already, allowed is a change");
        Ok(())
    }

    /// Patches one object by JSON merge. Answers whether that changed something.
    pub(crate) async fn patch(&mut self, at: &str, patch: &Value) -> anyhow::Result<bool> {
        self.rest = None;
        let mut patch = patch.clone();
        self.pace.object(&mut patch);
        let before = self.api.get(at).await.ok();
        let patched = self.api.merge(at, &patch).await;
        let patched = patched.map_err(crate::api::refusal).with_context(|| at.to_owned())?;
        self.retell_queues([&patched]).await?;
        let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
        Ok(before.is_none_or(|before| version(&before) != version(&patched)))
    }

    /// Deletes one object.
    pub(crate) async fn delete(&mut self, path: &str) -> anyhow::Result<()> {
        self.rest = None;
        self.note_deleted(path);
        let deleted = self.api.delete(path).await;
        deleted.map_err(crate::api::refusal).with_context(|| path.to_owned())?;
        self.retell_queues_without(path).await
    }
}

/// Neither a queue nor a node of the name that a workload may bear, too.
fn is_work(object: &Value) -> bool {
    object["kind"] != "Queue" && object["kind"] != "Node"
}

/// Until something is refused.
async fn arrivals(
    mut api: Api,
    every: Duration,
    make: impl Fn(usize) -> (Vec<Value>, Vec<Value>),
) -> anyhow::Error {
    for number in 0.. {
        tokio::time::sleep(every).await;
        let (entrances, objects) = make(number);
        for entrance in entrances {
            if let Err(why) = api.ensure(&entrance).await {
                return why;
            }
        }
        for object in objects {
            if let Err(why) = api.create(&object).await {
                return why;
            }
        }
    }
    anyhow::anyhow!("more arrived than can be counted")
}
