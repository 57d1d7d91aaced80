//! A lesson beside the cluster: its text, its tasks with what is right so far, hints, questions and
//! a line for commands.

use axum::Router;
use axum::extract::{Form, State};
use axum::routing::{get, post};
use maud::{Markup, html};
use schedlab_lab::lesson::Lesson;
use schedlab_lab::server::{LessonClient, Outcome, Reply, Request};
use schedlab_lab::session::{ClaimResult, QuestionReport, TaskReport, VerifyReport};
use serde::Deserialize;

/// The lesson that a page shows.
#[derive(Clone, Debug)]
pub struct LessonPage {
    /// Answers the requests of the page.
    pub client: LessonClient,
    /// What the page says of the lesson.
    pub text: LessonText,
}

/// The texts of a lesson.
#[derive(Clone, Debug)]
pub struct LessonText {
    title: String,
    minutes: u32,
    /// The namespace of the learner.
    pub namespace: String,
    sections: Vec<LessonSection>,
    tasks: Vec<String>,
    files: Vec<LessonManifest>,
}

/// A section of a lesson: its heading and its text.
#[derive(Clone, Debug)]
struct LessonSection {
    heading: &'static str,
    text: String,
}

/// A manifest that the learner gets.
#[derive(Clone, Debug)]
struct LessonManifest {
    name: String,
    text: String,
}

impl From<&Lesson> for LessonText {
    fn from(lesson: &Lesson) -> Self {
        let section = |heading, text: &String| LessonSection { heading, text: text.clone() };
        let given = lesson.files.iter().filter(|file| file.is_given);
        Self {
            title: lesson.title.clone(),
            minutes: lesson.minutes,
            namespace: lesson.namespace.clone(),
            sections: vec![
                section("Goal", &lesson.goal),
                section("Background", &lesson.background),
                section("Task", &lesson.task),
            ],
            tasks: lesson.tasks.iter().map(|task| task.title().to_owned()).collect(),
            files: given
                .map(|file| LessonManifest { name: file.name.clone(), text: file.text.clone() })
                .collect(),
        }
    }
}

/// The routes of the lesson.
pub(crate) fn routes(lesson: LessonPage) -> Router {
    Router::new()
        .route("/lesson/quiz", get(show_quiz))
        .route("/lesson/verify", post(|state| ask(state, Request::Verify)))
        .route("/lesson/hint", post(|state| ask(state, Request::Hint)))
        .route("/lesson/solution", post(|state| ask(state, Request::Solution)))
        .route("/lesson/missing", post(|state| ask(state, Request::RestoreMissing)))
        .route("/lesson/reset", post(|state| ask(state, Request::Reset)))
        .route("/lesson/evidence", post(|state| ask(state, Request::Evidence { path: None })))
        .route("/lesson/answer", post(answer))
        .route("/lesson/command", post(run_command))
        .with_state(lesson)
}

async fn ask(State(lesson): State<LessonPage>, request: Request) -> Markup {
    match lesson.client.ask(request).await {
        Ok(reply) => reply_markup(&reply),
        Err(error) => html! { p .error { (format!("{error:#}")) } },
    }
}

#[derive(Deserialize)]
struct AnswerForm {
    number: usize,
    answer: String,
}

async fn answer(state: State<LessonPage>, Form(form): Form<AnswerForm>) -> Markup {
    ask(state, Request::Answer { number: form.number, text: form.answer }).await
}

#[derive(Deserialize)]
struct CommandForm {
    line: String,
}

async fn run_command(state: State<LessonPage>, Form(form): Form<CommandForm>) -> Markup {
    ask(state, Request::Command { line: form.line }).await
}

async fn show_quiz(State(lesson): State<LessonPage>) -> Markup {
    match lesson.client.ask(Request::Quiz).await {
        Ok(reply) => questions(&reply.questions),
        Err(error) => html! { p .error { (format!("{error:#}")) } },
    }
}

/// What the page shows of an answer of the lesson.
fn reply_markup(reply: &Reply) -> Markup {
    if let Some(report) = &reply.verified {
        return verify_report(report);
    }
    let class = match reply.outcome {
        Outcome::Done => "done",
        Outcome::NotSolved => "open",
        Outcome::Failed => "error",
    };
    html! { div class=(class) { (prose(&reply.text)) } }
}

fn verify_report(report: &VerifyReport) -> Markup {
    if !report.missing.is_empty() {
        return html! {
            div .error {
                p { "These objects of the lesson were deleted: " (report.missing.join(", ")) "." }
                p { "Your work is kept if you create them again." }
            }
            button type="button" data-lesson="missing" { "Create them again" } " "
            button type="button" data-lesson="reset" { "Start the lesson again" }
        };
    }
    html! {
        ol .tasks {
            @for task in &report.tasks { (task_report(task)) }
        }
        @if let Some(advice) = &report.advice { div .advice { (prose(advice)) } }
        @if report.is_solved() {
            p .done { strong { "All tasks are solved." }
                @if report.open_questions > 0 { " Questions without a right answer: " (report.open_questions) "." }
            }
        } @else {
            p .open { "Not solved yet. Hints left: " (report.hints_left) "." }
        }
    }
}

fn task_report(task: &TaskReport) -> Markup {
    let (mark, word) = if task.is_solved() { ("✔", "solved") } else { ("○", "open") };
    html! {
        li {
            span role="img" aria-label=(word) { (mark) } " " (task.title)
            @if !task.claims.is_empty() { ul { @for claim in &task.claims { (claim_result(claim)) } } }
        }
    }
}

fn claim_result(claim: &ClaimResult) -> Markup {
    let (mark, word) =
        if claim.found.is_none() { ("✔", "holds") } else { ("✘", "does not hold") };
    html! {
        li {
            span role="img" aria-label=(word) { (mark) } " " (claim.text)
            @if let Some(found) = &claim.found { pre tabindex="0" { (found) } }
        }
    }
}

fn questions(questions: &[QuestionReport]) -> Markup {
    html! {
        @for (index, question) in questions.iter().enumerate() {
            form .question data-lesson-form="answer" {
                input type="hidden" name="number" value=(index + 1);
                label {
                    (index + 1) ". " (question.text) " "
                    input name="answer" required disabled[question.waits_for_task.is_some()]
                        value=(question.given.as_deref().unwrap_or_default());
                }
                button disabled[question.waits_for_task.is_some()] { "Answer" } " "
                @if let Some(task) = question.waits_for_task { span .note { "Solve task " (task) " first." } }
                @if question.is_right { span .done { "✔ right" } }
                @else if question.given.is_some() { span .open { "✘ not right yet" } }
            }
        }
    }
}

/// The lesson as a part of the page.
pub(crate) fn panel(text: &LessonText) -> Markup {
    html! {
        section #lesson aria-labelledby="lesson-title" {
            h2 #lesson-title { (text.title) " (about " (text.minutes) " minutes)" }
            @for LessonSection { heading, text } in &text.sections {
                details open[*heading != "Background"] { summary { (heading) } (prose(text)) }
            }
            h3 { "What is checked" }
            ol .tasks { @for task in &text.tasks { li { (task) } } }
            (command_line(text))
            div .buttons {
                button type="button" data-lesson="verify" { "Verify" }
                button type="button" data-lesson="hint" { "Hint" }
                button type="button" data-lesson="solution" { "Solution" }
                button type="button" data-lesson="evidence" { "Write the evidence" }
                button type="button" data-lesson="reset" { "Start again" }
            }
            div #lesson-result role="status" aria-live="polite" {}
            h3 { "Questions" }
            div #quiz {}
        }
    }
}

/// A line for commands and the manifests of the lesson.
fn command_line(text: &LessonText) -> Markup {
    html! {
        form data-lesson-form="command" {
            label { "Command "
                input #command name="line" required size="40" autocomplete="off" spellcheck="false"
                    placeholder="kubectl scale deployment NAME --replicas=4";
            }
            button { "Run" }
            p .note { "kubectl apply, delete, scale, patch, cordon and uncordon work here; the page shows the cluster." }
        }
        @for file in &text.files {
            details {
                summary { (file.name) }
                pre tabindex="0" { (file.text) }
                button type="button" data-command=(format!("kubectl apply -f {}", file.name)) { "Apply it" } " "
                button type="button" data-manifest { "Copy it to Apply YAML" }
            }
        }
    }
}

/// Text of a lesson: paragraphs, lists and blocks of code.
fn prose(text: &str) -> Markup {
    let text = text.trim_end();
    html! {
        div .prose {
            @for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
                @if block.lines().all(|line| line.starts_with("    ") || line.trim().is_empty()) {
                    pre tabindex="0" { (block) }
                } @else if is_numbered(block) {
                    ol .tasks { @for item in list_items(block) { li { (inline(&item)) } } }
                } @else if is_item(block) {
                    ul { @for item in list_items(block) { li { (inline(&item)) } } }
                } @else {
                    p { (inline(block)) }
                }
            }
        }
    }
}

/// The text of an item of a list without its mark; `None` if the line begins no item.
fn item_text(line: &str) -> Option<&str> {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = (number.len() < line.len()).then(|| number.strip_prefix(". ")).flatten();
    line.strip_prefix("* ").or_else(|| line.strip_prefix("- ")).or(numbered)
}

fn is_item(line: &str) -> bool {
    item_text(line).is_some()
}

fn is_numbered(block: &str) -> bool {
    block.starts_with(|c: char| c.is_ascii_digit()) && is_item(block)
}

/// The items of a list; lines that go on an item are joined to it.
fn list_items(block: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    for line in block.lines() {
        match (item_text(line), items.last_mut()) {
            (None, Some(item)) => {
                item.push(' ');
                item.push_str(line.trim());
            }
            (text, _) => items.push(text.unwrap_or(line).to_owned()),
        }
    }
    items
}

/// Text with code between backticks.
fn inline(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_paragraphs_lists_and_code() {
        let text =
            "Run `a <b>` now\nand then.\n\n1. one\n   more\n2. two\n\n    kubectl get pods\n";
        assert_eq!(
            prose(text).into_string(),
            "<div class=\"prose\"><p>Run <code>a &lt;b&gt;</code> now\nand then.</p>\
             <ol class=\"tasks\"><li>one more</li><li>two</li></ol>\
             <pre tabindex=\"0\">    kubectl get pods</pre></div>"
        );
    }

    #[test]
    fn a_question_cannot_be_answered_before_its_task_is_solved() {
        let question = |waits_for_task| QuestionReport {
            text: "How many GPUs are free?".to_owned(),
            given: None,
            is_right: false,
            waits_for_task,
        };
        let disabled = |text: &str| text.matches(" disabled").count();
        let waiting = questions(&[question(Some(2))]).into_string();
        assert!(waiting.contains("Solve task 2 first.") && disabled(&waiting) == 2, "{waiting}");
        let open = questions(&[question(None)]).into_string();
        assert!(!open.contains("first.") && disabled(&open) == 0, "{open}");
    }

    #[test]
    fn deleted_objects_are_named_with_what_to_do() {
        let report = VerifyReport {
            lesson: "C".to_owned(),
            missing: vec!["Queue team-prod".to_owned()],
            tasks: Vec::new(),
            advice: None,
            open_questions: 0,
            hints_left: 3,
        };
        let text = verify_report(&report).into_string();
        assert!(text.contains("Queue team-prod") && text.contains("Create them again"), "{text}");
    }
}
