//! A lesson that runs: its cluster, and how far the learner has come. Nothing here reads files or
//! sockets.

mod advice;
mod report;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use gherkin::Step;
use jiff::Timestamp;
use schedlab_api::{Value, json, object};
use schedlab_clusters::api::Api;
use schedlab_conformance::features::load_text;
use schedlab_conformance::runner::live::LiveCluster;
use schedlab_conformance::steps::catalogue;

use crate::cluster_digest::cluster_digest;
use crate::commands::{CommandRunner, LabCommand};
use crate::evidence::Evidence;
use crate::lesson::Lesson;
use crate::prepared::PreparedObjects;
use crate::record::{Record, SessionStart, has_form_of, is_same_answer};

pub use report::{AnswerReport, ClaimResult, QuestionReport, TaskReport, VerifyReport};

/// A lesson that runs. It must stay on one thread, in a runtime whose clock is paused.
#[derive(Debug)]
pub struct LessonSession {
    lesson: Lesson,
    cluster: LiveCluster,
    record: Record,
    /// The objects of the lesson, as they were prepared.
    prepared: PreparedObjects,
    /// The cluster when a task was solved, as JSON, by the entry of the evidence.
    solved_clusters: BTreeMap<String, String>,
}

impl LessonSession {
    /// Starts the cluster of a lesson and prepares it.
    ///
    /// # Errors
    /// A step of the lesson's background fails; the message names its line.
    pub async fn start(lesson: Lesson, start: SessionStart) -> anyhow::Result<Self> {
        let (cluster, prepared) = prepared_cluster(&lesson, start.time).await?;
        let record = Record::new(&lesson, start);
        if let Some(unknown) = prepared.unknown(&lesson.may_change).first() {
            let file = &lesson.file;
            return Err(anyhow!(
                "{file}: may-change: got {unknown}, expected an object that the lesson prepares"
            ));
        }
        let solved_clusters = BTreeMap::new();
        Ok(Self { lesson, cluster, record, prepared, solved_clusters })
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
    /// does not hold. A solved task stays solved. Time passes only as far as the claims need it. No
    /// task is solved while an object of the lesson is changed that must stay as it is.
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
            let mut task = self.check_task(index).await;
            let is_solved = task.is_solved();
            if is_solved {
                let entry = self.record.solve(index, self.now());
                let cluster = cluster_digest(&self.cluster).to_string();
                self.solved_clusters.insert(entry, cluster);
                task.solved_at.clone_from(&self.record.tasks[index].solved_at);
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
        let changes = self.prepared.changes(&self.cluster, &self.lesson.may_change);
        if !changes.is_empty() {
            report.claims.push(ClaimResult::changed_objects(&changes));
            return report;
        }
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
        let mut digest = cluster_digest(&self.cluster);
        digest["solvedTasks"] = self.record.solved_tasks().into();
        let digest = digest.to_string();
        let (first, last) = (advice::before_lessons(), advice::after_lessons());
        for advice in first.iter().chain(&self.lesson.advice).chain(&last) {
            let at = || format!("{}:{}", self.lesson.file, advice.line);
            let holds = advice.condition.holds(&digest);
            if holds.map_err(|message| anyhow!(message)).with_context(at)? {
                let text = advice.text.render(&digest).map_err(|message| anyhow!(message));
                return text.with_context(at).map(Some);
            }
        }
        Ok(None)
    }

    /// Nodes and queues of the lesson that do not exist any more.
    fn missing_objects(&self) -> Vec<String> {
        let missing = self.prepared.missing(&self.cluster);
        missing.into_iter().map(schedlab_clusters::api::object_title).collect()
    }

    /// Other objects of the lesson that were deleted although no task deletes them.
    pub fn deleted_objects(&self) -> Vec<String> {
        self.prepared.deleted(&self.cluster, &self.lesson.may_change)
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
        let report = |(question, answer): (&crate::lesson::Question, _)| {
            let is_open = self.record.tasks[question.task - 1].is_solved();
            QuestionReport::new(question, answer, is_open)
        };
        questions.map(report).collect()
    }

    /// Judges an answer to the question with this number, counted from 1. The accepted answers are
    /// computed from the cluster when the question's task was solved. Before that, an answer does
    /// not count.
    ///
    /// # Errors
    /// There is no such question, the answer is no number where one is expected, or the expression
    /// fails on this cluster.
    pub async fn answer(&mut self, number: usize, given: &str) -> anyhow::Result<AnswerReport> {
        let count = self.lesson.quiz.len();
        let index = number.checked_sub(1).filter(|index| *index < count);
        let index = index.ok_or_else(|| anyhow!("got question {number}, expected 1 to {count}"))?;
        let task = &self.record.tasks[self.lesson.quiz[index].task - 1];
        let Some(entry) = task.cluster.clone() else {
            return Ok(AnswerReport::too_early(self.lesson.quiz[index].task));
        };
        let solved_at = task.solved_at.clone().unwrap_or_default();
        let expected = self.expected_answers(index)?;
        if !has_form_of(&expected, given) {
            return Err(anyhow!("got {given}, expected a number"));
        }
        let question = &self.lesson.quiz[index];
        let right = expected.iter().any(|one| is_same_answer(one, given));
        let report = if right {
            let why = question.why.render(&self.solved_clusters[&entry]);
            AnswerReport::right(why.map_err(|message| anyhow!(message))?)
        } else {
            self.let_settle().await?;
            let now = cluster_digest(&self.cluster).to_string();
            let now = self.results(index, &now)?;
            let is_right_now = now.iter().any(|one| is_same_answer(one, given));
            let moment = is_right_now.then(|| (self.lesson.quiz[index].task, solved_at));
            AnswerReport::wrong(&self.record.answers[index], moment)
        };
        self.record.answers[index].record(given, right, &entry);
        Ok(report)
    }

    /// The accepted answers of a question, counted from 0. None before its task is solved.
    ///
    /// # Errors
    /// The expression fails.
    pub fn expected_answers(&self, index: usize) -> anyhow::Result<Vec<String>> {
        let task = &self.record.tasks[self.lesson.quiz[index].task - 1];
        let cluster = task.cluster.as_ref().and_then(|entry| self.solved_clusters.get(entry));
        cluster.map_or(Ok(Vec::new()), |cluster| self.results(index, cluster))
    }

    fn results(&self, index: usize, cluster: &str) -> anyhow::Result<Vec<String>> {
        let question = &self.lesson.quiz[index];
        let at = || format!("{}:{}", self.lesson.file, question.line);
        question.answers.results(cluster).map_err(|message| anyhow!(message)).with_context(at)
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
        let objects: Vec<Value> =
            self.prepared.missing(&self.cluster).into_iter().cloned().collect();
        for object in &objects {
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

    /// What a teacher gets: the record, the cluster as it is now and as it was when each task was
    /// solved.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn evidence(&mut self) -> anyhow::Result<Evidence> {
        self.cluster.observe().await?;
        let digest = cluster_digest(&self.cluster);
        let log = self.cluster.write_log();
        Ok(Evidence::new(&self.record, &digest, &self.solved_clusters, &log, self.now()))
    }

    fn now(&self) -> String {
        self.cluster.emulator().clock().now().to_string()
    }
}

/// Starts a cluster and runs the lesson's background on it.
async fn prepared_cluster(
    lesson: &Lesson,
    time: Timestamp,
) -> anyhow::Result<(LiveCluster, PreparedObjects)> {
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
    let prepared = PreparedObjects::of(&cluster);
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
