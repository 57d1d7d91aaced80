//! An emulated cluster with the scheduler, in virtual time.
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
use schedlab_api::{Value, crds, json};
use schedlab_emulator::{
    Emulator, Fleet, KubernetesVersion, Options,
    clock::Clock,
    feature_gates::FeatureGates,
    store::{DeleteOptions, Key, Op, Resource, Write},
};
use schedlab_scheduler::{
    Component, Config, IdlePolicy, Progress, RunUntil, explain::OutputFormat,
};
use tokio::{sync::watch, task::JoinHandle};
use tower::{ServiceExt as _, service_fn};

pub(crate) struct Lab {
    pub(crate) emulator: Emulator,
    pub(crate) config: Config,
    scheduler: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Lab {
    /// Runs a test on a runtime of its own with virtual time.
    pub(crate) fn run<T>(test: impl AsyncFnOnce(Self) -> T) -> T {
        Self::run_with_features(&[], test)
    }

    /// Like [`Self::run`], with feature gates that are off by default.
    pub(crate) fn run_with_features<T>(
        features: &[&'static str],
        test: impl AsyncFnOnce(Self) -> T,
    ) -> T {
        let changes: Vec<String> = features.iter().map(|gate| format!("{gate}=true")).collect();
        let version = KubernetesVersion::default();
        Self::run_with_gates(FeatureGates::parse(version, &changes.join(",")).unwrap(), test)
    }

    /// Like [`Self::run`], with this version of Kubernetes and these feature gates.
    pub(crate) fn run_with_gates<T>(
        feature_gates: FeatureGates,
        test: impl AsyncFnOnce(Self) -> T,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let options = Options::with_clock(Clock::starting_at(epoch));
            let emulator = Emulator::start(Options { feature_gates, ..options });
            let lab = Self { emulator, config: Config::kai(), scheduler: None };
            for definition in crds::all_crds() {
                lab.create("apiextensions.k8s.io", "customresourcedefinitions", &definition);
            }
            for class in crds::priority_classes() {
                lab.create("scheduling.k8s.io", "priorityclasses", &class);
            }
            test(lab).await
        })
    }

    /// Creates an object and returns its uid.
    pub(crate) fn create(&self, group: &str, plural: &str, object: &Value) -> String {
        let made = self.emulator.create(&Resource::new(group, plural), object.clone()).unwrap();
        made.object["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Creates a CustomResourceDefinition of a namespaced kind that preserves unknown fields. It
    /// replaces the emulator's own.
    pub(crate) fn define_kind(&self, group: &str, version: &str, plural: &str, kind: &str) {
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
        let (api, definitions) = ("apiextensions.k8s.io", "customresourcedefinitions");
        let own = Key::new(Resource::new(api, definitions), "", &format!("{plural}.{group}"));
        let delete = Write::new(own, Op::Delete(DeleteOptions::default()), "kubectl");
        // The emulator defines only some of the kinds.
        let _ = self.emulator.store().write(delete);
        self.create(api, definitions, &definition);
    }

    /// Creates the objects of a YAML text, namespaced ones in namespace `default`.
    pub(crate) fn apply(&self, yaml: &str) {
        for document in yaml.split("---\n") {
            let mut object: Value = serde_yaml::from_str(document).unwrap();
            let is_of_kubernetes = object["apiVersion"] == "scheduling.k8s.io/v1beta1";
            let (group, plural) = match object["kind"].as_str().unwrap() {
                "PodGroup" if is_of_kubernetes => ("scheduling.k8s.io", "podgroups"),
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
                other => panic!("add kind {other} to Lab::apply"),
            };
            let cluster =
                ["clustertrainingruntimes", "nodes", "persistentvolumes", "storageclasses"];
            if !cluster.contains(&plural) {
                object["metadata"]["namespace"] = json!("default");
            }
            self.create(group, plural, &object);
        }
    }

    /// The log of the store: one line a write, with the whole object.
    pub(crate) fn history(&self) -> String {
        let log = self.emulator.log_since(1).unwrap();
        let lines: Vec<_> =
            log.iter().map(|entry| format!("{:?} {}", entry.kind, *entry.object)).collect();
        lines.join("\n")
    }

    /// Configures the next scheduler to run no cycles while nothing changes.
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

    /// Patches an object like `kubectl patch --type=merge`.
    pub(crate) async fn patch(&self, path: &str, change: &Value) {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(change.to_string().into_bytes()).unwrap();
        self.emulator.client().request::<Value>(request).await.unwrap();
    }

    /// The output of `schedlab-scheduler explain` for a workload in namespace `default`, without
    /// random suffixes of names.
    pub(crate) async fn explain(&self, name: &str) -> String {
        self.explain_as(name, OutputFormat::Text).await
    }

    /// Like [`Self::explain`], in a given format; JSON keeps the suffixes.
    pub(crate) async fn explain_as(&self, name: &str, form: OutputFormat) -> String {
        let clock = self.emulator.clock().clone();
        let (client, now) = (self.emulator.client(), Arc::new(move || clock.now()));
        let config = self.config.clone();
        let output = schedlab_scheduler::explain::explain_workload(
            client, config, now, "default", name, form,
        )
        .await;
        let output = output.unwrap_or_else(|error| format!("{error:#}\n"));
        match form {
            OutputFormat::Text => without_random_suffixes(&output),
            OutputFormat::Json => output,
        }
    }

    /// The output of `schedlab-scheduler explain` for a queue, without random suffixes of names.
    pub(crate) async fn explain_queue(&self, name: &str) -> String {
        self.explain_queue_as(name, OutputFormat::Text).await
    }

    /// Like [`Self::explain_queue`], in a given format; JSON keeps the suffixes.
    pub(crate) async fn explain_queue_as(&self, name: &str, form: OutputFormat) -> String {
        let clock = self.emulator.clock().clone();
        let (client, now) = (self.emulator.client(), Arc::new(move || clock.now()));
        let output = schedlab_scheduler::explain::explain_queue_state(
            client,
            self.config.clone(),
            now,
            name,
            form,
        )
        .await;
        let output = output.unwrap_or_else(|error| format!("{error:#}\n"));
        match form {
            OutputFormat::Text => without_random_suffixes(&output),
            OutputFormat::Json => output,
        }
    }

    /// Configures how many concurrent writes the next scheduler has.
    pub(crate) fn set_writes_at_once(&mut self, writes: usize) {
        self.config.writes_at_once = writes;
    }

    /// Configures the components that the next scheduler runs.
    pub(crate) fn run_only(&mut self, components: &[Component]) {
        self.config.run_only(components.iter().copied().collect());
    }

    /// Configures the next scheduler to end after one cycle.
    pub(crate) fn stop_after_one_cycle(&mut self) {
        self.config.run_until = RunUntil::FirstCycle;
    }

    /// Whether the scheduler has ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.scheduler.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Configures the next scheduler to preempt for at most `max` workloads a cycle, and only for
    /// workloads whose priority is higher than the victim's by at least `min_difference`.
    pub(crate) fn limit_preemption(&mut self, max: usize, min_difference: i32) {
        self.config.profile.preemptions_max = Some(max);
        self.config.profile.priority_difference_min = min_difference;
    }

    /// Configures the next scheduler with profile `kube`.
    pub(crate) fn use_kube_profile(&mut self) {
        self.config = Config::kube();
    }

    /// Adds nodes `n-0`, `n-1`, ... with this many GPUs each.
    pub(crate) fn nodes(&self, count: u32, gpus: u32) {
        let yaml = format!("pools:\n- name: n\n  count: {count}\n  gpus: {gpus}\n");
        self.emulator.add_fleet(&Fleet::parse("fleet", &yaml).unwrap()).unwrap();
    }

    /// Creates a queue with a GPU quota and limit; -1 is unlimited.
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

    /// Creates a Job whose pods request one GPU each and of which at least `min_member` run
    /// together.
    pub(crate) fn job(&self, name: &str, queue: &str, pods: u32, min_member: u32) {
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
                    "annotations": { "kai.scheduler/batch-min-member": min_member.to_string() },
                },
                "spec": { "parallelism": pods, "completions": pods,
                          "completionMode": "Indexed", "template": { "spec": pod } },
            }),
        );
    }

    pub(crate) fn start(&mut self) -> watch::Receiver<Progress> {
        self.start_with(self.emulator.client())
    }

    /// Starts a scheduler whose writes after the first `writes` are dropped and get no response, so
    /// that it hangs until it is stopped. Returns the counter of attempted writes.
    pub(crate) fn start_hanging_after(&mut self, writes: u32) -> Arc<AtomicU32> {
        let (client, attempted) = self.client_hanging_after(writes);
        self.start_with(client);
        attempted
    }

    /// The client of [`Self::start_hanging_after`], and the counter of attempted writes.
    pub(crate) fn client_hanging_after(&self, writes: u32) -> (kube::Client, Arc<AtomicU32>) {
        let attempted = Arc::new(AtomicU32::new(0));
        let (counter, router) = (Arc::clone(&attempted), self.emulator.service());
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
        (kube::Client::new(service, "default"), attempted)
    }

    /// Runs schedulers one after the other; each crashes after this many writes, with all that are
    /// in flight.
    pub(crate) async fn crash_repeatedly(&mut self, writes: u32, times: u32) {
        for _ in 0..times {
            let attempted = self.start_hanging_after(writes);
            self.wait_until(|| attempted.load(Ordering::Relaxed) > writes).await;
            self.stop().await;
        }
    }

    /// A client whose requests get no response once `true` is sent.
    pub(crate) fn disconnectable_client(&self) -> (kube::Client, watch::Sender<bool>) {
        let (disconnect, disconnected) = watch::channel(false);
        let router = self.emulator.service();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (router, lost) =
                (router.clone(), disconnected.borrow().then(std::future::pending::<()>));
            async move {
                OptionFuture::from(lost).await;
                router.oneshot(request).await
            }
        });
        (kube::Client::new(service, "default"), disconnect)
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

    /// Lets virtual time pass.
    pub(crate) async fn advance(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets virtual time pass until a condition holds, for at most 30 seconds.
    pub(crate) async fn wait_until(&self, condition: impl Fn() -> bool) {
        for _ in 0..600 {
            if condition() {
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

    /// Each pod with its phase, its node, and the message of a false `PodScheduled` condition.
    pub(crate) fn pods(&self) -> String {
        let mut text = String::new();
        for pod in self.list("", "pods") {
            let part = |pointer| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
            let name = without_random_suffixes(part("/metadata/name"));
            let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
            let message = conditions.into_iter().flatten().find_map(|condition| {
                let is_pending =
                    condition["type"] == "PodScheduled" && condition["status"] == "False";
                is_pending.then(|| condition["message"].as_str()).flatten()
            });
            writeln!(
                text,
                "{name} {} {}{}",
                part("/status/phase"),
                part("/spec/nodeName"),
                message
                    .map(|text| format!(": {}", without_random_suffixes(text)))
                    .unwrap_or_default()
            )
            .unwrap();
        }
        text
    }

    /// Each event as kind, reason and first sentence, sorted, without uids and random suffixes of
    /// names. Events of Jobs are left out.
    pub(crate) fn events(&self) -> String {
        let describe = |event: &Value| {
            let part = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or("-");
            let count = event["count"].as_u64().filter(|count| *count > 1);
            format!(
                "{} {}{} {}\n",
                part("/involvedObject/kind"),
                part("/reason"),
                count.map(|count| format!(" x{count}")).unwrap_or_default(),
                first_sentence(&without_random_suffixes(part("/message")))
            )
        };
        let mut events: Vec<String> = self.list("", "events").iter().map(describe).collect();
        events.retain(|event| !event.starts_with("Job "));
        events.sort();
        let counted = events.chunk_by(|a, b| a == b).map(|same| match same.len() {
            1 => same[0].clone(),
            several => format!("{several} × {}", same[0]),
        });
        counted.collect()
    }

    /// Each pod group with its spec and its first scheduling condition.
    pub(crate) fn pod_groups(&self) -> String {
        let describe = |group: &Value| {
            let condition = group.pointer("/status/schedulingConditions/0");
            let condition = condition.map(|it| format!(" {}: {}", it["reason"], it["message"]));
            format!(
                "{} {}{}\n",
                without_random_suffixes(group["metadata"]["name"].as_str().unwrap()),
                group["spec"],
                condition.unwrap_or_default()
            )
        };
        self.list("scheduling.run.ai", "podgroups").iter().map(describe).collect()
    }

    /// Each queue with its status.
    pub(crate) fn queues(&self) -> String {
        let describe = |queue: &Value| {
            format!("{} {}\n", queue["metadata"]["name"].as_str().unwrap(), queue["status"])
        };
        self.list("scheduling.run.ai", "queues").iter().map(describe).collect()
    }

    /// Number of writes so far, leases excluded.
    pub(crate) fn writes(&self) -> usize {
        let log = self.emulator.log_since(1).unwrap();
        log.iter().filter(|entry| &*entry.key.resource.plural != "leases").count()
    }

    /// Number of pods by job and phase, of bindings and evictions, and of `Scheduled` events.
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

    /// Number of pod groups with a start timestamp.
    pub(crate) fn started_groups(&self) -> usize {
        let groups = self.list("scheduling.run.ai", "podgroups");
        let at = "/metadata/annotations/kai.scheduler~1last-start-timestamp";
        groups.iter().filter(|group| group.pointer(at).is_some()).count()
    }

    /// How often a field of any pod was set from absent to present.
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

/// The first sentence of a message: tests of the core compare the whole messages.
fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split_once(". ").map_or(line, |(first, _)| first);
    line.split_once(" uses <").map_or(line, |(first, _)| first)
}

/// Removes uids and the random suffixes of pod names from a text.
pub(crate) fn without_random_suffixes(text: &str) -> String {
    let plain = |word: &str| {
        let mut parts: Vec<&str> = word.split('-').collect();
        if parts.len() > 5 {
            parts.truncate(parts.len() - 5);
            // The name of a pod of a Deployment has two random suffixes.
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
