//! Creates the initial objects of a case, each with the age that the case gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::anyhow;
use jiff::Timestamp;
use schedlab_api::{Value, api_versions, json, pointer::text};
use schedlab_emulator::{
    Emulator,
    store::{DeleteOptions, Key, Op, Resource, Subresource, Write},
};

use super::{
    super::format::{Case, Job, Task, TaskState},
    objects,
};

/// How long stuck pods have been terminating when the case starts.
const STUCK_TERMINATING_SECS: i64 = 600;

/// Creates the initial objects of a case.
#[derive(Clone, Copy)]
pub(super) struct CaseSetup<'a> {
    pub(super) case: &'a Case,
    pub(super) emulator: &'a Emulator,
}

/// One step of the setup, such as creating a queue or deleting a pod.
#[derive(Clone, Copy)]
enum SetupStep<'a> {
    Queue(usize),
    Group(&'a Job),
    Pod(&'a Job, &'a Task),
    Delete(&'a Job, &'a Task),
}

/// The setup steps of a pod, each with its time in seconds before the start.
fn pod_steps<'a>(
    job: &'a Job,
    task: &'a Task,
    secs_before_start: i64,
) -> Vec<(i64, SetupStep<'a>)> {
    let (made, asked) = (SetupStep::Pod(job, task), SetupStep::Delete(job, task));
    match task.state {
        TaskState::StuckInReleasing => vec![
            (secs_before_start + STUCK_TERMINATING_SECS, made),
            (STUCK_TERMINATING_SECS, asked),
        ],
        TaskState::Releasing => vec![(secs_before_start, made), (0, asked)],
        TaskState::Pending
        | TaskState::Gated
        | TaskState::Allocated
        | TaskState::Binding
        | TaskState::Bound
        | TaskState::Running
        | TaskState::Succeeded
        | TaskState::Failed
        | TaskState::Pipelined
        | TaskState::Deleted => vec![(secs_before_start, made)],
    }
}

impl<'a> CaseSetup<'a> {
    pub(super) fn create_object(
        self,
        group: &str,
        plural: &str,
        object: Value,
    ) -> anyhow::Result<Value> {
        let name = object["metadata"]["name"].to_string();
        let made = self.emulator.create(&Resource::new(group, plural), object);
        let made = made.map_err(|error| anyhow!("{plural} {name}: {error}"))?;
        Ok(Value::clone(&made.object))
    }

    pub(super) async fn create_all_objects(self) -> anyhow::Result<()> {
        self.create_ageless_objects()?;
        let mut steps = self.setup_steps();
        steps.sort_by_key(|(before, _)| std::cmp::Reverse(*before));
        let mut left = steps.first().map_or(0, |(before, _)| *before);
        for (before, step) in steps {
            advance_virtual_time(left - before).await;
            left = before;
            self.run_step(step, left)?;
        }
        advance_virtual_time(left).await;
        self.write_claim_statuses()
    }

    /// Creates the objects whose age does not matter to the scheduler.
    fn create_ageless_objects(self) -> anyhow::Result<()> {
        let Case { cluster, jobs, .. } = self.case;
        for node in &cluster.nodes {
            self.create_object("", "nodes", objects::node_object(self.case, node))?;
        }
        for topology in &cluster.topologies {
            self.create_object(
                api_versions::TOPOLOGY_GROUP,
                "topologies",
                objects::topology_object(topology),
            )?;
        }
        let priorities: BTreeSet<i32> = jobs.iter().map(|job| job.priority).collect();
        for value in priorities {
            let class = objects::priority_class_object(value);
            self.create_object("scheduling.k8s.io", "priorityclasses", class)?;
        }
        let dra = cluster.dra.iter();
        let claims = || dra.clone().flat_map(|dra| &dra.resource_claims);
        let slices = || dra.clone().flat_map(|dra| &dra.resource_slices);
        let of_jobs = jobs.iter().map(objects::namespace_of_job);
        let of_claims = claims().map(|claim| claim.namespace.as_str());
        let namespaces: BTreeSet<&str> = of_jobs.chain(of_claims).collect();
        for name in namespaces.into_iter().filter(|name| !["", "default"].contains(name)) {
            let object =
                json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            self.create_object("", "namespaces", object)?;
        }
        let classes = claims().map(|claim| &claim.class);
        let classes: BTreeSet<&String> =
            classes.chain(slices().map(|slice| &slice.class)).collect();
        for class in classes.into_iter().filter(|class| self.case.has_device_class(class)) {
            self.create_object(
                "resource.k8s.io",
                "deviceclasses",
                objects::device_class_object(class),
            )?;
        }
        for slice in slices() {
            self.create_object(
                "resource.k8s.io",
                "resourceslices",
                objects::resource_slice_object(slice),
            )?;
        }
        for claim in claims() {
            self.create_object(
                "resource.k8s.io",
                "resourceclaims",
                objects::resource_claim_object(claim),
            )?;
        }
        self.create_claim_templates()
    }

    /// Creates the claim templates whose claims exist.
    fn create_claim_templates(self) -> anyhow::Result<()> {
        let of_task = |job: &'a Job, task: &'a Task| {
            let templates = task.resource_claim_templates.iter();
            templates.filter_map(move |(template, claim)| {
                Some((
                    (objects::namespace_of_job(job), template),
                    self.case.find_claim(job, claim)?,
                ))
            })
        };
        let tasks = self.case.jobs.iter().flat_map(|job| job.tasks.iter().map(move |it| (job, it)));
        let templates: BTreeMap<_, _> = tasks.flat_map(|(job, task)| of_task(job, task)).collect();
        for ((_, template), claim) in templates {
            let template = objects::claim_template_object(template, claim);
            self.create_object("resource.k8s.io", "resourceclaimtemplates", template)?;
        }
        Ok(())
    }

    /// All setup steps, each with its time in seconds before the start. Queues come first. The pods
    /// of a job are one second apart in the order of their ids, so that they sort by age as in the
    /// case.
    fn setup_steps(self) -> Vec<(i64, SetupStep<'a>)> {
        let jobs = &self.case.jobs;
        let youngest = self.case.queues.iter().map(|queue| queue.created_offset_s).max();
        let oldest =
            jobs.iter().map(|job| job.age_s).max().unwrap_or(0).max(2 * STUCK_TERMINATING_SECS);
        let most = jobs.iter().map(|job| job.tasks.len()).max().unwrap_or(0);
        let most = i64::try_from(most).unwrap_or(0);
        let mut steps = Vec::new();
        for (at, queue) in self.case.queues.iter().enumerate() {
            let before = oldest + youngest.unwrap_or(0) - queue.created_offset_s + 1;
            steps.push((before, SetupStep::Queue(at)));
        }
        for job in jobs {
            steps.push((job.age_s, SetupStep::Group(job)));
            let mut tasks: Vec<&Task> = job.tasks.iter().collect();
            tasks.sort_by_key(|task| &task.id);
            let made = tasks.into_iter().zip(0..);
            steps.extend(made.flat_map(|(task, at)| pod_steps(job, task, most - at)));
        }
        steps
    }

    /// Runs one setup step. `secs_left` is the time until the case starts.
    fn run_step(self, step: SetupStep<'a>, secs_left: i64) -> anyhow::Result<()> {
        match step {
            SetupStep::Queue(at) => {
                let queue = objects::queue_object(&self.case.queues[at]);
                self.create_object(api_versions::SCHEDULING_GROUP, "queues", queue).map(drop)
            }
            SetupStep::Group(job) => {
                let now = self.emulator.clock().now().as_second();
                let moment = |ago: i64| {
                    let moment = Timestamp::from_second(now + secs_left - ago).unwrap_or_default();
                    moment.to_string()
                };
                let group = objects::pod_group_object(job, moment);
                self.create_object(api_versions::SCHEDULING_GROUP, "podgroups", group).map(drop)
            }
            SetupStep::Pod(job, task) => {
                let node = task.node.as_deref().filter(|_| objects::has_initial_node(task));
                self.create_object("", "pods", objects::pod_object(job, task, node)).map(drop)
            }
            SetupStep::Delete(job, task) => {
                let (namespace, name) =
                    (objects::namespace_of_job(job), objects::to_object_name(&task.id));
                let key = Key::new(Resource::new("", "pods"), namespace, &name);
                let op = Op::Delete(DeleteOptions::default());
                let gone = self.emulator.store().write(Write::new(key, op, "case"));
                gone.map(drop).map_err(|error| anyhow!("pods {name}: {error}"))
            }
        }
    }

    fn pod_uid(self, namespace: &str, pod: &str) -> Option<String> {
        let key = Key::new(Resource::new("", "pods"), namespace, pod);
        let pod = self.emulator.store().read(|store| store.get(&key)).ok()?;
        text(&pod, "/metadata/uid").map(str::to_owned)
    }

    /// Writes the initial status of the ResourceClaims.
    fn write_claim_statuses(self) -> anyhow::Result<()> {
        let claims = self.case.cluster.dra.iter().flat_map(|dra| &dra.resource_claims);
        for spec in claims {
            let object = objects::resource_claim_object(spec);
            let namespace = text(&object, "/metadata/namespace").unwrap_or_default().to_owned();
            let name = text(&object, "/metadata/name").unwrap_or_default().to_owned();
            let uid = |pod: &str| self.pod_uid(&namespace, pod);
            let Some(status) = objects::initial_claim_status(spec, uid) else { continue };
            let key =
                Key::new(Resource::new("resource.k8s.io", "resourceclaims"), &namespace, &name);
            let now = self.emulator.store().read(|store| store.get(&key));
            let now = now.map_err(|error| anyhow!("resourceclaims {name}: {error}"))?;
            let mut object = Value::clone(&now);
            object["status"] = status;
            let op = Op::Update(Subresource::Status, object);
            let written = self.emulator.store().write(Write::new(key, op, "case"));
            written.map_err(|error| anyhow!("resourceclaims {name}: {error}"))?;
        }
        Ok(())
    }
}

async fn advance_virtual_time(seconds: i64) {
    if let Ok(seconds @ 1..) = u64::try_from(seconds) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}
