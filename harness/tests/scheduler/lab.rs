//! A cluster with the scheduler at work in it, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures::future::OptionFuture;
use http::{Method, Request};

use jiff::Timestamp;
use schedlab_emulator::{
    Emulator, Fleet, Options,
    clock::Clock,
    store::{DeleteOptions, Key, Op, Resource, Write},
};
use schedlab_json::{Value, json};
use schedlab_scheduler::{
    Component, Config, IdlePolicy, Progress, RunUntil, crds, explain::OutputFormat,
};
use tokio::{sync::watch, task::JoinHandle};
use tower::{ServiceExt as _, service_fn};

pub(crate) struct Lab {
    pub(crate) emulator: Emulator,
    pub(crate) config: Config,
    scheduler: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Lab {
    /// Runs a story on a runtime of its own, whose time is virtual.
    pub(crate) fn tell<T>(story: impl AsyncFnOnce(Self) -> T) -> T {
        Self::tell_with(&[], story)
    }

    /// Runs it where features of Kubernetes are on that 1.35 has off.
    pub(crate) fn tell_with<T>(features: &[&'static str], story: impl AsyncFnOnce(Self) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let options = Options::with_clock(Clock::starting_at(epoch));
            let emulator = Emulator::start(Options { features: features.to_vec(), ..options });
            let lab = Self { emulator, config: Config::kai(), scheduler: None };
            for definition in crds::all() {
                lab.create("apiextensions.k8s.io", "customresourcedefinitions", &definition);
            }
            for class in crds::priority_classes() {
                lab.create("scheduling.k8s.io", "priorityclasses", &class);
            }
            story(lab).await
        })
    }

    /// Answers the uid.
    pub(crate) fn create(&self, group: &str, plural: &str, object: &Value) -> String {
        let made = self.emulator.create(&Resource::new(group, plural), object.clone()).unwrap();
        made.object["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Defines a kind of somebody else's, of whose fields nothing is known.
    pub(crate) fn define(&self, (group, version, plural, kind): (&str, &str, &str, &str)) {
        let schema = json!({ "openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        } });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{group}"),
                "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" },
            },
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind },
                "versions": [{ "name": version, "served": true, "storage": true, "schema": schema }],
            },
        });
        self.create("apiextensions.k8s.io", "customresourcedefinitions", &definition);
    }

    /// Creates the objects of a YAML text; their namespace is `default`.
    pub(crate) fn apply(&self, yaml: &str) {
        for document in yaml.split("---\n") {
            let mut object: Value = serde_yaml::from_str(document).unwrap();
            let (group, plural) = match object["kind"].as_str().unwrap() {
                "Deployment" => ("apps", "deployments"),
                "StatefulSet" => ("apps", "statefulsets"),
                "JobSet" => ("jobset.x-k8s.io", "jobsets"),
                "ClusterTrainingRuntime" => ("trainer.kubeflow.org", "clustertrainingruntimes"),
                "TrainJob" => ("trainer.kubeflow.org", "trainjobs"),
                "PyTorchJob" => ("kubeflow.org", "pytorchjobs"),
                "Node" => ("", "nodes"),
                "StorageClass" => ("storage.k8s.io", "storageclasses"),
                "PersistentVolume" => ("", "persistentvolumes"),
                "PersistentVolumeClaim" => ("", "persistentvolumeclaims"),
                "ConfigMap" => ("", "configmaps"),
                "ResourceClaim" => ("resource.k8s.io", "resourceclaims"),
                "Pod" => ("", "pods"),
                "BindRequest" => ("scheduling.run.ai", "bindrequests"),
                "PodGroup" => ("scheduling.run.ai", "podgroups"),
                "Queue" => ("scheduling.run.ai", "queues"),
                other => panic!("{other} is not known here"),
            };
            let cluster =
                ["clustertrainingruntimes", "nodes", "persistentvolumes", "storageclasses"];
            if !cluster.contains(&plural) {
                object["metadata"]["namespace"] = json!("default");
            }
            self.create(group, plural, &object);
        }
    }

    /// Every change so far, byte for byte.
    pub(crate) fn history(&self) -> String {
        let log = self.emulator.log_since(1).unwrap();
        let lines: Vec<_> =
            log.iter().map(|entry| format!("{:?} {}", entry.kind, *entry.object)).collect();
        lines.join("\n")
    }

    /// The scheduler to come runs no cycle while nothing changes.
    pub(crate) fn sleep_until_events(&mut self) {
        self.config.idle_policy = IdlePolicy::UntilEvent;
    }

    pub(crate) fn delete(&self, plural: &str, group: &str, name: &str) {
        self.delete_in("", plural, group, name);
    }

    pub(crate) fn delete_in(&self, namespace: &str, plural: &str, group: &str, name: &str) {
        let key = Key::new(Resource::new(group, plural), namespace, name);
        self.emulator
            .store()
            .write(Write::new(key, Op::Delete(DeleteOptions::default()), "kubectl"))
            .unwrap();
    }

    /// Patches an object, as `kubectl patch --type=merge` does.
    pub(crate) async fn patch(&self, path: &str, change: &Value) {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(change.to_string().into_bytes()).unwrap();
        self.emulator.client().request::<Value>(request).await.unwrap();
    }

    /// What the command line says of a workload in namespace `default`, without random endings.
    pub(crate) async fn explain(&self, name: &str) -> String {
        self.explain_as(name, OutputFormat::Text).await
    }

    /// The same in some form.
    pub(crate) async fn explain_as(&self, name: &str, form: OutputFormat) -> String {
        let clock = self.emulator.clock().clone();
        let (client, now) = (self.emulator.client(), Arc::new(move || clock.now()));
        let config = self.config.clone();
        let told =
            schedlab_scheduler::explain::workload(client, config, now, "default", name, form).await;
        let told = told.unwrap_or_else(|error| format!("{error:#}\n"));
        match form {
            OutputFormat::Text => without_endings(&told),
            OutputFormat::Json => told,
        }
    }

    /// What the command line says of a queue.
    pub(crate) async fn explain_queue(&self, name: &str) -> String {
        self.explain_queue_as(name, OutputFormat::Text).await
    }

    /// The same in some form.
    pub(crate) async fn explain_queue_as(&self, name: &str, form: OutputFormat) -> String {
        let clock = self.emulator.clock().clone();
        let (client, now) = (self.emulator.client(), Arc::new(move || clock.now()));
        let told =
            schedlab_scheduler::explain::queue(client, self.config.clone(), now, name, form).await;
        let told = told.unwrap_or_else(|error| format!("{error:#}\n"));
        match form {
            OutputFormat::Text => without_endings(&told),
            OutputFormat::Json => told,
        }
    }

    /// The scheduler to come has that many writes under way at once.
    pub(crate) fn write_at_once(&mut self, writes: usize) {
        self.config.writes_at_once = writes;
    }

    /// The scheduler to come only does these parts of its work.
    pub(crate) fn only(&mut self, components: &[Component]) {
        self.config.run_only(components.iter().copied().collect());
    }

    /// The scheduler to come runs a single cycle.
    pub(crate) fn end_after_one_cycle(&mut self) {
        self.config.run_until = RunUntil::FirstCycle;
    }

    /// The scheduler ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.scheduler.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// The scheduler to come holds preemption back: at most so many workloads a cycle, and only for
    /// priorities that are higher by so much.
    pub(crate) fn restrain(&mut self, most: usize, difference: i32) {
        self.config.profile.preemptions_max = Some(most);
        self.config.profile.priority_difference_min = difference;
    }

    /// The scheduler to come does what kube-scheduler does.
    pub(crate) fn become_kube(&mut self) {
        self.config = Config::kube();
    }

    pub(crate) fn nodes(&self, count: u32, gpus: u32) {
        let yaml = format!("pools:\n- name: n\n  count: {count}\n  gpus: {gpus}\n");
        self.emulator.add_fleet(&Fleet::parse("fleet", &yaml).unwrap()).unwrap();
    }

    pub(crate) fn queue(&self, name: &str, quota: i64, limit: i64) {
        let all = json!({ "quota": -1, "overQuotaWeight": 1, "limit": -1 });
        let gpu = json!({ "quota": quota, "overQuotaWeight": 1, "limit": limit });
        self.create(
            "scheduling.run.ai",
            "queues",
            &json!({
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": { "name": name },
                "spec": { "resources": { "gpu": gpu, "cpu": all, "memory": all } },
            }),
        );
    }

    pub(crate) fn job(&self, name: &str, queue: &str, (pods, gang): (u32, u32)) {
        let pod = json!({
            "schedulerName": self.config.scheduler_name,
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "train",
                             "resources": { "limits": { "nvidia.com/gpu": 1 } } }],
        });
        self.create(
            "batch",
            "jobs",
            &json!({
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": name, "namespace": "default",
                    "labels": { "kai.scheduler/queue": queue },
                    "annotations": { "kai.scheduler/batch-min-member": gang.to_string() },
                },
                "spec": { "parallelism": pods, "completions": pods,
                          "completionMode": "Indexed", "template": { "spec": pod } },
            }),
        );
    }

    pub(crate) fn start(&mut self) -> watch::Receiver<Progress> {
        self.start_with(self.emulator.client())
    }

    /// Starts a scheduler whose writes after the first `writes` never reach the cluster and are
    /// never answered: it hangs there until it is stopped. Answers how many it tried.
    pub(crate) fn start_doomed(&mut self, writes: u32) -> Arc<AtomicU32> {
        let (client, tried) = self.doomed_client(writes);
        self.start_with(client);
        tried
    }

    /// The client of one that is doomed, and how many writes it tried.
    pub(crate) fn doomed_client(&self, writes: u32) -> (kube::Client, Arc<AtomicU32>) {
        let tried = Arc::new(AtomicU32::new(0));
        let (counter, router) = (Arc::clone(&tried), self.emulator.service());
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let reads = request.method() == Method::GET;
            let hangs = !reads && counter.fetch_add(1, Ordering::Relaxed) >= writes;
            let router = router.clone();
            let lost = hangs.then(std::future::pending::<()>);
            async move {
                OptionFuture::from(lost).await;
                router.oneshot(request).await
            }
        });
        (kube::Client::new(service, "default"), tried)
    }

    /// So many schedulers one after the other, of which each writes so much and then dies with
    /// all that it has under way.
    pub(crate) async fn dies_after_every(&mut self, writes: u32, times: u32) {
        for _ in 0..times {
            let tried = self.start_doomed(writes);
            self.until(|| tried.load(Ordering::Relaxed) > writes).await;
            self.stop().await;
        }
    }

    /// A client whose requests are no more answered once `true` is sent.
    pub(crate) fn client_with_a_plug(&self) -> (kube::Client, watch::Sender<bool>) {
        let (plug, pulled) = watch::channel(false);
        let router = self.emulator.service();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (router, lost) = (router.clone(), pulled.borrow().then(std::future::pending::<()>));
            async move {
                OptionFuture::from(lost).await;
                router.oneshot(request).await
            }
        });
        (kube::Client::new(service, "default"), plug)
    }

    pub(crate) fn start_with(&mut self, client: kube::Client) -> watch::Receiver<Progress> {
        let clock = self.emulator.clock().clone();
        let run =
            schedlab_scheduler::run(client, self.config.clone(), Arc::new(move || clock.now()));
        self.scheduler = Some(tokio::spawn(run));
        self.config.progress.subscribe()
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.abort();
            let _ = scheduler.await;
        }
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets time pass until something is so, but no more than half a minute.
    pub(crate) async fn until(&self, so: impl Fn() -> bool) {
        for _ in 0..600 {
            if so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) fn list(&self, group: &str, plural: &str) -> Vec<Value> {
        let resource = Resource::new(group, plural);
        self.emulator
            .store()
            .read(|store| store.list(&resource, None).map(|object| Value::clone(object)).collect())
    }

    /// Each pod with its phase, its node, and why it waits.
    pub(crate) fn pods(&self) -> String {
        let mut text = String::new();
        for pod in self.list("", "pods") {
            let part = |pointer| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
            let name = without_endings(part("/metadata/name"));
            let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
            let why = conditions.into_iter().flatten().find_map(|condition| {
                let waits = condition["type"] == "PodScheduled" && condition["status"] == "False";
                waits.then(|| condition["message"].as_str()).flatten()
            });
            writeln!(
                text,
                "{name} {} {}{}",
                part("/status/phase"),
                part("/spec/nodeName"),
                why.map(|why| format!(": {}", without_endings(why))).unwrap_or_default()
            )
            .unwrap();
        }
        text
    }

    /// Each event as who, what and the first words, sorted; with uids and random endings left out.
    pub(crate) fn events(&self) -> String {
        let told = |event: &Value| {
            let part = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
            let count = event["count"].as_u64().filter(|count| *count > 1);
            format!(
                "{} {}{} {}\n",
                part("/involvedObject/kind"),
                part("/reason"),
                count.map(|count| format!(" x{count}")).unwrap_or_default(),
                first_sentence(&without_endings(part("/message")))
            )
        };
        let mut events: Vec<String> = self.list("", "events").iter().map(told).collect();
        events.retain(|event| !event.starts_with("Job "));
        events.sort();
        let counted = events.chunk_by(|a, b| a == b).map(|same| match same.len() {
            1 => same[0].clone(),
            several => format!("{several} × {}", same[0]),
        });
        counted.collect()
    }

    /// Each pod group with what it is and why it waits.
    pub(crate) fn pod_groups(&self) -> String {
        let told = |group: &Value| {
            let waits = group.pointer("/status/schedulingConditions/0");
            let waits = waits.map(|is| format!(" {}: {}", is["reason"], is["message"]));
            format!(
                "{} {}{}\n",
                without_endings(group["metadata"]["name"].as_str().unwrap()),
                group["spec"],
                waits.unwrap_or_default()
            )
        };
        self.list("scheduling.run.ai", "podgroups").iter().map(told).collect()
    }

    /// Each queue with its status.
    pub(crate) fn queues(&self) -> String {
        let told = |queue: &Value| {
            format!("{} {}\n", queue["metadata"]["name"].as_str().unwrap(), queue["status"])
        };
        self.list("scheduling.run.ai", "queues").iter().map(told).collect()
    }

    /// Writes that mean something so far.
    pub(crate) fn writes(&self) -> usize {
        let log = self.emulator.log_since(1).unwrap();
        log.iter().filter(|entry| &*entry.key.resource.plural != "leases").count()
    }

    /// Pods by job and phase; how often a pod was bound and asked to leave; `Scheduled` events.
    pub(crate) fn outcome(&self) -> String {
        let mut jobs: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
        for pod in self.list("", "pods") {
            let job = pod["metadata"]["labels"]["job-name"].as_str().unwrap().to_owned();
            let phase = pod["status"]["phase"].as_str().unwrap().to_owned();
            *jobs.entry(job).or_default().entry(phase).or_default() += 1;
        }
        let phases = |phases: &BTreeMap<String, u32>| {
            let counts: Vec<_> =
                phases.iter().map(|(phase, count)| format!("{count} {phase}")).collect();
            counts.join(", ")
        };
        let jobs: Vec<_> =
            jobs.iter().map(|(job, counts)| format!("{job}: {}", phases(counts))).collect();
        let events = self.list("", "events");
        format!(
            "{}; {} bound, {} evicted; {} Scheduled",
            jobs.join("; "),
            self.times_set("/spec/nodeName"),
            self.times_set("/metadata/deletionTimestamp"),
            events.iter().filter(|event| event["reason"] == "Scheduled").count(),
        )
    }

    /// Pod groups on which it is told when they started.
    pub(crate) fn starts(&self) -> usize {
        let groups = self.list("scheduling.run.ai", "podgroups");
        let at = "/metadata/annotations/kai.scheduler~1last-start-timestamp";
        groups.iter().filter(|group| group.pointer(at).is_some()).count()
    }

    /// How often a field of a pod came to be.
    fn times_set(&self, field: &str) -> usize {
        let log = self.emulator.log_since(1).unwrap();
        let pods = log.iter().filter(|entry| &*entry.key.resource.plural == "pods");
        let set = pods.filter(|entry| {
            let was = entry.previous.as_ref().is_some_and(|before| before.pointer(field).is_some());
            entry.object.pointer(field).is_some() && !was
        });
        set.count()
    }
}

/// The core's tables have the rest of the words.
fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split_once(". ").map_or(line, |(first, _)| first);
    line.split_once(" uses <").map_or(line, |(first, _)| first)
}

/// A text without uids and the random endings of pods' names.
pub(crate) fn without_endings(text: &str) -> String {
    let plain = |word: &str| {
        let mut parts: Vec<&str> = word.split('-').collect();
        if parts.len() > 5 {
            parts.truncate(parts.len() - 5);
            // A pod of a Deployment has two random endings of its own.
            if parts.len() == 4 {
                parts.truncate(2);
            }
        } else if parts.len() == 3 && parts[2].trim_end_matches('.').len() == 5 {
            parts.truncate(2);
        }
        parts.join("-")
    };
    text.split(' ').map(plain).collect::<Vec<_>>().join(" ")
}
