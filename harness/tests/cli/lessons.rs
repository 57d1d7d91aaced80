//! `schedlab lab` as learners and teachers use it: one process runs a lesson, and commands in the
//! same folder reach it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::lab::{CommandOutput, Lab};

/// A lesson that runs until it is dropped.
struct RunningLesson<'l> {
    lab: &'l Lab,
    process: Child,
}

impl<'l> RunningLesson<'l> {
    /// Starts a lesson and waits until it says what to do.
    fn start(lab: &'l Lab, lesson: &str, learner: &str) -> Self {
        let mut command = lab.command(&["lab", "start", lesson, "--learner", learner]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("schedlab runs");
        let output = process.stdout.take().expect("the output is a pipe");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("Without kubectl")), "lesson {lesson} starts");
        Self { lab, process }
    }

    fn run(&self, words: &str) -> CommandOutput {
        let words: Vec<&str> = std::iter::once("lab").chain(words.split(' ')).collect();
        self.lab.run(&words)
    }

    /// Ends the lesson with SIGTERM, as a closed terminal does.
    fn end(mut self) {
        let id = self.process.id().to_string();
        let ended = std::process::Command::new("kill").arg(&id).status().expect("kill runs");
        assert!(ended.success());
        assert!(self.process.wait().expect("the lesson ends").success());
    }
}

impl Drop for RunningLesson<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_learner_is_told_what_is_missing_until_the_lesson_is_solved() {
    let lab = Lab::empty();
    let lesson = RunningLesson::start(&lab, "c-reclaim", "ada");
    let nothing = lesson.run("verify");
    assert_eq!(nothing.code, 1, "{}", nothing.all());
    assert!(nothing.stdout.contains("Apply research.yaml"), "{}", nothing.all());
    assert!(lesson.run("hint").stdout.starts_with("Hint 1 of 3: "));
    let applied = lesson.run("apply -f schedlab-lab/c-reclaim/research.yaml");
    assert_eq!(applied.stdout, "Deployment lab/research created\n", "{}", applied.all());
    let half = lesson.run("verify");
    assert_eq!(half.code, 1, "{}", half.all());
    assert!(
        half.stdout.contains("✔ Task 1: team-research gets its 16 GPUs back"),
        "{}",
        half.all()
    );
    assert!(half.stdout.contains("Now it needs less"), "{}", half.all());
    let scaled = lesson.run("kubectl scale deployment research --replicas=4");
    assert_eq!(scaled.code, 0, "{}", scaled.all());
    let done = lesson.run("verify");
    assert_eq!(done.code, 0, "{}", done.all());
    let wrong = lesson.run("answer 1 3");
    assert_eq!(wrong.code, 1, "{}", wrong.all());
    let right = lesson.run("answer 1 16");
    assert!(
        right.stdout.starts_with("✔ Right. As many as team-research needed"),
        "{}",
        right.all()
    );
    let pods = lesson.run("kubectl get pods");
    assert!(pods.stdout.starts_with("NAME") && pods.stdout.contains("research-"), "{}", pods.all());
    lesson.end();
    assert!(lab.exists("schedlab-lab/c-reclaim-ada.zip"), "the evidence is kept");
    let grades = lab.run(&["lab", "grade", "schedlab-lab/c-reclaim-ada.zip"]);
    assert_eq!(grades.code, 0, "{}", grades.all());
    assert!(grades.stdout.contains("c-reclaim  ada      ✔✔"), "{}", grades.all());
}

#[test]
fn a_learner_who_deletes_a_queue_and_a_node_gets_them_back_and_keeps_the_work() {
    let lab = Lab::empty();
    let lesson = RunningLesson::start(&lab, "c-reclaim", "bob");
    lesson.run("apply -f schedlab-lab/c-reclaim/research.yaml");
    assert_eq!(lesson.run("kubectl delete queue team-research").code, 0);
    assert_eq!(lesson.run("kubectl delete node node-2").code, 0);
    let verified = lesson.run("verify");
    assert_eq!(verified.code, 1, "{}", verified.all());
    let missing = "These objects of the lesson were deleted: Node node-2, Queue team-research.";
    assert!(verified.stdout.contains(missing), "{}", verified.all());
    let restored = lesson.run("reset --missing");
    assert_eq!(
        restored.stdout,
        "created again: Node node-2, Queue team-research\n",
        "{}",
        restored.all()
    );
    let again = lesson.run("verify");
    assert!(!again.stdout.contains("were deleted"), "{}", again.all());
    assert!(again.stdout.contains("✔ queue \"team-research\" has 16 running"), "{}", again.all());
    assert_eq!(lesson.run("kubectl delete deployment prod-borrow").code, 0);
    let workload = lesson.run("reset --missing");
    let expected = "no node and no queue of the lesson is missing\nstill missing: Deployment \
                    lab/prod-borrow; --missing creates nodes and queues only, `schedlab lab reset` \
                    starts the lesson again\n";
    assert_eq!(workload.stdout, expected, "{}", workload.all());
    let reset = lesson.run("reset");
    assert_eq!(reset.code, 0, "{}", reset.all());
    let fresh = lesson.run("verify");
    assert!(fresh.stdout.contains("Apply research.yaml"), "{}", fresh.all());
    let pods = lesson.run("kubectl get deployments");
    assert!(pods.stdout.contains("prod-borrow"), "the kubeconfig leads to it: {}", pods.all());
}

#[test]
fn a_learner_without_kubectl_reads_objects_and_their_events() {
    let lab = Lab::empty();
    let lesson = RunningLesson::start(&lab, "b-borrow", "ada");
    lesson.run("apply -f schedlab-lab/b-borrow/prod-borrow.yaml");
    lesson.run("verify");
    let queues = lesson.run("kubectl get queues");
    assert!(queues.stdout.contains("ai-factory   16  "), "{}", queues.all());
    let yaml = lesson.run("kubectl get -o yaml queue team-prod");
    assert!(yaml.stdout.contains("      quota: 16\n"), "{}", yaml.all());
    let pods = lesson.run("kubectl get pods -L app");
    let pending = pods.stdout.lines().find(|line| line.contains("Pending"));
    let pending = pending.unwrap_or_else(|| panic!("a pod is pending: {}", pods.all()));
    assert!(pending.ends_with("prod-borrow"), "{pending}");
    let name = pending.split(' ').next().expect("a row begins with a name");
    let described = lesson.run(&format!("kubectl describe pod {name}"));
    assert_eq!(described.code, 0, "{}", described.all());
    let events = described.stdout.split("Events:").nth(1).expect("it has events");
    assert!(events.contains("Non-preemptible workload is over quota"), "{}", described.all());
    assert!(!events.contains("<invalid>"), "{events}");
    let unknown = lesson.run("kubectl describe pods");
    assert_eq!(unknown.code, 2, "{}", unknown.all());
}

#[test]
fn solved_evidence_is_kept_when_the_lesson_starts_again() {
    let lab = Lab::empty();
    let first = RunningLesson::start(&lab, "baseline", "ada");
    first.run("apply -f schedlab-lab/baseline/queue-pressure.yaml");
    let solved = first.run("verify");
    assert_eq!(solved.code, 0, "{}", solved.all());
    assert!(solved.stdout.contains("All tasks are solved. Open: 3 questions."), "{}", solved.all());
    let word = first.run("answer 1 nine");
    assert_eq!((word.code, word.stderr.trim()), (2, "schedlab: got nine, expected a number"));
    first.end();
    let second = RunningLesson::start(&lab, "baseline", "ada");
    second.run("verify");
    let over = second.run("evidence --output schedlab-lab/baseline-ada.zip");
    assert_eq!(over.code, 2, "{}", over.all());
    assert!(
        over.stderr.contains("which has other work in it, expected a new file"),
        "{}",
        over.all()
    );
    second.end();
    std::fs::copy(lab.path("schedlab-lab/baseline-ada.zip"), lab.path("bob.zip")).unwrap();
    let kept = "schedlab-lab/baseline-ada.zip";
    let grades = lab.run(&["lab", "grade", kept, "schedlab-lab/baseline-ada-2.zip", "bob.zip"]);
    assert_eq!(grades.code, 1, "{}", grades.all());
    for line in [
        "baseline  ada      ✔      0/3   0      1         valid      schedlab-lab/baseline-ada.zip",
        "baseline  ada      ✘      0/3   0      1         valid      schedlab-lab/baseline-ada-2.zip",
        "bob.zip: it is a copy of schedlab-lab/baseline-ada.zip",
    ] {
        assert!(grades.stdout.contains(line), "{line}\n{}", grades.all());
    }
}

#[test]
fn a_verb_before_the_start_and_a_second_start_are_answered() {
    let lab = Lab::empty();
    let early = lab.run(&["lab", "verify"]);
    assert_eq!(early.code, 2, "{}", early.all());
    assert!(
        early.stderr.contains("no lesson runs in schedlab-lab: start one with `schedlab lab start"),
        "{}",
        early.all()
    );
    let unknown = lab.run(&["lab", "start", "c-reclam"]);
    assert_eq!(unknown.code, 2, "{}", unknown.all());
    assert!(unknown.stderr.contains("did you mean c-reclaim?"), "{}", unknown.all());
    let lesson = RunningLesson::start(&lab, "a", "ada");
    let second = lab.run(&["lab", "start", "b"]);
    assert_eq!(second.code, 2, "{}", second.all());
    assert!(second.stderr.contains("lesson a-quota runs in schedlab-lab"), "{}", second.all());
    lesson.end();
    let late = lab.run(&["lab", "verify"]);
    assert_eq!(late.code, 2, "{}", late.all());
}

#[test]
fn edited_evidence_is_named_in_the_table() {
    let lab = Lab::empty();
    let lesson = RunningLesson::start(&lab, "baseline", "eve");
    lesson.run("verify");
    let written = lesson.run("evidence --output eve.zip");
    assert_eq!(written.code, 0, "{}", written.all());
    lesson.end();
    let zip = std::fs::read(lab.path("eve.zip")).unwrap();
    // A byte within the first entry.
    let mut edited = zip.clone();
    edited[60] ^= 0x20;
    std::fs::write(lab.path("edited.zip"), edited).unwrap();
    let grades = lab.run(&["lab", "grade", "eve.zip", "edited.zip"]);
    assert_eq!(grades.code, 1, "{}", grades.all());
    assert!(grades.stdout.contains("baseline  eve      ✘"), "{}", grades.all());
    assert!(grades.stdout.contains("NOT VALID"), "{}", grades.all());
    assert!(grades.stdout.contains("NOT VALID  edited.zip\n"), "{}", grades.all());
    assert!(grades.stdout.contains("edited.zip: "), "{}", grades.all());
}

#[test]
fn a_lesson_that_is_wrong_is_rejected_with_its_lines() {
    let lab = Lab::empty();
    let text = "---\nid: x\ntitle: X\nminutes: few\n---\n\n## Goal\n\ng\n\n## Verify\n\n```gherkin\nFeature: f\n  \
                Scenario: s\n    Then queue \"a\" has 3 runing pods\n```\n\n## Solution\n\n```sh\nhelm install\n```\n";
    lab.write("x.md", text);
    let checked = lab.run(&["lab", "check", "x.md"]);
    assert_eq!(checked.code, 1, "{}", checked.all());
    for expected in [
        "x.md:1: the lesson has no section `## Task`",
        "x.md:4: minutes: got few, expected a whole number",
        "x.md:16: ",
        "x.md:22: got helm install, expected `kubectl …` or `schedlab lab wait TIME`",
    ] {
        assert!(checked.stderr.contains(expected), "{expected}\n{}", checked.all());
    }
    assert_eq!(lab.run(&["lab", "start", "x.md"]).code, 1);
}
