//! A lesson that runs: its cluster, and how far the learner has come. Nothing here reads files or
//! sockets.

mod report;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use gherkin::Step;
use jiff::Timestamp;
use schedlab_api::{Value, json, object};
use schedlab_clusters::api::Api;
use schedlab_conformance::features::load_text;
use schedlab_conformance::runner::live::LiveCluster;
use schedlab_conformance::steps::catalogue;
use schedlab_conformance::world::observed::WatchedKind;

use crate::cluster_digest::cluster_digest;
use crate::commands::{CommandRunner, LabCommand};
use crate::evidence::Evidence;
use crate::lesson::Lesson;
use crate::record::{Record, SessionStart};

pub use report::{AnswerReport, ClaimResult, QuestionReport, TaskReport, VerifyReport};

/// A lesson that runs. It must stay on one thread, in a runtime whose clock is paused.
#[derive(Debug)]
pub struct LessonSession {
    lesson: Lesson,
    cluster: LiveCluster,
    record: Record,
    /// Nodes and queues of the lesson, as they were prepared.
    prepared: Vec<Value>,
}

impl LessonSession {
    /// Starts the cluster of a lesson and prepares it.
    ///
    /// # Errors
    /// A step of the lesson's background fails; the message names its line.
    pub async fn start(lesson: Lesson, start: SessionStart) -> anyhow::Result<Self> {
        let (cluster, prepared) = prepared_cluster(&lesson, start.time).await?;
        let record = Record::new(&lesson, start);
        Ok(Self { lesson, cluster, record, prepared })
    }

    /// The lesson.
    pub fn lesson(&self) -> &Lesson {
        &self.lesson
    }

    /// How far the learner has come.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The cluster.
    pub fn cluster(&self) -> &LiveCluster {
        &self.cluster
    }

    /// Checks the claims of the first task that is not solved yet, in order, up to the first that
    /// does not hold. A solved task stays solved. Time passes only as far as the claims need it.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn verify(&mut self) -> anyhow::Result<VerifyReport> {
        self.record.verifications += 1;
        self.let_settle().await?;
        let missing = self.missing_objects();
        let mut report = VerifyReport::new(&self.lesson, &self.record, missing);
        if !report.missing.is_empty() {
            return Ok(report);
        }
        while let Some(index) = self.record.tasks.iter().position(|task| !task.is_solved()) {
            let task = self.check_task(index).await;
            let is_solved = task.is_solved();
            if is_solved {
                self.record.tasks[index].solved_at = Some(self.now());
            } else {
                self.record.tasks[index].failures += 1;
            }
            report.tasks[index] = task;
            if !is_solved {
                report.advice = self.advice()?;
                break;
            }
        }
        Ok(report)
    }

    /// Waits until nothing changes any more. A cluster that goes on changing is taken as it is.
    async fn let_settle(&mut self) -> anyhow::Result<()> {
        match self.cluster.settle().await {
            Ok(()) => Ok(()),
            Err(_) => self.cluster.observe().await,
        }
    }

    async fn check_task(&mut self, index: usize) -> TaskReport {
        let task = &self.lesson.tasks[index];
        let mut report = TaskReport::open(task);
        for step in task.claims() {
            let found = self.cluster.run_step(step).await;
            let failed = found.is_err();
            report.claims.push(ClaimResult::new(step, found.err()));
            if failed {
                break;
            }
        }
        report
    }

    /// What the lesson says about the cluster as it is now.
    fn advice(&self) -> anyhow::Result<Option<String>> {
        let digest = cluster_digest(&self.cluster).to_string();
        for advice in &self.lesson.advice {
            let holds = advice.condition.holds(&digest);
            let at = || format!("{}:{}", self.lesson.file, advice.line);
            if holds.map_err(|message| anyhow!(message)).with_context(at)? {
                return Ok(Some(advice.text.clone()));
            }
        }
        Ok(None)
    }

    /// Nodes and queues of the lesson that do not exist any more.
    fn missing_objects(&self) -> Vec<String> {
        let view = self.cluster.view();
        let named = |kind| view.objects_of_kind(kind).map(|found| object::name(found).to_owned());
        let nodes: BTreeSet<String> = named(WatchedKind::Nodes).collect();
        let queues: BTreeSet<String> = named(WatchedKind::Queues).collect();
        let missing = self.prepared.iter().filter(|prepared| {
            let existing = if prepared["kind"] == "Node" { &nodes } else { &queues };
            !existing.contains(object::name(prepared))
        });
        missing.map(schedlab_clusters::api::object_title).collect()
    }

    /// The next hint, with its number. The last one again after all were given.
    pub fn next_hint(&mut self) -> (usize, &str) {
        let count = self.lesson.hints.len();
        let index = (self.record.hints as usize).min(count.saturating_sub(1));
        self.record.hints = u32::try_from(index + 1).unwrap_or(u32::MAX);
        (index + 1, self.lesson.hints.get(index).map_or("", String::as_str))
    }

    /// The solution as the lesson tells it.
    pub fn solution(&mut self) -> &str {
        self.record.is_solution_shown = true;
        &self.lesson.solution
    }

    /// The questions, and which are answered.
    pub fn quiz(&self) -> Vec<QuestionReport> {
        let questions = self.lesson.quiz.iter().zip(&self.record.answers);
        questions.map(|(question, answer)| QuestionReport::new(question, answer)).collect()
    }

    /// Judges an answer to the question with this number, counted from 1. The accepted answers are
    /// computed from the cluster as it is now.
    ///
    /// # Errors
    /// There is no such question, or its expression fails on this cluster.
    pub async fn answer(&mut self, number: usize, given: &str) -> anyhow::Result<AnswerReport> {
        let count = self.lesson.quiz.len();
        let index = number.checked_sub(1).filter(|index| *index < count);
        let index = index.ok_or_else(|| anyhow!("got question {number}, expected 1 to {count}"))?;
        self.let_settle().await?;
        let expected = self.expected_answers(index)?;
        let question = &self.lesson.quiz[index];
        let report = AnswerReport::judge(question, given, &expected);
        self.record.answers[index].record(given, expected, report.is_right);
        Ok(report)
    }

    /// The accepted answers of a question in the cluster as it is now.
    ///
    /// # Errors
    /// The expression fails.
    pub fn expected_answers(&self, index: usize) -> anyhow::Result<Vec<String>> {
        let question = &self.lesson.quiz[index];
        let digest = cluster_digest(&self.cluster).to_string();
        let at = || format!("{}:{}", self.lesson.file, question.line);
        question.answers.results(&digest).map_err(|message| anyhow!(message)).with_context(at)
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// The scheduler has ended.
    pub async fn wait(&mut self, time: Duration) -> anyhow::Result<()> {
        self.record.waited_seconds += time.as_secs();
        self.cluster.pass_time(time).await
    }

    /// Carries out the commands of a solution or of a mistake, with the files of the lesson.
    ///
    /// # Errors
    /// A command fails.
    pub async fn play(&mut self, commands: &[LabCommand]) -> anyhow::Result<()> {
        for command in commands {
            if let LabCommand::Wait(time) = command {
                self.let_settle().await?;
                self.wait(*time).await?;
                continue;
            }
            let read_file = |name: &str| {
                let text = self.lesson.file_text(name).map(str::to_owned);
                text.with_context(|| format!("the lesson has no file {name}"))
            };
            let runner = CommandRunner { namespace: &self.lesson.namespace, read_file: &read_file };
            runner.run(&mut self.cluster.api(), command).await?;
        }
        Ok(())
    }

    /// Starts the lesson again on a new cluster. The record keeps its answers, hints and attempts.
    ///
    /// # Errors
    /// The cluster cannot be prepared.
    pub async fn reset(&mut self) -> anyhow::Result<()> {
        let time = self.cluster.emulator().clock().now();
        let (cluster, prepared) = prepared_cluster(&self.lesson, time).await?;
        let old = std::mem::replace(&mut self.cluster, cluster);
        old.close().await;
        self.prepared = prepared;
        self.record.begin_again();
        Ok(())
    }

    /// Creates nodes and queues of the lesson that were deleted, and leaves everything else.
    /// Returns their titles.
    ///
    /// # Errors
    /// An object is refused.
    pub async fn restore_missing(&mut self) -> anyhow::Result<Vec<String>> {
        self.cluster.observe().await?;
        let missing = self.missing_objects();
        let mut api = self.cluster.api();
        for object in &self.prepared {
            let title = schedlab_clusters::api::object_title(object);
            if !missing.contains(&title) {
                continue;
            }
            if object["kind"] == "Node" {
                let name = object::name(object);
                let step = single_step(&format!("When node {name:?} is added again"))?;
                self.cluster.run_step(&step).await.map_err(|message| anyhow!(message))?;
            } else {
                api.create(&without_server_fields(object)).await?;
            }
        }
        self.let_settle().await?;
        Ok(missing)
    }

    /// What a teacher gets: the record and the cluster as it is now.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn evidence(&mut self) -> anyhow::Result<Evidence> {
        self.cluster.observe().await?;
        let digest = cluster_digest(&self.cluster);
        Ok(Evidence::new(&self.record, &digest, &self.cluster.write_log(), self.now()))
    }

    fn now(&self) -> String {
        self.cluster.emulator().clock().now().to_string()
    }
}

/// Starts a cluster and runs the lesson's background on it. Also returns its nodes and queues.
async fn prepared_cluster(
    lesson: &Lesson,
    time: Timestamp,
) -> anyhow::Result<(LiveCluster, Vec<Value>)> {
    let first = lesson.tasks.first().context("the lesson has no task")?;
    let mut cluster = LiveCluster::start(&first.case, time).await?;
    create_namespace(&mut cluster.api(), &lesson.namespace).await?;
    for step in first.preparation() {
        let done = cluster.run_step(step).await;
        let at = || format!("{}:{}", lesson.file, step.position.line);
        done.map_err(|message| anyhow!(message)).with_context(at)?;
    }
    cluster.settle().await?;
    cluster.start_default_scheduler();
    cluster.settle().await?;
    let view = cluster.view();
    let kinds = [WatchedKind::Nodes, WatchedKind::Queues];
    let prepared: Vec<Value> =
        kinds.into_iter().flat_map(|kind| view.objects_of_kind(kind)).cloned().collect();
    Ok((cluster, prepared))
}

async fn create_namespace(api: &mut Api, name: &str) -> anyhow::Result<()> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
    });
    api.create_if_absent(&namespace).await.map(drop)
}

/// An object as it can be created again.
fn without_server_fields(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"].clone(),
        "kind": object["kind"].clone(),
        "metadata": {
            "name": object["metadata"]["name"].clone(),
            "labels": object["metadata"]["labels"].clone(),
        },
        "spec": object["spec"].clone(),
    })
}

/// A step that no lesson contains.
fn single_step(sentence: &str) -> anyhow::Result<Step> {
    let text = format!("Feature: f\n  Scenario: s\n    {sentence}\n");
    let cases = load_text("schedlab lab", &text, catalogue::is_step)?;
    cases.first().and_then(|case| case.steps.first()).cloned().context("the text has one step")
}
